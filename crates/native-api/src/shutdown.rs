//! The end of serving: one signal that listeners, streams and blocking reads look at.

use std::sync::Arc;

use tokio::sync::watch;

/// Says when serving ends. Clones are the same signal.
#[derive(Clone, Debug)]
pub struct Shutdown {
    begun: Arc<watch::Sender<bool>>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// A signal that has not been given.
    pub fn new() -> Self {
        Self { begun: Arc::new(watch::Sender::new(false)) }
    }

    /// Gives the signal: listeners take no more connections, streams end, blocking reads answer at once.
    pub fn begin(&self) {
        self.begun.send_replace(true);
    }

    /// True once the signal was given.
    pub fn has_begun(&self) -> bool {
        *self.begun.borrow()
    }

    /// Resolves once the signal is given.
    pub async fn begun(&self) {
        // The sender lives in `self`, so that waiting cannot fail.
        let _ = self.begun.subscribe().wait_for(|begun| *begun).await;
    }
}
