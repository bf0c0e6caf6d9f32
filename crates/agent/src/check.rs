//! Whether a task can be run at all. The front doors have checked its spec, but a foreign manager may have other doors.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::limits::{PROGRAMS, WIRE_ID_LEN};
use model::sync::Assignment;
use model::{Lifecycle, ProgramSpec, signal_number};

/// The signal that asks a program to end when its spec names none.
const TERM: i32 = 15;

/// Why this id cannot be taken in: it names a directory, and must not lead out of its place.
pub(crate) fn check_id(task: &str) -> Result<(), Arc<str>> {
    if is_plain(task) { Ok(()) } else { Err("the id of the task cannot name a directory".into()) }
}

/// Why this task is rejected before anything of it starts.
pub(crate) fn check(assignment: &Assignment) -> Result<(), Arc<str>> {
    let programs = &assignment.spec.programs;
    if programs.len() > PROGRAMS {
        return Err(format!("{} programs are more than {PROGRAMS}", programs.len()).into());
    }
    if !programs.iter().any(|program| program.lifecycle == Lifecycle::Main) {
        return Err("none of its programs is a main program".into());
    }
    let mut names = BTreeSet::new();
    for program in programs {
        let name: String = program.name.chars().take(WIRE_ID_LEN).collect();
        if !is_plain(&program.name) {
            return Err(format!("{name:?} cannot be the name of a program").into());
        }
        if !names.insert(&program.name) {
            return Err(format!("two programs are named {name:?}").into());
        }
        if let Some(signal) = program.stop_signal.as_deref().filter(|s| signal_number(s).is_none()) {
            let signal: String = signal.chars().take(WIRE_ID_LEN).collect();
            return Err(format!("{signal:?}, the stop signal of {name:?}, is not a signal").into());
        }
    }
    Ok(())
}

/// The signal that asks a program to end.
pub(crate) fn stop_signal(spec: &ProgramSpec) -> i32 {
    spec.stop_signal.as_deref().and_then(signal_number).unwrap_or(TERM)
}

/// Letters, digits, `_`, `-` and `.`, but no dot in front: safe as the name of a file.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=WIRE_ID_LEN).contains(&name.len()) && !name.starts_with('.') && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assignment;
    use model::TaskSpec;

    #[test]
    fn ids_stay_in_their_place() {
        for (id, fine) in [
            ("3vk1x0", true),
            ("8f1c9a1e-0000-4000-8000-000000000000", true),
            ("", false),
            (".", false),
            ("..", false),
            ("a/b", false),
            ("../../etc", false),
            (&"x".repeat(65), false),
            ("a\0", false),
        ] {
            assert_eq!(check_id(id).is_ok(), fine, "{id:?}");
        }
    }

    #[test]
    fn tasks_that_cannot_run_say_why() {
        type Spoil = fn(&mut TaskSpec);
        let cases: [(Spoil, &str); 6] = [
            (|s| s.programs.clear(), "none of its programs is a main program"),
            (|s| s.programs[0].lifecycle = Lifecycle::Sidecar, "none of its programs is a main program"),
            (|s| s.programs[0].name = "../x".into(), "\"../x\" cannot be the name of a program"),
            (|s| s.programs.push(s.programs[0].clone()), "two programs are named \"main\""),
            (|s| s.programs = vec![s.programs[0].clone(); 17], "17 programs are more than 16"),
            (
                |s| s.programs[0].stop_signal = Some("NOPE".into()),
                "\"NOPE\", the stop signal of \"main\", is not a signal",
            ),
        ];
        let mut fine = assignment("t1");
        assert_eq!(check(&fine), Ok(()));
        for (spoil, words) in cases {
            let mut spec = TaskSpec::clone(&assignment("t1").spec);
            spoil(&mut spec);
            fine.spec = Arc::new(spec);
            assert_eq!(check(&fine).unwrap_err().as_ref(), words);
        }
    }
}
