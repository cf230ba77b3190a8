//! Data for multicast groups: Antrea's policies name groups as prefixes, the switch asks for them
//! beside ports.

use super::groups::FieldPlace;
use super::rule::{Peers, Ports};
use crate::kinds::antrea_policy::Action;
use crate::problem::Problem;
use std::net::Ipv4Addr;
use vswitch_proto::antrea::v1;

/// The group that a prefix is. None: it is no multicast; an error: it is more than one group.
fn group(cidr: &str) -> Result<Option<String>, &'static str> {
    let Some((address, length)) = cidr.split_once('/') else { return Ok(None) };
    match (address.parse::<Ipv4Addr>(), length) {
        (Ok(address), "32") if address.is_multicast() => Ok(Some(address.to_string())),
        (Ok(address), _) if address.is_multicast() => Err("a prefix of multicast groups is one group: /32"),
        _ => Ok(None),
    }
}

/// A rule of egress to groups, and to nothing else, is about data for them.
pub(super) fn split(
    place: FieldPlace<'_>,
    action: Action,
    peers: Peers,
    ports: Vec<Ports>,
) -> Result<(Peers, Vec<Ports>), Box<Problem>> {
    let mut groups = Vec::new();
    for block in &peers.blocks {
        groups.extend(group(&block.cidr).map_err(|reason| place.error("to", reason))?);
    }
    if groups.is_empty() {
        return Ok((peers, ports));
    }
    if matches!(action, Action::Reject | Action::Pass) {
        return Err(place.error("action", "data for multicast groups is allowed or dropped"));
    }
    let is_alone = groups.len() == peers.blocks.len();
    if !is_alone || !peers.members.is_empty() || !peers.fqdns.is_empty() || !peers.services.is_empty() {
        return Err(place.error("to", "multicast groups need a rule of their own"));
    }
    let any = [Ports::Match(v1::PortMatch::default())];
    let mut split = Vec::new();
    for ports in if ports.is_empty() { &any[..] } else { &ports } {
        let Ports::Match(ports) = ports else {
            return Err(place.error("ports", "data for multicast groups has no ports by name"));
        };
        if matches!(ports.protocol(), v1::Protocol::Icmp | v1::Protocol::Igmp) {
            return Err(place.error("protocols", "igmp names its group itself (groupAddress), and icmp goes to none"));
        }
        let of_group = |group: &String| Ports::Match(v1::PortMatch { multicast_group: group.clone(), ..ports.clone() });
        split.extend(groups.iter().map(of_group));
    }
    Ok((Peers::anybody(), split))
}

#[cfg(test)]
mod tests {
    use super::group;

    #[test]
    fn a_group_is_one_address() {
        assert_eq!(group("239.1.1.1/32"), Ok(Some("239.1.1.1".to_owned())));
        assert_eq!(group("10.0.0.1/32"), Ok(None));
        assert_eq!(group("ff02::1/128"), Ok(None));
        assert!(group("239.0.0.0/8").is_err());
    }
}
