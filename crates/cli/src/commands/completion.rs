//! `completion`: what a shell needs to complete our commands.

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::screen::Screen;

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
        Ok(screen.out.write_all(&script)?)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::screen::tests::paper;

    #[test]
    fn each_shell_learns_the_commands() {
        for shell in [Name::Bash, Name::Zsh, Name::Fish] {
            let (mut screen, out, _) = paper();
            Completion { shell }.run(&mut screen, super::super::Cli::command()).unwrap();
            assert!(out.text().contains("scale") && out.text().contains("replicas"), "{shell:?}");
        }
    }
}
