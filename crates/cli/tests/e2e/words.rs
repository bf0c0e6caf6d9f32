//! Docker's words: what is taken, and what is refused with a sentence; and what a refused start leaves behind.

use crate::support::{Daemon, unique_seconds};

#[test]
fn what_docker_has_and_we_do_not_is_refused_by_a_sentence() {
    let daemon = Daemon::start();
    for (line, sentence) in [
        ("service create --mount type=bind,source=/a,target=/b nginx", "type=bind is not supported; "),
        ("service create --network front nginx", "--network is not supported yet: "),
        ("service create --health-cmd true nginx", "--health-cmd is not supported yet: "),
        ("service create --host db:10.0.0.1 nginx", "--host is not supported yet: "),
        ("service update --secret-add s web", "--secret-add is not supported yet: "),
        ("service update --env A=1 web", "--env is for `service create`; use --env-add"),
        ("service inspect --format {{.ID}} web", "templates are not supported"),
        ("service ls --format {{.ID}}", "templates are not supported"),
        ("service create --driver docker nginx", "the docker driver is to come"),
        ("stack config -c f", "stack config is not supported yet: "),
        ("stack deploy -c a -c b shop", "a second -c is not supported yet: "),
        ("node promote self", "node promote is not supported yet: "),
        ("node update --role worker self", "--role is not supported yet: "),
        ("swarm init", "swarm is not supported yet: "),
    ] {
        let args: Vec<&str> = line.split(' ').collect();
        let said = daemon.run(&args);
        assert_eq!(said.code, 2, "{line}: {}", said.err);
        assert!(said.err.contains(sentence), "{line}: {}", said.err);
        assert!(!said.err.contains("unexpected argument"), "{line}: {}", said.err);
    }
}

#[test]
fn the_version_is_the_same_however_it_is_asked_for() {
    let daemon = Daemon::start();
    let version = daemon.run(&["version"]).ok();
    assert!(version.starts_with("quelea "), "{version}");
    assert_eq!(daemon.run(&["--version"]).ok(), version);
    assert_eq!(daemon.run(&["-V"]).ok(), version);
}

#[test]
fn a_task_is_known_by_each_of_its_names() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    let create = ["service", "create", "--driver", "exec", "--with-registry-auth", "--detach=false"];
    daemon.run(&[&create[..], &["--name", "web", "--", "sleep", &mark]].concat()).ok();
    let global = ["--name", "each", "--mode", "global", "--", "sh", "-c"];
    daemon.run(&[&create[..], &global, &[&format!("echo up; sleep {mark}")]].concat()).ok();
    for service in ["web", "each"] {
        let task = daemon.converged(service, 1).remove(0);
        let id = task["id"].as_str().expect("an id").to_owned();
        let mut names = vec![id.clone(), id[..12].to_owned()];
        for flags in [&[][..], &["--no-trunc"], &["--no-resolve"]] {
            let shown = daemon.run(&[&["service", "ps", service], flags].concat()).ok();
            let row = shown.lines().nth(1).expect("a row");
            names.push(row.split_whitespace().nth(1).expect("a name").to_owned());
        }
        names.push(format!("{}.{id}", names[2]));
        names.push(format!("{}.{}", names[2], &id[..12]));
        for name in names {
            let why = daemon.run(&["why", "--json", &name]).json();
            assert!(why.to_string().contains(&id), "{name} is not {id}: {why}");
            daemon.run(&["service", "logs", &name]).ok();
        }
    }
    assert_eq!(daemon.run(&["service", "rm", "web", "each"]).ok(), "web\neach\n");
    assert_eq!(daemon.get("/v1/services")["items"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_service_that_fails_leads_to_its_output() {
    let daemon = Daemon::start();
    let create = ["service", "create", "--driver", "exec", "--name", "bad", "--restart-condition", "none"];
    let said = daemon.run(&[&create[..], &["--", "sh", "-c", "echo no; exit 3"]].concat());
    assert_eq!(said.code, 1);
    assert!(said.err.contains("`quelea service logs bad`"), "{}", said.err);
    let inspected = daemon.run(&["service", "inspect", "--pretty", "bad"]).ok();
    assert!(inspected.lines().any(|l| l.split_whitespace().eq(["Replaced:", "never"])), "{inspected}");
}

#[test]
fn a_stack_from_standard_input_has_its_variables_from_here() {
    use std::io::Write;
    let daemon = Daemon::start();
    let mark = unique_seconds();
    std::fs::write(daemon.path(".env"), format!("SECONDS_TO_SLEEP={mark}\n")).expect("written");
    let mut command = daemon.command(&["stack", "deploy", "-c", "-", "shop"]);
    command.stdin(std::process::Stdio::piped()).env_remove("SECONDS_TO_SLEEP");
    let mut child = command.spawn().expect("it starts");
    let text = "services:\n  web:\n    command: sleep ${SECONDS_TO_SLEEP:?is missing}\n";
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(crate::support::processes(&mark).len(), 1);
}

#[test]
fn a_refused_start_leaves_no_token() {
    let daemon = Daemon::start();
    let run = tempfile::tempdir().expect("a directory");
    let output = std::process::Command::new(crate::support::QUELEA)
        .args(["daemon", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(daemon.path("data"))
        .arg("--socket")
        .arg(run.path().join("other.sock"))
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let left: Vec<_> = std::fs::read_dir(run.path()).expect("there").flatten().map(|e| e.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn bash_completes_the_names_of_what_is_there() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    for name in ["web", "wiki", "api"] {
        let create = ["service", "create", "-d", "--driver", "exec", "--name", name];
        daemon.run(&[&create[..], &["--", "sleep", &mark]].concat()).ok();
    }
    let bin = std::path::Path::new(crate::support::QUELEA).parent().expect("a directory");
    let completed = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [.., before, current] = words.as_slice() else { panic!("{line}") };
        let script = format!(
            "export PATH={}:$PATH; source <(quelea completion bash); COMP_WORDS=({line}); COMP_CWORD={}; \
             _quelea_names quelea '{current}' {before}; echo \"${{COMPREPLY[*]}}\"",
            bin.display(),
            words.len() - 1,
        );
        let output = std::process::Command::new("bash")
            .args(["-c", &script])
            .env("QUELEA_HOST", format!("unix://{}", daemon.socket().display()))
            .output()
            .expect("bash");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(completed("quelea service ps w"), "web wiki");
    assert_eq!(completed("quelea -H unix:///x service rm web a"), "api");
    assert_eq!(completed("quelea service scale wi"), "wiki=");
    assert_eq!(completed("quelea node inspect sel"), "self");
    assert_eq!(completed("quelea service upd"), "update");
    assert_eq!(completed("quelea service ps --no-tr"), "--no-trunc");
    daemon.run(&["service", "rm", "web", "wiki", "api"]).ok();
}
