//! Words of docker's command line that mean nothing here (yet): each is refused with a sentence that says what to do
//! instead. This is the one list of them; whoever makes a word real deletes its entry, and a test asks for that.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags that are refused.
struct Flags {
    /// The commands that would have them.
    on: &'static [&'static str],
    /// The flags; on `service update` also with `-add` or `-rm` behind.
    flags: &'static [&'static str],
    /// What follows the flag in the sentence.
    says: &'static str,
}

/// A command that is refused.
struct Refused {
    /// The command, from its first word.
    command: &'static str,
    /// What follows it in the sentence.
    says: &'static str,
}

const CREATE: &[&str] = &["service create"];
const UPDATE: &[&str] = &["service update"];
const SPEC: &[&str] = &["service create", "service update"];

const FLAGS: &[Flags] = &[
    // What comes with containers.
    Flags {
        on: SPEC,
        flags: &["--network", "--endpoint-mode"],
        says: "is not supported yet: a process uses the network of its node; use --publish mode=host,... for a port",
    },
    Flags {
        on: SPEC,
        flags: &["--secret"],
        says: "is not supported yet: put it into a file of the node that only --user can read, and pass the file's path",
    },
    Flags {
        on: SPEC,
        flags: &["--config"],
        says: "is not supported yet: put a file on the node and pass its path, or use --env",
    },
    Flags {
        on: SPEC,
        flags: &[
            "--health-cmd",
            "--health-interval",
            "--health-retries",
            "--health-start-interval",
            "--health-start-period",
            "--health-timeout",
            "--no-healthcheck",
        ],
        says: "is not supported yet: a task counts as healthy while its process runs; let the process end when it is not",
    },
    Flags {
        on: SPEC,
        flags: &["--entrypoint"],
        says: "is not supported: a process has no image whose entrypoint it could replace; give the whole command",
    },
    Flags {
        on: SPEC,
        flags: &["-t", "--tty"],
        says: "is not supported yet: a process has no terminal; leave it out",
    },
    Flags {
        on: SPEC,
        flags: &["--init"],
        says: "is not needed: each process has a supervisor that ends its whole tree; leave it out",
    },
    Flags {
        on: SPEC,
        flags: &["--cap-add", "--cap-drop"],
        says: "is not supported yet: a process has what its user may do; use --user",
    },
    Flags {
        on: SPEC,
        flags: &["--read-only"],
        says: "is not supported yet: a process sees the file system of its node; use a --user who cannot write there",
    },
    Flags {
        on: SPEC,
        flags: &["--dns", "--dns-option", "--dns-search", "--hostname", "--host"],
        says: "is not supported yet: a process has the names and the resolver of its node",
    },
    Flags {
        on: SPEC,
        flags: &["--group"],
        says: "is not supported yet: use --user NAME:GROUP for one group",
    },
    Flags {
        on: SPEC,
        flags: &["--isolation", "--credential-spec"],
        says: "is not supported: it is for Windows, and nodes are Linux machines",
    },
    Flags {
        on: SPEC,
        flags: &["--ulimit"],
        says: "is not supported yet: a process has the limits that its node's daemon was started with; use --limit-pids, or `ulimit` in a shell: -- sh -c 'ulimit -n 4096; exec COMMAND'",
    },
    Flags {
        on: SPEC,
        flags: &["--sysctl"],
        says: "is not supported yet: a process shares the kernel settings of its node; set them there",
    },
    Flags {
        on: SPEC,
        flags: &["--oom-score-adj", "--memory-swap", "--memory-swappiness"],
        says: "is not supported yet: use --limit-memory",
    },
    Flags {
        on: SPEC,
        flags: &["--container-label"],
        says: "is not supported yet: there is no container to carry it; use --label for the service (on update --label-add)",
    },
    Flags {
        on: SPEC,
        flags: &["--log-driver"],
        says: "is not supported: output is kept in files that are rotated; use --log-opt max-size=10m, --log-opt max-file=3, and `quelea service logs`",
    },
    // What a service keeps for life.
    Flags {
        on: UPDATE,
        flags: &["--driver", "--mode", "--name"],
        says: "cannot be changed: a service keeps it for life; remove the service and create it again",
    },
    // What is called otherwise on the other of the two.
    Flags {
        on: UPDATE,
        flags: &["-e", "--env", "--env-file"],
        says: "is for `service create`; use --env-add NAME=VALUE and --env-rm NAME",
    },
    Flags {
        on: UPDATE,
        flags: &["-l", "--label"],
        says: "is for `service create`; use --label-add NAME=VALUE and --label-rm NAME",
    },
    Flags {
        on: UPDATE,
        flags: &["-p", "--publish"],
        says: "is for `service create`; use --publish-add PORT and --publish-rm PORT",
    },
    Flags {
        on: UPDATE,
        flags: &["--constraint", "--generic-resource", "--mount"],
        says: "is for `service create`; put -add or -rm behind it",
    },
    Flags {
        on: CREATE,
        flags: &["--image"],
        says: "is for `service update`, and images need the coming docker or oci driver; use --driver exec ... -- COMMAND ARG...",
    },
    // The other commands.
    Flags {
        on: &["service ls", "service ps", "node ls", "node ps", "stack ls", "stack ps", "stack services"],
        flags: &["-a", "--all"],
        says: "is not needed: everything is listed; leave it out",
    },
    Flags {
        on: &["version", "events", "why", "service logs"],
        flags: &["--format"],
        says: "is not supported: templates are docker's; use --json",
    },
    Flags {
        on: &["events"],
        flags: &["--until"],
        says: "is not supported yet: events go on until Ctrl-C; use --since, and --json for a program that stops by itself",
    },
    Flags {
        on: &["service logs"],
        flags: &["--details", "--no-resolve"],
        says: "is not supported yet: use --json for everything that is known of a line",
    },
    Flags {
        on: &["node update"],
        flags: &["--role"],
        says: "is not supported yet: the one node is the manager; roles change once clusters have several nodes",
    },
    Flags {
        on: &["cluster update"],
        flags: &["--autolock", "--cert-expiry", "--external-ca", "--max-snapshots", "--snapshot-interval"],
        says: "is not supported yet: there are no other managers and no certificates to set it for; leave it out",
    },
    Flags {
        on: &["stack deploy", "stack rm", "stack ls", "stack ps", "stack services"],
        flags: &["--orchestrator", "--namespace", "--kubeconfig"],
        says: "is not supported: there is one orchestrator, this one; leave it out",
    },
];

const COMMANDS: &[Refused] = &[
    Refused {
        command: "stack config",
        says: "is not supported yet: `quelea stack deploy` says with line and column what it does not take, and changes nothing then",
    },
    Refused { command: "node promote", says: "is not supported yet: the one node is the manager" },
    Refused { command: "node demote", says: "is not supported yet: the one node is the manager" },
    Refused {
        command: "node rm",
        says: "is not supported yet: there is one node; `quelea node update --availability drain NODE` empties it",
    },
    Refused {
        command: "swarm",
        says: "is not supported yet: a cluster is one machine; `quelea dev` or `quelea daemon` starts it, `quelea cluster update` changes its settings",
    },
    Refused {
        command: "secret",
        says: "is not supported yet: put it into a file of the node that only the service's --user can read",
    },
    Refused { command: "config", says: "is not supported yet: put a file on the node and pass its path" },
    Refused { command: "network", says: "is not supported yet: processes use the network of their node" },
    Refused {
        command: "volume",
        says: "is not supported: a node offers directories (quelea daemon --volume NAME=PATH; quelea node inspect shows them)",
    },
    Refused {
        command: "run",
        says: "is not supported yet: `quelea service create --driver exec --restart-condition none -- COMMAND` runs something once",
    },
    Refused {
        command: "ps",
        says: "is not a command here: use `quelea service ls`, `quelea service ps NAME` or `quelea node ps`",
    },
    Refused { command: "logs", says: "is not a command here: use `quelea service logs NAME`" },
    Refused {
        command: "inspect",
        says: "is not a command here: use `quelea service inspect NAME`, `quelea node inspect NAME` or `quelea why NAME`",
    },
    Refused { command: "info", says: "is not a command here: use `quelea node inspect self`" },
    Refused {
        command: "exec",
        says: "is not supported yet: `quelea service ps NAME --json` names the process",
    },
    Refused { command: "compose", says: "is not a command here: use `quelea stack deploy -c FILE NAME`" },
    Refused { command: "image", says: "needs a container driver, which is to come" },
    Refused { command: "pull", says: "needs a container driver, which is to come" },
    Refused { command: "build", says: "needs a container driver, which is to come" },
    Refused { command: "container", says: "needs a container driver, which is to come" },
];

/// The sentence for what the parser did not know, when docker does.
pub fn sentence(error: &clap::Error, root: &clap::Command, args: &[OsString]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let place = command_of(root, args);
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let flag = text(ContextKind::InvalidArg)?.split('=').next()?;
            flag_sentence(&place, flag)
        }
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand)?;
            let command = if place.is_empty() { word.to_owned() } else { format!("{place} {word}") };
            let refused = COMMANDS.iter().find(|r| r.command == command)?;
            Some(format!("{command} {}", refused.says))
        }
        _ => None,
    }
}

/// The sentence for a flag of docker's on this command.
pub fn flag_sentence(command: &str, flag: &str) -> Option<String> {
    let bare =
        flag.strip_suffix("-add").or_else(|| flag.strip_suffix("-rm")).filter(|_| command == UPDATE[0]);
    let named = |f: &Flags, flag: &str| f.on.contains(&command) && f.flags.contains(&flag);
    let found = FLAGS
        .iter()
        .find(|f| named(f, flag))
        .or_else(|| FLAGS.iter().find(|f| bare.is_some_and(|bare| named(f, bare))))?;
    Some(format!("{flag} {}", found.says))
}

/// The command that the arguments name, as far as it is known: `service create`.
fn command_of(root: &clap::Command, args: &[OsString]) -> String {
    let mut names = Vec::new();
    let mut at = root;
    let mut words = args.iter().skip(1).map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        if word == "-H" || word == "--host" {
            words.next();
        } else if !word.starts_with('-') {
            let Some(next) = at.find_subcommand(word.as_ref()) else { break };
            names.push(next.get_name().to_owned());
            at = next;
        }
    }
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> clap::Command {
        crate::commands::command()
    }

    /// What is said of a line: the sentence, or the parser's own words.
    fn said(line: &str) -> Option<String> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = root().try_get_matches_from(&args).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
        sentence(&error, &root(), &args)
    }

    #[test]
    fn each_word_of_the_table_is_refused_by_its_sentence() {
        for flags in FLAGS {
            for (command, flag) in flags.on.iter().flat_map(|c| flags.flags.iter().map(move |f| (c, f))) {
                // Parsed by us under this name, the daemon's address: told apart by its value.
                if *flag == "--host" {
                    continue;
                }
                let said = said(&format!("quelea {command} {flag} x"));
                let said = said.unwrap_or_else(|| panic!("{command} {flag} is real now: delete its entry"));
                assert!(said.starts_with(&format!("{flag} ")), "{command}: {said}");
            }
        }
        for refused in COMMANDS {
            let said = said(&format!("quelea {} x", refused.command));
            let said = said.unwrap_or_else(|| panic!("{} is real now: delete its entry", refused.command));
            assert!(said.starts_with(refused.command), "{said}");
        }
    }

    #[test]
    fn however_it_is_written() {
        for (line, begins) in [
            ("quelea service create --network=front nginx", "--network is not supported yet"),
            ("quelea -H unix:///x service create --driver exec -dt -- a", "-t is not supported yet"),
            ("quelea --host=unix:///x service update --network-add n web", "--network-add is not"),
            ("quelea service update --host-rm h web", "--host-rm is not"),
            ("quelea service update --secret-rm s web", "--secret-rm is not"),
            ("quelea service update --env A=1 web", "--env is for `service create`"),
            ("quelea node update --role manager n1", "--role is not supported yet"),
            ("quelea swarm init", "swarm is not supported yet"),
        ] {
            let said = said(line);
            assert!(said.as_ref().is_some_and(|s| s.starts_with(begins)), "{line}: {said:?}");
        }
        // What docker does not know either has the parser's words.
        for line in
            ["quelea service create --mountain x", "quelea service create --publish-add x", "quelea nonsense"]
        {
            assert_eq!(said(line), None, "{line}");
        }
    }
}
