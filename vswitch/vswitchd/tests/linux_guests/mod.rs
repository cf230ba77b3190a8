//! vhost-user ports of a real `vswitchd`, with Linux in QEMU as the guests: what their kernels send
//! and accept, with every offload that they can choose.

mod features;
mod restarts;

use crate::common::{
    GUEST_TCP_LEN, Guest, Host, IDLE_SLEEP, Nic, Switch, WITHOUT_OFFLOADS, Wire, number, ping, wait_for,
};
use std::fmt::Write;
use std::time::Duration;

const BRIDGE: &str = "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n";

/// Another thread than the worker calls guests.
const CALLED_LATE: &str = "[worker]\ncall_delay_us = 20\n\n";

/// A guest's kernel may still be asking for its neighbour.
const SOON: Duration = Duration::from_secs(60);

/// Properties of a device that leave its guest checksum offload alone.
const WITHOUT_TSO: &str = "guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off,gso=off";

/// Configuration of vhost-user ports `name`, whose sockets QEMU makes.
fn ports(names: &[&str]) -> String {
    names.iter().fold(String::new(), |mut text, name| {
        let _ =
            write!(text, "[[bridge.port]]\nname = {name:?}\ntype = \"vhost-user\"\npath = \"@DIR@/{name}.sock\"\n\n");
        text
    })
}

/// Two guests on one bridge, with one device each.
fn two_guests(properties: [&str; 2]) -> (Switch, [Guest; 2]) {
    two_guests_with(1, properties)
}

/// Likewise, of so many queue pairs.
fn two_guests_with(queues: u16, properties: [&str; 2]) -> (Switch, [Guest; 2]) {
    let config = ports(&["a", "b"]).replace("type = ", &format!("queues = {queues}\ntype = "));
    let switch = Switch::start(&[IDLE_SLEEP, BRIDGE, &config].concat());
    let nic = |name: &str, number, properties| {
        let nic = Nic::new(&switch.dir().join(format!("{name}.sock")), [0, number]).with(properties);
        vec![Nic { queues, ..nic }]
    };
    let mut guests = Guest::boot_all([("a", nic("a", 1, properties[0])), ("b", nic("b", 2, properties[1]))]);
    for (guest, number) in guests.iter_mut().zip(1..) {
        configure(guest, number, queues);
    }
    guests[0].wait_reaches("10.0.0.2", SOON);
    (switch, guests)
}

/// Gives a guest that has booted its addresses, and lets it use all of its queues.
fn configure(guest: &mut Guest, number: u8, queues: u16) {
    guest.configure("eth0", &[&format!("10.0.0.{number}/24"), &format!("fd00::{number}/64")]);
    if queues > 1 {
        guest.run(&format!("ethtool -L eth0 combined {queues}"));
    }
}

/// Bytes per packet that came in by a port since it had this many packets and bytes.
fn mean_len(switch: &Switch, port: &str, before: (u64, u64)) -> u64 {
    let (packets, bytes) = received(switch, port);
    (bytes - before.1) / (packets - before.0).max(1)
}

fn received(switch: &Switch, port: &str) -> (u64, u64) {
    let port = switch.port("br0", port);
    (number(&port, "rx_packets"), number(&port, "rx_bytes"))
}

/// Sends datagrams between guests; most arrive (a guest that is emulated may be too slow for some).
fn datagrams_arrive(from: &mut Guest, to: &str) {
    let report = from.run(&format!("iperf3 -c {to} -k 200 -u -b 5M -l 1200"));
    // `[  5]   0.00-0.39   sec   234 KBytes  4.92 Mbits/sec  0.035 ms  0/200 (0%)  receiver`
    let words = report.lines().find(|line| line.trim_end().ends_with("receiver")).map(str::split_whitespace);
    let told = words.and_then(|words| {
        words
            .filter_map(|word| word.split_once('/'))
            .find_map(|(lost, all)| Some((lost.parse::<u32>().ok()?, all.parse::<u32>().ok()?)))
    });
    assert!(told.is_some_and(|(lost, all)| all >= 150 && lost * 4 < all), "{to}, lost of all: {told:?}\n{report}");
}

#[test]
fn guests_talk_over_tcp_udp_and_icmp_with_large_sends() {
    let (switch, [mut a, mut b]) = two_guests(["", ""]);
    b.run("iperf3 -s -D");
    for address in ["10.0.0.2", "fd00::2"] {
        a.run(&format!("ping -n -i 0.05 -c 10 -s 1400 {address}"));
        // Longer than the MTU: in fragments.
        a.run(&format!("ping -n -i 0.05 -c 3 -s 8000 {address}"));
        let before = received(&switch, "a");
        a.run(&format!("iperf3 -c {address} -n {GUEST_TCP_LEN}"));
        let mean = mean_len(&switch, "a", before);
        assert!(mean > 3000, "{address}: {mean} bytes per packet: nothing was sent for segmentation");
        a.run(&format!("iperf3 -c {address} -n {GUEST_TCP_LEN} -R"));
        for direction in ["", "-R"] {
            datagrams_arrive(&mut a, &format!("{address} {direction}"));
        }
    }
    for guest in [&mut a, &mut b] {
        assert_eq!(guest.receive_errors(), [""; 0]);
    }
}

/// Waits in a guest for what somebody sends it over TCP. (netcat would hang up on the sender if it
/// had nothing to send itself: it listens to the console, which says nothing.)
fn expect_file(to: &mut Guest) {
    to.run("rm -f /tmp/got /tmp/done; (timeout 60 nc -l -p 7000 </dev/ttyS0 >/tmp/got; touch /tmp/done) &");
    wait_for("netcat listens", SOON, || to.exec("netstat -ltn | grep -q :7000").0);
}

/// Sends a file from one guest to another, over TCP, and compares what arrived.
fn send_file(from: &mut Guest, to: &mut Guest, (address, port): (&str, u16), what: &str) {
    expect_file(to);
    from.run(&format!("timeout 60 nc -w 5 {address} {port} </tmp/file"));
    wait_for(&format!("{what}: the file arrives"), SOON, || to.exec("test -e /tmp/done").0);
    let (sent, got) = (from.run("sha256sum </tmp/file"), to.run("sha256sum </tmp/got"));
    assert_eq!(sent, got, "{what}: other bytes arrived: {}", to.run("ls -l /tmp/got"));
}

#[test]
fn guests_and_hosts_exchange_tcp_with_all_offloads_on() {
    let hosts = [Host::new(Wire::AfPacket, 1), Host::new(Wire::Tap, 2)];
    let switch =
        Switch::start(&[CALLED_LATE, BRIDGE, &hosts[0].config(8), &hosts[1].config(9), &ports(&["a"])].concat());
    hosts.iter().for_each(Host::attach);
    let mut a = Guest::boot("a", &[Nic::new(&switch.dir().join("a.sock"), [0, 1])]);
    a.configure("eth0", &["10.99.0.7/24", "fd99::7/64"]);
    for host in &hosts {
        a.wait_reaches(&host.v4, SOON);
        host.ns.run(&["sh", "-c", "iperf3 -s -D"]);
        for address in [&host.v4, &host.v6] {
            for more in ["", "-R"] {
                a.run(&format!("iperf3 -c {address} -n {GUEST_TCP_LEN} {more}"));
                a.run(&format!("iperf3 -c {address} -k 200 -u -b 5M -l 1200 {more}"));
            }
        }
        ping(&host.ns, "10.99.0.7", 5, 8000);
        assert_eq!(host.checksum_errors(), crate::common::ChecksumErrors::default(), "{host:?}");
    }
    assert_eq!(a.receive_errors(), [""; 0]);
}

/// Rules of a Service: a's connections to 10.96.0.1 go to b, tracked, with both addresses and one
/// port translated.
const SERVICE: &str = "
table=0,arp,actions=normal
table=0,icmp6,actions=normal
table=0,priority=10,ip,actions=ct(table=1,zone=5,nat)
table=0,priority=10,ipv6,actions=ct(table=1,zone=5,nat)
table=1,priority=20,ct_state=+new+trk,tcp,nw_dst=10.0.0.96,actions=ct(commit,zone=5,nat(dst=10.0.0.2:7000),table=2)
table=1,priority=20,ct_state=+new+trk,tcp6,ipv6_dst=fd00::96,actions=ct(commit,zone=5,nat(dst=[fd00::2]:7000),table=2)
table=1,priority=10,ct_state=+new+trk,ip,actions=ct(commit,zone=5,table=2)
table=1,priority=10,ct_state=+new+trk,ipv6,actions=ct(commit,zone=5,table=2)
table=1,priority=5,ct_state=+est+trk,actions=resubmit(,2)
table=2,priority=10,ip,nw_dst=10.0.0.2,actions=mod_dl_dst:02:00:00:00:00:02,normal
table=2,priority=10,ip,nw_dst=10.0.0.1,actions=mod_dl_dst:02:00:00:00:00:01,normal
table=2,priority=10,ipv6,ipv6_dst=fd00::2,actions=mod_dl_dst:02:00:00:00:00:02,normal
table=2,priority=10,ipv6,ipv6_dst=fd00::1,actions=mod_dl_dst:02:00:00:00:00:01,normal
";

#[test]
fn translated_connections_between_guests_stay_whole() {
    for properties in [["", WITHOUT_OFFLOADS], [WITHOUT_TSO, ""]] {
        let (switch, [mut a, mut b]) = two_guests(properties);
        let added = switch.vsctl_with(&["replace-flows", "br0", "-"], Some(SERVICE));
        assert!(added.status.success(), "{added:?}");
        a.run("ip neigh replace 10.0.0.96 lladdr 02:00:00:00:00:02 dev eth0; ip neigh replace fd00::96 lladdr 02:00:00:00:00:02 dev eth0");
        a.run("head -c 3000000 /dev/urandom >/tmp/file");
        b.run("mkdir /tmp/www; head -c 3000000 /dev/urandom >/tmp/www/file");
        let page = b.run("sha256sum </tmp/www/file");
        for (address, url) in [("10.0.0.96", "10.0.0.96"), ("fd00::96", "[fd00::96]")] {
            send_file(&mut a, &mut b, (address, 80), &format!("{properties:?} {address}"));
            b.run("httpd -p 7000 -h /tmp/www");
            a.run(&format!("timeout 30 wget -q -O /tmp/page http://{url}:80/file"));
            assert_eq!(a.run("sha256sum </tmp/page"), page, "{properties:?} {url}: other bytes arrived");
            b.run("killall httpd");
        }
        for guest in [&mut a, &mut b] {
            assert_eq!(guest.receive_errors(), [""; 0], "{properties:?}");
        }
    }
}

/// What a guest sends to an address that it reaches itself by comes back to it, from there.
const MIRROR: &str = "
priority=200,ip,nw_dst=10.0.0.97,actions=mod_nw_src:10.0.0.97,mod_nw_dst:10.0.0.1,mod_dl_src:02:00:00:00:00:61,mod_dl_dst:02:00:00:00:00:01,in_port
priority=0,actions=normal
";

/// As a Pod does that is the endpoint of a Service and asks it. Its long packets are borrowed and
/// for itself; others' are on their way meanwhile.
#[test]
fn a_guest_that_talks_to_itself_through_the_switch_gets_all_of_it() {
    let (switch, [mut a, mut b]) = two_guests(["", ""]);
    let added = switch.vsctl_with(&["replace-flows", "br0", "-"], Some(MIRROR));
    assert!(added.status.success(), "{added:?}");
    a.run("ip neigh replace 10.0.0.97 lladdr 02:00:00:00:00:61 dev eth0");
    a.run("mkdir /tmp/www; head -c 3000000 /dev/urandom >/tmp/www/file; httpd -p 7000 -h /tmp/www");
    let page = a.run("sha256sum </tmp/www/file");
    let before = received(&switch, "a");
    for (guest, address) in [(&mut a, "10.0.0.97"), (&mut b, "10.0.0.1")] {
        guest.run(&format!("timeout 30 wget -q -O /tmp/page http://{address}:7000/file"));
        assert_eq!(guest.run("sha256sum </tmp/page"), page, "{address}: other bytes arrived");
    }
    let mean = mean_len(&switch, "a", before);
    assert!(mean > 3000, "{mean} bytes per packet: nothing was sent for segmentation");
    for guest in [&mut a, &mut b] {
        assert_eq!(guest.receive_errors(), [""; 0]);
    }
}
