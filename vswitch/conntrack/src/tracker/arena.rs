//! The places of connections.
//!
//! All are allocated at start, as two arrays. What every packet of a connection touches is one line
//! of the first, [`Hot`]: [`Life`], an atomic word that everybody reads and only the holder of the
//! place's lock or its owner writes; the lock, which is held for some nanoseconds, or which a
//! worker keeps (`lock`); what is behind it. What only the slow path touches is one line of the
//! second, [`Cold`], behind the same lock. They are apart so that nothing is brought into the
//! caches along with a hot line but other hot lines: they are neighbours, 64 bytes each.
//!
//! 128 bytes are a connection of IPv4. One of IPv6 has a line of a third array for its addresses
//! ([`V6Addrs`]), which takes memory only as far as it was ever used.
//!
//! Lock order: stripes of the index, then one place, then the free places and lines, what is rare,
//! and the events. Nobody holds two places at once, but for a moment who takes several from their
//! owners ([`Arena::disown`]), who waits for nothing but the end of sections meanwhile; and nobody
//! waits inside of one.

use super::cold::Cold;
use super::free::Free;
use super::helper_control::Skew;
use super::hot::{Hot, Mine};
use super::life::Life;
use super::lock::{Held, Lock};
use super::owner::{Sections, bit};
use super::ports::Slot;
use super::rare::{Rare, Rares};
use super::sync::{Patience, Word, fence};
use super::v6_addrs::V6Addrs;
use super::who::Who;
use super::words::{Words, halves32};
use crate::tcp::Tcp;
use crate::{Direction, Memory, Tuple};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

/// What a connection begins with.
#[derive(Debug)]
pub(super) struct Entry {
    /// By [`Direction`].
    pub(super) tuples: [Words; 2],
    pub(super) tcp: Tcp,
    pub(super) mark: u32,
    pub(super) label: u128,
    /// In milliseconds.
    pub(super) start: u64,
    /// See [`Rare::master`].
    pub(super) master: Option<Tuple>,
    /// The port that it counts for.
    pub(super) port: Slot,
}

/// A place, for whoever may look at it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'a> {
    arena: &'a Arena,
    pub(super) hot: &'a Hot,
    pub(super) place: u32,
}

/// A place, locked.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    spot: Spot<'a>,
    held: Held<'a>,
}

impl<'a> Deref for Locked<'a> {
    type Target = Spot<'a>;

    #[inline]
    fn deref(&self) -> &Spot<'a> {
        &self.spot
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.spot.hot.lock.unlock(self.held.said);
    }
}

impl<'a> Locked<'a> {
    /// To write it.
    #[inline]
    pub(super) fn mine(&mut self) -> Mine<'_> {
        Mine::of(self.spot.hot)
    }

    /// A worker has come for a packet on the fast path, behind so many of its direction, and nobody
    /// owned the place: it does from here on, unless that had owners too often.
    #[inline]
    pub(super) fn claim(&mut self, who: Who, packets: u32) {
        self.held.said = self.held.said.renewed(packets).claimed(who);
    }

    /// A worker has come for a packet: nobody else owns the place from here on.
    #[inline]
    pub(super) fn leave_to(&mut self, who: Who) {
        self.held.said = self.held.said.left_to(who);
    }

    /// Everything of a new connection, which has no packets yet. Nobody is here before.
    pub(super) fn begin(&mut self, life: Life, entry: &Entry) {
        self.held.said = self.held.said.anew();
        self.mine().begin(&entry.tcp, entry.mark);
        self.cold().begin(entry, self.place, &self.arena.v6_addrs);
        if let Some(master) = entry.master {
            self.arena.rares.set(self.place, Rare { master: Some(master), skews: None });
            self.mine().set_life(life.with(Life::RARE));
        } else {
            self.mine().set_life(life);
        }
    }

    /// Everything of a connection that was one before, with what it counted by [`Direction`],
    /// packets modulo 2^48. Nobody is here before.
    pub(super) fn begin_again(
        &mut self,
        life: Life,
        entry: &Entry,
        [packets, bytes]: [[u64; 2]; 2],
        skews: Option<[Skew; 2]>,
    ) {
        self.begin(life, entry);
        let ([packets_high, packets], [bytes_high, bytes]) = (split(packets), split(bytes));
        self.mine().set_counts([packets, bytes]);
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2^48")]
        self.cold().set_high(packets_high.map(|high| high as u16), bytes_high);
        if skews.is_some() {
            self.arena.rares.set(self.place, Rare { master: entry.master, skews });
            self.mine().set_life(life.with(Life::RARE));
        }
    }

    /// Nobody is here any more. Returns the tuples.
    pub(super) fn end(&mut self) -> [Words; 2] {
        self.held.said = self.held.said.anew();
        if self.life().has(Life::RARE) {
            self.arena.rares.remove(self.place);
        }
        self.mine().set_life(Life::default());
        self.tuples()
    }

    /// Counts a packet of so many bytes. What is seldom written lies apart.
    #[inline]
    pub(super) fn count(&mut self, direction: Direction, len: u32) {
        let cold = self.cold();
        self.mine().count(direction, len, |over| cold.carry(direction, over));
    }

    pub(super) fn set_label(&mut self, label: u128) {
        self.cold().set_label(label);
    }

    /// Changes what it has in [`Rare::skews`].
    #[cold]
    pub(super) fn skew(&mut self, direction: Direction, change: impl FnOnce(&mut Skew)) {
        let mut rare = self.rare().unwrap_or_default();
        change(&mut rare.skews.get_or_insert_default()[direction as usize]);
        self.arena.rares.set(self.place, rare);
        let life = self.life().with(Life::RARE);
        self.mine().set_life(life);
    }
}

impl<'a> Spot<'a> {
    #[inline]
    pub(super) fn life(&self) -> Life {
        self.hot.life()
    }

    /// Somebody is there whose time is not over.
    pub(super) fn is_alive(&self, now: u64) -> bool {
        let life = self.life();
        life.has(Life::ALIVE) && life.expiry() > now
    }

    /// Unique among the living.
    pub(super) fn id(&self) -> u64 {
        u64::from(self.hot.generation()) << 32 | u64::from(self.place)
    }

    /// Packets by direction, modulo 2^48.
    pub(super) fn packets(&self) -> [u64; 2] {
        let high = self.cold().packets_high();
        let packets = self.hot.packets();
        std::array::from_fn(|i| u64::from(high[i]) << 32 | u64::from(packets[i]))
    }

    /// Their bytes.
    pub(super) fn bytes(&self) -> [u64; 2] {
        let high = self.cold().bytes_high();
        let bytes = self.hot.bytes();
        std::array::from_fn(|i| u64::from(high[i]) << 32 | u64::from(bytes[i]))
    }

    /// By [`Direction`].
    pub(super) fn tuples(&self) -> [Words; 2] {
        self.cold().tuples(&self.arena.v6_addrs)
    }

    /// Whether this is its tuple of a direction.
    #[inline]
    pub(super) fn is(&self, tuple: &Words, direction: Direction) -> bool {
        self.cold().is(tuple, direction, &self.arena.v6_addrs)
    }

    pub(super) fn label(&self) -> u128 {
        self.cold().label()
    }

    /// When it began, in milliseconds.
    pub(super) fn start(&self) -> u64 {
        self.cold().start()
    }

    /// See [`Rare::master`].
    pub(super) fn master(&self) -> Option<Tuple> {
        self.rare()?.master
    }

    /// See [`Rare::skews`].
    pub(super) fn skews(&self) -> Option<[Skew; 2]> {
        self.rare()?.skews
    }

    #[inline]
    fn rare(&self) -> Option<Rare> {
        if self.life().has(Life::RARE) { self.arena.rares.get(self.place) } else { None }
    }

    #[inline]
    pub(super) fn cold(&self) -> &'a Cold {
        &self.arena.cold[self.place as usize]
    }
}

/// High and low halves of both.
const fn split([original, reply]: [u64; 2]) -> [[u32; 2]; 2] {
    let ([original_high, original], [reply_high, reply]) = (halves32(original), halves32(reply));
    [[original_high, reply_high], [original, reply]]
}

/// All places of the table, allocated at start: a hot and a cold line for each, lines for addresses
/// of IPv6, and the few that have something rare.
#[derive(Debug)]
pub(super) struct Arena {
    hot: Box<[Hot]>,
    cold: Box<[Cold]>,
    v6_addrs: V6Addrs,
    rares: Rares,
    free: Free,
    sections: Arc<Sections>,
}

/// How often an owned place is read before it is taken from its owner for that.
const LOOKS: usize = 4;

/// Places that are taken from their owners together, at most.
pub(super) const DISOWNED_MAX: usize = 64;

impl Arena {
    pub(super) fn new<M: Memory>(places: u32) -> Self {
        Self {
            sections: Arc::default(),
            hot: M::slice(places as usize, Hot::default),
            cold: M::slice(places as usize, Cold::default),
            v6_addrs: V6Addrs::new::<M>(places),
            rares: Rares::default(),
            free: Free::new(places),
        }
    }

    /// Bytes that are taken: at start, and since then for IPv6.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.hot) + size_of_val(&*self.cold) + self.v6_addrs.memory() + self.free.memory()
    }

    pub(super) fn places(&self) -> &[Hot] {
        &self.hot
    }

    /// Where the owners of places are.
    pub(super) const fn sections(&self) -> &Arc<Sections> {
        &self.sections
    }

    /// A place, for whoever may look at it.
    #[inline]
    pub(super) fn spot(&self, place: u32) -> Spot<'_> {
        Spot { arena: self, hot: &self.hot[place as usize], place }
    }

    /// A place, locked. Outside of sections.
    #[inline]
    pub(super) fn lock(&self, place: u32) -> Locked<'_> {
        let spot = self.spot(place);
        Locked { spot, held: spot.hot.lock.lock(&self.sections) }
    }

    /// [`Self::lock`] with patience.
    pub(super) fn lock_with(&self, place: u32, patience: &mut Patience) -> Option<Locked<'_>> {
        let spot = self.spot(place);
        let held = spot.hot.lock.lock_with(&self.sections, patience)?;
        Some(Locked { spot, held })
    }

    /// [`Self::lock`] without waiting, if nobody has it. Inside of sections, too.
    #[inline]
    pub(super) fn try_lock(&self, place: u32) -> Option<Locked<'_>> {
        let spot = self.spot(place);
        let held = spot.hot.lock.try_lock()?;
        Some(Locked { spot, held })
    }

    /// Reads a place; if it is owned, without keeping its owner off it, unless that one changes it
    /// all the time: what is read twice, and was not locked meanwhile, was there between both
    /// readings. (A packet may be counted in part.)
    pub(super) fn look<T: PartialEq>(&self, place: u32, read: impl Fn(&Spot<'_>) -> T) -> T {
        let spot = self.spot(place);
        for _ in 0..LOOKS {
            let said = spot.hot.lock.read();
            if said.owner() == Who::NOBODY {
                break;
            }
            let once = read(&spot);
            fence(Acquire);
            let again = read(&spot);
            fence(Acquire);
            if once == again && spot.hot.lock.read() == said {
                return again;
            }
        }
        read(&self.lock(place))
    }

    /// Takes places ([`DISOWNED_MAX`] at most) from their owners, as their connections are to end:
    /// that is one wait for a section, not one for each. Those whose owner stays inside of one stay
    /// its own.
    pub(super) fn disown(&self, places: &[u32], patience: &mut Patience) {
        debug_assert!(places.len() <= DISOWNED_MAX);
        if places.is_empty() {
            return;
        }
        let mut taken: [Option<(&Lock, Held<'_>)>; DISOWNED_MAX] = [const { None }; DISOWNED_MAX];
        for (place, taken) in places.iter().zip(&mut taken) {
            let lock = &self.hot[*place as usize].lock;
            *taken = lock.take_from_owner().map(|held| (lock, held));
        }
        let owners = taken.iter().flatten().map(|(_, held)| held.said.owner());
        let outside = self.sections.wait_for_all(owners, patience);
        for (lock, held) in taken.iter().flatten() {
            let is_outside = outside & bit(held.said.owner()) != 0;
            lock.unlock(if is_outside { held.said.spent() } else { held.said });
        }
    }

    /// A free place, if there is one.
    pub(super) fn take(&self, worker: usize) -> Option<u32> {
        self.free.take(worker)
    }

    /// Gives places back.
    pub(super) fn give(&self, places: &[u32]) {
        for place in places {
            // It is still the caller's alone: who locks it late sees that nobody is there, and
            // looks at nothing else.
            if let Some(line) = self.cold[*place as usize].end() {
                self.v6_addrs.give(*place, line);
            }
        }
        self.free.give(places);
    }

    /// How often a place was taken.
    pub(super) fn taken(&self) -> u64 {
        self.free.taken()
    }

    /// The place that [`Self::take`] would give now, if nobody else is there; or none.
    #[inline]
    pub(super) fn next(&self, worker: usize) -> u32 {
        self.free.next(worker)
    }

    /// Of a place that is next: a word of its cold line, and one of the line that it gets if its
    /// connection is of IPv6, once there was one.
    #[inline]
    pub(super) fn apart(&self, place: u32) -> [Option<&Word>; 2] {
        [self.cold.get(place as usize).map(Cold::first_word), self.v6_addrs.next(place)]
    }

    /// How many places are free, about; see [`Free::room`].
    #[inline]
    pub(super) fn room(&self, worker: usize) -> u32 {
        self.free.room(worker)
    }

    /// How many places are free.
    pub(super) fn room_now(&self) -> u32 {
        self.free.room_now()
    }

    /// Free places.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// Lines that connections of IPv6 have.
    #[cfg(test)]
    pub(super) fn v6_addrs(&self) -> usize {
        self.v6_addrs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::cold::START_MAX;
    use super::*;
    use crate::{Family, Ordinary};
    use proptest::prelude::*;

    fn entry(tuples: [Tuple; 2]) -> Entry {
        let tuples = tuples.map(|tuple| Words::from(&tuple));
        let (label, start, port) = (u128::MAX / 3, START_MAX / 7, Slot(0x5a5a));
        Entry { tuples, tcp: Tcp::default(), mark: 1, label, start, master: None, port }
    }

    /// A packet on the fast path touches no other line of its connection.
    #[test]
    fn what_every_packet_touches_is_one_line() {
        let arena = Arena::new::<Ordinary>(3);
        for place in 0..3 {
            let locked = arena.lock(place);
            let line = std::ptr::from_ref(locked.hot).addr();
            assert!(line.is_multiple_of(64) && size_of_val(locked.hot) == 64, "{line:x}");
            assert_eq!(line, std::ptr::from_ref(&arena.hot[0]).addr() + 64 * place as usize, "side by side");
        }
    }

    proptest! {
        #[test]
        fn halves_of_counters_are_whole_counters(
            before: [u32; 2],
            packets in proptest::collection::vec((any::<bool>(), any::<u32>()), 0..20),
        ) {
            let arena = Arena::new::<Ordinary>(1);
            let mut locked = arena.lock(0);
            locked.begin(Life::default(), &entry([Tuple::default(); 2]));
            locked.mine().set_counts([[u32::MAX - 3, before[0]], before]);
            let mut expected = [locked.packets(), locked.bytes()];
            for (reply, len) in packets {
                let direction = if reply { Direction::Reply } else { Direction::Original };
                locked.count(direction, len);
                expected[0][direction as usize] += 1;
                expected[1][direction as usize] += u64::from(len);
            }
            prop_assert_eq!([locked.packets(), locked.bytes()], expected);
            let other = (locked.label(), locked.start(), locked.hot.mark());
            prop_assert_eq!(other, (u128::MAX / 3, START_MAX / 7, 1), "what lies beside is as it was");
            locked.begin(Life::default(), &entry([Tuple::default(); 2]));
            prop_assert_eq!([locked.packets(), locked.bytes()], [[0; 2]; 2], "of the next connection");
        }
    }

    /// A connection of any kind, translated to anything.
    fn any_entry() -> impl Strategy<Value = Entry> {
        let ends = (any::<[u128; 4]>(), any::<[u16; 4]>(), 0..=128_u32);
        let rest = (any::<bool>(), any::<u8>(), any::<u16>());
        let own = (any::<u32>(), any::<u128>(), any::<(u64, bool, u16)>(), any::<bool>());
        (ends, rest, own).prop_map(|((addr, port, bits), (v6, protocol, zone), (mark, label, start, expected))| {
            // Most of IPv4 have addresses of IPv4; that no caller says anything else is not what
            // the table relies on.
            let bits = if v6 { 128 } else { bits.saturating_sub(64).max(32) };
            let end = |i: usize| crate::End { addr: addr[i] >> (128 - bits), port: port[i] };
            let family = if v6 { Family::V6 } else { Family::V4 };
            let tuple = |src, dst| Tuple { src: end(src), dst: end(dst), family, protocol, zone };
            let mut entry = entry([tuple(0, 1), tuple(2, 3)]);
            let (start, before, port) = start;
            let start = start % (START_MAX + 1);
            (entry.mark, entry.label, entry.port) = (mark, label, Slot(port));
            entry.start = if before { start.wrapping_neg() } else { start };
            entry.master = expected.then(|| tuple(3, 0));
            entry
        })
    }

    proptest! {
        /// Connections of both families come and go in a table with few places: each is what it was
        /// written as, whoever else is there, and nothing is lost.
        #[test]
        fn connections_are_what_they_were_written_as(
            steps in proptest::collection::vec((any_entry(), any::<prop::sample::Index>(), 0..4_u8), 1..120),
        ) {
            let places = 40;
            let arena = Arena::new::<Ordinary>(places);
            let mut there: Vec<(u32, Entry)> = Vec::new();
            let mut most_v6 = 0;
            for (entry, which, step) in steps {
                if step == 0 && !there.is_empty() {
                    let (place, entry) = there.swap_remove(which.index(there.len()));
                    let mut locked = arena.lock(place);
                    prop_assert_eq!(locked.end(), entry.tuples);
                    prop_assert_eq!((locked.master(), locked.life()), (None, Life::default()));
                    drop(locked);
                    arena.give(&[place]);
                } else if let Some(place) = arena.take(which.index(16)) {
                    let mut locked = arena.lock(place);
                    locked.begin(Life::new(None, None), &entry);
                    locked.count(Direction::Reply, 9);
                    there.push((place, entry));
                } else {
                    prop_assert_eq!(there.len(), places as usize, "no place");
                }
                for (place, entry) in &there {
                    let locked = arena.lock(*place);
                    prop_assert_eq!(locked.tuples(), entry.tuples);
                    let same = (locked.hot.mark(), locked.label(), locked.start(), locked.master());
                    prop_assert_eq!(same, (entry.mark, entry.label, entry.start, entry.master));
                    prop_assert_eq!(locked.cold().port(), entry.port);
                    prop_assert_eq!((locked.packets(), locked.bytes()), ([0, 1], [0, 9]));
                    let [original, reply] = entry.tuples;
                    prop_assert!(locked.is(&original, Direction::Original) && locked.is(&reply, Direction::Reply));
                    prop_assert_eq!(locked.is(&reply, Direction::Original), original == reply);
                    prop_assert_eq!(locked.is(&original, Direction::Reply), original == reply);
                    // Bits 1 to 7 of the last word are nothing's.
                    let bit = (which.index(313) + 264) % 320;
                    prop_assert!(!locked.is(&original.flipped(bit), Direction::Original), "bit {bit}");
                    prop_assert!(!locked.is(&reply.flipped(bit), Direction::Reply), "bit {bit}");
                }
                let v6 = there.iter().filter(|(_, entry)| entry.tuples.iter().any(|tuple| tuple.narrow().is_none()));
                most_v6 = most_v6.max(v6.clone().count());
                prop_assert_eq!((arena.v6_addrs(), arena.free()), (v6.count(), places as usize - there.len()));
                prop_assert_eq!(arena.rares.len(), there.iter().filter(|(_, entry)| entry.master.is_some()).count());
            }
            prop_assert!(arena.memory() >= 64 * (2 * places as usize + most_v6));
        }
    }
}
