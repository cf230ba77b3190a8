//! Flows of a running Traceflow.

use super::{CONTROLLER, From, MARK, Passing, Protocol, TTL_SHIFT, Traceflow, Way};
use crate::node::TrafficMode;
use crate::object::policy::ISOLATION;
use crate::store::Store;
use crate::tables::Pipeline;
use crate::{CompiledObject, Contribution, Facts, Family, Table};
use std::collections::HashMap;
use std::sync::Arc;
use vswitch_flow::spec::FlowSpec;
use vswitch_flow::{Action, Field, SparseMatch};

/// Above all that the pipeline has in any table.
const ABOVE: u16 = 64_000;
/// Isolation is at 200, and at 201 where it is logged.
const ABOVE_ISOLATION: u16 = 202;
/// reg0: the packet leaves by the port in reg1; a controller gets it (Antrea:
/// `OutputToOFPortRegMark`, `OutputToControllerRegMark`).
const OUT: &str = "reg0=0x200000/0x600000";
const TO_CONTROLLER: &str = "reg0=0x400000/0x600000";
/// reg4[16..18] of lookups for repeated first packets: what drops them there ends the lookup.
const TO_RESTORE: (u128, u128) = (0x40000, 0x70000);
/// What is told: the meter judges the telling alone.
const METER: u32 = 257;

/// A Traceflow on its way.
struct Work<'a, 'b> {
    traceflow: &'a Traceflow,
    facts: &'a Facts<'a>,
    compiled: &'b mut CompiledObject,
}

/// Flows that drop packets, as what others write has them: the table, the priority of the flow
/// beside it, and it.
pub(crate) type Drops = Vec<(Table, u16, Arc<FlowSpec>)>;

/// All of them.
pub(crate) fn drops(store: &Store) -> Drops {
    let others = store.contributions().filter(|(key, _)| key.kind != crate::ObjectKind::Traceflow);
    others
        .filter_map(|(_, flow)| beside(flow).map(|(table, priority)| (table, priority, Arc::clone(&flow.flow))))
        .collect()
}

/// Writes them. Wherever others drop packets, those with the mark are told.
pub(crate) fn compile(traceflow: &Traceflow, facts: &Facts<'_>, drops: &Drops, compiled: &mut CompiledObject) {
    compiled.set_hard_timeout(traceflow.seconds.into());
    let mut work = Work { traceflow, facts, compiled };
    match &traceflow.way {
        Way::Sent(_) => {}
        Way::Passing(passing) => work.passing(passing),
        Way::Arriving { .. } => work.arriving(),
    }
    work.out();
    work.denied();
    work.dropped(drops);
}

fn tell() -> String {
    format!("controller(reason=no_match,id={CONTROLLER},userdata=00,meter_id={METER})")
}

impl Work<'_, '_> {
    fn flow(&mut self, purpose: &'static str, line: &str) {
        self.compiled.own(self.facts, purpose, line);
    }

    /// The flow that marks: the table decides on, with the mark.
    fn mark(&mut self, table: &str, matching: &str, save: &str) {
        let tag = self.traceflow.tag;
        let line = format!(
            "table={table}, priority={ABOVE},metadata=0/{MARK:#x},{matching} \
             actions={save}set_field:{tag:#x}/{MARK:#x}->metadata,resubmit(,{table})"
        );
        self.flow("its packet", &line);
    }

    /// Live packets.
    fn passing(&mut self, passing: &Passing) {
        let (port, save) = match &passing.from {
            From::Pod(name) => {
                let Some(pod) = self.facts.pod(name) else { return };
                // As it came in: what routing changes. Only packets from the wire need this
                // register.
                let end = TTL_SHIFT + 7;
                let save = format!(
                    "move:NXM_OF_ETH_DST[]->OXM_OF_PKT_REG5[0..47],move:NXM_NX_IP_TTL[]->OXM_OF_METADATA[{TTL_SHIFT}..{end}],"
                );
                (format!(",{}", self.facts.in_port(&pod.port)), save)
            }
            From::Address(_) | From::Anybody => (String::new(), String::new()),
        };
        let to_mac = match &passing.to_pod {
            None => None,
            Some(name) => {
                let Some(pod) = self.facts.pod(name) else { return };
                Some(pod.mac)
            }
        };
        for (family, destination) in &passing.destinations {
            let mut matching = format!("ct_state=+new+trk,{}{port}", packets(passing, *family));
            if let From::Address(address) = passing.from {
                matching.push_str(&format!(",{}={address}", family.source()));
            }
            match (to_mac, destination) {
                (Some(mac), _) => matching.push_str(&format!(",dl_dst={mac}")),
                (None, Some(destination)) => matching.push_str(&format!(",{}={destination}", family.destination())),
                (None, None) => {}
            }
            let table = if to_mac.is_some() { Table::L2ForwardingCalc } else { Table::ConntrackState };
            self.mark(table.name(), &matching, &save);
        }
    }

    /// Packets of other Nodes with the tag. Answers may have copied it: they are no part of it.
    fn arriving(&mut self) {
        let tag = self.traceflow.tag;
        for port in self.others() {
            for family in self.families() {
                let matching = format!("ct_state=-rpl+trk,{},in_port={port},ip_dscp={tag}", family.ip());
                self.mark(Table::ConntrackState.name(), &matching, "");
            }
        }
    }

    fn families(&self) -> Vec<Family> {
        self.facts.node.families.clone()
    }

    /// Ports that lead to other Nodes.
    fn others(&self) -> Vec<u32> {
        let Facts { node, ports, desired, .. } = self.facts;
        let own = desired
            .of(crate::ObjectKind::PeerNode)
            .filter_map(|(key, _)| desired.peer_node(&key.name)?.tunnel_port.as_deref());
        let tunnels = node.tunnel.as_deref().into_iter().chain(own);
        let routed = [Some(node.gateway.port.as_str()), node.uplink.as_ref().map(|uplink| uplink.port.as_str())];
        // By tunnels alone: what the gateway gets has left the cluster.
        let routed = routed.into_iter().flatten().filter(|_| node.mode != TrafficMode::Encap);
        let mut numbers: Vec<u32> = tunnels.chain(routed).filter_map(|name| ports.number(name)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Where packets leave.
    fn out(&mut self) {
        let (mark, ours) = (self.traceflow.mark(), ABOVE);
        if !self.traceflow.is_live() {
            let line = format!("table=Output, priority={},{mark},{TO_CONTROLLER} actions=drop", ours + 4);
            self.flow("a packet of ours is no traffic: no log, no refusal", &line);
        }
        let elsewhere = self.others();
        let gateway = self.facts.ports.number(&self.facts.node.gateway.port);
        for family in self.families() {
            let ip = family.ip();
            if let Some(actions) = self.leaving(false) {
                let line = format!("table=Output, priority={},{mark},{ip},{OUT} actions={actions}", ours + 1);
                self.flow("it leaves", &line);
            }
            let Some(actions) = self.leaving(true) else { continue };
            for port in &elsewhere {
                let line =
                    format!("table=Output, priority={},{mark},{ip},{OUT},reg1={port:#x} actions={actions}", ours + 2);
                self.flow("it leaves for another Node", &line);
            }
            let Some(gateway) = gateway.filter(|gateway| elsewhere.contains(gateway)) else { continue };
            let Some(address) = self.facts.node.gateway_address(family) else { continue };
            let Some(actions) = self.leaving(false) else { continue };
            let line = format!(
                "table=Output, priority={},{mark},{ip},{OUT},reg1={gateway:#x},{}={address} actions={actions}",
                ours + 3,
                family.destination()
            );
            self.flow("it leaves for the gateway", &line);
        }
    }

    /// What becomes of a packet that leaves, for another Node or not; None: what becomes of any
    /// other.
    fn leaving(&self, for_other: bool) -> Option<String> {
        let Traceflow { tag, dropped_only, way, .. } = self.traceflow;
        let dscp = match (way, for_other) {
            // It came with the tag, which ends here.
            (Way::Arriving { live: true }, false) => "set_field:0->ip_dscp,".to_owned(),
            (Way::Passing(_), true) => format!("set_field:{tag}->ip_dscp,"),
            _ => String::new(),
        };
        let on = format!("set_field:0->metadata,{dscp}resubmit(,Output)");
        match way {
            Way::Sent(_) | Way::Arriving { live: false } => {
                let out = if for_other { "output:NXM_NX_REG1[]," } else { "" };
                Some(format!("{out}ct_forget,{}", tell()))
            }
            _ if *dropped_only => (!dscp.is_empty()).then_some(on),
            _ => Some(format!("clone({on}),{}", tell())),
        }
    }

    /// What becomes of a packet that is dropped in a table.
    fn ending(&self, table: Table) -> String {
        if self.traceflow.is_live() {
            // The table drops its copy, as it would have dropped it, and counts and answers as it
            // would.
            format!("clone(set_field:0->metadata,resubmit(,{})),{}", table.name(), tell())
        } else {
            format!("ct_forget,{}", tell())
        }
    }

    /// Packets that rules deny; Services without endpoints; a TTL that runs out.
    fn denied(&mut self) {
        let mark = self.traceflow.mark();
        for (table, matching, purpose) in [
            (Table::EgressMetric, "reg0=0x400/0x400", "denied"),
            (Table::IngressMetric, "reg0=0x400/0x400", "denied"),
            (Table::EndpointDnat, "reg0=0x4000/0x4000", "a Service without endpoints"),
        ] {
            let actions = self.ending(table);
            let line = format!("table={}, priority={ABOVE},{mark},{matching} actions={actions}", table.name());
            self.flow(purpose, &line);
        }
        let actions = self.ending(Table::L3DecTtl);
        for family in self.families() {
            for ttl in [0, 1] {
                // Below what is not routed by us (210).
                let line =
                    format!("table=L3DecTTL, priority=205,{mark},{},nw_ttl={ttl} actions={actions}", family.ip());
                self.flow("its TTL runs out", &line);
            }
        }
    }

    /// A flow beside each that drops.
    fn dropped(&mut self, drops: &Drops) {
        let mut actions: HashMap<Table, Option<Arc<[Action]>>> = HashMap::new();
        let cookie = self.compiled.own_cookie();
        for (table, priority, flow) in drops {
            let parse = || CompiledObject::actions(self.facts, *table, &self.ending(*table));
            let Some(actions) = actions.entry(*table).or_insert_with(parse) else { continue };
            let (mut key, mut mask) = flow.matching.expand();
            key.set_masked(Field::Metadata, self.traceflow.tag.into(), MARK);
            mask.add_bits(Field::Metadata, MARK);
            let told = FlowSpec {
                matching: Arc::new(SparseMatch::new(&key, &mask)),
                priority: *priority,
                cookie,
                hard_timeout: self.traceflow.seconds.into(),
                actions: Arc::clone(actions),
                ..FlowSpec::clone(flow)
            };
            self.compiled.add(told, "dropped");
        }
    }
}

/// Match of live packets, but for their ends.
fn packets(passing: &Passing, family: Family) -> String {
    let mut text = passing.protocol.map_or(family.ip(), |protocol| protocol.word(family)).to_owned();
    for (field, port) in [("tp_src", passing.source_port), ("tp_dst", passing.destination_port)] {
        if port != 0 {
            text.push_str(&format!(",{field}={port}"));
        }
    }
    if passing.tcp_flags != 0 && passing.protocol == Some(Protocol::Tcp) {
        text.push_str(&format!(",tcp_flags={:#x}/0xfff", passing.tcp_flags));
    }
    text
}

/// Where the flow beside one that drops is to be; None: it drops nothing, or nothing with a mark,
/// or what it drops is told by another one.
fn beside(flow: &Contribution) -> Option<(Table, u16)> {
    let isolates = flow.purpose == ISOLATION;
    let drops = isolates || flow.flow.actions.iter().all(|action| matches!(action, Action::CtForget));
    if !drops {
        return None;
    }
    let table = Table::by_number(flow.id.table)?;
    let is_behind = table.pipeline() == Pipeline::Ip && table >= Table::ConntrackState;
    let is_counter = matches!(table, Table::EgressMetric | Table::IngressMetric);
    let is_lookup = flow.id.matching.get(Field::Reg4) == TO_RESTORE;
    let priority = if isolates && flow.id.priority < ABOVE_ISOLATION {
        ABOVE_ISOLATION
    } else {
        flow.id.priority.checked_add(1)?
    };
    (is_behind && !is_counter && !is_lookup).then_some((table, priority))
}
