//! What policies have at present: rules, and clauses in the tables.

use super::{Ids, RuleKey};
use crate::limits::CLAUSES_MAX;
use crate::{Code, Problem, Table};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Of one policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    rules: BTreeSet<Arc<str>>,
    clauses: BTreeMap<Table, u64>,
}

/// Of all policies.
#[derive(Clone, Debug, Default)]
pub(super) struct Policies {
    by_name: HashMap<Arc<str>, Known>,
    clauses: BTreeMap<Table, u64>,
}

impl Policies {
    fn set(&mut self, policy: &str, known: Option<Known>) {
        let old = self.by_name.remove(policy).unwrap_or_default();
        for (table, count) in old.clauses {
            if let Some(total) = self.clauses.get_mut(&table) {
                *total = total.saturating_sub(count);
            }
        }
        let Some(known) = known else { return };
        for (table, count) in &known.clauses {
            *self.clauses.entry(*table).or_default() += count;
        }
        self.by_name.insert(policy.into(), known);
    }
}

impl Ids {
    /// A policy has these rules from now on, and writes so many clauses at most; returns the rules
    /// that it has no more.
    ///
    /// # Errors
    /// A table would have too many clauses.
    pub fn claim_policy(
        &mut self,
        policy: &str,
        rules: BTreeSet<Arc<str>>,
        clauses: BTreeMap<Table, u64>,
    ) -> Result<Vec<RuleKey>, Problem> {
        let known = Known { rules, clauses };
        if self.policies.by_name.get(policy) == Some(&known) {
            return Ok(Vec::new());
        }
        let gone = self.rules_of(policy).into_iter().filter(|key| !known.rules.contains(&key.rule)).collect();
        let tables: Vec<Table> = known.clauses.keys().copied().collect();
        let policies = Arc::make_mut(&mut self.policies);
        policies.set(policy, Some(known));
        for table in tables {
            let total = policies.clauses.get(&table).copied().unwrap_or_default();
            if total > CLAUSES_MAX as u64 {
                let reason = format!(
                    "rules of table {} would have {total} addresses and ports, at most {CLAUSES_MAX}",
                    table.name()
                );
                let hint = "name smaller groups, or prefixes, or use one group in fewer rules";
                return Err(Problem::new(Code::Limit, "rules", reason).hint(hint));
            }
        }
        Ok(gone)
    }

    /// The policy is gone; returns the rules that it had.
    pub fn release_policy(&mut self, policy: &str) -> Vec<RuleKey> {
        let gone = self.rules_of(policy);
        if self.policies.by_name.contains_key(policy) {
            Arc::make_mut(&mut self.policies).set(policy, None);
        }
        gone
    }

    /// Rules that a policy has.
    #[must_use]
    pub fn rules_of(&self, policy: &str) -> Vec<RuleKey> {
        let Some((name, known)) = self.policies.by_name.get_key_value(policy) else { return Vec::new() };
        known.rules.iter().map(|rule| RuleKey { policy: Arc::clone(name), rule: Arc::clone(rule) }).collect()
    }

    /// Clauses of a table at most.
    #[must_use]
    pub fn clauses(&self, table: Table) -> u64 {
        self.policies.clauses.get(&table).copied().unwrap_or_default()
    }
}
