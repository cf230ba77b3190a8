//! Addresses that several Pods say to have. Such an address belongs to one of them; the others lend
//! it nothing, and keep their other addresses.

use super::net::contains;
use crate::kinds::pod::PodBody;
use crate::model::{Item, Model};
use crate::problem::Problem;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

/// Pods of other Nodes by their addresses, as far as no other one says to have them.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    /// Of addresses that one Pod says to have.
    alone: HashMap<IpAddr, String>,
    /// Of addresses that several Pods say to have.
    pub contested: BTreeMap<IpAddr, String>,
}

impl Holders {
    fn get(&self, address: &IpAddr) -> Option<&String> {
        self.contested.get(address).or_else(|| self.alone.get(address))
    }
}

/// A Pod and the addresses that it says to have.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    /// "namespace/name".
    pub(super) name: &'a str,
    pub(super) item: &'a Item<PodBody>,
    pub(super) addresses: Vec<String>,
    pub(super) is_local: bool,
    /// Addresses that it may have, of which rules that allow know nothing.
    pub(super) in_doubt: Vec<String>,
}

/// What a Pod loses.
enum Lost {
    /// The address is a Pod's of this Node, which the switch knows by its port.
    To(String),
    /// The owner is not certain.
    Unsure(String),
}

/// Takes from Pods the addresses that are others'. A Pod of this Node has its addresses, but those
/// of another Node's prefix. Of several Pods of other Nodes, the one on the Node with that prefix
/// has the address; else the one that had it `before`; else none.
pub(super) fn settle(
    model: &Model,
    (node, own): (&str, &[String]),
    claims: &mut [Claim<'_>],
    before: &Holders,
) -> (Holders, Vec<Problem>) {
    let mut by_address: BTreeMap<IpAddr, Vec<usize>> = BTreeMap::new();
    for (i, claim) in claims.iter().enumerate().filter(|(_, claim)| !claim.item.body.spec.host_network) {
        let addresses: HashSet<IpAddr> = claim.addresses.iter().filter_map(|address| parsed(address)).collect();
        addresses.into_iter().for_each(|address| by_address.entry(address).or_default().push(i));
    }
    let prefixes = Prefixes::new(model, node, own);
    let (mut holders, mut lost) = (Holders::default(), HashMap::new());
    for (address, of) in &by_address {
        if let [one] = of[..] {
            // The usual case.
            if !claims[one].is_local {
                holders.alone.insert(*address, claims[one].name.to_owned());
            }
            continue;
        }
        let (local, others): (Vec<usize>, Vec<usize>) = of.iter().partition(|i| claims[**i].is_local);
        if others.is_empty() {
            continue; // the switch settles that
        }
        let of_node = prefixes.node_of(*address);
        if let Some(local) = local.first().filter(|_| of_node.is_none_or(|of_node| of_node == node)) {
            let holder = format!("Pod {}", claims[*local].name);
            lost.extend(others.into_iter().map(|i| ((i, *address), Lost::To(holder.clone()))));
            continue;
        }
        let is_of_node = |i: &usize| Some(claims[*i].item.body.spec.node_name.as_str()) == of_node;
        let near: Vec<usize> = others.iter().copied().filter(is_of_node).collect();
        let near = if near.is_empty() { &others } else { &near };
        let had = || near.iter().find(|i| before.get(address).is_some_and(|name| name == claims[**i].name));
        let holder = if let [one] = near[..] { Some(one) } else { had().copied() };
        if let Some(holder) = holder {
            holders.contested.insert(*address, claims[holder].name.to_owned());
        }
        for i in others.iter().copied().filter(|i| Some(*i) != holder) {
            let other = holder.or_else(|| others.iter().copied().find(|other| *other != i));
            let other = other.map_or_else(String::new, |other| format!("Pod {}", claims[other].name));
            lost.insert((i, *address), Lost::Unsure(other));
        }
    }
    (holders, take(claims, &lost))
}

fn take(claims: &mut [Claim<'_>], lost: &HashMap<(usize, IpAddr), Lost>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (i, claim) in claims.iter_mut().enumerate().filter(|_| !lost.is_empty()) {
        let origin = &claim.item.origin;
        for address in std::mem::take(&mut claim.addresses) {
            let reason = match parsed(&address).and_then(|address| lost.get(&(i, address))) {
                None => {
                    claim.addresses.push(address);
                    continue;
                }
                Some(Lost::To(holder)) => format!("OVERLAP: {address} is {holder}'s: it has no effect here"),
                Some(Lost::Unsure(other)) => {
                    let reason = format!("OVERLAP: {address} is {other}'s, too: no rule allows it by this Pod");
                    claim.in_doubt.push(address);
                    reason
                }
            };
            problems.push(origin.warning("status.podIPs", reason));
        }
    }
    problems
}

pub(super) fn parsed(address: &str) -> Option<IpAddr> {
    address.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

/// Prefixes of Pods, and their Nodes; this Node's come first.
struct Prefixes<'a>(Vec<(&'a str, String)>);

impl<'a> Prefixes<'a> {
    fn new(model: &'a Model, node: &'a str, config: &[String]) -> Self {
        let of = |(name, item): (&'a String, &'a Item<_>)| {
            let item: &Item<crate::kinds::node::NodeBody> = item;
            item.body.pod_cidrs().into_iter().map(move |cidr| (name.as_str(), cidr))
        };
        let (own, others): (Vec<_>, Vec<_>) = model.nodes.iter().flat_map(of).partition(|(name, _)| *name == node);
        Self(config.iter().map(|cidr| (node, cidr.clone())).chain(own).chain(others).collect())
    }

    fn node_of(&self, address: IpAddr) -> Option<&'a str> {
        self.0.iter().find(|(_, cidr)| contains(cidr, address)).map(|(node, _)| *node)
    }
}
