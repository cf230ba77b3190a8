//! Parts of rules of Antrea's own policies, and what goes together in one.

use super::groups::FieldPlace;
use crate::kinds::antrea_policy::{Action, AppliedTo, Peer, Protocol, Rule, Spec};
use crate::problem::Problem;
use vswitch_proto::antrea::v1;

/// The number of an action.
pub(super) fn action_number(action: Action) -> v1::RuleAction {
    match action {
        Action::Allow => v1::RuleAction::Allow,
        Action::Drop => v1::RuleAction::Drop,
        Action::Reject => v1::RuleAction::Reject,
        Action::Pass => v1::RuleAction::Pass,
    }
}

/// Messages of ICMP or IGMP, as the switch takes them.
pub(super) fn portless(place: FieldPlace<'_>, protocol: &Protocol) -> Result<Vec<v1::PortMatch>, Box<Problem>> {
    match (&protocol.icmp, &protocol.igmp) {
        (Some(icmp), None) => {
            let of_type = |icmp_type: Option<u8>| v1::PortMatch {
                protocol: v1::Protocol::Icmp.into(),
                icmp_type: icmp_type.map(u32::from),
                icmp_code: icmp.icmp_code.map(u32::from),
                ..Default::default()
            };
            // A code of any type is, as the switch has it, one of each.
            Ok(match (icmp.icmp_type, icmp.icmp_code) {
                (None, Some(_)) => (0..=u8::MAX).map(|icmp_type| of_type(Some(icmp_type))).collect(),
                (icmp_type, _) => vec![of_type(icmp_type)],
            })
        }
        (None, Some(igmp)) => Ok(vec![v1::PortMatch {
            protocol: v1::Protocol::Igmp.into(),
            igmp_type: igmp.igmp_type.map(u32::from),
            multicast_group: igmp.group_address.clone(),
            ..Default::default()
        }]),
        _ => Err(place.error("", "needs one of icmp and igmp")),
    }
}

/// IGMP messages that come to a Pod: queries.
const IGMP_TO_POD: [u8; 1] = [0x11];
/// IGMP messages that a Pod sends: reports of version 1, 2 and 3.
const IGMP_FROM_POD: [u8; 3] = [0x12, 0x16, 0x22];

/// Whether the types of IGMP messages are of the rule's direction, as the schema of Antrea's
/// policies has it.
pub(super) fn igmp_types(place: FieldPlace<'_>, is_ingress: bool, rule: &Rule) -> Result<(), Box<Problem>> {
    let (known, reason): (&[u8], _) = if is_ingress {
        (&IGMP_TO_POD, "is 0x11 (query) in rules of ingress")
    } else {
        (&IGMP_FROM_POD, "is 0x12, 0x16 or 0x22 (report of version 1, 2 or 3) in rules of egress")
    };
    for (i, protocol) in rule.protocols.iter().enumerate() {
        if protocol.igmp.as_ref().and_then(|igmp| igmp.igmp_type).is_some_and(|kind| !known.contains(&kind)) {
            return Err(place.error(&format!("protocols[{i}].igmp.igmpType"), reason));
        }
    }
    Ok(())
}

/// What does not go together in a rule, as Antrea has it.
pub(super) fn fits(place: FieldPlace<'_>, spec: &Spec, rule: &Rule) -> Result<(), Box<Problem>> {
    let has_igmp = rule.protocols.iter().any(|protocol| protocol.igmp.is_some());
    let has_icmp = rule.protocols.iter().any(|protocol| protocol.icmp.is_some());
    if has_igmp {
        let others = [
            ("ports", !rule.ports.is_empty()),
            ("toServices", !rule.to_services.is_empty()),
            ("from", !rule.from.is_empty()),
            ("to", !rule.to.is_empty()),
            ("l7Protocols", !rule.l7_protocols.is_empty()),
        ];
        if let Some((field, _)) = others.into_iter().find(|(_, is_given)| *is_given) {
            // Groups have a reason of their own.
            let reason = if field == "to" {
                "igmp names its group itself (groupAddress), and icmp goes to none"
            } else {
                "does not go with igmp"
            };
            return Err(place.error(if field == "to" { "protocols" } else { field }, reason));
        }
        if has_icmp {
            return Err(place.error("protocols", "igmp and icmp do not go together"));
        }
        if matches!(rule.action, Action::Reject | Action::Pass) {
            return Err(place.error("action", "igmp is allowed or dropped"));
        }
    }
    if !rule.l7_protocols.is_empty() {
        if rule.action != Action::Allow {
            return Err(place.error("l7Protocols", "goes with action Allow only"));
        }
        if !rule.to_services.is_empty() || has_icmp {
            return Err(place.error("l7Protocols", "goes with neither toServices nor icmp"));
        }
    }
    let is_of_services = |applied: &[AppliedTo]| applied.first().is_some_and(|applied| applied.service.is_some());
    let only_block =
        |peer: &Peer| peer.ip_block.is_some() && *peer == Peer { ip_block: peer.ip_block.clone(), ..Peer::default() };
    if (is_of_services(&spec.applied_to) || is_of_services(&rule.applied_to)) && !rule.from.iter().all(only_block) {
        return Err(place.error("from", "a rule that is applied to Services takes ipBlock only"));
    }
    Ok(())
}
