//! Waiting until services are as they were asked to be, and showing how it goes.
//!
//! A service is there when exactly its wanted tasks run, all of the current revision, have done so for [`STEADY`], and no
//! task of it has ended by itself within [`SETTLED`]. Waiting ends early, as failed, only when nothing of the service is
//! left that could still start. Tasks that end and are replaced, and tasks for which there is no node, are waited for until the
//! deadline, since what keeps them may go by itself; what happened and what comes next is shown whenever it changes. While an update
//! goes on, what ends is its affair: waiting ends when it pauses, or has been rolled back.
//!
//! A batch service is there when every run is complete; waiting ends as failed when it cannot complete any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use native_api::types::{
    Condition, JobState, JobStatus, RestartPolicy, Service, ServiceStatus, Task, UpdateState, UpdateStatus,
};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::client::{BLOCKING, Client, Route};
use crate::failure::Failure;
use crate::screen::{Screen, clip, plain, wrap};
use crate::table::Tone;
use crate::time;

/// How long a service must be as it should before that is believed: what fails at once mostly does so within it.
pub const STEADY: Duration = Duration::from_secs(1);
/// How long no task must have ended by itself before a service counts as steady: what docker takes to believe it.
pub const SETTLED: Duration = Duration::from_secs(5);
/// How often the picture is looked at when nothing is heard.
const TICK: Duration = Duration::from_millis(250);
/// How long nothing must have changed before tasks are looked at one by one.
const STILL: Duration = Duration::from_millis(500);

/// How the failure of a batch service goes on after its name.
pub const CANNOT_COMPLETE: &str = ": cannot complete any more: ";

/// What is waited for, and how.
#[derive(Debug)]
pub struct Wait {
    /// The services, by id and name.
    pub services: Vec<(String, String)>,
    /// Only what was read in this state or a later one counts.
    pub index: u64,
    /// How long at most; for ever when `None`.
    pub timeout: Option<Duration>,
    /// Says nothing on the way.
    pub quiet: bool,
    /// The command that shows how it goes on.
    pub look: String,
}

/// Waits until all of them are there.
///
/// # Errors
/// A service that has ended or is gone, or the deadline; Ctrl-C.
pub async fn converge(client: &Client, screen: &mut Screen, wait: Wait) -> Result<(), Failure> {
    let mut board = Board::new(&wait);
    let mut reads = watch(client.clone(), &wait);
    let deadline = wait.timeout.map(|t| Instant::now() + t);
    let mut tick = tokio::time::interval(TICK);
    let ended = loop {
        tokio::select! {
            // A change that is there is looked at before the clock is.
            biased;
            heard = reads.recv() => match heard {
                Some(services) => board.hear(services?, screen.now()),
                None => break Err(Failure::Refused("lost the daemon".into())),
            },
            _ = tokio::signal::ctrl_c() => {
                break Err(Failure::Interrupted(format!(
                    "no longer waiting; the cluster goes on, see `{}`", wait.look
                )));
            }
            _ = tick.tick() => {}
        }
        if let Err(failure) = board.updates().and(board.look_closer(client, screen.now()).await) {
            break Err(failure);
        }
        board.draw(screen, false)?;
        if board.all_there() {
            break Ok(());
        }
        if deadline.is_some_and(|d| Instant::now() >= d) {
            let after = humane(wait.timeout.unwrap_or_default());
            break Err(Failure::TimedOut(format!("timed out after {after}: {}", board.missing())));
        }
    };
    board.draw(screen, true)?;
    ended
}

fn humane(duration: Duration) -> String {
    model::Span::from_millis(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)).to_string()
}

/// Reads the services whenever something about them changes, until nobody listens.
fn watch(client: Client, wait: &Wait) -> mpsc::Receiver<Result<Vec<Service>, Failure>> {
    let (sender, receiver) = mpsc::channel(1);
    let ids: BTreeSet<String> = wait.services.iter().map(|(id, _)| id.clone()).collect();
    let least = wait.index;
    tokio::task::spawn_local(async move {
        let mut after = 0;
        loop {
            let read = read_services(&client, &ids, after).await;
            let (services, index, changed) = match read {
                Ok(read) => read,
                Err(failure) => {
                    let _ = sender.send(Err(failure)).await;
                    return;
                }
            };
            after = changed.max(after);
            if index < least {
                // A state from before our change: this daemon has not caught up yet.
                tokio::time::sleep(Duration::from_millis(50)).await;
                after = 0;
                continue;
            }
            if sender.send(Ok(services)).await.is_err() {
                return;
            }
        }
    });
    receiver
}

async fn read_services(
    client: &Client,
    ids: &BTreeSet<String>,
    after: u64,
) -> Result<(Vec<Service>, u64, u64), Failure> {
    if let (1, Some(id)) = (ids.len(), ids.first()) {
        let route = Route::new(&["services", id]).beyond(after, BLOCKING);
        let answer = client.get::<Service>(route).await?;
        return Ok((vec![answer.value], answer.index, answer.changed));
    }
    let answer = client.list::<Service>(Route::new(&["services"]).beyond(after, BLOCKING)).await?;
    let ours = answer.value.into_iter().filter(|s| ids.contains(&s.id)).collect();
    Ok((ours, answer.index, answer.changed))
}

/// What is known of the services that are waited for.
struct Board {
    lines: Vec<Line>,
    index: u64,
    quiet: bool,
    /// How many lines of the terminal are ours, and what stands in them.
    drawn: usize,
    shown: String,
    /// What was last said of each service where lines stay, and when.
    said: BTreeMap<usize, (String, Instant)>,
}

/// One service.
struct Line {
    id: String,
    name: String,
    status: Option<ServiceStatus>,
    update: Option<UpdateStatus>,
    heard_at: Instant,
    /// Since when it is as it should be.
    there_since: Option<Instant>,
    /// When its tasks are replaced.
    policy: RestartPolicy,
    /// When a task of it last ended by itself, as the daemon says it.
    ended_at: Option<String>,
    /// From when on that is long enough ago.
    settles_at: Option<Instant>,
    /// The ends of tasks seen since the wait began, by slot.
    ends: BTreeMap<String, Ends>,
    /// What stands in the way, and what comes next.
    trouble: Option<Trouble>,
    /// What was known of ended tasks when tasks were last looked at, and when that was.
    looked_at: Option<Look>,
    /// True when nothing of it is left that could start, and all of it ended well.
    finished: bool,
}

/// The tasks of one slot that have ended.
#[derive(Debug, Default)]
struct Ends {
    /// Those that are still known.
    seen: BTreeSet<String>,
    count: usize,
}

/// What a look at the tasks saw.
#[derive(Debug)]
struct Look {
    ended: u64,
    ended_at: Option<String>,
    at: Instant,
}

/// Something that keeps a service from being there.
#[derive(Debug)]
struct Trouble {
    text: String,
    /// What happened, without what comes next: the beginning of the text that is worth a line of its own.
    what: String,
    /// True for a failure, false for an end with success.
    failed: bool,
}

impl Board {
    fn new(wait: &Wait) -> Self {
        let line = |(id, name): &(String, String)| Line {
            id: id.clone(),
            name: name.clone(),
            status: None,
            update: None,
            heard_at: Instant::now(),
            there_since: None,
            policy: RestartPolicy::default(),
            ended_at: None,
            settles_at: None,
            ends: BTreeMap::new(),
            trouble: None,
            looked_at: None,
            finished: false,
        };
        Self {
            lines: wait.services.iter().map(line).collect(),
            index: wait.index,
            quiet: wait.quiet,
            drawn: 0,
            shown: String::new(),
            said: BTreeMap::new(),
        }
    }

    /// Takes in what was read.
    fn hear(&mut self, services: Vec<Service>, clock: Timestamp) {
        let now = Instant::now();
        let mut by_id: BTreeMap<String, Service> = services.into_iter().map(|s| (s.id.clone(), s)).collect();
        for line in &mut self.lines {
            let Some(service) = by_id.remove(&line.id) else { continue };
            if line.status.as_ref() != Some(&service.status) {
                line.heard_at = now;
            }
            if line.ended_at != service.status.ended_at {
                line.ended_at.clone_from(&service.status.ended_at);
                line.settles_at = line.ended_at.as_deref().map(|at| now + still_to_settle(at, clock));
            }
            line.policy = service.spec.restart_policy;
            line.there_since = service.status.converged.then(|| line.there_since.unwrap_or(now));
            line.status = Some(service.status);
            line.update = service.update_status;
        }
    }

    /// Looks at the tasks of services of which some failed, or of which nothing has been heard for a while.
    async fn look_closer(&mut self, client: &Client, clock: Timestamp) -> Result<(), Failure> {
        for line in &mut self.lines {
            if !line.wants_a_look() {
                continue;
            }
            let route = Route::new(&["services", &line.id, "tasks"]);
            let tasks = match client.list::<Task>(route).await {
                Ok(answer) => answer.value,
                Err(failure) if failure.is_not_found() => {
                    return Err(Failure::Refused(format!("{} was removed meanwhile", line.name)));
                }
                Err(failure) => return Err(failure),
            };
            line.look_at(&tasks, self.index, clock)?;
        }
        Ok(())
    }

    /// Whether an update has come to an end that is none: paused, or taken back by itself since the wait began; or a job to
    /// one that is no success.
    fn updates(&self) -> Result<(), Failure> {
        self.lines.iter().try_for_each(|line| line.check_update(self.index).and(line.check_job()))
    }

    fn all_there(&self) -> bool {
        self.lines.iter().all(Line::is_there)
    }

    fn missing(&self) -> String {
        let missing: Vec<String> = self.lines.iter().filter(|l| !l.is_there()).map(Line::text).collect();
        missing.join("; ")
    }

    /// Shows how it goes: on a terminal in place, else a line whenever it differs.
    fn draw(&mut self, screen: &mut Screen, last: bool) -> Result<(), Failure> {
        if self.quiet {
            return Ok(());
        }
        match screen.err_size {
            Some((columns, rows)) => self.redraw(screen, columns, rows, last),
            None => self.say(screen),
        }
    }

    fn redraw(
        &mut self,
        screen: &mut Screen,
        columns: usize,
        rows: usize,
        last: bool,
    ) -> Result<(), Failure> {
        // What is there already gives way when not all lines fit; and each has one row then.
        let room = if last { usize::MAX } else { rows.saturating_sub(2).max(1) };
        let columns = columns.saturating_sub(1);
        let open = self.lines.iter().filter(|l| !l.is_there());
        let done = self.lines.iter().filter(|l| l.is_there());
        let wrapped = |line: &Line| {
            let tone = line.tone();
            wrap(&line.text(), columns, 2).into_iter().map(move |row| (tone, row))
        };
        let mut shown: Vec<(Tone, String)> = self.lines.iter().flat_map(wrapped).collect();
        if shown.len() > room {
            let one_row = |line: &Line| (line.tone(), clip(&line.text(), columns));
            shown = open.chain(done).map(one_row).take(room).collect();
        }
        let mut text = String::new();
        for (tone, row) in &shown {
            text.push_str(&format!("\u{1b}[2K{}\n", tone.paint(row, screen.colour)));
        }
        let up = self.drawn;
        self.drawn = self.drawn.max(shown.len());
        for _ in shown.len()..self.drawn {
            text.push_str("\u{1b}[2K\n");
        }
        if text == self.shown {
            return Ok(());
        }
        if up > 0 {
            write!(screen.err, "\u{1b}[{up}A")?;
        }
        screen.err.write_all(text.as_bytes())?;
        self.shown = text;
        Ok(())
    }

    fn say(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        for (i, line) in self.lines.iter().enumerate() {
            // Running counts alone change too fast for a log; what is said is where it stands and what stands in the way.
            if line.status.is_none() {
                continue;
            }
            let quiet = line.trouble.is_some() || line.job().is_some() || line.heard_at.elapsed() >= STILL;
            if !line.is_there() && (line.there_since.is_some() || !quiet) {
                continue;
            }
            let key = line.key();
            let due = self.said.get(&i).is_none_or(|(said, at)| {
                // A loop that turns fast is told once a second.
                let slow = line.trouble.is_some() || line.job().is_some();
                *said != key && (line.is_there() || !slow || at.elapsed() >= STEADY)
            });
            if due {
                writeln!(screen.err, "{}", line.text())?;
                self.said.insert(i, (key, Instant::now()));
            }
        }
        Ok(())
    }
}

/// How long after now the end of a task at this moment counts. By the daemon's clock, whose difference to ours must not let anybody
/// wait longer than that.
fn still_to_settle(at: &str, clock: Timestamp) -> Duration {
    let Ok(at) = at.parse::<Timestamp>() else { return SETTLED };
    let age = Duration::try_from(clock.duration_since(at)).unwrap_or(Duration::ZERO);
    SETTLED.saturating_sub(age)
}

impl Line {
    fn job(&self) -> Option<&JobStatus> {
        self.status.as_ref()?.job.as_ref()
    }

    fn check_job(&self) -> Result<(), Failure> {
        let Some(job) = self.job().filter(|job| job.state == JobState::Failed) else { return Ok(()) };
        let why = job.reason.as_deref().unwrap_or("runs are given up");
        Err(Failure::Refused(format!("{}{CANNOT_COMPLETE}{}", self.name, plain(why))))
    }

    fn is_there(&self) -> bool {
        if self.job().is_some() {
            return self.status.as_ref().is_some_and(|status| status.converged);
        }
        let settled = self.settles_at.is_none_or(|at| Instant::now() >= at);
        self.finished
            || self.awaits_promotion()
            || (settled && self.there_since.is_some_and(|since| since.elapsed() >= STEADY))
    }

    fn check_update(&self, index: u64) -> Result<(), Failure> {
        let Some(update) = &self.update else { return Ok(()) };
        let told = format!("{}: {}", self.name, plain(&update.message));
        let converged = self.status.as_ref().is_some_and(|s| s.converged);
        match update.state {
            // A pause from before the wait stands in the way as well, unless nothing is missing.
            UpdateState::Paused | UpdateState::RollbackPaused if update.index >= index || !converged => {
                Err(Failure::Refused(told))
            }
            UpdateState::RollbackCompleted if update.automatic && update.index >= index => {
                Err(Failure::RolledBack(told))
            }
            _ => Ok(()),
        }
    }

    fn is_updating(&self) -> bool {
        let state = self.update.as_ref().map(|u| u.state);
        matches!(state, Some(UpdateState::Updating | UpdateState::Canary | UpdateState::RollbackStarted))
    }

    /// Somebody has to say how to go on: there is nothing more to wait for.
    fn awaits_promotion(&self) -> bool {
        self.update.as_ref().is_some_and(|u| u.state == UpdateState::Canary)
    }

    fn ended(&self) -> u64 {
        let ended = ["complete", "shutdown", "failed", "rejected", "orphaned"];
        let Some(status) = &self.status else { return 0 };
        ended.iter().filter_map(|state| status.tasks.get(*state)).sum()
    }

    fn wants_a_look(&self) -> bool {
        let Some(status) = &self.status else { return false };
        if status.job.is_some() {
            // What is told of it says everything, and it may have very many tasks.
            return false;
        }
        let news = match &self.looked_at {
            None => self.ended() > 0 || self.ended_at.is_some(),
            Some(look) => look.ended != self.ended() || look.ended_at != self.ended_at,
        };
        if self.finished || (status.converged && self.ended_at.is_none()) {
            return false;
        }
        let looked_in_quiet = self.looked_at.as_ref().is_some_and(|look| look.at >= self.heard_at + STEADY);
        news || (self.is_quiet() && !looked_in_quiet && status.running < status.wanted)
    }

    /// True when nothing has changed for long enough that nothing is about to: an ended task, for example, is replaced (if
    /// only by one that waits for its delay) long before.
    fn is_quiet(&self) -> bool {
        self.heard_at.elapsed() >= STEADY
    }

    /// Learns from the tasks what ended and what comes next. `index` is the state in which the wait began.
    fn look_at(&mut self, tasks: &[Task], index: u64, clock: Timestamp) -> Result<(), Failure> {
        let quiet = self.is_quiet();
        self.looked_at =
            Some(Look { ended: self.ended(), ended_at: self.ended_at.clone(), at: Instant::now() });
        let ends: Vec<&Task> =
            tasks.iter().filter(|t| t.current && t.version > index && ended_by_itself(t)).collect();
        for task in &ends {
            let slot = self.ends.entry(task.name.clone()).or_default();
            slot.count += usize::from(slot.seen.insert(task.id.clone()));
        }
        for slot in self.ends.values_mut() {
            slot.seen.retain(|id| tasks.iter().any(|t| t.id == *id));
        }
        let newest = ends.iter().max_by_key(|t| (t.since.parse::<Timestamp>().ok(), t.version));
        if let Some(task) = newest {
            self.trouble = Some(self.trouble_of(task, tasks, clock));
        }
        if self.is_updating() {
            return Ok(());
        }
        let wanted = self.status.as_ref().map_or(0, |s| s.wanted);
        let ours: Vec<&Task> = tasks.iter().filter(|t| t.current && t.desired != "remove").collect();
        if !quiet || wanted == 0 || ours.is_empty() || tasks.iter().any(is_live) {
            return Ok(());
        }
        // Every slot has ended and its policy replaces nothing.
        match ours.iter().rev().find(|t| t.state != "complete" && t.state != "shutdown") {
            None => {
                self.finished = true;
                Ok(())
            }
            Some(task) => Err(Failure::Refused(format!(
                "{} ended and is not replaced: {}",
                task.name,
                failure_of(task)
            ))),
        }
    }

    /// What the end of a task means, and what comes next in its slot.
    fn trouble_of(&self, task: &Task, tasks: &[Task], clock: Timestamp) -> Trouble {
        let failed = task.state != "complete";
        let how = match (task.state.as_str(), task.exit_code) {
            ("complete", code) => format!("ended with exit code {}", code.unwrap_or(0)),
            ("rejected", _) => format!("could not be started: {}", failure_of(task)),
            (_, Some(code)) => format!("failed with exit code {code}"),
            _ => format!("failed: {}", failure_of(task)),
        };
        let mut text = format!("{} {how}", task.name);
        match self.ends.get(&task.name).map_or(1, |ends| ends.count) {
            0 | 1 => {}
            times => text.push_str(&format!(" ({times} times)")),
        }
        let what = text.clone();
        // What runs beside it, of another revision, does not follow it.
        let follows = |t: &&Task| t.name == task.name && t.id != task.id && t.current == task.current;
        let next = tasks.iter().filter(follows).find(|t| is_live(t));
        let waits = next.filter(|t| t.desired == "ready").and_then(|t| t.start_after.as_deref());
        let starts = match (next, waits.and_then(|at| time::until(at, clock))) {
            (_, Some(left)) => Some(left),
            // Whether a canary is tried again is for its update to say, which may be paused by this very end.
            (None, None) if self.replaces(task) && !task.canary => Some(self.policy.delay.to_string()),
            _ => None,
        };
        match (starts, failed) {
            (Some(left), true) => text.push_str(&format!("; next start in {left}")),
            (Some(left), false) => text.push_str(&format!("; replaced in {left}")),
            (None, _) if next.is_some() => text.push_str("; started again"),
            _ => {}
        }
        match task.state.as_str() {
            "complete" if self.replaces(task) => {
                text.push_str(" (any: use --restart-condition none for programs that end)");
            }
            "rejected" => text.push_str(&format!("; see: quelea why {}", task.name)),
            "failed" => text.push_str(&format!("; see: quelea service logs {}", self.name)),
            _ => {}
        }
        Trouble { text, what, failed }
    }

    fn replaces(&self, task: &Task) -> bool {
        match self.policy.condition {
            Condition::None => false,
            Condition::OnFailure => task.state != "complete",
            Condition::Any => true,
        }
    }

    /// Where it stands, in one line.
    fn text(&self) -> String {
        let Some(status) = &self.status else { return format!("{}: ...", self.name) };
        if let Some(job) = &status.job {
            return plain(&self.job_text(status, job));
        }
        let mut text = format!("{}: {}/{} running", self.name, status.running, status.wanted);
        if let Some(update) = self.update.as_ref().filter(|_| self.awaits_promotion()) {
            text = format!("{}: {}", self.name, update.message);
            text.push_str(&format!(
                "; next: `quelea service promote {0}` or `quelea service abort {0}`",
                self.name
            ));
            return plain(&text);
        }
        if self.is_there() {
            text.push_str(if self.finished { ", ended with success" } else { ", steady" });
            return text;
        }
        text.push_str(&self.details());
        plain(&text)
    }

    /// Where a batch service stands.
    fn job_text(&self, status: &ServiceStatus, job: &JobStatus) -> String {
        let mut text = format!("{}: completed {} of {}", self.name, job.completed, job.total);
        if self.is_there() {
            return text + ", job complete";
        }
        if job.state != JobState::Complete {
            let wanted = job.at_once.min(job.total.saturating_sub(job.completed + job.given_up));
            text.push_str(&format!(", active tasks {} of {wanted}", job.active));
        }
        if job.given_up > 0 {
            text.push_str(&format!(", {} given up", job.given_up));
        }
        if status.waiting > 0 {
            let why = status.reason.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            text.push_str(&format!(", {} waiting{why}", status.waiting));
        }
        if let Some(why) = &job.reason {
            text.push_str(&format!(", {why}"));
        }
        text
    }

    /// What stands in the way, from the comma on.
    fn details(&self) -> String {
        let Some(status) = &self.status else { return String::new() };
        let mut text = String::new();
        match self.update.as_ref().and_then(|u| u.canaries) {
            Some(n) => text.push_str(&format!(", {} of {n} canaries there", status.updated)),
            None if status.updated < status.wanted && status.updated > 0 => {
                text.push_str(&format!(", {} of the new revision", status.updated));
            }
            None => {}
        }
        match &self.update {
            Some(update) if update.state == UpdateState::RollbackStarted => {
                text.push_str(&format!(", {}", update.message));
            }
            Some(update) if update.state == UpdateState::Updating && status.updated >= status.wanted => {
                text.push_str(", being watched");
            }
            _ => {}
        }
        match (&status.reason, status.waiting) {
            (Some(reason), n) => text.push_str(&format!(", {n} waiting: {reason}")),
            (None, 0) => {}
            (None, n) => text.push_str(&format!(", {n} waiting")),
        }
        if let Some(trouble) = &self.trouble {
            text.push_str(&format!(", {}", trouble.text));
        }
        text
    }

    /// What must differ for another line to be worth it: while something stands in the way that alone, since the number of
    /// running tasks goes up and down with it.
    fn key(&self) -> String {
        match &self.trouble {
            Some(trouble) if !self.is_there() => trouble.what.clone(),
            _ => self.text(),
        }
    }

    fn tone(&self) -> Tone {
        let job_fails = self.job().is_some_and(|job| job.reason.is_some());
        match &self.trouble {
            _ if self.is_there() => Tone::Good,
            _ if job_fails => Tone::Bad,
            Some(trouble) if trouble.failed => Tone::Bad,
            _ => Tone::Waiting,
        }
    }
}

fn ended_by_itself(task: &Task) -> bool {
    matches!(task.state.as_str(), "complete" | "failed" | "rejected")
}

/// True for a task that is wanted and has not ended.
pub fn is_live(task: &Task) -> bool {
    matches!(task.desired.as_str(), "ready" | "running" | "complete") && !is_ended(task)
}

/// True for a task that has ended, however.
pub fn is_ended(task: &Task) -> bool {
    matches!(task.state.as_str(), "complete" | "shutdown" | "failed" | "rejected" | "remove" | "orphaned")
}

/// How a task ended badly, in words.
pub fn failure_of(task: &Task) -> String {
    match (&task.message, task.exit_code) {
        (Some(message), _) if !message.is_empty() => plain(message),
        (_, Some(code)) => format!("exit code {code}"),
        _ => task.state.clone(),
    }
}

/// Waits until no task of a removed service is left.
///
/// # Errors
/// The deadline; Ctrl-C.
pub async fn gone(client: &Client, screen: &mut Screen, wait: Wait) -> Result<(), Failure> {
    let deadline = wait.timeout.map(|t| Instant::now() + t);
    let mut said = String::new();
    for (id, name) in &wait.services {
        let (mut after, mut said_at) = (0, None);
        loop {
            let left =
                deadline.map_or(BLOCKING, |d| d.saturating_duration_since(Instant::now()).min(BLOCKING));
            let route = Route::new(&["tasks"]).with("service", id).beyond(after, left);
            let read = tokio::select! {
                read = client.list::<Task>(route) => read,
                _ = tokio::signal::ctrl_c() => {
                    return Err(Failure::Interrupted("no longer waiting; the cluster goes on".into()));
                }
            };
            let answer = match read {
                Ok(answer) => answer,
                Err(failure) if failure.is_not_found() => break,
                Err(failure) => return Err(failure),
            };
            if answer.value.iter().all(is_ended) {
                break;
            }
            after = answer.changed;
            let left = answer.value.iter().filter(|t| !is_ended(t)).count();
            let text = format!("{name}: {left} {} still to end", if left == 1 { "task" } else { "tasks" });
            let in_place = screen.err_size.is_some();
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return Err(Failure::TimedOut(format!("timed out: {text}")));
            }
            // Where lines stay, one a service and second is enough.
            let due = in_place || said_at.is_none_or(|at: Instant| at.elapsed() >= STEADY);
            if !wait.quiet && text != said && due {
                said.clone_from(&text);
                said_at = Some(Instant::now());
                show_one(screen, &text)?;
            }
        }
        if !said.is_empty() && screen.err_size.is_some() {
            write!(screen.err, "\r\u{1b}[2K")?;
        }
    }
    Ok(())
}

fn show_one(screen: &mut Screen, text: &str) -> Result<(), Failure> {
    match screen.err_size {
        Some((columns, _)) => write!(screen.err, "\r\u{1b}[2K{}", clip(text, columns.saturating_sub(1)))?,
        None => writeln!(screen.err, "{text}")?,
    }
    screen.err.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests;
