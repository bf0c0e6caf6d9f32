//! `rebalance`: the few moves that even out the cluster, shown or made.

use std::collections::BTreeMap;

use clap::{ArgGroup, Args};
use hyper::Method;
use model::Span;
use native_api::types::{Move, Rebalance as Found, RebalanceRequest, Rebalanced};

use super::options::{self, WaitFlags};
use super::{Cx, plan};
use crate::client::Route;
use crate::failure::Failure;
use crate::progress;
use crate::screen::{Screen, plain};
use crate::table::Table;

/// Even out the cluster: few moves, each from a node that has more tasks to one that takes it and has fewer.
///
/// First the tasks of each service are spread, then the tasks in all. --plan shows the moves, --apply makes them: the next
/// task of a slot runs on the other node before the old one ends; of each service one at a time, or as many as its --max-surge
/// allows.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["plan", "apply"])))]
#[command(
    after_help = "Exit codes: with --plan 0 it is even, 1 there are moves, 255 refused or failed; with --apply as everywhere."
)]
pub struct Rebalance {
    /// Show the moves and make none.
    #[arg(long)]
    pub plan: bool,
    /// Make the moves.
    #[arg(long)]
    apply: bool,
    /// Move a task only from a node that has at least so many more than the other.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..))]
    threshold: u32,
    /// As JSON.
    #[arg(long, conflicts_with = "apply")]
    json: bool,
    /// Begin the moves and do not wait for them.
    #[arg(short, long, conflicts_with = "plan")]
    detach: bool,
    /// Show no progress.
    #[arg(short, long, conflicts_with = "plan")]
    quiet: bool,
    /// Wait at most so long for the moves that are under way, then exit with 4; 0 waits for ever.
    #[arg(long, value_name = "DURATION", conflicts_with = "plan", default_value = "10m", value_parser = options::span)]
    timeout: Span,
}

impl Rebalance {
    /// Shows or makes them.
    pub async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        if self.apply {
            return self.make(cx).await;
        }
        let route = Route::new(&["rebalance"]).with("threshold", self.threshold.to_string());
        let found = cx.client.get::<Found>(route).await?.value;
        if self.json {
            cx.screen.json(&found)?;
        } else {
            show(&mut cx.screen, &found)?;
        }
        if found.moves.is_empty() { Ok(()) } else { Err(Failure::Changes) }
    }

    /// Makes the moves round by round. Each round is worked out anew on what is there then, so that it ends when the cluster is
    /// even, whatever else happened.
    async fn make(&self, cx: &mut Cx) -> Result<(), Failure> {
        let wait = WaitFlags { detach: self.detach, quiet: self.quiet, timeout: self.timeout };
        let body = RebalanceRequest { threshold: Some(self.threshold) };
        let mut moved = 0;
        loop {
            let route = Route::new(&["rebalance"]);
            let done: Rebalanced = cx.client.change(Method::POST, route, Some(&body)).await?;
            for m in &done.made {
                cx.screen.line(plain(&told(m)))?;
            }
            cx.screen.flush()?;
            moved += done.made.len();
            if done.made.is_empty() {
                return self.end(cx, moved, done.left);
            }
            if self.detach {
                return cx.screen.note(format!("{} moves are left for later rounds", done.left));
            }
            let services: BTreeMap<String, String> =
                done.made.iter().map(|m| (m.service.clone(), service_of(&m.name))).collect();
            let wait = wait.wait(services.into_iter().collect(), done.index, "quelea service ls".into());
            progress::converge(&cx.client, &mut cx.screen, wait).await?;
        }
    }

    fn end(&self, cx: &mut Cx, moved: usize, left: u64) -> Result<(), Failure> {
        if left > 0 {
            return Err(Failure::Refused(format!(
                "{left} moves are left: services that are still changing are not moved; try again"
            )));
        }
        match moved {
            0 => cx.screen.line("The cluster is even: nothing to do."),
            1 => cx.screen.line("1 task was moved."),
            n => cx.screen.line(format!("{n} tasks were moved.")),
        }
    }
}

fn told(m: &Move) -> String {
    format!("{} {} -> {}: {}", m.name, m.from, m.to, m.reason)
}

/// The service of a slot's name.
fn service_of(name: &str) -> String {
    name.rsplit_once('.').map_or(name, |(service, _)| service).to_owned()
}

fn show(screen: &mut Screen, found: &Found) -> Result<(), Failure> {
    if found.moves.is_empty() {
        return screen.line(format!("The cluster is even (index {}): nothing to do.", found.index));
    }
    let mut table = Table::new(&["TASK", "FROM", "TO", "~WHY"]);
    for m in &found.moves {
        table.row(vec![
            m.name.as_str().into(),
            m.from.as_str().into(),
            m.to.as_str().into(),
            m.reason.as_str().into(),
        ]);
    }
    screen.table(&table)?;
    plan::show_nodes(screen, &found.nodes)?;
    if !found.complete {
        screen.line("")?;
        screen.line("A limit ended the search: there would be more.")?;
    }
    screen.line("")?;
    let moves = if found.moves.len() == 1 { "1 move".into() } else { format!("{} moves", found.moves.len()) };
    screen.line(format!(
        "{moves} at index {}: nodes have {} to {} tasks, and would have {} to {}. --apply makes them.",
        found.index, found.before.fewest, found.before.most, found.after.fewest, found.after.most
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::screen::tests::paper;

    #[test]
    fn moves_as_they_are_read() {
        let amounts = json!({"cpus": 0, "memory": 0, "generic_resources": {}});
        let node = |name: &str, before: u32, after: u32| {
            json!({"id": name, "hostname": name, "resources": amounts,
                "before": {"tasks": before, "reserved": amounts}, "after": {"tasks": after, "reserved": amounts}})
        };
        let found = serde_json::from_value(json!({
            "index": 9, "threshold": 2, "complete": true, "before": {"most": 3, "fewest": 0},
            "after": {"most": 2, "fewest": 1}, "nodes": [node("a", 3, 2), node("b", 0, 1)],
            "moves": [{"name": "web.3", "service": "s", "task": "t", "from": "a", "to": "b", "reason": "3 tasks of web on a, 0 on b"}],
        }))
        .unwrap();
        let (mut screen, out, _) = paper();
        show(&mut screen, &found).unwrap();
        assert_eq!(
            out.text(),
            "\
TASK   FROM  TO  WHY
web.3  a     b   3 tasks of web on a, 0 on b

NODE  CHANGE  TASKS   CPUS RESERVED  MEMORY RESERVED
a             3 -> 2  0 of 0         0 of 0
b             0 -> 1  0 of 0         0 of 0

1 move at index 9: nodes have 0 to 3 tasks, and would have 1 to 2. --apply makes them.
"
        );
        assert_eq!(service_of("a.b.3"), "a.b");
    }
}
