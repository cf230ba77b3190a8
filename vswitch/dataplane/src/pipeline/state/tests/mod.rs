//! Transactions, dumps and timeouts, with an injected clock.

mod expire;
mod flows;
mod groups;
mod large;
mod meters;
mod model;
mod options;
mod replace;
mod transactions;

use super::{Applied, FlowInfo, PipelineState, Refused};
use crate::pipeline::Changes;
use crate::time::Millis;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_flow::action::{Action, Controller, Learn};
use vswitch_flow::spec::{
    Band, BandKind, BucketPlace, BucketSpec, FlowFilter, FlowFlags, FlowSpec, GroupKind, GroupSpec, MeterSpec,
    Selection, Update,
};
use vswitch_flow::{Field, FlowKey, FlowMask, SparseMatch};

/// A pipeline with a clock and a count of worlds.
struct Bench {
    state: PipelineState,
    now: u64,
    world: u64,
}

impl Default for Bench {
    fn default() -> Self {
        Self { state: PipelineState::new(&Arc::new(Changes::default())), now: 0, world: 0 }
    }
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
        let index = &self.state.index;
        format!("{flows:?} {tables:?} {:?} {:?} {index:?}", self.state.groups(None, now), self.state.meters(None, now))
    }

    /// Flows as `table/priority:cookie`, in the order of the dump.
    fn flows(&self) -> Vec<String> {
        self.select(&FlowFilter::default())
    }

    fn select(&self, filter: &FlowFilter) -> Vec<String> {
        let infos = self.state.flows(filter, Millis(self.now));
        infos.iter().map(|f| format!("{}/{}:{:x}", f.flow.table, f.flow.priority, f.flow.cookie)).collect()
    }

    /// The flow of a priority, the only one of it.
    fn flow(&self, priority: u16) -> FlowInfo {
        let mut infos = self.state.flows(&FlowFilter::default(), Millis(self.now));
        infos.retain(|info| info.flow.priority == priority);
        assert_eq!(infos.len(), 1, "flows of priority {priority}");
        infos.remove(0)
    }

    /// Packets hit the flow of a priority.
    fn hit(&self, priority: u16, packets: u64) {
        let program = self.state.program();
        let rules = program.tables.iter().flatten().flat_map(|table| table.rules.iter());
        for entry in rules.filter(|entry| entry.priority == priority) {
            let stats = &entry.data.stats;
            stats.packets.fetch_add(packets, Relaxed);
            stats.bytes.fetch_add(packets * 60, Relaxed);
            stats.used_ms.store(self.now, Relaxed);
        }
    }

    /// World in which a table last changed.
    fn changed(&self, table: u8) -> u64 {
        self.state.program().table(table).map_or(0, |table| table.changed)
    }

    /// Flow-removed events, as `priority:cookie reason`.
    fn removed(&mut self) -> Vec<String> {
        let text = |r: &super::FlowRemoved| format!("{}:{:x} {:?}", r.flow.flow.priority, r.flow.flow.cookie, r.reason);
        self.state.take_removed().iter().map(text).collect()
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

fn clone(action: Action) -> Action {
    Action::Clone([action].into())
}

fn write(action: Action) -> Action {
    Action::WriteActions([action].into())
}

/// `learn(table,cookie,delete_learned)`.
fn learn(table: u8, cookie: u64) -> Action {
    Action::Learn(Box::new(Learn {
        idle_timeout: 0,
        hard_timeout: 0,
        fin_idle_timeout: 0,
        fin_hard_timeout: 0,
        priority: 1,
        cookie,
        table,
        send_flow_rem: false,
        delete_learned: true,
        limit: 0,
        result: None,
        specs: [].into(),
    }))
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

fn delete(filter: FlowFilter) -> Update {
    Update::DeleteFlows(filter)
}

fn table(table: u8) -> FlowFilter {
    FlowFilter { table: Some(table), ..FlowFilter::default() }
}

fn bucket(id: u32, actions: &[Action]) -> BucketSpec {
    BucketSpec { id, weight: 0, watch_port: None, watch_group: None, actions: actions.into() }
}

fn group(id: u32, kind: GroupKind, buckets: &[BucketSpec]) -> GroupSpec {
    let mut buckets = buckets.to_vec();
    if kind == GroupKind::Select {
        buckets.iter_mut().for_each(|bucket| bucket.weight = 1);
    }
    GroupSpec { id, kind, selection: Selection::Default, buckets }
}

fn add_group(id: u32) -> Update {
    Update::AddGroup(group(id, GroupKind::All, &[bucket(0, &[output(1)])]))
}

fn meter(id: u32, rate: u32) -> MeterSpec {
    let bands = vec![Band { kind: BandKind::Drop, rate, burst: 0 }];
    MeterSpec { id, pktps: true, burst: false, stats: true, bands }
}

fn add_meter(id: u32) -> Update {
    Update::AddMeter(meter(id, 100))
}
