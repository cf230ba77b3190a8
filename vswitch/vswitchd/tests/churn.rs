//! Ports come and go under load: the others lose nothing, and nothing stays behind.

use crate::common::{Host, Switch, Wire, number, run, write_pcap};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long what is held may take to come down: a connection of `vsctl` closes a moment after its
/// answer.
const SETTLE: Duration = Duration::from_secs(60);

/// Rounds before the first reading: caches of DPDK's heap, of the allocator and of the kernel fill
/// up.
const WARM_UP: usize = 20;

/// What must not grow.
#[derive(Clone, Copy, Debug)]
struct Held {
    fds: usize,
    mbufs: u64,
    heap: u64,
    rss_kb: u64,
}

fn held(switch: &Switch) -> Held {
    let fds = std::fs::read_dir(format!("/proc/{}/fd", switch.pid())).expect("it runs").count();
    let pool = switch.json(&["mempool-show"]);
    let pool = pool.get(0).unwrap_or(&pool);
    let status = std::fs::read_to_string(format!("/proc/{}/status", switch.pid())).expect("it runs");
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line VmRSS");
    let rss_kb = rss.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number");
    Held { fds, mbufs: number(pool, "in_use"), heap: number(pool, "heap_bytes"), rss_kb }
}

/// A switch whose ports `in` (an endless capture) and `out` (counts and drops) are under load, with
/// fixed addresses so that nothing floods, and left out when a host's own broadcasts flood: every
/// packet in must come out, and nothing else.
fn loaded_switch() -> Switch {
    let capture = tempfile::NamedTempFile::new().expect("a file");
    let addresses = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    write_pcap(capture.path(), &[[&addresses, &[8, 0][..], &[0; 46][..]].concat()]);
    let config = format!(
        "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n\
         [[bridge.port]]\nname = \"out\"\nnumber = 2\ntype = \"dpdk\"\ndevargs = \"net_null0,no-rx=1\"\nno_flood = true\n\n\
         [[bridge.port]]\nname = \"in\"\nnumber = 1\ntype = \"pcap\"\nrx_file = {:?}\ninfinite_rx = true\nadmin_up = false\nno_flood = true\n\n",
        capture.path()
    );
    let switch = Switch::start(&config);
    switch.vsctl_ok(&["fdb-add", "br0", "out", "0", "02:00:00:00:00:02"]);
    switch.vsctl_ok(&["mod-port", "br0", "in", "up"]);
    switch
}

/// Adds and removes a port `rounds` times. Then: the load ran through, nothing was lost on its way,
/// nothing is held.
fn churn(switch: &Switch, rounds: usize, add: &[&str]) {
    let add = [&["add-port", "br0", "churn"], add].concat();
    let delete = ["del-port", "br0", "churn"];
    for _ in 0..WARM_UP.min(rounds) {
        switch.vsctl_ok(&add);
        switch.vsctl_ok(&delete);
    }
    let before = held(switch);
    let out = number(&switch.port("br0", "out"), "tx_packets");
    for round in 0..rounds {
        let added = switch.vsctl(&add);
        assert!(added.status.success(), "round {round}: {}", String::from_utf8_lossy(&added.stderr));
        switch.vsctl_ok(&delete);
    }
    let start = Instant::now();
    let mut after = held(switch);
    while after.fds > before.fds && start.elapsed() < SETTLE {
        after = held(switch);
    }
    assert!(number(&switch.port("br0", "out"), "tx_packets") > out + rounds as u64, "the load has stopped");
    assert!(after.fds <= before.fds, "descriptors: {before:?}, after {rounds} rounds of {add:?}: {after:?}");
    // The device of the load has a burst in flight at any moment; a leak of one per round would
    // show.
    assert!(after.mbufs <= before.mbufs + 64, "mbufs: {before:?}, after {rounds} rounds of {add:?}: {after:?}");
    assert!(after.heap <= before.heap + 65536, "DPDK heap: {before:?}, after {rounds} rounds of {add:?}: {after:?}");
    assert!(after.rss_kb <= before.rss_kb + 8192, "memory: {before:?}, after {rounds} rounds of {add:?}: {after:?}");
}

/// Every packet that came in by `in` left by `out`. Counters that still move cannot be compared, so
/// the load's port is removed and its last counters are taken from the event that says so.
fn nothing_was_lost(switch: &Switch) {
    let mut events = switch.vsctl_spawn(&["--json", "port-events", "--existing", "--count", "3"]);
    let mut lines = BufReader::new(events.stdout.take().expect("piped")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("an event").expect("text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("no JSON ({error}): {line}"))
    };
    let existing = [next(), next()]; // only now it is certain that the subscription began
    switch.vsctl_ok(&["del-port", "br0", "in"]);
    let removed = next();
    assert_eq!((&removed["event"], &removed["port"]["name"]), (&"removed".into(), &"in".into()), "after {existing:?}");
    assert!(events.wait().expect("our own child").success());
    let (input, output) = (&removed["statistics"], switch.port("br0", "out"));
    // Until the load began the port was down, on purpose.
    let before = number(&input["rx_drops"], "admin_down");
    assert_eq!((number(input, "rx_dropped"), number(input, "tx_dropped")), (before, 0), "{input:#}");
    assert_eq!(number(&output, "tx_dropped"), 0, "{output:#}");
    assert_eq!(number(input, "rx_packets") - before, number(&output, "tx_packets"), "in: {input:#}\nout: {output:#}");
}

#[test]
fn vhost_user_ports_come_and_go_a_thousand_times() {
    let switch = loaded_switch();
    let socket = switch.dir().join("churn.sock");
    let path = socket.to_str().expect("UTF-8");
    churn(&switch, 500, &["--type", "vhost-user", "--path", path, "--mode", "server"]);
    churn(&switch, 500, &["--type", "vhost-user", "--path", path, "--mode", "client"]);
    assert!(!socket.exists(), "the socket is left behind");
    nothing_was_lost(&switch);
}

#[test]
fn pcap_ports_come_and_go_a_thousand_times() {
    let switch = loaded_switch();
    churn(&switch, 1000, &["--type", "pcap", "--tx-file", path(&switch.dir().join("out.pcap"))]);
    nothing_was_lost(&switch);
}

#[test]
fn kernel_ports_come_and_go_a_hundred_times() {
    let host = Host::new(Wire::AfPacket, 1);
    let veth = crate::common::Veth::new(&host.ns, "churn0");
    let switch = loaded_switch();
    churn(&switch, 100, &["--type", "tap", "--interface", "vtchurn"]);
    churn(&switch, 100, &["--type", "af_packet", "--interface", veth.host()]);
    churn(&switch, 100, &["--type", "internal"]);
    nothing_was_lost(&switch);
    assert!(!Path::new("/sys/class/net/vtchurn").exists(), "the TAP interface is left behind");
    run(&["ip", "link", "show", "dev", veth.host()]); // what is not ours stays
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
