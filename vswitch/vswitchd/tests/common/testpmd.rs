//! `dpdk-testpmd` with a virtio-user device: a guest without a kernel.

use super::command::{unique, wait_for};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// It may share its core with a compiler.
const ANSWER: Duration = Duration::from_secs(60);

/// What every testpmd here starts with: two threads on one core, ordinary memory of its own,
/// nothing for other processes.
const EAL: &str = "--lcores=0@0,1@0 --no-huge -m 64 --no-shconf --no-pci --no-telemetry";

/// Line by line, so that the log has its answers.
const PROGRAM: [&str; 3] = ["stdbuf", "-oL", "dpdk-testpmd"];

/// Runs a program as a container does: it sees its own processes, network and mounts, and of the
/// host's files in /run, /tmp and /dev/shm one directory, as `/run/pod`. What its predecessor made
/// there it removes: virtio-user does not.
const CONTAINER: &str = r#"
    mount -t tmpfs tmpfs /run
    mkdir /run/pod
    mount --bind "$1" /run/pod
    mount -t tmpfs tmpfs /tmp
    mount -t tmpfs tmpfs /dev/shm
    rm -f /run/pod/net.sock
    shift
    exec "$@"
"#;

/// A running testpmd on ordinary memory, of one device with one queue pair. Killed on drop.
#[derive(Debug)]
pub(crate) struct Testpmd {
    child: Child,
    log: PathBuf,
}

impl Testpmd {
    /// Starts it on a vhost-user socket that it makes (the switch connects), and lets it forward:
    /// `macswap` sends everything back with swapped addresses.
    ///
    /// # Panics
    /// When it is not installed.
    pub(crate) fn start(socket: &Path, mode: &str) -> Self {
        let mut testpmd = Self::idle(socket, &[&format!("--forward-mode={mode}")]);
        testpmd.say("start");
        testpmd
    }

    /// Likewise, but it takes and sends nothing until `start` is typed. `more` are arguments of its
    /// own, behind those of EAL.
    ///
    /// # Panics
    /// When it is not installed.
    pub(crate) fn idle(socket: &Path, more: &[&str]) -> Self {
        // virtio-user does not replace the socket of a killed predecessor
        let _ = std::fs::remove_file(socket);
        let device = format!("net_virtio_user0,path={},server=1,queues=1,queue_size=256", socket.display());
        let mut program = Command::new(PROGRAM[0]);
        program.args(&PROGRAM[1..]);
        Self::spawn(program, socket, &[&device], more)
    }

    /// Sends the frames of a capture file, once, when `start` is typed; the socket as above.
    ///
    /// # Panics
    /// When it is not installed.
    pub(crate) fn player(socket: &Path, capture: &Path) -> Self {
        let _ = std::fs::remove_file(socket);
        let device = format!("net_virtio_user0,path={},server=1,queues=1,queue_size=256", socket.display());
        let mut program = Command::new(PROGRAM[0]);
        program.args(&PROGRAM[1..]);
        let file = format!("net_pcap0,rx_pcap={}", capture.display());
        Self::spawn(program, socket, &[&device, &file], &["--forward-mode=io", "--no-flush-rx"])
    }

    /// Starts it as a container's application, forwarding addresses swapped. Of the host's files it
    /// has `directory` as `/run/pod`; `device` is a DPDK device with its arguments.
    ///
    /// # Panics
    /// When a program is not installed.
    pub(crate) fn in_container(directory: &Path, device: &str) -> Self {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        unshare.args(["sh", "-ec", CONTAINER, "sh"]).arg(directory).args(PROGRAM);
        Self::spawn(unshare, &directory.join("pod"), &[device], &["--forward-mode=macswap"])
    }

    fn spawn(mut command: Command, name: &Path, devices: &[&str], more: &[&str]) -> Self {
        let log = name.with_extension(format!("testpmd-{}.log", unique()));
        let file = File::create(&log).expect("the test's directory is writable");
        let child = command
            .args(EAL.split(' '))
            .arg(format!("--file-prefix=vt{}-{}", std::process::id(), unique()))
            .args(devices.iter().map(|device| format!("--vdev={device}")))
            .args(["--", "-i", "--total-num-mbufs=2048"])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(file.try_clone().expect("a descriptor"))
            .stderr(file)
            .spawn()
            .expect("unshare and dpdk-testpmd are installed (apt-get install dpdk)");
        Self { child, log }
    }

    /// Types a command at its prompt.
    ///
    /// # Panics
    /// When it has ended.
    pub(crate) fn say(&mut self, command: &str) {
        let stdin = self.child.stdin.as_mut().expect("piped");
        writeln!(stdin, "{command}").unwrap_or_else(|error| panic!("testpmd has ended ({error}): {}", self.output()));
    }

    /// Packets that its port has received and sent.
    ///
    /// # Panics
    /// When it does not say.
    pub(crate) fn counted(&mut self) -> [u64; 2] {
        let asked = self.output().matches("NIC statistics").count();
        self.say("show port stats 0");
        let report = |text: &str| {
            let report = text.split("NIC statistics").nth(asked + 1)?.split_once("Throughput")?.0.to_owned();
            let number = |name: &str| report.split_once(name)?.1.split_whitespace().next()?.parse().ok();
            Some([number("RX-packets:")?, number("TX-packets:")?])
        };
        wait_for("testpmd shows its counters", ANSWER, || report(&self.output()).is_some());
        report(&self.output()).expect("it was there")
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
