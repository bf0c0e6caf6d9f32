//! What a pass looks at, counted: the same however many tasks the cluster has.

mod common;

use common::*;
use model::{Affinity, Strategy};
use scheduler::{Limits, Visited, schedule};

const NODES: u32 = 50;

/// A cluster with so many tasks, in which twenty more of service 2 wait.
fn crowded(tasks: u32, wish: impl FnOnce(&mut World)) -> World {
    let zoned = |n| labelled(node(n), "zone", ["a", "b", "c"][n as usize % 3]);
    let mut w = World::new((1..=NODES).map(zoned));
    w.service(1, light());
    w.service(2, light());
    w.tasks(1, tasks);
    w.settle();
    wish(&mut w);
    w.tasks(2, 20);
    w
}

#[test]
fn a_group_costs_its_candidates_and_its_tasks() {
    type Wish = fn(&mut World);
    let wishes: [(&str, Wish, usize); 4] = [
        ("none", |_| (), 20),
        ("preferences", |w| w.prefer(2, &["zone"]), NODES as usize),
        (
            "an affinity",
            |w| {
                let to = "node.labels.zone==b".parse().expect("a constraint");
                w.steer(2, |s| s.affinities = vec![Affinity { to, weight: 5 }]);
            },
            NODES as usize,
        ),
        ("packing", |w| w.steer(2, |s| s.strategy = Some(Strategy::Binpack)), NODES as usize),
    ];
    for (what, wish, asked) in wishes {
        let few = schedule(&crowded(1_000, wish).tables, &Limits::default());
        let many = schedule(&crowded(100_000, wish).tables, &Limits::default());
        assert_eq!((few.placed, many.placed), (20, 20), "{what}");
        assert_eq!(few.visited, many.visited, "{what}");
        let Visited { groups, tasks, nodes, asked: was_asked } = many.visited;
        assert_eq!((groups, tasks, was_asked), (1, 20, asked), "{what}");
        assert!(nodes <= NODES as usize, "{what}");
    }
}

#[test]
fn an_impossible_service_delays_nobody_and_is_read_once() {
    let mut w = World::new((1..=NODES).map(node));
    w.service(1, constrained(light(), &["node.role==manager"]));
    w.tasks(1, 100_000);
    for n in 2..=1_001 {
        w.service(n, light());
        w.tasks(n, 1);
    }
    let first = w.pass(&Limits::default());
    assert_eq!((first.placed, first.unplaced), (1_000, 100_000));
    // Its own tasks and nodes, and for each small service its task and the first node.
    assert_eq!(first.visited.tasks, 101_000);
    assert!(first.visited.asked <= 2 * NODES as usize + 1_000, "{:?}", first.visited);
    w.settle();

    w.service(2_000, light());
    w.tasks(2_000, 1);
    let later = w.pass(&Limits::default());
    assert_eq!((later.placed, later.unplaced), (1, 100_000));
    assert_eq!(later.visited.tasks, 1, "all of it has its reason already");
    assert!(later.visited.asked <= 2 * NODES as usize + 1, "{:?}", later.visited);
    assert!(schedule(&w.tables, &Limits::default()).sets.is_empty());
}

#[test]
fn what_joins_an_impossible_group_gets_its_reason() {
    let mut w = World::new([node(1)]);
    w.service(1, constrained(light(), &["node.role==manager"]));
    let first = w.tasks(1, 3);
    w.settle();
    let second = w.tasks(1, 2);
    w.settle();
    assert_eq!(w.why(second[1]), w.why(first[0]));
    // The reason changes for all.
    w.must(vec![store::Change::CreateNode(node(2))]);
    w.settle();
    let why = "no suitable node (constraint node.role==manager holds on none of 2 nodes)";
    assert!(first.iter().chain(&second).all(|task| w.why(*task) == why));
}

/// What joins costs what joins, however many wait already: they are made in many batches, each with a pass.
#[test]
fn newcomers_of_an_impossible_group_cost_themselves() {
    for waiting in [1_000, 100_000] {
        let mut w = World::new((1..=NODES).map(node));
        w.service(1, constrained(light(), &["node.role==manager"]));
        let first = w.tasks(1, waiting)[0];
        w.settle();
        let new = w.tasks(1, 20);
        let pass = w.pass(&Limits::default());
        assert_eq!(pass.unplaced as u32, waiting + 20);
        assert_eq!(pass.visited.tasks, 20, "{waiting}");
        assert!(pass.visited.asked <= 2 * NODES as usize, "{waiting}: {:?}", pass.visited);
        assert!(new.iter().all(|task| w.why(*task) == w.why(first)), "each has its reason");
        assert_eq!(w.pass(&Limits::default()).visited.tasks, 0);
    }
}
