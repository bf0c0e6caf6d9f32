//! Files: sizes, names, the documents that must be there, and links that lead somewhere.

use std::path::{Path, PathBuf};

use tidy::{read_text, root, tracked_files};

/// A source file longer than this has a second idea inside.
const LINES: usize = 900;

#[test]
fn source_files_are_of_one_idea() {
    for path in tracked_files().into_iter().filter(|p| p.extension().is_some_and(|e| e == "rs")) {
        let lines = read_text(&path).lines().count();
        assert!(lines <= LINES, "{} has {lines} lines: is there a second idea inside?", path.display());
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        for vague in ["utils", "util", "helpers", "misc", "common"] {
            assert_ne!(stem, vague, "{}: say what is in it", path.display());
        }
    }
}

#[test]
fn source_files_say_what_they_are() {
    for path in tracked_files().into_iter().filter(|p| p.extension().is_some_and(|e| e == "rs")) {
        let text = read_text(&path);
        assert!(text.trim_start().starts_with("//!"), "{} does not open with what it is", path.display());
    }
}

#[test]
fn nothing_unfinished_is_left() {
    let marks = [["todo", "!("], ["unimplemented", "!("], ["FIX", "ME"], ["XX", "X"]].map(|m| m.concat());
    for path in tracked_files().into_iter().filter(|p| p.extension().is_some_and(|e| e == "rs")) {
        if path.starts_with("crates/tidy") {
            continue;
        }
        let text = read_text(&path);
        for mark in &marks {
            assert!(!text.contains(mark.as_str()), "{} has {mark}", path.display());
        }
    }
}

#[test]
fn the_documents_are_there() {
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "docs/glossary.md",
        "docs/dependencies.md",
        "docs/operations.md",
        "docs/compatibility.md",
        ".ci/run",
        "scripts/demo",
        "scripts/test",
    ] {
        assert!(root().join(name).exists(), "{name} is missing");
    }
    let lines = read_text(Path::new("ARCHITECTURE.md")).lines().count();
    assert!(lines < 300, "ARCHITECTURE.md has {lines} lines: a bird sees less");
}

#[test]
fn links_lead_somewhere() {
    for path in tracked_files().into_iter().filter(|p| p.extension().is_some_and(|e| e == "md")) {
        let text = read_text(&path);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            let base = path.parent().map(PathBuf::from).unwrap_or_default();
            assert!(root().join(base).join(file).exists(), "{}: {target} leads nowhere", path.display());
        }
    }
}

/// The table of behaviours names tests, stories and checkers: each must exist, or nothing holds what it says.
#[test]
fn tests_that_are_named_exist() {
    let text = read_text(Path::new("docs/behaviours.md"));
    let mut named = 0;
    for name in text.split('`').skip(1).step_by(2) {
        let Some((place, test)) = name.split_once(':').filter(|(place, _)| !place.contains(' ')) else {
            continue;
        };
        if test.chars().any(char::is_uppercase) || test == "name" {
            continue;
        }
        named += 1;
        let found = match (place, place.split_once('/')) {
            ("story", _) => root().join(format!("crates/sim/stories/{test}.out")).exists(),
            ("checker", _) => root().join(format!("crates/sim/src/checkers/{test}.rs")).exists(),
            (_, Some((of, file))) => ["src", "tests", "tests/e2e"].iter().any(|folder| {
                let path = format!("crates/{of}/{folder}/{file}.rs");
                root().join(&path).exists() && read_text(Path::new(&path)).contains(&format!("fn {test}("))
            }),
            _ => false,
        };
        assert!(found, "docs/behaviours.md names {name}, which does not exist");
    }
    assert!(named > 50, "only {named} tests are named");
}
