//! vhost-user ports of a real `vswitchd`, with Linux in QEMU as the guests: what their kernels send and accept, with every offload
//! that they can choose.

use crate::common::{
    GUEST_TCP_LEN, Guest, Host, IDLE_SLEEP, Nic, Switch, WITHOUT_OFFLOADS, Wire, number, ping, wait_for,
};
use std::fmt::Write;
use std::time::{Duration, Instant};

const BRIDGE: &str = "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n";

/// Another thread than the worker calls guests.
const CALLED_LATE: &str = "[worker]\ncall_delay_us = 20\n\n";

/// A guest's kernel may still be asking for its neighbour.
const SOON: Duration = Duration::from_secs(20);

/// librte_vhost tries to connect once a second; then QEMU and the guest have their say.
const RESUME: Duration = Duration::from_secs(5);

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
    let switch = Switch::start(&[IDLE_SLEEP, BRIDGE, &ports(&["a", "b"])].concat());
    let nic = |name: &str, number, properties| {
        vec![Nic::new(&switch.dir().join(format!("{name}.sock")), [0, number]).with(properties)]
    };
    let mut guests = Guest::boot_all([("a", nic("a", 1, properties[0])), ("b", nic("b", 2, properties[1]))]);
    for (guest, number) in guests.iter_mut().zip(1..) {
        guest.configure("eth0", &[&format!("10.0.0.{number}/24"), &format!("fd00::{number}/64")]);
    }
    guests[0].wait_reaches("10.0.0.2", SOON);
    (switch, guests)
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
        assert_eq!(guest.checksum_errors(), [""; 0]);
    }
}

/// Feature sets that a guest may be left with, by properties of its device.
const FEATURES: [&str; 6] = [
    "",
    "guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off,gso=off",
    WITHOUT_OFFLOADS,
    "mrg_rxbuf=off",
    "indirect_desc=off,event_idx=off",
    "guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,mrg_rxbuf=off,disable-modern=on,disable-legacy=off",
];

/// Waits in a guest for what somebody sends it over TCP. (netcat would hang up on the sender if it had nothing to send itself: it listens to
/// the console, which says nothing.)
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
fn every_pair_of_feature_sets_carries_tcp_unharmed() {
    let names: Vec<String> = (0..FEATURES.len()).flat_map(|i| [format!("a{i}"), format!("b{i}")]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let switch = Switch::start(&[IDLE_SLEEP, BRIDGE, &ports(&names)].concat());
    let nics = |side: &str, high: u8| -> Vec<Nic> {
        let nic = |(i, features): (usize, &&str)| {
            let low = u8::try_from(i).expect("a few");
            Nic::new(&switch.dir().join(format!("{side}{i}.sock")), [high, low]).with(features)
        };
        FEATURES.iter().enumerate().map(nic).collect()
    };
    let [mut a, mut b] = Guest::boot_all([("a", nics("a", 1)), ("b", nics("b", 2))]);
    for (guest, me) in [(&mut a, 1), (&mut b, 2)] {
        // Several devices in one broadcast domain: each answers for its own addresses only.
        guest.run(
            "sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 net.ipv4.conf.all.rp_filter=0",
        );
        for i in 0..FEATURES.len() {
            // From device i of the one to device j of the other: a subnet of its own.
            let addresses: Vec<String> = (0..FEATURES.len())
                .map(|j| if me == 1 { format!("10.{i}.{j}.1/24") } else { format!("10.{j}.{i}.2/24") })
                .collect();
            guest.configure(&format!("eth{i}"), &addresses.iter().map(String::as_str).collect::<Vec<_>>());
        }
        guest.run("head -c 1500000 /dev/urandom >/tmp/file");
    }
    for (i, of_a) in FEATURES.iter().enumerate() {
        for (j, of_b) in FEATURES.iter().enumerate() {
            let what = format!("device {i} of a ({of_a:?}), device {j} of b ({of_b:?})");
            // Each feature set sends to each one once: where both are swapped, the other way.
            if (i + j) % 2 == 0 {
                send_file(&mut a, &mut b, (&format!("10.{i}.{j}.2"), 7000), &what);
            } else {
                send_file(&mut b, &mut a, (&format!("10.{i}.{j}.1"), 7000), &what);
            }
        }
    }
    // What device 2 of b does not take, the switch did.
    let caps = switch.json(&["port-caps", "br0"]);
    let capability = |port: &str, name: &str| {
        let named = |list: &serde_json::Value, name: &str| {
            list.as_array().and_then(|list| list.iter().find(|item| item["name"] == name)).cloned().unwrap_or_default()
        };
        let found = named(&named(&caps, port)["capabilities"], name);
        (found["offered"].clone(), found["used"].clone(), found["software_packets"].as_u64().map(|count| count > 0))
    };
    for name in ["tx-csum", "tx-tso4"] {
        assert_eq!(capability("b0", name), (true.into(), true.into(), Some(false)), "b0 {name}: {caps:#}");
        assert_eq!(capability("b2", name), (true.into(), false.into(), Some(true)), "b2 {name}: {caps:#}");
    }
    assert_eq!(capability("b3", "mergeable"), (true.into(), false.into(), None), "{caps:#}");
    for guest in [&mut a, &mut b] {
        assert_eq!(guest.checksum_errors(), [""; 0]);
    }
}

/// Lets `from` send numbered lines to `to` over one TCP connection, until [`ends_whole`].
fn begin_stream(from: &mut Guest, to: &mut Guest, address: &str, port: u16) {
    to.run(&format!(
        "rm -f /tmp/in{port} /tmp/end{port}; (nc -l -p {port} </dev/ttyS0 >/tmp/in{port}; touch /tmp/end{port}) &"
    ));
    wait_for("netcat listens", SOON, || to.exec(&format!("netstat -ltn | grep -q :{port}")).0);
    from.run(&format!(
        "rm -f /tmp/stop{port}; (i=0; while [ ! -e /tmp/stop{port} ]; do i=$((i+1)); echo $i; usleep 2000; done \
         | nc {address} {port}) >/dev/null 2>&1 &"
    ));
    goes_on(to, port, "at first");
}

/// Lines that have arrived on a stream.
fn lines(to: &mut Guest, port: u16) -> u64 {
    to.run(&format!("wc -l </tmp/in{port}")).trim().parse().expect("a number")
}

/// More of a stream arrives. After an interruption TCP itself waits, for as long as that took.
fn goes_on(to: &mut Guest, port: u16, why: &str) {
    let before = lines(to, port);
    wait_for(&format!("{why}: the connection to port {port} goes on"), SOON, || lines(to, port) > before + 20);
}

/// The stream ends, and every line of it arrived, once and in order.
fn ends_whole(from: &mut Guest, to: &mut Guest, port: u16) {
    from.run(&format!("touch /tmp/stop{port}"));
    wait_for("the stream ends", SOON, || to.exec(&format!("test -e /tmp/end{port}")).0);
    let (same, difference) = to.exec(&format!("seq 1 $(tail -n 1 /tmp/in{port}) | cmp - /tmp/in{port}"));
    assert!(same, "what arrived on port {port} is not what was sent: {difference}");
}

/// Packets that guests a and b have got.
fn delivered(switch: &Switch) -> [u64; 2] {
    ["a", "b"].map(|port| number(&switch.port("br0", port), "tx_packets"))
}

/// Both ends are there, and guest a pings guest b all the time: waits until packets reach both again, and says how long that took.
fn resumes(switch: &Switch, why: &str, before: [u64; 2]) {
    let since = Instant::now();
    wait_for(&format!("{why}: packets reach both"), RESUME, || {
        delivered(switch).iter().zip(before).all(|(now, before)| *now >= before + 3)
    });
    #[allow(clippy::print_stdout)] // captured and shown by the test runner
    {
        println!("{why}: packets reached both {} ms after both ends were back", since.elapsed().as_millis());
    }
}

/// Everything works in both directions.
fn works(a: &mut Guest, b: &mut Guest, why: &str) {
    let answers =
        |a: &mut Guest| -> u64 { a.run("grep -c 'bytes from' /tmp/pings || true").trim().parse().expect("a number") };
    let before = answers(a);
    wait_for(&format!("{why}: pings of a are answered"), RESUME, || answers(a) > before);
    wait_for(&format!("{why}: b reaches a"), RESUME, || b.exec("ping -n -c 1 -W 1 fd00::1").0);
    b.run("pidof iperf3 >/dev/null || iperf3 -s -D");
    wait_for("iperf3 listens", SOON, || b.exec("netstat -ltn | grep -q :5201").0);
    a.run(&format!("iperf3 -c 10.0.0.2 -n {GUEST_TCP_LEN}"));
    a.run(&format!("iperf3 -c 10.0.0.2 -n {GUEST_TCP_LEN} -R"));
}

/// Begins a bulk transfer that takes some seconds.
fn begin_bulk(a: &mut Guest, direction: &str) {
    let iperf = format!("timeout 80 iperf3 -c 10.0.0.2 -t 6 --forceflush {direction}");
    a.run(&format!("rm -f /tmp/bulk; ({iperf} >/tmp/iperf 2>&1; echo $? >/tmp/bulk) &"));
    wait_for("iperf3 sends", SOON, || a.exec("grep -q bits/sec /tmp/iperf").0);
}

fn bulk_ends_well(a: &mut Guest, why: &str) {
    wait_for(&format!("{why}: iperf3 ends"), Duration::from_secs(80), || a.exec("test -s /tmp/bulk").0);
    assert_eq!(a.run("cat /tmp/bulk").trim(), "0", "{why}: iperf3: {}", a.run("cat /tmp/iperf"));
}

/// Gives a guest that has booted its addresses.
fn configure(guest: &mut Guest, number: u8) {
    guest.configure("eth0", &[&format!("10.0.0.{number}/24"), &format!("fd00::{number}/64")]);
}

const PINGS: &str = "(ping -n -i 0.05 10.0.0.2 >/tmp/pings 2>&1) &";

#[test]
fn connections_survive_the_switch_and_a_pause() {
    let (mut switch, [mut a, mut b]) = two_guests(["", ""]);
    a.run(PINGS);
    b.run("iperf3 -s -D");
    begin_stream(&mut a, &mut b, "10.0.0.2", 7001);
    begin_stream(&mut b, &mut a, "fd00::1", 7002);
    let check = |a: &mut Guest, b: &mut Guest, why: &str| {
        works(a, b, why);
        goes_on(b, 7001, why);
        goes_on(a, 7002, why);
    };
    wait_for("iperf3 listens", SOON, || b.exec("netstat -ltn | grep -q :5201").0);

    for (direction, kill) in [("", true), ("-R", false)] {
        let why = if kill { "the switch was killed" } else { "the switch was stopped" };
        begin_bulk(&mut a, direction);
        if kill {
            switch.kill();
        } else {
            switch.terminate();
        }
        switch.start_again();
        resumes(&switch, why, [0, 0]);
        bulk_ends_well(&mut a, why);
        check(&mut a, &mut b, why);
    }

    // Its rings fill up while it stands still.
    b.signal("STOP");
    std::thread::sleep(Duration::from_secs(2));
    let before = delivered(&switch);
    b.signal("CONT");
    resumes(&switch, "a guest stood still", before);
    check(&mut a, &mut b, "a guest stood still");

    // Somebody tidies up the sockets; who holds a connection keeps it.
    std::fs::remove_file(switch.dir().join("b.sock")).expect("it is there");
    resumes(&switch, "the socket was removed", delivered(&switch));
    check(&mut a, &mut b, "the socket was removed");

    ends_whole(&mut a, &mut b, 7001);
    ends_whole(&mut b, &mut a, 7002);
    for guest in [&mut a, &mut b] {
        assert_eq!(guest.checksum_errors(), [""; 0]);
    }
}

#[test]
fn traffic_resumes_whichever_end_goes_away() {
    let (mut switch, [mut a, mut b]) = two_guests(["", ""]);
    let idle = switch.mbufs_in_use();
    a.run(PINGS);
    let comes_back = |switch: &Switch, a: &mut Guest, b: &mut Guest, why: &str| {
        let before = delivered(switch);
        configure(b, 2);
        resumes(switch, why, before);
        works(a, b, why);
        begin_stream(a, b, "10.0.0.2", 7001);
    };
    begin_stream(&mut a, &mut b, "10.0.0.2", 7001);

    // In the middle of what it is sent.
    b.kill();
    wait_for("its link goes down", SOON, || switch.port("br0", "b")["link_up"] == false);
    b.boot_again();
    comes_back(&switch, &mut a, &mut b, "a guest was killed");

    b.reboot();
    comes_back(&switch, &mut a, &mut b, "a guest was rebooted");

    std::fs::remove_file(switch.dir().join("b.sock")).expect("it is there");
    b.kill();
    b.boot_again();
    comes_back(&switch, &mut a, &mut b, "the guest made the socket again");

    // Both ends of both wires at once.
    switch.kill();
    b.kill();
    switch.start_again();
    b.boot_again();
    comes_back(&switch, &mut a, &mut b, "the switch and a guest were killed");

    drop((a, b));
    wait_for("mbufs come back", SOON, || switch.mbufs_in_use() <= idle);
    assert_eq!(switch.terminate().code(), Some(0), "log:\n{}", switch.log());
}

#[test]
fn guests_whose_sockets_the_switch_makes_find_it_again() {
    let config = ports(&["a"]).replace("type = ", "mode = \"server\"\ntype = ");
    let host = Host::new(Wire::AfPacket, 1);
    let mut switch = Switch::start(&[CALLED_LATE, BRIDGE, &host.config(9), &config].concat());
    host.attach();
    let nic = Nic { server: false, ..Nic::new(&switch.dir().join("a.sock"), [0, 1]) };
    let mut a = Guest::boot("a", &[nic]);
    a.configure("eth0", &["10.99.0.7/24"]);
    a.wait_reaches("10.99.0.1", SOON);
    switch.kill();
    switch.start_again();
    a.wait_reaches("10.99.0.1", RESUME);
    switch.terminate();
    switch.start_again();
    a.wait_reaches("10.99.0.1", RESUME);
    a.kill();
    a.boot_again();
    a.configure("eth0", &["10.99.0.7/24"]);
    a.wait_reaches("10.99.0.1", RESUME);
    assert_eq!(a.checksum_errors(), [""; 0]);
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
    assert_eq!(a.checksum_errors(), [""; 0]);
}

/// Rules of a Service: a's connections to 10.96.0.1 go to b, tracked, with both addresses and one port translated.
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
    for properties in [["", WITHOUT_OFFLOADS], [FEATURES[1], ""]] {
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
            assert_eq!(guest.checksum_errors(), [""; 0], "{properties:?}");
        }
    }
}

/// What a guest sends to an address that it reaches itself by comes back to it, from there.
const MIRROR: &str = "
priority=200,ip,nw_dst=10.0.0.97,actions=mod_nw_src:10.0.0.97,mod_nw_dst:10.0.0.1,mod_dl_src:02:00:00:00:00:61,mod_dl_dst:02:00:00:00:00:01,in_port
priority=0,actions=normal
";

/// As a Pod does that is the endpoint of a Service and asks it. Its long packets are lent and for itself; others' are on their way meanwhile.
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
        assert_eq!(guest.checksum_errors(), [""; 0]);
    }
}

#[test]
fn several_queues_jumbo_frames_and_tags_work_together() {
    let config = ports(&["a", "b"]).replace("type = ", "queues = 2\nmtu = 9000\ntype = ");
    let switch = Switch::start(&[BRIDGE, &config].concat());
    let nic = |name: &str, number| {
        vec![Nic { queues: 2, ..Nic::new(&switch.dir().join(format!("{name}.sock")), [0, number]) }]
    };
    let [mut a, mut b] = Guest::boot_all([("a", nic("a", 1)), ("b", nic("b", 2))]);
    for (guest, number) in [(&mut a, 1), (&mut b, 2)] {
        guest.run("ip link set eth0 mtu 9000");
        guest.configure("eth0", &[&format!("10.0.0.{number}/24"), &format!("fd00::{number}/64")]);
        guest.run("ip link add link eth0 name eth0.5 type vlan id 5");
        guest.configure("eth0.5", &[&format!("10.5.0.{number}/24"), &format!("fd05::{number}/64")]);
        guest.run("ethtool -L eth0 combined 2");
        guest.run("iperf3 -s -D");
    }
    for address in ["10.0.0.2", "fd00::2", "10.5.0.2", "fd05::2"] {
        a.wait_reaches(address, SOON);
        // Whole, as one frame.
        a.run(&format!("ping -n -i 0.05 -c 5 -M do -s 8900 {address}"));
        a.run(&format!("iperf3 -c {address} -n {GUEST_TCP_LEN} -P 4"));
        a.run(&format!("iperf3 -c {address} -n {GUEST_TCP_LEN} -P 4 -R"));
    }
    for guest in [&mut a, &mut b] {
        assert_eq!(guest.checksum_errors(), [""; 0]);
    }
}

#[test]
fn packed_rings_by_option_fail_cleanly_with_the_switch() {
    let host = Host::new(Wire::AfPacket, 1);
    let config = ports(&["a"]).replace("type = ", "packed = true\ntype = ");
    let mut switch = Switch::start(&[BRIDGE, &host.config(8), &config, &ports(&["b"])].concat());
    host.attach();
    let nic = |name: &str, number, properties| {
        vec![Nic::new(&switch.dir().join(format!("{name}.sock")), [0, number]).with(properties)]
    };
    let [mut a, mut b] = Guest::boot_all([("a", nic("a", 1, "packed=on")), ("b", nic("b", 2, ""))]);
    a.configure("eth0", &["10.99.0.7/24"]);
    b.configure("eth0", &["10.99.0.8/24"]);
    a.wait_reaches("10.99.0.1", SOON);
    let offloads = |switch: &Switch, name: &str| {
        let ports = switch.json(&["list-ports", "br0"]);
        let port = ports.as_array().and_then(|ports| ports.iter().find(|port| port["name"] == name));
        port.unwrap_or_else(|| panic!("no port {name}: {ports}"))["offloads"].to_string()
    };
    assert!(offloads(&switch, "a").contains("ring_packed"), "{}", offloads(&switch, "a"));
    assert!(!offloads(&switch, "b").contains("ring_packed"), "{}", offloads(&switch, "b"));
    host.ns.run(&["sh", "-c", "iperf3 -s -D"]);
    a.run("iperf3 -c 10.99.0.1 -t 1 && iperf3 -c 10.99.0.1 -t 1 -R"); // long enough for many turns of the rings

    // QEMU does not know how far a switch that was killed had come in a packed ring: this guest's device may stand still until it is
    // set up anew. Everybody else goes on, and so does it after that.
    switch.kill();
    switch.start_again();
    b.wait_reaches("10.99.0.1", RESUME);
    a.reboot();
    a.configure("eth0", &["10.99.0.7/24"]);
    a.wait_reaches("10.99.0.1", SOON);
    a.run("iperf3 -c 10.99.0.1 -t 1");
    for guest in [&mut a, &mut b] {
        assert_eq!(guest.checksum_errors(), [""; 0]);
    }
}
