//! `dev`: a one-machine cluster in the foreground.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use clap::Args;

use super::{mounts, options};
use crate::failure::Failure;
use crate::paths;
use crate::screen::Screen;
use crate::serve::{self, Offers, Settings};

/// Start a one-machine cluster in the foreground. Without --data-dir it is thrown away at the end.
#[derive(Debug, Args)]
pub struct Dev {
    /// Where the cluster is kept; it can be started again from there.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The unix socket of the native API.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The TCP address of the native API; port 0 takes any free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:4747")]
    listen: SocketAddr,
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

impl Dev {
    /// Runs until Ctrl-C.
    pub fn run(self, screen: &mut Screen) -> Result<(), Failure> {
        let ephemeral = self.data_dir.is_none();
        let socket = match (self.socket, &self.data_dir) {
            (Some(socket), _) => socket,
            (None, Some(data_dir)) => data_dir.join("run").join(paths::SOCKET),
            (None, None) => usual_socket()?,
        };
        let data_dir = match self.data_dir {
            Some(dir) => dir,
            None => temporary_dir()?,
        };
        let socket = std::path::absolute(&socket).unwrap_or(socket);
        let data_dir = std::path::absolute(&data_dir).unwrap_or(data_dir);
        let labels = self.labels.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        let offers = Offers::read(self.generic)?;
        let volumes = mounts::volumes(&self.volumes)?;
        let listen = self.listen;
        let settings =
            Settings { data_dir, socket, listen, labels, offers, volumes, foreground: true, ephemeral };
        serve::run(settings, screen)
    }
}

/// The socket where every command looks when nobody says.
pub fn usual_socket() -> Result<PathBuf, Failure> {
    let dir = paths::run_dir().ok_or_else(|| {
        Failure::Usage("--socket: XDG_RUNTIME_DIR is not set; say where the socket shall be".into())
    })?;
    Ok(dir.join(paths::SOCKET))
}

/// A directory of our own that is thrown away at the end.
fn temporary_dir() -> Result<PathBuf, Failure> {
    let mut bytes = [0u8; 6];
    getrandom::fill(&mut bytes).map_err(|e| Failure::Refused(format!("no random bytes: {e}")))?;
    let suffix: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let dir = std::env::temp_dir().join(format!("quelea-dev-{suffix}"));
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&dir)
        .map_err(|e| Failure::Refused(format!("{}: {e}", dir.display())))?;
    Ok(dir)
}
