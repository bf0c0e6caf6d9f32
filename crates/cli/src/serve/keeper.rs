//! The keeper of a throwaway cluster: a process that waits for the end of `dev`, however it comes, and then ends what it
//! left running and removes its directory.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use clap::Args;

use super::supervisor;
use crate::commands::block_on;
use crate::failure::Failure;

/// A keeper that waits. It gets its signal when this is dropped, or with the end of this process.
pub struct Keeper {
    child: Child,
    _end: ChildStdin,
}

impl Keeper {
    /// Starts a keeper for this directory and for these files.
    ///
    /// # Errors
    /// When no process can be started.
    pub fn start(data_dir: &Path, files: &[PathBuf]) -> Result<Self, Failure> {
        let refused = |e: std::io::Error| Failure::Refused(format!("cannot start the keeper: {e}"));
        let mut child = Command::new("/proc/self/exe")
            .arg("keep")
            .arg(data_dir)
            .args(files)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A group of its own: the terminal's Ctrl-C is not for it.
            .process_group(0)
            .spawn()
            .map_err(refused)?;
        let end = child.stdin.take().ok_or_else(|| Failure::Refused("the keeper has no input".into()))?;
        Ok(Self { child, _end: end })
    }

    /// Lets the keeper do what is left, and waits for it.
    pub fn finish(self) {
        let Self { mut child, _end: end } = self;
        drop(end);
        let _ = child.wait();
    }
}

/// Wait for the end of the standard input, then end what a throwaway cluster left running.
#[derive(Debug, Args)]
pub struct Keep {
    data_dir: PathBuf,
    files: Vec<PathBuf>,
}

impl Keep {
    /// Waits, then clears away.
    pub fn run(self) -> Result<(), Failure> {
        let mut ignored = Vec::new();
        // Nothing is ever written to it: it ends when `dev` does.
        let _ = std::io::stdin().read_to_end(&mut ignored);
        let data_dir = self.data_dir;
        block_on(async move { node::clear(&data_dir, supervisor()).await.map_err(Failure::Refused) })?;
        for file in self.files {
            let _ = std::fs::remove_file(file);
        }
        Ok(())
    }
}
