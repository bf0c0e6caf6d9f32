//! A small web server for the examples: says which task answers, and where it runs.
//!
//! It listens on the port in `PORT`, as every program that Quelea gives a host port does, and knows who it is from the
//! `QUELEA_...` variables. SIGTERM ends it, as it ends any program that does not object.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Longest request head that is read, in bytes.
const HEAD_BYTES: u64 = 16 * 1024;
/// How long a client may take for its request.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let port: u16 = match variable("PORT").as_str() {
        "" => return Err("PORT names no port to listen on".into()),
        text => text.parse().map_err(|_| format!("PORT={text:?} is not a port"))?,
    };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let greeting = Some(variable("GREETING")).filter(|g| !g.is_empty()).unwrap_or_else(|| "hello".into());
    let body = format!(
        "{greeting} from {task} (slot {slot}, task {id}) on {host}, process {pid}\n",
        task = variable("QUELEA_TASK_NAME"),
        slot = variable("QUELEA_SLOT"),
        id = variable("QUELEA_TASK_ID"),
        host = host.trim(),
        pid = std::process::id(),
    );
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    println!("listening on port {port}");
    for stream in listener.incoming() {
        let body = body.clone();
        std::thread::spawn(move || {
            // A client that goes away halfway harms nobody but itself.
            let _ = stream.and_then(|stream| answer(stream, &body));
        });
    }
    Ok(())
}

/// Answers one request; everything that is asked for has the same answer.
fn answer(mut stream: TcpStream, body: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = BufReader::new((&stream).take(HEAD_BYTES));
    let mut line = String::new();
    while head.read_line(&mut line)? > 0 {
        if line == "\r\n" || line == "\n" {
            break;
        }
        line.clear();
    }
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
