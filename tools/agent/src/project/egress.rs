//! Egresses and TrafficControls.

use crate::kinds::egress::{Bandwidth, EgressBody};
use crate::kinds::traffic_control::{self, Action, Direction, Port};
use crate::model::Item;
use crate::problem::Problem;
use crate::resolve::groups::local_pods;
use crate::resolve::{World, net};
use vswitch_proto::antrea::v1;

/// An Egress that matters here: it has Pods of this Node, or its address. Annotation
/// `vswitch/translation` (Switch, Host) says who translates.
pub(super) fn egress(
    world: &World<'_>,
    item: &Item<EgressBody>,
    odd: &mut Vec<Problem>,
) -> Result<Option<v1::Egress>, Box<Problem>> {
    let (spec, status) = (&item.body.spec, &item.body.status);
    let pods = local_pods(world, &item.origin, &spec.applied_to, odd)?;
    let translation = match item.meta.annotation("translation") {
        None => v1::EgressTranslation::Unspecified,
        Some("Switch") => v1::EgressTranslation::Switch,
        Some("Host") => v1::EgressTranslation::Host,
        Some(other) => {
            let reason = format!("{other:?} is not one of Switch, Host");
            return Err(Box::new(item.origin.error("metadata.annotations[vswitch/translation]", reason)));
        }
    };
    let bandwidth = spec.bandwidth.as_ref().map(|bandwidth| rate(item, bandwidth)).transpose()?;
    let mut given = spec.egress_ips.iter().filter(|address| world.has(address) && **address != spec.egress_ip);
    let first = if spec.egress_ip.is_empty() { given.next().unwrap_or(&status.egress_ip) } else { &spec.egress_ip };
    for address in given {
        let reason = format!("one address is served, which is {first}: {address} is left out");
        odd.push(item.origin.tolerated("spec.egressIPs", reason));
    }
    let address = first;
    if address.is_empty() {
        return Err(Box::new(item.origin.warning("spec.egressIP", "no address yet: left out")));
    }
    if pods.is_empty() && status.egress_node != world.node {
        return Ok(None);
    }
    Ok(Some(v1::Egress {
        name: item.meta.name.clone(),
        address: address.clone(),
        node: status.egress_node.clone(),
        pods,
        translation: translation.into(),
        bandwidth,
    }))
}

fn rate(item: &Item<EgressBody>, bandwidth: &Bandwidth) -> Result<v1::EgressBandwidth, Box<Problem>> {
    let kilobits = |field: &str, text: &str| {
        let reason = || format!("{text:?} is no quantity of bits, such as 500k or 10M");
        let wrong = || Box::new(item.origin.error(format!("spec.bandwidth.{field}"), reason()));
        net::kilobits(text).ok_or_else(wrong)
    };
    Ok(v1::EgressBandwidth {
        rate_kbps: kilobits("rate", &bandwidth.rate)?,
        burst_kb: kilobits("burst", &bandwidth.burst)?,
    })
}

/// A TrafficControl that has Pods of this Node. Annotation `vswitch/priority` is its priority.
pub(super) fn traffic_control(
    world: &World<'_>,
    item: &Item<traffic_control::TrafficControlBody>,
    odd: &mut Vec<Problem>,
) -> Result<Option<v1::TrafficControl>, Box<Problem>> {
    let spec = &item.body.spec;
    let pods = local_pods(world, &item.origin, &spec.applied_to, odd)?;
    let port = |field: &str, port: &Port| {
        if let Some(tunnel) = port.tunnel() {
            let problem = item.origin.error(format!("spec.{field}.{tunnel}"), "tunnels are not made here");
            return Err(Box::new(problem.hint("add the port to the bridge, and name it as a device")));
        }
        let wrong = || Box::new(item.origin.error(format!("spec.{field}"), "needs one of ovsInternal and device"));
        port.name().map(str::to_owned).ok_or_else(wrong)
    };
    let priority = match item.meta.annotation("priority").map(|text| (text, text.parse())) {
        None => 0,
        Some((_, Ok(priority))) => priority,
        Some((text, Err(_))) => {
            let reason = format!("{text:?} is no number");
            return Err(Box::new(item.origin.error("metadata.annotations[vswitch/priority]", reason)));
        }
    };
    let control = v1::TrafficControl {
        name: item.meta.name.clone(),
        pods,
        direction: match spec.direction {
            Direction::Ingress => v1::TrafficDirection::Ingress,
            Direction::Egress => v1::TrafficDirection::Egress,
            Direction::Both => v1::TrafficDirection::Both,
        }
        .into(),
        action: match spec.action {
            Action::Mirror => v1::TrafficControlAction::Mirror,
            Action::Redirect => v1::TrafficControlAction::Redirect,
        }
        .into(),
        target_port: port("targetPort", &spec.target_port)?,
        return_port: spec.return_port.as_ref().map_or(Ok(String::new()), |of| port("returnPort", of))?,
        priority,
    };
    Ok(Some(control).filter(|control| !control.pods.is_empty()))
}
