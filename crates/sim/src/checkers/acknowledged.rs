//! What was acknowledged is never lost: it stands in the log, and the state shows the last word about each service and node.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Availability, Index, Labels, Mode, NodeId, RevisionId, ServiceId};
use store::{Change, ChangeSet};

use super::{Applied, Checker, Quiet};

/// The last word about each service and node, and what was acknowledged where.
#[derive(Default)]
pub struct Acknowledged {
    services: BTreeMap<ServiceId, Option<Word>>,
    nodes: BTreeMap<NodeId, Option<(Availability, Labels)>>,
    /// The change sets of the newest entries that took effect.
    written: BTreeMap<Index, Vec<ChangeSet>>,
    missing: Vec<String>,
}

/// What was last said of a service: its mode, its revision, and the one before.
type Word = (Mode, RevisionId, Option<RevisionId>);

/// So many of the newest entries are kept: an acknowledgement comes with the entry.
const KEPT: usize = 64;

impl Acknowledged {
    fn note(&mut self, change: &Change) {
        match change {
            Change::CreateService(service) | Change::UpdateService(service) => {
                self.services.insert(service.id, Some((service.mode, service.revision, service.previous)));
            }
            Change::RollBack { service, .. } => {
                if let Some(Some((_, current, Some(previous)))) = self.services.get_mut(service) {
                    std::mem::swap(current, previous);
                }
            }
            Change::DeleteService(id) => {
                self.services.insert(*id, None);
            }
            Change::CreateNode(node) => {
                self.nodes.insert(node.id, Some((node.availability, node.labels.clone())));
            }
            Change::SetNode { node, availability, labels, .. } => {
                self.nodes.insert(*node, Some((*availability, labels.clone())));
            }
            Change::DeleteNode(id) => {
                self.nodes.insert(*id, None);
            }
            _ => {}
        }
    }
}

impl Checker for Acknowledged {
    fn promise(&self) -> &'static str {
        "acknowledged changes are never lost"
    }

    fn applied(&mut self, moment: &Applied<'_>, broken: &mut Vec<String>) {
        broken.append(&mut self.missing);
        let sets = moment.entry.sets.iter().zip(moment.results);
        let done: Vec<ChangeSet> = sets.filter(|(_, r)| r.is_ok()).map(|(s, _)| s.clone()).collect();
        for change in done.iter().flat_map(|set| &set.changes) {
            self.note(change);
        }
        self.written.insert(moment.index, done);
        while self.written.len() > KEPT {
            self.written.pop_first();
        }
    }

    fn acknowledged(&mut self, index: Index, set: &ChangeSet) {
        if self.written.get(&index).is_none_or(|done| !done.contains(set)) {
            self.missing.push(format!("a change was acknowledged at index {index} and is not there"));
        }
    }

    fn quiet(&mut self, quiet: &Quiet<'_>, broken: &mut Vec<String>) {
        broken.append(&mut self.missing);
        let tables = quiet.tables;
        for (id, last) in &self.services {
            let found = tables.service(*id).map(|s| (s.mode, s.revision, s.previous));
            if found != *last {
                broken.push(format!("service {id} is {found:?}; the last word was {last:?}"));
            }
        }
        for (id, last) in &self.nodes {
            let found = tables.node(*id).map(|n| (n.availability, n.labels.clone()));
            if found != *last {
                broken.push(format!("node {id} is {found:?}; the last word was {last:?}"));
            }
        }
        for (id, revision) in self.services.iter().filter_map(|(id, s)| Some((id, s.as_ref()?.1))) {
            if tables.revision(revision).map(Arc::clone).is_none_or(|r| r.service != *id) {
                broken.push(format!("the revision of service {id} is gone"));
            }
        }
    }
}
