//! What this daemon is, whether it serves, and counts for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use control::Cluster;
use model::{NodeState, TaskState};
use store::{EventId, Gone, Tables};

use crate::api::{Answer, Call, answer, set_index};
use crate::openapi;
use crate::to;
use crate::types::{Health, Info};

/// The media type of Prometheus' text format.
pub(crate) const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Events counted at once.
const BATCH: usize = 4096;

pub(crate) async fn health(call: Call) -> Answer {
    let (index, info) = (call.cluster().snapshot().index(), call.cluster().info());
    answer(StatusCode::OK, index, &Health { status: "ok".into(), leads: info.leads, index })
}

pub(crate) async fn info(call: Call) -> Answer {
    let (tables, info) = (call.cluster().snapshot(), call.cluster().info());
    let shown = Info {
        version: info.version,
        cluster: tables.cluster().map(|c| c.id.to_string()),
        node: info.node.to_string(),
        hostname: info.hostname,
        leads: info.leads,
        data_dir: info.data_dir,
        ephemeral: info.ephemeral,
        started_at: to::time(info.started_at),
        notes: info.notes,
        index: tables.index(),
        nodes: tables.nodes().count() as u64,
        services: tables.services().count() as u64,
        tasks: tasks_by_state(&tables).values().sum(),
    };
    answer(StatusCode::OK, tables.index(), &shown)
}

pub(crate) async fn document(call: Call) -> Answer {
    answer(StatusCode::OK, call.cluster().snapshot().index(), &openapi::document())
}

pub(crate) async fn metrics(call: Call) -> Answer {
    let tables = call.cluster().snapshot();
    let text = metrics_text(call.cluster(), &tables);
    let media = (header::CONTENT_TYPE, HeaderValue::from_static(METRICS_TYPE));
    let mut response: Response = ([media], text).into_response();
    set_index(&mut response, tables.index());
    Ok(response)
}

/// All tasks by state. Costs a look at each service that has tasks, not at each task.
fn tasks_by_state(tables: &Tables) -> BTreeMap<TaskState, u64> {
    let mut counts: BTreeMap<TaskState, u64> = TaskState::ALL.into_iter().map(|s| (s, 0)).collect();
    for service in tables.services_with_tasks() {
        let used = tables.service_use(service);
        for (state, count) in &mut counts {
            *count += u64::from(used.by_state(*state));
        }
    }
    counts
}

fn metrics_text(cluster: &dyn Cluster, tables: &Tables) -> String {
    let mut text = String::new();
    let tasks = tasks_by_state(tables);
    let tasks = tasks.iter().map(|(state, n)| (format!("{{state=\"{state}\"}}"), *n));
    gauge(&mut text, "quelea_tasks", "Tasks, ended ones included, by state.", tasks);
    let states = [NodeState::Unknown, NodeState::Ready, NodeState::Down, NodeState::Disconnected];
    let nodes = states.map(|state| {
        let count = tables.nodes().filter(|n| n.status.state == state).count() as u64;
        (format!("{{state=\"{}\"}}", state.as_str()), count)
    });
    gauge(&mut text, "quelea_nodes", "Nodes by state.", nodes);
    let plain = |n: u64| [(String::new(), n)];
    gauge(&mut text, "quelea_services", "Services.", plain(tables.services().count() as u64));
    gauge(&mut text, "quelea_stacks", "Stacks.", plain(tables.jobs().count() as u64));
    gauge(&mut text, "quelea_index", "Index of the last applied log entry.", plain(tables.index()));
    gauge(
        &mut text,
        "quelea_events_kept",
        "Events from which a stream can resume.",
        plain(events_kept(cluster)),
    );
    let leads = u64::from(cluster.info().leads);
    gauge(&mut text, "quelea_leader", "1 while this daemon leads the cluster.", plain(leads));
    text
}

fn gauge(text: &mut String, name: &str, help: &str, values: impl IntoIterator<Item = (String, u64)>) {
    // Writing into a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
    for (labels, value) in values {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}

/// How many events are kept, counted in slices.
fn events_kept(cluster: &dyn Cluster) -> u64 {
    let mut position = match cluster.events_after(EventId::default(), 0) {
        Ok(_) => EventId::default(),
        Err(Gone { oldest }) => oldest,
    };
    let mut count = 0;
    while let Ok(events) = cluster.events_after(position, BATCH) {
        count += events.len() as u64;
        match events.last() {
            Some(last) if events.len() == BATCH => position = last.id,
            _ => break,
        }
    }
    count
}
