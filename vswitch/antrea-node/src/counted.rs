//! Counters of the Node's flows, of what a listing looks at and nothing else.
//!
//! **Design**: a bridge may have a million flows, and a listing is asked for again and again: flows
//! of the tables that it looks at are gone through once, by reference, and of what was counted for
//! rules there is one sum per rule.

use super::AntreaError;
use super::moved::Moved;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use vswitch_antrea::{FlowId, Table};
use vswitch_control::SwitchApi;
use vswitch_dataplane::pipeline::state::FlowCount;
use vswitch_flow::text::FlowCounters;
use vswitch_flow::{Field, SparseMatch};
use vswitch_proto::v1::Count;

/// Tables whose flows count for rules.
pub(super) const METRICS: [Table; 4] =
    [Table::EgressMetric, Table::IngressMetric, Table::MulticastEgressMetric, Table::MulticastIngressMetric];

/// Tables where rules are.
pub(super) const RULES: [Table; 8] = [
    Table::AntreaPolicyEgressRule,
    Table::EgressRule,
    Table::EgressDefaultRule,
    Table::AntreaPolicyIngressRule,
    Table::IngressRule,
    Table::IngressDefaultRule,
    Table::MulticastEgressRule,
    Table::MulticastIngressRule,
];

/// Counters that a listing looks at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Of all flows of these tables.
    pub tables: &'static [Table],
    /// Of groups and buckets.
    pub groups: bool,
    /// Of meters.
    pub meters: bool,
    /// Of rules of policies.
    pub rules: bool,
}

/// Counters of flows of a bridge at one moment.
#[derive(Debug, Default)]
pub struct Counted {
    flows: HashMap<FlowId, Count>,
    /// Flows by cookie.
    cookies: HashMap<u64, u64>,
    groups: HashMap<u32, HashMap<u32, (u64, u64)>>,
    /// What the bands of meters have caught.
    dropped: HashMap<u32, Count>,
    /// By number.
    rules: BTreeMap<u32, RuleCount>,
}

/// What was counted for a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCount {
    /// Connections that it committed.
    pub sessions: u64,
    /// Packets of new connections, and those that were denied.
    pub new_packets: u64,
    /// All packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Answers to those that were denied.
    pub rejects: u64,
    /// Seconds since the last packet; none: there was none.
    pub idle_s: Option<u64>,
    /// Milliseconds since counting began.
    pub since_ms: u64,
}

impl RuleCount {
    fn add(&mut self, counters: &FlowCounters) {
        self.packets += counters.packets;
        self.bytes += counters.bytes;
        self.since_ms = self.since_ms.max(counters.duration_ms);
        if counters.packets > 0 {
            self.idle_s = Some(self.idle_s.map_or(counters.idle_age_s, |idle| idle.min(counters.idle_age_s)));
        }
    }
}

impl Counted {
    /// Counts what is wanted of a bridge; `moved`: what its rules counted by flows that have gone.
    pub(super) fn read(
        switch: &dyn SwitchApi,
        bridge: &str,
        wanted: Wanted,
        moved: &Moved,
    ) -> Result<Self, AntreaError> {
        let mut counted = Self::default();
        if !wanted.tables.is_empty() {
            switch.count_flows(bridge, &numbers(wanted.tables), &mut |flow| counted.flow(flow))?;
        }
        if wanted.groups {
            let buckets = switch.groups(bridge, None)?.into_iter().map(|info| {
                let ids = info.group.buckets.iter().map(|bucket| bucket.id);
                (info.group.id, ids.zip(info.buckets).collect())
            });
            counted.groups = buckets.collect();
        }
        if wanted.meters {
            counted.dropped =
                switch.meters(bridge, None)?.iter().map(|info| (info.meter.id, caught(&info.bands))).collect();
        }
        if wanted.rules {
            let mut actions = BTreeMap::new();
            let (metrics, rules) = (numbers(&METRICS), numbers(&RULES));
            switch.count_flows(bridge, &[&metrics[..], &rules].concat(), &mut |flow| {
                if metrics.contains(&flow.table) { counted.metric(flow) } else { action(flow, &mut actions) }
            })?;
            counted.actions(&actions, moved);
        }
        Ok(counted)
    }

    fn flow(&mut self, flow: FlowCount<'_>) {
        let FlowCount { table, priority, matching, cookie, counters } = flow;
        *self.cookies.entry(cookie).or_default() += 1;
        let id = FlowId { table, priority, matching: Arc::clone(matching) };
        self.flows.insert(id, Count { packets: counters.packets, bytes: counters.bytes });
    }

    fn metric(&mut self, flow: FlowCount<'_>) {
        let Some(Metric { number, is_new, denies, .. }) = metric(flow.matching) else { return };
        let rule = self.rules.entry(number).or_default();
        rule.add(&flow.counters);
        rule.rejects += flow.counters.rejects;
        if is_new || denies {
            rule.new_packets += flow.counters.packets;
        }
    }

    /// Adds what the flows counted that do what rules say. A rule without counters of its own, one
    /// that passes on, has those of its flows.
    fn actions(&mut self, actions: &BTreeMap<u32, RuleCount>, moved: &Moved) {
        for (number, action) in actions {
            let rule = self.rules.entry(*number).or_insert(RuleCount { sessions: 0, ..*action });
            rule.sessions = action.sessions + moved.commits(*number);
        }
    }

    /// Packets and bytes of a flow.
    pub fn of(&self, id: &FlowId) -> Count {
        self.flows.get(id).copied().unwrap_or_default()
    }

    /// Packets and bytes of a bucket.
    pub fn bucket(&self, group: u32, bucket: u32) -> Count {
        let count = self.groups.get(&group).and_then(|buckets| buckets.get(&bucket)).copied().unwrap_or_default();
        Count { packets: count.0, bytes: count.1 }
    }

    /// Packets and bytes that a meter dropped; None: there is no such meter.
    pub fn dropped(&self, meter: u32) -> Option<Count> {
        self.dropped.get(&meter).copied()
    }

    /// How many flows have a cookie.
    pub fn flows_of_cookie(&self, cookie: u64) -> u64 {
        self.cookies.get(&cookie).copied().unwrap_or(0)
    }

    /// What was counted for rules, by number.
    pub const fn rules(&self) -> &BTreeMap<u32, RuleCount> {
        &self.rules
    }
}

/// Adds a flow that does what a rule says.
fn action(flow: FlowCount<'_>, actions: &mut BTreeMap<u32, RuleCount>) {
    if let Some(number) = acts_for(flow.matching) {
        let action = actions.entry(number).or_default();
        action.add(&flow.counters);
        // What is established meets no rule.
        action.new_packets += flow.counters.packets;
        action.sessions += flow.counters.commits;
    }
}

/// Packets and bytes of all bands.
fn caught(bands: &[(u64, u64)]) -> Count {
    let (packets, bytes) = bands.iter().fold((0, 0), |sum, band| (sum.0 + band.0, sum.1 + band.1));
    Count { packets, bytes }
}

fn numbers(tables: &[Table]) -> Vec<u8> {
    tables.iter().map(|table| table.number()).collect()
}

/// What a flow of the metric tables counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Metric {
    /// For which rule.
    pub(super) number: u32,
    /// New connections only.
    is_new: bool,
    /// What is denied.
    denies: bool,
    /// What is allowed, by the label of its connection: every rule that allows has such a flow,
    /// whatever the Node's mode.
    pub(super) by_label: bool,
}

/// The rule that a flow of the metric tables counts for.
pub(super) fn metric(matching: &SparseMatch) -> Option<Metric> {
    let (label, mask) = matching.get(Field::CtLabel);
    let (denied, denied_mask) = matching.get(Field::Reg3);
    let (untracked, untracked_mask) = matching.get(Field::Reg5);
    // ct_state: bit 0 is `new`.
    let (state, state_mask) = matching.get(Field::CtState);
    let is_new = state & state_mask & 1 != 0;
    let of = |number: u128, denies: bool, by_label: bool| {
        Some(Metric { number: u32::try_from(number).ok()?, is_new: is_new && by_label, denies, by_label })
    };
    match mask {
        0xffff_ffff => of(label, false, true),
        0xffff_ffff_0000_0000 => of(label >> 32, false, true),
        _ if denied_mask != 0 => of(denied, true, false),
        // What enters again.
        _ if untracked_mask != 0 => of(untracked, false, false),
        _ => None,
    }
}

/// The rule whose action a flow of the rules' tables is.
pub(super) fn acts_for(matching: &SparseMatch) -> Option<u32> {
    let (number, mask) = matching.get(Field::ConjId);
    if mask == 0 { None } else { u32::try_from(number).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_flow::text::{NoNames, parse_match};

    #[test]
    fn flows_of_the_metric_tables_say_whose_packets_they_count() {
        let of = |text: &str| {
            let metric = metric(&parse_match(text, &NoNames).expect("a good match").value)?;
            Some((metric.number, metric.is_new, metric.denies, metric.by_label))
        };
        for (text, expected) in [
            ("ct_state=+new,ct_label=0x700000000/0xffffffff00000000,ip", Some((7, true, false, true))),
            ("ct_state=-new,ct_label=0x7/0xffffffff,ip", Some((7, false, false, true))),
            ("reg0=0x400/0x400,reg3=0x7", Some((7, false, true, false))),
            // Untracked: of any mode's rules the others stay when these go.
            ("reg4=0x20000000/0x20000000,reg5=0x7", Some((7, false, false, false))),
            ("reg0=0x400/0x400", None),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }
}
