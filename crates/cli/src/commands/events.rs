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
    /// Only since then, as far as events are kept: 10m (ago), 2026-01-31, or 2026-01-31T13:00:00Z.
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["after", "from"])]
    since: Option<String>,
    /// Only of this kind: cluster, namespace, node, stack, service or task.
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<String>,
    /// Only what fits: type=KIND, service=NAME, node=NAME, or event=create|update|remove. One that is given twice may fit either way.
    #[arg(short, long = "filter", value_name = "NAME=VALUE", value_parser = filter)]
    filters: Vec<Filter>,
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

/// Kinds of objects, in the words of the command line and in those of the API.
const KINDS: [(&str, &str); 7] = [
    ("cluster", "cluster"),
    ("namespace", "namespace"),
    ("node", "node"),
    ("stack", "job"),
    ("service", "service"),
    ("task", "task"),
    // What the API says is understood as well.
    ("job", "job"),
];

/// What happened, in docker's words and in those of the API.
const ACTIONS: [(&str, &str); 6] = [
    ("create", "created"),
    ("update", "updated"),
    ("remove", "deleted"),
    ("created", "created"),
    ("updated", "updated"),
    ("deleted", "deleted"),
];

fn word(known: &[(&str, &str)], text: &str) -> Result<String, String> {
    let found = known.iter().find(|(word, _)| *word == text).map(|(_, meant)| (*meant).to_owned());
    let mut words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
    // The API's own words stand last; nobody needs to be told of them.
    words.truncate(if known.len() == KINDS.len() { 6 } else { 3 });
    found.ok_or_else(|| format!("{text:?} is none of {}", words.join(", ")))
}

fn kind(text: &str) -> Result<String, String> {
    word(&KINDS, text)
}

/// What events are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Filter {
    Kind(String),
    Action(String),
    Service(String),
    Node(String),
}

fn filter(text: &str) -> Result<Filter, String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, for example type=service")?;
    if value.is_empty() {
        return Err(format!("{name}= says nothing"));
    }
    match name {
        "type" => kind(value).map(Filter::Kind),
        "event" => word(&ACTIONS, value).map(Filter::Action),
        "service" => Ok(Filter::Service(value.into())),
        "node" => Ok(Filter::Node(value.into())),
        other => {
            Err(format!("events cannot be filtered by {other:?}, only by type, event, service and node"))
        }
    }
}

/// The beginning of an id of at least four characters counts as the id.
fn is_id(id: &str, text: &str) -> bool {
    text.len() >= 4 && id.starts_with(text)
}

impl Filter {
    fn fits(&self, event: &Event) -> bool {
        match self {
            Self::Kind(kind) => event.kind == *kind,
            Self::Action(action) => event.action == *action,
            Self::Service(service) => match &event.service {
                // A service name holds no dot.
                Some(id) => {
                    is_id(id, service) || event.name.rsplit_once('.').is_some_and(|(name, _)| name == service)
                }
                None => event.kind == "service" && (event.name == *service || is_id(&event.object, service)),
            },
            Self::Node(node) => {
                let own = event.kind == "node" && (event.name == *node || is_id(&event.object, node));
                own || event.node.as_ref().is_some_and(|id| is_id(id, node))
            }
        }
    }
}

impl Events {
    /// Those of one name are alternatives; each name must fit.
    fn wants(&self, event: &Event) -> bool {
        self.filters.iter().all(|filter| {
            let same = |other: &&Filter| std::mem::discriminant(*other) == std::mem::discriminant(filter);
            self.filters.iter().filter(same).any(|other| other.fits(event))
        })
    }

    /// Shows events until Ctrl-C.
    pub async fn run(mut self, cx: &mut Cx) -> Result<(), Failure> {
        if let Some(text) = &self.since {
            let since = time::moment(text, cx.screen.now());
            self.since = Some(since.map_err(|e| Failure::Usage(format!("--since: {e}")))?.to_string());
        }
        self.resolve_nodes(&cx.client).await?;
        tokio::select! {
            ended = self.follow(&cx.client, &mut cx.screen) => ended,
            _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted(String::new())),
        }
    }

    /// Tasks name their node by its id.
    async fn resolve_nodes(&mut self, client: &Client) -> Result<(), Failure> {
        if !self.filters.iter().any(|f| matches!(f, Filter::Node(_))) {
            return Ok(());
        }
        let nodes = client.list::<native_api::types::Node>(Route::new(&["nodes"])).await?.value;
        for filter in &mut self.filters {
            if let Filter::Node(name) = filter {
                let mut called = nodes.iter().filter(|n| n.hostname == *name);
                if let (Some(node), None) = (called.next(), called.next()) {
                    *name = node.id.clone();
                }
            }
        }
        Ok(())
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
        let since = self.since.as_ref().filter(|_| after.is_none());
        let route = Route::new(&["events"]).with_some("after", after).with_some("from", from);
        let route = route.with_some("since", since);
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
        if !self.wants(event) {
            return Ok(());
        }
        if self.json {
            return screen.json_line(event);
        }
        let line = self.line(event, screen);
        screen.line(line)?;
        screen.flush()
    }

    fn line(&self, event: &Event, screen: &Screen) -> String {
        // The word for it in commands.
        let kind = if event.kind == "job" { "stack" } else { &event.kind };
        let mut words = vec![time::stamp(&event.at), format!("{kind} {}", event.action)];
        words.push(format!("{} ({})", plain(&event.name), short(&event.object, self.no_trunc)));
        if !event.changes.is_empty() {
            let tone = event
                .state
                .as_deref()
                .filter(|_| event.changes[0].starts_with("state"))
                .map_or(Tone::Plain, tone);
            words.push(screen.toned(&plain(&event.changes.join(", ")), tone));
        } else if let Some(state) = &event.state {
            let wanted = event.desired.as_ref().filter(|d| *d != state);
            let wanted = wanted.map(|d| format!(", wanted {d}")).unwrap_or_default();
            words.push(screen.toned(&format!("{state}{wanted}"), tone(state)));
        }
        let told = |message: &str| event.changes.iter().any(|change| change.contains(message));
        if let Some(message) = event.message.as_ref().filter(|m| !m.is_empty() && !told(m)) {
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
            since: None,
            kind: Some("task".into()),
            filters: Vec::new(),
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

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        events: Events,
    }

    fn shown(flags: &[&str], events: &[serde_json::Value]) -> String {
        let line = <Line as clap::Parser>::try_parse_from(["events"].iter().chain(flags)).unwrap();
        let (mut screen, out, _) = paper();
        for event in events {
            let whole = json!({"id": "17.0", "at": "2026-01-31T13:00:00.25Z", "object": "0123456789abcdefghijklmno", "version": 17});
            let mut whole = whole.as_object().unwrap().clone();
            whole.extend(event.as_object().unwrap().clone());
            line.events.show(&serde_json::from_value(whole.into()).unwrap(), &mut screen).unwrap();
        }
        out.text()
    }

    #[test]
    fn an_event_is_a_line() {
        let task = json!({"kind": "task", "action": "updated", "name": "web.1", "state": "failed", "desired": "shutdown",
            "message": "exit status 1"});
        let mut changed = task.clone();
        changed["changes"] =
            json!(["state running -> failed (exit status 1)", "desired running -> shutdown"]);
        let node = json!({"kind": "node", "action": "updated", "name": "alpha", "state": "ready",
            "changes": ["availability: active -> drain"]});
        let stack = json!({"kind": "job", "action": "created", "name": "shop"});
        assert_eq!(
            shown(&[], &[task, changed, node, stack]),
            "\
2026-01-31T13:00:00.250Z  task updated  web.1 (0123456789ab)  failed, wanted shutdown  exit status 1
2026-01-31T13:00:00.250Z  task updated  web.1 (0123456789ab)  state running -> failed (exit status 1), desired running -> shutdown
2026-01-31T13:00:00.250Z  node updated  alpha (0123456789ab)  availability: active -> drain
2026-01-31T13:00:00.250Z  stack created  shop (0123456789ab)
"
        );
    }

    #[test]
    fn filters_choose_events() {
        let event = |kind: &str, action: &str, name: &str, service: Option<&str>| json!({"kind": kind, "action": action, "name": name, "service": service, "node": service.map(|_| "n1aaaaaaaa")});
        let all = [
            event("service", "created", "web", None),
            event("service", "deleted", "db", None),
            event("task", "created", "web.1", Some("s1aaaaaaaa")),
            event("task", "updated", "db.1", Some("s2aaaaaaaa")),
            event("job", "updated", "web", None),
        ];
        for (flags, count) in [
            (&[][..], 5),
            (&["-f", "type=service"], 2),
            (&["-f", "type=service", "-f", "type=stack"], 3),
            (&["--filter", "service=web"], 2),
            (&["--filter", "service=s2aaaa"], 1),
            (&["--filter", "service=web", "--filter", "type=task"], 1),
            (&["--filter", "event=remove"], 1),
            (&["--filter", "node=n1aaaa"], 2),
            (&["--filter", "node=alpha"], 0),
        ] {
            assert_eq!(shown(flags, &all).lines().count(), count, "{flags:?}");
        }
        for text in ["image=x", "type=image", "type", "service=", "event=die"] {
            let error = filter(text).unwrap_err();
            assert!(!error.is_empty() && !error.contains("job"), "{error}");
        }
        assert_eq!(kind("stack"), Ok("job".into()));
    }
}
