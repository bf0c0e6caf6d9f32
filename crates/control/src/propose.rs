//! From a plan to an acknowledged change: read, decide, propose, and again when the world moved in between.

use model::Index;
use store::{ChangeSet, Tables};

use crate::{Cluster, ProposeError, RequestError};

/// How often a request is decided anew because something it read has changed meanwhile.
pub(crate) const ATTEMPTS: usize = 8;

/// What a request comes to, on one state of the cluster.
pub(crate) enum Step<T> {
    /// Everything is as asked already.
    Nothing(T),
    /// This has to be written.
    Write(ChangeSet, T),
}

/// What a request came to.
pub(crate) struct Settled<T> {
    pub(crate) value: T,
    /// Where it took effect; the state that was read, when nothing was written.
    pub(crate) index: Index,
    pub(crate) changed: bool,
}

/// Decides on the newest state and proposes the outcome. A proposal that the store refuses was decided about a world
/// that is no more: it is decided again, and `plan` then sees (and refuses) what stands against it.
pub(crate) async fn settle<T: Send>(
    cluster: &dyn Cluster,
    mut plan: impl FnMut(&Tables) -> Result<Step<T>, RequestError> + Send,
) -> Result<Settled<T>, RequestError> {
    let mut refused = None;
    for _ in 0..ATTEMPTS {
        let tables = cluster.snapshot();
        let (set, value) = match plan(&tables)? {
            Step::Nothing(value) => return Ok(Settled { value, index: tables.index(), changed: false }),
            Step::Write(set, value) => (set, value),
        };
        match cluster.propose(set).await {
            Ok(index) => return Ok(Settled { value, index, changed: true }),
            Err(ProposeError::Refused(why)) => refused = Some(why),
            Err(ProposeError::Unavailable(why)) => return Err(RequestError::Unavailable(why)),
            Err(ProposeError::Unknown(why)) => return Err(RequestError::OutcomeUnknown(why)),
        }
    }
    let why = refused.map_or_else(String::new, |why| format!(" ({why})"));
    Err(RequestError::Conflict {
        field: None,
        problem: format!("others keep changing the same thing{why}; nothing was changed, try again"),
    })
}
