//! Four writers, readers and traffic at a time: what they see of the flows, groups and meters of a
//! bridge is a linearizable history, and every packet sees the program before a transaction or the
//! one after it, never a mix.
//!
//! **Design**: the daemon itself with dummy ports, whose packets are looked at one by one, and an
//! endless load from a capture, which is counted by where it leaves. Each transaction writes one
//! version number into everything that it writes ([`program`]). Writers share all keys; some of
//! their transactions are refused, always or as the state says. All operations go into one history
//! with the times of their call and return, which is judged by [`linear`]. At the end the counters
//! of rules, tables and ports agree with what was sent.
//!
//! **Variables**: `VSWITCH_CONCURRENT_SECONDS` (30), `VSWITCH_CONCURRENT_SEED` (of the random
//! choices; what threads do to each other is not repeated by it).

#![allow(clippy::print_stderr)] // captured and shown by the test runner

mod client;
#[allow(clippy::duplicate_mod)]
#[path = "../common/mod.rs"]
mod common;
mod counters;
mod linear;
mod program;
mod reader;
#[allow(clippy::duplicate_mod, dead_code)]
mod traffic;
mod writer;

use client::{Client, Clock};
use common::{Switch, write_pcap};
use linear::{KEYS, Op, State};
use program::{REGISTERS, TAIL_GROUP, TAIL_RULE};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::{Duration, Instant};
use vswitch_testkit::rng::{self, Rng};
use writer::Tally;

/// Threads of each kind.
const WRITERS: usize = 4;
const TRACERS: usize = 1;
const READERS: usize = TRACERS + 2;
const SENDERS: [&str; 2] = ["p1", "p2"];

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Run {
    socket: String,
    clock: Clock,
    length: Duration,
    seed: u64,
    versions: AtomicU32,
    /// A thread has failed: the others need not go on.
    failed: AtomicBool,
    /// Packets by register.
    sent: [AtomicU64; 4],
    came_back: [AtomicU64; 4],
}

impl Run {
    fn is_over(&self) -> bool {
        self.failed.load(Relaxed) || self.clock.0.elapsed() >= self.length
    }

    fn next_version(&self) -> u32 {
        self.versions.fetch_add(1, Relaxed)
    }

    fn rng(&self, thread: usize) -> Rng {
        Rng::new(self.seed << 8 | thread as u64)
    }

    /// Runs a thread's part; its panic ends the others.
    fn part<T>(&self, part: impl FnOnce() -> T) -> T {
        struct Fails<'a>(&'a Run);
        impl Drop for Fails<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.failed.store(true, Relaxed);
                }
            }
        }
        let _fails = Fails(self);
        part()
    }
}

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// A bridge with dummy ports p1 and p2 to send to, p11 to p13 where packets leave; and for the load
/// `in`, and `out0` to `out2`.
fn start_switch() -> Switch {
    let capture = tempfile::NamedTempFile::new().expect("a file");
    let frames = |register| (0..traffic::SOURCES).map(move |source| traffic::frame(register, source, 0));
    // Registers that are for packets of the test alone have exact counters meanwhile.
    write_pcap(capture.path(), &frames(1).chain(frames(3)).collect::<Vec<_>>());
    let port = |name: &str, number: u32, kind: &str| {
        format!("[[bridge.port]]\nname = {name:?}\nnumber = {number}\n{kind}\n\n")
    };
    let mut config = format!("[[bridge]]\nname = {:?}\nfail_mode = \"secure\"\n\n", program::BRIDGE);
    config += "[slow_path]\nmisses = 0\npacket_ins = 0\nlearns = 0\n\n";
    for (name, number) in [("p1", 1), ("p2", 2), ("p11", 11), ("p12", 12), ("p13", 13)] {
        config += &port(name, number, "type = \"dummy\"");
    }
    for i in 0..3 {
        let kind = format!("type = \"dpdk\"\ndevargs = \"net_null{i},no-rx=1\"");
        config += &port(&format!("out{i}"), 21 + i, &kind);
    }
    let load = format!("type = \"pcap\"\nrx_file = {:?}\ninfinite_rx = true\nadmin_up = false", capture.path());
    config += &port("in", 9, &load);
    Switch::start_with(&config, &["--enable-dummy"])
}

/// The state in which the history begins.
fn prepare(run: &Run, client: &Client, rng: &mut Rng) -> State {
    let mut state = [0; KEYS];
    let mut updates = program::base();
    for key in REGISTERS {
        state[key] = run.next_version();
        updates.extend(program::first(key, state[key], rng));
    }
    let version = run.next_version();
    updates.extend(program::first_tails(version, rng));
    state[TAIL_RULE] = version;
    state[TAIL_GROUP] = version;
    let response = client.write(&updates, 1, true).expect("a transaction");
    assert!(response.applied, "{response:#?}");
    state
}

/// All threads; their operations, and how the transactions of each writer went.
fn history(run: &Run) -> (Vec<Op>, Vec<Tally>) {
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|id| scope.spawn(move || run.part(|| writer::run(run, id)))).collect();
        let readers: Vec<_> = (WRITERS..WRITERS + READERS)
            .map(|id| scope.spawn(move || run.part(|| reader::run(run, id, id < WRITERS + TRACERS))))
            .collect();
        let first = WRITERS + READERS;
        let senders: Vec<_> = (first..)
            .zip(SENDERS)
            .map(|(id, port)| scope.spawn(move || run.part(|| traffic::run(run, id, port))))
            .collect();
        let (mut ops, mut tallies) = (Vec::new(), Vec::new());
        let panicked = "a thread has panicked; what it said is above";
        for (done, tally) in writers.into_iter().map(|writer| writer.join().expect(panicked)) {
            ops.extend(done);
            tallies.push(tally);
        }
        readers.into_iter().for_each(|reader| ops.extend(reader.join().expect(panicked)));
        let sent: Vec<_> = senders.into_iter().map(|sender| sender.join().expect(panicked)).collect();
        ops.extend(traffic::ops(&sent, first));
        (ops, tallies)
    })
}

/// A run in which nothing happened proves nothing.
fn check_that_enough_happened(run: &Run, ops: &[Op], tallies: &[Tally]) {
    let mut kinds = std::collections::BTreeMap::new();
    ops.iter().for_each(|op| *kinds.entry(op.what).or_insert(0_u64) += 1);
    eprintln!("seed {}: {kinds:?}; writers: {tallies:?}", run.seed);
    // On a machine that does little else it is a hundred times as much.
    let least = run.length.as_secs() / 2;
    for what in ["write", "packet", "trace", "all flows", "flows of a key", "groups", "meters"] {
        assert!(kinds.get(what).copied().unwrap_or_default() >= least, "too few of {what:?}: {kinds:?}");
    }
    let total = |of: fn(&Tally) -> usize| tallies.iter().map(of).sum::<usize>();
    let refused = [total(|tally| tally.refused), total(|tally| tally.refused_by_state)];
    assert!(refused.iter().all(|count| *count > 0), "nothing was refused: {tallies:?}");
    assert!(tallies.iter().all(|tally| tally.applied > 0), "a writer never got through: {tallies:?}");
}

#[test]
fn writers_readers_and_traffic_make_a_linearizable_history() {
    let switch = start_switch();
    let socket = format!("unix://{}", switch.socket().display());
    let run = Run {
        socket,
        clock: Clock(Instant::now()),
        length: Duration::from_secs(number("VSWITCH_CONCURRENT_SECONDS", 30)),
        seed: number("VSWITCH_CONCURRENT_SEED", 1),
        versions: AtomicU32::new(1),
        failed: AtomicBool::new(false),
        sent: Default::default(),
        came_back: Default::default(),
    };
    eprintln!("VSWITCH_CONCURRENT_SEED={}", run.seed);
    let start = prepare(&run, &Client::new(&run.socket), &mut run.rng(usize::from(u8::MAX)));
    switch.vsctl_ok(&["mod-port", program::BRIDGE, "in", "up"]);
    let (ops, tallies) = history(&run);
    if let Err(story) = linear::check(&ops, &start) {
        panic!("VSWITCH_CONCURRENT_SEED={}: not linearizable: {story}", run.seed);
    }
    check_that_enough_happened(&run, &ops, &tallies);
    // A connection of its own: nobody would have answered the server's pings meanwhile.
    let client = Client::new(&run.socket);
    let last = reader::flows(&client.flows(None), reader::ALL_FLOWS.into_iter()).expect("whole at the end");
    let last_read = Op {
        thread: 0,
        what: "the end",
        call: run.clock.now(),
        ret: run.clock.now(),
        seen: last.into_iter().map(|(key, version)| (key, linear::Seen::Is(version))).collect(),
        sets: Vec::new(),
    };
    assert_eq!(linear::check(&[ops, vec![last_read]].concat(), &start), Ok(()), "at the end");
    counters::check(&switch, &client, &run);
}
