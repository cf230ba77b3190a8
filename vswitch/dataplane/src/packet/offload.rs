//! Makes a packet fit its way out: finishes partial checksums, segments GSO packets, describes both
//! to devices.

use super::checksum;
use super::headers::{Headers, L4};
use super::nested::Nested;
use super::segment;
use crate::observe::{DropReason, Software};
use vswitch_dpdk::{Csum, Mbuf, Mempool, TxOffload};

/// What a transmit queue takes from us unfinished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // independent capabilities
pub struct TxCaps {
    /// Partial TCP and UDP checksums.
    pub csum: bool,
    /// TCP over IPv4 longer than the MTU.
    pub tso4: bool,
    /// TCP over IPv6 longer than the MTU.
    pub tso6: bool,
    /// UDP datagram trains (`UDP_SEGMENT`).
    pub uso: bool,
}

impl TxCaps {
    /// Whether a GSO packet with these headers may go as it is: its checksum is partial, so that
    /// must be taken too.
    const fn takes_gso(self, l4: L4, ipv4: bool) -> bool {
        self.csum
            && match l4 {
                L4::Tcp if ipv4 => self.tso4,
                L4::Tcp => self.tso6,
                L4::Udp => self.uso,
            }
    }
}

/// Hands `out` what is to be sent in place of `mbuf`, in order: the mbuf itself where `caps` take
/// it (or nothing had to be done), the mbuf with its checksum finished, or the segments of a GSO
/// packet. Returns what was done in the device's place.
///
/// # Errors
/// The reason to drop what was not handed out: [`DropReason::VnetHeader`] for a partial checksum
/// without an L4 header, [`DropReason::Segmentation`] for a GSO packet that is none or would make
/// more than [`crate::limits::GSO_SEGMENTS_MAX`] segments, [`DropReason::NoMbuf`].
pub fn finish(
    mut mbuf: Mbuf,
    caps: TxCaps,
    pool: &Mempool,
    out: &mut dyn FnMut(Mbuf),
) -> Result<Option<Software>, DropReason> {
    if !mbuf.needs_offload() {
        out(mbuf);
        return Ok(None);
    }
    let gso_size = usize::from(mbuf.gso_size());
    if mbuf.inner_len() != 0 {
        let nested = Nested::of(&mbuf).ok_or(DropReason::Segmentation)?;
        segment::segment_nested(&mbuf, &nested, pool, out)?;
        return Ok(Some(cut_in_software(nested.l4, nested.inner.ipv4)));
    }
    if gso_size != 0 {
        let headers = Headers::of(&mbuf).ok_or(DropReason::Segmentation)?;
        let l4 = headers.l4.filter(|_| mbuf.csum() == Csum::Partial).ok_or(DropReason::Segmentation)?;
        if headers.payload_len() > gso_size {
            if !caps.takes_gso(l4, headers.ipv4) {
                segment::segment(&mbuf, &headers, l4, caps.csum, pool, out)?;
                return Ok(Some(cut_in_software(l4, headers.ipv4)));
            }
            out(mbuf);
            return Ok(None);
        }
        mbuf.set_gso_size(0);
    }
    let done = if caps.csum || mbuf.csum() != Csum::Partial {
        None
    } else {
        finish_checksum(&mut mbuf)?;
        Some(Software::Checksum)
    };
    out(mbuf);
    Ok(done)
}

const fn cut_in_software(l4: L4, ipv4: bool) -> Software {
    match l4 {
        L4::Tcp if ipv4 => Software::Tso4,
        L4::Tcp => Software::Tso6,
        L4::Udp => Software::Uso,
    }
}

/// Bytes of the longest packet that a GSO packet will be cut into; none where it has no headers
/// that tell.
#[must_use]
pub fn piece_len(mbuf: &Mbuf) -> Option<usize> {
    let headers = if mbuf.inner_len() == 0 { Headers::of(mbuf)? } else { Nested::of(mbuf)?.inner };
    Some(headers.payload_start() + usize::from(mbuf.gso_size()))
}

/// Finishes a partial checksum in software; does nothing to other packets. For whoever needs the
/// whole L4 packet: a port without checksum offload, encapsulation (the partial checksum is that of
/// the *outermost* TCP or UDP header).
///
/// A GSO packet in a tunnel gets both, and is no GSO packet afterwards: one long packet.
///
/// # Errors
/// [`DropReason::VnetHeader`] when the packet has no L4 header that can carry a partial checksum.
pub fn finish_checksum(mbuf: &mut Mbuf) -> Result<(), DropReason> {
    if mbuf.inner_len() != 0 {
        let nested = Nested::of(mbuf).ok_or(DropReason::VnetHeader)?;
        let (start, end) = (nested.inner.l4_start(), nested.inner.end);
        if !checksum::finish(mbuf, start, nested.checksum_at(), end, nested.l4 == L4::Udp) {
            return Err(DropReason::VnetHeader);
        }
        mbuf.set_gso_size(0);
    }
    if mbuf.csum() != Csum::Partial {
        return Ok(());
    }
    let headers = Headers::of(mbuf).ok_or(DropReason::VnetHeader)?;
    let l4 = headers.l4.ok_or(DropReason::VnetHeader)?;
    let field = headers.l4_start() + l4.checksum_offset();
    if !checksum::finish(mbuf, headers.l4_start(), field, headers.end, l4 == L4::Udp) {
        return Err(DropReason::VnetHeader);
    }
    mbuf.set_csum(Csum::Good);
    Ok(())
}

/// Sets the mbuf's transmit offload (header lengths derived from the bytes) for ethdev and
/// librte_vhost, where its checksum is partial or it is a GSO packet. Call after [`finish`].
///
/// The checksum field keeps the pseudo-header sum as virtio has it, with the length of the whole
/// packet; what else a NIC wants there is for `rte_eth_tx_prepare`. Returns what the device was
/// asked for; its default where nothing was.
///
/// # Errors
/// [`DropReason::VnetHeader`] when the headers cannot be described: no TCP or UDP header, lengths
/// beyond the fields of `rte_mbuf` (`l2_len` 7 bits, `l3_len` 9 bits), a GSO packet that is not TCP
/// or is in a tunnel.
pub fn describe(mbuf: &mut Mbuf) -> Result<TxOffload, DropReason> {
    if !mbuf.needs_offload() {
        mbuf.clear_tx_offload();
        return Ok(TxOffload::default());
    }
    let tx = tx_offload(mbuf).ok_or(DropReason::VnetHeader)?;
    if tx.segment_size == 0 {
        mbuf.set_gso_size(0);
    }
    mbuf.set_tx_offload(tx);
    Ok(tx)
}

fn tx_offload(mbuf: &Mbuf) -> Option<TxOffload> {
    if mbuf.inner_len() != 0 {
        return None;
    }
    let headers = Headers::of(mbuf)?;
    let l4 = headers.l4.filter(|_| mbuf.csum() == Csum::Partial)?;
    let gso_size = mbuf.gso_size();
    let segment_size = if headers.payload_len() > gso_size.into() { gso_size } else { 0 };
    if segment_size != 0 && (l4 != L4::Tcp || headers.end != mbuf.len()) {
        return None;
    }
    Some(TxOffload {
        l2_len: u8::try_from(headers.l2_len).ok().filter(|len| *len < 1 << 7)?,
        l3_len: u16::try_from(headers.l3_len).ok().filter(|len| *len < 1 << 9)?,
        l4_len: u8::try_from(headers.l4_len).ok()?,
        ipv4: headers.ipv4,
        tcp: l4 == L4::Tcp,
        segment_size,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Spec, cut, cuts, specs};
    use super::*;
    use proptest::prelude::*;

    const CSUM: TxCaps = TxCaps { csum: true, tso4: false, tso6: false, uso: false };

    fn one(mbuf: Mbuf, caps: TxCaps, pool: &Mempool) -> Result<Mbuf, DropReason> {
        let mut sent = Vec::new();
        finish(mbuf, caps, pool, &mut |mbuf| sent.push(mbuf))?;
        assert_eq!(sent.len(), 1, "packets sent in place of one");
        Ok(sent.remove(0))
    }

    #[test]
    fn a_partial_checksum_is_finished_where_the_port_takes_none() {
        let pool = Mempool::for_tests(512);
        proptest!(|((spec, cuts) in (specs(3000), cuts()))| {
            let mut mbuf = cut(&pool, &spec.partial(), &cuts);
            mbuf.set_csum(Csum::Partial);
            let mbuf = one(mbuf, CSUM, &pool).expect("taken");
            prop_assert_eq!(mbuf.csum(), Csum::Partial);
            prop_assert!(mbuf.to_vec() == spec.partial(), "touched a packet that the port takes");
            let mbuf = one(mbuf, TxCaps::default(), &pool).expect("finished");
            prop_assert_eq!(mbuf.csum(), Csum::Good);
            prop_assert!(mbuf.to_vec() == spec.complete(), "{:02x?}\nnot\n{:02x?}", mbuf.to_vec(), spec.complete());
        });
        assert_eq!(pool.in_use(), 0, "segments leaked");
    }

    #[test]
    fn a_udp_checksum_of_zero_is_sent_as_all_ones() {
        let pool = Mempool::for_tests(4);
        for (l4, written) in [(L4::Udp, [0xff, 0xff]), (L4::Tcp, [0, 0])] {
            let mut spec = Spec::plain(true, l4, 100);
            spec.payload[0] = 0;
            spec.payload[1] = 0;
            let at = spec.checksum_at();
            let complete = spec.complete();
            // What the checksum was goes into the payload: the sum becomes 0xffff, the checksum 0.
            spec.payload[..2].copy_from_slice(&complete[at..][..2]);
            let mut mbuf = pool.mbuf_from(&spec.partial()).expect("mbuf");
            mbuf.set_csum(Csum::Partial);
            let mbuf = one(mbuf, TxCaps::default(), &pool).expect("finished");
            assert_eq!(mbuf.to_vec()[at..][..2], written, "{l4:?}");
        }
    }

    #[test]
    fn other_packets_pass_untouched() {
        let pool = Mempool::for_tests(4);
        for csum in [Csum::Unknown, Csum::Good, Csum::Bad] {
            for bytes in [Spec::plain(true, L4::Tcp, 40).complete(), vec![0xff; 3]] {
                let mut mbuf = pool.mbuf_from(&bytes).expect("mbuf");
                mbuf.set_csum(csum);
                let mut mbuf = one(mbuf, TxCaps::default(), &pool).expect("passed");
                assert_eq!(describe(&mut mbuf), Ok(TxOffload::default()), "{csum:?}");
                assert_eq!((mbuf.csum(), mbuf.to_vec()), (csum, bytes), "{csum:?}");
            }
        }
    }

    #[test]
    fn a_partial_packet_without_l4_header_is_refused() {
        let pool = Mempool::for_tests(4);
        let mut fragment = Spec::plain(true, L4::Tcp, 40).partial();
        fragment[20] = 0x20;
        for bytes in [fragment, vec![0xff; 3], vec![]] {
            let mut mbuf = pool.mbuf_from(&bytes).expect("mbuf");
            mbuf.set_csum(Csum::Partial);
            assert_eq!(describe(&mut mbuf), Err(DropReason::VnetHeader), "{bytes:02x?}");
            let sent = one(mbuf, TxCaps::default(), &pool).map(|mbuf| mbuf.to_vec());
            assert_eq!(sent, Err(DropReason::VnetHeader), "{bytes:02x?}");
        }
    }

    #[test]
    fn padding_behind_a_gso_packet_is_not_for_devices() {
        let pool = Mempool::for_tests(8);
        let mut spec = Spec::plain(true, L4::Tcp, 3000);
        spec.padding = 1;
        for (gso_size, result) in [(0, Ok(())), (1000, Err(DropReason::VnetHeader)), (3000, Ok(()))] {
            let mut mbuf = cut(&pool, &spec.partial(), &[]);
            mbuf.set_csum(Csum::Partial);
            mbuf.set_gso_size(gso_size);
            assert_eq!(describe(&mut mbuf).map(drop), result, "gso_size {gso_size}");
        }
    }

    #[test]
    fn devices_are_told_lengths_from_the_bytes() {
        let pool = Mempool::for_tests(512);
        proptest!(|((mut spec, cuts, gso_size) in (specs(3000), cuts(), 0..2000_u16))| {
            spec.padding = 0;
            let mut mbuf = cut(&pool, &spec.partial(), &cuts);
            mbuf.set_csum(Csum::Partial);
            mbuf.set_gso_size(gso_size);
            let segment_size = if spec.payload.len() > gso_size.into() { gso_size } else { 0 };
            let expected = (spec.l4 == L4::Tcp || segment_size == 0).then(|| TxOffload {
                l2_len: u8::try_from(spec.l2_len()).expect("short"),
                l3_len: u16::try_from(spec.l3_len()).expect("short"),
                l4_len: u8::try_from(spec.l4_len()).expect("short"),
                ipv4: spec.ipv4,
                tcp: spec.l4 == L4::Tcp,
                segment_size,
            });
            prop_assert_eq!(tx_offload(&mbuf), expected);
            prop_assert_eq!(describe(&mut mbuf).ok(), expected);
            if expected.is_some() {
                prop_assert_eq!((mbuf.gso_size(), mbuf.csum()), (segment_size, Csum::Partial));
            }
        });
        assert_eq!(pool.in_use(), 0, "segments leaked");
    }
}
