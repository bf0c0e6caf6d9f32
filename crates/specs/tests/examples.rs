//! Every example of the repository can be deployed as it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use model::Mode;
use specs::{parse_stack, variables};

fn examples() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("the examples are there") {
        let path = entry.expect("it can be read").path();
        if path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            let name = path.file_name().expect("a file").to_string_lossy().into_owned();
            found.push((name, std::fs::read_to_string(&path).expect("it is text")));
        }
    }
    found
}

#[test]
fn every_example_is_accepted_without_a_word() {
    let examples = examples();
    assert!(!examples.is_empty());
    for (name, text) in examples {
        let stack = parse_stack(&text, &name, &BTreeMap::new()).unwrap_or_else(|problems| {
            panic!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        });
        assert!(stack.warnings.is_empty(), "{name}: {:?}", stack.warnings);
    }
}

#[test]
fn hello_shows_what_it_promises() {
    let (name, text) = examples().into_iter().find(|(n, _)| n == "hello.yaml").expect("hello.yaml");
    assert_eq!(variables(&text), BTreeSet::from(["GREETING", "HELLO_SERVER"].map(str::to_owned)));
    let vars = BTreeMap::from([("HELLO_SERVER".to_owned(), "/opt/hello server".to_owned())]);
    let stack = parse_stack(&text, &name, &vars).expect("it is accepted");
    let [web, heartbeat, flaky] = &stack.services[..] else { panic!("three services") };
    assert_eq!((&*web.name, web.mode), ("web", Mode::Replicated { replicas: 3 }));
    // A path with a blank stays one word.
    assert_eq!(*web.task.programs[0].command, ["/opt/hello server".into()]);
    assert_eq!((web.task.ports.len(), web.task.ports[0].published), (1, 0));
    assert_eq!((&*heartbeat.name, heartbeat.mode), ("heartbeat", Mode::Global));
    assert!(heartbeat.task.programs[0].command[2].contains("wait $!"));
    assert_eq!(&*flaky.name, "flaky");
    assert_eq!(flaky.task.replace.delay, model::Span::from_secs(2));
}
