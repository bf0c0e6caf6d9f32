//! `daemon`: the long-running process of a machine.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::{dev, mounts, options};
use crate::failure::Failure;
use crate::paths;
use crate::screen::Screen;
use crate::serve::{self, Config, Offers, Settings};

/// Where the daemon keeps everything when nobody says.
const DATA_DIR: &str = "/var/lib/quelea";

/// The port of the native API (see `--listen`).
const PORT: u16 = 4747;

/// Run the daemon of a machine. What it runs outlives it, and is found again by the next one.
#[derive(Debug, Args)]
pub struct Daemon {
    /// The configuration file: YAML with the keys data_dir, socket, listen, labels,
    /// node_generic_resources and volumes. Flags win.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where everything is kept; /var/lib/quelea when it is not given.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The unix socket of the native API.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The TCP address of the native API; port 0 takes any free one. 127.0.0.1:4747 when it is not given.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// A label of this node, NAME=VALUE, matched by node.labels.NAME.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = options::pair)]
    labels: Vec<(String, String)>,
    /// A counted resource that this node offers, NAME=N, or one whose single ones have names, NAME=FIRST,SECOND.
    #[arg(long = "node-generic-resource", value_name = "NAME=N", value_parser = options::pair)]
    generic: Vec<(String, String)>,
    /// A directory that this node offers to tasks: NAME=PATH, then ,ro when nobody may write there, and ,sharing=none (one
    /// task), readonly (tasks that read), onewriter (one that writes and any that read) or all, the default.
    #[arg(long = "volume", value_name = "NAME=PATH")]
    volumes: Vec<String>,
}

impl Daemon {
    /// Runs until it is told to end.
    pub fn run(self, screen: &mut Screen) -> Result<(), Failure> {
        let config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        let named = self.data_dir.or(config.data_dir);
        let socket = match (self.socket.or(config.socket), &named) {
            (Some(socket), _) => socket,
            (None, Some(data_dir)) => data_dir.join("run").join(paths::SOCKET),
            (None, None) => dev::usual_socket()?,
        };
        let data_dir = named.unwrap_or_else(|| DATA_DIR.into());
        let mut labels = config.labels;
        labels.extend(self.labels);
        // What flags say of a kind takes the place of what the file says.
        let named_by_flags = |kind: &String| self.generic.iter().any(|(flag, _)| flag == kind);
        let of_file = config.node_generic_resources.into_iter().filter(|(kind, _)| !named_by_flags(kind));
        let of_file = of_file.map(|(kind, offer)| (kind, offer.text()));
        let offers: Vec<(String, String)> = of_file.chain(self.generic.iter().cloned()).collect();
        let named_by_flags = |name: &String| {
            self.volumes.iter().any(|flag| flag.split_once('=').is_some_and(|(flag, _)| flag == name))
        };
        let of_file = config.volumes.into_iter().filter(|(name, _)| !named_by_flags(name));
        let of_file = of_file.map(|(name, volume)| volume.text(&name));
        let volumes: Vec<String> = of_file.chain(self.volumes.iter().cloned()).collect();
        let settings = Settings {
            socket: std::path::absolute(&socket).unwrap_or(socket),
            data_dir: std::path::absolute(&data_dir).unwrap_or(data_dir),
            listen: self.listen.or(config.listen).unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))),
            labels: labels.into_iter().map(|(k, v)| (k.into(), v.into())).collect(),
            offers: Offers::read(offers)?,
            volumes: mounts::volumes(&volumes)?,
            foreground: false,
            ephemeral: false,
        };
        serve::run(settings, screen)
    }
}
