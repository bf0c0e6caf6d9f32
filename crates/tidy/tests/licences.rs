//! What we are built with: licences that allow everyone to use the result, and a reason for each dependency.

use std::collections::BTreeSet;
use std::path::Path;

use tidy::{Workspace, read_text};

/// Licences whose terms a program under MIT or Apache-2.0 can meet. MPL-2.0 binds changes to its own files only.
const ALLOWED: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT-0",
    "MPL-2.0",
    "MPL-2.0+",
    "MPL-2.0-or-later",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "0BSD",
];

#[test]
fn every_licence_is_allowed() {
    let workspace = Workspace::load();
    for id in workspace.shipped() {
        let package = &workspace.packages[id];
        let licence = package.licence.as_deref().unwrap_or("none named");
        assert!(acceptable(licence), "{} {}: licence {licence}", package.name, package.version);
    }
}

/// An SPDX expression is acceptable when one of its alternatives is, and each part of that one.
fn acceptable(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    let alternatives = plain.split(" OR ");
    alternatives.into_iter().any(|a| a.split(" AND ").all(|part| ALLOWED.contains(&part.trim())))
}

#[test]
fn expressions_are_read_right() {
    for (expression, fine) in [
        ("MIT", true),
        ("MIT OR GPL-3.0", true),
        ("MIT/Apache-2.0", true),
        ("GPL-3.0", false),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("none named", false),
    ] {
        assert_eq!(acceptable(expression), fine, "{expression}");
    }
}

#[test]
fn every_direct_dependency_is_explained() {
    let workspace = Workspace::load();
    let explained = read_text(Path::new("docs/dependencies.md"));
    let ours: BTreeSet<&str> = workspace.ours().map(|p| p.name.as_str()).collect();
    for package in workspace.ours() {
        for dependency in package.dependencies.iter().filter(|d| !ours.contains(d.as_str())) {
            assert!(
                explained.contains(&format!("`{dependency}`")),
                "{dependency}, which {} uses, has no line in docs/dependencies.md",
                package.name
            );
        }
    }
}
