//! `--mount` of services and `--volume` of nodes: docker's syntax for what is there of it, and a refusal by name of the rest.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use model::{Sharing, Volume, check_volume_name, check_volume_path, limits};
use native_api::types::Mount;

use crate::failure::Failure;

/// Why a place inside the task is refused.
const TARGET: &str = "a process sees its node's own files, so a volume cannot be led to a place of its own; leave target out, the program finds the directory in $QUELEA_VOLUME_";

/// One `--mount`: `type=volume,source=NAME[,readonly]`.
pub fn mount(text: &str) -> Result<Mount, String> {
    let mut mount = Mount::default();
    let mut target = false;
    for part in text.split(',') {
        let (key, value) = match part.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (part, None),
        };
        match (key.to_ascii_lowercase().as_str(), value) {
            ("type", Some("volume")) => {}
            ("type", Some(kind @ ("bind" | "tmpfs" | "cluster" | "npipe" | "image"))) => {
                return Err(format!(
                    "type={kind} is not supported; a process sees its node's own files. Use type=volume with a volume that a node offers"
                ));
            }
            ("type", Some(other)) => return Err(format!("{other:?} is not a type of mount; use volume")),
            ("source" | "src", Some(name)) => {
                check_volume_name(name).map_err(|e| format!("source {name:?}: {e}"))?;
                mount.source = name.into();
            }
            ("readonly" | "ro", value) => {
                mount.read_only = match value {
                    None | Some("true" | "1") => true,
                    Some("false" | "0") => false,
                    Some(other) => return Err(format!("{key}={other} is neither true nor false")),
                };
            }
            ("target" | "destination" | "dst", _) => target = true,
            (
                key @ ("volume-driver" | "volume-opt" | "volume-label" | "volume-nocopy" | "volume-subpath"),
                _,
            ) => {
                return Err(format!("{key} is not supported: a volume is a directory that a node offers"));
            }
            (key, _) => {
                return Err(format!("{key:?} is not known here; write type=volume,source=NAME[,readonly]"));
            }
        }
    }
    if mount.source.is_empty() {
        return Err("a volume needs its name; write type=volume,source=NAME[,readonly]".into());
    }
    if target {
        return Err(format!("{TARGET}{}", model::volume_variable(&mount.source)));
    }
    Ok(mount)
}

/// The volumes that a node offers, each written `NAME=PATH[,ro][,sharing=none|readonly|onewriter|all]`.
///
/// # Errors
/// What is none, or not there.
pub fn volumes(written: &[String]) -> Result<BTreeMap<Arc<str>, Volume>, Failure> {
    let mut volumes = BTreeMap::new();
    for text in written {
        let refused = |problem: String| Failure::Usage(format!("--volume (volumes) {text}: {problem}"));
        let (name, volume) = volume(text).map_err(refused)?;
        if volumes.insert(name.clone(), volume).is_some() {
            return Err(refused(format!("volume {name} is there already")));
        }
    }
    if volumes.len() > limits::VOLUMES {
        let most = limits::VOLUMES;
        return Err(Failure::Usage(format!("--volume (volumes): {} are more than {most}", volumes.len())));
    }
    Ok(volumes)
}

fn volume(text: &str) -> Result<(Arc<str>, Volume), String> {
    let usage = || "write NAME=PATH[,ro][,sharing=none|readonly|onewriter|all]".to_owned();
    let (name, rest) = text.split_once('=').ok_or_else(usage)?;
    check_volume_name(name)?;
    let mut parts = rest.split(',');
    let path = parts.next().unwrap_or_default();
    check_volume_path(path)?;
    let mut volume = Volume { path: path.into(), ..Volume::default() };
    for part in parts {
        match part.split_once('=') {
            None if part == "ro" || part == "readonly" => volume.read_only = true,
            Some(("sharing", word)) => {
                let known = || format!("{word:?} is no sharing; use none, readonly, onewriter or all");
                volume.sharing = Sharing::from_word(word).ok_or_else(known)?;
            }
            _ => return Err(format!("{part:?} is not known; {}", usage())),
        }
    }
    match std::fs::metadata(Path::new(path)) {
        Ok(found) if found.is_dir() => Ok((name.into(), volume)),
        Ok(_) => Err(format!("{path} is not a directory")),
        Err(error) => Err(format!("{path}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_service_uses() {
        for (text, source, read_only) in [
            ("type=volume,source=data", "data", false),
            ("source=data", "data", false),
            ("src=data,ro", "data", true),
            ("type=volume,source=data,readonly", "data", true),
            ("type=volume,readonly=true,source=my.data-1", "my.data-1", true),
            ("source=data,readonly=false", "data", false),
        ] {
            assert_eq!(mount(text), Ok(Mount { source: source.into(), read_only }), "{text}");
        }
        for (text, part) in [
            ("type=bind,source=/srv", "type=bind is not supported"),
            ("type=tmpfs", "type=tmpfs is not supported"),
            ("type=cluster,source=a", "type=cluster is not supported"),
            ("type=npipe", "type=npipe is not supported"),
            ("type=disk,source=data", "\"disk\" is not a type of mount"),
            ("type=volume", "a volume needs its name"),
            ("type=volume,source=data,target=/data", "$QUELEA_VOLUME_DATA"),
            ("dst=/data,source=my-data", "$QUELEA_VOLUME_MY_DATA"),
            ("source=/srv/data", "2 to 255 letters"),
            ("source=data,readonly=maybe", "neither true nor false"),
            ("source=data,volume-driver=nfs", "volume-driver is not supported"),
            ("source=data,propagation=rslave", "\"propagation\" is not known"),
            ("data:/data", "is not known here; write type=volume,source=NAME"),
        ] {
            let problem = mount(text).expect_err(text);
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }

    #[test]
    fn what_a_node_offers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display();
        let offered = |texts: &[String]| volumes(texts).map_err(|failure| failure.to_string());
        let there = offered(&[
            format!("data={path}"),
            format!("logs={path},ro"),
            format!("one={path},sharing=none"),
            format!("mixed={path},sharing=onewriter,ro"),
        ]);
        let there = there.unwrap();
        let shown: Vec<String> =
            there.iter().map(|(name, v)| format!("{name} {} {}", v.read_only, v.sharing)).collect();
        assert_eq!(shown, ["data false all", "logs true all", "mixed true onewriter", "one false none"]);
        assert_eq!(&*there["data"].path, path.to_string());
        std::fs::write(dir.path().join("file"), "").unwrap();
        for (text, part) in [
            ("data".into(), "write NAME=PATH"),
            ("data=".into(), "absolute"),
            ("data=srv".into(), "absolute"),
            ("d=/".into(), "2 to 255 letters"),
            (format!("data={path}/nowhere"), "No such file or directory"),
            (format!("data={path}/file"), "is not a directory"),
            (format!("data={path},rw"), "\"rw\" is not known"),
            (format!("data={path},sharing=some"), "use none, readonly, onewriter or all"),
        ] {
            let problem = offered(std::slice::from_ref(&text)).expect_err(&text);
            assert!(problem.contains(part) && problem.contains("--volume"), "{text}: {problem}");
        }
        let twice =
            offered(&[format!("data={path}"), format!("data={path}")]).expect_err("it is there twice");
        assert!(twice.contains("volume data is there already"), "{twice}");
        let many: Vec<String> = (0..=limits::VOLUMES).map(|n| format!("v{n}={path}")).collect();
        assert!(offered(&many).expect_err("they are too many").contains("257 are more than 256"));
    }
}
