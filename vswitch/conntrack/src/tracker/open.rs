//! Opening a connection.
//!
//! Two workers that open the same one at once must make one of it, and no tuple may ever belong to two: so both of its tuples are locked in the index, then looked for, then
//! entered. Which tuple a translated connection gets is chosen before that, without a lock; if somebody takes it meanwhile, another one is chosen.

use super::arena::{Body, Life, Locked};
use super::track::verdict;
use super::{Count, EventKind, Hit, Tracker, Words};
use crate::tcp::Tcp;
use crate::{Class, Direction, Family, L4, Nat, Refusal, Request, Seen, Tuple, Verdict, choose, state};

/// How often a tuple may be chosen that another worker takes first.
const CHOICES: usize = 8;

/// How often a place may be made free that another worker takes first.
const PLACES: usize = 4;

/// What became of a packet that belongs to no connection.
pub(super) enum Opened {
    /// Opened one, or only might have.
    Verdict(Verdict),
    /// Another worker was first: the connection is there now.
    Raced,
}

/// Why there is no connection.
enum Failed {
    Raced,
    Refused(Refusal),
}

impl Tracker {
    /// A packet that belongs to no connection.
    pub(super) fn opens(&self, seen: &Seen, request: &Request, worker: usize, now: u64) -> Opened {
        let Some(tcp) = may_open(seen) else { return Opened::Verdict(Verdict::INVALID) };
        if !request.commit {
            let state = state::NEW | state::TRK;
            return Opened::Verdict(Verdict { state, original: Some(seen.tuple), ..Verdict::default() });
        }
        match self.open(seen, request, tcp, worker, now) {
            Ok(verdict) => Opened::Verdict(verdict),
            Err(Failed::Raced) => Opened::Raced,
            // What took the last place may have been the same connection.
            Err(Failed::Refused(_)) if !self.is_free(&seen.tuple, now) => Opened::Raced,
            Err(Failed::Refused(why)) => Opened::Verdict(self.refuse(why, worker)),
        }
    }

    /// The verdict on a packet that is to be dropped, counted.
    pub(super) fn refuse(&self, why: Refusal, worker: usize) -> Verdict {
        let count = match why {
            Refusal::Full => Count::RefusedFull,
            Refusal::ZoneLimit => Count::RefusedZone,
            Refusal::NatExhausted => Count::RefusedNat,
            Refusal::TupleTaken => Count::RefusedTaken,
        };
        self.counters.add(worker, count);
        Verdict { refusal: Some(why), ..Verdict::default() }
    }

    fn open(&self, seen: &Seen, request: &Request, tcp: Tcp, worker: usize, now: u64) -> Result<Verdict, Failed> {
        let zone = seen.tuple.zone;
        if !self.zones.enter(zone) {
            return Err(Failed::Refused(Refusal::ZoneLimit));
        }
        let Some(place) = self.place(worker, now) else {
            self.zones.leave(zone);
            return Err(Failed::Refused(Refusal::Full));
        };
        let entered = self.enter(place, seen, request, tcp, now);
        match &entered {
            Ok(_) => self.counters.add(worker, Count::Created),
            Err(_) => {
                self.arena.give(place);
                self.zones.leave(zone);
            }
        }
        entered
    }

    /// A place for a new connection; when all are taken, that of one that nobody answered.
    fn place(&self, worker: usize, now: u64) -> Option<u32> {
        for _ in 0..PLACES {
            if let Some(place) = self.arena.take(worker) {
                return Some(place);
            }
            if !self.drop_early(now) {
                return None;
            }
        }
        None
    }

    /// Enters the connection at its place.
    fn enter(&self, place: u32, seen: &Seen, request: &Request, tcp: Tcp, now: u64) -> Result<Verdict, Failed> {
        let original = Words::from(&seen.tuple);
        let hash = self.hasher.hash(&original);
        let nat = request.nat.filter(|nat| nat.side.is_some());
        for _ in 0..CHOICES {
            let reply = match &nat {
                None => seen.tuple.reversed(),
                Some(nat) => self.choose(&seen.tuple, nat, now).ok_or(Failed::Refused(Refusal::NatExhausted))?,
            };
            let reply = Words::from(&reply);
            let hashes = [hash, self.hasher.hash(&reply)];
            let _stripes = self.index.lock(hashes);
            if self.find(&original, hash, now).is_some() {
                return Err(Failed::Raced);
            }
            if self.find(&reply, hashes[1], now).is_none() {
                let locked = self.arena.lock(place);
                return self.write(locked, [original, reply], hashes, seen, request, tcp, now);
            }
            if nat.is_none() {
                return Err(Failed::Refused(Refusal::TupleTaken));
            }
        }
        Err(Failed::Refused(Refusal::NatExhausted))
    }

    fn choose(&self, original: &Tuple, nat: &Nat, now: u64) -> Option<Tuple> {
        choose(original, nat, self.hasher.choice(&Words::from(original)), |reply| self.is_free(reply, now))
    }

    /// Writes the connection, then both words that lead to it. Whoever finds them waits for the place's lock, until it is complete.
    #[expect(clippy::too_many_arguments, reason = "all of what a connection is made of")]
    fn write(
        &self,
        mut locked: Locked<'_>,
        tuples: [Words; 2],
        hashes: [u64; 2],
        seen: &Seen,
        request: &Request,
        tcp: Tcp,
        now: u64,
    ) -> Result<Verdict, Failed> {
        let generation = locked.body.generation.wrapping_add(1);
        *locked.body = Body { tuples, tcp, start: now, generation, ..Body::default() };
        locked.body.count(Direction::Original, seen.len);
        locked.body.write(request);
        let life = Life::new(request.nat.and_then(|nat| nat.side), request.helper);
        let timeout = self.zones.timeout(request.zone, first_class(&seen.l4));
        locked.set_life(life.until(now.saturating_add(timeout)));

        let place = locked.place;
        let [original, reply] = [Direction::Original, Direction::Reply]
            .map(|direction| (hashes[direction as usize], Hit { place, direction }));
        let entered = self.index.insert(original.0, original.1);
        if !entered || tuples[0] != tuples[1] && !self.index.insert(reply.0, reply.1) {
            if entered {
                self.index.remove(original.0, original.1);
            }
            locked.set_life(Life::default());
            return Err(Failed::Refused(Refusal::Full));
        }
        self.tell(EventKind::New, &locked, now);
        Ok(verdict(&locked, Direction::Original, state::NEW | state::TRK, request))
    }
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
