//! Where the daemon's sockets are when nobody says.

use std::ffi::OsString;
use std::path::PathBuf;

/// The run directory: `/run/quelea` as root, else `$XDG_RUNTIME_DIR/quelea`; `None` when that is not set.
pub fn run_dir() -> Option<PathBuf> {
    run_dir_of(rustix::process::geteuid().is_root(), std::env::var_os("XDG_RUNTIME_DIR"))
}

fn run_dir_of(root: bool, xdg: Option<OsString>) -> Option<PathBuf> {
    if root {
        return Some(PathBuf::from("/run/quelea"));
    }
    xdg.filter(|dir| !dir.is_empty()).map(|dir| PathBuf::from(dir).join("quelea"))
}

/// The native API's socket inside a run directory.
pub const SOCKET: &str = "quelea.sock";
/// The file with the bearer token of the TCP listener inside a run directory; 0600.
pub const TOKEN: &str = "token";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_run_directory_is() {
        for (root, xdg, dir) in [
            (true, Some("/run/user/0"), Some("/run/quelea")),
            (false, Some("/run/user/7"), Some("/run/user/7/quelea")),
            (false, Some(""), None),
            (false, None, None),
        ] {
            assert_eq!(run_dir_of(root, xdg.map(Into::into)), dir.map(PathBuf::from), "{root} {xdg:?}");
        }
    }
}
