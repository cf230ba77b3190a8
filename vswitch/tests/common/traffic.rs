//! Traffic between namespaces: ping and iperf3.

use super::command::{self, wait_for};
use super::counters::socket_drops;
use super::guest::Guest;
use super::netns::Netns;
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Sends `count` echo requests with `size` bytes of data; panics unless every one is answered.
pub(crate) fn ping(from: &Netns, to: &str, count: u32, size: u32) {
    let (count, size) = (count.to_string(), size.to_string());
    let argv = ["ping", "-n", "-i", "0.05", "-W", "2", "-c", &count, "-s", &size, to];
    let text = from.run(&argv);
    assert!(text.contains(" 0% packet loss"), "ping {to} from {} lost packets:\n{text}", from.name());
}

/// Runs iperf3 for about a second from a namespace to a guest.
///
/// # Panics
/// When it cannot connect, or reports an error.
pub(crate) fn iperf3_to(server: &mut Guest, client: &Netns, address: &str, args: &[&str]) {
    server.run("pidof iperf3 >/dev/null || iperf3 -s -D");
    wait_for("iperf3 listens", Duration::from_secs(10), || server.exec("netstat -ltn | grep -q :5201").0);
    client.run(&[&["timeout", "30", "iperf3", "-c", address, "-t", "1"], args].concat());
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
    /// Datagrams lost on the way, in percent (UDP). What the receiving program was too slow to read is not counted.
    pub(crate) lost_percent: f64,
    /// The whole report.
    pub(crate) report: Value,
}

/// An `iperf3 -s -1` that ends when it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs iperf3 for about a second: `client` in one namespace, `address` in `server`. Further arguments go to the client:
/// `-u -b 20M`, `-R`, `-t 2`, ...
///
/// # Panics
/// When it cannot connect, or reports an error.
pub(crate) fn iperf3(server: &Netns, client: &Netns, address: &str, args: &[&str]) -> Iperf {
    let _server = Server(
        Command::new("ip")
            .args(["netns", "exec", server.name(), "iperf3", "-s", "-1", "-B", address])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("iperf3 can be started"),
    );
    wait_for("iperf3 listens", Duration::from_secs(10), || {
        !server.run(&["ss", "-Hltn", "sport", "=", ":5201"]).is_empty()
    });
    let argv = [&["timeout", "30", "iperf3", "-c", address, "-J", "-t", "1"], args].concat();
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
