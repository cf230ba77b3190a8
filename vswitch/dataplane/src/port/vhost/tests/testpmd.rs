//! `dpdk-testpmd` with a virtio-user device, as the guest of a test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// librte_vhost opens its sockets without close-on-exec. A child with a copy of one would hide from
/// the peer that the switch closed it.
const CLOSE_AND_EXEC: &str = r#"
    for fd in /proc/$$/fd/*; do fd=${fd##*/}; [ "$fd" -gt 2 ] && eval "exec $fd>&-"; done
    exec "$@"
"#;

/// A running testpmd that makes the socket and sends every packet back with its Ethernet addresses
/// swapped. Killed on drop.
pub(super) struct Testpmd {
    child: Child,
    socket: PathBuf,
}

impl Testpmd {
    /// Starts it; it opens its device when the back end connects. `queues` queue pairs, `more`
    /// device arguments; output goes to `<socket>.log`.
    pub(super) fn start(socket: &Path, queues: u16, more: &str) -> Self {
        // virtio-user does not replace the socket of a killed predecessor.
        let _ = std::fs::remove_file(socket);
        let log = File::create(socket.with_extension("log")).expect("the test's directory is writable");
        let device =
            format!("--vdev=net_virtio_user0,path={},server=1,queues={queues},queue_size=256{more}", socket.display());
        // Own, ordinary memory; both threads may share a core with the test.
        let child = Command::new("bash")
            .args(["-c", CLOSE_AND_EXEC, "bash", "dpdk-testpmd"])
            .args(["--lcores=0@(0-1),1@(0-1)", "--no-pci", "--no-huge", "--no-shconf", "-m", "64", "--no-telemetry"])
            .arg(format!("--file-prefix=vswitch-test-{}", std::process::id()))
            .arg(device)
            .args(["--", "--total-num-mbufs=2048", "--forward-mode=macswap", "--auto-start"])
            // With one forwarding core, all queues are polled.
            .arg(format!("--rxq={queues}"))
            .arg(format!("--txq={queues}"))
            .stdin(Stdio::piped()) // it ends when it can read nothing
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log)
            .spawn()
            .expect("bash is there; without dpdk-testpmd (apt-get install dpdk) the log says so");
        Self { child, socket: socket.to_owned() }
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) {
        self.child.kill().expect("still ours");
        self.child.wait().expect("still ours");
    }

    /// What it printed.
    pub(super) fn output(&self) -> String {
        std::fs::read_to_string(self.socket.with_extension("log")).unwrap_or_default()
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
