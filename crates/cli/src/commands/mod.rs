//! The command line as data, and the way from it to what is done: a file for each group of commands.

mod completion;
mod daemon;
mod dev;
mod events;
mod logs;
mod node;
mod options;
mod plan;
mod rebalance;
mod service;
mod service_spec;
mod service_update;
mod simulate;
mod stack;
mod tasks;
mod version;
mod why;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::client::Client;
use crate::failure::Failure;
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
#[command(name = "quelea", after_help = EXIT_CODES, disable_version_flag = true, max_term_width = 110)]
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

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Asked-for help goes to standard output with 0, a mistake to standard error with 2. When nobody reads it,
            // nothing is left to be said.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let mut screen = Screen::of_process();
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

async fn run(command: Command, cx: &mut Cx) -> Result<(), Failure> {
    match command {
        Command::Service(command) => command.run(cx).await,
        Command::Stack(command) => command.run(cx).await,
        Command::Node(command) => command.run(cx).await,
        Command::Events(events) => events.run(cx).await,
        Command::Why(why) => why.run(cx).await,
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
                let _ = screen.note(failure.to_string());
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
        Err(Failure::Refused(_) | Failure::Api { .. } | Failure::TimedOut(_)) => false,
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
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
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
            "quelea service scale web",
            "quelea service scale web=-1",
            "quelea node update --availability gone n1",
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
