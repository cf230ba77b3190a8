//! Ending connections, and forgetting choices, that rest on what went.

use super::AntreaError;
use std::collections::HashSet;
use std::net::IpAddr;
use vswitch_antrea::{Facts, FlowId, Flush, Zones};
use vswitch_conntrack::{Connection, Family};
use vswitch_control::SwitchApi;
use vswitch_dataplane::time::Millis;

/// Deletes learned flows that lead clients on to endpoints that left their Service.
///
/// # Errors
/// When the bridge refuses.
pub(super) fn unlearn(switch: &dyn SwitchApi, facts: &Facts<'_>, what: &[Flush]) -> Result<(), AntreaError> {
    let bridge = &facts.node.bridge;
    let mut updates = Vec::new();
    for flush in what {
        for filter in flush.learned(facts) {
            let learned = switch.flows(bridge, &filter)?.into_iter().filter(|info| flush.leads_on(&info.flow));
            updates.extend(learned.map(|info| FlowId::of(&info.flow).delete()));
        }
    }
    if !updates.is_empty() {
        super::written(switch.write_pipeline(bridge, &updates))?;
    }
    Ok(())
}

/// Ends all connections that are meant, in one pass of the tracker; returns how many.
pub(super) fn flush(switch: &dyn SwitchApi, zones: &Zones, what: &[Flush]) -> u64 {
    let conntrack = switch.conntrack();
    if what.iter().all(|what| matches!(what, Flush::Affinity { .. } | Flush::Clients { .. })) {
        return 0;
    }
    // Few kinds of Services go at once, but thousands of Pods may.
    let gone: HashSet<(Family, u128)> = what.iter().filter_map(address_of).collect();
    let services: Vec<&Flush> = what.iter().filter(|what| matches!(what, Flush::Service { .. })).collect();
    let meant = |connection: &Connection| {
        let (original, reply) = (&connection.original, &connection.reply);
        let ends = [original.src.addr, original.dst.addr, reply.src.addr, reply.dst.addr];
        zones.contains(original.zone)
            && (!gone.is_empty() && ends.iter().any(|end| gone.contains(&(original.family, *end)))
                || services.iter().any(|what| means(what, connection, zones)))
    };
    conntrack.tracker().flush_where(Millis::now().0, meant) as u64
}

const fn raw(address: &IpAddr) -> (Family, u128) {
    match address {
        IpAddr::V4(v4) => (Family::V4, v4.to_bits() as u128),
        IpAddr::V6(v6) => (Family::V6, v6.to_bits()),
    }
}

const fn address_of(what: &Flush) -> Option<(Family, u128)> {
    match what {
        Flush::Address(address) => Some(raw(address)),
        _ => None,
    }
}

fn means(what: &Flush, connection: &Connection, zones: &Zones) -> bool {
    let (original, reply) = (&connection.original, &connection.reply);
    // The bridge behind the uplink tells whose a connection is. Which endpoint has it is known
    // behind it alone, so all clients of the place are asked for anew there.
    let is_of_wire = zones.of_wire().contains(&original.zone);
    match what {
        Flush::Affinity { .. } | Flush::Clients { .. } => false,
        Flush::Address(address) => {
            let (family, address) = raw(address);
            let ends = [original.src.addr, original.dst.addr, reply.src.addr, reply.dst.addr];
            original.family == family && ends.contains(&address)
        }
        Flush::Service { protocol, address, port, endpoint } => {
            original.protocol == *protocol
                && original.dst.port == *port
                && address.is_none_or(|address| raw(&address) == (original.family, original.dst.addr))
                && endpoint.is_none_or(|(address, port)| {
                    is_of_wire || raw(&address) == (reply.family, reply.src.addr) && reply.src.port == port
                })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_conntrack::{End, Tuple};

    fn connection(to: (u32, u16), answered_by: (u32, u16)) -> Connection {
        let end = |(addr, port): (u32, u16)| End { addr: addr.into(), port };
        let client = (0x0a0a_001a, 40000);
        let tuple = |src, dst| Tuple { src: end(src), dst: end(dst), family: Family::V4, protocol: 17, zone: 65520 };
        Connection {
            id: 1,
            original: tuple(client, to),
            reply: tuple(answered_by, client),
            mark: 0,
            label: 0,
            tcp: None,
            replied: false,
            timeout_ms: 1,
            start_ms: 0,
            packets: [0; 2],
            bytes: [0; 2],
            master: None,
        }
    }

    #[test]
    fn what_went_and_nothing_else_is_meant() {
        let service = (0x0a60_0001, 53);
        let web = (0x0a0a_0018, 5353);
        let through = connection(service, web);
        let ip = |word: u32| IpAddr::from(word.to_be_bytes());
        let flush = |address, endpoint| Flush::Service { protocol: 17, address, port: 53, endpoint };
        let endpoint = |(address, port): (u32, u16)| Some((ip(address), port));
        let cases = [
            (flush(Some(ip(service.0)), None), true),
            (flush(None, endpoint(web)), true),
            (flush(Some(ip(service.0)), endpoint((web.0, 1))), false),
            (flush(Some(ip(1)), None), false),
            (Flush::Service { protocol: 6, address: None, port: 53, endpoint: None }, false),
            (Flush::Address(ip(web.0)), true),
            (Flush::Address(ip(0x0a0a_001a)), true),
            (Flush::Address(ip(service.0)), true),
            (Flush::Address(ip(2)), false),
        ];
        for (what, expected) in cases {
            assert_eq!(means(&what, &through, &Zones::default()), expected, "{what:?}");
        }
    }

    #[test]
    fn an_endpoint_that_goes_ends_what_the_wire_knows_of_its_place() {
        let zones = Zones::default();
        let (node, web) = ((0xac12_0003, 30053), (0x0a0a_0018, 5353));
        let ip = |word: u32| IpAddr::from(word.to_be_bytes());
        let gone = Flush::Service { protocol: 17, address: None, port: 30053, endpoint: Some((ip(web.0), web.1)) };
        for (zone, to, expected) in [
            (zones.uplink, node, true),
            (zones.host_endpoints, node, true),
            (zones.uplink, (node.0, 30054), false),
            (zones.main[0], node, false),
        ] {
            let mut known = connection(to, to);
            (known.original.zone, known.reply.zone) = (zone, zone);
            assert_eq!(means(&gone, &known, &zones), expected, "zone {zone}, to {to:?}");
        }
    }
}
