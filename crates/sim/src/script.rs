//! The language of stories: one command a line, `#` begins a remark. Random runs are written in it too, so that what broke a promise can be read,
//! shortened and run again. Double quotes keep blanks, `;` and `#` in a word: `constraint="node.labels.kernel version >= 5, < 6"`.
//!
//! ```text
//! seed 7                                  chance, before the first machine (also: managers 3)
//! nodes 5 cpu=4 mem=8g label zone=a,b     machines that join; labels go round
//! service web replicas=3 cpu=0.5 port=80  or global, or completions=9 concurrency=2, or global-batch; see `service` for the settings
//! update web version=2; scale web 5; remove web
//! promote web; abort web; rollback web    canaries take their slots, or go; the revision before takes its place again
//! drain node-1 [within 2m]; pause node-1; activate node-1; label node-1 zone=b; resources node-1 cpu=2 mem=4g gpu=1
//! volumes node-1 data=none logs=all,ro    the volumes it offers from now on, and how they are shared; `volumes node-1`: none
//! crash node-1 [for 10s]; boot node-1; kill-agent node-1 [for 2s]; remove-node node-1
//! crash manager-1 [for 5s]; boot manager-1; depose
//! cut node-1 manager-2; heal; net delay=1ms..20ms loss=0.1% lost=0.1%; disk node-1 fails; drivers node-1 fail; clock node-1 1h
//! calm                                    every fault ends; machines that are down stay so
//! end web.1 3                             its program ends with that code
//! cluster history=2 history-failed=1 history-age=1h heartbeat=5s orphan-after=1m strategy=binpack rebalance=2
//! run 10s; converge 60s                   time passes; until everything is as wanted
//! show tasks [web]; show nodes; show services; why web
//! ```

use std::fmt;

use model::{Sharing, Span, parse_bytes, parse_cpus};

use crate::service;

/// A manager or a machine, by number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// `manager-N`
    Manager(u32),
    /// `node-N`
    Node(u32),
}

/// How big a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Processors in billionths.
    pub cpus: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// Graphics cards: a resource `gpu` whose single ones have names.
    pub gpus: u8,
}

impl Default for Size {
    /// 4 processors, 8 GiB and no graphics card.
    fn default() -> Self {
        Self { cpus: 4_000_000_000, memory: 8 << 30, gpus: 0 }
    }
}

/// A volume that a machine offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Its name.
    pub name: String,
    /// Who may use it at the same time.
    pub sharing: Sharing,
    /// True when nobody may write there.
    pub read_only: bool,
}

/// Settings in the order in which they were given.
pub type Settings = Vec<(String, String)>;

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    /// The shortest and the longest way.
    pub delay: (Span, Span),
    /// So many of a million messages break the connection they are on.
    pub loss: u32,
    /// So many of a million proposals of a leader do not reach the log.
    pub lost: u32,
}

impl Default for Net {
    /// 1 to 3 ms, and nothing is lost.
    fn default() -> Self {
        Self { delay: (Span::from_millis(1), Span::from_millis(3)), loss: 0, lost: 0 }
    }
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of the language, told above")]
pub enum Command {
    Seed(u64),
    Managers(u32),
    Nodes { count: u32, size: Size, label: Option<(String, Vec<String>)> },
    Cluster(Settings),
    Service { name: String, settings: Settings },
    Update { name: String, settings: Settings },
    Scale { name: String, replicas: u32 },
    Remove(String),
    Promote(String),
    Abort(String),
    Rollback(String),
    Availability { node: u32, word: &'static str },
    DrainWithin { node: u32, span: Span },
    Label { node: u32, key: String, value: String },
    Resources { node: u32, size: Size },
    Volumes { node: u32, volumes: Vec<Offered> },
    RemoveNode(u32),
    Crash { place: Place, back: Option<Span> },
    Boot(Place),
    KillAgent { node: u32, back: Option<Span> },
    Depose,
    Cut(Place, Place),
    Heal,
    Calm,
    Net(Net),
    Disk { node: u32, fails: bool },
    Drivers { node: u32, fail: bool },
    Clock { place: Place, by: Span },
    End { service: String, slot: u32, code: i32 },
    Run(Span),
    Converge(Span),
    ShowTasks(Option<String>),
    ShowNodes,
    ShowServices,
    Why(String),
}

/// A line that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ScriptError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// Reads a whole script. Several commands on a line are parted by `;`.
///
/// # Errors
/// The first line that cannot be understood.
pub fn parse(text: &str) -> Result<Vec<Command>, ScriptError> {
    let mut commands = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = split(line, |c| c == '#').next().unwrap_or_default();
        for part in split(code, |c| c == ';').map(str::trim).filter(|p| !p.is_empty()) {
            let words = split(part, char::is_whitespace).filter(|word| !word.is_empty());
            let words: Vec<String> = words.map(|word| word.replace('"', "")).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let command = command(&words).map_err(|problem| ScriptError { line: number + 1, problem })?;
            commands.push(command);
        }
    }
    Ok(commands)
}

/// The parts of a text between separators that stand in no double quotes.
fn split(text: &str, separates: impl Fn(char) -> bool) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c| {
        quoted ^= c == '"';
        !quoted && separates(c)
    })
}

fn command(words: &[&str]) -> Result<Command, String> {
    Ok(match words {
        ["seed", n] => Command::Seed(number(n)?),
        ["managers", n] => match number(n)? {
            n @ 1..=9 => Command::Managers(n as u32),
            n => return Err(format!("{n} managers are not between 1 and 9")),
        },
        ["nodes", n, rest @ ..] => nodes(n, rest)?,
        ["cluster", rest @ ..] => Command::Cluster(settings(rest)?),
        ["service", name, rest @ ..] => {
            Command::Service { name: (*name).into(), settings: service_settings(name, rest)? }
        }
        ["update", name, rest @ ..] => {
            Command::Update { name: (*name).into(), settings: service_settings(name, rest)? }
        }
        ["scale", name, n] => Command::Scale { name: (*name).into(), replicas: number(n)? as u32 },
        ["remove", name] => Command::Remove((*name).into()),
        ["promote", name] => Command::Promote((*name).into()),
        ["abort", name] => Command::Abort((*name).into()),
        ["rollback", name] => Command::Rollback((*name).into()),
        ["drain", n] => Command::Availability { node: node(n)?, word: "drain" },
        ["drain", n, "within", t] => Command::DrainWithin { node: node(n)?, span: span(t)? },
        ["pause", n] => Command::Availability { node: node(n)?, word: "pause" },
        ["activate", n] => Command::Availability { node: node(n)?, word: "active" },
        ["label", n, pair] => {
            let (key, value) = pair.split_once('=').ok_or_else(|| format!("{pair:?} is not KEY=VALUE"))?;
            Command::Label { node: node(n)?, key: key.into(), value: value.into() }
        }
        ["resources", n, rest @ ..] => Command::Resources { node: node(n)?, size: size(rest)? },
        ["volumes", n, rest @ ..] => {
            let volumes = rest.iter().map(|word| offered(word)).collect::<Result<_, _>>()?;
            Command::Volumes { node: node(n)?, volumes }
        }
        ["remove-node", n] => Command::RemoveNode(node(n)?),
        ["boot", at] => Command::Boot(place(at)?),
        ["depose"] => Command::Depose,
        ["cut", a, b] => Command::Cut(place(a)?, place(b)?),
        ["heal"] => Command::Heal,
        ["calm"] => Command::Calm,
        ["net", rest @ ..] => Command::Net(net(rest)?),
        _ => return faults_and_views(words),
    })
}

fn faults_and_views(words: &[&str]) -> Result<Command, String> {
    Ok(match words {
        ["crash", at] => Command::Crash { place: place(at)?, back: None },
        ["crash", at, "for", t] => Command::Crash { place: place(at)?, back: Some(span(t)?) },
        ["kill-agent", n] => Command::KillAgent { node: node(n)?, back: None },
        ["kill-agent", n, "for", t] => Command::KillAgent { node: node(n)?, back: Some(span(t)?) },
        ["disk", n, "fails"] => Command::Disk { node: node(n)?, fails: true },
        ["disk", n, "works"] => Command::Disk { node: node(n)?, fails: false },
        ["drivers", n, "fail"] => Command::Drivers { node: node(n)?, fail: true },
        ["drivers", n, "work"] => Command::Drivers { node: node(n)?, fail: false },
        ["clock", at, by] => Command::Clock { place: place(at)?, by: span(by)? },
        ["end", slot, code] => {
            let named = slot.rsplit_once('.').and_then(|(s, n)| Some((s, n.parse::<u32>().ok()?)));
            let (service, slot) =
                named.filter(|(_, n)| *n > 0).ok_or("a slot is written SERVICE.NUMBER, from 1")?;
            let code = code.parse().map_err(|_| format!("{code:?} is not an exit code"))?;
            Command::End { service: service.into(), slot, code }
        }
        ["run", t] => Command::Run(span(t)?),
        ["converge", t] => Command::Converge(span(t)?),
        ["show", "tasks"] => Command::ShowTasks(None),
        ["show", "tasks", service] => Command::ShowTasks(Some((*service).into())),
        ["show", "nodes"] => Command::ShowNodes,
        ["show", "services"] => Command::ShowServices,
        ["why", service] => Command::Why((*service).into()),
        [word, ..] => return Err(format!("{:?} is not understood ({word})", words.join(" "))),
        [] => return Err("an empty command".into()),
    })
}

fn nodes(count: &str, rest: &[&str]) -> Result<Command, String> {
    let at = rest.iter().position(|w| *w == "label").unwrap_or(rest.len());
    let label = match &rest[at..] {
        [] => None,
        ["label", pair] => {
            let (key, values) = pair.split_once('=').ok_or_else(|| format!("{pair:?} is not KEY=A,B"))?;
            Some((key.to_string(), values.split(',').map(str::to_string).collect()))
        }
        _ => return Err("after label comes one KEY=A,B".into()),
    };
    match number(count)? {
        count @ 1..=10_000 => Ok(Command::Nodes { count: count as u32, size: size(&rest[..at])?, label }),
        count => Err(format!("{count} nodes are not between 1 and 10000")),
    }
}

fn settings(words: &[&str]) -> Result<Settings, String> {
    words
        .iter()
        .map(|word| {
            Ok(word
                .split_once('=')
                .map_or_else(|| (word.to_string(), String::new()), |(k, v)| (k.into(), v.into())))
        })
        .collect()
}

/// Settings of a service, tried on one.
fn service_settings(name: &str, words: &[&str]) -> Result<Settings, String> {
    let settings = settings(words)?;
    service::spec(name, &settings)?;
    Ok(settings)
}

fn size(words: &[&str]) -> Result<Size, String> {
    let mut size = Size::default();
    for word in words {
        match word.split_once('=') {
            Some(("cpu", v)) => size.cpus = parse_cpus(v).map_err(|e| e.to_string())?,
            Some(("mem", v)) => size.memory = parse_bytes(v).map_err(|e| e.to_string())?,
            Some(("gpu", v)) => {
                size.gpus = v.parse().map_err(|_| format!("{v:?} is not a number of gpus"))?
            }
            _ => return Err(format!("{word:?} is none of cpu=N, mem=SIZE and gpu=N")),
        }
    }
    Ok(size)
}

fn offered(word: &str) -> Result<Offered, String> {
    let bad = || format!("{word:?} is no volume, such as data=none or data=all,ro");
    let (name, rest) = word.split_once('=').ok_or_else(bad)?;
    let (sharing, read_only) = match rest.strip_suffix(",ro") {
        Some(sharing) => (sharing, true),
        None => (rest, false),
    };
    let sharing = Sharing::from_word(sharing).ok_or_else(bad)?;
    Ok(Offered { name: name.into(), sharing, read_only })
}

fn net(words: &[&str]) -> Result<Net, String> {
    let mut net = Net::default();
    for word in words {
        match word.split_once('=') {
            Some(("delay", v)) => {
                let (low, high) = v.split_once("..").ok_or("delay is written delay=1ms..20ms")?;
                net.delay = (span(low)?, span(high)?);
            }
            Some(("loss", v)) => net.loss = percent(v)?,
            Some(("lost", v)) => net.lost = percent(v)?,
            _ => return Err(format!("{word:?} is none of delay=, loss= and lost=")),
        }
    }
    Ok(net)
}

/// A percentage as parts of a million.
fn percent(text: &str) -> Result<u32, String> {
    let bad = || format!("{text:?} is not a percentage");
    let value: f64 = text.strip_suffix('%').and_then(|t| t.parse().ok()).ok_or_else(bad)?;
    if (0.0..=100.0).contains(&value) { Ok((value * 10_000.0).round() as u32) } else { Err(bad()) }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number"))
}

fn span(text: &str) -> Result<Span, String> {
    Span::parse(text).map_err(|e| e.to_string())
}

fn place(text: &str) -> Result<Place, String> {
    let named = text.rsplit_once('-').and_then(|(kind, n)| Some((kind, n.parse::<u32>().ok()?)));
    match named {
        Some(("manager", n)) if n > 0 => Ok(Place::Manager(n)),
        Some(("node", n)) if n > 0 => Ok(Place::Node(n)),
        _ => Err(format!("{text:?} is neither node-N nor manager-N")),
    }
}

fn node(text: &str) -> Result<u32, String> {
    match place(text)? {
        Place::Node(n) => Ok(n),
        Place::Manager(_) => Err(format!("{text:?} is not a node")),
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manager(n) => write!(f, "manager-{n}"),
            Self::Node(n) => write!(f, "node-{n}"),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu={} mem={}", model::format_cpus(self.cpus), self.memory)?;
        if self.gpus > 0 { write!(f, " gpu={}", self.gpus) } else { Ok(()) }
    }
}

fn write_settings(f: &mut fmt::Formatter<'_>, settings: &Settings) -> fmt::Result {
    for (key, value) in settings {
        let quoted = value.contains(|c: char| c.is_whitespace() || ";#".contains(c));
        match value.as_str() {
            "" => write!(f, " {key}")?,
            value if quoted => write!(f, " {key}=\"{value}\"")?,
            value => write!(f, " {key}={value}")?,
        }
    }
    Ok(())
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let back = |span: &Option<Span>| span.map_or_else(String::new, |s| format!(" for {s}"));
        let parts = |millionths: u32| f64::from(millionths) / 10_000.0;
        match self {
            Self::Seed(n) => write!(f, "seed {n}"),
            Self::Managers(n) => write!(f, "managers {n}"),
            Self::Nodes { count, size, label } => {
                write!(f, "nodes {count} {size}")?;
                label.as_ref().map_or(Ok(()), |(key, values)| write!(f, " label {key}={}", values.join(",")))
            }
            Self::Cluster(settings) => f.write_str("cluster").and_then(|()| write_settings(f, settings)),
            Self::Service { name, settings } => {
                write!(f, "service {name}").and_then(|()| write_settings(f, settings))
            }
            Self::Update { name, settings } => {
                write!(f, "update {name}").and_then(|()| write_settings(f, settings))
            }
            Self::Scale { name, replicas } => write!(f, "scale {name} {replicas}"),
            Self::Remove(name) => write!(f, "remove {name}"),
            Self::DrainWithin { node, span } => write!(f, "drain node-{node} within {span}"),
            Self::Promote(name) => write!(f, "promote {name}"),
            Self::Abort(name) => write!(f, "abort {name}"),
            Self::Rollback(name) => write!(f, "rollback {name}"),
            Self::Availability { node, word: "active" } => write!(f, "activate node-{node}"),
            Self::Availability { node, word } => write!(f, "{word} node-{node}"),
            Self::Label { node, key, value } => write!(f, "label node-{node} {key}={value}"),
            Self::Resources { node, size } => write!(f, "resources node-{node} {size}"),
            Self::Volumes { node, volumes } => {
                write!(f, "volumes node-{node}")?;
                volumes.iter().try_for_each(|Offered { name, sharing, read_only }| {
                    write!(f, " {name}={sharing}{}", if *read_only { ",ro" } else { "" })
                })
            }
            Self::RemoveNode(node) => write!(f, "remove-node node-{node}"),
            Self::Crash { place, back: b } => write!(f, "crash {place}{}", back(b)),
            Self::Boot(place) => write!(f, "boot {place}"),
            Self::KillAgent { node, back: b } => write!(f, "kill-agent node-{node}{}", back(b)),
            Self::Depose => f.write_str("depose"),
            Self::Cut(a, b) => write!(f, "cut {a} {b}"),
            Self::Heal => f.write_str("heal"),
            Self::Calm => f.write_str("calm"),
            Self::Net(net) => {
                let (low, high) = net.delay;
                write!(f, "net delay={low}..{high} loss={}% lost={}%", parts(net.loss), parts(net.lost))
            }
            Self::Disk { node, fails } => {
                write!(f, "disk node-{node} {}", if *fails { "fails" } else { "works" })
            }
            Self::Drivers { node, fail } => {
                write!(f, "drivers node-{node} {}", if *fail { "fail" } else { "work" })
            }
            Self::Clock { place, by } => write!(f, "clock {place} {by}"),
            Self::End { service, slot, code } => write!(f, "end {service}.{slot} {code}"),
            Self::Run(span) => write!(f, "run {span}"),
            Self::Converge(span) => write!(f, "converge {span}"),
            Self::ShowTasks(None) => f.write_str("show tasks"),
            Self::ShowTasks(Some(service)) => write!(f, "show tasks {service}"),
            Self::ShowNodes => f.write_str("show nodes"),
            Self::ShowServices => f.write_str("show services"),
            Self::Why(service) => write!(f, "why {service}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_read_as_it_is_written() {
        let text = "seed 7; managers 3\nnodes 5 cpu=4 mem=8g gpu=2 label zone=a,b\n\
            service web replicas=3 cpu=0.5 constraint=node.labels.zone==a  # a remark\n\
            service new constraint=\"node.labels.kernel version >= 5.4, < 6\" replicas=2; service probe global\nupdate web version=2; scale web 5; remove web\n\
            promote web; abort web; rollback web\n\
            drain node-1; pause node-1; activate node-1; label node-1 zone=b; resources node-1 cpu=2 mem=4g\n\
            crash node-1 for 10s; boot node-1; kill-agent node-1 for 2s; kill-agent node-1; remove-node node-1\n\
            crash manager-1; boot manager-1; depose; cut node-1 manager-2; heal; calm\n\
            net delay=1ms..20ms loss=0.1% lost=0.25%; disk node-1 fails; drivers node-2 fail; clock node-1 1h; clock manager-1 -5s\n\
            volumes node-1 data=none logs=all,ro; volumes node-1; end web.1 3; cluster history=2; run 10s; converge 1m0s\n\
            show tasks; show tasks web; show nodes; show services; why web";
        let commands = parse(text).expect("it is a script");
        assert_eq!(commands.len(), 44);
        let again: Vec<String> = commands.iter().map(ToString::to_string).collect();
        assert_eq!(parse(&again.join("\n")).as_ref(), Ok(&commands));
    }

    #[test]
    fn errors_name_their_line() {
        for (text, line, part) in [
            ("run 10s\n\nfly away", 3, "fly away"),
            ("run 10", 1, "duration"),
            ("nodes 0", 1, "between"),
            ("service web replicas=x", 1, "replicas"),
            ("service web colour=red", 1, "colour"),
            ("# fine\ncut node-1 nowhere", 2, "nowhere"),
            ("volumes node-1 data=some", 1, "no volume"),
            ("net loss=5", 1, "percentage"),
            ("end web 3", 1, "SERVICE.NUMBER"),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.line, line, "{text}");
            assert!(error.problem.contains(part), "{text}: {error}");
        }
    }
}
