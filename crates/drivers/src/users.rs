//! Which user and groups a program runs as: `name|uid[:group|gid]` looked up in `/etc/passwd` and `/etc/group`.
//!
//! Only those two files are read, not the name service switch: it would load foreign libraries into each supervisor.
//! A user of a directory service is given by number.

use std::fs;

/// Who a program becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub uid: u32,
    pub gid: u32,
    /// All groups, the main one included.
    pub groups: Vec<u32>,
    /// The home directory, when the user has an entry.
    pub home: Option<String>,
}

/// Finds the user in this machine's files.
pub(crate) fn resolve(spec: &str) -> Result<Identity, String> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    resolve_in(spec, &read("/etc/passwd"), &read("/etc/group"))
}

/// The home directory of a user id, from this machine's `/etc/passwd`.
pub(crate) fn home_of(uid: u32) -> Option<String> {
    let passwd = fs::read_to_string("/etc/passwd").ok()?;
    entries(&passwd).find(|e| number(e, 2) == Some(uid)).and_then(|e| home(&e))
}

fn resolve_in(spec: &str, passwd: &str, group: &str) -> Result<Identity, String> {
    let (user, group_spec) = match spec.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (spec, None),
    };
    let uid_given = user.parse::<u32>().ok();
    let entry = entries(passwd).find(|e| e[0] == user || (uid_given.is_some() && number(e, 2) == uid_given));
    let uid = match (&entry, uid_given) {
        (Some(entry), _) => {
            number(entry, 2).ok_or_else(|| format!("{user:?} has no number in /etc/passwd"))?
        }
        (None, Some(uid)) => uid,
        (None, None) => return Err(format!("{user:?} is not in /etc/passwd")),
    };
    let home = entry.as_ref().and_then(home);
    if let Some(wanted) = group_spec {
        // As with docker: a group that is named is the only one.
        let gid = match entries(group).find(|e| e[0] == wanted).and_then(|e| number(&e, 2)) {
            Some(gid) => gid,
            None => wanted.parse().map_err(|_| format!("group {wanted:?} is not in /etc/group"))?,
        };
        return Ok(Identity { uid, gid, groups: vec![gid], home });
    }
    let gid = entry.as_ref().and_then(|e| number(e, 3)).unwrap_or(0);
    let mut groups = vec![gid];
    if let Some(name) = entry.as_ref().map(|e| e[0]) {
        let member = |e: &Vec<&str>| e.get(3).is_some_and(|list| list.split(',').any(|m| m == name));
        groups.extend(entries(group).filter(member).filter_map(|e| number(&e, 2)).filter(|g| *g != gid));
    }
    Ok(Identity { uid, gid, groups, home })
}

fn entries(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split(':').collect::<Vec<_>>()).filter(|e| e.len() >= 3 && !e[0].is_empty())
}

fn number(entry: &[&str], field: usize) -> Option<u32> {
    entry.get(field)?.parse().ok()
}

fn home(entry: &Vec<&str>) -> Option<String> {
    entry.get(5).filter(|home| !home.is_empty()).map(|home| home.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nweb:x:33:34::/var/www:/bin/sh\n# a comment\n";
    const GROUP: &str = "root:x:0:\nweb:x:34:\nssl:x:50:web,root\nlogs:x:51:other,web\n";

    fn ids(spec: &str) -> Result<(u32, u32, Vec<u32>), String> {
        resolve_in(spec, PASSWD, GROUP).map(|i| (i.uid, i.gid, i.groups))
    }

    #[test]
    fn users_and_groups_are_found() {
        assert_eq!(ids("web"), Ok((33, 34, vec![34, 50, 51])));
        assert_eq!(ids("33"), Ok((33, 34, vec![34, 50, 51])));
        assert_eq!(ids("web:ssl"), Ok((33, 50, vec![50])));
        assert_eq!(ids("1234"), Ok((1234, 0, vec![0])));
        assert_eq!(ids("1234:99"), Ok((1234, 99, vec![99])));
        assert_eq!(resolve_in("web", PASSWD, GROUP).unwrap().home.as_deref(), Some("/var/www"));
    }

    #[test]
    fn unknown_names_are_refused() {
        assert_eq!(ids("nobody-here").unwrap_err(), "\"nobody-here\" is not in /etc/passwd");
        assert_eq!(ids("web:none").unwrap_err(), "group \"none\" is not in /etc/group");
        assert_eq!(ids("").unwrap_err(), "\"\" is not in /etc/passwd");
        assert_eq!(ids("-1").unwrap_err(), "\"-1\" is not in /etc/passwd");
    }
}
