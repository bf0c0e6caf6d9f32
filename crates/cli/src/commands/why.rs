//! `why`: the explanation of a task, a service, a node or a stack.

use clap::Args;
use native_api::types::{Subject, Unplaced, Verdict, Why as Answer};

use super::Cx;
use super::tasks;
use crate::client::Route;
use crate::failure::Failure;
use crate::screen::{Screen, plain, short, wrap};
use crate::table::{Cell, Table, Tone};
use crate::time;

/// Explain a task, a service, a node or a stack: how it is, why it waits, and what was decided about it.
#[derive(Debug, Args)]
pub struct Why {
    /// A name, an id or the beginning of an id.
    #[arg(value_name = "TASK|SERVICE|NODE|STACK")]
    of: String,
    /// Which of them it is, where that is not clear.
    #[arg(long, value_name = "KIND", value_parser = ["task", "service", "node", "stack"])]
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
        Subject::Stack(stack) => format!("stack {} ({})", stack.name, short(&stack.id, whole)),
    };
    screen.line(title)?;
    let width = screen.width.unwrap_or(usize::MAX);
    for fact in &why.facts {
        for line in wrap(&plain(fact), width.saturating_sub(INDENT), INDENT) {
            screen.line(format!("{}{line}", " ".repeat(INDENT)))?;
        }
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
            Some(unplaced) => refusals(unplaced).show(screen)?,
            None => screen.line("the scheduler has not looked at it yet")?,
        }
    }
    if !why.verdicts.is_empty() {
        heading(screen, "What each node says")?;
        verdicts(&why.verdicts, whole).show(screen)?;
    }
    if !why.decisions.is_empty() {
        heading(screen, "What was decided, the last at the bottom")?;
        decisions(why, screen, whole).show(screen)?;
    }
    if !why.tasks.is_empty() {
        heading(
            screen,
            match &why.subject {
                Subject::Task(_) => "The other tasks of its slot",
                Subject::Service(_) | Subject::Stack(_) => "Its failed tasks",
                Subject::Node(_) => "The tasks it holds",
            },
        )?;
        let mut shown = why.tasks.clone();
        if matches!(why.subject, Subject::Task(_)) {
            tasks::sort(&mut shown);
        }
        let table = tasks::table(&shown, screen.now(), whole);
        screen.table(&table)?;
    }
    Ok(())
}

fn heading(screen: &mut Screen, text: &str) -> Result<(), Failure> {
    screen.line("")?;
    screen.line(plain(text))
}

/// Blanks before a fact, and so many more before what of it does not fit in a line.
const INDENT: usize = 2;
/// The last column is never narrower than that, however narrow the terminal is.
const LEAST: usize = 20;

/// A table whose last column is broken between words where it is wider than the terminal: a sentence is worth nothing without its end.
struct Sentences {
    titles: &'static [&'static str],
    rows: Vec<(Vec<(String, Tone)>, String)>,
}

impl Sentences {
    fn new(titles: &'static [&'static str]) -> Self {
        Self { titles, rows: Vec::new() }
    }

    fn row(&mut self, cells: Vec<(String, Tone)>, sentence: impl Into<String>) {
        self.rows.push((cells, sentence.into()));
    }

    /// Writes it to the screen.
    fn show(&self, screen: &mut Screen) -> Result<(), Failure> {
        let chars = |text: &str| text.chars().count();
        let others = self.titles.len() - 1;
        let width_of = |i: usize| {
            let cells = self.rows.iter().map(|(cells, _)| chars(&cells[i].0)).max().unwrap_or(0);
            cells.max(chars(self.titles[i])) + 2
        };
        let before: usize = (0..others).map(width_of).sum();
        let width = screen.width.map_or(usize::MAX, |width| width.saturating_sub(before).max(LEAST));
        let mut table = Table::new(self.titles);
        for (cells, sentence) in &self.rows {
            for (i, line) in wrap(&plain(sentence), width, INDENT).into_iter().enumerate() {
                let of_row = |(text, tone): &(String, Tone)| Cell::new(if i == 0 { text } else { "" }, *tone);
                table.row(cells.iter().map(of_row).chain([Cell::from(line)]).collect());
            }
        }
        screen.table(&table)
    }
}

fn text(text: impl Into<String>) -> (String, Tone) {
    (text.into(), Tone::Plain)
}

fn refusals(unplaced: &Unplaced) -> Sentences {
    let mut table = Sentences::new(&["NODES", "RULE", "REASON"]);
    if unplaced.refusals.is_empty() {
        table.row(vec![text("0"), text("")], &unplaced.text);
    }
    for refusal in &unplaced.refusals {
        table.row(vec![text(refusal.nodes.to_string()), text(&refusal.filter)], &refusal.text);
    }
    table
}

fn verdicts(verdicts: &[Verdict], whole: bool) -> Sentences {
    let mut table = Sentences::new(&["NODE", "HOSTNAME", "VERDICT", "REASON"]);
    for verdict in verdicts {
        let (word, tone) = if verdict.fits { ("fits", Tone::Good) } else { ("refuses", Tone::Bad) };
        let mut reason = verdict.text.clone().or(verdict.filter.clone()).unwrap_or_default();
        if !verdict.lacks.is_empty() {
            reason.push_str(&format!("; it would take it with {}", verdict.lacks.join(" and ")));
        }
        let cells = vec![text(short(&verdict.node, whole)), text(&verdict.hostname), (word.to_owned(), tone)];
        table.row(cells, reason);
    }
    table
}

fn decisions(why: &Answer, screen: &Screen, whole: bool) -> Sentences {
    let mut table = Sentences::new(&["WHEN", "RULE", "TASK", "WHY"]);
    for decision in &why.decisions {
        let often =
            if decision.times > 1 { format!(" ({} times so far)", decision.times) } else { String::new() };
        let task = decision.task.as_deref().map(|id| short(id, whole)).unwrap_or("");
        table.row(
            vec![text(time::ago(&decision.at, screen.now())), text(&decision.rule), text(task)],
            format!("{}{often}", decision.text),
        );
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
                {"node": "0123456789abcdefghijklmno", "hostname": "alpha", "fits": false, "filter": "resources", "text": "needs 1 GiB, 5 MiB is free", "lacks": ["1019 MiB memory more"]},
                {"node": "n2", "hostname": "beta", "fits": true},
            ],
            "decisions": [{"index": 7, "at": "2026-01-31T12:57:00Z", "rule": "scale-up", "task": "t1", "times": 1, "text": "slot 3 was empty"},
                {"index": 8, "at": "2026-01-31T12:59:00Z", "rule": "placed", "times": 214, "text": "placed on alpha"}],
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
0123456789ab  alpha     refuses  needs 1 GiB, 5 MiB is free; it would take it with 1019 MiB memory more
n2            beta      fits

What was decided, the last at the bottom
WHEN                RULE      TASK  WHY
3 minutes ago       scale-up  t1    slot 3 was empty
about a minute ago  placed          placed on alpha (214 times so far)

Its failed tasks
ID  NAME   NODE   DESIRED   CURRENT STATE         EXIT  PORTS  ERROR
f0  web.1  alpha  Shutdown  Failed 3 minutes ago  1            exit code 1
"
        );
    }

    #[test]
    fn sentences_are_broken_where_the_terminal_ends() {
        let subject = Subject::Service(Box::new(service(json!({}))));
        let why: Answer = serde_json::from_value(json!({
            "subject": subject, "index": 9, "waiting": [], "verdicts": [], "tasks": [],
            "facts": ["web.3 waits for a node: no suitable node (insufficient memory on 1 node)"],
            "decisions": [{"index": 7, "at": "2026-01-31T12:57:00Z", "rule": "replace", "times": 1,
                "text": "slot 1: failed with exit code 1; replaced after 5s"}],
        }))
        .unwrap();
        let (mut screen, out, _) = paper();
        screen.width = Some(50);
        show(&mut screen, &why, false).unwrap();
        assert_eq!(
            out.text(),
            "\
service web (0123456789ab)
  web.3 waits for a node: no suitable node
    (insufficient memory on 1 node)

What was decided, the last at the bottom
WHEN           RULE     TASK  WHY
3 minutes ago  replace        slot 1: failed with
                                exit code 1;
                                replaced after 5s
"
        );
    }
}
