//! FTP's control connections: who announces a data connection, and under which address the other
//! end is told of it.
//!
//! **Semantics**: Open vSwitch 3.1's. Whoever names an address must name his own, as he or as the
//! other end knows it; else, and if nobody understands it, the packet is `+inv`, and goes on. Where
//! the connection is translated, so is the address in the text, and the numbers of what follows it.
//! Chosen otherwise: a segment that is sent again is the same one again; `EPRT` and 229 are read
//! over IPv4, too; what cannot be rewritten is not expected.
//!
//! **Limits**: text that becomes longer needs one unsegmented packet with tailroom. SACK blocks
//! stay as they are (as Open vSwitch).

mod text;

use super::change::Change;
use super::datagram::Datagram;
use crate::action::Packet;
use crate::packet::checksum::Sum;
use text::{Address, Announced, READ_MAX, Text};
use vswitch_conntrack::{
    Control, Direction, End, Expected, L4, NatSide, Seen, TrackVerdict, Tracker, Tuple, state, tcp,
};
use vswitch_dpdk::Csum;

/// Where the checksum of a TCP header lies.
const CHECKSUM: usize = 16;

/// `ct()`, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// It translates.
    pub(super) nat: bool,
    /// See [`vswitch_conntrack::Request::before`].
    pub(super) before: u32,
    /// Milliseconds.
    pub(super) now: u64,
}

/// Reads a packet of a control connection after its headers were rewritten, and rewrites its
/// payload and its numbers.
#[cold]
pub(super) fn follow(
    tracker: &Tracker,
    datagram: &mut Datagram<'_>,
    seen: &Seen,
    verdict: &mut TrackVerdict,
    way: Way,
) {
    let L4::Tcp(segment) = &seen.l4 else { return };
    let Some(control) = tracker.control(seen, way.before, way.now) else { return };
    let translates = way.nat && way.before & (state::SNAT | state::DNAT) == 0 && control.side.is_some();
    if segment.payload > 0 && !announce(tracker, datagram, segment, &control, translates, way.now) {
        verdict.state |= state::INV;
    }
    if translates {
        renumber(datagram, segment, &control);
    }
}

/// Reads who waits for a data connection, and lets it be expected. False: nobody understands it, or
/// he speaks for somebody else.
fn announce(
    tracker: &Tracker,
    datagram: &mut Datagram<'_>,
    segment: &tcp::Segment,
    control: &Control,
    translates: bool,
    now: u64,
) -> bool {
    let Control { tuples, direction, .. } = control;
    let (own, towards) = (&tuples[*direction as usize], &tuples[direction.opposite() as usize]);
    let Some(start) = datagram.read::<1>(12).map(|[offset]| usize::from(offset >> 4) * 4) else { return true };
    let mut bytes = [0; READ_MAX];
    let bytes = &mut bytes[..READ_MAX.min(segment.payload as usize)];
    if !datagram.copy(start, bytes) {
        return true;
    }
    let Announced { port, address } = match text::read(bytes, own.family) {
        Text::Other => return true,
        Text::Malformed => return false,
        Text::Announced(announced) => announced,
    };
    if let Some(Address { addr, at, commas }) = address {
        if addr != own.src.addr && addr != towards.dst.addr {
            return false;
        }
        let mut buffer = [0; READ_MAX];
        if translates && addr != towards.dst.addr {
            let Some(new) = text::write(towards.dst.addr, own.family, commas, &mut buffer) else { return true };
            let Some(by) = replace(datagram, start + at.start, at.len(), new) else { return true };
            if by != 0 {
                tracker.grown(own, segment.seq, by, now);
            }
        }
    }
    tracker.expect(own, &expected(control, towards, port), now);
    true
}

/// The data connection that the other end will open, translated as the control connection is.
fn expected(control: &Control, towards: &Tuple, port: u16) -> Expected {
    let own = &control.tuples[control.direction as usize];
    let keeping_port = |end: End| End { port: 0, ..end };
    let tuple = Tuple { src: keeping_port(towards.src), dst: End { port, ..towards.dst }, ..*towards };
    // One of both ends is translated: that of who waits, or that of who comes.
    let translate = control.side.map(|side| match (side, control.direction) {
        (NatSide::Src, Direction::Original) | (NatSide::Dst, Direction::Reply) => (NatSide::Dst, keeping_port(own.src)),
        (NatSide::Dst, Direction::Original) | (NatSide::Src, Direction::Reply) => (NatSide::Src, keeping_port(own.dst)),
    });
    Expected { tuple, any_src: false, translate }
}

/// Replaces text of a packet, whatever its length, and adjusts lengths and checksums. Returns by
/// how much the packet has grown; none, and nothing has changed, if there is no room.
fn replace(datagram: &mut Datagram<'_>, at: usize, len: usize, new: &[u8]) -> Option<i32> {
    let before = datagram.sum(Sum::new()).folded();
    let [packet] = &mut *datagram.packets else { return None };
    if packet.mbuf.gso_size() != 0 || packet.mbuf.nb_segs() != 1 {
        return None;
    }
    let (l3, at) = (packet.l3()?, usize::from(packet.layers.l4) + at);
    let v4 = packet.mbuf.head().get(l3)? >> 4 == 4;
    let field = l3 + if v4 { 2 } else { 4 };
    let old_len = *packet.bytes::<2>(field)?;
    let by = i16::try_from(new.len()).ok()? - i16::try_from(len).ok()?;
    let new_len = u16::from_be_bytes(old_len).checked_add_signed(by)?.to_be_bytes();
    splice(packet, at, len, new)?;
    *packet.bytes_mut(field)? = new_len;
    if v4 && by != 0 {
        packet.adjust(l3 + 10, &old_len, &new_len);
    }
    if packet.layers.l3_end != u16::MAX {
        packet.layers.l3_end = packet.layers.l3_end.saturating_add_signed(by);
    }
    let partial = packet.mbuf.csum() == Csum::Partial;
    let mut change = Change::default();
    change.swap(&old_len, &new_len);
    if !partial {
        let after = datagram.sum(Sum::new()).folded();
        change.swap(&before.to_be_bytes(), &after.to_be_bytes());
    }
    adjust(datagram, &change, partial);
    Some(by.into())
}

/// Replaces bytes of a packet of one segment by more or fewer. None, and nothing has changed: no
/// room.
fn splice(packet: &mut Packet, at: usize, len: usize, new: &[u8]) -> Option<()> {
    let end = (at + len <= packet.mbuf.len()).then_some(at + len)?;
    let used = packet.mbuf.len();
    if let Some(more) = new.len().checked_sub(len) {
        if !packet.mbuf.grow(more) {
            return None;
        }
        packet.mbuf.head_mut().copy_within(end..used, end + more);
    } else {
        // What lies in front is shorter than what follows, and the frame's end stays where it is.
        let fewer = len - new.len();
        packet.mbuf.head_mut().copy_within(..at, fewer);
        packet.mbuf.trim_front(fewer);
    }
    packet.mbuf.head_mut().get_mut(at..at + new.len())?.copy_from_slice(new);
    Some(())
}

/// Writes the numbers that a packet has behind the switch.
fn renumber(datagram: &mut Datagram<'_>, segment: &tcp::Segment, control: &Control) {
    const ACK: u8 = 0x10;
    let ack = if segment.flags & ACK == 0 { 0 } else { control.ack };
    let (seq, ack) = (segment.seq.wrapping_add(control.seq), segment.ack.wrapping_add(ack));
    let mut change = Change::default();
    for (at, old, new) in [(4, segment.seq, seq), (8, segment.ack, ack)] {
        change.swap(&old.to_be_bytes(), &new.to_be_bytes());
        datagram.write(at, &new.to_be_bytes());
    }
    let partial = datagram.whole().is_some_and(|packet| packet.mbuf.csum() == Csum::Partial);
    if !partial {
        adjust(datagram, &change, false);
    }
}

/// Adjusts the checksum. `partial`: it is the sum over the pseudo-header.
fn adjust(datagram: &mut Datagram<'_>, change: &Change, partial: bool) {
    if let Some(old) = datagram.read(CHECKSUM).map(u16::from_be_bytes) {
        let new = if partial { change.apply_partial(old) } else { change.apply(old) };
        datagram.write(CHECKSUM, &new.to_be_bytes());
    }
}
