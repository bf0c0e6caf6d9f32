//! The log of events that lets a reader resume exactly: what happened in a small form, not whole objects.
//!
//! An event as `apply` makes it holds the object before and after. To keep those would keep every state that an object has
//! been through. What is kept of an event is what people ask of it: what it was about, how that stood after it, and what
//! changed. Only the newest [`limits::EVENTS_KEPT`] are there.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use model::{
    Cluster, ClusterId, Desired, Index, Job, JobId, Labels, Mode, Namespace, NamespaceId, Node, NodeId,
    NodeState, Service, ServiceId, Slot, Task, TaskId, TaskState, Time, limits,
};

use crate::{Action, Event, EventId, Object, Tables};

/// What is kept of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptEvent {
    /// Where it stands.
    pub id: EventId,
    /// When, by the log's clock.
    pub at: Time,
    /// What happened.
    pub action: Action,
    /// To what.
    pub subject: Subject,
}

/// What an event was about, as it was after the event, or as it last was when it was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The cluster itself.
    Cluster(About<ClusterId>),
    /// A namespace.
    Namespace(About<NamespaceId>),
    /// A node; its name is its host name.
    Node {
        /// Which, and what changed.
        about: About<NodeId>,
        /// Whether it is there.
        state: NodeState,
        /// Why, in a few words; may be empty.
        message: Arc<str>,
    },
    /// A job.
    Job(About<JobId>),
    /// A service.
    Service(About<ServiceId>),
    /// A task.
    Task(AboutTask),
}

/// An object that has a name, and what changed of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About<I> {
    /// Its identity.
    pub id: I,
    /// Its name.
    pub name: Arc<str>,
    changes: Box<[Fact]>,
}

/// A task, and what it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AboutTask {
    /// Its identity.
    pub id: TaskId,
    /// The service it is of.
    pub service: ServiceId,
    /// The place it fills.
    pub slot: Slot,
    /// Its node, if it has one.
    pub node: Option<NodeId>,
    /// What it had reached.
    pub state: TaskState,
    /// What was wanted of it.
    pub desired: Desired,
    /// While it waits, why; while it ends because it had to go, why; else what its agent said of its state.
    pub message: Option<Arc<str>>,
    before: Option<TaskBefore>,
}

/// Of a task that changed, what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TaskBefore {
    state: TaskState,
    desired: Desired,
    had_node: bool,
}

/// One thing that changed, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What, such as `state`, `replicas` or `labels.zone`.
    pub what: Arc<str>,
    /// What it was; `None` when there was none, or when it is not put in words.
    pub from: Option<Arc<str>>,
    /// What it is now; `None` when there is none, or when it is not put in words.
    pub to: Option<Arc<str>>,
}

/// The most that is kept of a text in a [`Fact`], in bytes: facts are there to be looked at, the objects say the rest.
const FACT_LEN: usize = 128;
/// The most facts that are kept of one event.
const FACTS: usize = 16;

impl KeptEvent {
    /// What changed, when the event is of a change; what is not listed here has not changed or is of the object alone.
    pub fn changes(&self) -> Vec<Fact> {
        match &self.subject {
            Subject::Cluster(about) => about.changes.to_vec(),
            Subject::Namespace(about) => about.changes.to_vec(),
            Subject::Node { about, .. } => about.changes.to_vec(),
            Subject::Job(about) => about.changes.to_vec(),
            Subject::Service(about) => about.changes.to_vec(),
            Subject::Task(about) => about.changes(),
        }
    }

    fn of(event: &Event, tables: &Tables, texts: &mut Texts) -> Self {
        let Event { id, at, action, .. } = *event;
        Self { id, at, action, subject: Subject::of(event, tables, texts) }
    }

    /// The text that it shares with other events.
    fn message(&self) -> Option<&Arc<str>> {
        match &self.subject {
            Subject::Task(about) => about.message.as_ref(),
            Subject::Node { message, .. } => Some(message),
            _ => None,
        }
    }
}

impl Subject {
    fn of(event: &Event, tables: &Tables, texts: &mut Texts) -> Self {
        /// The object before, when it is of the same kind: it is, for an object keeps its kind.
        macro_rules! before {
            ($kind:ident) => {
                match &event.before {
                    Some(Object::$kind(old)) => Some(&**old),
                    _ => None,
                }
            };
        }
        match &event.object {
            Object::Cluster(now) => {
                Self::Cluster(About::new(now.id, &now.name, before!(Cluster), |f, old| cluster(f, old, now)))
            }
            Object::Namespace(now) => {
                let compare = |facts: &mut Facts, old: &_| namespace(facts, old, now);
                Self::Namespace(About::new(now.id, &now.name, before!(Namespace), compare))
            }
            Object::Job(now) => {
                Self::Job(About::new(now.id, &now.name, before!(Job), |f, old| job(f, old, now)))
            }
            Object::Service(now) => {
                let compare = |facts: &mut Facts, old: &_| service(facts, old, now, tables);
                Self::Service(About::new(now.id, &now.name, before!(Service), compare))
            }
            Object::Node(now) => {
                let hostname = &now.description.hostname;
                Self::Node {
                    about: About::new(now.id, hostname, before!(Node), |f, old| node(f, old, now)),
                    state: now.status.state,
                    message: texts.share(&now.status.message),
                }
            }
            Object::Task(now) => Self::Task(AboutTask::new(now, before!(Task), texts)),
        }
    }
}

impl<I> About<I> {
    fn new<T>(id: I, name: &Arc<str>, old: Option<&T>, compare: impl FnOnce(&mut Facts, &T)) -> Self {
        let mut facts = Facts::default();
        if let Some(old) = old {
            compare(&mut facts, old);
        }
        Self { id, name: Arc::clone(name), changes: facts.0.into() }
    }
}

impl AboutTask {
    fn new(task: &Task, old: Option<&Task>, texts: &mut Texts) -> Self {
        // Told to end, and not ended: the reason is what there is to be said of it.
        let dismissed = task.dismissed.as_ref().filter(|_| !task.status.state.is_ended());
        let waits = task.unplaced.as_ref().filter(|_| task.waits_for_node());
        let message = match waits {
            Some(unplaced) => Some(texts.share(&unplaced.to_string().into())),
            None => dismissed.or(task.status.message.as_ref()).map(|text| texts.share(text)),
        };
        let before = |old: &Task| TaskBefore {
            state: old.status.state,
            desired: old.desired,
            had_node: old.node.is_some(),
        };
        Self {
            id: task.id,
            service: task.service,
            slot: task.slot,
            node: task.node,
            state: task.status.state,
            desired: task.desired,
            message,
            before: old.map(before),
        }
    }

    fn changes(&self) -> Vec<Fact> {
        let Some(before) = self.before else { return Vec::new() };
        let mut facts = Facts::default();
        facts.words("state", before.state, self.state);
        facts.words("desired", before.desired, self.desired);
        // A task that has a node keeps it.
        if let (false, Some(node)) = (before.had_node, self.node) {
            facts.add("node", None, Some(node.to_string()));
        }
        facts.0
    }
}

/// What changed, as it is found.
#[derive(Default)]
struct Facts(Vec<Fact>);

impl Facts {
    fn add(&mut self, what: &str, from: Option<String>, to: Option<String>) {
        if self.0.len() < FACTS {
            let [from, to] = [from, to].map(|text| text.map(|text| short(&text)));
            self.0.push(Fact { what: short(what), from, to });
        }
    }

    /// A value, when it has changed.
    fn words<T: PartialEq + ToString>(&mut self, what: &str, old: T, new: T) {
        if old != new {
            self.add(what, Some(old.to_string()), Some(new.to_string()));
        }
    }

    /// Something that takes more than a few words, when it has changed.
    fn whole<T: PartialEq>(&mut self, what: &str, old: &T, new: &T) {
        if old != new {
            self.add(what, None, None);
        }
    }

    fn labels(&mut self, old: &Labels, new: &Labels) {
        let gone = old.keys().filter(|key| !new.contains_key(*key));
        for key in gone.chain(new.keys()) {
            let (from, to) = (old.get(key), new.get(key));
            if from != to {
                let text = |value: &Arc<str>| value.to_string();
                self.add(&format!("labels.{key}"), from.map(text), to.map(text));
            }
        }
    }
}

/// The beginning of a text; three dots say that there was more.
fn short(text: &str) -> Arc<str> {
    if text.len() <= FACT_LEN {
        return text.into();
    }
    let mut end = FACT_LEN - "...".len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &text[..end]).into()
}

fn cluster(facts: &mut Facts, old: &Cluster, new: &Cluster) {
    facts.words("name", &*old.name, &*new.name);
    facts.words("heartbeat", old.heartbeat, new.heartbeat);
    facts.words("orphan-after", old.orphan_after, new.orphan_after);
    facts.words("history", old.history, new.history);
    facts.words("history-failed", old.history_failed, new.history_failed);
    facts.words("history-age", old.history_age, new.history_age);
    facts.words("strategy", old.strategy.as_str(), new.strategy.as_str());
    let rebalance = |cluster: &Cluster| cluster.rebalance.map_or("off".into(), |t| t.to_string());
    facts.words("rebalance", rebalance(old), rebalance(new));
}

fn namespace(facts: &mut Facts, old: &Namespace, new: &Namespace) {
    facts.words("name", &*old.name, &*new.name);
    facts.words("description", &*old.description, &*new.description);
}

fn job(facts: &mut Facts, old: &Job, new: &Job) {
    facts.words("name", &*old.name, &*new.name);
    facts.words("number", old.number, new.number);
    facts.words("priority", old.priority, new.priority);
    facts.labels(&old.labels, &new.labels);
    facts.whole("source", &old.source, &new.source);
}

fn service(facts: &mut Facts, old: &Service, new: &Service, tables: &Tables) {
    facts.words("name", &*old.name, &*new.name);
    match (old.mode, new.mode) {
        (Mode::Replicated { replicas: from }, Mode::Replicated { replicas: to }) => {
            facts.words("replicas", from, to);
        }
        (
            Mode::Batch { completions, concurrency },
            Mode::Batch { completions: to_complete, concurrency: at_a_time },
        ) => {
            facts.words("completions", completions, to_complete);
            facts.words("concurrency", concurrency, at_a_time);
        }
        (from, to) if from.as_str() == to.as_str() => facts.whole("mode", &from, &to),
        (from, to) => facts.words("mode", from.as_str(), to.as_str()),
    }
    if old.revision != new.revision {
        // The old one is kept while something refers to it, as a rule by a rollback.
        let number = |id| tables.revision(id).map(|revision| revision.number.to_string());
        facts.add("revision", number(old.revision), number(new.revision));
    }
    facts.words("priority", old.priority, new.priority);
    facts.labels(&old.labels, &new.labels);
    facts.whole("update", &old.update, &new.update);
    facts.whole("rollback", &old.rollback, &new.rollback);
    facts.whole("placement", &old.steering, &new.steering);
    facts.words("min-healthy", old.disruption.min_healthy, new.disruption.min_healthy);
    facts.words("max-surge", old.disruption.max_surge, new.disruption.max_surge);
    let state =
        |service: &Service| service.update_status.as_ref().map(|status| status.state.as_str().to_owned());
    if state(old) != state(new) {
        facts.add("update-state", state(old), state(new));
    }
}

fn node(facts: &mut Facts, old: &Node, new: &Node) {
    facts.words("state", old.status.state.as_str(), new.status.state.as_str());
    facts.words("availability", old.availability.as_str(), new.availability.as_str());
    if old.drain_until != new.drain_until {
        let shown = |until: Option<Time>| until.map(|time| time.0.to_string());
        facts.add("drain-until", shown(old.drain_until), shown(new.drain_until));
    }
    facts.words("role", old.role.as_str(), new.role.as_str());
    facts.labels(&old.labels, &new.labels);
    let (was, is) = (&old.description, &new.description);
    facts.words("hostname", &*was.hostname, &*is.hostname);
    facts.words("version", &*was.version, &*is.version);
    facts.words("address", &*old.status.address, &*new.status.address);
    facts.whole("resources", &was.resources, &is.resources);
    facts.whole("named-resources", &was.named, &is.named);
    facts.whole("drivers", &was.drivers, &is.drivers);
    facts.whole("engine-labels", &was.engine_labels, &is.engine_labels);
    facts.whole("platform", &was.platform, &is.platform);
}

/// The texts that kept events show, each once: a task that fails again and again says the same each time.
#[derive(Clone, Debug, Default)]
struct Texts {
    known: BTreeMap<Arc<str>, Shared>,
}

/// A text, and how many events show it.
#[derive(Clone, Debug)]
struct Shared {
    text: Arc<str>,
    events: u32,
}

impl Texts {
    fn share(&mut self, text: &Arc<str>) -> Arc<str> {
        if let Some(known) = self.known.get_mut(text) {
            known.events += 1;
            return Arc::clone(&known.text);
        }
        self.known.insert(Arc::clone(text), Shared { text: Arc::clone(text), events: 1 });
        Arc::clone(text)
    }

    /// An event that showed it is no longer kept.
    fn release(&mut self, text: &Arc<str>) {
        if let Some(known) = self.known.get_mut(text) {
            known.events -= 1;
            if known.events == 0 {
                self.known.remove(text);
            }
        }
    }
}

/// The newest events, for exact resume.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    events: VecDeque<KeptEvent>,
    texts: Texts,
    /// Everything up to this id has been dropped or was never kept.
    floor: EventId,
}

/// The events after the asked id are not all kept any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("events after this id are no longer kept; the oldest that can be resumed from is {oldest}")]
pub struct Gone {
    /// The oldest id from which a reader can resume.
    pub oldest: EventId,
}

impl EventLog {
    /// An empty log for a store that is at `index`: what came before cannot be resumed. Before index 1 nothing ever happens, so that
    /// an empty store can be resumed from the very first id.
    pub fn starting_at(index: Index) -> Self {
        let floor = if index == 0 { EventId::default() } else { EventId::end_of(index) };
        Self { floor, ..Self::default() }
    }

    /// Adds the events of one or more entries, in order; the oldest beyond the limit are dropped. `tables` are those after
    /// the entries: the numbers of revisions are looked up there.
    pub fn push(&mut self, events: &[Event], tables: &Tables) {
        for event in events {
            // Room first, so that the ring never grows beyond what it may hold.
            if self.events.len() == limits::EVENTS_KEPT
                && let Some(dropped) = self.events.pop_front()
            {
                self.floor = dropped.id;
                if let Some(text) = dropped.message() {
                    self.texts.release(text);
                }
            }
            self.events.push_back(KeptEvent::of(event, tables, &mut self.texts));
        }
    }

    /// The id from which a reader can resume at the earliest.
    pub fn oldest(&self) -> EventId {
        self.floor
    }

    /// At most `limit` events after `id`, oldest first.
    ///
    /// # Errors
    /// [`Gone`] when some of them are no longer kept.
    pub fn after(&self, id: EventId, limit: usize) -> Result<Vec<KeptEvent>, Gone> {
        if id < self.floor {
            return Err(Gone { oldest: self.floor });
        }
        let start = self.events.partition_point(|e| e.id <= id);
        Ok(self.events.iter().skip(start).take(limit).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_as_long_as_an_event_shows_it() {
        let mut texts = Texts::default();
        let [a, b] = [(); 2].map(|()| texts.share(&"exited with 1".into()));
        assert!(Arc::ptr_eq(&a, &b));
        let other = texts.share(&"exited with 2".into());
        texts.release(&a);
        assert!(Arc::ptr_eq(&texts.share(&"exited with 1".into()), &a), "another event shows it still");
        texts.release(&a);
        texts.release(&a);
        texts.release(&other);
        assert!(texts.known.is_empty());
    }

    #[test]
    fn an_empty_log_is_resumed_from_its_beginning() {
        let first = EventId::default();
        assert_eq!(EventLog::starting_at(0).after(first, 1), Ok(Vec::new()));
        let later = EventLog::starting_at(7);
        assert_eq!(later.after(first, 1), Err(Gone { oldest: EventId::end_of(7) }));
        assert_eq!(later.after(EventId::end_of(7), 1), Ok(Vec::new()));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        for (text, length) in
            [("", 0), (&*"x".repeat(128), 128), (&"x".repeat(129), 128), (&"é".repeat(100), 127)]
        {
            assert_eq!(short(text).len(), length, "{text}");
        }
    }
}
