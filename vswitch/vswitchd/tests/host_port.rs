//! Ports to the host of several queues (`tap`, `internal`), polled by two workers.

use crate::common::{ChecksumErrors, Host, Switch, Wire, iperf3, number, ping, unique, wait_for};
use serde_json::Value;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
/// Far above what a connection does that lives on retransmissions.
const TCP_FLOOR_BPS: f64 = 1e6;

/// Two workers that sleep when idle: two that spin would leave nothing of two cores for the hosts.
fn two_workers() -> String {
    let prefix = format!("vt{}-{}", std::process::id(), unique());
    format!(
        "[dpdk]\nworker_cores = [0, 1]\nmemory_mb = 256\nhugepages = false\nfile_prefix = {prefix:?}\n\n\
         [worker]\nidle_sleep_us = 200\n\n[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n"
    )
}

fn with_queues(host: &Host, number: u32, queues: u32) -> String {
    host.config(number).replace("type = ", &format!("queues = {queues}\ntype = "))
}

/// Packets that each receive queue of a port has brought, in order of the queues.
fn packets(switch: &Switch, port: &str) -> Vec<u64> {
    let rxqs = switch.json(&["worker-rxq-show"]);
    let mut of_port: Vec<&Value> =
        rxqs.as_array().expect("an array").iter().filter(|rxq| rxq["port"] == port).collect();
    of_port.sort_by_key(|rxq| number(rxq, "queue"));
    of_port.into_iter().map(|rxq| number(rxq, "packets")).collect()
}

/// What a port does of its capabilities: (asked, offered, used).
fn capability(switch: &Switch, port: &str, name: &str) -> [bool; 3] {
    let caps = switch.json(&["port-caps", "br0", port]);
    let all = caps[0]["capabilities"].as_array().expect("an array");
    let found = all.iter().find(|capability| capability["name"] == name);
    let found = found.unwrap_or_else(|| panic!("port {port} has no capability {name}: {caps:#}"));
    ["asked", "offered", "used"].map(|key| found[key].as_bool().expect("a flag"))
}

/// Eight TCP connections each way at a time, over IPv4 and IPv6.
fn many_connections(a: &Host, b: &Host, what: &str) {
    for address in [&b.v4, &b.v6] {
        for direction in [&[][..], &["-R"]] {
            let run = iperf3(&b.ns, &a.ns, address, &[&["-t", "2", "-P", "8"], direction].concat());
            assert!(
                run.received_bps > TCP_FLOOR_BPS,
                "{what}: TCP to {address} {direction:?}: {} bit/s",
                run.received_bps
            );
        }
    }
    for host in [a, b] {
        assert_eq!(host.checksum_errors(), ChecksumErrors::default(), "{what}: wrong checksums at {}", host.port);
    }
}

#[test]
fn several_queues_carry_connections_of_two_workers() {
    assert!(std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 2), "this test needs two cores");
    let (a, b) = (Host::new(Wire::Tap, 1), Host::new(Wire::Internal, 2));
    let switch = Switch::start(&[two_workers(), with_queues(&a, 1, 2), with_queues(&b, 2, 2)].concat());
    a.attach();
    b.attach();
    a.wait_reaches(&b);
    for host in [&a, &b] {
        let shown = &switch.json(&["list-ports", "br0"]);
        let port = shown.as_array().and_then(|ports| ports.iter().find(|port| port["name"] == host.port.as_str()));
        let port = port.expect("it is listed");
        assert_eq!((number(port, "rx_queues"), number(port, "tx_queues")), (2, 2), "{port:#}");
        assert_eq!(capability(&switch, &host.port, "multi-queue"), [true, true, true], "{}", host.port);
        assert_eq!(capability(&switch, &host.port, "tx-tso4"), [true, true, true], "{}", host.port);
    }
    let pin = |port: &str, cores: [&str; 2]| {
        for (queue, core) in ["0", "1"].into_iter().zip(cores) {
            switch.vsctl_ok(&["worker-rxq-pin", port, queue, core]);
        }
    };
    // A connection stays with one worker; and, the other way round, changes it with every hop.
    for (what, cores) in [("queues in the order of the workers", ["0", "1"]), ("one port's the other way", ["1", "0"])]
    {
        pin(&a.port, ["0", "1"]);
        pin(&b.port, cores);
        let before = [&a, &b].map(|host| packets(&switch, &host.port));
        many_connections(&a, &b, what);
        for (host, before) in [&a, &b].into_iter().zip(before) {
            let after = packets(&switch, &host.port);
            let rose: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
            assert!(
                rose.len() == 2 && rose.iter().all(|n| *n > 100),
                "{what}: queues of {} brought {rose:?}",
                host.port
            );
        }
    }
    let workers = switch.json(&["worker-show"]);
    for worker in workers.as_array().expect("an array") {
        assert!(number(worker, "packets") > 200, "a worker has done too little: {workers:#}");
    }
    for (from, to) in [(&a, &b), (&b, &a)] {
        ping(&from.ns, &to.v4, 5, 8000);
        ping(&from.ns, &to.v6, 5, 1452);
    }
    for host in [&a, &b] {
        let port = switch.port("br0", &host.port);
        assert_eq!(
            (&port["rx_drops"]["vnet_header"], &port["tx_drops"]["tx_error"]),
            (&Value::Null, &Value::Null),
            "{port:#}"
        );
    }
}

#[test]
fn a_port_comes_back_with_another_number_of_queues() {
    let peer = Host::new(Wire::AfPacket, 1);
    let switch = Switch::start(&[two_workers(), peer.config(1)].concat());
    peer.attach();
    let idle = switch.mbufs_in_use();
    for (index, kind, queues) in [(10, "internal", 4), (11, "tap", 1), (12, "internal", 2)] {
        let host = Host::new(if kind == "tap" { Wire::Tap } else { Wire::Internal }, index);
        host.add_to(&switch, &["--queues", &queues.to_string()]);
        host.attach();
        peer.wait_reaches(&host);
        let carrier = || host.ns.run(&["ip", "link"]).contains("NO-CARRIER");
        switch.vsctl_ok(&["mod-port", "br0", &host.port, "down"]);
        wait_for("the host sees no carrier", SOON, carrier);
        switch.vsctl_ok(&["mod-port", "br0", &host.port, "up", "--mtu", "1400"]);
        wait_for("the host sees a carrier again", SOON, || !carrier());
        assert!(host.ns.run(&["ip", "link"]).contains("mtu 1400"), "{kind} with {queues} queues in another namespace");
        assert_eq!(packets(&switch, &host.port).len(), queues, "{kind}");
        switch.vsctl_ok(&["del-port", "br0", &host.port]);
        wait_for("the interface is gone", SOON, || !host.ns.run(&["ip", "-br", "link"]).contains("UP  "));
        wait_for("mbufs come back", SOON, || switch.mbufs_in_use() <= idle);
    }
    for queues in ["0", "65", "70000"] {
        let refused = switch.vsctl(&["add-port", "br0", "vtmany", "--type", "internal", "--queues", queues]);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{queues} queues: {text}");
        assert!(text.contains("queues") && text.contains("use 1 to 64"), "{queues} queues: {text}");
    }
}

/// DPDK's virtio device, here with another switch at its other end; a kernel with vhost-net takes
/// the same place.
#[test]
fn a_virtio_device_takes_unfinished_packets() {
    const BRIDGE: &str = "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n";
    let (a, b) = (Host::new(Wire::AfPacket, 1), Host::new(Wire::AfPacket, 2));
    let wire = "[[bridge.port]]\nname = \"wire\"\nnumber = 9\ntype = \"vhost-user\"\nmode = \"server\"\npath = \"@DIR@/wire.sock\"\n";
    let far = Switch::start(&[BRIDGE, &b.config(1), wire].concat());
    let devargs = format!("net_virtio_user0,path={},queue_size=256", far.dir().join("wire.sock").display());
    let virtio = format!("[[bridge.port]]\nname = \"wire\"\nnumber = 9\ntype = \"dpdk\"\ndevargs = {devargs:?}\n");
    let near = Switch::start(&[BRIDGE, &a.config(1), &virtio].concat());
    a.attach();
    b.attach();
    a.wait_reaches(&b);
    for name in ["rx-csum", "tx-csum", "tx-tso4", "tx-tso6"] {
        assert_eq!(capability(&near, "wire", name), [true, true, true], "{name}");
    }
    for name in ["multi-queue", "rss-tcp4", "rss-symmetric"] {
        assert_eq!(capability(&near, "wire", name), [false, false, false], "{name}");
    }
    many_connections(&a, &b, "virtio");
    let caps = near.json(&["port-caps", "br0", "wire"]);
    let all = caps[0]["capabilities"].as_array().expect("an array");
    for name in ["tx-csum", "tx-tso4", "tx-tso6"] {
        let found = all.iter().find(|capability| capability["name"] == name).expect("it is listed");
        assert_eq!(number(found, "software_packets"), 0, "the switch did what the device does: {caps:#}");
    }
}

/// The kernel spreads packets over the queues of DPDK's own packet sockets; there is nothing to
/// hash for the switch to ask for.
#[test]
fn a_device_without_rss_works_with_several_queues() {
    let (a, b) = (Host::new(Wire::AfPacket, 1), Host::new(Wire::Tap, 2));
    let other = a.config(1).replace("type = \"af_packet\"", "queues = 2\ntype = \"dpdk\"");
    let card = other.replace("interface = \"", "devargs = \"net_af_packet0,qpairs=2,iface=");
    let switch = Switch::start(&[two_workers(), card, b.config(2)].concat());
    a.attach();
    b.attach();
    a.wait_reaches(&b);
    for (from, to) in [(&a, &b), (&b, &a)] {
        ping(&from.ns, &to.v4, 5, 1400);
        ping(&from.ns, &to.v6, 5, 1400);
    }
    assert_eq!(packets(&switch, &a.port).len(), 2);
    assert_eq!(capability(&switch, &a.port, "multi-queue"), [true, true, true]);
    for name in ["rss-tcp4", "rss-ip6", "rss-symmetric"] {
        assert_eq!(capability(&switch, &a.port, name), [true, false, false], "{name}");
    }
}

#[test]
fn a_missing_device_file_is_named() {
    let switch = Switch::start("[[bridge]]\nname = \"br0\"\n\n");
    let devargs = "net_virtio_user0,path=/dev/vhost-no-such,iface=host1,queues=2,queue_size=1024";
    let refused = switch.vsctl(&["add-port", "br0", "host1", "--type", "dpdk", "--queues", "2", "--devargs", devargs]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("there is no /dev/vhost-no-such") && text.contains("modprobe vhost_net"), "{text}");
    let port = format!(
        "[[bridge]]\nname = \"br0\"\n[[bridge.port]]\nname = \"host1\"\ntype = \"dpdk\"\ndevargs = {devargs:?}\n"
    );
    let file = switch.dir().join("check.toml");
    std::fs::write(&file, port).expect("a file");
    let checked =
        std::process::Command::new(env!("CARGO_BIN_EXE_vswitchd")).arg("--check").arg("--config").arg(&file).output();
    let checked = checked.expect("vswitchd runs");
    let text = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
    assert!(!checked.status.success() && text.contains("devargs: there is no /dev/vhost-no-such"), "{text}");
}
