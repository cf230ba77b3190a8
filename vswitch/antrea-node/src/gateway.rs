//! The gateway bridge: what it must be like, for `underlay` to own all of its flows.
//!
//! **Design**: its fail mode is standalone, so that without flows of the switch the host and the
//! wire reach each other: before the gate opens, after a reset, and when the switch starts. The
//! program is above that flow, and one transaction.

use super::{Antrea, AntreaError, State};
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_antrea::{Code, Key, Problem, Problems};
use vswitch_control::{PortInfo, SwitchError};
use vswitch_dataplane::pipeline::FailMode;
use vswitch_dataplane::port::PortKind;
use vswitch_flow::spec::{FlowFilter, FlowSpec};
use vswitch_proto::antrea::v1;

/// Cookies of our flows in that bridge, but for their lower 40 bits.
const OURS: u64 = 0x1_fe00_0000_0000;
/// Bits of a cookie that say whose it is.
const WHOSE: u64 = 0xffff_ff00_0000_0000;

/// Ports that the program knows by name.
pub(super) struct Known<'a> {
    /// The end of the way to the Pods' bridge.
    pub(super) patch: &'a PortInfo,
    /// The host's.
    pub(super) vtep: &'a PortInfo,
}

impl Antrea {
    /// Judges the gateway bridge, and finds its port on the wire. None: there is none, or problems
    /// say why not.
    pub(super) fn wire_port(
        &self,
        config: &v1::NodeConfig,
        uplink: &v1::Uplink,
        ports: &[PortInfo],
        known: &Known<'_>,
        problems: &mut Problems,
    ) -> Option<(String, u32)> {
        let gateway = uplink.gateway.as_ref()?;
        let bridge = &uplink.underlay_bridge;
        let bridges = self.switch.bridges();
        let mode = bridges.iter().find(|info| info.config.name == *bridge).map(|info| info.config.fail_mode);
        if mode == Some(FailMode::Secure) {
            let reason = format!("bridge {bridge:?} is secure: without flows the host would not be reachable");
            let hint = format!("vsctl set-fail-mode {bridge} standalone");
            problems.add(Problem::new(Code::Value, "uplink.underlay_bridge", reason).hint(hint));
        }
        addresses(config, gateway, known.vtep, problems);
        if gateway.no_uplink {
            return None;
        }
        let names = [&known.patch.config.name, &known.vtep.config.name];
        let others: Vec<&PortInfo> = ports.iter().filter(|port| !names.contains(&&port.config.name)).collect();
        let field = "uplink.gateway.port";
        if !gateway.port.is_empty() {
            let found = others.iter().find(|port| port.config.name == gateway.port);
            if found.is_none() {
                let reason =
                    format!("bridge {bridge:?} has no port {:?} beside the patch port and the VTEP", gateway.port);
                problems.push(Code::Port, field, reason);
            }
            return found.map(|port| (port.config.name.clone(), port.number));
        }
        let wires: Vec<_> = others.iter().filter(|port| !matches!(port.config.kind, PortKind::Patch { .. })).collect();
        match wires[..] {
            [port] => Some((port.config.name.clone(), port.number)),
            [] => {
                let reason = format!("bridge {bridge:?} has no port on the wire");
                problems.add(Problem::new(Code::Port, field, reason).hint("add the card's port to the bridge"));
                None
            }
            [first, second, ..] => {
                let (first, second) = (&first.config.name, &second.config.name);
                let reason = format!("bridge {bridge:?} has ports {first:?} and {second:?}: which one is on the wire?");
                problems.add(Problem::new(Code::Port, field, reason).hint("name it"));
                None
            }
        }
    }

    /// Nobody else's flows are in the gateway bridge.
    pub(super) fn no_foreign_flows(&self, config: &v1::NodeConfig) -> Result<(), AntreaError> {
        let Some(uplink) = config.uplink.as_ref().filter(|uplink| uplink.gateway.is_some()) else { return Ok(()) };
        let bridge = &uplink.underlay_bridge;
        let flows = self.switch.flows(bridge, &FlowFilter::default())?;
        let foreign: Vec<&FlowSpec> = flows.iter().map(|info| &info.flow).filter(|flow| is_foreign(flow)).collect();
        let Some(first) = foreign.first() else { return Ok(()) };
        let mut problems = Problems::default();
        let reason = format!(
            "bridge {bridge:?} has {} flows that are not ours, one of table {}, priority {}",
            foreign.len(),
            first.table,
            first.priority
        );
        let hint = format!("delete them (vsctl del-flows {bridge}), or leave out uplink.gateway");
        problems.add(Problem::new(Code::Value, "uplink.underlay_bridge", reason).hint(hint));
        Err(AntreaError::Node(problems))
    }

    /// Calls `change` unless the bridge is the gateway bridge: without it, or without the flow of
    /// its fail mode, the host is not reachable.
    ///
    /// # Errors
    /// When it is, or as `change`.
    pub fn unless_the_gateway_bridge(
        &self,
        bridge: &str,
        change: impl FnOnce() -> Result<(), SwitchError>,
    ) -> Result<(), SwitchError> {
        let state = self.state.lock();
        not_the_gateway_bridge(&state, bridge)?;
        change()
    }

    /// Calls `delete` unless the bridge is the Node's, or its gateway bridge.
    ///
    /// # Errors
    /// When it is, or as `delete`.
    pub fn unless_either_bridge(
        &self,
        bridge: &str,
        delete: impl FnOnce() -> Result<(), SwitchError>,
    ) -> Result<(), SwitchError> {
        let state = self.state.lock();
        not_the_gateway_bridge(&state, bridge)?;
        state.not_the_nodes(bridge)?;
        delete()
    }
}

fn not_the_gateway_bridge(state: &State, bridge: &str) -> Result<(), SwitchError> {
    let uplink = state.node_state.node().and_then(|(config, _)| config.uplink.as_ref());
    if uplink.is_some_and(|uplink| uplink.gateway.is_some() && uplink.underlay_bridge == bridge) {
        return Err(SwitchError::Precondition(format!(
            "bridge {bridge:?} is the Node's gateway bridge (NodeConfig.uplink.gateway); initialise the Node without it, or reset it, first"
        )));
    }
    Ok(())
}

/// The VTEP has the host's addresses.
fn addresses(config: &v1::NodeConfig, gateway: &v1::GatewayBridge, vtep: &PortInfo, problems: &mut Problems) {
    let given = if gateway.addresses.is_empty() { &config.transport_addresses } else { &gateway.addresses };
    for text in given {
        let Ok(address) = text.split('/').next().unwrap_or_default().parse::<IpAddr>() else { continue };
        if !vtep.config.addresses.iter().any(|own| own.address == address) {
            let name = &vtep.config.name;
            let reason = format!("{text}: the VTEP {name:?} does not have this address");
            let hint = format!("vsctl set-port BRIDGE {name} --address {text}, or name an address of the Node");
            problems.add(Problem::new(Code::Port, "uplink.gateway.addresses", reason).hint(hint));
        }
    }
}

/// Whether a flow is neither ours nor that of the fail mode.
fn is_foreign(flow: &FlowSpec) -> bool {
    let of_fail_mode = flow.table == 0 && flow.priority == 0 && flow.matching == Arc::default();
    flow.cookie & WHOSE != OURS && !of_fail_mode
}

/// What is wrong with the bridge behind the uplink at present, with the Node's other problems.
pub(super) fn tell(state: &State, told: &mut Vec<v1::ObjectStatus>) {
    let problems = state.under.problems().all();
    if problems.is_empty() {
        return;
    }
    let node = Key::node().to_proto();
    let at = told.iter().position(|status| status.object.as_ref() == Some(&node)).unwrap_or_else(|| {
        let outcome = v1::ObjectOutcome::Degraded.into();
        told.insert(0, v1::ObjectStatus { object: Some(node), outcome, ..v1::ObjectStatus::default() });
        0
    });
    told[at].problems.extend(problems.iter().map(Problem::to_proto));
}
