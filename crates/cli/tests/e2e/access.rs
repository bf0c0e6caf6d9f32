//! Who may use the TCP listener: whoever has the token, and no web page.

use std::io::Write;
use std::net::TcpStream;

use crate::support::{Daemon, eventually, read_answer};

struct Listener {
    address: String,
    token: String,
}

fn listener(daemon: &Daemon) -> Listener {
    let address = eventually("it says where it listens", || {
        let said = daemon.log();
        said.split("http://").nth(1)?.split_whitespace().next().map(str::to_owned)
    });
    let file = daemon.path("data").join("run").join("token");
    let token = std::fs::read_to_string(&file).expect("a token file").trim().to_owned();
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(&file).expect("it is there").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    Listener { address, token }
}

fn ask(listener: &Listener, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let mut stream = TcpStream::connect(&listener.address).expect("it listens");
    let mut text = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        text += &format!("Host: {}\r\n", listener.address);
    }
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += "\r\n";
    stream.write_all(text.as_bytes()).expect("written");
    let (status, _, body) = read_answer(stream).expect("an answer");
    (status, body)
}

#[test]
fn the_token_opens_and_nothing_else_does() {
    let daemon = Daemon::start();
    let listener = listener(&daemon);
    let bearer = format!("Bearer {}", listener.token);
    let right = ("Authorization", bearer.as_str());
    assert_eq!(ask(&listener, "/v1/services", &[right]).0, 200);
    for headers in [&[][..], &[("Authorization", "Bearer wrong")], &[("Authorization", "Basic abc")]] {
        let (status, body) = ask(&listener, "/v1/services", headers);
        assert_eq!(status, 401, "{body}");
        assert!(!body.contains(&listener.token));
    }
    assert_eq!(ask(&listener, "/health", &[]).0, 200);
    assert_eq!(ask(&listener, "/metrics", &[]).0, 200);
}

#[test]
fn a_web_page_is_refused() {
    let daemon = Daemon::start();
    let listener = listener(&daemon);
    let bearer = format!("Bearer {}", listener.token);
    let right = ("Authorization", bearer.as_str());
    for (headers, expected) in [
        ([right, ("Origin", "http://evil.example")], 403),
        ([right, ("Host", "evil.example")], 421),
        ([right, ("Origin", "null")], 403),
    ] {
        let (status, body) = ask(&listener, "/v1/services", &headers);
        assert_eq!(status, expected, "{headers:?}: {body}");
        assert!(body.contains("error"), "{body}");
    }
    assert_eq!(ask(&listener, "/health", &[("Host", "evil.example")]).0, 421);
}
