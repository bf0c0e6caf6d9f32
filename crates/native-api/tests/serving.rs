//! Serving over real sockets: who is let in, limits, and the end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall say where")]

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{PATIENCE, World};
use native_api::{Access, ServeLimits, Token, serve_tcp, serve_unix};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

async fn tcp(limits: ServeLimits) -> (World, SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let world = World::with(Access::tcp(Token::new("s3cret"), address));
    let serving = tokio::spawn(serve_tcp(listener, world.router.clone(), limits, world.shutdown.clone()));
    (world, address, serving)
}

/// Everything that is answered until the other side closes.
async fn all(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    // A reset after the answer is as good as an end.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("an end");
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn say(stream: &mut (impl AsyncWrite + Unpin), text: &str) {
    stream.write_all(text.as_bytes()).await.expect("sent");
}

async fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    say(&mut stream, &format!("{request}\r\nConnection: close\r\n\r\n")).await;
    all(&mut stream).await
}

#[tokio::test]
async fn tcp_lets_in_who_has_the_token_and_the_right_name() {
    let (world, address, serving) = tcp(ServeLimits::default()).await;
    let host = format!("Host: {address}");
    let bearer = "Authorization: Bearer s3cret";
    for (request, status) in [
        (format!("GET /v1/info HTTP/1.1\r\n{host}\r\n{bearer}"), 200),
        (format!("GET /v1/info HTTP/1.1\r\n{host}"), 401),
        (format!("GET /v1/info HTTP/1.1\r\n{host}\r\nAuthorization: Bearer wrong"), 401),
        (format!("GET /nope HTTP/1.1\r\n{host}"), 401),
        (format!("GET /health HTTP/1.1\r\n{host}"), 200),
        (format!("GET /metrics HTTP/1.1\r\n{host}"), 200),
        (format!("GET /health HTTP/1.1\r\nHost: evil.example:{}", address.port()), 421),
        (format!("GET /v1/info HTTP/1.1\r\n{host}\r\n{bearer}\r\nOrigin: http://evil.example"), 403),
        (format!("OPTIONS /v1/services HTTP/1.1\r\n{host}\r\n{bearer}\r\nOrigin: http://evil.example"), 403),
    ] {
        let answer = ask(address, &request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        assert!(!answer.contains("s3cret"), "{answer}");
        assert!(answer.contains("cache-control: no-store"), "{answer}");
        assert!(!answer.contains("access-control-allow"), "{answer}");
    }
    world.shutdown.begin();
    timeout(PATIENCE, serving).await.expect("it ends").expect("without panic");
}

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    let limits = ServeLimits { connections: 2, ..ServeLimits::default() };
    let (world, address, serving) = tcp(limits).await;
    let hello = format!("GET /health HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        say(&mut stream, &hello).await;
        let mut first = [0; 15];
        stream.read_exact(&mut first).await.expect("an answer");
        assert_eq!(&first, b"HTTP/1.1 200 OK");
        held.push(stream);
    }
    let mut third = TcpStream::connect(address).await.expect("connected");
    let answer = all(&mut third).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    drop(held);
    // A place is free again as soon as a connection has ended.
    let free = async { while !ask(address, hello.trim_end()).await.starts_with("HTTP/1.1 200") {} };
    timeout(PATIENCE, free).await.expect("a place");
    world.shutdown.begin();
    serving.await.expect("it ends");
}

#[tokio::test]
async fn who_leaves_while_waiting_gives_the_place_back() {
    let limits = ServeLimits { connections: 1, ..ServeLimits::default() };
    let (world, address, serving) = tcp(limits).await;
    for target in ["/v1/services?index=0", "/v1/events"] {
        let mut waiting = TcpStream::connect(address).await.expect("connected");
        let head =
            format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer s3cret\r\n\r\n");
        say(&mut waiting, &head).await;
        let health = format!("GET /health HTTP/1.1\r\nHost: {address}");
        let full = async { while !ask(address, &health).await.starts_with("HTTP/1.1 503") {} };
        timeout(PATIENCE, full).await.expect("the place is taken");
        drop(waiting);
        let free = async { while !ask(address, &health).await.starts_with("HTTP/1.1 200") {} };
        timeout(PATIENCE, free).await.expect("long before the wait is over");
    }
    world.shutdown.begin();
    serving.await.expect("it ends");
}

#[tokio::test]
async fn slow_and_fat_heads_are_refused() {
    let limits = ServeLimits { head_timeout: Duration::from_millis(200), ..ServeLimits::default() };
    let (world, address, serving) = tcp(limits).await;
    let mut slow = TcpStream::connect(address).await.expect("connected");
    say(&mut slow, "GET /health HTTP/1.1\r\nHo").await;
    let answer = all(&mut slow).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    let fat = format!("GET /health HTTP/1.1\r\nHost: {address}\r\nX: {}", "x".repeat(64 * 1024));
    let mut stream = TcpStream::connect(address).await.expect("connected");
    // The other side may close before everything is sent.
    let _ = stream.write_all(fat.as_bytes()).await;
    let answer = all(&mut stream).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many: String = (0..100).map(|n| format!("X-{n}: 1\r\n")).collect();
    let answer =
        ask(address, &format!("GET /health HTTP/1.1\r\nHost: {address}\r\n{}", many.trim_end())).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert!(ask(address, &format!("GET /health HTTP/1.1\r\nHost: {address}")).await.contains(" 200 "));
    world.shutdown.begin();
    serving.await.expect("it ends");
}

#[tokio::test]
async fn a_body_that_is_too_large_hears_why() {
    let (world, address, serving) = tcp(ServeLimits::default()).await;
    const BYTES: usize = 10 << 20;
    let head = format!(
        "POST /v1/services HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer s3cret\r\nConnection: close\r\nContent-Length: {BYTES}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(address).await.expect("connected");
    say(&mut stream, &head).await;
    stream.write_all(&vec![b' '; BYTES]).await.expect("everything can be sent");
    let answer = all(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("larger than the 1 MiB"), "{answer}");
    world.shutdown.begin();
    serving.await.expect("it ends");
}

#[tokio::test]
async fn the_socket_serves_and_its_end_is_quick() {
    let dir = std::env::temp_dir().join(format!("quelea-native-api-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let path = dir.join("s.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let world = World::new();
    let limits = ServeLimits { grace: PATIENCE * 10, ..ServeLimits::default() };
    let serving = tokio::spawn(serve_unix(listener, world.router.clone(), limits, world.shutdown.clone()));
    world.create("web", 1).await;

    let mut refused = UnixStream::connect(&path).await.expect("connected");
    say(&mut refused, "GET /v1/info HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\nConnection: close\r\n\r\n")
        .await;
    assert!(all(&mut refused).await.starts_with("HTTP/1.1 403 "));

    let open = async |target: &str| {
        let mut stream = UnixStream::connect(&path).await.expect("connected");
        say(&mut stream, &format!("GET {target} HTTP/1.1\r\nHost: quelea\r\n\r\n")).await;
        stream
    };
    let mut events = open("/v1/events?from=oldest").await;
    let mut seen = String::new();
    while !seen.contains("\"action\":\"created\"") {
        let mut chunk = [0; 4096];
        let n = timeout(PATIENCE, events.read(&mut chunk)).await.expect("events").expect("read");
        assert!(n > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&chunk[..n]));
    }
    let mut blocked = open("/v1/services/web?index=1").await;
    let mut idle = open("/health").await;
    let mut head = [0; 15];
    idle.read_exact(&mut head).await.expect("an answer");
    world.shutdown.begin();
    // Far below the grace period: nothing has to be cut off.
    timeout(PATIENCE, serving).await.expect("it ends by itself").expect("without panic");
    assert!(all(&mut events).await.ends_with("0\r\n\r\n"), "the stream ends whole");
    let answer = all(&mut blocked).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") || answer.is_empty(), "{answer}");
    all(&mut idle).await;
    assert!(UnixStream::connect(&path).await.is_err(), "nobody listens any more");
    std::fs::remove_dir_all(&dir).expect("removed");
}
