//! Tasks as people see them: the table of `ps`, with the history of each slot.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use clap::Args;
use native_api::types::Task;

use super::options::Filters;
use super::show::{ListFlags, capital};
use crate::failure::Failure;
use crate::progress::{failure_of, is_live};
use crate::screen::{Screen, short};
use crate::table::{Cell, Table, Tone};
use crate::time;

/// How tasks are listed.
#[derive(Debug, Args)]
pub struct PsFlags {
    /// Only some: name=, node=, desired-state=, state=, id=.
    #[arg(short, long, value_name = "KEY=VALUE")]
    filter: Vec<String>,
    /// Ids instead of the names of services and nodes.
    #[arg(long)]
    no_resolve: bool,
    #[command(flatten)]
    list: ListFlags,
}

const FILTERS: [&str; 5] = ["name", "node", "desired-state", "state", "id"];

impl PsFlags {
    /// Shows the tasks that the filters leave, each slot's newest first.
    pub fn show(&self, screen: &mut Screen, tasks: Vec<Task>) -> Result<(), Failure> {
        let filters = Filters::parse(&self.filter, &FILTERS)?;
        let mut tasks: Vec<Task> = tasks.into_iter().filter(|t| passes(&filters, t)).collect();
        sort(&mut tasks);
        let names = match (self.no_resolve, self.list.no_trunc) {
            (true, _) => Names::Ids,
            (false, true) => Names::Whole,
            (false, false) => Names::Short,
        };
        let whole = self.list.no_trunc;
        self.list.show(screen, &tasks, |t| &t.id, |screen| table_with(&tasks, screen.now(), whole, names))
    }
}

fn passes(filters: &Filters, task: &Task) -> bool {
    let node = |wanted: &str| {
        task.hostname.as_deref() == Some(wanted)
            || task.node.as_ref().is_some_and(|id| id.starts_with(wanted))
    };
    let named =
        |wanted: &str| task.name.starts_with(wanted) || task_name(task, Names::Short).starts_with(wanted);
    filters.hold("name", named)
        && filters.hold("node", node)
        && filters.hold("desired-state", |v| task.desired == v)
        && filters.hold("state", |v| task.state == v)
        && filters.hold("id", |v| task.id.starts_with(v))
}

/// Where a task belongs: its service, then its slot or node.
fn place(task: &Task) -> (String, Option<u64>, String) {
    let service = task.service_name.clone().unwrap_or_else(|| task.service.clone());
    let node =
        task.slot.map_or_else(|| task.hostname.clone().unwrap_or_default() + &task.name, |_| String::new());
    (service, task.slot, node)
}

/// By service and slot; in a slot what is there first, then what is wanted, then the newest first.
pub fn sort(tasks: &mut [Task]) {
    tasks.sort_by_cached_key(|t| {
        (
            place(t),
            !is_live(t),
            !is_wanted(t),
            Reverse(t.created_at.clone()),
            Reverse(t.version),
            t.id.clone(),
        )
    });
}

fn is_wanted(task: &Task) -> bool {
    matches!(task.desired.as_str(), "ready" | "running" | "complete")
}

/// The table of tasks, which are in the order of [`sort`].
pub fn table(tasks: &[Task], now: jiff::Timestamp, whole: bool) -> Table {
    table_with(tasks, now, whole, if whole { Names::Whole } else { Names::Short })
}

fn table_with(tasks: &[Task], now: jiff::Timestamp, whole: bool, names: Names) -> Table {
    let titles = ["ID", "NAME", "^NODE", "?DESIRED", "^CURRENT STATE", "?EXIT", "^PORTS", "~ERROR"];
    let mut table = Table::new(&titles);
    let mut seen = BTreeSet::new();
    // The slot's own task is no history of the canary beside it.
    let tried: BTreeSet<_> = tasks.iter().filter(|t| t.canary && is_live(t)).map(place).collect();
    for task in tasks {
        let beside = is_live(task) && tried.contains(&place(task));
        let older = !seen.insert(place(task)) && !beside;
        let name = task_name(task, names);
        let tone = |tone: Tone| if older { Tone::Old } else { tone };
        let host = task.hostname.as_deref().filter(|_| names != Names::Ids);
        // An id in place of a host name is as short as any other.
        let node = host.or(task.node.as_deref().map(|id| short(id, whole))).unwrap_or("");
        table.row(vec![
            Cell::new(short(&task.id, whole), tone(Tone::Plain)),
            Cell::new(if older { format!(" \\_ {name}") } else { name }, tone(Tone::Plain)),
            Cell::new(node, tone(Tone::Plain)),
            Cell::new(capital(&task.desired), tone(Tone::Plain)),
            Cell::new(current_state(task, now), tone(state_tone(task))),
            Cell::new(task.exit_code.map(|c| c.to_string()).unwrap_or_default(), tone(Tone::Plain)),
            Cell::new(ports(task), tone(Tone::Plain)),
            Cell::new(reason(task), tone(Tone::Plain)),
        ]);
    }
    table
}

/// How tasks and nodes are called in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// `web.1`; of a global service `web.` and the host name of the node, where it is known.
    Short,
    /// As above, but with the node's whole id, as the API names it.
    Whole,
    /// The ids of the service and of the node.
    Ids,
}

/// What a task is called. Whatever it is, it can be typed wherever a task is named.
fn task_name(task: &Task, names: Names) -> String {
    match (names, task.slot, &task.service_name, &task.hostname, &task.node) {
        (Names::Short, None, Some(service), Some(host), _) => format!("{service}.{host}"),
        (Names::Ids, Some(slot), ..) => format!("{}.{slot}", task.service),
        (Names::Ids, None, _, _, Some(node)) => format!("{}.{node}", task.service),
        _ => task.name.clone(),
    }
}

fn current_state(task: &Task, now: jiff::Timestamp) -> String {
    let state = capital(&task.state) + if task.canary && is_wanted(task) { " (canary)" } else { "" };
    let starts = task.start_after.as_deref().filter(|_| task.desired == "ready");
    match starts.and_then(|at| time::until(at, now)) {
        Some(left) => format!("{state}, starts in {left}"),
        None => format!("{state} {}", time::ago(&task.since, now)),
    }
}

fn state_tone(task: &Task) -> Tone {
    match task.state.as_str() {
        "running" => Tone::Good,
        "failed" | "rejected" | "orphaned" => Tone::Bad,
        "complete" | "shutdown" | "remove" => Tone::Plain,
        _ => Tone::Waiting,
    }
}

fn ports(task: &Task) -> String {
    let show = |p: &native_api::types::BoundPort| {
        let name = if p.name.is_empty() { String::new() } else { format!("{}=", p.name) };
        format!("{name}{}/{}", p.port, p.protocol)
    };
    task.ports.iter().map(show).collect::<Vec<_>>().join(",")
}

/// Why it waits, how it ended badly, or why it had to end.
fn reason(task: &Task) -> String {
    match (&task.unplaced, task.state.as_str()) {
        (Some(unplaced), _) => unplaced.text.clone(),
        (None, "failed" | "rejected" | "orphaned") => failure_of(task),
        (None, "complete" | "shutdown") => task.dismissed.clone().unwrap_or_default(),
        (None, _) if task.dismissed.is_some() => task.dismissed.clone().unwrap_or_default(),
        (None, _) => task.message.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
pub mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::screen::tests::paper;

    /// A task of `web` with these fields.
    pub fn task(fields: Value) -> Task {
        let mut whole = json!({
            "id": "0123456789abcdefghijklmno", "name": "web.1", "service": "s1", "service_name": "web", "slot": 1,
            "node": "n1", "hostname": "alpha", "desired": "running", "state": "running",
            "since": "2026-01-31T12:57:00Z", "revision": "r1", "current": true,
            "ports": [], "programs": [], "created_at": "2026-01-31T12:00:00Z", "version": 5, "directed": 5,
        });
        whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    fn tasks() -> Vec<Task> {
        vec![
            task(json!({"id": "b000000000000000000000000", "name": "web.10", "slot": 10})),
            task(json!({
                "id": "c000000000000000000000000", "name": "web.2", "slot": 2, "desired": "shutdown", "state": "failed",
                "exit_code": 137, "message": "killed by signal 9", "created_at": "2026-01-31T12:00:00Z",
                "since": "2026-01-31T12:59:30Z",
            })),
            task(json!({
                "id": "d000000000000000000000000", "name": "web.2", "slot": 2, "desired": "ready", "state": "ready",
                "created_at": "2026-01-31T12:59:30Z", "start_after": "2026-01-31T13:00:03Z",
            })),
            task(json!({
                "id": "e000000000000000000000000",
                "ports": [{"name": "http", "protocol": "tcp", "port": 20000}, {"name": "", "protocol": "udp", "port": 53}],
            })),
            task(json!({
                "id": "f000000000000000000000000", "name": "web.3", "slot": 3, "state": "pending", "node": null,
                "hostname": null, "since": "2026-01-31T12:59:59Z",
                "unplaced": {"text": "no suitable node (insufficient memory on 1 node)", "refusals": []},
            })),
            task(json!({
                "id": "a000000000000000000000000", "name": "agent.n1", "service_name": "agent", "service": "s0", "slot": null,
            })),
        ]
    }

    fn shown(flags: PsFlags, tasks: Vec<Task>) -> String {
        let (mut screen, out, _) = paper();
        flags.show(&mut screen, tasks).unwrap();
        out.text()
    }

    fn flags(filter: &[&str]) -> PsFlags {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            ps: PsFlags,
        }
        let args = filter.iter().map(|f| format!("--filter={f}"));
        let line: Line = clap::Parser::try_parse_from(std::iter::once("ps".to_owned()).chain(args)).unwrap();
        line.ps
    }

    #[test]
    fn slots_with_their_history() {
        assert_eq!(
            shown(flags(&[]), tasks()),
            r"ID            NAME         NODE   DESIRED   CURRENT STATE          EXIT  PORTS                  ERROR
a00000000000  agent.alpha  alpha  Running   Running 3 minutes ago
e00000000000  web.1        alpha  Running   Running 3 minutes ago        http=20000/tcp,53/udp
d00000000000  web.2        alpha  Ready     Ready, starts in 3s
c00000000000   \_ web.2    alpha  Shutdown  Failed 30 seconds ago  137                          killed by signal 9
f00000000000  web.3               Running   Pending 1 second ago                                no suitable node (insufficient memory on 1 node)
b00000000000  web.10       alpha  Running   Running 3 minutes ago
"
        );
    }

    /// While a canary is tried its slot has two tasks, and both head it; one that failed is history below the task that is there.
    #[test]
    fn canaries_and_what_they_stand_beside() {
        let (later, earlier) = ("2026-01-31T12:50:00Z", "2026-01-31T11:00:00Z");
        let canary = |id: &str, mut more: Value| {
            more["id"] = format!("{id}00000000000000000000000").into();
            more["canary"] = true.into();
            more["created_at"] = later.into();
            task(more)
        };
        let failed = json!({"state": "failed", "exit_code": 7, "message": "no"});
        let tasks = vec![
            canary("c1", json!({})),
            task(json!({"id": "a100000000000000000000000", "current": false})),
            task(
                json!({"id": "b100000000000000000000000", "desired": "shutdown", "state": "shutdown", "created_at": earlier}),
            ),
            // Paused: nobody decided about the one that failed.
            canary("c2", slot_of(2, &failed)),
            task(slot_of(2, &json!({"id": "a200000000000000000000000", "current": false}))),
            // The next one waits for its delay.
            canary(
                "c3",
                slot_of(
                    3,
                    &json!({"desired": "ready", "state": "ready", "start_after": "2026-01-31T13:00:03Z"}),
                ),
            ),
            canary(
                "d3",
                slot_of(
                    3,
                    &json!({"desired": "shutdown", "state": "failed", "exit_code": 7, "message": "no"}),
                ),
            ),
            task(slot_of(3, &json!({"id": "a300000000000000000000000", "current": false}))),
        ];
        assert_eq!(
            shown(flags(&[]), tasks),
            r"ID            NAME       NODE   DESIRED   CURRENT STATE                   EXIT  PORTS  ERROR
c10000000000  web.1      alpha  Running   Running (canary) 3 minutes ago
a10000000000  web.1      alpha  Running   Running 3 minutes ago
b10000000000   \_ web.1  alpha  Shutdown  Shutdown 3 minutes ago
a20000000000  web.2      alpha  Running   Running 3 minutes ago
c20000000000   \_ web.2  alpha  Running   Failed (canary) 3 minutes ago   7            no
c30000000000  web.3      alpha  Ready     Ready (canary), starts in 3s
a30000000000  web.3      alpha  Running   Running 3 minutes ago
d30000000000   \_ web.3  alpha  Shutdown  Failed 3 minutes ago            7            no
"
        );
    }

    /// These fields of a task in another slot.
    fn slot_of(slot: u64, more: &Value) -> Value {
        let mut whole = json!({"slot": slot, "name": format!("web.{slot}")});
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        whole
    }

    fn on_a_terminal(width: usize) -> String {
        let (mut screen, out, _) = paper();
        screen.width = Some(width);
        flags(&[]).show(&mut screen, tasks()).unwrap();
        out.text()
    }

    #[test]
    fn terminals_of_different_widths() {
        assert_eq!(
            on_a_terminal(80),
            r"ID            NAME         NODE   CURRENT STATE  PORTS       ERROR
a00000000000  agent.alpha  alpha  Running 3 mi…
e00000000000  web.1        alpha  Running 3 mi…  http=2000…
d00000000000  web.2        alpha  Ready, start…
c00000000000   \_ web.2    alpha  Failed 30 se…              killed by signal 9
f00000000000  web.3               Pending 1 se…              no suitable node (…
b00000000000  web.10       alpha  Running 3 mi…
"
        );
        assert_eq!(
            on_a_terminal(100),
            r"ID            NAME         NODE   CURRENT STATE        PORTS                ERROR
a00000000000  agent.alpha  alpha  Running 3 minutes …
e00000000000  web.1        alpha  Running 3 minutes …  http=20000/tcp,53/…
d00000000000  web.2        alpha  Ready, starts in 3s
c00000000000   \_ web.2    alpha  Failed 30 seconds …                       killed by signal 9
f00000000000  web.3               Pending 1 second a…                       no suitable node (insuf…
b00000000000  web.10       alpha  Running 3 minutes …
"
        );
        assert_eq!(on_a_terminal(200), shown(flags(&[]), tasks()), "everything fits");
    }

    #[test]
    fn ids_instead_of_names() {
        let mut flags = flags(&["name=web.2", "name=agent"]);
        flags.no_resolve = true;
        assert_eq!(
            shown(flags, tasks()),
            r"ID            NAME      NODE  DESIRED   CURRENT STATE          EXIT  PORTS  ERROR
a00000000000  s0.n1     n1    Running   Running 3 minutes ago
d00000000000  s1.2      n1    Ready     Ready, starts in 3s
c00000000000   \_ s1.2  n1    Shutdown  Failed 30 seconds ago  137          killed by signal 9
"
        );
    }

    #[test]
    fn filters_leave_some() {
        let ids = |filter: &[&str]| {
            let mut flags = flags(filter);
            flags.list.ids_only = true;
            shown(flags, tasks()).lines().map(|l| &l[..1]).collect::<String>()
        };
        assert_eq!(ids(&["desired-state=running"]), "aefb");
        assert_eq!(ids(&["state=failed", "state=pending"]), "cf");
        assert_eq!(ids(&["name=web.2"]), "dc");
        assert_eq!(ids(&["node=alpha", "name=agent"]), "a");
        // Under each of its names.
        assert_eq!(ids(&["name=agent.alpha"]), "a");
        assert_eq!(ids(&["name=agent.n1"]), "a");
        assert_eq!(ids(&["id=e"]), "e");
    }
}
