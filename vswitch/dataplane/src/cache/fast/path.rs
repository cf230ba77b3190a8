//! Paths: the decisions that a packet takes from its port to its last output, one per stage.
//!
//! A path is shared by all connections that take it with the same MAC addresses in the end, and is
//! as good as its megaflows. It dies with any of them.
//!
//! **What a packet costs here** does not hang on the number of stages: that all megaflows are good
//! is one compare ([`crate::cache::Cache`]'s stamp, which rises whenever one of them might not be),
//! and the packet is counted once, by the path; those that take it one after the other are asked
//! about and counted together (`worker/fast/replay.rs`, `Taken`). The control side credits what a
//! path counted to what its megaflows count ([`crate::cache::Collector`]).

use crate::action::{EncapOp, Op};
use crate::cache::{CacheShared, Megaflow};
use crate::limits::{PATH_VARIANTS_MAX as VARIANTS_MAX, PATHS_MAX};
use crate::observe::Counter;
use crate::port::PortId;
use crate::time::Millis;
use foldhash::fast::RandomState;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Paths that may wait to be freed by the control side, for each one that may be kept.
const OUTSTANDING_FACTOR: usize = 4;

/// Paths that are looked at for one that need not be found any more.
const HIDING_SEARCH: usize = 16;

/// Decisions of a path.
pub(in crate::cache) const STEPS_MAX: usize = 6;

/// Destination and source, as in a frame.
pub(in crate::cache) type Macs = [u8; 12];

/// The chain of megaflows that a packet takes, one per stage, with counters of its own.
#[derive(Debug)]
#[repr(C)]
pub struct Path {
    pub(in crate::cache) hot: Hot,
    steps: [Option<Arc<Megaflow>>; STEPS_MAX],
}

/// The words that every packet touches: one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(in crate::cache) struct Hot {
    /// Stamp of the cache at which all its megaflows were last found good.
    pub(in crate::cache) stamp: Counter,
    packets: Counter,
    bytes: Counter,
    /// Milliseconds of the last packet.
    used_ms: Counter,
    /// The port to which its only output goes, if all else that it does is to rewrite headers; else
    /// [`PortId::NONE`].
    out: PortId,
    has_effects: bool,
    /// In between it puts the packet into this tunnel.
    encap: Option<Arc<EncapOp>>,
    /// Those that its packets leave with, if there is such a port.
    pub(in crate::cache) macs: Macs,
}

const _: () = assert!(size_of::<Hot>() == 64);

impl Path {
    fn new(steps: &[Arc<Megaflow>], out: PortId, macs: Macs) -> Self {
        let zero = Counter::default;
        let has_effects = steps.iter().any(|megaflow| megaflow.has_effects());
        let last = steps.last().filter(|_| out != PortId::NONE);
        let encap = last.and_then(|megaflow| encapsulation(megaflow)).cloned();
        let hot = Hot { stamp: zero(), packets: zero(), bytes: zero(), used_ms: zero(), out, has_effects, encap, macs };
        Self { hot, steps: std::array::from_fn(|i| steps.get(i).cloned()) }
    }

    /// Counts a packet, at each of its megaflows. The one worker that has it.
    #[inline]
    pub fn count(&self, bytes: u64, now: Millis) {
        self.add(1, bytes);
        self.hot.used_ms.set(now.0);
    }

    /// Counts more packets of a millisecond of which one was [counted](Self::count).
    #[inline]
    pub(crate) fn add(&self, packets: u64, bytes: u64) {
        self.hot.packets.add(packets);
        self.hot.bytes.add(bytes);
    }

    /// Packets so far, their bytes.
    pub(in crate::cache) fn counted(&self) -> (u64, u64) {
        (self.hot.packets.get(), self.hot.bytes.get())
    }

    /// When the last one came.
    #[inline]
    #[must_use]
    pub fn used(&self) -> Millis {
        Millis(self.hot.used_ms.get())
    }

    /// Its packets cause more than ops, once a millisecond, and this is the first one of this one.
    #[inline]
    #[must_use]
    pub fn has_due_effects(&self, now: Millis) -> bool {
        self.hot.has_effects && self.used() != now
    }

    /// Its megaflows, in order.
    #[inline]
    pub fn steps(&self) -> impl Iterator<Item = &Arc<Megaflow>> {
        self.steps.iter().map_while(Option::as_ref)
    }

    /// The megaflow of a stage.
    #[inline]
    #[must_use]
    pub fn step(&self, i: usize) -> Option<&Arc<Megaflow>> {
        self.steps.get(i)?.as_ref()
    }

    /// See [`Path`].
    #[inline]
    #[must_use]
    pub const fn out(&self) -> PortId {
        self.hot.out
    }

    /// The tunnel into which its packets are put, between the change of their headers and their
    /// output; none if they are not.
    #[inline]
    #[must_use]
    pub fn encapsulation(&self) -> Option<&EncapOp> {
        self.hot.encap.as_deref()
    }

    /// One of its megaflows was ended.
    pub(in crate::cache) fn is_dead(&self) -> bool {
        self.steps().any(|megaflow| megaflow.is_dead())
    }
}

/// The tunnel that a decision's only output goes through, if what is outside stays as it is made.
fn encapsulation(megaflow: &Megaflow) -> Option<&Arc<EncapOp>> {
    match megaflow.ops() {
        [.., Op::Encap(op), Op::Output(_)] => Some(op),
        _ => None,
    }
}

/// Whether a packet that took these steps, and met so many `ct()`, can have taken them one after
/// the other: each one ends where the next begins. A `ct()` is asked before anything is done, so
/// what the packet may die of, and what changes its length, must not come before one. Returns the
/// port as [`Path::out`] has it.
pub(in crate::cache) fn shape(steps: &[Arc<Megaflow>], links: usize) -> Option<PortId> {
    let mut left = links;
    let mut out = PortId::NONE;
    let (mut straight, mut settled) = (true, false);
    for (i, megaflow) in steps.iter().enumerate() {
        let last = i + 1 == steps.len();
        straight &= megaflow.drop_reason().is_none();
        let mut forked = false;
        for (at, op) in megaflow.ops().iter().enumerate() {
            let ends = at + 1 == megaflow.ops().len();
            match op {
                Op::Ct(_) if settled => return None,
                Op::Ct(ct) => {
                    left = left.checked_sub(1)?;
                    forked = ct.stage.is_some();
                    // A copy goes on, or the list does.
                    if forked && !ends {
                        return None;
                    }
                }
                Op::PacketIn(_) => return None,
                // Nothing else happens to what is outside but that it leaves.
                Op::Encap(_) => (straight, settled) = (straight && last && at + 2 == megaflow.ops().len(), true),
                Op::Meter(_) | Op::PushVlan { .. } | Op::PopVlan => (straight, settled) = (false, true),
                // What a packet met itself it is to take back; what it was when it came in, only
                // the slow path knows.
                op if op.recirculates() || op.takes_back() || op.refuses() => return None,
                Op::Output(port) if ends && last => out = *port,
                Op::SetEth(_) | Op::SetIpv4(_) | Op::SetIpv6(_) | Op::SetPorts(_) | Op::CtClear => {}
                _ => straight = false,
            }
        }
        if forked == last {
            return None;
        }
    }
    (left == 0).then_some(if straight { out } else { PortId::NONE })
}

/// Megaflows of a path, by where they lie; 0: none.
type Steps = [usize; STEPS_MAX];

/// And what it writes.
type Key = (Steps, Macs);

fn places(steps: &[Arc<Megaflow>]) -> Steps {
    std::array::from_fn(|i| steps.get(i).map_or(0, |megaflow| Arc::as_ptr(megaflow).addr()))
}

/// All paths of a worker.
#[derive(Debug, Default)]
pub(in crate::cache) struct Paths {
    by_steps: HashMap<Key, Arc<Path>, RandomState>,
    /// How many of them have the same steps, and other MAC addresses.
    variants: HashMap<Steps, usize, RandomState>,
    /// Those that there are, whether they can still be found or only programs have them, in the
    /// order in which they are looked at next.
    all: VecDeque<(Key, Arc<Path>)>,
}

impl Paths {
    /// Whether there may be a path that writes MAC addresses that no other one of these steps does:
    /// whoever varies them is to have few paths.
    pub(in crate::cache) fn may_vary(&self, steps: &[Arc<Megaflow>], macs: Macs) -> bool {
        let steps = places(steps);
        self.variants.get(&steps).is_none_or(|n| *n < VARIANTS_MAX) || self.by_steps.contains_key(&(steps, macs))
    }

    /// The path of these steps, at most [`STEPS_MAX`]. When there are too many another one cannot
    /// be found any more: programs that have it keep it. None: there are too many all the same.
    pub(in crate::cache) fn intern(
        &mut self,
        steps: &[Arc<Megaflow>],
        out: PortId,
        macs: Macs,
        shared: &CacheShared,
    ) -> Option<Arc<Path>> {
        let key = (places(steps), macs);
        if let Some(path) = self.by_steps.get(&key) {
            return Some(Arc::clone(path));
        }
        if shared.outstanding_paths() >= (PATHS_MAX * OUTSTANDING_FACTOR) as u64 {
            return None;
        }
        if self.by_steps.len() >= PATHS_MAX && !self.hide_one() {
            return None;
        }
        let path = Arc::new(Path::new(steps, out, macs));
        shared.add_path(Arc::clone(&path));
        *self.variants.entry(key.0).or_default() += 1;
        self.by_steps.insert(key, Arc::clone(&path));
        self.all.push_back((key, Arc::clone(&path)));
        Some(path)
    }

    /// One of the next few cannot be found any more.
    fn hide_one(&mut self) -> bool {
        for _ in 0..HIDING_SEARCH.min(self.all.len()) {
            self.all.rotate_left(1);
            if let Some((key, path)) = self.all.back()
                && self.by_steps.get(key).is_some_and(|found| Arc::ptr_eq(found, path))
            {
                let key = *key;
                self.hide(&key);
                return true;
            }
        }
        false
    }

    fn hide(&mut self, key: &Key) {
        if self.by_steps.remove(key).is_some()
            && let Some(n) = self.variants.get_mut(&key.0)
        {
            *n -= 1;
            if *n == 0 {
                self.variants.remove(&key.0);
            }
        }
    }

    /// Looks at the next few: lets go of those that are dead, or that no program has, and tells
    /// megaflows when their packets came.
    pub(in crate::cache) fn sweep(&mut self, few: usize) {
        for _ in 0..few.min(self.all.len()) {
            let Some((key, path)) = self.all.pop_front() else { return };
            path.steps().for_each(|megaflow| megaflow.used_too(path.used()));
            let found = self.by_steps.get(&key).is_some_and(|found| Arc::ptr_eq(found, &path));
            // Ours, that of the control side, and the one by which it is found.
            let others = Arc::strong_count(&path).saturating_sub(2 + usize::from(found));
            if !path.is_dead() && others > 0 {
                self.all.push_back((key, path));
            } else if found {
                self.hide(&key);
            }
        }
    }

    /// Forgets everything.
    pub(in crate::cache) fn clear(&mut self) {
        self.by_steps.clear();
        self.variants.clear();
        self.all.clear();
    }

    /// Paths that can be found now.
    pub(in crate::cache) fn len(&self) -> usize {
        self.by_steps.len()
    }
}
