//! What a port is asked to be: plain values, from the configuration file or the API alike.

use super::tunnel::{TunnelConfig, tunnel_word};
use crate::limits;
use crate::packet::Mac;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use vswitch_conntrack::Share;
use vswitch_overlay::routes::Cidr;

/// A port as its owner describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // OpenFlow's port flags
pub struct PortConfig {
    /// Name, unique in the switch; at most [`limits::NAME_MAX`] bytes of `[A-Za-z0-9._-]`.
    pub name: String,
    /// Requested OpenFlow port number, 1 to [`limits::PORT_NUMBER_MAX`]; none: one that no port has
    /// had lately.
    pub number: Option<u32>,
    /// What is behind it.
    pub kind: PortKind,
    /// Requested address; none: what the device has, or a random local one.
    pub mac: Option<Mac>,
    /// Largest L3 packet, in bytes.
    pub mtu: u16,
    /// No MTU was asked for. Then `mtu` follows the interface of the kernel that is behind the
    /// port, if there is one.
    pub mtu_follows: bool,
    /// Takes and gives packets.
    pub admin_up: bool,
    /// Left out when a bridge floods.
    pub no_flood: bool,
    /// What comes in by it is dropped.
    pub no_receive: bool,
    /// Nothing leaves by it.
    pub no_forward: bool,
    /// Malformed packets that come in by it are dropped by name ([`crate::packet::strict`]). Not
    /// for patch ports: their packets were looked at where they came in.
    pub strict: bool,
    /// Packets that come in by it may be for our end of tunnels. None: as its type has it
    /// ([`PortConfig::may_tunnel`]).
    pub underlay: Option<bool>,
    /// Free key-value pairs of the owner.
    pub external_ids: BTreeMap<String, String>,
    /// The switch's own addresses behind this port: it is a VTEP (internal, tap and dummy ports).
    pub addresses: Vec<Cidr>,
}

/// An address as it is written: `192.168.1.1/24`.
#[must_use]
pub fn cidr_text(cidr: &Cidr) -> String {
    format!("{}/{}", cidr.address, cidr.len)
}

impl PortConfig {
    /// A port with defaults.
    #[must_use]
    pub fn new(name: &str, kind: PortKind) -> Self {
        Self {
            name: name.to_owned(),
            number: None,
            kind,
            mac: None,
            mtu: 1500,
            mtu_follows: true,
            admin_up: true,
            no_flood: false,
            no_receive: false,
            no_forward: false,
            strict: false,
            underlay: None,
            external_ids: BTreeMap::new(),
            addresses: Vec::new(),
        }
    }
}

/// Kind of a port, with what only that kind needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// Any ethdev of DPDK: a PCI address or the devargs of a virtual device.
    Dpdk {
        /// For example `0000:3b:00.0`, `net_af_xdp0,iface=eth1`, `net_memif0,role=client,id=0`.
        devargs: String,
        /// Receive queues asked for; the device may have fewer.
        queues: u16,
    },
    /// A guest or a virtio-user process, on librte_vhost.
    VhostUser(VhostConfig),
    /// A TAP interface that the switch makes in its network namespace.
    Tap {
        /// Name of the interface.
        interface: String,
        /// Queues each way.
        queues: u16,
    },
    /// An existing interface (veth, physical), through a packet socket.
    AfPacket {
        /// Name of the interface.
        interface: String,
    },
    /// Capture files, through DPDK's `net_pcap`.
    Pcap {
        /// Packets to receive.
        rx_file: Option<PathBuf>,
        /// Where to write sent packets.
        tx_file: Option<PathBuf>,
        /// Receive the file over and over, from memory.
        infinite_rx: bool,
    },
    /// One end of a wire between two bridges.
    Patch {
        /// Name of the port at the other end.
        peer: String,
    },
    /// An interface of the host (TAP), for the host's own traffic. Named like its bridge it is the
    /// bridge's LOCAL port.
    Internal {
        /// Queues each way.
        queues: u16,
    },
    /// A port for tests ([`super::dummy`]).
    Dummy,
    /// A tunnel: packets that leave by it are put into others, which leave by a port with
    /// addresses.
    Tunnel(TunnelConfig),
}

/// A vhost-user port.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // one switch per negotiable feature
pub struct VhostConfig {
    /// The socket.
    pub path: PathBuf,
    /// Who makes the socket.
    pub mode: VhostMode,
    /// Queue pairs offered.
    pub queues: u16,
    /// Offer checksum offload both ways.
    pub csum: bool,
    /// Offer TSO both ways (needs `csum`).
    pub tso: bool,
    /// Offer mergeable receive buffers.
    pub mergeable: bool,
    /// Offer indirect descriptors.
    pub indirect: bool,
    /// Offer packed rings. Off by default: QEMU cannot recover their index after an unclean exit of
    /// the switch.
    pub packed: bool,
}

impl VhostConfig {
    /// The defaults for a socket.
    #[must_use]
    pub const fn new(path: PathBuf, mode: VhostMode) -> Self {
        Self { path, mode, queues: 1, csum: true, tso: true, mergeable: true, indirect: true, packed: false }
    }
}

/// Which side of a vhost-user socket the switch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VhostMode {
    /// The switch connects, again and again; the guest (QEMU `server=on`) makes the socket.
    /// Survives restarts of both sides.
    Client,
    /// The switch makes the socket.
    Server,
}

impl PortKind {
    /// The word for it in configuration, API and output.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Dpdk { .. } => "dpdk",
            Self::VhostUser(_) => "vhost-user",
            Self::Tap { .. } => "tap",
            Self::AfPacket { .. } => "af_packet",
            Self::Pcap { .. } => "pcap",
            Self::Patch { .. } => "patch",
            Self::Internal { .. } => "internal",
            Self::Dummy => "dummy",
            Self::Tunnel(tunnel) => tunnel_word(tunnel.kind),
        }
    }

    /// Whether a guest or a Pod's program is at the other end, which sends what it likes.
    #[must_use]
    pub fn is_guest(&self) -> bool {
        match self {
            Self::VhostUser(_) => true,
            Self::Dpdk { devargs, .. } => devargs.starts_with("net_memif"),
            _ => false,
        }
    }

    /// All words, for hints.
    pub const NAMES: [&'static str; 11] =
        ["dpdk", "vhost-user", "tap", "af_packet", "pcap", "patch", "internal", "dummy", "geneve", "vxlan", "gre"];

    /// The part of the connection table that what comes in by it may have; none: nothing comes in
    /// by it but from other ports. A card, a tunnel and the host stand for many peers.
    #[must_use]
    pub fn share(&self) -> Option<Share> {
        match self {
            Self::Dpdk { devargs, .. } if !devargs.starts_with("net_memif") => Some(Share::Many),
            Self::Internal { .. } | Self::Tunnel(_) => Some(Share::Many),
            Self::Patch { .. } => None,
            Self::Dpdk { .. }
            | Self::VhostUser(_)
            | Self::Tap { .. }
            | Self::AfPacket { .. }
            | Self::Pcap { .. }
            | Self::Dummy => Some(Share::One),
        }
    }

    /// Its packets come from other ports, not from outside.
    #[must_use]
    pub const fn is_inner(&self) -> bool {
        matches!(self, Self::Patch { .. } | Self::Tunnel(_))
    }
}

/// One thing wrong with a [`PortConfig`] or another value of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {}", description(.problem, .hint))]
pub struct FieldError {
    /// The field, as the configuration file spells it.
    pub field: &'static str,
    /// What is wrong, naming the value.
    pub problem: String,
    /// How to fix it; may be empty.
    pub hint: String,
}

impl FieldError {
    /// Names field, problem and fix.
    pub fn new(field: &'static str, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { field, problem: problem.into(), hint: hint.into() }
    }

    /// Problem and fix.
    #[must_use]
    pub fn description(&self) -> String {
        description(&self.problem, &self.hint)
    }
}

fn description(problem: &str, hint: &str) -> String {
    if hint.is_empty() { problem.to_owned() } else { format!("{problem}; {hint}") }
}

/// Whether a port or bridge may have this name: 1 to [`limits::NAME_MAX`] bytes of
/// `[A-Za-z0-9._-]`, not `.` or `..`.
#[must_use]
pub fn is_name(name: &str) -> bool {
    (1..=limits::NAME_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && name != "."
        && name != ".."
}

impl PortConfig {
    /// Whether packets that come in by it may be for our end of tunnels: not those of Pods, which
    /// are behind vhost-user ports, unless it is said.
    #[must_use]
    pub fn may_tunnel(&self) -> bool {
        self.underlay.unwrap_or(!matches!(self.kind, PortKind::VhostUser(_)))
    }

    /// Everything that is wrong with these values by themselves (not: names already taken, devices
    /// that do not exist).
    #[must_use]
    pub fn errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut wrong = |field, problem: String, hint: &str| errors.push(FieldError::new(field, problem, hint));
        if !is_name(&self.name) {
            wrong("name", format!("{:?} is not a name", self.name), "use 1 to 15 characters of A-Z a-z 0-9 . _ -");
        }
        if let Some(number) = self.number.filter(|number| !(1..=limits::PORT_NUMBER_MAX).contains(number)) {
            wrong("number", format!("{number} is not a port number"), "use 1 to 65279");
        }
        if !(limits::MTU_MIN..=limits::MTU_MAX).contains(&self.mtu) {
            wrong("mtu", format!("{} is out of range", self.mtu), "use 68 to 9702");
        }
        if let Some(mac) = self.mac.filter(|mac| mac.is_multicast() || mac.is_zero()) {
            wrong("mac", format!("{mac} is not a host's address"), "use a unicast address, such as 02:00:00:00:00:01");
        }
        if self.external_ids.len() > limits::EXTERNAL_IDS_MAX {
            wrong("external_ids", format!("{} pairs", self.external_ids.len()), "use at most 64");
        }
        for (key, value) in &self.external_ids {
            if key.is_empty() || key.len() > limits::EXTERNAL_ID_LEN_MAX || value.len() > limits::EXTERNAL_ID_LEN_MAX {
                wrong("external_ids", format!("the pair {key:?} is empty or too long"), "use 1 to 256 bytes");
            }
            if [key, value].iter().any(|text| text.chars().any(char::is_control)) {
                let problem = format!("the pair {key:?}, {value:?} has control characters");
                wrong("external_ids", problem, "take them away");
            }
        }
        if self.strict && self.kind.is_inner() {
            wrong(
                "strict",
                format!("a {} port cannot be strict", self.kind.name()),
                "set it where packets come in from outside",
            );
        }
        self.address_errors(&mut wrong);
        self.kind.errors(&mut wrong);
        errors
    }

    fn address_errors(&self, wrong: &mut impl FnMut(&'static str, String, &str)) {
        let may_be_vtep = matches!(self.kind, PortKind::Internal { .. } | PortKind::Tap { .. } | PortKind::Dummy);
        if !may_be_vtep && !self.addresses.is_empty() {
            let problem = format!("a port of type {} has no addresses", self.kind.name());
            wrong("addresses", problem, "give them to an internal or tap port of the underlay's bridge");
        }
        if self.addresses.len() > limits::VTEP_ADDRESSES_MAX {
            let most = format!("use at most {}", limits::VTEP_ADDRESSES_MAX);
            wrong("addresses", format!("{} addresses", self.addresses.len()), &most);
        }
        for (i, cidr) in self.addresses.iter().enumerate() {
            let address = cidr.address;
            let v4 = |address: std::net::Ipv4Addr| address.is_broadcast();
            let broadcast = matches!(address, IpAddr::V4(address) if v4(address));
            if address.is_unspecified() || address.is_multicast() || address.is_loopback() || broadcast {
                wrong("addresses", format!("{address} is not a host's address"), "use a unicast address");
            }
            if self.addresses[..i].iter().any(|other| other.address == address) {
                wrong("addresses", format!("{address} is given twice"), "give each address once");
            }
        }
    }
}

impl PortKind {
    fn errors(&self, wrong: &mut impl FnMut(&'static str, String, &str)) {
        let queues = |queues: u16, wrong: &mut dyn FnMut(&'static str, String, &str)| {
            if !(1..=limits::QUEUES_MAX).contains(&queues) {
                wrong("queues", format!("{queues} is out of range"), "use 1 to 64");
            }
        };
        match self {
            Self::Dpdk { devargs, queues: n } => {
                if devargs.is_empty() || devargs.contains(['\0', '\n', ' ']) {
                    wrong(
                        "devargs",
                        format!("{devargs:?} is no device"),
                        "use a PCI address or devargs like net_null0",
                    );
                }
                queues(*n, wrong);
            }
            Self::VhostUser(vhost) => {
                let len = vhost.path.as_os_str().len();
                if !vhost.path.is_absolute() || len > 106 {
                    wrong(
                        "path",
                        format!("{:?} is no socket path", vhost.path),
                        "use an absolute path of at most 106 bytes",
                    );
                }
                if vhost.tso && !vhost.csum {
                    wrong(
                        "tso",
                        "TSO without checksum offload".to_owned(),
                        "set csum = true or tso = false (virtio 1.1, 5.1.3.1)",
                    );
                }
                queues(vhost.queues, wrong);
            }
            Self::Tap { interface, .. } | Self::AfPacket { interface } => {
                if let Self::Tap { queues: n, .. } = self {
                    queues(*n, wrong);
                }
                if !is_name(interface) {
                    wrong(
                        "interface",
                        format!("{interface:?} is no interface name"),
                        "use 1 to 15 characters of A-Z a-z 0-9 . _ -",
                    );
                }
            }
            Self::Pcap { rx_file, tx_file, infinite_rx } => {
                if rx_file.is_none() && tx_file.is_none() {
                    wrong("rx_file", "a pcap port without files".to_owned(), "give rx_file, tx_file or both");
                }
                for (field, file) in [("rx_file", rx_file), ("tx_file", tx_file)] {
                    if let Some(file) = file.as_ref().filter(|file| file.to_string_lossy().contains([',', '\0'])) {
                        wrong(field, format!("{file:?} has a comma"), "rename the file: devargs are split at commas");
                    }
                }
                if *infinite_rx && rx_file.is_none() {
                    wrong("infinite_rx", "infinite_rx without rx_file".to_owned(), "give rx_file");
                }
            }
            Self::Patch { peer } => {
                if !is_name(peer) {
                    wrong("peer", format!("{peer:?} is no port name"), "name the port at the other end");
                }
            }
            Self::Internal { queues: n } => queues(*n, wrong),
            Self::Dummy | Self::Tunnel(_) => {}
        }
    }
}
