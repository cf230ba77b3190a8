//! Names of devices, as EAL spells them; what they need.

use std::path::Path;

/// The full form (`0000:3b:00.0`) of a PCI address; `None` for the name of a virtual device.
#[must_use]
pub fn pci_address(device: &str) -> Option<String> {
    let (rest, function) = device.rsplit_once('.')?;
    let hex =
        |text: &str, len: usize| (1..=len).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts: Vec<_> = rest.split(':').collect();
    let (domain, bus, slot) = match parts[..] {
        [bus, slot] => ("0000", bus, slot),
        [domain, bus, slot] => (domain, bus, slot),
        _ => return None,
    };
    let is_address = hex(domain, 8) && hex(bus, 2) && hex(slot, 2) && hex(function, 1);
    is_address.then(|| format!("{domain:0>4}:{bus:0>2}:{slot:0>2}.{function}").to_ascii_lowercase())
}

/// The device that devargs name: up to the first comma, a PCI address in its full form.
#[must_use]
pub fn device_name(devargs: &str) -> String {
    let name = devargs.split(',').next().unwrap_or_default();
    pci_address(name).unwrap_or_else(|| name.to_owned())
}

/// Whether the device is a memif one.
#[must_use]
pub fn is_memif(devargs: &str) -> bool {
    devargs.starts_with("net_memif")
}

/// The socket that a memif device makes in the file system, if these devargs let it. As in DPDK,
/// what is said last counts.
#[must_use]
pub fn memif_socket(devargs: &str) -> Option<&str> {
    let (name, arguments) = devargs.split_once(',')?;
    let value = |key: &str| arguments.rsplit(',').find_map(|argument| argument.strip_prefix(key)?.strip_prefix('='));
    let serves = matches!(value("role"), Some("server" | "master"));
    let in_files = value("socket-abstract") == Some("no");
    value("socket").filter(|_| name.starts_with("net_memif") && serves && in_files)
}

/// What to do where a device file of the kernel is missing.
pub const MISSING_FILE_HINT: &str = "load its module (/dev/vhost-net: modprobe vhost_net); where the kernel has none, a port of type internal does the same, slower";

/// The device file that a virtual device wants (`path=/dev/vhost-net`), if there is none. Paths
/// elsewhere, `/dev/shm` included, are sockets, which may come later.
#[must_use]
pub fn missing_file(devargs: &str) -> Option<&str> {
    let path = devargs.split(',').skip(1).find_map(|argument| argument.strip_prefix("path="))?;
    let file = Path::new(path);
    (file.parent() == Some(Path::new("/dev")) && !file.exists()).then_some(path)
}

/// What a virtual device needs and is not there, and what to do about it. It is asked for before
/// the driver is, which answers with a number.
#[must_use]
pub fn unusable(devargs: &str) -> Option<(String, &'static str)> {
    if let Some(path) = missing_file(devargs) {
        return Some((format!("there is no {path}"), MISSING_FILE_HINT));
    }
    let (name, arguments) = devargs.split_once(',')?;
    let wants_interface = ["net_pcap", "net_af_packet", "net_af_xdp"].iter().any(|driver| name.starts_with(driver));
    arguments.split(',').filter_map(|argument| argument.split_once('=')).find_map(|(key, value)| match key {
        "path" if name.starts_with("net_virtio_user") && !serves(arguments) && !Path::new(value).exists() => {
            Some((format!("there is no {value}"), "start what makes this socket first, or add server=1 to the devargs"))
        }
        "iface" | "rx_iface" | "tx_iface" | "rx_iface_in" if wants_interface => no_interface(value),
        _ => None,
    })
}

/// Whether a virtio-user device waits for its back end, and makes the socket itself.
fn serves(arguments: &str) -> bool {
    arguments.split(',').any(|argument| argument == "server=1")
}

fn no_interface(name: &str) -> Option<(String, &'static str)> {
    let all = Path::new("/sys/class/net");
    let missing = all.is_dir() && !all.join(name).exists();
    missing.then(|| (format!("there is no interface {name:?}"), "make it first, in the network namespace of vswitchd"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_file_that_is_not_there_is_named() {
        for (devargs, missing) in [
            ("net_virtio_user0,path=/dev/vswitch-no-such,queues=2", Some("/dev/vswitch-no-such")),
            ("net_virtio_user0,queues=2,path=/dev/vswitch-no-such", Some("/dev/vswitch-no-such")),
            ("net_virtio_user0,path=/dev/null", None),
            ("net_virtio_user0,path=/run/vswitch-no-such.sock,server=1", None),
            ("net_virtio_user0,path=/dev/shm/vswitch-no-such.sock,server=1", None),
            ("net_null0", None),
        ] {
            assert_eq!(missing_file(devargs), missing, "{devargs}");
        }
    }

    #[test]
    fn what_a_device_cannot_have_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
        for (devargs, want) in [
            ("net_af_packet0,iface=vt-no-such".to_owned(), Some("there is no interface \"vt-no-such\"")),
            ("net_af_xdp0,iface=lo".to_owned(), None),
            ("net_tap0,iface=vt-no-such".to_owned(), None), // it makes it
            ("net_virtio_user0,path=/dev/vswitch-no-such".to_owned(), Some("there is no /dev/vswitch-no-such")),
            (format!("net_virtio_user0,path={}", path("a.sock")), Some("there is no ")),
            (format!("net_virtio_user0,path={},server=1", path("a.sock")), None),
            (format!("net_memif0,role=client,socket-abstract=no,socket={}", path("x/a.sock")), None),
            ("net_null0,size=64".to_owned(), None),
        ] {
            let said = unusable(&devargs).map(|(reason, _)| reason);
            assert_eq!(said.is_some(), want.is_some(), "{devargs}: {said:?}");
            assert!(said.is_none_or(|said| said.contains(want.unwrap_or_default())), "{devargs}");
        }
    }

    #[test]
    fn pci_addresses_are_told_from_virtual_devices() {
        for (devargs, pci, name) in [
            ("0000:3b:00.0", true, "0000:3b:00.0"),
            ("3B:00.1,rx=1", true, "0000:3b:00.1"),
            ("10000:e1:00.0", true, "10000:e1:00.0"),
            ("net_null0", false, "net_null0"),
            ("net_af_xdp0,iface=eth1.7", false, "net_af_xdp0"),
            ("net_pcap0,rx_pcap=/a:b:c.d", false, "net_pcap0"),
        ] {
            let device = devargs.split(',').next().unwrap_or_default();
            assert_eq!((pci_address(device).is_some(), device_name(devargs).as_str()), (pci, name), "{devargs}");
        }
    }
    #[test]
    fn only_a_memif_server_makes_a_file() {
        for (devargs, socket) in [
            ("net_memif0,role=server,id=0,socket=/run/a.sock,socket-abstract=no", Some("/run/a.sock")),
            ("net_memif1,socket-abstract=no,socket=/run/a.sock,role=master", Some("/run/a.sock")),
            ("net_memif0,role=client,id=0,socket=/run/a.sock,socket-abstract=no", None),
            ("net_memif0,id=0,socket=/run/a.sock,socket-abstract=no", None),
            ("net_memif0,role=server,socket=/run/a.sock", None),
            ("net_memif0", None),
            ("net_null0,role=server,socket=/run/a.sock,socket-abstract=no", None),
        ] {
            assert_eq!(memif_socket(devargs), socket, "{devargs}");
        }
    }
}
