//! A worker that panics: its ports are down, the others go on, and what cannot go on restarts.

use crate::common::{IDLE_SLEEP, Switch, unique, wait_for};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

/// A switch with two workers, and dummy ports of these names with the worker that polls each.
/// Packets of any port leave by all others.
fn two_workers(ports: &[(&str, usize)], more: &str) -> Switch {
    let prefix = format!("vt{}-{}", std::process::id(), unique());
    let dpdk = format!(
        "[dpdk]\nworker_cores = [0, 1]\nmemory_mb = 256\nhugepages = false\nfile_prefix = {prefix:?}\n\n{IDLE_SLEEP}"
    );
    let bridge = "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n";
    let port = |(name, _): &(&str, usize)| format!("[[bridge.port]]\nname = {name:?}\ntype = \"dummy\"\n\n");
    let ports_of: String = ports.iter().map(port).collect();
    let switch = Switch::start_with(&[&dpdk, more, bridge, &ports_of].concat(), &["--enable-dummy"]);
    for (name, core) in ports {
        switch.vsctl_ok(&["worker-rxq-pin", name, "0", &core.to_string()]);
    }
    switch
}

/// A frame from one station to another, in hexadecimal digits.
fn frame(from: u8, to: u8) -> String {
    format!("0200000000{to:02x}0200000000{from:02x}88b5{}", "00".repeat(46))
}

/// By which ports the frame leaves that comes in by this one.
fn leaves(switch: &Switch, port: &str, from: u8, to: u8) -> String {
    switch.vsctl_ok(&["dummy/receive", port, &frame(from, to)])
}

/// The worker of this port panics with the next packet that comes in by it.
fn panics(switch: &Switch, port: &str) {
    switch.vsctl_ok(&["dummy/panic", port]);
    let none = switch.vsctl(&["dummy/receive", port, &frame(9, 10)]);
    assert!(!none.status.success(), "the worker has taken it: {none:?}");
}

fn workers_health(switch: &Switch) -> String {
    let health = switch.vsctl_ok(&["health-show"]);
    health.lines().find(|line| line.starts_with("workers")).expect("a part").to_owned()
}

#[test]
fn the_others_go_on_without_a_worker_that_panics() {
    let mut switch = two_workers(&[("a", 0), ("b", 1), ("c", 1), ("d", 0)], "");
    let out = leaves(&switch, "b", 2, 3);
    assert!(out.contains("a") && out.contains("c") && out.contains("d"), "{out}");
    panics(&switch, "a");
    wait_for("its ports are down", SOON, || ["a", "d"].iter().all(|port| switch.port("br0", port)["link_up"] == false));
    let ports = switch.json(&["list-ports", "br0"]);
    for port in ports.as_array().expect("ports").iter().filter(|port| port["name"] == "a" || port["name"] == "d") {
        let error = port["error"].as_str().unwrap_or_default();
        assert!(error.starts_with("worker-0 polled it, and has panicked (a test asked for it"), "{port:#}");
    }
    assert!(switch.log().contains("panic: a test asked for it at port a"), "{}", switch.log());
    let health = workers_health(&switch);
    assert!(health.contains("degraded") && health.contains("worker-0 has panicked"), "{health}");
    assert!(switch.vsctl(&["health"]).status.success(), "it forwards");
    let workers = switch.json(&["worker-show"]);
    assert_eq!(workers[0]["panicked"], "a test asked for it at port a", "{workers:#}");
    assert!(workers[1]["panicked"].is_null(), "{workers:#}");

    // The other worker's ports, changes, packets of the control side.
    let out = leaves(&switch, "b", 2, 3);
    assert!(out.contains("c") && !out.contains("d"), "{out}");
    switch.vsctl_ok(&["add-flow", "br0", "priority=7,dl_type=0x88b5,dl_dst=02:00:00:00:00:07,actions=output:c"]);
    assert!(leaves(&switch, "b", 2, 7).contains("c"));
    switch.vsctl_ok(&["packet-out", "br0", &format!("in_port=b,packet={},actions=output:c", frame(2, 7))]);

    // New ports go to the worker that is left, and may not be pinned to the other.
    for name in ["e", "f"] {
        switch.vsctl_ok(&["add-port", "br0", name, "--type", "dummy"]);
        assert!(!leaves(&switch, name, 5, 6).is_empty(), "{name}");
    }
    let refused = switch.vsctl(&["worker-rxq-pin", "e", "0", "0"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("the worker on core 0 has panicked"), "{told}");
    switch.vsctl_ok(&["worker-rxq-rebalance"]);
    assert!(leaves(&switch, "e", 5, 7).contains("c"));

    // Ports go, those of the lost worker and those that it has only seen.
    for name in ["a", "b", "e"] {
        switch.vsctl_ok(&["del-port", "br0", name]);
    }
    assert!(!leaves(&switch, "c", 3, 6).is_empty());
    assert_eq!(switch.terminate().code(), Some(1), "it ends, and says that it was not whole");
}

#[test]
fn without_any_worker_the_switch_stops_and_keeps_connections() {
    let state = "[conntrack]\nstate_file = \"@DIR@/connections\"\n\n";
    let mut switch = two_workers(&[("a", 0), ("b", 1)], state);
    switch.vsctl_ok(&["add-flow", "br0", "priority=9,udp,actions=ct(commit,zone=5),output:b"]);
    let udp = "0200000000020200000000010800\
               4500002e00000000401166bd0a0000010a00000200070035001a0000";
    switch.vsctl_ok(&["dummy/receive", "a", &format!("{udp}{}", "5a".repeat(18))]);
    assert!(switch.vsctl_ok(&["dump-conntrack"]).contains("10.0.0.1"));
    panics(&switch, "a");
    wait_for("one is lost", SOON, || workers_health(&switch).contains("worker-0 has panicked"));
    panics(&switch, "b");
    wait_for("it ends", SOON, || switch.exited().is_some());
    assert_eq!(switch.exited().and_then(|status| status.code()), Some(1), "{}", switch.log());
    assert!(switch.log().contains("no worker is left"), "{}", switch.log());
    switch.start_again();
    assert!(switch.vsctl_ok(&["dump-conntrack"]).contains("10.0.0.1"), "{}", switch.log());
    assert!(!workers_health(&switch).contains("panicked"));
}

/// The host's port stands for many peers: the Node is not left without it.
#[test]
fn a_port_of_many_peers_is_not_left_without_its_worker() {
    let mut switch = two_workers(&[("a", 0), ("b", 1)], "");
    let host = format!("vh{}", unique());
    switch.vsctl_ok(&["add-port", "br0", &host, "--type", "internal"]);
    switch.vsctl_ok(&["worker-rxq-pin", &host, "0", "0"]);
    panics(&switch, "a");
    wait_for("it ends", SOON, || switch.exited().is_some());
    assert_eq!(switch.exited().and_then(|status| status.code()), Some(1), "{}", switch.log());
    assert!(switch.log().contains(&format!("worker-0, which polled port {host}, has panicked")), "{}", switch.log());
}

/// The lost worker keeps the lock of a transmit queue that the other one wants.
#[test]
fn a_lock_that_is_lost_ends_the_process() {
    let mut switch = two_workers(&[("a", 0), ("b", 1), ("c", 1)], "");
    switch.vsctl_ok(&["dummy/panic", "c", "--sending"]);
    let none = switch.vsctl(&["dummy/receive", "a", &frame(1, 3)]);
    assert!(!none.status.success(), "the worker has sent it: {none:?}");
    wait_for("one is lost", SOON, || switch.log().contains("panic: a test asked for it at port c"));
    // It floods to c, too.
    let _ = switch.vsctl(&["dummy/receive", "b", &frame(2, 9)]);
    wait_for("it ends", SOON, || switch.exited().is_some());
    let log = switch.log();
    assert!(log.contains("the switch does not move without a worker that panicked: worker-1 waits"), "{log}");
    assert_ne!(switch.exited().and_then(|status| status.code()), Some(0));
}
