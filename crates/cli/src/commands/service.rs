//! `service`: create, look at, change and remove services.

use std::time::Instant;

use clap::{Args, Subcommand};
use hyper::Method;
use jiff::{SignedDuration, Timestamp};
use native_api::types::{
    Condition, Mode, Mount, Scale as ScaleBody, Service, ServiceUpdate, Task, UpdateState, UpdateStatus,
    Written,
};

use super::Cx;
use super::jobs;
use super::logs::Logs;
use super::options::{Filters, WaitFlags};
use super::service_spec::CreateFlags;
use super::service_update::Update;
use super::show::{Fields, InspectFlags, ListFlags, capital};
use super::tasks::PsFlags;
use super::update_policy;
use crate::client::Route;
use crate::failure::Failure;
use crate::progress;
use crate::screen::{Screen, short};
use crate::table::{Cell, Table, Tone};
use crate::time;

/// How often a change is tried again when somebody else changed the service first.
const RETRIES: usize = 5;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a service: quelea service create --driver exec [flags] -- COMMAND ARG...
    ///
    /// Prints its id, then waits until exactly the wanted tasks run, have done so for a second, and none has ended by itself
    /// for five. Ends with 1 when tasks have ended and are not replaced; with 4 when that takes longer than --timeout. Tasks
    /// that keep failing or find no node are waited for, and the reason is shown. A job is waited for until every run is
    /// complete; it ends with 1 when it cannot complete any more.
    Create(Box<Create>),
    /// List services.
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// List the tasks of services, with the history of each slot.
    Ps(Ps),
    /// Show services in full.
    Inspect(Inspect),
    /// Change how many tasks replicated services have, or how many completions replicated jobs.
    Scale(Scale),
    /// Change a service.
    ///
    /// A change of what tasks run replaces them, as the --update flags say. Then it waits until the update is completed.
    /// Ends with 3 when the update failed and was rolled back, with 1 when it is paused, with 4 when it takes longer
    /// than --timeout. With --update-canary it ends (0) when the canaries have been watched and wait to be promoted.
    Update(Box<UpdateAndWait>),
    /// Go back to the previous revision of a service: to what its tasks ran before. How many there are stays as it is.
    Rollback(Rollback),
    /// Promote the canaries of a service: they take their slots, and the others are changed as its --update flags say.
    ///
    /// Then it waits until the update is completed, and ends as `service update` does. Refused (1) when the service has no canaries, when
    /// they have not been watched yet, or when one does not run.
    Promote(Rollback),
    /// Abort the canaries of a service: they end, and the tasks beside which they stand were never touched.
    Abort(Rollback),
    /// Remove services and end their tasks.
    #[command(visible_alias = "remove")]
    Rm(Rm),
    /// Show what a service or task writes.
    Logs(Logs),
}

#[derive(Debug, Args)]
pub struct Create {
    #[command(flatten)]
    flags: CreateFlags,
    #[command(flatten)]
    wait: WaitFlags,
}

#[derive(Debug, Args)]
pub struct Ls {
    /// Only some: name= (its beginning), label=, mode=, id=, stack=.
    #[arg(short, long, value_name = "KEY=VALUE")]
    filter: Vec<String>,
    #[command(flatten)]
    list: ListFlags,
}

#[derive(Debug, Args)]
pub struct Ps {
    /// The services: names, ids or beginnings of ids.
    #[arg(required = true, value_name = "SERVICE")]
    services: Vec<String>,
    #[command(flatten)]
    ps: PsFlags,
}

#[derive(Debug, Args)]
pub struct Inspect {
    /// The services: names, ids or beginnings of ids.
    #[arg(required = true, value_name = "SERVICE")]
    services: Vec<String>,
    #[command(flatten)]
    inspect: InspectFlags,
}

#[derive(Debug, Args)]
pub struct Scale {
    /// Services and how many tasks each shall have.
    #[arg(required = true, value_name = "SERVICE=N", value_parser = scaled)]
    services: Vec<(String, u32)>,
    #[command(flatten)]
    wait: WaitFlags,
}

#[derive(Debug, Args)]
pub struct UpdateAndWait {
    #[command(flatten)]
    flags: Update,
    #[command(flatten)]
    wait: WaitFlags,
}

#[derive(Debug, Args)]
pub struct Rollback {
    /// The service: its name, its id or the beginning of it.
    service: String,
    #[command(flatten)]
    wait: WaitFlags,
}

#[derive(Debug, Args)]
pub struct Rm {
    /// The services: names, ids or beginnings of ids.
    #[arg(required = true, value_name = "SERVICE")]
    services: Vec<String>,
    #[command(flatten)]
    wait: WaitFlags,
}

/// `SERVICE=N`.
pub fn scaled(text: &str) -> Result<(String, u32), String> {
    let (name, n) = text.split_once('=').ok_or("write SERVICE=N")?;
    if name.is_empty() {
        return Err("write SERVICE=N".into());
    }
    super::options::count(n).map(|n| (name.to_owned(), n))
}

impl Command {
    /// Does it.
    pub async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        match self {
            Self::Create(create) => create.run(cx).await,
            Self::Ls(ls) => ls.run(cx).await,
            Self::Ps(ps) => ps.run(cx).await,
            Self::Inspect(inspect) => inspect.run(cx).await,
            Self::Scale(scale) => scale.run(cx).await,
            Self::Update(update) => run_update(*update, cx).await,
            Self::Rollback(rollback) => turn(&rollback.service, "rollback", &rollback.wait, cx).await,
            Self::Promote(promote) => turn(&promote.service, "promote", &promote.wait, cx).await,
            Self::Abort(abort) => turn(&abort.service, "abort", &abort.wait, cx).await,
            Self::Rm(rm) => rm.run(cx).await,
            Self::Logs(logs) => logs.run(cx).await,
        }
    }
}

impl Create {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let spec = self.flags.spec(&variable, &suffix())?;
        let written: Written = cx.client.change(Method::POST, Route::new(&["services"]), Some(&spec)).await?;
        cx.screen.line(&written.id)?;
        cx.screen.flush()?;
        tell(cx, &written.notes)?;
        converge(cx, &self.wait, vec![written]).await
    }
}

/// A variable of the caller's environment; `None` when it is not set or no UTF-8.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Four characters that make a name unique enough.
pub fn suffix() -> String {
    let mut bytes = [0u8; 4];
    // Without chance the name is fixed, and a second one of it is refused: nothing worse.
    let _ = getrandom::fill(&mut bytes);
    let letters = b"0123456789abcdefghijklmnopqrstuvwxyz";
    bytes.iter().map(|b| char::from(letters[usize::from(*b) % letters.len()])).collect()
}

/// Waits for what was written, unless the flags say otherwise.
async fn converge(cx: &mut Cx, flags: &WaitFlags, written: Vec<Written>) -> Result<(), Failure> {
    let look = match written.as_slice() {
        [one] => format!("quelea service ps {}", one.name),
        _ => "quelea service ls".into(),
    };
    converge_on(cx, flags, written, look).await
}

/// As [`converge`]; `look` is the command that shows how it goes on.
pub async fn converge_on(
    cx: &mut Cx,
    flags: &WaitFlags,
    written: Vec<Written>,
    look: String,
) -> Result<(), Failure> {
    if flags.detach || written.is_empty() {
        return Ok(());
    }
    let index = written.iter().map(|w| w.index).max().unwrap_or(0);
    let services: Vec<(String, String)> = written.into_iter().map(|w| (w.id, w.name)).collect();
    let wait = flags.wait(services.clone(), index, look);
    let done = progress::converge(&cx.client, &mut cx.screen, wait).await;
    done.map_err(|failure| with_a_hint(failure, &services))
}

/// A failure that is told of a task says where its output can be read.
fn with_a_hint(failure: Failure, services: &[(String, String)]) -> Failure {
    let Failure::Refused(why) = &failure else { return failure };
    // Such a failure begins with the task's name: that of its service, a dot, and its slot.
    // Or, of a job, with the name and that it cannot complete.
    let of = |name: &str| {
        let begins = |rest: &str| rest.starts_with('.') || rest.starts_with(progress::CANNOT_COMPLETE);
        why.strip_prefix(name).is_some_and(begins)
    };
    match services.iter().find(|(_, name)| of(name)) {
        Some((_, name)) => Failure::Refused(format!("{why}; what it wrote: `quelea service logs {name}`")),
        None => failure,
    }
}

impl Ls {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let filters = Filters::parse(&self.filter, &["name", "label", "mode", "id", "stack"])?;
        let mut services = cx.client.list::<Service>(Route::new(&["services"])).await?.value;
        services.retain(|s| {
            filters.hold("name", |v| s.name.starts_with(v))
                && filters.hold_labels("label", &s.spec.labels)
                && filters.hold("mode", |v| jobs::is_mode(s.spec.mode, v))
                && filters.hold("id", |v| s.id.starts_with(v))
                && filters.hold("stack", |v| s.stack.as_deref() == Some(v))
        });
        services.sort_by(|a, b| a.name.cmp(&b.name));
        show_list(&mut cx.screen, &services, &self.list)
    }
}

/// Shows services as a list.
pub fn show_list(screen: &mut Screen, services: &[Service], list: &ListFlags) -> Result<(), Failure> {
    list.show(screen, services, |s| &s.id, |screen| table(services, list.no_trunc, screen.now()))
}

fn table(services: &[Service], whole: bool, now: Timestamp) -> Table {
    let mut table = Table::new(&["ID", "NAME", "MODE", "REPLICAS", "STATE", "^PORTS", "~COMMAND"]);
    for service in services {
        let (state, tone) = state(service, now);
        table.row(vec![
            short(&service.id, whole).into(),
            service.name.as_str().into(),
            service.spec.mode.as_str().into(),
            jobs::replicas(service).into(),
            Cell::new(capital(&state), tone),
            ports(service).into(),
            command_line(&service.spec.command).into(),
        ]);
    }
    table
}

/// Where a service stands, in a word or two.
pub fn state(service: &Service, now: Timestamp) -> (String, Tone) {
    let status = &service.status;
    if let Some(job) = &status.job {
        return jobs::state(status, job);
    }
    // Somebody has to say how to go on, whatever the tasks do meanwhile.
    match service.update_status.as_ref().map(|u| u.state) {
        Some(UpdateState::Paused) => return ("update paused".into(), Tone::Bad),
        Some(UpdateState::Canary) => return ("canary, to be promoted".into(), Tone::Waiting),
        Some(UpdateState::Updating) if canaries(service) > 0 && status.waiting == 0 => {
            return (format!("canary {}/{}", status.updated, canaries(service)), Tone::Waiting);
        }
        Some(UpdateState::RollbackPaused) => return ("rollback paused".into(), Tone::Bad),
        Some(UpdateState::RollbackStarted) if status.waiting == 0 => {
            return (format!("rolling back {}/{}", status.updated, status.wanted), Tone::Bad);
        }
        Some(UpdateState::Updating) if status.waiting == 0 && status.updated > 0 => {
            return (format!("updating {}/{}", status.updated, status.wanted), Tone::Waiting);
        }
        _ => {}
    }
    if status.converged {
        // What has just come back may fail again.
        let ended = status.ended_at.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
        let settled = ended.is_none_or(|at| now.duration_since(at).abs() >= SETTLED);
        return if settled { ("steady".into(), Tone::Good) } else { ("unsettled".into(), Tone::Waiting) };
    }
    if status.waiting > 0 {
        return (format!("{} waiting", status.waiting), Tone::Bad);
    }
    if status.updated < status.wanted && status.updated > 0 {
        return (format!("updating {}/{}", status.updated, status.wanted), Tone::Waiting);
    }
    let to_come = |(state, n): (&String, &u64)| *n > 0 && !ENDED.contains(&state.as_str());
    if status.wanted > 0 && !status.tasks.is_empty() && !status.tasks.iter().any(to_come) {
        return ("ended".into(), Tone::Bad);
    }
    // Since it was last changed a program has ended by itself: it is on its way again, or will be.
    let moment = |text: &str| text.parse::<Timestamp>().ok();
    let ended = status.ended_at.as_deref().and_then(moment);
    if status.running < status.wanted && ended.is_some() && ended >= moment(&service.updated_at) {
        return ("restarting".into(), Tone::Bad);
    }
    ("moving".into(), Tone::Waiting)
}

/// How many canaries its update tries.
fn canaries(service: &Service) -> u32 {
    service.update_status.as_ref().and_then(|update| update.canaries).unwrap_or(0)
}

/// So long ago must be the last end of a task by itself; as when a change is waited for.
const SETTLED: SignedDuration = SignedDuration::from_secs(progress::SETTLED.as_secs().cast_signed());

/// States of tasks that run no more.
const ENDED: [&str; 6] = ["complete", "shutdown", "failed", "rejected", "remove", "orphaned"];

/// What a service wishes of its nodes.
fn placement(fields: &mut Fields, service: &Service) {
    let placement = &service.spec.placement;
    let strategy = match (placement.strategy, service.strategy) {
        (Some(own), _) => own.as_str().to_owned(),
        (None, of_cluster) => format!("{} (the cluster's)", of_cluster.as_str()),
    };
    let platforms = placement.platforms.iter().map(|p| format!("{}/{}", p.os, p.arch));
    fields.add_all("Platforms", platforms);
    let preferences = placement.preferences.iter().map(|p| {
        let shares = p.targets.iter().map(|t| format!(" {}={}%", t.value, t.percent));
        format!("{}{}", p.spread, shares.collect::<String>())
    });
    fields.add_all("Spread over", preferences);
    fields
        .add_all("Affinities", placement.affinities.iter().map(|a| format!("{}:{}", a.constraint, a.weight)));
    fields.add("Strategy", strategy);
}

fn ports(service: &Service) -> String {
    let show = |p: &native_api::types::Port| {
        let name = if p.name.is_empty() { String::new() } else { format!("{}=", p.name) };
        let number = if p.published == 0 { "any".to_owned() } else { p.published.to_string() };
        format!("{name}{number}/{}", format!("{:?}", p.protocol).to_lowercase())
    };
    service.spec.ports.iter().map(show).collect::<Vec<_>>().join(",")
}

/// A command as it could be typed.
fn command_line(words: &[String]) -> String {
    let quote = |word: &String| {
        let bare = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
        if !word.is_empty() && word.chars().all(bare) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

impl Ps {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let mut tasks = Vec::new();
        for service in &self.services {
            let route = Route::new(&["services", service, "tasks"]);
            tasks.extend(cx.client.list::<Task>(route).await?.value);
        }
        self.ps.show(&mut cx.screen, tasks)
    }
}

impl Inspect {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let mut services = Vec::new();
        for service in &self.services {
            services.push(cx.client.get::<Service>(Route::new(&["services", service])).await?.value);
        }
        self.inspect.show(&mut cx.screen, &services, inspect)
    }
}

/// Everything about a service that differs from nothing, for people.
pub fn inspect(screen: &mut Screen, service: &Service) -> Result<(), Failure> {
    let now = screen.now();
    let spec = &service.spec;
    let mut fields = Fields::default();
    fields.add("ID", &service.id);
    fields.add("Name", &service.name);
    fields.add_some("Stack", service.stack.as_ref());
    fields.add("Created", time::ago(&service.created_at, now));
    fields.add("Changed", time::ago(&service.updated_at, now));
    let status = &service.status;
    let count = match spec.mode {
        Mode::Replicated => spec.replicas.map(|n| format!(" ({n})")).unwrap_or_default(),
        _ => String::new(),
    };
    match &status.job {
        Some(job) => jobs::inspect(&mut fields, spec.mode, job, now),
        None => fields.add("Mode", format!("{}{count}", spec.mode.as_str())),
    }
    fields.add("Tasks", tasks_line(service, now));
    fields.add_some("Waiting", status.reason.as_ref());
    fields.add(
        "Revision",
        format!("{} ({})", service.revision.number, time::ago(&service.revision.created_at, now)),
    );
    fields.add_some("Update state", service.update_status.as_ref().map(|u| update_line(u, now)).as_ref());
    fields.add("Driver", format!("{:?}", spec.driver).to_lowercase());
    fields.add("Command", command_line(&spec.command));
    for program in &spec.programs {
        fields.add("Program", format!("{}: {}", program.name, command_line(&program.command)));
    }
    fields.add_all("Environment", spec.env.iter().map(|(k, v)| format!("{k}={v}")));
    fields.add_all("Labels", spec.labels.iter().map(|(k, v)| format!("{k}={v}")));
    fields.add_some("Directory", spec.working_dir.as_ref());
    fields.add_some("User", spec.user.as_ref());
    fields.add_all("Constraints", spec.placement.constraints.iter().cloned());
    if spec.placement.max_replicas_per_node > 0 {
        fields.add("Per node", format!("at most {}", spec.placement.max_replicas_per_node));
    }
    placement(&mut fields, service);
    fields.add("Ports", ports(service));
    let volume = |m: &Mount| format!("{}{}", m.source, if m.read_only { " (reads)" } else { "" });
    fields.add_all("Volumes", spec.mounts.iter().map(volume));
    fields.add(
        "Limits",
        amounts(&spec.resources.limits.cpus, &spec.resources.limits.memory, Some(spec.resources.limits.pids)),
    );
    let reserved = &spec.resources.reservations;
    fields.add("Reserved", amounts(&reserved.cpus, &reserved.memory, None));
    fields.add_all("Counted", reserved.generic_resources.iter().map(|(k, n)| format!("{k}={n}")));
    let policy = &spec.restart_policy;
    let attempts = match policy.max_attempts {
        0 => String::new(),
        n if policy.window.span().is_ok_and(|w| w.0 > 0) => {
            format!(", at most {n} times in {}", policy.window)
        }
        n => format!(", at most {n} times"),
    };
    let when = match policy.condition {
        Condition::None => "never".to_owned(),
        Condition::OnFailure => format!("on failure, after {}{attempts}", policy.delay),
        // What a job has completed is done.
        Condition::Any if spec.mode.is_batch() => format!("on failure, after {}{attempts}", policy.delay),
        Condition::Any => format!("whenever it ends, after {}{attempts}", policy.delay),
    };
    fields.add("Replaced", when);
    if !spec.mode.is_batch() {
        fields.add("Update", update_policy::in_words(&spec.update));
        fields.add("Rollback", update_policy::in_words(&spec.rollback));
    }
    fields.add_some("Moved", budget(&spec.disruption).as_ref());
    let signal = spec.stop_signal.as_deref().unwrap_or("TERM");
    fields.add("Stop", format!("{signal}, killed after {}", spec.stop_grace_period));
    fields.show(screen)
}

/// `3 of 3 running, as asked`; of a job, whose runs are told apart, `2 running, complete`.
fn tasks_line(service: &Service, now: Timestamp) -> String {
    let (status, state) = (&service.status, state(service, now).0);
    match status.job {
        Some(_) => format!("{} running, {state}", status.running),
        None => format!("{} of {} running, {state}", status.running, status.wanted),
    }
}

/// How far the service may be disturbed while its tasks are moved; nothing when all go at once.
fn budget(budget: &native_api::types::Disruption) -> Option<String> {
    let min = budget.min_healthy.to_string();
    if ["0", "0%"].contains(&&*min) && budget.max_surge == 0 {
        return None;
    }
    let surge = match budget.max_surge {
        // Where not one may be missing, one at a time has a second task all the same: nothing could ever be moved otherwise.
        0 if min == "100%" => "; each next task runs before the old one ends, one at a time".into(),
        0 => "; the old task ends first, unless none may be missing".into(),
        surge => format!(", at most {surge} more than wanted"),
    };
    Some(format!("at least {min} run{surge}"))
}

/// How far an update has come, since when, and why.
fn update_line(update: &UpdateStatus, now: Timestamp) -> String {
    // What waits for somebody has done so since it came to its state.
    let waits = [UpdateState::Canary, UpdateState::Paused, UpdateState::RollbackPaused];
    let state = Some(&update.since).filter(|_| waits.contains(&update.state));
    let since = update.completed_at.as_ref().or(state).unwrap_or(&update.started_at);
    format!("{} ({}): {}", update.state.as_str(), time::ago(since, now), update.message)
}

fn amounts(cpus: &native_api::types::Cpus, memory: &native_api::types::Size, pids: Option<u32>) -> String {
    let mut parts = Vec::new();
    if cpus.nano_cpus().is_ok_and(|n| n > 0) {
        parts.push(format!("{cpus} CPUs"));
    }
    if let Ok(bytes @ 1..) = memory.bytes() {
        parts.push(format!("{} memory", model::format_bytes(bytes)));
    }
    if let Some(pids @ 1..) = pids {
        parts.push(format!("{pids} processes"));
    }
    parts.join(", ")
}

impl Scale {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let mut done = Vec::new();
        for (service, replicas) in self.services {
            let body = ScaleBody { replicas, version: None };
            let route = Route::new(&["services", &service, "scale"]);
            let written: Written = cx.client.change(Method::POST, route, Some(&body)).await?;
            cx.screen.line(format!("{} scaled to {replicas}", written.name))?;
            cx.screen.flush()?;
            done.push(written);
        }
        converge(cx, &self.wait, done).await
    }
}

async fn run_update(update: UpdateAndWait, cx: &mut Cx) -> Result<(), Failure> {
    let UpdateAndWait { flags: update, wait } = update;
    let name = update.service.clone();
    let before = cx.client.get::<Service>(Route::new(&["services", &name])).await?.value;
    let id = before.id.clone();
    let mut changed = before.spec.clone();
    let rollback = update.rollback;
    update.apply(&mut changed, &variable)?;
    if rollback {
        if changed != before.spec {
            return Err(Failure::Usage("--rollback goes with no other flag that changes the service".into()));
        }
        return turn(&id, "rollback", &wait, cx).await;
    }
    let written = put(cx, &id, before, changed).await?;
    cx.screen.line(&written.name)?;
    if !written.changed {
        cx.screen.note("nothing had to be changed")?;
    }
    cx.screen.flush()?;
    tell(cx, &written.notes)?;
    converge(cx, &wait, vec![written]).await
}

/// Turns an update another way: `rollback`, `promote` or `abort`.
async fn turn(service: &str, how: &str, wait: &WaitFlags, cx: &mut Cx) -> Result<(), Failure> {
    let route = Route::new(&["services", service, how]);
    let written: Written = cx.client.change(Method::POST, route, None::<&()>).await?;
    cx.screen.line(&written.name)?;
    cx.screen.flush()?;
    converge(cx, wait, vec![written]).await
}

/// Says what is not done as asked.
pub fn tell(cx: &mut Cx, notes: &[String]) -> Result<(), Failure> {
    notes.iter().try_for_each(|note| cx.screen.note(format!("note: {note}")))
}

/// Writes the changed spec. When somebody else was faster, and changed only how many tasks there are or other things
/// that the flags do not touch, that is no reason to fail: the same difference is laid over what is there now.
async fn put(
    cx: &Cx,
    id: &str,
    mut before: Service,
    mut spec: native_api::types::ServiceSpec,
) -> Result<Written, Failure> {
    for attempt in 0.. {
        let body = ServiceUpdate { spec: spec.clone(), version: Some(before.version) };
        let sent = cx.client.change(Method::PUT, Route::new(&["services", id]), Some(&body)).await;
        match sent {
            Err(failure) if failure.is_conflict() && attempt < RETRIES => {
                let now = cx.client.get::<Service>(Route::new(&["services", id])).await?.value;
                if now.version == before.version {
                    return Err(failure);
                }
                let rebased = rebase(&before.spec, &spec, &now.spec);
                let Some(rebased) = rebased else { return Err(failure) };
                (before, spec) = (now, rebased);
            }
            other => return other,
        }
    }
    Err(Failure::Refused("the service changes too fast".into()))
}

/// What we changed of `old` laid over `now`, field by field; `None` when both changed the same field in different ways.
fn rebase<T: serde::Serialize + serde::de::DeserializeOwned>(old: &T, ours: &T, now: &T) -> Option<T> {
    let object = |value: &T| match serde_json::to_value(value) {
        Ok(serde_json::Value::Object(map)) => Some(map),
        _ => None,
    };
    let (old, ours, mut now) = (object(old)?, object(ours)?, object(now)?);
    let keys: std::collections::BTreeSet<&String> = old.keys().chain(ours.keys()).collect();
    for key in keys {
        let (was, wanted) = (old.get(key), ours.get(key));
        if was == wanted || now.get(key) == wanted {
            continue;
        }
        if now.get(key) != was {
            return None;
        }
        match wanted {
            Some(value) => now.insert(key.clone(), value.clone()),
            None => now.remove(key),
        };
    }
    serde_json::from_value(serde_json::Value::Object(now)).ok()
}

impl Rm {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let mut removed = Vec::new();
        let mut failed = None;
        for service in &self.services {
            match cx.client.delete::<Written>(Route::new(&["services", service])).await {
                Ok(written) => removed.push((written.name.clone(), vec![written])),
                // As in docker the others are removed all the same.
                Err(failure @ Failure::Api { .. }) => {
                    if let Some(earlier) = failed.replace(failure) {
                        cx.screen.note(earlier.to_string())?;
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
        removed_one_by_one(cx, &self.wait, removed).await?;
        failed.map_or(Ok(()), Err)
    }
}

/// Prints each name once the services that went with it have no task left, or at once when the flags say so.
pub async fn removed_one_by_one(
    cx: &mut Cx,
    flags: &WaitFlags,
    removed: Vec<(String, Vec<Written>)>,
) -> Result<(), Failure> {
    let mut flags = flags.clone();
    for (name, services) in removed {
        let begun = Instant::now();
        wait_gone(cx, &flags, services).await?;
        flags.spend(begun.elapsed());
        cx.screen.line(name)?;
        cx.screen.flush()?;
    }
    Ok(())
}

/// Waits until the tasks of removed services have ended, unless the flags say otherwise.
pub async fn wait_gone(cx: &mut Cx, flags: &WaitFlags, removed: Vec<Written>) -> Result<(), Failure> {
    if flags.detach {
        return Ok(());
    }
    let index = removed.iter().map(|w| w.index).max().unwrap_or(0);
    let services = removed.into_iter().map(|w| (w.id, w.name)).collect();
    progress::gone(&cx.client, &mut cx.screen, flags.wait(services, index, String::new())).await
}

#[cfg(test)]
pub mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fake::{self, Fake};
    use crate::screen::tests::paper;

    /// A service with these fields.
    pub fn service(fields: Value) -> Service {
        let mut whole = json!({
            "id": "0123456789abcdefghijklmno", "name": "web", "version": 5, "changed": 9,
            "created_at": "2026-01-31T12:00:00Z", "updated_at": "2026-01-31T12:57:00Z",
            "revision": {"id": "r1", "number": 2, "created_at": "2026-01-31T12:57:00Z"},
            "spec": {"name": "web", "replicas": 3, "command": ["serve", "--name", "two words"]},
            "status": {"wanted": 3, "running": 3, "updated": 3, "waiting": 0, "converged": true, "tasks": {"running": 3}},
        });
        whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn where_a_service_stands() {
        let now = "2026-01-31T13:00:00Z".parse().unwrap();
        let with = |status: Value| state(&service(json!({"status": status})), now).0;
        let base = |more: Value| {
            let mut status = json!({"wanted": 3, "running": 1, "updated": 3, "waiting": 0, "converged": false, "tasks": {}});
            status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            status
        };
        for (update, word) in [
            ("updating", "updating 1/3"),
            ("canary", "canary, to be promoted"),
            ("paused", "update paused"),
            ("completed", "updating 1/3"),
            ("rollback_started", "rolling back 1/3"),
            ("rollback_paused", "rollback paused"),
        ] {
            let update =
                json!({"state": update, "index": 7, "started_at": "2026-01-31T12:57:00Z", "message": "m"});
            let fields = json!({"status": base(json!({"updated": 1})), "update_status": update});
            assert_eq!(state(&service(fields), now).0, word, "{update}");
        }
        for (status, word) in [
            (json!({"converged": true}), "steady"),
            (json!({"converged": true, "ended_at": "2026-01-31T12:59:55Z"}), "steady"),
            (json!({"converged": true, "ended_at": "2026-01-31T12:59:56Z"}), "unsettled"),
            (json!({"waiting": 2}), "2 waiting"),
            (json!({"updated": 1}), "updating 1/3"),
            (json!({"tasks": {"failed": 2, "running": 1}}), "moving"),
            (json!({"tasks": {"failed": 2, "running": 1}, "ended_at": "2026-01-31T12:59:00Z"}), "restarting"),
            (json!({"tasks": {"failed": 2, "running": 1}, "ended_at": "2026-01-31T12:50:00Z"}), "moving"),
            (json!({"tasks": {"failed": 2, "complete": 1}}), "ended"),
            (json!({"wanted": 0, "tasks": {"running": 1}}), "moving"),
            (json!({}), "moving"),
        ] {
            assert_eq!(with(base(status.clone())), word, "{status}");
        }
    }

    fn list_flags() -> ListFlags {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            list: ListFlags,
        }
        <Line as clap::Parser>::parse_from(["ls"]).list
    }

    #[test]
    fn the_list_of_services() {
        let services = [
            service(json!({})),
            service(json!({
                "id": "z123", "name": "each",
                "spec": {"name": "each", "mode": "global", "command": ["beat"],
                    "ports": [{"name": "http", "published": 80}, {"protocol": "udp"}]},
                "status": {"wanted": 2, "running": 1, "updated": 2, "waiting": 1, "converged": false, "tasks": {}},
            })),
        ];
        let (mut screen, out, _) = paper();
        show_list(&mut screen, &services, &list_flags()).unwrap();
        assert_eq!(
            out.text(),
            "\
ID            NAME  MODE        REPLICAS  STATE      PORTS                COMMAND
0123456789ab  web   replicated  3/3       Steady                          serve --name 'two words'
z123          each  global      1/2       1 waiting  http=80/tcp,any/udp  beat
"
        );
    }

    #[test]
    fn a_service_in_full() {
        let (mut screen, out, _) = paper();
        let spec = json!({
            "name": "web", "replicas": 3, "command": ["serve"], "env": {"A": "1", "B": "2"}, "user": "nobody",
            "placement": {
                "constraints": ["node.role==worker"], "max_replicas_per_node": 1, "strategy": "binpack",
                "preferences": [{"spread": "node.labels.zone", "targets": [{"value": "a", "percent": 70}]}],
                "affinities": [{"constraint": "node.labels.a==b", "weight": -7}],
            },
            "resources": {"limits": {"cpus": 0.5, "memory": 67108864, "pids": 0}, "reservations": {"generic_resources": {"gpu": 1}}},
            "restart_policy": {"condition": "on-failure", "delay": "2s", "max_attempts": 3, "window": "1m0s"},
        });
        let update = json!({"state": "paused", "index": 7, "started_at": "2026-01-31T12:57:00Z", "since": "2026-01-31T12:59:30Z",
            "message": "update paused: slot 1 failed"});
        let fields = json!({"spec": spec, "stack": "shop", "update_status": update});
        inspect(&mut screen, &service(fields)).unwrap();
        assert_eq!(
            out.text(),
            "\
ID:           0123456789abcdefghijklmno
Name:         web
Stack:        shop
Created:      about an hour ago
Changed:      3 minutes ago
Mode:         replicated (3)
Tasks:        3 of 3 running, update paused
Revision:     2 (3 minutes ago)
Update state: paused (30 seconds ago): update paused: slot 1 failed
Driver:       exec
Command:      serve
Environment:  A=1
              B=2
User:         nobody
Constraints:  node.role==worker
Per node:     at most 1
Spread over:  node.labels.zone a=70%
Affinities:   node.labels.a==b:-7
Strategy:     binpack
Limits:       0.5 CPUs, 64 MiB memory
Counted:      gpu=1
Replaced:     on failure, after 2s, at most 3 times in 1m0s
Update:       stop-first, 1 at once, 0s between, watched for 5s; on failure: pause
Rollback:     stop-first, 1 at once, 0s between, watched for 5s; on failure: pause
Stop:         TERM, killed after 10s
"
        );
    }

    #[test]
    fn when_a_task_is_replaced() {
        let shown = |policy: Value| {
            let (mut screen, out, _) = paper();
            let spec = json!({"name": "web", "command": ["serve"], "restart_policy": policy});
            inspect(&mut screen, &service(json!({"spec": spec}))).unwrap();
            let text = out.text();
            let line = text.lines().find_map(|l| l.strip_prefix("Replaced:")).unwrap();
            line.trim().to_owned()
        };
        for (policy, words) in [
            (json!({"condition": "none"}), "never"),
            (json!({"condition": "on-failure", "delay": "1s"}), "on failure, after 1s"),
            (json!({"max_attempts": 2}), "whenever it ends, after 5s, at most 2 times"),
        ] {
            assert_eq!(shown(policy.clone()), words, "{policy}");
        }
    }

    #[test]
    fn a_failed_task_leads_to_its_output() {
        let services = [("1".to_owned(), "web".to_owned()), ("2".to_owned(), "web-api".to_owned())];
        for (why, said) in [
            (
                "web-api.1 keeps failing",
                "web-api.1 keeps failing; what it wrote: `quelea service logs web-api`",
            ),
            ("web.2 ended", "web.2 ended; what it wrote: `quelea service logs web`"),
            ("lost the daemon", "lost the daemon"),
            ("web was removed meanwhile", "web was removed meanwhile"),
        ] {
            assert_eq!(with_a_hint(Failure::Refused(why.into()), &services).to_string(), said);
        }
    }

    #[test]
    fn a_name_is_printed_when_its_tasks_are_gone() {
        let gone = |id: &str| {
            let tasks = json!({"index": 5, "changed": 5, "items": []});
            fake::json(&format!("GET /v1/tasks?service={id}&"), 200, 5, &tasks)
        };
        let daemon = Fake::start(vec![
            fake::json(
                "DELETE /v1/services/web",
                200,
                5,
                &json!({"id": "s1", "name": "web", "version": 4, "index": 5, "changed": true}),
            ),
            fake::json("DELETE /v1/services/nope", 404, 5, &json!({"error": "no service nope"})),
            fake::json(
                "DELETE /v1/services/api",
                200,
                5,
                &json!({"id": "s2", "name": "api", "version": 4, "index": 5, "changed": true}),
            ),
            gone("s1"),
            gone("s2"),
        ]);
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            rm: Rm,
        }
        let (screen, out, _) = paper();
        let mut cx = Cx { client: daemon.client(), screen };
        let line = <Line as clap::Parser>::parse_from(["rm", "web", "nope", "api"]);
        let failure = crate::commands::block_on(line.rm.run(&mut cx)).unwrap_err();
        assert_eq!(failure.to_string(), "no service nope");
        assert_eq!(out.text(), "web\napi\n");
        daemon.asked();
    }

    #[test]
    fn two_changes_of_different_fields_go_together() {
        let spec = |json: Value| serde_json::from_value::<native_api::types::ServiceSpec>(json).unwrap();
        let old = spec(json!({"name": "w", "replicas": 1, "command": ["a"]}));
        let ours = spec(json!({"name": "w", "replicas": 1, "command": ["b"], "user": "u"}));
        let theirs = spec(json!({"name": "w", "replicas": 7, "command": ["a"]}));
        let both = rebase(&old, &ours, &theirs).unwrap();
        assert_eq!(both, spec(json!({"name": "w", "replicas": 7, "command": ["b"], "user": "u"})));
        let against = spec(json!({"name": "w", "replicas": 1, "command": ["c"]}));
        assert_eq!(rebase(&old, &ours, &against), None);
    }

    #[test]
    fn commands_as_they_could_be_typed() {
        let words = ["a", "b c", "", "it's", "x=y/z"].map(str::to_owned);
        assert_eq!(command_line(&words), r"a 'b c' '' 'it'\''s' x=y/z");
    }
}
