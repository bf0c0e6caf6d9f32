//! The daemon's process: listeners, the machine room behind them, and the order in which both begin and end.
//!
//! Listeners are bound first, so that a port that is taken is told before anything is touched. What is served begins once the
//! node leads; at the end the API answers until the node's part is over.

mod config;
mod keeper;
mod listeners;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::Labels;
use native_api::{Access, ServeLimits, Shutdown, Token, router, serve_tcp, serve_unix};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

pub use config::Config;
pub use keeper::{Keep, Keeper};

use crate::failure::Failure;
use crate::paths;
use crate::screen::Screen;
use listeners::{Socket, TokenFile, bind_tcp};

/// The longest that `dev` waits for its tasks to end when it is interrupted; each ends within its own grace period before.
const STOP_WITHIN: Duration = Duration::from_secs(60);

/// How long answers that are under way may take once the daemon ends.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// How to serve.
pub struct Settings {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// The unix socket of the native API.
    pub socket: PathBuf,
    /// The TCP address of the native API.
    pub listen: SocketAddr,
    /// Labels that this node gets.
    pub labels: Labels,
    /// Counted and named resources that this node offers.
    pub offers: Offers,
    /// The directories that it offers to tasks, by name.
    pub volumes: BTreeMap<Arc<str>, model::Volume>,
    /// True for `dev`: tasks end with it, and without a data directory of its own everything is thrown away.
    pub foreground: bool,
    /// True when the data is thrown away at the end.
    pub ephemeral: bool,
}

/// What a node offers besides processors and memory, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// So many of a kind.
    pub counts: BTreeMap<Arc<str>, i64>,
    /// These of a kind.
    pub names: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl Offers {
    /// Reads `gpu=2`, or `gpu=one,two` and likewise `gpu=one` and `gpu=two`.
    ///
    /// # Errors
    /// What is neither, or both.
    pub fn read(written: impl IntoIterator<Item = (String, String)>) -> Result<Self, Failure> {
        let mut offers = Self::default();
        for (kind, value) in written {
            offers.add(&kind, &value).map_err(|problem| {
                Failure::Usage(format!(
                    "--node-generic-resource (node_generic_resources) {kind}={value}: {problem}"
                ))
            })?;
        }
        Ok(offers)
    }

    fn add(&mut self, kind: &str, value: &str) -> Result<(), String> {
        model::check_resource_name(kind)?;
        let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            let most = model::limits::RESOURCE_COUNT;
            let count = value.parse().ok().filter(|count| (1..=most).contains(count));
            let Some(count) = count else { return Err(format!("not a count from 1 to {most}")) };
            if self.names.contains_key(kind) || self.counts.insert(kind.into(), count).is_some() {
                return Err("this kind is there already".into());
            }
            return Ok(());
        }
        if self.counts.contains_key(kind) {
            return Err("this kind is counted already; give it a number or names, not both".into());
        }
        let names = self.names.entry(kind.into()).or_default();
        for name in value.split(',') {
            if model::check_resource_name(name).is_err() || name.bytes().all(|b| b.is_ascii_digit()) {
                return Err(format!("{name:?} is neither a count above 0 nor the name of one {kind}"));
            }
            if !names.insert(name.into()) {
                return Err(format!("{name} is there twice"));
            }
        }
        let all: usize = self.names.values().map(BTreeSet::len).sum();
        if all > model::limits::NAMED_RESOURCES {
            return Err(format!("{all} are more than {}", model::limits::NAMED_RESOURCES));
        }
        Ok(())
    }
}

/// The program that supervises processes: this very file, even if a newer one was put in its place since.
pub fn supervisor() -> (PathBuf, Vec<OsString>) {
    (PathBuf::from("/proc/self/exe"), vec!["supervise".into()])
}

/// Runs until SIGINT or SIGTERM, or until the log fails.
pub fn run(settings: Settings, screen: &mut Screen) -> Result<(), Failure> {
    start_log();
    let soft_files = raise_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Failure::Refused(format!("cannot start: {e}")))?;
    let served = runtime.block_on(serve(&settings, soft_files, screen));
    // What still blocks a thread (a read of a log, say) is of no more interest.
    runtime.shutdown_timeout(Duration::from_millis(100));
    served
}

/// Lets this process have as many files open as it may: each program costs a connection to its supervisor. What the limit was
/// before is what programs get.
fn raise_files() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // It only goes up to what is allowed; if it fails all the same, the old limit holds.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    current
}

/// Log lines of the daemon go to standard error; `QUELEA_LOG` sets how many: error, warn (the default), info, debug or trace.
fn start_log() {
    let level = match std::env::var("QUELEA_LOG").unwrap_or_default().as_str() {
        "error" => tracing::Level::ERROR,
        "info" => tracing::Level::INFO,
        "debug" => tracing::Level::DEBUG,
        "trace" => tracing::Level::TRACE,
        _ => tracing::Level::WARN,
    };
    // The consensus engine tells us of its failures by its answers; what it logs itself is for whoever looks into it.
    let engine =
        if level >= tracing::Level::DEBUG { LevelFilter::from_level(level) } else { LevelFilter::OFF };
    let targets = Targets::new().with_default(level).with_target("openraft", engine);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    // It fails only when there is one already.
    let _ = tracing_subscriber::registry().with(lines.with_filter(targets)).try_init();
}

/// Binds, serves, ends. Of a throwaway cluster nothing is left, whichever way this ends.
async fn serve(settings: &Settings, soft_files: Option<u64>, screen: &mut Screen) -> Result<(), Failure> {
    let bound = bind(settings).await;
    if !settings.ephemeral {
        return serve_bound(settings, bound?, soft_files, screen).await;
    }
    let keeper = match &bound {
        // Only what is ours may be removed: the socket is, once it is bound.
        Ok(bound) => {
            Keeper::start(&settings.data_dir, &[settings.socket.clone(), bound.token.path().to_owned()])
        }
        Err(_) => Keeper::start(&settings.data_dir, &[]),
    };
    let served = match bound {
        Ok(bound) => serve_bound(settings, bound, soft_files, screen).await,
        Err(failure) => Err(failure),
    };
    keeper?.finish();
    served
}

/// The listeners, and the token of the TCP one.
struct Bound {
    tcp: TcpListener,
    address: SocketAddr,
    socket: Socket,
    token: TokenFile,
}

async fn bind(settings: &Settings) -> Result<Bound, Failure> {
    let tcp = bind_tcp(settings.listen).await?;
    let address = tcp.local_addr().map_err(|e| Failure::Refused(format!("--listen: {e}")))?;
    let socket = Socket::bind(&settings.socket)?;
    let token = TokenFile::open(settings.socket.with_file_name(paths::TOKEN))?;
    Ok(Bound { tcp, address, socket, token })
}

async fn serve_bound(
    settings: &Settings,
    bound: Bound,
    soft_files: Option<u64>,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let Bound { tcp, address, socket, mut token } = bound;
    let mut signals = Signals::new()?;

    let node = node::Node::start(node::Options {
        data_dir: settings.data_dir.clone(),
        run_dir: settings.data_dir.join("run"),
        ephemeral: settings.ephemeral,
        labels: settings.labels.clone(),
        generic: settings.offers.counts.clone(),
        named: settings.offers.names.clone(),
        volumes: settings.volumes.clone(),
        supervisor: supervisor(),
        soft_files,
    });
    let node = node.await.map_err(|e| Failure::Refused(format!("cannot start: {e}")))?;
    token.keep();

    let shutdown = Shutdown::new();
    let on_socket = router(node.cluster(), Access::Socket, shutdown.clone());
    let on_tcp = router(node.cluster(), Access::tcp(Token::new(token.text()), address), shutdown.clone());
    let serving = [
        tokio::spawn(serve_unix(socket.listener()?, on_socket, ServeLimits::default(), shutdown.clone())),
        tokio::spawn(serve_tcp(tcp, on_tcp, ServeLimits::default(), shutdown.clone())),
    ];
    welcome(settings, address, token.path(), screen)?;
    if let Some(warning) = in_the_clear(address) {
        screen.note(warning)?;
    }

    let failed = tokio::select! {
        () = signals.next() => None,
        reason = node.failed() => Some(reason),
    };
    if settings.foreground && failed.is_none() {
        screen.note("stopping; interrupt again to leave at once")?;
        tokio::select! {
            () = node.stop_tasks(STOP_WITHIN) => {}
            () = signals.next() => {}
            _ = node.failed() => {}
        }
    }
    shutdown.begin();
    for served in serving {
        let _ = tokio::time::timeout(LAST_ANSWERS, served).await;
    }
    node.shut_down().await;
    drop(socket);
    match failed {
        Some(reason) => {
            Err(Failure::Refused(format!("the log has failed, nothing more can be acknowledged: {reason}")))
        }
        None => Ok(()),
    }
}

/// What is to be said of a listener that other machines can reach.
fn in_the_clear(address: SocketAddr) -> Option<String> {
    if address.ip().to_canonical().is_loopback() {
        return None;
    }
    let from = if address.ip().is_unspecified() {
        "on every address of this machine"
    } else {
        "from other machines"
    };
    Some(format!(
        "warning: the API can be reached at {address}, {from}, in the clear: whoever reads along has the token and may run anything here; \
         use --listen 127.0.0.1:{} and a tunnel, or a network that is yours alone",
        address.port()
    ))
}

fn welcome(
    settings: &Settings,
    address: SocketAddr,
    token: &Path,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let socket = settings.socket.display();
    screen.line(format!("quelea {} is ready", env!("CARGO_PKG_VERSION")))?;
    screen.line(format!("  socket  {socket}"))?;
    screen.line(format!("  tcp     http://{address}  (token in {})", token.display()))?;
    screen.line(format!("  data    {}", settings.data_dir.display()))?;
    if settings.foreground {
        let usual = paths::run_dir().map(|dir| dir.join(paths::SOCKET));
        screen.line("")?;
        screen.line("Next, in another terminal:")?;
        if usual.as_deref() != Some(settings.socket.as_path()) {
            screen.line(format!("  export QUELEA_HOST=unix://{socket}"))?;
        }
        screen.line("  quelea service create --driver exec --name hello --replicas 3 -- sleep 1000")?;
        screen.line("  quelea service ps hello")?;
        screen.line("  quelea why hello")?;
        screen.line("")?;
        screen.line("Ctrl-C stops everything.")?;
    }
    screen.flush()
}

/// SIGINT and SIGTERM.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let open =
            |kind| signal(kind).map_err(|e| Failure::Refused(format!("cannot listen for signals: {e}")));
        Ok(Self { interrupt: open(SignalKind::interrupt())?, terminate: open(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_for_others_is_warned_of() {
        for (address, warned) in [
            ("127.0.0.1:4747", None),
            ("[::1]:4747", None),
            ("[::ffff:127.0.0.1]:4747", None),
            ("0.0.0.0:4747", Some("every address")),
            ("[::]:4747", Some("every address")),
            ("10.0.0.5:4747", Some("from other machines")),
        ] {
            let said = in_the_clear(address.parse().unwrap());
            assert_eq!(said.is_some(), warned.is_some(), "{address}");
            if let (Some(said), Some(part)) = (said, warned) {
                assert!(said.contains(part) && said.contains("in the clear"), "{said}");
            }
        }
    }
}
