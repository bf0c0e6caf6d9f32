//! The example that the demo shows.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use crate::support::{Daemon, until};

#[test]
fn hello_answers_on_every_port_and_heals() {
    let daemon = Daemon::start();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace");
    let server = Path::new(crate::support::QUELEA).with_file_name("examples").join("hello-server");
    assert!(server.exists(), "{} is built with the tests", server.display());
    let file = root.join("examples/hello.yaml");
    let said = daemon
        .command(&["stack", "deploy", "-c", file.to_str().expect("a path"), "hello"])
        .env("HELLO_SERVER", &server)
        .output()
        .expect("it runs");
    assert!(
        said.status.success() || said.status.code() == Some(1),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    let tasks = daemon.converged("hello_web", 3);
    let mut ports = std::collections::BTreeSet::new();
    for task in &tasks {
        let port = task["ports"][0]["port"].as_u64().expect("a port");
        assert!(ports.insert(port), "each has its own port");
        until("it answers", || answer(port).is_some_and(|text| text.contains("web")));
    }
    until("what exits is replaced", || daemon.tasks("hello_flaky").len() >= 2);
    daemon.run(&["stack", "ps", "hello"]).ok();
    let again = daemon
        .command(&["stack", "deploy", "-d", "-c", file.to_str().expect("a path"), "hello"])
        .env("HELLO_SERVER", &server)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&again.stdout).into_owned() + &String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() && text.contains("unchanged"), "{text}");
    daemon.run(&["stack", "rm", "hello"]).ok();
    until("nothing is left", || daemon.get("/v1/tasks")["items"].as_array().is_some_and(Vec::is_empty));
}

fn answer(port: u64) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", u16::try_from(port).ok()?)).ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}
