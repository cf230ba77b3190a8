//! A million connections at once, through a running switch: set up, shown and ended while other
//! traffic goes on undisturbed.

use crate::common::{Switch, number, wait_for, write_pcap};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

const MILLION: u32 = 1_000_000;

/// A UDP datagram from a host of 10.0.0.0/8 to 192.168.0.1:53, without a checksum.
fn datagram(host: u32, port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend_from_slice(&(0x0a00_0000 | host).to_be_bytes());
    frame.extend_from_slice(&[192, 168, 0, 1]);
    let sum = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = u16::try_from((sum & 0xffff) + (sum >> 16)).map_or(0, |sum| !sum);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend_from_slice(&port.to_be_bytes());
    frame.extend_from_slice(&[0, 53, 0, 26, 0, 0]);
    frame.resize(60, 0x61);
    frame
}

/// A switch with room for so many connections. By `many` a million datagrams come, each of another
/// host and port, once the port is up; by `load` one and the same comes without end. What is
/// tracked leaves by `out`.
fn switch(dir: &Path, connections: u32) -> Switch {
    let (many, load) = (dir.join("many.pcap"), dir.join("load.pcap"));
    #[allow(clippy::cast_possible_truncation)] // the port is the low half
    let frames: Vec<Vec<u8>> = (0..MILLION).map(|i| datagram(i >> 4, 1024 + (i & 0xf) as u16)).collect();
    write_pcap(&many, &frames);
    write_pcap(&load, &[datagram(0xff_ffff, 9)]);
    let port = |name: &str, number: u32, file: &Path, rest: &str| {
        format!("[[bridge.port]]\nname = {name:?}\nnumber = {number}\ntype = \"pcap\"\nrx_file = {file:?}\n{rest}\n\n")
    };
    let switch = Switch::start(&format!(
        "[conntrack]\nconnections = {connections}\nport_shares = false\n\n[[bridge]]\nname = \"br0\"\nfail_mode = \"secure\"\n\n\
         [[bridge.port]]\nname = \"out\"\nnumber = 3\ntype = \"dpdk\"\ndevargs = \"net_null0,no-rx=1\"\n\n{}",
        port("load", 2, &load, "infinite_rx = true\nadmin_up = false"),
    ));
    switch.vsctl_ok(&["ct-set-timeouts", "zone=1", "udp_first=3600", "udp_single=3600"]);
    for flow in [
        "in_port=1,ip,actions=ct(zone=1,table=1)",
        "in_port=2,ip,actions=ct(zone=2,table=1)",
        "table=1,in_port=1,ip,ct_state=+new+trk,actions=ct(commit,zone=1,exec(set_field:0x7->ct_mark)),output:3",
        "table=1,in_port=2,ip,ct_state=+new+trk,actions=ct(commit,zone=2),output:3",
    ] {
        switch.vsctl_ok(&["add-flow", "br0", flow]);
    }
    switch.vsctl_ok(&["mod-port", "br0", "load", "up"]);
    switch.vsctl_ok(&["add-port", "br0", "many", "--number", "1", "--type", "pcap", "--rx-file", path(&many)]);
    switch
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn connections(switch: &Switch) -> u64 {
    number(&switch.json(&["ct-counters-show"]), "connections")
}

/// Waits until the million datagrams have come, and one connection of the load.
fn all_have_come(switch: &Switch) {
    wait_for("a million datagrams", Duration::from_secs(60), || {
        number(&switch.port("br0", "many"), "rx_packets") >= u64::from(MILLION)
    });
}

/// Lines of `vsctl dump-conntrack`, counted by what they should be.
fn dump(switch: &Switch, which: &str) -> usize {
    let mut child = switch.vsctl_spawn(&["--timeout", "60", "dump-conntrack", which]);
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut hosts = std::collections::HashSet::new();
    for line in lines {
        let line = line.expect("text");
        assert!(line.starts_with("udp,orig=(src=10.") && line.ends_with(",zone=1,mark=7"), "{line}");
        assert!(hosts.insert(line.clone()), "twice: {line}");
    }
    assert!(child.wait().expect("our own child").success());
    hosts.len()
}

/// What the load has sent and got so far, and lost.
fn load(switch: &Switch) -> (u64, Value) {
    let port = switch.port("br0", "load");
    (number(&port, "rx_packets"), port["rx_drops"].clone())
}

#[test]
fn a_million_connections_are_set_up_shown_and_ended_under_load() {
    let dir = tempfile::tempdir().expect("a directory");
    let start = Instant::now();
    let switch = switch(dir.path(), MILLION + 10);
    all_have_come(&switch);
    let set_up = start.elapsed();
    assert_eq!(connections(&switch), u64::from(MILLION) + 1, "{}", switch.json(&["ct-counters-show"]));
    let status = std::fs::read_to_string(format!("/proc/{}/status", switch.pid())).expect("it runs");
    let rss = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line VmRSS").to_owned();

    let (before, _) = load(&switch);
    let start = Instant::now();
    assert_eq!(dump(&switch, "zone=1"), MILLION as usize);
    let dumped = start.elapsed();
    let (between, _) = load(&switch);
    assert!(between > before, "the load stood still while connections were shown");

    let start = Instant::now();
    let flushed = switch.json(&["flush-conntrack", "zone=1"]);
    assert_eq!(number(&flushed, "flushed"), u64::from(MILLION));
    let ended = start.elapsed();
    assert_eq!(connections(&switch), 1);
    let (after, drops) = load(&switch);
    assert!(after > between, "the load stood still while connections were ended");
    let lost: u64 = drops
        .as_object()
        .expect("drops by reason")
        .iter()
        .filter(|(name, _)| *name != "admin_down")
        .filter_map(|(_, n)| n.as_u64())
        .sum();
    assert_eq!(lost, 0, "{drops}");
    println!(
        "{}; {rss}; set up within {set_up:?} (the switch's start included), shown in {dumped:?}, ended in {ended:?}",
        switch.vsctl_ok(&["ct-counters-show"]).trim()
    );
}

#[test]
fn a_full_table_lets_go_of_what_nobody_answered_and_counts_what_it_refuses() {
    let dir = tempfile::tempdir().expect("a directory");
    let switch = switch(dir.path(), 1024);
    switch.vsctl_ok(&["mod-port", "br0", "load", "down"]);
    switch.vsctl_ok(&["flush-conntrack", "zone=2"]);
    all_have_come(&switch);
    let counts = switch.json(&["ct-counters-show"]);
    let [now, created, early, flushed] =
        ["connections", "created", "dropped_early", "flushed"].map(|name| number(&counts, name));
    let refused = switch.port("br0", "many")["rx_drops"]["ct_full"].as_u64().unwrap_or(0);
    assert!((1..=1024).contains(&now), "{counts}");
    assert_eq!(now, created - early - flushed, "{counts}");
    assert!(
        created + refused >= u64::from(MILLION),
        "every datagram opened one or was refused: {counts}, {refused} refused"
    );
    assert!(early > u64::from(MILLION) / 2, "what nobody answered makes room: {counts}");
}
