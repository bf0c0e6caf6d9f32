//! A daemon of its own for each test, and ways to look at it from outside.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The program under test.
pub const QUELEA: &str = env!("CARGO_BIN_EXE_quelea");

/// After this long a condition is taken for one that will never come. Far above anything a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `condition` gives something.
#[track_caller]
pub fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "never came: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until `condition` holds.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    eventually(what, || condition().then_some(()));
}

/// What a command said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.out, self.err);
        self.out
    }

    #[track_caller]
    pub fn json(self) -> Value {
        serde_json::from_str(&self.ok()).expect("--json prints JSON")
    }
}

/// A daemon with a data directory of its own. Dropping it ends everything that it ran.
pub struct Daemon {
    dir: tempfile::TempDir,
    child: Option<Child>,
    extra: Vec<String>,
}

impl Daemon {
    /// Starts `quelea daemon` and waits until it answers.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts `quelea daemon` with further arguments.
    pub fn start_with(extra: &[&str]) -> Self {
        let mut daemon = Self {
            dir: tempfile::tempdir().expect("a temporary directory"),
            child: None,
            extra: extra.iter().map(ToString::to_string).collect(),
        };
        daemon.restart();
        daemon
    }

    /// The further arguments with which it is started from now on.
    pub fn set_arguments(&mut self, extra: &[&str]) {
        self.extra = extra.iter().map(ToString::to_string).collect();
    }

    /// Starts the daemon again on the same data.
    pub fn restart(&mut self) {
        let log =
            fs::OpenOptions::new().create(true).append(true).open(self.path("daemon.log")).expect("a log");
        let child = Command::new(QUELEA)
            .args(["daemon", "--data-dir"])
            .arg(self.path("data"))
            .args(["--listen", "127.0.0.1:0"])
            .args(&self.extra)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("the daemon starts");
        self.child = Some(child);
        let socket = self.socket();
        eventually("the daemon answers", || {
            let child = self.child.as_mut().expect("just started");
            if let Ok(Some(status)) = child.try_wait() {
                panic!("the daemon ended with {status}: {}", self.log());
            }
            let (status, nodes) = request(&socket, "GET", "/v1/nodes", "")?;
            (status == 200 && nodes.contains("\"ready\"")).then_some(())
        });
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn socket(&self) -> PathBuf {
        self.path("data").join("run").join("quelea.sock")
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("daemon.log")).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill9(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it can be killed");
        child.wait().expect("it is ours");
    }

    /// `kill -TERM`, and waits for its end.
    pub fn terminate(&mut self) -> i32 {
        let mut child = self.child.take().expect("it runs");
        signal(child.id(), "TERM");
        child.wait().expect("it is ours").code().unwrap_or(-1)
    }

    /// Runs a command of the program against this daemon.
    pub fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).output().expect("the program runs"))
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(QUELEA);
        command.args(args).env("QUELEA_HOST", format!("unix://{}", self.socket().display()));
        command.stdin(Stdio::null()).current_dir(self.dir.path());
        command
    }

    /// A read of the API.
    pub fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).expect("the API answers JSON")
    }

    pub fn call(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        request(&self.socket(), method, path, body).expect("the daemon answers")
    }

    /// The tasks of a service, ended ones included.
    pub fn tasks(&self, service: &str) -> Vec<Value> {
        let list = self.get(&format!("/v1/services/{service}/tasks"));
        list["items"].as_array().expect("a list").clone()
    }

    /// The tasks of a service that run and are wanted.
    pub fn running(&self, service: &str) -> Vec<Value> {
        let wanted = |t: &Value| t["state"] == "running" && t["desired"] == "running";
        self.tasks(service).into_iter().filter(wanted).collect()
    }

    /// Waits until a service has exactly so many running tasks.
    #[track_caller]
    pub fn converged(&self, service: &str, count: usize) -> Vec<Value> {
        eventually(&format!("{count} tasks of {service} run"), || {
            let running = self.running(service);
            (running.len() == count).then_some(running)
        })
    }

    /// The index that the API sees.
    pub fn index(&self) -> u64 {
        let (_, head, _) = exchange(&self.socket(), "GET", "/v1/services", "").expect("an answer");
        let line = head.lines().find(|l| l.to_ascii_lowercase().starts_with("x-quelea-index:"));
        let value = line.and_then(|l| l.split(':').nth(1)).expect("the index header");
        value.trim().parse().expect("a number")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.child.is_none() && self.path("data").exists() {
            // What it ran lives on without it: only a daemon can end that in good order.
            self.restart();
        }
        if let Some((200, body)) = request(&self.socket(), "GET", "/v1/services", "") {
            let list: Value = serde_json::from_str(&body).unwrap_or_default();
            for service in list["items"].as_array().into_iter().flatten() {
                let id = service["id"].as_str().unwrap_or_default();
                let _ = request(&self.socket(), "DELETE", &format!("/v1/services/{id}"), "");
            }
        }
        let start = Instant::now();
        while !supervised(&self.path("data")).is_empty() && start.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(10));
        }
        for pid in supervised(&self.path("data")) {
            signal(pid, "KILL");
        }
        if let Some(mut child) = self.child.take() {
            signal(child.id(), "TERM");
            let _ = child.wait();
        }
    }
}

/// One request on a connection of its own: status and body.
pub fn request(socket: &Path, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    exchange(socket, method, path, body).map(|(status, _, body)| (status, body))
}

/// One request: status, head and body.
pub fn exchange(socket: &Path, method: &str, path: &str, body: &str) -> Option<(u16, String, String)> {
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: quelea\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(text.as_bytes()).ok()?;
    read_answer(stream)
}

/// Reads an answer to its end.
pub fn read_answer(mut stream: impl Read) -> Option<(u16, String, String)> {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { unchunk(body) } else { body.to_owned() };
    Some((status, head.to_owned(), body))
}

fn unchunk(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, tail)) = rest.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else { break };
        if size == 0 || tail.len() < size {
            break;
        }
        body.push_str(&tail[..size]);
        rest = tail[size..].trim_start_matches("\r\n");
    }
    body
}

/// Sends a signal.
pub fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").args([format!("-{name}"), pid.to_string()]).stderr(Stdio::null()).status();
}

/// A number of seconds that no other sleep on this machine has: marks the processes of a test.
pub fn unique_seconds() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nth = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("9{:07}{nth:02}", std::process::id())
}

/// The processes whose arguments contain `mark`.
pub fn processes(mark: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        // What has ended and waits to be collected has no arguments any more.
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).split('\0').any(|arg| arg.contains(mark)) {
            found.insert(pid);
        }
    }
    found
}

/// The supervisors that work for this data directory.
pub fn supervised(data: &Path) -> BTreeSet<u32> {
    let mut found = processes(&data.join("tasks").display().to_string());
    found.remove(&std::process::id());
    found
}

/// The cgroups of quelea with processes or without, in every hierarchy.
pub fn cgroups(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                let path = entry.path();
                if path.display().to_string().contains(name) {
                    found.push(path.clone());
                }
                open.push(path);
            }
        }
    }
    found
}

/// The process of a task's only program.
pub fn pid_of(task: &Value) -> u32 {
    let pid = task["programs"][0]["pid"].as_u64();
    u32::try_from(pid.unwrap_or_else(|| panic!("no process in {task}"))).expect("a process id")
}

/// The id of an object.
pub fn id_of(object: &Value) -> String {
    object["id"].as_str().expect("an id").to_owned()
}
