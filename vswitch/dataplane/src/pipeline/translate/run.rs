//! Action lists: who calls whom.
//!
//! Lists that call others by resubmit or goto lie on a stack of [`Frame`]s, not on the thread's: a
//! chain of 4,096 resubmits is legal. Only what works on a copy of the packet (clones, buckets,
//! patch ports, both ways of a length check) recurses, and that is bounded by [`DEPTH_MAX`] and
//! [`CLONES_NESTED_MAX`].

use super::set::ActionSet;
use super::view::View;
use super::{Choice, Effect, LineKind, Observer, Request, Translation};
use crate::action::Op;
use crate::limits::{ACTIONS_EXECUTED_MAX, CLONES_NESTED_MAX, DEPTH_MAX, OPS_MAX, RESUBMITS_MAX};
use crate::meter::Allowance;
use crate::observe::DropReason;
use crate::pipeline::{Counted, LearnedTables, OpCount, Rule, World};
use crate::time::Millis;
use std::sync::Arc;
use vswitch_flow::action::Controller;
use vswitch_flow::{Action, Field, FlowKey};

/// A list being executed.
#[derive(Clone, Debug)]
pub(super) struct Frame<'f> {
    pub(super) actions: List<'f>,
    pub(super) next: usize,
    /// Table that `resubmit(port,)` means and packet-ins name.
    pub(super) table: u8,
    /// Rule whose list it is (or that led to it).
    pub(super) rule: Option<Arc<Rule>>,
    /// Cookie that packet-ins name.
    pub(super) cookie: u64,
    /// Counts against the depth.
    pub(super) deepens: bool,
    /// The list of a bucket.
    pub(super) bucket: bool,
}

#[derive(Clone, Debug)]
pub(super) enum List<'f> {
    Slice(&'f [Action]),
    Rule(Arc<[Action]>),
}

impl<'f> Frame<'f> {
    /// Of a list that stands nowhere.
    pub(super) fn new(actions: &'f [Action], table: u8, cookie: u64) -> Self {
        let actions = List::Slice(actions);
        Self { actions, next: 0, table, rule: None, cookie, deepens: false, bucket: false }
    }

    /// Of a rule.
    pub(super) fn of_rule(rule: Arc<Rule>) -> Frame<'static> {
        let (table, cookie) = (rule.table, rule.cookie);
        let actions = List::Rule(Arc::clone(&rule.actions));
        Frame { actions, next: 0, table, rule: Some(rule), cookie, deepens: false, bucket: false }
    }

    /// Of a list within this one.
    pub(super) fn within<'g>(&self, actions: &'g [Action]) -> Frame<'g> {
        Frame { rule: self.rule.clone(), ..Frame::new(actions, self.table, self.cookie) }
    }

    /// What is still to be done.
    pub(super) fn rest(&self) -> &[Action] {
        self.actions().get(self.next..).unwrap_or_default()
    }

    /// What was done before the action at hand.
    pub(super) fn done(&self) -> &[Action] {
        self.actions().get(..self.next.saturating_sub(1)).unwrap_or_default()
    }

    fn actions(&self) -> &[Action] {
        match &self.actions {
            List::Slice(actions) => actions,
            List::Rule(actions) => actions,
        }
    }
}

/// What an action asks of the list it stands in.
pub(super) enum ListControl {
    /// The next action.
    Next,
    /// Another list first.
    Call(Frame<'static>),
    /// This list ends.
    Return,
    /// This list and its callers end.
    Exit,
    /// The packet stops here, and goes on when it is resumed.
    Pause(Box<Controller>),
}

/// How a list ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It came to its end.
    Done,
    /// By exit, or an error.
    Exit,
    /// It waits to be resumed.
    Paused,
}

/// How much was done for this packet.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) depth: u32,
    pub(super) resubmits: u32,
    pub(super) clones: u32,
    /// Those among them that are the ways of `check_pkt_larger`.
    pub(super) ways: u32,
    pub(super) outputs: u32,
    ops: u32,
    /// Executed; some count as several.
    actions: u32,
}

/// A translation under way.
pub(super) struct Translator<'a, 'o> {
    pub(super) world: &'a World,
    /// Index of the bridge where the packet is.
    pub(super) bridge: usize,
    /// Its learned rules when the packet came in: what it learns itself is for the next one, as in
    /// Open vSwitch.
    pub(super) learned: LearnedTables,
    pub(super) now: Millis,
    pub(super) side_effects: bool,
    pub(super) learns: Option<&'a Allowance>,
    /// Of the next group that it is for.
    pub(super) choice: Choice<'a>,
    /// There was one.
    pub(super) chosen: bool,
    pub(super) packet_out: bool,
    /// The packet was tracked before.
    pub(super) met_ct: bool,
    /// Bytes that tunnels have put in front of the packet.
    pub(super) longer: u32,
    /// Our end of the tunnel that it came out of.
    pub(super) own_end: Option<std::net::IpAddr>,
    /// The action set is being executed, or what it calls.
    pub(super) in_set: bool,
    pub(super) observer: Option<&'o mut (dyn Observer + 'o)>,
    /// Depth of the story.
    pub(super) indent: usize,
    pub(super) view: View,
    pub(super) ops: Vec<Op>,
    pub(super) set: ActionSet,
    /// Values only: what was read for them is in the mask.
    pub(super) stack: Vec<u128>,
    pub(super) work: Work,
    /// Drops the packet, whatever was done.
    pub(super) error: Option<DropReason>,
    /// Why nothing is done, if in the end nothing is.
    pub(super) reason: Option<DropReason>,
    /// Something leaves, by a port or to a controller.
    pub(super) delivered: bool,
    pub(super) out: Translation,
}

impl<'a, 'o> Translator<'a, 'o> {
    pub(super) fn new(world: &'a World, request: &Request<'a>, observer: Option<&'o mut (dyn Observer + 'o)>) -> Self {
        let mut out = Translation { cacheable: true, ..Translation::default() };
        out.deps.world = world.number;
        out.deps.bridge = request.bridge;
        // Before anything is looked at: what changes from now on makes the result stale.
        out.deps.epoch = world.changes.epoch();
        Self {
            world,
            bridge: request.bridge,
            learned: world.bridges[request.bridge].program.learned.tables(),
            now: request.now,
            side_effects: request.side_effects,
            learns: request.learns,
            choice: request.choice,
            chosen: matches!(request.choice, Choice::Made(..)),
            packet_out: false,
            met_ct: false,
            longer: 0,
            own_end: super::tunnel::own_end(request.key),
            in_set: false,
            observer,
            indent: 0,
            view: View::new(request.key),
            ops: Vec::new(),
            set: ActionSet::default(),
            stack: Vec::new(),
            work: Work::default(),
            error: None,
            reason: None,
            delivered: false,
            out,
        }
    }

    /// Executes a list and all that it calls.
    pub(super) fn run(&mut self, list: Frame<'_>) -> Ended {
        self.run_all(vec![list])
    }

    /// Executes lists, the last one first, and all that they call.
    pub(super) fn run_all(&mut self, lists: Vec<Frame<'_>>) -> Ended {
        let (depth, indent) = (self.work.depth, self.indent);
        let ended = self.run_frames(lists);
        (self.work.depth, self.indent) = (depth, indent);
        ended
    }

    fn run_frames(&mut self, mut frames: Vec<Frame<'_>>) -> Ended {
        let indent = self.indent;
        while let Some(mut frame) = frames.pop() {
            self.indent = indent + frames.len();
            match self.run_list(&mut frame) {
                ListControl::Next | ListControl::Return => self.work.depth -= u32::from(frame.deepens),
                ListControl::Call(callee) => {
                    self.work.depth += u32::from(callee.deepens);
                    frames.push(frame);
                    frames.push(callee);
                }
                ListControl::Exit => return Ended::Exit,
                ListControl::Pause(controller) => {
                    frames.push(frame);
                    self.pause(&controller, &frames);
                    return Ended::Paused;
                }
            }
            if self.error.is_some() {
                return Ended::Exit;
            }
        }
        Ended::Done
    }

    fn run_list(&mut self, frame: &mut Frame<'_>) -> ListControl {
        if frame.actions().is_empty() {
            self.say(|| "    drop".to_owned());
        }
        loop {
            let i = frame.next;
            frame.next += 1;
            let frame = &*frame;
            let Some(action) = frame.actions().get(i) else { return ListControl::Return };
            self.work(1);
            if self.error.is_some() {
                return ListControl::Exit;
            }
            match self.act(action, frame) {
                ListControl::Next => {}
                step => return step,
            }
        }
    }

    /// Counts work; if it is too much, the packet is lost.
    pub(super) fn work(&mut self, actions: u32) {
        self.work.actions += actions;
        if self.work.actions > ACTIONS_EXECUTED_MAX {
            self.fail(DropReason::WorkLimit);
        }
    }

    /// Whether another table or group may be entered; if not, the packet is lost.
    pub(super) fn may_enter(&mut self) -> bool {
        if self.work.depth >= DEPTH_MAX {
            self.fail(DropReason::ResubmitDepth);
        } else if self.work.resubmits >= RESUBMITS_MAX {
            self.fail(DropReason::ResubmitCount);
        }
        self.error.is_none()
    }

    /// Whether another clone may be nested in this one; if not, the packet is lost.
    pub(super) fn may_nest(&mut self) -> bool {
        if self.work.clones >= CLONES_NESTED_MAX {
            self.fail(DropReason::WorkLimit);
        }
        self.error.is_none()
    }

    /// The packet is lost, with all that was done so far.
    pub(super) fn fail(&mut self, reason: DropReason) {
        self.error.get_or_insert(reason);
        self.err(|| reason.sentence().to_owned());
    }

    /// Notes why nothing is done here.
    pub(super) fn skip(&mut self, reason: DropReason) {
        self.reason = Some(reason);
        self.warn(|| reason.sentence().to_owned());
    }

    /// Adds an op.
    pub(super) fn push(&mut self, op: Op) {
        push(&mut self.ops, &mut self.work, &mut self.error, op);
    }

    /// A word for what an op counts by itself.
    pub(super) fn count(&mut self, what: Counted) -> Arc<OpCount> {
        let count = Arc::new(OpCount::new(what));
        self.out.counts.push(Arc::clone(&count));
        count
    }

    /// Makes the packet look like the key.
    pub(super) fn commit(&mut self) {
        let (ops, work, error) = (&mut self.ops, &mut self.work, &mut self.error);
        self.view.commit(|op| push(ops, work, error, op));
    }

    /// Likewise, but VLAN tags.
    pub(super) fn commit_in_place(&mut self) {
        let (ops, work, error) = (&mut self.ops, &mut self.work, &mut self.error);
        self.view.commit_in_place(|op| push(ops, work, error, op));
    }

    /// Does something with a copy of the packet; then everything is as before.
    pub(super) fn on_copy<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        let packet = Box::new(self.view.packet.clone());
        let before = std::mem::take(&mut self.ops);
        let result = body(self);
        let inner = std::mem::replace(&mut self.ops, before);
        self.view.packet = *packet;
        self.append_copy(inner);
        result
    }

    /// Appends ops that are to be executed on a copy.
    fn append_copy(&mut self, mut inner: Vec<Op>) {
        flatten(&mut inner);
        // What only sends needs no copy of its own.
        let sends = inner.iter().take_while(|op| leaves_packet(op)).count();
        let rest = inner.split_off(sends);
        self.ops.append(&mut inner);
        if !rest.is_empty() {
            self.push(Op::Clone(rest.into_boxed_slice()));
        }
    }

    /// The result.
    pub(super) fn finish(mut self) -> Translation {
        flatten(&mut self.ops);
        if let Some(observer) = &mut self.observer {
            observer.end(&self.view.end());
        }
        self.out.drop = self.error.or_else(|| (!self.delivered).then_some(self.reason.unwrap_or(DropReason::RuleDrop)));
        // A packet that is dropped may have been counted by meters and patch ports before; after an
        // error nothing happened.
        if self.error.is_none() {
            self.out.ops = self.ops;
        }
        self.view.close_mask();
        self.out.mask = self.view.mask;
        self.out.work = self.work.actions;
        if self.out.chooser.is_some() {
            self.out.drop = None;
            self.out.credits.clear();
            self.out.counts.clear();
        } else if matches!(self.choice, Choice::Made(..)) {
            // Another way than that on which it was chosen: what it met there has changed
            // meanwhile.
            self.out.cacheable = false;
        }
        if self.out.chooser.is_some() || self.chosen {
            // Of these decisions there is one for each choice. The word is a rule's otherwise: what
            // changes of rules bears on them is not for it to say.
            self.out.mask.add(Field::ConjId);
            self.out.touched.add(Field::ConjId);
        }
        self.out
    }

    /// A detail of an action, in the story.
    pub(super) fn detail(&mut self, text: impl Fn() -> String) {
        self.say(|| format!("     -> {}", text()));
    }

    /// Something that may not be meant so.
    pub(super) fn warn(&mut self, text: impl Fn() -> String) {
        self.say(|| format!("     >> {}", text()));
    }

    /// Something that went wrong.
    pub(super) fn err(&mut self, text: impl Fn() -> String) {
        self.say(|| format!("     >>>> {} <<<<", text()));
    }

    /// A line of the story.
    pub(super) fn say(&mut self, text: impl Fn() -> String) {
        if let Some(observer) = &mut self.observer {
            observer.line(self.indent, LineKind::Leaf, &text);
        }
    }

    /// A line of the story that others belong to: those that are told one deeper after it.
    pub(super) fn tell_node(&mut self, kind: LineKind, text: impl Fn() -> String) {
        if let Some(observer) = &mut self.observer {
            observer.line(self.indent, kind, &text);
        }
    }

    /// Somebody listens to the story.
    pub(super) const fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.out.effects.push(effect);
    }

    /// The key as it is now.
    pub(super) const fn key(&self) -> &FlowKey {
        &self.view.packet.key
    }
}

fn push(ops: &mut Vec<Op>, work: &mut Work, error: &mut Option<DropReason>, op: Op) {
    work.ops += 1;
    if work.ops > OPS_MAX {
        error.get_or_insert(DropReason::WorkLimit);
    } else {
        ops.push(op);
    }
}

/// Ops that leave the packet as it is for those behind them.
const fn leaves_packet(op: &Op) -> bool {
    matches!(
        op,
        Op::Output(_)
            | Op::OutputTruncated(..)
            | Op::Crossed(..)
            | Op::PacketIn(_)
            | Op::Snoop(_)
            | Op::Ask(_)
            | Op::CtForget
            | Op::Reject(_)
    )
}

/// The last op works on the packet itself: a clone there need not be one.
pub(super) fn flatten(ops: &mut Vec<Op>) {
    while let Some(Op::Clone(_)) = ops.last() {
        if let Some(Op::Clone(inner)) = ops.pop() {
            ops.extend(inner);
        }
    }
}
