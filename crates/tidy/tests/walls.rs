//! The walls between the rooms: which crate may know which, and what the pure ones never touch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tidy::{Workspace, read_text, tracked_files};

/// Every arrow that is allowed between our crates. A new one is a design change: edit ARCHITECTURE.md with it.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("store", &["model"]),
    ("specs", &["model"]),
    ("scheduler", &["model", "store"]),
    ("orchestrator", &["model", "store"]),
    ("control", &["model", "store"]),
    ("agent", &["model"]),
    ("manager", &["model", "store", "scheduler", "orchestrator"]),
    ("consensus", &[]),
    ("drivers", &[]),
    ("node", &["model", "store", "scheduler", "control", "agent", "manager", "consensus", "drivers"]),
    ("native-api", &["model", "store", "control", "specs"]),
    ("cli", &["model", "specs", "control", "drivers", "node", "native-api"]),
    ("sim", &["model", "store", "scheduler", "orchestrator", "control", "manager", "agent"]),
    ("tidy", &[]),
];

/// Crates that decide and never act.
const PURE: &[&str] =
    &["model", "store", "specs", "scheduler", "orchestrator", "control", "agent", "manager"];

/// What a pure crate never says, and what stands in its place.
const NEVER: &[(&str, &str)] = &[
    ("Instant::now", "take the time as an argument"),
    ("SystemTime::now", "take the time as an argument"),
    ("thread::sleep", "return the moment at which to be woken"),
    ("thread::spawn", "return what is to be done"),
    ("tokio::", "return what is to be done"),
    ("rand::", "take ids and chance as arguments"),
    ("getrandom", "take ids and chance as arguments"),
    ("std::fs", "take bytes, readers or writers as arguments"),
    ("std::net::Tcp", "return what is to be sent"),
    ("std::process", "return what is to be run"),
    ("std::env", "take settings as arguments"),
    ("HashMap", "use BTreeMap: results never depend on map order"),
    ("HashSet", "use BTreeSet: results never depend on map order"),
];

#[test]
fn arrows_between_crates_are_the_drawn_ones() {
    let workspace = Workspace::load();
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ARROWS.iter().map(|(from, to)| (*from, to.iter().copied().collect())).collect();
    let ours: BTreeSet<&str> = workspace.ours().map(|p| p.name.as_str()).collect();
    for package in workspace.ours() {
        let drawn = allowed.get(package.name.as_str());
        let drawn = drawn.unwrap_or_else(|| panic!("{} has no line in ARROWS", package.name));
        for dependency in package.dependencies.iter().filter(|d| ours.contains(d.as_str())) {
            assert!(
                drawn.contains(dependency.as_str()),
                "{} must not know {dependency}: a new arrow is a design change",
                package.name
            );
        }
    }
}

#[test]
fn pure_crates_are_built_without_a_runtime() {
    let workspace = Workspace::load();
    for name in PURE {
        let closure = workspace.closure(name);
        assert!(closure.contains(*name), "{name} is a crate of the workspace");
        for edge in
            ["tokio", "openraft", "redb", "hyper", "axum", "rand", "getrandom", "rustix", "nix", "mio"]
        {
            assert!(!closure.contains(edge), "{name} is pure and must not be built with {edge}");
        }
    }
}

#[test]
fn pure_crates_touch_nothing() {
    for path in
        sources().filter(|p| PURE.iter().any(|c| p.starts_with(Path::new("crates").join(c).join("src"))))
    {
        let text = read_text(&path);
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate().filter(|(_, l)| !l.trim_start().starts_with("//")) {
            for (word, instead) in NEVER {
                assert!(
                    !line.contains(word),
                    "{}:{}: {word} in a pure crate: {instead}",
                    path.display(),
                    number + 1
                );
            }
        }
    }
}

#[test]
fn unsafe_code_lives_in_drivers_alone() {
    for path in sources().filter(|p| p.ends_with("src/lib.rs") && !p.starts_with("crates/drivers")) {
        assert!(
            read_text(&path).contains("#![forbid(unsafe_code)]"),
            "{} must forbid unsafe code",
            path.display()
        );
    }
}

fn sources() -> impl Iterator<Item = std::path::PathBuf> {
    tracked_files().into_iter().filter(|p| p.extension().is_some_and(|e| e == "rs"))
}
