//! Where the headers of a packet lie, for work that needs only offsets: checksum offload and
//! segmentation.

use super::{ethertype, tcp, udp};
use vswitch_dpdk::Mbuf;

/// Bytes at the front of a packet that are searched for headers: two VLAN tags, IPv6 with 130 bytes
/// of extension headers and the longest TCP header fit.
pub const HEADERS_MAX: usize = 256;

/// IPv6 extension headers that are walked before a packet is given up.
const EXTENSIONS_MAX: usize = 8;

/// VLAN tags that are skipped.
const TAGS_MAX: usize = 2;

/// An L4 protocol whose checksum and segmentation can be left to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L4 {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
}

impl L4 {
    /// Where the checksum lies, from the start of the L4 header.
    #[must_use]
    pub const fn checksum_offset(self) -> usize {
        match self {
            Self::Tcp => 16,
            Self::Udp => 6,
        }
    }
}

/// The headers of an IP packet. All lengths were checked against the packet: `l2_len + l3_len +
/// l4_len <= end <=` its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Ethernet header with up to two VLAN tags.
    pub l2_len: usize,
    /// IPv4, else IPv6.
    pub ipv4: bool,
    /// IP header with its options or extension headers.
    pub l3_len: usize,
    /// Protocol behind the IP header: the last next header of IPv6.
    pub protocol: u8,
    /// A fragment, the first one included. (An IPv6 atomic fragment is none, RFC 6946.)
    pub fragment: bool,
    /// Set where a whole TCP or UDP packet follows: not a fragment, its header there, UDP's length
    /// that of the IP payload.
    pub l4: Option<L4>,
    /// L4 header with its options; 0 without `l4`.
    pub l4_len: usize,
    /// Where the IP payload ends, from the front of the packet; what follows is padding.
    pub end: usize,
}

impl Headers {
    /// Finds the headers of a packet. None where it is not IP, or an IP header contradicts the
    /// packet, or the headers are longer than [`HEADERS_MAX`].
    #[must_use]
    pub fn of(mbuf: &Mbuf) -> Option<Self> {
        let len = mbuf.len();
        let wanted = len.min(HEADERS_MAX);
        if let Some(bytes) = mbuf.head().get(..wanted) {
            return Self::parse(bytes, len);
        }
        let mut bytes = [0; HEADERS_MAX];
        let bytes = bytes.get_mut(..wanted)?;
        if mbuf.read(0, bytes) { Self::parse(bytes, len) } else { None }
    }

    /// [`Headers::of`] for a packet in one slice.
    #[must_use]
    pub fn of_bytes(packet: &[u8]) -> Option<Self> {
        Self::parse(&packet[..packet.len().min(HEADERS_MAX)], packet.len())
    }

    /// Where the L4 header starts, from the front of the packet.
    #[must_use]
    pub const fn l4_start(&self) -> usize {
        self.l2_len + self.l3_len
    }

    /// Where the L4 payload starts, from the front of the packet.
    #[must_use]
    pub const fn payload_start(&self) -> usize {
        self.l2_len + self.l3_len + self.l4_len
    }

    /// Bytes of L4 payload.
    #[must_use]
    pub const fn payload_len(&self) -> usize {
        self.end - self.payload_start()
    }

    /// Where the checksum of the TCP or UDP header lies, from the front of the packet.
    #[must_use]
    pub fn checksum_at(&self) -> Option<usize> {
        Some(self.l4_start() + self.l4?.checksum_offset())
    }

    /// `bytes` is the front of a packet of `len` bytes.
    pub(super) fn parse(bytes: &[u8], len: usize) -> Option<Self> {
        let mut l2_len = 14;
        let mut kind = be16(bytes, 12)?;
        for _ in 0..TAGS_MAX {
            if !ethertype::is_vlan(kind) {
                break;
            }
            kind = be16(bytes, l2_len + 2)?;
            l2_len += 4;
        }
        match kind {
            ethertype::IPV4 => Self::ipv4(bytes, l2_len, len),
            ethertype::IPV6 => Self::ipv6(bytes, l2_len, len),
            _ => None,
        }
    }

    /// The headers from an IP header on that starts at `at`, whatever is in front of it. `bytes` is
    /// the front of a packet of `len` bytes.
    pub(super) fn from_ip(bytes: &[u8], at: usize, len: usize) -> Option<Self> {
        match bytes.get(at)? >> 4 {
            4 => Self::ipv4(bytes, at, len),
            6 => Self::ipv6(bytes, at, len),
            _ => None,
        }
    }

    fn ipv4(bytes: &[u8], l2_len: usize, len: usize) -> Option<Self> {
        let header = bytes.get(l2_len..l2_len + 20)?;
        let l3_len = usize::from(header[0] & 0x0f) * 4;
        let end = l2_len + usize::from(be16(header, 2)?);
        if header[0] >> 4 != 4 || l3_len < 20 || l2_len + l3_len > end.min(bytes.len()) || end > len {
            return None;
        }
        let fragment = be16(header, 6)? & 0x3fff != 0;
        let found = Self { l2_len, ipv4: true, l3_len, protocol: header[9], fragment, l4: None, l4_len: 0, end };
        Some(found.with_l4(bytes))
    }

    fn ipv6(bytes: &[u8], l2_len: usize, len: usize) -> Option<Self> {
        let header = bytes.get(l2_len..l2_len + 40)?;
        let end = l2_len + 40 + usize::from(be16(header, 4)?);
        if header[0] >> 4 != 6 || end > len {
            return None;
        }
        let mut at = l2_len + 40;
        let mut protocol = header[6];
        let mut fragment = false;
        for _ in 0..EXTENSIONS_MAX {
            let extension_len = match protocol {
                // Hop-by-hop options, routing, destination options (RFC 8200, 4.3 to 4.6).
                0 | 43 | 60 => (usize::from(*bytes.get(at + 1)?) + 1) * 8,
                44 => 8,
                _ => break,
            };
            let extension = bytes.get(at..at + extension_len)?;
            if protocol == 44 {
                let offset_and_more = be16(extension, 2)? & 0xfff9;
                fragment |= offset_and_more != 0;
            }
            protocol = extension[0];
            at += extension_len;
            if at > end {
                return None;
            }
            if fragment {
                break;
            }
        }
        if !fragment && matches!(protocol, 0 | 43 | 44 | 60) {
            return None;
        }
        let found = Self { l2_len, ipv4: false, l3_len: at - l2_len, protocol, fragment, l4: None, l4_len: 0, end };
        Some(found.with_l4(bytes))
    }

    fn with_l4(mut self, bytes: &[u8]) -> Self {
        if self.fragment {
            return self;
        }
        let start = self.l4_start();
        let header = &bytes[start.min(bytes.len())..self.end.min(bytes.len())];
        let found = match self.protocol {
            tcp::PROTOCOL => {
                header.get(12).map(|byte| (L4::Tcp, usize::from(byte >> 4) * 4)).filter(|(_, len)| *len >= 20)
            }
            udp::PROTOCOL => be16(header, 4).filter(|len| usize::from(*len) == self.end - start).map(|_| (L4::Udp, 8)),
            _ => None,
        };
        if let Some((l4, l4_len)) = found.filter(|(_, l4_len)| *l4_len <= header.len()) {
            (self.l4, self.l4_len) = (Some(l4), l4_len);
        }
        self
    }
}

/// The 16-bit word at `at`.
pub(super) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Spec, cut, cuts, specs};
    use super::*;
    use proptest::prelude::*;
    use vswitch_dpdk::Mempool;

    #[test]
    fn finds_what_was_built_at_any_cut() {
        let pool = Mempool::for_tests(512);
        proptest!(|((spec, cuts) in (specs(300), cuts()))| {
            let bytes = spec.complete();
            let expected = Headers {
                l2_len: spec.l2_len(),
                ipv4: spec.ipv4,
                l3_len: spec.l3_len(),
                protocol: if spec.l4 == L4::Tcp { 6 } else { 17 },
                fragment: false,
                l4: Some(spec.l4),
                l4_len: spec.l4_len(),
                end: spec.end(),
            };
            prop_assert_eq!(Headers::of_bytes(&bytes), Some(expected));
            prop_assert_eq!(Headers::of(&cut(&pool, &bytes, &cuts)), Some(expected));
        });
        assert_eq!(pool.in_use(), 0, "segments leaked");
    }

    #[test]
    fn a_packet_cut_short_has_no_headers() {
        let mut spec = Spec::plain(true, L4::Tcp, 10);
        (spec.tags, spec.ip_options, spec.tcp_options) = (vec![1, 2], 2, 3);
        let mut v6 = Spec::plain(false, L4::Udp, 10);
        v6.extensions = vec![(0, 1), (43, 3), (44, 1), (60, 2)];
        for spec in [spec, v6] {
            let bytes = spec.complete();
            for len in 0..bytes.len() {
                assert_eq!(Headers::of_bytes(&bytes[..len]), None, "{spec:?} cut to {len}");
            }
        }
    }

    #[test]
    fn bad_lengths_and_versions_are_refused() {
        let v4 = Spec::plain(true, L4::Tcp, 10).complete();
        let v6 = Spec::plain(false, L4::Tcp, 10).complete();
        for (name, packet, at, value) in [
            ("version 5", &v4, 14, 0x55),
            ("version 4 as IPv6", &v6, 14, 0x45),
            ("ihl 4", &v4, 14, 0x44),
            ("total length 0", &v4, 17, 0),
            ("total length of 19", &v4, 17, 19),
            ("total length beyond the packet", &v4, 17, 51),
            ("payload length beyond the packet", &v6, 19, 31),
            ("another ethertype", &v4, 13, 6),
        ] {
            let mut bytes = packet.clone();
            bytes[at] = value;
            assert_eq!(Headers::of_bytes(&bytes), None, "{name}");
        }
    }

    #[test]
    fn an_l4_header_that_offload_cannot_use_is_not_named() {
        let tcp = Spec::plain(true, L4::Tcp, 10).complete();
        let udp = Spec::plain(true, L4::Udp, 10).complete();
        let mut v6 = Spec::plain(false, L4::Udp, 10);
        v6.extensions = vec![(44, 1)];
        let v6 = v6.complete();
        for (name, packet, at, value, fragment) in [
            ("data offset 4", &tcp, 46, 0x40, false),
            ("data offset beyond the packet", &tcp, 46, 0x80, false),
            ("more fragments", &tcp, 20, 0x20, true),
            ("fragment offset", &tcp, 21, 1, true),
            ("UDP length 7", &udp, 39, 7, false),
            ("UDP length one less", &udp, 39, 17, false),
            ("UDP length one more", &udp, 39, 19, false),
            ("ICMP", &udp, 23, 1, false),
            ("IPv6 more fragments", &v6, 57, 1, true),
            ("IPv6 fragment offset", &v6, 57, 8, true),
        ] {
            let mut bytes = packet.clone();
            bytes[at] = value;
            let found = Headers::of_bytes(&bytes).unwrap_or_else(|| panic!("{name}: an IP packet"));
            assert_eq!((found.l4, found.l4_len, found.fragment), (None, 0, fragment), "{name}");
        }
    }

    #[test]
    fn the_walk_over_extension_headers_is_bounded() {
        for (extensions, found) in [(8, true), (9, false)] {
            let mut spec = Spec::plain(false, L4::Udp, 10);
            spec.extensions = vec![(60, 1); extensions];
            assert_eq!(Headers::of_bytes(&spec.complete()).is_some(), found, "{extensions} extension headers");
        }
        let mut long = Spec::plain(false, L4::Udp, 10);
        long.extensions = vec![(60, 30)];
        assert_eq!(Headers::of_bytes(&long.complete()), None, "headers of 302 bytes");
    }

    #[test]
    fn any_bytes_are_survived() {
        let pool = Mempool::for_tests(512);
        let random = proptest::collection::vec(any::<u8>(), 0..400);
        let damaged =
            (specs(60), proptest::collection::vec((0..150_usize, any::<u8>()), 1..5)).prop_map(|(spec, at)| {
                let mut bytes = spec.complete();
                for (at, value) in at {
                    let at = at % bytes.len();
                    bytes[at] = value;
                }
                bytes
            });
        proptest!(ProptestConfig::with_cases(2000), |((bytes, cuts) in (prop_oneof![random, damaged], cuts()))| {
            let found = Headers::of_bytes(&bytes);
            prop_assert_eq!(Headers::of(&cut(&pool, &bytes, &cuts)), found, "cut at {:?}", cuts);
            if let Some(found) = found {
                prop_assert!(found.payload_start() <= found.end && found.end <= bytes.len(), "{:?}", found);
            }
        });
        assert_eq!(pool.in_use(), 0, "segments leaked");
    }
}
