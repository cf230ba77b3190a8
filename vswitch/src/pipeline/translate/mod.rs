//! From a packet's key to ops: the slow path (`ofproto-dpif-xlate.c` of Open vSwitch).
//!
//! **Where in the walk**: behind both caches. Never touches the packet: it walks the tables with a copy of the key, and records what it used.

mod result;

pub use result::{Credit, Deps, Effect, Translation};

use super::World;
use crate::time::Millis;
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
    let _ = (world, request, observer);
    Translation::default()
}
