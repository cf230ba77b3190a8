//! What Pods say beside what Kubernetes knows.

use super::net::mac;
use crate::kinds::pod;
use crate::model::Item;
use crate::problem::Problem;

/// Whether a Pod of this Node has no port, and nobody has said one.
pub(super) fn has_no_port(item: &Item<pod::PodBody>) -> bool {
    item.meta.annotation("port").is_none() && item.meta.annotation("mac").is_none()
}

/// What a Pod of this Node has to have beside what Kubernetes knows.
pub(super) fn lacks(item: &Item<pod::PodBody>) -> Vec<Problem> {
    let wrong = |name: &str, reason: String, hint: &str| {
        item.origin.error(format!("metadata.annotations[vswitch/{name}]"), reason).hint(hint)
    };
    let needed = "is required of a Pod of this Node".to_owned();
    let mut problems = Vec::new();
    if item.meta.annotation("port").is_none_or(str::is_empty) {
        problems.push(wrong("port", needed.clone(), "give the name of its port of the bridge"));
    }
    match item.meta.annotation("mac") {
        None => problems.push(wrong("mac", needed, "give its MAC address")),
        Some(text) if mac(text).is_none() => problems.push(wrong("mac", format!("{text:?} is no MAC address"), "")),
        Some(_) => {}
    }
    if let Some(text) = item.meta.annotation("vlan")
        && text.parse::<u16>().is_err()
    {
        problems.push(wrong("vlan", format!("{text:?} is no VLAN"), "1 to 4094"));
    }
    problems
}

/// Addresses of a Pod: its status', or of the annotation `vswitch/addresses`.
pub(crate) fn addresses(item: &Item<pod::PodBody>) -> Vec<String> {
    let status = &item.body.status;
    if let Some(text) = item.meta.annotation("addresses") {
        return text.split(',').map(|address| address.trim().to_owned()).filter(|a| !a.is_empty()).collect();
    }
    if !status.pod_ips.is_empty() {
        return status.pod_ips.iter().map(|address| address.ip.clone()).collect();
    }
    status.pod_ip.iter().cloned().collect()
}
