//! Connections that rules committed by flows that are not there any more.
//!
//! What a rule says is done by a flow of the rule's priority. When that moves, as others come
//! between, the flow goes, and another one comes that counts from nothing. What the old one had
//! counted is the rule's all the same, and what workers still count for it, by decisions that they
//! have not let go.
//!
//! **Limits**: counters of [`COUNTING_MAX`] flows per rule that may still grow.

use super::counted::{METRICS, RULES, acts_for, metric};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_antrea::{Ids, Table};
use vswitch_control::SwitchApi;
use vswitch_dataplane::pipeline::RuleStats;
use vswitch_flow::spec::{FlowFilter, Update};

/// Flows of a rule that have gone and may still be counted for. A decision that is not used any
/// more is let go within seconds.
const COUNTING_MAX: usize = 16;

/// What rules counted by flows that have gone, by number.
#[derive(Debug, Default)]
pub(super) struct Moved(HashMap<u32, Gone>);

/// Flows of a rule that have gone.
#[derive(Debug, Default)]
struct Gone {
    /// Of those that nobody counts for any more.
    commits: u64,
    counting: Vec<Arc<RuleStats>>,
}

/// A flow that goes, and is of a rule.
#[derive(Debug)]
pub(super) enum Leaving {
    /// It does what the rule says.
    Action(u32, Arc<RuleStats>),
    /// It counts what the rule allows: another one begins at nothing, and all of the rule's
    /// counters with it.
    Counter(u32),
}

/// Flows of rules that go with these updates. To be asked before they are carried out.
pub(super) fn leaving(switch: &dyn SwitchApi, bridge: &str, updates: &[Update]) -> Vec<Leaving> {
    let is_in = |filter: &FlowFilter, tables: &[Table]| {
        filter.strict.is_some() && tables.iter().any(|table| filter.table == Some(table.number()))
    };
    let (mut leaving, mut actions) = (Vec::new(), Vec::new());
    for update in updates {
        let Update::DeleteFlows(filter) = update else { continue };
        if is_in(filter, &RULES)
            && let Some(number) = acts_for(&filter.matching)
        {
            actions.push((number, filter));
        } else if is_in(filter, &METRICS)
            && let Some(counter) = metric(&filter.matching).filter(|metric| metric.by_label)
        {
            leaving.push(Leaving::Counter(counter.number));
        }
    }
    if !actions.is_empty() {
        let filters: Vec<&FlowFilter> = actions.iter().map(|(_, filter)| *filter).collect();
        // Without the bridge nothing is carried out either.
        let stats = switch.rule_stats(bridge, &filters).unwrap_or_default();
        let counting = actions.into_iter().zip(stats).filter_map(|((number, _), stats)| Some((number, stats?)));
        leaving.extend(counting.map(|(number, stats)| Leaving::Action(number, stats)));
    }
    leaving
}

impl Moved {
    /// They have gone; `ids`: of the rules that are there now.
    pub(super) fn settle(&mut self, leaving: Vec<Leaving>, ids: &Ids) {
        let mut anew = Vec::new();
        for flow in leaving {
            match flow {
                Leaving::Action(number, stats) => self.0.entry(number).or_default().add(stats),
                Leaving::Counter(number) => anew.push(number),
            }
        }
        for number in anew {
            self.0.remove(&number);
        }
        self.0.retain(|number, _| ids.rule_of(*number).is_some());
    }

    /// All rules have gone.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Connections that a rule committed by flows that have gone.
    pub(super) fn commits(&self, number: u32) -> u64 {
        self.0
            .get(&number)
            .map_or(0, |gone| gone.commits + gone.counting.iter().map(|stats| stats.commits.load(Relaxed)).sum::<u64>())
    }
}

impl Gone {
    fn add(&mut self, stats: Arc<RuleStats>) {
        self.counting.push(stats);
        while self.counting.len() > COUNTING_MAX {
            let oldest = self.counting.remove(0);
            self.commits += oldest.commits.load(Relaxed);
        }
    }
}
