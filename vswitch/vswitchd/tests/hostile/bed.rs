//! A switch with one bridge of dummy ports, and what tests do with it.

use crate::common::{Switch, client_runtime, number};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};
use vswitch_proto::v1;
use vswitch_proto::v1::dummy_service_client::DummyServiceClient;
use vswitch_proto::v1::pipeline_service_client::PipelineServiceClient;

/// The bridge.
pub(crate) const BRIDGE: &str = "br0";

/// Longest time without a heartbeat that a worker may have, whatever it is fed: debug builds are
/// slow, and so is a machine that compiles.
const HEARTBEAT_MS: u64 = 1000;

/// A switch under test. Its clock stands.
pub(crate) struct Bed {
    // Before the switch: clients go first.
    channel: Channel,
    packets: mpsc::Sender<v1::ReceiveRequest>,
    sent: Streaming<v1::ReceiveResponse>,
    runtime: Runtime,
    pub(crate) switch: Switch,
}

/// What came out: port and packet, in order.
pub(crate) type Sent = Vec<(String, Vec<u8>)>;

impl Bed {
    /// With the ports p1, p2, ... of a bridge in fail mode secure.
    pub(crate) fn new(ports: u32) -> Self {
        Self::with(ports, "", "")
    }

    /// Likewise, with more keys of the bridge, and more sections behind its ports.
    pub(crate) fn with(ports: u32, keys: &str, sections: &str) -> Self {
        let start = |config: &str| Switch::start_with(config, &["--enable-dummy"]);
        Self::starting(start, ports, keys, sections)
    }

    /// Likewise. `start` starts a switch with this configuration and `--enable-dummy`.
    pub(crate) fn starting(start: impl FnOnce(&str) -> Switch, ports: u32, keys: &str, sections: &str) -> Self {
        // A worker that sleeps leaves its core to what else is under way; a packet wakes it.
        let mut config = "[worker]\nidle_sleep_us = 1000\n\n".to_owned();
        config += &format!("[[bridge]]\nname = {BRIDGE:?}\nfail_mode = \"secure\"\n{keys}\n\n");
        for number in 1..=ports {
            config += &format!("[[bridge.port]]\nname = \"p{number}\"\nnumber = {number}\ntype = \"dummy\"\n\n");
        }
        // The clock stands: what is used up does not come again.
        if !sections.contains("[slow_path]") {
            config += "[slow_path]\nmisses = 0\npacket_ins = 0\nlearns = 0\n\n";
        }
        let switch = start(&(config + sections));
        let runtime = client_runtime();
        let socket = format!("unix://{}", switch.socket().display());
        let (channel, packets, sent) = runtime.block_on(async {
            let channel = Endpoint::from_shared(socket).expect("an address").connect().await.expect("vswitchd listens");
            let mut dummy = DummyServiceClient::new(channel.clone());
            dummy.stop_time(v1::StopTimeRequest {}).await.expect("the clock stops");
            let (packets, requests) = mpsc::channel(1);
            let sent = dummy.receive(ReceiverStream::new(requests)).await.expect("a stream of packets").into_inner();
            (channel, packets, sent)
        });
        Self { channel, packets, sent, runtime, switch }
    }

    /// A connection to it.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Waits for a call.
    pub(crate) fn wait<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime.block_on(call)
    }

    /// `vsctl VERB BRIDGE ARGUMENTS`; standard output, or standard error if it fails.
    pub(crate) fn vsctl(&self, verb: &str, arguments: &[&str], input: Option<&str>) -> Result<String, String> {
        let Output { status, stdout, stderr } = self.run(verb, arguments, input);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end().to_owned();
        if status.success() { Ok(text(stdout)) } else { Err(text(stderr)) }
    }

    /// The same, with everything that it printed.
    pub(crate) fn run(&self, verb: &str, arguments: &[&str], input: Option<&str>) -> Output {
        // `--strict del-flows` as with ovs-ofctl: options in front of the verb.
        let words: Vec<&str> = verb.split(' ').collect();
        // What is large takes its time in a debug build.
        self.switch.vsctl_with(&[&["--timeout", "120"], &words[..], &[BRIDGE], arguments].concat(), input)
    }

    /// Does what these lines of a bundle say (`group ...`, `meter ...`, else flows to add).
    pub(crate) fn add(&self, lines: &[&str]) {
        let told = self.vsctl("bundle", &["-"], Some(&lines.join("\n")));
        told.unwrap_or_else(|error| panic!("{lines:?}: {error}"));
    }

    /// Instead of all flows, groups and meters that are there.
    pub(crate) fn load(&self, lines: &[&str]) {
        for verb in ["del-flows", "del-groups", "del-meters"] {
            self.vsctl(verb, &[], None).unwrap_or_else(|error| panic!("{verb}: {error}"));
        }
        self.add(lines);
    }

    /// Why these lines of a bundle are refused.
    pub(crate) fn refused(&self, lines: &[&str]) -> String {
        self.vsctl("bundle", &["-"], Some(&lines.join("\n"))).expect_err(&format!("{lines:?} are refused"))
    }

    /// Everything that can be dumped of flows, groups and meters, without counters.
    pub(crate) fn dump(&self) -> String {
        let dumps = [("dump-flows", &["--no-stats"][..]), ("dump-groups", &[]), ("dump-meters", &[])];
        dumps.map(|(verb, options)| self.vsctl(verb, options, None).expect("a dump")).join("\n")
    }

    /// Writes a transaction.
    pub(crate) fn write(&self, updates: Vec<v1::update::Update>) -> Result<v1::WriteResponse, Status> {
        let update = |(i, update)| v1::Update { tag: u32::try_from(i).expect("few"), update: Some(update) };
        let updates = updates.into_iter().enumerate().map(update).collect();
        let request = v1::WriteRequest { bridge: BRIDGE.to_owned(), updates, commit: true };
        let mut service = PipelineServiceClient::new(self.channel());
        self.wait(service.write(tokio_stream::iter([request]))).map(tonic::Response::into_inner)
    }

    /// Hands in a packet; what left because of it.
    pub(crate) fn send(&mut self, port: &str, packet: &[u8]) -> Sent {
        let request = v1::ReceiveRequest { port: port.to_owned(), packet: packet.to_vec() };
        let answer = self.runtime.block_on(async {
            self.packets.send(request).await.expect("a packet can be handed in");
            self.sent.message().await.expect("a packet is processed").expect("no end")
        });
        answer.sent.into_iter().map(|sent| (sent.port, sent.packet)).collect()
    }

    /// The same; only the names of the ports.
    pub(crate) fn ports(&mut self, port: &str, packet: &[u8]) -> Vec<String> {
        self.send(port, packet).into_iter().map(|(port, _)| port).collect()
    }

    /// Moves the clock.
    pub(crate) fn warp(&self, milliseconds: u64) {
        let request = v1::WarpTimeRequest { milliseconds, step_milliseconds: 0 };
        self.wait(DummyServiceClient::new(self.channel()).warp_time(request)).expect("time goes on");
    }

    /// Packets that were dropped where they came in, by reason.
    pub(crate) fn drops(&self, bridge: &str, port: &str) -> BTreeMap<String, u64> {
        let port = self.switch.port(bridge, port);
        let drops = port["rx_drops"].as_object().expect("reasons").iter();
        drops.map(|(reason, count)| (reason.clone(), count.as_u64().expect("a number"))).collect()
    }

    /// Hands in the packet by p1 three times, the cache full of what the first one led to, and then
    /// off. Each time the same must come out, and be counted. Returns the ports where it left, and
    /// why it was dropped ("-": it was not).
    pub(crate) fn fate(&mut self, packet: &[u8]) -> (Vec<String>, String) {
        let before = self.drops(BRIDGE, "p1");
        let first = self.send("p1", packet);
        for cached in [true, false] {
            self.cache(cached);
            assert_eq!(self.send("p1", packet), first, "cached: {cached}");
        }
        self.cache(true);
        let new = |(reason, count): (String, u64)| {
            let count = count - before.get(&reason).copied().unwrap_or_default();
            (count > 0).then_some((reason, count))
        };
        let drops: Vec<(String, u64)> = self.drops(BRIDGE, "p1").into_iter().filter_map(new).collect();
        let reason = match &drops[..] {
            [] => "-".to_owned(),
            [(reason, 3)] => reason.clone(),
            other => panic!("three packets of one fate were dropped for {other:?}"),
        };
        (first.into_iter().map(|(port, _)| port).collect(), reason)
    }

    /// Switches the caches of the workers on or off.
    pub(crate) fn cache(&self, on: bool) {
        let request = v1::SetCacheRequest { enabled: Some(on), flush: !on };
        self.wait(DummyServiceClient::new(self.channel()).set_cache(request)).expect("the cache obeys");
    }

    /// What it says that it takes.
    pub(crate) fn limits(&self) -> v1::Limits {
        use vswitch_proto::v1::capabilities_service_client::CapabilitiesServiceClient;
        let mut service = CapabilitiesServiceClient::new(self.channel());
        let answer = self.wait(service.get_capabilities(v1::GetCapabilitiesRequest {})).expect("capabilities");
        answer.into_inner().limits.expect("limits")
    }

    /// What trace tells of a packet that comes in by p1.
    pub(crate) fn trace(&self, packet: &[u8]) -> v1::TraceResponse {
        use vswitch_proto::v1::trace_service_client::TraceServiceClient;
        let packet = v1::TracePacket { in_port: "p1".to_owned(), packet: packet.to_vec() };
        let input = Some(v1::trace_request::Input::Packet(packet));
        let request = v1::TraceRequest { bridge: BRIDGE.to_owned(), input, names: true, ct_next: Vec::new() };
        self.wait(TraceServiceClient::new(self.channel()).trace(request)).expect("a story").into_inner()
    }

    /// Bytes of memory that it has.
    pub(crate) fn memory(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.switch.pid());
        let pages = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number");
        resident * 4096
    }

    /// What `work` gives, and the time that workers had a core for it. What else the machine does
    /// is not counted (Linux, `Documentation/scheduler/sched-stats.rst`: `schedstat`).
    pub(crate) fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> (T, Duration) {
        let before = self.worker_time();
        let value = work(self);
        (value, self.worker_time() - before)
    }

    /// Time that workers have had cores, since they started.
    fn worker_time(&self) -> Duration {
        let tasks = format!("/proc/{}/task", self.switch.pid());
        let tasks = fs::read_dir(tasks).expect("vswitchd's threads").map(|task| task.expect("a thread").path());
        let name = |task: &PathBuf| fs::read_to_string(task.join("comm")).unwrap_or_default();
        let workers: Vec<PathBuf> = tasks.filter(|task| name(task).starts_with("worker-")).collect();
        assert!(!workers.is_empty(), "no thread is a worker's");
        let nanoseconds = |task: &PathBuf| {
            let text = fs::read_to_string(task.join("schedstat")).expect("times of a thread");
            text.split(' ').next().expect("a time").parse::<u64>().expect("a number")
        };
        Duration::from_nanos(workers.iter().map(nanoseconds).sum())
    }

    /// What holds after every case: workers live, and no packet is held. Call it at the end of a
    /// test.
    pub(crate) fn settle(&mut self) {
        assert_eq!(self.switch.exited(), None, "vswitchd has ended");
        let workers = self.switch.json(&["worker-show"]);
        for worker in workers.as_array().expect("workers") {
            let age = number(worker, "heartbeat_age_ms");
            assert!(age < HEARTBEAT_MS, "a worker has not been seen for {age} ms: {worker:#}");
        }
        assert_eq!(self.switch.mbufs_in_use(), 0, "mbufs are held");
    }
}

/// A UDP packet from a port to 53, 60 bytes long; all else is always the same.
pub(crate) fn udp(source: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0x66, 0xbd];
    frame.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend_from_slice(&source.to_be_bytes());
    frame.extend_from_slice(&[0, 53, 0, 26, 0, 0]);
    frame.resize(60, 0x5a);
    frame
}
