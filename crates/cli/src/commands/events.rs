//! `events`: what happens, as it happens; a lost connection is taken up again without a gap.

use std::time::Duration;

use clap::Args;
use native_api::types::{ErrorBody, Event};

use super::Cx;
use crate::client::{Client, Lines, Route};
use crate::failure::Failure;
use crate::screen::{Screen, plain, short};
use crate::table::Tone;
use crate::time;

/// How long to wait before the first attempt to take up a lost stream, and at most between attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Show what happens, as it happens: from now on, or after an event that is still kept.
#[derive(Debug, Args)]
pub struct Events {
    /// Begin after the event of this id (index.ordinal).
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// Begin with the oldest event that is still kept, or now.
    #[arg(long, value_name = "oldest|now", value_parser = ["oldest", "now"], conflicts_with = "after")]
    from: Option<String>,
    /// Only of this kind: cluster, namespace, node, job, service or task.
    #[arg(long, value_name = "KIND", value_parser = ["cluster", "namespace", "node", "job", "service", "task"])]
    kind: Option<String>,
    /// Each as one line of JSON.
    #[arg(long)]
    json: bool,
    /// Whole ids.
    #[arg(long)]
    no_trunc: bool,
    /// Where the stream will stand once the event that is coming in is whole.
    #[arg(skip)]
    place: Option<String>,
}

impl Events {
    /// Shows events until Ctrl-C.
    pub async fn run(mut self, cx: &mut Cx) -> Result<(), Failure> {
        tokio::select! {
            ended = self.follow(&cx.client, &mut cx.screen) => ended,
            _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted(String::new())),
        }
    }

    async fn follow(&mut self, client: &Client, screen: &mut Screen) -> Result<(), Failure> {
        let mut last = self.after.clone();
        let mut lines = self.open(client, last.as_deref()).await?;
        let mut pause = PAUSE.0;
        loop {
            match self.read(&mut lines, screen, &mut last).await {
                Err(Failure::Refused(_)) | Ok(false) => {}
                Ok(true) => {
                    pause = PAUSE.0;
                    continue;
                }
                Err(failure) => return Err(failure),
            }
            lines = loop {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE.1);
                match self.open(client, last.as_deref()).await {
                    Ok(lines) => break lines,
                    // The daemon is not back yet. Whatever else it says once it is (such as that our place is no
                    // longer kept) ends the stream.
                    Err(Failure::Refused(_) | Failure::Api { status: 503, .. }) => {}
                    Err(failure) => return Err(failure),
                }
            };
        }
    }

    async fn open(&self, client: &Client, after: Option<&str>) -> Result<Lines, Failure> {
        let from = self.from.as_ref().filter(|_| after.is_none());
        let route = Route::new(&["events"]).with_some("after", after).with_some("from", from);
        let route = route.with_some("kind", self.kind.as_ref());
        client.lines(route).await
    }

    /// Shows one event; false at the end of the stream.
    async fn read(
        &mut self,
        lines: &mut Lines,
        screen: &mut Screen,
        last: &mut Option<String>,
    ) -> Result<bool, Failure> {
        let line = match lines.next().await {
            Ok(Some(line)) => line,
            ended => {
                self.place = None;
                return ended.map(|_| false);
            }
        };
        match Sent::parse(&line) {
            Sent::Id(id) => self.place = Some(id),
            // Only what has come whole counts: an event that was cut off is asked for again.
            Sent::End => *last = self.place.take().or(last.take()),
            Sent::Data(data) => match serde_json::from_str::<Event>(&data) {
                Ok(event) => {
                    *last = Some(event.id.clone());
                    self.show(&event, screen)?;
                }
                // The only other thing that is sent: that we were too slow, and some events are no longer kept.
                Err(_) => {
                    let body = serde_json::from_str(&data).unwrap_or_else(|e| ErrorBody {
                        error: format!("the daemon's event is not understood: {e}"),
                        ..ErrorBody::default()
                    });
                    return Err(Failure::Api { status: 410, body: Box::new(body) });
                }
            },
            Sent::Nothing => {}
        }
        Ok(true)
    }

    fn show(&self, event: &Event, screen: &mut Screen) -> Result<(), Failure> {
        if self.json {
            return screen.json_line(event);
        }
        let line = self.line(event, screen);
        screen.line(line)?;
        screen.flush()
    }

    fn line(&self, event: &Event, screen: &Screen) -> String {
        let mut words = vec![time::stamp(&event.at), format!("{} {}", event.kind, event.action)];
        words.push(format!("{} ({})", event.name, short(&event.object, self.no_trunc)));
        if let Some(state) = &event.state {
            let wanted = event.desired.as_ref().filter(|d| *d != state);
            let wanted = wanted.map(|d| format!(", wanted {d}")).unwrap_or_default();
            words.push(screen.toned(&format!("{state}{wanted}"), tone(state)));
        }
        if let Some(message) = event.message.as_ref().filter(|m| !m.is_empty()) {
            words.push(plain(message));
        }
        words.join("  ")
    }
}

fn tone(state: &str) -> Tone {
    match state {
        "running" | "ready" => Tone::Good,
        "failed" | "rejected" | "orphaned" | "down" => Tone::Bad,
        _ => Tone::Plain,
    }
}

/// A line of a stream of server-sent events, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    /// Where the stream stands.
    Id(String),
    /// An event. The daemon sends each in one line.
    Data(String),
    /// The end of an event.
    End,
    /// A comment, or a kind.
    Nothing,
}

impl Sent {
    fn parse(line: &str) -> Self {
        let value = |rest: &str| rest.strip_prefix(' ').unwrap_or(rest).to_owned();
        match line.split_once(':') {
            // An id without events after it (such as the place where the stream begins) is a place to resume from, too.
            Some(("id", rest)) if !value(rest).is_empty() => Self::Id(value(rest)),
            Some(("data", rest)) => Self::Data(value(rest)),
            None if line.is_empty() => Self::End,
            _ => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake::{self, Fake, Step};
    use crate::screen::tests::paper;

    #[test]
    fn lines_of_the_stream() {
        for (line, sent) in [
            ("id: 17.0", Sent::Id("17.0".into())),
            ("data: {\"a\": 1}", Sent::Data("{\"a\": 1}".into())),
            ("data:x", Sent::Data("x".into())),
            ("event: task", Sent::Nothing),
            (": still there", Sent::Nothing),
            ("id:", Sent::Nothing),
            ("", Sent::End),
        ] {
            assert_eq!(Sent::parse(line), sent, "{line}");
        }
    }

    #[test]
    fn a_lost_stream_is_taken_up_where_it_was() {
        let event = |id: &str, name: &str| {
            json!({"id": id, "at": "2026-01-31T13:00:00Z", "kind": "task", "action": "created", "object": name,
                "name": name, "version": 1})
        };
        let block = |id: &str, name: &str| format!("id: {id}\nevent: task\ndata: {}\n\n", event(id, name));
        let gone = json!({"error": "events after this id are no longer kept", "oldest": "30.0"});
        let daemon = Fake::start(vec![
            // The first thing said is where the stream begins; it is cut in the middle of an event.
            fake::stream(
                "GET /v1/events?from=oldest&kind=task",
                &["id: 4.0\n\n", &block("5.0", "a"), "id: 6.0\neve"],
                false,
            ),
            Step::raw("GET /v1/events?after=5.0&kind=task", ""),
            fake::json("GET /v1/events?after=5.0&kind=task", 503, 0, &json!({"error": "starting"})),
            fake::stream(
                "GET /v1/events?after=5.0&kind=task",
                &[&block("6.0", "b"), "id: 9.4294967295\n\n"],
                true,
            ),
            fake::stream(
                "GET /v1/events?after=9.4294967295&kind=task",
                &[&block("10.0", "c"), &format!("event: gone\ndata: {gone}\n\n")],
                true,
            ),
        ]);
        let mut events = Events {
            after: None,
            from: Some("oldest".into()),
            kind: Some("task".into()),
            json: true,
            no_trunc: false,
            place: None,
        };
        let (mut screen, out, _) = paper();
        let client = daemon.client();
        let followed = async {
            let patience = Duration::from_secs(60);
            tokio::time::timeout(patience, events.follow(&client, &mut screen))
                .await
                .expect("the script ends")
        };
        let ended = crate::commands::block_on(followed);
        daemon.asked();
        assert_eq!(ended.unwrap_err().to_string(), "events after this id are no longer kept");
        let seen: Vec<Event> = out.text().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(seen.iter().map(|e| e.name.as_str()).collect::<String>(), "abc");
    }

    #[test]
    fn an_event_is_a_line() {
        let events =
            Events { after: None, from: None, kind: None, json: false, no_trunc: false, place: None };
        let event: Event = serde_json::from_value(json!({
            "id": "17.0", "at": "2026-01-31T13:00:00.25Z", "kind": "task", "action": "updated",
            "object": "0123456789abcdefghijklmno", "name": "web.1", "version": 17, "state": "failed",
            "desired": "shutdown", "message": "exit code 1",
        }))
        .unwrap();
        let (mut screen, out, _) = paper();
        events.show(&event, &mut screen).unwrap();
        assert_eq!(
            out.text(),
            "2026-01-31T13:00:00.250Z  task updated  web.1 (0123456789ab)  failed, wanted shutdown  exit code 1\n"
        );
    }
}
