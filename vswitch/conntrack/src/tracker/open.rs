//! Opening a connection.
//!
//! Two workers that open the same one at once must make one of it, and no tuple may ever belong to
//! two: so both of its tuples are locked in the index, then looked for, then entered. Which tuple a
//! translated connection gets is chosen before that, without a lock; if somebody takes it
//! meanwhile, another one is chosen.
//!
//! **A taken reply tuple**: a client has a connection by a Service, and opens another one from the
//! same port straight to the endpoint that the first one was translated to. Their answers would be
//! the same packets. So the later one gets another source port (or ICMP identifier), though nobody
//! asked for a translation, as Linux does it where NAT is configured; and each `ct()` of its zone
//! translates it, whether it has `nat` or not ([`Life::UNASKED`]). Where there is no such port (a
//! protocol without ports, none free), it is refused by name.

use super::arena::Entry;
use super::helper::Inherited;
use super::life::Life;
use super::ports::Slot;
use super::track::say;
use super::{Count, EventKind, Hit, Tracker, Words};
use crate::tcp::Tcp;
use crate::{
    Class, Direction, End, Family, Helper, L4, Nat, NatSide, Refusal, Request, Seen, TrackVerdict, Tuple, choose, state,
};

/// How often a tuple may be chosen that another worker takes first.
const CHOICES: usize = 8;

/// How often a place may be made free that another worker takes first.
const PLACES: usize = 4;

/// How a connection is translated whose reply tuple is taken, though it was not to be: its source
/// gets another port.
const OTHER_PORT: Nat = Nat { side: Some(NatSide::Src), addresses: None, ports: None, random: false };

/// Why there is no connection.
enum Failed {
    Raced,
    Refused(Refusal),
}

impl Tracker {
    /// A packet that belongs to no connection; `words` and their hash are its tuple's; `unsought`:
    /// it was not looked for. False: it is to be looked for (again), as another worker was first.
    #[inline]
    pub(super) fn opens(
        &self,
        seen: &Seen,
        (words, hash, unsought): (&Words, u64, bool),
        request: &Request,
        worker: usize,
        now: u64,
        verdict: &mut TrackVerdict,
    ) -> bool {
        let Some(tcp) = may_open(seen) else {
            *verdict = TrackVerdict::INVALID;
            return true;
        };
        let expected = self.inherited(&seen.tuple, now);
        let expected = expected.as_ref();
        let port = self.ports.slot(seen.port);
        let opening = Opening { seen, port, words, hash, unsought, request, tcp, expected, now };
        if !request.commit {
            opening.uncommitted(verdict);
            return true;
        }
        match self.open(&opening, worker, Some(verdict)) {
            Ok(()) => {}
            Err(Failed::Raced) => return false,
            // It is looked for first, after all.
            Err(Failed::Refused(_)) if unsought => return false,
            // What took the last place may have been the same connection.
            Err(Failed::Refused(_)) if !self.is_free(&seen.tuple, now) => return false,
            Err(Failed::Refused(why)) => {
                if why == Refusal::PortFull {
                    self.ports.refused(port);
                }
                self.refuse(why, worker, verdict);
            }
        }
        true
    }

    /// A packet of TCP or UDP, for which nobody has looked, opens its connection: what
    /// [`Self::track`] does of a packet that belongs to none, first without `commit`, then by this
    /// request, which has it and leaves no choice of a translation. False: it opens none, or none
    /// like that, and is to be tracked as any other; nothing has happened.
    #[inline]
    #[must_use]
    pub fn open_unsought(&self, seen: &Seen, request: &Request, worker: usize, now: u64) -> bool {
        debug_assert!(request.commit && request.nat.as_ref().is_none_or(|nat| nat.side.is_none()), "{request:?}");
        let in_zone;
        let seen = if seen.tuple.zone == request.zone {
            seen
        } else {
            in_zone = seen.in_zone(request.zone);
            &in_zone
        };
        let Some(tcp) = may_open(seen) else { return false };
        if self.inherited(&seen.tuple, now).is_some() {
            return false;
        }
        let words = &Words::from(&seen.tuple);
        let hash = self.hasher.hash(words);
        let port = self.ports.slot(seen.port);
        let opening = Opening { seen, port, words, hash, unsought: true, request, tcp, expected: None, now };
        self.open(&opening, worker, None).is_ok()
    }

    /// The verdict on a packet that is to be dropped, counted.
    #[cold]
    pub(super) fn refuse(&self, why: Refusal, worker: usize, verdict: &mut TrackVerdict) {
        let count = match why {
            Refusal::Full => Count::RefusedFull,
            Refusal::PortFull => Count::RefusedPort,
            Refusal::ZoneLimit => Count::RefusedZone,
            Refusal::NatExhausted => Count::RefusedNat,
            Refusal::TupleTaken => Count::RefusedTaken,
        };
        self.counters.add(worker, count);
        *verdict = TrackVerdict { refusal: Some(why), ..TrackVerdict::default() };
    }

    fn open(&self, opening: &Opening<'_>, worker: usize, verdict: Option<&mut TrackVerdict>) -> Result<(), Failed> {
        let zone = opening.request.zone;
        if !self.zones.enter(zone) {
            return Err(Failed::Refused(Refusal::ZoneLimit));
        }
        if !self.enter_port(worker, opening) {
            self.zones.leave(zone, 1);
            return Err(Failed::Refused(Refusal::PortFull));
        }
        let Some(place) = self.place(worker, opening) else {
            self.ports.leave(opening.port, 1, 1);
            self.zones.leave(zone, 1);
            return Err(Failed::Refused(Refusal::Full));
        };
        let entered = self.enter(place, opening, verdict);
        if entered.is_err() {
            self.counters.add(worker, Count::Unopened);
            self.arena.give(&[place]);
            self.ports.leave(opening.port, 1, 1);
            self.zones.leave(zone, 1);
        }
        entered
    }

    /// Counts a new connection for its port; when that has its share, in place of an unanswered one
    /// of its own.
    #[inline]
    fn enter_port(&self, worker: usize, opening: &Opening<'_>) -> bool {
        let port = opening.port;
        self.ports.enter(port, || self.arena.room(worker)) || self.enter_port_at_limit(opening)
    }

    #[cold]
    fn enter_port_at_limit(&self, opening: &Opening<'_>) -> bool {
        let port = opening.port;
        for _ in 0..PLACES {
            // What the worker knew of free places may be old.
            if self.ports.enter(port, || self.arena.room_now()) {
                return true;
            }
            // Nobody goes for one that was not looked for.
            if opening.unsought || !self.drop_own(port, opening.now) {
                return false;
            }
        }
        false
    }

    /// A place for a new connection; when all are taken, that of one that nobody answered.
    fn place(&self, worker: usize, opening: &Opening<'_>) -> Option<u32> {
        for _ in 0..PLACES {
            if let Some(place) = self.arena.take(worker) {
                return Some(place);
            }
            // Nobody goes for one that was not looked for.
            if opening.unsought || !self.drop_early(opening.now) {
                return None;
            }
        }
        None
    }

    /// Enters the connection at its place.
    fn enter(&self, place: u32, opening: &Opening<'_>, verdict: Option<&mut TrackVerdict>) -> Result<(), Failed> {
        let &Opening { words: original, hash, now, .. } = opening;
        let mut way = opening.way();
        for _ in 0..CHOICES {
            let reply = match way {
                Way::Chosen(nat, why) => self.choose(&opening.seen.tuple, nat, now).ok_or(Failed::Refused(why))?,
                Way::Only | Way::Plain => opening.reply(),
            };
            let reply = Words::from(&reply);
            let hashes = [hash, self.hasher.hash(&reply)];
            let _stripes = self.index.lock(hashes);
            if self.find(original, hash, now).is_some() {
                return Err(Failed::Raced);
            }
            if self.find(&reply, hashes[1], now).is_none() {
                return self.write(place, [*original, reply], hashes, (opening, way.life(opening)), verdict);
            }
            way = match way {
                Way::Chosen(..) => way,
                Way::Plain => Way::Chosen(&OTHER_PORT, Refusal::TupleTaken),
                Way::Only => return Err(Failed::Refused(Refusal::TupleTaken)),
            };
        }
        Err(Failed::Refused(Refusal::NatExhausted))
    }

    fn choose(&self, original: &Tuple, nat: &Nat, now: u64) -> Option<Tuple> {
        choose(original, nat, self.hasher.choice(&Words::from(original)), |reply| self.is_free(reply, now))
    }

    /// Writes both words that lead to the connection, then the connection. Whoever finds them waits
    /// for the place's lock, until it is complete.
    fn write(
        &self,
        place: u32,
        tuples: [Words; 2],
        hashes: [u64; 2],
        (opening, life): (&Opening<'_>, Life),
        verdict: Option<&mut TrackVerdict>,
    ) -> Result<(), Failed> {
        let &Opening { seen, request, now, .. } = opening;
        let mut locked = self.arena.lock(place);
        let [original, reply] = [Direction::Original, Direction::Reply].map(|direction| Hit { place, direction });
        let entered = self.index.insert(hashes[0], original);
        if !entered || tuples[0] != tuples[1] && !self.index.insert(hashes[1], reply) {
            if entered {
                self.index.remove(hashes[0], original);
            }
            return Err(Failed::Refused(Refusal::Full));
        }
        let timeout = self.zones.timeout(request.zone, first_class(&seen.l4));
        locked.begin(life.until(now.saturating_add(timeout)), &opening.entry(tuples));
        locked.count(Direction::Original, seen.len);
        if request.helper == Some(Helper::Tftp) {
            self.announce_tftp(&locked, now);
        }
        self.tell(EventKind::New, &locked, now);
        if let Some(verdict) = verdict {
            say(&locked, Direction::Original, state::NEW | state::TRK, request, verdict);
            verdict.opened = true;
        }
        Ok(())
    }
}

/// How a new connection gets the tuple of its replies.
#[derive(Clone, Copy)]
enum Way<'a> {
    /// The only one that it can have.
    Only,
    /// The packet's own, reversed; if that is taken, another port.
    Plain,
    /// A free one of many; if there is none, it is refused by this name.
    Chosen(&'a Nat, Refusal),
}

impl Way<'_> {
    /// Flags of the connection.
    fn life(self, opening: &Opening<'_>) -> Life {
        let helper = opening.request.helper;
        match self {
            Self::Chosen(_, Refusal::TupleTaken) => Life::new(OTHER_PORT.side, helper).with(Life::UNASKED),
            Self::Chosen(nat, _) => Life::new(nat.side, helper),
            Self::Only | Self::Plain => Life::new(opening.translate().map(|(side, _)| side), helper),
        }
    }
}

/// A packet that opens a connection. What is large stays where it is.
struct Opening<'a> {
    seen: &'a Seen,
    /// Where it came in.
    port: Slot,
    /// Its tuple.
    words: &'a Words,
    /// Of that.
    hash: u64,
    /// Nobody has looked for its connection just now.
    unsought: bool,
    request: &'a Request,
    tcp: Tcp,
    expected: Option<&'a Inherited>,
    now: u64,
}

impl Opening<'_> {
    /// The verdict if nothing is to be remembered.
    fn uncommitted(&self, verdict: &mut TrackVerdict) {
        *verdict =
            TrackVerdict { state: state::NEW | state::TRK, original: Some(self.seen.tuple), ..TrackVerdict::default() };
        if let Some(&Inherited { master, mark, label, .. }) = self.expected {
            verdict.state |= state::REL;
            (verdict.mark, verdict.label, verdict.original) = (mark, label, Some(master));
        }
    }

    /// How the tuple of the replies is found. An expected connection has no choice; nor has one
    /// that nobody has looked for: it is looked for first.
    fn way(&self) -> Way<'_> {
        match &self.request.nat {
            _ if self.expected.is_some() => Way::Only,
            Some(nat) if nat.side.is_some() => Way::Chosen(nat, Refusal::NatExhausted),
            _ if self.unsought => Way::Only,
            _ => Way::Plain,
        }
    }

    /// How an expected connection is translated.
    fn translate(&self) -> Option<(NatSide, End)> {
        self.expected.filter(|_| self.request.nat.is_some())?.translate
    }

    /// Tuple of the replies, if there is no choice.
    fn reply(&self) -> Tuple {
        let reply = self.seen.tuple.reversed();
        match self.translate() {
            None => reply,
            Some((NatSide::Src, end)) => Tuple { dst: with_port(end, reply.dst), ..reply },
            Some((NatSide::Dst, end)) => Tuple { src: with_port(end, reply.src), ..reply },
        }
    }

    /// What its place holds.
    fn entry(&self, tuples: [Words; 2]) -> Entry {
        let entry = Entry { tuples, tcp: self.tcp, mark: 0, label: 0, start: self.now, master: None, port: self.port };
        match self.expected {
            None => {
                let ((mark, of_mark), (label, of_label)) = (self.request.mark, self.request.label);
                Entry { mark: mark & of_mark, label: label & of_label, ..entry }
            }
            Some(Inherited { master, mark, label, .. }) => {
                Entry { mark: *mark, label: *label, master: Some(*master), ..entry }
            }
        }
    }
}

/// An end, with the port that it has already if it has none of its own.
const fn with_port(end: End, before: End) -> End {
    if end.port == 0 { End { port: before.port, ..end } } else { end }
}

/// Whether a packet may open a connection; of TCP in which state.
fn may_open(seen: &Seen) -> Option<Tcp> {
    match &seen.l4 {
        L4::Tcp(segment) => Tcp::open(segment),
        L4::Icmp => is_request(&seen.tuple).then(Tcp::default),
        L4::Udp | L4::Other => Some(Tcp::default()),
    }
}

/// Echo, timestamp and information requests (RFC 792); echo requests (RFC 4443).
fn is_request(tuple: &Tuple) -> bool {
    matches!((tuple.family, tuple.dst.port >> 8), (Family::V4, 8 | 13 | 15) | (Family::V6, 128))
}

/// How long a connection lives that has one packet.
const fn first_class(l4: &L4) -> Class {
    match l4 {
        L4::Tcp(_) => Class::TcpFirst,
        L4::Udp => Class::UdpFirst,
        L4::Icmp => Class::IcmpFirst,
        L4::Other => Class::OtherFirst,
    }
}
