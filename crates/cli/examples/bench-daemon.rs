//! Measures a daemon from outside: `cargo run --release -p cli --example bench-daemon -- [QUELEA]`.
//!
//! It starts the given program (by default the one beside it) on a fresh directory, asks over the API as any client would, and prints one row for
//! each figure. Nothing is left behind.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const STARTS: usize = 11;
const TASKS: usize = 41;
const REPLICAS: u64 = 200;
const IDLE: Duration = Duration::from_secs(20);

fn main() {
    let program = match std::env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => beside(),
    };
    let dir = std::env::temp_dir().join(format!("quelea-bench-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a temporary directory");
    measure(&program, &dir);
    fs::remove_dir_all(&dir).expect("the temporary directory");
}

/// The program in the directory above that of this example.
fn beside() -> PathBuf {
    let own = std::env::current_exe().expect("the path of this program");
    own.ancestors().nth(2).expect("examples lie in a directory of their own").join("quelea")
}

fn measure(program: &Path, dir: &Path) {
    let mut starts = Vec::new();
    for nth in 0..STARTS {
        let begin = Instant::now();
        let daemon = Daemon::start(program, &dir.join(format!("start-{nth}")));
        starts.push(begin.elapsed());
        daemon.stop();
    }
    row("daemon start to serving, empty (median)", millis(median(&mut starts)));

    let daemon = Daemon::start(program, &dir.join("data"));
    std::thread::sleep(Duration::from_secs(3));
    row("resident memory, idle", format!("{:.1} MB", daemon.resident_kib() as f64 / 1024.0));
    let (ticks, begin) = (daemon.cpu_ticks(), Instant::now());
    std::thread::sleep(IDLE);
    let share = (daemon.cpu_ticks() - ticks) as f64 / begin.elapsed().as_secs_f64();
    // A tick is a hundredth of a second on Linux.
    row("processor, idle", format!("{share:.2} % of a core"));

    let mut latencies: Vec<Duration> = (0..TASKS).map(|nth| daemon.submit(&format!("one-{nth}"))).collect();
    row("submit to running, one exec task (median)", millis(median(&mut latencies)));
    row("submit to running, one exec task (worst of 41)", millis(*latencies.last().expect("there are some")));
    for nth in 0..TASKS {
        daemon.call("DELETE", &format!("/v1/services/one-{nth}"), &Value::Null);
    }
    daemon.until_gone();

    daemon.call("POST", "/v1/services", &spec("many", 0));
    let begin = Instant::now();
    daemon.call("POST", "/v1/services/many/scale", &json!({ "replicas": REPLICAS }));
    daemon.wait("many", |s| s["status"]["running"] == REPLICAS);
    row("200 replicas running", millis(begin.elapsed()));
    let begin = Instant::now();
    daemon.call("POST", "/v1/services/many/scale", &json!({ "replicas": 0 }));
    daemon.wait("many", |s| s["status"]["tasks"].as_object().is_none_or(|t| t.values().all(|n| n == 0)));
    row("200 replicas ended and forgotten", millis(begin.elapsed()));
    daemon.call("DELETE", "/v1/services/many", &Value::Null);
    daemon.until_gone();
    row("resident memory, after all that", format!("{:.1} MB", daemon.resident_kib() as f64 / 1024.0));
    daemon.stop();
}

fn row(what: &str, value: impl std::fmt::Display) {
    println!("{what:<48} {value}");
}

fn millis(span: Duration) -> String {
    format!("{:.1} ms", span.as_secs_f64() * 1000.0)
}

fn median(spans: &mut [Duration]) -> Duration {
    spans.sort();
    spans[spans.len() / 2]
}

fn spec(name: &str, replicas: u64) -> Value {
    json!({ "name": name, "replicas": replicas, "programs": [{ "driver": "exec", "command": ["sleep", "1000"] }] })
}

struct Daemon {
    child: Child,
    socket: PathBuf,
}

impl Daemon {
    fn start(program: &Path, data: &Path) -> Self {
        let mut child = Command::new(program)
            .args(["daemon", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("is ready")), "the daemon did not start");
        Self { child, socket: data.join("run").join("quelea.sock") }
    }

    fn stop(mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        self.child.wait().expect("it is ours");
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = UnixStream::connect(&self.socket).expect("the daemon listens");
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: quelea\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all((head + &body).as_bytes()).expect("the request is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer in UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.split(' ').nth(1).is_some_and(|s| s.starts_with('2')), "{method} {path}: {answer}");
        serde_json::from_str(body).unwrap_or_default()
    }

    /// Reads a service whenever it has changed, until it is as wanted.
    fn wait(&self, service: &str, wanted: impl Fn(&Value) -> bool) {
        let mut index = 0;
        loop {
            let found =
                self.call("GET", &format!("/v1/services/{service}?index={index}&wait=30s"), &Value::Null);
            if wanted(&found) {
                return;
            }
            index = found["changed"].as_u64().expect("an index");
        }
    }

    fn submit(&self, name: &str) -> Duration {
        let begin = Instant::now();
        self.call("POST", "/v1/services", &spec(name, 1));
        self.wait(name, |s| s["status"]["running"] == 1);
        begin.elapsed()
    }

    fn until_gone(&self) {
        while self.call("GET", "/v1/info", &Value::Null)["tasks"] != 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("VmRSS");
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
    }

    /// Processor time used so far, in hundredths of a second.
    fn cpu_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime")
    }
}
