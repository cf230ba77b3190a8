//! Updates of flows.

use super::Refused;
use super::draft::Draft;
use crate::limits;
use crate::pipeline::{Rule, TABLES};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_flow::SparseMatch;
use vswitch_flow::action::{Action, CheckContext, ListPlace, check};
use vswitch_flow::spec::{FlowFilter, FlowSpec};

impl Draft<'_> {
    pub(super) fn add_flow(&mut self, spec: &FlowSpec) -> Result<u64, Refused> {
        // OpenFlow 1.0's "any table" of an add is table 0.
        let table = if spec.table == u8::MAX { 0 } else { spec.table };
        check_table(table)?;
        check_actions(&spec.actions, &spec.matching, table)?;
        let old = self.get(table, &spec.matching, spec.priority).cloned();
        // An add over an equal flow changes which packets nobody else gets.
        if spec.flags.check_overlap && old.is_none() {
            self.check_overlap(table, spec)?;
        }
        if let Some(old) = &old
            && !self.sweeps.is_empty()
        {
            self.added_flows.insert(old.serial, self.update);
            if says_the_same(old, spec) {
                return Ok(1);
            }
        }
        if old.is_none() {
            self.check_room(table)?;
        }
        let serial = old.as_ref().map_or_else(|| self.state.program.learned.next_serial(), |old| old.serial);
        let mut rule = Rule::new(FlowSpec { table, ..spec.clone() }, serial, self.now);
        if let Some(old) = &old {
            rule.take_counters(old, spec.flags.reset_counts);
        }
        if !self.sweeps.is_empty() {
            self.added_flows.insert(serial, self.update);
        }
        self.put(rule, old);
        Ok(1)
    }

    fn check_overlap(&self, table: u8, spec: &FlowSpec) -> Result<(), Refused> {
        let overlaps = |rule: &&Arc<Rule>| {
            rule.priority == spec.priority && *rule.matching != *spec.matching && rule.matching.overlaps(&spec.matching)
        };
        match self.all_rules(table).find(overlaps) {
            None => Ok(()),
            Some(rule) => Err(Refused::new(
                "OFPFMFC_OVERLAP",
                "check_overlap",
                format!("a flow of table {table}, priority {}, cookie {:#x} overlaps", rule.priority, rule.cookie),
            )
            .hint("choose another priority, or leave check_overlap out")),
        }
    }

    fn check_room(&self, table: u8) -> Result<(), Refused> {
        let full = |what: String, limit| {
            Refused::new("OFPFMFC_TABLE_FULL", "table", format!("{what} is full: the limit is {limit} flows"))
        };
        if self.len(table) >= limits::FLOWS_PER_TABLE_MAX {
            return Err(full(format!("table {table}"), limits::FLOWS_PER_TABLE_MAX));
        }
        if self.state.index.len() >= limits::FLOWS_PER_BRIDGE_MAX {
            return Err(full("the bridge".to_owned(), limits::FLOWS_PER_BRIDGE_MAX));
        }
        Ok(())
    }

    pub(super) fn modify_flows(
        &mut self,
        filter: &FlowFilter,
        actions: &Arc<[Action]>,
        reset_counts: bool,
        cookie: Option<u64>,
    ) -> Result<u64, Refused> {
        let filter = checked(filter)?;
        let rules = self.select(&filter);
        // A list that no table could have is refused even if no flow is there to take it.
        let mut tables: Vec<u8> = rules.iter().map(|rule| rule.table).collect();
        tables.dedup();
        if tables.is_empty() {
            tables.push(filter.table.unwrap_or(0));
        }
        for table in tables {
            check_actions(actions, &filter.matching, table)?;
        }
        let count = rules.len() as u64;
        for old in rules {
            let mut rule = Rule::new(old.spec(), old.serial, self.now);
            rule.actions = Arc::clone(actions);
            rule.cookie = cookie.unwrap_or(old.cookie);
            rule.created_ms = old.created_ms;
            rule.take_counters(&old, reset_counts);
            self.put(rule, Some(old));
        }
        Ok(count)
    }

    pub(super) fn delete_flows(&mut self, filter: &FlowFilter) -> Result<u64, Refused> {
        let filter = checked(filter)?.into_owned();
        Ok(self.take_all(filter, |_, _| false))
    }

    pub(super) fn replace(&mut self, flows: &FlowFilter, groups: bool, meters: bool) -> Result<u64, Refused> {
        let flows = checked(flows)?.into_owned();
        self.sweeps.push((self.update, flows));
        self.group_sweep = groups.then_some(self.update).or(self.group_sweep);
        self.meter_sweep = meters.then_some(self.update).or(self.meter_sweep);
        Ok(0)
    }

    /// Removes flows that sweeps select and nobody added again; adds how many to the counts.
    pub(super) fn sweep_flows(&mut self, counts: &mut [u64]) {
        for (update, flows) in self.sweeps.clone() {
            self.update = update;
            let added = |draft: &Self, rule: &Rule| draft.added_flows.get(&rule.serial).is_some_and(|at| *at > update);
            counts[update] += self.take_all(flows, added);
        }
    }
}

/// Table 254 is Open vSwitch's own.
fn check_table(table: u8) -> Result<(), Refused> {
    if usize::from(table) < TABLES {
        return Ok(());
    }
    Err(Refused::new("OFPBRC_EPERM", "table", format!("table {table} is not for flows")).hint("use 0 to 253"))
}

/// A filter with "any table" (255) in its plain form.
fn checked(filter: &FlowFilter) -> Result<std::borrow::Cow<'_, FlowFilter>, Refused> {
    use std::borrow::Cow;
    match filter.table {
        Some(u8::MAX) => Ok(Cow::Owned(FlowFilter { table: None, ..filter.clone() })),
        Some(table) => check_table(table).map(|()| Cow::Borrowed(filter)),
        None => Ok(Cow::Borrowed(filter)),
    }
}

fn check_actions(actions: &[Action], matching: &SparseMatch, table: u8) -> Result<(), Refused> {
    let context = CheckContext { matching: Some(matching), place: ListPlace::Flow { table } };
    check(actions, &context).map_err(|error| Refused::new(error.code, "actions", error.reason))
}

/// Whether an add would change nothing but duration and counters.
fn says_the_same(rule: &Rule, spec: &FlowSpec) -> bool {
    let (old, new) = (rule.flags, spec.flags);
    rule.cookie == spec.cookie
        && rule.idle_timeout.load(Relaxed) == spec.idle_timeout
        && rule.hard_timeout.load(Relaxed) == spec.hard_timeout
        && rule.importance == spec.importance
        && old.send_flow_rem == new.send_flow_rem
        && old.no_packet_counts == new.no_packet_counts
        && old.no_byte_counts == new.no_byte_counts
        && !new.reset_counts
        && rule.actions == spec.actions
}
