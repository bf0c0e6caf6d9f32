//! Random clusters: the same ones each time. Those that nobody has seen are run by `scripts/test` itself, for a fixed time.

use sim::{hunt, workload};
use workload::Plan;

/// The seeds that are run each time; those that once broke a promise among them.
const FIXED: std::ops::Range<u64> = 1..1000;

#[track_caller]
fn keeps_its_promises(seed: u64, plan: Plan) {
    let outcome = hunt::one(seed, plan);
    if outcome.broken.is_empty() {
        return;
    }
    let short = hunt::shorten(&workload::script(seed, plan), 200);
    let list: Vec<String> = outcome.broken.iter().take(5).map(ToString::to_string).collect();
    panic!("seed {seed} breaks a promise: {}\nin short:\n{}", list.join("\n"), hunt::text(&short));
}

#[test]
fn known_seeds_keep_their_promises() {
    for seed in FIXED {
        keeps_its_promises(seed, Plan::SHORT);
    }
}

#[test]
fn a_long_life_of_a_large_cluster_keeps_its_promises() {
    // 20054: a machine grew, and what it said was lost. 7021: a leader that is cut off for minutes did not sleep any more.
    for seed in [1, 2, 7021, 20054] {
        keeps_its_promises(seed, Plan::HOUR);
    }
}

#[test]
fn the_same_seed_has_the_same_effects() {
    for seed in 1..=8 {
        let twice = [0; 2].map(|_| hunt::fingerprint(seed, Plan::SHORT));
        assert_eq!(twice[0], twice[1], "seed {seed}");
    }
    let of = |seed| hunt::fingerprint(seed, Plan::SHORT);
    assert_ne!(of(1), of(2), "seeds matter");
}

#[test]
fn a_failing_script_is_shortened() {
    // That a machine is gone is not noticed within a second: to have settled by then is too much to ask.
    let text = "seed 3\nmanagers 3\nnodes 5\nservice a replicas=3 cpu=0.5\nservice b global\nrun 30s\nscale a 5\ncrash node-1\nconverge 0s\n";
    let script = sim::script::parse(text).expect("it is a script");
    assert!(!sim::story::run(&script, sim::story::Telling::Random).broken.is_empty());
    let short = hunt::shorten(&script, hunt::TRIES);
    assert!(short.len() < script.len(), "{}", hunt::text(&short));
    assert!(!sim::story::run(&short, sim::story::Telling::Random).broken.is_empty());
}
