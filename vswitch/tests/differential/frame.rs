//! Packets, described by words: `udp src=10.0.0.1 sport=1000 vlan=5 ttl=1`. The hand-written cases are made of them, and the
//! generator varies them.
//!
//! The first word says what it is: `eth arp rarp ip tcp udp sctp icmp igmp ip6 tcp6 udp6 sctp6 icmp6 ns na`, or `hex=...` with all bytes. What
//! is not given has a plain value. Lengths and checksums are right unless a word makes them wrong.

use crate::record::{hex, unhex};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A packet to build. The fields have the names of the words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // one for each way to be wrong
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    /// Addresses, as numbers.
    pub(crate) smac: u64,
    pub(crate) dmac: u64,
    /// Tags, outermost first: TPID and TCI.
    pub(crate) vlans: Vec<(u16, u16)>,
    /// Replaces the EtherType that `kind` implies.
    pub(crate) ethertype: Option<u16>,
    /// Addresses of IPv4, IPv6 and ARP.
    pub(crate) src: u128,
    pub(crate) dst: u128,
    pub(crate) ttl: u8,
    pub(crate) tos: u8,
    pub(crate) label: u32,
    pub(crate) id: u16,
    /// Fragment offset in units of 8 bytes, and more fragments follow.
    pub(crate) frag: u16,
    pub(crate) more: bool,
    /// Bytes of IPv4 options, a multiple of 4.
    pub(crate) options: usize,
    /// Replaces the protocol that `kind` implies.
    pub(crate) proto: Option<u8>,
    /// IPv6 extension headers (0 hop-by-hop, 43 routing, 44 fragment, 51 authentication, 60 destination).
    pub(crate) ext: Vec<u8>,
    pub(crate) sport: u16,
    pub(crate) dport: u16,
    pub(crate) flags: u16,
    /// Of ICMP, IGMP and ND.
    pub(crate) icmp: (u8, u8),
    /// ND target, ND option's or ARP's hardware addresses.
    pub(crate) target: u128,
    pub(crate) sll: Option<u64>,
    pub(crate) tll: Option<u64>,
    pub(crate) sha: u64,
    pub(crate) tha: u64,
    pub(crate) op: u16,
    /// Bytes behind the last header.
    pub(crate) len: usize,
    /// Wrong on purpose.
    pub(crate) version: Option<u8>,
    pub(crate) ihl: Option<u8>,
    pub(crate) iplen: Option<u16>,
    pub(crate) doff: Option<u8>,
    pub(crate) udplen: Option<u16>,
    pub(crate) badsum: bool,
    pub(crate) nosum: bool,
    pub(crate) badipsum: bool,
    /// Bytes that are left of the frame.
    pub(crate) cut: Option<usize>,
    /// Bytes added behind the frame.
    pub(crate) pad: usize,
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Eth,
    Arp,
    Rarp,
    Ip,
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Igmp,
    Ip6,
    Tcp6,
    Udp6,
    Sctp6,
    Icmp6,
    Ns,
    Na,
}

impl Kind {
    /// All kinds, and their words.
    pub(crate) const ALL: [(&'static str, Self); 16] = [
        ("eth", Self::Eth),
        ("arp", Self::Arp),
        ("rarp", Self::Rarp),
        ("ip", Self::Ip),
        ("tcp", Self::Tcp),
        ("udp", Self::Udp),
        ("sctp", Self::Sctp),
        ("icmp", Self::Icmp),
        ("igmp", Self::Igmp),
        ("ip6", Self::Ip6),
        ("tcp6", Self::Tcp6),
        ("udp6", Self::Udp6),
        ("sctp6", Self::Sctp6),
        ("icmp6", Self::Icmp6),
        ("ns", Self::Ns),
        ("na", Self::Na),
    ];

    pub(crate) fn is_v6(self) -> bool {
        matches!(self, Self::Ip6 | Self::Tcp6 | Self::Udp6 | Self::Sctp6 | Self::Icmp6 | Self::Ns | Self::Na)
    }

    pub(crate) fn is_v4(self) -> bool {
        matches!(self, Self::Ip | Self::Tcp | Self::Udp | Self::Sctp | Self::Icmp | Self::Igmp)
    }

    fn ethertype(self) -> u16 {
        match self {
            Self::Eth => 0x88b5,
            Self::Arp => 0x0806,
            Self::Rarp => 0x8035,
            _ if self.is_v6() => 0x86dd,
            _ => 0x0800,
        }
    }

    fn protocol(self) -> u8 {
        match self {
            Self::Tcp | Self::Tcp6 => 6,
            Self::Udp | Self::Udp6 => 17,
            Self::Sctp | Self::Sctp6 => 132,
            Self::Icmp => 1,
            Self::Igmp => 2,
            Self::Icmp6 | Self::Ns | Self::Na => 58,
            _ => 253,
        }
    }
}

impl Frame {
    /// A plain packet: 10.0.0.1 (or fd00::1) to 10.0.0.2, from 02:...:01 to 02:...:02, 18 bytes of payload.
    pub(crate) fn new(kind: Kind) -> Self {
        let (src, dst) = if kind.is_v6() { (0xfd00 << 112 | 1, 0xfd00 << 112 | 2) } else { (0x0a00_0001, 0x0a00_0002) };
        Self {
            kind,
            smac: 0x0200_0000_0001,
            dmac: 0x0200_0000_0002,
            vlans: Vec::new(),
            ethertype: None,
            src,
            dst,
            ttl: 64,
            tos: 0,
            label: 0,
            id: 1,
            frag: 0,
            more: false,
            options: 0,
            proto: None,
            ext: Vec::new(),
            sport: 1000,
            dport: 80,
            flags: 0x10,
            icmp: match kind {
                Kind::Icmp6 => (128, 0),
                Kind::Ns => (135, 0),
                Kind::Na => (136, 0),
                Kind::Igmp => (0x16, 0),
                _ => (8, 0),
            },
            target: 0xfd00 << 112 | 2,
            sll: (kind == Kind::Ns).then_some(0x0200_0000_0001),
            tll: (kind == Kind::Na).then_some(0x0200_0000_0001),
            sha: 0x0200_0000_0001,
            tha: 0,
            op: 1,
            len: 18,
            version: None,
            ihl: None,
            iplen: None,
            doff: None,
            udplen: None,
            badsum: false,
            nosum: false,
            badipsum: false,
            cut: None,
            pad: 0,
        }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.dmac.to_be_bytes()[2..]);
        out.extend_from_slice(&self.smac.to_be_bytes()[2..]);
        for (tpid, tci) in &self.vlans {
            out.extend_from_slice(&tpid.to_be_bytes());
            out.extend_from_slice(&tci.to_be_bytes());
        }
        out.extend_from_slice(&self.ethertype.unwrap_or(self.kind.ethertype()).to_be_bytes());
        match self.kind {
            Kind::Eth => out.extend(payload(self.len)),
            Kind::Arp | Kind::Rarp => self.arp(&mut out),
            _ if self.kind.is_v6() => self.ipv6(&mut out),
            _ => self.ipv4(&mut out),
        }
        out.extend(std::iter::repeat_n(0xaa, self.pad));
        if let Some(cut) = self.cut {
            out.truncate(cut);
        }
        out
    }

    fn arp(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0, 1, 8, 0, 6, 4]);
        out.extend_from_slice(&self.op.to_be_bytes());
        out.extend_from_slice(&self.sha.to_be_bytes()[2..]);
        out.extend_from_slice(&self.src.to_be_bytes()[12..]);
        out.extend_from_slice(&self.tha.to_be_bytes()[2..]);
        out.extend_from_slice(&self.dst.to_be_bytes()[12..]);
        out.extend(payload(self.len));
    }

    fn ipv4(&self, out: &mut Vec<u8>) {
        let protocol = self.proto.unwrap_or(self.kind.protocol());
        let pseudo = [&self.src.to_be_bytes()[12..], &self.dst.to_be_bytes()[12..]].concat();
        let l4 = self.l4(&pseudo, protocol);
        let header = 20 + self.options;
        let ihl = self.ihl.unwrap_or(number(header / 4));
        let total = self.iplen.unwrap_or(number(header + l4.len()));
        let start = out.len();
        out.extend_from_slice(&[self.version.unwrap_or(4) << 4 | ihl & 15, self.tos]);
        out.extend_from_slice(&total.to_be_bytes());
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&(u16::from(self.more) << 13 | self.frag).to_be_bytes());
        out.extend_from_slice(&[self.ttl, protocol, 0, 0]);
        out.extend_from_slice(&pseudo);
        out.extend(std::iter::repeat_n(1, self.options)); // no-operation
        let sum = !sum(&out[start..]) ^ u16::from(self.badipsum);
        out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
        out.extend(l4);
    }

    fn ipv6(&self, out: &mut Vec<u8>) {
        let protocol = self.proto.unwrap_or(self.kind.protocol());
        let addresses = [self.src.to_be_bytes(), self.dst.to_be_bytes()].concat();
        let l4 = self.l4(&addresses, protocol);
        let nexts = self.ext.iter().copied().chain([protocol]).collect::<Vec<_>>();
        let mut extensions = Vec::new();
        for (header, next) in self.ext.iter().zip(&nexts[1..]) {
            let offset = self.frag << 3 | u16::from(self.more);
            let [high, low] = offset.to_be_bytes();
            extensions.extend_from_slice(&match header {
                44 => [*next, 0, high, low, 0, 0, 0, 9],
                // Its length counts in units of 4, less 2.
                51 => [*next, 1, 0, 0, 0, 0, 0, 7],
                // An empty option of 4 bytes (in a routing header: type 1, no segments left).
                _ => [*next, 0, 1, 4, 0, 0, 0, 0],
            });
            if *header == 51 {
                extensions.extend_from_slice(&[0, 0, 0, 1]);
            }
        }
        let word = u32::from(self.version.unwrap_or(6)) << 28 | u32::from(self.tos) << 20 | self.label & 0xf_ffff;
        out.extend_from_slice(&word.to_be_bytes());
        out.extend_from_slice(&self.iplen.unwrap_or(number(extensions.len() + l4.len())).to_be_bytes());
        out.extend_from_slice(&[nexts[0], self.ttl]);
        out.extend_from_slice(&addresses);
        out.extend(extensions);
        out.extend(l4);
    }

    fn l4(&self, pseudo: &[u8], protocol: u8) -> Vec<u8> {
        let mut out = Vec::new();
        let ports = [self.sport.to_be_bytes(), self.dport.to_be_bytes()].concat();
        let sum_at = match self.kind {
            // Behind the first fragment there is no header.
            _ if self.frag != 0 => None,
            Kind::Tcp | Kind::Tcp6 => {
                out.extend(ports);
                out.extend_from_slice(&[0, 0, 0, 100, 0, 0, 0, 200]);
                out.extend_from_slice(&(u16::from(self.doff.unwrap_or(5)) << 12 | self.flags).to_be_bytes());
                out.extend_from_slice(&[0xff, 0xff, 0, 0, 0, 0]);
                Some(16)
            }
            Kind::Udp | Kind::Udp6 => {
                out.extend(ports);
                out.extend_from_slice(&self.udplen.unwrap_or(number(8 + self.len)).to_be_bytes());
                out.extend_from_slice(&[0, 0]);
                Some(6)
            }
            Kind::Sctp | Kind::Sctp6 => {
                out.extend(ports);
                out.extend_from_slice(&[0, 0, 0, 1, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 4]);
                None
            }
            Kind::Icmp | Kind::Icmp6 => {
                out.extend_from_slice(&[self.icmp.0, self.icmp.1, 0, 0]);
                out.extend(ports);
                Some(2)
            }
            Kind::Igmp => {
                out.extend_from_slice(&[self.icmp.0, self.icmp.1, 0, 0]);
                out.extend_from_slice(&self.target.to_be_bytes()[12..]);
                Some(2)
            }
            Kind::Ns | Kind::Na => {
                out.extend_from_slice(&[self.icmp.0, self.icmp.1, 0, 0, 0, 0, 0, 0]);
                out.extend_from_slice(&self.target.to_be_bytes());
                for (option, address) in [(1, self.sll), (2, self.tll)] {
                    if let Some(address) = address {
                        out.extend_from_slice(&[option, 1]);
                        out.extend_from_slice(&address.to_be_bytes()[2..]);
                    }
                }
                Some(2)
            }
            _ => None,
        };
        out.extend(payload(self.len));
        if let Some(at) = sum_at.filter(|_| !self.nosum) {
            let mut summed = out.clone();
            // IPv4's ICMP and IGMP have no pseudo-header.
            if !matches!(self.kind, Kind::Icmp | Kind::Igmp) {
                let len: u32 = number(out.len());
                summed.extend_from_slice(pseudo);
                if summed.len() % 2 == 1 {
                    summed = [out.as_slice(), &[0], pseudo].concat();
                }
                summed.extend_from_slice(&len.to_be_bytes());
                summed.extend_from_slice(&[0, 0, 0, protocol]);
            }
            let sum = match (!sum(&summed) ^ u16::from(self.badsum), self.kind) {
                (0, Kind::Udp | Kind::Udp6) => 0xffff,
                (sum, _) => sum,
            };
            out[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        out
    }
}

/// Bytes that are not all the same.
fn payload(len: usize) -> impl Iterator<Item = u8> {
    (0..=255_u8).cycle().skip(0x40).take(len)
}

/// The Internet's one's complement sum.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum = words.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("folded to 16 bits")
}

fn number<T: TryFrom<usize>>(len: usize) -> T {
    T::try_from(len).ok().expect("test packets are small")
}

/// Parses a description; returns the packet's bytes.
///
/// # Errors
/// The word that is wrong.
pub(crate) fn parse(text: &str) -> Result<Vec<u8>, String> {
    let mut words = text.split_whitespace();
    let kind = words.next().unwrap_or_default();
    if let Some(bytes) = kind.strip_prefix("hex=") {
        return unhex(bytes).ok_or_else(|| format!("{bytes}: no hexadecimal bytes"));
    }
    let known = Kind::ALL.iter().find(|(word, _)| *word == kind);
    let mut frame = Frame::new(known.ok_or_else(|| format!("{kind:?}: no kind of packet"))?.1);
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        set(&mut frame, key, value).ok_or_else(|| format!("{word:?}: no such word, or its value is wrong"))?;
    }
    Ok(frame.bytes())
}

/// Describes bytes.
pub(crate) fn describe(bytes: &[u8]) -> String {
    format!("hex={}", hex(bytes))
}

fn set(frame: &mut Frame, key: &str, value: &str) -> Option<()> {
    match key {
        "smac" => frame.smac = mac(value)?,
        "dmac" => frame.dmac = mac(value)?,
        "vlan" => frame.vlans.push(tag(0x8100, value)?),
        "svlan" => frame.vlans.push(tag(0x88a8, value)?),
        "type" => frame.ethertype = Some(int(value)?),
        "src" => frame.src = address(value)?,
        "dst" => frame.dst = address(value)?,
        "target" => frame.target = address(value)?,
        "ttl" => frame.ttl = int(value)?,
        "tos" => frame.tos = int(value)?,
        "label" => frame.label = int(value)?,
        "id" => frame.id = int(value)?,
        "frag" => frame.frag = int(value)?,
        "more" => frame.more = true,
        "options" => frame.options = int(value)?,
        "proto" => frame.proto = Some(int(value)?),
        "ext" => frame.ext.push(int(value)?),
        "sport" => frame.sport = int(value)?,
        "dport" => frame.dport = int(value)?,
        "flags" => frame.flags = int(value)?,
        "icmp" => frame.icmp = value.split_once(':').and_then(|(t, c)| Some((int(t)?, int(c)?)))?,
        "sll" => frame.sll = Some(mac(value)?),
        "tll" => frame.tll = Some(mac(value)?),
        "sha" => frame.sha = mac(value)?,
        "tha" => frame.tha = mac(value)?,
        "op" => frame.op = int(value)?,
        "len" => frame.len = int(value)?,
        "version" => frame.version = Some(int(value)?),
        "ihl" => frame.ihl = Some(int(value)?),
        "iplen" => frame.iplen = Some(int(value)?),
        "doff" => frame.doff = Some(int(value)?),
        "udplen" => frame.udplen = Some(int(value)?),
        "badsum" => frame.badsum = true,
        "nosum" => frame.nosum = true,
        "badipsum" => frame.badipsum = true,
        "cut" => frame.cut = Some(int(value)?),
        "pad" => frame.pad = int(value)?,
        _ => return None,
    }
    Some(())
}

fn int<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    T::try_from(number).ok()
}

fn mac(text: &str) -> Option<u64> {
    let bytes = text.split(':').map(|byte| u64::from_str_radix(byte, 16).ok()).collect::<Option<Vec<_>>>()?;
    (bytes.len() == 6).then(|| bytes.iter().fold(0, |mac, byte| mac << 8 | byte))
}

fn address(text: &str) -> Option<u128> {
    let v4 = || text.parse::<Ipv4Addr>().ok().map(|address| u128::from(address.to_bits()));
    v4().or_else(|| text.parse::<Ipv6Addr>().ok().map(Ipv6Addr::to_bits))
}

/// `vid` or `vid:pcp`.
fn tag(tpid: u16, text: &str) -> Option<(u16, u16)> {
    let (vid, pcp) = text.split_once(':').unwrap_or((text, "0"));
    Some((tpid, int::<u16>(pcp)? << 13 | int::<u16>(vid)?))
}
