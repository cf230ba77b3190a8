//! Transactions, dumps and timeouts, with an injected clock.

mod flows;

use super::{Applied, PipelineState, Refused};
use crate::time::Millis;
use std::sync::Arc;
use vswitch_flow::action::{Action, Controller, Learn};
use vswitch_flow::spec::{
    Band, BandKind, BucketSpec, FlowFilter, FlowFlags, FlowSpec, GroupKind, GroupSpec, MeterSpec, Selection, Update,
};
use vswitch_flow::{Field, FlowKey, FlowMask, SparseMatch};

/// A pipeline with a clock and a count of worlds.
#[derive(Default)]
struct Bench {
    state: PipelineState,
    now: u64,
    world: u64,
}

impl Bench {
    fn apply(&mut self, updates: &[Update]) -> Result<Applied, Refused> {
        self.world += 1;
        self.state.apply(updates, self.world, Millis(self.now))
    }

    /// Applies what must not be refused; returns the counts.
    fn ok(&mut self, updates: &[Update]) -> Vec<u64> {
        self.apply(updates).unwrap_or_else(|refused| panic!("{updates:?}: {refused}")).counts
    }

    /// Applies what must be refused: index and code.
    fn refused(&mut self, updates: &[Update]) -> (usize, &'static str) {
        let before = self.digest();
        let refused = self.apply(updates).expect_err("refused");
        assert_eq!(before, self.digest(), "a refused transaction changed something: {updates:?}");
        (refused.index, refused.code)
    }

    /// Everything that can be seen, but for what time alone changes.
    fn digest(&self) -> String {
        let now = Millis(self.now);
        let (flows, tables) = (self.state.flows(&FlowFilter::default(), now), self.state.tables());
        format!("{flows:?} {tables:?} {:?} {:?}", self.state.groups(None, now), self.state.meters(None, now))
    }

    /// Flows as `table/priority:cookie`, in the order of the dump.
    fn flows(&self) -> Vec<String> {
        self.select(&FlowFilter::default())
    }

    fn select(&self, filter: &FlowFilter) -> Vec<String> {
        let infos = self.state.flows(filter, Millis(self.now));
        infos.iter().map(|f| format!("{}/{}:{:x}", f.flow.table, f.flow.priority, f.flow.cookie)).collect()
    }
}

/// Exact values of fields.
fn matching(fields: &[(Field, u128)]) -> Arc<SparseMatch> {
    let (mut key, mut mask) = (FlowKey::default(), FlowMask::default());
    for (field, value) in fields {
        key.set(*field, *value);
        mask.add(*field);
    }
    Arc::new(SparseMatch::new(&key, &mask))
}

fn output(port: u32) -> Action {
    Action::Output { port, max_len: None }
}

/// A flow of a table with a priority that matches `reg0`.
fn flow(table: u8, priority: u16, reg0: u128, cookie: u64, actions: &[Action]) -> FlowSpec {
    FlowSpec {
        table,
        priority,
        matching: matching(&[(Field::Reg0, reg0)]),
        cookie,
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        flags: FlowFlags::default(),
        actions: actions.into(),
    }
}

fn add(table: u8, priority: u16, reg0: u128, cookie: u64, actions: &[Action]) -> Update {
    Update::AddFlow(flow(table, priority, reg0, cookie, actions))
}
