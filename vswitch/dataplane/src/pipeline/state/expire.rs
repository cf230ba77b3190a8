//! Idle and hard timeouts.

use super::refs;
use super::{PipelineState, RemovedReason};
use crate::pipeline::Rule;
use crate::time::Millis;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Workers shorten timeouts of flows that have `fin_timeout`; such flows are looked at this often,
/// in milliseconds.
const FIN_PERIOD_MS: u64 = 500;

/// When a rule goes unless something happens, and why.
pub(in crate::pipeline) fn deadline(rule: &Rule) -> Option<(u64, RemovedReason)> {
    let after = |since: u64, seconds: u32| (seconds != 0).then(|| since.saturating_add(u64::from(seconds) * 1000));
    let idle = after(rule.stats.used_ms.load(Relaxed), rule.idle_timeout.load(Relaxed))
        .map(|at| (at, RemovedReason::IdleTimeout));
    let hard = after(rule.modified_ms.load(Relaxed), rule.hard_timeout.load(Relaxed));
    let hard = hard.map(|at| (at, RemovedReason::HardTimeout));
    // At the same moment the hard timeout is named, as Open vSwitch looks at it first.
    [hard, idle].into_iter().flatten().min_by_key(|(at, _)| *at)
}

/// When a rule is to be looked at: at its deadline, which traffic only moves away, but for flows
/// with `fin_timeout`.
pub(in crate::pipeline) fn look_at(rule: &Rule, now: u64) -> Option<u64> {
    let at = deadline(rule).map(|(at, _)| at);
    let soon = refs::has_fin_timeout(&rule.actions).then_some(now + FIN_PERIOD_MS);
    [at, soon].into_iter().flatten().min()
}

impl PipelineState {
    /// Rules whose time is over. The caller removes them: the index does not look at them again.
    pub(super) fn expired(&mut self, now: Millis) -> Vec<(Arc<Rule>, RemovedReason)> {
        let mut expired = Vec::new();
        while let Some(rule) = self.index.pop_due(now.0) {
            match deadline(&rule) {
                Some((at, reason)) if at <= now.0 => expired.push((rule, reason)),
                _ => {
                    if let Some(at) = look_at(&rule, now.0) {
                        self.index.look_later(rule, at);
                    }
                }
            }
        }
        expired
    }
}
