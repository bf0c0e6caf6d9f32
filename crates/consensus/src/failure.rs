//! The one cell that says why this node may not go on.
//!
//! After a failed write or sync nobody knows what is on disk, so the first failure is final: it is
//! kept here, everything under way is refused with it, and only reopening helps.

use std::sync::Arc;

use tokio::sync::watch;

/// Shared by all parts; the first reason wins.
#[derive(Clone, Debug)]
pub(crate) struct Failure(Arc<watch::Sender<Option<Arc<str>>>>);

impl Failure {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// Records `reason` unless there is one, and returns the one that stands.
    pub(crate) fn set(&self, reason: &str) -> Arc<str> {
        self.0.send_if_modified(|cell| {
            let first = cell.is_none();
            if first {
                tracing::error!(reason, "consensus stops");
                *cell = Some(reason.into());
            }
            first
        });
        self.get().unwrap_or_else(|| reason.into())
    }

    pub(crate) fn get(&self) -> Option<Arc<str>> {
        self.0.borrow().clone()
    }

    pub(crate) fn check(&self) -> std::io::Result<()> {
        match self.get() {
            None => Ok(()),
            Some(reason) => Err(std::io::Error::other(reason.to_string())),
        }
    }

    /// Waits for the reason.
    pub(crate) async fn wait(&self) -> Arc<str> {
        let mut seen = self.0.subscribe();
        match seen.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().expect("waited for a reason"),
            // Can't be: this handle keeps the sender alive.
            Err(_) => "the failure cell is gone".into(),
        }
    }
}
