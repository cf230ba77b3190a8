//! Packets that are denied: how they end, and who is told.

use super::{Action, Direction, NetworkPolicy};
use crate::tell::Disposition;
use crate::{Facts, GroupKey, Table};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// What a deny does: it forgets the connections that the packet met as new, of all zones. Services
/// commit theirs before policies have judged them; the other end could answer them.
pub(super) const FORGET: &str = "ct_forget";

/// What flows of isolation are for.
pub(crate) const ISOLATION: &str = "isolation";

/// Tables that packets go on to when somebody is told of them: each has a group of its own behind
/// which they fork.
pub(super) const LOGGED: [Table; 6] = [
    Table::EgressMetric,
    Table::IngressMetric,
    Table::EgressRule,
    Table::IngressRule,
    Table::MulticastEgressMetric,
    Table::MulticastIngressMetric,
];

/// What is to be done with a packet that goes to the controller (Antrea: `PacketInOperationField`).
const LOG: u32 = 1;
const REFUSE: u32 = 2;
const RECORD: u32 = 4;

/// Actions of a flow that drops.
pub(super) const fn drop() -> &'static str {
    FORGET
}

/// Registers that tell the controller about a decision in a table.
pub(super) fn told(disposition: Disposition, operations: u32, table: Table) -> String {
    let (value, number) = ((disposition as u32) << 11, table.number());
    format!(
        "set_field:{value:#x}/0x1800->reg0,set_field:{:#x}/0xfe000000->reg0,set_field:{number:#x}/0xff->reg2",
        operations << 25
    )
}

/// `OutputToControllerRegMark`
pub(super) const TO_CONTROLLER: &str = "set_field:0x400000/0x600000->reg0";

/// What is to be told of a packet that a rule allows or passes on.
pub(super) const fn logged(logging: bool) -> u32 {
    if logging { LOG } else { 0 }
}

/// What is to be told, or done, about a packet that is denied.
pub(super) fn operations(facts: &Facts<'_>, action: Action, logging: bool) -> u32 {
    let refuse = if action == Action::Reject { REFUSE } else { 0 };
    let record = if facts.node.record_denied { RECORD } else { 0 };
    logged(logging) | refuse | record
}

/// The action that sends a packet on to a table, a copy of it to the controller. None: the group
/// has no number, which `claim` gives.
pub(super) fn fork(facts: &Facts<'_>, to: Table, groups: &mut BTreeSet<Table>) -> Option<String> {
    let id = facts.ids.group(&GroupKey::Log(to))?;
    groups.insert(to);
    Some(format!("group:{id}"))
}

/// The group behind [`fork`].
pub(super) fn group(facts: &Facts<'_>, to: Table) -> Option<String> {
    let id = facts.ids.group(&GroupKey::Log(to))?;
    Some(format!(
        "group_id={id},type=all,bucket=bucket_id:0,actions=resubmit(,{}),bucket=bucket_id:1,actions={TO_CONTROLLER},resubmit(,Output)",
        to.name()
    ))
}

/// Actions that drop in a table for no rule in particular, and tell who is to be told.
pub(super) fn dropped(facts: &Facts<'_>, logging: bool, table: Table) -> String {
    let operations = operations(facts, Action::Drop, logging);
    if operations == 0 {
        return drop().to_owned();
    }
    let told = told(Disposition::Drop, operations, table);
    format!("{told},{TO_CONTROLLER},{FORGET},goto_table:Output")
}

/// Isolation by a K8s policy: flows that drop what none of its rules allows. Several policies may
/// isolate a Pod; those that are to be told of it have flows above the others', since these are
/// shared.
pub(super) fn isolation(policy: &NetworkPolicy, facts: &Facts<'_>, ends: &Ends) -> Vec<String> {
    let mut lines = Vec::new();
    for direction in &policy.isolates {
        let (table, ends) = match direction {
            Direction::Ingress => (Table::IngressDefaultRule, &ends.ingress),
            Direction::Egress => (Table::EgressDefaultRule, &ends.egress),
        };
        let priority = if policy.log_isolation { 201 } else { 200 };
        let actions = dropped(facts, policy.log_isolation, table);
        for end in ends {
            let mut line = String::new();
            let _ = write!(line, "table={}, priority={priority},{end} actions={actions}", table.name());
            lines.push(line);
        }
    }
    lines
}

/// How flows know the Pods that a policy is applied to.
#[derive(Default)]
pub(super) struct Ends {
    /// `reg1=0x25`
    pub(super) ingress: BTreeSet<String>,
    /// `ip,nw_src=10.10.0.24`
    pub(super) egress: BTreeSet<String>,
}
