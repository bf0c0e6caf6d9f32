//! `node drain`: empties a node, and shows how that goes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use clap::Args;
use hyper::Method;
use model::Span;
use native_api::types::{Availability, Draining, Duration as Time, Node, NodeUpdate, Task, Written};
use tokio::time::Instant;

use super::node::resolve;
use super::options::{self, WaitFlags};
use super::{Cx, show};
use crate::client::{Client, Route};
use crate::failure::Failure;
use crate::progress::{is_ended, is_live};
use crate::screen::{Screen, clip, plain};
use crate::time;

/// How long a look at the node waits for something new; what its tasks wait for may change without it.
const LOOK: Duration = Duration::from_secs(2);

/// Take a node out: it gives up its tasks and gets no new ones.
///
/// Tasks of services with a budget (--min-healthy, --max-surge of service create and update) are moved one after the other, and
/// with surge the next one runs before the old one ends. All others go at once. `node update --availability active` takes
/// it back: what has not been moved stays.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 the node is empty, 4 timed out: it goes on being drained.")]
pub struct Drain {
    /// The node: its host name, its id or the beginning of it; self for the daemon's own.
    #[arg(value_name = "NODE")]
    node: String,
    /// After so long whatever is left goes at once, whatever the budgets say. Drained again without it, a node keeps the deadline it has.
    #[arg(long, value_name = "DURATION", value_parser = options::span)]
    deadline: Option<Span>,
    #[command(flatten)]
    wait: WaitFlags,
}

impl Drain {
    /// Drains it, and waits until it is empty.
    pub async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let node = resolve(cx, &self.node).await?;
        let before = cx.client.get::<Node>(Route::new(&["nodes", &node])).await?.value;
        let held = if self.wait.detach { Vec::new() } else { held(&cx.client, &before.id).await? };
        let route = Route::new(&["nodes", &before.id]);
        let written: Written = cx.client.change(Method::PATCH, route, Some(&self.body())).await?;
        let kept = before.draining.and_then(|d| d.until).filter(|_| self.deadline.is_none());
        if let Some(left) = kept.and_then(|at| time::until(&at, cx.screen.now())) {
            let text = "its deadline stays (--deadline gives another): whatever is left goes at once in";
            cx.screen.note(format!("note: {text} {left}"))?;
        }
        if self.wait.detach {
            return cx.screen.line(plain(&written.name));
        }
        let timeout = u64::try_from(self.wait.timeout.0).ok().filter(|n| *n > 0).map(Duration::from_nanos);
        let Written { id, name, index, .. } = &written;
        let watch = Watch { client: &cx.client, id, index: *index, name, held: &held };
        watch.until_empty(&mut cx.screen, timeout, self.wait.quiet).await
    }

    fn body(&self) -> NodeUpdate {
        NodeUpdate {
            availability: Some(Availability::Drain),
            deadline: self.deadline.map(Time::of),
            ..NodeUpdate::default()
        }
    }
}

/// The tasks that hold a place on a node.
async fn held(client: &Client, node: &str) -> Result<Vec<Task>, Failure> {
    let mut tasks = client.list::<Task>(Route::new(&["tasks"]).with("node", node)).await?.value;
    tasks.retain(|t| !is_ended(t));
    Ok(tasks)
}

struct Watch<'a> {
    client: &'a Client,
    id: &'a str,
    name: &'a str,
    /// Only what was read in this state or a later one counts.
    index: u64,
    /// What it had when it was drained.
    held: &'a [Task],
}

impl Watch<'_> {
    async fn until_empty(
        &self,
        screen: &mut Screen,
        timeout: Option<Duration>,
        quiet: bool,
    ) -> Result<(), Failure> {
        let begin = Instant::now();
        let mut progress = Progress { most: self.held.len() as u64, ..Progress::default() };
        let mut after = 0;
        loop {
            let route = Route::new(&["nodes", self.id]).beyond(after, LOOK);
            let left = timeout.map_or(Duration::MAX, |t| t.saturating_sub(begin.elapsed()));
            let answer = tokio::select! {
                answer = self.client.get::<Node>(route) => answer?,
                () = tokio::time::sleep(left) => {
                    let after = timeout.unwrap_or_default();
                    let after = Span::from_millis(i64::try_from(after.as_millis()).unwrap_or(i64::MAX));
                    return Err(Failure::TimedOut(format!(
                        "timed out after {after}: {}; {} goes on being drained", progress.text, self.name
                    )));
                }
                _ = tokio::signal::ctrl_c() => {
                    return Err(Failure::Interrupted(format!(
                        "no longer waiting; {0} goes on being drained, see `quelea node inspect {0}`", self.name
                    )));
                }
            };
            if answer.index < self.index {
                // A state from before our change: this daemon has not caught up yet.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            after = answer.changed;
            let Some(draining) = &answer.value.draining else {
                let now = show::capital(&format!("{:?}", answer.value.availability).to_lowercase());
                return Err(Failure::Refused(format!("{} is not drained any more: it is {now}", self.name)));
            };
            progress.hear(draining, begin.elapsed());
            if !quiet && draining.left == 0 {
                progress.text += &fates(self.held, &self.elsewhere().await?);
            }
            if !quiet {
                progress.draw(screen)?;
            }
            if draining.left == 0 {
                return screen.line(plain(self.name));
            }
        }
    }

    /// What is there on other nodes, or waits for one, of the services that had tasks on the node.
    async fn elsewhere(&self) -> Result<Vec<Task>, Failure> {
        let services: BTreeSet<&str> = self.held.iter().map(|t| &*t.service).collect();
        let mut elsewhere = Vec::new();
        for service in services {
            let tasks = match self.client.list::<Task>(Route::new(&["tasks"]).with("service", service)).await
            {
                Ok(answer) => answer.value,
                // Removed meanwhile, with all its tasks.
                Err(failure) if failure.is_not_found() => continue,
                Err(failure) => return Err(failure),
            };
            elsewhere.extend(tasks.into_iter().filter(|t| is_live(t) && t.node.as_deref() != Some(self.id)));
        }
        Ok(elsewhere)
    }
}

/// What became of the tasks that a node had, as it follows their number: `: 3 moved, 1 waits for a node, 1 ended`. A task was moved when
/// another one of its slot has another node; each of those stands for one task.
fn fates(held: &[Task], elsewhere: &[Task]) -> String {
    let mut slots: BTreeMap<(&str, u64), (usize, usize)> = BTreeMap::new();
    for task in elsewhere {
        let Some(slot) = task.slot else { continue };
        let (placed, waiting) = slots.entry((&*task.service, slot)).or_default();
        *(if task.node.is_some() { placed } else { waiting }) += 1;
    }
    let (mut moved, mut waits, mut ended) = (0, 0, 0);
    for task in held {
        // The slot of a global service is its node, and goes nowhere.
        let heirs = task.slot.and_then(|slot| slots.get_mut(&(&*task.service, slot)));
        match heirs {
            Some((placed @ 1.., _)) => (*placed, moved) = (*placed - 1, moved + 1),
            Some((_, waiting @ 1..)) => (*waiting, waits) = (*waiting - 1, waits + 1),
            _ => ended += 1,
        }
    }
    let waiting = if waits == 1 { "waits for a node" } else { "wait for a node" };
    let parts = [(moved, "moved"), (waits, waiting), (ended, "ended")];
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) }
}

/// What is known of a drain, and what was said of it.
#[derive(Debug, Default)]
struct Progress {
    /// Most tasks that were seen there.
    most: u64,
    text: String,
    estimate: Option<String>,
    said: String,
    drawn: bool,
}

impl Progress {
    fn hear(&mut self, draining: &Draining, elapsed: Duration) {
        self.most = self.most.max(draining.left);
        self.text = in_words(draining, self.most);
        self.estimate = estimate(self.most, draining.left, elapsed);
    }

    /// On a terminal in place, else a line whenever something but the estimate differs.
    fn draw(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        let estimate = self.estimate.as_ref().map_or_else(String::new, |e| format!("; {e}"));
        let whole = plain(&format!("{}{estimate}", self.text));
        match screen.err_size {
            Some((columns, _)) if self.said != whole => {
                let up = if std::mem::replace(&mut self.drawn, true) { "\u{1b}[1A" } else { "" };
                writeln!(screen.err, "{up}\u{1b}[2K{}", clip(&whole, columns.saturating_sub(1)))?;
                self.said = whole;
            }
            None if self.said != self.text => {
                writeln!(screen.err, "{whole}")?;
                self.said.clone_from(&self.text);
            }
            _ => {}
        }
        Ok(())
    }
}

/// `3 tasks left, 5 gone: web waits for its budget (3 run, 3 have to); api is ending`.
fn in_words(draining: &Draining, most: u64) -> String {
    let noun = if draining.left == 1 { "task" } else { "tasks" };
    let gone = most - draining.left;
    let mut text = format!("{} {noun} left, {gone} gone", draining.left);
    let mut waits: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for service in &draining.services {
        waits.entry(&service.waits_for).or_default().push(format!("{} ({})", service.name, service.left));
    }
    let parts: Vec<String> =
        waits.into_iter().map(|(why, names)| format!("{} {why}", names.join(", "))).collect();
    if !parts.is_empty() {
        text += &format!(": {}", parts.join("; "));
    }
    text
}

/// How long it will still take at the pace so far; nothing while there is no pace.
fn estimate(most: u64, left: u64, elapsed: Duration) -> Option<String> {
    let moved = most - left;
    if moved == 0 || left == 0 || elapsed < Duration::from_secs(1) {
        return None;
    }
    let seconds = elapsed.as_secs_f64() * left as f64 / moved as f64;
    Some(format!("about {} to go at this pace", Span::from_secs((seconds.ceil() as i64).max(1))))
}

#[cfg(test)]
mod tests {
    use native_api::types::LeavingService;

    use super::*;
    use crate::screen::tests::paper;

    fn draining(left: &[(&str, u64, &str)]) -> Draining {
        let service = |(name, left, waits_for): &(&str, u64, &str)| LeavingService {
            service: (*name).into(),
            name: (*name).into(),
            left: *left,
            waits_for: (*waits_for).into(),
        };
        Draining {
            left: left.iter().map(|(_, n, _)| n).sum(),
            until: None,
            services: left.iter().map(service).collect(),
        }
    }

    #[test]
    fn progress_is_said_when_it_changes() {
        let (mut screen, _, err) = paper();
        let mut progress = Progress::default();
        let budget = "waits for its budget: 3 run, and 3 have to";
        for (left, seconds) in [
            (&[("api", 2, "is ending"), ("web", 3, budget)][..], 0),
            (&[("web", 3, budget)], 4),
            (&[("web", 3, budget)], 6),
            (&[("web", 1, budget)], 8),
            (&[], 10),
        ] {
            progress.hear(&draining(left), Duration::from_secs(seconds));
            progress.draw(&mut screen).unwrap();
        }
        assert_eq!(
            err.text(),
            "\
5 tasks left, 0 gone: api (2) is ending; web (3) waits for its budget: 3 run, and 3 have to
3 tasks left, 2 gone: web (3) waits for its budget: 3 run, and 3 have to; about 6s to go at this pace
1 task left, 4 gone: web (1) waits for its budget: 3 run, and 3 have to; about 2s to go at this pace
0 tasks left, 5 gone
"
        );
    }

    #[test]
    fn what_moved_is_told_apart_from_what_only_ended() {
        let task = |fields: serde_json::Value| crate::commands::task_for_tests(fields);
        let of = |slot: u64| task(serde_json::json!({"slot": slot}));
        let there = |slot: u64, node: Option<&str>| task(serde_json::json!({"slot": slot, "node": node}));
        let global = task(serde_json::json!({"service": "s9", "slot": null, "name": "agent.n1"}));
        let elsewhere = [there(1, Some("n2")), there(2, None), there(4, Some("n2")), there(7, Some("n2"))];
        for (held, said) in [
            (vec![], ""),
            (vec![of(1)], ": 1 moved"),
            (vec![of(1), of(2), of(3), global], ": 1 moved, 1 waits for a node, 2 ended"),
            // Two of one slot, one of which was on its way out: one stands for one.
            (vec![of(4), of(4)], ": 1 moved, 1 ended"),
        ] {
            assert_eq!(fates(&held, &elsewhere), said);
        }
    }

    #[test]
    fn nothing_is_said_of_the_time_while_there_is_no_pace() {
        let seconds = Duration::from_secs;
        assert_eq!(estimate(5, 5, seconds(100)), None);
        assert_eq!(estimate(5, 4, Duration::from_millis(10)), None);
        assert_eq!(estimate(5, 0, seconds(9)), None);
        assert_eq!(estimate(100, 90, seconds(60)).as_deref(), Some("about 9m0s to go at this pace"));
    }
}
