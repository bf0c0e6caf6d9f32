//! Who may ask. The door of the API: nothing passes without it.
//!
//! On the socket, the permissions of its file decide; no browser can open it, and a request that comes from a web page all
//! the same is refused. On TCP, a web page that the operator visits can reach the port, also under a name that it made point
//! here (DNS rebinding): hence the host must be one of ours, an origin must be our own, and everything but
//! `/health` and `/metrics` needs the bearer token.

use std::fmt;
use std::hint::black_box;
use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, StatusCode, Uri, header};

use crate::errors::ApiError;

/// Who may ask.
#[derive(Clone, Debug)]
pub enum Access {
    /// Whoever can open the socket.
    Socket,
    /// Whoever has the token, under a host name of ours.
    Tcp {
        /// The bearer token.
        token: Token,
        /// What the `Host` header may say, in lower case, with the port.
        hosts: Vec<String>,
    },
}

/// A bearer token. Never shown.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The token with this text. One without text matches nothing.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Compares in a time that depends on the lengths alone.
    fn matches(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differ = own.iter().zip(given).fold(0u8, |sum, (a, b)| black_box(sum | (a ^ b)));
        black_box(differ) == 0 && own.len() == given.len() && !own.is_empty()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Paths that are open to whoever reaches the listener: they tell nothing that is worth a token.
const OPEN: [&str; 2] = ["/health", "/metrics"];

impl Access {
    /// Access over TCP to a listener at `address`: with this token, under `127.0.0.1`, `localhost`, `[::1]`, or the address
    /// itself when it is a certain one.
    pub fn tcp(token: Token, address: SocketAddr) -> Self {
        let port = address.port();
        let mut hosts =
            vec![format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::1]:{port}")];
        let own = match address.ip() {
            IpAddr::V4(ip) => format!("{ip}:{port}"),
            IpAddr::V6(ip) => format!("[{ip}]:{port}"),
        };
        if !address.ip().is_unspecified() && !hosts.contains(&own) {
            hosts.push(own);
        }
        Self::Tcp { token, hosts }
    }

    /// Lets a request pass, or says why not.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        let Self::Tcp { token, hosts } = self else {
            return match headers.get(header::ORIGIN) {
                None => Ok(()),
                Some(_) => Err(foreign()),
            };
        };
        let host = checked_host(uri, headers, hosts)?;
        if let Some(origin) = headers.get(header::ORIGIN) {
            let own = origin.to_str().ok().and_then(|o| o.strip_prefix("http://"));
            if !own.is_some_and(|own| own.eq_ignore_ascii_case(&host)) {
                return Err(foreign());
            }
        }
        if OPEN.contains(&uri.path()) {
            return Ok(());
        }
        let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let Some((scheme, given)) = given.and_then(|g| g.split_once(' ')) else {
            return Err(unauthorized("needs the header Authorization: Bearer <token>"));
        };
        if !scheme.eq_ignore_ascii_case("bearer") || !token.matches(given.trim()) {
            return Err(unauthorized("does not carry the token of this daemon"));
        }
        Ok(())
    }
}

/// The host that a request names, when it is one of ours: in its header, and in its target if it has one there.
fn checked_host(uri: &Uri, headers: &HeaderMap, hosts: &[String]) -> Result<String, ApiError> {
    let named: Vec<_> = headers.get_all(header::HOST).iter().map(|h| h.to_str().ok()).collect();
    let host = match named[..] {
        [Some(host)] => host.to_ascii_lowercase(),
        _ => return Err(misdirected("a request must name one host")),
    };
    let target = uri.authority().map(|a| a.as_str().to_ascii_lowercase());
    if !hosts.contains(&host) || target.is_some_and(|target| target != host) {
        let shown: String = host.chars().take(80).collect();
        return Err(misdirected(&format!(
            "{shown:?} is not a name of this daemon; use {}",
            hosts.join(" or ")
        )));
    }
    Ok(host)
}

fn misdirected(problem: &str) -> ApiError {
    let mut refusal = ApiError::new(StatusCode::MISDIRECTED_REQUEST, format!("host: {problem}"));
    refusal.body.field = Some("host".into());
    refusal
}

fn foreign() -> ApiError {
    let sentence = "origin: requests from web pages are refused; use the command line or a client without an Origin header";
    let mut refusal = ApiError::new(StatusCode::FORBIDDEN, sentence);
    refusal.body.field = Some("origin".into());
    refusal
}

fn unauthorized(problem: &str) -> ApiError {
    let sentence = format!("the request {problem}; the token is in the daemon's token file");
    ApiError::new(StatusCode::UNAUTHORIZED, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(access: &Access, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: header::HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        access.check(&path.parse().unwrap(), &map).map_or_else(|e| e.status.as_u16(), |()| 200)
    }

    #[test]
    fn tcp_needs_host_origin_and_token() {
        let tcp = Access::tcp(Token::new("secret"), ([127, 0, 0, 1], 4747).into());
        let host = ("host", "localhost:4747");
        let token = ("authorization", "Bearer secret");
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], u16);
        let cases: [Case<'_>; 17] = [
            ("/v1/info", &[host, token], 200),
            ("/v1/info", &[("host", "127.0.0.1:4747"), token], 200),
            ("/v1/info", &[("host", "[::1]:4747"), token], 200),
            ("/v1/info", &[("host", "LOCALHOST:4747"), token], 200),
            ("/v1/info", &[host], 401),
            ("/v1/info", &[host, ("authorization", "Bearer secre")], 401),
            ("/v1/info", &[host, ("authorization", "Bearer secret2")], 401),
            ("/v1/info", &[host, ("authorization", "Basic secret")], 401),
            ("/v1/info", &[("host", "evil.example:4747"), token], 421),
            ("/v1/info", &[("host", "localhost"), token], 421),
            ("/v1/info", &[token], 421),
            ("/v1/info", &[host, host, token], 421),
            ("http://evil.example/v1/info", &[host, token], 421),
            ("/v1/info", &[host, token, ("origin", "http://localhost:4747")], 200),
            ("/v1/info", &[host, token, ("origin", "null")], 403),
            ("/metrics", &[host], 200),
            ("/health", &[("host", "evil.example:4747")], 421),
        ];
        for (path, headers, status) in cases {
            assert_eq!(asked(&tcp, path, headers), status, "{path} {headers:?}");
        }
        // Another name of ours is still another origin.
        assert_eq!(asked(&tcp, "/health", &[host, ("origin", "http://127.0.0.1:4747")]), 403);
        assert_eq!(asked(&tcp, "/health", &[host, ("origin", "https://localhost:4747")]), 403);
    }

    #[test]
    fn a_certain_address_is_a_name_too() {
        let host = |text: &str| [("host", text.to_owned())];
        let on = |address: &str| Access::tcp(Token::new("t"), address.parse().unwrap());
        let ask = |access: &Access, text: &str| {
            let headers = host(text);
            asked(access, "/health", &[(headers[0].0, &headers[0].1)])
        };
        assert_eq!(ask(&on("10.0.0.1:80"), "10.0.0.1:80"), 200);
        assert_eq!(ask(&on("[fd00::1]:80"), "[fd00::1]:80"), 200);
        assert_eq!(ask(&on("0.0.0.0:80"), "0.0.0.0:80"), 421);
    }

    #[test]
    fn the_socket_takes_everybody_but_web_pages() {
        assert_eq!(asked(&Access::Socket, "/v1/info", &[("host", "whatever")]), 200);
        assert_eq!(asked(&Access::Socket, "/v1/info", &[("origin", "http://localhost")]), 403);
    }

    #[test]
    fn tokens_are_neither_empty_nor_shown() {
        assert!(!Token::new("").matches(""));
        let access = Access::tcp(Token::new("secret"), ([127, 0, 0, 1], 1).into());
        assert!(!format!("{access:?}").contains("secret"));
    }
}
