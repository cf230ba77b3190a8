//! One action.

use super::run::{Ended, Frame, ListControl, Translator};
use super::set::{in_order, is_controller};
use super::table::Disguise;
use super::{Effect, LineKind};
use crate::action::{CheckLen, Op};
use crate::limits::{LEARN_WORK, STACK_MAX};
use crate::meter::Meter;
use crate::observe::DropReason;
use crate::pipeline::{Learned, NO_COOKIE};
use std::sync::Arc;
use vswitch_flow::action::{Learn, LearnSource, LearnSpec, Reason, port};
use vswitch_flow::{Action, Field, Subfield};

impl Translator<'_, '_> {
    /// Executes an action of a list.
    pub(super) fn act(&mut self, action: &Action, frame: &Frame<'_>) -> ListControl {
        if self.is_observed() {
            self.tell_action(action);
        }
        match action {
            action if is_controller(action) => return self.output(port::CONTROLLER, frame),
            Action::Output { port, max_len: None } => return self.output(*port, frame),
            Action::Output { port, max_len: Some(max_len) } => self.output_truncated(*port, *max_len),
            Action::OutputField { from, .. } => return self.output_field(*from, frame),
            Action::Controller(controller) if controller.pause => return ListControl::Pause(controller.clone()),
            Action::Controller(controller) => self.controller(frame, controller),
            Action::Group(id) => {
                if !self.group(*id, frame) {
                    return ListControl::Return;
                }
            }
            Action::Meter(id) => {
                if let Some(meter) = self.meter(*id) {
                    // Not the tags: a meter counts the packet as long as it came in.
                    self.commit_in_place();
                    self.push(Op::Meter(meter));
                }
            }
            Action::Resubmit { port, table, ct } => {
                let in_port = port.filter(|port| *port != port::IN_PORT);
                return self.call(frame, table.unwrap_or(frame.table), Disguise { in_port, ct: *ct });
            }
            Action::GotoTable(table) => return self.call(frame, *table, Disguise::default()),
            Action::Clone(actions) => return self.clone_action(actions, frame),
            Action::Reject(reject) => self.reject(reject, frame),
            Action::Exit => return ListControl::Exit,
            Action::CheckPktLarger { len, to } => return self.check_len(*len, *to, frame),
            Action::DecTtl(controllers) => return self.dec_ttl(controllers, frame),
            Action::Learn(learn) => {
                self.work(LEARN_WORK - 1);
                self.learn(learn);
            }
            Action::Multipath(multipath) => self.multipath(multipath),
            Action::Bundle(bundle) => return self.bundle(bundle, frame),
            Action::FinTimeout { idle, hard } => self.fin_timeout(*idle, *hard, frame),
            // The stage boundary: everything before it is one decision, everything behind it
            // another one, which knows the connection.
            Action::Ct(ct) => self.ct(ct, frame),
            action => self.modify(action),
        }
        ListControl::Next
    }

    /// `move`: nothing happens where the packet lacks one of the fields.
    fn copy_bits(&mut self, from: Subfield, to: Subfield) {
        if self.view.has(to.field) && self.view.has(from.field) {
            let value = self.view.read_sub(from);
            self.view.write_sub(to, value);
            self.tell_value(to);
        }
    }

    /// Actions that change the packet or what goes with it.
    pub(super) fn modify(&mut self, action: &Action) {
        match action {
            Action::SetField { field, value, mask } => self.set_field(*field, *value, *mask),
            Action::Move { from, to } => self.copy_bits(*from, *to),
            Action::SetTtl(ttl) => self.set_field(Field::NwTtl, u128::from(*ttl), u128::MAX),
            Action::PushVlan(tpid) => self.view.push_vlan(*tpid, 0),
            Action::PopVlan => self.view.pop_vlan(),
            Action::SetVlanVid(vid) => self.view.write(Field::DlVlan, u128::from(*vid), 0xfff),
            Action::SetVlanPcp(pcp) => {
                // With the present bit: pushes a tag if there is none.
                self.view.write(Field::VlanTci, u128::from(*pcp) << 13 | 0x1000, 0xf000);
            }
            Action::StackPush(from) => {
                if self.stack.len() >= STACK_MAX {
                    self.fail(DropReason::StackDepth);
                    return;
                }
                let value = self.view.read_sub(*from);
                self.stack.push(value);
            }
            Action::StackPop(to) => match self.stack.pop() {
                Some(value) => self.load(*to, value),
                None => self.err(|| "stack underflow".to_owned()),
            },
            Action::CtClear => {
                if self.met_ct {
                    self.push(Op::CtClear);
                }
                self.clear_ct();
            }
            // What it has met only the packet knows, which may have been paused since.
            Action::CtForget => self.push(Op::CtForget),
            Action::DeleteField(field) => self.view.clear(*field),
            Action::ClearActions => {
                self.tell_set("was");
                self.set.clear();
                self.note_set();
            }
            Action::WriteActions(actions) => {
                self.set.write(actions);
                self.note_set();
                self.tell_set("is");
            }
            Action::WriteMetadata { value, mask } => {
                self.view.write(Field::Metadata, u128::from(*value), u128::from(*mask));
            }
            // Notes and samples do nothing; a conjunction is the classifier's.
            _ => {}
        }
    }

    /// Keeps `actset_output` true.
    pub(super) fn note_set(&mut self) {
        let output = self.set.output();
        self.view.write(Field::ActsetOutput, u128::from(output), u128::MAX);
    }

    fn set_field(&mut self, field: Field, value: u128, mask: u128) {
        if self.view.has(field) {
            self.view.write(field, value, mask);
        } else {
            self.warn(|| format!("unmet prerequisites for {}, set_field ignored", field.name()));
        }
    }

    /// Writes a number that an action computed.
    pub(super) fn load(&mut self, to: Subfield, value: u128) {
        if self.view.has(to.field) {
            self.view.write_sub(to, value);
            self.tell_value(to);
        }
    }

    fn call(&mut self, frame: &Frame<'_>, table: u8, disguise: Disguise) -> ListControl {
        match self.enter(frame.table, table, disguise) {
            Some(frame) => ListControl::Call(frame),
            None => ListControl::Next,
        }
    }

    /// A meter of this bridge.
    pub(super) fn meter(&mut self, id: u32) -> Option<Arc<Meter>> {
        self.out.deps.groups = true;
        let world = self.world;
        world.bridges[self.bridge].program.meters.get(&id).cloned()
    }

    fn clone_action(&mut self, actions: &[Action], frame: &Frame<'_>) -> ListControl {
        if !self.may_nest() {
            return ListControl::Exit;
        }
        // What was written before is written once, not in the copy and again behind it.
        if !frame.rest().is_empty() {
            self.commit();
        }
        let (stack, set) = (self.stack.clone(), self.set.clone());
        self.work.clones += 1;
        let ended = self.on_copy(|this| this.run_with_set(frame.within(actions)));
        self.work.clones -= 1;
        (self.stack, self.set) = (stack, set);
        if ended == Ended::Exit { ListControl::Exit } else { ListControl::Next }
    }

    /// A list and then, if it comes to its end, the action set.
    pub(super) fn run_with_set(&mut self, frame: Frame<'_>) -> Ended {
        let origin = frame.within(&[]);
        let ended = self.run(frame);
        if ended == Ended::Done { self.run_set(Some(&origin)) } else { ended }
    }

    /// Executes the action set, and empties it.
    pub(super) fn run_set(&mut self, origin: Option<&Frame<'_>>) -> Ended {
        let actions = in_order(self.set.actions());
        self.set.clear();
        if actions.is_empty() {
            return Ended::Done;
        }
        self.tell_node(LineKind::Node, || "--. Executing action set:".to_owned());
        let frame = match origin {
            Some(origin) => origin.within(&actions),
            None => Frame::new(&actions, 0, NO_COOKIE),
        };
        self.in_set = true;
        self.indent += 1;
        let ended = self.run(frame);
        self.indent -= 1;
        self.in_set = false;
        ended
    }

    /// Both ways, each with the rest of this list; what called it goes on with the packet as it is
    /// here.
    fn check_len(&mut self, len: u16, to: Subfield, frame: &Frame<'_>) -> ListControl {
        if !self.may_nest() {
            return ListControl::Exit;
        }
        self.commit();
        let (stack, set) = (self.stack.clone(), self.set.clone());
        self.work.clones += 1;
        self.work.ways += 1;
        let (larger, ended) = self.way(to, 1, frame);
        // Stack and set go from the one way to the other: so it is in Open vSwitch.
        let (smaller, _) = self.way(to, 0, frame);
        self.work.clones -= 1;
        self.work.ways -= 1;
        (self.stack, self.set) = (stack, set);
        if !larger.is_empty() || !smaller.is_empty() {
            let (larger, smaller) = (larger.into(), smaller.into());
            let check = Op::CheckLen(Box::new(CheckLen { len, larger, smaller }));
            self.push(Op::Clone([check].into()));
        }
        if ended == Ended::Exit { ListControl::Exit } else { ListControl::Return }
    }

    fn way(&mut self, to: Subfield, larger: u128, frame: &Frame<'_>) -> (Vec<Op>, Ended) {
        let packet = Box::new(self.view.packet.clone());
        let before = std::mem::take(&mut self.ops);
        self.load(to, larger);
        let ended = self.run_with_set(frame.within(frame.rest()));
        self.view.packet = *packet;
        let mut ops = std::mem::replace(&mut self.ops, before);
        super::run::flatten(&mut ops);
        (ops, ended)
    }

    fn dec_ttl(&mut self, controllers: &[u16], frame: &Frame<'_>) -> ListControl {
        if !self.view.has(Field::NwTtl) {
            return ListControl::Next;
        }
        let ttl = self.view.read(Field::NwTtl);
        if ttl > 1 {
            self.view.write(Field::NwTtl, ttl - 1, u128::MAX);
            return ListControl::Next;
        }
        // A controller that is told of it does not have the packet instead.
        let delivered = self.delivered;
        for controller in controllers {
            self.packet_in(frame, Reason::InvalidTtl, *controller, &[], None);
        }
        self.delivered = delivered;
        self.skip(DropReason::InvalidTtl);
        ListControl::Return
    }

    fn learn(&mut self, learn: &Learn) {
        for spec in &learn.specs {
            let from = match spec {
                LearnSpec::Match { from: LearnSource::Field(from), .. }
                | LearnSpec::Load { from: LearnSource::Field(from), .. }
                | LearnSpec::Output(from) => *from,
                _ => continue,
            };
            self.view.read_sub(from);
        }
        let world = self.world;
        let learned = &world.bridges[self.bridge].program.learned;
        if self.is_observed() {
            self.tell_learned(&Learned::flow(learn, self.key()));
        }
        let there = if self.side_effects {
            learned.learn(learn, self.key(), self.now, self.learns)
        } else {
            self.warn(|| "suppressing side effects, so learn action ignored".to_owned());
            true
        };
        if let Some(to) = learn.result {
            self.load(to, u128::from(there));
            // Whether there is room for a flow may be different for the next packet.
            self.out.cacheable &= learn.limit == 0 && there;
        }
        let (learn, key) = (Arc::new(learn.clone()), Box::new(self.key().clone()));
        self.effect(Effect::Learn { bridge: self.bridge, learn, key });
    }

    fn fin_timeout(&mut self, idle: u32, hard: u32, frame: &Frame<'_>) {
        self.view.read(Field::NwProto);
        let Some(rule) = &frame.rule else { return };
        let rule = Arc::clone(rule);
        // FIN or RST. No decision hangs on it.
        if self.side_effects && self.key().get(Field::TcpFlags) & 5 != 0 {
            super::reduce_timeouts(&rule, idle, hard);
        }
        self.effect(Effect::Fin { rule, idle, hard });
    }
}
