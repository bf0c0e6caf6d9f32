//! Where tasks go: evenly, and what is said of it.

mod common;

use common::*;
use model::{Availability, Protocol, TaskState};

fn differ_by_at_most_one(counts: &[u32]) {
    let (least, most) = (counts.iter().min(), counts.iter().max());
    assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{counts:?}");
}

#[test]
fn two_services_are_spread_evenly_and_fill_each_others_gaps() {
    let mut w = World::new((1..=5).map(node));
    w.service(1, light());
    w.service(2, light());
    w.tasks(1, 7);
    w.tasks(2, 8);
    w.settle();
    differ_by_at_most_one(&w.spread_of(1));
    differ_by_at_most_one(&w.spread_of(2));
    let all: Vec<u32> = w.tables.nodes().map(|node| w.tables.node_use(node.id).active()).collect();
    assert_eq!(all, [3; 5], "the second service begins where the first ended");

    // Scaling up keeps it so, and what exists counts.
    w.tasks(1, 6);
    w.settle();
    differ_by_at_most_one(&w.spread_of(1));
    assert_eq!(w.spread_of(1).iter().sum::<u32>(), 13);
}

#[test]
fn the_service_counts_before_the_load_and_the_load_before_the_id() {
    let mut w = World::new((1..=3).map(node));
    w.service(1, constrained(light(), &["node.hostname==n1"]));
    w.service(2, light());
    w.tasks(1, 5);
    w.settle();
    assert_eq!(w.spread_of(1), [5, 0, 0]);
    let tasks = w.tasks(2, 4);
    w.settle();
    let nodes: Vec<_> = tasks.iter().map(|task| w.node_of(*task)).collect();
    assert_eq!(nodes, [Some(2), Some(3), Some(1), Some(2)]);
}

#[test]
fn a_new_node_gets_what_is_new() {
    let mut w = World::new((1..=2).map(node));
    w.service(1, light());
    w.tasks(1, 4);
    w.settle();
    w.must(vec![store::Change::CreateNode(node(3))]);
    w.tasks(1, 2);
    w.settle();
    assert_eq!(w.spread_of(1), [2, 2, 2]);
}

#[test]
fn two_revisions_are_spread_as_one_service() {
    let mut w = World::new((1..=4).map(node));
    w.service(1, light());
    w.tasks(1, 2);
    w.update(1, 2, at_most(light(), 1));
    w.tasks(1, 3);
    // Both groups wait in one pass; the second sees what the first took.
    w.settle();
    assert_eq!(w.spread_of(1), [1; 4]);
    assert_eq!(w.why(5), "no suitable node (max replicas per node (1) is reached on 4 nodes)");
}

#[test]
fn nodes_fill_up_one_after_the_other() {
    let small = described(node(2), |d| d.resources.memory = 2 * GIB);
    let mut w = World::new([node(1), small]);
    w.service(1, spec(reserve(0, GIB)));
    let tasks = w.tasks(1, 20);
    w.settle();
    assert_eq!(w.spread_of(1), [16, 2]);
    let why = "no suitable node (insufficient memory on 2 nodes: 1 GiB wanted, none free)";
    assert_eq!([18, 19].map(|nth| w.why(tasks[nth])), [why, why]);
}

#[test]
fn tasks_of_a_node_that_lost_its_agent_go_to_the_others() {
    let mut w = World::new((1..=3).map(node));
    w.set_availability(2, Availability::Pause);
    w.service(1, light());
    w.tasks(1, 4);
    w.settle();
    assert_eq!(w.spread_of(1), [2, 0, 2]);
}

#[test]
fn one_note_a_group_says_what_was_done() {
    let mut w = World::new((1..=4).map(node));
    w.service(1, light());
    w.tasks(1, 12);
    w.settle();
    assert_eq!(w.said(1), "placed: 12 tasks placed on 4 nodes, fewest tasks of the service first");
    assert_eq!(w.tables.decisions(service_id(1)).count(), 1);

    w.tasks(1, 1);
    w.settle();
    let said = "placed: placed on n1: fewest tasks of the service (3), then fewest tasks in all (3)";
    assert_eq!(w.said(1), said);
    assert_eq!(w.tables.decisions(service_id(1)).last().and_then(|d| d.task), Some(task_id(13)));

    w.service(2, port(light(), Protocol::Tcp, 80));
    w.tasks(2, 5);
    w.settle();
    let said = "unplaced: 1 task waits: no suitable node (port 80/tcp is taken on 4 nodes (among others by s2.4, s2.1, s2.2))";
    assert_eq!(w.said(2), said, "holders are named in the order of their nodes");
}

#[test]
fn a_dead_task_frees_its_place_for_one_that_waited() {
    let mut w = World::new([node(1)]);
    w.service(1, port(spec(reserve(0, 10 * GIB)), Protocol::Tcp, 80));
    let tasks = w.tasks(1, 2);
    w.settle();
    assert_eq!(w.node_of(tasks[0]), Some(1));
    let why = "no suitable node (insufficient memory on 1 node: 10 GiB wanted, 6 GiB free)";
    assert_eq!(w.why(tasks[1]), why);
    w.report(tasks[0], TaskState::Running);
    w.settle();
    assert_eq!(w.node_of(tasks[1]), None, "it runs and holds its place");
    w.report(tasks[0], TaskState::Failed);
    w.settle();
    assert_eq!(w.node_of(tasks[1]), Some(1));
    assert_eq!(w.task(tasks[1]).unplaced, None);
}

#[test]
fn a_node_that_shrank_below_what_it_holds_takes_only_what_needs_nothing() {
    let mut w = World::new([node(1)]);
    w.service(1, spec(reserve(CPU, 8 * GIB)));
    w.tasks(1, 2);
    w.settle();
    w.describe(1, |d| d.resources.memory = 4 * GIB);
    w.service(2, spec(reserve(0, GIB)));
    w.service(3, spec(reserve(CPU, 0)));
    w.service(4, light());
    let tasks = [2, 3, 4].map(|service| w.tasks(service, 1)[0]);
    w.settle();
    let why = "no suitable node (insufficient memory on 1 node: 1 GiB wanted, none free)";
    assert_eq!(w.why(tasks[0]), why);
    assert_eq!([w.node_of(tasks[1]), w.node_of(tasks[2])], [Some(1), Some(1)]);
}
