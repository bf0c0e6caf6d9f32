//! The command line as data, and the way from it to what is done: a file for each group of commands.

mod cluster;
mod completion;
mod daemon;
mod dev;
mod drain;
mod events;
mod jobs;
mod logs;
mod mounts;
mod node;
mod options;
mod plan;
mod rebalance;
mod service;
mod service_spec;
mod service_update;
mod show;
mod simulate;
mod stack;
mod tasks;
mod update_policy;
mod version;
mod why;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::client::Client;
use crate::failure::Failure;
use crate::foreign;
use crate::screen::Screen;
use crate::serve::Keep;

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 4 timed out, 130 stopped by Ctrl-C.

Environment:
  QUELEA_HOST        the daemon: unix:///path/quelea.sock or tcp://host:port
  QUELEA_TOKEN       the token for tcp://; or QUELEA_TOKEN_FILE, a file that holds it
  NO_COLOR           when set, no colours";

/// A cluster orchestrator: keeps services running on a set of machines.
#[derive(Debug, Parser)]
#[command(name = "quelea", version, after_help = EXIT_CODES, max_term_width = 110)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    /// The daemon to talk to: unix:///path/quelea.sock or tcp://host:port.
    #[arg(short = 'H', long, global = true, value_name = "URL", display_order = 900)]
    host: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a one-machine cluster in the foreground.
    Dev(dev::Dev),
    /// Run the daemon of a machine.
    Daemon(daemon::Daemon),
    /// Wait for the end of a throwaway cluster, and clear away what it left.
    #[command(hide = true)]
    Keep(Keep),
    /// Create, look at, change and remove services.
    #[command(subcommand)]
    Service(service::Command),
    /// Deploy, look at and remove stacks: services in a file.
    #[command(subcommand)]
    Stack(stack::Command),
    /// Look at and change nodes.
    #[command(subcommand)]
    Node(node::Command),
    /// Look at and change the settings of the whole cluster.
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Show what happens, as it happens.
    Events(events::Events),
    /// Explain a task, a service or a node.
    Why(why::Why),
    /// Show what a change would do, without changing anything.
    #[command(subcommand)]
    Plan(plan::Command),
    /// Show what would happen if nodes failed, were drained, left or were added.
    #[command(subcommand)]
    Simulate(simulate::Command),
    /// Even out the cluster with few moves.
    Rebalance(rebalance::Rebalance),
    /// Print completions for a shell.
    Completion(completion::Completion),
    /// Print the names of what is there, for completions.
    #[command(hide = true)]
    Names(completion::Names),
    /// Print the version of this program.
    Version(version::Version),
}

/// What a client command works with.
pub struct Cx {
    /// The daemon.
    pub client: Client,
    /// The terminal.
    pub screen: Screen,
}

/// The command line as the parser knows it.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let mut screen = Screen::of_process();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&error, &args, &mut screen),
    };
    if let Some(sentence) = cli.host_of_docker() {
        return ended(Err(Failure::Usage(sentence)), &mut screen);
    }
    match cli.command {
        Command::Dev(dev) => ended(dev.run(&mut screen), &mut screen),
        Command::Daemon(daemon) => ended(daemon.run(&mut screen), &mut screen),
        Command::Keep(keep) => ended(keep.run(), &mut screen),
        Command::Completion(completion) => ended(completion.run(&mut screen, Cli::command()), &mut screen),
        Command::Version(version) => ended(version.run(&mut screen), &mut screen),
        command => {
            let client = match Client::from_environment(cli.host.as_deref()) {
                Ok(client) => client,
                Err(failure) => return ended(Err(failure), &mut screen),
            };
            let mut cx = Cx { client, screen };
            let asks = match &command {
                Command::Plan(_) | Command::Simulate(_) => true,
                Command::Rebalance(rebalance) => rebalance.plan,
                _ => false,
            };
            let done = block_on(run(command, &mut cx));
            if asks { asked(done, &mut cx.screen) } else { ended(done, &mut cx.screen) }
        }
    }
}

impl Cli {
    /// Docker's `service create --host NAME:ADDRESS` has the name of our flag for the daemon; its value tells them apart.
    fn host_of_docker(&self) -> Option<String> {
        let about = match self.command {
            Command::Service(service::Command::Create(_)) => "service create",
            Command::Service(service::Command::Update(_)) => "service update",
            _ => return None,
        };
        let host = self.host.as_deref().filter(|host| !host.contains("://"))?;
        foreign::flag_sentence(about, "--host").map(|sentence| {
            format!("{sentence}; and {host:?} names no daemon: write -H unix:///path/quelea.sock")
        })
    }
}

/// Says why the command line was not understood, or what it asked for: help or the version.
fn not_parsed(error: &clap::Error, args: &[OsString], screen: &mut Screen) -> ExitCode {
    if error.kind() == ErrorKind::DisplayVersion {
        return ended(version::Version::default().run(screen), screen);
    }
    if let Some(sentence) = foreign::sentence(error, &command(), args) {
        return ended(Err(Failure::Usage(sentence)), screen);
    }
    // Asked-for help goes to standard output with 0, a mistake to standard error with 2. When nobody reads it,
    // nothing is left to be said.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

async fn run(command: Command, cx: &mut Cx) -> Result<(), Failure> {
    match command {
        Command::Service(command) => command.run(cx).await,
        Command::Stack(command) => command.run(cx).await,
        Command::Node(command) => command.run(cx).await,
        Command::Cluster(command) => command.run(cx).await,
        Command::Events(events) => events.run(cx).await,
        Command::Why(why) => why.run(cx).await,
        Command::Names(names) => names.run(cx).await,
        Command::Plan(command) => command.run(cx).await,
        Command::Simulate(command) => command.run(cx).await,
        Command::Rebalance(rebalance) => rebalance.run(cx).await,
        Command::Dev(_)
        | Command::Daemon(_)
        | Command::Keep(_)
        | Command::Completion(_)
        | Command::Version(_) => Ok(()),
    }
}

/// Runs a client command to its end on this thread.
pub fn block_on<T>(done: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::Refused(format!("cannot start: {e}")))?;
    tokio::task::LocalSet::new().block_on(&runtime, done)
}

/// Says how it ended, and turns it into an exit code.
fn ended(done: Result<(), Failure>, screen: &mut Screen) -> ExitCode {
    let done = done.and_then(|()| screen.flush());
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::Pipe) {
                let _ = screen.flush();
                let said = failure.to_string();
                // Whoever ends a stream with Ctrl-C knows what happened.
                if !said.is_empty() {
                    let _ = screen.note(said);
                }
            }
            failure.code()
        }
    }
}

/// How a command ends that asks what would happen: 0 nothing, 1 something, and 255 when it cannot be told, so that no script takes
/// one for the other.
fn asked(done: Result<(), Failure>, screen: &mut Screen) -> ExitCode {
    let changes = matches!(done, Err(Failure::Changes));
    let told = match &done {
        Ok(()) | Err(Failure::Changes | Failure::Usage(_) | Failure::Pipe | Failure::Interrupted(_)) => true,
        Err(Failure::Refused(_) | Failure::Api { .. } | Failure::RolledBack(_) | Failure::TimedOut(_)) => {
            false
        }
    };
    let done = if changes { Ok(()) } else { done };
    let code = ended(done, screen);
    match (told, changes) {
        (false, _) => ExitCode::from(255),
        (true, true) => ExitCode::from(1),
        (true, false) => code,
    }
}

#[cfg(test)]
pub use service::tests::service as service_for_tests;
#[cfg(test)]
pub use tasks::tests::task as task_for_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn dockers_host_is_told_from_the_daemons() {
        for (line, refused) in [
            ("quelea service create --host db:10.0.0.1 --driver exec -- a", true),
            ("quelea service create --host unix:///q.sock --driver exec -- a", false),
            ("quelea -H here service ls", false),
        ] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert_eq!(cli.host_of_docker().is_some(), refused, "{line}");
        }
    }

    #[test]
    fn what_does_not_matter_to_processes_is_taken() {
        for line in [
            "quelea service create --with-registry-auth --no-resolve-image --driver exec -- a",
            "quelea service create --with-registry-auth=false --detach=false -q --driver exec -- a",
            "quelea service update --with-registry-auth --detach=true --no-resolve-image web",
            "quelea stack deploy --with-registry-auth --resolve-image never --prune -c f shop",
            "quelea service inspect --pretty web",
            "quelea service inspect --format json web",
            "quelea node inspect --pretty self",
            "quelea service ls --format json",
            "quelea service ls --format table",
            "quelea node ps --no-resolve -q",
        ] {
            if let Err(error) = Cli::try_parse_from(line.split(' ')) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn wrong_usage_ends_with_two() {
        for line in [
            "quelea",
            "quelea nonsense",
            "quelea service",
            "quelea service create --nmae web -- sleep 1",
            "quelea service create --replicas -1 --name web --driver exec -- sleep 1",
            "quelea service create --limit-memory 12_bananas --driver exec -- sleep 1",
            "quelea service create --mode everywhere --driver exec -- sleep 1",
            "quelea service ls --format {{.ID}}",
            "quelea service inspect --format {{.ID}} web",
            "quelea service create --driver docker nginx",
            "quelea service scale web",
            "quelea service scale web=-1",
            "quelea node update --availability gone n1",
            "quelea cluster update --task-history-limit -1",
            "quelea cluster update --strategy pack",
            "quelea cluster update --dispatcher-heartbeat 5",
            "quelea stack deploy web",
            "quelea plan service scale web",
            "quelea plan service update web --detach",
            "quelea simulate add 0 --like n1",
            "quelea simulate down",
            "quelea rebalance",
            "quelea rebalance --plan --apply",
            "quelea rebalance --plan --threshold 1",
            "quelea rebalance --plan --detach",
        ] {
            let error = Cli::try_parse_from(line.split(' ')).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
