//! A daemon for tests that says what its script says, over a real socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::JoinHandle;

use crate::client::{Client, Target};

/// One exchange: what must be asked (its beginning), and the raw answer.
pub struct Step {
    asked: String,
    answer: Vec<u8>,
    /// Without an answer: the connection is cut, instead of being left open.
    cut: bool,
}

impl Step {
    /// An answer in these very bytes.
    pub fn raw(asked: &str, answer: &str) -> Self {
        Self { asked: asked.into(), answer: answer.into(), cut: true }
    }

    /// No answer: what is asked for does not change.
    pub fn silence(asked: &str) -> Self {
        Self { asked: asked.into(), answer: Vec::new(), cut: false }
    }
}

/// An answer with a JSON body, as of the index.
pub fn json(asked: &str, status: u16, index: u64, body: &serde_json::Value) -> Step {
    json_with(asked, status, index, "", body)
}

/// As [`json`], with more header lines.
pub fn json_with(asked: &str, status: u16, index: u64, headers: &str, body: &serde_json::Value) -> Step {
    let body = body.to_string();
    let answer = format!(
        "HTTP/1.1 {status} Something\r\nX-Quelea-Index: {index}\r\nX-Quelea-Changed: {index}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Step { asked: asked.into(), answer: answer.into_bytes(), cut: true }
}

/// A stream in these chunks; it ends well only when `whole` says so, else the connection is cut.
pub fn stream(asked: &str, chunks: &[&str], whole: bool) -> Step {
    let mut answer = String::from("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for chunk in chunks {
        answer.push_str(&format!("{:x}\r\n{chunk}\r\n", chunk.len()));
    }
    if whole {
        answer.push_str("0\r\n\r\n");
    }
    Step { asked: asked.into(), answer: answer.into_bytes(), cut: true }
}

/// A daemon with a script.
pub struct Fake {
    dir: tempfile::TempDir,
    /// Kept open: whoever asks beyond the script waits for an answer.
    _listener: UnixListener,
    thread: JoinHandle<(Vec<String>, Vec<UnixStream>)>,
}

impl Fake {
    /// Serves the steps in order, one connection each.
    pub fn start(steps: Vec<Step>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        let kept = listener.try_clone().unwrap();
        let thread = std::thread::spawn(move || {
            // Without an answer the connection stays open: the thing that is asked for does not change.
            let mut held = Vec::new();
            let mut serve = |step: Step| {
                let (mut stream, _) = listener.accept().unwrap();
                let request = read_request(&stream);
                assert!(request.starts_with(&step.asked), "asked {request:?} instead of {:?}", step.asked);
                stream.write_all(&step.answer).unwrap();
                if step.answer.is_empty() && !step.cut {
                    held.push(stream);
                }
                request
            };
            let asked = steps.into_iter().map(&mut serve).collect();
            (asked, held)
        });
        Self { dir, _listener: kept, thread }
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        Client::new(Target::Unix(self.dir.path().join("s")), None)
    }

    /// What was asked, once the whole script has been played: request line and body of each.
    pub fn asked(self) -> Vec<String> {
        self.thread.join().unwrap().0
    }
}

fn read_request(stream: &UnixStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    format!("{} {}", first.trim_end().trim_end_matches(" HTTP/1.1"), String::from_utf8(body).unwrap())
        .trim_end()
        .to_owned()
}
