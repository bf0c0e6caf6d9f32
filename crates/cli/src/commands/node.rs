//! `node`: look at and change nodes.

use clap::{Args, Subcommand};
use hyper::Method;
use native_api::types::{Availability, Info, Node, NodeUpdate, Task, Volume, VolumeUser, Written};

use super::Cx;
use super::options::{self, Filters};
use super::show::{Fields, InspectFlags, ListFlags, capital};
use super::tasks::PsFlags;
use crate::client::Route;
use crate::failure::Failure;
use crate::screen::{Screen, short};
use crate::table::{Cell, Table, Tone};
use crate::time;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List nodes.
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// List the tasks of nodes.
    Ps(Ps),
    /// Show nodes in full.
    Inspect(Inspect),
    /// Change whether a node takes tasks, and its labels.
    Update(Update),
    /// Take a node out: it gives up its tasks and gets no new ones.
    Drain(super::drain::Drain),
}

#[derive(Debug, Args)]
pub struct Ls {
    /// Only some: name= (its beginning), id=, role=, availability=, node.label=.
    #[arg(short, long, value_name = "KEY=VALUE")]
    filter: Vec<String>,
    #[command(flatten)]
    list: ListFlags,
}

#[derive(Debug, Args)]
pub struct Ps {
    /// The nodes: host names, ids or beginnings of ids; self for the daemon's own.
    #[arg(value_name = "NODE", default_value = "self")]
    nodes: Vec<String>,
    #[command(flatten)]
    ps: PsFlags,
}

#[derive(Debug, Args)]
pub struct Inspect {
    /// The nodes: host names, ids or beginnings of ids; self for the daemon's own.
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
    #[command(flatten)]
    inspect: InspectFlags,
}

#[derive(Debug, Args)]
pub struct Update {
    /// The node: its host name, its id or the beginning of it; self for the daemon's own.
    node: String,
    /// active (takes tasks), pause (keeps what it has, takes nothing new) or drain (gives up what it has).
    #[arg(long, value_parser = availability)]
    availability: Option<Availability>,
    /// Add or change a label, matched by node.labels.NAME.
    #[arg(long, value_name = "NAME=VALUE", value_parser = options::label)]
    label_add: Vec<(String, String)>,
    /// Take a label away.
    #[arg(long, value_name = "NAME")]
    label_rm: Vec<String>,
}

fn availability(text: &str) -> Result<Availability, String> {
    match text {
        "active" => Ok(Availability::Active),
        "pause" => Ok(Availability::Pause),
        "drain" => Ok(Availability::Drain),
        _ => Err("use active, pause or drain".into()),
    }
}

fn availability_word(availability: Availability) -> &'static str {
    match availability {
        Availability::Active => "Active",
        Availability::Pause => "Pause",
        Availability::Drain => "Drain",
    }
}

/// `Active`; of a node that is drained also how many tasks are left.
fn availability_shown(node: &Node) -> String {
    let word = availability_word(node.availability);
    match node.draining.as_ref().map_or(0, |d| d.left) {
        0 => word.into(),
        left => format!("Draining ({left} left)"),
    }
}

impl Command {
    /// Does it.
    pub async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        match self {
            Self::Ls(ls) => ls.run(cx).await,
            Self::Ps(ps) => ps.run(cx).await,
            Self::Inspect(inspect) => inspect.run(cx).await,
            Self::Update(update) => update.run(cx).await,
            Self::Drain(drain) => drain.run(cx).await,
        }
    }
}

/// The id that `self` stands for, or the text itself.
pub(super) async fn resolve(cx: &Cx, node: &str) -> Result<String, Failure> {
    match node {
        "self" => Ok(cx.client.get::<Info>(Route::new(&["info"])).await?.value.node),
        other => Ok(other.to_owned()),
    }
}

impl Ls {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let filters = Filters::parse(&self.filter, &["name", "id", "role", "availability", "node.label"])?;
        let mut nodes = cx.client.list::<Node>(Route::new(&["nodes"])).await?.value;
        nodes.retain(|n| {
            filters.hold("name", |v| n.hostname.starts_with(v))
                && filters.hold("id", |v| n.id.starts_with(v))
                && filters.hold("role", |v| n.role == v)
                && filters.hold("availability", |v| availability_word(n.availability).eq_ignore_ascii_case(v))
                && filters.hold_labels("node.label", &n.labels)
        });
        nodes.sort_by(|a, b| (&a.hostname, &a.id).cmp(&(&b.hostname, &b.id)));
        let own = if self.list.is_table() { resolve(cx, "self").await? } else { String::new() };
        self.list.show(&mut cx.screen, &nodes, |n| &n.id, |_| table(&nodes, &own, self.list.no_trunc))
    }
}

fn table(nodes: &[Node], own: &str, whole: bool) -> Table {
    let titles =
        ["ID", "^HOSTNAME", "STATUS", "AVAILABILITY", "?ROLE", "TASKS", "?CPUS", "?MEMORY", "~LABELS"];
    let mut table = Table::new(&titles);
    for node in nodes {
        let mark = if node.id == own { " *" } else { "" };
        let state_tone = if node.state == "ready" { Tone::Good } else { Tone::Bad };
        let takes = node.availability == Availability::Active;
        table.row(vec![
            format!("{}{mark}", short(&node.id, whole)).into(),
            node.hostname.as_str().into(),
            Cell::new(capital(&node.state), state_tone),
            Cell::new(availability_shown(node), if takes { Tone::Plain } else { Tone::Waiting }),
            capital(&node.role).into(),
            node.tasks.to_string().into(),
            format!("{}/{}", node.reserved.cpus, node.resources.cpus).into(),
            format!("{}/{}", memory(&node.reserved.memory), memory(&node.resources.memory)).into(),
            pairs(&node.labels).join(",").into(),
        ]);
    }
    table
}

fn memory(size: &native_api::types::Size) -> String {
    size.bytes().map_or_else(|_| size.to_string(), model::format_bytes)
}

fn pairs(labels: &std::collections::BTreeMap<String, String>) -> Vec<String> {
    labels.iter().map(|(k, v)| if v.is_empty() { k.clone() } else { format!("{k}={v}") }).collect()
}

impl Ps {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let mut tasks = Vec::new();
        for node in &self.nodes {
            let node = resolve(cx, node).await?;
            let route = Route::new(&["tasks"]).with("node", &node);
            tasks.extend(cx.client.list::<Task>(route).await?.value);
        }
        self.ps.show(&mut cx.screen, tasks)
    }
}

impl Inspect {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let mut nodes = Vec::new();
        for node in &self.nodes {
            let node = resolve(cx, node).await?;
            nodes.push(cx.client.get::<Node>(Route::new(&["nodes", &node])).await?.value);
        }
        self.inspect.show(&mut cx.screen, &nodes, inspect)
    }
}

fn inspect(screen: &mut Screen, node: &Node) -> Result<(), Failure> {
    let now = screen.now();
    let mut fields = Fields::default();
    fields.add("ID", &node.id);
    fields.add("Hostname", &node.hostname);
    fields.add("Joined", time::ago(&node.created_at, now));
    let since = node.since.as_deref().map(|at| format!(", since {}", time::ago(at, now)));
    let why = node.message.as_deref().filter(|m| !m.is_empty()).map(|m| format!(" ({m})"));
    fields.add(
        "Status",
        format!("{}{}{}", capital(&node.state), why.unwrap_or_default(), since.unwrap_or_default()),
    );
    fields.add("Availability", availability_shown(node));
    if let Some(draining) = &node.draining {
        fields.add_some(
            "Deadline",
            draining
                .until
                .as_deref()
                .map(|at| time::until(at, now).map_or("has passed".into(), |t| format!("in {t}")))
                .as_ref(),
        );
        let one = |s: &native_api::types::LeavingService| format!("{} ({}) {}", s.name, s.left, s.waits_for);
        fields.add_all("Leaving", draining.services.iter().map(one));
    }
    fields.add("Role", capital(&node.role));
    fields.add_some("Address", node.address.as_ref());
    fields.add("Platform", format!("{}/{}", node.platform.os, node.platform.arch));
    fields.add("Agent", &node.agent);
    fields.add("Tasks", node.tasks.to_string());
    fields.add("CPUs", format!("{} of {} reserved", node.reserved.cpus, node.resources.cpus));
    let (held, all) = (memory(&node.reserved.memory), memory(&node.resources.memory));
    fields.add("Memory", format!("{held} of {all} reserved"));
    let counted = node.resources.generic_resources.iter().map(|(name, n)| {
        let held = node.reserved.generic_resources.get(name).copied().unwrap_or(0);
        let names = node.named_resources.get(name).map(|names| format!(" ({})", names.join(", ")));
        format!("{name}: {held} of {n} reserved{}", names.unwrap_or_default())
    });
    fields.add_all("Counted", counted);
    fields.add_all("Volumes", node.volumes.iter().flat_map(|(name, volume)| volume_lines(name, volume)));
    fields.add_all("Labels", pairs(&node.labels).into_iter());
    fields.add_all("Own labels", pairs(&node.engine_labels).into_iter());
    let drivers = node.drivers.iter().flat_map(|d| {
        let first = format!("{}{}", d.name, if d.healthy { "" } else { " (cannot run anything now)" });
        std::iter::once(first).chain(d.notes.iter().map(|note| format!("  {note}")))
    });
    fields.add_all("Drivers", drivers);
    fields.show(screen)
}

/// A volume, and who uses it.
fn volume_lines(name: &str, volume: &Volume) -> Vec<String> {
    let read_only = if volume.read_only { ", read-only" } else { "" };
    let first = format!("{name}: {}, shared by {}{read_only}", volume.path, shared_by(&volume.sharing));
    let user = |user: &VolumeUser| {
        format!("  used by {}{}", user.name, if user.read_only { " (reads)" } else { "" })
    };
    std::iter::once(first).chain(volume.users.iter().map(user)).collect()
}

fn shared_by(sharing: &str) -> &str {
    match sharing {
        "none" => "nobody (none)",
        "readonly" => "readers (readonly)",
        "onewriter" => "one writer and readers (onewriter)",
        _ => "all",
    }
}

impl Update {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        if self.availability.is_none() && self.label_add.is_empty() && self.label_rm.is_empty() {
            return Err(Failure::Usage("nothing to change; see quelea node update --help".into()));
        }
        let node = resolve(cx, &self.node).await?;
        let written: Written =
            cx.client.change(Method::PATCH, Route::new(&["nodes", &node]), Some(&self.body())).await?;
        cx.screen.line(&written.name)
    }

    fn body(&self) -> NodeUpdate {
        NodeUpdate {
            availability: self.availability,
            add_labels: self.label_add.iter().cloned().collect(),
            remove_labels: self.label_rm.clone(),
            ..NodeUpdate::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;
    use crate::screen::tests::paper;

    fn node(fields: Value) -> Node {
        let mut whole = json!({
            "id": "0123456789abcdefghijklmno", "hostname": "alpha", "version": 5, "role": "manager",
            "availability": "active", "state": "ready", "since": "2026-01-31T12:57:00Z",
            "labels": {"zone": "east", "ssd": ""}, "engine_labels": {}, "platform": {"os": "linux", "arch": "amd64"},
            "agent": "0.1.0", "resources": {"cpus": 2, "memory": 2147483648u64, "generic_resources": {"gpu": 2}},
            "reserved": {"cpus": 0.5, "memory": 67108864, "generic_resources": {"gpu": 1}}, "tasks": 3,
            "drivers": [{"name": "exec", "healthy": true, "notes": ["no memory limits here"]}],
            "created_at": "2026-01-31T12:00:00Z",
        });
        whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn the_list_of_nodes() {
        let nodes = [
            node(json!({})),
            node(
                json!({"id": "n2", "hostname": "beta", "role": "worker", "state": "down", "availability": "drain", "labels": {}}),
            ),
            node(
                json!({"id": "n3", "hostname": "gamma", "availability": "drain", "draining": {"left": 2, "services": []}}),
            ),
        ];
        assert_eq!(
            table(&nodes, "0123456789abcdefghijklmno", false).render(None, false),
            "\
ID              HOSTNAME  STATUS  AVAILABILITY       ROLE     TASKS  CPUS   MEMORY        LABELS
0123456789ab *  alpha     Ready   Active             Manager  3      0.5/2  64 MiB/2 GiB  ssd,zone=east
n2              beta      Down    Drain              Worker   3      0.5/2  64 MiB/2 GiB
n3              gamma     Ready   Draining (2 left)  Manager  3      0.5/2  64 MiB/2 GiB  ssd,zone=east
"
        );
    }

    #[test]
    fn a_node_in_full() {
        let (mut screen, out, _) = paper();
        let volumes = json!({
            "data": {"path": "/srv/data", "read_only": false, "sharing": "onewriter", "users": [
                {"task": "t1", "name": "db.1", "read_only": false}, {"task": "t2", "name": "web.2", "read_only": true},
            ]},
            "logs": {"path": "/var/log", "read_only": true, "sharing": "all", "users": []},
        });
        inspect(&mut screen, &node(json!({"message": "fine", "volumes": volumes}))).unwrap();
        assert_eq!(
            out.text(),
            "\
ID:           0123456789abcdefghijklmno
Hostname:     alpha
Joined:       about an hour ago
Status:       Ready (fine), since 3 minutes ago
Availability: Active
Role:         Manager
Platform:     linux/amd64
Agent:        0.1.0
Tasks:        3
CPUs:         0.5 of 2 reserved
Memory:       64 MiB of 2 GiB reserved
Counted:      gpu: 1 of 2 reserved
Volumes:      data: /srv/data, shared by one writer and readers (onewriter)
                used by db.1
                used by web.2 (reads)
              logs: /var/log, shared by all, read-only
Labels:       ssd
              zone=east
Drivers:      exec
                no memory limits here
"
        );
    }

    #[test]
    fn flags_become_a_request() {
        #[derive(Debug, Parser)]
        struct Line {
            #[command(flatten)]
            update: Update,
        }
        for (line, json) in [
            ("n1 --availability drain", json!({"availability": "drain"})),
            (
                "n1 --label-add a=b --label-add c --label-rm d",
                json!({"add_labels": {"a": "b", "c": ""}, "remove_labels": ["d"]}),
            ),
        ] {
            let parsed = Line::try_parse_from(std::iter::once("update").chain(line.split(' '))).unwrap();
            assert_eq!(serde_json::to_value(parsed.update.body()).unwrap(), json, "{line}");
        }
    }
}
