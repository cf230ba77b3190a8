//! First packets of TCP connections: all stages at once.
//!
//! No program of a connection can be there before the connection is. But most first packets of a
//! port take the same decisions as those before them, and what the tracker says of them is always
//! the same: new, no mark, no label, and behind the commit what the commit writes. So what all
//! decisions of such a way ask comes to one question to the packet as it came in, and what they do
//! to one list of rewrites: a [`FirstPacketTemplate`]. Whoever has one asks that question, has the
//! connection opened, and writes.
//!
//! **What can be one** ([`template`]): each decision ends with `ct()`, but for the last one, which
//! sends the packet; all `ct()` are of one zone, the last one commits, none chooses a translation;
//! before it nothing is rewritten but what a router changes at a hop, which no later decision asks
//! for; none asks for addresses or ports of the connection. Whatever is not so takes the slow path.
//!
//! **Limits**: [`WAYS`] per port and family, the last ones. What may be written down per
//! millisecond is limited, per port and for all together ([`WRITTEN_PER_MS`]): a port whose packets
//! take many ways, or ways of which nothing can be made, would have each of them written down, and
//! no other port be left any.

use crate::action::{CtOp, Op, Touched};
use crate::cache::fast::path::{Macs, shape};
use crate::cache::{Cache, CacheShared, Megaflow, Path, Paths};
use crate::limits::PORTS_MAX;
use crate::pipeline::OpCount;
use crate::port::PortId;
use std::sync::Arc;
use vswitch_conntrack::Request;
use vswitch_flow::{Field, FlowKey, FlowMask, SparseMatch};

/// Of a port and family.
const WAYS: usize = 4;

/// Ways that are written down in a millisecond: of one port, of all.
const WRITTEN_PER_MS: (u8, u32) = (4, 32);

/// Sets that are looked at in a millisecond for those that have ended.
const SWEEP: usize = 8;

/// What a decision behind `ct()` asks that is the same of all first packets.
const SAME_OF_ALL: [Field; 4] = [Field::CtState, Field::CtMark, Field::CtLabel, Field::CtZone];

/// What is rewritten at a hop.
const OF_HOP: [Field; 3] = [Field::EthDst, Field::EthSrc, Field::NwTtl];

/// What all decisions of one way of first packets ask and write, in one question and one list.
#[derive(Debug)]
pub(crate) struct FirstPacketTemplate {
    /// What all of its decisions ask, of a packet as it came in.
    matching: SparseMatch,
    bridge: usize,
    /// Of the `ct()` that commits.
    pub request: Request,
    /// See [`CtOp::commits`].
    pub commits: Option<Arc<OpCount>>,
    /// What is written into the packet, in order.
    pub rewrites: Box<[Op]>,
    /// Its decisions. Last: they are the last to let go of what they have in common with it.
    pub path: Arc<Path>,
}

/// Those of a worker.
#[derive(Debug)]
pub(in crate::cache) struct FirstPacketTemplates {
    /// By port and family; the last one that fitted first.
    sets: Box<[[Option<Box<FirstPacketTemplate>>; WAYS]]>,
    /// By port: the millisecond in which a way was written down, and how many in that.
    written: Box<[(u32, u8)]>,
    /// Counts milliseconds.
    tick: u32,
    /// Ways that may be written down yet in this one.
    left: u32,
    hand: usize,
}

impl Default for FirstPacketTemplates {
    fn default() -> Self {
        let sets = (0..2 * PORTS_MAX).map(|_| [const { None }; WAYS]).collect();
        Self { sets, written: vec![(0, 0); PORTS_MAX].into(), tick: 1, left: WRITTEN_PER_MS.1, hand: 0 }
    }
}

impl FirstPacketTemplates {
    fn place(port: PortId, v6: bool) -> usize {
        2 * port.index() + usize::from(v6)
    }

    fn set(&mut self, port: PortId, v6: bool) -> Option<&mut [Option<Box<FirstPacketTemplate>>; WAYS]> {
        self.sets.get_mut(Self::place(port, v6))
    }

    fn keep(&mut self, port: PortId, v6: bool, template: FirstPacketTemplate) {
        let Some(set) = self.set(port, v6) else { return };
        // It was there, and stale.
        let same = |other: &FirstPacketTemplate| Arc::ptr_eq(&other.path, &template.path);
        let at = set.iter().position(|other| other.as_deref().is_none_or(same)).unwrap_or(WAYS - 1);
        set[at] = Some(Box::new(template));
        set[..=at].rotate_right(1);
    }

    /// Once a millisecond: lets go of what has ended, among the next few.
    pub(in crate::cache) fn maintain(&mut self) {
        (self.tick, self.left) = (self.tick.wrapping_add(1), WRITTEN_PER_MS.1);
        for _ in 0..SWEEP {
            self.hand = (self.hand + 1) % self.sets.len();
            self.sets[self.hand].iter_mut().for_each(|way| drop(way.take_if(|template| template.path.is_dead())));
        }
    }

    /// Forgets everything.
    pub(in crate::cache) fn clear(&mut self) {
        self.sets.iter_mut().for_each(|set| set.fill_with(|| None));
    }
}

impl Cache {
    /// What becomes of a first packet that came in by the port whose burst this is, if it is known
    /// and good: it is the caller's, who gives it back ([`Self::done_with_template`]).
    #[inline]
    pub(crate) fn take_template(&mut self, bridge: usize, key: &FlowKey, v6: bool) -> Option<Box<FirstPacketTemplate>> {
        let is_good = |template: &FirstPacketTemplate| {
            template.bridge == bridge && template.matching.matches(key) && self.is_current(&template.path)
        };
        let ways = self.templates.sets.get(FirstPacketTemplates::place(self.payer, v6))?;
        let at = ways.iter().position(|way| way.as_deref().is_some_and(is_good))?;
        let set = self.templates.set(self.payer, v6)?;
        set[..=at].rotate_right(1);
        set[0].take()
    }

    /// See [`Self::take_template`].
    #[inline]
    pub(crate) fn done_with_template(&mut self, template: Box<FirstPacketTemplate>, v6: bool) {
        if let Some(set) = self.templates.set(self.payer, v6) {
            set[0] = Some(template);
        }
    }

    /// Whether what becomes of a first packet is to be written down.
    pub(in crate::cache) fn wants_template(&mut self) -> bool {
        let FirstPacketTemplates { written, tick, left, .. } = &mut self.templates;
        let Some((then, n)) = written.get_mut(self.payer.index()).filter(|_| self.enabled && *left > 0) else {
            return false;
        };
        if *then != *tick {
            (*then, *n) = (*tick, 0);
        }
        let wants = *n < WRITTEN_PER_MS.0;
        *n += u8::from(wants);
        *left -= u32::from(wants);
        wants
    }

    /// A first packet has taken these steps.
    pub(in crate::cache) fn keep_template(&mut self, steps: &[Arc<Megaflow>], v6: bool) {
        if let Some(template) = template(steps, &mut self.paths, &self.shared) {
            self.templates.keep(self.payer, v6, template);
        }
    }
}

/// Makes one of the decisions on a first packet, if one can be made of them.
fn template(steps: &[Arc<Megaflow>], paths: &mut Paths, shared: &CacheShared) -> Option<FirstPacketTemplate> {
    let ops = || steps.iter().flat_map(|megaflow| megaflow.ops());
    let met = || ops().filter_map(|op| if let Op::Ct(ct) = op { Some(ct) } else { None });
    let out = shape(steps, met().count()).filter(|out| *out != PortId::NONE)?;
    let commit = met().next_back().filter(|ct| ct.request.commit && !ct.request.force)?;
    let plain = |ct: &CtOp| {
        let request = &ct.request;
        let chooses = request.nat.as_ref().is_some_and(|nat| nat.side.is_some());
        request.zone == commit.request.zone && request.helper.is_none() && !chooses
    };
    let commits = met().filter(|ct| ct.request.commit).count();
    if commits != 1 || !met().all(|ct| plain(ct)) {
        return None;
    }
    let mut left = met().count();
    let mut rewrites = Vec::new();
    for op in ops() {
        match op {
            Op::Ct(_) => left -= 1,
            Op::SetEth(_) | Op::SetIpv4(_) | Op::SetIpv6(_) | Op::SetPorts(_) => {
                // The tracker is to see the packet as it came in.
                if left > 0 && Touched::by(op) > Touched::Hop {
                    return None;
                }
                rewrites.push(op.clone());
            }
            Op::CtClear if left > 0 => return None,
            _ => {}
        }
    }
    let matching = question(steps)?;
    let (bridge, request, commits) = (steps.first()?.bridge, commit.request.clone(), commit.commits.clone());
    let path = paths.intern(steps, out, Macs::default(), shared)?;
    Some(FirstPacketTemplate { matching, bridge, request, commits, rewrites: rewrites.into(), path })
}

/// What all decisions ask, of a packet as it came in; none: that cannot be said.
fn question(steps: &[Arc<Megaflow>]) -> Option<SparseMatch> {
    let with = |fields: &[Field]| {
        let mut mask = FlowMask::default();
        fields.iter().for_each(|field| mask.add(*field));
        mask
    };
    let [of_connection, of_hop] = [with(&Field::CT_TUPLE), with(&OF_HOP)];
    let (mut key, mut mask) = (FlowKey::default(), FlowMask::default());
    // What is known of whoever is there.
    let mut known = FlowMask::default();
    let mut rewritten = false;
    for (i, megaflow) in steps.iter().enumerate() {
        match &megaflow.stage {
            None if i == 0 => {}
            Some(stage) if i > 0 => {
                stage.defines(&mut known);
                known.add_mask(&with(&SAME_OF_ALL));
            }
            _ => return None,
        }
        // A bucket that a group chose for one packet (which is all that asks for a `conj_id` from
        // outside) is not that of the next one.
        let chosen = megaflow.matching.get(Field::ConjId).1 != 0;
        if chosen || megaflow.chooser.is_some() || megaflow.drop.is_some() {
            return None;
        }
        for (word, value, bits) in megaflow.matching.iter() {
            let bits = bits & !known.0[word];
            if i > 0 && bits & of_connection.0[word] != 0 || rewritten && bits & of_hop.0[word] != 0 {
                return None;
            }
            key.0[word] |= value & bits;
            mask.0[word] |= bits;
        }
        rewritten |= megaflow.ops().iter().any(|op| !matches!(op, Op::Ct(_) | Op::Output(_) | Op::Encap(_)));
    }
    Some(SparseMatch::new(&key, &mask))
}
