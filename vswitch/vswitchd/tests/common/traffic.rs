//! Traffic between namespaces: ping, iperf3, files.

use super::command::{self, wait_for};
use super::counters::socket_drops;
use super::guest::Guest;
use super::netns::Netns;
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::Duration;

/// What iperf3 sends by TCP: tens of thousands of packets, or thousands of large ones.
const TCP_LEN: &str = "32M";
/// What it sends by TCP to or from a guest, not through the guest's tunnels: some ten thousand
/// packets, or hundreds of large ones. A run ends when its socket has taken the last byte, so that
/// of some megabytes nothing might have to arrive.
pub(crate) const GUEST_TCP_LEN: &str = "16M";
/// Bytes of a file that goes through.
const FILE_LEN: usize = 1 << 20;
/// Datagrams that may be lost, in percent: a machine that does something else at the same time
/// drops some in front of a packet socket. Ones of a kind that does not get through are lost all.
const LOST: f64 = 25.0;

/// Sends `count` echo requests with `size` bytes of data; panics unless every one is answered. For
/// its last answer `ping` waits no longer than twice as long as others took: where a machine
/// hesitates, it is asked again, twice.
pub(crate) fn ping(from: &Netns, to: &str, count: u32, size: u32) {
    let (count, size) = (count.to_string(), size.to_string());
    let argv = ["ping", "-n", "-i", "0.05", "-W", "2", "-c", &count, "-s", &size, to];
    let mut text = String::new();
    for _ in 0..3 {
        text = String::from_utf8_lossy(&from.exec(&argv).stdout).into_owned();
        if text.contains(" 0% packet loss") {
            return;
        }
    }
    panic!("ping {to} from {} lost packets, three times:\n{text}", from.name());
}

/// Runs iperf3 from a namespace to a guest: a second of TCP, or 200 datagrams.
///
/// # Panics
/// When it cannot connect, or reports an error.
pub(crate) fn iperf3_to(server: &mut Guest, client: &Netns, address: &str, args: &[&str]) {
    server.run("pidof iperf3 >/dev/null || iperf3 -s -D");
    wait_for("iperf3 listens", Duration::from_secs(60), || server.exec("netstat -ltn | grep -q :5201").0);
    let end = if args.contains(&"-u") { ["-k", "200"] } else { ["-t", "1"] };
    client.run(&[&["timeout", "30", "iperf3", "-c", address], &end[..], args].concat());
}

/// What one run of iperf3 achieved.
#[derive(Clone, Debug)]
pub(crate) struct Iperf {
    /// Bits per second that arrived.
    pub(crate) received_bps: f64,
    /// Bytes sent.
    pub(crate) sent_bytes: u64,
    /// Segments that TCP sent again.
    pub(crate) retransmits: u64,
    /// Datagrams lost on the way, in percent (UDP). What the receiving program was too slow to read
    /// is not counted.
    pub(crate) lost_percent: f64,
    /// The whole report.
    pub(crate) report: Value,
}

/// A server that ends when it is dropped.
struct Server(Child);

impl Server {
    /// Starts it, and returns when it listens.
    fn start(ns: &Netns, port: u16, argv: &[&str]) -> Self {
        let child = ns
            .command(argv)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start `{}`: {error}", argv.join(" ")));
        let server = Self(child);
        let port = format!(":{port}");
        wait_for(&format!("{} listens on {port}", argv[0]), Duration::from_secs(60), || {
            !ns.run(&["ss", "-Hltn", "sport", "=", &port]).is_empty()
        });
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs iperf3 with [`TCP_LEN`] by TCP or a second of UDP, or as long as its arguments say:
/// `client` in one namespace, `address` in `server`. Further arguments go to the client: `-u -b
/// 20M`, `-R`, `-t 2`, `-n 1M`, ...
///
/// # Panics
/// When it cannot connect, or reports an error.
pub(crate) fn iperf3(server: &Netns, client: &Netns, address: &str, args: &[&str]) -> Iperf {
    let _server = Server::start(server, 5201, &["iperf3", "-s", "-1", "-B", address]);
    let has = |option| args.contains(&option);
    let end: &[&str] = match () {
        () if has("-n") || has("-t") => &[],
        () if has("-u") => &["-t", "1"],
        () => &["-n", TCP_LEN],
    };
    let argv = [&["timeout", "30", "iperf3", "-c", address, "-J"], end, args].concat();
    let slow_before = socket_drops(server) + socket_drops(client);
    let output = client.exec(&argv);
    let text = String::from_utf8_lossy(&output.stdout);
    let what = format!("`{}` in {}", argv.join(" "), client.name());
    let report: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{what} printed no JSON ({error}): {}", command::describe(&output)));
    assert!(output.status.success() && report.get("error").is_none(), "{what} failed: {}", report["error"]);
    let end = &report["end"];
    let bits = |sum: &Value| sum["bits_per_second"].as_f64().unwrap_or(0.0);
    let count = |key: &str| end["sum"][key].as_f64().unwrap_or(0.0);
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    let slow = (socket_drops(server) + socket_drops(client) - slow_before) as f64;
    let lost_percent = 100.0 * (count("lost_packets") - slow).max(0.0) / count("packets").max(1.0);
    // UDP has `sum`, what was sent with the part that was lost; TCP has one sum for each end only.
    let received_bps = if end["sum"].is_object() {
        bits(&end["sum"]) * (1.0 - count("lost_percent") / 100.0)
    } else {
        bits(&end["sum_received"])
    };
    let sent = &end["sum_sent"];
    Iperf {
        received_bps,
        sent_bytes: sent["bytes"].as_u64().unwrap_or(0),
        retransmits: sent["retransmits"].as_u64().unwrap_or(0),
        lost_percent,
        report,
    }
}

/// Something of everything both ways between two namespaces that have these addresses: pings, files
/// by TCP, datagrams; pings and datagrams in fragments, too.
///
/// # Panics
/// When a ping or more than a few datagrams are lost, or another file arrives.
pub(crate) fn everything(a: (&Netns, &str), b: (&Netns, &str)) {
    for ((from, _), (_, to)) in [(a, b), (b, a)] {
        ping(from, to, 3, 1200);
        ping(from, to, 3, 4000);
    }
    file(a, b);
    file(b, a);
    let (server, client) = (b.0, a.0);
    for words in [["-l", "1100"].as_slice(), &["-l", "4000", "-R"]] {
        let run = iperf3(server, client, b.1, &[&["-u", "-b", "2M", "-n", "100K"], words].concat());
        assert!(run.lost_percent < LOST, "UDP to {} {words:?}: {} % lost", b.1, run.lost_percent);
        assert!(run.received_bps > 5e5, "UDP to {} {words:?}: only {} bit/s arrived", b.1, run.received_bps);
    }
}

/// Fetches a file by HTTP.
///
/// # Panics
/// When another one arrives, or none.
fn file((server, address): (&Netns, &str), (client, _): (&Netns, &str)) {
    let dir = tempfile::Builder::new().prefix("vswitch-file-").tempdir().expect("a temporary directory");
    let (there, here) = (dir.path().join("there"), dir.path().join("here"));
    let mut state = 1_u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    let content = (0..FILE_LEN).map(|_| byte()).collect::<Vec<_>>();
    std::fs::write(&there, &content).expect("a temporary directory has room");
    let directory = dir.path().to_str().expect("temporary directories have UTF-8 names");
    let _server = Server::start(
        server,
        8000,
        &["python3", "-m", "http.server", "--bind", address, "--directory", directory, "8000"],
    );
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let (url, path) = (format!("http://{host}:8000/there"), here.to_str().expect("likewise"));
    client.run(&["curl", "-gsS", "--max-time", "30", "-o", path, &url]);
    let arrived = std::fs::read(&here).expect("curl has written it");
    let differs = arrived.iter().zip(&content).position(|(a, b)| a != b);
    assert!(
        arrived == content,
        "{url}: {} bytes of {FILE_LEN} arrived, the first other one at {differs:?}",
        arrived.len()
    );
}
