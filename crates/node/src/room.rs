//! The agent's room: feeds the agent what happened, and carries out what it wants done.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::{Agent, DriverEvent, Effect, Exit, Input, Launch, ProgramRef};
use drivers::{Attached, Driver, DriverError, KeepLogs, Key};
use manager::Input as PlaneInput;
use model::sync::Assignment;
use model::{Description, DriverKind, NodeId, Span, Time};
use tokio::sync::{mpsc, watch};

use crate::clock;
use crate::leading::Heard;
use crate::plane::Connections;
use crate::records::{DiskJob, task_dir};
use crate::volumes;

/// How long to wait before a driver that gave no answer about a program is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// UTC from a steady clock: it never goes back, whatever happens to the machine's.
#[derive(Clone, Copy, Debug)]
pub struct SteadyClock {
    start: Time,
    since: Instant,
}

impl SteadyClock {
    /// A clock that agrees with the machine's now.
    pub fn new() -> Self {
        Self { start: clock::now(), since: Instant::now() }
    }

    /// The time now.
    pub fn now(&self) -> Time {
        self.start + Span(i64::try_from(self.since.elapsed().as_nanos()).unwrap_or(i64::MAX))
    }

    fn at(&self, time: Time) -> Instant {
        let ahead = u64::try_from(time.since(self.start).0).unwrap_or(0);
        self.since + Duration::from_nanos(ahead)
    }
}

/// What the agent needs around it.
pub struct Room {
    /// The node it runs on.
    pub node: NodeId,
    /// What runs programs.
    pub drivers: BTreeMap<DriverKind, Arc<dyn Driver>>,
    /// Where the tasks' directories lie.
    pub tasks: PathBuf,
    /// Where control sockets lie.
    pub run: PathBuf,
    /// What this machine is, with the volumes that it offers.
    pub description: Arc<Description>,
    /// The way to the disk thread.
    pub disk: std::sync::mpsc::Sender<DiskJob>,
    /// The way to the control plane.
    pub plane: std::sync::mpsc::Sender<Heard>,
    /// Where the control plane's answers come from.
    pub connections: Connections,
    /// What happens, from everywhere.
    pub inputs: mpsc::UnboundedSender<Input>,
    /// Becomes true once every task has ended after an orderly stop.
    pub stopped: watch::Sender<bool>,
}

impl Room {
    /// Runs the agent until nobody can reach it any more.
    pub async fn run(
        self,
        clock: SteadyClock,
        mut agent: Agent,
        first: Vec<Effect>,
        mut inputs: mpsc::UnboundedReceiver<Input>,
    ) {
        for effect in first {
            self.carry_out(effect);
        }
        loop {
            let wake = agent.next_wake().map(|t| clock.at(t));
            let input = tokio::select! {
                input = inputs.recv() => match input {
                    Some(input) => input,
                    None => return,
                },
                () = sleep_until(wake) => Input::Tick,
            };
            for effect in agent.step(clock.now(), input) {
                self.carry_out(effect);
            }
        }
    }

    fn carry_out(&self, effect: Effect) {
        match effect {
            Effect::Connect { connection, after } => self.connect(connection, after),
            Effect::Send { connection, message } => {
                let message =
                    PlaneInput::Agent { node: self.node, conn: connection, address: "".into(), message };
                // A control plane that has ended answers nothing: the agent's patience runs out.
                let _ = self.plane.send(message.into());
            }
            Effect::Persist(record) => drop(self.disk.send(DiskJob::Write(record))),
            Effect::Forget { task } => drop(self.disk.send(DiskJob::Delete(task))),
            Effect::Start(launch) => self.start(&launch),
            Effect::Attach(program) => self.attach(program),
            Effect::Stop { program, grace } => self.stop(&program, Some(grace)),
            Effect::Kill(program) => self.stop(&program, None),
            Effect::Remove(program) => self.remove(program),
            Effect::Stopped => drop(self.stopped.send_replace(true)),
        }
    }

    /// Inside one process there is nothing to dial: a connection is a channel.
    fn connect(&self, connection: u64, after: Span) {
        let (inputs, connections) = (self.inputs.clone(), self.connections.clone());
        tokio::spawn(async move {
            tokio::time::sleep(to_duration(after)).await;
            let mut from_manager = connections.open(connection);
            let _ = inputs.send(Input::Connected { connection });
            while let Some(message) = from_manager.recv().await {
                if inputs.send(Input::Message { connection, message }).is_err() {
                    return;
                }
            }
        });
    }

    fn driver(&self, program: &ProgramRef) -> Option<(Arc<dyn Driver>, Key)> {
        let driver = Arc::clone(self.drivers.get(&program.driver)?);
        let dir = task_dir(&self.tasks, &program.task)?;
        Some((driver, Key { dir, task: program.task.to_string(), program: program.program.to_string() }))
    }

    fn answer(&self, program: ProgramRef, event: DriverEvent) {
        let _ = self.inputs.send(Input::Driver { program, event });
    }

    fn start(&self, launch: &Launch) {
        let program = launch.program.clone();
        let Some((driver, key)) = self.driver(&program) else {
            let message = format!("this node has no driver {}", program.driver.as_str()).into();
            return self.answer(program, DriverEvent::StartFailed { message, retryable: false });
        };
        let assignment = Arc::clone(&launch.assignment);
        let mut launch = self.translate(launch, &key);
        let inputs = self.inputs.clone();
        let description = Arc::clone(&self.description);
        tokio::spawn(async move {
            if let Err(problem) = tell_volumes(&mut launch, assignment, description).await {
                let event = DriverEvent::StartFailed { message: problem.into(), retryable: false };
                let _ = inputs.send(Input::Driver { program, event });
                return;
            }
            let event = match driver.start(launch).await {
                Ok(started) => DriverEvent::Started {
                    pid: started.pid,
                    at: Time(started.started_at_unix_ns),
                    notes: started.notes.into_iter().map(Into::into).collect(),
                },
                Err(error) => {
                    let retryable = matches!(error, DriverError::Io { .. } | DriverError::Supervisor { .. });
                    DriverEvent::StartFailed { message: error.to_string().into(), retryable }
                }
            };
            let runs = matches!(event, DriverEvent::Started { .. });
            let _ = inputs.send(Input::Driver { program: program.clone(), event });
            if runs {
                watch_end(&*driver, key, program, &inputs).await;
            }
        });
    }

    fn translate(&self, launch: &Launch, key: &Key) -> drivers::Launch {
        let spec = launch.spec();
        let amount = |n: i64| u64::try_from(n).unwrap_or(0);
        drivers::Launch {
            task: key.task.clone(),
            program: key.program.clone(),
            dir: key.dir.clone(),
            run_dir: self.run.clone(),
            command: spec.command.iter().map(ToString::to_string).collect(),
            env: launch.env.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            cwd: spec.dir.as_deref().map(PathBuf::from),
            user: spec.user.as_deref().map(str::to_owned),
            limits: drivers::Limits {
                nano_cpus: amount(spec.limits.nano_cpus),
                memory_bytes: amount(spec.limits.memory),
                pids: amount(spec.limits.pids),
            },
            stop_signal: launch.stop_signal,
            stop_grace: to_duration(spec.stop_grace),
            log: drivers::LogOptions { max_bytes: spec.log.max_bytes, files: spec.log.files },
        }
    }

    fn attach(&self, program: ProgramRef) {
        let Some((driver, key)) = self.driver(&program) else {
            return self.answer(program, DriverEvent::Never);
        };
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let event = match driver.attach(key.clone()).await {
                Ok(Attached::Running(started)) => DriverEvent::Attached {
                    pid: started.pid,
                    at: Time(started.started_at_unix_ns),
                    notes: started.notes.into_iter().map(Into::into).collect(),
                },
                Ok(Attached::Exited(started, exit)) => exited(exit, Time(started.started_at_unix_ns)),
                Ok(Attached::Lost { reason }) => {
                    DriverEvent::Lost { message: reason.into(), at: clock::now() }
                }
                Ok(Attached::Never) => DriverEvent::Never,
                Err(error) => DriverEvent::AttachFailed { message: error.to_string().into() },
            };
            let runs = matches!(event, DriverEvent::Attached { .. });
            let _ = inputs.send(Input::Driver { program: program.clone(), event });
            if runs {
                watch_end(&*driver, key, program, &inputs).await;
            }
        });
    }

    /// Asks a program to end within `grace`, or kills it.
    fn stop(&self, program: &ProgramRef, grace: Option<Span>) {
        let Some((driver, key)) = self.driver(program) else { return };
        tokio::spawn(async move {
            let task = key.task.clone();
            let asked = match grace {
                Some(grace) => driver.stop(key, Some(to_duration(grace))).await,
                None => driver.kill(key).await,
            };
            // What stopping leads to is the end of the program, which is watched already.
            if let Err(error) = asked {
                tracing::warn!(%task, %error, "a program could not be asked to end");
            }
        });
    }

    fn remove(&self, program: ProgramRef) {
        let Some((driver, key)) = self.driver(&program) else {
            return self.answer(program, DriverEvent::Removed);
        };
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let event = match driver.remove(key, KeepLogs::Yes).await {
                Ok(()) => DriverEvent::Removed,
                Err(error) => DriverEvent::RemoveFailed { message: error.to_string().into() },
            };
            let _ = inputs.send(Input::Driver { program, event });
        });
    }
}

/// Adds the variables that tell a program where its volumes are. Looks at their directories, which may take long where they
/// are on another machine.
async fn tell_volumes(
    launch: &mut drivers::Launch,
    assignment: Arc<Assignment>,
    description: Arc<Description>,
) -> Result<(), String> {
    if assignment.spec.mounts.is_empty() {
        return Ok(());
    }
    let look = move || volumes::variables(&description.volumes, &assignment.spec.mounts);
    let told = tokio::task::spawn_blocking(look).await.map_err(|e| format!("volumes: {e}"))??;
    launch.env.retain(|(name, _)| told.iter().all(|(ours, _)| ours != name));
    launch.env.extend(told);
    Ok(())
}

/// Waits for the end of a program and tells the agent.
async fn watch_end(
    driver: &dyn Driver,
    key: Key,
    program: ProgramRef,
    inputs: &mpsc::UnboundedSender<Input>,
) {
    let event = loop {
        match driver.wait(key.clone()).await {
            Ok(exit) => break exited(exit, Time::ZERO),
            Err(DriverError::Lost { reason }) => {
                break DriverEvent::Lost { message: reason.into(), at: clock::now() };
            }
            // Removed meanwhile: nobody waits for its end any more.
            Err(DriverError::Unknown { .. }) => return,
            Err(error) => {
                tracing::warn!(task = %key.task, %error, "waiting for the end of a program");
                tokio::time::sleep(ASK_AGAIN).await;
            }
        }
    };
    let _ = inputs.send(Input::Driver { program, event });
}

fn exited(exit: drivers::Exit, started_at: Time) -> DriverEvent {
    let at = Time(exit.at_unix_ns);
    if exit.lost {
        return DriverEvent::Lost { message: exit.reason.into(), at };
    }
    DriverEvent::Exited(Exit {
        code: exit.code,
        signal: exit.signal,
        oom: exit.oom,
        at,
        started_at,
        message: exit.reason.into(),
    })
}

fn to_duration(span: Span) -> Duration {
    Duration::from_nanos(u64::try_from(span.0).unwrap_or(0))
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
