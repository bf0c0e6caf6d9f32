//! The volumes of this machine as programs find them: a directory that is there, told in a variable.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use model::{Mount, Volume, volume_variable};

/// The variables that tell a program where its volumes are: `QUELEA_VOLUME_<NAME>`.
///
/// # Errors
/// The first volume that is not offered here, or whose directory is not there.
pub fn variables(
    offered: &BTreeMap<Arc<str>, Volume>,
    mounts: &[Mount],
) -> Result<Vec<(String, String)>, String> {
    let one = |mount: &Mount| {
        let name = &mount.volume;
        let volume = offered.get(name).ok_or_else(|| format!("this node has no volume {name}"))?;
        if volume.read_only && !mount.read_only {
            return Err(format!("volume {name} is read-only here"));
        }
        match std::fs::metadata(Path::new(&*volume.path)) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(format!("volume {name}: {} is not a directory", volume.path)),
            Err(error) => return Err(format!("volume {name}: {}: {error}", volume.path)),
        }
        Ok((format!("QUELEA_VOLUME_{}", volume_variable(name)), volume.path.to_string()))
    };
    mounts.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use model::Sharing;

    use super::*;

    #[test]
    fn directories_are_told_and_must_be_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name).display().to_string();
        let volume = |path: String, read_only| Volume { path: path.into(), read_only, sharing: Sharing::All };
        let offered: BTreeMap<Arc<str>, Volume> = [
            ("my-data".into(), volume(path(""), false)),
            ("gone".into(), volume(path("gone"), false)),
            ("file".into(), volume(path("file"), false)),
            ("logs".into(), volume(path(""), true)),
        ]
        .into();
        std::fs::write(path("file"), "").expect("a file");
        let ask = |name: &str, read_only| variables(&offered, &[Mount { volume: name.into(), read_only }]);
        assert_eq!(ask("my-data", false), Ok(vec![("QUELEA_VOLUME_MY_DATA".into(), path(""))]));
        assert!(ask("logs", true).is_ok());
        for (name, problem) in [
            ("other", "this node has no volume other"),
            ("logs", "volume logs is read-only here"),
            ("gone", "No such file or directory"),
            ("file", "is not a directory"),
        ] {
            let said = ask(name, false).expect_err(name);
            assert!(said.contains(problem) && said.contains(name), "{said}");
        }
        assert_eq!(variables(&offered, &[]), Ok(vec![]));
    }
}
