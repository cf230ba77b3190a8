//! The fast path of a packet that is like one before it: same headers, same connection, nothing
//! changed.
//!
//! Whoever remembers what became of a packet remembers a [`Link`] for each `ct()` on its way. As
//! long as the link holds, the verdict on the next packet is the same: its connection is alive,
//! nothing that a `ct()` could see of it has changed (mark, label, states, replies:
//! [`Mine::changed`]), and a segment lies in its windows. Then only counters, windows and expiry
//! move; else nothing has been touched, and the packet is to be tracked as any other.

use super::arena::Locked;
use super::hot::{Hot, Mine, VERSION_MAX, name};
use super::life::Life;
use super::sync::AtomicU64;
use super::track::class;
use super::{Owner, Tracker};
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

    /// How the packet was judged that is behind a lock; none if the next one like it may be judged
    /// otherwise. `state` is what it has now, `judged` whether it was looked at for that.
    pub(super) fn of(
        locked: &Locked<'_>,
        direction: Direction,
        seen: &Seen,
        request: &Request,
        (state, judged): (u32, bool),
    ) -> Option<Self> {
        let (generation, version) = (locked.hot.generation(), locked.hot.version());
        let same = match &seen.l4 {
            L4::Tcp(segment) => {
                let is_established = locked.hot.is_established();
                // So what waits for an answer has no link: nobody asks again on the fast path.
                debug_assert!(!is_established || locked.life().has(Life::REPLIED), "established without an answer");
                is_plain(segment) && is_established
            }
            L4::Udp => true,
            L4::Icmp | L4::Other => false,
        };
        let helped = locked.life().helper().is_some() || locked.skews().is_some();
        let worn = version == VERSION_MAX;
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

    /// Where its connection lies: equal of links to the same one, and below the number of
    /// connections that there may be.
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
    /// The first word of the place of a connection, for whoever wants that in the cache: what every
    /// packet touches is in its line.
    #[inline]
    #[must_use]
    pub fn word_at(&self, place: u32) -> Option<&AtomicU64> {
        Some(self.arena.places().get(place as usize)?.first_word())
    }

    /// A packet like the one that the link is of: `segment` of TCP, `len` bytes of frame. True: it
    /// was counted, and has moved windows and expiry. False: nothing has been touched, the link
    /// does not hold.
    ///
    /// Its worker may be inside of a section afterwards: see [`Owner`].
    #[inline]
    #[must_use]
    pub fn pass(&self, owner: &Owner, link: &Link, segment: Option<&Segment>, len: u32, now: u64) -> bool {
        debug_assert!(owner.is_of(self), "another table's owner");
        // None of `Link::NONE`.
        let Some(hot) = self.arena.places().get(link.place as usize) else { return false };
        if hot.lock.is_of(owner.present())
            && let Some(passed) = self.pass_owned(hot, link, segment, len, now)
        {
            return passed;
        }
        // By value: so a segment is in registers until here.
        self.pass_other(owner, link, segment.copied(), len, now)
    }

    /// [`Self::pass`] at a place of one's own; none if that takes its lock, and nothing was
    /// touched.
    #[inline]
    fn pass_owned(&self, hot: &Hot, link: &Link, segment: Option<&Segment>, len: u32, now: u64) -> Option<bool> {
        match holds(hot, link, now) {
            Some(life) => self.advance((Mine::of(hot), life), link, segment, (len, now), |_| false),
            None => Some(false),
        }
    }

    /// [`Self::pass`] at a place that may be one's own inside of a section, or nobody's, or
    /// somebody else's.
    #[inline(never)]
    fn pass_other(&self, owner: &Owner, link: &Link, segment: Option<Segment>, len: u32, now: u64) -> bool {
        let (hot, segment) = (self.arena.spot(link.place).hot, segment.as_ref());
        if owner.enters()
            && hot.lock.is_of(owner.present())
            && let Some(passed) = self.pass_owned(hot, link, segment, len, now)
        {
            return passed;
        }
        match self.arena.try_lock(link.place) {
            Some(mut locked) => {
                let Some(life) = holds(locked.hot, link, now) else { return false };
                let packets = locked.hot.packets()[link.direction() as usize];
                locked.claim(owner.who(), packets);
                self.advance_locked(&mut locked, life, link, segment, (len, now))
            }
            None => self.pass_waiting(owner, hot, link, segment, len, now),
        }
    }

    /// [`Self::pass`] of who has to wait: for whoever is at the place, or owns it, which has to end
    /// as two are there; or of an owner, that others can see how it writes what lies apart.
    #[cold]
    fn pass_waiting(
        &self,
        owner: &Owner,
        hot: &Hot,
        link: &Link,
        segment: Option<&Segment>,
        len: u32,
        now: u64,
    ) -> bool {
        if hot.name() != name(link.generation, link.version) {
            return false;
        }
        let Some(mut locked) = self.at(owner, link) else { return false };
        let Some(life) = holds(locked.hot, link, now) else { return false };
        self.advance_locked(&mut locked, life, link, segment, (len, now))
    }

    /// What [`Self::pass`] does, of a packet of which [`Self::may_pass`] was true just now:
    /// whatever has changed since, it came first. A connection that has ended since stays as it
    /// was. Its worker is outside of sections afterwards.
    pub fn settle(&self, owner: &Owner, link: &Link, segment: Option<&Segment>, len: u32, now: u64) {
        let Some(mut locked) = self.at(owner, link) else { return };
        let life = locked.life();
        if locked.hot.generation() != link.generation || !life.has(Life::ALIVE) {
            return;
        }
        let moves = match segment {
            Some(segment) => locked.hot.is_established() && self.slides(locked.hot, link, segment).is_some(),
            None => true,
        };
        let flags = if moves { link.flags } else { link.flags & !JUDGED };
        let _ = self.advance_locked(&mut locked, life, &Link { flags, ..*link }, segment, (len, now));
    }

    fn advance_locked(
        &self,
        locked: &mut Locked<'_>,
        life: Life,
        link: &Link,
        segment: Option<&Segment>,
        packet: (u32, u64),
    ) -> bool {
        let cold = locked.cold();
        let carries = |over| cold.carry(link.direction(), over);
        self.advance((locked.mine(), life), link, segment, packet, carries) == Some(true)
    }

    /// Moves windows and expiry, and counts. False: a segment does not fit; none: halves of
    /// counters begin anew, and that cannot be (`carries`). In both cases nothing was done.
    #[inline]
    fn advance(
        &self,
        (mine, life): (Mine<'_>, Life),
        link: &Link,
        segment: Option<&Segment>,
        (len, now): (u32, u64),
        carries: impl FnOnce([bool; 2]) -> bool,
    ) -> Option<bool> {
        let direction = link.direction();
        let count = || link.flags & COUNTED == 0 || mine.count(direction, len, carries);
        let class = match segment {
            _ if link.flags & JUDGED == 0 => return count().then_some(true),
            Some(segment) => {
                let Some(slide) = self.slides(&mine, link, segment) else { return Some(false) };
                if !count() {
                    return None;
                }
                mine.slide(direction, slide);
                Class::TcpEstablished
            }
            None if !count() => return None,
            None => class(&L4::Udp, life.has(Life::REPLIED)),
        };
        mine.set_life(life.until_soon(now, self.zones.timeout(link.zone, class)));
        Some(true)
    }

    /// Whether [`Self::pass`] would be true now. Its worker is outside of sections afterwards.
    #[inline]
    #[must_use]
    pub fn may_pass(&self, owner: &Owner, link: &Link, segment: Option<&Segment>, now: u64) -> bool {
        let Some(locked) = self.at(owner, link) else { return false };
        holds(locked.hot, link, now).is_some()
            && match segment {
                Some(segment) if link.flags & JUDGED != 0 => self.slides(locked.hot, link, segment).is_some(),
                _ => true,
            }
    }

    /// The place of a link, locked, whoever is there now, outside of sections; none of
    /// [`Link::NONE`]. If the link's connection is, it is nobody else's then.
    #[inline]
    fn at(&self, owner: &Owner, link: &Link) -> Option<Locked<'_>> {
        if link.place as usize >= self.arena.places().len() {
            return None;
        }
        owner.leave();
        let mut locked = self.arena.lock(link.place);
        if locked.hot.generation() == link.generation {
            locked.leave_to(owner.who());
        }
        Some(locked)
    }

    /// What a segment moves; none if it does not fit.
    #[inline]
    fn slides(&self, hot: &Hot, link: &Link, segment: &Segment) -> Option<Slide> {
        hot.slides(segment, link.direction(), self.checks_windows())
    }
}

/// The life of a connection that is as it was.
#[inline]
fn holds(hot: &Hot, link: &Link, now: u64) -> Option<Life> {
    let life = hot.life();
    // Of who is not alive it is 0.
    (hot.name() == name(link.generation, link.version) && life.expiry() > now).then_some(life)
}
