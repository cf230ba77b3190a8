//! Drops, told: each is listed at once, its sample is the packet that was sent, and its explanation
//! has a cause and a remedy. Watchers that go, or do not read, leave nothing behind.

use crate::bed::{BRIDGE, Bed};
use crate::common::{number, wait_for, write_pcap};
use crate::connections::datagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tonic::{Code, Status, Streaming};
use vswitch_proto::v1;
use vswitch_proto::v1::drop_service_client::DropServiceClient;
use vswitch_proto::v1::watch_drops_response::Update;
use vswitch_testkit::frames::*;

/// Any wait of this test: a hang, not a delay, is what fails it.
const LIMIT: Duration = Duration::from_secs(60);

/// A watcher of all drops.
struct Watcher(Streaming<v1::WatchDropsResponse>);

impl Watcher {
    fn try_new(bed: &Bed, samples_per_second: u32) -> Result<Self, Status> {
        let request = v1::WatchDropsRequest { filter: None, samples_per_second };
        let mut service = DropServiceClient::new(bed.channel());
        bed.wait(service.watch_drops(request)).map(|stream| Self(stream.into_inner()))
    }

    fn new(bed: &Bed, samples_per_second: u32) -> Self {
        Self::try_new(bed, samples_per_second).expect("a watcher")
    }

    fn next(&mut self, bed: &Bed) -> Update {
        let next = bed.wait(async { tokio::time::timeout(LIMIT, self.0.message()).await });
        let message = next.expect("an update in time").expect("no error").expect("no end");
        message.update.expect("an update")
    }

    fn sample(&mut self, bed: &Bed) -> v1::DropSample {
        loop {
            if let Update::Sample(sample) = self.next(bed) {
                return sample;
            }
        }
    }
}

fn listed(bed: &Bed) -> Vec<v1::PortDrops> {
    let mut service = DropServiceClient::new(bed.channel());
    bed.wait(service.list_drops(v1::ListDropsRequest { filter: None })).expect("a list").into_inner().drops
}

fn total(bed: &Bed, reason: &str, port: &str) -> u64 {
    listed(bed).iter().filter(|drop| drop.reason == reason && drop.port == port).map(|drop| drop.total).sum()
}

/// Translates connections to an address with one port.
const ONE_PORT: &str = "udp,actions=ct(commit,zone=5,nat(src=10.9.9.9:5000),table=1)";

/// How a packet dies: what is set up for it, by which port it comes, where it is counted and which
/// way, why; frames that pass before it; the frame; how often it is sent: the last time it dies;
/// and how long after that.
struct Case {
    reason: &'static str,
    flows: &'static [&'static str],
    counted: (&'static str, v1::DropDirection),
    passes: Vec<Vec<u8>>,
    frame: Vec<u8>,
    times: usize,
    after_ms: u64,
}

fn case(reason: &'static str, flows: &'static [&'static str], frame: Vec<u8>) -> Case {
    let counted = ("p1", v1::DropDirection::In);
    Case { reason, flows, counted, passes: Vec::new(), frame, times: 1, after_ms: 0 }
}

fn fragment(offset: u16, more: bool, len: usize) -> Vec<u8> {
    let mut ip = Ip4::new(17);
    ip.fragment = u16::from(more) << 13 | offset;
    ip.frame(&vec![0x55; len])
}

fn cases() -> Vec<Case> {
    let udp = || udp4(None, &[0x77; 200]);
    let with_ttl = |ttl| {
        let mut ip = Ip4::new(17);
        ip.ttl = ttl;
        ip.frame(&sealed4(17, vswitch_testkit::frames::udp(None, b"ping")))
    };
    let out = |case: Case, port| Case { counted: (port, v1::DropDirection::Out), ..case };
    let times = |case: Case, times| Case { times, ..case };
    let at = |case: Case, port| Case { counted: (port, v1::DropDirection::In), ..case };
    let behind = |case: Case, frame| Case { passes: vec![frame], ..case };
    let after = |case: Case, after_ms| Case { after_ms, ..case };
    vec![
        case("bridge_secure", &[], udp()),
        case("eth_short", &["actions=output:2"], udp()[..13].to_vec()),
        case("oversize", &["actions=output:2"], eth(0x88b5, &[7; 1600])),
        at(case("admin_down", &["actions=output:2"], udp()), "p3"),
        at(case("no_receive", &["actions=output:2"], udp()), "p4"),
        case("no_forward", &["actions=output:5"], udp()),
        out(case("oversize", &["actions=output:7"], udp()), "p7"),
        case("rule_drop", &["cookie=0x77,actions=drop"], udp()),
        case("table_miss", &["actions=resubmit(,5)"], udp()),
        case("rejected", &["actions=reject(icmp=13,IN_PORT)"], udp()),
        case("no_bucket", &["group group_id=1,type=select", "actions=group:1"], udp()),
        case("invalid_ttl", &["ip,actions=dec_ttl,output:2"], with_ttl(1)),
        times(case("meter", &["meter meter=1,pktps,bands=type=drop rate=1", "actions=meter:1,output:2"], udp()), 3),
        case("resubmit_depth", &["actions=resubmit(,1)", "table=1,actions=resubmit(,1)"], udp()),
        case("recirc_depth", &["ip,actions=ct(table=1)", "table=1,ip,actions=ct(table=1)"], udp()),
        case("frag_invalid", &["ip,actions=ct(table=1)", "table=1,actions=output:2"], fragment(0, true, 5)),
        at(case("csum", &["actions=output:2"], corrupt(udp4(None, b"ping"), 40)), "p6"),
        at(case("ip_ver", &["actions=output:2"], corrupt(udp4(None, b"ping"), 14)), "p6"),
        at(case("ip_len", &["actions=output:2"], udp4(None, b"ping")[..38].to_vec()), "p6"),
        at(case("udp_len", &["actions=output:2"], udp4(Some(7), b"ping")), "p6"),
        at(case("arp", &["actions=output:2"], eth(0x0806, &arp([0, 1, 8, 0, 5, 4]))), "p6"),
        at(case("reserved_multicast", &[], reserved()), "q1"),
        at(case("no_port", &[], udp()), "q1"),
        case("ct_zone_limit", &["udp,actions=ct(commit,zone=3),output:2"], udp()),
        case("link_down", &["actions=output:8"], udp()),
        after(
            case("frag_timeout", &["ip,actions=ct(table=1)", "table=1,actions=output:2"], fragment(0, true, 64)),
            16_000,
        ),
        behind(
            case("nat_exhausted", &[ONE_PORT, "table=1,ip,actions=output:2"], datagram(2, 1000, 9, 53)),
            datagram(1, 1000, 9, 53),
        ),
    ]
}

fn corrupt(mut frame: Vec<u8>, at: usize) -> Vec<u8> {
    frame[at] ^= 0x10;
    frame
}

fn reserved() -> Vec<u8> {
    let mut frame = eth(0x88cc, &[0; 46]);
    frame[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 0xe]);
    frame
}

/// A switch with all that the cases need.
fn bed() -> Bed {
    let bed = Bed::new(7);
    for (port, state) in [("p3", "down"), ("p4", "no-receive"), ("p5", "no-forward"), ("p6", "strict")] {
        bed.switch.vsctl_ok(&["mod-port", BRIDGE, port, state]);
    }
    bed.switch.vsctl_ok(&["mod-port", BRIDGE, "p7", "--mtu", "100"]);
    bed.switch.vsctl_ok(&["add-br", "br1", "--fail-mode", "standalone"]);
    bed.switch.vsctl_ok(&["add-port", "br1", "q1", "--type", "dummy"]);
    bed.switch.vsctl_ok(&["add-port", BRIDGE, "p8", "--number", "8", "--type", "patch", "--peer", "none"]);
    bed.switch.vsctl_ok(&["ct-set-limits", "zone=3,limit=0"]);
    bed
}

#[test]
fn each_drop_is_listed_sampled_and_explained() {
    let mut bed = bed();
    let mut watcher = Watcher::new(&bed, 1000);
    let cases = cases();
    assert!(cases.len() >= 20);
    for Case { reason, flows, counted: (port, way), passes, frame, times, after_ms } in &cases {
        bed.load(flows);
        // Each has a share of its own.
        bed.warp(1000);
        let before = total(&bed, reason, port);
        let entrance = if *way == v1::DropDirection::Out { "p1" } else { port };
        for passes in passes {
            assert_ne!(bed.send(entrance, passes), [], "{reason}: the first one passes");
        }
        for _ in 0..*times {
            bed.send(entrance, frame);
        }
        if *after_ms > 0 {
            bed.warp(*after_ms);
            wait_for(reason, LIMIT, || total(&bed, reason, port) > before);
        }
        assert!(total(&bed, reason, port) > before, "{reason}: {:#?}", listed(&bed));
        let sample = watcher.sample(&bed);
        assert_eq!((sample.reason.as_str(), sample.port.as_str()), (*reason, *port), "{sample:?}");
        assert_eq!((sample.direction(), sample.length as usize), (*way, frame.len()), "{reason}");
        assert_eq!(sample.packet, frame[..frame.len().min(128)], "{reason}: the packet that was sent");
        for _ in 1..total(&bed, reason, port) - before {
            watcher.sample(&bed);
        }
        let explained = bed.switch.json(&["drops", "explain", reason]);
        for part in ["sentence", "cause", "look", "change"] {
            assert!(explained[part].as_str().is_some_and(|text| !text.is_empty()), "{reason}: {explained:#}");
        }
        assert_eq!(explained["class"], sample.class.as_str(), "{reason}");
    }
    let classes: std::collections::BTreeSet<_> = listed(&bed).into_iter().map(|drop| drop.class).collect();
    let all = ["config", "limit", "link", "malformed", "pipeline", "policy", "resource"];
    assert_eq!(classes.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn a_sample_names_the_rule_and_rates_rise_and_the_command_tells_both() {
    let mut bed = bed();
    bed.add(&["cookie=0x77,table=0,actions=resubmit(,Deny)".replace("Deny", "9").as_str()]);
    bed.vsctl("add-table", &["Deny", "--number", "9"], None).expect("a name");
    bed.add(&["table=9,cookie=0xbeef,udp,actions=drop"]);
    let mut watcher = Watcher::new(&bed, 0);
    let frame = udp4(None, b"ping");
    bed.send("p1", &frame);
    let decider = watcher.sample(&bed).decider.expect("a rule decided");
    assert_eq!((decider.bridge.as_str(), decider.table, decider.table_name.as_str()), (BRIDGE, 9, "Deny"));
    assert_eq!(decider.cookie, Some(0xbeef));
    bed.send("p1", &arp(ARP_HEAD));
    let missed = watcher.sample(&bed);
    let decider = missed.decider.expect("a table decided");
    assert_eq!((missed.reason.as_str(), decider.table, decider.cookie), ("table_miss", 9, None));

    wait_for("the rate rises", LIMIT, || {
        bed.send("p1", &frame);
        let drops = bed.switch.json(&["drops", "--reason", "rule_drop", "--bridge", BRIDGE]);
        drops["drops"][0]["rates"]["last_10s"].as_f64().is_some_and(|rate| rate > 0.0)
    });
    let by = bed.switch.json(&["drops", "--by", "reason", "--class", "policy"]);
    assert_eq!((by["drops"][0]["name"].as_str(), by["drops"].as_array().map(Vec::len)), (Some("rule_drop"), Some(1)));
    let text = bed.switch.vsctl_ok(&["drops", "--port", "p1"]);
    assert!(text.lines().any(|line| line.contains("rule_drop") && line.contains("policy")), "{text}");
    for (words, told) in [
        (&["drops", "--reason", "rule_dorp"][..], "did you mean rule_drop?"),
        (&["drops", "explain", "tx-ful"], "did you mean tx_full?"),
        (&["drops", "--port", "p77"], "port \"p77\" does not exist"),
    ] {
        let refused = bed.switch.vsctl(words);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && error.contains(told), "{words:?}: {error}");
    }
}

#[test]
fn a_capture_of_samples_is_one_that_tshark_reads() {
    let mut bed = bed();
    bed.add(&["cookie=0x77,in_port=1,actions=drop", "in_port=2,actions=output:7"]);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("drops.pcapng");
    let path = file.to_str().expect("UTF-8");
    let mut writing = bed.switch.vsctl_spawn(&["drops", "samples", "--count", "6", "--rate", "1000", "-w", path]);
    let frame = udp4(None, &[0x66; 300]);
    wait_for("six samples", LIMIT, || {
        // It may not watch yet.
        bed.warp(1000);
        bed.send("p1", &frame);
        bed.send("p2", &frame);
        writing.try_wait().expect("a child").is_some()
    });
    assert!(writing.wait().expect("it has ended").success());
    let fields =
        ["frame.interface_name", "frame.packet_flags_direction", "frame.comment", "frame.len", "frame.cap_len"];
    let rows = tshark(&file, &fields);
    assert_eq!(rows.len(), 6, "{rows:?}");
    let denied = "p1 in;0x00000001;drop: rule_drop; class policy; table 0; cookie 0x77;342;128";
    let too_long = "p7 out;0x00000002;drop: oversize; class config;342;128";
    for row in &rows {
        assert!(row == denied || row == too_long, "{row}");
    }
    assert!([denied, too_long].iter().all(|one| rows.iter().any(|row| row == one)), "{rows:?}");
}

/// Fields of each frame, as tshark reads them.
pub(crate) fn tshark(file: &Path, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-T", "fields", "-E", "separator=;"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

#[test]
fn a_storm_is_counted_in_full_and_sampled_in_part_and_others_forward() {
    const PACKETS: usize = 1_000_000;
    const STORM: u64 = PACKETS as u64;
    let mut bed = Bed::new(2);
    bed.add(&["priority=9,in_port=1,actions=output:2", "priority=1,cookie=7,actions=drop"]);
    let mut watcher = Watcher::new(&bed, 10);
    let capture = bed.switch.dir().join("storm.pcap");
    write_pcap(&capture, &vec![eth(0x88b5, &[0; 46]); PACKETS]);
    let path = capture.to_str().expect("UTF-8");
    bed.switch.vsctl_ok(&["add-port", BRIDGE, "storm", "--type", "pcap", "--rx-file", path]);
    let frame = udp4(None, b"ping");
    let mut sent = 0;
    wait_for("the storm is over", 4 * LIMIT, || {
        bed.send("p1", &frame);
        sent += 1;
        number(&bed.switch.port(BRIDGE, "storm"), "rx_packets") == STORM
    });
    let forwarded = || number(&bed.switch.port(BRIDGE, "p2"), "tx_packets");
    wait_for("all that p1 sent has left", LIMIT, || forwarded() == sent);
    assert_eq!(total(&bed, "rule_drop", "storm"), STORM);
    let mut sampled = 0;
    loop {
        match watcher.next(&bed) {
            Update::Sample(_) => sampled += 1,
            Update::NotTold(not_told) => {
                let [one] = &not_told.reasons[..] else { panic!("{not_told:?}") };
                assert_eq!((one.reason.as_str(), one.lost), ("rule_drop", 0));
                if one.suppressed + sampled == STORM {
                    break;
                }
            }
            Update::Lost(lost) => panic!("{lost} lost"),
        }
    }
    // The clock stands: one second's share.
    assert_eq!(sampled, 10);
}

#[test]
fn watchers_that_go_make_room_and_those_that_do_not_read_hold_nothing_up() {
    let mut bed = Bed::new(2);
    bed.add(&["cookie=7,actions=drop"]);
    // Many more than there may be at a time.
    for round in 0..3 {
        let mut all = Vec::new();
        let refused = loop {
            match Watcher::try_new(&bed, 10) {
                Ok(watcher) => all.push(watcher),
                Err(status) => break status,
            }
        };
        assert_eq!(refused.code(), Code::ResourceExhausted, "round {round}: {refused}");
        drop(all);
        wait_for("room again", LIMIT, || Watcher::try_new(&bed, 10).is_ok());
    }
    let mut deaf = None;
    wait_for("a watcher", LIMIT, || {
        deaf = Watcher::try_new(&bed, 1000).ok();
        deaf.is_some()
    });
    let mut deaf = deaf.expect("a watcher");
    let frame = udp4(None, &[1; 100]);
    for second in 0..30 {
        (0..100).for_each(|_| drop(bed.send("p1", &frame)));
        bed.warp(1000);
        assert!(bed.switch.vsctl(&["health"]).status.success(), "second {second}");
    }
    assert_eq!(total(&bed, "rule_drop", "p1"), 3000);
    // What it reads after all, and what was lost, is all there was.
    let (mut told, mut not_told) = (0, 0);
    while told + not_told < 3000 {
        match deaf.next(&bed) {
            Update::Sample(_) => told += 1,
            Update::Lost(lost) => told += lost,
            // Of the whole call.
            Update::NotTold(now) => not_told = now.reasons.iter().map(|one| one.lost + one.suppressed).sum::<u64>(),
        }
    }
    assert_eq!(told + not_told, 3000);
    // The switch stops, and the watcher hears of it.
    let pid = bed.switch.pid().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    let end = loop {
        let next = bed.wait(async { tokio::time::timeout(LIMIT, deaf.0.message()).await }).expect("an end in time");
        match next {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(status) => break Some(status),
        }
    };
    assert!(
        end.as_ref().is_none_or(|status| status.code() == Code::Unavailable || status.code() == Code::Unknown),
        "{end:?}"
    );
    let mut exit = None;
    wait_for("the switch stops", LIMIT, || {
        exit = bed.switch.exited();
        exit.is_some()
    });
    assert!(exit.is_some_and(|exit| exit.success()), "{exit:?}");
}
