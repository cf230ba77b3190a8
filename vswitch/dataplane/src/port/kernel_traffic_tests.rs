//! Real TCP, UDP and ICMP between two namespaces through two ports, with every offload at the
//! kernel's default. Needs root.

use super::kernel_testbed::{Port, af_packet_port, tap_port};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use vswitch_dpdk::kernel::testing::{Netns, eventually};
use vswitch_dpdk::{Burst, Mempool};

/// Forwards between the ports until told to stop; returns how many GSO packets went.
fn forward(a: &mut Port, b: &mut Port, stop: &AtomicBool) -> u64 {
    let (mut burst, mut gso) = (Burst::new(), 0);
    while !stop.load(Relaxed) {
        for towards_b in [true, false] {
            let (from, to) = if towards_b { (&mut *a, &mut *b) } else { (&mut *b, &mut *a) };
            from.receive(&mut burst);
            gso += burst.iter().filter(|mbuf| mbuf.gso_size() > 0).count() as u64;
            to.send(&mut burst);
        }
    }
    gso
}

/// A counter of /proc/net/snmp in the namespace.
fn snmp(netns: &Netns, protocol: &str, counter: &str) -> u64 {
    let text = netns.run("cat /proc/net/snmp");
    let mut rows = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(':'));
    let (names, values) = (rows.next().expect("names"), rows.next().expect("values"));
    let mut columns = names.split_whitespace().zip(values.split_whitespace());
    columns.find(|(name, _)| *name == counter).expect("the counter").1.parse().expect("a number")
}

/// Bytes that the server of an iperf3 run received.
fn iperf(client: &Netns, server: &Netns, args: &str) -> u64 {
    let _server = server.spawn("iperf3 -s -1");
    eventually("iperf3 listens", || (!server.run("ss -Hltn sport = :5201").is_empty()).then_some(()));
    let json = client.run(&format!("iperf3 -J -c 10.77.0.2 {args}"));
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let sum = ["sum_received", "sum"].map(|key| report["end"][key]["bytes"].as_u64());
    sum[0].or(sum[1]).unwrap_or_else(|| panic!("no sum in {json}"))
}

fn join(one: &Netns, two: &Netns, mut a: Port, mut b: Port) {
    one.ip("addr add 10.77.0.1/24 dev eth0");
    two.ip("addr add 10.77.0.2/24 dev eth0");
    let stop = AtomicBool::new(false);
    let gso = std::thread::scope(|scope| {
        let forwarder = scope.spawn(|| forward(&mut a, &mut b, &stop));
        // Stops the forwarder also when an assertion fails, or the scope would wait for ever.
        let _stop = StopOnDrop(&stop);
        one.run("ping -q -c3 -i0.2 -W2 10.77.0.2");
        one.run("ping -q -c2 -i0.2 -W2 -s 4000 10.77.0.2");
        let bytes = iperf(one, two, "-t1");
        assert!(bytes > 1 << 20, "TCP moved {bytes} bytes");
        let bytes = iperf(one, two, "-t1 -R");
        assert!(bytes > 1 << 20, "TCP moved {bytes} bytes backwards");
        let bytes = iperf(one, two, "-u -n 1M -b 20M -l 1400");
        // Some may be lost when the forwarding thread has to wait for a processor.
        assert!(bytes > 200_000, "UDP moved {bytes} bytes");
        stop.store(true, Relaxed);
        forwarder.join().expect("the forwarder")
    });
    assert!(gso > 100, "{gso} GSO packets: TCP should have used them");
    for (netns, name) in [(one, "one"), (two, "two")] {
        for protocol in ["Tcp", "Udp", "Icmp"] {
            assert_eq!(snmp(netns, protocol, "InCsumErrors"), 0, "{protocol} in namespace {name}");
        }
        assert!(snmp(netns, "Tcp", "InSegs") > 100, "namespace {name}");
    }
    for port in [&a, &b] {
        assert_eq!(port.drops().0, [], "receive drops");
    }
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn hosts_talk_through_two_af_packet_ports() {
    let pool = Mempool::for_tests(4096);
    let ((one, _, a), (two, _, b)) = (af_packet_port(&pool), af_packet_port(&pool));
    join(&one, &two, a, b);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn hosts_talk_through_two_tap_ports() {
    let pool = Mempool::for_tests(4096);
    let ((one, a), (two, b)) = (tap_port(&pool), tap_port(&pool));
    join(&one, &two, a, b);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn hosts_talk_through_a_tap_and_an_af_packet_port() {
    let pool = Mempool::for_tests(4096);
    let ((one, a), (two, _, b)) = (tap_port(&pool), af_packet_port(&pool));
    join(&one, &two, a, b);
    assert_eq!(pool.in_use(), 0);
}
