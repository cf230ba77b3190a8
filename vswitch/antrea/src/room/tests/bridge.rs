//! A bridge that does what updates say: flows and meters.

use crate::{FlowId, Room};
use std::collections::HashMap;
use vswitch_flow::spec::{FlowSpec, MeterSpec, Update};

/// What a bridge has.
#[derive(Debug, Default)]
pub(super) struct Bridge {
    flows: HashMap<FlowId, FlowSpec>,
    meters: HashMap<u32, MeterSpec>,
}

impl Bridge {
    /// One that has what a room writes.
    pub(super) fn of(room: &Room) -> Self {
        let mut bridge = Self::default();
        bridge.take(&room.store().everything());
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
                other => panic!("{other:?}"),
            }
        }
    }

    /// It has what the room writes.
    pub(super) fn is_as(&self, room: &Room) {
        let other = Self::of(room);
        assert!(self.flows == other.flows, "{:?}\n{:?}", self.flows, other.flows);
        assert_eq!(self.meters, other.meters);
    }
}
