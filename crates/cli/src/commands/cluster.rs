//! `cluster`: look at and change the settings of the whole cluster.

use clap::{Args, Subcommand};
use hyper::Method;
use model::Span;
use native_api::types::{Cluster, ClusterUpdate, Duration, Strategy, Written};

use super::Cx;
use super::options;
use super::show::{Fields, InspectFlags};
use crate::client::Route;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::time;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the cluster and its settings.
    Inspect(Inspect),
    /// Change settings of the cluster; what is not named stays.
    Update(Update),
}

#[derive(Debug, Args)]
pub struct Inspect {
    #[command(flatten)]
    inspect: InspectFlags,
}

#[derive(Debug, Args)]
pub struct Update {
    /// Ended tasks that are kept for each slot, the newest. A lower limit holds at once.
    #[arg(long, value_name = "N", value_parser = history, allow_negative_numbers = true)]
    task_history_limit: Option<u32>,
    /// Besides those: so many of the newest tasks of a slot that failed or were rejected.
    #[arg(long, value_name = "N", value_parser = history, allow_negative_numbers = true)]
    task_history_failed: Option<u32>,
    /// How long an ended task is kept at most, such as 24h; 0s for any time.
    #[arg(long, value_name = "DURATION", value_parser = options::span)]
    task_history_age: Option<Span>,
    /// How often the agent of a node must call; three calls missed mean that it is down.
    #[arg(long, value_name = "DURATION", value_parser = options::span)]
    dispatcher_heartbeat: Option<Span>,
    /// After how long the tasks of a node that is down are given up for good.
    #[arg(long, value_name = "DURATION", value_parser = options::span)]
    orphan_after: Option<Span>,
    /// Which of equally good nodes the tasks of services get that name no strategy themselves: spread (the emptiest) or
    /// binpack (the fullest). Nothing that runs is moved.
    #[arg(long, value_name = "STRATEGY", value_parser = strategy)]
    strategy: Option<Strategy>,
    /// Even the cluster out by itself when a node has so many tasks of a service, or in all, more than another (at least 2): at
    /// most once a minute, start-first and within the budgets of services. off, the default: only when asked to.
    #[arg(long, value_name = "off|N", value_parser = rebalance)]
    rebalance: Option<u32>,
}

fn rebalance(text: &str) -> Result<u32, String> {
    match text.parse() {
        _ if text == "off" => Ok(0),
        Ok(threshold @ 2..=model::limits::REBALANCE_THRESHOLD) => Ok(threshold),
        _ => Err("use off, or a number from 2 on".into()),
    }
}

fn history(text: &str) -> Result<u32, String> {
    let most = model::limits::HISTORY;
    let problem = || format!("use a number from 0 to {most}");
    text.parse().ok().filter(|n| *n <= most).ok_or_else(problem)
}

fn strategy(text: &str) -> Result<Strategy, String> {
    match text {
        "spread" => Ok(Strategy::Spread),
        "binpack" => Ok(Strategy::Binpack),
        _ => Err("use spread or binpack".into()),
    }
}

impl Command {
    /// Does it.
    pub async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        match self {
            Self::Inspect(inspect) => inspect.run(cx).await,
            Self::Update(update) => update.run(cx).await,
        }
    }
}

impl Inspect {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let cluster = cx.client.get::<Cluster>(Route::new(&["cluster"])).await?.value;
        self.inspect.show(&mut cx.screen, &[cluster], inspect)
    }
}

fn inspect(screen: &mut Screen, cluster: &Cluster) -> Result<(), Failure> {
    let now = screen.now();
    let mut fields = Fields::default();
    fields.add("ID", &cluster.id);
    fields.add("Name", &cluster.name);
    fields.add("Created", time::ago(&cluster.created_at, now));
    fields.add("Changed", time::ago(&cluster.updated_at, now));
    fields.add("Strategy", cluster.strategy.as_str());
    let evens =
        cluster.rebalance.map_or("when asked to".into(), |t| format!("by itself, from {t} tasks more on"));
    fields.add("Rebalanced", evens);
    fields.add("Heartbeat", format!("every {}", cluster.dispatcher_heartbeat));
    fields.add("Orphans", format!("when a node has been down for {}", cluster.orphan_after));
    fields.add_all("History", kept(cluster).into_iter());
    fields.show(screen)
}

/// What is kept of ended tasks, in words.
fn kept(cluster: &Cluster) -> Vec<String> {
    let mut said = vec![format!("the newest {} ended tasks of each slot", cluster.task_history_limit)];
    if cluster.task_history_failed > 0 {
        said.push(format!("and the newest {} of those that failed", cluster.task_history_failed));
    }
    if cluster.task_history_age.span().is_ok_and(|age| age > Span::ZERO) {
        said.push(format!("for {} at most", cluster.task_history_age));
    }
    said
}

impl Update {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let body = self.body();
        if body == ClusterUpdate::default() {
            return Err(Failure::Usage("nothing to change; see quelea cluster update --help".into()));
        }
        let written: Written = cx.client.change(Method::PATCH, Route::new(&["cluster"]), Some(&body)).await?;
        cx.screen.line(&written.name)
    }

    fn body(&self) -> ClusterUpdate {
        ClusterUpdate {
            task_history_limit: self.task_history_limit,
            task_history_failed: self.task_history_failed,
            task_history_age: self.task_history_age.map(Duration::of),
            dispatcher_heartbeat: self.dispatcher_heartbeat.map(Duration::of),
            orphan_after: self.orphan_after.map(Duration::of),
            strategy: self.strategy,
            rebalance: self.rebalance,
            version: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;
    use crate::screen::tests::paper;

    fn cluster(fields: &Value) -> Cluster {
        let mut whole = json!({
            "id": "0123456789abcdefghijklmno", "name": "default", "version": 5,
            "created_at": "2026-01-31T12:00:00Z", "updated_at": "2026-01-31T12:57:00Z",
            "task_history_limit": 5, "task_history_failed": 0, "task_history_age": "0s",
            "dispatcher_heartbeat": "5s", "orphan_after": "24h0m0s", "strategy": "spread",
        });
        whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn the_cluster_in_full() {
        let (mut screen, out, _) = paper();
        let kept = json!({"task_history_failed": 3, "task_history_age": "1h0m0s", "strategy": "binpack"});
        inspect(&mut screen, &cluster(&kept)).unwrap();
        assert_eq!(
            out.text(),
            "\
ID:           0123456789abcdefghijklmno
Name:         default
Created:      about an hour ago
Changed:      3 minutes ago
Strategy:     binpack
Rebalanced:   when asked to
Heartbeat:    every 5s
Orphans:      when a node has been down for 24h0m0s
History:      the newest 5 ended tasks of each slot
              and the newest 3 of those that failed
              for 1h0m0s at most
"
        );
        assert_eq!(super::kept(&cluster(&json!({}))).len(), 1);
    }

    #[test]
    fn flags_become_a_request() {
        #[derive(Debug, Parser)]
        struct Line {
            #[command(flatten)]
            update: Update,
        }
        for (line, json) in [
            ("--task-history-limit 0", json!({"task_history_limit": 0})),
            (
                "--task-history-failed 3 --task-history-age 90m",
                json!({"task_history_failed": 3, "task_history_age": "1h30m0s"}),
            ),
            (
                "--dispatcher-heartbeat 30s --orphan-after 10m --strategy binpack",
                json!({"dispatcher_heartbeat": "30s", "orphan_after": "10m0s", "strategy": "binpack"}),
            ),
            ("--rebalance 3", json!({"rebalance": 3})),
            ("--rebalance off", json!({"rebalance": 0})),
        ] {
            let parsed = Line::try_parse_from(std::iter::once("update").chain(line.split(' '))).unwrap();
            assert_eq!(serde_json::to_value(parsed.update.body()).unwrap(), json, "{line}");
        }
    }
}
