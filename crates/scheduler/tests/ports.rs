//! Host ports that a spec leaves open.

mod common;

use std::collections::BTreeSet;

use common::*;
use model::{Desired, Protocol, TaskState, limits};
use store::Change;

fn open(spec: model::TaskSpec) -> model::TaskSpec {
    port(spec, Protocol::Tcp, 0)
}

#[test]
fn open_ports_come_from_the_range_and_differ_on_a_node() {
    let mut w = World::new([node(1)]);
    w.service(1, port(open(open(light())), Protocol::Tcp, 20_500));
    w.service(2, open(light()));
    let tasks: Vec<u32> = w.tasks(1, 1).into_iter().chain(w.tasks(2, 300)).collect();
    w.settle();
    let mut seen = BTreeSet::new();
    for task in &tasks {
        for bound in &w.task(*task).ports {
            assert!((limits::DYNAMIC_PORT_FIRST..=limits::DYNAMIC_PORT_LAST).contains(&bound.port));
            assert!(seen.insert(bound.port), "{} is given twice", bound.port);
        }
    }
    assert_eq!(seen.len(), 303);
    let names: Vec<&str> = w.task(tasks[0]).ports.iter().map(|bound| &*bound.name).collect();
    assert_eq!(names, ["p0", "p1", "p2"]);
    assert_eq!(w.task(tasks[0]).ports[2].port, 20_500);
}

#[test]
fn the_ports_of_one_task_differ() {
    let mut w = World::new([node(1)]);
    w.service(1, (0..limits::PORTS).fold(light(), |spec, _| open(spec)));
    let tasks = w.tasks(1, 50);
    w.settle();
    let all: BTreeSet<u16> =
        tasks.iter().flat_map(|task| w.task(*task).ports.iter().map(|bound| bound.port)).collect();
    assert_eq!(all.len(), 50 * limits::PORTS);
}

#[test]
fn the_choice_is_the_same_each_time() {
    let chosen = || {
        let mut w = World::new([node(1)]);
        w.service(1, open(light()));
        let task = w.tasks(1, 1)[0];
        w.settle();
        w.task(task).ports.clone()
    };
    assert_eq!(chosen(), chosen());
}

#[test]
fn a_port_that_was_just_given_back_is_not_given_at_once() {
    let mut w = World::new([node(1)]);
    w.service(1, open(light()));
    let mut last = 0;
    for _ in 0..100 {
        let task = w.tasks(1, 1)[0];
        w.settle();
        let given = w.task(task).ports[0].port;
        assert_ne!(given, last);
        last = given;
        w.report(task, TaskState::Failed);
    }
}

#[test]
fn a_used_up_range_refuses() {
    let mut w = World::new([node(1)]);
    w.service(1, open(light()));
    w.service(2, port(light(), Protocol::Udp, 0));
    let all = u32::from(limits::DYNAMIC_PORT_LAST - limits::DYNAMIC_PORT_FIRST) + 1;
    let tasks = w.tasks(1, all + 1);
    let udp = w.tasks(2, 1)[0];
    w.settle();
    let waiting: Vec<u32> = tasks.into_iter().filter(|task| w.node_of(*task).is_none()).collect();
    assert_eq!(waiting.len(), 1);
    assert_eq!(w.why(waiting[0]), "no suitable node (no port from 20000 to 32000/tcp is left on 1 node)");
    assert_eq!(w.node_of(udp), Some(1), "the other protocol has ports of its own");

    w.service(3, open(open(light())));
    let two = w.tasks(3, 1)[0];
    w.must(vec![Change::DirectTask { task: task_id(waiting[0]), desired: Desired::Shutdown }]);
    w.report(1, TaskState::Shutdown);
    w.settle();
    let why = "no suitable node (fewer than 2 ports from 20000 to 32000/tcp are left on 1 node)";
    assert_eq!(w.why(two), why);
}
