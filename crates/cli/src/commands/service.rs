//! `service`: create, look at, change and remove services.

use clap::{Args, Subcommand};
use hyper::Method;
use native_api::types::{Mode, Scale as ScaleBody, Service, ServiceUpdate, Task, Written};

use super::Cx;
use super::logs::Logs;
use super::options::{Filters, ListFlags, WaitFlags};
use super::service_spec::CreateFlags;
use super::service_update::Update;
use super::tasks::PsFlags;
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
    /// Prints its id, then waits until exactly the wanted tasks run and have done so for a second. Ends with 1 when the
    /// tasks of one slot fail three times, or have ended and are not replaced; with 4 when that takes longer than
    /// --timeout. A task that finds no node is waited for, its reason shown.
    Create(Box<Create>),
    /// List services.
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// List the tasks of services, with the history of each slot.
    Ps(Ps),
    /// Show services in full.
    Inspect(Inspect),
    /// Change how many tasks replicated services have.
    Scale(Scale),
    /// Change a service.
    Update(Box<Update>),
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
    /// As JSON.
    #[arg(long)]
    json: bool,
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
pub struct Rm {
    /// The services: names, ids or beginnings of ids.
    #[arg(required = true, value_name = "SERVICE")]
    services: Vec<String>,
    #[command(flatten)]
    wait: WaitFlags,
}

fn scaled(text: &str) -> Result<(String, u32), String> {
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
fn suffix() -> String {
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
    let services = written.into_iter().map(|w| (w.id, w.name)).collect();
    progress::converge(&cx.client, &mut cx.screen, flags.wait(services, index, look)).await
}

impl Ls {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let filters = Filters::parse(&self.filter, &["name", "label", "mode", "id", "stack"])?;
        let mut services = cx.client.list::<Service>(Route::new(&["services"])).await?.value;
        services.retain(|s| {
            filters.hold("name", |v| s.name.starts_with(v))
                && filters.hold_labels("label", &s.spec.labels)
                && filters.hold("mode", |v| mode_word(s.spec.mode) == v)
                && filters.hold("id", |v| s.id.starts_with(v))
                && filters.hold("stack", |v| s.stack.as_deref() == Some(v))
        });
        services.sort_by(|a, b| a.name.cmp(&b.name));
        show_list(&mut cx.screen, &services, &self.list)
    }
}

/// Shows services as a list.
pub fn show_list(screen: &mut Screen, services: &[Service], list: &ListFlags) -> Result<(), Failure> {
    if list.json {
        return screen.json(&services);
    }
    if list.ids_only {
        return services.iter().try_for_each(|s| screen.line(&s.id));
    }
    let mut table = Table::new(&["ID", "NAME", "MODE", "REPLICAS", "STATE", "PORTS", "~COMMAND"]);
    for service in services {
        let (state, tone) = state(service);
        table.row(vec![
            short(&service.id, list.no_trunc).into(),
            service.name.as_str().into(),
            mode_word(service.spec.mode).into(),
            format!("{}/{}", service.status.running, service.status.wanted).into(),
            Cell::new(state, tone),
            ports(service).into(),
            command_line(&service.spec.command).into(),
        ]);
    }
    screen.table(&table)
}

fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Replicated => "replicated",
        Mode::Global => "global",
    }
}

/// Where a service stands, in a word or two.
fn state(service: &Service) -> (String, Tone) {
    let status = &service.status;
    if status.converged {
        return ("steady".into(), Tone::Good);
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
    ("moving".into(), Tone::Waiting)
}

/// States of tasks that run no more.
const ENDED: [&str; 6] = ["complete", "shutdown", "failed", "rejected", "remove", "orphaned"];

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
        if self.json {
            return cx.screen.json(&services);
        }
        for (i, service) in services.iter().enumerate() {
            if i > 0 {
                cx.screen.line("")?;
            }
            inspect(&mut cx.screen, service)?;
        }
        Ok(())
    }
}

/// Everything about a service that differs from nothing, for people.
fn inspect(screen: &mut Screen, service: &Service) -> Result<(), Failure> {
    let now = screen.now();
    let spec = &service.spec;
    let mut fields = Fields::default();
    fields.add("ID", &service.id);
    fields.add("Name", &service.name);
    fields.add_some("Stack", service.stack.as_ref());
    fields.add("Created", time::ago(&service.created_at, now));
    fields.add("Changed", time::ago(&service.updated_at, now));
    let replicas = spec.replicas.filter(|_| spec.mode == Mode::Replicated);
    let replicas = replicas.map(|n| format!(" ({n})")).unwrap_or_default();
    fields.add("Mode", format!("{}{replicas}", mode_word(spec.mode)));
    let status = &service.status;
    fields.add("Tasks", format!("{} of {} running, {}", status.running, status.wanted, state(service).0));
    fields.add_some("Waiting", status.reason.as_ref());
    fields.add(
        "Revision",
        format!("{} ({})", service.revision.number, time::ago(&service.revision.created_at, now)),
    );
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
    fields.add("Ports", ports(service));
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
        n => format!(", at most {n} times in {}", policy.window),
    };
    let condition = serde_json::to_value(policy.condition).ok();
    let condition = condition.as_ref().and_then(|c| c.as_str()).unwrap_or_default().to_owned();
    fields.add("Replaced", format!("{condition}, after {}{attempts}", policy.delay));
    fields.add("Update", format!("{} at once, {} between", spec.update.parallelism, spec.update.delay));
    let signal = spec.stop_signal.as_deref().unwrap_or("TERM");
    fields.add("Stop", format!("{signal}, killed after {}", spec.stop_grace_period));
    fields.show(screen)
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

/// Names with values, one a line, aligned; what is empty is left out.
#[derive(Default)]
pub struct Fields(Vec<(&'static str, String)>);

impl Fields {
    /// Adds a field unless its value is empty.
    pub fn add(&mut self, name: &'static str, value: impl Into<String>) {
        let value = value.into();
        if !value.is_empty() {
            self.0.push((name, value));
        }
    }

    /// Adds a field when there is a value.
    pub fn add_some(&mut self, name: &'static str, value: Option<&String>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// Adds values under one name, one a line.
    pub fn add_all(&mut self, name: &'static str, values: impl Iterator<Item = String>) {
        for (i, value) in values.enumerate() {
            self.0.push((if i == 0 { name } else { "" }, value));
        }
    }

    /// Writes them.
    pub fn show(&self, screen: &mut Screen) -> Result<(), Failure> {
        for (name, value) in &self.0 {
            let name = if name.is_empty() { String::new() } else { format!("{name}:") };
            screen.line(format!("{name:<14}{}", crate::screen::plain(value)))?;
        }
        Ok(())
    }
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

async fn run_update(update: Update, cx: &mut Cx) -> Result<(), Failure> {
    let wait = update.wait.clone();
    let name = update.service.clone();
    let before = cx.client.get::<Service>(Route::new(&["services", &name])).await?.value;
    let id = before.id.clone();
    let mut changed = before.spec.clone();
    update.apply(&mut changed, &variable)?;
    let written = put(cx, &id, before, changed).await?;
    cx.screen.line(&written.name)?;
    if !written.changed {
        cx.screen.note("nothing had to be changed")?;
    }
    cx.screen.flush()?;
    tell(cx, &written.notes)?;
    converge(cx, &wait, vec![written]).await
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
                Ok(written) => {
                    cx.screen.line(&written.name)?;
                    removed.push(written);
                }
                // As in docker the others are removed all the same.
                Err(failure @ Failure::Api { .. }) => {
                    if let Some(earlier) = failed.replace(failure) {
                        cx.screen.note(earlier.to_string())?;
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
        cx.screen.flush()?;
        wait_gone(cx, &self.wait, removed).await?;
        failed.map_or(Ok(()), Err)
    }
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
        let with = |status: Value| state(&service(json!({"status": status}))).0;
        let base = |more: Value| {
            let mut status = json!({"wanted": 3, "running": 1, "updated": 3, "waiting": 0, "converged": false, "tasks": {}});
            status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            status
        };
        for (status, word) in [
            (json!({"converged": true}), "steady"),
            (json!({"waiting": 2}), "2 waiting"),
            (json!({"updated": 1}), "updating 1/3"),
            (json!({"tasks": {"failed": 2, "running": 1}}), "moving"),
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
0123456789ab  web   replicated  3/3       steady                          serve --name 'two words'
z123          each  global      1/2       1 waiting  http=80/tcp,any/udp  beat
"
        );
    }

    #[test]
    fn a_service_in_full() {
        let (mut screen, out, _) = paper();
        let spec = json!({
            "name": "web", "replicas": 3, "command": ["serve"], "env": {"A": "1", "B": "2"}, "user": "nobody",
            "placement": {"constraints": ["node.role==worker"], "max_replicas_per_node": 1},
            "resources": {"limits": {"cpus": 0.5, "memory": 67108864, "pids": 0}, "reservations": {"generic_resources": {"gpu": 1}}},
            "restart_policy": {"condition": "on-failure", "delay": "2s", "max_attempts": 3, "window": "1m0s"},
        });
        inspect(&mut screen, &service(json!({"spec": spec, "stack": "shop"}))).unwrap();
        assert_eq!(
            out.text(),
            "\
ID:           0123456789abcdefghijklmno
Name:         web
Stack:        shop
Created:      About an hour ago
Changed:      3 minutes ago
Mode:         replicated (3)
Tasks:        3 of 3 running, steady
Revision:     2 (3 minutes ago)
Driver:       exec
Command:      serve
Environment:  A=1
              B=2
User:         nobody
Constraints:  node.role==worker
Per node:     at most 1
Limits:       0.5 CPUs, 64 MiB memory
Counted:      gpu=1
Replaced:     on-failure, after 2s, at most 3 times in 1m0s
Update:       1 at once, 0s between
Stop:         TERM, killed after 10s
"
        );
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
