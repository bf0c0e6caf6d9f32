//! Who uses a volume: a placement that shares more than may be is refused, and each end gives back.

mod common;

use std::sync::Arc;

use common::*;
use model::{Description, Mount, Sharing, TaskState, Users, Volume};
use store::Change;

#[test]
fn volumes_are_used_as_they_are_shared_until_the_end_is_known() {
    let mut w = World::furnished();
    let described = |volumes: &[(&str, Sharing, bool)]| {
        let one = |(name, sharing, read_only): &(&str, Sharing, bool)| {
            ((*name).into(), Volume { path: "/d".into(), read_only: *read_only, sharing: *sharing })
        };
        let volumes = volumes.iter().map(one).collect();
        let description = Description { resources: reserve(1_000, 1_000), volumes, ..Description::default() };
        Change::DescribeNode { node: node_id(1), description: Arc::new(description) }
    };
    // Service 7 writes to `data`; service 8 reads from it.
    for (n, read_only) in [(7, false), (8, true)] {
        let mut uses = revision(n, n, reserve(1, 1));
        let mount = |volume: &str| Mount { volume: volume.into(), read_only };
        Arc::make_mut(&mut uses.task).mounts = vec![mount("data")];
        let mut with = service(n, &format!("s{n}"), n);
        with.revision = revision_id(n);
        w.must(vec![Change::CreateRevision(uses), Change::CreateService(Box::new(with))]);
    }
    let made = [(71, 7, 0), (72, 7, 1), (81, 8, 0), (82, 8, 1)];
    w.must(made.iter().map(|(task, service, slot)| create_task(*task, *service, *slot, *service)).collect());
    for (there, task, problem) in [
        (None, 71, "volume data of node  is not there"),
        (Some((Sharing::All, true)), 71, "is read-only"),
        (Some((Sharing::ReadOnly, false)), 71, "is shared by readers alone"),
    ] {
        let there: Vec<_> =
            there.into_iter().map(|(sharing, read_only)| ("data", sharing, read_only)).collect();
        w.must(vec![described(&there)]);
        let said = w.try_apply(vec![assign(task, 1)]).expect_err(problem).to_string();
        assert!(said.contains(problem), "{said}");
    }
    w.must(vec![described(&[("data", Sharing::OneWriter, false)]), assign(71, 1), assign(81, 1)]);
    let said = w.try_apply(vec![assign(72, 1)]).expect_err("it has a writer").to_string();
    assert!(said.contains("has its one writer"), "{said}");
    let users: Vec<_> = w.tables.node_use(node_id(1)).users_of("data").collect();
    assert_eq!(users, [(task_id(71), false), (task_id(81), true)]);
    // What is there keeps what it has; nobody new is let in.
    w.must(vec![described(&[("data", Sharing::None, false)])]);
    assert_eq!(w.tables.node_use(node_id(1)).users("data"), Users { writers: 1, readers: 1 });
    // Two in one set, of which the second finds it in use.
    w.must(vec![report(71, 1, TaskState::Failed), report(81, 1, TaskState::Complete)]);
    assert_eq!(w.tables.node_use(node_id(1)).users("data"), Users::default(), "given back with the end");
    let said = w.try_apply(vec![assign(72, 1), assign(82, 1)]).expect_err("it is for one").to_string();
    assert!(said.contains("is in use"), "{said}");
    w.must(vec![assign(72, 1)]);
    w.must(vec![end(72, TaskState::Orphaned)]);
    assert_eq!(w.tables.node_use(node_id(1)).used_volumes().count(), 0, "given back by an orphan");
}
