//! Words and facts of an observation that both forms tell.

use std::fmt::Write;
use std::net::IpAddr;
use vswitch_proto::antrea::v1::{Observation, ObservationKind, ObservationVerdict};
use vswitch_proto::v1::Count;

/// Flags of TCP, the lowest bit first.
const TCP_FLAGS: [&str; 9] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "NS"];

/// An address of a message: 4 or 16 bytes.
pub(super) fn address(bytes: &[u8]) -> Option<IpAddr> {
    match *bytes {
        [a, b, c, d] => Some([a, b, c, d].into()),
        _ => <[u8; 16]>::try_from(bytes).ok().map(Into::into),
    }
}

/// Names of the flags that are set.
pub(super) fn flags(flags: u32) -> Vec<&'static str> {
    TCP_FLAGS.iter().enumerate().filter(|(bit, _)| flags >> bit & 1 == 1).map(|(_, name)| *name).collect()
}

/// Where packets went: the endpoint that was chosen, if a Service was spoken to.
pub(super) fn receiver(observation: &Observation) -> (Option<IpAddr>, u32) {
    let tuple = observation.tuple.as_ref();
    match address(&observation.endpoint_address) {
        Some(endpoint) => (Some(endpoint), observation.endpoint_port),
        None => (tuple.and_then(|tuple| address(&tuple.dst)), tuple.map_or(0, |tuple| tuple.dst_port)),
    }
}

/// Whether a policy denied it; whether it was one that isolates.
pub(super) fn denied(observation: &Observation) -> Option<bool> {
    let policies = observation.egress_denied_by.iter().chain(&observation.ingress_denied_by);
    policies.map(|policy| policy.default_deny).reduce(|one, other| one && other)
}

/// Word of a kind.
pub(super) const fn kind(kind: ObservationKind) -> &'static str {
    match kind {
        ObservationKind::Unspecified => "unknown",
        ObservationKind::Begin => "begin",
        ObservationKind::End => "end",
        ObservationKind::Policy => "policy-verdict",
        ObservationKind::Refused => "no-endpoints",
        ObservationKind::Drop => "drop",
    }
}

/// Word of a verdict.
pub(super) const fn verdict(verdict: ObservationVerdict) -> &'static str {
    match verdict {
        ObservationVerdict::Unspecified => "UNKNOWN",
        ObservationVerdict::Forwarded => "FORWARDED",
        ObservationVerdict::Dropped => "DROPPED",
        ObservationVerdict::Refused => "REFUSED",
    }
}

fn counted(count: &Count) -> String {
    match (count.packets, count.bytes) {
        (packets, 0) => format!("{packets} packets"),
        (packets, bytes) => format!("{packets} packets of {bytes} bytes"),
    }
}

/// Protocol, flags, and how much.
pub(super) fn summary(observation: &Observation) -> String {
    let Some(tuple) = &observation.tuple else { return "no IP".to_owned() };
    let mut text = match (tuple.protocol, &tuple.icmp) {
        (6, _) => "TCP".to_owned(),
        (17, _) => "UDP".to_owned(),
        (132, _) => "SCTP".to_owned(),
        (1, Some(icmp)) => format!("ICMPv4 type {} code {}", icmp.r#type, icmp.code),
        (58, Some(icmp)) => format!("ICMPv6 type {} code {}", icmp.r#type, icmp.code),
        (other, _) => format!("protocol {other}"),
    };
    let flags = flags(observation.tcp_flags);
    if !flags.is_empty() {
        let _ = write!(text, " {}", flags.join(", "));
    }
    match observation.kind() {
        ObservationKind::End => {
            let sent = observation.original_count.as_ref().map(counted).unwrap_or_default();
            let back = observation.reply_count.as_ref().map(counted).unwrap_or_default();
            let _ = write!(text, "; {sent}, {back} back");
        }
        ObservationKind::Policy | ObservationKind::Refused => {
            if let Some(count) = observation.original_count.filter(|count| count.packets > 1) {
                let _ = write!(text, "; {} packets", count.packets);
            }
        }
        _ => {}
    }
    text
}
