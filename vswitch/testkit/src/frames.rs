//! Frames by hand: right in everything but what a case changes. Numbers are in the byte order of
//! the wire where they are bytes.

/// The checksum of RFC 1071 of these bytes, bit by bit as the RFC has it.
#[must_use]
pub fn naive_checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u64::from(*byte)));
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded")
}

/// An Ethernet frame from ..:01 to ..:02.
pub fn eth(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1], &kind.to_be_bytes()[..], payload].concat()
}

/// An IPv4 header to be; what is `None` is right.
#[derive(Clone, Debug)]
pub struct Ip4 {
    /// Version and header length.
    pub first: Option<u8>,
    /// Total length.
    pub total: Option<u16>,
    /// Flags and fragment offset.
    pub fragment: u16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Header checksum.
    pub checksum: Option<u16>,
    /// Options, a multiple of four bytes.
    pub options: Vec<u8>,
}

/// A length in 16 bits.
///
/// # Panics
/// When it does not fit.
pub fn len16(len: usize) -> u16 {
    u16::try_from(len).expect("a short packet")
}

impl Ip4 {
    /// A right one in front of this protocol.
    pub fn new(protocol: u8) -> Self {
        Self { first: None, total: None, fragment: 0, ttl: 64, protocol, checksum: None, options: Vec::new() }
    }

    /// With options, filled up with zeros.
    pub fn with(protocol: u8, options: &[u8]) -> Self {
        let mut options = options.to_vec();
        options.resize(options.len().next_multiple_of(4), 0);
        Self { options, ..Self::new(protocol) }
    }

    /// A frame of it and this payload.
    pub fn frame(&self, payload: &[u8]) -> Vec<u8> {
        let header_len = 20 + self.options.len();
        let words = u8::try_from(header_len / 4).expect("60 bytes at most");
        let mut packet = vec![self.first.unwrap_or(0x40 | words), 0];
        packet.extend(self.total.unwrap_or(len16(header_len + payload.len())).to_be_bytes());
        packet.extend([0, 1]);
        packet.extend(self.fragment.to_be_bytes());
        packet.extend([self.ttl, self.protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(&self.options);
        let sum = self.checksum.unwrap_or_else(|| naive_checksum(&packet));
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(payload);
        eth(0x0800, &packet)
    }
}

/// An IPv6 header to be, with all that lies behind it.
#[derive(Clone, Debug)]
pub struct Ip6 {
    /// Version and the upper bits of the traffic class.
    pub first: u8,
    /// Length of what follows; `None`: right.
    pub payload_len: Option<u16>,
    /// Hop limit.
    pub hop_limit: u8,
    /// Next header.
    pub next: u8,
}

impl Ip6 {
    /// A right one in front of this header.
    pub const fn new(next: u8) -> Self {
        Self { first: 0x60, payload_len: None, hop_limit: 64, next }
    }

    /// A frame of it and this payload.
    pub fn frame(&self, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![self.first, 0, 0, 0];
        packet.extend(self.payload_len.unwrap_or(len16(payload.len())).to_be_bytes());
        packet.extend([self.next, self.hop_limit]);
        packet.extend(address(1));
        packet.extend(address(2));
        packet.extend(payload);
        eth(0x86dd, &packet)
    }
}

/// 2001:db8::n
pub fn address(n: u8) -> [u8; 16] {
    [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n]
}

/// Extension headers in front of a payload: each is what follows its next header field.
pub fn chain(headers: &[(u8, &[u8])], last: u8, payload: &[u8]) -> (u8, Vec<u8>) {
    let kinds: Vec<u8> = headers.iter().map(|(kind, _)| *kind).chain([last]).collect();
    let mut bytes = Vec::new();
    for ((_, header), next) in headers.iter().zip(&kinds[1..]) {
        bytes.push(*next);
        bytes.extend_from_slice(header);
    }
    bytes.extend_from_slice(payload);
    (kinds[0], bytes)
}

/// A frame of IPv6 with extension headers and a UDP datagram behind.
pub fn extended(headers: &[(u8, &[u8])]) -> Vec<u8> {
    let (next, payload) = chain(headers, 17, &udp6());
    Ip6::new(next).frame(&payload)
}

/// TCP with its checksum left 0. `offset` in words; `None`: right.
pub fn tcp(flags: u8, offset: Option<u8>, options: &[u8]) -> Vec<u8> {
    let words = u8::try_from(5 + options.len() / 4).expect("15 words at most");
    let mut bytes =
        vec![3, 0xe8, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, offset.unwrap_or(words) << 4, flags, 0, 100, 0, 0, 0, 0];
    bytes.extend_from_slice(options);
    bytes.extend_from_slice(b"data");
    bytes
}

/// UDP with its checksum left 0; `len`: `None`: right.
pub fn udp(len: Option<u16>, payload: &[u8]) -> Vec<u8> {
    let len = len.unwrap_or(len16(8 + payload.len()));
    [&[0, 53, 0x14, 0xe9], &len.to_be_bytes()[..], &[0, 0], payload].concat()
}

/// A good UDP datagram over IPv6.
pub fn udp6() -> Vec<u8> {
    sealed6(17, udp(None, b"ping"))
}

/// Where the checksum of a protocol lies.
fn checksum_at(protocol: u8) -> usize {
    match protocol {
        6 => 16,
        17 => 6,
        _ => 2,
    }
}

fn sealed(pseudo: &[u8], protocol: u8, mut l4: Vec<u8>) -> Vec<u8> {
    let at = checksum_at(protocol);
    if let Some(field) = l4.get(at..at + 2) {
        assert_eq!(field, [0, 0], "sealed twice");
        let sum = naive_checksum(&[pseudo, &l4].concat());
        l4[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    l4
}

/// An L4 packet with its checksum, over IPv4.
pub fn sealed4(protocol: u8, l4: Vec<u8>) -> Vec<u8> {
    let len = len16(l4.len()).to_be_bytes();
    let pseudo = [10, 0, 0, 1, 10, 0, 0, 2, 0, protocol, len[0], len[1]];
    sealed(if protocol == 1 { &[] } else { &pseudo }, protocol, l4)
}

/// An L4 packet with its checksum, over IPv6.
pub fn sealed6(protocol: u8, l4: Vec<u8>) -> Vec<u8> {
    sealed6_to(address(2), protocol, l4)
}

/// The same with another final destination.
pub fn sealed6_to(destination: [u8; 16], protocol: u8, l4: Vec<u8>) -> Vec<u8> {
    let len = len16(l4.len()).to_be_bytes();
    let pseudo = [&address(1)[..], &destination, &[0, 0, len[0], len[1], 0, 0, 0, protocol]].concat();
    sealed(&pseudo, protocol, l4)
}

/// A frame of TCP over IPv4.
pub fn tcp4(flags: u8, offset: Option<u8>, options: &[u8]) -> Vec<u8> {
    Ip4::new(6).frame(&sealed4(6, tcp(flags, offset, options)))
}

/// A frame of UDP over IPv4.
pub fn udp4(len: Option<u16>, payload: &[u8]) -> Vec<u8> {
    Ip4::new(17).frame(&sealed4(17, udp(len, payload)))
}

/// A neighbour discovery message: type, code, the rest of the fixed part, options.
pub fn nd(kind: u8, code: u8, fixed: usize, options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, code];
    bytes.resize(fixed, 0);
    if fixed >= 24 {
        bytes[8..24].copy_from_slice(&address(2));
    }
    bytes.extend_from_slice(options);
    bytes
}

/// A frame of one.
pub fn nd6(kind: u8, code: u8, fixed: usize, options: &[u8]) -> Vec<u8> {
    Ip6 { hop_limit: 255, ..Ip6::new(58) }.frame(&sealed6(58, nd(kind, code, fixed, options)))
}

/// ARP from ..:01 with these first six bytes.
pub fn arp(head: [u8; 6]) -> Vec<u8> {
    [&head[..], &[0, 1, 0, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]].concat()
}

/// Ethernet and IPv4.
pub const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
