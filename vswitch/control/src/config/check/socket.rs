//! The sockets of the switch: no other process has them, and their directories exist.

use super::super::value::{MetricsAddress, SOCKET_DEFAULT};
use super::{Check, ConfigKey};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Longer, a listener is there but does not accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

impl Check<'_> {
    pub(super) fn socket(&mut self) {
        let config = self.config;
        self.socket_at(&ConfigKey::Control("socket"), &config.socket);
        if let Some(MetricsAddress::Unix(path)) = &config.observe.metrics {
            let place = ConfigKey::Observe("metrics");
            if *path == config.socket {
                let problem = format!("{path:?} is the control socket");
                self.found.push(self.error(&place, problem, "use another path"));
            } else {
                self.socket_at(&place, path);
            }
        }
    }

    /// A socket that the switch makes.
    pub(super) fn socket_at(&mut self, place: &ConfigKey, path: &Path) {
        if self.places.is_refused(place) {
            return;
        }
        let directory = path.parent().unwrap_or(Path::new("/"));
        if !directory.is_dir() {
            if !self.is_made_at_start(directory) {
                let problem = format!("there is no directory {directory:?}");
                let hint = format!(
                    "mkdir -p {}; only the directory of the default socket is made at start",
                    directory.display()
                );
                self.found.push(self.error(place, problem, hint));
            }
            return;
        }
        match std::fs::metadata(path) {
            Ok(metadata) if !metadata.file_type().is_socket() => {
                let problem = format!("{path:?} exists and is not a socket");
                self.found.push(self.error(place, problem, "remove it or use another path"));
            }
            Ok(_) if has_live_listener(path) => {
                let problem = format!("another process listens on {path:?}");
                let hint = "stop it (is vswitchd running already?) or use another path";
                self.found.push(self.error(place, problem, hint));
            }
            _ => {} // none, or left behind by a process that died: it will be replaced
        }
    }

    /// The directory of the default socket is the switch's own; another one may have a meaning (and
    /// an owner) to someone.
    pub(super) fn is_made_at_start(&self, directory: &Path) -> bool {
        let default = Path::new(SOCKET_DEFAULT);
        self.config.socket == default && default.parent() == Some(directory)
    }
}

/// Whether somebody accepts connections there. A listener with a full backlog makes connect(2)
/// wait: it counts as alive.
fn has_live_listener(path: &Path) -> bool {
    let (answer, result) = sync_channel(1);
    let target = path.to_owned();
    let connect = std::thread::Builder::new().spawn(move || {
        let _ = answer.send(UnixStream::connect(target).is_ok());
    });
    // Without a thread it stays unknown: who takes the socket finds out, too.
    if connect.is_err() {
        return false;
    }
    match result.recv_timeout(CONNECT_TIMEOUT) {
        Ok(connected) => connected,
        Err(RecvTimeoutError::Timeout) => true,
        Err(RecvTimeoutError::Disconnected) => false,
    }
}
