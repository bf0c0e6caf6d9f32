//! The environment of a program.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ProgramSpec;
use model::sync::Assignment;

/// The environment of `program` in the task of `assignment` on the node with the id `node`, in the order of names.
///
/// What the spec sets, and on top of it, winning over it:
///
/// | variable | value |
/// | --- | --- |
/// | `PORT` | the first host port the task was given; absent without one |
/// | `QUELEA_PORT_<name>` | the host port of that name; each character other than an ASCII letter or digit is written `_`. Of two names that become the same, the first counts |
/// | `QUELEA_RESOURCE_<name>` | how many of the counted resource of that name are set aside for the program, or, where they have names, which ones, with commas between; written as above |
/// | `DOCKER_RESOURCE_<NAME>` | the same, the name in capital letters, as docker gives it to containers |
/// | `QUELEA_VOLUME_<NAME>` | the path of the volume of that name, in capital letters, written as above; added by whoever starts the program, who knows where volumes are |
/// | `QUELEA_TASK_ID`, `QUELEA_TASK_NAME`, `QUELEA_SERVICE_NAME`, `QUELEA_SLOT`, `QUELEA_NODE_ID` | who the program is |
pub fn environment(assignment: &Assignment, program: &ProgramSpec, node: &str) -> Vec<(Arc<str>, Arc<str>)> {
    let mut env: BTreeMap<Arc<str>, Arc<str>> = program.env.clone();
    let mut ours: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    for (name, value) in [
        ("QUELEA_TASK_ID", &*assignment.task),
        ("QUELEA_TASK_NAME", &*assignment.name),
        ("QUELEA_SERVICE_NAME", &*assignment.service_name),
        ("QUELEA_SLOT", &*assignment.slot),
        ("QUELEA_NODE_ID", node),
    ] {
        ours.insert(name.into(), value.into());
    }
    if let Some(first) = assignment.ports.first() {
        ours.insert("PORT".into(), first.port.to_string().into());
    }
    for port in assignment.ports.iter().filter(|port| !port.name.is_empty()) {
        ours.entry(variable("QUELEA_PORT_", &port.name)).or_insert_with(|| port.port.to_string().into());
    }
    for (name, count) in &program.reserve.generic {
        let names = names_of(assignment, program, name);
        let value: Arc<str> = if names.is_empty() { count.to_string() } else { names.join(",") }.into();
        ours.entry(variable("QUELEA_RESOURCE_", name)).or_insert_with(|| Arc::clone(&value));
        ours.entry(variable("DOCKER_RESOURCE_", &name.to_ascii_uppercase())).or_insert(value);
    }
    env.append(&mut ours);
    env.into_iter().collect()
}

/// The named resources of a kind that this program of a task gets: those of the task are dealt out in their order, to its programs
/// in theirs.
fn names_of<'a>(assignment: &'a Assignment, program: &ProgramSpec, kind: &Arc<str>) -> Vec<&'a str> {
    let count = |program: &ProgramSpec| {
        usize::try_from(program.reserve.generic.get(kind).copied().unwrap_or(0)).unwrap_or(0)
    };
    let before = assignment.spec.programs.iter().take_while(|p| p.name != program.name).map(count).sum();
    let names = assignment.named.iter().filter(|one| one.kind == *kind).map(|one| &*one.value);
    names.skip(before).take(count(program)).collect()
}

/// The variable that tells something of this name.
fn variable(prefix: &str, name: &str) -> Arc<str> {
    let plain = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    prefix.chars().chain(plain).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{BoundPort, DriverKind, NamedResource, Protocol};

    fn assignment(ports: &[(&str, u16)]) -> Assignment {
        let port = |(name, port): &(&str, u16)| BoundPort {
            name: (*name).into(),
            protocol: Protocol::Tcp,
            port: *port,
        };
        Assignment {
            name: "web.3".into(),
            service_name: "web".into(),
            slot: "3".into(),
            named: Box::default(),
            ports: ports.iter().map(port).collect(),
            ..crate::testing::assignment("t1")
        }
    }

    fn program(env: &[(&str, &str)]) -> ProgramSpec {
        let mut spec = ProgramSpec::new(DriverKind::Exec, vec!["true".into()]);
        spec.env = env.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        spec
    }

    #[test]
    fn how_many_of_a_resource_it_has() {
        let mut program = program(&[]);
        program.reserve.generic = [("nvidia-gpu".into(), 2)].into();
        let env = environment(&assignment(&[]), &program, "n1");
        assert!(env.contains(&("QUELEA_RESOURCE_nvidia_gpu".into(), "2".into())), "{env:?}");
        assert!(env.contains(&("DOCKER_RESOURCE_NVIDIA_GPU".into(), "2".into())), "{env:?}");
    }

    #[test]
    fn which_of_a_resource_it_has() {
        let mut programs = [1, 2].map(|count| {
            let mut program = program(&[]);
            program.reserve.generic = [("gpu".into(), count)].into();
            program
        });
        programs[1].name = "second".into();
        let mut assignment = assignment(&[]);
        assignment.named = [("disk", "d"), ("gpu", "a"), ("gpu", "b"), ("gpu", "c")]
            .map(|(kind, value)| NamedResource { kind: kind.into(), value: value.into() })
            .into();
        let spec = model::TaskSpec { programs: programs.to_vec(), ..model::TaskSpec::default() };
        assignment.spec = Arc::new(spec);
        for (program, names) in programs.iter().zip(["a", "b,c"]) {
            let env = environment(&assignment, program, "n1");
            for variable in ["DOCKER_RESOURCE_GPU", "QUELEA_RESOURCE_gpu"] {
                assert!(env.contains(&(variable.into(), names.into())), "{env:?}");
            }
        }
    }

    const WHO: &str =
        "QUELEA_NODE_ID=n1 QUELEA_SERVICE_NAME=web QUELEA_SLOT=3 QUELEA_TASK_ID=t1 QUELEA_TASK_NAME=web.3";

    #[test]
    fn who_a_program_is_and_where_it_listens() {
        type Case<'a> = (&'a [(&'a str, u16)], &'a [(&'a str, &'a str)], String);
        let cases: [Case<'_>; 5] = [
            (&[], &[], WHO.into()),
            (&[], &[("PORT", "80"), ("A", "b")], format!("A=b PORT=80 {WHO}")),
            (&[("", 20_000)], &[("PORT", "80")], format!("PORT=20000 {WHO}")),
            (
                &[("http", 20_001), ("a-b", 20_002), ("a_b", 20_003)],
                &[],
                format!(
                    "PORT=20001 {}",
                    WHO.replace(
                        "QUELEA_SERVICE",
                        "QUELEA_PORT_a_b=20002 QUELEA_PORT_http=20001 QUELEA_SERVICE"
                    )
                ),
            ),
            (&[], &[("QUELEA_SLOT", "mine")], WHO.into()),
        ];
        for (ports, env, wanted) in cases {
            let env = environment(&assignment(ports), &program(env), "n1");
            let text: Vec<String> = env.iter().map(|(k, v)| format!("{k}={v}")).collect();
            assert_eq!(text.join(" "), wanted);
        }
    }
}
