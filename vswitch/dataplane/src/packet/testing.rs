//! Packets for the tests of this module, built and judged by code that shares nothing with what is
//! tested.

use super::headers::L4;
use proptest::prelude::*;
use vswitch_dpdk::{Mbuf, Mempool};

/// A TCP or UDP packet to be.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) tags: Vec<u16>,
    pub(crate) ipv4: bool,
    /// 32-bit words of IPv4 options.
    pub(crate) ip_options: usize,
    /// IPv6 extension headers: type, and length in units of 8 bytes.
    pub(crate) extensions: Vec<(u8, u8)>,
    pub(crate) l4: L4,
    /// 32-bit words of TCP options.
    pub(crate) tcp_options: usize,
    pub(crate) tcp_flags: u8,
    pub(crate) tcp_seq: u32,
    pub(crate) ipv4_id: u16,
    pub(crate) payload: Vec<u8>,
    /// Bytes behind the end of the IP packet.
    pub(crate) padding: usize,
}

impl Spec {
    /// A TCP or UDP packet without anything special.
    pub(crate) fn plain(ipv4: bool, l4: L4, payload: usize) -> Self {
        Self {
            tags: vec![],
            ipv4,
            ip_options: 0,
            extensions: vec![],
            l4,
            tcp_options: 0,
            tcp_flags: 0x10,
            tcp_seq: 0xffff_fff0,
            ipv4_id: 0xfffe,
            payload: (0..payload).map(|i| (i * 7 + i / 251).to_be_bytes()[7]).collect(),
            padding: 0,
        }
    }

    pub(crate) fn l2_len(&self) -> usize {
        14 + 4 * self.tags.len()
    }

    pub(crate) fn l3_len(&self) -> usize {
        if self.ipv4 {
            20 + 4 * self.ip_options
        } else {
            40 + self.extensions.iter().map(|(_, units)| 8 * usize::from(*units)).sum::<usize>()
        }
    }

    pub(crate) fn l4_len(&self) -> usize {
        if self.l4 == L4::Tcp { 20 + 4 * self.tcp_options } else { 8 }
    }

    pub(crate) fn l4_start(&self) -> usize {
        self.l2_len() + self.l3_len()
    }

    pub(crate) fn payload_start(&self) -> usize {
        self.l4_start() + self.l4_len()
    }

    pub(crate) fn end(&self) -> usize {
        self.payload_start() + self.payload.len()
    }

    pub(crate) fn checksum_at(&self) -> usize {
        self.l4_start() + if self.l4 == L4::Tcp { 16 } else { 6 }
    }

    fn protocol(&self) -> u8 {
        if self.l4 == L4::Tcp { 6 } else { 17 }
    }

    /// The pseudo-header as bytes. Behind a routing header its destination is not the one in the
    /// IPv6 header.
    pub(crate) fn pseudo(&self, l4_len: usize) -> Vec<u8> {
        let mut bytes = if self.ipv4 { [V4_SOURCE, V4_DESTINATION].concat() } else { V6_SOURCE.to_vec() };
        if !self.ipv4 {
            let routed = self.extensions.iter().any(|(kind, _)| *kind == 43);
            bytes.extend_from_slice(if routed { &V6_FINAL } else { &V6_DESTINATION });
        }
        bytes.extend_from_slice(&u32::try_from(l4_len).expect("a packet's length").to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0, self.protocol()]);
        bytes
    }

    /// The packet with a partial L4 checksum: its field holds the pseudo-header sum.
    pub(crate) fn partial(&self) -> Vec<u8> {
        let mut bytes = self.without_checksum();
        let sum = !naive_checksum(&self.pseudo(self.end() - self.l4_start()));
        bytes[self.checksum_at()..][..2].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// The packet with its L4 checksum in full.
    pub(crate) fn complete(&self) -> Vec<u8> {
        let mut bytes = self.without_checksum();
        let mut summed = self.pseudo(self.end() - self.l4_start());
        summed.extend_from_slice(&bytes[self.l4_start()..self.end()]);
        let sum = match naive_checksum(&summed) {
            0 if self.l4 == L4::Udp => 0xffff,
            sum => sum,
        };
        bytes[self.checksum_at()..][..2].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn without_checksum(&self) -> Vec<u8> {
        let mut bytes = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]].concat();
        for (i, tci) in self.tags.iter().enumerate() {
            bytes.extend_from_slice(if i == 0 && self.tags.len() == 2 { &[0x88, 0xa8] } else { &[0x81, 0] });
            bytes.extend_from_slice(&tci.to_be_bytes());
        }
        let len16 = |len: usize| u16::try_from(len).expect("at most 65535 bytes").to_be_bytes();
        let l4_len = self.l4_len() + self.payload.len();
        if self.ipv4 {
            bytes.extend_from_slice(&[8, 0, 0x45 + self.ip_options.to_be_bytes()[7], 0x03]);
            bytes.extend_from_slice(&len16(self.l3_len() + l4_len));
            bytes.extend_from_slice(&self.ipv4_id.to_be_bytes());
            bytes.extend_from_slice(&[0x40, 0, 64, self.protocol(), 0, 0]);
            bytes.extend_from_slice(&V4_SOURCE);
            bytes.extend_from_slice(&V4_DESTINATION);
            bytes.resize(self.l4_start(), 1); // NOP
            let sum = naive_checksum(&bytes[self.l2_len()..]);
            bytes[self.l2_len() + 10..][..2].copy_from_slice(&sum.to_be_bytes());
        } else {
            bytes.extend_from_slice(&[0x86, 0xdd, 0x62, 0x34, 0x56, 0x78]);
            bytes.extend_from_slice(&len16(self.l3_len() - 40 + l4_len));
            let mut next: Vec<u8> = self.extensions.iter().map(|(kind, _)| *kind).collect();
            next.push(self.protocol());
            bytes.extend_from_slice(&[next[0], 63]);
            bytes.extend_from_slice(&V6_SOURCE);
            bytes.extend_from_slice(&V6_DESTINATION);
            for ((kind, units), next) in self.extensions.iter().zip(&next[1..]) {
                let end = bytes.len() + 8 * usize::from(*units);
                bytes.extend_from_slice(&[*next, if *kind == 44 { 0 } else { units - 1 }]);
                bytes.resize(end, 0);
            }
        }
        bytes.extend_from_slice(&[0xc0, 1, 0, 80]);
        if self.l4 == L4::Tcp {
            bytes.extend_from_slice(&self.tcp_seq.to_be_bytes());
            bytes.extend_from_slice(&[1, 2, 3, 4, (self.l4_len() * 4).to_be_bytes()[7], self.tcp_flags]);
            bytes.extend_from_slice(&[0x72, 0x34, 0, 0, 0, 9]);
            bytes.resize(self.payload_start(), 1);
        } else {
            bytes.extend_from_slice(&len16(l4_len));
            bytes.extend_from_slice(&[0, 0]);
        }
        bytes.extend_from_slice(&self.payload);
        bytes.resize(bytes.len() + self.padding, 0x5a);
        bytes
    }
}

const V4_SOURCE: [u8; 4] = [10, 1, 2, 3];
const V4_DESTINATION: [u8; 4] = [192, 168, 255, 254];
const V6_SOURCE: [u8; 16] = [0xfd, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
const V6_DESTINATION: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
const V6_FINAL: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0xaa, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];

/// The checksum as RFC 1071 describes it, one word after the other.
pub(crate) fn naive_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u64::from(*byte));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded")
}

/// An mbuf with these bytes, cut into segments of the given lengths (again and again; empty ones
/// too).
pub(crate) fn cut(pool: &Mempool, bytes: &[u8], lengths: &[usize]) -> Mbuf {
    let mut lengths = lengths.iter().copied().chain([usize::MAX]);
    let mut mbuf: Option<Mbuf> = None;
    let mut rest = bytes;
    loop {
        let len = lengths.next().unwrap_or(usize::MAX).min(rest.len());
        let (piece, tail) = rest.split_at(len);
        let piece = pool.mbuf_from(piece).expect("the pool is large enough");
        match &mut mbuf {
            Some(mbuf) => mbuf.chain(piece),
            none => *none = Some(piece),
        }
        rest = tail;
        if rest.is_empty() {
            return mbuf.expect("at least one segment");
        }
    }
}

/// Where a test cuts a packet into segments: many short ones in front, where the headers are.
pub(crate) fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        Just(vec![]),
        proptest::collection::vec(0..40_usize, 1..12),
        proptest::collection::vec(0..2000_usize, 1..6),
        Just(vec![1; 100]),
    ]
}

/// Any packet with up to `payload` bytes of payload.
pub(crate) fn specs(payload: usize) -> impl Strategy<Value = Spec> {
    let ip = (
        proptest::collection::vec(any::<u16>(), 0..=2),
        any::<bool>(),
        0..=10_usize,
        proptest::collection::vec((prop_oneof![Just(0_u8), Just(43), Just(60), Just(44)], 1..=3_u8), 0..=4),
        any::<u16>(),
    );
    let l4 = (
        prop_oneof![Just(L4::Tcp), Just(L4::Udp)],
        0..=10_usize,
        any::<u8>(),
        any::<u32>(),
        proptest::collection::vec(any::<u8>(), 0..=payload),
    );
    (ip, l4, 0..20_usize).prop_map(
        |(
            (tags, ipv4, ip_options, mut extensions, ipv4_id),
            (l4, tcp_options, tcp_flags, tcp_seq, payload),
            padding,
        )| {
            for extension in &mut extensions {
                if extension.0 == 44 {
                    extension.1 = 1;
                }
            }
            Spec { tags, ipv4, ip_options, extensions, l4, tcp_options, tcp_flags, tcp_seq, ipv4_id, payload, padding }
        },
    )
}

/// Makes the checksum of a UDP datagram right that fills an IPv6 packet without extension headers,
/// as its length says.
pub(crate) fn sum_udp6(packet: &mut [u8]) {
    packet[60..62].fill(0);
    let pseudo = [&packet[22..54], &[0, 17], &packet[58..60]].concat();
    let checksum = match naive_checksum(&[&pseudo, &packet[54..]].concat()) {
        0 => 0xffff,
        checksum => checksum,
    };
    packet[60..62].copy_from_slice(&checksum.to_be_bytes());
}
