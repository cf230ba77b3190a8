//! What a packet does: it belongs to a connection, or opens one, or neither.

use super::life::Life;
use super::who::Who;
use super::{Count, EventKind, Found, Handle, Link, Locked, Tracker, Words};
use crate::tcp::{Outcome, State, Tcp};
use crate::{Class, Direction, Helper, L4, NatSide, Refusal, Request, Seen, TrackVerdict, Tuple, state};

/// How often a packet may find that another worker has just opened or ended its connection, before
/// it is given up.
const RACES: usize = 8;

impl Tracker {
    /// A packet meets `ct()`. `worker` names the calling thread's counters.
    pub fn track(&self, seen: &Seen, request: &Request, worker: usize, now: u64) -> TrackVerdict {
        self.track_linked(seen, request, worker, now).0
    }

    /// [`Self::track`], and how the next packet like this one may be judged without looking for its
    /// connection.
    pub fn track_linked(
        &self,
        seen: &Seen,
        request: &Request,
        worker: usize,
        now: u64,
    ) -> (TrackVerdict, Option<Link>) {
        let mut verdict = TrackVerdict::default();
        let link = self.track_into(seen, request, worker, now, &mut verdict);
        (verdict, link)
    }

    /// [`Self::track_linked`], for who has room for the verdict already: it is large, and is not to
    /// be carried about.
    pub fn track_into(
        &self,
        seen: &Seen,
        request: &Request,
        worker: usize,
        now: u64,
        verdict: &mut TrackVerdict,
    ) -> Option<Link> {
        let in_zone;
        let seen = if seen.tuple.zone == request.zone {
            seen
        } else {
            in_zone = seen.in_zone(request.zone);
            &in_zone
        };
        let words = Words::from(&seen.tuple);
        let hash = self.hasher.hash(&words);
        let mut translated = is_translated(request);
        // Nobody had it a moment ago: entering it will tell if somebody has by now.
        let mut unknown = request.unknown && request.commit && matches!(seen.l4, L4::Tcp(_) | L4::Udp);
        for _ in 0..RACES {
            let found = if unknown {
                None
            } else if translated {
                self.find_translated(&seen.tuple, now)
            } else {
                self.find(&words, hash, now)
            };
            if let Some(found) = found
                && let Some(link) = self.belongs(found, seen, request, (worker, now), verdict)
            {
                return link;
            }
            if self.opens(seen, (&words, hash, unknown), request, worker, now, verdict) {
                return None;
            }
            // The tuple itself is in the table now.
            (translated, unknown) = (false, false);
        }
        self.refuse(Refusal::Full, worker, verdict);
        None
    }

    /// The connection of a packet (or of an error's) that was translated already: whoever answers
    /// it has the other tuple.
    pub(super) fn find_translated(&self, tuple: &Tuple, now: u64) -> Option<Found<'_>> {
        let words = Words::from(&tuple.reversed());
        let mut found = self.find(&words, self.hasher.hash(&words), now)?;
        found.direction = found.direction.opposite();
        Some(found)
    }

    /// A packet of a connection. None: that connection is over, and gone.
    fn belongs(
        &self,
        found: Found<'_>,
        seen: &Seen,
        request: &Request,
        (worker, now): (usize, u64),
        verdict: &mut TrackVerdict,
    ) -> Option<Option<Link>> {
        let Found { mut locked, direction } = found;
        locked.leave_to(Who::of(worker));
        if request.commit && request.force && direction == Direction::Reply {
            self.kill(locked, Count::Replaced, now);
            return None;
        }
        let (life, tcp) = (locked.life(), locked.hot.tcp());
        let unskewed;
        let seen = if locked.skews().is_some() && !is_translated(request) {
            unskewed = locked.unskewed(seen, direction);
            &unskewed
        } else {
            seen
        };
        let kept = request.before & (state::SNAT | state::DNAT) | state::TRK;
        let judged = !(request.cached && request.before & state::TRK != 0 && !request.force);
        let stray = judged && self.is_no_answer(&locked, direction, seen);
        let state = if stray {
            kept | state::NEW
        } else if judged {
            match self.update(&mut locked, direction, seen, now) {
                Outcome::Valid | Outcome::ValidLoose if direction == Direction::Reply => kept | state::EST | state::RPL,
                Outcome::Valid | Outcome::ValidLoose => kept | state::EST,
                Outcome::ValidNew => kept | state::NEW,
                // It is translated all the same, and a commit writes: as Open vSwitch does.
                Outcome::Invalid => state::INV | state::TRK,
                Outcome::Reopen => {
                    self.kill(locked, Count::Replaced, now);
                    return None;
                }
            }
        } else {
            request.before
        };
        if request.before == 0 && state & state::INV == 0 {
            locked.count(direction, seen.len);
        }
        if life.helper() == Some(Helper::Tftp) && direction == Direction::Original {
            self.announce_tftp(&locked, now);
        }
        // Marks and labels are those of who opened it: what is no answer says nothing about it.
        let written = if request.commit && !stray { locked.write(request) } else { Written::default() };
        let moved = states(&tcp) != states(&locked.hot.tcp());
        if written.anything || moved || life.has(Life::REPLIED) != locked.life().has(Life::REPLIED) {
            locked.mine().changed();
            self.tell(EventKind::Update, &locked, now);
        }
        let controls = life.helper() == Some(Helper::Ftp) && state & (state::EST | state::INV) == state::EST;
        let link = Link::of(&locked, direction, seen, request, (state, judged));
        say(&locked, direction, state, request, verdict);
        verdict.controls = controls;
        verdict.labelled = written.label;
        Some(link)
    }

    /// Where established means answered: a segment the other way that no stack answers a first one
    /// with.
    fn is_no_answer(&self, locked: &Locked<'_>, direction: Direction, seen: &Seen) -> bool {
        let L4::Tcp(segment) = &seen.l4 else { return false };
        direction == Direction::Reply
            && !locked.life().has(Life::REPLIED)
            && self.zones.waits_for_answer(seen.tuple.zone)
            && locked.hot.tcp().leaves_open(segment)
    }

    /// What the packet changes in the state of its connection, and until when that lives now.
    fn update(&self, locked: &mut Locked<'_>, direction: Direction, seen: &Seen, now: u64) -> Outcome {
        let mut life = locked.life();
        let answered = life.has(Life::REPLIED);
        if direction == Direction::Reply {
            life = life.with(Life::REPLIED);
        }
        let (outcome, class) = match &seen.l4 {
            L4::Tcp(segment) => {
                // All other protocols wait for an answer in every zone.
                let waits = !answered && self.zones.waits_for_answer(seen.tuple.zone);
                let mut tcp = locked.hot.tcp();
                let outcome = tcp.update(segment, direction, self.checks_windows());
                // What is invalid may have taught something, too.
                locked.mine().set_tcp(&tcp);
                if matches!(outcome, Outcome::Invalid | Outcome::Reopen) {
                    return outcome;
                }
                let class = Class::after(outcome, &tcp);
                (if waits && direction == Direction::Original { Outcome::ValidNew } else { outcome }, class)
            }
            other if life.has(Life::REPLIED) => (Outcome::Valid, Some(class(other, true))),
            other => (Outcome::ValidNew, Some(class(other, false))),
        };
        if let Some(class) = class {
            life = life.until(now.saturating_add(self.zones.timeout(seen.tuple.zone, class)));
        }
        locked.mine().set_life(life);
        if life.has(Life::REPLIED) && !answered {
            self.ports.answered(locked.cold().port());
        }
        outcome
    }
}

/// States of both ends.
const fn states(tcp: &Tcp) -> [State; 2] {
    [tcp.peers[0].state, tcp.peers[1].state]
}

/// Whether an earlier `ct()` of the zone has translated the packet.
pub(super) const fn is_translated(request: &Request) -> bool {
    is_translated_state(request.before)
}

/// [`is_translated`], of the `ct_state` that it has from there.
pub(super) const fn is_translated_state(before: u32) -> bool {
    before & (state::SNAT | state::DNAT) != 0
}

/// How long a connection other than of TCP lives that had more than one packet.
pub(super) const fn class(l4: &L4, replied: bool) -> Class {
    match (l4, replied) {
        (L4::Udp, true) => Class::UdpMultiple,
        (L4::Udp, false) => Class::UdpSingle,
        (L4::Icmp, true) => Class::IcmpReply,
        (L4::Icmp, false) => Class::IcmpFirst,
        (_, true) => Class::OtherMultiple,
        (_, false) => Class::OtherSingle,
    }
}

/// `snat` or `dnat` of a packet of a connection that translates this side of its original
/// direction.
pub(super) const fn flag(side: NatSide, direction: Direction) -> u32 {
    match (side, direction) {
        (NatSide::Src, Direction::Original) | (NatSide::Dst, Direction::Reply) => state::SNAT,
        (NatSide::Dst, Direction::Original) | (NatSide::Src, Direction::Reply) => state::DNAT,
    }
}

/// Writes the verdict on a packet of a connection, translated if that is asked for.
#[inline]
pub(super) fn say(
    locked: &Locked<'_>,
    direction: Direction,
    mut state: u32,
    request: &Request,
    verdict: &mut TrackVerdict,
) {
    *verdict = locked.known();
    // What the other end sends is not its opener's: denied, it takes nothing of theirs back.
    let opens = direction == Direction::Original && state & state::NEW != 0;
    verdict.fresh = opens.then(|| Handle::of(locked));
    if let Some(side) = locked.life().translates(request.nat.is_some()) {
        state |= flag(side, direction);
        if !is_translated(request) {
            let (from, to) = locked.translation(direction);
            verdict.rewrite.src = (to.src != from.src).then_some(to.src);
            verdict.rewrite.dst = (to.dst != from.dst).then_some(to.dst);
        }
    }
    verdict.state = state;
    if state & state::INV != 0 {
        verdict.original = None;
    } else if locked.master().is_some() {
        verdict.state |= state::REL;
    }
}

/// What a commit has changed of a connection that was there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    /// Mark or label.
    pub(super) anything: bool,
    /// The label.
    pub(super) label: bool,
}

impl Locked<'_> {
    /// Mark, label and original tuple; of an expected connection that of its master.
    #[inline]
    pub(super) fn known(&self) -> TrackVerdict {
        let original = self.master().unwrap_or_else(|| self.tuples()[0].tuple());
        TrackVerdict {
            mark: self.hot.mark(),
            label: self.label(),
            original: Some(original),
            known: true,
            ..TrackVerdict::default()
        }
    }

    /// Tuple of a packet of this direction as it comes, and as it goes on when it is translated.
    pub(super) fn translation(&self, direction: Direction) -> (Tuple, Tuple) {
        let tuples = self.tuples().map(|words| words.tuple());
        (tuples[direction as usize], tuples[direction.opposite() as usize].reversed())
    }

    /// Writes what a commit says of mark and label; returns what that changed. What its master gave
    /// to an expected connection stays.
    pub(super) fn write(&mut self, request: &Request) -> Written {
        if self.master().is_some() {
            return Written::default();
        }
        let mark = self.hot.mark() & !request.mark.1 | request.mark.0 & request.mark.1;
        let label = self.label() & !request.label.1 | request.label.0 & request.label.1;
        let labelled = label != self.label();
        let written = Written { anything: labelled || mark != self.hot.mark(), label: labelled };
        self.mine().set_mark(mark);
        self.set_label(label);
        written
    }
}
