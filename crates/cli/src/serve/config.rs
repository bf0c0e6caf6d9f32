//! The daemon's configuration file: YAML with a key for each flag. Flags win.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::failure::Failure;

/// Largest configuration file that is read, in bytes.
const CONFIG_BYTES: u64 = 64 * 1024;

/// What a configuration file may say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// As `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// As `--socket`.
    pub socket: Option<PathBuf>,
    /// As `--listen`.
    pub listen: Option<SocketAddr>,
    /// As `--label`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// As `--node-generic-resource`.
    #[serde(default)]
    pub node_generic_resources: BTreeMap<String, Offer>,
    /// As `--volume`.
    #[serde(default)]
    pub volumes: BTreeMap<String, OfferedVolume>,
}

/// What a file says of one volume.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "give a path, or a map of path, read_only and sharing")]
pub enum OfferedVolume {
    /// Its path, and what follows it in the flag.
    Text(String),
    /// Each part by its name.
    Parts {
        /// Where it is.
        path: String,
        /// As `,ro`.
        #[serde(default)]
        read_only: bool,
        /// As `,sharing=`.
        sharing: Option<String>,
    },
}

impl OfferedVolume {
    /// As the flag would have it.
    pub fn text(&self, name: &str) -> String {
        match self {
            Self::Text(text) => format!("{name}={text}"),
            Self::Parts { path, read_only, sharing } => {
                let read_only = if *read_only { ",ro" } else { "" };
                let sharing = sharing.as_ref().map(|word| format!(",sharing={word}")).unwrap_or_default();
                format!("{name}={path}{read_only}{sharing}")
            }
        }
    }
}

/// What a file says of one kind of resource.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "give a count above 0, a name, or a list of names")]
pub enum Offer {
    /// So many.
    Count(u64),
    /// One, or several with commas between.
    Text(String),
    /// These.
    Names(Vec<String>),
}

impl Offer {
    /// As the flag would have it.
    pub fn text(&self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Text(text) => text.clone(),
            Self::Names(names) => names.join(","),
        }
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// The file, the line, and what is wrong there.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let refused = |what: String| Failure::Refused(format!("--config {}: {what}", path.display()));
        let size = std::fs::metadata(path).map_err(|e| refused(e.to_string()))?.len();
        if size > CONFIG_BYTES {
            return Err(refused(format!("has {size} bytes, more than the {CONFIG_BYTES} that are read")));
        }
        let text = std::fs::read_to_string(path).map_err(|e| refused(e.to_string()))?;
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_saphyr::from_str(&text).map_err(|error| {
            refused(match error.without_snippet() {
                serde_saphyr::Error::DuplicateMappingKey { key, location } => {
                    let key = key.as_deref().unwrap_or("a key");
                    format!("line {}: {key:?} is given twice; remove one of them", location.line())
                }
                _ => error.to_string(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_flags() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("quelea.yaml");
        std::fs::write(&path, "data_dir: /d\nsocket: /s\nlisten: 127.0.0.1:0\nlabels: {zone: east}\nnode_generic_resources: {gpu: 2, card: [one, two], disk: \"a,b\"}\nvolumes: {data: \"/srv,ro\", logs: {path: /var, read_only: true, sharing: none}}\n")
            .unwrap();
        let config = Config::read(&path).unwrap();
        assert_eq!(config.data_dir, Some("/d".into()));
        assert_eq!(config.listen, Some("127.0.0.1:0".parse().unwrap()));
        assert_eq!(config.labels["zone"], "east");
        let offers = ["gpu", "card", "disk"].map(|kind| config.node_generic_resources[kind].text());
        assert_eq!(offers, ["2", "one,two", "a,b"]);
        let volumes = ["data", "logs"].map(|name| config.volumes[name].text(name));
        assert_eq!(volumes, ["data=/srv,ro", "logs=/var,ro,sharing=none"]);
        for (text, word) in [
            ("volumes: {data: 1.5.2: 3}\n", "line"),
            ("volumes: {data: [a]}\n", "give a path"),
            ("dta_dir: /d\n", "dta_dir"),
            ("listen: here\n", "listen"),
            ("listen: [\n", "line"),
            ("socket: /a\nsocket: /b\n", "line 2: \"socket\" is given twice"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Config::read(&path).unwrap_err().to_string();
            assert!(error.contains("quelea.yaml") && error.contains(word), "{error}");
        }
    }
}
