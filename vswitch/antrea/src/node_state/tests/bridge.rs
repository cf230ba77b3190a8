//! A bridge that does what updates say: flows, groups and meters.

use crate::{FlowId, NodeState};
use std::collections::HashMap;
use vswitch_flow::spec::{BucketPlace, BucketSpec, FlowSpec, GroupSpec, MeterSpec, Update};

/// What a bridge has.
#[derive(Debug, Default)]
pub(super) struct Bridge {
    flows: HashMap<FlowId, FlowSpec>,
    meters: HashMap<u32, MeterSpec>,
    groups: HashMap<u32, GroupSpec>,
}

impl Bridge {
    /// One that has what a node state writes.
    pub(super) fn of(node_state: &NodeState) -> Self {
        let mut bridge = Self::default();
        bridge.take(&node_state.store().everything());
        bridge
    }

    /// Does what they say; each must be possible, and make a difference.
    pub(super) fn take(&mut self, updates: &[Update]) {
        for update in updates {
            match update {
                Update::AddFlow(flow) => {
                    let old = self.flows.insert(FlowId::of(flow), flow.clone());
                    assert_ne!(old.as_ref(), Some(flow), "it was there");
                }
                Update::DeleteFlows(filter) => {
                    let (Some(table), Some(priority)) = (filter.table, filter.strict) else { panic!("{filter:?}") };
                    let id = FlowId { table, priority, matching: filter.matching.clone() };
                    assert!(self.flows.remove(&id).is_some(), "it was not there: {id:?}");
                }
                Update::AddMeter(meter) => assert!(self.meters.insert(meter.id, meter.clone()).is_none(), "{meter:?}"),
                Update::ModifyMeter(meter) => {
                    let old = self.meters.insert(meter.id, meter.clone());
                    assert!(old.is_some_and(|old| old != *meter), "{meter:?}");
                }
                Update::DeleteMeters(Some(id)) => assert!(self.meters.remove(id).is_some(), "{id}"),
                other => self.take_group(other),
            }
        }
    }

    fn take_group(&mut self, update: &Update) {
        match update {
            Update::AddGroup(group) => assert!(self.groups.insert(group.id, sorted(group)).is_none(), "{group:?}"),
            Update::ModifyGroup { spec, .. } => {
                let old = self.groups.insert(spec.id, sorted(spec));
                assert!(old.is_some_and(|old| old != sorted(spec)), "{spec:?}");
            }
            Update::InsertBuckets { group, buckets, .. } => {
                let there = self.buckets(*group);
                assert!(!buckets.iter().any(|new| there.iter().any(|old| old.id == new.id)), "{buckets:?}: {there:?}");
                there.extend(buckets.iter().cloned());
                there.sort_unstable_by_key(|bucket| bucket.id);
            }
            Update::RemoveBuckets { group, place: BucketPlace::Before(id) } => {
                let there = self.buckets(*group);
                let before = there.len();
                there.retain(|bucket| bucket.id != *id);
                assert_eq!(there.len() + 1, before, "{id}");
            }
            Update::DeleteGroups(Some(id)) => assert!(self.groups.remove(id).is_some(), "{id}"),
            other => panic!("{other:?}"),
        }
    }

    fn buckets(&mut self, group: u32) -> &mut Vec<BucketSpec> {
        &mut self.groups.get_mut(&group).unwrap_or_else(|| panic!("there is no group {group}")).buckets
    }

    /// It has what the node state writes.
    pub(super) fn is_as(&self, node_state: &NodeState) {
        let other = Self::of(node_state);
        assert!(self.flows == other.flows, "{:?}\n{:?}", self.flows, other.flows);
        assert_eq!(self.meters, other.meters);
        assert_eq!(self.groups, other.groups);
    }
}

/// With its buckets in order of their ids: new ones come last in a bridge.
fn sorted(group: &GroupSpec) -> GroupSpec {
    let mut group = group.clone();
    group.buckets.sort_unstable_by_key(|bucket| bucket.id);
    group
}
