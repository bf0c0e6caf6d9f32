//! Running many random clusters, and shortening the script of one that breaks a promise.

use model::Span;

use crate::script::{Command, Net};
use crate::story::{Outcome, Telling, run};
use crate::workload::{Plan, script};

/// How often a failing script is run again at most to shorten it.
pub const TRIES: usize = 400;

/// Runs the cluster of a seed.
pub fn one(seed: u64, plan: Plan) -> Outcome {
    run(&script(seed, plan), Telling::Random)
}

/// The fingerprint of every value of every effect of a seed's cluster.
pub fn fingerprint(seed: u64, plan: Plan) -> (u64, u64) {
    run(&script(seed, plan), Telling::Exact).fingerprint
}

/// What is left of a script that breaks a promise when everything is dropped that the breaking does not need. The promise stays the same; how
/// it breaks may change.
pub fn shorten(commands: &[Command], tries: usize) -> Vec<Command> {
    let promise = run(commands, Telling::Random).broken.first().map(|b| b.promise);
    let Some(promise) = promise else { return commands.to_vec() };
    let mut left = tries;
    let mut fails = |candidate: &[Command]| {
        if left == 0 {
            return false;
        }
        left -= 1;
        run(candidate, Telling::Random).broken.first().is_some_and(|b| b.promise == promise)
    };
    let mut best = commands.to_vec();
    loop {
        let before = best.clone();
        drop_pieces(&mut best, &mut fails);
        simplify(&mut best, &mut fails);
        if best == before {
            return best;
        }
    }
}

/// Drops commands: half of them at a time, then ever smaller pieces, the later ones first.
fn drop_pieces(best: &mut Vec<Command>, fails: &mut impl FnMut(&[Command]) -> bool) {
    let mut size = best.len().div_ceil(2);
    while size > 0 {
        let mut end = best.len();
        while end > 0 {
            let start = end.saturating_sub(size);
            let mut candidate = best[..start].to_vec();
            candidate.extend(best[start..end].iter().filter(|c| is_frame(c)).cloned());
            candidate.extend_from_slice(&best[end..]);
            if candidate.len() < best.len() && fails(&candidate) {
                *best = candidate;
            }
            end = start;
        }
        size /= 2;
    }
}

/// What is simplified, but not dropped.
fn is_frame(command: &Command) -> bool {
    matches!(command, Command::Seed(_) | Command::Managers(_))
}

/// Makes what is left smaller: shorter runs, fewer settings, fewer machines, one manager.
fn simplify(best: &mut Vec<Command>, fails: &mut impl FnMut(&[Command]) -> bool) {
    for at in 0..best.len() {
        while let Some(simpler) = simpler(&best[at]).into_iter().find_map(|simple| {
            let mut candidate = best.clone();
            candidate[at] = simple;
            fails(&candidate).then_some(candidate)
        }) {
            *best = simpler;
        }
    }
}

/// Simpler commands to try in the place of one.
fn simpler(command: &Command) -> Vec<Command> {
    let mut list = Vec::new();
    match command {
        Command::Managers(n) if *n > 1 => list.push(Command::Managers(1)),
        Command::Nodes { count, size, label } => {
            let fewer = [1, count / 2, count - 1].into_iter().filter(|n| *n > 0 && n < count);
            list.extend(fewer.map(|count| Command::Nodes { count, size: *size, label: label.clone() }));
            if label.is_some() {
                list.push(Command::Nodes { count: *count, size: *size, label: None });
            }
        }
        Command::Service { name, settings } => {
            for at in 0..settings.len() {
                let mut settings = settings.clone();
                settings.remove(at);
                list.push(Command::Service { name: name.clone(), settings });
            }
        }
        Command::Volumes { node, volumes } => {
            for at in 0..volumes.len() {
                let mut volumes = volumes.clone();
                volumes.remove(at);
                list.push(Command::Volumes { node: *node, volumes });
            }
        }
        Command::Net(net) if *net != Net::default() => {
            let usual = Net::default();
            for net in
                [usual, Net { loss: 0, ..*net }, Net { lost: 0, ..*net }, Net { delay: usual.delay, ..*net }]
            {
                list.push(Command::Net(net));
            }
        }
        Command::Run(span) => {
            list.extend(
                [1_000, 10_000].map(Span::from_millis).iter().filter(|s| *s < span).map(|s| Command::Run(*s)),
            );
        }
        _ => {}
    }
    list.retain(|simple| simple != command);
    list
}

/// A script as text.
pub fn text(commands: &[Command]) -> String {
    commands.iter().map(|c| format!("{c}\n")).collect()
}
