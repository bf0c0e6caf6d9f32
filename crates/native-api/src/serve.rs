//! Serving: connections accepted, limited, and ended.
//!
//! Each listener has room for so many connections; one more is told so and closed. A client that does not send the head of a
//! request in time is dropped. When serving ends, nobody is accepted any more, requests under way may finish
//! within a grace period (streams and blocking reads end by themselves), and then the rest is cut off.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::shutdown::Shutdown;

/// What a listener allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeLimits {
    /// Connections at a time.
    pub connections: usize,
    /// How long a client may take to send the head of a request, also of the next one on an open connection.
    pub head_timeout: Duration,
    /// Largest head of a request, in bytes; at least 8192.
    pub head_bytes: usize,
    /// Most headers of a request.
    pub headers: usize,
    /// How long requests under way may take when serving ends.
    pub grace: Duration,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            connections: 1024,
            head_timeout: Duration::from_secs(30),
            head_bytes: 16 * 1024,
            headers: 64,
            grace: Duration::from_secs(5),
        }
    }
}

/// How long to wait after a connection could not be accepted (too many open files, for example).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves a unix socket until `shutdown` begins and its connections have ended.
pub async fn serve_unix(listener: UnixListener, router: Router, limits: ServeLimits, shutdown: Shutdown) {
    serve(listener, router, limits, shutdown).await;
}

/// Serves a TCP port until `shutdown` begins and its connections have ended.
pub async fn serve_tcp(listener: TcpListener, router: Router, limits: ServeLimits, shutdown: Shutdown) {
    serve(listener, router, limits, shutdown).await;
}

/// Where connections come from.
trait Accept: Send + Sync {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Accept for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        UnixListener::accept(self).await.map(|(stream, _)| stream)
    }
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = TcpListener::accept(self).await?;
        // Answers are small and waited for.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

async fn serve<L: Accept>(listener: L, router: Router, limits: ServeLimits, shutdown: Shutdown) {
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = shutdown.begun() => break,
        };
        match (stream, Arc::clone(&room).try_acquire_owned()) {
            (Ok(stream), Ok(place)) => {
                connections.spawn(connection(stream, router.clone(), limits, shutdown.clone(), place));
            }
            (Ok(stream), Err(_)) => {
                // Bounded as well: it writes a few bytes into an empty buffer and is gone.
                connections.spawn(turn_away(stream));
            }
            (Err(_), _) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
    while connections.join_next().await.is_some() {}
}

async fn connection<S>(
    stream: S,
    router: Router,
    limits: ServeLimits,
    shutdown: Shutdown,
    _place: OwnedSemaphorePermit,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router);
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(limits.head_bytes)
        .max_headers(limits.headers)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(served);
    tokio::select! {
        _ = &mut served => return,
        () = shutdown.begun() => {}
    }
    served.as_mut().graceful_shutdown();
    // What is not over by then is cut off.
    let _ = tokio::time::timeout(limits.grace, served).await;
}

async fn turn_away<S: AsyncWrite + Unpin>(mut stream: S) {
    const FULL: &str = "{\"error\":\"this daemon serves as many connections as it allows; try again\"}";
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{FULL}",
        FULL.len()
    );
    let told = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), told).await;
}
