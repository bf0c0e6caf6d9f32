//! `version`: which program this is.

use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::screen::Screen;

#[derive(Debug, Default, Args)]
pub struct Version {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    version: &'static str,
    os: &'static str,
    arch: &'static str,
}

impl Version {
    /// Prints the version.
    pub fn run(self, screen: &mut Screen) -> Result<(), Failure> {
        let answer = Answer {
            version: env!("CARGO_PKG_VERSION"),
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
        };
        if self.json {
            return screen.json(&answer);
        }
        screen.line(format!("quelea {} ({}/{})", answer.version, answer.os, answer.arch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::tests::paper;

    #[test]
    fn one_line_says_it() {
        let (mut screen, out, _) = paper();
        Version::default().run(&mut screen).unwrap();
        assert!(out.text().starts_with(&format!("quelea {} (", env!("CARGO_PKG_VERSION"))), "{}", out.text());
    }
}
