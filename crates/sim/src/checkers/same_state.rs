//! Every manager has the same state at the same index, however it came there: entry by entry, through a snapshot, or from its disk.

use std::collections::BTreeMap;

use model::Index;

use super::Checker;

/// Remembers the first digest of each index that was looked at.
#[derive(Default)]
pub struct SameState {
    first: BTreeMap<Index, (usize, u32)>,
}

impl Checker for SameState {
    fn promise(&self) -> &'static str {
        "every manager applies the same state"
    }

    fn state(&mut self, manager: usize, index: Index, digest: u32, broken: &mut Vec<String>) {
        let (first, known) = *self.first.entry(index).or_insert((manager, digest));
        if known != digest {
            broken.push(format!("managers {} and {} differ at index {index}", first + 1, manager + 1));
        }
    }
}
