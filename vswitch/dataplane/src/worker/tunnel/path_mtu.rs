//! Packets that are too long for the way that their tunnel takes: cut where that may be, else their
//! sender is told (RFC 1191, RFC 8201).
//!
//! What may be sent is the MTU of the port that the outer packet leaves by, where that is known
//! when the packet is put into its tunnel: not behind a `ct()` of the underlay. The message to the
//! sender comes out of the tunnel like a packet of the other end, and takes the way of one through
//! the pipeline: `ct(nat)` translates it back, rules let it pass or not. But nothing is learned
//! from it: its source may be anywhere.

use crate::action::{EncapOp, Op};
use crate::limits::{L2_OVERHEAD, SEGMENT_MIN};
use crate::observe::{DropReason, Remains};
use crate::packet::{Headers, L4, fragment, offload, too_big};
use crate::pipeline::Start;
use crate::port::PortId;
use crate::worker::PortView;
use crate::worker::step::StepContext;
use vswitch_dpdk::{Csum, Mbuf};
use vswitch_flow::{Field, FlowKey};
use vswitch_overlay::Ends;

/// Longest inner frame that is not looked at: in the longest header there is, it is a packet that
/// every port can send.
const ALWAYS_FITS: usize = 900;

/// No limit.
pub(in crate::worker) const ANY: usize = usize::MAX;

/// Longest inner frame that a port can carry.
fn room_of(view: &PortView, op: &EncapOp) -> usize {
    let mtu = view.frame_max - L2_OVERHEAD.min(view.frame_max);
    (mtu + 14).saturating_sub(op.header.len())
}

impl StepContext<'_> {
    /// Whether an inner frame of `len` bytes can be sent as it is.
    #[inline]
    pub(in crate::worker) fn fits(&self, op: &EncapOp, rest: &[Op], len: usize) -> bool {
        len <= ALWAYS_FITS || len <= self.room(op, rest)
    }

    /// [`Self::room`] if all that follows is to leave by a port, but at least what is not looked
    /// at: what longer frames do then is for [`Self::fits`] to say.
    #[inline]
    pub(in crate::worker) fn room_at(&self, op: &EncapOp, out: PortId) -> usize {
        self.snapshot.port(out).map_or(ALWAYS_FITS, |view| room_of(view, op).max(ALWAYS_FITS))
    }

    /// Longest inner frame that can be sent, in bytes: what the port that the outer packet leaves
    /// by can carry, of several the most.
    pub(in crate::worker) fn room(&self, op: &EncapOp, rest: &[Op]) -> usize {
        let outputs = rest.iter().filter_map(|op| match op {
            Op::Output(port) => self.snapshot.port(*port),
            _ => None,
        });
        outputs.map(|view| room_of(view, op)).max().unwrap_or(ANY)
    }

    /// Whether the tunnel port looks after its packets' lengths (`pmtud`).
    pub(in crate::worker) fn minds_length(&self, op: &EncapOp) -> bool {
        let facts = self.snapshot.world.ports.get(op.port.index()).and_then(Option::as_ref);
        facts.and_then(|facts| facts.tunnel.as_ref()).is_some_and(|tunnel| tunnel.pmtud)
    }

    /// Hands on what can be sent of a frame in place of it. `l3`: where its network header is.
    #[cold]
    pub(in crate::worker) fn make_fit(
        &mut self,
        op: &EncapOp,
        room: usize,
        l3: usize,
        mut mbuf: Mbuf,
        out: &mut Vec<Mbuf>,
    ) {
        if mbuf.len() <= room {
            return out.push(mbuf);
        }
        let mtu = room.saturating_sub(l3);
        if mbuf.head().get(l3..).is_some_and(too_big::may_fragment) && is_ipv4(&mbuf, l3) {
            let finished = offload::finish_checksum(&mut mbuf);
            let cut = finished.and_then(|()| fragment(&mbuf, l3, mtu, self.pool, &mut |piece| out.push(piece)));
            return match cut {
                Ok(()) => self.outputs.free(mbuf),
                Err(reason) => self.drop_out(op.port, reason, mbuf),
            };
        }
        self.tell(op, l3, mtu, &mbuf);
        self.drop_out(op.port, DropReason::PathMtu, mbuf);
    }

    /// Tells the sender of a frame, if it may be told and was not just now.
    fn tell(&mut self, op: &EncapOp, l3: usize, mtu: usize, mbuf: &Mbuf) {
        let facts = self.snapshot.world.ports.get(op.port.index()).and_then(Option::as_ref);
        // Once, into however many tunnels it goes, or as however many datagrams.
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        let Some(facts) = facts.filter(|_| self.budget.too_bigs.take(self.now)) else { return };
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        let mtu = if is_ipv4(mbuf, l3) { mtu } else { mtu.max(too_big::IPV6_MTU) };
        let mut front = [0; too_big::QUOTED_MAX];
        let front = &mut front[..mbuf.len().min(too_big::QUOTED_MAX)];
        let message = mbuf.read(0, front).then(|| too_big::too_big(front, mbuf.len(), mtu)).flatten();
        let Some(message) = message else { return };
        let Some(mbuf) = self.pool.mbuf_from(&message) else {
            return self.count_drop_in(op.port, DropReason::NoMbuf, Remains::Bytes(&message));
        };
        // As if the other end of the tunnel had sent it.
        let mut key = FlowKey::default();
        key.set(Field::InPort, facts.number.into());
        key.set(Field::TunId, op.header.id().into());
        match op.header.ends() {
            Ends::V4 { src, dst } => {
                key.set(Field::TunSrc, dst.to_bits().into());
                key.set(Field::TunDst, src.to_bits().into());
            }
            Ends::V6 { src, dst } => {
                key.set(Field::TunIpv6Src, dst.to_bits());
                key.set(Field::TunIpv6Dst, src.to_bits());
            }
        }
        self.telling = true;
        self.once(None, facts.bridge, op.port, key, Start::Table, mbuf);
        self.telling = false;
    }
}

/// Makes the segments of a TCP packet for segmentation short enough: they are cut here anyway, and
/// what the receiver gets is the same.
pub(in crate::worker) fn shorten_segments(mbuf: &mut Mbuf, room: usize) {
    let size = usize::from(mbuf.gso_size());
    if size == 0 || mbuf.csum() != Csum::Partial {
        return;
    }
    let Some(headers) = Headers::of(mbuf).filter(|headers| headers.l4 == Some(L4::Tcp)) else { return };
    let fits = room.saturating_sub(headers.payload_start());
    if let Ok(shorter) = u16::try_from(fits)
        && fits < size
        && fits >= SEGMENT_MIN
    {
        mbuf.set_gso_size(shorter);
    }
}

/// The Ethernet type in front of the network header is that of IPv4.
fn is_ipv4(mbuf: &Mbuf, l3: usize) -> bool {
    l3 >= 14 && mbuf.head().get(l3 - 2..l3) == Some(&[8, 0])
}
