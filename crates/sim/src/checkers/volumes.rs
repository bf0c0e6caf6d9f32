//! A volume is used by no more tasks than share it, but for a while where its node has changed; and who is said to use it does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{Availability, Mount, NodeId, NodeState, Sharing, Task, TaskState, Users, Volume};
use store::{Object, Tables};

use super::{Applied, Checker, Quiet};

/// Adds up who uses the volumes of each touched node.
#[derive(Default)]
pub struct Volumes;

/// What a task uses.
fn mounts<'t>(tables: &'t Tables, task: &Task) -> &'t [Mount] {
    tables.revision(task.revision).map_or(&[], |revision| &revision.task.mounts)
}

/// Who uses the volumes of a node, those left out that `but` names.
fn users<'t>(
    tables: &'t Tables,
    node: NodeId,
    but: &BTreeSet<model::TaskId>,
) -> BTreeMap<&'t Arc<str>, Users> {
    let mut users = BTreeMap::<_, Users>::new();
    let held = tables.tasks_of_node(node).filter(|t| t.holds_reservation() && !but.contains(&t.id));
    for mount in held.flat_map(|task| mounts(tables, task)) {
        let users = users.entry(&mount.volume).or_default();
        *users = users.with(mount.read_only);
    }
    users
}

/// Whether one more may use a volume beside these; said here once more, so that a mistake in the product is seen.
fn may_come(volume: &Volume, users: Users, reads: bool) -> bool {
    let shared = match volume.sharing {
        Sharing::None => users.readers == 0 && users.writers == 0,
        Sharing::ReadOnly => reads,
        Sharing::OneWriter => reads || users.writers == 0,
        Sharing::All => true,
    };
    shared && (reads || !volume.read_only)
}

/// Whether all of these may use a volume.
fn may_stay(volume: &Volume, users: Users) -> bool {
    let shared = match volume.sharing {
        Sharing::None => users.readers + users.writers <= 1,
        Sharing::ReadOnly => users.writers == 0,
        Sharing::OneWriter => users.writers <= 1,
        Sharing::All => true,
    };
    shared && (users.writers == 0 || !volume.read_only)
}

impl Checker for Volumes {
    fn promise(&self) -> &'static str {
        "a volume is used by no more tasks than share it"
    }

    fn applied(&mut self, moment: &Applied<'_>, broken: &mut Vec<String>) {
        let tables = moment.after;
        // Who came to a node with this entry.
        let mut came = BTreeMap::<NodeId, BTreeSet<_>>::new();
        for event in moment.events {
            let Object::Task(task) = &event.object else { continue };
            let Some(node) = task.node else { continue };
            let came = came.entry(node).or_default();
            let new = moment.before.task(task.id).is_none_or(|old| old.status.state < TaskState::Assigned);
            if new && task.holds_reservation() {
                came.insert(task.id);
            }
        }
        for (id, came) in came {
            let all = users(tables, id, &BTreeSet::new());
            let used = tables.node_use(id);
            let told: BTreeMap<_, _> = used.used_volumes().map(|name| (name, used.users(name))).collect();
            if told != all {
                broken.push(format!("the volumes of node {id} are said to be used by others than use them"));
            }
            // As it was when they were placed: the entry may go on with another description.
            let Some(node) = moment.before.node(id).or(tables.node(id)) else { continue };
            let mut now = users(tables, id, &came);
            for task in came.iter().filter_map(|id| tables.task(*id)) {
                for mount in mounts(tables, task) {
                    let users = now.entry(&mount.volume).or_default();
                    let volume = node.description.volumes.get(&mount.volume);
                    if volume.is_none_or(|volume| !may_come(volume, *users, mount.read_only)) {
                        let (name, hostname) = (&mount.volume, &node.description.hostname);
                        broken.push(format!("task {} got volume {name} of {hostname}: {volume:?}", task.id));
                    }
                    *users = users.with(mount.read_only);
                }
            }
        }
    }

    fn at_rest(&mut self, quiet: &Quiet<'_>, broken: &mut Vec<String>) {
        // A paused node keeps what it has, and one that is down cannot be told.
        for node in quiet.tables.nodes() {
            if node.availability != Availability::Active || node.status.state != NodeState::Ready {
                continue;
            }
            for (name, users) in users(quiet.tables, node.id, &BTreeSet::new()) {
                let volume = node.description.volumes.get(name);
                if volume.is_none_or(|volume| !may_stay(volume, users)) {
                    let hostname = &node.description.hostname;
                    broken.push(format!("volume {name} of {hostname} ({volume:?}) is used by {users:?}"));
                }
            }
        }
    }
}
