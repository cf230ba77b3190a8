//! Packets, described by words: `udp src=10.0.0.1 sport=1000 vlan=5 ttl=1`. The hand-written cases
//! are made of them, and the generator varies them.
//!
//! The first word says what it is: `eth arp rarp ip tcp udp sctp icmp igmp ip6 tcp6 udp6 sctp6
//! icmp6 ns na`, or `hex=...` with all bytes, or the name of a packet that was described before
//! (`let`), `~NAME` for the answer to it. What is not given has a plain value. Lengths and
//! checksums are right unless a word makes them wrong.

mod tunnel;
mod words;

pub(crate) use tunnel::tunnel_payload;
pub(crate) use words::{Names, describe, frame, parse};

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
    /// In IPv6's fragment header.
    pub(crate) long_id: u32,
    /// Fragment offset in units of 8 bytes, and more fragments follow.
    pub(crate) frag: u16,
    pub(crate) more: bool,
    /// The fragment with the bytes from here, so many, of what is behind the IP header.
    pub(crate) piece: Option<(usize, usize)>,
    /// Bytes of IPv4 options, a multiple of 4.
    pub(crate) options: usize,
    /// Replaces the protocol that `kind` implies.
    pub(crate) proto: Option<u8>,
    /// IPv6 extension headers (0 hop-by-hop, 43 routing, 44 fragment, 51 authentication, 60
    /// destination).
    pub(crate) ext: Vec<u8>,
    pub(crate) sport: u16,
    pub(crate) dport: u16,
    /// Of TCP.
    pub(crate) flags: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    /// TCP's window scale option.
    pub(crate) scale: Option<u8>,
    /// Of ICMP, IGMP and ND.
    pub(crate) icmp: (u8, u8),
    /// The IP packet that an ICMP error is about.
    pub(crate) quote: Option<Vec<u8>>,
    /// ND target, ND option's or ARP's hardware addresses.
    pub(crate) target: u128,
    pub(crate) sll: Option<u64>,
    pub(crate) tll: Option<u64>,
    pub(crate) sha: u64,
    pub(crate) tha: u64,
    pub(crate) op: u16,
    /// Bytes behind the last header.
    pub(crate) len: usize,
    /// What they are, if that matters: a tunnel header and the packet in it, for example.
    pub(crate) payload: Option<Vec<u8>>,
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
    /// A plain packet: 10.0.0.1 (or fd00::1) to 10.0.0.2, from 02:...:01 to 02:...:02, 18 bytes of
    /// payload.
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
            long_id: 9,
            frag: 0,
            more: false,
            piece: None,
            options: 0,
            proto: None,
            ext: Vec::new(),
            sport: 1000,
            dport: 80,
            flags: 0x10,
            seq: 100,
            ack: 200,
            window: 0xffff,
            scale: None,
            icmp: match kind {
                Kind::Icmp6 => (128, 0),
                Kind::Ns => (135, 0),
                Kind::Na => (136, 0),
                Kind::Igmp => (0x16, 0),
                _ => (8, 0),
            },
            quote: None,
            target: 0xfd00 << 112 | 2,
            sll: (kind == Kind::Ns).then_some(0x0200_0000_0001),
            tll: (kind == Kind::Na).then_some(0x0200_0000_0001),
            sha: 0x0200_0000_0001,
            tha: 0,
            op: 1,
            len: 18,
            payload: None,
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

    /// The answer to it: addresses and ports swapped, an echo request made a reply.
    pub(crate) fn reversed(self) -> Self {
        let icmp = match (self.kind, self.icmp) {
            (Kind::Icmp, (8, code)) => (0, code),
            (Kind::Icmp, (0, code)) => (8, code),
            (Kind::Icmp6, (128, code)) => (129, code),
            (Kind::Icmp6, (129, code)) => (128, code),
            (_, other) => other,
        };
        // Of ICMP these are the id and the sequence number.
        let is_icmp = matches!(self.kind, Kind::Icmp | Kind::Icmp6);
        let (sport, dport) = if is_icmp { (self.sport, self.dport) } else { (self.dport, self.sport) };
        Self { smac: self.dmac, dmac: self.smac, src: self.dst, dst: self.src, sport, dport, icmp, ..self }
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
            Kind::Eth => out.extend(self.payload()),
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
        let (l4, frag, more) = self.cut_out(self.l4(&pseudo, protocol));
        let header = 20 + self.options;
        let ihl = self.ihl.unwrap_or(number(header / 4));
        let total = self.iplen.unwrap_or(number(header + l4.len()));
        let start = out.len();
        out.extend_from_slice(&[self.version.unwrap_or(4) << 4 | ihl & 15, self.tos]);
        out.extend_from_slice(&total.to_be_bytes());
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&(u16::from(more) << 13 | frag).to_be_bytes());
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
        let (l4, frag, more) = self.cut_out(self.l4(&addresses, protocol));
        let nexts = self.ext.iter().copied().chain([protocol]).collect::<Vec<_>>();
        let mut extensions = Vec::new();
        for (header, next) in self.ext.iter().zip(&nexts[1..]) {
            let [high, low] = (frag << 3 | u16::from(more)).to_be_bytes();
            let id = self.long_id.to_be_bytes();
            extensions.extend_from_slice(&match header {
                44 => [*next, 0, high, low, id[0], id[1], id[2], id[3]],
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

    fn payload(&self) -> Vec<u8> {
        self.payload.clone().unwrap_or_else(|| payload(self.len).collect())
    }

    /// The part of it that is this fragment's, its offset in units of 8 bytes, and whether more
    /// follow.
    fn cut_out(&self, l4: Vec<u8>) -> (Vec<u8>, u16, bool) {
        let Some((start, len)) = self.piece else { return (l4, self.frag, self.more) };
        let end = (start + len).min(l4.len());
        (l4[start.min(end)..end].to_vec(), number(start / 8), end < l4.len())
    }

    fn l4(&self, pseudo: &[u8], protocol: u8) -> Vec<u8> {
        let mut out = Vec::new();
        let ports = [self.sport.to_be_bytes(), self.dport.to_be_bytes()].concat();
        let sum_at = match self.kind {
            // Behind the first fragment there is no header.
            _ if self.frag != 0 => None,
            Kind::Tcp | Kind::Tcp6 => {
                out.extend(ports);
                out.extend_from_slice(&self.seq.to_be_bytes());
                out.extend_from_slice(&self.ack.to_be_bytes());
                let doff = self.doff.unwrap_or(if self.scale.is_some() { 6 } else { 5 });
                out.extend_from_slice(&(u16::from(doff) << 12 | self.flags).to_be_bytes());
                out.extend_from_slice(&self.window.to_be_bytes());
                out.extend_from_slice(&[0; 4]);
                // The option, and one that does nothing.
                out.extend(self.scale.iter().flat_map(|scale| [3, 3, *scale, 1]));
                Some(16)
            }
            Kind::Udp | Kind::Udp6 => {
                out.extend(ports);
                out.extend_from_slice(&self.udplen.unwrap_or(number(8 + self.payload().len())).to_be_bytes());
                out.extend_from_slice(&[0, 0]);
                Some(6)
            }
            Kind::Sctp | Kind::Sctp6 => {
                out.extend(ports);
                out.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 4]);
                out.extend(payload(self.len));
                let sum = crc32c(&out) ^ u32::from(self.badsum);
                out[8..12].copy_from_slice(&sum.to_le_bytes());
                return out;
            }
            Kind::Icmp | Kind::Icmp6 => {
                out.extend_from_slice(&[self.icmp.0, self.icmp.1, 0, 0]);
                out.extend(if self.quote.is_some() { vec![0; 4] } else { ports });
                out.extend(self.quote.iter().flatten());
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
        if self.quote.is_none() {
            out.extend(self.payload());
        }
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

/// SCTP's checksum (RFC 9260, appendix A).
fn crc32c(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc));
    !bytes.iter().fold(!0, byte)
}

fn number<T: TryFrom<usize>>(len: usize) -> T {
    T::try_from(len).ok().expect("test packets are small")
}
