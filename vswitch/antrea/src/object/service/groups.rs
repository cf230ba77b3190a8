//! Groups of a Service port: of all its endpoints, and of this Node's; for each family that it
//! serves.
//!
//! Which groups a Service has, and which bucket of them an endpoint has, depends on the Service and
//! its Endpoints alone, never on the Node: so numbers stay where they are when the Node changes,
//! and when an endpoint is not ready for a while.

use super::{Front, Protocol, Service, ServicePort, choice::Chosen, choose, group_key};
use crate::address::hex;
use crate::object::endpoints::{Endpoint, Endpoints};
use crate::{Cidr, Desired, Facts, Family, GroupKey, Ids, Key, ObjectKind, CompiledObject, Problem};
use std::collections::BTreeSet;
use std::net::IpAddr;
use vswitch_proto::antrea::v1;

/// Which groups there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sides {
    /// Of all endpoints.
    pub(super) cluster: bool,
    /// Of this Node's.
    pub(super) local: bool,
}

impl Sides {
    /// Of a port, in a family. A place outside always has the cluster's: clients of this Node may
    /// reach all, whatever its policy.
    pub(super) fn of(service: &Service, port: &ServicePort, family: Family) -> Self {
        let mut sides = Self::default();
        for front in service.fronts(port, family) {
            sides.cluster |= front.is_external() || !service.is_local(front);
            sides.local |= service.is_local(front) || service.is_dsr(front);
        }
        sides
    }

    /// Endpoints of those.
    pub(super) fn of_these<'a>(self, chosen: &Chosen<'a>) -> impl Iterator<Item = &'a Endpoint> {
        let those = |there: bool, endpoints: &[&'a Endpoint]| if there { endpoints.to_vec() } else { Vec::new() };
        those(self.cluster, &chosen.cluster).into_iter().chain(those(self.local, &chosen.local))
    }

    fn keys(self, service: &str, port: &ServicePort, family: Family) -> Vec<GroupKey> {
        let there = [(self.cluster, false), (self.local, true)].into_iter().filter(|(there, _)| *there);
        there.map(|(_, local)| group_key(service, port, family, local)).collect()
    }
}

/// The group that packets to a place are led to.
pub(super) fn of_front(service: &str, of: &Service, port: &ServicePort, family: Family, front: Front) -> GroupKey {
    group_key(service, port, family, of.is_local(front))
}

/// Gives the Service's groups and their buckets numbers, and takes back those that it needs no
/// more.
pub(super) fn claim(service: &Service, name: &str, desired: &Desired, ids: &mut Ids) -> Result<(), Problem> {
    let mut wanted = BTreeSet::new();
    for port in &service.ports {
        let set = desired.endpoints(&Endpoints::name(name, &port.name));
        for family in Family::BOTH {
            let of_family = set.iter().flat_map(|set| &set.endpoints).filter(|e| Family::of(&e.address) == family);
            let endpoints: BTreeSet<(IpAddr, u16)> = of_family.map(|e| (e.address, e.port)).collect();
            for key in Sides::of(service, port, family).keys(name, port, family) {
                ids.claim_group(&key)?;
                if service.maglev {
                    ids.claim_digests(&key, &endpoints);
                } else {
                    ids.claim_buckets(&key, &endpoints);
                }
                wanted.insert(key);
            }
        }
    }
    for key in ids.group_keys_of(name) {
        if !wanted.contains(&key) {
            ids.release_group(&key);
        }
    }
    Ok(())
}

/// A group as it is: what is told of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// Of which endpoints.
    pub family: Family,
    /// Of this Node's alone.
    pub local: bool,
    /// Its id.
    pub group: u32,
    /// Its endpoints with their buckets.
    pub buckets: Vec<((IpAddr, u16), u32)>,
}

/// Groups of a port of a Service, in families that the Node has.
pub(super) fn used((name, service): (&str, &Service), port: &ServicePort, facts: &Facts<'_>) -> Vec<Used> {
    let set = facts.desired.endpoints(&Endpoints::name(name, &port.name));
    let endpoints = set.map(|set| set.endpoints.as_slice()).unwrap_or_default();
    let mut groups = Vec::new();
    for family in facts.node.families.iter().copied().filter(|family| service.serves(*family)) {
        let chosen = choose(endpoints, family, facts.node);
        for key in Sides::of(service, port, family).keys(name, port, family) {
            let GroupKey::Service { local, .. } = key else { continue };
            let Some(group) = facts.ids.group(&key) else { continue };
            let those = if local { &chosen.local } else { &chosen.cluster };
            let bucket = |endpoint: &&Endpoint| {
                let endpoint = (endpoint.address, endpoint.port);
                facts.ids.bucket(&key, &endpoint).map(|id| (endpoint, id))
            };
            let buckets = those.iter().filter_map(bucket).collect();
            groups.push(Used { family, local, group, buckets });
        }
    }
    groups
}

/// How a group chooses; empty: the default. (With affinity the place for a hash of the client's
/// address alone, so that two workers choose the
/// same endpoint for a new client's first connections: docs/status.md, "Antrea".)
const fn selection(service: &Service) -> &'static str {
    if service.maglev { ",selection_method=maglev" } else { "" }
}

/// Writes the groups of a port in a family.
pub(super) fn compile(
    (name, service): (&str, &Service),
    port: &ServicePort,
    family: Family,
    chosen: &Chosen<'_>,
    facts: &Facts<'_>,
    compiled: &mut CompiledObject,
) {
    let sides = Sides::of(service, port, family);
    for (there, local, endpoints) in [(sides.cluster, false, &chosen.cluster), (sides.local, true, &chosen.local)] {
        let key = group_key(name, port, family, local);
        if let (true, Some(id)) = (there, facts.ids.group(&key)) {
            let buckets = buckets(service, &key, family, endpoints, facts);
            compiled.group(facts, &format!("group_id={id},type=select{}{buckets}", selection(service)));
        }
    }
}

/// One for each endpoint; without any one that says so.
fn buckets(service: &Service, key: &GroupKey, family: Family, endpoints: &[&Endpoint], facts: &Facts<'_>) -> String {
    // With affinity the choice is remembered first.
    let next = if service.affinity > 0 { "ServiceLB" } else { "DSRServiceMark" };
    let register = family.endpoint_register();
    let bucket = |endpoint: &&Endpoint| {
        let id = facts.ids.bucket(key, &(endpoint.address, endpoint.port))?;
        let remote = if is_remote(endpoint, facts) { "set_field:0x4000000/0x4000000->reg4," } else { "" };
        let (weight, address, port) = (endpoint.weight, hex(&endpoint.address), endpoint.port);
        let text = format!(
            ",bucket=bucket_id:{id},weight:{weight},actions={remote}set_field:{address}->{register},\
             set_field:{port:#x}/0xffff->reg4,resubmit(,{next})"
        );
        Some((id, text))
    };
    let mut buckets: Vec<(u32, String)> = endpoints.iter().filter_map(bucket).collect();
    if buckets.is_empty() {
        let none = ",bucket=bucket_id:0,weight:100,actions=set_field:0x4000/0x4000->reg0,resubmit(,EndpointDNAT)";
        return none.to_owned();
    }
    buckets.sort_unstable();
    buckets.into_iter().map(|(_, text)| text).collect()
}

/// Whether it is a Pod of another Node, behind its tunnel: not at the other Node's own address, nor
/// outside of the cluster.
fn is_remote(endpoint: &Endpoint, facts: &Facts<'_>) -> bool {
    if endpoint.node.is_empty() || endpoint.is_of(&facts.node.name) {
        return false;
    }
    let peer = facts.desired.get(&Key::new(ObjectKind::PeerNode, &endpoint.node)).map(|entry| &entry.message);
    let Some(v1::object::Object::PeerNode(peer)) = peer else { return true };
    let is = |text: &String| {
        let address = text.split('/').next().and_then(|address| address.parse::<IpAddr>().ok());
        address == Some(endpoint.address)
    };
    !peer.transport_addresses.iter().any(is)
}

/// The group of another Service's cluster IP, protocol and port; None: there is no such Service, or
/// it is nested itself.
pub(super) fn of_cluster_ip(protocol: Protocol, endpoint: &Endpoint, facts: &Facts<'_>) -> Option<u32> {
    let claim = crate::Claim::Service(endpoint.address, protocol.number(), endpoint.port);
    let key = facts.desired.holder(&claim)?;
    let service = facts.desired.service(&key.name).filter(|service| !service.nested)?;
    let address = service.cluster_ips.iter().find(|address| **address == endpoint.address)?;
    let port = service.ports.iter().find(|port| port.protocol == protocol && port.port == endpoint.port)?;
    if !service.effective(&key.name, facts).has(port, Front::Cluster(*address)) {
        return None;
    }
    let family = Cidr::host(*address).family();
    facts.ids.group(&of_front(&key.name, service, port, family, Front::Cluster(*address)))
}
