//! Talks to one supervisor. Every failure means the same here: it is not there (any more), so look at the files.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::find;
use crate::driver::{Exit, Key};
use crate::protocol::{Request, SocketDir, is_hello, parse_exit_line, socket_name};
use crate::record::{LaunchRecord, PROTOCOL, StateDir};

/// How long a supervisor may take to answer what it can answer at once. It may be in the middle of a kill.
const ANSWER_TIME: Duration = Duration::from_secs(15);
/// How long it may take to make its socket again.
const SOCKET_TIME: Duration = Duration::from_millis(100);
/// The longest answer, in bytes: an exit record.
const MAX_ANSWER_BYTES: u64 = 4096;
/// One connection per program waits for its end for as long as it runs, so each should be small.
const BUFFER_BYTES: usize = 512;

struct Connection {
    stream: BufReader<UnixStream>,
}

/// Sends one request; true when the supervisor took it.
pub(super) async fn ask(key: &Key, request: Request) -> bool {
    let asked = async {
        let mut connection = Connection::open(key).await.ok()?;
        connection.say(request).await.ok()?;
        Some(connection.hear().await.ok()? == "ok")
    };
    tokio::time::timeout(ANSWER_TIME, asked).await.ok().flatten().unwrap_or(false)
}

/// Waits for the end of the program, as long as that takes; `None` when the supervisor went without a word.
pub(super) async fn wait(key: &Key) -> Option<Exit> {
    let connected = tokio::time::timeout(ANSWER_TIME, Connection::open(key)).await;
    let mut connection = connected.ok()?.ok()?;
    connection.say(Request::Wait).await.ok()?;
    parse_exit_line(&connection.hear().await.ok()?)
}

impl Connection {
    /// Connects and agrees on the version.
    async fn open(key: &Key) -> io::Result<Connection> {
        let state = StateDir::new(&key.dir, &key.program);
        let record = state.launch()?.ok_or(io::ErrorKind::NotFound)?;
        let stream = match connect(&record).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Somebody cleaned the run directory: the supervisor makes its socket anew when it is hung up.
                find::hang_up(&state)?;
                tokio::time::sleep(SOCKET_TIME).await;
                connect(&record).await
            }
            result => result,
        }?;
        let mut connection = Connection { stream: BufReader::with_capacity(BUFFER_BYTES, stream) };
        connection.say(Request::Hello { version: PROTOCOL }).await?;
        match is_hello(&connection.hear().await?) {
            true => Ok(connection),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    async fn say(&mut self, request: Request) -> io::Result<()> {
        self.stream.get_mut().write_all(request.line().as_bytes()).await
    }

    /// One line, without its end.
    async fn hear(&mut self) -> io::Result<String> {
        let mut line = String::new();
        (&mut self.stream).take(MAX_ANSWER_BYTES).read_line(&mut line).await?;
        match line.pop() {
            Some('\n') => Ok(line),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

async fn connect(record: &LaunchRecord) -> io::Result<UnixStream> {
    let dir = SocketDir::open(&record.launch.run_dir)?;
    UnixStream::connect(dir.path(&socket_name(&record.launch))).await
}
