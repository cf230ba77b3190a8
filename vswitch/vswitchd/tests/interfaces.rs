//! Interfaces of the kernel under ports, as wholes: one interface is one port, by whatever name;
//! the port follows its MTU.

use crate::common::{Host, Netns, Switch, Veth, Wire, number, ping, run, unique, wait_for};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

const BRIDGES: &str = "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n[[bridge]]\nname = \"br1\"\n\n";

/// What `vsctl` says of a port that is refused.
fn refused(switch: &Switch, arguments: &[&str]) -> String {
    let output = switch.vsctl(&[&["add-port"][..], arguments].concat());
    assert!(!output.status.success(), "{arguments:?} was accepted");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_interface_is_one_port_by_whatever_name() {
    let ns = Netns::new("i");
    let veth = Veth::new(&ns, "eth0");
    let tap = format!("vt{}x{}", std::process::id(), unique());
    let other = format!("vt{}y{}", std::process::id(), unique());
    let alias = format!("vt{}z{}", std::process::id(), unique());
    let switch = Switch::start(BRIDGES);
    let af_packet =
        |bridge, name, interface| -> Vec<&str> { vec![bridge, name, "--type", "af_packet", "--interface", interface] };
    let add = |arguments: &[&str]| switch.vsctl_ok(&[&["add-port"][..], arguments].concat());
    add(&af_packet("br0", "p1", veth.host()));
    add(&["br0", "t1", "--type", "tap", "--interface", &tap]);
    let names_it = |text: &str, port: &str| {
        assert!(text.contains(&format!("that of port {port} of bridge br0")), "{text}");
    };
    for bridge in ["br0", "br1"] {
        names_it(&refused(&switch, &af_packet(bridge, "again", veth.host())), "p1");
        names_it(&refused(&switch, &af_packet(bridge, "again", &tap)), "t1");
    }
    let devargs = format!("net_af_packet7,iface={}", veth.host());
    names_it(&refused(&switch, &["br1", "again", "--type", "dpdk", "--devargs", &devargs]), "p1");
    run(&["ip", "link", "property", "add", "dev", veth.host(), "altname", &alias]);
    names_it(&refused(&switch, &af_packet("br1", "again", &alias)), "p1");
    // Under another name it is the same; under its old name there may be another one.
    run(&["ip", "link", "set", "dev", &tap, "down"]);
    run(&["ip", "link", "set", "dev", &tap, "name", &other]);
    names_it(&refused(&switch, &af_packet("br1", "again", &other)), "t1");
    run(&["ip", "link", "add", "name", &tap, "type", "veth", "peer", "name", "x0", "netns", ns.name()]);
    add(&af_packet("br1", "p2", &tap));
    // What is free again may be a port again.
    switch.vsctl_ok(&["del-port", "br0", "p1"]);
    add(&af_packet("br1", "p3", veth.host()));
    for port in ["p2", "p3"] {
        switch.vsctl_ok(&["del-port", "br1", port]);
    }
    run(&["ip", "link", "delete", &tap]);
}

#[test]
fn a_port_follows_the_mtu_of_its_interface_unless_one_was_asked_for() {
    let (a, b) = (Host::new(Wire::AfPacket, 1), Host::new(Wire::AfPacket, 2));
    a.set_mtu(9000);
    let explicit = Netns::new("m");
    let veth = Veth::new(&explicit, "eth0");
    run(&["ip", "link", "set", "dev", veth.host(), "mtu", "4000"]);
    let more = format!(
        "[[bridge.port]]\nname = \"less\"\ntype = \"af_packet\"\ninterface = {:?}\nmtu = 1500\n\n",
        veth.host()
    );
    let bridge = "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n";
    let switch = Switch::start(&[bridge, &a.config(1), &b.config(2), &more].concat());
    a.attach();
    b.attach();
    let mtu = |port: &str| number(&switch.port("br0", port), "mtu");
    assert_eq!((mtu(&a.port), mtu(&b.port), mtu("less")), (9000, 1500, 1500));
    assert!(switch.log().contains("differ in MTU"), "no word of it: {}", switch.log());
    let shown = switch.vsctl_ok(&["show"]);
    assert!(shown.contains("mtu: 1500 (warning: its interface has 4000)"), "{shown}");
    assert_eq!(shown.matches("warning").count(), 1, "{shown}");

    b.set_mtu(9000);
    wait_for("the port follows", SOON, || mtu(&b.port) == 9000);
    a.wait_reaches(&b);
    ping(&a.ns, &b.v4, 3, 8900);
    let port = switch.port("br0", &a.port);
    assert_eq!(port["rx_drops"]["oversize"].as_u64().unwrap_or(0), 0, "{port:#}");
    assert_eq!(mtu("less"), 1500);
    // One that is asked for later is the interface's, too, and stays what was asked for.
    switch.vsctl_ok(&["mod-port", "br0", &b.port, "--mtu", "3000"]);
    b.set_mtu(5000);
    wait_for("it is told", SOON, || switch.vsctl_ok(&["show"]).contains("mtu: 3000 (warning: its interface has 5000)"));
}

#[test]
fn the_number_of_a_port_that_went_is_not_the_next_ones() {
    let switch = Switch::start(BRIDGES);
    let add = |bridge: &str, name: &str| {
        switch.vsctl_ok(&["add-port", bridge, name, "--type", "patch", "--peer", "nowhere"]);
        number(&switch.port(bridge, name), "number")
    };
    assert_eq!(["a", "b", "c"].map(|name| add("br0", name)), [1, 2, 3]);
    switch.vsctl_ok(&["del-port", "br0", "b"]);
    assert_eq!((add("br0", "d"), add("br1", "e")), (4, 1));
    switch.vsctl_ok(&["del-port", "br0", "d"]);
    assert_eq!(add("br0", "f"), 5);
}
