//! The tour of the README, line by line as it is written there: from the directory of the clone, after the build.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Daemon, QUELEA, signal, until};

/// A block of the tour: its language and its lines.
struct Block {
    language: String,
    lines: Vec<String>,
}

/// The blocks between the heading of the tour and the next one.
fn tour() -> Vec<Block> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README");
    let tour = readme.split("\n## A tour\n").nth(1).expect("a tour");
    let tour = tour.split("\n## ").next().expect("its end");
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in tour.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(language), None) => open = Some(Block { language: language.into(), lines: Vec::new() }),
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.lines.push(line.into());
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    blocks
}

/// The commands of a block, without their comments.
fn commands(block: &Block) -> Vec<String> {
    let typed = block.lines.iter().filter_map(|line| line.strip_prefix("$ "));
    typed.map(|line| line.split("  #").next().unwrap_or(line).trim_end().to_owned()).collect()
}

#[test]
fn the_tour_works_as_it_is_written() {
    let blocks = tour();
    let lines: Vec<(usize, String)> = blocks
        .iter()
        .enumerate()
        .filter(|(_, b)| b.language == "console")
        .flat_map(|(i, b)| commands(b).into_iter().map(move |c| (i, c)))
        .collect();
    let built = |line: &str| line.starts_with("cargo build ") && line.contains("hello-server");
    assert!(built(&lines[0].1), "the tour begins with the build: {}", lines[0].1);

    let daemon = Daemon::start();
    // Where the build puts things, seen from the clone.
    let clone = daemon.path("clone");
    std::fs::create_dir_all(clone.join("target")).expect("a directory");
    let out = Path::new(QUELEA).parent().expect("a directory");
    std::os::unix::fs::symlink(out, clone.join("target").join("release")).expect("a link");
    for block in blocks.iter().filter(|b| b.language == "yaml") {
        std::fs::write(clone.join("shop.yaml"), block.lines.join("\n")).expect("written");
    }

    let mut exports = String::new();
    let mut ran = 0;
    for (_, line) in &lines {
        if built(line) || line == "quelea dev" {
            continue;
        }
        if line.starts_with("export ") {
            exports = format!("{line}\n");
            continue;
        }
        ran += 1;
        type_it(&daemon, &clone, &exports, line);
    }
    assert!(ran >= 10, "only {ran} commands were found in the tour");
    until("nothing is left", || daemon.get("/v1/tasks")["items"].as_array().is_some_and(Vec::is_empty));
}

/// Types a line; what goes on by itself is ended by Ctrl-C once it has said something.
fn type_it(daemon: &Daemon, clone: &Path, exports: &str, line: &str) {
    let endless = line.contains("logs -f") || line.starts_with("quelea events");
    let mut child = Command::new("bash")
        .args(["-euc", &format!("{exports}exec {line}")])
        .env("QUELEA_HOST", format!("unix://{}", daemon.socket().display()))
        .current_dir(clone)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash");
    if endless {
        let mut said = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut said).expect("a line");
        assert!(!said.is_empty(), "{line} says nothing");
        signal(child.id(), "INT");
    }
    let output = child.wait_with_output().expect("it ends");
    let err = String::from_utf8_lossy(&output.stderr);
    // Whoever ends a stream with Ctrl-C gets what a shell makes of that; unless it had already met the end of our reading.
    let well = |code| code == Some(0) || (endless && code == Some(130));
    assert!(well(output.status.code()), "{line}\n{}{err}", String::from_utf8_lossy(&output.stdout));
}
