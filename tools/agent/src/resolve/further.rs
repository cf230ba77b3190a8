//! Further interfaces of Pods of other Nodes, as Multus tells them in an annotation of the Pod.
//!
//! The creator of a Pod may write the annotation. So its addresses are in doubt: rules that
//! deny mean them, and rules that allow never do. An address that a Pod or a Node is known to have
//! is nobody else's.
//!
//! **Limits**: of an annotation of [`NETWORK_STATUS_LEN_MAX`] bytes the addresses of
//! [`INTERFACES_MAX`] interfaces, two of each. A longer one says nothing.

use super::claims::{Claim, parsed};
use super::own;
use crate::attach::{NETWORK_STATUS, NETWORK_STATUS_LEN_MAX};
use crate::kinds::wellformed::is_host;
use crate::model::Model;
use serde::Deserialize;
use std::collections::HashSet;
use std::net::IpAddr;

/// Interfaces of a Pod, its own and those of other plug-ins among them.
const INTERFACES_MAX: usize = 32;

/// Addresses of an interface: one for each family.
const ADDRESSES_MAX: usize = 2;

/// What Multus says of an interface.
#[derive(Deserialize)]
struct Interface {
    #[serde(default)]
    ips: Vec<String>,
}

/// Adds the addresses that annotations tell of Pods of other Nodes, of families that the Node
/// `has`.
pub(super) fn add(model: &Model, claims: &mut [Claim<'_>], has: impl Fn(&str) -> bool) {
    let is_told = |claim: &Claim<'_>| !claim.is_local && claim.item.meta.annotations.contains_key(NETWORK_STATUS);
    if !claims.iter().any(is_told) {
        return;
    }
    let known = claims.iter().flat_map(|claim| &claim.addresses).filter_map(|address| parsed(address));
    let of_nodes = model.nodes.values().flat_map(own::addresses);
    let known: HashSet<IpAddr> = known.chain(of_nodes.filter_map(|address| parsed(&address))).collect();
    for claim in claims.iter_mut().filter(|claim| is_told(claim) && !claim.item.body.spec.host_network) {
        let told = claim.item.meta.annotations.get(NETWORK_STATUS).map(|text| addresses(text)).unwrap_or_default();
        for address in told.into_iter().filter(|address| has(address)) {
            if parsed(&address).is_some_and(|one| !known.contains(&one)) && !claim.in_doubt.contains(&address) {
                claim.in_doubt.push(address);
            }
        }
    }
}

/// Addresses in an annotation.
fn addresses(text: &str) -> Vec<String> {
    if text.len() > NETWORK_STATUS_LEN_MAX {
        return Vec::new();
    }
    let interfaces: Vec<Interface> = serde_json::from_str(text).unwrap_or_default();
    let of_each = interfaces.into_iter().take(INTERFACES_MAX);
    let all = of_each.flat_map(|interface| interface.ips.into_iter().take(ADDRESSES_MAX));
    let plain = all.map(|address| address.split('/').next().unwrap_or_default().to_owned());
    plain.filter(|address| is_host(address)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_is_read_within_bounds() {
        let two = r#"[{"name": "pods", "interface": "eth0", "ips": ["10.0.0.5"], "default": true, "dns": {}},
                      {"name": "a/b", "interface": "net1", "ips": ["10.0.0.6/24", "fd00::6", "10.0.0.7"], "mtu": 1}]"#;
        assert_eq!(addresses(two), ["10.0.0.5", "10.0.0.6", "fd00::6"]);
        for wrong in ["", "x", "{}", "[1]", r#"[{"ips": "10.0.0.1"}]"#, r#"[{"ips": ["x", "0.0.0.0/0", "224.0.0.1"]}]"#]
        {
            assert_eq!(addresses(wrong), [""; 0], "{wrong}");
        }
        let many = vec![r#"{"ips": ["10.0.0.1"]}"#; 40].join(",");
        assert_eq!(addresses(&format!("[{many}]")).len(), INTERFACES_MAX);
        assert_eq!(addresses(&format!("[{many}{}]", " ".repeat(NETWORK_STATUS_LEN_MAX))), [""; 0]);
    }
}
