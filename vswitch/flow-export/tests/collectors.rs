//! What collectors of others make of the messages: nfcapd with nfdump, and tshark.

use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vswitch_flow_export::ipfix::{DATAGRAM_LEN_MAX, Encoder};
use vswitch_flow_export::{Counts, EndReason, Flow, PodEnd, PolicyUse, RuleAction, ServiceUse};

/// How long a state is waited for at most.
const PATIENCE: Duration = Duration::from_secs(30);

const LOOK: Duration = Duration::from_millis(10);

/// A time in 2026.
const NOW: u64 = 1_790_000_000_000;

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(LOOK);
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A connection of TCP to a Service, and one of UDP with IPv6.
fn flows() -> Vec<Flow> {
    let pod = |name: &str, node: &str| PodEnd {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        node: node.to_owned(),
        ..PodEnd::default()
    };
    let four = Flow {
        start_ms: NOW - 5250,
        end_ms: NOW - 125,
        reason: EndReason::End,
        source_port: 40_001,
        destination_port: 8080,
        protocol: 6,
        forward: Counts { packets: 12, bytes: 3456, new_packets: 7, new_bytes: 2100 },
        reverse: Counts { packets: 10, bytes: 98_765, new_packets: 6, new_bytes: 50_000 },
        source_pod: pod("client", "node-one"),
        destination_pod: pod("web-0", "node-two"),
        service: Some(ServiceUse {
            port_name: "shop/web:http".to_owned(),
            address: address("10.96.0.9"),
            port: 80,
            uid: String::new(),
        }),
        ingress: PolicyUse {
            kind: 1,
            namespace: "shop".to_owned(),
            name: "to-web".to_owned(),
            action: RuleAction::Allow,
            ..PolicyUse::default()
        },
        tcp_state: "TIME_WAIT".to_owned(),
        ..Flow::new(address("10.0.1.5"), address("10.0.2.6"))
    };
    let six = Flow {
        start_ms: NOW - 9000,
        end_ms: NOW - 1000,
        source_port: 5353,
        destination_port: 53,
        protocol: 17,
        forward: Counts { packets: 3, bytes: 300, new_packets: 3, new_bytes: 300 },
        reverse: Counts { packets: 2, bytes: 900, new_packets: 2, new_bytes: 900 },
        source_pod: pod("client", "node-one"),
        ..Flow::new(address("fd00:1::5"), address("2001:db8::35"))
    };
    vec![four, six]
}

/// Templates, and the flows.
fn messages() -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new(7, DATAGRAM_LEN_MAX);
    let seconds = u32::try_from(NOW / 1000).expect("before 2106");
    let templates = encoder.templates(seconds);
    let (records, count) = encoder.records(&flows(), seconds);
    assert_eq!(count, 2, "they fit one message");
    vec![templates, records]
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program is installed (tools/setup)");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// nfcapd at a port. It ends with this value.
struct Collector(Child);

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes that wait at a port of UDP, as the kernel has it. None: nothing listens there.
fn waiting(port: u16) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/net/udp").expect("a table of sockets");
    let line = table.lines().find(|line| line.contains(&format!(":{port:04X} 00000000:0000")))?;
    let queues = line.split_whitespace().nth(4)?;
    u64::from_str_radix(queues.split_once(':')?.1, 16).ok()
}

fn collect(dir: &Path, messages: &[Vec<u8>]) {
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let mut command = Command::new("nfcapd");
    command.args(["-w", &dir.to_string_lossy(), "-p", &port.to_string(), "-b", "127.0.0.1", "-t", "3600"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut collector = Collector(child.expect("nfcapd is installed (tools/setup)"));
    until("nfcapd listens", || waiting(port) == Some(0));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for message in messages {
        socket.send_to(message, ("127.0.0.1", port)).expect("sent");
    }
    until("nfcapd reads", || waiting(port) == Some(0));
    // It writes its file when it is asked to end.
    run(Command::new("kill").args(["-TERM", &collector.0.id().to_string()]));
    until("nfcapd ends", || collector.0.try_wait().expect("its state").is_some());
}

#[test]
fn nfdump_reads_both_directions_of_each_flow() {
    let dir = tempfile::tempdir().expect("a directory");
    collect(dir.path(), &messages());
    let format = "fmt:%pr,%sa,%sp,%da,%dp,%ipkt,%ibyt,%opkt,%obyt,%ts,%te";
    let mut command = Command::new("nfdump");
    command.args(["-q", "-N", "-6", "-R", &dir.path().to_string_lossy(), "-o", format]).env("TZ", "UTC");
    let said = run(&mut command);
    let lines: Vec<String> = said.lines().map(|line| line.replace(' ', "")).filter(|line| !line.is_empty()).collect();
    assert_eq!(
        lines,
        [
            "6,10.0.1.5,40001,10.0.2.6,8080,7,2100,6,50000,2026-09-2114:13:14.750,2026-09-2114:13:19.875",
            "17,fd00:1::5,5353,2001:db8::35,53,3,300,2,900,2026-09-2114:13:11.000,2026-09-2114:13:19.000",
        ],
        "{said}"
    );
}

#[test]
fn tshark_reads_all_elements() {
    let dir = tempfile::tempdir().expect("a directory");
    let (text, file) = (dir.path().join("packets.txt"), dir.path().join("packets.pcap"));
    let hex = |message: &Vec<u8>| {
        let bytes: Vec<String> = message.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("000000 {}\n", bytes.join(" "))
    };
    std::fs::write(&text, messages().iter().map(hex).collect::<String>()).expect("written");
    run(Command::new("text2pcap").args(["-q", "-u", "40000,4739"]).args([&text, &file]));
    let mut command = Command::new("tshark");
    command.args(["-r", &file.to_string_lossy(), "-d", "udp.port==4739,cflow", "-V", "-O", "cflow"]).env("TZ", "UTC");
    let said = run(&mut command);
    assert!(!said.contains("Malformed") && !said.contains("Unexpected"), "{said}");
    for expected in [
        "SrcAddr: 10.0.1.5",
        "DstAddr: 10.0.2.6",
        "SrcPort: 40001",
        "DstPort: 8080",
        "Flow End Reason: End of Flow detected (3)",
        "Permanent Packets: 12",
        "Permanent Octets: 3456",
        "Packets: 7",
        "Octets: 2100",
        "Permanent Packets: 10 (Reverse Type 86 PACKETS_TOTAL)",
        "Permanent Octets: 98765 (Reverse Type 85 BYTES_TOTAL)",
        "Packets: 6 (Reverse Type 2 PKTS)",
        "Octets: 50000 (Reverse Type 1 BYTES)",
        "(Project Antrea) Type 108: Value (hex bytes): 00 50",
        "(Project Antrea) Type 168: Value (hex bytes): 0a 60 00 09",
        "SrcAddr: fd00:1::5",
        "DstAddr: 2001:db8::35",
    ] {
        assert!(said.lines().any(|line| line.trim().ends_with(expected)), "{expected}: {said}");
    }
    // tshark shows values of Antrea's elements as bytes.
    for text in ["client", "web-0", "node-two", "shop/web:http", "to-web", "TIME_WAIT"] {
        let bytes: Vec<String> = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert!(said.contains(&format!("Value (hex bytes): {}\n", bytes.join(" "))), "{text}: {said}");
    }
}
