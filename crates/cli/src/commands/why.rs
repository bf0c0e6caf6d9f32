//! `why`: the explanation of a task, a service or a node.

use clap::Args;
use native_api::types::{Subject, Unplaced, Verdict, Why as Answer};

use super::Cx;
use super::tasks;
use crate::client::Route;
use crate::failure::Failure;
use crate::screen::{Screen, plain, short};
use crate::table::{Cell, Table, Tone};
use crate::time;

/// Explain a task, a service or a node: how it is, why it waits, and what was decided about it.
#[derive(Debug, Args)]
pub struct Why {
    /// A name, an id or the beginning of an id.
    #[arg(value_name = "TASK|SERVICE|NODE")]
    of: String,
    /// Which of them it is, where that is not clear.
    #[arg(long, value_name = "KIND", value_parser = ["task", "service", "node"])]
    kind: Option<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Whole ids, nothing cut.
    #[arg(long)]
    no_trunc: bool,
}

impl Why {
    /// Shows it.
    pub async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let route = Route::new(&["why", &self.of]).with_some("kind", self.kind.as_ref());
        let answer = cx.client.get::<Answer>(route).await?.value;
        if self.json {
            return cx.screen.json(&answer);
        }
        show(&mut cx.screen, &answer, self.no_trunc)
    }
}

fn show(screen: &mut Screen, why: &Answer, whole: bool) -> Result<(), Failure> {
    let title = match &why.subject {
        Subject::Task(task) => format!("task {} ({})", task.name, short(&task.id, whole)),
        Subject::Service(service) => format!("service {} ({})", service.name, short(&service.id, whole)),
        Subject::Node(node) => format!("node {} ({})", node.hostname, short(&node.id, whole)),
    };
    screen.line(title)?;
    for fact in &why.facts {
        screen.line(format!("  {}", plain(fact)))?;
    }
    for waiting in &why.waiting {
        let first = short(&waiting.first, whole);
        heading(
            screen,
            &match waiting.count {
                1 => format!("Task {first} waits for a node"),
                n => format!("Task {first} and {} more wait for a node", n - 1),
            },
        )?;
        match &waiting.unplaced {
            Some(unplaced) => screen.table(&refusals(unplaced))?,
            None => screen.line("the scheduler has not looked at it yet")?,
        }
    }
    if !why.verdicts.is_empty() {
        heading(screen, "What each node says")?;
        screen.table(&verdicts(&why.verdicts, whole))?;
    }
    if !why.decisions.is_empty() {
        heading(screen, "What was decided, the last at the bottom")?;
        let table = decisions(why, screen, whole);
        screen.table(&table)?;
    }
    if !why.tasks.is_empty() {
        heading(
            screen,
            match &why.subject {
                Subject::Task(_) => "The other tasks of its slot",
                Subject::Service(_) => "Its failed tasks",
                Subject::Node(_) => "The tasks it holds",
            },
        )?;
        let table = tasks::table(&why.tasks, screen.now(), whole);
        screen.table(&table)?;
    }
    Ok(())
}

fn heading(screen: &mut Screen, text: &str) -> Result<(), Failure> {
    screen.line("")?;
    screen.line(plain(text))
}

fn refusals(unplaced: &Unplaced) -> Table {
    let mut table = Table::new(&["NODES", "RULE", "~REASON"]);
    if unplaced.refusals.is_empty() {
        table.row(vec!["0".into(), "".into(), unplaced.text.as_str().into()]);
    }
    for refusal in &unplaced.refusals {
        table.row(vec![
            refusal.nodes.to_string().into(),
            refusal.filter.as_str().into(),
            refusal.text.as_str().into(),
        ]);
    }
    table
}

fn verdicts(verdicts: &[Verdict], whole: bool) -> Table {
    let mut table = Table::new(&["NODE", "HOSTNAME", "VERDICT", "~REASON"]);
    for verdict in verdicts {
        let (word, tone) = if verdict.fits { ("fits", Tone::Good) } else { ("refuses", Tone::Bad) };
        let reason = verdict.text.as_deref().or(verdict.filter.as_deref()).unwrap_or("");
        table.row(vec![
            short(&verdict.node, whole).into(),
            verdict.hostname.as_str().into(),
            Cell::new(word, tone),
            reason.into(),
        ]);
    }
    table
}

fn decisions(why: &Answer, screen: &Screen, whole: bool) -> Table {
    let mut table = Table::new(&["WHEN", "RULE", "TASK", "~WHY"]);
    for decision in &why.decisions {
        table.row(vec![
            time::ago(&decision.at, screen.now()).into(),
            decision.rule.as_str().into(),
            decision.task.as_deref().map(|id| short(id, whole)).unwrap_or("").into(),
            decision.text.as_str().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::service::tests::service;
    use crate::commands::tasks::tests::task;
    use crate::screen::tests::paper;

    #[test]
    fn a_service_that_waits_is_explained() {
        let subject = Subject::Service(Box::new(service(json!({}))));
        let failed = task(json!({"id": "f0", "state": "failed", "desired": "shutdown", "exit_code": 1}));
        let why: Answer = serde_json::from_value(json!({
            "subject": subject, "index": 9,
            "facts": ["2 of 3 tasks run", "web.3 waits: no suitable node (insufficient memory on 1 node)"],
            "waiting": [
                {"count": 2, "first": "0123456789abcdefghijklmno", "unplaced": {"text": "no suitable node (insufficient memory on 1 node)",
                    "refusals": [{"filter": "resources", "nodes": 1, "text": "insufficient memory on 1 node"}]}},
                {"count": 1, "first": "t9"},
            ],
            "verdicts": [
                {"node": "0123456789abcdefghijklmno", "hostname": "alpha", "fits": false, "filter": "resources", "text": "needs 1 GiB, 5 MiB is free"},
                {"node": "n2", "hostname": "beta", "fits": true},
            ],
            "decisions": [{"index": 7, "at": "2026-01-31T12:57:00Z", "rule": "scale-up", "task": "t1", "text": "slot 3 was empty"}],
            "tasks": [failed],
        }))
        .unwrap();
        let (mut screen, out, _) = paper();
        show(&mut screen, &why, false).unwrap();
        assert_eq!(
            out.text(),
            "\
service web (0123456789ab)
  2 of 3 tasks run
  web.3 waits: no suitable node (insufficient memory on 1 node)

Task 0123456789ab and 1 more wait for a node
NODES  RULE       REASON
1      resources  insufficient memory on 1 node

Task t9 waits for a node
the scheduler has not looked at it yet

What each node says
NODE          HOSTNAME  VERDICT  REASON
0123456789ab  alpha     refuses  needs 1 GiB, 5 MiB is free
n2            beta      fits

What was decided, the last at the bottom
WHEN           RULE      TASK  WHY
3 minutes ago  scale-up  t1    slot 3 was empty

Its failed tasks
ID  NAME   NODE   DESIRED   CURRENT STATE         EXIT  PORTS  ERROR
f0  web.1  alpha  Shutdown  Failed 3 minutes ago  1            exit code 1
"
        );
    }
}
