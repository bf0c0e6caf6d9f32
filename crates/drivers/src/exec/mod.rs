//! The driver called `exec`: plain processes of this machine, each under a supervisor.
//!
//! Nothing is kept in memory. What a call needs to know it reads from the program's state directory, or asks the
//! supervisor; so a daemon that has just been started does the same as one that started the programs.

mod client;
mod find;

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::Semaphore;

use crate::cgroup::Layout;
use crate::driver::{
    Attached, BoxFuture, Driver, DriverInfo, Exit, KeepLogs, Key, Launch, MAX_GRACE, MAX_LOG_FILES, Started,
};
use crate::error::DriverError;
use crate::logs;
use crate::procfs::boot_id;
use crate::protocol::Request;
use crate::record::{LaunchRecord, PROTOCOL, StateDir, TryLock};
use crate::supervise::Report;
use find::Found;

/// How many calls that block (files, spawning) run at a time: two hundred at once would only wait for the same disk.
const MAX_BLOCKING: usize = 16;
/// How long a supervisor may take to get a program running, or to answer at all, before we give up on it. A machine
/// under load may need seconds; a program file on a dead network disk takes for ever.
const START_TIME: Duration = Duration::from_secs(30);
const START_PAUSE: Duration = Duration::from_millis(10);
/// How long a program's supervisor may take to clean up before removing it fails.
const REMOVE_TIME: Duration = Duration::from_secs(30);
const REMOVE_PAUSE: Duration = Duration::from_millis(3);
/// How long nothing may have happened in what another instance left before it is removed. One that lives and starts a program at
/// this very moment is not to be disturbed.
const SWEEP_AGE: Duration = Duration::from_secs(30);

/// What lists of processes show: `/proc/self/exe` would tell nobody anything.
const SUPERVISOR_NAME: &str = "quelea-supervisor";

/// How the driver is set up.
#[derive(Clone, Debug)]
pub struct ExecOptions {
    /// The program file of the supervisor; `/proc/self/exe` in the product, so that an upgrade on disk is no matter.
    pub supervisor: PathBuf,
    /// What stands before the state directory in its arguments: `supervise` in the product.
    pub supervisor_args: Vec<OsString>,
    /// The name of this instance's cgroup directory, e.g. `quelea-<instance>`; one path component. Without it no
    /// cgroup is made: programs are tracked by their parents, and limits are notes.
    pub cgroup: Option<String>,
    /// How many files a program may have open unless it asks for more (its soft limit): a daemon that raised its own limit
    /// does not hand that on. What the daemon has when absent.
    pub soft_files: Option<u64>,
}

/// The driver called `exec`.
#[derive(Clone)]
pub struct ExecDriver {
    shared: Arc<Shared>,
}

struct Shared {
    options: ExecOptions,
    layout: OnceLock<Layout>,
    blocking: Arc<Semaphore>,
}

impl ExecDriver {
    /// Costs nothing: the machine is looked at when it is needed.
    pub fn new(options: ExecOptions) -> ExecDriver {
        let blocking = Arc::new(Semaphore::new(MAX_BLOCKING));
        ExecDriver { shared: Arc::new(Shared { options, layout: OnceLock::new(), blocking }) }
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, DriverError> + Send + 'static,
    ) -> BoxFuture<Result<T, DriverError>> {
        let shared = self.shared.clone();
        Box::pin(async move { shared.run(work).await })
    }
}

impl Shared {
    /// Runs blocking work on a thread for such, a limited number at a time.
    async fn run<T: Send + 'static>(
        self: Arc<Self>,
        work: impl FnOnce(&Shared) -> Result<T, DriverError> + Send + 'static,
    ) -> Result<T, DriverError> {
        let turn = self.blocking.clone().acquire_owned().await;
        let joined = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&self)
        });
        match joined.await {
            Ok(result) => result,
            Err(error) => Err(DriverError::Start(format!("driver: {error}"))),
        }
    }

    fn layout(&self) -> &Layout {
        self.layout.get_or_init(|| self.options.cgroup.as_deref().map(Layout::detect).unwrap_or_default())
    }

    fn start(&self, launch: &Launch) -> Result<Started, DriverError> {
        launch.check()?;
        let key = Key::of(launch);
        let until = Instant::now() + START_TIME;
        while Instant::now() < until {
            match find::look(&key)? {
                Found::Never => {}
                Found::Starting => {
                    std::thread::sleep(START_PAUSE);
                    continue;
                }
                Found::Running(started) | Found::Exited(started, _) => return Ok(started),
                Found::Lost(reason) => return Err(DriverError::Lost { reason }),
            }
            match self.spawn(launch, until)? {
                Report::Started { pid, started_at_unix_ns, notes } => {
                    return Ok(Started { pid, started_at_unix_ns, notes, attached: false });
                }
                Report::Failed(reason) => return Err(DriverError::Start(reason)),
                // Somebody was faster, or had a look at the same moment.
                Report::Taken => std::thread::sleep(START_PAUSE),
            }
        }
        Err(find::supervisor_error(&key, "neither starts the program nor lets go of it"))
    }

    /// Writes the launch record, spawns the supervisor and hears what became of it.
    fn spawn(&self, launch: &Launch, until: Instant) -> Result<Report, DriverError> {
        let state = StateDir::new(&launch.dir, &launch.program);
        let layout = self.layout().clone();
        // Where this fails the program gets no cgroup, and a note about it.
        let _ = layout.prepare();
        fs::create_dir_all(&launch.run_dir).map_err(DriverError::io(&launch.run_dir))?;
        let boot_id = boot_id().map_err(DriverError::io("/proc/sys/kernel/random/boot_id".as_ref()))?;
        let soft_files = self.options.soft_files;
        let record = LaunchRecord { protocol: PROTOCOL, boot_id, launch: launch.clone(), layout, soft_files };
        if !state.write_launch(&record).map_err(DriverError::io(state.path()))? {
            return Ok(Report::Taken);
        }

        let log = state.path().join("supervisor.log");
        let log = OpenOptions::new().create(true).append(true).open(&log).map_err(DriverError::io(&log))?;
        let program = &self.options.supervisor;
        let mut child = Command::new(program)
            .arg0(SUPERVISOR_NAME)
            .args(&self.options.supervisor_args)
            .arg(state.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(DriverError::io(program))?;
        let heard = child.stdout.take().map_or(Ok(None), |stdout| hear(stdout, until));
        // What we spawned has only forked the supervisor and is gone by now, or is about to be.
        child.wait().map_err(DriverError::io(program))?;
        let Some(line) = heard.map_err(DriverError::io(program))? else {
            return Ok(Report::Taken);
        };
        serde_json::from_str(&line).map_err(|_| {
            find::supervisor_error(&Key::of(launch), "ended without a report; see supervisor.log")
        })
    }

    /// Removes all but, on demand, the logs. The program has ended or never ran.
    fn clear(&self, key: &Key, logs: KeepLogs) -> Result<(), DriverError> {
        let until = Instant::now() + REMOVE_TIME;
        let state = StateDir::new(&key.dir, &key.program);
        while state.path().exists() {
            match state.try_lock().map_err(DriverError::io(state.path()))? {
                TryLock::Held if Instant::now() < until => std::thread::sleep(REMOVE_PAUSE),
                TryLock::Held => return Err(find::supervisor_error(key, "does not end")),
                // Without a lock there is no launch record either: an earlier removal did not come to its end.
                _lock_or_none => {
                    find::sweep(&state)?;
                    state.remove().map_err(DriverError::io(state.path()))?;
                }
            }
        }
        if logs == KeepLogs::No {
            for age in 0..MAX_LOG_FILES {
                match fs::remove_file(logs::path(&key.dir, &key.program, age)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound && age > 0 => break,
                    _ => {}
                }
            }
        }
        // Only when nothing else is in it: other programs, or logs.
        let _ = fs::remove_dir(&key.dir);
        Ok(())
    }

    async fn wait(self: Arc<Self>, key: Key) -> Result<Exit, DriverError> {
        loop {
            let asked = key.clone();
            match self.clone().run(move |_| find::look(&asked)).await? {
                Found::Never => return Err(find::unknown(&key)),
                Found::Exited(_, exit) => return Ok(exit),
                Found::Lost(reason) => return find::lost_exit(&key, reason),
                Found::Starting => {}
                Found::Running(_) => {
                    if let Some(exit) = client::wait(&key).await {
                        return Ok(exit);
                    }
                }
            }
            // It ended without telling us, or is about to listen: the files know.
            tokio::time::sleep(START_PAUSE).await;
        }
    }

    /// Sends a request to the supervisor of a program; nothing to do if that has ended.
    async fn ask(
        self: Arc<Self>,
        key: Key,
        request: impl Fn(&Launch) -> Request + Send + 'static,
    ) -> Result<(), DriverError> {
        let until = Instant::now() + START_TIME;
        while Instant::now() < until {
            let asked = key.clone();
            match self.clone().run(move |_| find::look(&asked)).await? {
                Found::Never => return Err(find::unknown(&key)),
                Found::Exited(..) | Found::Lost(_) => return Ok(()),
                Found::Starting => {}
                Found::Running(_) => {
                    let request = request(&find::launch(&key)?);
                    if client::ask(&key, request).await {
                        return Ok(());
                    }
                }
            }
            tokio::time::sleep(START_PAUSE).await;
        }
        Err(find::silent(&key))
    }
}

/// The supervisor's report; `None` when it does not come in time.
fn hear(stdout: ChildStdout, until: Instant) -> io::Result<Option<String>> {
    let left = until.saturating_duration_since(Instant::now());
    let mut fds = [PollFd::new(&stdout, PollFlags::IN)];
    if poll(&mut fds, Timespec::try_from(left).ok().as_ref())? == 0 {
        return Ok(None);
    }
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    Ok(Some(line))
}

impl Driver for ExecDriver {
    fn name(&self) -> &'static str {
        "exec"
    }

    fn inspect(&self) -> DriverInfo {
        let layout = self.shared.layout();
        let mut notes = Vec::new();
        if let Err(error) = layout.prepare() {
            notes.push(format!("no cgroup can be made: {}", crate::error::plain(&error)));
        }
        notes.extend(layout.notes());
        layout.sweep(SWEEP_AGE);
        let healthy = self.shared.options.supervisor.exists();
        if !healthy {
            notes.push(format!("the supervisor {} is missing", self.shared.options.supervisor.display()));
        }
        DriverInfo { healthy, notes }
    }

    fn start(&self, launch: Launch) -> BoxFuture<Result<Started, DriverError>> {
        self.run(move |shared| shared.start(&launch))
    }

    fn attach(&self, key: Key) -> BoxFuture<Result<Attached, DriverError>> {
        self.run(move |_| {
            key.check()?;
            let until = Instant::now() + START_TIME;
            while Instant::now() < until {
                return Ok(match find::look(&key)? {
                    Found::Never => Attached::Never,
                    Found::Running(started) => Attached::Running(started),
                    Found::Exited(started, exit) => Attached::Exited(started, exit),
                    Found::Lost(reason) => Attached::Lost { reason },
                    Found::Starting => {
                        std::thread::sleep(START_PAUSE);
                        continue;
                    }
                });
            }
            Err(find::supervisor_error(&key, "does not get it running"))
        })
    }

    fn wait(&self, key: Key) -> BoxFuture<Result<Exit, DriverError>> {
        Box::pin(self.shared.clone().wait(key))
    }

    fn stop(&self, key: Key, grace: Option<Duration>) -> BoxFuture<Result<(), DriverError>> {
        Box::pin(self.shared.clone().ask(key, move |launch| {
            let grace = grace.unwrap_or(launch.stop_grace).min(MAX_GRACE);
            Request::Stop { signal: launch.stop_signal, grace_ms: grace.as_millis() as u64 }
        }))
    }

    fn kill(&self, key: Key) -> BoxFuture<Result<(), DriverError>> {
        Box::pin(self.shared.clone().ask(key, |_| Request::Kill))
    }

    fn remove(&self, key: Key, logs: KeepLogs) -> BoxFuture<Result<(), DriverError>> {
        let shared = self.shared.clone();
        Box::pin(async move {
            key.check()?;
            match shared.clone().ask(key.clone(), |_| Request::Kill).await {
                Ok(()) | Err(DriverError::Unknown { .. }) => {}
                Err(error) => return Err(error),
            }
            shared.run(move |shared| shared.clear(&key, logs)).await
        })
    }

    fn shut_down(&self) -> BoxFuture<Result<(), DriverError>> {
        self.run(|shared| {
            shared.layout().remove();
            Ok(())
        })
    }
}
