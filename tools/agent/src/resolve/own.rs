//! What this Node is: the NodeConfigs that are about it, and what its Node object says where they
//! are silent.
//!
//! A NodeConfig is about a Node if it has the Node's name, if its `nodeSelector` selects the Node,
//! or if it is named `default` and has no selector. The one of the Node's name overrides the others
//! field by field. So one object configures all Nodes, and none needs one of its own.

use super::net::{contains, first_address, is_six, mac_of};
use super::selector::{check, matches};
use crate::kinds::Labels;
use crate::kinds::node::NodeBody;
use crate::kinds::node_config::{Gateway, NodeConfigBody, PortName, Spec, texts};
use crate::model::{Item, Model};
use crate::problem::{NOWHERE, Origin, Problem};
use std::net::IpAddr;

/// The name of a NodeConfig for Nodes that no other one selects.
const DEFAULT: &str = "default";
/// The kind of its documents.
const KIND: &str = "NodeConfig.vswitch.io";
/// Antrea's names of the bridge and its ports.
const BRIDGE: &str = "br-int";
const GATEWAY: &str = "antrea-gw0";
const TUNNEL: &str = "antrea-tun0";

/// What a Node is, with all that can be derived.
#[derive(Debug)]
pub struct Own {
    /// Its fields.
    pub spec: Spec,
    /// The document that it is from: the one of the Node's name, if there is one.
    pub origin: Origin,
    /// The document that says the prefixes of its Pods.
    pub cidrs_origin: Origin,
    /// What is odd.
    pub odd: Vec<Problem>,
}

impl Own {
    /// Where its Pods' addresses are from.
    pub fn pod_cidrs(&self) -> &[String] {
        texts(&self.spec.pod_cidrs)
    }
}

/// What `node` is; else why that is not known.
pub(super) fn own(model: &Model, node: &str) -> Result<Own, Vec<Problem>> {
    let mut odd = Vec::new();
    let named = model.node_configs.get(node);
    if named.is_none() && model.is_wrong(KIND, node) {
        let origin = Origin::new(NOWHERE, 0, &format!("NodeConfig {node}"));
        let reason = "is not understood, and no other NodeConfig takes its place";
        return Err(vec![origin.error("", reason).hint("correct it, or delete it")]);
    }
    let base = base(model, node, &mut odd);
    let Some(origin) = named.or(base).map(|item| item.origin.clone()) else {
        let origin = Origin::new(NOWHERE, 0, &format!("NodeConfig {node}"));
        let hint = "name the Node by --node, and give a NodeConfig of this name, or one named default for all Nodes";
        odd.push(origin.error("", "is not there").hint(hint));
        return Err(odd);
    };
    let spec = |item: Option<&Item<NodeConfigBody>>| item.map(|item| item.body.spec.clone()).unwrap_or_default();
    let mut own = Own { spec: spec(named).over(spec(base)), cidrs_origin: origin.clone(), origin, odd };
    match own.derive(model.nodes.get(node)) {
        Ok(()) => Ok(own),
        Err(problem) => {
            own.odd.push(*problem);
            Err(own.odd)
        }
    }
}

/// The NodeConfig that selects a Node, or is for all.
fn base<'a>(model: &'a Model, node: &str, odd: &mut Vec<Problem>) -> Option<&'a Item<NodeConfigBody>> {
    let none = Labels::new();
    let labels = model.nodes.get(node).map_or(&none, |item| &item.meta.labels);
    let mut chosen: Option<&Item<NodeConfigBody>> = None;
    for (name, item) in model.node_configs.iter().filter(|(name, _)| *name != node) {
        let Some(selector) = &item.body.spec.node_selector else { continue };
        if let Err((path, reason)) = check(selector) {
            odd.push(item.origin.error(format!("spec.nodeSelector.{path}"), reason));
            continue;
        }
        match chosen {
            _ if !matches(selector, labels) => {}
            None => chosen = Some(item),
            Some(first) => {
                let reason = format!("selects Node {node}, and so does NodeConfig {}, which counts", first.meta.name);
                odd.push(
                    item.origin.warning("spec.nodeSelector", reason).hint(format!("let {name} select other Nodes")),
                );
            }
        }
    }
    let is_for_all = |item: &&Item<NodeConfigBody>| item.body.spec.node_selector.is_none() && node != DEFAULT;
    chosen.or_else(|| model.node_configs.get(DEFAULT).filter(is_for_all))
}

/// Addresses of a Node's gateway: of its annotation `vswitch/gateway-addresses`, or the first ones
/// of its Pods' prefixes.
pub fn gateways(node: &Item<NodeBody>) -> Vec<String> {
    match node.meta.annotation("gateway-addresses") {
        Some(text) => text.split(',').map(|address| address.trim().to_owned()).collect(),
        None => node.body.pod_cidrs().iter().filter_map(|cidr| first_address(cidr)).collect(),
    }
}

/// Addresses of a Node, and of its gateway.
pub(crate) fn addresses(node: &Item<NodeBody>) -> Vec<String> {
    let own = ["InternalIP", "ExternalIP"].into_iter().flat_map(|kind| node.body.addresses(kind));
    own.chain(gateways(node)).collect()
}

/// The first text of each family.
fn one_per_family(all: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for text in all {
        if !found.iter().any(|other| is_six(other) == is_six(&text)) {
            found.push(text);
        }
    }
    found
}

/// A list that says something.
fn given(list: &Option<Vec<String>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

impl Own {
    /// Fills in what is absent.
    fn derive(&mut self, node: Option<&Item<NodeBody>>) -> Result<(), Box<Problem>> {
        let is_policy_only = self.spec.is_policy_only();
        self.spec.bridge.get_or_insert_with(|| BRIDGE.to_owned());
        if self.spec.has_tunnel() {
            self.spec.tunnel.get_or_insert_with(|| PortName { port: TUNNEL.to_owned() });
        }
        let has_own_cidrs = given(&self.spec.pod_cidrs);
        if let Some(node) = node.filter(|_| !has_own_cidrs) {
            self.spec.pod_cidrs = Some(node.body.pod_cidrs());
            self.cidrs_origin = node.origin.clone();
        }
        if let Some(node) = node.filter(|_| self.spec.transport_addresses.is_none()) {
            self.spec.transport_addresses = Some(self.transport(&node.body));
        }
        let mut gateway = self.spec.gateway.take().unwrap_or_default();
        gateway.port.get_or_insert_with(|| GATEWAY.to_owned());
        // In policy only these are the host's, by which it probes Pods.
        if !is_policy_only && !given(&gateway.addresses) {
            let of_cidrs = || self.pod_cidrs().iter().filter_map(|cidr| first_address(cidr)).collect();
            let all = node.filter(|_| !has_own_cidrs).map_or_else(of_cidrs, gateways);
            gateway.addresses = Some(one_per_family(all));
        }
        let mac = gateway.mac.take().or_else(|| self.mac(&gateway));
        let has_mac = mac.is_some();
        self.spec.gateway = Some(Gateway { mac, ..gateway });
        if !has_mac {
            let reason = "is absent, and there is no address of the gateway to make it of";
            let hint = "the Node object needs spec.podCIDRs, or the NodeConfig podCIDRs or gateway.mac";
            return Err(Box::new(self.origin.error("spec.gateway.mac", reason).hint(hint)));
        }
        self.uplink(node);
        Ok(())
    }

    /// The Node's own addresses between Nodes, with the lengths of their links as far as these are
    /// known. An address of another length is alone on its link.
    fn transport(&self, node: &NodeBody) -> Vec<String> {
        let links = texts(&self.spec.transport_interface_cidrs);
        let with_link = |address: &String| {
            let parsed: IpAddr = address.parse().ok()?;
            let link = links.iter().find(|cidr| contains(cidr, parsed))?;
            link.split_once('/').map(|(_, length)| format!("{address}/{length}"))
        };
        let alone = |address: &String| format!("{address}/{}", if is_six(address) { 128 } else { 32 });
        let addresses = node.addresses("InternalIP");
        one_per_family(addresses.iter().filter_map(with_link).chain(addresses.iter().map(alone)))
    }

    /// A MAC address for the gateway, made of its address: the same as long as that is.
    fn mac(&self, gateway: &Gateway) -> Option<String> {
        let transport = texts(&self.spec.transport_addresses).iter().filter_map(|text| text.split_once('/'));
        let hosts = transport.map(|(address, _)| address).filter(|_| self.spec.is_policy_only());
        let all: Vec<&str> = texts(&gateway.addresses).iter().map(String::as_str).chain(hosts).collect();
        let four = all.iter().find(|address| !is_six(address));
        four.or(all.first()).and_then(|address| address.parse().ok()).map(mac_of)
    }

    /// The uplink has the Node's MAC address. Without any there is no uplink.
    fn uplink(&mut self, node: Option<&Item<NodeBody>>) {
        let Some(uplink) = &mut self.spec.uplink else { return };
        if uplink.mac.is_none() {
            uplink.mac = node.and_then(|node| node.meta.annotation("mac")).map(str::to_owned);
        }
        if uplink.mac.is_none() {
            let problem = self.origin.error("spec.uplink.mac", "is absent: there is no uplink");
            self.odd.push(problem.hint("give it, or the annotation vswitch/mac of the Node"));
            self.spec.uplink = None;
        }
    }
}

#[cfg(test)]
mod tests;
