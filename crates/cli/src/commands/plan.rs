//! `plan`: what a change would do, worked out on a copy of the cluster.

use std::io::Write;

use clap::{Args, Subcommand};
use hyper::Method;
use native_api::types::{
    Cpus, FieldChange, Load, NodePlan, Plan as Answer, PlanAction, Scale as ScaleBody, Service, ServicePlan,
    ServiceUpdate, Size, TaskCounts, TaskPlan, UnplaceablePlan,
};

use super::Cx;
use super::service::{scaled, suffix, variable};
use super::service_spec::CreateFlags;
use super::service_update::Update;
use super::stack::{StackFile, with_places};
use crate::client::Route;
use crate::failure::Failure;
use crate::screen::{Screen, plain};
use crate::table::{Cell, Table, Tone};

/// Slots that are listed unless all are wanted.
const SLOTS_SHOWN: usize = 40;

const EXIT_CODES: &str =
    "Exit codes: 0 nothing would change, 1 something would, 2 wrong usage, 255 refused or failed.";

/// What a change would do. Nothing is changed.
#[derive(Debug, Subcommand)]
#[command(after_help = EXIT_CODES)]
pub enum Command {
    /// What a change of a service would do.
    #[command(subcommand)]
    Service(ServiceCommand),
    /// What a deployment of a stack would do.
    Stack(Stack),
}

#[derive(Debug, Subcommand)]
#[command(after_help = EXIT_CODES)]
pub enum ServiceCommand {
    /// What `service create` would do with these flags.
    Create(Box<Create>),
    /// What `service update` would do with these flags.
    Update(Box<UpdateFlags>),
    /// What `service scale` would do.
    Scale(Scale),
    /// What `service rollback` would do.
    Rollback(Rm),
    /// What `service promote` would do.
    Promote(Rm),
    /// What `service abort` would do.
    Abort(Rm),
    /// What `service rm` would do.
    #[command(visible_alias = "remove")]
    Rm(Rm),
}

/// How a plan is shown.
#[derive(Clone, Copy, Debug, Args)]
pub struct ShowFlags {
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Every slot, however many there are.
    #[arg(long, conflicts_with = "json")]
    all: bool,
}

#[derive(Debug, Args)]
pub struct Create {
    #[command(flatten)]
    flags: CreateFlags,
    #[command(flatten)]
    show: ShowFlags,
}

#[derive(Debug, Args)]
pub struct UpdateFlags {
    #[command(flatten)]
    update: Update,
    #[command(flatten)]
    show: ShowFlags,
}

#[derive(Debug, Args)]
pub struct Scale {
    /// The service and how many tasks it would have.
    #[arg(value_name = "SERVICE=N", value_parser = scaled)]
    service: (String, u32),
    #[command(flatten)]
    show: ShowFlags,
}

#[derive(Debug, Args)]
pub struct Rm {
    /// The service: its name, its id or the beginning of it.
    service: String,
    #[command(flatten)]
    show: ShowFlags,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Stack {
    #[command(flatten)]
    file: StackFile,
    #[command(flatten)]
    show: ShowFlags,
}

impl Command {
    /// Shows it. [`Failure::Changes`] says that something would change.
    pub async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let (answer, flags) = match self {
            Self::Service(command) => command.ask(cx).await?,
            Self::Stack(Stack { file, show }) => {
                let body = file.body(&variable)?;
                let route = Route::new(&["plan", "stacks", file.name()]);
                let sent = cx.client.change::<Answer>(Method::PUT, route, Some(&body)).await;
                (sent.map_err(|failure| with_places(failure, &body.file_name))?, show)
            }
        };
        finish(cx, &answer, flags, "Plan")
    }
}

impl ServiceCommand {
    async fn ask(self, cx: &Cx) -> Result<(Answer, ShowFlags), Failure> {
        let service =
            |name: &str, more: &[&str]| Route::new(&[&["plan", "services", name][..], more].concat());
        Ok(match self {
            Self::Create(create) => {
                let Create { flags, show } = *create;
                let spec = flags.spec(&variable, &suffix())?;
                let route = Route::new(&["plan", "services"]);
                (cx.client.change(Method::POST, route, Some(&spec)).await?, show)
            }
            Self::Update(flags) => {
                let UpdateFlags { update, show } = *flags;
                let before =
                    cx.client.get::<Service>(Route::new(&["services", &update.service])).await?.value;
                let mut spec = before.spec.clone();
                let rollback = update.rollback;
                update.apply(&mut spec, &variable)?;
                if rollback && spec != before.spec {
                    let why = "--rollback goes with no other flag that changes the service";
                    return Err(Failure::Usage(why.into()));
                }
                if rollback {
                    let route = service(&before.id, &["rollback"]);
                    return Ok((cx.client.change(Method::POST, route, None::<&()>).await?, show));
                }
                let body = ServiceUpdate { spec, version: Some(before.version) };
                (cx.client.change(Method::PUT, service(&before.id, &[]), Some(&body)).await?, show)
            }
            Self::Scale(Scale { service: (name, replicas), show }) => {
                let body = ScaleBody { replicas, version: None };
                (cx.client.change(Method::POST, service(&name, &["scale"]), Some(&body)).await?, show)
            }
            Self::Rollback(Rm { service: name, show }) => {
                (cx.client.change(Method::POST, service(&name, &["rollback"]), None::<&()>).await?, show)
            }
            Self::Promote(Rm { service: name, show }) => {
                (cx.client.change(Method::POST, service(&name, &["promote"]), None::<&()>).await?, show)
            }
            Self::Abort(Rm { service: name, show }) => {
                (cx.client.change(Method::POST, service(&name, &["abort"]), None::<&()>).await?, show)
            }
            Self::Rm(Rm { service: name, show }) => (cx.client.delete(service(&name, &[])).await?, show),
        })
    }
}

/// Shows a plan or a simulation, and says how to end.
pub fn finish(cx: &mut Cx, answer: &Answer, flags: ShowFlags, word: &str) -> Result<(), Failure> {
    for warning in &answer.warnings {
        cx.screen.note(format!("warning: {warning}"))?;
    }
    if flags.json {
        cx.screen.json(answer)?;
    } else {
        show(&mut cx.screen, answer, flags.all, word)?;
    }
    if answer.changes { Err(Failure::Changes) } else { Ok(()) }
}

fn show(screen: &mut Screen, plan: &Answer, all: bool, word: &str) -> Result<(), Failure> {
    for name in &plan.kept {
        screen
            .line(format!("  service {name} stays although the file has it no more; --prune removes it"))?;
    }
    if !plan.changes {
        return screen.line(format!("Nothing would change (index {}).", plan.index));
    }
    for stack in &plan.stacks {
        line(screen, stack.action, &format!("stack {}", stack.name))?;
    }
    for service in &plan.services {
        show_service(screen, service)?;
    }
    show_slots(screen, &plan.tasks, slots(&plan.services), all)?;
    show_unplaceable(screen, &plan.unplaceable, plan.waiting)?;
    show_nodes(screen, &plan.nodes)?;
    if !plan.complete {
        screen.line("")?;
        screen.line("This took too long and was ended early: there would be more.")?;
    }
    screen.line("")?;
    screen.line(format!("{word} at index {}: {}. Nothing was changed.", plan.index, summary(&plan.services)))
}

/// A line with the sign and the colour of what happens.
fn line(screen: &mut Screen, action: PlanAction, text: &str) -> Result<(), Failure> {
    let (sign, tone) = match action {
        PlanAction::Created => ("+", Tone::Good),
        PlanAction::Changed => ("~", Tone::Waiting),
        PlanAction::Removed => ("-", Tone::Bad),
        PlanAction::Unchanged => (" ", Tone::Plain),
    };
    let text = screen.toned(&format!("{sign} {}", plain(text)), tone);
    screen.line(text)
}

fn show_service(screen: &mut Screen, service: &ServicePlan) -> Result<(), Failure> {
    let tasks = counts(&service.tasks);
    let what = match service.action {
        PlanAction::Changed if !service.revised && tasks.is_empty() => {
            let stay = if service.tasks.kept == 1 { "stays" } else { "stay" };
            format!("updated in place, {} {stay}", tasks_text(service.tasks.kept))
        }
        _ if tasks.is_empty() => "no tasks".into(),
        _ => tasks,
    };
    line(screen, service.action, &format!("service {}: {what}", service.name))?;
    let width = service.fields.iter().map(|f| f.field.chars().count()).max().unwrap_or(0);
    for field in &service.fields {
        let (action, value) = match (&field.old, &field.new) {
            (None, Some(new)) => (PlanAction::Created, value(field, new)),
            (Some(old), None) => (PlanAction::Removed, value(field, old)),
            (Some(old), Some(new)) if service.action != PlanAction::Created => {
                (PlanAction::Changed, format!("{} -> {}", value(field, old), value(field, new)))
            }
            (_, new) => (PlanAction::Created, value(field, new.as_deref().unwrap_or_default())),
        };
        screen.out.write_all(b"    ")?;
        line(screen, action, &format!("{:width$}  {value}", field.field))?;
    }
    Ok(())
}

/// A value as people read it: sizes are bytes in the API.
fn value(field: &FieldChange, text: &str) -> String {
    let is_size = field.field.ends_with(".memory") || field.field.ends_with("max_bytes");
    match text.parse::<i64>() {
        Ok(bytes) if is_size && bytes > 0 => model::format_bytes(bytes),
        _ if text.is_empty() => "\"\"".into(),
        _ => text.to_owned(),
    }
}

/// `3 tasks replaced, 1 removed`; empty when nothing happens to any.
fn counts(tasks: &TaskCounts) -> String {
    let parts = [
        (tasks.created, "created"),
        (tasks.replaced, "replaced"),
        (tasks.moved, "moved"),
        (tasks.placed, "placed that waits"),
        (tasks.removed, "removed"),
        (tasks.lost, "lost"),
        (tasks.canaries, if tasks.canaries == 1 { "with a canary" } else { "with canaries" }),
    ];
    let mut text = String::new();
    for (n, what) in parts.into_iter().filter(|(n, _)| *n > 0) {
        let number = if text.is_empty() { tasks_text(n) } else { n.to_string() };
        let comma = if text.is_empty() { "" } else { ", " };
        text.push_str(&format!("{comma}{number} {what}"));
    }
    if tasks.unplaceable > 0 {
        text.push_str(&format!(" ({} would find no node)", tasks.unplaceable));
    }
    text
}

fn tasks_text(n: u64) -> String {
    if n == 1 { "1 task".into() } else { format!("{n} tasks") }
}

/// How many slots something happens to.
fn slots(services: &[ServicePlan]) -> u64 {
    let of = |t: &TaskCounts| t.created + t.replaced + t.moved + t.removed + t.lost + t.placed + t.canaries;
    services.iter().map(|s| of(&s.tasks)).sum()
}

fn show_slots(screen: &mut Screen, tasks: &[TaskPlan], total: u64, all: bool) -> Result<(), Failure> {
    if tasks.is_empty() {
        return Ok(());
    }
    screen.line("")?;
    let mut table = Table::new(&["TASK", "CHANGE", "FROM", "TO", "~WHY"]);
    let shown = if all { tasks.len() } else { tasks.len().min(SLOTS_SHOWN) };
    for task in &tasks[..shown] {
        let tone = match task.fate.as_str() {
            "created" | "placed" => Tone::Good,
            "removed" | "lost" => Tone::Bad,
            _ => Tone::Waiting,
        };
        let goes = task.fate == "removed" || (task.fate == "canary" && task.task.is_some());
        let nowhere = if goes { "" } else { "(no node)" };
        table.row(vec![
            task.name.as_str().into(),
            Cell::new(&task.fate, tone),
            task.from.as_deref().unwrap_or_default().into(),
            task.to.as_deref().unwrap_or(nowhere).into(),
            task.reason.as_deref().unwrap_or_default().into(),
        ]);
    }
    screen.table(&table)?;
    let more = total.saturating_sub(shown as u64);
    if more > 0 {
        let how = if all || shown == tasks.len() { "" } else { "; --all shows them" };
        screen.line(format!("and {more} more{how}"))?;
    }
    Ok(())
}

fn show_unplaceable(screen: &mut Screen, groups: &[UnplaceablePlan], waiting: u64) -> Result<(), Failure> {
    if !groups.is_empty() || waiting > 0 {
        screen.line("")?;
    }
    for group in groups {
        let why = group.unplaced.as_ref().map_or("not looked at", |u| u.text.as_str());
        let who = match group.count {
            1 => group.first.clone(),
            n => format!("{} and {} more", group.first, n - 1),
        };
        let text = screen.toned(&format!("! {}", plain(&format!("{who}: {why}"))), Tone::Bad);
        screen.line(text)?;
        if let Some(remedy) = &group.remedy {
            screen.line(format!("  {}", plain(remedy)))?;
        }
    }
    if waiting > 0 {
        let wait = if waiting == 1 { "waits" } else { "wait" };
        screen.line(format!("{} {wait} for a node with and without this.", tasks_text(waiting)))?;
    }
    Ok(())
}

/// The load of nodes before and after.
pub fn show_nodes(screen: &mut Screen, nodes: &[NodePlan]) -> Result<(), Failure> {
    if nodes.is_empty() {
        return Ok(());
    }
    screen.line("")?;
    let mut table = Table::new(&["NODE", "CHANGE", "TASKS", "CPUS RESERVED", "MEMORY RESERVED"]);
    for node in nodes {
        let both = |show: &dyn Fn(&Load) -> String| {
            let side = |load: &Option<Load>| load.as_ref().map_or("-".to_owned(), show);
            let (before, after) = (side(&node.before), side(&node.after));
            if before == after { before } else { format!("{before} -> {after}") }
        };
        let tone = match node.change.as_deref() {
            Some("added" | "ready") => Tone::Good,
            Some("down" | "removed") => Tone::Bad,
            _ => Tone::Waiting,
        };
        table.row(vec![
            node.hostname.as_str().into(),
            Cell::new(node.change.as_deref().unwrap_or_default(), tone),
            both(&|load| load.tasks.to_string()).into(),
            of(&both(&|load| load.reserved.cpus.to_string()), &cpus(&node.resources.cpus)).into(),
            of(&both(&|load| size(&load.reserved.memory)), &size(&node.resources.memory)).into(),
        ]);
    }
    screen.table(&table)
}

fn of(used: &str, total: &str) -> String {
    format!("{used} of {total}")
}

fn cpus(cpus: &Cpus) -> String {
    cpus.to_string()
}

fn size(size: &Size) -> String {
    match size.bytes() {
        Ok(0) | Err(_) => "0".into(),
        Ok(bytes) => model::format_bytes(bytes),
    }
}

/// `1 service created, 2 changed; 5 tasks created`.
fn summary(services: &[ServicePlan]) -> String {
    let with = |action: PlanAction| services.iter().filter(|s| s.action == action).count();
    let mut parts = Vec::new();
    for (action, word) in
        [(PlanAction::Created, "created"), (PlanAction::Changed, "changed"), (PlanAction::Removed, "removed")]
    {
        match with(action) {
            0 => {}
            n if parts.is_empty() => {
                parts.push(format!("{n} {} {word}", if n == 1 { "service" } else { "services" }));
            }
            n => parts.push(format!("{n} {word}")),
        }
    }
    let mut sum = TaskCounts::default();
    for TaskCounts { created, replaced, moved, removed, lost, placed, canaries, kept, unplaceable } in
        services.iter().map(|s| s.tasks)
    {
        sum.created += created;
        sum.replaced += replaced;
        sum.moved += moved;
        sum.removed += removed;
        sum.lost += lost;
        sum.placed += placed;
        sum.canaries += canaries;
        sum.kept += kept;
        sum.unplaceable += unplaceable;
    }
    let tasks = counts(&sum);
    let tasks = if tasks.is_empty() { "no task is touched".into() } else { tasks };
    if parts.is_empty() { tasks } else { format!("{}; {tasks}", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::screen::tests::paper;

    fn shown(plan: &serde_json::Value) -> String {
        let mut whole = json!({
            "index": 7, "changes": true, "complete": true, "stacks": [], "services": [], "tasks": [],
            "unplaceable": [], "waiting": 0, "nodes": [], "kept": [], "warnings": [],
        });
        whole.as_object_mut().unwrap().extend(plan.as_object().unwrap().clone());
        let (mut screen, out, _) = paper();
        show(&mut screen, &serde_json::from_value(whole).unwrap(), false, "Plan").unwrap();
        out.text()
    }

    fn counted(some: serde_json::Value) -> serde_json::Value {
        let mut all = json!({
            "created": 0, "replaced": 0, "moved": 0, "removed": 0, "lost": 0, "placed": 0, "kept": 0, "unplaceable": 0,
        });
        all.as_object_mut().unwrap().extend(some.as_object().unwrap().clone());
        all
    }

    #[test]
    fn nothing_to_do() {
        assert_eq!(shown(&json!({"changes": false})), "Nothing would change (index 7).\n");
    }

    #[test]
    fn a_plan_as_it_is_read() {
        let amounts = |memory: u64| json!({"cpus": 0, "memory": memory, "generic_resources": {}});
        let plan = json!({
            "stacks": [{"name": "shop", "action": "changed"}],
            "services": [
                {"name": "db", "id": "d", "action": "changed", "revised": false,
                 "fields": [{"field": "labels.tier", "old": "a", "new": "b"}], "tasks": counted(json!({"kept": 2}))},
                {"name": "old", "id": "o", "action": "removed", "revised": false, "fields": [],
                 "tasks": counted(json!({"removed": 1}))},
                {"name": "web", "action": "created", "revised": false,
                 "fields": [{"field": "command", "new": "[\"run\"]"},
                            {"field": "resources.reservations.memory", "old": "0", "new": "1073741824"}],
                 "tasks": counted(json!({"created": 3, "unplaceable": 2}))},
            ],
            "tasks": [
                {"name": "old.1", "service": "old", "fate": "removed", "from": "n1", "reason": "the service is removed"},
                {"name": "web.1", "service": "web", "fate": "created", "to": "n1"},
                {"name": "web.2", "service": "web", "fate": "created"},
                {"name": "web.3", "service": "web", "fate": "created"},
            ],
            "unplaceable": [{"first": "web.2", "count": 2, "unplaced": {"text": "no suitable node (x)", "refusals": []}}],
            "nodes": [{"id": "n", "hostname": "n1", "resources": amounts(2 << 30),
                "before": {"tasks": 3, "reserved": amounts(0)}, "after": {"tasks": 4, "reserved": amounts(1 << 30)}}],
        });
        assert_eq!(
            shown(&plan),
            r#"~ stack shop
~ service db: updated in place, 2 tasks stay
    ~ labels.tier  a -> b
- service old: 1 task removed
+ service web: 3 tasks created (2 would find no node)
    + command                        ["run"]
    + resources.reservations.memory  1 GiB

TASK   CHANGE   FROM  TO         WHY
old.1  removed  n1               the service is removed
web.1  created        n1
web.2  created        (no node)
web.3  created        (no node)

! web.2 and 1 more: no suitable node (x)

NODE  CHANGE  TASKS   CPUS RESERVED  MEMORY RESERVED
n1            3 -> 4  0 of 0         0 -> 1 GiB of 2 GiB

Plan at index 7: 1 service created, 1 changed, 1 removed; 3 tasks created, 1 removed (2 would find no node). Nothing was changed.
"#
        );
    }

    #[test]
    fn many_slots_are_counted() {
        let task =
            |n: u32| json!({"name": format!("web.{n}"), "service": "web", "fate": "created", "to": "n1"});
        let tasks: Vec<_> = (1..=41).map(task).collect();
        let services = json!([{"name": "web", "action": "created", "revised": false, "fields": [],
            "tasks": counted(json!({"created": 50_000}))}]);
        let text = shown(&json!({"services": services, "tasks": tasks}));
        assert!(text.contains("web.40  created        n1\nand 49960 more; --all shows them\n"), "{text}");
    }
}
