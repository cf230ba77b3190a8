//! `dpdk-testpmd` with a virtio-user device: a guest without a kernel.

use super::command::unique;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running testpmd that makes the vhost-user socket (the switch connects) on ordinary memory. Killed on drop.
#[derive(Debug)]
pub(crate) struct Testpmd {
    child: Child,
    log: PathBuf,
}

impl Testpmd {
    /// Starts it with one queue pair and a forward mode: `macswap` sends everything back with swapped addresses.
    ///
    /// # Panics
    /// When it is not installed.
    pub(crate) fn start(socket: &Path, mode: &str) -> Self {
        let _ = std::fs::remove_file(socket); // virtio-user does not replace the socket of a killed predecessor
        let log = socket.with_extension(format!("testpmd-{}.log", unique()));
        let file = File::create(&log).expect("the test's directory is writable");
        let child = Command::new("dpdk-testpmd")
            .args(["--lcores=0@0,1@0", "--no-pci", "--no-huge", "--no-shconf", "-m", "64", "--no-telemetry"])
            .arg(format!("--file-prefix=vt{}-{}", std::process::id(), unique()))
            .arg(format!("--vdev=net_virtio_user0,path={},server=1,queues=1,queue_size=256", socket.display()))
            .args(["--", "-i", "--total-num-mbufs=2048"])
            .arg(format!("--forward-mode={mode}"))
            .stdin(Stdio::piped())
            .stdout(file.try_clone().expect("a descriptor"))
            .stderr(file)
            .spawn()
            .expect("dpdk-testpmd is installed (apt-get install dpdk)");
        let mut testpmd = Self { child, log };
        testpmd.say("start");
        testpmd
    }

    /// Types a command at its prompt.
    ///
    /// # Panics
    /// When it has ended.
    pub(crate) fn say(&mut self, command: &str) {
        let stdin = self.child.stdin.as_mut().expect("piped");
        writeln!(stdin, "{command}").unwrap_or_else(|error| panic!("testpmd has ended ({error}): {}", self.output()));
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("our own child can be killed");
        self.child.wait().expect("our own child can be waited for");
    }

    /// What it printed.
    pub(crate) fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
