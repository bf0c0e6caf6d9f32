//! What goes into the machine and what comes out of it: [`Input`] and [`Effect`].
//!
//! Whoever holds the agent carries effects out and feeds back what became of them. The contract:
//!
//! - Effects of one step are begun in their order; those of different tasks may run side by side, and answers may come in any order.
//! - Each [`Effect::Persist`] is answered by [`Input::Persisted`] (the record is synced) or [`Input::PersistFailed`]; there is never more than one
//!   under way for a task. Each [`Effect::Forget`] is answered by [`Input::Forgotten`].
//! - [`Effect::Start`] is answered by `Started` or `StartFailed`; [`Effect::Attach`] by `Attached`, `Exited`, `Lost`, `Never` or `AttachFailed`;
//!   [`Effect::Remove`] by `Removed` or `RemoveFailed`. After `Started` or `Attached` comes one `Exited` or `Lost`, whenever the program ends.
//!   `Stop` and `Kill` are not answered: what they lead to is the end of the program.
//! - Answers carry the [`ProgramRef`] of the effect unchanged; its `run` tells a late answer from a new one.
//! - [`Effect::Connect`] drops whatever connection there is, waits, and connects. Everything of a connection carries its number.

use std::sync::Arc;

use model::sync::{Assignment, TaskRef, ToAgent, ToManager};
use model::{Description, DriverKind, ProgramSpec, Span, Time};

use crate::record::Record;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// What the machine is: once at the start, and whenever it changes. Nothing is registered before the first.
    Described(Arc<Description>),
    /// The connection that [`Effect::Connect`] asked for is there.
    Connected {
        /// Its number.
        connection: u64,
    },
    /// The connection could not be made, or is gone.
    Disconnected {
        /// Its number.
        connection: u64,
        /// Why, for the status of the agent.
        reason: Arc<str>,
    },
    /// The manager spoke.
    Message {
        /// On this connection.
        connection: u64,
        /// What it said.
        message: ToAgent,
    },
    /// A driver answered, or a program ended.
    Driver {
        /// The program, as the effect named it.
        program: ProgramRef,
        /// What became of it.
        event: DriverEvent,
    },
    /// The task's record is on disk.
    Persisted {
        /// The task.
        task: TaskRef,
    },
    /// The task's record could not be written; it is tried again.
    PersistFailed {
        /// The task.
        task: TaskRef,
        /// Why, for people.
        message: Arc<str>,
    },
    /// The task's directory is gone (or could not be deleted, which changes nothing here: the manager is asked about it after
    /// the next start of the daemon).
    Forgotten {
        /// The task.
        task: TaskRef,
    },
    /// Time has passed: [`Agent::next_wake`](crate::Agent::next_wake) is reached.
    Tick,
    /// End every task in an orderly way and take no more. [`Effect::Stopped`] follows when all have ended.
    Stop {
        /// How long programs may take at most; the shorter of this and their own grace period counts.
        within: Span,
    },
}

/// What a driver says of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverEvent {
    /// It runs now.
    Started {
        /// The process, or zero where there is none.
        pid: u32,
        /// When it started.
        at: Time,
        /// What could not be done as asked, in sentences.
        notes: Vec<Arc<str>>,
    },
    /// It could not be started.
    StartFailed {
        /// Why, for people.
        message: Arc<str>,
        /// False when it does not run and never will. True when the reason may go by itself, or when it is not certain that it does not run:
        /// after a while the driver is asked what became of it, and then to start it again.
        retryable: bool,
    },
    /// It had been started before, and still runs.
    Attached {
        /// The process, or zero where there is none.
        pid: u32,
        /// When it started.
        at: Time,
        /// What could not be done as asked, in sentences.
        notes: Vec<Arc<str>>,
    },
    /// It ended.
    Exited(Exit),
    /// It ended, and nobody saw how; what was left of it has been killed.
    Lost {
        /// Why, for people.
        message: Arc<str>,
        /// When that was noticed.
        at: Time,
    },
    /// The driver has no trace of it: it never ran, or was removed.
    Never,
    /// The driver cannot say what became of it; it is asked again.
    AttachFailed {
        /// Why, for people.
        message: Arc<str>,
    },
    /// Every trace of it is gone, but its logs.
    Removed,
    /// Its traces could not be removed; it is tried again.
    RemoveFailed {
        /// Why, for people.
        message: Arc<str>,
    },
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Exit {
    /// Its exit code, when it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it, otherwise.
    pub signal: Option<i32>,
    /// True when the kernel killed it for want of memory.
    pub oom: bool,
    /// When it ended. The same end must be told with the same time after a restart of the daemon.
    pub at: Time,
    /// When it had started; zero when that is not known.
    pub started_at: Time,
    /// What the driver says of it; used when there is neither code nor signal.
    pub message: Arc<str>,
}

/// One run of one program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramRef {
    /// The task.
    pub task: TaskRef,
    /// The program's name in the task's spec.
    pub program: Arc<str>,
    /// What runs it.
    pub driver: DriverKind,
    /// Counts the starts and attachments of this program by this agent, from 1.
    pub run: u64,
}

/// Everything needed to start a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// What is started.
    pub program: ProgramRef,
    /// Its task, with the spec.
    pub assignment: Arc<Assignment>,
    /// Its place in the spec's list of programs.
    pub index: usize,
    /// The whole environment ([`environment`](crate::environment)).
    pub env: Vec<(Arc<str>, Arc<str>)>,
    /// The signal that shall ask it to end.
    pub stop_signal: i32,
}

impl Launch {
    /// The program's spec.
    pub fn spec(&self) -> &ProgramSpec {
        &self.assignment.spec.programs[self.index]
    }
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Drop the connection there is, wait, then connect to a manager.
    Connect {
        /// The number of the new connection.
        connection: u64,
        /// How long to wait before.
        after: Span,
    },
    /// Say this to the manager.
    Send {
        /// On this connection; if it is gone, drop the message.
        connection: u64,
        /// What to say.
        message: ToManager,
    },
    /// Write the task's record and sync it; the whole record replaces the one before.
    Persist(Box<Record>),
    /// Delete what is on disk of the task: its record first of all.
    Forget {
        /// The task.
        task: TaskRef,
    },
    /// Start a program that does not run.
    Start(Box<Launch>),
    /// Find out what became of a program, without starting it.
    Attach(ProgramRef),
    /// Ask a program to end, and kill it after the grace period. May come again with a shorter one.
    Stop {
        /// The program.
        program: ProgramRef,
        /// How long it may take.
        grace: Span,
    },
    /// Kill a program with all its descendants.
    Kill(ProgramRef),
    /// Remove every trace of an ended program (cgroup, sockets, state) but its logs. Kills what may be left of it.
    Remove(ProgramRef),
    /// After [`Input::Stop`]: every task has ended, its record is on disk and the traces of its programs are removed.
    Stopped,
}
