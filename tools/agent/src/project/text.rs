//! A projection as text: one object after another, as the messages are, without what is not given.

use super::Projection;
use std::fmt::Write as _;

/// Values that say that nothing was given.
const NOTHING: [&str; 6] = ["None", "[]", "\"\"", "0", "0.0", "false"];

/// The projection as text; with the places of its documents if asked for.
pub fn text(projection: &Projection, with_places: bool) -> String {
    let mut text = String::new();
    let place = |origin: &crate::problem::Origin| {
        if with_places { format!("# {}:{} {}\n", origin.file, origin.line, origin.what) } else { String::new() }
    };
    if let Some((node, origin)) = &projection.node {
        let _ = writeln!(text, "{}{}", place(origin), short(&format!("{node:#?}")));
    }
    for projected in projection.objects.values() {
        let _ = writeln!(text, "{}{}", place(&projected.origin), short(&unwrapped(projected)));
    }
    text
}

/// Without `Object { object: Some( Pod( ... ) ) }` around it.
fn unwrapped(projected: &super::Projected) -> String {
    use vswitch_proto::antrea::v1::object::Object::{
        AddressGroup, AppliedToGroup, Egress, Endpoints, MulticastGroup, NetworkPolicy, PeerNode, Pod, Service,
        TrafficControl,
    };
    match &projected.object.object {
        None => String::new(),
        Some(PeerNode(object)) => format!("{object:#?}"),
        Some(Pod(object)) => format!("{object:#?}"),
        Some(Service(object)) => format!("{object:#?}"),
        Some(Endpoints(object)) => format!("{object:#?}"),
        Some(AddressGroup(object)) => format!("{object:#?}"),
        Some(AppliedToGroup(object)) => format!("{object:#?}"),
        Some(NetworkPolicy(object)) => format!("{object:#?}"),
        Some(Egress(object)) => format!("{object:#?}"),
        Some(TrafficControl(object)) => format!("{object:#?}"),
        Some(MulticastGroup(object)) => format!("{object:#?}"),
    }
}

/// Leaves out fields that are not given; brings wrappers and bytes to one line.
fn short(debug: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut rest = debug.lines();
    while let Some(line) = rest.next() {
        let value = line.trim_start().split_once(": ").map(|(_, value)| value.trim_end_matches(','));
        if value.is_some_and(|value| NOTHING.contains(&value) || value == "Unspecified") {
            continue;
        }
        if value.is_some() && line.ends_with("octets: [") {
            let octets = rest.by_ref().map(|line| line.trim().trim_end_matches(',')).take_while(|line| *line != "]");
            let octets = octets.map(|octet| octet.parse().map_or(octet.to_owned(), |octet: u8| format!("{octet:02x}")));
            let octets: Vec<String> = octets.collect();
            lines.push(format!("{line}{}]", octets.join(":")).replace("octets: [", "octets: ").replace(']', ","));
            continue;
        }
        lines.push(line.to_owned());
    }
    lines.join("\n")
}
