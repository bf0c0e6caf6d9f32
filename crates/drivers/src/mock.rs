//! A driver that runs nothing and does as the launch's environment tells it: for tests, and for benches with
//! thousands of tasks. It remembers programs in memory only, so after a restart of its process it knows none.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `MOCK_EXIT_AFTER_MS` | ends by itself after so many milliseconds; never when absent |
//! | `MOCK_EXIT_CODE` | with this code; 0 when absent |
//! | `MOCK_START_ERROR` | the start fails with this text |
//! | `MOCK_IGNORE_STOP` | `1`: ignores the stop signal and ends only when the grace period is over |

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::time::Instant;

use crate::driver::{Attached, BoxFuture, Driver, DriverInfo, Exit, KeepLogs, Key, Launch, Started};
use crate::error::DriverError;

/// The driver called `mock`.
#[derive(Clone, Default)]
pub struct MockDriver {
    programs: Arc<Mutex<Programs>>,
}

#[derive(Default)]
struct Programs {
    by_key: BTreeMap<Key, Program>,
    /// Counts up, so that a restarted program has another pid.
    last_pid: u32,
}

/// One pretended program. Its end is decided by `end`; whoever looks after that instant sees it ended, so no
/// timer is needed for programs that nobody waits for.
struct Program {
    started: Started,
    script: Script,
    stop_signal: i32,
    stop_grace: Duration,
    end: watch::Sender<End>,
}

/// When and how a program is going to end, or has.
#[derive(Clone, Debug)]
struct End {
    at: Option<Instant>,
    at_unix_ns: i64,
    exit: Exit,
}

struct Script {
    exit_after: Option<Duration>,
    exit_code: i32,
    ignore_stop: bool,
}

impl MockDriver {
    /// A driver that has started nothing yet.
    pub fn new() -> MockDriver {
        MockDriver::default()
    }

    /// How many programs it remembers, ended ones included.
    pub fn len(&self) -> usize {
        self.lock().by_key.len()
    }

    /// Whether it remembers none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Programs> {
        // Nothing panics while the lock is held half-way through a change.
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_now(&self, launch: Launch) -> Result<Started, DriverError> {
        launch.check()?;
        let script = Script::read(&launch.env)?;
        let mut programs = self.lock();
        if let Some(program) = programs.by_key.get(&Key::of(&launch)) {
            return Ok(Started { attached: true, ..program.started.clone() });
        }
        programs.last_pid += 1;
        let now = unix_ns();
        let started =
            Started { pid: programs.last_pid, started_at_unix_ns: now, notes: Vec::new(), attached: false };
        let after = script.exit_after;
        let code = script.exit_code;
        let end = End::planned(after, now, Some(code), None, format!("exited with code {code}"));
        programs.by_key.insert(
            Key::of(&launch),
            Program {
                started: started.clone(),
                script,
                stop_signal: launch.stop_signal,
                stop_grace: launch.stop_grace,
                end: watch::Sender::new(end),
            },
        );
        Ok(started)
    }

    fn attach_now(&self, key: &Key) -> Attached {
        let programs = self.lock();
        let Some(program) = programs.by_key.get(key) else {
            return Attached::Never;
        };
        let started = Started { attached: true, ..program.started.clone() };
        match program.end.borrow().reached() {
            Some(exit) => Attached::Exited(started, exit),
            None => Attached::Running(started),
        }
    }

    /// Moves the end of a program that still runs to the given instant, if that is earlier.
    fn end_within(&self, key: &Key, how: Ending) -> Result<(), DriverError> {
        let programs = self.lock();
        let program = programs.by_key.get(key).ok_or_else(|| unknown(key))?;
        let (after, signal) = match how {
            Ending::Kill => (Duration::ZERO, libc::SIGKILL),
            Ending::Stop(grace) if program.script.ignore_stop => {
                (grace.unwrap_or(program.stop_grace), libc::SIGKILL)
            }
            Ending::Stop(_) => (Duration::ZERO, program.stop_signal),
        };
        let reason = format!("killed by signal {signal}");
        let end = End::planned(Some(after), unix_ns(), None, Some(signal), reason);
        program.end.send_if_modified(|current| {
            let sooner = current.at.is_none_or(|at| end.at.is_some_and(|new| new < at));
            if sooner {
                *current = end;
            }
            sooner
        });
        Ok(())
    }
}

enum Ending {
    Stop(Option<Duration>),
    Kill,
}

impl End {
    fn planned(
        after: Option<Duration>,
        now_unix_ns: i64,
        code: Option<i32>,
        signal: Option<i32>,
        reason: String,
    ) -> End {
        let delay = after.unwrap_or_default();
        let at_unix_ns = now_unix_ns.saturating_add(delay.as_nanos().try_into().unwrap_or(i64::MAX));
        End {
            at: after.map(|after| Instant::now() + after),
            at_unix_ns,
            exit: Exit { code, signal, oom: false, lost: false, at_unix_ns, reason },
        }
    }

    fn reached(&self) -> Option<Exit> {
        let reached = self.at.is_some_and(|at| at <= Instant::now());
        reached.then(|| Exit { at_unix_ns: self.at_unix_ns, ..self.exit.clone() })
    }
}

impl Script {
    fn read(env: &[(String, String)]) -> Result<Script, DriverError> {
        let mut script = Script { exit_after: None, exit_code: 0, ignore_stop: false };
        for (name, value) in env {
            match name.as_str() {
                "MOCK_EXIT_AFTER_MS" => {
                    script.exit_after = Some(Duration::from_millis(number(name, value)?.into()));
                }
                "MOCK_EXIT_CODE" => {
                    let code: u8 = number(name, value)?.try_into().map_err(|_| {
                        DriverError::invalid("env", format!("{name}: {value} is more than 255"))
                    })?;
                    script.exit_code = code.into();
                }
                "MOCK_START_ERROR" => return Err(DriverError::Start(value.clone())),
                "MOCK_IGNORE_STOP" => script.ignore_stop = value == "1",
                _ => {}
            }
        }
        Ok(script)
    }
}

fn number(name: &str, value: &str) -> Result<u32, DriverError> {
    value.parse().map_err(|_| DriverError::invalid("env", format!("{name}: {value:?} is no number")))
}

impl Driver for MockDriver {
    fn name(&self) -> &'static str {
        "mock"
    }

    fn inspect(&self) -> DriverInfo {
        DriverInfo { healthy: true, notes: vec!["nothing really runs: the mock driver is for tests".into()] }
    }

    fn start(&self, launch: Launch) -> BoxFuture<Result<Started, DriverError>> {
        let result = self.start_now(launch);
        Box::pin(async move { result })
    }

    fn attach(&self, key: Key) -> BoxFuture<Result<Attached, DriverError>> {
        let found = self.attach_now(&key);
        Box::pin(async move { Ok(found) })
    }

    fn wait(&self, key: Key) -> BoxFuture<Result<Exit, DriverError>> {
        let end = self.lock().by_key.get(&key).map(|p| p.end.subscribe());
        Box::pin(async move {
            let mut end = end.ok_or_else(|| unknown(&key))?;
            loop {
                let now = end.borrow_and_update().clone();
                if let Some(exit) = now.reached() {
                    return Ok(exit);
                }
                let changed = end.changed();
                let gone = match now.at {
                    Some(at) => match tokio::time::timeout_at(at, changed).await {
                        Ok(changed) => changed.is_err(),
                        Err(_) => false,
                    },
                    None => changed.await.is_err(),
                };
                if gone {
                    return end.borrow().reached().ok_or_else(|| unknown(&key));
                }
            }
        })
    }

    fn stop(&self, key: Key, grace: Option<Duration>) -> BoxFuture<Result<(), DriverError>> {
        let result = self.end_within(&key, Ending::Stop(grace));
        Box::pin(async move { result })
    }

    fn kill(&self, key: Key) -> BoxFuture<Result<(), DriverError>> {
        let result = self.end_within(&key, Ending::Kill);
        Box::pin(async move { result })
    }

    fn remove(&self, key: Key, _logs: KeepLogs) -> BoxFuture<Result<(), DriverError>> {
        // There are no logs. Whoever still waits is told of the end first.
        let _ = self.end_within(&key, Ending::Kill);
        self.lock().by_key.remove(&key);
        Box::pin(async move { Ok(()) })
    }

    fn shut_down(&self) -> BoxFuture<Result<(), DriverError>> {
        Box::pin(async move { Ok(()) })
    }
}

fn unknown(key: &Key) -> DriverError {
    DriverError::Unknown { task: key.task.clone(), program: key.program.clone() }
}

fn unix_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos().try_into().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Limits, LogOptions};

    fn launch(env: &[(&str, &str)]) -> Launch {
        Launch {
            task: "t".into(),
            program: "main".into(),
            dir: "/none".into(),
            run_dir: "/none".into(),
            command: vec!["x".into()],
            env: env.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            cwd: None,
            user: None,
            limits: Limits::default(),
            stop_signal: 15,
            stop_grace: Duration::from_secs(10),
            log: LogOptions::default(),
        }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn a_program_ends_as_scripted() {
        run(async {
            let driver = MockDriver::new();
            let launch = launch(&[("MOCK_EXIT_AFTER_MS", "500"), ("MOCK_EXIT_CODE", "3")]);
            let key = Key::of(&launch);
            let first = driver.start(launch.clone()).await.unwrap();
            let second = driver.start(launch).await.unwrap();
            assert_eq!((first.pid, second.attached), (second.pid, true));
            assert!(matches!(driver.attach(key.clone()).await, Ok(Attached::Running(_))));
            let begun = Instant::now();
            let exit = driver.wait(key.clone()).await.unwrap();
            assert_eq!(exit.code, Some(3));
            assert_eq!(begun.elapsed().as_millis(), 500);
            assert!(matches!(driver.attach(key.clone()).await, Ok(Attached::Exited(..))));
            driver.remove(key.clone(), KeepLogs::No).await.unwrap();
            assert_eq!(driver.attach(key).await.unwrap(), Attached::Never);
        });
    }

    #[test]
    fn stop_kill_and_grace() {
        run(async {
            let driver = MockDriver::new();
            let polite = launch(&[]);
            let key = Key::of(&polite);
            driver.start(polite).await.unwrap();
            driver.stop(key.clone(), None).await.unwrap();
            assert_eq!(driver.wait(key.clone()).await.unwrap().signal, Some(15));
            driver.remove(key.clone(), KeepLogs::No).await.unwrap();

            driver.start(launch(&[("MOCK_IGNORE_STOP", "1")])).await.unwrap();
            driver.stop(key.clone(), Some(Duration::from_secs(2))).await.unwrap();
            let begun = Instant::now();
            assert_eq!(driver.wait(key.clone()).await.unwrap().signal, Some(9));
            assert_eq!(begun.elapsed().as_secs(), 2);
        });
    }

    #[test]
    fn a_waiter_sees_the_end_that_remove_makes() {
        run(async {
            let driver = MockDriver::new();
            let launch = launch(&[]);
            let key = Key::of(&launch);
            driver.start(launch).await.unwrap();
            let waiting = driver.wait(key.clone());
            driver.remove(key, KeepLogs::No).await.unwrap();
            assert_eq!(waiting.await.unwrap().signal, Some(9));
        });
    }

    #[test]
    fn bad_scripts_are_refused() {
        run(async {
            let driver = MockDriver::new();
            let errors = [
                ([("MOCK_EXIT_AFTER_MS", "soon")], "env: MOCK_EXIT_AFTER_MS: \"soon\" is no number"),
                ([("MOCK_EXIT_CODE", "300")], "env: MOCK_EXIT_CODE: 300 is more than 255"),
                ([("MOCK_START_ERROR", "no such image")], "no such image"),
            ];
            for (env, wanted) in errors {
                let error = driver.start(launch(&env)).await.unwrap_err();
                assert_eq!(error.to_string(), wanted);
            }
            assert!(driver.is_empty());
        });
    }
}
