//! What scenarios do with tunnels: ports, addresses of LOCAL, routes and neighbours; and what is
//! compared of packets in tunnels.
//!
//! **Design**: `br0` is both the bridge of the tunnel ports and the underlay; LOCAL is the VTEP
//! port and has the address [`VTEP_MAC`]. A scenario with tunnels leaves behind what no command
//! takes away: each switch is started anew after it.

/// Ethernet address of LOCAL.
pub(crate) const VTEP_MAC: &str = "02:00:00:00:00:b0";

/// A step about tunnels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tunnelling {
    /// `tunnel NUMBER KIND OPTION=VALUE...`: a tunnel port, named `tNUMBER`.
    Add { number: u32, kind: String, options: Vec<String> },
    /// `untunnel NUMBER`: takes it away.
    Remove(u32),
    /// `address CIDR`: LOCAL has this address, and a route to its subnet.
    Address(String),
    /// `route PREFIX br0 [GATEWAY]`
    Route { prefix: String, gateway: Option<String> },
    /// `unroute PREFIX`
    Unroute(String),
    /// `neighbour IP MAC`
    Neighbour { ip: String, mac: String },
    /// `neighbours`: records those that are known.
    Neighbours,
    /// `flush-neighbours`
    FlushNeighbours,
}

impl Tunnelling {
    /// Parses a line; none: it is about something else, or wrong.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let words = line.split_whitespace().collect::<Vec<_>>();
        let owned = |word: &&str| (*word).to_owned();
        Some(match words.as_slice() {
            ["tunnel", number, kind, options @ ..] => Self::Add {
                number: number.parse().ok()?,
                kind: owned(kind),
                options: options.iter().map(owned).collect(),
            },
            ["untunnel", number] => Self::Remove(number.parse().ok()?),
            ["address", cidr] => Self::Address(owned(cidr)),
            ["route", prefix, "br0", gateway @ ..] if gateway.len() <= 1 => {
                Self::Route { prefix: owned(prefix), gateway: gateway.first().map(owned) }
            }
            ["unroute", prefix] => Self::Unroute(owned(prefix)),
            ["neighbour", ip, mac] => Self::Neighbour { ip: owned(ip), mac: owned(mac) },
            ["neighbours"] => Self::Neighbours,
            ["flush-neighbours"] => Self::FlushNeighbours,
            _ => return None,
        })
    }

    /// What a switch prints about it, in lines to compare. Of neighbours: address and MAC, sorted.
    pub(crate) fn lines(&self, printed: &str) -> Vec<String> {
        if *self != Self::Neighbours {
            return Vec::new();
        }
        let rows = printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut lines = rows
            .filter(|words| words.len() >= 2 && words[0].parse::<std::net::IpAddr>().is_ok())
            .map(|words| format!("{} {}", words[0], words[1]))
            .collect::<Vec<_>>();
        lines.sort();
        lines
    }
}

impl std::fmt::Display for Tunnelling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Add { number, kind, options } => {
                write!(f, "tunnel {number} {kind}")?;
                options.iter().try_for_each(|option| write!(f, " {option}"))
            }
            Self::Remove(number) => write!(f, "untunnel {number}"),
            Self::Address(cidr) => write!(f, "address {cidr}"),
            Self::Route { prefix, gateway: None } => write!(f, "route {prefix} br0"),
            Self::Route { prefix, gateway: Some(gateway) } => write!(f, "route {prefix} br0 {gateway}"),
            Self::Unroute(prefix) => write!(f, "unroute {prefix}"),
            Self::Neighbour { ip, mac } => write!(f, "neighbour {ip} {mac}"),
            Self::Neighbours => f.write_str("neighbours"),
            Self::FlushNeighbours => f.write_str("flush-neighbours"),
        }
    }
}

/// Name of a tunnel port.
pub(crate) fn port_name(number: u32) -> String {
    format!("t{number}")
}

/// Packets and bytes that a tunnel port has received, from what `dump-ports` prints. What such a
/// port sends Open vSwitch counts twice, without headers and with them: that is not compared.
pub(crate) fn received(printed: &str) -> String {
    let number = |key: &str| {
        let (_, rest) = printed.split_once(key)?;
        rest.split(|c: char| !c.is_ascii_digit()).next()
    };
    format!("rx {} {}", number("rx pkts=").unwrap_or("?"), number("bytes=").unwrap_or("?"))
}

/// UDP ports of tunnels, and whether packets to them are Geneve.
#[derive(Clone, Debug, Default)]
pub(crate) struct TunnelPorts(Vec<(u16, bool)>);

/// Source ports that Open vSwitch takes for its tunnels.
const SOURCE_PORTS: std::ops::RangeInclusive<u16> = 32768..=61000;
/// Tunnels in tunnels that are looked into.
const DEPTH: usize = 4;

impl TunnelPorts {
    /// Those of the tunnel ports that steps add; none are added: none.
    pub(crate) fn of<'a>(steps: impl Iterator<Item = &'a Tunnelling>) -> Self {
        let mut ports = Vec::new();
        for step in steps {
            let Tunnelling::Add { kind, options, .. } = step else { continue };
            let given = options.iter().find_map(|option| option.strip_prefix("dst_port=")?.parse().ok());
            match kind.as_str() {
                "geneve" => ports.push((given.unwrap_or(6081), true)),
                "vxlan" => ports.push((given.unwrap_or(4789), false)),
                // No UDP, but what is in it may be another tunnel.
                _ => {}
            }
        }
        Self(ports)
    }

    /// Writes 0 for the source ports that a switch chose itself (which is its own affair). A
    /// checksum that was right for the packet as it was is right for it afterwards, and one that
    /// was wrong is as wrong.
    pub(crate) fn normalise(&self, packet: &mut [u8]) {
        if !self.0.is_empty() {
            let mut sums = Vec::new();
            self.walk(packet, 0, &mut sums, DEPTH);
        }
    }

    /// The packet that begins at `start`; `sums`: where the checksums are that it lies under,
    /// innermost last.
    fn walk(&self, packet: &mut [u8], start: usize, sums: &mut Vec<usize>, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let (protocol, at) = transport(packet, start)?;
        let inner = match protocol {
            17 => {
                let (source, destination) = (word(packet, at)?, word(packet, at + 2)?);
                let is_geneve = self.0.iter().find(|(port, _)| *port == destination)?.1;
                sums.push(at + 6);
                if SOURCE_PORTS.contains(&source) {
                    packet[at..at + 2].copy_from_slice(&[0, 0]);
                    let sum = sums.iter().rev().find(|sum| word(packet, **sum).is_some_and(|sum| sum != 0));
                    if let Some(sum) = sum {
                        take_from_checksum(&mut packet[*sum..*sum + 2], source);
                    }
                }
                let options = if is_geneve { usize::from(packet.get(at + 8)? & 0x3f) * 4 } else { 0 };
                at + 16 + options
            }
            47 => {
                let flags = word(packet, at)?;
                let fields = [0x8000, 0x2000, 0x1000].iter().filter(|flag| flags & **flag != 0).count();
                if flags & 0x8000 != 0 {
                    sums.push(at + 4);
                }
                at + 4 + 4 * fields
            }
            _ => return None,
        };
        self.walk(packet, inner, sums, depth)
    }
}

/// Protocol and place of the transport header, if the packet is whole and plain.
fn transport(packet: &[u8], start: usize) -> Option<(u8, usize)> {
    let mut at = start + 12;
    while matches!(word(packet, at)?, 0x8100 | 0x88a8) {
        at += 4;
    }
    let ip = at + 2;
    match word(packet, at)? {
        0x0800 if word(packet, ip + 6)? & 0x3fff == 0 => {
            Some((*packet.get(ip + 9)?, ip + usize::from(packet[ip] & 15) * 4))
        }
        0x86dd => Some((*packet.get(ip + 6)?, ip + 40)),
        _ => None,
    }
}

fn word(packet: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?))
}

/// A word under a checksum has become 0 (RFC 1624).
fn take_from_checksum(sum: &mut [u8], word: u16) {
    let old = u16::from_be_bytes([sum[0], sum[1]]);
    let new = u32::from(!old) + u32::from(!word);
    let new = !u16::try_from((new & 0xffff) + (new >> 16)).expect("folded to 16 bits");
    // What is written over UDP is never "none".
    sum.copy_from_slice(&if new == 0 { 0xffff } else { new }.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Names, parse};

    #[test]
    fn what_is_printed_parses_to_the_same_step() {
        let lines = [
            "tunnel 11 geneve remote_ip=flow key=flow",
            "tunnel 13 gre remote_ip=1.1.2.92",
            "untunnel 11",
            "address 1.1.2.88/24",
            "route 1.1.4.0/24 br0",
            "route 0.0.0.0/0 br0 1.1.2.1",
            "unroute 1.1.4.0/24",
            "neighbour 1.1.2.92 02:00:00:00:00:92",
            "neighbours",
            "flush-neighbours",
        ];
        for line in lines {
            assert_eq!(Tunnelling::parse(line).map(|step| step.to_string()).as_deref(), Some(line));
        }
        for wrong in ["tunnel geneve", "route 1.1.1.0/24 br1", "address", "packet 1 udp"] {
            assert_eq!(Tunnelling::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn source_ports_are_left_out_and_checksums_stay_as_right_as_they_were() {
        let steps = ["tunnel 11 geneve remote_ip=flow", "tunnel 12 vxlan remote_ip=flow dst_port=4790"];
        let steps = steps.map(|line| Tunnelling::parse(line).expect("a step"));
        let ports = TunnelPorts::of(steps.iter());
        let descriptions = [
            "udp sport=PORT geneve=(vni=5 opts=ffff/80/01020304 inner=(tcp))",
            "udp sport=PORT nosum geneve=(vni=5 inner=(tcp))",
            "udp6 vlan=5 sport=PORT dport=4790 bytes=0800000000000500",
            "udp6 sport=5 geneve=(inner=(udp sport=PORT nosum vxlan=(inner=(udp)) dport=4790))",
            "udp6 sport=PORT geneve=(inner=(udp sport=PORT vxlan=(inner=(udp)) dport=4790))",
            "ip gre=(key=5 csum inner=(udp nosum sport=PORT geneve=(inner=(tcp))))",
        ];
        for description in descriptions {
            let bytes = |port: &str| parse(&description.replace("PORT", port), &Names::new()).expect("a packet");
            for port in ["32768", "45001", "61000"] {
                let mut packet = bytes(port);
                ports.normalise(&mut packet);
                assert_eq!(packet, bytes("0"), "{description} from {port}");
            }
            let mut packet = bytes("1000");
            ports.normalise(&mut packet);
            assert_eq!(packet, bytes("1000"), "{description}: not a switch's port");
        }
        // A wrong one does not become right.
        let packets = ["badsum", "ttl=64"].map(|word| {
            let text = format!("udp sport=45001 {word} geneve=(vni=5 inner=(tcp))");
            let mut packet = parse(&text, &Names::new()).expect("a packet");
            ports.normalise(&mut packet);
            packet
        });
        assert_ne!(packets[0], packets[1]);
    }

    #[test]
    fn counters_are_read_from_dump_ports() {
        let printed = "  port  t11: rx pkts=3, bytes=180, drop=?, errs=?\n           tx pkts=1, bytes=60, drop=?\n";
        assert_eq!(received(printed), "rx 3 180");
    }
}
