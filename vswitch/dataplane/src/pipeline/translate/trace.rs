//! Trace: what would happen to a packet, told step by step. Nothing is learned, counted or sent.

use super::{Choice, LineKind, Observer, Request, Start, format_megaflow, format_ops, translate};
use crate::limits::RECIRCULATIONS_MAX;
use crate::pipeline::{Stage, World};
use crate::time::Millis;
use std::sync::Arc;
use vswitch_conntrack::state;
use vswitch_flow::text::{Names, NoNames, Style, format_key, format_value};
use vswitch_flow::{FIRST_PACKET_WORD, Field, FlowKey, LAST_PACKET_WORD};

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

/// A line of a story.
struct TraceLine {
    /// How deep in the tree of bridges, tables and buckets.
    depth: usize,
    kind: LineKind,
    text: String,
}

struct Story<'a> {
    lines: Vec<TraceLine>,
    /// Bytes of the lines.
    len: usize,
    /// Of each bridge, by index; none: numbers.
    names: &'a [&'a dyn Names],
    end: FlowKey,
    forks: Vec<Fork>,
}

/// Where a packet goes on.
struct Fork {
    stage: Arc<Stage>,
    zone: u16,
    key: FlowKey,
}

impl Observer for Story<'_> {
    fn line(&mut self, depth: usize, kind: LineKind, text: &dyn Fn() -> String) {
        if self.len < STORY_MAX {
            let text = text();
            self.len += text.len() + 1;
            self.lines.push(TraceLine { depth, kind, text });
        }
    }

    fn names(&self, bridge: usize) -> Option<&dyn Names> {
        self.names.get(bridge).copied()
    }

    fn forked(&mut self, stage: &Arc<Stage>, zone: u16, key: &FlowKey) {
        self.forks.push(Fork { stage: Arc::clone(stage), zone, key: key.clone() });
    }

    fn end(&mut self, key: &FlowKey) {
        self.end = key.clone();
    }
}

/// Appends lines as Open vSwitch lays them out: what comes last in its list stands no further right
/// than the list, so that a chain of gotos is told straight down.
fn lay_out(lines: &[TraceLine], out: &mut String) {
    let more = followed(lines);
    let end = out.len() + STORY_MAX;
    // Of the list at each depth.
    let mut levels = vec![0];
    for (TraceLine { depth, kind, text }, more) in lines.iter().zip(more) {
        if out.len() >= end {
            return;
        }
        levels.resize(depth + 1, levels.last().copied().unwrap_or_default());
        let more = usize::from(more || *kind == LineKind::Bucket);
        let level = levels[*depth] + if *kind == LineKind::Leaf { 0 } else { more };
        let indent = |out: &mut String| out.extend(std::iter::repeat_n("    ", level));
        if *kind == LineKind::Bridge {
            out.push('\n');
        }
        indent(out);
        out.push_str(text);
        out.push('\n');
        if *kind == LineKind::Bridge {
            indent(out);
            out.extend(std::iter::repeat_n('-', text.len()));
            out.push('\n');
        }
        if *kind != LineKind::Leaf {
            levels.push(levels[*depth] + 2 * more);
        }
    }
}

/// Which lines are followed by others of the same list.
fn followed(lines: &[TraceLine]) -> Vec<bool> {
    // By depth: whether a line of the list was seen, from the end.
    let mut seen: Vec<bool> = Vec::new();
    let mut followed = vec![false; lines.len()];
    for (line, followed) in lines.iter().zip(&mut followed).rev() {
        seen.resize(line.depth + 1, false);
        *followed = std::mem::replace(&mut seen[line.depth], true);
    }
    followed
}

/// What is traced.
#[derive(Clone, Copy, Debug)]
pub struct Tracing<'a> {
    /// Index of the bridge that the packet comes into.
    pub bridge: usize,
    /// The packet, its metadata included.
    pub key: &'a FlowKey,
    /// Now.
    pub now: Millis,
    /// Names of each bridge of the world, by index; where there are none, numbers are printed.
    pub names: &'a [&'a dyn Names],
    /// `ct_state` behind each `ct()`, in order; `new|trk` where none is left.
    pub ct_next: &'a [u32],
}

/// Tells what would happen to a packet, behind `ct()` too.
#[must_use]
pub fn trace(world: &World, tracing: &Tracing<'_>) -> Trace {
    let (mut first, mut forks) = tell(world, tracing, None);
    let mut states = tracing.ct_next.iter();
    // In the order in which the stages are met, depth first; a loop has an end.
    forks.reverse();
    let mut told = 0;
    while let Some(Fork { stage, zone, key }) = forks.pop() {
        told += 1;
        if told > RECIRCULATIONS_MAX || first.text.len() > STORY_MAX {
            first.text.push_str("\n(more stages follow)\n");
            break;
        }
        let before = key;
        let mut key = FlowKey::default();
        stage.unpack(&before, &mut key);
        let packet = FIRST_PACKET_WORD..LAST_PACKET_WORD;
        key.0[packet.clone()].copy_from_slice(&before.0[packet]);
        let (state, default, customize) = match states.next() {
            Some(state) => (*state, "", ""),
            None => (state::NEW | state::TRK, "default ", " (use --ct-next to customize)"),
        };
        key.set(Field::CtState, state.into());
        key.set(Field::CtZone, zone.into());
        let mut flags = String::new();
        format_value(Field::CtState, state.into(), u128::MAX, Style::default(), &NoNames, &mut flags);
        let line = "=".repeat(79);
        let title = format!("recirc({:#x}) - resume conntrack with {default}ct_state={flags}{customize}", stage.id);
        first.text.push_str(&format!("\n{line}\n{title}\n{line}\n\n"));
        let next = Tracing { bridge: stage.frozen.bridge, key: &key, ..*tracing };
        let (second, more) = tell(world, &next, Some(&stage));
        first.text.push_str(&second.text);
        first.drop_reason = second.drop_reason;
        forks.extend(more.into_iter().rev());
    }
    first
}

/// One stage, and those that packets go on in.
fn tell(world: &World, tracing: &Tracing<'_>, stage: Option<&Arc<Stage>>) -> (Trace, Vec<Fork>) {
    let Tracing { bridge, key, now, names, .. } = *tracing;
    let own: &dyn Names = names.get(bridge).copied().unwrap_or(&NoNames);
    let style = Style { names: names.get(bridge).is_some() };
    let flow = |key: &FlowKey| {
        let mut text = String::new();
        format_key(key, style, own, &mut text);
        text
    };
    let mut story = Story { lines: Vec::new(), len: 0, names, end: key.clone(), forks: Vec::new() };
    let start = stage.map_or(Start::Table, Start::Stage);
    let request = Request { bridge, key, start, now, side_effects: false, learns: None, choice: Choice::ByHash };
    let translation = translate(world, &request, Some(&mut story));
    let Story { lines, end, forks, .. } = story;
    let mut text = format!("Flow: {}\n", flow(key));
    lay_out(&lines, &mut text);
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
    (Trace { text, final_flow, megaflow, actions, drop_reason }, forks)
}
