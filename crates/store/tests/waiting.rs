//! The tasks that wait for a node, as the scheduler reads them.

mod common;

use common::*;

#[test]
fn waiting_tasks_are_grouped_by_revision_the_oldest_first() {
    let mut w = World::furnished();
    assert_eq!(w.tables.waiting_groups().count(), 0);
    w.must(vec![create_task(3, 1, 7, 1)]);
    let first = w.tables.index();
    w.must(vec![create_task(1, 1, 2, 1), create_task(2, 1, 0, 1)]);
    let mut newer = service(1, "web", 2);
    newer.previous = Some(revision_id(1));
    w.must(vec![
        store::Change::CreateRevision(revision(2, 1, reserve(1, 1))),
        store::Change::UpdateService(Box::new(newer)),
        create_task(4, 1, 3, 2),
    ]);
    let last = w.tables.index();

    let web = service_id(1);
    let groups: Vec<_> = w.tables.waiting_groups().collect();
    assert_eq!(groups, [(web, revision_id(1), first), (web, revision_id(2), last)]);
    let of = |revision| World::numbers(w.tables.tasks_waiting_of(web, revision_id(revision)));
    assert_eq!(of(1), [3, 2, 1], "by age, then by slot");
    assert_eq!((of(2), of(3)), (vec![4], vec![]));
    assert_eq!(World::numbers(w.tables.tasks_waiting()), [3, 2, 1, 4]);

    w.must(vec![assign(3, 1), assign(4, 2)]);
    let groups: Vec<_> = w.tables.waiting_groups().collect();
    assert_eq!(groups, [(web, revision_id(1), first + 1)]);
}
