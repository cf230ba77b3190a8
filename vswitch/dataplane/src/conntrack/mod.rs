//! `ct()`: from packets to connections and back.
//!
//! **Where in the walk**: [`crate::action::Op::Ct`]. A packet comes in, is held if it is a fragment
//! (`fragment`, `waiting`), read and verified (`plain`, nearly always, else `read`; of an error
//! also what it quotes, `quote`), tracked ([`vswitch_conntrack::Tracker`]), and rewritten as the
//! connection says (`rewrite`). Payloads are read of FTP's control connections only (`alg`).
//!
//! **Semantics**: Open vSwitch 3.1's userspace datapath: a wrong checksum or length is `+inv`,
//! never a drop. Chosen otherwise: fragments of any length are held, per in_port and tunnel too;
//! they match the first one's ports behind `ct()`; what is refused is dropped by name.
//!
//! **Design**: reading and rewriting know only datagrams (`datagram`): a packet, or all fragments
//! of one, so that both are done by the same code. A checksum is summed once: that it is right is
//! remembered in the mbuf; rewriting adjusts it by the difference.
//!
//! **Limits**: of fragments, see `waiting`. Nothing else is kept here.
//!
//! **Threads**: one [`Conntrack`] for all workers, `&self`. Fragments are behind a short lock,
//! whole packets are not.

mod alg;
mod change;
mod datagram;
mod fragment;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod plain;
mod ports;
mod quote;
mod read;
mod rewrite;
#[cfg(test)]
mod tests;
mod waiting;

pub use plain::{Plain, seen as plainly_seen};

use datagram::Datagram;
use fragment::{Fragment, FragmentKind};
use read::Message;
use waiting::{Arrival, Waiting};

use crate::action::Packet;
use crate::observe::DropReason;
use crate::port::PortId;
use crate::time::Millis;
use std::borrow::Cow;
use std::sync::atomic::AtomicU64;
use vswitch_conntrack::{Config, Ingress, Link, Memory, Refusal, Request, Rewrite, Seen, TrackVerdict, Tracker};
use vswitch_dpdk::{Mbuf, huge_slice, zeros};

/// The switch's connections and waiting fragments.
#[derive(Debug)]
pub struct Conntrack {
    tracker: Tracker,
    waiting: Waiting,
}

/// Where a packet meets `ct()`.
#[derive(Clone, Copy, Debug)]
pub struct CtPlace {
    /// Whose counters count.
    pub worker: usize,
    /// Now.
    pub now: Millis,
    /// Port that the packet came in by: fragments of different ports are never joined, and what the
    /// packet opens counts for it.
    pub port: PortId,
    /// Digest of the tunnel metadata that the packet came with, likewise; 0: none.
    pub tunnel: u64,
    /// `ct_state` that an earlier `ct()` of the same zone gave the packet; 0: none.
    pub before: u32,
    /// That `ct()` had no `nat`, and knew its connection.
    pub cached: bool,
    /// It knew none, and remembered none.
    pub unknown: bool,
}

impl CtPlace {
    /// What is asked of a packet here: the request, with what an earlier `ct()` said if there was
    /// one.
    #[inline]
    fn ask<'a>(&self, request: &'a Request) -> Cow<'a, Request> {
        asked(request, self.before, self.cached, self.unknown)
    }

    /// How a control connection's packet goes on from here.
    fn way(&self, request: &Request) -> alg::Way {
        way(request, self.before, self.now)
    }
}

const fn way(request: &Request, before: u32, now: Millis) -> alg::Way {
    alg::Way { nat: request.nat.is_some(), before, now: now.0 }
}

/// What is asked of a packet that comes with a `ct_state` of an earlier `ct()` of the same zone (0:
/// none); see [`CtPlace`].
#[inline]
#[must_use]
pub fn asked(request: &Request, before: u32, cached: bool, unknown: bool) -> Cow<'_, Request> {
    match before {
        0 => Cow::Borrowed(request),
        _ => Cow::Owned(Request { before, cached, unknown, ..request.clone() }),
    }
}

/// What becomes of a packet at `ct()`.
#[derive(Debug)]
pub enum Outcome {
    /// It goes on, rewritten.
    Tracked(Packet, TrackVerdict),
    /// It is a fragment and waits for the others.
    Held,
    /// It was the last missing fragment: all of them go on, in order of their offsets, rewritten.
    Complete(Fragments),
    /// It dies.
    Drop(Mbuf, DropReason),
}

/// All fragments of a datagram.
#[derive(Debug)]
pub struct Fragments {
    /// In order of their offsets.
    pub packets: Vec<Packet>,
    /// One for all.
    pub verdict: TrackVerdict,
    /// What the first one shows, as it is now: all are to match it.
    pub first: First,
}

/// What a datagram shows if it is no fragment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct First {
    /// Protocol.
    pub protocol: Option<u8>,
    /// Ports (of ICMP type and code).
    pub ports: (u16, u16),
    /// TCP flags.
    pub tcp_flags: u16,
}

/// Memory in huge pages, where there are some.
struct Huge;

impl Memory for Huge {
    fn slice<T>(n: usize, value: impl FnMut() -> T) -> Box<[T]> {
        huge_slice(n, value)
    }

    fn zeros(n: usize) -> Box<[AtomicU64]> {
        zeros(n)
    }
}

impl Conntrack {
    /// Takes the memory for so many connections.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { tracker: Tracker::in_memory::<Huge>(config), waiting: Waiting::default() }
    }

    /// The connections.
    #[must_use]
    pub fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// A packet meets `ct()`. Beside what becomes of it: how the next packet like it may be judged
    /// without looking for its connection, if it was one packet alone.
    #[must_use]
    pub fn track(&self, packet: Packet, request: &Request, place: CtPlace) -> (Outcome, Option<Link>) {
        let way = place.way(request);
        let mut link = None;
        let outcome = self.pass_and(
            packet,
            request.zone,
            place,
            |message| {
                let (verdict, found) = self.judge(message, request, place);
                link = found;
                verdict
            },
            |datagram, seen, verdict| alg::follow(&self.tracker, datagram, seen, verdict, way),
        );
        (outcome, link)
    }

    /// [`Self::track`], of a packet of which `seen` is what [`plainly_seen`] says, and which is
    /// [`asked`] this by a worker, now. The verdict is written where there is room for it.
    ///
    /// # Errors
    /// Why the packet is to be dropped.
    pub fn track_seen(
        &self,
        seen: &Seen,
        packet: &mut Packet,
        request: &Request,
        (worker, now): (usize, Millis),
        verdict: &mut TrackVerdict,
    ) -> Result<Option<Link>, DropReason> {
        let link = self.tracker.track_into(seen, request, worker, now.0, verdict);
        if let Some(refusal) = verdict.refusal {
            return Err(reason(refusal));
        }
        if verdict.rewrite != Rewrite::default() || verdict.controls {
            // It may be what a `ct()` of another zone has read.
            self.change(packet, seen.in_zone(request.zone), verdict, way(request, request.before, now));
        }
        Ok(link)
    }

    /// Does what a verdict says to a packet.
    #[inline(never)]
    fn change(&self, packet: &mut Packet, seen: Seen, verdict: &mut TrackVerdict, way: alg::Way) {
        let mut datagram = Datagram { packets: std::slice::from_mut(packet) };
        rewrite::rewrite(&mut datagram, &Message::Seen(seen), &verdict.rewrite);
        if verdict.controls {
            alg::follow(&self.tracker, &mut datagram, &seen, verdict, way);
        }
    }

    fn judge(&self, message: &Message, request: &Request, place: CtPlace) -> (TrackVerdict, Option<Link>) {
        let request = &place.ask(request);
        match message {
            Message::Seen(seen) => {
                let seen = Seen { port: Ingress::port(place.port.0), ..*seen };
                self.tracker.track_linked(&seen, request, place.worker, place.now.0)
            }
            Message::Related(related, _) => {
                (self.tracker.track_related(related, request, place.worker, place.now.0), None)
            }
        }
    }

    /// [`Self::track`], whatever judges what was read.
    #[cfg(any(test, fuzzing))]
    fn pass(&self, packet: Packet, zone: u16, place: CtPlace, judge: impl FnOnce(&Message) -> TrackVerdict) -> Outcome {
        self.pass_and(packet, zone, place, judge, |_, _, _| ())
    }

    /// Likewise, and whatever follows a control connection.
    fn pass_and(
        &self,
        mut packet: Packet,
        zone: u16,
        place: CtPlace,
        judge: impl FnOnce(&Message) -> TrackVerdict,
        follow: impl FnOnce(&mut Datagram<'_>, &Seen, &mut TrackVerdict),
    ) -> Outcome {
        match fragment::kind_of(&packet, zone, place) {
            FragmentKind::Whole => {
                match pass(&mut Datagram { packets: std::slice::from_mut(&mut packet) }, zone, judge, follow) {
                    Ok(verdict) => Outcome::Tracked(packet, verdict),
                    Err(reason) => Outcome::Drop(packet.mbuf, reason),
                }
            }
            FragmentKind::Damaged => Outcome::Tracked(packet, TrackVerdict::INVALID),
            FragmentKind::Impossible => Outcome::Drop(packet.mbuf, DropReason::FragInvalid),
            FragmentKind::Fragment(fragment) => self.pass_fragment(packet, &fragment, place, judge, follow),
        }
    }

    #[cold]
    fn pass_fragment(
        &self,
        packet: Packet,
        fragment: &Fragment,
        place: CtPlace,
        judge: impl FnOnce(&Message) -> TrackVerdict,
        follow: impl FnOnce(&mut Datagram<'_>, &Seen, &mut TrackVerdict),
    ) -> Outcome {
        let mut packets = match self.waiting.add(packet, fragment, place.now) {
            Arrival::Held => return Outcome::Held,
            Arrival::Refused(mbuf, reason) => return Outcome::Drop(mbuf, reason),
            Arrival::Complete(packets) => packets,
        };
        let mut datagram = Datagram { packets: &mut packets };
        match pass(&mut datagram, fragment.key.zone, judge, follow) {
            Ok(verdict) => {
                let first = ports::first(&datagram);
                Outcome::Complete(Fragments { packets, verdict, first })
            }
            Err(reason) => {
                // One is dropped here, by whoever asked; the others by `maintain`.
                let last = packets.pop();
                self.waiting.give_up(packets.into_iter(), place.port, reason);
                last.map_or(Outcome::Held, |last| Outcome::Drop(last.mbuf, reason))
            }
        }
    }

    /// Datagrams of which fragments wait for others, and mbufs that wait.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        self.waiting.counts()
    }

    /// Gives up fragments whose others did not come. A worker, every millisecond; it does nothing
    /// most of the time.
    pub fn maintain(&self, now: Millis, mut drop: impl FnMut(PortId, Mbuf, DropReason)) {
        self.waiting.maintain(now, &mut drop);
    }
}

/// Reads, judges and rewrites a packet or a datagram.
fn pass(
    datagram: &mut Datagram<'_>,
    zone: u16,
    judge: impl FnOnce(&Message) -> TrackVerdict,
    follow: impl FnOnce(&mut Datagram<'_>, &Seen, &mut TrackVerdict),
) -> Result<TrackVerdict, DropReason> {
    let Some(message) = read::read(datagram, zone) else { return Ok(TrackVerdict::INVALID) };
    let mut verdict = judge(&message);
    if let Some(refusal) = verdict.refusal {
        return Err(reason(refusal));
    }
    rewrite::rewrite(datagram, &message, &verdict.rewrite);
    if verdict.controls
        && let Message::Seen(seen) = &message
    {
        follow(datagram, seen, &mut verdict);
    }
    Ok(verdict)
}

/// Writes into a packet, which [`Plain::read`] has read, what a verdict says.
pub fn translate(packet: &mut Packet, plain: Plain, rewrite: &Rewrite) {
    let seen = plain.seen(packet);
    rewrite::rewrite(&mut Datagram { packets: std::slice::from_mut(packet) }, &Message::Seen(seen), rewrite);
}

const fn reason(refusal: Refusal) -> DropReason {
    match refusal {
        Refusal::Full => DropReason::CtFull,
        Refusal::PortFull => DropReason::CtPortFull,
        Refusal::ZoneLimit => DropReason::CtZoneLimit,
        Refusal::NatExhausted => DropReason::NatExhausted,
        Refusal::TupleTaken => DropReason::CtTupleTaken,
    }
}
