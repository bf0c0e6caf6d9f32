//! Why a program could not become a process, in a sentence that names what was looked for, and where.
//!
//! The kernel says one word for many things: "no such file" may also mean the interpreter of a script. So the file is looked at once
//! more. That may say less than what happened, never something else: where nothing is found the kernel's word stands.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::spawn::candidates;
use crate::driver::Launch;
use crate::error::plain;

/// How much of a script's first line is looked at: as much as the kernel reads.
const FIRST_LINE_BYTES: u64 = 256;

/// The sentence, without the field at fault.
pub(super) fn why(launch: &Launch, path: &str, error: &io::Error) -> String {
    let name = launch.command[0].as_str();
    let dir = launch.cwd.as_deref().unwrap_or(Path::new("/"));
    let found: Vec<PathBuf> =
        candidates(name, path).iter().map(|file| dir.join(file)).filter(|file| file.exists()).collect();
    if let Some(reason) = found.iter().find_map(|file| about_file(file, error)) {
        return reason;
    }
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) if found.is_empty() => not_found(name, dir, path),
        Some(libc::ENOENT) => format!("{name} was found, but not what it needs to run (its loader)"),
        Some(libc::ENOEXEC) => {
            format!("{name} is neither a program for this machine nor a script that begins with #!")
        }
        _ => format!("{name}: {}", plain(error)),
    }
}

fn not_found(name: &str, dir: &Path, path: &str) -> String {
    if !name.contains('/') {
        return format!("{name} was not found in PATH ({path})");
    }
    if name.starts_with('/') {
        return format!("{name} was not found");
    }
    format!(
        "{name} was not found in {} (the task's working directory); give an absolute path or --workdir",
        dir.display()
    )
}

/// What is wrong with a file that is there.
fn about_file(file: &Path, error: &io::Error) -> Option<String> {
    let shown = file.display();
    let meta = fs::metadata(file).ok()?;
    if meta.is_dir() {
        return Some(format!("{shown} is a directory, not a program"));
    }
    match error.raw_os_error() {
        Some(libc::EACCES) if !meta.is_file() => Some(format!("{shown} is not a program")),
        Some(libc::EACCES) if meta.permissions().mode() & 0o111 == 0 => {
            Some(format!("{shown} is not executable (mode {:04o})", meta.permissions().mode() & 0o7777))
        }
        Some(libc::ENOENT | libc::ENOTDIR) => {
            let interpreter = interpreter(file)?;
            (!Path::new(&interpreter).exists())
                .then(|| format!("{shown} is a script for {interpreter}, which was not found"))
        }
        _ => None,
    }
}

/// What the first line of a script names.
fn interpreter(file: &Path) -> Option<String> {
    let mut head = Vec::new();
    File::open(file).ok()?.take(FIRST_LINE_BYTES).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    // A script with the line ends of another system names a file that nobody has.
    let line = String::from_utf8_lossy(line).replace('\r', "\\r");
    line.split_ascii_whitespace().next().map(str::to_owned)
}
