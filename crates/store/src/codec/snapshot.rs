//! Snapshots: the whole state as a stream.
//!
//! First 20 bytes that never change their meaning: `QUELEASN`, format (4), feature level (4), CRC-32 of these (4). Then frames (see
//! `frame`): a header with indexes; the objects of each table by id, each revision once and before what refers to
//! it; a trailer that counts them. It is written and read object by object: neither side holds more than one beside the tables.
//! Derived tables and secondary indexes are not in it; reading makes them anew.

use std::io::{self, Read, Write};
use std::sync::Arc;

use model::{
    BoundPort, Cluster, Decision, Id, Job, Namespace, NamespaceId, Node, NodeId, Revision, Service,
    ServiceId, Slot, Task, Time, Unplaced, limits,
};
use prost::Message;

use super::CodecError;
use super::fields::{IdMessage, Texts, Wire, decode, id, need_id};
use super::frame::{FrameReader, FrameWriter, Kind, SNAPSHOT, read_exact};
use super::group::{SERVICE, ServiceMessage};
use super::node::{NODE, NodeMessage};
use super::shape::{self, PLAIN, Shape, many, one};
use super::spec::read_all;
use super::task::{DECISION, DecisionMessage};
use crate::{FEATURE_LEVEL, Table, Tables};

/// The format of snapshots.
pub const SNAPSHOT_FORMAT: u32 = 1;

const MAGIC: [u8; 8] = *b"QUELEASN";

/// Where the tables stand. Fields: 1 index, 2 time, 3 the index of each table in the order of [`Table::ALL`].
#[derive(Clone, PartialEq, Message)]
struct HeaderMessage {
    #[prost(uint64, tag = "1")]
    index: u64,
    #[prost(sfixed64, tag = "2")]
    time: i64,
    #[prost(fixed64, repeated, tag = "3")]
    table_index: Vec<u64>,
}

/// What is known under a node's id. Fields: 1 id, 2 node, 3 tasks_index.
#[derive(Clone, PartialEq, Message)]
struct NodeRecord {
    #[prost(message, optional, tag = "1")]
    id: Option<IdMessage>,
    #[prost(message, optional, tag = "2")]
    node: Option<NodeMessage>,
    #[prost(uint64, tag = "3")]
    tasks_index: u64,
}

const NODE_RECORD: Shape = Shape { what: "a node of the snapshot", fields: &[one(1, &PLAIN), one(2, &NODE)] };

/// What is known under a service's id. Fields: 1 id, 2 service, 3 index, 4 decisions.
#[derive(Clone, PartialEq, Message)]
struct ServiceRecord {
    #[prost(message, optional, tag = "1")]
    id: Option<IdMessage>,
    #[prost(message, optional, tag = "2")]
    service: Option<ServiceMessage>,
    #[prost(uint64, tag = "3")]
    index: u64,
    #[prost(message, repeated, tag = "4")]
    decisions: Vec<DecisionMessage>,
}

const SERVICE_RECORD: Shape = Shape {
    what: "a service of the snapshot",
    fields: &[one(1, &PLAIN), one(2, &SERVICE), many(4, limits::DECISIONS_KEPT, &DECISION)],
};

/// How many frames of each kind came before. Fields: 1 counts, in the order of kinds.
#[derive(Clone, PartialEq, Message)]
struct TrailerMessage {
    #[prost(fixed64, repeated, tag = "1")]
    counts: Vec<u64>,
}

/// Writes the whole state. `out` should be buffered or not mind small writes.
///
/// # Errors
/// Whatever `out` returned; also when change sets are laid over these tables: only what is committed may be kept.
pub fn write_snapshot(tables: &Tables, out: &mut dyn Write) -> io::Result<()> {
    if tables.speculated > 0 {
        let problem = "tables with change sets laid over them are no snapshot";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    let mut prefix = Vec::with_capacity(20);
    prefix.extend_from_slice(&MAGIC);
    prefix.extend_from_slice(&SNAPSHOT_FORMAT.to_le_bytes());
    prefix.extend_from_slice(&FEATURE_LEVEL.to_le_bytes());
    let checksum = crc32fast::hash(&prefix);
    prefix.extend_from_slice(&checksum.to_le_bytes());
    out.write_all(&prefix)?;

    let mut frames = FrameWriter::new(out);
    let header = HeaderMessage {
        index: tables.index(),
        time: tables.time().0,
        table_index: Table::ALL.iter().map(|table| tables.table_index(*table)).collect(),
    };
    frames.write(Kind::Header, &header)?;
    if let Some(cluster) = tables.cluster() {
        frames.write(Kind::Cluster, &cluster.to_message())?;
    }
    for namespace in tables.namespaces() {
        frames.write(Kind::Namespace, &namespace.to_message())?;
    }
    for (node, tasks_index) in tables.known_nodes() {
        let record =
            NodeRecord { id: id(node.0), node: tables.node(node).map(|node| node.to_message()), tasks_index };
        frames.write(Kind::Node, &record)?;
    }
    for job in tables.jobs() {
        frames.write(Kind::Job, &job.to_message())?;
    }
    for revision in tables.all_revisions() {
        frames.write(Kind::Revision, &revision.to_message())?;
    }
    for (service, index) in tables.known_services() {
        let record = ServiceRecord {
            id: id(service.0),
            service: tables.service(service).map(|service| service.to_message()),
            index,
            decisions: tables.decisions(service).map(Wire::to_message).collect(),
        };
        frames.write(Kind::Service, &record)?;
    }
    for task in tables.tasks() {
        frames.write(Kind::Task, &task.to_message())?;
    }
    let trailer = TrailerMessage { counts: frames.counts.to_vec() };
    frames.write(Kind::Trailer, &trailer)
}

/// Reads what [`write_snapshot`] wrote, to its last byte.
///
/// # Errors
/// What is wrong with it: damaged, cut, from a newer program, beyond a limit, or not fitting together.
pub fn read_snapshot(input: &mut dyn Read) -> Result<Tables, CodecError> {
    read_prefix(input)?;
    let mut frames = FrameReader::new(input);
    let mut loader = Loader::default();
    loop {
        let (kind, payload) = frames.next()?;
        if kind == Kind::Trailer {
            let trailer: TrailerMessage = decode(payload, "the trailer of the snapshot")?;
            frames.counts[Kind::Trailer as usize - 1] = 0;
            if trailer.counts != frames.counts {
                return Err(CodecError::Unfit("its trailer counts other objects".into()));
            }
            frames.end()?;
            return loader.finish();
        }
        loader.load(kind, payload)?;
    }
}

/// A checksum of the committed state: equal tables have equal ones, whatever their history.
pub fn digest(tables: &Tables) -> u32 {
    struct Summing(crc32fast::Hasher);
    impl Write for Summing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut summing = Summing(crc32fast::Hasher::new());
    match write_snapshot(tables, &mut summing) {
        Ok(()) => summing.0.finalize(),
        // Tables with change sets laid over them are equal to nothing that is committed.
        Err(_) => 0,
    }
}

fn read_prefix(input: &mut dyn Read) -> Result<(), CodecError> {
    let mut prefix = [0u8; 20];
    read_exact(input, &mut prefix)?;
    let number = |at: usize| u32::from_le_bytes([prefix[at], prefix[at + 1], prefix[at + 2], prefix[at + 3]]);
    if prefix[..8] != MAGIC {
        return Err(CodecError::Other(SNAPSHOT));
    }
    if crc32fast::hash(&prefix[..16]) != number(16) {
        return Err(CodecError::Damaged { frame: 0 });
    }
    for (what, found, known) in
        [("snapshot format", number(8), SNAPSHOT_FORMAT), ("feature level", number(12), FEATURE_LEVEL)]
    {
        if found > known {
            return Err(CodecError::Newer { what, found, known });
        }
    }
    Ok(())
}

/// Tables that are being read.
#[derive(Default)]
struct Loader {
    tables: Tables,
    texts: Texts,
    /// The kind of the last frame, and the id of its object: both only rise.
    last: (Option<Kind>, Id),
    /// The reasons that were read last: neighbours often wait for the same one.
    reasons: Vec<Arc<Unplaced>>,
    header: HeaderMessage,
    /// The handles of tasks that are placed and not indexed yet; by service and slot, and by node.
    in_services: Vec<(u32, u32, u32)>,
    on_nodes: Vec<(u32, u32)>,
}

/// So many different reasons are looked through for an equal one.
const REASONS: usize = 16;

impl Loader {
    fn load(&mut self, kind: Kind, payload: &[u8]) -> Result<(), CodecError> {
        if self.last.0.is_none() != (kind == Kind::Header) {
            return Err(CodecError::Unfit("its header is not its first frame".into()));
        }
        match kind {
            Kind::Header => {
                self.header = decode(payload, "the header of the snapshot")?;
                if self.header.table_index.len() != Table::ALL.len() {
                    return Err(CodecError::Unfit("its header has other tables".into()));
                }
                self.rise(kind, Id::default())
            }
            Kind::Cluster => {
                let cluster = Cluster::read(payload, &mut self.texts)?;
                self.rise(kind, cluster.id.0)?;
                self.tables.set_cluster(Some(Arc::new(cluster)));
                Ok(())
            }
            Kind::Namespace => self.load_namespace(payload),
            Kind::Node => self.load_node(payload),
            Kind::Job => self.load_job(payload),
            Kind::Revision => {
                let revision = Revision::read(payload, &mut self.texts)?;
                self.rise(kind, revision.id.0)?;
                self.tables.add_revision(Arc::new(revision));
                Ok(())
            }
            Kind::Service => self.load_service(payload),
            Kind::Task => self.load_task(payload),
            Kind::Trailer => Ok(()),
        }
    }

    /// Objects come by kind and id; so none comes twice.
    fn rise(&mut self, kind: Kind, id: Id) -> Result<(), CodecError> {
        let (last, last_id) = self.last;
        if last.is_some_and(|last| last > kind || (last == kind && last_id >= id)) {
            return Err(CodecError::Unfit(format!("{kind:?} {id} is out of order")));
        }
        self.last = (Some(kind), id);
        Ok(())
    }

    fn load_namespace(&mut self, payload: &[u8]) -> Result<(), CodecError> {
        let namespace = Namespace::read(payload, &mut self.texts)?;
        self.rise(Kind::Namespace, namespace.id.0)?;
        if self.tables.namespace_by_name(&namespace.name).is_some_and(|n| n.id != namespace.id) {
            return Err(CodecError::Unfit(format!("two namespaces are named {:?}", namespace.name)));
        }
        self.tables.set_namespace(namespace.id, Some(Arc::new(namespace)));
        Ok(())
    }

    fn load_node(&mut self, payload: &[u8]) -> Result<(), CodecError> {
        shape::check(payload, &NODE_RECORD)?;
        let record: NodeRecord = decode(payload, NODE_RECORD.what)?;
        let id = NodeId(need_id(record.id, "the id of a node")?);
        self.rise(Kind::Node, id.0)?;
        if let Some(node) = record.node {
            let node = Node::from_message(node, &mut self.texts)?;
            if node.id != id {
                return Err(CodecError::Unfit(format!("node {id} has the id {}", node.id)));
            }
            self.tables.set_node(id, Some(Arc::new(node)));
        }
        self.tables.know_node(id, record.tasks_index);
        Ok(())
    }

    fn load_job(&mut self, payload: &[u8]) -> Result<(), CodecError> {
        let job = Job::read(payload, &mut self.texts)?;
        self.rise(Kind::Job, job.id.0)?;
        if self.tables.namespace(job.namespace).is_none() {
            return Err(CodecError::Unfit(format!("the namespace of job {} is missing", job.id)));
        }
        if self.tables.job_by_name(job.namespace, &job.name).is_some() {
            return Err(CodecError::Unfit(format!("two jobs are named {:?}", job.name)));
        }
        self.tables.set_job(job.id, Some(Arc::new(job)));
        Ok(())
    }

    fn load_service(&mut self, payload: &[u8]) -> Result<(), CodecError> {
        shape::check(payload, &SERVICE_RECORD)?;
        let record: ServiceRecord = decode(payload, SERVICE_RECORD.what)?;
        let id = ServiceId(need_id(record.id, "the id of a service")?);
        self.rise(Kind::Service, id.0)?;
        if let Some(service) = record.service {
            let service = Service::from_message(service, &mut self.texts)?;
            self.check_service(id, &service)?;
            self.tables.set_service(id, Some(Arc::new(service)));
        }
        let decisions: Vec<Decision> = read_all(record.decisions, &mut self.texts)?;
        self.tables.know_service(id, record.index, decisions);
        Ok(())
    }

    fn check_service(&self, id: ServiceId, service: &Service) -> Result<(), CodecError> {
        let tables = &self.tables;
        let unfit = |problem: &str| Err(CodecError::Unfit(format!("service {id}: {problem}")));
        if service.id != id {
            return unfit("it has another id");
        }
        if tables.namespace(service.namespace).is_none() {
            return unfit("its namespace is missing");
        }
        if service.job.is_some_and(|job| tables.job(job).is_none()) {
            return unfit("its job is missing");
        }
        if tables.service_by_name(service.namespace, &service.name).is_some() {
            return unfit("its name is taken");
        }
        let mut revisions = Some(service.revision).into_iter().chain(service.previous);
        if revisions.any(|revision| tables.revision(revision).is_none_or(|r| r.service != id)) {
            return unfit("a revision of it is missing");
        }
        Ok(())
    }

    fn load_task(&mut self, payload: &[u8]) -> Result<(), CodecError> {
        let mut task = Task::read(payload, &mut self.texts)?;
        self.rise(Kind::Task, task.id.0)?;
        let unfit = |problem: &str| Err(CodecError::Unfit(format!("task {}: {problem}", task.id)));
        if self.tables.revision(task.revision).is_none_or(|r| r.service != task.service) {
            return unfit("its revision is missing");
        }
        let known = |node| self.tables.knows_node(node);
        if !self.tables.knows_service(task.service) || !task.node.is_none_or(known) {
            return unfit("its service or node is missing");
        }
        if matches!(task.slot, Slot::Number(n) if u64::from(n) >= limits::REPLICAS) {
            return unfit("its slot is beyond every service");
        }
        if task.holds_reservation() && task.node.is_none_or(|node| self.tables.node(node).is_none()) {
            return unfit("its node is missing");
        }
        if let Some(reason) = task.unplaced.take() {
            task.unplaced = Some(self.shared(reason));
        }
        let slot = match task.slot {
            Slot::Number(n) => n,
            Slot::Node(_) => 0,
        };
        let handle = self.tables.place_task(Arc::new(task));
        if let Some(entry) = self.tables.tasks.get(handle) {
            self.in_services.push((entry.service, slot, handle));
            self.on_nodes.push((entry.node, handle));
        }
        Ok(())
    }

    /// Indexes the tasks: by service in the order of slots, then by node, so that neighbours are close in memory.
    fn index_tasks(&mut self) -> Result<(), CodecError> {
        self.in_services.sort_unstable();
        for (_, _, handle) in std::mem::take(&mut self.in_services) {
            self.tables.index_in_service(handle);
        }
        // Tasks came by id, so that their handles rise with their ids.
        self.on_nodes.sort_unstable();
        for (node, handle) in std::mem::take(&mut self.on_nodes) {
            self.check_ports(node, handle)?;
            self.tables.index_on_node(handle);
        }
        Ok(())
    }

    /// No two tasks hold the same port or the same named resource of a node.
    fn check_ports(&self, node: u32, handle: u32) -> Result<(), CodecError> {
        let task = self.tables.task_at(handle).filter(|task| task.holds_reservation());
        let (Some(task), Some(node)) = (task, self.tables.nodes.get(node)) else { return Ok(()) };
        let taken = |port: &BoundPort| node.used.port_holder(port.protocol, port.port).is_some();
        if let Some(one) = task.named.iter().find(|one| node.used.holder_of(one).is_some()) {
            let problem = format!("two tasks of node {} hold {} {}", node.id, one.kind, one.value);
            return Err(CodecError::Unfit(problem));
        }
        match task.ports.iter().find(|port| taken(port)) {
            Some(port) => {
                Err(CodecError::Unfit(format!("two tasks of node {} hold port {}", node.id, port.port)))
            }
            None => Ok(()),
        }
    }

    /// The same reason in the same memory, when it was read not long ago.
    fn shared(&mut self, reason: Arc<Unplaced>) -> Arc<Unplaced> {
        if let Some(known) = self.reasons.iter().find(|known| **known == reason) {
            return Arc::clone(known);
        }
        if self.reasons.len() == REASONS {
            self.reasons.remove(0);
        }
        self.reasons.push(Arc::clone(&reason));
        reason
    }

    fn finish(mut self) -> Result<Tables, CodecError> {
        if self.last.0.is_none() {
            return Err(CodecError::Unfit("it has no header".into()));
        }
        if self.tables.namespace(NamespaceId::DEFAULT).is_none() {
            return Err(CodecError::Unfit("it has no default namespace".into()));
        }
        self.index_tasks()?;
        if let Some(unused) = self.tables.unused() {
            return Err(CodecError::Unfit(format!("nothing refers to {unused}")));
        }
        let HeaderMessage { index, time, table_index } = self.header;
        self.tables.restore_indexes(index, Time(time), &table_index);
        Ok(self.tables)
    }
}
