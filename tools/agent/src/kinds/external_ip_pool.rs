//! ExternalIPPool of crd.antrea.io: addresses for Egresses, and the Nodes that may have them.

use super::selector::Selector;
use super::wellformed::{ADDRESS, error, is_host, is_prefix};
use crate::source::{FieldError, Tree, typed_without_unknown};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// ExternalIPPool without its metadata.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ExternalIpPoolBody {
    /// What is asked for.
    pub spec: Spec,
}

/// What is asked for.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Spec {
    /// Its addresses.
    #[serde(default)]
    pub ip_ranges: Vec<IpRange>,
    /// The network that they are of, if it is not that of the Nodes.
    pub subnet_info: Option<SubnetInfo>,
    /// Nodes that may have them; empty: all.
    #[serde(default)]
    pub node_selector: Selector,
}

/// Addresses: those of a prefix, or from one to another.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct IpRange {
    /// A prefix.
    pub cidr: Option<String>,
    /// The first one.
    pub start: Option<String>,
    /// The last one.
    pub end: Option<String>,
}

/// A network.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SubnetInfo {
    /// Its router, whose address nobody else has.
    pub gateway: String,
    /// The length of its prefix.
    pub prefix_length: u8,
    /// Its VLAN.
    #[serde(default)]
    pub vlan: u16,
}

/// VLANs that there are.
const VLAN_MAX: u16 = 4094;

impl ExternalIpPoolBody {
    /// What is wrong with it by itself.
    fn check(&self) -> Option<FieldError> {
        let ranges = self.spec.ip_ranges.iter().enumerate();
        let wrong = ranges.filter_map(|(i, range)| range.check(&format!("spec.ipRanges[{i}]"))).next();
        wrong.or_else(|| {
            let info = self.spec.subnet_info.as_ref()?;
            let most = if info.gateway.contains(':') { 128 } else { 32 };
            if !is_host(&info.gateway) {
                Some(error("spec.subnetInfo.gateway", &info.gateway, ADDRESS))
            } else if !(1..=most).contains(&info.prefix_length) {
                let reason = format!("{} is not in 1 to {most}", info.prefix_length);
                Some(FieldError::new(0, "spec.subnetInfo.prefixLength", reason))
            } else {
                let reason = || format!("{} is not in 0 to {VLAN_MAX}", info.vlan);
                (info.vlan > VLAN_MAX).then(|| FieldError::new(0, "spec.subnetInfo.vlan", reason()))
            }
        })
    }
}

impl IpRange {
    fn check(&self, path: &str) -> Option<FieldError> {
        let host = |field: &str, text: &str| (!is_host(text)).then(|| error(&format!("{path}.{field}"), text, ADDRESS));
        match (&self.cidr, &self.start, &self.end) {
            (Some(cidr), None, None) => (!is_prefix(cidr)).then(|| error(&format!("{path}.cidr"), cidr, "prefix")),
            (None, Some(start), Some(end)) => host("start", start).or_else(|| host("end", end)).or_else(|| {
                let (first, last) = (start.parse::<IpAddr>().ok()?, end.parse::<IpAddr>().ok()?);
                let is_range = first.is_ipv4() == last.is_ipv4() && first <= last;
                let reason = format!("{end} is not behind {start}");
                (!is_range).then(|| FieldError::new(0, &format!("{path}.end"), reason))
            }),
            _ => Some(FieldError::new(0, path, "needs cidr, or start and end")),
        }
    }
}

pub(super) fn parse(tree: &mut Tree, unknown: &mut Vec<FieldError>) -> Result<Box<ExternalIpPoolBody>, FieldError> {
    tree.strip(&[], &["status"]);
    let body: Box<ExternalIpPoolBody> = typed_without_unknown(tree, unknown).map(Box::new)?;
    body.check().map_or(Ok(body), Err)
}
