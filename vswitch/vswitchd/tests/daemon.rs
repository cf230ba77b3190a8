//! `vswitchd` as a process that runs: what the service manager and the operator see from start to
//! stop.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A daemon with a service manager; killed when the test ends.
struct Daemon {
    child: Child,
    manager: UnixDatagram,
    dir: TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Daemon {
    /// Starts on ordinary memory, without ports, and waits until it is ready.
    fn start(watchdog_usec: Option<u64>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut text = "[dpdk]\nhugepages = false\nmemory_mb = 64\nmbufs = 4096\n".to_owned();
        let _ = write!(text, "[worker]\nidle_sleep_us = 100\n[control]\nsocket = {:?}\n", dir.path().join("control"));
        std::fs::write(dir.path().join("config"), text).expect("a file");
        let notify = dir.path().join("notify");
        let manager = UnixDatagram::bind(&notify).expect("a socket");
        manager.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        let mut command = Command::new(env!("CARGO_BIN_EXE_vswitchd"));
        command.arg("--config").arg(dir.path().join("config")).args(["--log-level", "info"]);
        command.env("NOTIFY_SOCKET", &notify).env_remove("WATCHDOG_USEC").env_remove("WATCHDOG_PID");
        if let Some(usec) = watchdog_usec {
            command.env("WATCHDOG_USEC", usec.to_string());
        }
        let child = command.stderr(Stdio::piped()).spawn().expect("vswitchd starts");
        let daemon = Self { child, manager, dir };
        assert_eq!(daemon.message(), "STATUS=starting");
        let ready = daemon.message();
        assert!(ready.starts_with("READY=1\nSTATUS=0 bridges, 0 ports, "), "{ready}");
        daemon
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("control")
    }

    /// The next message to the service manager.
    fn message(&self) -> String {
        let mut buffer = [0; 1024];
        let len = self.manager.recv(&mut buffer).expect("a message within 30 s");
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill runs");
        assert!(status.success(), "kill -{name} {pid}");
    }

    /// Its exit status and its log.
    fn end(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + Duration::from_secs(30);
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            assert!(Instant::now() < deadline, "vswitchd does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut log = String::new();
        let mut stderr = self.child.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut log).expect("a log");
        (status, log)
    }
}

#[test]
fn it_tells_when_it_is_ready_and_stops_cleanly_at_a_signal() {
    for signal in ["TERM", "INT"] {
        let daemon = Daemon::start(None);
        let socket = daemon.socket();
        UnixStream::connect(&socket).expect("the control socket takes connections once READY=1 is sent");
        let mode = std::fs::metadata(&socket).expect("a socket").permissions().mode();
        assert_eq!(mode & 0o007, 0, "others may not use the control socket: {mode:o}");
        daemon.signal(signal);
        assert_eq!(daemon.message(), "STOPPING=1\nSTATUS=stopping");
        let (status, log) = daemon.end();
        assert_eq!(status.code(), Some(0), "{log}");
        for expected in ["ready: 0 bridges, 0 ports, ", &format!("SIG{signal}: stopping"), "stopped"] {
            assert!(log.contains(expected), "no {expected:?} in {log}");
        }
        assert!(!socket.exists(), "the socket is left behind");
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let daemon = Daemon::start(None);
    // Both are there when it wakes up: the second is seen while the first one's stop has hardly
    // begun.
    for signal in ["STOP", "TERM", "INT", "CONT"] {
        daemon.signal(signal);
    }
    let (status, log) = daemon.end();
    assert!([Some(128 + 15), Some(128 + 2)].contains(&status.code()), "{status}: {log}");
    assert!(log.contains(" while stopping: exits at once"), "{log}");
}

#[test]
fn it_outlives_the_reader_of_its_log() {
    let mut daemon = Daemon::start(None);
    drop(daemon.child.stderr.take());
    daemon.signal("HUP");
    std::thread::sleep(Duration::from_millis(200));
    UnixStream::connect(daemon.socket()).expect("it still serves");
    daemon.signal("TERM");
    assert_eq!(daemon.child.wait().expect("a child").code(), Some(0));
}

#[test]
fn an_abort_loses_no_line_of_the_log() {
    let daemon = Daemon::start(None);
    (0..20).for_each(|_| daemon.signal("HUP"));
    daemon.signal("ABRT");
    let (status, log) = daemon.end();
    assert_eq!(status.signal(), Some(6), "{status}: {log}");
    assert!(log.contains("ready: 0 bridges"), "{log}");
}

#[test]
fn a_refused_configuration_ends_it_though_nobody_reads_why() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("config"), "nonsense = 1\n").expect("a file");
    for format in ["text", "json"] {
        let (_reader, mut writer) = std::io::pipe().expect("a pipe");
        // It takes no more (pipe(7)).
        writer.write_all(&[b'\n'; 1 << 16]).expect("room");
        let mut command = Command::new(env!("CARGO_BIN_EXE_vswitchd"));
        command.arg("--config").arg(dir.path().join("config")).args(["--log-format", format]);
        let status = command.stderr(writer).status().expect("vswitchd runs");
        assert_eq!(status.code(), Some(78), "{format}");
    }
}

#[test]
fn sighup_tells_the_service_manager() {
    let daemon = Daemon::start(None);
    daemon.signal("HUP");
    assert_eq!(daemon.message(), "RELOADING=1\nSTATUS=reloading");
    assert!(daemon.message().starts_with("READY=1\nSTATUS=0 bridges, 0 ports, "));
    UnixStream::connect(daemon.socket()).expect("it still serves");
    daemon.signal("TERM");
    let (status, log) = daemon.end();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("SIGHUP: the configuration file is in force changes=0"), "{log}");
}

#[test]
fn a_stray_signal_does_not_end_it() {
    let daemon = Daemon::start(None);
    let names = ["USR1", "USR2", "PIPE", "ALRM", "STKFLT", "XFSZ", "VTALRM", "PROF", "IO", "PWR"];
    for name in names {
        daemon.signal(name);
    }
    UnixStream::connect(daemon.socket()).expect("it still serves");
    // Behind the others.
    daemon.signal("HUP");
    assert_eq!(daemon.message(), "RELOADING=1\nSTATUS=reloading");
    assert!(daemon.message().starts_with("READY=1"));
    daemon.signal("QUIT");
    assert_eq!(daemon.message(), "STOPPING=1\nSTATUS=stopping");
    let (status, log) = daemon.end();
    assert_eq!(status.code(), Some(0), "a clean stop: {log}");
    for name in ["SIGUSR1", "SIGUSR2", "SIGALRM", "SIGSTKFLT", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR"] {
        assert!(log.contains(&format!("{name} ignored: it has no use here")), "{name}: {log}");
    }
    assert!(log.contains("SIGQUIT: stopping") && !log.contains("SIGPIPE"), "{log}");
}

#[test]
fn the_watchdog_is_fed_twice_per_timeout_while_the_workers_live() {
    let daemon = Daemon::start(Some(400_000));
    let started = Instant::now();
    for i in 0..5 {
        assert_eq!(daemon.message(), "WATCHDOG=1", "message {i}");
    }
    let elapsed = started.elapsed();
    // The first comes at once, then one each 200 ms: five are never quicker. A busy machine may be
    // slower; `notify` has the test of the period.
    assert!(elapsed > Duration::from_millis(600), "{elapsed:?}");
}

#[test]
fn a_second_instance_is_refused_and_the_first_goes_on() {
    let daemon = Daemon::start(None);
    let second = Command::new(env!("CARGO_BIN_EXE_vswitchd"))
        .arg("--config")
        .arg(daemon.dir.path().join("config"))
        .output()
        .expect("vswitchd runs");
    let log = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(78), "{log}");
    assert!(log.contains("socket: another process listens on "), "{log}");
    UnixStream::connect(daemon.socket()).expect("the first still serves");
}

/// The threads that are not a worker's: all but those named `worker...`, by their affinity
/// (`Cpus_allowed_list`).
#[test]
fn control_threads_are_pinned_to_the_main_core() {
    let daemon = Daemon::start(None);
    let tasks = Path::new("/proc").join(daemon.child.id().to_string()).join("task");
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let mut control = 0;
    for task in std::fs::read_dir(&tasks).expect("threads").flatten() {
        let name = read(task.path().join("comm"));
        if name.trim() == "control" {
            let status = read(task.path().join("status"));
            let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list").trim();
            assert!(cores.parse::<u32>().is_ok(), "thread {name:?} may run on {cores}");
            control += 1;
        }
    }
    assert!(control >= 2, "{control} control threads");
}
