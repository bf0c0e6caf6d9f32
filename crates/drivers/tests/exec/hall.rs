//! What the tests of the exec driver share: a place with its own directories and cgroup name, and looks at `/proc`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use drivers::{Driver, ExecDriver, ExecOptions, Exit, KeepLogs, Key, Launch, Limits, LogOptions};

/// Longer than anything here takes on the slowest machine; only a failing test waits so long.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Place {
    pub dir: tempfile::TempDir,
    pub driver: ExecDriver,
    pub cgroup: String,
    /// In the environment of every program here, so that all of its processes can be found, wherever they went.
    pub mark: String,
}

/// The example binary that stands for the product's `quelea supervise`.
pub fn helper() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples/supervise");
    assert!(path.exists(), "build the helper first: cargo build -p drivers --example supervise");
    path
}

impl Place {
    /// A place where no cgroups are used, as for a user who may not make any.
    pub fn without_cgroups() -> Place {
        let mut place = Place::new();
        place.driver = driver_with(None);
        place
    }

    pub fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let cgroup = format!("quelea-test-{unique}");
        let dir = tempfile::tempdir().unwrap();
        Place { driver: driver(&cgroup), dir, cgroup, mark: format!("QUELEA_TEST_MARK={unique}") }
    }

    pub fn launch(&self, task: &str, command: &[&str]) -> Launch {
        let (name, value) = self.mark.split_once('=').unwrap();
        Launch {
            task: task.into(),
            program: "main".into(),
            dir: self.dir.path().join("tasks").join(task),
            run_dir: self.dir.path().join("run"),
            command: command.iter().map(|s| s.to_string()).collect(),
            env: vec![(name.into(), value.into())],
            cwd: None,
            user: None,
            limits: Limits::default(),
            stop_signal: 15,
            stop_grace: Duration::from_secs(10),
            log: LogOptions::default(),
        }
    }

    pub fn sh(&self, task: &str, script: &str) -> Launch {
        self.launch(task, &["sh", "-c", script])
    }

    /// Starts, waits, and returns the end with what was written.
    pub async fn run(&self, launch: Launch) -> (Exit, String) {
        let key = Key::of(&launch);
        self.driver.start(launch).await.unwrap();
        let exit = self.driver.wait(key.clone()).await.unwrap();
        (exit, output(&key))
    }

    /// Every living process with our mark.
    pub fn processes(&self) -> BTreeSet<i32> {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|s| s.parse().ok()) else {
                continue;
            };
            let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environ.split(|b| *b == 0).any(|var| var == self.mark.as_bytes()) {
                found.insert(pid);
            }
        }
        found
    }

    /// Every supervisor whose state is kept here.
    pub fn supervisors(&self) -> BTreeSet<i32> {
        let here = self.dir.path().to_str().unwrap();
        let mut found = BTreeSet::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|s| s.parse().ok()) else {
                continue;
            };
            let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            if line.contains("\0supervise\0") && line.contains(here) {
                found.insert(pid);
            }
        }
        found
    }

    /// All cgroup directories of this place, in every hierarchy.
    pub fn cgroups(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        collect(Path::new("/sys/fs/cgroup"), &self.cgroup, 8, &mut found);
        found
    }

    /// Removes the programs and checks by count that nothing is left.
    pub async fn nothing_remains(&self, keys: &[Key]) {
        for key in keys {
            self.driver.remove(key.clone(), KeepLogs::No).await.unwrap();
        }
        self.driver.shut_down().await.unwrap();
        eventually("no process is left", || self.processes().is_empty() && self.supervisors().is_empty());
        assert_eq!(self.cgroups(), Vec::<PathBuf>::new());
        let mut files = Vec::new();
        for dir in ["tasks", "run"] {
            let entries = fs::read_dir(self.dir.path().join(dir)).into_iter().flatten().flatten();
            files.extend(entries.map(|e| e.path()));
        }
        assert_eq!(files, Vec::<PathBuf>::new());
    }
}

impl Drop for Place {
    /// A failed test leaves nothing running either.
    fn drop(&mut self) {
        for pid in self.supervisors().into_iter().chain(self.processes()) {
            kill(pid, libc::SIGKILL);
        }
        for dir in self.cgroups() {
            remove_groups(&dir);
        }
    }
}

/// Gives the kernel a moment to see that the groups are empty.
fn remove_groups(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            remove_groups(&entry.path());
        }
    }
    let until = Instant::now() + Duration::from_secs(2);
    while fs::remove_dir(dir).is_err() && dir.exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn driver(cgroup: &str) -> ExecDriver {
    driver_with(Some(cgroup))
}

fn driver_with(cgroup: Option<&str>) -> ExecDriver {
    ExecDriver::new(ExecOptions {
        supervisor: helper(),
        supervisor_args: vec!["supervise".into()],
        cgroup: cgroup.map(Into::into),
        soft_files: None,
    })
}

fn collect(dir: &Path, name: &str, depth: u32, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|t| t.is_dir()) || depth == 0 {
            continue;
        }
        if entry.file_name() == name {
            found.push(entry.path());
        }
        collect(&entry.path(), name, depth - 1, found);
    }
}

pub fn output(key: &Key) -> String {
    let mut reader = drivers::logs::LogReader::open(&key.dir, &key.program, Default::default()).unwrap();
    let mut text = Vec::new();
    loop {
        let batch = reader.read_batch().unwrap();
        if batch.is_empty() {
            return String::from_utf8_lossy(&text).into_owned();
        }
        for record in batch {
            text.extend_from_slice(&record.text);
            if !record.partial {
                text.push(b'\n');
            }
        }
    }
}

#[track_caller]
pub fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !check() {
        assert!(Instant::now() < until, "it never came true that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn kill(pid: i32, signal: i32) {
    // SAFETY: kill takes plain numbers.
    unsafe { libc::kill(pid, signal) };
}

pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

pub fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}
