//! `service logs`: the lines that the tasks of a service write, with whose they are in front.

use std::collections::BTreeMap;

use clap::Args;
use native_api::types::{LogItem, Task};

use super::Cx;
use crate::client::{Client, Lines, Route};
use crate::failure::Failure;
use crate::screen::{Screen, short};
use crate::time;

/// A line that goes on is put together up to this length, in bytes; what is beyond begins a line of its own.
const LINE_BYTES: usize = 1 << 20;

/// Tasks whose names are remembered; beyond that they are asked for anew.
const KNOWN: usize = 8_192;

/// Show what a service or task writes: standard output and standard error each to ours.
#[derive(Debug, Args)]
pub struct Logs {
    /// A service or a task: name, id or the beginning of an id.
    #[arg(value_name = "SERVICE|TASK")]
    of: String,
    /// Go on with what is written from now on.
    #[arg(short, long)]
    follow: bool,
    /// Only the last N lines of each task.
    #[arg(short = 'n', long, value_name = "N|all", default_value = "all", value_parser = tail)]
    tail: Tail,
    /// Only lines since then: 10m (ago), 2026-01-31, or 2026-01-31T13:00:00Z.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// With the time of each line.
    #[arg(short, long)]
    timestamps: bool,
    /// Without the ids of tasks.
    #[arg(long)]
    no_task_ids: bool,
    /// Whole ids.
    #[arg(long)]
    no_trunc: bool,
    /// Only the lines themselves.
    #[arg(long)]
    raw: bool,
    /// Each line as JSON.
    #[arg(long, conflicts_with = "raw")]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tail(Option<u32>);

fn tail(text: &str) -> Result<Tail, String> {
    if text == "all" { Ok(Tail(None)) } else { super::options::count(text).map(|n| Tail(Some(n))) }
}

impl Logs {
    /// Shows lines until there are no more.
    pub async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let since = self.since.as_deref().map(|text| time::moment(text, cx.screen.now())).transpose();
        let since = since.map_err(|e| Failure::Usage(format!("--since: {e}")))?;
        let mut lines = self.open(&cx.client, since).await?;
        let mut writer = Writer::new(&self, cx.client.clone());
        let show = async {
            while let Some(line) = lines.next().await? {
                if !line.is_empty() {
                    writer.take(&line, &mut cx.screen).await?;
                }
            }
            writer.finish(&mut cx.screen)
        };
        tokio::select! {
            shown = show => shown,
            // Following ends when one has seen enough: nothing is said.
            _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted(String::new())),
        }
    }

    /// Opens the lines of the service of this name, or of the task.
    async fn open(&self, client: &Client, since: Option<jiff::Timestamp>) -> Result<Lines, Failure> {
        let route = |kind: &str| {
            Route::new(&[kind, &self.of, "logs"])
                .with("follow", if self.follow { "true" } else { "false" })
                .with_some("tail", self.tail.0.map(|n| n.to_string()))
                .with_some("since", since.map(|at| at.to_string()))
        };
        match client.lines(route("services")).await {
            Err(failure) if failure.is_not_found() => client.lines(route("tasks")).await.map_err(|second| {
                if second.is_not_found() {
                    Failure::Refused(format!("there is no service or task {:?}", self.of))
                } else {
                    second
                }
            }),
            other => other,
        }
    }
}

/// Puts lines together and writes them.
struct Writer {
    client: Client,
    raw: bool,
    json: bool,
    timestamps: bool,
    task_ids: bool,
    whole: bool,
    /// What tasks are called and where they run, as far as it was asked for.
    known: BTreeMap<String, (String, String)>,
    /// Lines that go on, by task, program and stream, with the time of their beginning.
    open: BTreeMap<(String, String, String), (String, String, String)>,
    /// Fronts are padded to the widest so far.
    width: usize,
}

impl Writer {
    fn new(logs: &Logs, client: Client) -> Self {
        Self {
            client,
            raw: logs.raw,
            json: logs.json,
            timestamps: logs.timestamps,
            task_ids: !logs.no_task_ids,
            whole: logs.no_trunc,
            known: BTreeMap::new(),
            open: BTreeMap::new(),
            width: 0,
        }
    }

    /// Takes in one line of the stream.
    async fn take(&mut self, line: &str, screen: &mut Screen) -> Result<(), Failure> {
        let item: LogItem = serde_json::from_str(line)
            .map_err(|e| Failure::Refused(format!("the daemon's log line is not understood: {e}")))?;
        if self.json {
            return screen.json_line(&item);
        }
        match item {
            LogItem::Warning { message } => {
                screen.flush()?;
                screen.note(message)
            }
            LogItem::Line { task, name, hostname, program, at, stream, partial, text } => {
                let front = self.front(&task, (name, hostname), &program).await;
                let key = (task, program, stream);
                let (_, _, whole) = self.open.entry(key.clone()).or_insert((front, at, String::new()));
                whole.push_str(&text);
                if partial && whole.len() < LINE_BYTES {
                    return Ok(());
                }
                self.write(&key, screen)
            }
        }
    }

    /// Writes what is left of lines that never ended.
    fn finish(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        let keys: Vec<_> = self.open.keys().cloned().collect();
        keys.iter().try_for_each(|key| self.write(key, screen))
    }

    fn write(&mut self, key: &(String, String, String), screen: &mut Screen) -> Result<(), Failure> {
        let Some((front, at, text)) = self.open.remove(key) else { return Ok(()) };
        let mut line = String::new();
        if self.timestamps {
            line.push_str(&format!("{} ", time::stamp(&at)));
        }
        if !self.raw {
            self.width = self.width.max(front.chars().count());
            line.push_str(&format!("{front:<width$} | ", width = self.width));
        }
        line.push_str(&text);
        line.push('\n');
        if key.2 == "stderr" {
            // The order of both streams is kept where they end in the same place.
            screen.flush()?;
            screen.err.write_all(line.as_bytes())?;
        } else {
            screen.out.write_all(line.as_bytes())?;
            screen.flush()?;
        }
        Ok(())
    }

    /// `web.1.0123456789ab@alpha`; of a task with several programs with the one that wrote.
    async fn front(&mut self, task: &str, said: (String, String), program: &str) -> String {
        if self.raw {
            return String::new();
        }
        let (mut front, host) = match self.known.get(task) {
            Some(known) => known.clone(),
            None => {
                let route = Route::new(&["tasks", task]);
                // Of a task that is forgotten by now there is what the line itself says.
                let asked = self.client.get::<Task>(route).await.ok().map(|a| a.value);
                let known = asked.map_or(said, called);
                if self.known.len() >= KNOWN {
                    self.known.clear();
                }
                self.known.insert(task.to_owned(), known.clone());
                known
            }
        };
        if self.task_ids {
            front.push_str(&format!(".{}", short(task, self.whole)));
        }
        if program != "main" {
            front.push_str(&format!("/{program}"));
        }
        if !host.is_empty() {
            front.push_str(&format!("@{host}"));
        }
        front
    }
}

/// What a task is called, and where it runs. Of a global service its node is told once, behind the `@`.
fn called(task: Task) -> (String, String) {
    let host = task.hostname.or(task.node).unwrap_or_default();
    let name = match (task.slot, task.service_name) {
        (None, Some(service)) if !host.is_empty() => service,
        _ => task.name,
    };
    (name, host)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::client::Target;
    use crate::screen::tests::paper;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        logs: Logs,
    }

    /// Standard output and standard error of these lines, written with these flags.
    fn written(flags: &[&str], items: &[serde_json::Value]) -> (String, String) {
        let line = Line::try_parse_from(["logs", "web"].iter().chain(flags)).unwrap();
        let mut writer = Writer::new(&line.logs, Client::new(Target::Unix("/nowhere".into()), None));
        writer.known.insert("0123456789abcdefghijklmno".into(), ("web.1".into(), "alpha".into()));
        let (mut screen, out, err) = paper();
        let done = crate::commands::block_on(async {
            for item in items {
                writer.take(&item.to_string(), &mut screen).await?;
            }
            writer.finish(&mut screen)
        });
        done.unwrap();
        (out.text(), err.text())
    }

    fn line(task: &str, name: &str, stream: &str, partial: bool, text: &str) -> serde_json::Value {
        json!({"kind": "line", "task": task, "name": name, "hostname": "beta", "program": "main", "at": "2026-01-31T13:00:00.5Z",
            "stream": stream, "partial": partial, "text": text})
    }

    const ONE: &str = "0123456789abcdefghijklmno";

    #[test]
    fn lines_with_whose_they_are() {
        let items = [
            line(ONE, "web.1", "stdout", false, "hello"),
            // It cannot be asked for any more: what the line says holds.
            line("t2", "web.2", "stderr", false, "oops"),
            line(ONE, "web.1", "stdout", true, "one "),
            line("t2", "web.2", "stdout", false, "between"),
            line(ONE, "web.1", "stdout", false, "line"),
            line("t2", "web.2", "stdout", true, "never ends"),
            json!({"kind": "warning", "message": "lines of web.3 cannot be had"}),
        ];
        let (out, err) = written(&[], &items);
        assert_eq!(
            out,
            "\
web.1.0123456789ab@alpha | hello
web.2.t2@beta            | between
web.1.0123456789ab@alpha | one line
web.2.t2@beta            | never ends
"
        );
        assert_eq!(err, "web.2.t2@beta            | oops\nquelea: lines of web.3 cannot be had\n");
    }

    #[test]
    fn flags_change_the_front() {
        let items = [line(ONE, "web.1", "stdout", false, "hello")];
        for (flags, text) in [
            (&["--raw"][..], "hello\n"),
            (&["--no-task-ids"], "web.1@alpha | hello\n"),
            (&["--no-trunc"], "web.1.0123456789abcdefghijklmno@alpha | hello\n"),
            (&["--raw", "--timestamps"], "2026-01-31T13:00:00.500Z hello\n"),
        ] {
            assert_eq!(written(flags, &items).0, text, "{flags:?}");
        }
        let json: LogItem = serde_json::from_str(&written(&["--json"], &items).0).unwrap();
        assert!(matches!(json, LogItem::Line { text, .. } if text == "hello"));
    }

    #[test]
    fn a_global_task_names_its_node_once() {
        use crate::commands::tasks::tests::task;
        let global = task(json!({"name": "agent.n1", "service_name": "agent", "slot": null}));
        assert_eq!(called(global), ("agent".into(), "alpha".into()));
        assert_eq!(called(task(json!({}))), ("web.1".into(), "alpha".into()));
    }

    #[test]
    fn tails() {
        assert_eq!(tail("all"), Ok(Tail(None)));
        assert_eq!(tail("5"), Ok(Tail(Some(5))));
        assert!(tail("-1").is_err() && tail("x").is_err());
    }
}
