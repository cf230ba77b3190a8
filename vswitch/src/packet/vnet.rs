//! The virtio-net header (virtio 1.1, 5.1.6), as TAP, AF_PACKET and vhost speak it.

use super::checksum;
use super::headers::{Headers, L4};
use crate::dpdk::{Csum, Mbuf};
use crate::observe::DropReason;

/// `struct virtio_net_hdr`, 10 bytes, host byte order (little-endian here).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHdr {
    /// `VIRTIO_NET_HDR_F_*`.
    pub flags: u8,
    /// `VIRTIO_NET_HDR_GSO_*`.
    pub gso_type: u8,
    /// Bytes of Ethernet, IP and L4 headers: a hint, not to be trusted.
    pub hdr_len: u16,
    /// Payload bytes per segment.
    pub gso_size: u16,
    /// Where the checksum starts.
    pub csum_start: u16,
    /// Where it is stored, from `csum_start`.
    pub csum_offset: u16,
}

const SCTP: u8 = 132;

/// Bit of TCP's flags byte (offset 13): congestion window reduced (RFC 3168).
const TCP_CWR: u8 = 0x80;

impl VnetHdr {
    /// Bytes on the wire.
    pub const LEN: usize = 10;
    /// `csum_start` and `csum_offset` are valid.
    pub const NEEDS_CSUM: u8 = 1;
    /// The checksum was verified.
    pub const DATA_VALID: u8 = 2;
    /// Not a GSO packet.
    pub const GSO_NONE: u8 = 0;
    /// TCP over IPv4.
    pub const GSO_TCPV4: u8 = 1;
    /// TCP over IPv6.
    pub const GSO_TCPV6: u8 = 4;
    /// A train of UDP datagrams, over either IP (virtio 1.3).
    pub const GSO_UDP_L4: u8 = 5;
    /// Added to a TCP type: the first segment carries CWR.
    pub const GSO_ECN: u8 = 0x80;

    /// Reads the 10 bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 10]) -> Self {
        let [flags, gso_type, h0, h1, g0, g1, s0, s1, o0, o1] = *bytes;
        Self {
            flags,
            gso_type,
            hdr_len: u16::from_le_bytes([h0, h1]),
            gso_size: u16::from_le_bytes([g0, g1]),
            csum_start: u16::from_le_bytes([s0, s1]),
            csum_offset: u16::from_le_bytes([o0, o1]),
        }
    }

    /// Writes the 10 bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 10] {
        let [h0, h1] = self.hdr_len.to_le_bytes();
        let [g0, g1] = self.gso_size.to_le_bytes();
        let [s0, s1] = self.csum_start.to_le_bytes();
        let [o0, o1] = self.csum_offset.to_le_bytes();
        [self.flags, self.gso_type, h0, h1, g0, g1, s0, s1, o0, o1]
    }

    /// Takes what the header says of a received packet over into the mbuf (`set_csum`, `set_gso_size`), trusting nothing:
    /// partial stays partial only where the parsed L4 checksum is the one that the header names (else it is finished here).
    ///
    /// # Errors
    /// [`DropReason::VnetHeader`] when the header contradicts the bytes.
    pub fn accept(self, mbuf: &mut Mbuf) -> Result<(), DropReason> {
        if self.flags & Self::NEEDS_CSUM == 0 {
            if self.gso_type != Self::GSO_NONE {
                return Err(DropReason::VnetHeader); // virtio 1.1, 5.1.6.2: GSO comes with NEEDS_CSUM
            }
            if self.flags & Self::DATA_VALID != 0 {
                mbuf.set_csum(Csum::Good);
            }
            return Ok(());
        }
        let start = usize::from(self.csum_start);
        let field = start + usize::from(self.csum_offset);
        if field + 2 > mbuf.len() {
            return Err(DropReason::VnetHeader);
        }
        let headers = Headers::of(mbuf);
        match headers.filter(|found| found.l4_start() == start && found.checksum_at() == Some(field)) {
            Some(found) => {
                let gso_size = self.accept_gso(&found, mbuf.len())?;
                mbuf.set_gso_size(gso_size);
                mbuf.set_csum(Csum::Partial);
                Ok(())
            }
            None if self.gso_type == Self::GSO_NONE => finish_elsewhere(mbuf, headers, start, field),
            None => Err(DropReason::VnetHeader),
        }
    }

    /// The segment size of a packet that the header calls GSO and the bytes agree; 0 for an ordinary one.
    fn accept_gso(self, headers: &Headers, len: usize) -> Result<u16, DropReason> {
        let fits = match self.gso_type {
            Self::GSO_NONE => return Ok(0),
            Self::GSO_UDP_L4 => headers.l4 == Some(L4::Udp),
            tcp => match tcp & !Self::GSO_ECN {
                Self::GSO_TCPV4 => headers.l4 == Some(L4::Tcp) && headers.ipv4,
                Self::GSO_TCPV6 => headers.l4 == Some(L4::Tcp) && !headers.ipv4,
                _ => false, // UFO (3) is gone from Linux and its segments would be fragments
            },
        };
        if !fits || self.gso_size == 0 {
            return Err(DropReason::VnetHeader);
        }
        if headers.payload_len() <= self.gso_size.into() {
            return Ok(0);
        }
        // A device that segments goes by the length of the packet: padding would become payload.
        if headers.end == len { Ok(self.gso_size) } else { Err(DropReason::VnetHeader) }
    }

    /// The header to send with a packet to a peer that takes partial checksums and GSO; all offsets come from the bytes.
    ///
    /// # Errors
    /// [`DropReason::VnetHeader`] when a partial or GSO packet has no L4 header that can be described.
    pub fn describe(mbuf: &Mbuf) -> Result<Self, DropReason> {
        if !mbuf.needs_offload() {
            let flags = if mbuf.csum() == Csum::Good { Self::DATA_VALID } else { 0 };
            return Ok(Self { flags, ..Self::default() });
        }
        Self::describe_offload(mbuf).ok_or(DropReason::VnetHeader)
    }

    fn describe_offload(mbuf: &Mbuf) -> Option<Self> {
        let headers = Headers::of(mbuf)?;
        let l4 = headers.l4.filter(|_| mbuf.csum() == Csum::Partial)?;
        let start = headers.l4_start();
        let mut header = Self {
            flags: Self::NEEDS_CSUM,
            csum_start: u16::try_from(start).ok()?,
            csum_offset: u16::try_from(l4.checksum_offset()).ok()?,
            ..Self::default()
        };
        let gso_size = mbuf.gso_size();
        if gso_size == 0 || headers.payload_len() <= gso_size.into() {
            return Some(header);
        }
        if headers.end != mbuf.len() {
            return None;
        }
        header.gso_size = gso_size;
        header.hdr_len = u16::try_from(headers.payload_start()).ok()?;
        header.gso_type = match l4 {
            L4::Udp => Self::GSO_UDP_L4,
            L4::Tcp => {
                let mut flags = [0];
                mbuf.read(start + 13, &mut flags).then_some(())?;
                let family = if headers.ipv4 { Self::GSO_TCPV4 } else { Self::GSO_TCPV6 };
                family | if flags[0] & TCP_CWR != 0 { Self::GSO_ECN } else { 0 }
            }
        };
        Some(header)
    }
}

/// Does what the header asks where the checksum is not that of the outermost TCP or UDP header (a guest's own tunnel, ICMP):
/// nobody behind us looks there.
fn finish_elsewhere(mbuf: &mut Mbuf, headers: Option<Headers>, start: usize, field: usize) -> Result<(), DropReason> {
    let inside = headers.filter(|found| field + 2 <= found.end);
    // What SCTP has in its header is a CRC32c: a sum would only spoil it.
    if inside.is_some_and(|found| found.protocol == SCTP && found.l4_start() == start) {
        return Err(DropReason::VnetHeader);
    }
    let end = inside.map_or(mbuf.len(), |found| found.end);
    // 0xffff for 0 always: right for UDP, and the same number for every other protocol (Linux: skb_checksum_help).
    if !checksum::finish(mbuf, start, field, end, true) {
        return Err(DropReason::VnetHeader);
    }
    mbuf.set_csum(Csum::Unknown);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Spec, cut, cuts, naive_checksum, specs};
    use super::*;
    use crate::dpdk::Mempool;
    use proptest::prelude::*;

    fn partial(spec: &Spec) -> VnetHdr {
        VnetHdr {
            flags: VnetHdr::NEEDS_CSUM,
            csum_start: u16::try_from(spec.l4_start()).expect("short headers"),
            csum_offset: if spec.l4 == L4::Tcp { 16 } else { 6 },
            ..VnetHdr::default()
        }
    }

    fn gso(spec: &Spec, gso_size: u16) -> VnetHdr {
        let gso_type = match (spec.l4, spec.ipv4) {
            (L4::Udp, _) => VnetHdr::GSO_UDP_L4,
            (L4::Tcp, true) => VnetHdr::GSO_TCPV4,
            (L4::Tcp, false) => VnetHdr::GSO_TCPV6,
        };
        VnetHdr { gso_type, gso_size, ..partial(spec) }
    }

    #[test]
    fn ten_bytes_little_endian() {
        let bytes = [1, 0x81, 0x36, 0, 0xa8, 0x05, 0x22, 0x01, 0x10, 0];
        let header = VnetHdr::from_bytes(&bytes);
        let expected = VnetHdr {
            flags: VnetHdr::NEEDS_CSUM,
            gso_type: VnetHdr::GSO_TCPV4 | VnetHdr::GSO_ECN,
            hdr_len: 54,
            gso_size: 1448,
            csum_start: 0x122,
            csum_offset: 16,
        };
        assert_eq!(header, expected);
        assert_eq!(header.to_bytes(), bytes);
    }

    #[test]
    fn flags_without_needs_csum() {
        let pool = Mempool::for_tests(4);
        let bytes = Spec::plain(true, L4::Tcp, 10).complete();
        // RSC_INFO (4) and what may come later mean nothing to us.
        for (flags, csum) in [(0, Csum::Unknown), (2, Csum::Good), (4, Csum::Unknown), (0xfe, Csum::Good)] {
            let mut mbuf = pool.mbuf_from(&bytes).expect("mbuf");
            let header = VnetHdr { flags, gso_size: 7, csum_start: 9999, ..VnetHdr::default() };
            assert_eq!(header.accept(&mut mbuf), Ok(()), "flags {flags}");
            assert_eq!((mbuf.csum(), mbuf.gso_size(), mbuf.to_vec() == bytes), (csum, 0, true), "flags {flags}");
        }
    }

    #[test]
    fn the_outermost_checksum_stays_partial() {
        let pool = Mempool::for_tests(4);
        for (ipv4, l4) in [(true, L4::Tcp), (true, L4::Udp), (false, L4::Tcp), (false, L4::Udp)] {
            let spec = Spec::plain(ipv4, l4, 100);
            let mut mbuf = pool.mbuf_from(&spec.partial()).expect("mbuf");
            assert_eq!(partial(&spec).accept(&mut mbuf), Ok(()), "{ipv4} {l4:?}");
            assert_eq!((mbuf.csum(), mbuf.to_vec()), (Csum::Partial, spec.partial()), "{ipv4} {l4:?}");
            assert_eq!(VnetHdr::describe(&mbuf), Ok(partial(&spec)), "{ipv4} {l4:?}");
        }
    }

    #[test]
    fn any_other_checksum_is_finished_here() {
        let pool = Mempool::for_tests(512);
        // A packet in a tunnel of the guest's own: 42 bytes of UDP and 8 of tunnel header before an inner TCP packet.
        let inner = Spec::plain(true, L4::Tcp, 101);
        let mut outer = Spec::plain(true, L4::Udp, 0);
        outer.padding = 3;
        outer.payload = [vec![8; 8], inner.partial()].concat();
        let at = outer.payload_start() + 8;
        let header = VnetHdr { csum_start: u16::try_from(at + 34).expect("short"), ..partial(&inner) };
        for cuts in [vec![], vec![1; 400], vec![at + 34 + 17, 33]] {
            let mut mbuf = cut(&pool, &outer.complete(), &cuts);
            assert_eq!(header.accept(&mut mbuf), Ok(()), "cut {cuts:?}");
            assert_eq!(mbuf.csum(), Csum::Unknown, "cut {cuts:?}");
            assert_eq!(mbuf.to_vec()[at..outer.end()], inner.complete(), "cut {cuts:?}");
            assert_eq!(mbuf.to_vec()[..at], outer.complete()[..at], "cut {cuts:?}: the outer headers");
        }

        let mut icmp = Spec::plain(true, L4::Udp, 21).complete();
        (icmp[23], icmp[36], icmp[37]) = (1, 0, 0);
        let mut mbuf = pool.mbuf_from(&icmp).expect("mbuf");
        let header = VnetHdr { csum_offset: 2, ..partial(&Spec::plain(true, L4::Udp, 21)) };
        assert_eq!(header.accept(&mut mbuf), Ok(()), "ICMP");
        assert_eq!((naive_checksum(&mbuf.to_vec()[34..]), mbuf.csum()), (0, Csum::Unknown), "ICMP verifies");
    }

    #[test]
    fn contradictions_are_refused() {
        let tcp4 = Spec::plain(true, L4::Tcp, 3000);
        let tcp6 = Spec::plain(false, L4::Tcp, 3000);
        let udp4 = Spec::plain(true, L4::Udp, 3000);
        let mut padded = tcp4.clone();
        padded.padding = 1;
        let len = u16::try_from(tcp4.end()).expect("short");
        let with = |spec: &Spec, change: &dyn Fn(&mut VnetHdr)| {
            let mut header = gso(spec, 1000);
            change(&mut header);
            (header, spec.partial())
        };
        let mut fragment = with(&tcp4, &|_| {});
        fragment.1[20] = 0x20;
        let mut big = with(&tcp4, &|_| {});
        (big.1[16], big.1[17]) = (0, 0);
        let mut sctp = with(&udp4, &|h| (h.gso_type, h.csum_offset) = (0, 8));
        sctp.1[23] = SCTP;
        let cases = [
            ("GSO without NEEDS_CSUM", with(&tcp4, &|h| h.flags = 0)),
            ("GSO with DATA_VALID only", with(&tcp4, &|h| h.flags = 2)),
            ("gso_size 0", with(&tcp4, &|h| h.gso_size = 0)),
            ("TCPV6 on IPv4", with(&tcp4, &|h| h.gso_type = 4)),
            ("TCPV4 on IPv6", with(&tcp6, &|h| h.gso_type = 1)),
            ("TCPV4 on UDP", with(&udp4, &|h| h.gso_type = 1)),
            ("UDP_L4 on TCP", with(&tcp4, &|h| h.gso_type = 5)),
            ("UDP_L4 with ECN", with(&udp4, &|h| h.gso_type = 0x85)),
            ("UFO", with(&udp4, &|h| h.gso_type = 3)),
            ("unknown type", with(&tcp4, &|h| h.gso_type = 2)),
            ("ECN alone", with(&tcp4, &|h| h.gso_type = 0x80)),
            ("csum_start off by one", with(&tcp4, &|h| h.csum_start += 1)),
            ("csum_offset of UDP on TCP", with(&tcp4, &|h| h.csum_offset = 6)),
            ("a GSO fragment", fragment),
            ("a GSO packet of total length 0", big),
            ("a GSO packet with padding", with(&padded, &|_| {})),
            ("SCTP", sctp),
            ("field one beyond", with(&tcp4, &|h| (h.gso_type, h.csum_start, h.csum_offset) = (0, len - 17, 16))),
            ("start beyond", with(&tcp4, &|h| (h.gso_type, h.csum_start) = (0, len))),
            ("all ones", with(&tcp4, &|h| (h.gso_type, h.csum_start, h.csum_offset) = (0, 0xffff, 0xffff))),
        ];
        let pool = Mempool::for_tests(16);
        for (name, (header, bytes)) in cases {
            let mut mbuf = pool.mbuf_from(&bytes).expect("mbuf");
            assert_eq!(header.accept(&mut mbuf), Err(DropReason::VnetHeader), "{name}");
        }
    }

    #[test]
    fn a_small_gso_packet_is_an_ordinary_one() {
        let pool = Mempool::for_tests(16);
        let mut spec = Spec::plain(true, L4::Tcp, 1000);
        spec.padding = 2;
        for (gso_size, kept) in [(1000, Ok(0)), (65_535, Ok(0)), (999, Err(DropReason::VnetHeader))] {
            let mut mbuf = pool.mbuf_from(&spec.partial()).expect("mbuf");
            let accepted = gso(&spec, gso_size).accept(&mut mbuf).map(|()| mbuf.gso_size());
            assert_eq!(accepted, kept, "gso_size {gso_size} for 1000 bytes of payload");
        }
        // Who shrinks the payload below the segment size on the way still sends something valid.
        let mut mbuf = pool.mbuf_from(&spec.partial()).expect("mbuf");
        mbuf.set_csum(Csum::Partial);
        mbuf.set_gso_size(1000);
        assert_eq!(VnetHdr::describe(&mbuf), Ok(partial(&spec)));
    }

    #[test]
    fn what_cannot_be_described_is_refused() {
        let pool = Mempool::for_tests(16);
        let spec = Spec::plain(true, L4::Tcp, 1000);
        let mut arp = spec.partial();
        arp[13] = 6;
        for (name, bytes, csum, gso_size) in [
            ("partial ARP", arp.clone(), Csum::Partial, 0),
            ("GSO ARP", arp, Csum::Partial, 500),
            ("GSO with a whole checksum", spec.complete(), Csum::Good, 500),
        ] {
            let mut mbuf = pool.mbuf_from(&bytes).expect("mbuf");
            mbuf.set_csum(csum);
            mbuf.set_gso_size(gso_size);
            assert_eq!(VnetHdr::describe(&mbuf), Err(DropReason::VnetHeader), "{name}");
        }
    }

    #[test]
    fn accepting_a_description_changes_nothing() {
        let pool = Mempool::for_tests(512);
        let state = prop_oneof![Just(Csum::Unknown), Just(Csum::Good), Just(Csum::Partial)];
        proptest!(|((mut spec, cuts, state, gso_size) in (specs(1500), cuts(), state, 0..800_u16))| {
            let gso_size = if state == Csum::Partial && spec.payload.len() > gso_size.into() { gso_size } else { 0 };
            if gso_size != 0 {
                spec.padding = 0;
            }
            let bytes = if state == Csum::Partial { spec.partial() } else { spec.complete() };
            let mut mbuf = cut(&pool, &bytes, &cuts);
            mbuf.set_csum(state);
            mbuf.set_gso_size(gso_size);
            let header = VnetHdr::describe(&mbuf).expect("describable");
            let mut again = cut(&pool, &bytes, &[]);
            prop_assert_eq!(VnetHdr::from_bytes(&header.to_bytes()).accept(&mut again), Ok(()), "{:?}", header);
            prop_assert_eq!((again.csum(), again.gso_size()), (state, gso_size), "{:?}", header);
            prop_assert!(again.to_vec() == bytes, "bytes changed by {:?}", header);
            let ecn = spec.l4 == L4::Tcp && gso_size != 0 && spec.tcp_flags & TCP_CWR != 0;
            prop_assert_eq!(header.gso_type & VnetHdr::GSO_ECN != 0, ecn, "{:?}", header);
        });
        assert_eq!(pool.in_use(), 0, "segments leaked");
    }

    /// Headers that are mostly close to right, so that they get past the first checks.
    fn headers() -> impl Strategy<Value = VnetHdr> {
        let number = || prop_oneof![0..200_u16, any::<u16>()];
        let gso_type = prop_oneof![Just(0), Just(1), Just(4), Just(5), Just(0x81), Just(0x84), any::<u8>()];
        let offset = prop_oneof![Just(16), Just(6), Just(2), number()];
        (any::<u8>(), gso_type, number(), number(), number(), offset).prop_map(
            |(flags, gso_type, hdr_len, gso_size, csum_start, csum_offset)| VnetHdr {
                flags,
                gso_type,
                hdr_len,
                gso_size,
                csum_start,
                csum_offset,
            },
        )
    }

    #[test]
    fn whatever_is_accepted_can_be_described() {
        let pool = Mempool::for_tests(512);
        let random = proptest::collection::vec(any::<u8>(), 1..400);
        let real = (specs(300), proptest::option::of((0..150_usize, any::<u8>())), any::<bool>());
        let real = real.prop_map(|(spec, damage, aimed)| {
            let mut bytes = spec.partial();
            if let Some((at, value)) = damage {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            (bytes, aimed.then(|| partial(&spec)))
        });
        let packet = prop_oneof![random.prop_map(|bytes| (bytes, None)), real];
        proptest!(ProptestConfig::with_cases(4000), |(((bytes, aim), mut header, cuts) in (packet, headers(), cuts()))| {
            if let Some(aim) = aim {
                header = VnetHdr { gso_type: header.gso_type, gso_size: header.gso_size, ..aim };
            }
            let mut mbuf = cut(&pool, &bytes, &cuts);
            if header.accept(&mut mbuf).is_ok() {
                prop_assert_eq!(mbuf.len(), bytes.len());
                let described = VnetHdr::describe(&mbuf);
                prop_assert!(described.is_ok(), "accepted {:?}, but {:?}", header, described);
                prop_assert_eq!(described.map(|d| d.gso_size), Ok(mbuf.gso_size()));
            }
        });
        assert_eq!(pool.in_use(), 0, "segments leaked");
    }
}
