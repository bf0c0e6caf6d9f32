//! When two specs mean the same, however they were written.

use model::{PortSpec, ProgramSpec, TaskSpec, signal_number};

/// True when replacing a task of one spec by a task of the other would change nothing.
///
/// The order of constraints, of platforms, of programs, of volumes, and of ports after the first does not count (`PORT` is the first one's), nor
/// do constraints that are said twice, nor how a stop signal is spelled.
pub fn same_task(a: &TaskSpec, b: &TaskSpec) -> bool {
    a == b || canonical(a) == canonical(b)
}

fn canonical(spec: &TaskSpec) -> TaskSpec {
    let mut spec = spec.clone();
    spec.programs.sort_by(|a, b| a.name.cmp(&b.name));
    spec.programs.iter_mut().for_each(canonical_program);
    spec.placement.constraints.sort_by_cached_key(ToString::to_string);
    spec.placement.constraints.dedup();
    spec.placement.platforms.sort_by(|a, b| (&a.os, &a.arch).cmp(&(&b.os, &b.arch)));
    spec.mounts.sort();
    if let Some((_, rest)) = spec.ports.split_first_mut() {
        let key = |p: &PortSpec| (p.name.clone(), p.protocol, p.target, p.published);
        rest.sort_by_cached_key(key);
    }
    spec
}

fn canonical_program(program: &mut ProgramSpec) {
    let number = program.stop_signal.as_deref().map_or(Some(TERM), signal_number);
    program.stop_signal = match number {
        Some(TERM) | None => None,
        Some(other) => Some(other.to_string().into()),
    };
}

/// The signal that asks a program to end when its spec names none.
const TERM: i32 = 15;

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DriverKind, Mount, PortMode, Protocol};

    fn spec() -> TaskSpec {
        let mut program = ProgramSpec::new(DriverKind::Exec, vec!["sleep".into(), "1".into()]);
        program.env.insert("A".into(), "1".into());
        let port = |published| PortSpec {
            name: "".into(),
            protocol: Protocol::Tcp,
            target: 0,
            published,
            mode: PortMode::Host,
        };
        let mut spec = TaskSpec {
            programs: vec![program],
            ports: vec![port(1), port(2), port(3)],
            mounts: ["data", "logs"].map(|v| Mount { volume: v.into(), read_only: false }).into(),
            ..TaskSpec::default()
        };
        spec.placement.constraints =
            ["node.role==manager", "node.labels.a==b"].iter().map(|c| c.parse().unwrap()).collect();
        spec
    }

    #[test]
    fn what_counts_and_what_does_not() {
        type Change = fn(&mut TaskSpec);
        let cases: [(&str, Change, bool); 14] = [
            ("order of volumes", |s| s.mounts.reverse(), true),
            ("a volume that is only read", |s| s.mounts[0].read_only = true, false),
            ("nothing", |_| {}, true),
            ("order of constraints", |s| s.placement.constraints.reverse(), true),
            (
                "a constraint said twice",
                |s| s.placement.constraints.push(s.placement.constraints[0].clone()),
                true,
            ),
            ("order of later ports", |s| s.ports.swap(1, 2), true),
            ("the first port", |s| s.ports.swap(0, 1), false),
            ("the default signal", |s| s.programs[0].stop_signal = Some("SIGTERM".into()), true),
            ("another signal", |s| s.programs[0].stop_signal = Some("INT".into()), false),
            ("order of arguments", |s| s.programs[0].command.reverse(), false),
            ("a variable", |s| drop(s.programs[0].env.insert("A".into(), "2".into())), false),
            ("a missing constraint", |s| drop(s.placement.constraints.pop()), false),
            ("force", |s| s.force += 1, false),
            ("the delay", |s| s.replace.delay = model::Span::from_secs(6), false),
        ];
        for (what, change, same) in cases {
            let mut changed = spec();
            change(&mut changed);
            assert_eq!(same_task(&spec(), &changed), same, "{what}");
        }
        let (mut a, mut b) = (spec(), spec());
        a.programs[0].stop_signal = Some("INT".into());
        b.programs[0].stop_signal = Some("2".into());
        assert!(same_task(&a, &b));
    }
}
