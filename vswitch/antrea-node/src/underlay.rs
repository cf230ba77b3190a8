//! The bridge behind the uplink: what is known of it, and what is written there for the node
//! state's objects.
//!
//! The bridge is somebody else's, or a gateway bridge (`gateway`), and a transaction of its own: it
//! follows the Pods' bridge. What goes is not led there any more before it goes, and what comes is
//! led there when it is there. What the bridge refuses is logged and told, and tried again by
//! `maintain`, which looks once a second: it asks next hops, too, and notices ports and VTEPs that
//! have become others.
//!
//! **Locks**: all of it is under the node state's; announcements leave when it is free.

mod maintain;

pub use maintain::maintain_wire;

use super::gateway::Known;
use super::{Antrea, AntreaError, State};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use vswitch_antrea::wire::{Under, Wire, clear};
use vswitch_antrea::{Code, FlowId, Problem, Problems};
use vswitch_control::PortChange;
use vswitch_control::PortInfo;
use vswitch_dataplane::limits::{TRANSACTION_UPDATES_MAX, VTEP_ADDRESSES_MAX};
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::port::{Cidr, PortKind};
use vswitch_flow::spec::{FlowSpec, Update};
use vswitch_proto::antrea::v1;

/// How often an address is announced (RFC 5227: `ANNOUNCE_NUM`).
const ANNOUNCEMENTS: u32 = 2;

/// Where the program is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UnderlayPlace {
    bridge: String,
    vtep: String,
    patch: String,
    /// Number of the VTEP, and its address on the wire.
    number: u32,
    mac: Mac,
    /// Of a gateway bridge: the port on the wire.
    wire: Option<String>,
}

/// What is there of ours.
#[derive(Debug, Default)]
pub(super) struct Written {
    place: Option<UnderlayPlace>,
    flows: HashMap<FlowId, Arc<FlowSpec>>,
    /// Addresses that the VTEP is to have, and those of them that it has because of us.
    wanted: BTreeSet<IpAddr>,
    vteps: BTreeSet<IpAddr>,
    /// Addresses that the link is told of: how often still, and when.
    announced: BTreeMap<IpAddr, (u32, Instant)>,
    /// What of the store that is, and whether the gate was open; None: not all of it is there.
    version: Option<(u64, bool)>,
    /// The bridge may have flows of ours that are not known.
    unknown: bool,
    /// What is wrong with the bridge at present.
    problems: Problems,
}

impl Written {
    /// Everything is written anew.
    pub(super) fn again(&mut self) {
        self.flows.clear();
        (self.version, self.unknown) = (None, true);
    }

    /// What is wrong with the bridge at present.
    pub(super) const fn problems(&self) -> &Problems {
        &self.problems
    }

    /// Ports that our program needs.
    pub(super) fn ports(&self) -> impl Iterator<Item = &str> {
        self.place
            .iter()
            .flat_map(|place| [Some(&place.vtep), Some(&place.patch), place.wire.as_ref()])
            .flatten()
            .map(String::as_str)
    }

    /// Whether our program needs a port, or (None) the bridge.
    pub(super) fn needs(&self, bridge: &str, port: Option<&str>) -> bool {
        let of = |place: &UnderlayPlace| {
            port.is_none_or(|port| port == place.vtep || port == place.patch || place.wire.as_deref() == Some(port))
        };
        self.place.as_ref().is_some_and(|place| place.bridge == bridge && of(place))
    }
}

/// Which part of what is to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// The Pods' bridge has not changed yet: what goes.
    Going,
    /// It has: all.
    Come,
}

impl Antrea {
    /// What is known of the wire now, and where the program is to be. Asks next hops that are to be
    /// asked.
    fn look(&self, config: &v1::NodeConfig) -> Result<(Wire, Option<UnderlayPlace>), Problems> {
        let mut wire = Wire::default();
        let Some(uplink) = config.uplink.as_ref().filter(|uplink| !uplink.underlay_bridge.is_empty()) else {
            return Ok((wire, None));
        };
        let bridge = &uplink.underlay_bridge;
        let mut problems = Problems::default();
        let place = if *bridge == config.bridge {
            problems.push(Code::Duplicate, "uplink.underlay_bridge", "it is the Pods' bridge");
            None
        } else {
            self.place(config, uplink, &mut problems)
        };
        let Some((place, under)) = place else { return Err(problems) };
        for hop in uplink.next_hops.iter().filter(|hop| hop.mac.is_none()) {
            let Ok(address) = hop.address.parse() else { continue };
            // No link with it: DEGRADED says that it has not answered.
            if let Ok(Some(mac)) = self.switch.ask_neighbour(bridge, address) {
                wire.hops.insert(address, mac);
            }
        }
        wire.under = Some(under);
        Ok((wire, Some(place)))
    }

    fn place(
        &self,
        config: &v1::NodeConfig,
        uplink: &v1::Uplink,
        problems: &mut Problems,
    ) -> Option<(UnderlayPlace, Under)> {
        let bridge = uplink.underlay_bridge.clone();
        let field = "uplink.underlay_bridge";
        let Ok(ports) = self.switch.ports(&bridge) else {
            problems.push(Code::Port, field, format!("there is no bridge {bridge:?}"));
            return None;
        };
        let own = self.switch.ports(&config.bridge).unwrap_or_default();
        let peer = own.iter().find(|port| port.config.name == uplink.port).and_then(|port| match &port.config.kind {
            PortKind::Patch { peer } => Some(peer),
            _ => None,
        });
        let patch = peer.and_then(|peer| ports.iter().find(|port| port.config.name == *peer));
        if patch.is_none() {
            let problem = format!("it is no patch port with its other end in bridge {bridge:?}");
            problems.push(Code::Port, "uplink.port", problem);
        }
        let mac = uplink.mac.as_ref().map(|mac| mac.octets.as_slice()).unwrap_or_default();
        let is_vtep = |port: &&PortInfo| !port.config.addresses.is_empty() && port.mac.0.as_slice() == mac;
        let vtep = ports.iter().find(is_vtep);
        if vtep.is_none() {
            let problem = format!("bridge {bridge:?} has no port with addresses and this MAC address");
            problems.push(Code::Port, "uplink.mac", problem);
        }
        let (patch, vtep) = (patch?, vtep?);
        let wire = self.wire_port(config, uplink, &ports, &Known { patch, vtep }, problems);
        if !problems.is_empty() {
            return None;
        }
        let tunnels: BTreeSet<u16> = self.switch.tunnel_listeners().into_iter().map(|(_, port)| port).collect();
        let number = wire.as_ref().map(|(_, number)| *number);
        let tunnels = tunnels.into_iter().collect();
        let under = Under { patch: patch.number, host: interface(vtep), vtep: vtep.number, wire: number, tunnels };
        let place = UnderlayPlace {
            bridge,
            vtep: vtep.config.name.clone(),
            patch: patch.config.name.clone(),
            number: vtep.number,
            mac: vtep.mac,
            wire: wire.map(|(name, _)| name),
        };
        Some((place, under))
    }

    /// Has the node state know the wire of a Node that is to be; returns what it knew.
    ///
    /// # Errors
    /// When the bridge behind the uplink is not as it must be; then nothing has changed.
    pub(super) fn know_wire(&self, state: &mut State, config: &v1::NodeConfig) -> Result<Wire, AntreaError> {
        let (wire, place) = self.look(config).map_err(AntreaError::Node)?;
        let before = state.node_state.wire().clone();
        state.node_state.set_wire(wire);
        if state.under.place != place {
            self.leave_wire(state);
            state.under.place = place;
        }
        Ok(before)
    }

    /// Checks the bridge behind a Node's uplink.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(super) fn check_wire(&self, config: &v1::NodeConfig) -> Result<Wire, AntreaError> {
        self.look(config).map(|(wire, _)| wire).map_err(AntreaError::Node)
    }

    /// Takes what is ours out of the bridge behind the uplink.
    pub(super) fn leave_wire(&self, state: &mut State) {
        let written = std::mem::take(&mut state.under);
        let Some(place) = &written.place else { return };
        if let Err(error) = self.write_flows(&place.bridge, &[clear()]) {
            tracing::debug!(bridge = place.bridge, %error, "the bridge behind the uplink is gone");
        }
        let mut vteps = written.vteps;
        self.give_vtep_addresses(place, &BTreeSet::new(), &mut vteps);
    }

    /// Lets the bridge behind the uplink follow what objects need. Looks at what has changed alone,
    /// if all the rest is there.
    pub(super) fn follow_wire(&self, state: &mut State, when: When) {
        let (wire, open, written) = (state.node_state.store().on_wire(), state.gate_open, &mut state.under);
        let version = (wire.version(), open);
        if written.version == Some(version) {
            return;
        }
        let Some(place) = written.place.clone() else { return };
        let known = written.version.filter(|(_, was_open)| *was_open == open);
        let look_at: HashSet<FlowId> = match known {
            Some(_) => wire.touched().cloned().collect(),
            None => written.flows.keys().chain(wire.flows()).cloned().collect(),
        };
        let wanted = look_at.into_iter().map(|id| (wire.flow(&id).filter(|_| open), id));
        let others: Vec<_> = wanted.filter(|(flow, id)| flow.as_ref() != written.flows.get(id)).collect();
        let (come, go): (Vec<_>, Vec<_>) = others.into_iter().partition(|(flow, _)| flow.is_some());
        let mut updates = if written.unknown { vec![clear()] } else { Vec::new() };
        updates.extend(go.iter().map(|(_, id)| id.clone().delete()));
        if when == When::Come {
            updates.extend(come.iter().filter_map(|(flow, _)| Some(Update::AddFlow(FlowSpec::clone(flow.as_ref()?)))));
        }
        for updates in updates.chunks(TRANSACTION_UPDATES_MAX) {
            if let Err(error) = self.write_flows(&place.bridge, updates) {
                tracing::error!(bridge = place.bridge, %error, "the bridge behind the uplink refuses its flows; it is tried again");
                written.again();
                let problem =
                    Problem::new(Code::Pipeline, "uplink.underlay_bridge", format!("its flows are refused: {error}"));
                written.problems = Problems::default();
                written.problems.add(problem.hint("report it"));
                return;
            }
        }
        written.unknown = false;
        go.iter().for_each(|(_, id)| drop(written.flows.remove(id)));
        if when == When::Going {
            return;
        }
        written.flows.extend(come.into_iter().filter_map(|(flow, id)| Some((id, flow?))));
        let addresses_stay = known.is_some_and(|(version, _)| !wire.has_other_addresses(version));
        let told = addresses_stay || {
            let (vteps, announced) = if open { (wire.vteps(), wire.announced()) } else { Default::default() };
            self.tell_addresses(&place, written, vteps, announced)
        };
        written.version = told.then_some(version);
        state.node_state.settle_wire();
    }

    /// Where tunnels end, and what the link is to be told of. False: it is to be tried again.
    fn tell_addresses(
        &self,
        place: &UnderlayPlace,
        written: &mut Written,
        vteps: BTreeSet<IpAddr>,
        announced: BTreeSet<IpAddr>,
    ) -> bool {
        let told = self.give_vtep_addresses(place, &vteps, &mut written.vteps);
        written.wanted = vteps;
        let now = Instant::now();
        written.announced.retain(|address, _| announced.contains(address));
        for address in announced {
            written.announced.entry(address).or_insert((ANNOUNCEMENTS, now));
        }
        told
    }

    /// Gives the VTEP the addresses that tunnels of other Nodes end at, and takes those away that
    /// it has because of us (`ours`). The switch tells the link of new ones itself. False: it is to
    /// be tried again.
    fn give_vtep_addresses(
        &self,
        place: &UnderlayPlace,
        wanted: &BTreeSet<IpAddr>,
        ours: &mut BTreeSet<IpAddr>,
    ) -> bool {
        let ports = self.switch.ports(&place.bridge).unwrap_or_default();
        let Some(vtep) = ports.into_iter().find(|port| port.config.name == place.vtep) else { return false };
        let mut addresses = vtep.config.addresses.clone();
        addresses.retain(|own| wanted.contains(&own.address) || !ours.contains(&own.address));
        let missing = wanted.iter().filter(|address| !addresses.iter().any(|own| own.address == **address));
        let missing: Vec<Cidr> = missing.map(|address| host(*address)).collect();
        let left = VTEP_ADDRESSES_MAX.saturating_sub(addresses.len());
        if missing.len() > left {
            tracing::error!(port = place.vtep, left_out = missing.len() - left, "the VTEP has too many addresses");
        }
        addresses.extend(missing.iter().take(left));
        if addresses == vtep.config.addresses {
            return true;
        }
        let change = PortChange { addresses: Some(addresses), ..PortChange::default() };
        if let Err(error) = self.switch.modify_port(&place.bridge, &place.vtep, &change) {
            tracing::error!(port = place.vtep, %error, "Egress IPs cannot be addresses of the VTEP; it is tried again");
            return false;
        }
        ours.retain(|address| wanted.contains(address));
        ours.extend(missing.iter().take(left).map(|own| own.address));
        true
    }
}

/// An address by itself.
const fn host(address: IpAddr) -> Cidr {
    Cidr { address, len: if address.is_ipv4() { 32 } else { 128 } }
}

/// The host's interface at a port, if it is one that the switch makes.
fn interface(port: &PortInfo) -> String {
    match &port.config.kind {
        PortKind::Internal { .. } => port.config.name.clone(),
        PortKind::Tap { interface, .. } => interface.clone(),
        _ => String::new(),
    }
}
