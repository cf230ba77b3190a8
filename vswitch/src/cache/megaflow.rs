//! A decision that is kept: for every packet that agrees with the first one on the bits that mattered.

use crate::action::Op;
use crate::observe::{Counter, DropReason};
use crate::pipeline::{Credit, Deps, Effect, Translation};
use crate::port::PortId;
use crate::time::Millis;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use vswitch_flow::{Field, FlowKey, SparseMatch};

/// A tick in which nothing was ever found good: a decision to be looked at once more.
pub(super) const STALE: u64 = 1;

/// Tick of a decision that is kept no longer.
const DEAD: u64 = 0;

/// FIN and RST.
pub(super) const FIN_OR_RST: u128 = 0x05;

/// A cached decision. Its words are written by one worker, and read by the control side.
#[derive(Debug)]
#[repr(C)]
pub struct Megaflow {
    pub(super) hot: Hot,
    /// What happens to its packets.
    pub(super) ops: Box<[Op]>,
    /// Why they die, if they do.
    pub(super) drop: Option<DropReason>,
    /// Index of its bridge when it was made.
    pub(super) bridge: usize,
    /// What its packets have in common.
    pub(super) matching: SparseMatch,
    pub(super) hash: u64,
    pub(super) credits: Box<[Credit]>,
    pub(super) effects: Box<[Effect]>,
    /// What it depends on; world and epoch of it are in `world` and `epoch`.
    pub(super) deps: Deps,
    /// World and epoch in which it was last found good.
    pub(super) world: Counter,
    pub(super) epoch: Counter,
    /// Where it stands in the cache's list.
    pub(super) position: Counter,
    dead: AtomicBool,
}

/// The words that every packet touches: one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Hot {
    /// Tick of the cache in which it was last found good.
    pub(super) tick: Counter,
    packets: Counter,
    bytes: Counter,
    /// Milliseconds of the last packet.
    used_ms: Counter,
    /// The port, if its only op is to output there; else [`PortId::NONE`].
    pub(super) out: PortId,
    pub(super) has_effects: bool,
    recirculates: bool,
}

impl Megaflow {
    /// Of a translation for a packet with this key.
    pub(super) fn new(translation: Translation, key: &FlowKey, hash: u64, bridge: usize) -> Self {
        let Translation { ops, mask, credits, effects, deps, drop, .. } = translation;
        let out = match (ops.as_slice(), drop) {
            ([Op::Output(port)], None) => *port,
            _ => PortId::NONE,
        };
        // Its mask has these flags if there is such an effect: all its packets have FIN or RST, or none has.
        let fin = key.get(Field::TcpFlags) & FIN_OR_RST != 0;
        let effects: Box<[Effect]> =
            effects.into_iter().filter(|effect| fin || !matches!(effect, Effect::Fin { .. })).collect();
        let (world, epoch) = (Counter::new(deps.world), Counter::new(deps.epoch));
        let zero = Counter::default;
        let has_effects = !effects.is_empty();
        let recirculates = ops.iter().any(Op::recirculates);
        let hot = Hot {
            tick: Counter::new(STALE),
            packets: zero(),
            bytes: zero(),
            used_ms: zero(),
            out,
            has_effects,
            recirculates,
        };
        Self {
            hot,
            ops: ops.into(),
            drop,
            bridge,
            matching: SparseMatch::new(key, &mask),
            hash,
            credits: credits.into(),
            effects,
            deps,
            world,
            epoch,
            position: zero(),
            dead: AtomicBool::new(false),
        }
    }

    /// A tally for packets that no cache decides: counters with credits.
    pub(super) fn tally(credits: Vec<Credit>) -> Self {
        let translation = Translation { credits, ..Translation::default() };
        Self::new(translation, &FlowKey::default(), 0, usize::MAX)
    }

    /// Counts packets. The one worker that has it.
    #[inline]
    pub fn count(&self, packets: u64, bytes: u64, now: Millis) {
        self.hot.packets.add(packets);
        self.hot.bytes.add(bytes);
        self.hot.used_ms.set(now.0);
    }

    /// Packets so far.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.hot.packets.get()
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.hot.bytes.get()
    }

    /// When the last one came.
    #[inline]
    #[must_use]
    pub fn used(&self) -> Millis {
        Millis(self.hot.used_ms.get())
    }

    /// Ends it: nothing is counted after this.
    pub(super) fn kill(&self) {
        self.hot.tick.set(DEAD);
        self.dead.store(true, Release);
    }

    /// It was ended: its counters stand still.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Acquire)
    }

    /// What happens to its packets.
    #[inline]
    #[must_use]
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The port, if to output there is all that happens; else [`PortId::NONE`].
    #[inline]
    #[must_use]
    pub fn out(&self) -> PortId {
        self.hot.out
    }

    /// Its packets cause more than ops.
    #[inline]
    #[must_use]
    pub fn has_effects(&self) -> bool {
        self.hot.has_effects
    }

    /// Its packets meet the tracker: other decisions follow.
    #[inline]
    #[must_use]
    pub fn recirculates(&self) -> bool {
        self.hot.recirculates
    }

    /// Why its packets die, if they do.
    #[inline]
    #[must_use]
    pub fn drop_reason(&self) -> Option<DropReason> {
        self.drop
    }

    /// What its packets have in common.
    #[must_use]
    pub fn matching(&self) -> &SparseMatch {
        &self.matching
    }

    /// Index of the bridge that its packets entered, in the world that it was made in.
    #[must_use]
    pub fn bridge(&self) -> usize {
        self.bridge
    }
}
