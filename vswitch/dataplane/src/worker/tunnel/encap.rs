//! Packets into tunnels and out of them. Depth first, like everything. Who the next hops are is in
//! `neighbour.rs`.
//!
//! Nothing here is on the way of a packet that meets no tunnel.

use crate::action::{DecapOp, EncapOp, Op, Packet, Touched};
use crate::cache::{Cache, Compact};
use crate::limits::{FRAME_MIN, HEAD_LEN, TUNNEL_DEPTH_MAX};
use crate::observe::{DropReason, Fallback, Remains, Software};
use crate::packet::checksum::{self, Sum};
use crate::packet::{TxCaps, offload};
use crate::pipeline::{Choice, PortFacts, Request, Start};
use crate::port::PortId;
use crate::worker::PortView;
use crate::worker::slow::execute::Origin;
use crate::worker::step::StepContext;
use crate::worker::tunnel::outside::{flow_hash, outer_words, tunnel_key};
use crate::worker::tunnel::path_mtu;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_dpdk::{Csum, Mbuf};
use vswitch_flow::FlowKey;
use vswitch_flow::action::PortNo;
use vswitch_flow::extract::Layers;
use vswitch_overlay::options::Values;
use vswitch_overlay::{Ends, Header, Outside, TunnelKind, source_port};

/// Headroom that is left in front of an outer header, in bytes: rules of the underlay may push
/// tags, for which the executor has no other room.
const TAGS_ROOM: usize = 2 * 4;

impl StepContext<'_> {
    /// Puts a packet into a tunnel. Returns the packet that the rest of the list is for; one that
    /// had to be cut into several is several, and all but the last are through the rest already.
    #[inline(never)]
    pub(in crate::worker) fn encapsulate(
        &mut self,
        mut cache: Option<&mut Cache>,
        op: &EncapOp,
        rest: &[Op],
        packet: Packet,
        origin: Origin<'_>,
    ) -> Option<Packet> {
        self.uses(op);
        if let Some(cache) = cache.as_deref_mut() {
            cache.recorder.wrap(&packet.mbuf);
        }
        let hash = flow_hash(packet.mbuf.head(), packet.layers);
        if op.max.is_none() && packet.mbuf.gso_size() == 0 && self.fits(op, rest, packet.mbuf.len()) {
            return self.finish_and_wrap(op, packet.mbuf, hash);
        }
        let mut pieces = self.pieces(op, rest, packet);
        let last = pieces.pop()?;
        for piece in pieces {
            if let Some(packet) = self.wrap(op, piece, hash) {
                self.execute(cache.as_deref_mut(), rest, packet, &mut { origin });
            }
        }
        self.wrap(op, last, hash)
    }

    /// What is to be sent of a packet that is too long or cut off: each piece on its own, with its
    /// checksum finished.
    #[inline(never)]
    pub(in crate::worker) fn pieces(&mut self, op: &EncapOp, rest: &[Op], packet: Packet) -> Vec<Mbuf> {
        let mut pieces = Vec::new();
        let mut whole = packet.mbuf;
        if let Some(max) = op.max.filter(|max| usize::from(*max) < whole.len()) {
            let finished = crate::worker::slow::execute::finished(whole);
            match finished.copy_front(max.into(), self.pool) {
                Some(cut) => pieces.push(cut),
                None => self.drop_out(op.port, DropReason::NoMbuf, finished),
            }
            return pieces;
        }
        // Nobody is told of copies that may be cut off.
        let room = if op.max.is_none() && self.minds_length(op) { self.room(op, rest) } else { path_mtu::ANY };
        path_mtu::shorten_segments(&mut whole, room);
        // The checksum outside is another one: that of the packet must be there, and a long packet
        // must be short ones.
        if let Err(reason) = offload::finish(whole, TxCaps::default(), self.pool, &mut |piece| pieces.push(piece)) {
            self.count_drop_out(op.port, reason, Remains::Nothing);
        }
        if pieces.iter().all(|piece| piece.len() <= room) {
            return pieces;
        }
        let mut fitting = Vec::new();
        for piece in pieces {
            self.make_fit(op, room, packet.layers.l3.into(), piece, &mut fitting);
        }
        fitting
    }

    /// What is left to be done for a packet of a path that ends in a tunnel.
    #[inline(never)] // most are encapsulated on the fast path, in a batch
    pub(in crate::worker) fn wrap_and_output(
        &mut self,
        op: &EncapOp,
        out: PortId,
        mbuf: Mbuf,
        layers: Layers,
        from: (PortId, PortNo),
    ) {
        let wrapped = if mbuf.len() <= self.quick_room(op, out) {
            let port = source_port(flow_hash(mbuf.head(), layers));
            encap_fast(op, mbuf, port)
        } else {
            Err(mbuf)
        };
        match wrapped {
            Ok(wrapped) => {
                self.uses(op);
                self.count_quick(op, out, 1, (wrapped.len() - op.header.len()) as u64);
                self.outputs.push_ready(self.snapshot, out, wrapped);
            }
            Err(mbuf) => self.wrap_slowly(op, out, Packet { mbuf, layers }, from),
        }
    }

    /// [`StepContext::wrap_and_output`] of what is not ordinary: it may be many packets, or its
    /// sender told.
    #[cold]
    pub(in crate::worker) fn wrap_slowly(
        &mut self,
        op: &EncapOp,
        out: PortId,
        packet: Packet,
        (port, in_port): (PortId, PortNo),
    ) {
        self.outputs.owner.leave();
        if let Some(wrapped) = self.encapsulate(None, op, &[Op::Output(out)], packet, Origin::of(port, in_port)) {
            self.output(out, port, wrapped.mbuf);
        }
    }

    /// Longest inner frame that [`encap_fast`] is for, in bytes; 0: none. So long a one can leave
    /// by `out` without a second look.
    #[inline]
    pub(in crate::worker) fn quick_room(&self, op: &EncapOp, out: PortId) -> usize {
        if op.max.is_some() || op.header.sequenced() {
            return 0;
        }
        // What the device finishes is left to it.
        let finishes = |view: &PortView| view.shared.device.tx_caps().csum;
        let is_udp = op.header.checksum().is_some_and(|at| at.no_zero);
        if is_udp && self.snapshot.port(out).is_none_or(finishes) {
            return 0;
        }
        let leaves = self.outputs.plain_max(out).saturating_sub(op.header.len());
        self.room_at(op, out).min(op.header.inner_max()).min(leaves)
    }

    /// Packets were encapsulated on the fast path to leave by `out`, with so many bytes inside:
    /// [`StepContext::count_wrapped`], and what was done in the device's place.
    #[inline]
    pub(in crate::worker) fn count_quick(&self, op: &EncapOp, out: PortId, packets: u64, bytes: u64) {
        self.count_wrapped(op.port, packets, bytes);
        if op.header.checksum().is_some_and(|at| at.no_zero)
            && let Some(view) = self.snapshot.port(out)
        {
            view.shared.counters[self.worker].software[Software::Checksum.index()].add(packets);
        }
    }

    /// Packets of so many bytes inside leave by a tunnel port.
    #[inline]
    pub(in crate::worker) fn count_wrapped(&self, port: PortId, packets: u64, bytes: u64) {
        if let Some(view) = self.snapshot.port(port) {
            let counters = &view.shared.counters[self.worker];
            counters.tx_packets.add(packets);
            counters.tx_bytes.add(bytes);
        }
    }

    /// The next hop is used: before what is known of it is old, it is asked again. Returns whether
    /// it was.
    #[inline]
    pub(in crate::worker) fn uses(&mut self, op: &EncapOp) -> bool {
        let ask = !self.asking && op.neighbour.used(self.now.0);
        if ask {
            self.send_question(&op.question);
        }
        ask
    }

    /// [`StepContext::wrap`], of a packet that is one packet outside, too: its own checksum must be
    /// there.
    #[inline]
    fn finish_and_wrap(&mut self, op: &EncapOp, mut mbuf: Mbuf, hash: u32) -> Option<Packet> {
        if mbuf.csum() == Csum::Partial
            && let Err(reason) = offload::finish_checksum(&mut mbuf)
        {
            self.drop_out(op.port, reason, mbuf);
            return None;
        }
        self.wrap(op, mbuf, hash)
    }

    /// Puts the header in front, and counts the packet at the tunnel port.
    pub(in crate::worker) fn wrap(&mut self, op: &EncapOp, mbuf: Mbuf, hash: u32) -> Option<Packet> {
        let inner = mbuf.len();
        let sequence = if op.header.sequenced() { self.sequence(op.port) } else { 0 };
        let wrapped = if inner > op.header.inner_max() {
            Err((DropReason::Oversize, mbuf))
        } else {
            self.in_front(op.header.len(), mbuf, |front| op.header.write(front, inner, hash, sequence))
        };
        let mut mbuf = match wrapped {
            Ok(mbuf) => mbuf,
            Err((reason, mbuf)) => {
                self.drop_out(op.port, reason, mbuf);
                return None;
            }
        };
        mbuf.set_gso_size(0);
        mbuf.set_csum(Csum::Unknown);
        match op.header.checksum() {
            // Whoever puts it on a wire finishes it, as with any UDP packet.
            Some(at) if at.no_zero => mbuf.set_csum(Csum::Partial),
            Some(at) => {
                let end = mbuf.len();
                let _ = checksum::finish(&mut mbuf, at.start, at.field, end, false);
            }
            None => {}
        }
        self.count_wrapped(op.port, 1, inner as u64);
        let l4 = 14 + if matches!(op.header.ends(), Ends::V4 { .. }) { 20 } else { 40 };
        let end = u16::try_from(mbuf.len()).unwrap_or(u16::MAX - 1);
        Some(Packet { mbuf, layers: Layers { l3: 14, l4, l3_end: end } })
    }

    /// Next sequence number of a GRE tunnel, of all workers together: the other end may drop what
    /// is behind.
    fn sequence(&self, port: PortId) -> u32 {
        self.snapshot.port(port).map_or(0, |view| view.shared.sequence.fetch_add(1, Relaxed))
    }

    /// Room for `len` bytes in front of a packet, in its headroom or in a segment of its own, and
    /// what `write` puts there.
    fn in_front(
        &self,
        len: usize,
        mut mbuf: Mbuf,
        write: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<Mbuf, (DropReason, Mbuf)> {
        if mbuf.prepend(len + TAGS_ROOM).is_some() && mbuf.trim_front(TAGS_ROOM) {
            return if write(&mut mbuf.head_mut()[..len]) { Ok(mbuf) } else { Err((DropReason::Oversize, mbuf)) };
        }
        let Some(mut front) = self.pool.alloc() else { return Err((DropReason::NoMbuf, mbuf)) };
        if !front.grow(len) || !write(front.head_mut()) {
            return Err((DropReason::Headroom, mbuf));
        }
        front.take_tag(&mbuf);
        front.chain(mbuf);
        Ok(front)
    }

    /// Takes a packet out of its tunnel, if it is one of a tunnel of ours, and through the tunnel
    /// port's bridge.
    #[inline(never)]
    pub(in crate::worker) fn decapsulate(
        &mut self,
        mut cache: Option<&mut Cache>,
        op: DecapOp,
        packet: Packet,
        origin: Origin<'_>,
    ) {
        if let Some(cache) = cache.as_deref_mut() {
            cache.recorder.fail(Fallback::Tunnel);
        }
        // Behind a patch port, a `ct()` forgot by which port the packet came in; its origin says
        // it.
        let entrance = self.snapshot.world.ports.get(origin.port.index()).and_then(Option::as_ref);
        if entrance.is_some_and(|facts| !facts.underlay) {
            return self.drop_in(origin.port, DropReason::SpoofVtep, packet.mbuf);
        }
        if self.tunnels_left >= TUNNEL_DEPTH_MAX {
            return self.drop_in(op.vtep, DropReason::TunnelDepth, packet.mbuf);
        }
        if packet.mbuf.gso_size() == 0 {
            return self.unwrap_one(cache, op, packet.mbuf, origin);
        }
        // A train of UDP datagrams: each is a packet of its own.
        let mut pieces = Vec::new();
        if let Err(reason) = offload::finish(packet.mbuf, TxCaps::default(), self.pool, &mut |one| pieces.push(one)) {
            self.count_drop_in(op.vtep, reason, Remains::Nothing);
        }
        for piece in pieces {
            self.unwrap_one(cache.as_deref_mut(), op, piece, origin);
        }
    }

    /// The same with a copy.
    #[cold]
    #[inline(never)]
    pub(in crate::worker) fn decapsulate_copy(
        &mut self,
        cache: Option<&mut Cache>,
        op: DecapOp,
        packet: &Packet,
        origin: Origin<'_>,
    ) {
        match self.copy_within_budget(&packet.mbuf) {
            Ok(mbuf) => self.decapsulate(cache, op, Packet { mbuf, layers: packet.layers }, origin),
            Err(reason) => self.count_drop_in(op.vtep, reason, Remains::Packet(&packet.mbuf)),
        }
    }

    fn unwrap_one(&mut self, mut cache: Option<&mut Cache>, op: DecapOp, mbuf: Mbuf, origin: Origin<'_>) {
        let mut mbuf = match self.in_one_piece(mbuf) {
            Some(mbuf) => mbuf,
            None => return self.count_drop_in(op.vtep, DropReason::NoMbuf, Remains::Nothing),
        };
        if let Some(max) = op.max.filter(|max| usize::from(*max) < mbuf.len()) {
            match mbuf.copy_front(max.into(), self.pool) {
                Some(front) => mbuf = front,
                None => return self.drop_in(op.vtep, DropReason::NoMbuf, mbuf),
            }
        }
        let (outside, dst_port) = match read_outside(op.kind, &mbuf) {
            Ok(read) => read,
            Err(reason) => return self.drop_in(op.vtep, reason, mbuf),
        };
        let (outer, world) = (outer_words(op, dst_port, &outside), self.snapshot.world.number);
        let known = match (cache.as_deref_mut(), &outer) {
            (Some(cache), Some(outer)) => cache.known_tunnel(outer, world, source_of(&mbuf), self.now),
            _ => None,
        };
        let (id, values) = match known.map(|(tunnel, _)| (tunnel.port, Values::default())) {
            Some(known) => known,
            None => match self.port_of(&mbuf, &outside, dst_port) {
                Ok(found) => found,
                Err((port, reason)) => return self.drop_in(port.unwrap_or(op.vtep), reason, mbuf),
            },
        };
        // As which tunnel, if it is one that is kept.
        let kept = known.map(|(tunnel, _)| tunnel).or_else(|| {
            let (cache, outer) = cache.as_deref_mut().zip(outer)?;
            cache.note_tunnel(&outer, world, id, self.now)
        });
        let facts = self.snapshot.world.ports.get(id.index()).and_then(Option::as_ref);
        let (Some(facts), Some(view)) = (facts, self.snapshot.port(id)) else {
            return self.drop_in(op.vtep, DropReason::PortGone, mbuf);
        };
        let counters = &view.shared.counters[self.worker];
        counters.rx_packets.add(1);
        counters.rx_bytes.add((outside.payload_end - outside.header_len) as u64);
        if !view.admin_up {
            return self.drop_in(id, DropReason::AdminDown, mbuf);
        }
        if known.is_none_or(|(_, news)| news) {
            self.hear_of_sender(op.vtep, &mbuf, &outside);
        }
        if outside.payload_end < mbuf.len() {
            match mbuf.copy_front(outside.payload_end, self.pool) {
                Some(front) => mbuf = front,
                None => return self.drop_in(id, DropReason::NoMbuf, mbuf),
            }
        }
        if !mbuf.trim_front(outside.header_len) || mbuf.len() < FRAME_MIN {
            return self.drop_in(id, DropReason::TunnelHeader, mbuf);
        }
        // Nothing that was said of the outside is true of the inside.
        mbuf.set_csum(Csum::Unknown);
        mbuf.set_gso_size(0);
        if self.snapshot.world.bridges.get(facts.bridge).is_some_and(|bridge| bridge.strict)
            && let Some(reason) = crate::packet::strict::check(&mbuf)
        {
            return self.drop_in(id, reason, mbuf);
        }
        self.tunnels_left += 1;
        match cache {
            None => {
                let key = tunnel_key(facts, &outside, &values);
                self.once(None, facts.bridge, id, key, Start::Table, mbuf);
            }
            Some(cache) => {
                cache.sync(&self.snapshot.world.changes);
                let inside = kept.map(|tunnel| cache.key_inside(&mbuf, tunnel));
                match inside {
                    Some(inside) => {
                        self.enter_known(cache, (id, facts), mbuf, &inside, (&outside, &values), origin.depth);
                    }
                    None => self.enter_tunnel(
                        cache,
                        (id, facts),
                        mbuf,
                        tunnel_key(facts, &outside, &values),
                        origin.depth,
                        None,
                    ),
                }
            }
        }
        self.tunnels_left -= 1;
    }

    /// The packet that was in a tunnel enters the bridge of its port, by what was kept of packets
    /// like it if there is anything.
    fn enter_known(
        &mut self,
        cache: &mut Cache,
        (id, facts): (PortId, &PortFacts),
        mut mbuf: Mbuf,
        inside: &Compact,
        (outside, values): (&Outside, &Values),
        depth: u32,
    ) {
        if let Some(program) = cache.program(inside) {
            match self.replay(cache, program, mbuf, inside, (id, facts.number)) {
                Ok(()) => return cache.stats().program_hits.add(1),
                Err((same, why)) => {
                    mbuf = same;
                    cache.count_fallback(why);
                }
            }
        }
        let key = tunnel_key(facts, outside, values);
        let Some(megaflow) = cache.second_look(inside, &self.snapshot.world, self.now) else {
            return self.enter_tunnel(cache, (id, facts), mbuf, key, depth, Some(inside));
        };
        cache.stats().exact_hits.add(1);
        self.count(cache, &megaflow, mbuf.len() as u64);
        let packet = Packet { mbuf, layers: inside.layers() };
        let mut origin = Origin { metadata: Some(&key), depth, ..Origin::of(id, facts.number) };
        self.set_out(cache, &megaflow, packet, &mut origin, Some(inside));
    }

    /// The packet that was in a tunnel enters the bridge of its port.
    fn enter_tunnel(
        &mut self,
        cache: &mut Cache,
        (id, facts): (PortId, &PortFacts),
        mbuf: Mbuf,
        mut key: FlowKey,
        depth: u32,
        inside: Option<&Compact>,
    ) {
        let Some(packet) = self.parse(mbuf, &mut key) else {
            return self.count_drop_in(id, DropReason::NoMbuf, Remains::Nothing);
        };
        let mut origin =
            Origin { metadata: Some(&key), touched: Touched::Nothing, depth, ..Origin::of(id, facts.number) };
        let learns = Some(&self.budget.learns);
        let (bridge, now) = (facts.bridge, self.now);
        let request =
            Request { bridge, key: &key, start: Start::Table, now, side_effects: true, learns, choice: Choice::ByHash };
        self.decide(cache, &request, packet, &mut origin, inside);
    }

    /// Headers that lie in several segments are copied into one.
    fn in_one_piece(&self, mbuf: Mbuf) -> Option<Mbuf> {
        if mbuf.nb_segs() > 1 && mbuf.head().len() < mbuf.len().min(HEAD_LEN.max(vswitch_overlay::HEADER_MAX + 8)) {
            mbuf.copy(self.pool)
        } else {
            Some(mbuf)
        }
    }

    /// The tunnel port that outer headers are for, and what their options say; or where and why the
    /// packet is lost.
    fn port_of(
        &self,
        mbuf: &Mbuf,
        outside: &Outside,
        dst_port: u16,
    ) -> Result<(PortId, Values), (Option<PortId>, DropReason)> {
        let world = &self.snapshot.world;
        let id = world.tunnels.find(outside, dst_port).ok_or((None, DropReason::TunnelNoPort))?;
        let facts = world.ports.get(id.index()).and_then(Option::as_ref).ok_or((None, DropReason::PortGone))?;
        if outside.gbp.is_some() && !facts.tunnel.as_ref().is_some_and(|tunnel| tunnel.gbp) {
            return Err((Some(id), DropReason::TunnelHeader));
        }
        let options = mbuf.head().get(outside.options.clone()).ok_or((None, DropReason::TunnelHeader))?;
        let map = &world.bridges[facts.bridge].options;
        let values = map.decode(options).map_err(|_| (Some(id), DropReason::TunnelOption))?;
        Ok((id, values))
    }
}

/// What the outer headers say, and the UDP port that they are for (0: GRE).
pub(in crate::worker) fn read_outside(kind: TunnelKind, mbuf: &Mbuf) -> Result<(Outside, u16), DropReason> {
    let malformed = || DropReason::TunnelHeader;
    let head = mbuf.head();
    // Tagged packets are none of a tunnel (`tunnel_to` in translation).
    let outside = vswitch_overlay::read(kind, head, mbuf.len(), 14).map_err(|_| malformed())?;
    // The header is of the family that the Ethernet type says; behind extension headers of IPv6
    // there is no tunnel, as in Open vSwitch.
    let is_family = match outside.ends {
        Ends::V4 { .. } => head[12..14] == [8, 0],
        Ends::V6 { .. } => head[12..14] == [0x86, 0xdd] && matches!(head.get(20), Some(17 | 47)),
    };
    if !is_family {
        return Err(malformed());
    }
    if outside.payload_end > mbuf.len() || outside.header_len + FRAME_MIN > outside.payload_end {
        return Err(malformed());
    }
    if !checksum_is_right(mbuf, &outside) {
        return Err(DropReason::TunnelCsum);
    }
    let dst_port = match kind {
        TunnelKind::Gre => 0,
        TunnelKind::Geneve | TunnelKind::Vxlan => udp_destination(head, &outside).ok_or_else(malformed)?,
    };
    Ok((outside, dst_port))
}

/// Source address of a frame.
pub(in crate::worker) fn source_of(mbuf: &Mbuf) -> [u8; 6] {
    mbuf.head().get(6..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
}

/// Whether the checksum over the outer payload is right, or there is none. What a device says of it
/// counts only if it is good.
fn checksum_is_right(mbuf: &Mbuf, outside: &Outside) -> bool {
    let Some(wire) = outside.checksum else { return true };
    match mbuf.csum() {
        // A partial one has not been on a wire: there is nothing to be wrong with it.
        Csum::Good | Csum::Partial if outside.kind != TunnelKind::Gre => return true,
        _ => {}
    }
    let (start, end) = (wire.start, wire.end);
    let Some(sum) = Sum::of_mbuf(mbuf, start, end) else { return false };
    Sum::new().word(wire.sum).word(sum.folded()).folded() == 0xffff
}

/// Puts the header in front of a packet that is ordinary, and has room for it; gives back one that
/// is not. `port`: the outer source port. It is ordinary afterwards, too.
#[inline(never)] // registers of its own
pub(in crate::worker) fn encap_fast(op: &EncapOp, mut mbuf: Mbuf, port: u16) -> Result<Mbuf, Mbuf> {
    if !mbuf.is_plain() {
        return Err(mbuf);
    }
    let inner = mbuf.len();
    let Some(front) = mbuf.prepend(op.header.len()) else { return Err(mbuf) };
    if op.header.is_plain() {
        op.header.write_plain(front, inner, port);
    } else {
        write_other(&op.header, &mut mbuf, inner, port);
    }
    mbuf.set_csum(Csum::Unknown);
    Ok(mbuf)
}

/// A header that is not what most are, and its checksum over a packet in front of which there is
/// room for it now.
#[inline(never)]
fn write_other(header: &Header, mbuf: &mut Mbuf, inner: usize, port: u16) {
    let written = mbuf.head_mut().get_mut(..header.len()).is_some_and(|front| header.write_with(front, inner, port, 0));
    debug_assert!(written, "{inner} bytes behind {}", header.len());
    if let Some(at) = header.checksum() {
        let end = mbuf.len();
        let _ = checksum::finish(mbuf, at.start, at.field, end, at.no_zero);
    }
}

/// UDP destination port of a packet whose headers were read.
fn udp_destination(head: &[u8], outside: &Outside) -> Option<u16> {
    // Behind the UDP header come 8 bytes of Geneve or VXLAN, and options.
    let at = outside.header_len.checked_sub(16 + outside.options.len())?;
    let port = head.get(at + 2..at + 4)?;
    Some(u16::from_be_bytes([port[0], port[1]]))
}
