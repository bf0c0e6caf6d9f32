//! The workspace as cargo and git see it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// One package, ours or somebody else's.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence as an SPDX expression, when it says so.
    pub licence: Option<String>,
    /// True for a member of this workspace.
    pub ours: bool,
    /// What its manifest asks for: names of ordinary and build dependencies, development ones left out.
    pub dependencies: BTreeSet<String>,
    /// The resolved packages it is built with (development dependencies left out), by id.
    pub resolved: BTreeSet<String>,
}

/// All packages, by id.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The packages.
    pub packages: BTreeMap<String, Package>,
}

/// The workspace's directory.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("this crate is two levels below the root").to_owned()
}

/// The files that git tracks, relative to the root.
pub fn tracked_files() -> Vec<PathBuf> {
    let output = run(Command::new("git").args(["ls-files", "-z"]).current_dir(root()));
    output
        .split('\0')
        .filter(|p| !p.is_empty())
        .map(PathBuf::from)
        .filter(|p| root().join(p).exists())
        .collect()
}

/// A tracked file as text; empty when it is not text.
pub fn read_text(path: &Path) -> String {
    let bytes = std::fs::read(root().join(path)).expect("a tracked file can be read");
    String::from_utf8(bytes).unwrap_or_default()
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the tool is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("tools print UTF-8")
}

impl Workspace {
    /// Asks cargo.
    pub fn load() -> Self {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["metadata", "--format-version", "1", "--locked"]);
        command.args(["--filter-platform", "x86_64-unknown-linux-gnu"]).current_dir(root());
        let metadata: Value = serde_json::from_str(&run(&mut command)).expect("cargo prints JSON");
        let members: BTreeSet<&str> = strings(&metadata["workspace_members"]).collect();
        let mut packages = BTreeMap::new();
        for package in array(&metadata["packages"]) {
            let id = text(&package["id"]);
            packages.insert(id.to_owned(), describe(package, members.contains(id)));
        }
        for node in array(&metadata["resolve"]["nodes"]) {
            let used = array(&node["deps"]).filter(|d| array(&d["dep_kinds"]).any(|k| k["kind"] != "dev"));
            let used = used.map(|d| text(&d["pkg"]).to_owned()).collect();
            if let Some(package) = packages.get_mut(text(&node["id"])) {
                package.resolved = used;
            }
        }
        Self { packages }
    }

    /// Our own packages.
    pub fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages.values().filter(|p| p.ours)
    }

    /// The names of everything that `name` of ours is built with, however far away.
    pub fn closure(&self, name: &str) -> BTreeSet<String> {
        let mut open: Vec<&str> = self
            .packages
            .iter()
            .filter(|(_, p)| p.ours && p.name == name)
            .map(|(id, _)| id.as_str())
            .collect();
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                open.extend(self.packages[id].resolved.iter().map(String::as_str));
            }
        }
        seen.into_iter().map(|id| self.packages[id].name.clone()).collect()
    }

    /// Everything that our packages are built with, by id.
    pub fn shipped(&self) -> BTreeSet<&str> {
        let mut open: Vec<&str> =
            self.packages.iter().filter(|(_, p)| p.ours).map(|(id, _)| id.as_str()).collect();
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                open.extend(self.packages[id].resolved.iter().map(String::as_str));
            }
        }
        seen
    }
}

fn describe(package: &Value, ours: bool) -> Package {
    let wanted = array(&package["dependencies"]).filter(|d| d["kind"] != "dev");
    Package {
        name: text(&package["name"]).to_owned(),
        version: text(&package["version"]).to_owned(),
        licence: package["license"].as_str().map(str::to_owned),
        ours,
        dependencies: wanted.map(|d| text(&d["name"]).to_owned()).collect(),
        resolved: BTreeSet::new(),
    }
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    array(value).map(text)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
