//! Records of connections that live: a walk through the tracker, which holds one connection at a
//! time.

use super::CHUNK;
use crate::Antrea;
use std::collections::HashMap;
use std::ops::ControlFlow;
use vswitch_conntrack::{Connection, Filter};
use vswitch_dataplane::time::Millis;
use vswitch_proto::antrea::v1;

/// Which records are asked for.
#[derive(Clone, Debug, Default)]
pub struct Only {
    /// Of connections from or to this Pod; empty: all.
    pub pod: String,
    /// Of those to this Service; empty: all.
    pub service: String,
}

impl Only {
    fn means(&self, record: &v1::FlowRecord) -> bool {
        let of_service = || record.service.rsplit_once(':').is_some_and(|(service, _)| service == self.service);
        (self.pod.is_empty() || record.source_pod == self.pod || record.destination_pod == self.pod)
            && (self.service.is_empty() || of_service())
    }
}

impl Antrea {
    /// Shows records of the connections that live, in parts that are not empty, until `show` has
    /// seen enough. Blocks.
    pub fn walk_records(&self, only: &Only, mut show: impl FnMut(Vec<v1::FlowRecord>) -> ControlFlow<()>) {
        self.walk(&mut |_| true, &mut |connections| {
            let records = self.records_of(&connections, only);
            if records.is_empty() { ControlFlow::Continue(()) } else { show(records) }
        });
    }

    /// As [`Self::walk_records`], of connections that have had packets since `seen`, which becomes
    /// what they have had now, by their ids. Those that are not in `seen` have.
    pub fn walk_active(
        &self,
        seen: &mut HashMap<u64, u64>,
        mut show: impl FnMut(Vec<v1::FlowRecord>) -> ControlFlow<()>,
    ) {
        // Those that have gone are not taken over: it is never more than there are connections.
        let mut now_seen = HashMap::new();
        let mut is_active = |connection: &Connection| {
            let packets = connection.packets.iter().fold(0_u64, |sum, packets| sum.wrapping_add(*packets));
            now_seen.insert(connection.id, packets);
            seen.get(&connection.id) != Some(&packets)
        };
        self.walk(&mut is_active, &mut |connections| {
            let records = self.records_of(&connections, &Only::default());
            if records.is_empty() { ControlFlow::Continue(()) } else { show(records) }
        });
        *seen = now_seen;
    }

    fn records_of(&self, connections: &[Connection], only: &Only) -> Vec<v1::FlowRecord> {
        let made = self.with_maker(|maker| {
            let records = connections.iter().filter_map(|connection| maker.record(connection, false));
            records.filter(|record| only.means(record)).collect()
        });
        made.unwrap_or_default()
    }

    fn walk(
        &self,
        wants: &mut dyn FnMut(&Connection) -> bool,
        show: &mut dyn FnMut(Vec<Connection>) -> ControlFlow<()>,
    ) {
        // Zones do not change while connections live.
        let Some(zones) = self.with_maker(|maker| maker.main_zones()) else { return };
        let conntrack = self.switch.conntrack();
        for zone in zones {
            let mut part = Vec::with_capacity(CHUNK);
            let mut flow = ControlFlow::Continue(());
            let filter = Filter { zone: Some(zone), ..Filter::default() };
            conntrack.tracker().dump(&filter, Millis::now().0, |connection| {
                if wants(connection) {
                    part.push(*connection);
                }
                if part.len() == CHUNK {
                    flow = show(std::mem::replace(&mut part, Vec::with_capacity(CHUNK)));
                }
                flow
            });
            if flow.is_break() || (!part.is_empty() && show(part).is_break()) {
                return;
            }
        }
    }
}
