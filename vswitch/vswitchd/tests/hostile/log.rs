//! Nobody reads the log: standard error is a full pipe. Clients and guests do what is logged, and
//! nothing but the log suffers.

use crate::bed::{BRIDGE, Bed, udp};
use crate::common::{Switch, number, run, wait_for};
use crate::frontend::{Frontend, REPLY_ACK, SEND_RARP, VERSION_1};
use std::io::{PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;
use tonic::Code;
use vswitch_dpdk::process::bytes_waiting;
use vswitch_proto::v1;
use vswitch_proto::v1::conntrack_service_client::ConntrackServiceClient;
use vswitch_proto::v1::packet_service_client::PacketServiceClient;
use vswitch_proto::v1::port_service_client::PortServiceClient;
use vswitch_proto::v1::worker_service_client::WorkerServiceClient;

/// Any wait of this test: a hang, not a delay, is what fails it.
const LIMIT: Duration = Duration::from_secs(60);

/// Bytes of a pipe (pipe(7)).
const PIPE: usize = 1 << 16;

/// Calls that are refused.
const REFUSED: usize = 1000;

/// Calls that are made at most until a line is lost.
const CHANGES_MAX: usize = 50_000;

const GUEST: &str = "
[[bridge]]
name = \"br1\"

[[bridge.port]]
name = \"guest\"
type = \"vhost-user\"
path = \"@DIR@/guest.sock\"
mode = \"server\"
";

/// The reader of the log, who reads when it is told to.
struct Log {
    pipe: PipeReader,
    /// The end for more writers.
    writer: std::io::PipeWriter,
    text: String,
}

impl Log {
    /// Fills the pipe, byte by byte, as far as it goes.
    fn fill(&self) {
        let mut writer = self.writer.try_clone().expect("a descriptor");
        // It goes on when somebody reads, and ends.
        std::thread::spawn(move || (0..PIPE).all(|_| writer.write_all(b"\n").is_ok()));
        wait_for("the pipe is full", LIMIT, || bytes_waiting(self.pipe.as_fd()) == PIPE);
    }

    /// What the log said so far.
    fn read(&mut self) -> &str {
        let mut bytes = vec![0; bytes_waiting(self.pipe.as_fd())];
        self.pipe.read_exact(&mut bytes).expect("bytes that wait");
        self.text.push_str(&String::from_utf8_lossy(&bytes));
        &self.text
    }
}

/// Waits for a call, but not for ever.
fn answer<T>(bed: &Bed, what: &str, call: impl Future<Output = T>) -> T {
    let answer = bed.wait(async { tokio::time::timeout(LIMIT, call).await });
    answer.unwrap_or_else(|_| panic!("{what}: no answer within {LIMIT:?}"))
}

/// Calls that change nothing, and are logged all the same.
fn look_at_packets_and_connections(bed: &Bed) {
    let bridge = BRIDGE.to_owned();
    let mut packets = PacketServiceClient::new(bed.channel());
    let watch = v1::WatchPacketInsRequest { bridge: bridge.clone(), ..Default::default() };
    answer(bed, "WatchPacketIns", packets.watch_packet_ins(watch)).expect("a stream");
    let resume = v1::ResumePacketRequest { bridge: bridge.clone(), continuation: vec![1], packet: Vec::new() };
    answer(bed, "ResumePacket", packets.resume_packet(resume)).expect_err("no packet waits");
    let text = "in_port=controller packet=ffffffffffff0000000000010800 actions=drop".to_owned();
    let packet_out = Some(v1::send_packet_request::PacketOut::Text(text));
    let send = v1::SendPacketRequest { bridge, packet_out };
    answer(bed, "SendPacket", packets.send_packet(send)).expect("a packet is sent");
    let mut connections = ConntrackServiceClient::new(bed.channel());
    let list = v1::ListConnectionsRequest::default();
    answer(bed, "ListConnections", connections.list_connections(list)).expect("a stream");
}

/// A guest whose device runs sends what was not offered, and is disconnected.
fn attack(bed: &Bed) {
    let link_is = |up: bool| bed.switch.port("br1", "guest")["link_up"] == up;
    let mut guest = Frontend::connect(&bed.switch.dir().join("guest.sock")).expect("the port listens");
    guest.negotiate(VERSION_1, REPLY_ACK).expect("memory");
    guest.start_pair(0).expect("rings");
    wait_for("the guest's link is up", LIMIT, || link_is(true));
    assert!(!guest.set(SEND_RARP, &[0; 8], &[]).unwrap_or(false), "a request that was not offered");
    drop(guest);
    wait_for("the guest is gone", LIMIT, || link_is(false));
}

/// Packets from p1 to p2 arrive, all of them.
fn forward(bed: &mut Bed, packets: u16) {
    for source in 0..packets {
        assert_eq!(bed.ports("p1", &udp(source)), ["p2"], "packet {source}");
    }
}

/// A switch whose log is a pipe, with the ports p1 and p2, and one of a guest.
fn stage() -> (Bed, Log) {
    let (pipe, writer) = std::io::pipe().expect("a pipe");
    let log = Log { pipe, writer: writer.try_clone().expect("a descriptor"), text: String::new() };
    let start = |config: &str| Switch::start_logging_to(writer, config, &["--enable-dummy"]);
    let bed = Bed::starting(start, 2, "", GUEST);
    bed.load(&["flow in_port=p1,actions=output:p2"]);
    (bed, log)
}

#[test]
fn who_looks_at_packets_or_connections_is_in_the_log() {
    let (bed, mut log) = stage();
    look_at_packets_and_connections(&bed);
    for rpc in ["WatchPacketIns", "ResumePacket", "SendPacket", "ListConnections"] {
        let line = format!("rpc=\"{rpc}\"");
        wait_for(&line, LIMIT, || {
            let line = log.read().lines().find(|text| text.contains(&line)).unwrap_or_default();
            line.contains("uid=0 ") && line.contains(&format!("pid={}", std::process::id()))
        });
    }
}

#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let (mut bed, mut log) = stage();
    forward(&mut bed, 1);
    log.fill();
    let mut ports = PortServiceClient::new(bed.channel());
    for _ in 0..REFUSED {
        let request = v1::DeletePortRequest { bridge: "nowhere".to_owned(), name: "p9".to_owned() };
        let refused = answer(&bed, "a refused call", ports.delete_port(request));
        assert_eq!(refused.expect_err("there is no such bridge").code(), Code::NotFound);
    }
    for _ in 0..3 {
        attack(&bed);
        forward(&mut bed, 100);
    }
    let state = |bed: &Bed| bed.switch.json(&["log-show"]);
    let lost = |bed: &Bed, level: &str| number(&state(bed)["lost"], level);
    let mut workers = WorkerServiceClient::new(bed.channel());
    for i in 0.. {
        answer(&bed, "a change", workers.clear_statistics(v1::ClearStatisticsRequest {})).expect("cleared");
        if i % 100 == 0 && lost(&bed, "info") > 0 {
            break;
        }
        assert!(i < CHANGES_MAX, "nothing is lost: {:#}", state(&bed));
    }
    forward(&mut bed, 100);
    wait_for("it is seen that nobody reads", LIMIT, || number(&state(&bed), "stuck_ms") >= 2000);
    assert!(number(&state(&bed), "left_out") > REFUSED as u64 / 2, "{:#}", state(&bed));
    let health = bed.switch.vsctl(&["health"]);
    assert!(health.status.success() && health.stdout == b"SERVING\n", "{health:?}");
    assert!(String::from_utf8_lossy(&health.stderr).contains("the log's reader has not read for "), "{health:?}");
    wait_for("a probe is told", LIMIT, || !bed.switch.vsctl(&["health", "log"]).status.success());
    assert!(bed.switch.vsctl_ok(&["show"]).contains("guest"));
    let (from, to) = (bed.switch.port(BRIDGE, "p1"), bed.switch.port(BRIDGE, "p2"));
    assert_eq!((number(&from, "rx_packets"), number(&from, "rx_dropped")), (401, 0), "{from:#}");
    assert_eq!((number(&to, "tx_packets"), number(&to, "tx_dropped")), (401, 0), "{to:#}");

    // An error may be among them: on a busy machine a worker's heart is late.
    let told = "lines of the log were lost: its reader did not read error=";
    wait_for("lost lines are told", LIMIT, || log.read().contains(told));
    wait_for("the writer has caught up", LIMIT, || {
        log.read();
        number(&state(&bed), "stuck_ms") == 0
    });
    let left_out = "more lines like one above were left out left_out=";
    let like = "like=\"rpc=\\\"DeletePort\\\" uid=0 refused\"";
    let mut lines = log.read().lines();
    assert!(lines.any(|line| line.contains(left_out) && line.contains(like)), "{}", log.text);
    assert!(log.text.contains("vhost-user: refused request 19: "), "{}", log.text);

    log.fill();
    bed.switch.vsctl_ok(&["worker-clear"]);
    wait_for("nobody reads again", LIMIT, || number(&state(&bed), "stuck_ms") > 0);
    run(&["kill", "-TERM", &bed.switch.pid().to_string()]);
    wait_for("vswitchd ends after SIGTERM", LIMIT, || bed.switch.exited().is_some());
    assert_eq!(bed.switch.exited().and_then(|status| status.code()), Some(0));
}
