//! Ending what a throwaway cluster left running when its daemon was killed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use drivers::{Driver, ExecDriver, ExecOptions, KeepLogs, Key};

use crate::home::Home;
use crate::records;
use crate::start::cgroup_name;

/// How long to wait before looking again: a supervisor may have been on its way when its daemon died.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How many times to look.
const LOOKS: usize = 3;

/// Kills every program of a data directory whose daemon is gone, and removes the directory.
///
/// # Errors
/// What could not be removed, in a sentence.
pub async fn clear(data_dir: &Path, supervisor: (PathBuf, Vec<OsString>)) -> Result<(), String> {
    if !data_dir.exists() {
        return Ok(());
    }
    let home = Home::open(data_dir).map_err(|e| e.to_string())?;
    let identity = home.identity().map_err(|e| e.to_string())?;
    let (supervisor, supervisor_args) = supervisor;
    let cgroup = Some(cgroup_name(&identity));
    let driver = ExecDriver::new(ExecOptions { supervisor, supervisor_args, cgroup, soft_files: None });
    for look in 0..LOOKS {
        if look > 0 {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        // Somebody else may be clearing the place as well.
        if !data_dir.exists() {
            return Ok(());
        }
        for record in records::load(&home.tasks()).map_err(|e| e.to_string())? {
            let Some(dir) = records::task_dir(&home.tasks(), record.task()) else { continue };
            for program in &record.assignment.spec.programs {
                let key = Key {
                    dir: dir.clone(),
                    task: record.task().to_string(),
                    program: program.name.to_string(),
                };
                // What never ran, or was removed before, is no matter.
                let _ = driver.remove(key, KeepLogs::No).await;
            }
        }
    }
    let _ = driver.shut_down().await;
    std::fs::remove_dir_all(data_dir).map_err(|e| format!("{}: {e}", data_dir.display()))
}
