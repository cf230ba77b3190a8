//! Capturing what is on a wire, with tcpdump.
//!
//! **Where**: at an end where nobody left a checksum to the wire, if they are to be looked at. A
//! kernel does on a veth pair, and so does a port with a vnet header. An interface with `tx off`
//! cannot, nor can DPDK's `net_af_packet` and `net_pcap`.

use super::command::{self, wait_for};
use super::netns::Netns;
use super::tshark::{Expect, clean};
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A running tcpdump. Killed on drop.
#[derive(Debug)]
pub(crate) struct Capture {
    child: Child,
    dir: tempfile::TempDir,
}

impl Capture {
    /// Captures what an interface of a namespace sends and receives, from when this returns;
    /// packets of up to 2048 bytes, longer ones are cut.
    ///
    /// # Panics
    /// When tcpdump does not start.
    pub(crate) fn start(ns: &Netns, interface: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("vswitch-capture-").tempdir().expect("a temporary directory");
        let log = File::create(dir.path().join("tcpdump.log")).expect("the log can be written");
        let child = Command::new("ip")
            .args([
                "netns",
                "exec",
                ns.name(),
                "tcpdump",
                "-i",
                interface,
                "--immediate-mode",
                "-U",
                "-s",
                "2048",
                "-B",
                "16384",
            ])
            .args(["-Z", "root", "-w"])
            .arg(dir.path().join("wire.pcap"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("tcpdump is installed (tools/setup)");
        let capture = Self { child, dir };
        wait_for(&format!("tcpdump listens on {interface}"), LIMIT, || capture.log().contains("listening on"));
        capture
    }

    /// Ends it; what was captured must be [`clean`].
    ///
    /// # Panics
    /// When it is not.
    pub(crate) fn stop(mut self, expect: &Expect<'_>) {
        command::run(&["kill", "-INT", &self.child.id().to_string()]);
        wait_for("tcpdump ends", LIMIT, || self.child.try_wait().expect("our own child can be waited for").is_some());
        clean(&self.dir.path().join("wire.pcap"), expect);
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("tcpdump.log")).unwrap_or_default()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
