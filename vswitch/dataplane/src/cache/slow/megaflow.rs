//! A decision that is kept: for every packet that agrees with the first one on the bits that
//! mattered.

use crate::action::{DecapOp, Op};
use crate::cache::slow::validity::Depends;
use crate::cache::tunnel::decap::is_for_all_flows;
use crate::group::Group;
use crate::observe::{Counter, Decider, DropReason};
use crate::pipeline::{Credit, Effect, OpCount, Stage, Translation};
use crate::port::PortId;
use crate::time::Millis;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use vswitch_flow::{Field, FlowKey, FlowMask, SparseMatch};

/// A tick in which nothing was ever found good: a decision to be looked at once more.
pub(in crate::cache) const STALE: u64 = 1;

/// Tick of a decision that is kept no longer.
const DEAD: u64 = 0;

/// FIN and RST.
const FIN_OR_RST: u128 = 0x05;

/// A cached decision. Its words are written by one worker, and read by the control side.
#[derive(Debug)]
#[repr(C)]
pub struct Megaflow {
    pub(in crate::cache) hot: Hot,
    /// What happens to its packets.
    pub(in crate::cache) ops: Box<[Op]>,
    /// Why they die, if they do.
    pub(in crate::cache) drop: Option<DropReason>,
    /// The last rule that they met.
    pub(in crate::cache) decider: Option<Decider>,
    /// Index of its bridge when it was made.
    pub(in crate::cache) bridge: usize,
    /// What its packets have in common.
    pub(in crate::cache) matching: SparseMatch,
    /// See [`is_for_all_flows`].
    pub(in crate::cache) for_all_flows: bool,
    /// The packet that it was made for: words of its key that are not 0.
    first: Box<[(u8, u64)]>,
    pub(in crate::cache) hash: u64,
    pub(in crate::cache) credits: Box<[Credit]>,
    /// What ops count by themselves.
    counts: Box<[Arc<OpCount>]>,
    pub(in crate::cache) effects: Box<[Effect]>,
    /// What it depends on, and when it was last found good.
    pub(in crate::cache) depends: Depends,
    /// Where its packets go on; none: they come in.
    pub(in crate::cache) stage: Option<Arc<Stage>>,
    /// Its packets are not decided yet: what becomes of them hangs on the bucket of this group that
    /// they take.
    pub(in crate::cache) chooser: Option<Arc<Group>>,
    /// Where it stands in the cache's list.
    pub(in crate::cache) position: Counter,
    /// What paths have counted of it. The control side.
    by_paths: Credited,
    dead: AtomicBool,
}

/// What was counted elsewhere.
#[derive(Debug, Default)]
struct Credited {
    packets: Counter,
    bytes: Counter,
    used_ms: Counter,
}

/// The words that every packet touches: one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(in crate::cache) struct Hot {
    /// Tick of the cache in which it was last found good.
    pub(in crate::cache) tick: Counter,
    packets: Counter,
    bytes: Counter,
    /// Milliseconds of the last packet.
    used_ms: Counter,
    /// The port, if its only op is to output there; else [`PortId::NONE`].
    pub(in crate::cache) out: PortId,
    pub(in crate::cache) has_effects: bool,
    recirculates: bool,
    looks_back: bool,
}

/// Whether ops, or what they lead to, may ask what a packet was when it came in.
pub(crate) fn looks_back(ops: &[Op]) -> bool {
    ops.iter().any(|op| op.recirculates() || op.refuses() || op.tells())
}

/// Makes a translation for a packet with this key one for all packets of its mask: no decision
/// hangs on FIN and RST, but whether `fin_timeout` does anything does. With them in the mask all
/// packets have FIN or RST, or none has.
pub(in crate::cache) fn settle(translation: &mut Translation, key: &FlowKey) {
    let is_fin = |effect: &Effect| matches!(effect, Effect::Fin { .. });
    if !translation.effects.iter().any(is_fin) {
        return;
    }
    translation.mask.add_bits(Field::TcpFlags, FIN_OR_RST);
    if key.get(Field::TcpFlags) & FIN_OR_RST == 0 {
        translation.effects.retain(|effect| !is_fin(effect));
    }
}

impl Megaflow {
    /// Of a settled translation ([`settle`]) for a packet with this key.
    pub(in crate::cache) fn new(
        translation: Translation,
        key: &FlowKey,
        stage: Option<Arc<Stage>>,
        hash: u64,
        bridge: usize,
    ) -> Self {
        let Translation { ops, mask, touched, credits, counts, effects, deps, drop, decider, chooser, .. } =
            translation;
        let own = FlowMask(std::array::from_fn(|i| mask.0[i] & !touched.0[i]));
        let out = match (ops.as_slice(), drop) {
            ([Op::Output(port)], None) => *port,
            _ => PortId::NONE,
        };
        let zero = Counter::default;
        let has_effects = !effects.is_empty();
        let recirculates = ops.iter().any(Op::recirculates);
        let looks_back = looks_back(&ops);
        let hot = Hot {
            tick: Counter::new(STALE),
            packets: zero(),
            bytes: zero(),
            used_ms: zero(),
            out,
            has_effects,
            recirculates,
            looks_back,
        };
        Self {
            hot,
            ops: ops.into(),
            drop,
            decider,
            bridge,
            matching: SparseMatch::new(key, &mask),
            for_all_flows: is_for_all_flows(&mask),
            first: (0_u8..).zip(key.0).filter(|(_, word)| *word != 0).collect(),
            hash,
            credits: credits.into(),
            counts: counts.into(),
            effects: effects.into(),
            depends: Depends::new(&deps, SparseMatch::new(key, &own)),
            stage,
            chooser,
            position: zero(),
            by_paths: Credited::default(),
            dead: AtomicBool::new(false),
        }
    }

    /// A tally for packets that no cache decides: counters with credits.
    pub(in crate::cache) fn tally(credits: Vec<Credit>) -> Self {
        let translation = Translation { credits, ..Translation::default() };
        Self::new(translation, &FlowKey::default(), None, 0, usize::MAX)
    }

    /// The packet that it was made for.
    pub(in crate::cache) fn first(&self) -> FlowKey {
        let mut key = FlowKey::default();
        self.first.iter().for_each(|(i, word)| key.0[usize::from(*i)] = *word);
        key
    }

    /// Counts packets. The one worker that has it.
    #[inline]
    pub fn count(&self, packets: u64, bytes: u64, now: Millis) {
        self.hot.packets.add(packets);
        self.hot.bytes.add(bytes);
        self.hot.used_ms.set(now.0);
    }

    /// A packet of it came then, which a path has counted. The one worker that has it.
    pub(crate) fn used_too(&self, then: Millis) {
        if then > self.used() {
            self.hot.used_ms.set(then.0);
        }
    }

    /// What was counted here, and not by a path.
    pub(in crate::cache) fn counted(&self) -> (u64, u64) {
        (self.hot.packets.get(), self.hot.bytes.get())
    }

    /// Credits to its rules, groups and tables what was counted here or by a path. The control
    /// side.
    pub(in crate::cache) fn credit(&self, packets: u64, bytes: u64, used: Millis) {
        for credit in &self.credits {
            credit.add(packets, bytes, used);
        }
    }

    /// Credits what its ops counted by themselves since the last time. The control side.
    pub(in crate::cache) fn credit_ops(&self) {
        // Nothing else counts by itself, and most megaflows need not be touched elsewhere.
        if self.hot.looks_back {
            self.counts.iter().for_each(|count| count.credit(&self.credits));
        }
    }

    /// [`Self::credit`], of a path.
    pub(in crate::cache) fn credit_path(&self, packets: u64, bytes: u64, used: Millis) {
        self.credit(packets, bytes, used);
        self.by_paths.packets.add(packets);
        self.by_paths.bytes.add(bytes);
        self.by_paths.used_ms.set(used.0.max(self.by_paths.used_ms.get()));
    }

    /// Packets so far; those that paths count as of the last [`crate::cache::Collector::collect`].
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.hot.packets.get() + self.by_paths.packets.get()
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.hot.bytes.get() + self.by_paths.bytes.get()
    }

    /// When the last one came, as its worker knows: of those that paths count it hears within
    /// seconds.
    #[inline]
    #[must_use]
    pub fn used(&self) -> Millis {
        Millis(self.hot.used_ms.get())
    }

    /// When the last one came, as [`Self::packets`] has it.
    #[must_use]
    pub fn last_used(&self) -> Millis {
        self.used().max(Millis(self.by_paths.used_ms.get()))
    }

    /// Ends it: nothing is counted after this.
    pub(in crate::cache) fn kill(&self) {
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

    /// What happens to its packets may depend on what they were when they came in ([`looks_back`]).
    #[inline]
    #[must_use]
    pub fn looks_back(&self) -> bool {
        self.hot.looks_back
    }

    /// How its packets come out of a tunnel, if that is all that they do: they are not recorded,
    /// what is inside is.
    #[must_use]
    pub fn unwraps(&self) -> Option<DecapOp> {
        match (self.ops(), self.drop) {
            ([Op::Decap(op)], None) => Some(**op),
            _ => None,
        }
    }

    /// The group that is to choose for its packets, which another decision is for then
    /// ([`crate::pipeline::choose`]).
    #[must_use]
    pub fn chooser(&self) -> Option<&Arc<Group>> {
        self.chooser.as_ref()
    }

    /// Why its packets die, if they do.
    #[inline]
    #[must_use]
    pub fn drop_reason(&self) -> Option<DropReason> {
        self.drop
    }

    /// The last rule that its packets met, or the table that had none for them.
    #[inline]
    #[must_use]
    pub fn decider(&self) -> Option<Decider> {
        self.decider
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
