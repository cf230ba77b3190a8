//! What the Node itself writes: misses of all tables, and the flows that are there without any
//! object.

mod engine;
mod entry;
mod forward;
mod multicast;
mod on_host;
mod output;
mod track;
mod vlans;

pub(crate) use engine::LED as TO_ENGINE;
pub(crate) use entry::{FROM_UPLINK, advertisement};
pub(crate) use forward::no_egress;

use crate::tables::{Miss, Table};
use crate::{CompiledObject, Facts, Family, Node};
use std::fmt::Display;

/// Writes the flows that the Node has without any other object, table by table.
pub(crate) fn compile(facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let mut write = Writer { facts, compiled };
    misses(&mut write);
    entry::compile(&mut write);
    track::compile(&mut write);
    forward::compile(&mut write);
    on_host::compile(&mut write);
    output::compile(&mut write);
    engine::compile(&mut write);
    multicast::compile(&mut write);
    vlans::compile(&mut write);
    crate::gateway::pods::compile(facts, compiled);
    wire(facts, compiled);
}

/// The bridge behind the uplink.
fn wire(facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let answered = facts.node.uplink.iter().flat_map(|uplink| &uplink.answered_addresses);
    let answered = answered.filter(|address| facts.node.has(Family::of(address)));
    if let Some(mut write) = crate::gateway::bridge::Writer::new(facts, compiled) {
        write.base();
        return answered.for_each(|address| write.announced(*address));
    }
    let Some(mut write) = crate::wire::writer::Writer::new(facts, compiled) else { return };
    write.base();
    answered.for_each(|address| write.announced(*address));
}

/// Where the Node's flows go.
struct Writer<'a, 'b> {
    facts: &'a Facts<'a>,
    compiled: &'b mut CompiledObject,
}

impl<'a> Writer<'a, '_> {
    const fn node(&self) -> &'a Node {
        self.facts.node
    }

    /// A flow. Peers may write the same one (what they write by address): all of the Node's are
    /// shared.
    fn flow(&mut self, purpose: &'static str, line: impl Display) {
        self.compiled.shared(self.facts, purpose, &line.to_string());
    }

    fn families(&self) -> impl Iterator<Item = Family> + use<'a> {
        self.facts.node.families.iter().copied()
    }
}

/// Every table has an answer for what nothing else in it matches.
fn misses(write: &mut Writer<'_, '_>) {
    let features = write.facts.features();
    for table in Table::ALL.iter().filter(|table| table.exists(features)) {
        let actions = match table.miss() {
            Miss::Drop => "drop".to_owned(),
            Miss::Actions(actions) => actions.to_owned(),
            Miss::Next => match table.next(features) {
                Some(next) => format!("goto_table:{}", next.name()),
                None => "drop".to_owned(),
            },
        };
        write.flow("miss", format_args!("table={}, priority=0 actions={actions}", table.name()));
    }
}
