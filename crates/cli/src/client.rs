//! The native API as a client sees it: one HTTP request a connection, over the unix socket or TCP.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use native_api::types::{ErrorBody, List};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::{TcpStream, UnixStream};

use crate::failure::Failure;
use crate::paths;

/// Longest answer that is read whole, in bytes.
const ANSWER_BYTES: usize = 1 << 30;
/// Longest single line of a stream, in bytes.
const LINE_BYTES: usize = 16 << 20;
/// How long a daemon may take to take a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a daemon may take to answer, beyond what a blocking read asks for.
const ANSWER: Duration = Duration::from_secs(60);

/// Where the daemon is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A unix socket.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
}

impl Target {
    /// Reads `unix:///path` or `tcp://host:port`.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = || {
            Failure::Usage(format!(
                "{text:?} names no daemon; write unix:///path/quelea.sock or tcp://host:port"
            ))
        };
        if let Some(path) = text.strip_prefix("unix://") {
            return if path.starts_with('/') { Ok(Self::Unix(path.into())) } else { Err(wrong()) };
        }
        let address = text.strip_prefix("tcp://").ok_or_else(wrong)?.trim_end_matches('/');
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        let fine = !host.is_empty() && port.parse::<u16>().is_ok() && !address.contains(['/', '@', ' ']);
        if fine { Ok(Self::Tcp(address.into())) } else { Err(wrong()) }
    }
}

/// A daemon, and what lets us in.
#[derive(Clone, Debug)]
pub struct Client {
    target: Target,
    token: Option<String>,
}

/// A value with the state of the cluster in which it was read.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    /// What was read.
    pub value: T,
    /// The index of the state that was read.
    pub index: u64,
    /// The index that last changed what was read; a blocking read waits until it is above the one it names.
    pub changed: u64,
}

/// A path of the API: segments are escaped, queries added in order.
#[derive(Clone, Debug)]
pub struct Route {
    path: String,
    /// What makes it a blocking read.
    blocking: String,
}

impl Route {
    /// `/v1/` and these segments.
    pub fn new(segments: &[&str]) -> Self {
        let escaped: Vec<String> = segments.iter().map(|s| escape(s)).collect();
        Self { path: format!("/v1/{}", escaped.join("/")), blocking: String::new() }
    }

    /// With one more query parameter.
    pub fn with(mut self, name: &str, value: impl AsRef<str>) -> Self {
        let sign = if self.path.contains('?') { '&' } else { '?' };
        self.path.push_str(&format!("{sign}{name}={}", escape(value.as_ref())));
        self
    }

    /// With the parameter when there is a value.
    pub fn with_some(self, name: &str, value: Option<impl AsRef<str>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// As a blocking read: answers once the thing has changed after `index`, or after `wait`.
    pub fn beyond(self, index: u64, wait: Duration) -> Self {
        Self { blocking: format!("index={index}&wait={}ms", wait.as_millis()), ..self }
    }

    /// The same, read at once, from behind `last`.
    fn after(&self, last: &str) -> Self {
        Self { path: self.path.clone(), blocking: String::new() }.with("after", last)
    }

    fn uri(&self) -> String {
        let sign = match (self.blocking.is_empty(), self.path.contains('?')) {
            (true, _) => "",
            (false, true) => "&",
            (false, false) => "?",
        };
        format!("{}{sign}{}", self.path, self.blocking)
    }
}

/// Percent-encodes all but the unreserved characters of RFC 3986.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

impl Client {
    /// The daemon that `QUELEA_HOST` names (or `host`, which wins), else the one on this machine.
    ///
    /// # Errors
    /// When none is named and none can be guessed, or a token file cannot be read.
    pub fn from_environment(host: Option<&str>) -> Result<Self, Failure> {
        let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let target = match host.map(str::to_owned).or_else(|| variable("QUELEA_HOST")) {
            Some(text) => Target::parse(&text)?,
            None => Target::Unix(default_socket()?),
        };
        let token = match (&target, variable("QUELEA_TOKEN"), variable("QUELEA_TOKEN_FILE")) {
            (Target::Unix(_), _, _) => None,
            (Target::Tcp(_), Some(token), _) => Some(token),
            (Target::Tcp(_), None, Some(file)) => Some(read_token(Path::new(&file))?),
            // The daemon of this machine leaves its token where its socket is; another one's must be named.
            (Target::Tcp(_), None, None) => {
                paths::run_dir().and_then(|dir| read_token(&dir.join(paths::TOKEN)).ok())
            }
        };
        Ok(Self { target, token })
    }

    /// A client of this target.
    #[cfg(test)]
    pub fn new(target: Target, token: Option<String>) -> Self {
        Self { target, token }
    }

    /// Reads one object.
    pub async fn get<T: DeserializeOwned>(&self, route: Route) -> Result<Answer<T>, Failure> {
        self.read(&route).await.map(|(answer, _)| answer)
    }

    /// Reads a list, page by page where the daemon gives it so. The indexes are those of the first page: what changes while
    /// the others are read is read again by whoever waits for changes.
    pub async fn list<T: DeserializeOwned>(&self, route: Route) -> Result<Answer<Vec<T>>, Failure> {
        let (answer, mut next) = self.read::<List<T>>(&route).await?;
        let List { index, changed, mut items } = answer.value;
        while let Some(last) = next {
            let (answer, further) = self.read::<List<T>>(&route.after(&last)).await?;
            // A page without anything on it leads nowhere.
            next = further.filter(|f| *f != last && !answer.value.items.is_empty());
            items.extend(answer.value.items);
        }
        Ok(Answer { value: items, index, changed })
    }

    /// Reads something, and what the daemon names as the last of this page when there is another one.
    async fn read<T: DeserializeOwned>(&self, route: &Route) -> Result<(Answer<T>, Option<String>), Failure> {
        let response = self.send(Method::GET, route, None).await?;
        let text = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok());
        let header = |name: &str| text(name).and_then(|v| v.parse().ok()).unwrap_or(0);
        let (index, changed) = (header("x-quelea-index"), header("x-quelea-changed"));
        let next = text("x-quelea-next").map(str::to_owned);
        Ok((Answer { value: read_json(response).await?, index, changed }, next))
    }

    /// Sends a request that changes something.
    pub async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        route: Route,
        body: Option<&impl Serialize>,
    ) -> Result<T, Failure> {
        let body = body.map(serde_json::to_vec).transpose();
        let body = body.map_err(|e| Failure::Refused(format!("cannot write JSON: {e}")))?;
        read_json(self.send(method, &route, body).await?).await
    }

    /// Removes something.
    pub async fn delete<T: DeserializeOwned>(&self, route: Route) -> Result<T, Failure> {
        self.change(Method::DELETE, route, None::<&()>).await
    }

    /// Opens a stream of lines.
    pub async fn lines(&self, route: Route) -> Result<Lines, Failure> {
        let response = self.send(Method::GET, &route, None).await?;
        Ok(Lines { body: response.into_body(), kept: Vec::new(), scanned: 0 })
    }

    async fn send(
        &self,
        method: Method,
        route: &Route,
        body: Option<Vec<u8>>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::builder().method(method).uri(route.uri()).header(HOST, self.host());
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|e| Failure::Refused(format!("this cannot be asked: {e}")))?;
        let connected = tokio::time::timeout(CONNECT, self.connect_and_send(request)).await;
        let response = match connected {
            Ok(pending) => pending?,
            Err(_) => {
                return Err(Failure::Refused(format!(
                    "the daemon at {} does not take connections",
                    self.name()
                )));
            }
        };
        let response = tokio::time::timeout(ANSWER + BLOCKING, response)
            .await
            .map_err(|_| Failure::Refused(format!("the daemon at {} does not answer", self.name())))??;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(refusal(response).await)
    }

    /// Connects, and returns the answer to come: connecting has a deadline of its own.
    async fn connect_and_send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<impl Future<Output = Result<Response<Incoming>, Failure>> + use<>, Failure> {
        let name = self.name();
        let lost = move |e: hyper::Error| Failure::Refused(format!("lost the daemon at {name}: {e}"));
        match &self.target {
            Target::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(|e| no_daemon(path, &e))?;
                Ok(Box::pin(exchange(TokioIo::new(stream), request, lost)) as Pending)
            }
            Target::Tcp(address) => {
                let stream = TcpStream::connect(address)
                    .await
                    .map_err(|e| Failure::Refused(format!("no daemon answers at tcp://{address}: {e}")))?;
                Ok(Box::pin(exchange(TokioIo::new(stream), request, lost)) as Pending)
            }
        }
    }

    fn host(&self) -> &str {
        match &self.target {
            Target::Unix(_) => "localhost",
            Target::Tcp(address) => address,
        }
    }

    fn name(&self) -> String {
        match &self.target {
            Target::Unix(path) => path.display().to_string(),
            Target::Tcp(address) => format!("tcp://{address}"),
        }
    }
}

/// Longest wait that a blocking read of ours asks for.
pub const BLOCKING: Duration = Duration::from_secs(30);

type Pending = std::pin::Pin<Box<dyn Future<Output = Result<Response<Incoming>, Failure>>>>;

async fn exchange<S>(
    stream: TokioIo<S>,
    request: Request<Full<Bytes>>,
    lost: impl Fn(hyper::Error) -> Failure,
) -> Result<Response<Incoming>, Failure>
where
    TokioIo<S>: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
    S: 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(&lost)?;
    // The connection ends with its one request; whatever ends it early is told through the answer.
    tokio::task::spawn_local(async move {
        let _ = connection.await;
    });
    sender.send_request(request).await.map_err(&lost)
}

fn default_socket() -> Result<PathBuf, Failure> {
    paths::run_dir().map(|dir| dir.join(paths::SOCKET)).ok_or_else(|| {
        Failure::Refused(
            "cannot guess where the daemon is, because XDG_RUNTIME_DIR is not set; set QUELEA_HOST=unix:///path/quelea.sock".into(),
        )
    })
}

fn read_token(path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::Refused(format!("cannot read the token in {}: {e}", path.display())))?;
    Ok(text.trim().to_owned())
}

fn no_daemon(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::Refused(match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
            "no daemon answers at {path}; start one with `quelea dev` (or `quelea daemon`), or name another with QUELEA_HOST=unix:///path/quelea.sock"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("the socket {path} may only be used by the user who runs the daemon")
        }
        _ => format!("cannot reach the daemon at {path}: {error}"),
    })
}

async fn read_bytes(response: Response<Incoming>) -> Result<Bytes, Failure> {
    let whole = Limited::new(response.into_body(), ANSWER_BYTES).collect();
    match tokio::time::timeout(ANSWER, whole).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(e)) => Err(Failure::Refused(format!("the daemon's answer broke off: {e}"))),
        Err(_) => Err(Failure::Refused("the daemon's answer does not end".into())),
    }
}

async fn read_json<T: DeserializeOwned>(response: Response<Incoming>) -> Result<T, Failure> {
    let bytes = read_bytes(response).await?;
    serde_json::from_slice(&bytes).map_err(|e| {
        Failure::Refused(format!(
            "the daemon's answer is not understood ({e}); are its version and this one's the same?"
        ))
    })
}

async fn refusal(response: Response<Incoming>) -> Failure {
    let status = response.status();
    let bytes = match read_bytes(response).await {
        Ok(bytes) => bytes,
        Err(failure) => return failure,
    };
    let mut body = serde_json::from_slice(&bytes).unwrap_or_else(|_| ErrorBody {
        error: format!("the daemon answered {status}"),
        ..ErrorBody::default()
    });
    if status == StatusCode::UNAUTHORIZED {
        body.error.push_str("; set QUELEA_TOKEN to it, or QUELEA_TOKEN_FILE to a file that holds it");
    }
    Failure::Api { status: status.as_u16(), body: Box::new(body) }
}

/// Lines of a body that comes bit by bit.
#[derive(Debug)]
pub struct Lines {
    body: Incoming,
    kept: Vec<u8>,
    scanned: usize,
}

impl Lines {
    /// The next line without its end; `None` at the end of the stream.
    ///
    /// # Errors
    /// When the connection is lost or a line has no end.
    pub async fn next(&mut self) -> Result<Option<String>, Failure> {
        loop {
            if let Some(end) = self.kept[self.scanned..].iter().position(|b| *b == b'\n') {
                let mut line: Vec<u8> = self.kept.drain(..=self.scanned + end).collect();
                self.scanned = 0;
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
            }
            self.scanned = self.kept.len();
            if self.kept.len() > LINE_BYTES {
                return Err(Failure::Refused("the daemon sent a line without an end".into()));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.kept.extend_from_slice(&data);
                    }
                }
                // What the connection's library says of it helps nobody.
                Some(Err(_)) => return Err(Failure::Refused("the connection to the daemon ended".into())),
                None if self.kept.is_empty() => return Ok(None),
                None => {
                    self.scanned = 0;
                    let rest = std::mem::take(&mut self.kept);
                    return Ok(Some(String::from_utf8_lossy(&rest).into_owned()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{self, Fake, Step};

    #[test]
    fn targets() {
        assert_eq!(Target::parse("unix:///run/q.sock").unwrap(), Target::Unix("/run/q.sock".into()));
        assert_eq!(Target::parse("tcp://localhost:4747/").unwrap(), Target::Tcp("localhost:4747".into()));
        assert_eq!(Target::parse("tcp://[::1]:1").unwrap(), Target::Tcp("[::1]:1".into()));
        for text in [
            "",
            "/run/q.sock",
            "unix://q",
            "tcp://host",
            "tcp://:1",
            "tcp://h:x",
            "tcp://a@h:1",
            "http://h:1",
        ] {
            assert!(matches!(Target::parse(text), Err(Failure::Usage(_))), "{text}");
        }
    }

    #[test]
    fn routes_are_escaped() {
        let route = Route::new(&["services", "a/b ü"]).with("x", "1&2").beyond(7, Duration::from_secs(2));
        assert_eq!(route.uri(), "/v1/services/a%2Fb%20%C3%BC?x=1%262&index=7&wait=2000ms");
    }

    #[test]
    fn answers_and_refusals() {
        let refused = serde_json::json!({"error": "no such service \"nope\"", "field": "service"});
        let daemon = Fake::start(vec![
            fake::json(
                "GET /v1/services?index=3&wait=30000ms",
                200,
                7,
                &serde_json::json!({"index": 7, "changed": 5, "items": [1, 2]}),
            ),
            fake::json("GET /v1/services/nope", 404, 7, &refused),
            fake::json("POST /v1/services {\"a\":1}", 201, 8, &serde_json::json!("made")),
            Step::raw("GET /v1/info", "HTTP/1.1 502 Bad\r\nContent-Length: 4\r\n\r\noops"),
            Step::raw("GET /v1/info", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\noops"),
            Step::raw("GET /v1/info", ""),
            fake::json("GET /v1/info", 401, 7, &serde_json::json!({"error": "a token is needed"})),
        ]);
        let client = daemon.client();
        let failures = crate::commands::block_on(async {
            let list = client.list::<u8>(Route::new(&["services"]).beyond(3, BLOCKING)).await?;
            assert_eq!((list.value, list.index, list.changed), (vec![1, 2], 7, 5));
            let mut failures = vec![client.get::<u8>(Route::new(&["services", "nope"])).await.unwrap_err()];
            let body = serde_json::json!({"a": 1});
            let made: String = client.change(Method::POST, Route::new(&["services"]), Some(&body)).await?;
            assert_eq!(made, "made");
            for _ in 0..4 {
                failures.push(client.get::<u8>(Route::new(&["info"])).await.unwrap_err());
            }
            Ok(failures)
        })
        .unwrap();
        daemon.asked();
        assert!(failures[0].is_not_found());
        for (failure, part) in failures.iter().zip([
            "no such service \"nope\"",
            "the daemon answered 502",
            "the daemon's answer is not understood",
            "lost the daemon at ",
            "a token is needed; set QUELEA_TOKEN to it",
        ]) {
            assert!(failure.to_string().contains(part), "{failure}");
        }
    }

    #[test]
    fn a_list_is_read_to_its_last_page() {
        let page = |asked: &str, items: &[u8], next: Option<&str>| {
            let body = serde_json::json!({"index": 7, "changed": 5, "items": items});
            match next {
                Some(next) => fake::json_with(asked, 200, 7, &format!("X-Quelea-Next: {next}\r\n"), &body),
                None => fake::json(asked, 200, 7, &body),
            }
        };
        let daemon = Fake::start(vec![
            page("GET /v1/tasks?service=web&index=3&wait=30000ms", &[1, 2], Some("t2")),
            // What follows is there already: nothing is waited for.
            page("GET /v1/tasks?service=web&after=t2", &[3, 4], Some("t4")),
            page("GET /v1/tasks?service=web&after=t4", &[5], None),
        ]);
        let client = daemon.client();
        let route = Route::new(&["tasks"]).with("service", "web").beyond(3, BLOCKING);
        let list = crate::commands::block_on(client.list::<u8>(route)).unwrap();
        assert_eq!((list.value, list.index, list.changed), (vec![1, 2, 3, 4, 5], 7, 5));
        assert_eq!(daemon.asked()[1], "GET /v1/tasks?service=web&after=t2");
    }

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let daemon = Fake::start(vec![
            fake::stream("GET /v1/events", &["one\ntw", "o\r", "\n\nthree"], true),
            fake::stream("GET /v1/events", &["one\ntw"], false),
        ]);
        let client = daemon.client();
        crate::commands::block_on(async {
            let mut lines = client.lines(Route::new(&["events"])).await?;
            for line in ["one", "two", "", "three"] {
                assert_eq!(lines.next().await?.as_deref(), Some(line));
            }
            assert_eq!(lines.next().await?, None);
            let mut lines = client.lines(Route::new(&["events"])).await?;
            assert_eq!(lines.next().await?.as_deref(), Some("one"));
            assert!(matches!(lines.next().await, Err(Failure::Refused(_))));
            Ok(())
        })
        .unwrap();
        daemon.asked();
    }

    #[test]
    fn without_a_daemon_one_sentence_says_how_to_start_one() {
        let dir = tempfile::tempdir().unwrap();
        let client = Client::new(Target::Unix(dir.path().join("no.sock")), None);
        let asked = crate::commands::block_on(client.get::<serde_json::Value>(Route::new(&["info"])));
        let said = asked.unwrap_err();
        assert!(matches!(said, Failure::Refused(_)));
        assert!(said.to_string().contains("start one with `quelea dev`"), "{said}");
        assert!(!said.to_string().contains('\n'));
    }
}
