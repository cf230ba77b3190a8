//! What ports without a link wait for.
//!
//! **Where in the walk.** On the blocking thread that has asked the switch for ports, behind its
//! answer: files are looked at here.
//!
//! **Design.** A vhost-user port in client mode connects to a socket that a guest makes. DPDK tries
//! again each second and says nothing, so the path is looked at when ports are shown.
//!
//! **Limits.** Only ports whose link is down are looked at. What is at the path may change at once.

use super::present;
use std::io::ErrorKind;
use std::path::Path;
use vswitch_control::{BridgeInfo, PortInfo};
use vswitch_dataplane::port::{PortKind, VhostMode};
use vswitch_proto::v1;

/// A port, with what it waits for.
pub(super) fn port(info: &PortInfo) -> v1::Port {
    v1::Port { waiting: waiting(info).map(|(path, why)| text(path, why)), ..present::port(info) }
}

/// A bridge, with what each of its ports waits for.
pub(super) fn bridge(info: &BridgeInfo) -> v1::Bridge {
    v1::Bridge { ports: info.ports.iter().map(port).collect(), ..present::bridge(info) }
}

/// What is odd about a port that was added: its socket cannot be made where it is to be.
pub(super) fn warnings(info: &PortInfo) -> Vec<String> {
    let Some((path, Missing::Directory)) = waiting(info) else { return Vec::new() };
    let directory = path.parent().unwrap_or(path).display();
    vec![format!("port {:?}: {}; make it: mkdir -p {directory}", info.config.name, text(path, Missing::Directory))]
}

/// What is missing at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Directory,
    Socket,
    Access,
    Peer,
}

fn text(path: &Path, missing: Missing) -> String {
    let why = match missing {
        Missing::Directory => "no such directory",
        Missing::Socket => "no such socket",
        Missing::Access => "its directory may not be read",
        Missing::Peer => "the socket is there, and no guest speaks on it",
    };
    format!("waiting for {}: {why}", path.display())
}

fn waiting(info: &PortInfo) -> Option<(&Path, Missing)> {
    let PortKind::VhostUser(vhost) = &info.config.kind else { return None };
    if info.link_up || info.error.is_some() || vhost.mode != VhostMode::Client {
        return None;
    }
    let path = vhost.path.as_path();
    let missing = match path.symlink_metadata() {
        Ok(_) => Missing::Peer,
        Err(error) if error.kind() == ErrorKind::NotFound && path.parent().is_some_and(Path::is_dir) => Missing::Socket,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Missing::Directory,
        Err(_) => Missing::Access,
    };
    Some((path, missing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_dataplane::port::VhostConfig;
    use vswitch_testkit::double;

    #[test]
    fn a_port_says_what_its_socket_lacks() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        let guest = |path: &Path, link_up| {
            let mut info = double::port("br0", "vm0", 1);
            info.config.kind = PortKind::VhostUser(VhostConfig::new(path.to_owned(), VhostMode::Client));
            info.link_up = link_up;
            info
        };
        let told = |path: &Path| port(&guest(path, false)).waiting.expect("it waits");
        let path = at("none/vm.sock");
        assert_eq!(told(&path), format!("waiting for {}: no such directory", path.display()));
        let warned = warnings(&guest(&path, false));
        assert!(warned[0].ends_with(&format!("mkdir -p {}", at("none").display())), "{warned:?}");
        assert!(told(&at("vm.sock")).ends_with(": no such socket"));
        assert!(warnings(&guest(&at("vm.sock"), false)).is_empty(), "guests come later");
        let _listener = std::os::unix::net::UnixListener::bind(at("there.sock")).expect("a socket");
        assert!(told(&at("there.sock")).contains("no guest speaks"));
        assert_eq!(port(&guest(&path, true)).waiting, None, "its link is up");
        assert_eq!(port(&double::port("br0", "p0", 1)).waiting, None);
    }
}
