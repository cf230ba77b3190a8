//! `addresses`, tunnel ports and `[[route]]`: each by itself, and one beside the others.

use super::{expect, good, report};
use crate::RouteConfig;
use vswitch_dataplane::port::{Cidr, PortKind};

/// A VTEP of both families, and the beginning of its bridge.
const VTEP: &str = "[[bridge]]\nname = 'u'\nport = [\n\
                    { name = 'u', type = 'internal', addresses = ['192.168.1.1/24', 'fd00::1/64'] },\n";

#[test]
fn addresses_and_routes_arrive() {
    let config = good(&format!(
        "{VTEP}{{ name = 't', type = 'tap', interface = 't0', addresses = ['10.9.0.1/32'] }},\n]\n\
         [[route]]\nprefix = '10.0.0.0/8'\nport = 'u'\ngateway = '192.168.1.254'\n\
         [[route]]\nprefix = '10.1.2.3'\nport = 'u'\ngateway = '192.168.1.253'\nsource = '192.168.1.1'\n\
         [[route]]\nprefix = '::/0'\nport = 'u'\ngateway = 'fd00::fe'\n"
    ));
    let cidr = |text: &str| text.parse::<Cidr>().expect("an address");
    let addresses: Vec<_> = config.bridges[0].1.iter().map(|port| port.addresses.clone()).collect();
    assert_eq!(addresses, [vec![cidr("192.168.1.1/24"), cidr("fd00::1/64")], vec![cidr("10.9.0.1/32")]]);
    let route = |prefix: &str, gateway: &str, source: Option<&str>| RouteConfig {
        prefix: cidr(prefix),
        port: "u".to_owned(),
        gateway: Some(gateway.parse().expect("an address")),
        source: source.map(|source| source.parse().expect("an address")),
    };
    let want = [
        route("10.0.0.0/8", "192.168.1.254", None),
        route("10.1.2.3/32", "192.168.1.253", Some("192.168.1.1")),
        route("::/0", "fd00::fe", None),
    ];
    assert_eq!(config.routes, want);
}

#[test]
fn addresses_that_are_wrong_by_themselves() {
    let port = |kind: &str, addresses: &str| {
        format!("[[bridge]]\nname = 'b'\n[[bridge.port]]\nname = 'p'\ntype = '{kind}'\naddresses = {addresses}\n")
    };
    for (kind, addresses, lines) in [
        (
            "internal",
            "'10.0.0.1/8'",
            vec![
                "f:6:13: addresses: is a string, must be an array of addresses; write addresses = [\"192.168.1.1/24\"]",
            ],
        ),
        (
            "internal",
            "[1]",
            vec![
                "f:6:14: addresses: contains an integer, must be an array of strings; write addresses = [\"192.168.1.1/24\"]",
            ],
        ),
        (
            "internal",
            "['10.0.0.1']",
            vec![
                "f:6:14: addresses: contains \"10.0.0.1\", which has no length; write 10.0.0.1/24, or whatever is on its link",
            ],
        ),
        (
            "internal",
            "['fd00::1']",
            vec![
                "f:6:14: addresses: contains \"fd00::1\", which has no length; write fd00::1/64, or whatever is on its link",
            ],
        ),
        (
            "internal",
            "['10.0.0.256/8', 'x']",
            vec![
                "f:6:14: addresses: contains \"10.0.0.256/8\", which is no address; write ADDRESS/LENGTH, such as 192.168.1.1/24 or 2001:db8::1/64",
                "f:6:30: addresses: contains \"x\", which is no address; write ADDRESS/LENGTH, such as 192.168.1.1/24 or 2001:db8::1/64",
            ],
        ),
        (
            "internal",
            "['127.0.0.1/8']",
            vec!["f:6:13: addresses: 127.0.0.1 is not a host's address; use a unicast address"],
        ),
        (
            "internal",
            "['10.0.0.1/8', '10.0.0.1/9']",
            vec!["f:6:13: addresses: 10.0.0.1 is given twice; give each address once"],
        ),
        (
            "af_packet",
            "['10.0.0.1/8']\ninterface = 'i'",
            vec![
                "f:6:13: addresses: a port of type af_packet has no addresses; give them to an internal or tap port of the underlay's bridge",
            ],
        ),
    ] {
        assert_eq!(report(&port(kind, addresses)), lines, "{kind}, {addresses}");
    }
}

#[test]
fn routes_that_are_wrong_by_themselves() {
    let begin = VTEP.lines().count() + 1;
    let route = |keys: &str| report(&format!("{VTEP}]\n[[route]]\n{keys}\n"));
    let line = |n: usize, rest: &str| format!("f:{}:{rest}", begin + n);
    for (keys, expected) in [
        (
            "",
            vec![
                line(1, "1: prefix: missing; every route needs one: prefix = \"10.0.0.0/8\""),
                line(1, "1: port: missing; every route needs a port with addresses: port = \"br-ex\""),
            ],
        ),
        ("prefix = 'x'\nport = 'u'", vec![line(2, "10: prefix: \"x\" is no address; write prefix = \"10.0.0.0/8\"")]),
        (
            "prefix = '10.0.0.0/8'\nport = 'u'\ngateway = '1/8'\nsource = 5",
            vec![
                line(4, "11: gateway: \"1/8\" is no address; write gateway = \"192.168.1.254\""),
                line(5, "10: source: is an integer, must be a string; write source = \"192.168.1.1\""),
            ],
        ),
        (
            "prefix = '10.0.0.0/8'\nport = 'u'\ngatewy = '192.168.1.9'",
            vec![
                line(
                    2,
                    "10: prefix: 10.0.0.0/8 is in no network of the port, and there is no gateway; give a gateway that is in one, or a source",
                ),
                line(
                    4,
                    "1: gatewy: unknown key; did you mean gateway? [[route]] has the keys: prefix, port, gateway, source",
                ),
            ],
        ),
        (
            "prefix = '10.0.0.1/8'\nport = 'u'\ngateway = '192.168.1.9'",
            vec![line(2, "10: prefix: 10.0.0.1/8 has bits set behind its length; set them to 0")],
        ),
        (
            "prefix = '10.0.0.0/8'\nport = 'u'\ngateway = '172.16.0.1'",
            vec![line(
                4,
                "11: gateway: 172.16.0.1 is in no network of the port; give another gateway or port, or a source",
            )],
        ),
        (
            "prefix = '10.0.0.0/8'\nport = 'u'\ngateway = 'fd00::9'",
            vec![line(
                4,
                "11: gateway: fd00::9 is not of the family of the prefix; give IPv4 addresses only, or IPv6 addresses only",
            )],
        ),
        (
            "prefix = '10.0.0.0/8'\nport = 'u'\ngateway = '224.0.0.1'",
            vec![line(4, "11: gateway: 224.0.0.1 is not a host's address; give a unicast address")],
        ),
        (
            "prefix = '10.0.0.0/8'\nport = 'u'\nsource = '192.168.1.2'",
            vec![line(
                4,
                "10: source: 192.168.1.2 is no address of the port; give one of the port's addresses, or none",
            )],
        ),
        (
            "prefix = '10.0.0.0/8'\nport = 'v'",
            vec![line(3, "8: port: there is no port named v; name a port that has addresses")],
        ),
    ] {
        assert_eq!(route(keys), expected, "{keys}");
    }
}

#[test]
fn what_clashes_across_ports_is_told_at_once() {
    expect(
        &format!(
            "{VTEP}\
             {{ name = 'h', type = 'internal', addresses = ['10.9.0.1/24', '192.168.1.1/16'] }},\n\
             {{ name = 'bare', type = 'internal' }},\n\
             {{ name = 'g0', type = 'geneve', options = {{ remote_ip = 'flow', key = 'flow' }} }},\n\
             {{ name = 'g1', type = 'geneve', options = {{ remote_ip = 'flow', key = 'flow', csum = 'true' }} }},\n\
             {{ name = 'v0', type = 'vxlan', options = {{ remote_ip = '1.1.1.1', dst_port = '6081' }} }},\n\
             {{ name = 'r0', type = 'gre', options = {{ remote_ip = '1.1.1.1', key = '7' }} }},\n\
             {{ name = 'r1', type = 'gre', options = {{ remote_ip = '1.1.1.1', in_key = '7' }} }},\n\
             ]\n\
             [[route]]\nprefix = '10.0.0.0/8'\nport = 'u'\ngateway = '192.168.1.254'\n\
             [[route]]\nprefix = '10.0.0.0/8'\nport = 'h'\ngateway = '10.9.0.254'\n\
             [[route]]\nprefix = '11.0.0.0/8'\nport = 'bare'\n\
             [[route]]\nprefix = '12.0.0.0/8'\nport = 'h'\ngateway = '10.9.0.254'\n"
        ),
        &[
            "f:5:46: addresses: 192.168.1.1 is an address of port u; give an address to one port only",
            "f:8:43: options: port g0 is for the same packets; give another remote_ip, local_ip, key or dst_port",
            "f:9:42: options: port g0 has UDP port 6081 for another kind of tunnel; give another dst_port",
            "f:11:40: options: port r0 is for the same packets; give another remote_ip, local_ip, key or dst_port",
            "f:18:10: prefix: there is a route to that prefix already; give one route to a prefix",
            "f:23:8: port: port bare has no addresses; give it the address of this end: addresses = [\"192.168.1.1/24\"], \
             vsctl mod-port BRIDGE PORT --address CIDR",
        ],
    );
}

#[test]
fn nothing_is_concluded_from_what_was_refused() {
    let route = "[[route]]\nprefix = '10.0.0.0/8'\nport = 'u'\ngateway = '192.168.1.9'\n";
    let own = "[[bridge]]\nname = 'b'\n[[bridge.port]]\nname = 'u'\n";
    for (port, expected) in [
        ("type = 'internal'\naddresses = ['x']\n", "f:6:14: addresses: contains \"x\", which is no address"),
        ("type = 'intrnal'\naddresses = ['192.168.1.1/24']\n", "f:5:8: type: \"intrnal\" is not known"),
    ] {
        let lines = report(&format!("{own}{port}{route}"));
        assert!(lines.len() == 1 && lines[0].starts_with(expected), "{port}: {lines:?}");
    }
    let kinds = good(&format!("{own}type = 'internal'\naddresses = ['192.168.1.1/24']\n{route}"));
    assert_eq!(kinds.bridges[0].1[0].kind, PortKind::Internal { queues: 1 }, "and without that it is good");
}
