//! From a learn action and a packet to the flow that is to be.

use std::sync::Arc;
use vswitch_flow::action::{Action, Learn, LearnSource, LearnSpec, PortNo, port};
use vswitch_flow::spec::{FlowFlags, FlowSpec};
use vswitch_flow::{Field, FlowKey, FlowMask, SparseMatch, Subfield};

/// The flow (`learn_execute` of Open vSwitch). Nothing is added to what the action says:
/// prerequisites of the match stand in the action, or it would have been refused.
pub(super) fn flow(learn: &Learn, packet: &FlowKey) -> FlowSpec {
    let (mut key, mut mask) = (FlowKey::default(), FlowMask::default());
    let mut actions = Vec::with_capacity(learn.specs.len());
    if learn.fin_idle_timeout != 0 || learn.fin_hard_timeout != 0 {
        actions.push(Action::FinTimeout { idle: learn.fin_idle_timeout, hard: learn.fin_hard_timeout });
    }
    for spec in &learn.specs {
        match spec {
            LearnSpec::Match { from, to } => {
                let (to, value) = written(*to, value(*from, packet));
                key.set_sub(to, value);
                mask.add_bits(to.field, to.mask());
            }
            LearnSpec::Load { from, to } => {
                let (to, value) = written(*to, value(*from, packet));
                let (field, mask) = (to.field, to.mask());
                actions.push(Action::SetField { field, value: value << to.start & mask, mask });
            }
            LearnSpec::Output(from) => {
                let to = output_port(packet.get_sub(*from), from.field);
                actions.extend(to.map(|port| Action::Output { port, max_len: None }));
            }
        }
    }
    FlowSpec {
        table: learn.table,
        priority: learn.priority,
        matching: Arc::new(SparseMatch::new(&key, &mask)),
        cookie: learn.cookie,
        idle_timeout: learn.idle_timeout,
        hard_timeout: learn.hard_timeout,
        importance: 0,
        flags: FlowFlags { send_flow_rem: learn.send_flow_rem, ..FlowFlags::default() },
        actions: actions.into(),
    }
}

fn value(from: LearnSource, packet: &FlowKey) -> u128 {
    match from {
        LearnSource::Field(sub) => (packet.get(sub.field) & sub.mask() & sub.field.own_bits()) >> sub.start,
        LearnSource::Immediate(value) => value,
    }
}

/// What is written where. `NXM_OF_IN_PORT` has 16 bits, our field has 32: reserved ports are
/// lifted, and the rest of the field counts too.
fn written(to: Subfield, value: u128) -> (Subfield, u128) {
    if to.field == Field::InPort && to.start == 0 && to.len == 16 {
        return (Subfield::whole(Field::InPort), u128::from(lift(value & 0xffff)));
    }
    (to, value)
}

/// A 16-bit port number as 32 bits. What does not fit into 32 bits is no port.
fn lift(value: u128) -> PortNo {
    match PortNo::try_from(value) {
        Ok(value @ 0xff00..=0xffff) => value | 0xffff_0000,
        Ok(value) => value,
        Err(_) => port::NONE,
    }
}

/// The port of an `output:FIELD`: an ordinary one or one of a few reserved ones; in all other cases
/// there is no output.
fn output_port(value: u128, from: Field) -> Option<PortNo> {
    // Reserved ports have 16 bits everywhere but in in_port.
    if value > 0xffff && from != Field::InPort {
        return None;
    }
    let number = lift(value);
    let reserved = [port::IN_PORT, port::FLOOD, port::ALL, port::LOCAL];
    (number < 0xff00 || reserved.contains(&number)).then_some(number)
}
