//! `completion`: what a shell needs to complete our commands; and `names`, which such a script asks for the names of
//! what is there.

use clap::{Args, ValueEnum};
use clap_complete::Shell;
use native_api::types::{Node, Service, Stack};

use super::Cx;
use crate::client::{Client, Route};
use crate::failure::Failure;
use crate::screen::Screen;

/// What is put around the generated script of bash: where a command takes the name of a service, node or stack, those that there
/// are. A daemon that does not answer is no reason to say anything while somebody types.
const BASH: &str = r#"
_quelea_names() {
    _quelea "$@"
    [[ "$2" == -* || "$3" == -* ]] && return
    local words=() i kind=
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${COMP_WORDS[i]}" in
            -H|--host) ((i++)) ;;
            -*) ;;
            *) words+=("${COMP_WORDS[i]}") ;;
        esac
    done
    case "${words[0]} ${words[1]}" in
        "service ps"|"service inspect"|"service rm"|"service remove"|"service update"|"service logs"|"service scale") kind=services ;;
        "node ps"|"node inspect"|"node update") kind=nodes ;;
        "stack deploy"|"stack up"|"stack ps"|"stack services"|"stack rm"|"stack remove"|"stack down") kind=stacks ;;
        "why ") kind=subjects ;;
        *) return ;;
    esac
    local found
    found=$(quelea names "$kind" 2>/dev/null)
    [[ -n "$found" ]] || return
    if [[ "${words[1]}" == scale ]]; then
        compopt -o nospace 2>/dev/null
        COMPREPLY=( $(compgen -S = -W "$found" -- "$2") )
    else
        COMPREPLY=( $(compgen -W "$found" -- "$2") )
    fi
}
complete -F _quelea_names -o bashdefault -o default quelea
"#;

/// Load it for example with `source <(quelea completion bash)`.
#[derive(Debug, Args)]
pub struct Completion {
    /// The shell.
    shell: Name,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    Bash,
    Zsh,
    Fish,
}

impl Completion {
    /// Prints the completions.
    pub fn run(self, screen: &mut Screen, mut command: clap::Command) -> Result<(), Failure> {
        let shell = match self.shell {
            Name::Bash => Shell::Bash,
            Name::Zsh => Shell::Zsh,
            Name::Fish => Shell::Fish,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, "quelea", &mut script);
        if shell == Shell::Bash {
            script.extend_from_slice(BASH.as_bytes());
        }
        Ok(screen.out.write_all(&script)?)
    }
}

/// Print the names of what is there, for completions.
#[derive(Debug, Args)]
pub struct Names {
    /// Of what.
    of: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Services,
    Nodes,
    Stacks,
    /// What `why` explains.
    Subjects,
}

impl Names {
    /// Prints them, one a line.
    pub async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let names = names(&cx.client, self.of).await?;
        // A shell expands what it is given: only what means nothing to it is handed over.
        let plain = |name: &&String| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        names.iter().filter(plain).try_for_each(|name| cx.screen.line(name))
    }
}

async fn names(client: &Client, of: Kind) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    if matches!(of, Kind::Services | Kind::Subjects) {
        let services = client.list::<Service>(Route::new(&["services"])).await?.value;
        names.extend(services.into_iter().map(|s| s.name));
    }
    if matches!(of, Kind::Nodes | Kind::Subjects) {
        let nodes = client.list::<Node>(Route::new(&["nodes"])).await?.value;
        names.extend(nodes.into_iter().map(|n| n.hostname));
    }
    if of == Kind::Nodes {
        names.push("self".into());
    }
    if of == Kind::Stacks {
        let stacks = client.list::<Stack>(Route::new(&["stacks"])).await?.value;
        names.extend(stacks.into_iter().map(|s| s.name));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use serde_json::json;

    use super::*;
    use crate::commands::service_for_tests as service;
    use crate::fake::{self, Fake};
    use crate::screen::tests::paper;

    #[test]
    fn names_mean_nothing_to_a_shell() {
        let services =
            [service(json!({})), service(json!({"name": "$(reboot)"})), service(json!({"name": "a-b_c"}))];
        let list = json!({"index": 1, "changed": 1, "items": services});
        let daemon = Fake::start(vec![fake::json("GET /v1/services", 200, 1, &list)]);
        let (screen, out, _) = paper();
        let mut cx = Cx { client: daemon.client(), screen };
        super::super::block_on(Names { of: Kind::Services }.run(&mut cx)).unwrap();
        assert_eq!(out.text(), "web\na-b_c\n");
        daemon.asked();
    }

    #[test]
    fn each_shell_learns_the_commands() {
        for shell in [Name::Bash, Name::Zsh, Name::Fish] {
            let (mut screen, out, _) = paper();
            Completion { shell }.run(&mut screen, super::super::Cli::command()).unwrap();
            assert!(out.text().contains("scale") && out.text().contains("replicas"), "{shell:?}");
        }
    }
}
