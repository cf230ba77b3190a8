//! Which devices of DPDK a client may name, and with which arguments.
//!
//! **Where in the walk**: nowhere; the control side asks before it opens a port of type `dpdk`.
//!
//! **Design**: DPDK has more than a hundred drivers. Some run programs, some end the process, some
//! take addresses of memory. So a client may name the drivers of [`DRIVERS`] and PCI addresses. Of
//! a driver's arguments it may give those whose meaning is known here. The configuration file can
//! allow further drivers (`[dpdk] allow_drivers`); their arguments are not looked at.
//!
//! **Limits**: [`DEVARGS_LEN_MAX`]. What a path leads to is checked when the device is opened.

use crate::devargs::pci_address;
use Takes::{Memif, Reads, Vhost, Word, Writes};
use std::path::Path;

/// Bytes of devargs at most.
pub const DEVARGS_LEN_MAX: usize = 1024;

/// Bytes of a device's name at most (`RTE_ETH_NAME_MAX_LEN` is 64, with its NUL).
const NAME_LEN_MAX: usize = 63;

/// What the value of an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// A number, an address, a name: letters, digits and `_.:-`.
    Word,
    /// A capture that is read.
    Reads,
    /// A capture that is written.
    Writes,
    /// A socket of memif, in the file system or not.
    Memif,
    /// A socket, or a device file of the kernel's vhost.
    Vhost,
}

/// A driver whose arguments are known.
#[derive(Debug)]
pub struct Driver {
    /// What names of its devices begin with.
    pub name: &'static str,
    keys: &'static [(&'static str, Takes)],
}

/// The drivers that any client may name (DPDK 22.11, "Network Interface Controller Drivers").
/// Arguments that name programs, memory or descriptors are left out.
pub const DRIVERS: [Driver; 6] = [
    Driver {
        name: "net_af_xdp",
        keys: &[
            ("iface", Word),
            ("start_queue", Word),
            ("queue_count", Word),
            ("shared_umem", Word),
            ("force_copy", Word),
            ("busy_budget", Word),
        ],
    },
    Driver {
        name: "net_memif",
        keys: &[
            ("id", Word),
            ("role", Word),
            ("bsize", Word),
            ("rsize", Word),
            ("socket", Memif),
            ("socket-abstract", Word),
            ("owner-uid", Word),
            ("owner-gid", Word),
            ("mac", Word),
            ("secret", Word),
            ("zero-copy", Word),
        ],
    },
    Driver { name: "net_null", keys: &[("size", Word), ("copy", Word), ("no-rx", Word)] },
    Driver {
        name: "net_pcap",
        keys: &[
            ("rx_pcap", Reads),
            ("tx_pcap", Writes),
            ("iface", Word),
            ("rx_iface", Word),
            ("rx_iface_in", Word),
            ("tx_iface", Word),
            ("phy_mac", Word),
            ("infinite_rx", Word),
        ],
    },
    Driver { name: "net_ring", keys: &[("nodeaction", Word)] },
    Driver {
        name: "net_virtio_user",
        keys: &[
            ("path", Vhost),
            ("iface", Word),
            ("mac", Word),
            ("cq", Word),
            ("queues", Word),
            ("queue_size", Word),
            ("server", Word),
            ("mrg_rxbuf", Word),
            ("in_order", Word),
            ("packed_vq", Word),
            ("speed", Word),
            ("vectorized", Word),
        ],
    },
];

/// Why a client may not name a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceRefused {
    /// It is empty, too long, or has characters that no devargs have.
    #[error("{0:?} is no device")]
    Syntax(String),
    /// Its driver is not on the list.
    #[error("device {device:?}: its driver is not allowed")]
    Driver {
        /// The device's name.
        device: String,
    },
    /// An argument that its driver does not have, or that a client may not give.
    #[error("device {device:?}: argument {argument:?}: {problem}")]
    Argument {
        /// The device's name.
        device: String,
        /// The argument.
        argument: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl DeviceRefused {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Syntax(_) => "use a PCI address or devargs like net_null0,size=64".to_owned(),
            Self::Driver { .. } => {
                let names: Vec<_> = DRIVERS.iter().map(|driver| driver.name).collect();
                format!(
                    "use a PCI address or a device of {}; [dpdk] allow_drivers in the configuration file allows others",
                    names.join(", ")
                )
            }
            Self::Argument { device, .. } => match driver_of(device) {
                Some(driver) => {
                    let keys: Vec<_> = driver.keys.iter().map(|(key, _)| *key).collect();
                    format!("{} takes {}, each once, as key=value", driver.name, keys.join(", "))
                }
                None => "use letters, digits and _.:=-[]".to_owned(),
            },
        }
    }
}

/// The driver of a virtual device's name, if it is one of [`DRIVERS`].
#[must_use]
pub fn driver_of(name: &str) -> Option<&'static Driver> {
    DRIVERS.iter().find(|driver| is_device_of(name, driver.name))
}

/// Whether a device has such a name that DPDK gives it to this driver: the driver's name, then what
/// names of ports are made of.
pub(crate) fn is_device_of(name: &str, driver: &str) -> bool {
    let word = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    !driver.is_empty() && name.strip_prefix(driver).is_some_and(word)
}

impl Driver {
    /// What the value of an argument is; `None`: a client may not give it.
    #[must_use]
    pub fn takes(&self, key: &str) -> Option<Takes> {
        self.keys.iter().find(|(known, _)| *known == key).map(|(_, takes)| *takes)
    }
}

/// Checks the devargs of a client; `more` are names of further drivers. Gives the paths in them,
/// with what each is.
///
/// # Errors
/// When the driver or an argument is not allowed.
pub fn check<'a>(devargs: &'a str, more: &[String]) -> Result<Vec<(&'a Path, Takes)>, DeviceRefused> {
    let wrong = |byte: u8| byte.is_ascii_control() || byte == b' ' || !byte.is_ascii();
    let mut parts = devargs.split(',');
    let name = parts.next().unwrap_or_default();
    if name.is_empty() || name.len() > NAME_LEN_MAX || devargs.len() > DEVARGS_LEN_MAX || devargs.bytes().any(wrong) {
        return Err(DeviceRefused::Syntax(devargs.chars().take(NAME_LEN_MAX).collect()));
    }
    let refused = |argument: &str, problem| DeviceRefused::Argument {
        device: name.to_owned(),
        argument: argument.chars().take(NAME_LEN_MAX).collect(),
        problem,
    };
    if pci_address(name).is_some() {
        // Arguments differ from card to card. None of them needs a path.
        return match parts.find(|part| !part.bytes().all(|byte| is_word(byte) || b"=[]".contains(&byte))) {
            Some(part) => Err(refused(part, "it has characters that no argument of a card needs")),
            None => Ok(Vec::new()),
        };
    }
    let Some(driver) = driver_of(name) else {
        let allowed = more.iter().any(|driver| is_device_of(name, driver));
        return if allowed { Ok(Vec::new()) } else { Err(DeviceRefused::Driver { device: name.to_owned() }) };
    };
    let (mut seen, mut paths) = (Vec::new(), Vec::new());
    for part in parts {
        let (key, value) = part.split_once('=').ok_or_else(|| refused(part, "it is no key=value"))?;
        let takes = driver.takes(key).ok_or_else(|| refused(part, "it is not allowed"))?;
        if seen.contains(&key) {
            return Err(refused(part, "it is given twice"));
        }
        seen.push(key);
        match takes {
            Word if !value.bytes().all(is_word) => return Err(refused(part, "its value has wrong characters")),
            Word => {}
            _ => paths.push((Path::new(value), takes)),
        }
    }
    if driver.name == "net_memif" && !seen.contains(&"socket") && value_of(devargs, "socket-abstract") == Some("no") {
        return Err(refused("socket-abstract=no", "it needs a socket"));
    }
    Ok(paths)
}

/// The value of an argument of devargs.
#[must_use]
pub fn value_of<'a>(devargs: &'a str, key: &str) -> Option<&'a str> {
    devargs.split(',').find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_named_is_named_with_its_paths() {
        let socket = "net_memif0,role=server,id=0,socket=/run/vswitch/a,socket-abstract=no";
        for (devargs, paths) in [
            ("0000:3b:00.0", vec![]),
            ("3b:00.1,representor=[0,2-3],dv_flow_en=2", vec![]),
            ("net_null0", vec![]),
            ("net_null_full3,size=64,no-rx=1", vec![]),
            ("net_ring0,nodeaction=r0:0:CREATE", vec![]),
            ("net_pcap_pod-a.1,rx_pcap=/a", vec![("/a", Reads)]),
            ("net_af_xdp0,iface=eth1.7,queue_count=2", vec![]),
            ("net_memif1,role=client,id=7", vec![]),
            (socket, vec![("/run/vswitch/a", Memif)]),
            ("net_pcap0,rx_pcap=/a,tx_pcap=/b", vec![("/a", Reads), ("/b", Writes)]),
            ("net_virtio_user0,path=/dev/vhost-net,iface=h,queues=2", vec![("/dev/vhost-net", Vhost)]),
            ("net_tap0,iface=/a(b)", vec![]),
        ] {
            let found = check(devargs, &["net_tap".to_owned()]).unwrap_or_else(|error| panic!("{devargs}: {error}"));
            let want: Vec<_> = paths.iter().map(|(path, takes)| (Path::new(*path), *takes)).collect();
            assert_eq!(found, want, "{devargs}");
        }
    }

    #[test]
    fn what_may_not_be_named_is_refused_with_its_reason() {
        for (devargs, said) in [
            ("", "is no device"),
            ("net_null0\n", "is no device"),
            ("net_null0,size= 1", "is no device"),
            ("net_null\u{202e}0", "is no device"),
            ("event_sw0", "its driver is not allowed"),
            ("net_failsafe0,exec(touch /tmp/x)", "is no device"),
            ("net_failsafe0,exec(id)", "its driver is not allowed"),
            ("eth_null0", "its driver is not allowed"),
            ("net_null/0", "its driver is not allowed"),
            ("net_null0=net_failsafe", "its driver is not allowed"),
            ("vdev:net_null0", "its driver is not allowed"),
            ("bus=vdev,name=net_failsafe0", "its driver is not allowed"),
            ("net_tap0", "its driver is not allowed"),
            ("net_null0,size", "it is no key=value"),
            ("net_null0,driver=net_failsafe", "it is not allowed"),
            ("net_ring0,internal=0x7f0000000000", "it is not allowed"),
            ("net_af_xdp0,iface=eth0,xdp_prog=/tmp/a.o", "it is not allowed"),
            ("net_null0,size=64,size=65", "it is given twice"),
            ("net_pcap0,iface=../x", "its value has wrong characters"),
            ("net_memif0,socket-abstract=no", "it needs a socket"),
            ("0000:3b:00.0,ddp=/etc/shadow", "characters that no argument of a card needs"),
        ] {
            let error = check(devargs, &[]).expect_err(devargs);
            assert!(error.to_string().contains(said), "{devargs}: {error}");
            assert!(!error.hint().is_empty() && !error.to_string().contains('\n'), "{devargs}: {error}");
        }
        assert!(check(&format!("net_null0,size={}", "1".repeat(DEVARGS_LEN_MAX)), &[]).is_err());
        assert!(check(&format!("net_null{}", "1".repeat(NAME_LEN_MAX)), &[]).is_err());
    }

    #[test]
    fn an_allowed_driver_is_not_the_beginning_of_another_one() {
        for driver in &DRIVERS {
            assert!(DRIVERS.iter().all(|other| other.name == driver.name || !other.name.starts_with(driver.name)));
        }
    }
}
