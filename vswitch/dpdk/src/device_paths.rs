//! The paths in a device's devargs, before its driver sees them.
//!
//! **Where in the walk**: nowhere; opening a device begins with it.
//!
//! **Design**: drivers open what they are told, with the rights of the switch. So each path of a
//! known driver is opened here first ([`paths`]), and the driver is told a name of what is open. Of
//! sockets to connect to it is told the marked path.

use crate::devargs::memif_socket;
use crate::drivers::{Takes, driver_of};
use crate::paths::{self, Held};
use std::path::Path;

/// Why a device cannot have a path of its devargs, and what to do.
pub(crate) type Refused = (String, &'static str);

/// The devargs as the driver is to have them, and what must stay open as long as the device.
///
/// # Errors
/// When a path leads to nothing that the driver may have.
pub(crate) fn hold(devargs: &str) -> Result<(String, Vec<Held>), Refused> {
    let mut parts = devargs.split(',');
    let mut told = parts.next().unwrap_or_default().to_owned();
    let (driver, mut held) = (driver_of(&told), Vec::new());
    for part in parts {
        let known = part.split_once('=').and_then(|(key, value)| Some((key, value, driver?.takes(key)?)));
        let changed = match known {
            Some((key, value, takes)) => named(devargs, Path::new(value), takes, &mut held)?.map(|name| (key, name)),
            None => None,
        };
        told.push(',');
        match changed {
            Some((key, name)) => told.push_str(&format!("{key}={name}")),
            None => told.push_str(part),
        }
    }
    Ok((told, held))
}

/// What the driver is to be told instead of a path; `None`: the path itself.
fn named(devargs: &str, path: &Path, takes: Takes, held: &mut Vec<Held>) -> Result<Option<String>, Refused> {
    let mut keep = |open: Held| {
        let name = open.path().display().to_string();
        held.push(open);
        Some(name)
    };
    let has = |argument: &str| devargs.split(',').any(|part| part == argument);
    let to_connect = || Some(paths::to_connect(path).display().to_string());
    match takes {
        Takes::Word => Ok(None),
        Takes::Reads => match paths::to_read(path) {
            Ok(open) => Ok(keep(open)),
            Err(error) => Err((format!("cannot read the capture {path:?}: {error}"), READ_HINT)),
        },
        Takes::Writes => match paths::to_write(path) {
            Ok(open) => Ok(keep(open)),
            Err(error) => Err((format!("cannot write the capture {path:?}: {error}"), WRITE_HINT)),
        },
        // A device file of the kernel, which only root makes.
        Takes::Vhost if path.parent() == Some(Path::new("/dev")) => Ok(None),
        Takes::Vhost if has("server=1") => to_make(path).map(keep),
        Takes::Vhost => Ok(to_connect()),
        Takes::Memif if memif_socket(devargs).is_some() => {
            let open = to_make(path)?;
            // The driver does not replace what a killed predecessor left.
            crate::vhost::remove_stale(open.path()).map_err(|error| {
                (format!("{path:?} is a stale socket: {error}"), "remove it, or let vswitchd write to its directory")
            })?;
            Ok(keep(open))
        }
        Takes::Memif => Ok(if has("socket-abstract=no") { to_connect() } else { None }),
    }
}

const READ_HINT: &str = "name a capture, as tcpdump -w writes it, that vswitchd may read: rx_file of type pcap, rx_pcap in devargs; no part of the path may be a link";

const WRITE_HINT: &str = "name a new file, or one that a port of type pcap wrote, in a directory that is there: tx_file of type pcap, tx_pcap in devargs; no part of the path may be a link";

fn to_make(path: &Path) -> Result<Held, Refused> {
    paths::to_make(path).map_err(|error| {
        let hint = "make it, writable for vswitchd (mkdir -p); no part of the path may be a link";
        (format!("the directory of {path:?} cannot be opened: {error}"), hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn drivers_are_told_names_of_what_is_open() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name).display().to_string();
        fs::write(at("a.pcap"), [0xd4, 0xc3, 0xb2, 0xa1]).expect("written");
        fs::write(at("text"), "text").expect("written");
        let fd = "/proc/self/fd/";
        for (devargs, want) in [
            (format!("net_pcap0,rx_pcap={},infinite_rx=1", at("a.pcap")), format!("net_pcap0,rx_pcap={fd}")),
            (format!("net_pcap0,tx_pcap={}", at("b.pcap")), format!("net_pcap0,tx_pcap={fd}")),
            (format!("net_virtio_user0,path={},server=1", at("s")), format!("net_virtio_user0,path={fd}")),
            (format!("net_virtio_user0,path={}", at("s")), format!("net_virtio_user0,path=/{}", at("s"))),
            ("net_virtio_user0,path=/dev/vhost-net".to_owned(), "net_virtio_user0,path=/dev/vhost-net".to_owned()),
            (
                format!("net_memif0,role=server,socket={},socket-abstract=no", at("m")),
                format!("net_memif0,role=server,socket={fd}"),
            ),
            (
                format!("net_memif0,socket-abstract=no,socket={}", at("m")),
                format!("net_memif0,socket-abstract=no,socket=/{}", at("m")),
            ),
            ("net_memif0,socket=/run/m".to_owned(), "net_memif0,socket=/run/m".to_owned()),
            ("net_tap0,iface=/x,y".to_owned(), "net_tap0,iface=/x,y".to_owned()),
        ] {
            let (told, held) = hold(&devargs).unwrap_or_else(|(reason, _)| panic!("{devargs}: {reason}"));
            assert!(told.starts_with(&want), "{devargs}: {told}");
            assert_eq!(held.len(), usize::from(want.ends_with(fd)), "{devargs}");
            assert_eq!(told.split(',').count(), devargs.split(',').count(), "{devargs}: {told}");
        }
        assert!(fs::metadata(at("b.pcap")).is_ok_and(|made| made.len() == 0));
        for (devargs, want) in [
            (format!("net_pcap0,rx_pcap={}", at("absent")), "cannot read the capture"),
            (format!("net_pcap0,rx_pcap={}", at("text")), "is no capture"),
            (format!("net_pcap0,tx_pcap={}", at("text")), "no capture that the switch wrote"),
            (format!("net_pcap0,rx_pcap={},tx_pcap={}", at("a.pcap"), at("x/b")), "cannot write the capture"),
            (format!("net_virtio_user0,path={},server=1", at("x/s")), "cannot be opened"),
            (format!("net_memif0,role=server,socket={},socket-abstract=no", at("x/s")), "cannot be opened"),
        ] {
            let (reason, hint) = hold(&devargs).expect_err(&devargs);
            assert!(reason.contains(want) && !hint.is_empty(), "{devargs}: {reason}");
        }
        assert_eq!(fs::read(at("text")).expect("there"), b"text");
    }
}
