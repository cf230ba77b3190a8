//! The short way of a packet that is like one before it: same headers, same connection, nothing changed.
//!
//! Whoever remembers what became of a packet remembers a [`Link`] for each `ct()` on its way. As long as the link holds, the verdict on the next packet is the same: its
//! connection is alive, nothing that a `ct()` could see of it has changed (mark, label, states, replies: [`super::arena::Body::changed`]), and a segment lies in its windows. Then only counters,
//! windows and expiry move; else nothing has been touched, and the packet is to be tracked as any other.

use super::Tracker;
use super::arena::Locked;
use super::life::Life;
use super::sync::AtomicU64;
use super::track::class;
use crate::tcp::{Segment, Slide, flag};
use crate::{Class, Direction, L4, Request, Seen, state};

/// A connection as a packet met it at a `ct()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    place: u32,
    generation: u32,
    version: u32,
    zone: u16,
    flags: u8,
}

/// Of [`Link::flags`]: the packet is a reply.
const REPLY: u8 = 1;
/// It moves windows and expiry.
const JUDGED: u8 = 2;
/// It is counted.
const COUNTED: u8 = 4;
/// It is a segment of TCP.
const TCP: u8 = 8;

impl Link {
    /// Of no connection: it never holds.
    pub const NONE: Self = Self { place: u32::MAX, generation: 0, version: 0, zone: 0, flags: 0 };

    /// How the packet was judged that is behind a lock; none if the next one like it may be judged otherwise. `state` is what it has now, `judged` whether it was looked at for that.
    pub(super) fn of(
        locked: &Locked<'_>,
        direction: Direction,
        seen: &Seen,
        request: &Request,
        (state, judged): (u32, bool),
    ) -> Option<Self> {
        let (generation, version) = (locked.body.generation, locked.body.version());
        let same = match &seen.l4 {
            L4::Tcp(segment) => {
                let is_established = locked.body.tcp.is_established();
                // So what waits for an answer has no link: nobody asks again on the short way.
                debug_assert!(!is_established || locked.life().has(Life::REPLIED), "established without an answer");
                is_plain(segment) && is_established
            }
            L4::Udp => true,
            L4::Icmp | L4::Other => false,
        };
        let helped = locked.life().helper().is_some() || locked.skews().is_some();
        let worn = version == super::arena::VERSION_MAX;
        if !same || helped || worn || request.force || state & state::INV != 0 {
            return None;
        }
        let mut flags = 0;
        if direction == Direction::Reply {
            flags |= REPLY;
        }
        if judged {
            flags |= JUDGED;
        }
        if request.before == 0 {
            flags |= COUNTED;
        }
        if matches!(seen.l4, L4::Tcp(_)) {
            flags |= TCP;
        }
        Some(Self { place: locked.place, generation, version, zone: request.zone, flags })
    }

    /// Where its connection lies: equal of links to the same one, and below the number of connections that there may be.
    #[must_use]
    pub const fn place(&self) -> u32 {
        self.place
    }

    /// It moves windows and expiry of its connection.
    #[must_use]
    pub const fn is_judged(&self) -> bool {
        self.flags & JUDGED != 0
    }

    /// It is of TCP.
    #[must_use]
    pub const fn is_tcp(&self) -> bool {
        self.flags & TCP != 0
    }

    /// It is of the same connection in the same state as another one.
    #[must_use]
    pub const fn agrees(&self, other: &Self) -> bool {
        self.place == other.place && self.generation == other.generation && self.version == other.version
    }

    const fn direction(&self) -> Direction {
        if self.flags & REPLY == 0 { Direction::Original } else { Direction::Reply }
    }
}

/// It changes no state.
const fn is_plain(segment: &Segment) -> bool {
    segment.flags & (flag::SYN | flag::FIN | flag::RST) == 0
}

impl Tracker {
    /// The first word of the place of a connection, for whoever wants that in the cache: what every packet touches is in its line.
    #[inline]
    #[must_use]
    pub fn word_at(&self, place: u32) -> Option<&AtomicU64> {
        Some(self.arena.places().get(place as usize)?.first_word())
    }

    /// A packet like the one that the link is of: `segment` of TCP, `len` bytes of frame. True: it was counted, and has moved windows and expiry. False: nothing has been
    /// touched, the link does not hold.
    #[inline]
    #[must_use]
    pub fn pass(&self, link: &Link, segment: Option<&Segment>, len: u32, now: u64) -> bool {
        self.with(link, now, |mut locked, life| self.advance((&mut locked, life), link, segment, len, now))
    }

    /// What [`Self::pass`] does, of a packet of which [`Self::may_pass`] was true just now: whatever has changed since, it came first. A connection that has ended since stays as
    /// it was.
    pub fn settle(&self, link: &Link, segment: Option<&Segment>, len: u32, now: u64) {
        let Some(mut locked) = self.at(link) else { return };
        let life = locked.life();
        if locked.body.generation != link.generation || !life.has(Life::ALIVE) {
            return;
        }
        let moves = match segment {
            Some(segment) => locked.body.tcp.is_established() && self.slides(&locked, link, segment).is_some(),
            None => true,
        };
        let flags = if moves { link.flags } else { link.flags & !JUDGED };
        let _ = self.advance((&mut locked, life), &Link { flags, ..*link }, segment, len, now);
    }

    /// Moves windows and expiry, and counts. False: a segment does not fit, and nothing was done.
    #[inline]
    fn advance(
        &self,
        (locked, life): (&mut Locked<'_>, Life),
        link: &Link,
        segment: Option<&Segment>,
        len: u32,
        now: u64,
    ) -> bool {
        if link.flags & JUDGED != 0 {
            let class = match segment {
                Some(segment) => {
                    let Some(slide) = self.slides(locked, link, segment) else { return false };
                    locked.body.tcp.slide(link.direction(), slide);
                    Class::TcpEstablished
                }
                None => class(&L4::Udp, life.has(Life::REPLIED)),
            };
            locked.set_life(life.until_soon(now, self.zones.timeout(link.zone, class)));
        }
        if link.flags & COUNTED != 0 {
            locked.count(link.direction(), len);
        }
        true
    }

    /// Whether [`Self::pass`] would be true now.
    #[inline]
    #[must_use]
    pub fn may_pass(&self, link: &Link, segment: Option<&Segment>, now: u64) -> bool {
        self.with(link, now, |locked, _| match segment {
            Some(segment) if link.flags & JUDGED != 0 => self.slides(&locked, link, segment).is_some(),
            _ => true,
        })
    }

    /// The place of a link, locked, whoever is there now; none of [`Link::NONE`].
    #[inline]
    fn at(&self, link: &Link) -> Option<Locked<'_>> {
        ((link.place as usize) < self.arena.places().len()).then(|| self.arena.lock(link.place))
    }

    /// Does it with the connection, locked; false if it is not as it was.
    #[inline]
    fn with(&self, link: &Link, now: u64, then: impl FnOnce(Locked<'_>, Life) -> bool) -> bool {
        let Some(locked) = self.at(link) else { return false };
        // As one number: one load and one compare for both.
        let both = |generation: u32, version: u32| u64::from(generation) | u64::from(version) << 32;
        let same = both(locked.body.generation, locked.body.version()) == both(link.generation, link.version);
        let life = locked.life();
        // Of who is not alive it is 0.
        same && life.expiry() > now && then(locked, life)
    }

    /// What a segment moves; none if it does not fit.
    #[inline]
    fn slides(&self, locked: &Locked<'_>, link: &Link, segment: &Segment) -> Option<Slide> {
        locked.body.tcp.slides(segment, link.direction(), self.checks_windows())
    }
}
