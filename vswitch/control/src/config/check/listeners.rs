//! Listeners: sockets that can be made, accounts and files that are there.

use super::super::listener_value::{Account, ListenEndpoint, UnixListen};
use super::super::report::Problem;
use super::{Check, ConfigKey};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

impl Check<'_> {
    pub(super) fn listeners(&mut self) {
        let config = self.config;
        for (index, listener) in config.listeners.iter().enumerate() {
            match &listener.endpoint {
                ListenEndpoint::Unix(unix) => {
                    self.socket_at(&ConfigKey::Listener(index, "path"), &unix.path);
                    self.accounts(index, unix);
                }
                ListenEndpoint::Tls(tls) => {
                    let place = ConfigKey::Listener(index, "tls");
                    for (name, file) in [("cert", &tls.cert), ("key", &tls.key), ("client_ca", &tls.client_ca)] {
                        self.tls_file(&place, name, file);
                    }
                }
            }
        }
        if let Some(file) = &config.audit_file {
            self.audit_file(file);
        }
    }

    /// All users and groups that a listener names.
    fn accounts(&mut self, index: usize, unix: &UnixListen) {
        let mut unknown = |key, account: &Account, what: &str| {
            let hint = "name one that getent(1) knows, or write its number";
            let place = ConfigKey::Listener(index, key);
            self.found.push(self.error(&place, format!("there is no {what} {account}"), hint));
        };
        let users = unix.owner.iter().map(|owner| ("owner", owner));
        for (key, user) in users.chain(unix.users.iter().map(|(user, _)| ("users", user))) {
            if user.uid().is_none() {
                unknown(key, user, "user");
            }
        }
        let groups = unix.group.iter().map(|group| ("group", group));
        for (key, group) in groups.chain(unix.groups.iter().map(|(group, _)| ("groups", group))) {
            if group.gid().is_none() {
                unknown(key, group, "group");
            }
        }
    }

    fn tls_file(&mut self, place: &ConfigKey, name: &str, file: &Path) {
        let metadata = match std::fs::File::open(file).and_then(|opened| opened.metadata()) {
            Ok(metadata) => metadata,
            Err(error) => {
                let problem = format!("{name} {file:?} cannot be read: {error}");
                return self.found.push(self.error(place, problem, "name a readable file in PEM"));
            }
        };
        if !metadata.is_file() {
            let problem = format!("{name} {file:?} is no regular file");
            self.found.push(self.error(place, problem, "name a readable file in PEM"));
        } else if name == "key" && metadata.permissions().mode() & 0o007 != 0 {
            let problem =
                format!("any user may read the key {file:?} (mode {:04o})", metadata.permissions().mode() & 0o7777);
            self.found.push(Problem::warning(self.error(place, problem, format!("chmod o= {}", file.display()))));
        }
    }

    fn audit_file(&mut self, file: &Path) {
        let place = ConfigKey::Control("audit_file");
        let directory = file.parent().unwrap_or(Path::new("/"));
        if !directory.is_dir() {
            let problem = format!("there is no directory {directory:?}");
            let hint = format!("mkdir -p -m 0750 {}", directory.display());
            self.found.push(self.error(&place, problem, hint));
        } else if file.exists() && !file.is_file() {
            let problem = format!("{file:?} is no regular file");
            self.found.push(self.error(&place, problem, "name a file of the switch's own"));
        }
    }
}
