//! Each filter with the sentence that people read: over all nodes, and of one node.

mod common;

use std::collections::BTreeMap;

use common::*;
use model::{
    Availability, DriverKind, FilterKind, Node, NodeState, ProgramSpec, Protocol, Resources, TaskSpec,
    TaskState,
};
use scheduler::explain;

fn down(mut node: Node) -> Node {
    node.status.state = NodeState::Down;
    node
}

fn unknown(mut node: Node) -> Node {
    node.status.state = NodeState::Unknown;
    node
}

fn drained(mut node: Node) -> Node {
    node.availability = Availability::Drain;
    node
}

fn paused(mut node: Node) -> Node {
    node.availability = Availability::Pause;
    node
}

fn memory(node: Node, gib: i64) -> Node {
    described(node, |d| d.resources.memory = gib * GIB)
}

fn with_drivers(node: Node, drivers: &[(&str, bool)]) -> Node {
    described(node, |d| d.drivers = drivers.iter().map(|(name, healthy)| driver(name, *healthy)).collect())
}

fn gpus(node: Node, count: i64) -> Node {
    described(node, |d| {
        d.resources.generic.insert("gpu".into(), count);
    })
}

fn wants_gpus(count: i64) -> TaskSpec {
    spec(Resources { generic: BTreeMap::from([("gpu".into(), count)]), ..Resources::default() })
}

/// A world in which one task of service 1 waits, and what is said about it.
fn refused(nodes: Vec<Node>, spec: TaskSpec, why: &str, of_node_1: &str) {
    let mut w = World::new(nodes);
    w.service(1, spec);
    let task = w.tasks(1, 1)[0];
    check(&mut w, task, why, of_node_1);
}

/// Lets a task wait for a node and compares what is said about it.
fn check(w: &mut World, task: u32, why: &str, of_node_1: &str) {
    w.settle();
    assert_eq!(w.task(task).status.state, TaskState::Pending);
    assert_eq!(w.why(task), why);
    let verdicts = explain(&w.tables, w.task(task));
    let refusal = verdicts[0].refusal.as_ref().expect("node 1 refuses");
    assert_eq!(&*refusal.1, of_node_1);
    // The counts of all filters are those of the verdicts.
    let unplaced = w.task(task).unplaced.clone().expect("it was said");
    for kind in FilterKind::ALL {
        let counted = unplaced.refusals.iter().find(|r| r.filter == *kind).map_or(0, |r| r.nodes);
        let told = verdicts.iter().filter(|v| v.refusal.as_ref().is_some_and(|r| r.0 == *kind)).count();
        assert_eq!(counted as usize, told, "{kind}");
    }
}

#[test]
fn a_cluster_without_nodes_says_so() {
    let mut w = World::new([]);
    w.service(1, light());
    let task = w.tasks(1, 1)[0];
    w.settle();
    assert_eq!(w.why(task), "no suitable node (the cluster has no nodes)");
    assert_eq!(explain(&w.tables, w.task(task)), []);
}

#[test]
fn nodes_that_take_no_tasks() {
    refused(
        vec![down(node(1)), drained(node(2)), drained(node(3)), paused(node(4)), unknown(node(5))],
        light(),
        "no suitable node (1 node is not yet heard from, 1 node is down, 2 nodes are drained, 1 node is paused)",
        "the node is down",
    );
    // What is down and drained is down.
    refused(vec![down(drained(node(1)))], light(), "no suitable node (1 node is down)", "the node is down");
}

#[test]
fn drivers() {
    refused(
        vec![
            with_drivers(node(1), &[("mock", true)]),
            with_drivers(node(2), &[]),
            with_drivers(node(3), &[("exec", false), ("mock", true)]),
        ],
        light(),
        "no suitable node (driver exec is missing on 2 nodes, driver exec is not healthy on 1 node)",
        "driver exec is missing",
    );
    let mut two = light();
    two.programs.push(ProgramSpec { name: "side".into(), ..ProgramSpec::new(DriverKind::Mock, vec![]) });
    refused(
        vec![with_drivers(node(1), &[("exec", true), ("mock", false)])],
        two,
        "no suitable node (driver mock is not healthy on 1 node)",
        "driver mock is not healthy",
    );
}

#[test]
fn resources() {
    refused(
        vec![memory(node(1), 1), memory(node(2), 3)],
        spec(reserve(0, 8 * GIB)),
        "no suitable node (insufficient memory on 2 nodes: 8 GiB wanted, at most 3 GiB free)",
        "insufficient memory: 8 GiB wanted, 1 GiB free",
    );
    refused(
        vec![node(1)],
        spec(reserve(9 * CPU / 2, 0)),
        "no suitable node (insufficient CPU on 1 node: 4.5 wanted, 4 free)",
        "insufficient CPU: 4.5 wanted, 4 free",
    );
    refused(
        vec![gpus(node(1), 1), node(2)],
        wants_gpus(2),
        "no suitable node (insufficient gpu on 2 nodes: 2 wanted, at most 1 free)",
        "insufficient gpu: 2 wanted, 1 free",
    );
    refused(
        vec![node(1)],
        wants_gpus(1),
        "no suitable node (insufficient gpu on 1 node: 1 wanted, none free)",
        "insufficient gpu: 1 wanted, none free",
    );
    // A node may lack several things.
    refused(
        vec![memory(node(1), 2), node(2)],
        spec(reserve(5 * CPU, 8 * GIB)),
        "no suitable node (insufficient CPU on 2 nodes: 5 wanted, at most 4 free, insufficient memory on 1 node: 8 GiB wanted, 2 GiB free)",
        "insufficient CPU: 5 wanted, 4 free, insufficient memory: 8 GiB wanted, 2 GiB free",
    );
    // Rounding must not make the sentence absurd.
    refused(
        vec![described(node(1), |d| d.resources.memory = GIB)],
        spec(reserve(0, GIB + 1)),
        "no suitable node (insufficient memory on 1 node: 1073741825 B wanted, 1073741824 B free)",
        "insufficient memory: 1073741825 B wanted, 1073741824 B free",
    );
}

#[test]
fn the_reservation_is_the_sum_over_the_programs() {
    let mut two = spec(reserve(0, 9 * GIB));
    let mut side = ProgramSpec { name: "side".into(), ..ProgramSpec::new(DriverKind::Mock, vec![]) };
    side.reserve = reserve(0, 8 * GIB);
    two.programs.push(side);
    refused(
        vec![node(1)],
        two,
        "no suitable node (insufficient memory on 1 node: 17 GiB wanted, 16 GiB free)",
        "insufficient memory: 17 GiB wanted, 16 GiB free",
    );
}

#[test]
fn constraints() {
    refused(
        vec![labelled(node(1), "zone", "west"), node(2), node(3)],
        constrained(light(), &["node.labels.zone==east"]),
        "no suitable node (constraint node.labels.zone==east holds on none of 3 nodes)",
        "constraint node.labels.zone==east does not hold: it is west here",
    );
    refused(
        vec![node(1), down(node(2))],
        constrained(light(), &["node.labels.zone==east"]),
        "no suitable node (1 node is down; constraint node.labels.zone==east does not hold on 1 node)",
        "constraint node.labels.zone==east does not hold: it is empty here",
    );
    refused(
        vec![labelled(node(1), "zone", "east"), node(2), node(3)],
        constrained(light(), &["node.labels.zone==east", "node.hostname!=n1"]),
        "no suitable node (constraint node.labels.zone==east does not hold on 2 nodes, constraint node.hostname!=n1 does not hold on 1 node)",
        "constraint node.hostname!=n1 does not hold: it is n1 here",
    );
}

#[test]
fn many_causes_are_listed_in_part() {
    let nodes: Vec<Node> = (1..=6).map(node).collect();
    let constraints: Vec<String> = (1..=6).map(|n| format!("node.hostname!=n{n}")).collect();
    let constraints: Vec<&str> = constraints.iter().map(String::as_str).collect();
    let mut w = World::new(nodes);
    w.service(1, constrained(light(), &constraints));
    let task = w.tasks(1, 1)[0];
    w.settle();
    assert!(w.why(task).ends_with("constraint node.hostname!=n4 does not hold on 1 node, and 2 more)"));
}

#[test]
fn published_ports() {
    let mut w = World::new([node(1), node(2)]);
    w.service(1, port(light(), Protocol::Tcp, 8080));
    w.service(2, port(light(), Protocol::Tcp, 8080));
    w.service(3, port(light(), Protocol::Udp, 8080));
    w.tasks(1, 2);
    w.settle();
    let waits = w.tasks(2, 1)[0];
    let why = "no suitable node (port 8080/tcp is taken on 2 nodes (by s1.1, s1.2))";
    check(&mut w, waits, why, "port 8080/tcp is taken by s1.1");
    // The same number of the other protocol is another port.
    let udp = w.tasks(3, 1)[0];
    w.settle();
    assert_eq!(w.node_of(udp), Some(1));
    assert_eq!((w.task(udp).ports[0].protocol, w.task(udp).ports[0].port), (Protocol::Udp, 8080));
}

#[test]
fn many_holders_of_a_port_are_named_in_part() {
    let mut w = World::new((1..=20).map(node));
    w.service(1, port(light(), Protocol::Tcp, 80));
    w.service(2, port(light(), Protocol::Tcp, 80));
    w.tasks(1, 20);
    w.settle();
    let waits = w.tasks(2, 1)[0];
    w.settle();
    let why = "no suitable node (port 80/tcp is taken on 20 nodes (among others by s1.1, s1.2, s1.3))";
    assert_eq!(w.why(waits), why);
}

#[test]
fn the_holder_of_a_port_may_be_global_or_of_a_removed_service() {
    let mut w = World::new([node(1)]);
    w.service(1, port(light(), Protocol::Tcp, 80));
    w.service(2, port(light(), Protocol::Tcp, 80));
    w.task_for(1, 1);
    w.settle();
    let waits = w.tasks(2, 1)[0];
    w.settle();
    assert_eq!(w.why(waits), "no suitable node (port 80/tcp is taken on 1 node (by s1))");
    w.must(vec![store::Change::DeleteService(service_id(1))]);
    w.settle();
    let why = "no suitable node (port 80/tcp is taken on 1 node (by a task of a removed service))";
    assert_eq!(w.why(waits), why);
}

#[test]
fn max_replicas_per_node() {
    let mut w = World::new([node(1), node(2)]);
    w.service(1, at_most(light(), 2));
    let tasks = w.tasks(1, 5);
    let why = "no suitable node (max replicas per node (2) is reached on 2 nodes)";
    check(&mut w, tasks[4], why, "max replicas per node (2) is reached");
    assert_eq!(w.spread_of(1), [2, 2]);
}

#[test]
fn the_first_filter_that_refuses_counts_and_most_nodes_come_first() {
    refused(
        vec![
            memory(node(1), 1),
            // Neither ready nor large enough.
            down(memory(node(2), 1)),
            // Large enough, but elsewhere.
            node(3),
            node(4),
        ],
        constrained(spec(reserve(0, 2 * GIB)), &["node.labels.zone==east"]),
        "no suitable node (constraint node.labels.zone==east holds on none of 2 nodes; 1 node is down; insufficient memory on 1 node: 2 GiB wanted, 1 GiB free)",
        "insufficient memory: 2 GiB wanted, 1 GiB free",
    );
}

#[test]
fn a_running_task_is_judged_as_if_its_place_were_empty() {
    let mut w = World::new([node(1), memory(node(2), 1)]);
    w.service(1, at_most(port(spec(reserve(0, 10 * GIB)), Protocol::Tcp, 80), 1));
    let task = w.tasks(1, 1)[0];
    w.settle();
    assert_eq!(w.node_of(task), Some(1));
    let verdicts = explain(&w.tables, w.task(task));
    assert_eq!(verdicts[0].refusal, None, "it would be placed there again");
    let refusal = verdicts[1].refusal.clone().expect("node 2 is too small");
    assert_eq!((refusal.0, &*verdicts[1].hostname), (FilterKind::Resources, "n2"));
    w.set_availability(1, Availability::Drain);
    let refusal = explain(&w.tables, w.task(task))[0].refusal.clone().expect("drained");
    assert_eq!(&*refusal.1, "the node is drained");
}

#[test]
fn a_running_task_does_not_excuse_what_others_hold() {
    let mut w = World::new([gpus(node(1), 2)]);
    w.service(1, wants_gpus(1));
    w.service(2, wants_gpus(1));
    let tasks = [w.tasks(1, 1)[0], w.tasks(2, 1)[0]];
    w.settle();
    assert_eq!(tasks.map(|task| w.node_of(task)), [Some(1); 2]);
    w.describe(1, |d| {
        d.resources.generic.insert("gpu".into(), 1);
    });
    let refusal =
        explain(&w.tables, w.task(tasks[0]))[0].refusal.clone().expect("the other holds the only one");
    assert_eq!(&*refusal.1, "insufficient gpu: 1 wanted, none free");
}

#[test]
fn everything_that_a_node_lacks_is_told_at_once() {
    let spec = port(at_most(spec(reserve(3 * CPU, 20 * GIB)), 1), Protocol::Tcp, 8080);
    let spec = constrained(spec, &["node.labels.zone==east", "node.hostname!=n1"]);
    let light = port(light(), Protocol::Tcp, 8080);
    let mut w = World::new([node(1), drained(node(2)), labelled(memory(node(3), 32), "zone", "East")]);
    w.service(1, constrained(light, &["node.hostname==n1"]));
    w.tasks(1, 1);
    w.settle();
    w.service(2, spec);
    let waiting = w.tasks(2, 1)[0];
    let told = |w: &World| -> Vec<Vec<String>> {
        let verdicts = explain(&w.tables, w.task(waiting));
        verdicts.iter().map(|v| v.lacks.iter().map(|l| l.text.to_string()).collect()).collect()
    };
    assert_eq!(
        told(&w),
        [
            vec![
                "4 GiB memory more".to_owned(),
                "the label zone=east".into(),
                "node.hostname!=n1".into(),
                "a free port 8080/tcp (s1.1 has it)".into(),
            ],
            vec![
                "the availability active (it is drained)".to_owned(),
                "4 GiB memory more".into(),
                "the label zone=east".into(),
            ],
            vec![],
        ]
    );
    let verdicts = explain(&w.tables, w.task(waiting));
    assert!(verdicts.iter().all(|v| v.lacks.is_empty() == v.refusal.is_none()));
    let cost = |at: usize| verdicts[at].lacks.iter().map(|l| l.cost).sum::<u32>();
    assert!(cost(0) > cost(1), "another machine costs more than a command and a label");
}

#[test]
fn versions_are_compared_and_hosts_are_distinct() {
    let kernel = |n: u32, version: &str| labelled(node(n), "kernel", version);
    for (constraint, spread) in [
        ("node.labels.kernel version >= 0.6.1", [0, 3, 0]),
        ("node.labels.kernel semver >= 0.6.1", [2, 1, 0]),
        ("node.labels.kernel version >= 1.2, < 2", [0, 3, 0]),
        ("node.labels.kernel version >= 2", [0, 0, 0]),
        ("distinct_hosts", [1, 1, 1]),
        ("distinct_hosts==false", [1, 1, 1]),
    ] {
        let mut w = World::new([kernel(1, "1.3.0-beta1"), kernel(2, "1.2"), node(3)]);
        w.service(1, constrained(spec(reserve(CPU, 0)), &[constraint]));
        w.tasks(1, 3);
        w.settle();
        assert_eq!(w.spread_of(1), spread, "{constraint}");
    }
    for (constraints, placed) in [(&["distinct_hosts"][..], 2), (&["distinct_hosts==false"], 3), (&[], 3)] {
        let mut w = World::new((1..=2).map(node));
        w.service(1, constrained(light(), constraints));
        let tasks = w.tasks(1, 3);
        w.settle();
        let on_a_node = tasks.iter().filter(|t| w.node_of(**t).is_some()).count();
        assert_eq!(on_a_node, placed, "{constraints:?}");
        if placed == 2 {
            let why = w.why(tasks[2]);
            assert_eq!(why, "no suitable node (distinct_hosts: one task is there already on 2 nodes)");
            let verdicts = explain(&w.tables, w.task(tasks[2]));
            let lacks: Vec<&str> = verdicts.iter().flat_map(|v| &v.lacks).map(|lack| &*lack.text).collect();
            assert_eq!(lacks, ["the constraint distinct_hosts dropped"; 2]);
        }
    }
}

/// The named resources that a task was given.
fn given(w: &World, task: u32) -> Vec<String> {
    w.task(task).named.iter().map(|one| format!("{}:{}", one.kind, one.value)).collect()
}

#[test]
fn named_resources_are_given_out_once_and_given_back() {
    let with_cards = |n: u32, cards: &[&str]| {
        described(node(n), |d| {
            d.resources.generic.insert("gpu".into(), cards.len() as i64);
            d.named.insert("gpu".into(), cards.iter().map(|card| (*card).into()).collect());
            d.resources.generic.insert("disk".into(), 4);
        })
    };
    let mut w = World::new([with_cards(1, &["c", "a", "b"])]);
    let wants = |gpus: i64| {
        let mut spec = light();
        spec.programs[0].reserve.generic = [("gpu".into(), gpus), ("disk".into(), 1)].into();
        spec
    };
    w.service(1, wants(1));
    let first = w.tasks(1, 2);
    w.service(2, wants(2));
    let pair = w.tasks(2, 1)[0];
    w.settle();
    assert_eq!((given(&w, first[0]), given(&w, first[1])), (vec!["gpu:a".into()], vec!["gpu:b".into()]));
    assert_eq!(w.node_of(pair), None, "{}", w.why(pair));
    w.report(first[0], TaskState::Failed);
    w.settle();
    assert_eq!(given(&w, pair), ["gpu:a", "gpu:c"], "what was given back, and what was never given");
    // Of a kind that is only counted there, nobody gets names.
    assert!(given(&w, first[1]).iter().all(|one| !one.starts_with("disk")));
}
