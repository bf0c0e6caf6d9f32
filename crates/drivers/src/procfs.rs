//! What `/proc` tells about processes: identity that survives the reuse of pids, descendants, the boot id.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

/// A process, told apart from later ones with the same pid by its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    pub pid: i32,
    /// Field 22 of `/proc/<pid>/stat`: clock ticks since boot.
    pub start_ticks: u64,
}

/// The fields of `/proc/<pid>/stat` that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub state: u8,
    pub parent: i32,
    pub session: i32,
    pub start_ticks: u64,
}

/// The id that the kernel drew at boot.
pub(crate) fn boot_id() -> io::Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim().to_owned())
}

/// What the kernel says of a process; `None` when there is none.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &[u8]) -> Option<Stat> {
    // The command's name stands in parentheses and may hold anything, so we begin after the last one.
    let end = text.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Stat {
        state: *fields.first()?.as_bytes().first()?,
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

impl ProcessId {
    /// The identity of a process that exists.
    pub(crate) fn of(pid: i32) -> Option<ProcessId> {
        stat(pid).map(|stat| ProcessId { pid, start_ticks: stat.start_ticks })
    }

    /// Whether that very process is there and not a zombie.
    pub(crate) fn lives(&self) -> bool {
        stat(self.pid).is_some_and(|s| s.start_ticks == self.start_ticks && !matches!(s.state, b'Z' | b'X'))
    }
}

/// Every process of the machine.
fn all() -> BTreeMap<i32, Stat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

/// The living descendants of a process, itself not included.
pub(crate) fn descendants(ancestor: i32) -> Vec<i32> {
    select(&all(), BTreeSet::from([ancestor])).into_iter().filter(|pid| *pid != ancestor).collect()
}

/// What can still be found of a program whose supervisor is gone, where no cgroup holds it: the members of its
/// session and their descendants. If its pid has been given to another process, nothing is ours any more.
pub(crate) fn left_of(program: ProcessId) -> Vec<i32> {
    let all = all();
    if all.get(&program.pid).is_some_and(|s| s.start_ticks != program.start_ticks) {
        return Vec::new();
    }
    let session =
        all.iter().filter(|(_, s)| s.session == program.pid && s.start_ticks >= program.start_ticks);
    let roots = session.map(|(pid, _)| *pid).collect();
    select(&all, roots)
}

/// The roots and all that descend from them, zombies left out.
fn select(all: &BTreeMap<i32, Stat>, roots: BTreeSet<i32>) -> Vec<i32> {
    let mut found = roots;
    loop {
        let new: Vec<i32> = all
            .iter()
            .filter(|(pid, s)| found.contains(&s.parent) && !found.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if new.is_empty() {
            break;
        }
        found.extend(new);
    }
    found.retain(|pid| all.get(pid).is_some_and(|s| !matches!(s.state, b'Z' | b'X')));
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strange_name_does_not_confuse_the_fields() {
        let text = b"42 (a) b (c)) S 7 42 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 1\n";
        let stat = parse_stat(text).unwrap();
        assert_eq!(stat, Stat { state: b'S', parent: 7, session: 41, start_ticks: 98765 });
        assert_eq!(parse_stat(b"garbage"), None);
    }

    #[test]
    fn we_know_ourselves() {
        let me = ProcessId::of(std::process::id() as i32).unwrap();
        assert!(me.lives());
        assert!(!ProcessId { start_ticks: me.start_ticks + 1, ..me }.lives());
    }
}
