//! Looking up a burst: what is done for all of its packets at once only reads, and asks for what
//! will be read next.

use crate::cache::fast::compact::CompactKind;
use crate::cache::fast::exact::{Entry, Exact, NOWHERE, RareProgram};
use crate::cache::fast::path::{Macs, Path};
use crate::cache::fast::program::{AnyProgram, Fused, Rare};
use crate::cache::fast::recorder::Recording;
use crate::cache::{Cache, CacheShared, Compact, Megaflow};
use crate::limits::BURST;
use crate::observe::Fallback;
use crate::pipeline::World;
use crate::port::PortId;
use crate::time::Millis;
use std::sync::Arc;
use vswitch_conntrack::Tracker;
use vswitch_dpdk::{Burst, Mbuf, prefetch};

impl Cache {
    /// Makes the compact keys of a burst, unless nothing is `cached`. Returns the bytes of all
    /// packets, and of how many the longest is, where a packet of less than `least` bytes is longer
    /// than any.
    #[inline(never)] // registers of its own
    pub(crate) fn prepare(&mut self, burst: &Burst, port: PortId, least: usize, cached: bool) -> (u64, usize) {
        if std::mem::take(&mut self.one)
            && cached
            && burst.len() > FEW
            && let Some(sums) = self.prepare_repeats(burst, port, least)
        {
            return sums;
        }
        let Self { keys, seeds, .. } = self;
        let (mut kinds, came) = (0, seeds.came(port, 0));
        let sums = of_packets(&mut keys[..], burst, least, |key, mbuf| {
            if cached {
                key.read(mbuf, &came, seeds);
            } else {
                key.kind = CompactKind::None;
            }
            kinds |= key.kind as u8;
        });
        self.kinds = kinds;
        sums
    }

    /// Behind the making of a burst's keys, one by one.
    #[inline]
    pub(in crate::cache) fn note_kinds(&mut self, burst: &Burst) {
        self.one = false;
        self.kinds = of_burst(&mut self.keys, burst).iter().fold(0, |kinds, key| kinds | key.kind as u8);
    }

    /// Finds the keys of a burst, and asks for what they lead to. Good until an entry changes.
    /// Returns whether there are some that are nowhere.
    #[inline]
    pub(crate) fn locate(&mut self, burst: &Burst, tracker: &Tracker) -> bool {
        self.located = self.version;
        let kinds = std::mem::take(&mut self.kinds);
        let Self { v4, v6, keys, one, .. } = self;
        let keys = of_burst(keys, burst);
        let missing = match kinds {
            V4_ONLY => locate_all(v4, keys, one, tracker),
            V6_ONLY => locate_all(v6, keys, one, tracker),
            _ => locate_mixed(v4, v6, keys, tracker),
        };
        missing && self.locate_others(burst, tracker)
    }

    /// Of the keys that were not where they were thought to be.
    #[inline(never)] // the loop of those that are keeps its registers
    fn locate_others(&mut self, burst: &Burst, tracker: &Tracker) -> bool {
        let Self { v4, v6, keys, .. } = self;
        let mut missing = false;
        for key in of_burst(keys, burst).iter_mut().filter(|key| key.found == NOWHERE) {
            key.found = find(v4, v6, key);
            if key.found == NOWHERE {
                missing = true;
            } else {
                approach(v4, v6, key, tracker);
            }
        }
        missing
    }

    #[inline]
    fn found(&self, key: &Compact) -> u32 {
        if self.is_located() { key.found } else { self.find(key) }
    }

    #[inline]
    pub(in crate::cache) fn exact(&self, key: &Compact) -> Option<&Arc<Megaflow>> {
        match key.kind {
            CompactKind::V4 => self.v4.get(self.found(key)),
            CompactKind::V6 => self.v6.get(self.found(key)),
            CompactKind::None => None,
        }
    }

    #[cold]
    pub(in crate::cache) fn find(&self, key: &Compact) -> u32 {
        find(&self.v4, &self.v6, key)
    }

    /// The megaflow of slot `i` of a burst, if it is good without a second look.
    #[inline]
    pub(crate) fn hit(&self, i: usize) -> Option<&Arc<Megaflow>> {
        let megaflow = self.exact(self.keys.get(i)?)?;
        (megaflow.hot.tick.get() == self.tick).then_some(megaflow)
    }

    /// The megaflow of a compact key of the burst, if it is good after a second look.
    pub(crate) fn second_look(&mut self, key: &Compact, world: &World, now: Millis) -> Option<Arc<Megaflow>> {
        self.outdated = false;
        let megaflow = Arc::clone(self.exact(key)?);
        self.is_good(&megaflow, world, now).then_some(megaflow)
    }

    /// The program of a key of the burst, if there is one. Whether its path is good is for
    /// [`Cache::is_current`] to say.
    #[inline]
    pub(crate) fn program(&self, key: &Compact) -> Option<AnyProgram<'_>> {
        match key.kind {
            CompactKind::V4 => Some(AnyProgram::V4(self.v4.entry(self.found(key))?.program()?)),
            CompactKind::V6 => Some(AnyProgram::V6(self.v6.entry(self.found(key))?.program()?)),
            CompactKind::None => None,
        }
    }

    /// Whether what was found of the burst's keys is still there.
    #[inline]
    pub(crate) const fn is_located(&self) -> bool {
        self.located == self.version
    }

    /// Whether a key has a program, as far as it was located.
    #[inline]
    pub(crate) fn has_located_program(&self, key: &Compact) -> bool {
        match key.kind {
            CompactKind::V4 => self.located_v4(key).is_some_and(Entry::has_program),
            CompactKind::V6 => self.located_v6(key).is_some_and(Entry::has_program),
            CompactKind::None => false,
        }
    }

    /// What was found of a key of IPv4, while it [is there](Self::is_located).
    #[inline]
    pub(crate) fn located_v4(&self, key: &Compact) -> Option<&Entry<4>> {
        self.v4.entry(key.found)
    }

    /// Likewise, of IPv6.
    #[inline]
    pub(crate) fn located_v6(&self, key: &Compact) -> Option<&Entry<16>> {
        self.v6.entry(key.found)
    }

    /// A packet takes a path that has effects to carry out ([`Path::has_due_effects`]): that may
    /// change something for the next one.
    #[cold]
    pub(crate) fn carry_effects(&self, path: &Path, world: &World, now: Millis) {
        // Paths share megaflows.
        for megaflow in path.steps().filter(|megaflow| megaflow.used() != now) {
            self.effects(megaflow, world, now);
            megaflow.used_too(now);
        }
    }

    /// Whether all decisions of a path are good without a second look.
    #[inline]
    pub(crate) fn is_current(&self, path: &Path) -> bool {
        path.hot.stamp.get() == self.stamp || self.is_current_now(path)
    }

    #[cold]
    fn is_current_now(&self, path: &Path) -> bool {
        let current = path.steps().all(|megaflow| megaflow.hot.tick.get() == self.tick);
        if current {
            path.hot.stamp.set(self.stamp);
        }
        current
    }

    /// A packet with a compact key, decided by a megaflow that leads to others, sets out.
    /// `direct`: it is as it came in, and did not come out of a tunnel.
    pub(crate) fn begin_recording(&mut self, key: &Compact, mbuf: &Mbuf, megaflow: &Arc<Megaflow>, direct: bool) {
        if key.opens(mbuf.head()) {
            self.count_fallback(Fallback::Untracked);
            if direct && key.is_first(mbuf.head()) && self.wants_template() {
                self.recorder.begin_template(megaflow);
            }
        } else if key.is_plain() && self.enabled {
            self.recorder.begin(mbuf, megaflow);
        }
    }

    /// It is where it was to go: keeps a program if one can be made of its way.
    pub(crate) fn end_recording(&mut self, key: &Compact) {
        if !self.recorder.is_on() {
            return;
        }
        if self.recorder.is_of_template() {
            let steps: Vec<_> = self.recorder.end_template().unwrap_or_default().to_vec();
            self.recorder.forget();
            return self.keep_template(&steps, key.is_v6());
        }
        let made = match self.recorder.end() {
            Ok(recording) => make(&recording, key, &mut self.paths, &self.shared),
            Err(why) => Err(why),
        };
        match made {
            Ok(made) => {
                self.version += 1;
                match made {
                    Made::V4(entry) => self.v4.insert(key, entry),
                    Made::V6(entry) => self.v6.insert(key, entry),
                }
            }
            Err(why) => self.count_fallback(why),
        }
        self.recorder.forget();
    }

    /// A packet took the slow path.
    pub(crate) fn count_fallback(&self, why: Fallback) {
        self.shared.stats.fallbacks[why as usize].add(1);
    }
}

/// Makes the key of each packet of a burst. Returns the bytes of all packets, and of how many the
/// longest is, where a packet of less than `least` bytes is longer than any.
#[inline(always)] // the loop over a burst
pub(in crate::cache) fn of_packets(
    keys: &mut [Compact],
    burst: &Burst,
    least: usize,
    mut make: impl FnMut(&mut Compact, &Mbuf),
) -> (u64, usize) {
    let (mut bytes, mut most) = (0, 0);
    for (key, slot) in keys.iter_mut().zip(burst.slots()) {
        let Some(mbuf) = slot else {
            debug_assert!(false, "an empty slot in a burst that has come in");
            continue;
        };
        let len = mbuf.len();
        bytes += len as u64;
        most = most.max(len.wrapping_sub(least));
        make(key, mbuf);
    }
    (bytes, most.saturating_add(least))
}

/// A burst of so many packets has none that repeat others.
const FEW: usize = 2;

/// The keys of a burst are of IPv4, all of them.
const V4_ONLY: u8 = CompactKind::V4 as u8;

/// Likewise of IPv6.
const V6_ONLY: u8 = CompactKind::V6 as u8;

type V4 = Exact<4>;
type V6 = Exact<16>;

/// The keys of a burst.
#[inline]
fn of_burst<'a>(keys: &'a mut [Compact; BURST], burst: &Burst) -> &'a mut [Compact] {
    &mut keys[..burst.len().min(BURST)]
}

/// Where a key is.
fn find(v4: &V4, v6: &V6, key: &Compact) -> u32 {
    match key.kind {
        CompactKind::V4 => v4.find(key),
        CompactKind::V6 => v6.find(key),
        CompactKind::None => NOWHERE,
    }
}

/// [`Cache::locate`], of keys of one family; but for those that are not where they are thought to
/// be. Returns whether there are such. `one`: it is known that the keys are one; afterwards,
/// whether they are.
#[inline(always)] // the front of every burst
fn locate_all<const A: usize>(cache: &Exact<A>, keys: &mut [Compact], one: &mut bool, tracker: &Tracker) -> bool {
    *one = *one || are_one(keys);
    if *one {
        return locate_one(cache, keys, tracker);
    }
    // Each in a loop of its own: a core that keeps a prefetch until it has the page's address can
    // ask for as many at a time as there are among the instructions that it looks ahead at. Between
    // the makings of keys those are two or three.
    keys.iter().for_each(|key| cache.prefetch(key));
    keys.iter_mut().for_each(|key| key.found = cache.guess(key));
    let mut missing = false;
    for key in keys {
        if cache.is_at(key.found, key) {
            prefetch_place(tracker, cache.approach(key.found));
        } else {
            missing = true;
            key.found = NOWHERE;
        }
    }
    missing
}

/// The whole burst is of one connection, in one direction.
#[inline(always)] // as above: most others are told by their second packet
fn are_one(keys: &[Compact]) -> bool {
    keys.split_first().is_some_and(|(first, others)| others.iter().all(|key| key.tag == first.tag))
}

/// [`locate_all`], of keys that are one.
#[inline(never)]
fn locate_one<const A: usize>(cache: &Exact<A>, keys: &mut [Compact], tracker: &Tracker) -> bool {
    let Some(key) = keys.first() else { return false };
    let place = cache.guess(key);
    let right = cache.is_at(place, key);
    if right {
        prefetch_place(tracker, cache.approach(place));
    }
    let found = if right { place } else { NOWHERE };
    keys.iter_mut().for_each(|key| key.found = found);
    !right
}

/// [`locate_all`], of any keys.
#[inline(never)]
fn locate_mixed(v4: &V4, v6: &V6, keys: &mut [Compact], tracker: &Tracker) -> bool {
    for key in &*keys {
        match key.kind {
            CompactKind::V4 => v4.prefetch(key),
            CompactKind::V6 => v6.prefetch(key),
            CompactKind::None => {}
        }
    }
    for key in &mut *keys {
        key.found = match key.kind {
            CompactKind::V4 => v4.guess(key),
            CompactKind::V6 => v6.guess(key),
            CompactKind::None => NOWHERE,
        };
    }
    let mut missing = false;
    for key in keys {
        let right = match key.kind {
            CompactKind::V4 => v4.is_at(key.found, key),
            CompactKind::V6 => v6.is_at(key.found, key),
            CompactKind::None => false,
        };
        if right {
            approach(v4, v6, key, tracker);
        } else {
            missing = true;
            key.found = NOWHERE;
        }
    }
    missing
}

/// Asks for what a key that was found leads to, and for the place of its connection.
#[inline]
fn approach(v4: &V4, v6: &V6, key: &Compact, tracker: &Tracker) {
    let place = match key.kind {
        CompactKind::V4 => v4.approach(key.found),
        CompactKind::V6 => v6.approach(key.found),
        CompactKind::None => None,
    };
    prefetch_place(tracker, place);
}

#[inline]
fn prefetch_place(tracker: &Tracker, place: Option<u32>) {
    if let Some(word) = place.and_then(|place| tracker.word_at(place)) {
        prefetch(word);
    }
}

enum Made {
    V4(Entry<4>),
    V6(Entry<16>),
}

/// Makes a program.
fn make(
    recording: &Recording<'_>,
    key: &Compact,
    paths: &mut crate::cache::Paths,
    shared: &CacheShared,
) -> Result<Made, Fallback> {
    match key.kind {
        CompactKind::V4 => Ok(Made::V4(program(recording, key, paths, shared)?)),
        CompactKind::V6 => Ok(Made::V6(program(recording, key, paths, shared)?)),
        CompactKind::None => Err(Fallback::Shape),
    }
}

fn program<const A: usize>(
    recording: &Recording<'_>,
    key: &Compact,
    paths: &mut crate::cache::Paths,
    shared: &CacheShared,
) -> Result<Entry<A>, Fallback> {
    let Recording { steps, links, out, before, after, partial } = *recording;
    let Some((link, _)) = links.first().copied() else { return Err(Fallback::Shape) };
    let straight = out != PortId::NONE;
    let fused = straight.then(|| Fused::between(before, after, key.layers(), partial)).flatten();
    if let (Some((macs, fused)), [_]) = (fused, links)
        && paths.may_vary(steps, macs)
    {
        let path = paths.intern(steps, out, macs, shared).ok_or(Fallback::Uncached)?;
        return Ok(Entry::Program { path, link, fused });
    }
    let path = paths.intern(steps, out, Macs::default(), shared).ok_or(Fallback::Uncached)?;
    let rare = Rare { links: links.into(), fused: fused.is_some() };
    let (macs, fused) = fused.unwrap_or_default();
    Ok(Entry::Rare { first: link.place(), program: Box::new(RareProgram { path, rare, fused, macs }) })
}
