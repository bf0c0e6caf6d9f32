//! What the log drives: the replicated machine, seen from here as two traits over bytes.

use std::io;

/// The replicated machine. It lives on one thread of its own, the only one that ever touches it.
pub trait Machine: Send + 'static {
    /// What [`apply`](Machine::apply) answers to whoever proposed the entry.
    type Reply: Send + 'static;

    /// Applies one committed entry. Called once for each entry, in rising order of `index`.
    ///
    /// Indexes are not contiguous: the engine's own entries (a new leader's first, a change of
    /// membership) take an index too and are not shown to the machine.
    fn apply(&mut self, index: u64, entry: &[u8]) -> Self::Reply;

    /// Called after each batch of entries, before any of their proposers gets its answer: the
    /// place to publish the new state, so that a proposer reads its own write.
    ///
    /// `index` is the last index of the batch; it may belong to an entry of the engine.
    fn batch_end(&mut self, index: u64) {
        let _ = index;
    }

    /// A view of the machine as it is now, cheap to take. It is written out later on another
    /// thread while `apply` goes on.
    fn freeze(&self) -> Box<dyn Frozen>;

    /// Replaces the whole state by a snapshot that [`Frozen::write`] wrote; `index` is the last
    /// entry it contains. The bytes have passed their checksums.
    ///
    /// # Errors
    /// A sentence that says why the snapshot can't be used. The machine isn't used any further.
    fn install(&mut self, index: u64, reader: &mut dyn io::Read) -> Result<(), String>;
}

/// A frozen view of a [`Machine`].
pub trait Frozen: Send {
    /// Writes the whole state. `out` is buffered; small writes are fine.
    ///
    /// # Errors
    /// Whatever `out` returned.
    fn write(self: Box<Self>, out: &mut dyn io::Write) -> io::Result<()>;
}
