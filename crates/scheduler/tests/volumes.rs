//! Volumes of nodes: who is let in, what is said to the others, and that nobody is promised what another has.

mod common;

use common::*;
use model::{Desired, Mount, Node, Sharing, TaskSpec, TaskState, Volume};
use scheduler::{Limits, explain, schedule};

fn volume(node: Node, name: &str, sharing: Sharing) -> Node {
    described(node, |d| {
        d.volumes.insert(name.into(), Volume { path: "/srv".into(), read_only: false, sharing });
    })
}

fn read_only(node: Node, name: &str) -> Node {
    described(volume(node, name, Sharing::All), |d| {
        d.volumes.values_mut().for_each(|volume| volume.read_only = true);
    })
}

/// A spec that uses these volumes; those that end in `,ro` for reading.
fn uses(mut spec: TaskSpec, volumes: &[&str]) -> TaskSpec {
    let mount = |text: &&str| match text.strip_suffix(",ro") {
        Some(name) => Mount { volume: name.into(), read_only: true },
        None => Mount { volume: (*text).into(), read_only: false },
    };
    spec.mounts = volumes.iter().map(mount).collect();
    spec
}

fn nodes_of(w: &World, tasks: &[u32]) -> Vec<Option<u32>> {
    tasks.iter().map(|task| w.node_of(*task)).collect()
}

#[test]
fn every_volume_must_be_there_and_not_just_one() {
    // SwarmKit's filter passes a node on which any of the mounts can be had.
    let mut w = World::new([
        volume(node(1), "data", Sharing::All),
        node(2),
        volume(volume(node(3), "data", Sharing::All), "logs", Sharing::All),
    ]);
    w.service(1, uses(light(), &["data", "logs"]));
    let tasks = w.tasks(1, 2);
    w.settle();
    assert_eq!(nodes_of(&w, &tasks), [Some(3), Some(3)]);
    let verdicts = explain(&w.tables, w.task(tasks[0]));
    let said: Vec<_> = verdicts.iter().map(|v| v.refusal.as_ref().map(|r| (r.0.as_str(), &*r.1))).collect();
    assert_eq!(
        said,
        [Some(("volumes", "has no volume logs")), Some(("volumes", "has no volume data")), None]
    );
    let lacks: Vec<&str> = verdicts[1].lacks.iter().map(|lack| &*lack.text).collect();
    assert_eq!(lacks, ["a volume data", "a volume logs"]);
}

#[test]
fn what_is_said_when_no_node_has_room() {
    let mut w = World::new([
        node(1),
        read_only(node(2), "data"),
        volume(node(3), "data", Sharing::ReadOnly),
        volume(node(4), "data", Sharing::None),
        volume(node(5), "data", Sharing::OneWriter),
        node(6),
    ]);
    w.service(1, uses(light(), &["data"]));
    let tasks = w.tasks(1, 3);
    w.settle();
    assert_eq!(nodes_of(&w, &tasks), [Some(4), Some(5), None]);
    assert_eq!(
        w.why(tasks[2]),
        "no suitable node (there is no volume data on 2 nodes, volume data is read-only on 1 node, \
         volume data is shared by readers alone on 1 node, volume data is in use on 1 node (by s1.1), and 1 more)"
    );
    let verdicts = explain(&w.tables, w.task(tasks[2]));
    let said: Vec<&str> = verdicts.iter().filter_map(|v| Some(&*v.refusal.as_ref()?.1)).collect();
    assert_eq!(
        said,
        [
            "has no volume data",
            "volume data is read-only",
            "volume data is shared by readers alone",
            "volume data is in use by s1.1",
            "volume data is written to by s1.2",
            "has no volume data",
        ]
    );
    let lacks: Vec<&str> = verdicts.iter().map(|v| &*v.lacks[0].text).collect();
    assert_eq!(
        lacks,
        [
            "a volume data",
            "a volume data that is not read-only",
            "a volume data that writers share",
            "volume data free (s1.1 has it)",
            "volume data without a writer (s1.2 writes)",
            "a volume data",
        ]
    );
    // Its own place counts as empty for a task that is asked about where it runs.
    let verdicts = explain(&w.tables, w.task(tasks[0]));
    assert_eq!(verdicts[3].refusal, None, "{verdicts:?}");
}

#[test]
fn a_group_takes_what_is_shared_and_no_more() {
    for (sharing, reads, placed) in [
        (Sharing::None, false, 2),
        (Sharing::None, true, 2),
        (Sharing::ReadOnly, false, 0),
        (Sharing::ReadOnly, true, 9),
        (Sharing::OneWriter, false, 2),
        (Sharing::OneWriter, true, 9),
        (Sharing::All, false, 9),
    ] {
        // A third node without the volume, and tasks for the first two in groups that nodes are asked for in each way.
        for prefer in [false, true] {
            let nodes = [1, 2].map(|n| volume(node(n), "data", sharing));
            let mut w = World::new(nodes.into_iter().chain([node(3)]));
            w.service(1, uses(light(), &[if reads { "data,ro" } else { "data" }]));
            if prefer {
                w.prefer(1, &["zone"]);
            }
            let tasks = w.tasks(1, 9);
            w.settle();
            let there = tasks.iter().filter(|task| w.node_of(**task).is_some()).count();
            assert_eq!(there, placed, "{sharing} {reads} {prefer}");
            assert!(nodes_of(&w, &tasks).iter().all(|node| *node != Some(3)));
            let again = schedule(&w.tables, &Limits::default());
            assert!(again.sets.is_empty() && !again.more, "{sharing} {reads}: a second pass has news");
        }
    }
}

#[test]
fn one_that_ends_makes_room_for_one_that_waits() {
    let mut w = World::new([volume(node(1), "data", Sharing::None)]);
    w.service(1, uses(light(), &["data"]));
    let tasks = w.tasks(1, 2);
    w.settle();
    assert_eq!(nodes_of(&w, &tasks), [Some(1), None]);
    // One that is told to end still uses it.
    w.stop(tasks[0]);
    w.settle();
    assert_eq!(w.why(tasks[1]), "no suitable node (volume data is in use on 1 node (by s1.1))");
    w.report(tasks[0], TaskState::Shutdown);
    w.settle();
    assert_eq!(w.node_of(tasks[1]), Some(1));
    // And so does a change of the node.
    let third = w.tasks(1, 1)[0];
    w.settle();
    assert_eq!(w.node_of(third), None);
    w.describe(1, |d| d.volumes.values_mut().for_each(|volume| volume.sharing = Sharing::All));
    w.settle();
    assert_eq!(w.node_of(third), Some(1));
}

#[test]
fn one_made_for_a_node_waits_for_its_volume() {
    let mut w = World::new([volume(node(1), "data", Sharing::None), node(2)]);
    w.service(1, uses(light(), &["data"]));
    let (here, there) = (w.task_for(1, 1), w.task_for(1, 2));
    w.settle();
    assert_eq!(w.task(here).status.state, TaskState::Assigned);
    assert_eq!(w.task(there).status.state, TaskState::Pending);
    assert_eq!(w.why(there), "no suitable node (there is no volume data on 1 node)");
}

#[test]
fn a_task_of_far_lower_priority_gives_up_the_volume() {
    let mut w = World::new([1, 2].map(|n| volume(node(n), "data", Sharing::OneWriter)));
    w.prioritised(1, uses(light(), &["data"]), 40);
    w.prioritised(2, uses(light(), &["data,ro"]), 40);
    let (writers, readers) = (w.tasks(1, 2), w.tasks(2, 4));
    w.settle();
    w.prioritised(3, uses(light(), &["data"]), 90);
    w.steer(3, |s| s.preempt = true);
    let high = w.tasks(3, 1)[0];
    w.settle();
    let told = |tasks: &[u32]| tasks.iter().filter(|t| w.task(**t).desired == Desired::Shutdown).count();
    assert_eq!((told(&writers), told(&readers)), (1, 0), "only a writer is in the way");
    let gone = *writers.iter().find(|task| w.task(**task).desired == Desired::Shutdown).expect("one");
    let node = w.node_of(gone);
    // What waits since before does not take it away meanwhile.
    let low = w.tasks(1, 1)[0];
    w.report(gone, TaskState::Shutdown);
    w.settle();
    assert_eq!((w.node_of(high), w.node_of(low)), (node, None));
}
