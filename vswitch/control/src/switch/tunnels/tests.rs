//! A switch with dummy ports: routes, addresses, tunnels and mappings beside one another.

use super::*;
use crate::config::SwitchConfig;
use crate::info::{BridgeConfig, PortChange};
use crate::switch::pipeline::WriteError;
use vswitch_dataplane::port::{End, TunnelConfig};
use vswitch_flow::spec::FlowFilter;
use vswitch_flow::text::{NoNames, parse_bundle_line, parse_match};
use vswitch_overlay::TunnelKind;
use vswitch_overlay::options::parse;

/// Bridge br0 with a VTEP of 192.168.1.1/24, and a port without addresses.
fn switch() -> Arc<Switch> {
    let mut config = SwitchConfig::with_defaults(&[0]);
    config.dpdk.mbufs = Some(64);
    config.worker.idle_sleep_us = 100;
    config.enable_dummy = true;
    let switch = Switch::start(&config).expect("starts");
    switch.add_bridge(BridgeConfig::new("br0")).expect("a bridge");
    let vtep = PortConfig { addresses: vec![cidr("192.168.1.1/24")], ..PortConfig::new("vtep", PortKind::Dummy) };
    for port in [vtep, PortConfig::new("bare", PortKind::Dummy)] {
        switch.add_port("br0", port).expect("a port");
    }
    switch
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect(text)
}

fn route(prefix: &str, port: &str, gateway: &str, source: &str) -> RouteConfig {
    let address = |text: &str| (!text.is_empty()).then(|| text.parse().expect("an address"));
    RouteConfig { prefix: cidr(prefix), port: port.to_owned(), gateway: address(gateway), source: address(source) }
}

/// The only field that is wrong.
#[track_caller]
fn field<T: std::fmt::Debug>(result: Result<T, SwitchError>) -> (&'static str, String) {
    match result {
        Err(SwitchError::Invalid(errors)) if errors.len() == 1 => (errors[0].field, errors[0].problem.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refused_route_names_what_is_wrong_with_it() {
    let switch = switch();
    for (prefix, port, gateway, source, wrong) in [
        ("10.0.0.1/8", "vtep", "192.168.1.9", "", "prefix"),
        ("10.0.0.0/8", "vtep", "", "", "prefix"),
        ("10.0.0.0/8", "vtep", "172.16.0.1", "", "gateway"),
        ("10.0.0.0/8", "vtep", "fd00::1", "", "gateway"),
        ("10.0.0.0/8", "vtep", "192.168.1.9", "192.168.1.2", "source"),
        ("10.0.0.0/8", "bare", "192.168.1.9", "", "port"),
    ] {
        let route = route(prefix, port, gateway, source);
        assert_eq!(field(switch.add_route(&route)).0, wrong, "{route:?}");
    }
    let missing = switch.add_route(&route("10.0.0.0/8", "none", "", ""));
    assert!(matches!(missing, Err(SwitchError::NotFound { what: "port", .. })), "{missing:?}");
    assert_eq!(switch.routes().len(), 1, "that of the address");
    switch.stop();
}

#[test]
fn a_lookup_tells_the_route_and_whose_it_is() {
    let switch = switch();
    switch.add_route(&route("10.0.0.0/8", "vtep", "192.168.1.9", "")).expect("a route");
    for (to, prefix, user, gateway) in
        [("10.1.2.3", "10.0.0.0/8", true, Some("192.168.1.9")), ("192.168.1.77", "192.168.1.0/24", false, None)]
    {
        let found = switch.lookup_route(to.parse().expect("an address")).expect("a way");
        let gateway = gateway.map(|gateway| gateway.parse().expect("an address"));
        let source = Some("192.168.1.1".parse().expect("an address"));
        let (prefix, port) = (prefix.to_owned(), "vtep".to_owned());
        assert_eq!(found, RouteInfo { prefix, port, gateway, source, user }, "to {to}");
    }
    let nowhere = switch.lookup_route("11.0.0.1".parse().expect("an address"));
    assert!(matches!(nowhere, Err(SwitchError::NotFound { what: "route", .. })), "{nowhere:?}");
    switch.stop();
}

#[test]
fn ports_that_clash_are_refused_in_the_words_of_the_file() {
    let switch = switch();
    let tunnel = |name: &str, kind, dst_port| {
        let config = TunnelConfig { dst_port, ..TunnelConfig::new(kind, End::Flow) };
        switch.add_port("br0", PortConfig::new(name, PortKind::Tunnel(config)))
    };
    tunnel("g0", TunnelKind::Geneve, 6081).expect("the first one");
    assert_eq!(
        field(tunnel("g1", TunnelKind::Geneve, 6081)),
        ("options", "port g0 is for the same packets".to_owned())
    );
    let problem = "port g0 has UDP port 6081 for another kind of tunnel".to_owned();
    assert_eq!(field(tunnel("v0", TunnelKind::Vxlan, 6081)), ("options", problem));
    let change = PortChange { addresses: Some(vec![cidr("192.168.1.1/32")]), ..PortChange::default() };
    let problem = "192.168.1.1 is an address of port vtep".to_owned();
    assert_eq!(field(switch.modify_port("br0", "bare", &change)), ("addresses", problem));
    switch.stop();
}

#[test]
fn flags_arrive() {
    let switch = switch();
    let change = PortChange { no_receive: Some(true), no_forward: Some(true), ..PortChange::default() };
    let config = switch.modify_port("br0", "bare", &change).expect("a port").config;
    assert!(config.no_receive && config.no_forward, "{config:?}");
    let world = Arc::clone(&switch.publisher.current().world);
    let facts = world.ports.iter().flatten().find(|facts| &*facts.name == "bare").expect("it is there");
    assert!(facts.no_receive && facts.no_forward, "{facts:?}");
    switch.stop();
}

#[test]
fn mappings_and_flows_hold_each_other() {
    let switch = switch();
    let update = |line: &str| [parse_bundle_line(line, &NoNames).expect(line).value];
    let flow = update("actions=set_field:1->tun_metadata0");
    let refused = switch.write_pipeline("br0", &flow).expect_err("not mapped");
    assert!(
        matches!(&refused, WriteError::Refused(refused) if refused.code == "NXFMFC_INVALID_TLV_FIELD"),
        "{refused}"
    );
    let matching = Arc::new(parse_match("tun_metadata0=1", &NoNames).expect("a match").value);
    let filter = FlowFilter { matching, ..FlowFilter::default() };
    assert_eq!(field(switch.flows("br0", &filter)).0, "filter");
    let mappings = parse("{class=0xffff,type=0,len=4}->tun_metadata0").expect("a mapping");
    switch.add_options("br0", &mappings).expect("no clash");
    switch.write_pipeline("br0", &flow).expect("mapped");
    assert_eq!(switch.flows("br0", &filter).expect("mapped").len(), 0);
    let by = "tun_metadata0 is used by a flow of table 0, priority 32768, cookie 0x0".to_owned();
    assert_eq!(field(switch.delete_options("br0", &mappings)), ("mappings", by.clone()));
    assert_eq!(field(switch.delete_options("br0", &[])), ("mappings", by));
    assert_eq!(switch.option_map("br0").expect("a bridge"), mappings);
    switch.write_pipeline("br0", &update("flow delete ")).expect("good");
    switch.delete_options("br0", &[]).expect("nobody uses it");
    assert_eq!(switch.option_map("br0").expect("a bridge"), []);
    switch.stop();
}
