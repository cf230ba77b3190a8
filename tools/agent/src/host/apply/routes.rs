//! Routes and routing rules: the agent's have its protocol number.

use super::super::plan::{Item, Route};
use super::super::problem::{Code, Problem};
use super::addresses::told;
use super::{Host, Look};
use std::collections::BTreeSet;
use std::io;

impl Host {
    /// Routes of the plan are there. A route of the agent's that is not in it, or leads elsewhere,
    /// goes first.
    pub(super) async fn routes(&mut self, look: &mut Look<'_>) {
        let plan = look.plan;
        let mut missing: Vec<(&Item<Route>, Option<u32>)> = Vec::new();
        let (mut kept, mut same) = (BTreeSet::new(), BTreeSet::new());
        for item in &plan.routes {
            let index = match &item.what.interface {
                Some(name) => match look.there.index(name) {
                    Some(index) => Some(index),
                    None => continue,
                },
                None => None,
            };
            match look.there.routes.iter().position(|there| there.is(&item.what, index)) {
                Some(at) => {
                    kept.insert(at);
                    look.right.insert(item.line.clone());
                }
                None => missing.push((item, index)),
            }
        }
        for (_, there) in look.there.routes.clone().iter().enumerate().filter(|(at, _)| !kept.contains(at)) {
            if plan.complete || plan.routes.iter().any(|item| there.is_to(&item.what)) {
                let Route { destination, length, table, .. } = there.route;
                let line = format!("route {destination}/{length} table {table}");
                told(&line, self.kernel.remove_route(there).await, look);
            }
        }
        for (item, index) in missing {
            match self.kernel.add_route(&item.what, index).await {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    match self.in_the_way(item, index).await {
                        Some(problem) => look.problems.push(problem),
                        None => {
                            same.insert(item.line.clone());
                        }
                    }
                }
                result => look.made(&item.line, result, self.right.contains(&item.line)),
            }
        }
        self.same = same;
    }

    /// The problem of a route of somebody else in the place of one of the plan; None: it is equal.
    /// The table is looked through once for each such route.
    async fn in_the_way(&self, item: &Item<Route>, index: Option<u32>) -> Option<Problem> {
        if self.same.contains(&item.line) {
            return None;
        }
        if let Some(known) = self.told.standing(&item.line, Code::Foreign) {
            return Some(known.clone());
        }
        let mut reason = "a route to the same destination is there that the agent has not made".to_owned();
        if let Ok(Some(foreign)) = self.kernel.foreign(&item.what).await {
            if foreign.is(&item.what, index) {
                return None;
            }
            if let Some(via) = foreign.route.via {
                reason = format!("{reason}, via {via}");
            }
        }
        Some(Problem::new(Code::Foreign, &item.line, reason).hint("remove it; the agent's takes its place then"))
    }

    /// Rules of the plan are there, and no others of the agent's.
    pub(super) async fn rules(&mut self, look: &mut Look<'_>) {
        let plan = look.plan;
        for there in look.there.rules.clone().iter().filter(|there| there.ours) {
            let is_wanted = !there.odd && plan.rules.iter().any(|item| item.what == there.rule);
            if !is_wanted && plan.complete {
                let line = format!("rule priority {} table {}", there.rule.priority, there.rule.table);
                told(&line, self.kernel.remove_rule(&there.rule).await, look);
            }
        }
        for item in &plan.rules {
            if look.there.rules.iter().any(|there| !there.odd && there.rule == item.what) {
                look.right.insert(item.line.clone());
                continue;
            }
            let result = match self.kernel.add_rule(&item.what).await {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                result => result,
            };
            look.made(&item.line, result, self.right.contains(&item.line));
        }
    }
}
