//! Volumes: directories that nodes offer and tasks use, and who may use one at the same time.

use std::fmt;
use std::sync::Arc;

use crate::limits;

/// A directory of a node that tasks may ask for by its name.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Volume {
    /// Where it is on the node; absolute.
    pub path: Arc<str>,
    /// True when nobody may write there: only tasks that say they read take it.
    pub read_only: bool,
    /// Who may use it at the same time.
    pub sharing: Sharing,
}

/// Who may use a volume at the same time; SwarmKit's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Sharing {
    /// One task.
    None,
    /// Any number of tasks that only read.
    ReadOnly,
    /// One task that writes, and any number that only read.
    OneWriter,
    /// Any number of tasks, as with docker's local volumes.
    #[default]
    All,
}

impl Sharing {
    /// Every way, the narrowest first.
    pub const ALL: [Self; 4] = [Self::None, Self::ReadOnly, Self::OneWriter, Self::All];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ReadOnly => "readonly",
            Self::OneWriter => "onewriter",
            Self::All => "all",
        }
    }

    /// The way with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sharing| sharing.as_str() == word)
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A volume that a task uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mount {
    /// The volume's name.
    pub volume: Arc<str>,
    /// True when the task only reads.
    pub read_only: bool,
}

/// How many tasks use a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Users {
    /// Those that write.
    pub writers: u32,
    /// Those that only read.
    pub readers: u32,
}

impl Users {
    /// One more.
    pub fn with(mut self, read_only: bool) -> Self {
        let users = if read_only { &mut self.readers } else { &mut self.writers };
        *users = users.saturating_add(1);
        self
    }
}

/// What speaks against one more task that uses a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeLack {
    /// The node has no volume of this name.
    Missing,
    /// Nobody may write there.
    ReadOnly,
    /// It is shared by readers alone.
    ReadersOnly,
    /// One task has it for itself.
    InUse,
    /// Another task writes there already.
    Written,
}

impl Volume {
    /// What speaks against one more task beside those that use it; `None` when it may.
    pub fn lack(&self, users: Users, read_only: bool) -> Option<VolumeLack> {
        if self.read_only && !read_only {
            return Some(VolumeLack::ReadOnly);
        }
        match self.sharing {
            Sharing::None if users != Users::default() => Some(VolumeLack::InUse),
            Sharing::ReadOnly if !read_only => Some(VolumeLack::ReadersOnly),
            Sharing::OneWriter if !read_only && users.writers > 0 => Some(VolumeLack::Written),
            _ => None,
        }
    }

    /// How many tasks that use it so may stay, whatever the others do, where it is shared less than it was: all when `None`.
    pub fn most(&self, read_only: bool) -> Option<u32> {
        match self.sharing {
            _ if self.read_only && !read_only => Some(0),
            Sharing::ReadOnly if !read_only => Some(0),
            Sharing::None => Some(1),
            Sharing::OneWriter if !read_only => Some(1),
            _ => None,
        }
    }

    /// True when so many may use it at the same time.
    pub fn holds(&self, users: Users) -> bool {
        let fits = |read_only: bool, count: u32| self.most(read_only).is_none_or(|most| count <= most);
        let alone = self.sharing != Sharing::None || users.writers.saturating_add(users.readers) <= 1;
        fits(false, users.writers) && fits(true, users.readers) && alone
    }
}

/// Whether a volume may have this name: docker's rule.
///
/// # Errors
/// What a name has to be.
pub fn check_volume_name(name: &str) -> Result<(), String> {
    let inner = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    let length = (2..=limits::VOLUME_NAME_LEN).contains(&name.len());
    if first && length && name.chars().all(inner) {
        return Ok(());
    }
    Err(format!(
        "the name of a volume has 2 to {} letters, digits, _, . or -, and begins with a letter or digit",
        limits::VOLUME_NAME_LEN
    ))
}

/// Whether this may be the path of a volume; that something is there is seen by its node alone.
///
/// # Errors
/// What a path has to be.
pub fn check_volume_path(path: &str) -> Result<(), String> {
    let fine =
        path.starts_with('/') && path.len() <= limits::VOLUME_PATH_LEN && !path.contains(char::is_control);
    if fine {
        return Ok(());
    }
    Err(format!(
        "the path of a volume is absolute, has at most {} bytes and no control characters",
        limits::VOLUME_PATH_LEN
    ))
}

/// The part of the name of a variable that tells the path of a volume: capital letters, digits, and `_` for everything else.
pub fn volume_variable(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(sharing: Sharing, read_only: bool) -> Volume {
        Volume { path: "/d".into(), read_only, sharing }
    }

    #[test]
    fn one_more_user() {
        use VolumeLack::{InUse, ReadOnly, ReadersOnly, Written};
        // Writers and readers there, and what is said to one more that writes, and to one more that reads.
        let cases = [
            (Sharing::None, 0, 0, None, None),
            (Sharing::None, 1, 0, Some(InUse), Some(InUse)),
            (Sharing::None, 0, 1, Some(InUse), Some(InUse)),
            (Sharing::ReadOnly, 0, 0, Some(ReadersOnly), None),
            (Sharing::ReadOnly, 0, 7, Some(ReadersOnly), None),
            (Sharing::OneWriter, 0, 7, None, None),
            (Sharing::OneWriter, 1, 7, Some(Written), None),
            (Sharing::All, 7, 7, None, None),
        ];
        for (sharing, writers, readers, writer, reader) in cases {
            let users = Users { writers, readers };
            assert_eq!(volume(sharing, false).lack(users, false), writer, "{sharing} {users:?}");
            assert_eq!(volume(sharing, false).lack(users, true), reader, "{sharing} {users:?}");
            assert_eq!(volume(sharing, true).lack(users, false), Some(ReadOnly), "{sharing} {users:?}");
            assert_eq!(volume(sharing, true).lack(users, true), reader, "{sharing} {users:?}");
        }
    }

    /// Whoever comes where nothing speaks against it leaves the volume as it may be used, in whatever order they come; and whatever may
    /// be used so, can be reached so.
    #[test]
    fn who_is_let_in_may_stay() {
        let counts = (0..3u32).flat_map(|w| (0..3u32).map(move |r| Users { writers: w, readers: r }));
        for users in counts {
            for (sharing, read_only) in Sharing::ALL.into_iter().flat_map(|s| [(s, false), (s, true)]) {
                let volume = volume(sharing, read_only);
                let mut now = Some(Users::default());
                for reads in (0..users.writers).map(|_| false).chain((0..users.readers).map(|_| true)) {
                    now = now.filter(|now| volume.lack(*now, reads).is_none()).map(|now| now.with(reads));
                }
                assert_eq!(now.is_some(), volume.holds(users), "{volume:?} {users:?}");
            }
        }
    }

    #[test]
    fn names_and_paths() {
        for (name, fine) in [
            ("data", true),
            ("a1", true),
            ("web_data.v1-x", true),
            ("a", false),
            ("", false),
            (".data", false),
            ("-data", false),
            ("da ta", false),
            ("da/ta", false),
            ("d\u{e4}ta", false),
            (&"x".repeat(limits::VOLUME_NAME_LEN), true),
            (&"x".repeat(limits::VOLUME_NAME_LEN + 1), false),
        ] {
            assert_eq!(check_volume_name(name).is_ok(), fine, "{name:?}");
        }
        for (path, fine) in [("/srv/data", true), ("/", true), ("srv", false), ("", false), ("/a\nb", false)]
        {
            assert_eq!(check_volume_path(path).is_ok(), fine, "{path:?}");
        }
        assert_eq!(volume_variable("web-data.v1"), "WEB_DATA_V1");
        for sharing in Sharing::ALL {
            assert_eq!(Sharing::from_word(sharing.as_str()), Some(sharing));
        }
        assert_eq!(Sharing::from_word("some"), None);
    }
}
