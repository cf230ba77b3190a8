//! From a packet's key to ops: the slow path (`ofproto-dpif-xlate.c` of Open vSwitch).
//!
//! **Where in the walk**: behind both caches. Never touches the packet: it walks the tables with a
//! copy of the key, and records what it used.
//!
//! **Design**: [`Translator`] (`run.rs`) executes action lists on a [`view::View`] of the packet:
//! the key as it is now, the bits of it that were *written* here, and the mask of the bits that
//! were used of the packet that came in. Reading a written bit uses nothing, so the result is good
//! for every packet that agrees on the mask, and a constant write never narrows a megaflow. Header
//! changes are collected and committed as masked writes before the packet goes anywhere
//! (`commit.rs`, `tags.rs`); what works on a copy becomes an [`crate::action::Op::Clone`], unless
//! it only sends or comes last. Lists that call others lie on a stack of their own, not on the
//! thread's.
//!
//! **Open vSwitch** 3.1's userspace datapath decides what is right, its oddities included where
//! programs could see them: a clone executes the action set too, `exit` in a clone ends the list
//! around it, buckets are action sets, a protocol of 0 is no header, NORMAL takes off tags that say
//! nothing. Chosen otherwise: a third tag does not push the lowest one out; the default hash of
//! select groups is over the 5-tuple. `ct()` is the boundary of a stage ([`super::Stage`]): what
//! comes behind it is another decision (`ct.rs`).
//!
//! **Limits**: depth 64 and 4,096 resubmits as in Open vSwitch, and bounds on actions, ops,
//! outputs, nested clones and the packet's stack ([`crate::limits`]). Beyond any of them the packet
//! is dropped, with all that was done for it. (Open vSwitch keeps what a loop between bridges sent
//! before it was cut, up to 64 copies of a packet. A loop is a mistake, whichever way it goes: here
//! it has one name and one counter.)
//!
//! **Threads**: a translation belongs to one worker. It reads a world that never changes, and what
//! changes beside it (learned rules, MAC tables, links) without waiting; [`Deps`] says what it
//! relied on, as of an epoch read before anything else.

mod act;
mod commit;
mod controller;
mod ct;
mod group;
mod hash;
mod normal;
mod output;
mod result;
mod run;
mod set;
mod show;
mod table;
mod tags;
mod tell;
#[cfg(test)]
mod tests;
mod trace;
mod tunnel;
mod view;

pub use group::{choose, dp_hash};
pub use result::{Credit, Deps, Effect, Translation};
pub use show::{format_megaflow, format_ops};
pub use trace::{Trace, Tracing, trace};

use super::{Rule, Stage, World};
use crate::action::RejectOp;
use crate::group::Group;
use crate::meter::Allowance;
use crate::observe::DropReason;
use crate::time::Millis;
use run::{Ended, Frame, Translator};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use table::Disguise;
use vswitch_flow::text::Names;
use vswitch_flow::{Action, Field, FlowKey};

/// What is to be translated.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Index of the bridge.
    pub bridge: usize,
    /// The packet, its metadata included (`in_port` is an OpenFlow number).
    pub key: &'a FlowKey,
    /// Where to begin.
    pub start: Start<'a>,
    /// Now.
    pub now: Millis,
    /// Learn (rules, addresses), count. Off in trace.
    pub side_effects: bool,
    /// How many flows it may learn; none: as many as there is room for.
    pub learns: Option<&'a Allowance>,
    /// Which bucket of a group it takes.
    pub choice: Choice<'a>,
}

/// Which bucket a packet takes of the first select group that it comes to, if that hangs on nothing
/// but its hash and the group. A table of slots has up to 65,536 of them, and a group far fewer
/// buckets: decisions that are kept by bucket are as many as buckets are taken.
#[derive(Clone, Copy, Debug, Default)]
pub enum Choice<'a> {
    /// That of its hash: the decision holds for all packets of the same slot.
    #[default]
    ByHash,
    /// The translation is to end there ([`Translation::chooser`]): whoever asked chooses, and asks
    /// again.
    Ask,
    /// It was chosen: this one, by index, of this group, or of whatever group it comes to. The key
    /// says so: its `conj_id`, which no packet has, is the index plus one.
    Made(usize, Option<&'a Arc<Group>>),
}

impl Choice<'_> {
    /// The choice that a key says was made.
    #[must_use]
    pub fn of(key: &FlowKey) -> Self {
        let made = usize::try_from(key.get(Field::ConjId)).ok().and_then(|number| number.checked_sub(1));
        made.map_or(Self::Ask, |bucket| Self::Made(bucket, None))
    }
}

/// Where a translation begins.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// In table 0.
    Table,
    /// With the actions of a packet-out.
    Actions(&'a [Action]),
    /// Where it was paused.
    Resume(&'a super::Continuation),
    /// With the actions of whoever made it: it is the answer to a packet.
    Answer(&'a RejectOp),
    /// Behind `ct()`. The key has the stage's metadata ([`super::FrozenState::unpack`]) and the
    /// connection's fields.
    Stage(&'a Arc<Stage>),
}

/// What a line of a story is to those that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// An action, or something about one.
    Leaf,
    /// A bridge: what follows one deeper happens in it.
    Bridge,
    /// Likewise a table, or the action set.
    Node,
    /// Likewise a bucket, which always stands out.
    Bucket,
}

/// Observes a translation, step by step: how trace tells its story. Every method has an empty
/// default.
pub trait Observer {
    /// A line of the story, so deep in its tree.
    fn line(&mut self, depth: usize, kind: LineKind, text: &dyn Fn() -> String) {
        let _ = (depth, kind, text);
    }

    /// Names that lines are to use for ports and tables of a bridge (by index); None: numbers.
    fn names(&self, bridge: usize) -> Option<&dyn Names> {
        let _ = bridge;
        None
    }

    /// A copy of the packet, which is this here, goes on in another stage, tracked in a zone.
    fn forked(&mut self, stage: &Arc<Stage>, zone: u16, key: &FlowKey) {
        let _ = (stage, zone, key);
    }

    /// The packet as it is in the end.
    fn end(&mut self, key: &FlowKey) {
        let _ = key;
    }
}

/// Translates.
pub fn translate(world: &World, request: &Request<'_>, observer: Option<&mut dyn Observer>) -> Translation {
    let mut translator = Translator::new(world, request, observer);
    translator.tell_bridge();
    // The table stands in the bridge, its actions in the table.
    translator.indent = 1;
    let in_port = translator.view.in_port();
    translator.out.deps.port = translator.port(in_port);
    let facts = translator.out.deps.port.and_then(|id| translator.facts(id));
    let may_receive = facts.is_none_or(|facts| !facts.no_receive);
    match request.start {
        Start::Table => {
            if may_receive {
                translator.begin(0);
            } else {
                translator.lookup(0, Disguise::default());
                translator.skip(DropReason::NoReceive);
            }
        }
        Start::Stage(stage) => {
            // What was written over it hides it: then nobody can say.
            if stage.frozen.defined.get(Field::TunDst) | stage.frozen.defined.get(Field::TunIpv6Dst) != 0 {
                translator.own_end = None;
            }
            translator.unpack(stage);
            translator.begin(stage.frozen.table);
        }
        _ if !may_receive => translator.skip(DropReason::NoReceive),
        Start::Actions(actions) => {
            translator.packet_out = true;
            translator.run_with_set(Frame::new(actions, 0, super::NO_COOKIE));
        }
        Start::Resume(continuation) => translator.resume(continuation),
        Start::Answer(op) => {
            translator.run_with_set(Frame::new(&op.reject.actions, op.table, op.cookie));
        }
    }
    translator.finish()
}

impl Translator<'_, '_> {
    /// With the rule of a table.
    fn begin(&mut self, table: u8) {
        let rule = self.lookup(table, Disguise::default());
        self.indent = 2;
        // What a tunnel tells the packet of congestion the first table does not see yet.
        if !self.receive_ecn() {
            return;
        }
        match rule {
            Some(rule) => {
                self.run_with_set(Frame::of_rule(rule));
            }
            None if table == 0 => self.unprogrammed(),
            None => {}
        }
    }

    /// Goes on where a packet was paused.
    fn resume(&mut self, continuation: &super::Continuation) {
        self.stack = continuation.stack.to_vec();
        self.set.write(&continuation.set);
        self.note_set();
        let segments = continuation.segments.iter().rev();
        let frames = segments.map(|segment| Frame::new(&segment.actions, segment.table, segment.cookie)).collect();
        if self.run_all(frames) == Ended::Done {
            self.run_set(None);
        }
    }
}

/// Lowers the timeouts of a rule, as [`Effect::Fin`] says. 0 is no timeout.
pub fn reduce_timeouts(rule: &Rule, idle: u32, hard: u32) {
    let reduce = |timeout: &AtomicU32, max: u32| {
        let lower = |old: u32| (max != 0 && (old == 0 || old > max)).then_some(max);
        let _ = timeout.fetch_update(Relaxed, Relaxed, lower);
    };
    reduce(&rule.idle_timeout, idle);
    reduce(&rule.hard_timeout, hard);
}
