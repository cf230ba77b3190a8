//! Names of devices, as EAL spells them.

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

/// The socket that a memif device makes in the file system, if these devargs let it. As in DPDK, what is said last counts.
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

/// The device file that a virtual device wants (`path=/dev/vhost-net`), if there is none. Paths elsewhere, `/dev/shm` included, are sockets, which may come later.
#[must_use]
pub fn missing_file(devargs: &str) -> Option<&str> {
    let path = devargs.split(',').skip(1).find_map(|argument| argument.strip_prefix("path="))?;
    let file = std::path::Path::new(path);
    (file.parent() == Some(std::path::Path::new("/dev")) && !file.exists()).then_some(path)
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
