//! Frames by hand: right in everything but what a case changes. (The integration tests use them, too.)

use super::naive_checksum;

/// An Ethernet frame from ..:01 to ..:02.
pub(super) fn eth(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1], &kind.to_be_bytes()[..], payload].concat()
}

/// An IPv4 header to be; what is `None` is right.
#[derive(Clone)]
pub(super) struct Ip4 {
    pub(super) first: Option<u8>,
    pub(super) total: Option<u16>,
    pub(super) fragment: u16,
    pub(super) ttl: u8,
    pub(super) protocol: u8,
    pub(super) checksum: Option<u16>,
    pub(super) options: Vec<u8>,
}

pub(super) fn len16(len: usize) -> u16 {
    u16::try_from(len).expect("a short packet")
}

impl Ip4 {
    pub(super) fn new(protocol: u8) -> Self {
        Self { first: None, total: None, fragment: 0, ttl: 64, protocol, checksum: None, options: Vec::new() }
    }

    /// With options, filled up with zeros.
    pub(super) fn with(protocol: u8, options: &[u8]) -> Self {
        let mut options = options.to_vec();
        options.resize(options.len().next_multiple_of(4), 0);
        Self { options, ..Self::new(protocol) }
    }

    /// A frame of it and this payload.
    pub(super) fn frame(&self, payload: &[u8]) -> Vec<u8> {
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
#[derive(Clone)]
pub(super) struct Ip6 {
    pub(super) first: u8,
    pub(super) payload_len: Option<u16>,
    pub(super) hop_limit: u8,
    pub(super) next: u8,
}

impl Ip6 {
    pub(super) const fn new(next: u8) -> Self {
        Self { first: 0x60, payload_len: None, hop_limit: 64, next }
    }

    pub(super) fn frame(&self, payload: &[u8]) -> Vec<u8> {
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
pub(super) fn address(n: u8) -> [u8; 16] {
    [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n]
}

/// Extension headers in front of a payload: each is what follows its next header field.
pub(super) fn chain(headers: &[(u8, &[u8])], last: u8, payload: &[u8]) -> (u8, Vec<u8>) {
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
pub(super) fn extended(headers: &[(u8, &[u8])]) -> Vec<u8> {
    let (next, payload) = chain(headers, 17, &udp6());
    Ip6::new(next).frame(&payload)
}

/// TCP with its checksum left 0. `offset` in words; `None`: right.
pub(super) fn tcp(flags: u8, offset: Option<u8>, options: &[u8]) -> Vec<u8> {
    let words = u8::try_from(5 + options.len() / 4).expect("15 words at most");
    let mut bytes =
        vec![3, 0xe8, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, offset.unwrap_or(words) << 4, flags, 0, 100, 0, 0, 0, 0];
    bytes.extend_from_slice(options);
    bytes.extend_from_slice(b"data");
    bytes
}

/// UDP with its checksum left 0; `len`: `None`: right.
pub(super) fn udp(len: Option<u16>, payload: &[u8]) -> Vec<u8> {
    let len = len.unwrap_or(len16(8 + payload.len()));
    [&[0, 53, 0x14, 0xe9], &len.to_be_bytes()[..], &[0, 0], payload].concat()
}

/// A good UDP datagram over IPv6.
pub(super) fn udp6() -> Vec<u8> {
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
pub(super) fn sealed4(protocol: u8, l4: Vec<u8>) -> Vec<u8> {
    let len = len16(l4.len()).to_be_bytes();
    let pseudo = [10, 0, 0, 1, 10, 0, 0, 2, 0, protocol, len[0], len[1]];
    sealed(if protocol == 1 { &[] } else { &pseudo }, protocol, l4)
}

/// An L4 packet with its checksum, over IPv6.
pub(super) fn sealed6(protocol: u8, l4: Vec<u8>) -> Vec<u8> {
    sealed6_to(address(2), protocol, l4)
}

/// The same with another final destination.
pub(super) fn sealed6_to(destination: [u8; 16], protocol: u8, l4: Vec<u8>) -> Vec<u8> {
    let len = len16(l4.len()).to_be_bytes();
    let pseudo = [&address(1)[..], &destination, &[0, 0, len[0], len[1], 0, 0, 0, protocol]].concat();
    sealed(&pseudo, protocol, l4)
}

/// A frame of TCP over IPv4.
pub(super) fn tcp4(flags: u8, offset: Option<u8>, options: &[u8]) -> Vec<u8> {
    Ip4::new(6).frame(&sealed4(6, tcp(flags, offset, options)))
}

/// A frame of UDP over IPv4.
pub(super) fn udp4(len: Option<u16>, payload: &[u8]) -> Vec<u8> {
    Ip4::new(17).frame(&sealed4(17, udp(len, payload)))
}

/// A neighbour discovery message: type, code, the rest of the fixed part, options.
pub(super) fn nd(kind: u8, code: u8, fixed: usize, options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, code];
    bytes.resize(fixed, 0);
    if fixed >= 24 {
        bytes[8..24].copy_from_slice(&address(2));
    }
    bytes.extend_from_slice(options);
    bytes
}

/// A frame of one.
pub(super) fn nd6(kind: u8, code: u8, fixed: usize, options: &[u8]) -> Vec<u8> {
    Ip6 { hop_limit: 255, ..Ip6::new(58) }.frame(&sealed6(58, nd(kind, code, fixed, options)))
}

/// ARP from ..:01 with these first six bytes.
pub(super) fn arp(head: [u8; 6]) -> Vec<u8> {
    [&head[..], &[0, 1, 0, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]].concat()
}

/// Ethernet and IPv4.
pub(super) const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
