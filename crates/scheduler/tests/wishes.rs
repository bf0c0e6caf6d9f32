//! What services wish: preferences, affinities, packing, and nodes that failed them.

mod common;

use common::*;
use model::{Affinity, Cluster, ClusterId, Platform, Preference, Strategy, Target, TaskState};
use scheduler::explain;
use store::Change;

/// Nodes 1, 2, ... with a region and a zone each; an empty text is no label.
fn in_zones(places: &[(&str, &str)]) -> World {
    let place = |(n, (region, zone)): (usize, &(&str, &str))| {
        let mut node = node(n as u32 + 1);
        for (key, value) in [("region", region), ("zone", zone)] {
            if !value.is_empty() {
                node = labelled(node, key, value);
            }
        }
        node
    };
    World::new(places.iter().enumerate().map(place))
}

fn to(constraint: &str, weight: i8) -> Affinity {
    Affinity { to: constraint.parse().expect("a constraint"), weight }
}

#[test]
fn nested_preferences_hold_when_a_service_grows() {
    let places = [("r1", "a"), ("r1", "b"), ("r1", "c"), ("r2", "d"), ("r2", "e")];
    let mut w = in_zones(&places);
    w.service(1, light());
    w.prefer(1, &["region", "zone"]);
    w.tasks(1, 3);
    w.settle();
    let spread = w.spread_of(1);
    let regions = [spread[..3].iter().sum::<u32>(), spread[3..].iter().sum()];
    assert!(regions == [2, 1] || regions == [1, 2], "{spread:?}");
    w.tasks(1, 2);
    w.settle();
    assert_eq!(w.spread_of(1), [1; 5]);
    assert_eq!(
        w.said(1),
        "placed: 2 tasks placed on 2 nodes: evenly over node.labels.region and node.labels.zone, then fewest tasks of the service first"
    );
}

#[test]
fn branches_are_even_however_many_nodes_they_have() {
    let mut w = in_zones(&[("", "a"), ("", "a"), ("", "a"), ("", "b"), ("", "")]);
    w.service(1, light());
    w.prefer(1, &["zone"]);
    w.tasks(1, 10);
    w.settle();
    let spread = w.spread_of(1);
    assert_eq!(
        spread[..3].iter().sum::<u32>(),
        4,
        "the remainder goes where the emptiest node is: {spread:?}"
    );
    assert_eq!(spread[3..], [3, 3], "nodes without the label are a branch of their own");
}

#[test]
fn what_is_there_counts_and_a_full_branch_is_passed_over() {
    let mut w = in_zones(&[("", "a"), ("", "b"), ("", "c")]);
    w.service(1, constrained(spec(reserve(CPU, 0)), &["node.labels.zone==a"]));
    w.tasks(1, 3);
    w.settle();
    assert_eq!(w.spread_of(1), [3, 0, 0]);
    w.update(1, 2, spec(reserve(CPU, 0)));
    w.prefer(1, &["zone"]);
    w.tasks(1, 5);
    w.settle();
    assert_eq!(w.spread_of(1), [3, 3, 2]);
    // Four processors a node: when a and b are full, c takes the rest, and what is left waits.
    w.tasks(1, 5);
    w.settle();
    assert_eq!(w.spread_of(1), [4, 4, 4]);
}

#[test]
fn lost_tasks_do_not_count_in_their_branch() {
    let mut w = in_zones(&[("", "a"), ("", "a"), ("", "b")]);
    w.service(1, light());
    w.prefer(1, &["zone"]);
    w.tasks(1, 4);
    w.settle();
    assert_eq!(w.spread_of(1), [1, 1, 2]);
    w.set_availability(1, model::Availability::Drain);
    w.tasks(1, 1);
    w.settle();
    assert_eq!(w.spread_of(1), [1, 2, 2], "the drained task of a will be replaced");
}

#[test]
fn shares_are_met_as_closely_as_whole_tasks_can() {
    for (wanted, spread) in [(10, [7, 2, 1]), (3, [2, 1, 0]), (100, [70, 20, 10]), (1, [1, 0, 0])] {
        let mut w = in_zones(&[("", "East"), ("", "west"), ("", "north")]);
        w.service(1, light());
        let target = |(value, percent): (&str, u8)| Target { value: value.into(), percent };
        let targets = [("east", 70), ("WEST", 20)].map(target).to_vec();
        w.steer(1, |s| {
            s.preferences = vec![Preference { targets, over: "node.labels.zone".parse().expect("a key") }];
        });
        w.tasks(1, wanted);
        w.settle();
        assert_eq!(w.spread_of(1), spread, "{wanted} tasks; what has no target has the rest");
    }
}

#[test]
fn what_shall_have_nothing_gets_what_nobody_else_takes() {
    let mut w = in_zones(&[("", "a"), ("", "b")]);
    w.service(1, spec(reserve(CPU, 0)));
    w.steer(1, |s| {
        let targets = vec![Target { value: "a".into(), percent: 100 }];
        s.preferences = vec![Preference { targets, over: "node.labels.zone".parse().expect("a key") }];
    });
    w.tasks(1, 4);
    w.settle();
    assert_eq!(w.spread_of(1), [4, 0]);
    w.tasks(1, 2);
    w.settle();
    assert_eq!(w.spread_of(1), [4, 2]);
}

#[test]
fn the_smallest_affinity_wins_and_a_negative_one_loses() {
    for (affinities, chosen) in [
        (vec![to("node.hostname==n2", 1)], 2),
        (vec![to("node.hostname==n1", -1)], 2),
        (vec![to("node.hostname==n2", 100), to("node.hostname==n3", 60), to("node.hostname==n2", -50)], 3),
        (vec![to("node.hostname!=n1", 1), to("node.role==worker", 100)], 2),
    ] {
        let mut w = World::new((1..=3).map(node));
        w.service(1, light());
        let shown = format!("{affinities:?}");
        w.steer(1, |s| s.affinities = affinities);
        let task = w.tasks(1, 1)[0];
        w.settle();
        assert_eq!(w.node_of(task), Some(chosen), "{shown}");
        assert_eq!(
            w.said(1),
            format!(
                "placed: placed on n{chosen}: highest affinity first, then fewest tasks of the service first"
            )
        );
    }
}

#[test]
fn packing_fills_one_node_after_the_other() {
    let mut w = World::new((1..=3).map(node));
    w.service(2, constrained(spec(reserve(CPU, 0)), &["node.hostname==n2"]));
    w.tasks(2, 1);
    w.settle();
    w.service(1, spec(reserve(CPU, 0)));
    w.steer(1, |s| s.strategy = Some(Strategy::Binpack));
    w.tasks(1, 5);
    w.settle();
    assert_eq!(w.spread_of(1), [2, 3, 0], "n2 was the fullest");
    assert_eq!(w.said(1), "placed: 5 tasks placed on 2 nodes: fullest node first");
}

#[test]
fn a_service_without_a_strategy_has_the_one_of_the_cluster() {
    for (of_cluster, own, spread) in [
        (Strategy::Binpack, None, [3, 0, 0]),
        (Strategy::Binpack, Some(Strategy::Spread), [1, 1, 1]),
        (Strategy::Spread, None, [1, 1, 1]),
        (Strategy::Spread, Some(Strategy::Binpack), [3, 0, 0]),
    ] {
        let mut w = World::new((1..=3).map(node));
        let cluster = Cluster { strategy: of_cluster, ..Cluster::new(ClusterId::from_u128(1), "test") };
        w.must(vec![Change::PutCluster(cluster)]);
        w.service(1, spec(reserve(CPU, 0)));
        w.steer(1, |s| s.strategy = own);
        w.tasks(1, 3);
        w.settle();
        assert_eq!(w.spread_of(1), spread, "{of_cluster:?} {own:?}");
        assert_eq!(w.said(1).ends_with("fullest node first"), spread[0] == 3, "{}", w.said(1));
    }
}

#[test]
fn a_node_that_failed_a_revision_five_times_comes_last_for_five_minutes() {
    let mut w = World::new((1..=2).map(node));
    w.service(1, light());
    // Each failed task is gone from its node, which is the first again by its id.
    for time in 1..=6 {
        let task = w.tasks(1, 1)[0];
        w.settle();
        assert_eq!(w.node_of(task), Some(if time <= 5 { 1 } else { 2 }), "the {time}. time");
        if time <= 5 {
            w.report(task, TaskState::Failed);
        }
    }
    w.service(2, light());
    let other = w.tasks(2, 1)[0];
    w.settle();
    assert_eq!(w.node_of(other), Some(1), "another service has nothing to do with it");
    w.update(1, 2, light());
    let newer = w.tasks(1, 1)[0];
    w.settle();
    assert_eq!(w.node_of(newer), Some(1), "nor has another revision");

    w.update(1, 3, light());
    let tasks = w.tasks(1, 5);
    for task in &tasks {
        w.settle();
        w.report(*task, TaskState::Rejected);
    }
    w.set_availability(2, model::Availability::Drain);
    let only = w.tasks(1, 1)[0];
    w.settle();
    assert_eq!(w.node_of(only), Some(1), "it is worse, not unfit");
}

#[test]
fn old_failures_are_forgotten() {
    let mut w = World::new((1..=2).map(node));
    w.service(1, light());
    for _ in 0..5 {
        let task = w.tasks(1, 1)[0];
        w.settle();
        w.report(task, TaskState::Failed);
    }
    w.wait(299_000_000_000);
    let task = w.tasks(1, 1)[0];
    w.settle();
    assert_eq!(w.node_of(task), Some(2));
    w.report(task, TaskState::Complete);
    w.wait(2_000_000_000);
    let task = w.tasks(1, 1)[0];
    w.settle();
    assert_eq!(w.node_of(task), Some(1));
}

#[test]
fn the_platform_must_fit_by_either_name() {
    let arm = described(node(2), |d| d.platform = Platform { os: "linux".into(), arch: "arm64".into() });
    for (platforms, chosen) in [
        (&[("linux", "aarch64")][..], Some(2)),
        (&[("", "x86_64")], Some(1)),
        (&[("windows", "amd64"), ("Linux", "ARM64")], Some(2)),
        (&[("linux", "")], Some(1)),
        (&[("windows", ""), ("linux", "riscv64")], None),
    ] {
        let mut w = World::new([node(1), arm.clone()]);
        let mut spec = light();
        let platform = |(os, arch): &(&str, &str)| Platform { os: (*os).into(), arch: (*arch).into() };
        spec.placement.platforms = platforms.iter().map(platform).collect();
        w.service(1, spec);
        let task = w.tasks(1, 1)[0];
        w.settle();
        assert_eq!(w.node_of(task), chosen, "{platforms:?}");
        if chosen.is_none() {
            assert_eq!(
                w.why(task),
                "no suitable node (the programs need windows/any or linux/riscv64 on 2 nodes)"
            );
            let verdicts = explain(&w.tables, w.task(task));
            let said = verdicts[1].refusal.as_ref().map(|(_, text)| &**text);
            assert_eq!(said, Some("the programs need windows/any or linux/riscv64: it is linux/arm64 here"));
        }
    }
}

#[test]
fn tasks_on_their_way_out_do_not_count() {
    let mut w = World::new((1..=3).map(node));
    w.service(1, light());
    let old = w.tasks(1, 3);
    w.settle();
    assert_eq!(w.spread_of(1), [1, 1, 1]);
    // One after the other is replaced while the old one still holds its node.
    for task in old {
        w.report(task, TaskState::Running);
        w.stop(task);
        w.tasks(1, 1);
        w.settle();
        assert_eq!(w.spread_of(1), [1, 1, 1]);
    }
}

#[test]
fn tasks_return_when_a_label_comes_back() {
    let mut w = World::new([labelled(node(1), "test", "activated")]);
    w.service(1, constrained(light(), &["node.labels.test==activated"]));
    let tasks = w.tasks(1, 5);
    w.settle();
    w.set_labels(1, &[("test", "off")]);
    for task in &tasks {
        w.stop(*task);
        w.report(*task, TaskState::Shutdown);
    }
    let again = w.tasks(1, 5);
    w.settle();
    assert_eq!(
        w.why(again[4]),
        "no suitable node (constraint node.labels.test==activated does not hold on 1 node)"
    );
    w.set_labels(1, &[("test", "activated")]);
    w.settle();
    assert_eq!(w.spread_of(1), [5]);
}

#[test]
fn removed_tasks_leave_room_that_is_filled_first() {
    let mut w = World::new((1..=3).map(node));
    w.service(1, light());
    w.service(2, light());
    let tasks = w.tasks(1, 6);
    w.tasks(2, 6);
    w.settle();
    assert_eq!((w.spread_of(1), w.spread_of(2)), (vec![2; 3], vec![2; 3]));
    for task in tasks.iter().filter(|task| w.node_of(**task) == Some(3)).copied().collect::<Vec<_>>() {
        w.stop(task);
        w.report(task, TaskState::Shutdown);
    }
    let again = w.tasks(1, 2);
    w.settle();
    assert!(again.iter().all(|task| w.node_of(*task) == Some(3)));
}
