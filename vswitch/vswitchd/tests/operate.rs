//! What an operator does and sees: failed ports, hostile frames, sleeping and several workers,
//! queues that move, patches.

use crate::common::{Host, Switch, Wire, number, ping, wait_for, write_pcap};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
const BRIDGE: &str = "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n";

/// A `[dpdk]` section of ordinary memory for these workers, and the rest of the configuration.
fn with_workers(cores: &str, worker: &str) -> String {
    let prefix = format!("vt{}-{}", std::process::id(), crate::common::unique());
    format!(
        "[dpdk]\nworker_cores = {cores}\nmemory_mb = 256\nhugepages = false\nfile_prefix = {prefix:?}\n\n{worker}{BRIDGE}"
    )
}

/// Two hosts that reach each other through a switch with this configuration in front of their
/// ports.
fn two_hosts(config: &str) -> (Host, Host, Switch) {
    let (a, b) = (Host::new(Wire::AfPacket, 1), Host::new(Wire::Tap, 2));
    let switch = Switch::start(&[config, &a.config(1), &b.config(2)].concat());
    a.attach();
    b.attach();
    a.wait_reaches(&b);
    (a, b, switch)
}

#[test]
fn a_port_that_does_not_open_leaves_the_others_running() {
    let bad = "[[bridge.port]]\nname = \"bad\"\nnumber = 7\ntype = \"dpdk\"\ndevargs = \"net_nonsense0\"\n\n";
    let (a, b, switch) = two_hosts(&[BRIDGE, bad].concat());
    ping(&a.ns, &b.v4, 3, 56);
    let ports = switch.json(&["list-ports", "br0"]);
    let port = ports.as_array().and_then(|ports| ports.iter().find(|port| port["name"] == "bad")).expect("kept");
    assert!(port["error"].as_str().is_some_and(|error| error.contains("net_nonsense0")), "{port:#}");
    assert_eq!(port["link_up"], false, "{port:#}");

    let again = switch.vsctl(&["mod-port", "br0", "bad", "up"]);
    assert_eq!(again.status.code(), Some(1), "opening it again fails again");
    assert!(String::from_utf8_lossy(&again.stderr).contains("net_nonsense0"), "{again:?}");
    let refused = switch.vsctl(&["add-port", "br0", "bad2", "--type", "dpdk", "--devargs", "net_nonsense1"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(!switch.vsctl_ok(&["list-ports", "br0"]).contains("bad2"), "a port added by hand is not kept");
    for (what, args) in [
        ("a name that is taken", vec!["add-port", "br0", "bad", "--type", "internal"]),
        ("a number that is taken", vec!["add-port", "br0", "x", "--type", "internal", "--number", "7"]),
        ("a bridge that is not there", vec!["add-port", "br9", "x", "--type", "internal"]),
        ("a patch to itself", vec!["add-port", "br0", "x", "--type", "patch", "--peer", "x"]),
    ] {
        assert_eq!(switch.vsctl(&args).status.code(), Some(1), "{what}");
    }
    switch.vsctl_ok(&["del-port", "br0", "bad"]);
    ping(&a.ns, &b.v4, 3, 56);
}

#[test]
fn a_port_whose_interface_is_gone_says_so() {
    let (a, _b, switch) = two_hosts(BRIDGE);
    assert!(!switch.vsctl_ok(&["show"]).contains("error:"));
    a.ns.run(&["ip", "link", "delete", "eth0"]); // and its peer with it, which is the port
    wait_for("the port has an error", SOON, || switch.vsctl_ok(&["show"]).contains("error:"));
    let shown = switch.vsctl_ok(&["show"]);
    let error = shown.lines().find(|line| line.contains("error:")).expect("an error");
    assert!(error.contains("the interface is gone: remove the port and add it again"), "{shown}");
}

#[test]
fn frames_of_every_size_are_counted_and_stop_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let capture = dir.path().join("in.pcap");
    let frame = |len: usize| {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
        frame.resize(len, 0);
        frame
    };
    // net_pcap counts an empty record as an error of its own, so the shortest frame has one byte.
    let sizes: Vec<usize> = (1..=64).chain([1500, 1514, 1522, 1523, 2000, 4000, 9000, 16000]).collect();
    write_pcap(&capture, &sizes.iter().map(|size| frame(*size)).collect::<Vec<_>>());
    let sink = "[[bridge.port]]\nname = \"out\"\nnumber = 2\ntype = \"pcap\"\ntx_file = \"@DIR@/out.pcap\"\n\n";
    let switch = Switch::start(&[BRIDGE, sink].concat());
    let idle = switch.mbufs_in_use();
    let path = capture.to_str().expect("UTF-8");
    switch.vsctl_ok(&["add-port", "br0", "in", "--type", "pcap", "--rx-file", path, "--number", "1"]);
    let sizes_n = sizes.len() as u64;
    let received = |port: &Value| number(port, "rx_packets") == sizes_n;
    wait_for("the capture is played", SOON, || received(&switch.port("br0", "in")));
    let (input, output) = (switch.port("br0", "in"), switch.port("br0", "out"));
    assert_eq!(number(&input["rx_drops"], "eth_short"), 13, "1 to 13 bytes: {input:#}");
    assert_eq!(number(&input["rx_drops"], "oversize"), 5, "1523 bytes and more: {input:#}");
    assert_eq!(number(&output, "tx_packets"), sizes_n - 18, "{output:#}");
    assert_eq!(switch.json(&["fdb-show", "br0"]).as_array().map(Vec::len), Some(1), "one address was learned");
    switch.vsctl_ok(&["del-port", "br0", "in"]);
    wait_for("mbufs come back", SOON, || switch.mbufs_in_use() <= idle);
    assert!(switch.vsctl(&["health"]).status.success());
}

#[test]
fn idle_workers_sleep_and_wake_for_traffic_and_changes() {
    let (a, b, switch) = two_hosts(&with_workers("[1]", "[worker]\nidle_sleep_us = 500\n\n"));
    switch.vsctl_ok(&["worker-clear"]);
    std::thread::sleep(Duration::from_millis(300));
    let slept = |workers: Value| number(&workers[0], "sleep_cycles") > number(&workers[0], "busy_cycles");
    wait_for("the idle worker sleeps", SOON, || slept(switch.json(&["worker-show"])));
    ping(&a.ns, &b.v4, 5, 56);
    for round in 0..20 {
        let added = switch.vsctl(&["add-port", "br0", "vtsleepy", "--type", "internal"]);
        assert!(added.status.success(), "round {round}: {added:?}");
        switch.vsctl_ok(&["del-port", "br0", "vtsleepy"]);
    }
    assert!(!Path::new("/sys/class/net/vtsleepy").exists(), "a sleeping worker kept the port open");
    ping(&a.ns, &b.v4, 5, 1472);
}

#[test]
fn queues_move_between_workers_without_loss() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        panic!("this test needs two cores");
    }
    // Both workers sleep when idle: two that spin would leave nothing of two cores for the hosts.
    let (a, b, switch) = two_hosts(&with_workers("[0, 1]", "[worker]\nidle_sleep_us = 200\n\n"));
    let drops = || {
        [&a.port, &b.port].map(|port| {
            let port = switch.port("br0", port);
            [port["rx_drops"].clone(), port["tx_drops"].clone()]
        })
    };
    let before = drops(); // a host's first frames may have met an interface that was still down
    let (ns, to) = (a.ns.name().to_owned(), b.v4.clone());
    let pinging = std::thread::spawn(move || {
        let argv = ["netns", "exec", &ns, "ping", "-n", "-q", "-i", "0.01", "-c", "300", "-W", "2", &to];
        std::process::Command::new("ip").args(argv).output().expect("ping runs")
    });
    let mut round = 0;
    while !pinging.is_finished() {
        let core = (round % 2).to_string();
        for port in [&a.port, &b.port] {
            switch.vsctl_ok(&["worker-rxq-pin", port, "0", &core]);
        }
        let rxqs = switch.json(&["worker-rxq-show"]);
        let moved =
            rxqs.as_array().expect("an array").iter().all(|rxq| rxq["core"] == round % 2 && rxq["pinned"] == true);
        assert!(moved, "round {round}: {rxqs:#}");
        round += 1;
    }
    let output = pinging.join().expect("no panic");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("300 received"), "{round} moves: {text}");
    assert!(round > 20, "only {round} moves");
    for port in [&a.port, &b.port] {
        switch.vsctl_ok(&["worker-rxq-pin", port, "0", "auto"]);
    }
    assert_eq!(drops(), before, "drops before and after {round} moves");
    switch.vsctl_ok(&["worker-rxq-rebalance"]);
    ping(&a.ns, &b.v4, 3, 56);
}

#[test]
fn patch_ports_join_bridges_and_secure_bridges_forward_nothing() {
    let (a, b) = (Host::new(Wire::AfPacket, 1), Host::new(Wire::AfPacket, 2));
    let patch = |name: &str, peer: &str| {
        format!("[[bridge.port]]\nname = {name:?}\nnumber = 9\ntype = \"patch\"\npeer = {peer:?}\n\n")
    };
    let second = "[[bridge]]\nname = \"br1\"\nfail_mode = \"standalone\"\n\n";
    let config = [BRIDGE, &a.config(1), &patch("p0", "p1"), second, &b.config(1), &patch("p1", "p0")].concat();
    let switch = Switch::start(&config);
    a.attach();
    b.attach();
    a.wait_reaches(&b);
    ping(&a.ns, &b.v6, 3, 56);
    wait_for("both ends are up", SOON, || switch.port("br0", "p0")["link_up"] == true);
    let (out, back) = (switch.port("br0", "p0"), switch.port("br1", "p1"));
    assert!(number(&out, "tx_packets") > 3 && number(&back, "rx_packets") > 3, "{out:#}\n{back:#}");

    switch.vsctl_ok(&["set-fail-mode", "br1", "secure"]);
    assert!(!a.ns.exec(&["ping", "-n", "-c", "2", "-i", "0.2", "-W", "1", &b.v4]).status.success(), "secure forwards");
    let dropped = number(&switch.port("br1", "p1")["rx_drops"], "bridge_secure");
    assert!(dropped > 0, "what came through the patch is dropped by name");
    switch.vsctl_ok(&["set-fail-mode", "br1", "standalone"]);
    a.wait_reaches(&b);
    switch.vsctl_ok(&["del-br", "br1"]);
    wait_for("the link goes down with its other end", SOON, || switch.port("br0", "p0")["link_up"] == false);
}

/// A UDP datagram of 10.0.0.1:7 to 10.0.0.2:53, or its answer. The checksum 0 is none, which is
/// good.
fn datagram(reply: bool, checksum: u16) -> String {
    let (ends, ports) = if reply { ("0a0000020a000001", "00350007") } else { ("0a0000010a000002", "00070035") };
    let ethernet = "0200000000020200000000010800";
    format!("{ethernet}4500002e00000000401166bd{ends}{ports}001a{checksum:04x}{}", "5a".repeat(18))
}

#[test]
fn how_packets_are_decided_is_shown() {
    let port = |n: u32| format!("[[bridge.port]]\nname = \"p{n}\"\nnumber = {n}\ntype = \"dummy\"\n\n");
    let switch = Switch::start_with(&[BRIDGE, &port(1), &port(2)].concat(), &["--enable-dummy"]);
    for flow in [
        "priority=9,udp,ct_state=-trk,actions=ct(zone=1,table=1)",
        "table=1,udp,ct_state=+trk+new,actions=ct(commit,zone=1),output:2",
        "table=1,udp,ct_state=+trk+est-rpl,actions=output:2",
        "table=1,udp,ct_state=+trk+est+rpl,actions=output:1",
    ] {
        switch.vsctl_ok(&["add-flow", "br0", flow]);
    }
    let send = |reply: bool, checksum: u16, times: usize| {
        let (port, packet) = (if reply { "p2" } else { "p1" }, datagram(reply, checksum));
        let packets = vec![packet.as_str(); times];
        switch.vsctl_ok(&[&["dummy/receive", port], &packets[..]].concat());
    };
    let shown = || switch.json(&["worker-perf-show", "--total"])["total"].clone();
    let level = |shown: &Value, level: &str| number(&shown["levels"][level], "count");

    // It is opened, answered, and then known in both directions.
    for _ in 0..3 {
        send(false, 0, 1);
        send(true, 0, 1);
    }
    let before = shown();
    assert!(level(&before, "misses") > 0, "{before:#}");
    assert!(number(&before["fallbacks"], "untracked") > 0, "it was not known at first: {before:#}");
    send(false, 0, 10);
    send(true, 0, 10);
    let after = shown();
    let new = |name: &str| level(&after, name) - level(&before, name);
    assert_eq!(["program_hits", "exact_hits", "megaflow_hits", "misses"].map(new), [20, 0, 0, 0], "{after:#}");
    assert_eq!(after["fallbacks"], before["fallbacks"]);
    assert!(number(&after, "paths") > 0 && number(&after, "megaflows") > 0 && number(&after, "masks") > 0, "{after:#}");

    send(false, 1, 1);
    let bad = shown();
    assert_eq!(number(&bad["fallbacks"], "checksum"), number(&after["fallbacks"], "checksum") + 1, "{bad:#}");
    assert_eq!(level(&bad, "program_hits"), level(&after, "program_hits"), "{bad:#}");

    let quiet = switch.json(&["worker-perf-show", "--interval", "0.05"]);
    assert_eq!((&quiet["total"]["decisions"], &quiet["interval_seconds"]), (&0.into(), &0.05.into()), "{quiet:#}");
    switch.vsctl_ok(&["worker-clear"]);
    let cleared = shown();
    assert_eq!((number(&cleared, "decisions"), number(&cleared["fallbacks"], "checksum")), (0, 0), "{cleared:#}");
    assert!(number(&cleared, "megaflows") > 0, "what is held is no count: {cleared:#}");
}
