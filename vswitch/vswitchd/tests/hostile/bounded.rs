//! What does not move: a worker, a device, a large transaction. Whoever does not need it goes on,
//! and whoever does is told within a bounded time.
//!
//! A worker is held as a debugger would hold it: `ptrace` stops its one thread. Tests wait for
//! states and compare what came first. [`LIMIT`] is for what hangs.

use crate::bed::{BRIDGE, Bed, udp};
use crate::common::{Switch, number, run, unique, wait_for};
use crate::node;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

/// Any wait of this test: a hang, not a delay, is what fails it.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Stops the thread of its argument until its standard input ends.
const HOLD: &str = r#"
import ctypes, os, sys
libc, tid = ctypes.CDLL(None, use_errno=True), int(sys.argv[1])
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
for request in (0x4206, 0x4207):  # PTRACE_SEIZE, PTRACE_INTERRUPT
    if libc.ptrace(request, tid, None, None):
        sys.exit(os.strerror(ctypes.get_errno()))
os.waitpid(tid, 0x40000000)  # __WALL
print("held", flush=True)
sys.stdin.read()
"#;

/// Two workers that poll and never sleep, on the cores 0 and 1.
const WORKERS: &str = "main_core = 0\nworker_cores = [0, 1]\n";

/// What reads the state, one of each kind.
const READS: [&[&str]; 12] = [
    &["list-br"],
    &["show"],
    &["list-ports", BRIDGE],
    &["dump-ports", BRIDGE],
    &["dump-flows", BRIDGE],
    &["dump-groups", BRIDGE],
    &["dump-meters", BRIDGE],
    &["dump-tables", BRIDGE],
    &["fdb-show", BRIDGE],
    &["route-show"],
    &["worker-rxq-show"],
    &["worker-show"],
];

/// A switch with dummy ports and its own `[dpdk]` section.
fn bed(ports: u32, dpdk: &str, sections: &str) -> Bed {
    let prefix = format!("vb{}-{}", std::process::id(), unique());
    let dpdk = format!(
        "[dpdk]\nmemory_mb = 256\nhugepages = false\nfile_prefix = {prefix:?}\nallow_drivers = [\"net_virtio_user\"]\n{dpdk}\n"
    );
    let start = |config: &str| {
        // A worker that sleeps is waited for by nobody.
        let config = config.replace("idle_sleep_us = 1000", "idle_sleep_us = 0");
        Switch::start_with(&(dpdk + &config), &["--enable-dummy"])
    };
    Bed::starting(start, ports, "", sections)
}

/// A thread that does not move, until this is dropped.
pub(crate) struct Held(Child);

impl Held {
    fn worker(switch: &Switch, core: u32) -> Self {
        Self::thread(switch, &format!("worker-{core}"))
    }

    /// A thread by its name.
    pub(crate) fn thread(switch: &Switch, thread: &str) -> Self {
        let tasks = fs::read_dir(format!("/proc/{}/task", switch.pid())).expect("threads");
        let name = |task: &fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let mut tasks = tasks.map(|task| task.expect("a thread"));
        let task = tasks.find(|task| name(task).trim() == thread).expect("a thread of that name");
        let mut python = Command::new("python3");
        python.args(["-c", HOLD]).arg(task.file_name()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = python.spawn().expect("python3 runs");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert_eq!(line, "held\n", "the thread is not held");
        Self(holder)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// How `vsctl` ended, and what it said; it ends.
fn ended(mut child: Child) -> (ExitStatus, String) {
    wait_for("vsctl ends", LIMIT, || child.try_wait().expect("our child").is_some());
    let output = child.wait_with_output().expect("our child");
    (output.status, text(&output))
}

/// Starts `vsctl`, which waits for the switch and not for itself.
fn start(switch: &Switch, args: &[&str]) -> Child {
    let mut command = switch.vsctl_command(&[&["--timeout", "300"], args].concat());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("vsctl runs")
}

fn is_running(child: &mut Child) -> bool {
    child.try_wait().expect("our child").is_none()
}

fn bridges(switch: &Switch) -> Vec<String> {
    switch.vsctl_ok(&["list-br"]).lines().map(str::to_owned).collect()
}

/// In: port 1 on core 0, port 3 on core 1. Out: ports 2 and 4.
fn two_workers(sections: &str) -> Bed {
    let bed = bed(4, WORKERS, sections);
    bed.switch.vsctl_ok(&["worker-rxq-pin", "p1", "0", "0"]);
    bed.switch.vsctl_ok(&["worker-rxq-pin", "p3", "0", "1"]);
    bed.load(&["flow in_port=p1,actions=output:p2", "flow in_port=p3,actions=output:p4"]);
    bed
}

/// A change waits for the worker, 5 s long. All reads that begin then end before it does. It is
/// told by whom it was held up, and is there; further ones are refused, and are not. The other
/// worker forwards. When the worker moves, all is as if it had never stood still.
#[test]
fn a_worker_that_is_held_holds_up_no_reader_and_no_other_worker() {
    let mut bed = two_workers("");
    assert_eq!((bed.ports("p1", &udp(1)), bed.ports("p3", &udp(1))), (vec!["p2".to_owned()], vec!["p4".to_owned()]));
    let held = Held::worker(&bed.switch, 1);
    let mut change = start(&bed.switch, &["add-br", "late"]);
    wait_for("the change is in work", LIMIT, || bridges(&bed.switch).contains(&"late".to_owned()));
    assert!(is_running(&mut change), "its worker is held");
    for read in &READS[..4] {
        bed.switch.vsctl_ok(read);
    }
    assert!(is_running(&mut change), "a read waited for the change");
    let (status, said) = ended(change);
    assert!(!status.success() && said.contains("the change is made, but worker-1 has not moved for "), "{said}");
    READS.iter().for_each(|read| drop(bed.switch.vsctl_ok(read)));

    let refused = text(&bed.switch.vsctl(&["add-br", "refused"]));
    assert!(refused.contains("nothing is changed: worker-1 has not moved for "), "{refused}");
    assert_eq!(bridges(&bed.switch), [BRIDGE, "late"]);
    // What no worker has to adopt goes on, and packets of the other one.
    bed.switch.vsctl_ok(&["fdb-add", BRIDGE, "p2", "0", "02:00:00:00:00:09"]);
    assert_eq!(bed.ports("p1", &udp(2)), ["p2"]);

    drop(held);
    wait_for("changes are made again", LIMIT, || bed.switch.vsctl(&["add-br", "next"]).status.success());
    assert_eq!(bridges(&bed.switch), [BRIDGE, "late", "next"]);
    assert_eq!(bed.ports("p3", &udp(2)), ["p4"]);
    bed.settle();
}

/// A port that a held worker may use is removed: its device is closed when the worker moves.
#[test]
fn a_device_that_a_held_worker_may_use_is_closed_later() {
    let mut bed = two_workers("");
    bed.switch.vsctl_ok(&["add-port", BRIDGE, "tap9", "--type", "tap", "--interface", "vbtap9"]);
    let exists = || std::path::Path::new("/sys/class/net/vbtap9").exists();
    assert!(exists());
    let held = Held::worker(&bed.switch, 1);
    let (status, said) = ended(start(&bed.switch, &["del-port", BRIDGE, "tap9"]));
    assert!(!status.success() && said.contains("worker-1 has not moved"), "{said}");
    assert!(!bed.switch.vsctl_ok(&["list-ports", BRIDGE]).contains("tap9"));
    assert!(exists(), "the worker may use it");
    drop(held);
    wait_for("the device is closed", LIMIT, || !exists());
    bed.settle();
}

/// SIGTERM ends the switch though a worker is held and a change waits for it. Connections are
/// written.
#[test]
fn the_switch_stops_and_saves_connections_though_a_worker_is_held() {
    let mut bed = two_workers("[conntrack]\nconnections = 65536\nstate_file = \"@DIR@/connections\"\n");
    bed.load(&["flow in_port=p1,ip,actions=ct(commit,zone=1),output:p2"]);
    for source in 1..=50 {
        assert_eq!(bed.ports("p1", &udp(source)), ["p2"]);
    }
    let connections = |switch: &Switch| number(&switch.json(&["ct-counters-show"]), "connections");
    assert_eq!(connections(&bed.switch), 50);
    let held = Held::worker(&bed.switch, 1);
    let change = start(&bed.switch, &["add-br", "late"]);
    wait_for("the change is in work", LIMIT, || bridges(&bed.switch).contains(&"late".to_owned()));
    run(&["kill", "-TERM", &bed.switch.pid().to_string()]);
    wait_for("the switch has done what it can", LIMIT, || bed.switch.log().contains("parts that did not end"));
    // Not before: a thread that a debugger holds keeps the process in the list of processes.
    drop(held);
    let status = bed.switch.terminate();
    drop(ended(change));
    assert_eq!(status.code(), Some(1), "it says that something did not end");
    let log = bed.switch.log();
    for line in ["worker-1 does not end", "connections are written for the next start", "parts that did not end"] {
        assert!(log.contains(line), "{line}: {log}");
    }
    bed.switch.start_again();
    assert_eq!(connections(&bed.switch), 50);
}

/// Adds a port at a socket whose owner says nothing.
fn silent(bed: &Bed, name: &str) -> (UnixListener, Child) {
    let path = bed.switch.dir().join(format!("{name}.sock"));
    let listener = UnixListener::bind(&path).expect("a socket");
    let devargs = format!("net_virtio_user_{name},path={},queue_size=256", path.display());
    let child =
        start(&bed.switch, &["add-port", BRIDGE, name, "--type", "dpdk", "--devargs", &devargs, "--number", "9"]);
    wait_for("the device is being opened", LIMIT, || bed.switch.vsctl_ok(&["show"]).contains("opening since "));
    (listener, child)
}

/// The peer of a device says nothing. The port is "opening", and everything else goes on: reads,
/// changes, other ports. Further devices of DPDK are refused by name. The call ends, the port goes
/// with its peer, and the next device opens. SIGTERM is obeyed meanwhile.
#[test]
fn a_device_that_does_not_answer_holds_up_nobody() {
    let mut bed = bed(2, "", "");
    bed.load(&["flow in_port=p1,actions=output:p2"]);
    let (listener, mut opening) = silent(&bed, "mute");
    bed.switch.vsctl_ok(&["add-br", "other"]);
    bed.switch.vsctl_ok(&["add-port", BRIDGE, "p3", "--type", "dummy"]);
    READS[..4].iter().for_each(|read| drop(bed.switch.vsctl_ok(read)));
    assert_eq!(bed.ports("p1", &udp(1)), ["p2"]);
    let named = bed.vsctl("add-flow", &["in_port=mute,actions=drop"], None);
    assert!(named.is_err(), "nobody is to rely on a port that may never have been there");
    assert!(is_running(&mut opening), "something waited for the device");
    for (args, reason) in [
        (&["mute", "--type", "dummy"][..], "port \"mute\" already exists"),
        (&["p4", "--type", "dummy", "--number", "9"], "port number \"9\" already exists"),
        (&["p5", "--type", "dpdk", "--devargs", "net_null9"], "EAL is busy with device net_virtio_user_mute since "),
    ] {
        let (status, said) = ended(start(&bed.switch, &[&["add-port", BRIDGE], args].concat()));
        assert!(!status.success() && said.contains(reason), "{args:?}: {said}");
    }
    let (status, said) = ended(opening);
    assert!(!status.success() && said.contains("its device has not answered for 8 s"), "{said}");
    assert!(bed.switch.vsctl_ok(&["list-ports", BRIDGE]).contains("mute"), "it may still come");

    drop(listener);
    let ports = |bed: &Bed| bed.switch.vsctl_ok(&["list-ports", BRIDGE]);
    wait_for("the port goes with its peer", LIMIT, || !ports(&bed).contains("mute"));
    let null = ["add-port", BRIDGE, "p5", "--type", "dpdk", "--devargs", "net_null9"];
    wait_for("the next device opens", LIMIT, || bed.switch.vsctl(&null).status.success());
    bed.switch.vsctl_ok(&["del-port", BRIDGE, "p5"]);
    bed.settle();

    let (_listener, opening) = silent(&bed, "mute2");
    let status = bed.switch.terminate();
    assert_eq!(status.code(), Some(1), "{}", bed.switch.log());
    assert!(bed.switch.log().contains("EAL is busy with device net_virtio_user_mute2"), "{}", bed.switch.log());
    drop(ended(opening));
}

/// SIGTERM ends a switch that starts, though the device of a configured port does not answer: it
/// does not wait until that one is given up.
#[test]
fn a_switch_that_starts_stops_though_a_device_does_not_answer() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("mute.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    listener.set_nonblocking(true).expect("a socket");
    let port = |name: &str, kind: &str| format!("[[bridge.port]]\nname = {name:?}\n{kind}\n\n");
    let devargs = format!("net_virtio_user0,path={},queue_size=256", path.display());
    let mut switch = Switch::start_unready(&format!(
        "[[bridge]]\nname = {BRIDGE:?}\n\n{}{}",
        port("mute", &format!("type = \"dpdk\"\ndevargs = {devargs:?}")),
        port("next", "type = \"tap\"\ninterface = \"vbnext\""),
    ));
    let mut peer = None;
    wait_for("the device is being opened", LIMIT, || {
        peer = peer.take().or_else(|| listener.accept().ok());
        peer.is_some()
    });
    let status = switch.terminate();
    let log = switch.log();
    assert_eq!(status.code(), Some(1), "its device did not end: {log}");
    assert!(log.contains("EAL is busy with device net_virtio_user0") && log.contains("SIGTERM: stopping"), "{log}");
    assert!(!log.contains("did not answer in time"), "it waited for the device: {log}");
    assert!(!log.contains("ready: "), "{log}");
}

/// A sync waits for a worker, under its own lock. Whoever asks how the Node is does not wait for
/// it, and is told how the Node was.
#[test]
fn a_sync_that_waits_holds_up_nobody_who_asks_how_the_node_is() {
    let bed = two_workers("");
    bed.vsctl("del-flows", &[], None).expect("no flows");
    node::initialize(&bed);
    node::sync(&bed, 1, node::pod(10));
    assert_eq!(node::round(&bed), 1);
    let flows = || bed.vsctl("dump-flows", &["--no-stats"], None).expect("flows");
    let before = flows();
    let held = Held::worker(&bed.switch, 1);
    let sync = node::sync_beside(&bed.switch, 2, node::pod(11));
    wait_for("the sync writes", LIMIT, || flows() != before);
    assert_eq!(node::round(&bed), 1, "as before the sync");
    assert!(!sync.is_finished(), "its worker is held");
    drop(held);
    let done = sync.join().expect("no panic").expect("a sync");
    assert!(done.gate_open, "{done:?}");
    assert_eq!(node::round(&bed), 2);
}

/// Flows of a transaction, in lines.
const FLOWS: u32 = 100_000;

/// A reader beside a large transaction sees nothing of it or all, and a reader after it all.
#[test]
fn a_reader_sees_nothing_of_a_transaction_or_all() {
    let bed = bed(2, "", "");
    let mut lines = String::new();
    for i in 0..FLOWS {
        let [_, a, b, c] = i.to_be_bytes();
        let _ = writeln!(lines, "table={},ip,nw_src=10.{a}.{b}.{c},actions=output:2", i % 200);
    }
    let file = bed.switch.dir().join("flows");
    fs::write(&file, lines).expect("a file");
    let flows = || -> u64 {
        let tables = bed.switch.json(&["dump-tables", BRIDGE]);
        tables.as_array().expect("tables").iter().map(|table| number(table, "flows")).sum()
    };
    let mut writing = start(&bed.switch, &["add-flows", BRIDGE, file.to_str().expect("UTF-8")]);
    let mut seen = Vec::new();
    while is_running(&mut writing) {
        seen.push(flows());
    }
    let (status, said) = ended(writing);
    assert!(status.success(), "{said}");
    assert!(seen.iter().all(|flows| [0, u64::from(FLOWS)].contains(flows)), "{seen:?}");
    assert!(seen.is_sorted(), "what was there is gone: {seen:?}");
    assert_eq!(flows(), u64::from(FLOWS));
}
