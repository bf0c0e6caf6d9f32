//! `simulate`: what would move where if nodes failed, were drained, left or were added.

use clap::{Args, Subcommand};
use hyper::Method;
use native_api::types::{AddNodes, Plan as Answer, Simulation};

use super::Cx;
use super::plan::{ShowFlags, finish};
use crate::client::Route;
use crate::failure::Failure;

const EXIT_CODES: &str =
    "Exit codes: 0 nothing would change, 1 something would, 2 wrong usage, 255 refused or failed.";

/// What would happen to the cluster. Nothing is changed.
#[derive(Debug, Subcommand)]
#[command(after_help = EXIT_CODES)]
pub enum Command {
    /// What would happen if these nodes failed, all at once.
    Down(Nodes),
    /// What would happen if these nodes were drained.
    Drain(Nodes),
    /// What would happen if these nodes left the cluster.
    #[command(visible_alias = "remove")]
    Rm(Nodes),
    /// What would happen if nodes were added.
    Add(Add),
}

#[derive(Debug, Args)]
pub struct Nodes {
    /// The nodes: host names, ids, beginnings of ids, or self.
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
    #[command(flatten)]
    show: ShowFlags,
}

#[derive(Debug, Args)]
pub struct Add {
    /// How many.
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=model::limits::SIMULATED_NODES as i64))]
    count: u32,
    /// The node that they are like: its size, drivers and labels.
    #[arg(long, value_name = "NODE")]
    like: String,
    #[command(flatten)]
    show: ShowFlags,
}

impl Command {
    /// Shows it. [`Failure::Changes`] says that something would change.
    pub async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let (body, show) = self.request();
        let route = Route::new(&["simulate"]);
        let answer: Answer = cx.client.change(Method::POST, route, Some(&body)).await?;
        finish(cx, &answer, show, "Simulation")
    }

    fn request(self) -> (Simulation, ShowFlags) {
        let none = Simulation::default();
        match self {
            Self::Down(Nodes { nodes, show }) => (Simulation { down: nodes, ..none }, show),
            Self::Drain(Nodes { nodes, show }) => (Simulation { drain: nodes, ..none }, show),
            Self::Rm(Nodes { nodes, show }) => (Simulation { remove: nodes, ..none }, show),
            Self::Add(Add { count, like, show }) => {
                (Simulation { add: Some(AddNodes { count, like }), ..none }, show)
            }
        }
    }
}
