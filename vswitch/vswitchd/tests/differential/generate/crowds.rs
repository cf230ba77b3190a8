//! Random programs whose masks have many matches each, so that tables are looked up in stages and
//! by prefixes; and packets that most of them miss.

use super::rng::Rng;
use crate::frame::Names;
use crate::scenario::Step;

/// What flows look at besides a protocol, which they all name.
const OF_PACKETS: [&str; 4] = ["in_port", "dl_dst", "dl_src", "nw_tos"];
/// Likewise, of connections.
const OF_CONNECTIONS: [&str; 3] = ["ct_state", "ct_mark", "ct_zone"];

/// Matches of a mask: the classifier compares up to four one by one.
const MATCHES: (usize, usize) = (5, 9);

/// A random program and packets.
pub(crate) fn crowded(packets: usize, rng: &mut Rng) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut priority = 100;
    for table in 0..2 {
        for _ in 0..rng.between(2, 5) {
            let protocol = rng.pick(&["ip", "tcp", "udp", "ipv6", "tcp6", "udp6", "icmp6", "arp"]);
            let fields = fields(protocol, table == 1, rng);
            for _ in 0..rng.between(MATCHES.0, MATCHES.1) {
                priority += 1 + rng.below(3);
                let values = fields.iter().map(|field| format!(",{}", value(field, rng))).collect::<String>();
                let port = rng.between(1, 6);
                steps.push(Step::Flow(format!(
                    "table={table},priority={priority},{protocol}{values} actions=output:{port}"
                )));
            }
        }
    }
    for protocol in ["ip", "ipv6"] {
        steps.push(Step::Flow(format!(
            "priority=1,{protocol} actions=ct(commit,zone=5,exec(set_field:3->ct_mark),table=1)"
        )));
    }
    steps.push(Step::Flow("table=1,priority=1 actions=output:6".to_owned()));
    steps.extend((0..packets).map(|_| packet(rng)));
    steps
}

/// Some fields of a protocol.
fn fields(protocol: &str, of_connections: bool, rng: &mut Rng) -> Vec<&'static str> {
    let mut fields: Vec<&str> = OF_PACKETS.into_iter().filter(|_| rng.chance(30)).collect();
    fields.retain(|field| *field != "nw_tos" || protocol != "arp");
    let v6 = protocol.ends_with('6') && protocol != "ip";
    let addresses = match protocol {
        "arp" => ["arp_spa", "arp_tpa"],
        _ if v6 => ["ipv6_src", "ipv6_dst"],
        _ => ["nw_src", "nw_dst"],
    };
    fields.extend(addresses.into_iter().filter(|_| rng.chance(50)));
    if matches!(protocol, "tcp" | "udp" | "tcp6" | "udp6") {
        fields.extend(["tp_src", "tp_dst"].into_iter().filter(|_| rng.chance(50)));
    }
    if protocol == "icmp6" {
        fields.push("icmp_type=136,icmp_code=0,nd_target");
    }
    if of_connections && protocol != "arp" {
        fields.extend(OF_CONNECTIONS.into_iter().filter(|_| rng.chance(40)));
        let tuple = if v6 { ["ct_ipv6_src", "ct_ipv6_dst"] } else { ["ct_nw_src", "ct_nw_dst"] };
        let known = fields.len();
        fields.extend(tuple.into_iter().filter(|_| rng.chance(40)));
        match protocol {
            "tcp" | "tcp6" if rng.chance(40) => fields.push("ct_nw_proto=6,ct_tp_dst"),
            "udp" | "udp6" if rng.chance(40) => fields.push("ct_nw_proto=17,ct_tp_dst"),
            _ => {}
        }
        // They need a connection.
        if fields.len() > known && !fields.contains(&"ct_state") {
            fields.push("ct_state");
        }
    }
    fields
}

fn value(field: &str, rng: &mut Rng) -> String {
    let value = match field {
        "in_port" => rng.between(1, 9).to_string(),
        "dl_dst" | "dl_src" => mac(rng),
        "nw_tos" => (rng.below(8) * 4).to_string(),
        "ct_state" => rng.pick(&["+new-rel-inv+trk", "-new-rel-inv+trk", "+new+rel-inv+trk"]).to_owned(),
        "ct_mark" => format!("{}/0xf", rng.below(8)),
        "ct_zone" => rng.between(4, 7).to_string(),
        _ if field.ends_with("tp_src") || field.ends_with("tp_dst") => {
            rng.pick(&[80, 81, 443, 8080, 0x8050, 53]).to_string()
        }
        _ if field.contains("ipv6") || field.contains("nd_target") => address6(rng),
        _ => address(rng),
    };
    format!("{field}={value}")
}

fn mac(rng: &mut Rng) -> String {
    format!("02:00:00:00:{:02x}:{:02x}", rng.below(2) * 0x80, rng.between(1, 9))
}

fn address(rng: &mut Rng) -> String {
    format!("{}.0.{}.{}", rng.pick(&[10, 10, 10, 10, 138, 200]), rng.below(3), rng.between(1, 9))
}

fn address6(rng: &mut Rng) -> String {
    format!("{}:{}::{:x}", rng.pick(&["fd00", "fd00", "fd00", "2001"]), rng.below(3), rng.between(1, 9))
}

fn packet(rng: &mut Rng) -> Step {
    let kind = rng.pick(&["udp", "tcp", "udp6", "tcp6", "tcp6", "na", "icmp", "arp"]);
    let mut text = format!("packet {} {kind} smac={} dmac={}", rng.between(1, 4), mac(rng), mac(rng));
    let v6 = kind.ends_with('6') || kind == "na";
    for end in ["src", "dst"].into_iter().filter(|_| kind != "arp") {
        text += &format!(" {end}={}", if v6 { address6(rng) } else { address(rng) });
    }
    if matches!(kind, "udp" | "tcp" | "udp6" | "tcp6") {
        text += &format!(" sport={} dport={}", rng.between(1000, 1003), rng.pick(&[80, 443, 53, 82, 0x8050, 9]));
        text += if kind.starts_with("tcp") { " flags=S" } else { "" };
    }
    if kind == "na" {
        text += &format!(" target={}", address6(rng));
    }
    Step::parse(&text, &Names::new()).unwrap_or_else(|error| panic!("{text}: {error}"))
}
