//! From a packet's key to ops: the slow path (`ofproto-dpif-xlate.c` of Open vSwitch).
//!
//! **Where in the walk**: behind both caches. Never touches the packet: it walks the tables with a copy of the key, and records what it used.

mod act;
mod commit;
mod controller;
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
mod view;

pub use result::{Credit, Deps, Effect, Translation};
pub use show::format_ops;

use super::{Rule, World};
use crate::observe::DropReason;
use crate::time::Millis;
use run::{Ended, Frame, Translator};
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;
use table::Disguise;
use vswitch_flow::{Action, FlowKey};

/// What is to be translated.
#[derive(Debug)]
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
}

/// Observes a translation, step by step: how trace tells its story. Every method has an empty default.
pub trait Observer {
    /// A line of the story at a depth of indentation.
    fn line(&mut self, depth: usize, text: &dyn Fn() -> String) {
        let _ = (depth, text);
    }
}

/// Translates.
pub fn translate(world: &World, request: &Request<'_>, observer: Option<&mut dyn Observer>) -> Translation {
    let mut translator = Translator::new(world, request, observer);
    translator.tell_bridge();
    let in_port = translator.view.in_port();
    let facts = translator.port(in_port).and_then(|id| translator.facts(id));
    let may_receive = facts.is_none_or(|facts| !facts.no_receive);
    match request.start {
        Start::Table => {
            let rule = translator.lookup(0, Disguise::default());
            if !may_receive {
                translator.skip(DropReason::NoReceive);
            } else if let Some(rule) = rule {
                let frame = Frame::of_rule(rule);
                translator.run_with_set(frame);
            } else {
                translator.unprogrammed();
            }
        }
        _ if !may_receive => translator.skip(DropReason::NoReceive),
        Start::Actions(actions) => {
            translator.packet_out = true;
            translator.run_with_set(Frame::new(actions, 0, u64::MAX));
        }
        Start::Resume(continuation) => translator.resume(continuation),
    }
    translator.finish()
}

impl Translator<'_, '_> {
    /// Goes on where a packet was paused.
    fn resume(&mut self, continuation: &super::Continuation) {
        self.stack = continuation.stack.to_vec();
        self.set.write(&continuation.set);
        self.note_set();
        for segment in &continuation.segments {
            let frame = Frame::new(&segment.actions, segment.table, segment.cookie);
            if self.run(frame) != Ended::Done {
                return;
            }
        }
        self.run_set(None);
    }
}

/// Lowers the timeouts of a rule, as [`Effect::Fin`] says. 0 is no timeout.
pub fn reduce_timeouts(rule: &Rule, idle: u16, hard: u16) {
    let reduce = |timeout: &AtomicU16, max: u16| {
        let lower = |old: u16| (max != 0 && (old == 0 || old > max)).then_some(max);
        let _ = timeout.fetch_update(Relaxed, Relaxed, lower);
    };
    reduce(&rule.idle_timeout, idle);
    reduce(&rule.hard_timeout, hard);
}
