//! Segments a GSO packet in software: TCP and trains of UDP datagrams, over IPv4 and IPv6.

use super::checksum::Sum;
use super::headers::{HEADERS_MAX, Headers, L4};
use super::nested::{Nested, NestedKind};
use crate::limits::GSO_SEGMENTS_MAX;
use crate::observe::DropReason;
use vswitch_dpdk::{Csum, Mbuf, Mempool};

/// Bits of TCP's flags byte (offset 13).
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Makes packets of at most `mbuf.gso_size()` payload bytes each and hands them out in order, with
/// partial checksums or whole ones.
///
/// The field of the original's checksum must hold the pseudo-header sum over its full length (Linux
/// and virtio 1.1, 5.1.6.2 have it so): the segments' sums derive from it, which is right also
/// where the addresses in the header are not those of the pseudo-header (IPv6 routing headers).
pub(super) fn segment(
    mbuf: &Mbuf,
    headers: &Headers,
    l4: L4,
    partial: bool,
    pool: &Mempool,
    out: &mut dyn FnMut(Mbuf),
) -> Result<(), DropReason> {
    cut(mbuf, Template::new(mbuf, *headers, l4).ok_or(DropReason::Segmentation)?, partial, pool, out)
}

/// The same inside of a tunnel that the packet's sender made: each piece has the tunnel's headers,
/// and all checksums are whole.
pub(super) fn segment_nested(
    mbuf: &Mbuf,
    nested: &Nested,
    pool: &Mempool,
    out: &mut dyn FnMut(Mbuf),
) -> Result<(), DropReason> {
    let template = Template::new(mbuf, nested.inner, nested.l4);
    let around = Around::new(mbuf, nested);
    let template = template.zip(around).map(|(template, around)| Template { around: Some(around), ..template });
    cut(mbuf, template.ok_or(DropReason::Segmentation)?, false, pool, out)
}

fn cut(
    mbuf: &Mbuf,
    mut template: Template,
    partial: bool,
    pool: &Mempool,
    out: &mut dyn FnMut(Mbuf),
) -> Result<(), DropReason> {
    let gso_size = usize::from(mbuf.gso_size());
    let headers = template.headers;
    let total = headers.payload_len();
    if gso_size == 0 || total.div_ceil(gso_size) > GSO_SEGMENTS_MAX {
        return Err(DropReason::Segmentation);
    }
    let start = headers.payload_start();
    let mut done = 0;
    loop {
        let len = gso_size.min(total - done);
        let header = template.fill(done, len, done + len == total).ok_or(DropReason::Segmentation)?;
        let mut segment = pool.mbuf_from(header).ok_or(DropReason::NoMbuf)?;
        if !segment.append_from(mbuf, start + done, len, pool) {
            let is_short = mbuf.len() < start + done + len;
            return Err(if is_short { DropReason::Segmentation } else { DropReason::NoMbuf });
        }
        segment.take_tag(mbuf);
        template.finish(&mut segment, partial).ok_or(DropReason::Segmentation)?;
        out(segment);
        done += len;
        // One without payload is one packet.
        if done >= total {
            return Ok(());
        }
    }
}

/// The original's headers, and what of them changes from segment to segment.
struct Template {
    bytes: [u8; HEADERS_MAX],
    headers: Headers,
    l4: L4,
    ipv4_id: u16,
    tcp_seq: u32,
    tcp_flags: u8,
    /// Sum over the pseudo-header without its length.
    pseudo: Sum,
    /// The tunnel that it is in.
    around: Option<Around>,
}

/// What of the headers of a tunnel changes from segment to segment.
struct Around {
    outer: Headers,
    kind: NestedKind,
    ipv4_id: u16,
    /// Sum over the outer pseudo-header without its length; none where no checksum is asked for.
    pseudo: Option<Sum>,
}

impl Around {
    fn new(mbuf: &Mbuf, nested: &Nested) -> Option<Self> {
        let word = |at: usize| {
            let mut word = [0; 2];
            mbuf.read(at, &mut word).then(|| u16::from_be_bytes(word))
        };
        let Nested { outer, kind, .. } = *nested;
        let ipv4_id = if outer.ipv4 { word(outer.l2_len + 4)? } else { 0 };
        let pseudo = match (kind, nested.outer_checksum_at()) {
            (NestedKind::Gre { checksum: true }, _) => Some(Sum::new()),
            (_, Some(at)) if mbuf.csum() == Csum::Partial => {
                let l4_len = u16::try_from(outer.end - outer.l4_start()).ok()?;
                Some(Sum::new().word(word(at)?).minus_word(l4_len))
            }
            _ => None,
        };
        Some(Self { outer, kind, ipv4_id, pseudo })
    }

    /// Writes lengths, ID and checksums of the tunnel's headers. `header`: all headers of a
    /// segment, whose inner L4 header starts at `inner` and whose inner checksum, once it is
    /// finished, is that of a packet with the pseudo-header sum `inner_sum`; `payload` bytes
    /// follow.
    fn fill(&mut self, header: &mut [u8], payload: usize, inner: usize, inner_sum: u16) -> Option<()> {
        let Headers { l2_len, l3_len, ipv4, .. } = self.outer;
        let start = self.outer.l4_start();
        let l4_len = header.len().checked_sub(start)? + payload;
        finish_ip(header.get_mut(l2_len..start)?, ipv4, l4_len, &mut self.ipv4_id)?;
        debug_assert!(l3_len == start - l2_len);
        let front = header.get_mut(start..inner)?;
        let len16 = u16::try_from(l4_len).ok()?;
        let field = match self.kind {
            NestedKind::Ip => return Some(()),
            NestedKind::Udp => {
                front.get_mut(4..6)?.copy_from_slice(&len16.to_be_bytes());
                L4::Udp.checksum_offset()
            }
            NestedKind::Gre { .. } => 4,
        };
        let Some(pseudo) = self.pseudo else { return Some(()) };
        front.get_mut(field..field + 2)?.fill(0);
        let pseudo = if self.kind == NestedKind::Udp { pseudo.word(len16) } else { pseudo };
        // A packet with a right checksum and its pseudo-header sum up to 0: so what is from `inner`
        // on need not be summed again.
        let checksum = match pseudo.bytes(front).minus_word(inner_sum).checksum() {
            0 if self.kind == NestedKind::Udp => 0xffff,
            checksum => checksum,
        };
        front.get_mut(field..field + 2)?.copy_from_slice(&checksum.to_be_bytes());
        Some(())
    }
}

/// Writes length, ID and checksum of an IP header (with its options or extension headers) in front
/// of `payload` bytes.
fn finish_ip(ip: &mut [u8], ipv4: bool, payload: usize, id: &mut u16) -> Option<()> {
    if !ipv4 {
        let payload = u16::try_from(ip.len().checked_sub(40)? + payload).ok()?;
        ip.get_mut(4..6)?.copy_from_slice(&payload.to_be_bytes());
        return Some(());
    }
    let total = u16::try_from(ip.len() + payload).ok()?;
    ip.get_mut(2..4)?.copy_from_slice(&total.to_be_bytes());
    ip.get_mut(4..6)?.copy_from_slice(&id.to_be_bytes());
    *id = id.wrapping_add(1);
    ip.get_mut(10..12)?.fill(0);
    let checksum = Sum::of(ip).checksum();
    ip.get_mut(10..12)?.copy_from_slice(&checksum.to_be_bytes());
    Some(())
}

impl Template {
    fn new(mbuf: &Mbuf, headers: Headers, l4: L4) -> Option<Self> {
        let mut bytes = [0; HEADERS_MAX];
        let header = bytes.get_mut(..headers.payload_start())?;
        mbuf.read(0, header).then_some(())?;
        let (ip, l4_header) = header.get(headers.l2_len..)?.split_at_checked(headers.l3_len)?;
        let ipv4_id = if headers.ipv4 { u16::from_be_bytes(*ip.get(4..)?.first_chunk()?) } else { 0 };
        let (tcp_seq, tcp_flags) = match l4 {
            L4::Tcp => (u32::from_be_bytes(*l4_header.get(4..)?.first_chunk()?), *l4_header.get(13)?),
            L4::Udp => (0, 0),
        };
        let sum = u16::from_be_bytes(*l4_header.get(l4.checksum_offset()..)?.first_chunk()?);
        let l4_len = u16::try_from(headers.end - headers.l4_start()).ok()?;
        let pseudo = Sum::new().word(sum).minus_word(l4_len);
        Some(Self { bytes, headers, l4, ipv4_id, tcp_seq, tcp_flags, pseudo, around: None })
    }

    /// The headers of the segment that has `len` bytes of payload and `offset` bytes of payload
    /// before it; its L4 checksum is partial.
    fn fill(&mut self, offset: usize, len: usize, last: bool) -> Option<&[u8]> {
        let Headers { l2_len, l3_len, l4_len, ipv4, .. } = self.headers;
        let header = self.bytes.get_mut(..self.headers.payload_start())?;
        let (ip, l4_header) = header.get_mut(l2_len..)?.split_at_mut_checked(l3_len)?;
        let l4_bytes = u16::try_from(l4_len + len).ok()?;
        finish_ip(ip, ipv4, l4_len + len, &mut self.ipv4_id)?;
        match self.l4 {
            L4::Tcp => {
                let seq = self.tcp_seq.wrapping_add(u32::try_from(offset).ok()?);
                l4_header.get_mut(4..8)?.copy_from_slice(&seq.to_be_bytes());
                let not_first = if offset == 0 { 0 } else { CWR };
                let not_last = if last { 0 } else { FIN | PSH };
                *l4_header.get_mut(13)? = self.tcp_flags & !(not_first | not_last);
            }
            L4::Udp => l4_header.get_mut(4..6)?.copy_from_slice(&l4_bytes.to_be_bytes()),
        }
        let sum = self.pseudo.word(l4_bytes).folded();
        let field = self.l4.checksum_offset();
        l4_header.get_mut(field..field + 2)?.copy_from_slice(&sum.to_be_bytes());
        if let Some(around) = &mut self.around {
            around.fill(header, len, l2_len + l3_len, sum)?;
        }
        Some(header)
    }

    /// Finishes the checksum of a segment made with [`Template::fill`], unless it shall stay
    /// partial.
    fn finish(&self, segment: &mut Mbuf, partial: bool) -> Option<()> {
        if partial {
            segment.set_csum(Csum::Partial);
            return Some(());
        }
        let start = self.headers.l4_start();
        let field = start + self.l4.checksum_offset();
        let end = segment.len();
        super::checksum::finish(segment, start, field, end, self.l4 == L4::Udp).then_some(())?;
        segment.set_csum(Csum::Good);
        Some(())
    }
}

#[cfg(test)]
mod tests;
