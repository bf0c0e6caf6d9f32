//! Entries and snapshots as bytes: what is written is read again, and what is not sound is refused.

mod common;
#[path = "common/random.rs"]
mod random;

use common::*;
use model::{BoundPort, Desired, Protocol, Rule, TaskState, Time};
use proptest::prelude::*;
use random::{KINDS, Random};
use store::codec::{
    CodecError, check_entry, decode_entry, digest, encode_entry, read_snapshot, write_snapshot,
};
use store::{Change, ChangeSet, Entry, FEATURE_LEVEL, Table, Tables};

fn snapshot(tables: &Tables) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_snapshot(tables, &mut bytes).expect("a snapshot of committed tables");
    bytes
}

fn restored(bytes: &[u8]) -> Result<Tables, CodecError> {
    read_snapshot(&mut &*bytes)
}

/// Tables with a little of everything, a removed service and a removed node included.
fn everything() -> World {
    let mut w = World::furnished();
    w.must(vec![Change::PutNamespace(namespace(1, "team")), Change::PutJob(job(1, "shop"))]);
    let mut second = service(2, "db", 2);
    second.job = Some(job_id(1));
    w.must(vec![
        Change::CreateRevision(revision(2, 2, reserve(1, 2))),
        Change::CreateService(Box::new(second)),
    ]);
    w.must((1..=9).map(|n| create_task(n, 1 + n % 2, n, 1 + n % 2)).collect());
    w.must(vec![assign_port(1, 1, 80), assign(2, 1), assign(3, 2), assign(4, 3)]);
    w.must(vec![
        report(1, 1, TaskState::Running),
        report(2, 1, TaskState::Failed),
        direct(1, Desired::Shutdown),
    ]);
    let unplaced = Some(Random(7).unplaced());
    w.must(vec![Change::ExplainTasks { tasks: vec![task_id(5), task_id(6)], unplaced }]);
    let text = "because".into();
    w.must(vec![Change::Decide { service: service_id(1), rule: Rule::ScaleUp, task: None, text }]);
    w.must(vec![Change::DeleteNode(node_id(3)), Change::DeleteService(service_id(2))]);
    w
}

#[test]
fn each_change_is_read_as_it_was_written() {
    let mut random = Random(1);
    for kind in (0..KINDS).cycle().take(2000) {
        let sets = vec![ChangeSet::of(vec![random.change(kind)])];
        let entry = Entry { feature_level: FEATURE_LEVEL, time: Time(-5), sets };
        let bytes = encode_entry(&entry);
        check_entry(&bytes).unwrap();
        assert_eq!(decode_entry(&bytes).unwrap(), entry);
    }
}

#[test]
fn a_snapshot_is_read_as_it_was_written() {
    let w = everything();
    let bytes = snapshot(&w.tables);
    let read = restored(&bytes).unwrap();
    assert_eq!(snapshot(&read), bytes);
    assert_eq!(digest(&read), digest(&w.tables));
    assert_eq!((read.index(), read.time()), (w.tables.index(), w.tables.time()));
    for table in Table::ALL {
        assert_eq!(read.table_index(table), w.tables.table_index(table));
    }
    assert!(read.tasks().eq(w.tables.tasks()));
    assert!(read.tasks_waiting().eq(w.tables.tasks_waiting()));
    assert!(read.nodes_by_load().eq(w.tables.nodes_by_load()));
    assert!(read.services_with_tasks().eq(w.tables.services_with_tasks()));
    for n in 1..=3 {
        let (node, service) = (node_id(n), service_id(n));
        assert_eq!(read.node_use(node), w.tables.node_use(node));
        assert_eq!(read.node_tasks_index(node), w.tables.node_tasks_index(node));
        assert!(read.tasks_of_node(node).eq(w.tables.tasks_of_node(node)));
        assert_eq!(read.service_use(service), w.tables.service_use(service));
        assert_eq!(read.service_index(service), w.tables.service_index(service));
        assert!(read.tasks_of_service(service).eq(w.tables.tasks_of_service(service)));
        assert!(read.decisions(service).eq(w.tables.decisions(service)));
    }
    assert_ne!(read.node_tasks_index(node_id(3)), 0, "known although removed");
}

#[test]
fn what_was_read_goes_on_as_what_was_written() {
    let mut w = everything();
    let mut read = World { tables: restored(&snapshot(&w.tables)).unwrap() };
    for world in [&mut w, &mut read] {
        world.must((1..=9).map(|n| direct(n, Desired::Remove)).collect());
        world.must(vec![report(3, 2, TaskState::Shutdown), Change::DeleteTask(task_id(3))]);
        world.must(vec![Change::DeleteTask(task_id(5)), Change::DeleteTask(task_id(4))]);
    }
    assert_eq!(snapshot(&w.tables), snapshot(&read.tables));
}

#[test]
fn equal_reasons_share_their_memory() {
    let read = restored(&snapshot(&everything().tables)).unwrap();
    let reason = |n| read.task(task_id(n)).unwrap().unplaced.as_ref().unwrap();
    assert!(std::sync::Arc::ptr_eq(reason(5), reason(6)));
}

#[test]
fn every_cut_and_every_flipped_bit_is_noticed() {
    let bytes = snapshot(&everything().tables);
    for end in 0..bytes.len() {
        assert!(restored(&bytes[..end]).is_err(), "cut at {end}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(restored(&flipped).is_err(), "bit {bit}");
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(matches!(restored(&longer), Err(CodecError::Unfit(_))));
}

#[test]
fn a_missing_or_doubled_object_is_noticed() {
    let bytes = snapshot(&everything().tables);
    let mut frames = Vec::new();
    let mut at = 20;
    while at < bytes.len() {
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize + 9;
        frames.push(&bytes[at..at + length]);
        at += length;
    }
    for n in 0..frames.len() {
        let mut fewer = frames.clone();
        fewer.remove(n);
        assert!(restored(&[&bytes[..20], &fewer.concat()].concat()).is_err(), "without frame {n}");
        let mut more = frames.clone();
        more.insert(n, frames[n]);
        assert!(restored(&[&bytes[..20], &more.concat()].concat()).is_err(), "frame {n} twice");
        if n > 0 {
            let mut swapped = frames.clone();
            swapped.swap(n - 1, n);
            assert!(restored(&[&bytes[..20], &swapped.concat()].concat()).is_err(), "frame {n} too early");
        }
    }
}

#[test]
fn newer_formats_are_refused_by_name() {
    let mut bytes = snapshot(&Tables::new());
    bytes[8] = 9;
    let sum = crc(&bytes[..16]);
    bytes[16..20].copy_from_slice(&sum.to_le_bytes());
    let sentence = restored(&bytes).unwrap_err().to_string();
    assert_eq!(sentence, "snapshot format 9 is newer than 1, the newest that this program reads");

    let entry = Entry { feature_level: 7, ..Entry::default() };
    let sentence = decode_entry(&encode_entry(&entry)).unwrap_err().to_string();
    assert_eq!(sentence, "feature level 7 is newer than 2, the newest that this program reads");
    // A newer format may have anything after its versions.
    let sentence = decode_entry(&[0x08, 5, 0x9a, 0x06, 1, 0]).unwrap_err().to_string();
    assert_eq!(sentence, "entry format 5 is newer than 1, the newest that this program reads");
    assert!(matches!(decode_entry(&[]), Err(CodecError::Missing(_))));
}

#[test]
fn a_port_that_is_held_twice_is_noticed() {
    let mut w = World::furnished();
    w.must(vec![create_task(1, 1, 0, 1), create_task(2, 1, 1, 1)]);
    w.must(vec![assign_port(1, 1, 80), assign_port(2, 1, 81)]);
    let mut bytes = snapshot(&w.tables);
    // The frame of the second task: a port that is named http, over TCP, 81.
    let port = *b"http\x10\x01\x18\x51";
    let found = bytes.windows(port.len()).position(|bytes| bytes == port).expect("the port is there");
    bytes[found + port.len() - 1] = 80;
    let mut at = 20;
    loop {
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        if at + 9 + length > found {
            let sum = crc(&[&bytes[at..at + 4], &bytes[at + 8..at + 9 + length]].concat());
            bytes[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
            break;
        }
        at += 9 + length;
    }
    let sentence = restored(&bytes).unwrap_err().to_string();
    let node = node_id(1);
    assert_eq!(
        sentence,
        format!("the snapshot does not fit together: two tasks of node {node} hold port 80")
    );
}

/// CRC-32 bit by bit, as the format describes it.
fn crc(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
        }
    }
    !sum
}

#[test]
fn a_report_with_too_much_in_it_is_cut_and_still_read() {
    let mut change = report(1, 1, TaskState::Running);
    if let Change::ReportTask { programs, .. } = &mut change {
        let mut program = programs[0].clone();
        program.events =
            (0..500).map(|n| model::ProgramEvent { at: Time(n), message: "again".into() }).collect();
        *programs = vec![program; 40].into();
    }
    let bytes = encode_entry(&Entry { sets: vec![ChangeSet::of(vec![change])], ..Entry::default() });
    let entry = decode_entry(&bytes).unwrap();
    let Change::ReportTask { programs, .. } = &entry.sets[0].changes[0] else { panic!("a report") };
    assert_eq!(programs.len(), 16);
    assert_eq!(programs[0].events.last().map(|e| e.at), Some(Time(499)));
}

#[test]
fn counts_beyond_their_limits_are_refused_before_they_cost() {
    let port = BoundPort { name: "".into(), protocol: Protocol::Tcp, port: 1 };
    let change = Change::AssignTask {
        task: task_id(1),
        node: node_id(1),
        ports: vec![port; 65].into(),
        named: Box::default(),
    };
    let bytes = encode_entry(&Entry { sets: vec![ChangeSet::of(vec![change])], ..Entry::default() });
    for error in [decode_entry(&bytes).unwrap_err(), check_entry(&bytes).unwrap_err()] {
        assert_eq!(error.to_string(), "an assignment: 65 is more than 64");
    }
}

#[test]
fn what_is_only_laid_over_is_never_written() {
    let mut tables = everything().tables;
    tables.speculate(&ChangeSet::of(vec![direct(7, Desired::Remove)]), Time(1)).unwrap();
    assert!(write_snapshot(&tables, &mut Vec::new()).is_err());
}

proptest! {
    #[test]
    fn random_entries_lead_back(seed: u64) {
        let entry = Random(seed).entry();
        let bytes = encode_entry(&entry);
        prop_assert!(check_entry(&bytes).is_ok());
        prop_assert_eq!(decode_entry(&bytes).unwrap(), entry);
    }

    #[test]
    fn random_bytes_are_no_entry_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode_entry(&bytes);
        let _ = check_entry(&bytes);
        prop_assert!(restored(&bytes).is_err());
    }

    /// Whatever a mutated entry is read as can be written and read again.
    #[test]
    fn mutated_entries_do_not_panic(seed: u64, places in proptest::collection::vec((any::<u32>(), any::<u8>()), 1..6)) {
        let mut bytes = encode_entry(&Random(seed).entry());
        for (at, byte) in places {
            let at = at as usize % bytes.len();
            bytes[at] = byte;
        }
        if let Ok(entry) = decode_entry(&bytes) {
            prop_assert!(check_entry(&bytes).is_ok());
            prop_assert_eq!(decode_entry(&encode_entry(&entry)).unwrap(), entry);
        }
    }
}
