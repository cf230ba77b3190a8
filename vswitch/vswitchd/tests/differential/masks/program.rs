//! What a scenario's program looks at, for reasons.

use super::pairing::Kinds;
use super::{Decision, Ports};
use crate::scenario::Step;
use crate::tunnels::{Tunnelling, port_name};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use vswitch_flow::spec::Update;
use vswitch_flow::text::{FlowCommand, parse_flow};
use vswitch_flow::{Field, FlowKey, FlowMask};

/// A program.
#[derive(Debug)]
pub(super) struct Program {
    /// Everything but packets, as text.
    text: String,
    /// By table and priority: flows in the order in which they were added.
    ranks: BTreeMap<(u8, u16), Vec<(FlowKey, FlowMask)>>,
    pub(super) kinds: Kinds,
}

/// Fields of a packet that no action changes.
const UNCHANGED: [Field; 4] = [Field::EthType, Field::NwProto, Field::CtState, Field::CtZone];

impl Program {
    pub(super) fn of(steps: &[Step]) -> Self {
        let (mut text, mut kinds, mut lines) = (String::new(), Kinds::new(), Vec::new());
        for step in steps {
            match step {
                Step::Packet { .. } => continue,
                Step::Flow(line) => lines.push(line.clone()),
                Step::Document => lines.extend(crate::document::flows()),
                Step::Control(command) if command.verb == "add-flow" => lines.extend(command.argument.clone()),
                Step::Tunnelling(Tunnelling::Add { number, kind, .. }) => {
                    kinds.insert(port_name(*number), kind.clone());
                }
                _ => {}
            }
            let _ = writeln!(text, "{step}");
        }
        let mut ranks: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for line in lines {
            if let Ok(parsed) = parse_flow(&line, FlowCommand::Add, &Ports)
                && let Update::AddFlow(flow) = parsed.value
            {
                ranks.entry((flow.table, flow.priority)).or_default().push(flow.matching.expand());
            }
            text += &line;
        }
        Self { text, ranks, kinds }
    }

    /// Whether one of the words is in it.
    pub(super) fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.text.contains(word))
    }

    /// Bits of a field at which flows look that were added before one that the packet of a decision
    /// may have met, of the same table and priority and with another mask, and that this packet
    /// does not fit.
    pub(super) fn ties(&self, field: Field, decision: &Decision) -> u128 {
        let packet = &decision.packet;
        let fits = |(key, mask): &(FlowKey, FlowMask), fields: &[Field]| {
            fields.iter().all(|field| (key.get(*field) ^ packet.get(*field)) & mask.get(*field) == 0)
        };
        let mut bits = 0;
        for flows in self.ranks.values() {
            let Some(last) = flows.iter().rposition(|flow| fits(flow, &UNCHANGED)) else { continue };
            let before = flows[..last].iter().filter(|flow| flow.1 != flows[last].1 && !fits(flow, &[field]));
            bits |= before.fold(0, |bits, flow| bits | flow.1.get(field));
        }
        bits
    }
}
