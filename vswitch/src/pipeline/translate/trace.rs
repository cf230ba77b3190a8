//! Trace: what would happen to a packet, told step by step. Nothing is learned, counted or sent.

use super::{Observer, Request, Start, format_megaflow, format_ops, translate};
use crate::pipeline::World;
use crate::time::Millis;
use vswitch_flow::FlowKey;
use vswitch_flow::text::{Names, NoNames, Style, format_key};

/// What trace tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The whole story, as `ofproto/trace` would print it.
    pub text: String,
    /// The packet in the end, or `unchanged`.
    pub final_flow: String,
    /// Packets to which the same happens.
    pub megaflow: String,
    /// Ops.
    pub actions: String,
    /// Why nothing is sent.
    pub drop_reason: Option<&'static str>,
}

/// Bytes of a story; a loop of resubmits has little to tell after that.
const STORY_MAX: usize = 4 << 20;

struct Story<'a> {
    text: String,
    /// Of each bridge, by index.
    names: &'a [&'a dyn Names],
    end: FlowKey,
}

impl Observer for Story<'_> {
    fn line(&mut self, depth: usize, text: &dyn Fn() -> String) {
        if self.text.len() < STORY_MAX {
            let line = text();
            if !line.is_empty() {
                self.text.extend(std::iter::repeat_n("    ", depth));
            }
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }

    fn names(&self, bridge: usize) -> Option<&dyn Names> {
        self.names.get(bridge).copied()
    }

    fn end(&mut self, key: &FlowKey) {
        self.end = key.clone();
    }
}

/// Tells what would happen to a packet (its metadata included) that comes into a bridge. `names`: of each bridge of the world, by
/// index; where there are none, numbers are printed.
#[must_use]
pub fn trace(world: &World, bridge: usize, key: &FlowKey, now: Millis, names: &[&dyn Names]) -> Trace {
    let own: &dyn Names = names.get(bridge).copied().unwrap_or(&NoNames);
    let style = Style { names: names.get(bridge).is_some() };
    let flow = |key: &FlowKey| {
        let mut text = String::new();
        format_key(key, style, own, &mut text);
        text
    };
    let mut story = Story { text: format!("Flow: {}\n", flow(key)), names, end: key.clone() };
    let request = Request { bridge, key, start: Start::Table, now, side_effects: false };
    let translation = translate(world, &request, Some(&mut story));
    let Story { mut text, end, .. } = story;
    let final_flow = if end == *key { "unchanged".to_owned() } else { flow(&end) };
    let (mut megaflow, mut actions) = (String::new(), String::new());
    format_megaflow(key, &translation.mask, style, own, &mut megaflow);
    format_ops(&translation.ops, world, &mut actions);
    text.push_str(&format!("\nFinal flow: {final_flow}\nMegaflow: {megaflow}\nDatapath actions: {actions}\n"));
    if let Some(reason) = translation.drop {
        text.push_str(&format!("Drop reason: {} ({})\n", reason.name(), reason.sentence()));
    }
    if !translation.cacheable {
        text.push_str("This decision is made for every packet anew.\n");
    }
    let drop_reason = translation.drop.map(crate::observe::DropReason::name);
    Trace { text, final_flow, megaflow, actions, drop_reason }
}
