//! Cuts an IPv4 packet into fragments (RFC 791, 3.2).

use super::checksum::Sum;
use crate::observe::DropReason;
use vswitch_dpdk::{Mbuf, Mempool};

/// "More fragments", in the word of flags and offset.
const MF: u16 = 0x2000;
/// Options that every fragment has, and those that are one or two bytes long.
const COPIED: u8 = 0x80;
const END: u8 = 0;
const NOP: u8 = 1;

/// Bytes that are copied at a time.
const CHUNK: usize = 1024;

/// Hands `out` the packet in fragments of at most `mtu` bytes of IP, each with the Ethernet header
/// of the packet. `l3`: where its IPv4 header is. Its checksums must be finished.
///
/// # Errors
/// [`DropReason::Oversize`] when no fragment would fit, there is nothing to cut, or the packet is
/// malformed, [`DropReason::NoMbuf`]; what was handed out before may be sent all the same.
pub fn fragment(
    mbuf: &Mbuf,
    l3: usize,
    mtu: usize,
    pool: &Mempool,
    out: &mut dyn FnMut(Mbuf),
) -> Result<(), DropReason> {
    let mut head = [0; 22 + 60];
    let first = mbuf.head().get(l3).copied().ok_or(DropReason::Oversize)?;
    let ihl = usize::from(first & 0xf) * 4;
    let head = head.get_mut(..l3 + ihl).filter(|_| ihl >= 20).ok_or(DropReason::Oversize)?;
    if !mbuf.read(0, head) {
        return Err(DropReason::Oversize);
    }
    let word = |head: &[u8], at: usize| u16::from_be_bytes([head[l3 + at], head[l3 + at + 1]]);
    let (total, place) = (usize::from(word(head, 2)), word(head, 6));
    let room = mtu.saturating_sub(ihl) & !7;
    if room == 0 || total <= ihl || l3 + total > mbuf.len() {
        return Err(DropReason::Oversize);
    }
    let mut at = ihl;
    while at < total {
        let len = room.min(total - at);
        let more = if at + len < total { MF } else { 0 };
        let eighths = u16::try_from((at - ihl) / 8).unwrap_or(u16::MAX);
        // Its own offset and flags are those of the first of them, or what they are added to.
        put(head, l3 + 2, u16::try_from(ihl + len).unwrap_or(u16::MAX));
        put(head, l3 + 6, (place | more).wrapping_add(eighths));
        put(head, l3 + 10, 0);
        let sum = Sum::of(&head[l3..]).checksum();
        put(head, l3 + 10, sum);
        let mut piece = pool.mbuf_from(head).ok_or(DropReason::NoMbuf)?;
        append(&mut piece, mbuf, (l3 + at, len), pool)?;
        out(piece);
        if at == ihl {
            forget_options(&mut head[l3 + 20..]);
        }
        at += len;
    }
    Ok(())
}

fn put(head: &mut [u8], at: usize, word: u16) {
    head[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

/// Appends a part of a packet.
fn append(piece: &mut Mbuf, from: &Mbuf, (start, len): (usize, usize), pool: &Mempool) -> Result<(), DropReason> {
    let mut chunk = [0; CHUNK];
    let mut done = 0;
    while done < len {
        let part = &mut chunk[..CHUNK.min(len - done)];
        if !from.read(start + done, part) || !piece.append(part, pool) {
            return Err(DropReason::NoMbuf);
        }
        done += part.len();
    }
    Ok(())
}

/// Overwrites the options that only the first fragment has.
fn forget_options(mut options: &mut [u8]) {
    while let Some(kind) = options.first().copied().filter(|kind| *kind != END) {
        let len = if kind == NOP { 1 } else { options.get(1).map_or(0, |len| usize::from(*len)) };
        if len == 0 || len > options.len() {
            return;
        }
        let (option, rest) = options.split_at_mut(len);
        if kind & COPIED == 0 {
            option.fill(NOP);
        }
        options = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::super::L4;
    use super::super::testing::{Spec, cut, cuts};
    use super::*;
    use proptest::prelude::*;

    /// A UDP packet with options in its IP header: a copied one, one that is not.
    fn with_options(payload: usize) -> Vec<u8> {
        let mut packet = Spec::plain(true, L4::Udp, payload).complete();
        packet.splice(34..34, [0x94, 4, 0, 0, 7, 3, 4, 0]);
        packet[14] = 0x47;
        let total = u16::try_from(packet.len() - 14).expect("short");
        packet[16..18].copy_from_slice(&total.to_be_bytes());
        packet
    }

    fn pieces(mbuf: &Mbuf, l3: usize, mtu: usize, pool: &Mempool) -> Result<Vec<Vec<u8>>, DropReason> {
        let mut pieces = Vec::new();
        fragment(mbuf, l3, mtu, pool, &mut |piece| pieces.push(piece.to_vec()))?;
        Ok(pieces)
    }

    #[test]
    fn fragments_together_are_the_packet() {
        let pool = Mempool::for_tests(512);
        proptest!(|(payload in 0_usize..4000, mtu in 68_usize..2000, offset in 0_u16..100, more: bool, cuts in cuts())| {
            let mut packet = with_options(payload);
            let flags = offset | if more { MF } else { 0 };
            packet[20..22].copy_from_slice(&flags.to_be_bytes());
            let mbuf = cut(&pool, &packet, &cuts);
            prop_assume!(mbuf.head().len() > 14);
            let pieces = pieces(&mbuf, 14, mtu, &pool).expect("cut");
            let mut together = Vec::new();
            for (i, piece) in pieces.iter().enumerate() {
                let what = format!("piece {i} of {payload} bytes at {mtu}");
                prop_assert!(piece.len() <= 14 + mtu, "{} is {} long", what, piece.len());
                prop_assert_eq!(Sum::of(&piece[14..42]).checksum(), 0, "{}", &what);
                prop_assert_eq!(usize::from(u16::from_be_bytes([piece[16], piece[17]])), piece.len() - 14);
                let place = u16::from_be_bytes([piece[20], piece[21]]);
                let last = i + 1 == pieces.len();
                prop_assert_eq!(place & MF != 0, more || !last, "{}", &what);
                prop_assert_eq!(usize::from((place & 0x1fff) - offset) * 8, together.len(), "{}", &what);
                let options: &[u8] = if i == 0 { &[0x94, 4, 0, 0, 7, 3, 4, 0] } else { &[0x94, 4, 0, 0, 1, 1, 1, 0] };
                prop_assert_eq!(&piece[34..42], options, "{}", &what);
                together.extend_from_slice(&piece[42..]);
            }
            prop_assert!(together == packet[42..], "what is inside differs");
        });
        assert_eq!(pool.in_use(), 0, "segments leaked");
    }

    #[test]
    fn what_cannot_be_cut_is_refused() {
        let pool = Mempool::for_tests(8);
        let packet = with_options(100);
        let refused = |bytes: &[u8], mtu: usize| {
            let mbuf = pool.mbuf_from(bytes).expect("an mbuf");
            pieces(&mbuf, 14, mtu, &pool).expect_err("refused")
        };
        assert_eq!(refused(&packet, 35), DropReason::Oversize, "no room for eight bytes");
        assert_eq!(refused(&packet[..60], 100), DropReason::Oversize, "shorter than it says");
        assert_eq!(refused(&packet[..14], 100), DropReason::Oversize, "no header");
        let mut padding = packet.clone();
        padding[16..18].copy_from_slice(&[0, 28]);
        assert_eq!(refused(&padding, 100), DropReason::Oversize, "nothing but a header");
        let mut short = packet;
        short[14] = 0x44;
        assert_eq!(refused(&short, 100), DropReason::Oversize, "a header of 16 bytes");
    }
}
