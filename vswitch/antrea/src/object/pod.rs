//! `Pod`.

mod bandwidth;
mod compile;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use bandwidth::release;
pub(crate) use wire::tag;

use super::egress::Bandwidth;
use super::judge;
use crate::address::parse_address;
use crate::problem::{Code, Problems};
use crate::{Cidr, Claim, Desired, Facts, Flush, Ids, Key, ObjectKind, Mac, Node, CompiledObject, Problem, Reference};
use std::collections::BTreeSet;
use std::net::IpAddr;
use vswitch_proto::antrea::v1;

/// Bytes of a UID; Kubernetes has 36.
const UID_LEN_MAX: usize = 128;

/// The highest VLAN.
const VLAN_MAX: u32 = 4094;

/// A Pod of this Node: a port with addresses and a MAC address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Name of its port.
    pub port: String,
    /// Its addresses, one for each family at most.
    pub addresses: Vec<IpAddr>,
    /// Those that were written, whether they have an effect or not.
    written: Vec<IpAddr>,
    /// Its MAC.
    pub mac: Mac,
    /// VLAN of its addresses; 0: none.
    pub vlan: u16,
    /// UID of its object; empty: not known.
    pub uid: String,
    /// At most so much to it.
    pub ingress: Option<Bandwidth>,
    /// At most so much from it.
    pub egress: Option<Bandwidth>,
}

impl Pod {
    pub(crate) fn name_of(message: &v1::Pod) -> String {
        message.name.clone()
    }

    pub(crate) fn read(message: &v1::Pod, problems: &mut Problems) -> Option<Self> {
        check_pod_name("name", &message.name, problems);
        if message.port.is_empty() {
            problems.push(Code::Missing, "port", "it has no port");
        }
        if message.addresses.is_empty() {
            problems.push(Code::Missing, "addresses", "it has no address");
        }
        for (at, text) in message.addresses.iter().enumerate() {
            if let Ok(address) = parse_address(text) {
                check_host(&format!("addresses[{at}]"), &address, problems);
            }
        }
        let vlan = u16::try_from(message.vlan).ok().filter(|_| message.vlan <= VLAN_MAX);
        if vlan.is_none() {
            problems.push(Code::Range, "vlan", format!("{}: 1 to {VLAN_MAX}, or 0 for none", message.vlan));
        }
        if message.uid.len() > UID_LEN_MAX {
            let reason = format!("{} bytes: at most {UID_LEN_MAX}", message.uid.len());
            problems.push(Code::Range, "uid", reason);
        }
        let ingress = bandwidth::read("ingress_bandwidth", message.ingress_bandwidth.as_ref(), problems);
        let egress = bandwidth::read("egress_bandwidth", message.egress_bandwidth.as_ref(), problems);
        let addresses = crate::node::one_per_family("addresses", &message.addresses, problems);
        Some(Self {
            port: message.port.clone(),
            written: addresses.clone(),
            addresses,
            mac: crate::node::mac("mac", message.mac.as_ref(), true, problems)?,
            vlan: vlan?,
            uid: message.uid.clone(),
            ingress,
            egress,
        })
    }

    /// The VLAN in which the Pod is on the wire, if its addresses are of the network between Nodes;
    /// 0: packets there have no tag.
    #[must_use]
    pub fn on_wire(&self, node: &Node) -> Option<u16> {
        let ours = |address: &IpAddr| node.pod_cidrs.iter().any(|cidr| cidr.contains(address));
        let is = node.features.pod_vlans && (self.vlan != 0 || !self.written.iter().any(ours));
        is.then_some(self.vlan)
    }

    pub(crate) fn references(&self) -> Vec<Reference> {
        Vec::new()
    }

    pub(crate) fn claims(&self) -> Vec<(Claim, String)> {
        let addresses = self.addresses.iter().zip(0..);
        let mut claims: Vec<(Claim, String)> =
            addresses.map(|(address, at)| (Claim::Address(*address), format!("addresses[{at}]"))).collect();
        claims.push((Claim::Mac(self.mac), "mac".to_owned()));
        claims.push((Claim::Port(self.port.clone()), "port".to_owned()));
        claims
    }

    pub(crate) fn judge(&self, name: &str, facts: &Facts<'_>, problems: &mut Problems) {
        self.effective(name, facts, problems);
    }

    /// The Pod with what of it has an effect at present: addresses that are nobody else's. None: it
    /// has no flows at all.
    pub(crate) fn effective(&self, name: &str, facts: &Facts<'_>, problems: &mut Problems) -> Option<Self> {
        let key = Key::new(ObjectKind::Pod, name);
        let before = problems.count();
        self.judge_port(&key, facts, problems);
        self.judge_mac(&key, facts, problems);
        if self.vlan != 0 && !facts.node.features.pod_vlans {
            problems.push(Code::Feature, "vlan", "it needs features.pod_vlans");
        }
        let is_whole = problems.count() == before;
        let addresses = self.addresses.iter().zip(0..);
        let addresses: Vec<IpAddr> = addresses
            .filter(|(address, at)| self.has_address(&key, &format!("addresses[{at}]"), address, facts, problems))
            .map(|(address, _)| *address)
            .collect();
        (is_whole && !addresses.is_empty()).then(|| Self { addresses, ..self.clone() })
    }

    fn judge_port(&self, key: &Key, facts: &Facts<'_>, problems: &mut Problems) {
        judge::port("port", &self.port, facts, problems);
        judge::held_by(key, &Claim::Port(self.port.clone()), "port", facts, problems);
    }

    fn judge_mac(&self, key: &Key, facts: &Facts<'_>, problems: &mut Problems) {
        let node = facts.node;
        let [a, b, c, d, e, _] = self.mac.0;
        let whose = [
            (node.gateway.mac == self.mac, "the gateway's"),
            (node.virtual_mac == self.mac, "the virtual one of tunnels"),
            (node.reentrance_mac == self.mac, "that of packets that enter the host again"),
            (node.uplink.as_ref().is_some_and(|uplink| uplink.mac == self.mac), "the uplink's"),
            ([a, b, c, d, e] == crate::macs::HOST_MAC, "one of Egresses for the host"),
        ];
        for (_, whose) in whose.iter().filter(|(is, _)| *is) {
            problems.add(Problem::new(Code::Overlap, "mac", format!("{} is {whose}", self.mac)).other(Key::node()));
        }
        judge::held_by(key, &Claim::Mac(self.mac), "mac", facts, problems);
    }

    /// Whether an address is of its family, and neither the Node's, a peer's nor another Pod's.
    fn has_address(&self, key: &Key, field: &str, address: &IpAddr, facts: &Facts<'_>, problems: &mut Problems) -> bool {
        let before = problems.count();
        judge::family(field, address, facts, problems);
        judge::address(field, address, facts, problems);
        judge::no_service(field, address, facts, problems);
        // A prefix without an effect takes nothing from anybody.
        if let Some((cidr, other)) = facts.desired.peers_at(&Cidr::host(*address)).next() {
            let reason = format!("{address} is in {cidr} of {other}");
            problems.add(Problem::new(Code::Overlap, field, reason).other(other.clone()));
        }
        judge::held_by(key, &Claim::Address(*address), field, facts, problems);
        let own = facts.node.pod_cidrs.iter().find(|cidr| cidr.contains(address));
        if let Some(cidr) = own.filter(|_| self.vlan != 0) {
            let reason = format!("{address} is of pod_cidrs, {cidr}: addresses in a VLAN are of the network between Nodes");
            problems.add(Problem::new(Code::Overlap, field, reason).other(Key::node()));
        }
        problems.count() == before
    }

    pub(crate) fn claim(&self, name: &str, _desired: &Desired, ids: &mut Ids) -> Result<(), Problem> {
        bandwidth::claim(self, name, ids)
    }

    pub(crate) fn ports(&self) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn flush(&self, _name: &str, new: Option<&Self>, facts: &Facts<'_>, flush: &mut BTreeSet<Flush>) {
        // Where it is on the wire depends on all of its addresses.
        let is_there = |new: &&Self| new.vlan == self.vlan && new.on_wire(facts.node) == self.on_wire(facts.node);
        // What was decided for another Pod of its name was decided by that one's labels.
        let is_it = |new: &&Self| self.uid.is_empty() || new.uid.is_empty() || self.uid == new.uid;
        let stays = new.filter(|new| is_there(new) && is_it(new));
        let gone = |address: &&IpAddr| stays.is_none_or(|new| !new.addresses.contains(address));
        flush.extend(self.addresses.iter().filter(gone).copied().map(Flush::Address));
    }

    pub(crate) fn compile(&self, name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
        if let Some(effective) = self.effective(name, facts, &mut Problems::default()) {
            compile::compile(&effective, facts, compiled);
            bandwidth::compile(&effective, name, facts, compiled);
        }
    }
}

/// A Pod's name: `namespace/name`.
pub(crate) fn check_pod_name(field: &str, name: &str, problems: &mut Problems) {
    let parts: Vec<&str> = name.split('/').collect();
    if !name.is_empty() && (parts.len() != 2 || parts.iter().any(|compiled| compiled.is_empty())) {
        problems.push(Code::Value, field, format!("{name:?} is no name of a Pod: namespace/name"));
    }
}

/// An address that somebody may have as his own.
pub(crate) fn check_host(field: &str, address: &IpAddr, problems: &mut Problems) {
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    if address.is_unspecified() || address.is_loopback() || address.is_multicast() || link_local {
        problems.push(Code::Value, field, format!("{address} is no address that one may have"));
    }
}
