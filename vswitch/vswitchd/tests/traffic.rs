//! Two Linux hosts on one learning bridge, wired in every mix of the ways there are, with the
//! offloads that the kernel turns on by default: ping, TCP and UDP over IPv4 and IPv6 both ways; no
//! receiver sees a wrong checksum, and no packet stays in the switch.

use crate::common::{ChecksumErrors, Host, Switch, Wire, iperf3, ping, wait_for};
use std::time::Duration;

/// Far below what any way of wiring does, far above what a connection does that lives on
/// retransmissions of segments that were not merged or had wrong checksums.
const TCP_FLOOR_BPS: f64 = 1e6;

/// Two hosts on bridge br0 of a fresh switch, already talking.
fn pair(a: Wire, b: Wire) -> (Host, Host, Switch) {
    let (a, b) = (Host::new(a, 1), Host::new(b, 2));
    let bridge = "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n";
    let switch = Switch::start(&[bridge, &a.config(1), &b.config(2)].concat());
    a.attach();
    b.attach();
    a.wait_reaches(&b);
    b.wait_reaches(&a);
    (a, b, switch)
}

fn pings(a: &Host, b: &Host) {
    for (from, to) in [(a, b), (b, a)] {
        for size in [0, 56, 1472] {
            ping(&from.ns, &to.v4, 5, size);
        }
        ping(&from.ns, &to.v4, 5, 8000); // six fragments
        for size in [0, 56, 1452] {
            ping(&from.ns, &to.v6, 5, size);
        }
        ping(&from.ns, &to.v6, 5, 8000);
    }
}

fn tcp(a: &Host, b: &Host) {
    for address in [&b.v4, &b.v6] {
        for direction in [&[][..], &["-R"]] {
            let run = iperf3(&b.ns, &a.ns, address, direction);
            assert!(
                run.received_bps > TCP_FLOOR_BPS,
                "TCP to {address} {direction:?}: {:.1} Mbit/s, {} retransmissions",
                run.received_bps / 1e6,
                run.retransmits
            );
        }
    }
}

fn udp(a: &Host, b: &Host) {
    for address in [&b.v4, &b.v6] {
        for direction in [&[][..], &["-R"]] {
            // Datagrams of one packet, and (the default of 128 KiB is for TCP only) of six
            // fragments.
            for length in ["1400", "8000"] {
                let run = iperf3(
                    &b.ns,
                    &a.ns,
                    address,
                    &[&["-u", "-b", "20M", "-n", "1M", "-l", length], direction].concat(),
                );
                let what = format!("UDP to {address} {direction:?} in datagrams of {length}");
                assert!(run.lost_percent < 5.0, "{what}: {} % lost", run.lost_percent);
                assert!(run.received_bps > 5e6, "{what}: only {} bit/s arrived", run.received_bps);
            }
        }
    }
}

fn everything_between(a: Wire, b: Wire) {
    let (a, b, switch) = pair(a, b);
    let idle = switch.mbufs_in_use();
    pings(&a, &b);
    tcp(&a, &b);
    udp(&a, &b);

    for host in [&a, &b] {
        assert_eq!(host.checksum_errors(), ChecksumErrors::default(), "wrong checksums arrived at port {}", host.port);
    }
    for host in [&a, &b] {
        let port = switch.port("br0", &host.port);
        for counter in ["rx_packets", "tx_packets"] {
            assert!(
                crate::common::number(&port, counter) > 1000,
                "port {} has counted too little: {port:#}",
                host.port
            );
        }
    }
    wait_for(&format!("mbufs in use come back to {idle}"), Duration::from_secs(60), || switch.mbufs_in_use() <= idle);
}

#[test]
fn af_packet_and_af_packet() {
    everything_between(Wire::AfPacket, Wire::AfPacket);
}

#[test]
fn af_packet_and_tap() {
    everything_between(Wire::AfPacket, Wire::Tap);
}

#[test]
fn af_packet_and_internal() {
    everything_between(Wire::AfPacket, Wire::Internal);
}

#[test]
fn tap_and_tap() {
    everything_between(Wire::Tap, Wire::Tap);
}

#[test]
fn tap_and_internal() {
    everything_between(Wire::Tap, Wire::Internal);
}

#[test]
fn internal_and_internal() {
    everything_between(Wire::Internal, Wire::Internal);
}

/// A switch that is killed leaves no interface behind, and starts again with the same configuration
/// and socket.
#[test]
fn traffic_flows_again_after_sigkill() {
    let (a, b, mut switch) = pair(Wire::AfPacket, Wire::AfPacket);
    switch.kill();
    let dead = a.ns.exec(&["ping", "-n", "-c", "1", "-W", "1", &b.v4]);
    assert!(!dead.status.success(), "a killed switch still forwards");
    switch.start_again();
    a.wait_reaches(&b);
    let status = switch.terminate();
    assert!(status.success(), "vswitchd ended after SIGTERM with {status}");
    assert!(!switch.socket().exists(), "the control socket is still there after a clean end");
}
