//! The look at the wire, once a second: next hops, ports and VTEPs that have become others, a Node
//! of before that waits for them, and announcements that are due.

use super::{When, Written};
use crate::{Antrea, State};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use vswitch_antrea::{Problems, Wire};
use vswitch_flow::action::port;
use vswitch_flow::text::PacketOut;
use vswitch_flow::{Action, Field, FlowKey};
use vswitch_overlay::question::announcement;
use vswitch_proto::antrea::v1;

/// How often the wire is looked at.
const PERIOD: Duration = Duration::from_secs(1);
/// How often it is looked at while a next hop has not answered.
const SOON: Duration = Duration::from_millis(200);
/// What lies between two announcements of an address (RFC 5227: `ANNOUNCE_INTERVAL`).
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);

impl Antrea {
    /// Looks at the wire: next hops, ports, VTEPs. Returns what is to be announced, and when to
    /// look again.
    fn maintain_wire(&self) -> (Vec<(String, PacketOut)>, Duration) {
        let mut state = self.state.lock();
        let state = &mut *state;
        self.resume(state);
        let Some((config, node)) = state.node_state.node().cloned() else { return (Vec::new(), PERIOD) };
        if node.uplink.as_ref().is_none_or(|uplink| uplink.underlay_bridge.is_empty()) {
            return (Vec::new(), PERIOD);
        }
        let (wire, place) = match self.look(&config) {
            Ok(found) => found,
            Err(problems) => {
                if !state.under.unknown {
                    tracing::warn!(?problems, "the bridge behind the uplink is not as the Node needs it");
                }
                state.under.again();
                state.under.problems = problems;
                return (Vec::new(), PERIOD);
            }
        };
        state.under.problems = Problems::default();
        if state.under.place != place {
            self.leave_wire(state);
            state.under.place = place;
        }
        if wire != *state.node_state.wire() {
            self.rewire(state, wire, &node.bridge);
        }
        if let Some(place) = state.under.place.clone()
            && state.under.version.is_some()
        {
            let wanted = state.under.wanted.clone();
            self.give_vtep_addresses(&place, &wanted, &mut state.under.vteps);
        }
        self.follow_wire(state, When::Come);
        let asked = node.uplink.iter().flat_map(|uplink| &uplink.next_hops).filter(|(_, mac)| mac.is_none());
        let waits = asked.into_iter().any(|(address, _)| !state.node_state.wire().hops.contains_key(address));
        (due(&mut state.under), if waits { SOON } else { PERIOD })
    }

    /// The wire is another one: what looks at it is compiled anew.
    fn rewire(&self, state: &mut State, wire: Wire, bridge: &str) {
        let before = state.node_state.wire().clone();
        for (address, mac) in wire.hops.iter().filter(|(address, mac)| before.hops.get(address) != Some(mac)) {
            tracing::info!(%address, %mac, "a next hop of the uplink has answered");
        }
        for address in before.hops.keys().filter(|address| !wire.hops.contains_key(address)) {
            tracing::warn!(%address, "a next hop of the uplink does not answer any more");
        }
        let plan = match state.node_state.plan_wire(wire) {
            Ok(plan) => plan,
            Err(refused) => {
                tracing::error!(?refused, "objects cannot have their way to the wire; report it");
                state.node_state.set_wire(before);
                return;
            }
        };
        if state.gate_open
            && !plan.updates.is_empty()
            && let Err(error) = self.write_flows(bridge, &plan.updates)
        {
            tracing::error!(%error, "the pipeline refused the way to the wire; report it");
            state.node_state.revert(plan);
            state.node_state.set_wire(before);
            return;
        }
        let turned = state.node_state.turned(&plan);
        state.node_state.settle(plan);
        self.tell_objects(state, &turned);
    }

    /// Next hops as they are known.
    pub(crate) fn next_hops(state: &State) -> Vec<v1::NextHop> {
        let Some((config, _)) = state.node_state.node() else { return Vec::new() };
        let hops = config.uplink.iter().flat_map(|uplink| &uplink.next_hops);
        let known = |hop: &v1::NextHop| {
            let found = hop.address.parse().ok().and_then(|address| state.node_state.wire().hops.get(&address));
            let found = found.map(|mac| vswitch_proto::v1::MacAddress { octets: mac.0.to_vec() });
            v1::NextHop { address: hop.address.clone(), mac: hop.mac.clone().or(found) }
        };
        hops.map(known).collect()
    }
}

/// Announcements that are due now: packets of the VTEP.
fn due(written: &mut Written) -> Vec<(String, PacketOut)> {
    let (Some(place), now) = (&written.place, Instant::now()) else { return Vec::new() };
    let mut packets = Vec::new();
    for (address, (left, next)) in &mut written.announced {
        if *left == 0 || *next > now {
            continue;
        }
        (*left, *next) = (*left - 1, now + ANNOUNCE_INTERVAL);
        let mut metadata = FlowKey::default();
        metadata.set(Field::InPort, place.number.into());
        let actions = vec![Action::Output { port: port::TABLE, max_len: None }];
        packets
            .push((place.bridge.clone(), PacketOut { metadata, packet: announcement(place.mac.0, *address), actions }));
    }
    packets
}

/// The task that looks at the wire, until the server stops.
pub async fn maintain_wire(antrea: Arc<Antrea>, mut stopping: watch::Receiver<bool>) {
    loop {
        let antrea = Arc::clone(&antrea);
        let look = move || {
            let (packets, soon) = antrea.maintain_wire();
            for (bridge, packet) in packets {
                if let Err(error) = antrea.switch.packet_out(&bridge, &packet) {
                    tracing::warn!(bridge, %error, "an address could not be announced");
                }
            }
            soon
        };
        let soon = tokio::task::spawn_blocking(look).await.unwrap_or(PERIOD);
        tokio::select! {
            () = tokio::time::sleep(soon) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
    }
}
