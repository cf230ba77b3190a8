//! Packets and connections as text, with names for addresses.

use std::fmt::Write as _;
use std::net::IpAddr;

/// A family's addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    pub(super) version: u8,
    column: usize,
}

pub(super) const V4: Family = Family { version: 4, column: 0 };
pub(super) const V6: Family = Family { version: 6, column: 1 };

/// Who has which address, IPv4 and IPv6.
const NAMES: [(&str, [&str; 2]); 20] = [
    ("node", ["172.18.0.3", "fc00::3"]),
    ("other", ["172.18.0.4", "fc00::4"]),
    ("client", ["172.18.0.1", "fc00::1"]),
    ("outside", ["8.8.8.8", "2001:db8::8"]),
    ("pod1", ["10.244.1.3", "fd00:10:244:1::3"]),
    ("pod2", ["10.244.1.6", "fd00:10:244:1::6"]),
    ("gateway", ["10.244.1.2", "fd00:10:244:1::2"]),
    ("join", ["100.64.0.4", "fd98::4"]),
    ("masquerade.1", ["169.254.169.1", "fd69::1"]),
    ("masquerade.2", ["169.254.169.2", "fd69::2"]),
    ("masquerade.3", ["169.254.169.3", "fd69::3"]),
    ("masquerade.5", ["169.254.169.5", "fd69::5"]),
    ("masquerade.6", ["169.254.169.6", "fd69::6"]),
    ("virtual", ["169.254.0.253", "fc01::aabb:ccdd:eeff"]),
    ("service-pod1", ["10.96.146.87", "fd00:10:96::57"]),
    ("service-other", ["10.96.146.88", "fd00:10:96::58"]),
    ("service-node", ["10.96.146.89", "fd00:10:96::59"]),
    ("service-empty", ["10.96.146.90", "fd00:10:96::5a"]),
    ("service-pod2", ["10.96.146.92", "fd00:10:96::5c"]),
    ("no-service", ["10.96.146.99", "fd00:10:96::63"]),
];

/// MAC addresses of the host's side and of the wire. The last ones are of the next hop of Services:
/// IPv4, IPv6 of OVN-Kubernetes, IPv6 here.
const MACS: [(&str, [u8; 6]); 6] = [
    ("node", [0x02, 0x42, 0xac, 0x12, 0, 3]),
    ("other", [0x02, 0x42, 0xac, 0x12, 0, 4]),
    ("client", [0x02, 0x42, 0xdf, 0x4d, 0xb6, 0xd2]),
    ("masquerade.4", [0x0a, 0x58, 0xa9, 0xfe, 0xa9, 4]),
    ("masquerade.4", [0x0a, 0x58, 0x1b, 0xac, 0x71, 0x41]),
    ("masquerade.4", [0x0a, 0x58, 0, 0, 0, 4]),
];

/// A packet's headers. Ports of ICMP are type and code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) source_mac: [u8; 6],
    pub(super) target_mac: [u8; 6],
    pub(super) source: IpAddr,
    pub(super) target: IpAddr,
    pub(super) source_port: u16,
    pub(super) target_port: u16,
    protocol: u8,
    ttl: u8,
    /// What is behind the ports, without checksum.
    rest: Vec<u8>,
}

impl Packet {
    /// Reads TCP, UDP and ICMP. None: it is something else.
    ///
    /// # Panics
    /// When a checksum is wrong.
    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        let ip = &frame[14..];
        let (source, target, protocol, ttl, behind): (IpAddr, IpAddr, u8, u8, &[u8]) = match &frame[12..14] {
            [8, 0] => {
                assert_eq!(sum(&[&ip[..20]]), 0xffff, "the checksum of a header");
                let of = |at: usize| <[u8; 4]>::try_from(&ip[at..at + 4]).expect("four").into();
                let length = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
                (of(12), of(16), ip[9], ip[8], &ip[20..length])
            }
            [0x86, 0xdd] => {
                let of = |at: usize| <[u8; 16]>::try_from(&ip[at..at + 16]).expect("sixteen").into();
                let length = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
                (of(8), of(24), ip[6], ip[7], &ip[40..40 + length])
            }
            _ => return None,
        };
        let ends: &[u8] = if source.is_ipv4() { &ip[12..20] } else { &ip[8..40] };
        let length = u16::try_from(behind.len()).expect("a short one").to_be_bytes();
        let pseudo = [ends, &[0, protocol], &length].concat();
        let at = match protocol {
            6 => 16,
            17 => 6,
            1 | 58 => 2,
            _ => return None,
        };
        let pseudo: &[u8] = if protocol == 1 { &[] } else { &pseudo };
        assert_eq!(sum(&[pseudo, behind]), 0xffff, "the checksum of protocol {protocol}: {frame:02x?}");
        let [source_port, target_port] = match protocol {
            1 | 58 => [u16::from(behind[0]), u16::from(behind[1])],
            _ => [0, 2].map(|at| u16::from_be_bytes([behind[at], behind[at + 1]])),
        };
        let mut rest = behind[4.min(at)..].to_vec();
        rest.drain(at - 4.min(at)..at + 2 - 4.min(at));
        Some(Self {
            source_mac: frame[6..12].try_into().expect("six"),
            target_mac: frame[..6].try_into().expect("six"),
            source,
            target,
            source_port,
            target_port,
            protocol,
            ttl,
            rest,
        })
    }

    /// Whether it is the answer to a packet.
    pub(super) fn answers(&self, other: &Self) -> bool {
        self.protocol == other.protocol
            && (self.source, self.source_port) == (other.target, other.target_port)
            && (self.target, self.target_port) == (other.source, other.source_port)
    }
}

impl Family {
    fn name(self, address: &str) -> String {
        let known = NAMES.iter().find(|(_, of)| of[self.column] == address);
        known.map_or_else(|| address.to_owned(), |(name, _)| (*name).to_owned())
    }

    /// A packet that left, where another one came in. MAC addresses are told of the host's side and
    /// of the wire; what differs behind the ports, too. Routers are not counted.
    pub(super) fn packet(self, port: &str, bytes: &[u8], sent: Option<&Packet>) -> String {
        let place = match port {
            "p1" => "wire",
            "br0" => "host",
            "p101" => "gateway",
            "p102" => "pod1",
            "p103" => "pod2",
            other => panic!("{other} leads nowhere"),
        };
        let Some(packet) = Packet::read(bytes) else { return format!("{place} {}", crate::record::hex(bytes)) };
        let mut text = format!("{place} ");
        if matches!(port, "p1" | "br0") {
            let name = |mac: [u8; 6]| {
                MACS.iter()
                    .find(|(_, of)| *of == mac)
                    .map_or_else(|| format!("{mac:02x?}"), |(name, _)| (*name).to_owned())
            };
            let _ = write!(text, "[{}>{}] ", name(packet.source_mac), name(packet.target_mac));
        }
        let [source, target] = [packet.source, packet.target].map(|address| self.name(&address.to_string()));
        let _ = write!(text, "{source}:{}>{target}:{}", packet.source_port, packet.target_port);
        if packet.ttl < 64 {
            text += " routed";
        }
        if sent.is_none_or(|sent| (packet.protocol, &packet.rest) != (sent.protocol, &sent.rest)) {
            let _ = match packet.protocol {
                6 => write!(text, " tcp flags={:#x}", packet.rest[9]),
                protocol => write!(text, " protocol={protocol}"),
            };
        }
        text
    }

    /// A connection of the gateway bridge and its state, from a line of Open vSwitch's form. None:
    /// it is in another zone.
    pub(super) fn connection(self, line: &str) -> Option<(String, String)> {
        let value = |text: &str, key: &str| {
            let (_, rest) = text.split_once(&format!("{key}="))?;
            Some(rest.split([',', ')', '(']).next().unwrap_or_default().to_owned())
        };
        let zone = value(line, "zone").filter(|zone| (64000..64004).contains(&zone.parse().unwrap_or(0)))?;
        let tuple = |key: &str| {
            let (_, rest) = line.split_once(&format!("{key}=("))?;
            let end = |which: &str| value(rest, which);
            let ends = [end("src")?, end("dst")?].map(|address| self.name(&address));
            Some(format!("{}:{}>{}:{}", ends[0], end("sport")?, ends[1], end("dport")?))
        };
        let mark = value(line, "mark").map_or_else(String::new, |mark| format!(" mark={mark}"));
        let tuples = tuple("orig").zip(tuple("reply"));
        let text = tuples
            .map_or_else(|| line.to_owned(), |(original, reply)| format!("zone {zone} {original} reply {reply}{mark}"));
        Some((text, value(line, "state").unwrap_or_default()))
    }
}

/// The sum of Internet checksums, folded.
fn sum(parts: &[&[u8]]) -> u16 {
    let all = parts.concat();
    let words = all.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("folded")
}
