//! Carrying out a plan.

use super::underlay::When;
use super::{Antrea, AntreaError, State, flush, moved};
use std::time::Instant;
use vswitch_antrea::{Code, FlowId, Key, Plan, Problem};
use vswitch_control::switch::pipeline::WriteError;
use vswitch_dataplane::limits::TRANSACTION_UPDATES_MAX;
use vswitch_flow::spec::Update;
use vswitch_proto::antrea::v1;

/// What is to be done with a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carry {
    /// When the request was there.
    pub(super) began: Instant,
    /// Nothing.
    pub(super) dry_run: bool,
    /// The gate opens: everything there is, is written with it.
    pub(super) opens: bool,
    /// An agent declared it: it is to outlive a restart.
    pub(super) said: bool,
}

impl Carry {
    /// What the switch itself has to write, from now on.
    pub(super) fn of_our_own() -> Self {
        Self { began: Instant::now(), dry_run: false, opens: false, said: false }
    }
}

impl Antrea {
    /// Writes what is planned, ends connections, settles; or reverts. If the bridge refuses, so
    /// does the result. The bridge behind the uplink follows.
    pub(super) fn carry_out(&self, state: &mut State, plan: Plan, how: Carry) -> Result<v1::WriteResult, AntreaError> {
        if plan.result.applied && !how.dry_run {
            self.follow_wire(state, When::Going);
        }
        let result = self.carry_out_here(state, plan, how);
        self.follow_wire(state, When::Come);
        result
    }

    fn carry_out_here(
        &self,
        state: &mut State,
        plan: Plan,
        Carry { began, dry_run, opens, said }: Carry,
    ) -> Result<v1::WriteResult, AntreaError> {
        let mut result = plan.result.clone();
        if dry_run || !result.applied {
            state.node_state.revert(plan);
            return Ok(result);
        }
        let bridge = state.bridge()?;
        if said {
            self.mark(state);
        }
        let opens = opens && !state.gate_open;
        let everything = if opens { state.node_state.store().everything() } else { Vec::new() };
        // Before the flows that rely on it.
        self.track_vlans_strictly(state, plan.compiled());
        let updates = if opens { &everything } else { &plan.updates };
        if (opens || state.gate_open) && !updates.is_empty() {
            if updates.len() > TRANSACTION_UPDATES_MAX {
                let reason = format!("{} changes at once, at most {TRANSACTION_UPDATES_MAX}", updates.len());
                let problem = Problem::new(Code::Limit, "", reason).hint("write fewer objects at a time");
                state.node_state.revert(plan);
                return Ok(refused(result, None, &problem));
            }
            let leaving = moved::leaving(&*self.switch, &bridge, updates);
            if let Err(error) = self.write_flows(&bridge, updates) {
                let WriteError::Refused(refusal) = error else {
                    state.node_state.revert(plan);
                    return Err(error.into());
                };
                let update = updates.get(refusal.index);
                let owner = update.and_then(|update| owner(state, update));
                let problem = Problem::new(Code::Pipeline, "", format!("{refusal}: {update:?}"));
                // Not the whole of the update: a flow may have 65,536 clauses.
                tracing::error!(
                    what = problem.to_proto().reason,
                    "the pipeline refused what Antrea's objects came to; report it"
                );
                state.node_state.revert(plan);
                return Ok(refused(result, owner, &problem));
            }
            state.moved.settle(leaving, state.node_state.ids());
        }
        if opens {
            state.open(&bridge);
        }
        if state.gate_open && !plan.flush.is_empty() {
            if let Some(facts) = state.node_state.facts()
                && let Err(error) = flush::unlearn(&*self.switch, &facts, &plan.flush)
            {
                // The objects are as written; only clients of before may still be led to where
                // nobody is, until affinity ends.
                tracing::error!(%error, "what Services have learned of endpoints that left could not be deleted; report it");
            }
            let zones = state.node_state.node().map(|(_, node)| node.zones).unwrap_or_default();
            result.connections_flushed = flush::flush(&*self.switch, &zones, &plan.flush);
        }
        state.node_state.settle(plan);
        self.names.follow(state.node_state.desired());
        result.took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(result)
    }
}

/// Whose an update is.
fn owner(state: &State, update: &Update) -> Option<Key> {
    match update {
        Update::AddFlow(flow) => state.node_state.store().first_owners(&FlowId::of(flow), 1).first().copied().cloned(),
        _ => None,
    }
}

/// Nothing was applied, because of this.
fn refused(mut result: v1::WriteResult, owner: Option<Key>, problem: &Problem) -> v1::WriteResult {
    withdraw(&mut result);
    add_refusal(&mut result, &owner.unwrap_or_else(Key::node), problem);
    result
}

/// Nothing was applied: what went well by itself did not happen.
pub(super) fn withdraw(result: &mut v1::WriteResult) {
    result.applied = false;
    (result.flows_changed, result.groups_changed, result.meters_changed) = (0, 0, 0);
    let mut not_applied = 0;
    for status in &mut result.statuses {
        if !matches!(status.outcome(), v1::ObjectOutcome::Refused | v1::ObjectOutcome::Absent) {
            status.set_outcome(v1::ObjectOutcome::NotApplied);
            status.problems.clear();
        }
    }
    for word in ["APPLIED", "REMOVED", "DEGRADED", "UNCHANGED"] {
        not_applied += result.counts.remove(word).unwrap_or(0);
    }
    if not_applied > 0 {
        result.counts.insert("NOT_APPLIED".to_owned(), not_applied);
    }
}

/// One more object that was refused, told first.
pub(super) fn add_refusal(result: &mut v1::WriteResult, key: &Key, problem: &Problem) {
    let object = key.to_proto();
    result.statuses.retain(|status| status.object.as_ref() != Some(&object));
    let outcome = v1::ObjectOutcome::Refused.into();
    let status =
        v1::ObjectStatus { object: Some(object), outcome, problems: vec![problem.to_proto()], warnings: Vec::new() };
    result.statuses.insert(0, status);
    *result.counts.entry("REFUSED".to_owned()).or_default() += 1;
}
