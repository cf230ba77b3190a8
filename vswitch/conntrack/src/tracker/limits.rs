//! Zones: how many connections each has and may have, and how long they live.

use super::sync::size;
use crate::{Class, Policy};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// Limits of zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// For zones without one of their own; none: unlimited.
    pub default: Option<u32>,
}

/// A zone with its limit and number of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneCount {
    /// The zone.
    pub zone: u16,
    /// Its own limit.
    pub limit: Option<u32>,
    /// Connections.
    pub count: u32,
}

/// No limit, no timeout of its own.
const NONE: u64 = u64::MAX;

/// The longest timeout, in milliseconds: with it, a clock that does not run for a million years
/// stays within the bits of [`super::life::Life`].
pub(super) const TIMEOUT_MAX: u64 = u64::MAX >> 9;

#[derive(Debug)]
struct Zone {
    count: AtomicU32,
    limit: AtomicU64,
}

/// Timeouts by class; [`NONE`]: the default one. Allocated when the zone first gets a policy.
type Timeouts = OnceLock<Box<[AtomicU64; CLASSES]>>;

const CLASSES: usize = size_of::<Policy>() / size_of::<u64>();

/// Zones that there are.
const ZONES: usize = size(1 << 16, 1);

/// Zones of one word of [`Zones::waiting`].
const BITS: usize = 64;

/// All zones.
#[derive(Debug)]
pub(super) struct Zones {
    zones: Box<[Zone]>,
    /// Apart from the counts, which change all the time.
    policies: Box<[Timeouts]>,
    /// Some zone has, or had, timeouts of its own.
    with_policies: AtomicBool,
    /// A bit for each: established means answered ([`Zones::waits_for_answer`]).
    waiting: Box<[AtomicU64]>,
    limit: AtomicU64,
    timeouts: Policy,
}

impl Zones {
    pub(super) fn new() -> Self {
        let zone = || Zone { count: AtomicU32::new(0), limit: AtomicU64::new(NONE) };
        Self {
            zones: std::iter::repeat_with(zone).take(ZONES).collect(),
            policies: std::iter::repeat_with(Timeouts::new).take(ZONES).collect(),
            with_policies: AtomicBool::new(false),
            waiting: std::iter::repeat_with(AtomicU64::default).take(ZONES.div_ceil(BITS)).collect(),
            limit: AtomicU64::new(NONE),
            timeouts: Policy::default(),
        }
    }

    /// Bytes.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.zones) + size_of_val(&*self.policies) + size_of_val(&*self.waiting)
    }

    /// Counts one more connection, unless the zone is at its limit.
    #[must_use]
    pub(super) fn enter(&self, zone: u16) -> bool {
        let zone = &self.zones[usize::from(zone)];
        let limit = match zone.limit.load(Relaxed) {
            NONE => self.limit.load(Relaxed),
            own => own,
        };
        if limit == NONE {
            zone.count.fetch_add(1, AcqRel);
            return true;
        }
        let more = |count: u32| (u64::from(count) < limit).then_some(count + 1);
        zone.count.fetch_update(AcqRel, Acquire, more).is_ok()
    }

    /// Counts one more connection, whatever the limit is: it was there before.
    pub(super) fn enter_anyway(&self, zone: u16) {
        self.zones[usize::from(zone)].count.fetch_add(1, AcqRel);
    }

    /// Counts so many less.
    pub(super) fn leave(&self, zone: u16, connections: usize) {
        // No more than there are, which is a number of 32 bits.
        #[expect(clippy::cast_possible_truncation, reason = "see above")]
        self.zones[usize::from(zone)].count.fetch_sub(connections as u32, AcqRel);
    }

    /// Milliseconds that a connection in such a state lives without packets, [`TIMEOUT_MAX`] at
    /// most.
    #[inline]
    pub(super) fn timeout(&self, zone: u16, class: Class) -> u64 {
        if self.with_policies.load(Acquire) { self.timeout_of(zone, class) } else { self.timeouts.get(class) }
    }

    /// [`Self::timeout`], where zones have their own.
    fn timeout_of(&self, zone: u16, class: Class) -> u64 {
        match self.policies[usize::from(zone)].get().map(|own| own[class as usize].load(Relaxed)) {
            None | Some(NONE) => self.timeouts.get(class),
            Some(own) => own,
        }
    }

    /// Whether what nobody has answered yet is new there, not established. Asked of segments of
    /// unanswered connections only.
    pub(super) fn waits_for_answer(&self, zone: u16) -> bool {
        let (word, bit) = waiting(zone);
        self.waiting[word].load(Relaxed) & bit != 0
    }

    pub(super) fn set_waits_for_answer(&self, zone: u16, waits: bool) {
        let (word, bit) = waiting(zone);
        if waits {
            self.waiting[word].fetch_or(bit, Relaxed);
        } else {
            self.waiting[word].fetch_and(!bit, Relaxed);
        }
    }

    /// In the order of their numbers.
    pub(super) fn that_wait(&self) -> Vec<u16> {
        (0..=u16::MAX).zip(0..ZONES).map(|(zone, _)| zone).filter(|zone| self.waits_for_answer(*zone)).collect()
    }

    pub(super) fn set_default_limit(&self, limit: Option<u32>) {
        self.limit.store(limit.map_or(NONE, u64::from), Release);
    }

    pub(super) fn set_limit(&self, zone: u16, limit: Option<u32>) {
        self.zones[usize::from(zone)].limit.store(limit.map_or(NONE, u64::from), Release);
    }

    pub(super) fn limits(&self) -> (Limits, Vec<ZoneCount>) {
        let zones = (0..=u16::MAX).zip(&self.zones).map(|(number, zone)| ZoneCount {
            zone: number,
            limit: limit(&zone.limit),
            count: zone.count.load(Acquire),
        });
        let shown = zones.filter(|zone| zone.limit.is_some() || zone.count > 0).collect();
        (Limits { default: limit(&self.limit) }, shown)
    }

    pub(super) fn set_policy(&self, zone: u16, policy: Option<Policy>) {
        let cell = &self.policies[usize::from(zone)];
        if policy.is_none() && cell.get().is_none() {
            return;
        }
        let own = cell.get_or_init(|| Box::new(std::array::from_fn(|_| AtomicU64::new(NONE))));
        self.with_policies.store(true, Release);
        for (i, timeout) in own.iter().enumerate() {
            timeout.store(policy.map_or(NONE, |policy| policy.0[i].min(TIMEOUT_MAX)), Release);
        }
    }

    pub(super) fn policies(&self) -> Vec<(u16, Policy)> {
        let own = |timeouts: &Timeouts| {
            let timeouts = timeouts.get()?;
            let policy = Policy(std::array::from_fn(|i| timeouts[i].load(Acquire)));
            (policy.0[0] != NONE).then_some(policy)
        };
        (0..=u16::MAX).zip(&self.policies).filter_map(|(number, timeouts)| Some((number, own(timeouts)?))).collect()
    }
}

/// Word and bit of a zone in [`Zones::waiting`].
fn waiting(zone: u16) -> (usize, u64) {
    (usize::from(zone) / BITS, 1 << (usize::from(zone) % BITS))
}

fn limit(word: &AtomicU64) -> Option<u32> {
    u32::try_from(word.load(Acquire)).ok()
}
