//! Ends that vanish under traffic, and come back: guests, the switch, sockets.

use super::{BRIDGE, CALLED_LATE, SOON, configure, ports, two_guests_with};
use crate::common::{GUEST_TCP_LEN, Guest, Host, Nic, Switch, Wire, number, wait_for};
use std::time::{Duration, Instant};

/// Traffic resumes within it.
const SECOND: Duration = Duration::from_secs(1);
/// How long what should not take longer than [`SECOND`] is waited for.
const RESUME: Duration = Duration::from_secs(60);
/// How often an end goes away at most until traffic resumes within [`SECOND`].
const ATTEMPTS: usize = 5;
/// A kernel whose link was down asks for its neighbours anew, once a second: here it knows the one
/// that is pinged.
const KNOWN: &str = "nud permanent dev eth0";
/// A guest with several queue pairs must find all of them again.
const QUEUES: u16 = 2;

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

/// Packets that two ports have got.
fn delivered(switch: &Switch, ports: [&str; 2]) -> [u64; 2] {
    ports.map(|port| number(&switch.port("br0", port), "tx_packets"))
}

const BOTH: [&str; 2] = ["a", "b"];

/// Both ends are there, and one pings the other all the time: waits until packets reach both again.
/// Returns how long that took.
fn resumes(switch: &Switch, ports: [&str; 2], why: &str, before: [u64; 2]) -> Duration {
    let since = Instant::now();
    wait_for(&format!("{why}: packets reach both"), RESUME, || {
        delivered(switch, ports).iter().zip(before).all(|(now, before)| *now >= before + 3)
    });
    since.elapsed()
}

/// An end goes away and comes back, and traffic has resumed at most so long after both were there.
/// Another process on the same cores may hold that up: then the end goes away once more.
fn within(limit: Duration, why: &str, mut event: impl FnMut() -> Duration) {
    let mut took = Vec::new();
    while took.len() < ATTEMPTS {
        took.push(event());
        #[allow(clippy::print_stdout)] // captured and shown by the test runner
        {
            println!("{why}: packets reached both after both ends were back: {took:?}");
        }
        if took.last().is_some_and(|last| *last <= limit) {
            return;
        }
    }
    panic!("{why}: packets reached both only after {took:?}");
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

/// Guest a pings guest b all the time.
fn begin_pings(a: &mut Guest, b: &mut Guest) {
    a.run(&format!("ip neigh replace 10.0.0.2 lladdr 02:00:00:00:00:02 {KNOWN}"));
    know_a(b);
    a.run("(ping -n -i 0.05 10.0.0.2 >/tmp/pings 2>&1) &");
}

fn know_a(b: &mut Guest) {
    b.run(&format!("ip neigh replace 10.0.0.1 lladdr 02:00:00:00:00:01 {KNOWN}"));
}

#[test]
fn connections_survive_the_switch_and_a_pause() {
    let (mut switch, [mut a, mut b]) = two_guests_with(QUEUES, ["", ""]);
    begin_pings(&mut a, &mut b);
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
        within(SECOND, why, || {
            begin_bulk(&mut a, direction);
            if kill {
                switch.kill();
            } else {
                switch.terminate();
            }
            switch.start_again();
            let took = resumes(&switch, BOTH, why, [0, 0]);
            bulk_ends_well(&mut a, why);
            check(&mut a, &mut b, why);
            took
        });
    }

    // Its rings fill up while it stands still.
    within(SECOND, "a guest stood still", || {
        b.signal("STOP");
        std::thread::sleep(Duration::from_secs(2));
        let before = delivered(&switch, BOTH);
        b.signal("CONT");
        resumes(&switch, BOTH, "a guest stood still", before)
    });
    check(&mut a, &mut b, "a guest stood still");

    // Somebody tidies up the sockets; who holds a connection keeps it.
    std::fs::remove_file(switch.dir().join("b.sock")).expect("it is there");
    within(SECOND, "the socket was removed", || {
        resumes(&switch, BOTH, "the socket was removed", delivered(&switch, BOTH))
    });
    check(&mut a, &mut b, "the socket was removed");

    ends_whole(&mut a, &mut b, 7001);
    ends_whole(&mut b, &mut a, 7002);
    for guest in [&mut a, &mut b] {
        assert_eq!(guest.receive_errors(), [""; 0]);
        let counters = guest.run("ethtool -S eth0");
        let silent = |queue: u16| counters.contains(&format!("tx_queue_{queue}_packets: 0\n"));
        assert!(!(0..QUEUES).any(silent), "not by all queues: {counters}");
    }
}

/// Guest b is back, and guest a has pinged it all the time. Returns how long it took until packets
/// reached both.
fn comes_back(switch: &Switch, a: &mut Guest, b: &mut Guest, why: &str) -> Duration {
    let before = delivered(switch, BOTH);
    configure(b, 2, QUEUES);
    know_a(b);
    let took = resumes(switch, BOTH, why, before);
    works(a, b, why);
    begin_stream(a, b, "10.0.0.2", 7001);
    took
}

#[test]
fn traffic_resumes_whichever_end_goes_away() {
    let (mut switch, [mut a, mut b]) = two_guests_with(QUEUES, ["", ""]);
    let idle = switch.mbufs_in_use();
    begin_pings(&mut a, &mut b);
    begin_stream(&mut a, &mut b, "10.0.0.2", 7001);

    within(SECOND, "a guest was killed", || {
        // In the middle of what it is sent.
        b.kill();
        wait_for("its link goes down", SOON, || switch.port("br0", "b")["link_up"] == false);
        b.boot_again();
        comes_back(&switch, &mut a, &mut b, "a guest was killed")
    });
    within(SECOND, "a guest was rebooted", || {
        b.reboot();
        comes_back(&switch, &mut a, &mut b, "a guest was rebooted")
    });
    within(SECOND, "the guest made the socket again", || {
        std::fs::remove_file(switch.dir().join("b.sock")).expect("it is there");
        b.kill();
        b.boot_again();
        comes_back(&switch, &mut a, &mut b, "the guest made the socket again")
    });
    // Both ends of both wires at once.
    within(SECOND, "the switch and a guest were killed", || {
        switch.kill();
        b.kill();
        switch.start_again();
        b.boot_again();
        comes_back(&switch, &mut a, &mut b, "the switch and a guest were killed")
    });

    drop((a, b));
    wait_for("mbufs come back", SOON, || switch.mbufs_in_use() <= idle);
    assert_eq!(switch.terminate().code(), Some(0), "log:\n{}", switch.log());
}

#[test]
fn guests_whose_sockets_the_switch_makes_find_it_again() {
    // It asks once a second.
    const QEMU_ASKS: Duration = Duration::from_secs(1);
    let config = ports(&["a"]).replace("type = ", &format!("mode = \"server\"\nqueues = {QUEUES}\ntype = "));
    let host = Host::new(Wire::AfPacket, 1);
    let mut switch = Switch::start(&[CALLED_LATE, BRIDGE, &host.config(9), &config].concat());
    host.attach();
    let nic = Nic { server: false, queues: QUEUES, ..Nic::new(&switch.dir().join("a.sock"), [0, 1]) };
    let mut a = Guest::boot("a", &[nic]);
    let begin = |a: &mut Guest| {
        a.configure("eth0", &["10.99.0.7/24"]);
        a.run(&format!("ethtool -L eth0 combined {QUEUES}"));
        a.wait_reaches("10.99.0.1", SOON);
        a.run(&format!("ip neigh replace 10.99.0.1 lladdr $(ip neigh show 10.99.0.1 | awk '{{ print $5 }}') {KNOWN}"));
        a.run("(ping -n -i 0.05 10.99.0.1 >/dev/null 2>&1) &");
    };
    begin(&mut a);
    let both = ["a", host.port.as_str()];
    for kill in [true, false] {
        let why = if kill { "the switch was killed" } else { "the switch was stopped" };
        within(QEMU_ASKS + SECOND, why, || {
            if kill {
                switch.kill();
            } else {
                switch.terminate();
            }
            switch.start_again();
            resumes(&switch, both, why, [0, 0])
        });
    }
    within(SECOND, "the guest was killed", || {
        a.kill();
        a.boot_again();
        let (since, before) = (Instant::now(), delivered(&switch, both));
        a.configure("eth0", &["10.99.0.7/24"]);
        a.run("(ping -n -i 0.05 10.99.0.1 >/dev/null 2>&1) &");
        resumes(&switch, both, "the guest was killed", before);
        since.elapsed()
    });
    a.wait_reaches("10.99.0.1", RESUME);
    assert_eq!(a.receive_errors(), [""; 0]);
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
    // Long enough for many turns of the rings
    a.run("iperf3 -c 10.99.0.1 -t 1 && iperf3 -c 10.99.0.1 -t 1 -R");

    // QEMU does not know how far a switch that was killed had come in a packed ring: this guest's
    // device may stand still until it is set up anew. Everybody else goes on, and so does it after
    // that.
    switch.kill();
    switch.start_again();
    b.wait_reaches("10.99.0.1", RESUME);
    a.reboot();
    a.configure("eth0", &["10.99.0.7/24"]);
    a.wait_reaches("10.99.0.1", SOON);
    a.run("iperf3 -c 10.99.0.1 -t 1");
    for guest in [&mut a, &mut b] {
        assert_eq!(guest.receive_errors(), [""; 0]);
    }
}
