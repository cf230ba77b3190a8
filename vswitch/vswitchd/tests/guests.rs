//! vhost-user ports of a real `vswitchd`, with `dpdk-testpmd` as the guest.

use crate::common::{Host, Switch, Testpmd, Wire, iperf3, number, wait_for};
use std::time::Duration;

const BRIDGE: &str = "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n";

/// Reconnects happen once a second (librte_vhost), and testpmd takes a moment to open its device.
const RESUME: Duration = Duration::from_secs(60);

/// One host on a veth, and a guest that sends every frame back with its addresses swapped. What the
/// host broadcasts to the guest's bridge comes back to it: traffic both ways through the vhost-user
/// port.
fn host_and_guest() -> (Host, Switch) {
    let host = Host::new(Wire::AfPacket, 1);
    let guest = "[[bridge.port]]\nname = \"guest\"\nnumber = 9\ntype = \"vhost-user\"\npath = \"@DIR@/guest.sock\"\n\n";
    let switch = Switch::start(&[BRIDGE, &host.config(1), guest].concat());
    host.attach();
    (host, switch)
}

/// Sends packets from the host until the guest has sent `more` of them back.
fn echoes(switch: &Switch, host: &Host, more: u64, why: &str) {
    let before = switch.port("br0", "guest");
    let (received, sent) = (number(&before, "rx_packets"), number(&before, "tx_packets"));
    wait_for(&format!("{why}: {more} packets go to the guest and come back"), RESUME, || {
        // Nobody has the address: every ARP request is flooded to the guest.
        host.ns.exec(&["ping", "-n", "-c", "3", "-i", "0.05", "-W", "0.2", "10.99.0.77"]);
        host.ns.exec(&["ip", "neigh", "flush", "all"]);
        let now = switch.port("br0", "guest");
        number(&now, "rx_packets") >= received + more && number(&now, "tx_packets") >= sent + more
    });
}

fn link_up(switch: &Switch) -> bool {
    switch.port("br0", "guest")["link_up"] == true
}

#[test]
fn traffic_resumes_when_the_guest_or_the_switch_is_restarted() {
    let (host, mut switch) = host_and_guest();
    let socket = switch.dir().join("guest.sock");
    let idle = switch.mbufs_in_use();
    assert!(!link_up(&switch), "no guest yet");

    let mut guest = Testpmd::start(&socket, "macswap");
    wait_for("the guest connects", RESUME, || link_up(&switch));
    echoes(&switch, &host, 3, "at first");

    guest.kill();
    wait_for("the link goes down with the guest", RESUME, || !link_up(&switch));
    let guest = Testpmd::start(&socket, "macswap");
    wait_for("the restarted guest connects", RESUME, || link_up(&switch));
    echoes(&switch, &host, 3, "after the guest's restart");

    switch.kill();
    switch.start_again();
    wait_for("the restarted switch finds the guest", RESUME, || link_up(&switch));
    echoes(&switch, &host, 3, "after the switch's restart");

    assert_eq!(switch.terminate().code(), Some(0), "log:\n{}", switch.log());
    switch.start_again();
    wait_for("the switch finds the guest again", RESUME, || link_up(&switch));
    echoes(&switch, &host, 3, "after a clean restart of the switch");

    drop(guest);
    wait_for("the link goes down", RESUME, || !link_up(&switch));
    wait_for("mbufs come back", RESUME, || switch.mbufs_in_use() <= idle);
}

#[test]
fn two_hundred_guests_fit() {
    let host = Host::new(Wire::AfPacket, 1);
    let mut config = [BRIDGE, &host.config(1)].concat();
    for i in 0..200 {
        let mode = if i % 2 == 0 { "client" } else { "server" };
        config += &format!(
            "[[bridge.port]]\nname = \"vhu{i}\"\ntype = \"vhost-user\"\npath = \"@DIR@/{i}.sock\"\nmode = \"{mode}\"\n\n"
        );
    }
    let mut switch = Switch::start(&config);
    host.attach();
    let ports = switch.json(&["dump-ports", "br0"]);
    let ports = ports.as_array().expect("an array");
    assert_eq!(ports.len(), 201);
    assert!(ports.iter().all(|port| port["error"].is_null()), "{ports:#?}");
    // One in the middle works while the others wait for their guests.
    let guest = Testpmd::start(&switch.dir().join("100.sock"), "macswap");
    wait_for("the guest connects", RESUME, || switch.port("br0", "vhu100")["link_up"] == true);
    wait_for("a packet comes back", RESUME, || {
        host.ns.exec(&["ping", "-n", "-c", "2", "-i", "0.05", "-W", "0.2", "10.99.0.77"]);
        number(&switch.port("br0", "vhu100"), "rx_packets") > 0
    });
    drop(guest);
    assert_eq!(switch.terminate().code(), Some(0), "log:\n{}", switch.log());
    let left: Vec<_> = std::fs::read_dir(switch.dir())
        .expect("its directory")
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(".sock"))
        .map(|entry| entry.file_name())
        .collect();
    // 100 was the guest's own
    assert!(left.iter().all(|name| name == "100.sock"), "sockets left behind: {left:?}");
}

/// Pings from one host to the other: at least 95 of 100 are answered, whoever compiles on the same
/// cores.
fn is_served(hosts: &[Host; 2], count: u32, why: &str) {
    let count_text = count.to_string();
    let argv = ["ping", "-n", "-i", "0.05", "-W", "2", "-s", "1000", "-c", &count_text, &hosts[1].v4];
    let text = String::from_utf8_lossy(&hosts[0].ns.exec(&argv).stdout).into_owned();
    let received: Option<u32> = text
        .split_once(" received")
        .and_then(|(before, _)| before.rsplit_once(' '))
        .and_then(|(_, number)| number.parse().ok());
    assert!(received.is_some_and(|received| received * 100 >= count * 95), "{why}: {text}");
}

/// V18: one guest sends as fast as it can, to one that gives no buffer back. Both lose packets, by
/// name; hosts beside them are served, also while the storm's port is removed and added again.
#[test]
fn a_storm_and_a_guest_that_takes_nothing_cost_only_themselves() {
    let hosts = [Host::new(Wire::AfPacket, 1), Host::new(Wire::AfPacket, 2)];
    let guest = |name: &str| {
        format!(
            "[[bridge.port]]\nname = {name:?}\ntype = \"vhost-user\"\npath = \"@DIR@/{name}.sock\"\nno_flood = true\n\n"
        )
    };
    let switch =
        Switch::start(&[BRIDGE, &hosts[0].config(1), &hosts[1].config(2), &guest("storm"), &guest("deaf")].concat());
    hosts.iter().for_each(Host::attach);
    hosts[0].wait_reaches(&hosts[1]);
    let idle = switch.mbufs_in_use();
    switch.vsctl_ok(&["fdb-add", "br0", "deaf", "0", "02:00:00:00:00:aa"]);
    let deaf = Testpmd::idle(&switch.dir().join("deaf.sock"), &[]);
    let socket = switch.dir().join("storm.sock");
    let mut storm = Testpmd::idle(&socket, &["--forward-mode=txonly", "--eth-peer=0,02:00:00:00:00:aa"]);
    // None yet
    let refused = || switch.port("br0", "deaf")["tx_drops"]["tx_full"].as_u64().unwrap_or(0);
    wait_for("both connect", RESUME, || {
        ["storm", "deaf"].iter().all(|name| switch.port("br0", name)["link_up"] == true)
    });
    storm.say("start");
    wait_for("the deaf guest's ring is full", RESUME, || refused() > 1000);
    let before = refused();
    is_served(&hosts, 200, "in the storm");
    assert!(iperf3(&hosts[0].ns, &hosts[1].ns, &hosts[0].v4, &["-t", "1"]).received_bps > 0.0);
    let deaf_port = switch.port("br0", "deaf");
    assert!(refused() > before + 10_000, "there was no storm: {deaf_port:#}");
    assert!(number(&deaf_port, "tx_packets") <= 256, "its ring has 256 entries: {deaf_port:#}");

    for round in 0..3 {
        switch.vsctl_ok(&["del-port", "br0", "storm"]);
        is_served(&hosts, 20, "without the storm");
        switch.vsctl_ok(&["add-port", "br0", "storm", "--type", "vhost-user", "--path", &socket.to_string_lossy()]);
        let before = refused();
        wait_for(&format!("round {round}: the storm goes on"), RESUME, || refused() > before + 1000);
        is_served(&hosts, 20, "in the storm again");
    }
    for host in &hosts {
        assert_eq!(host.checksum_errors(), crate::common::ChecksumErrors::default(), "{host:?}");
    }
    drop((storm, deaf));
    wait_for("mbufs come back", RESUME, || switch.mbufs_in_use() <= idle);
}
