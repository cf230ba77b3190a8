//! No core file of the switch holds packets of guests: neither the pool's memory nor that of
//! guests is dumped.

use crate::common::{Switch, number, wait_for};
use crate::frontend::{Frontend, MEMORY, REPLY_ACK, VERSION_1};
use std::fs;
use std::time::Duration;

/// Any wait of this test: a hang, not a delay, is what fails it.
const LIMIT: Duration = Duration::from_secs(60);

/// Bytes of a packet buffer, at least: 2,048 of data and 128 of headroom.
const MBUF: u64 = 2176;

/// A mapping of a process (proc(5), `smaps`).
struct Mapping {
    /// Its first line.
    line: String,
    kib: u64,
    /// A core file leaves it out.
    hidden: bool,
}

fn mappings(pid: u32) -> Vec<Mapping> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).expect("it runs");
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        let word = line.split(' ').next().unwrap_or_default();
        match (word, mappings.last_mut()) {
            ("Size:", Some(last)) => {
                last.kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number");
            }
            ("VmFlags:", Some(last)) => last.hidden = line.split(' ').any(|flag| flag == "dd"),
            (word, _) if word.contains('-') => mappings.push(Mapping { line: line.to_owned(), kib: 0, hidden: false }),
            _ => {}
        }
    }
    mappings
}

#[test]
fn a_core_would_hold_neither_packet_buffers_nor_memory_of_guests() {
    let switch = Switch::start(
        "[worker]\nidle_sleep_us = 1000\n\n[[bridge]]\nname = \"br0\"\n\n\
         [[bridge.port]]\nname = \"guest\"\ntype = \"vhost-user\"\nmode = \"server\"\npath = \"@DIR@/guest.sock\"\n",
    );
    let pool = switch.json(&["mempool-show"]);
    let mbufs = number(pool.get(0).unwrap_or(&pool), "size");
    let hidden = |mappings: &[Mapping], which: &str| -> u64 {
        mappings.iter().filter(|one| one.hidden && one.line.contains(which)).map(|one| one.kib).sum()
    };
    let before = mappings(switch.pid());
    // EAL's memory without hugepages (`rte_eal_hugepage_init`).
    let packets = hidden(&before, "memfd:nohuge");
    assert!(packets * 1024 >= mbufs * MBUF, "{packets} KiB of {mbufs} buffers");

    let mut guest = Frontend::connect(&switch.dir().join("guest.sock")).expect("the port listens");
    guest.negotiate(VERSION_1, REPLY_ACK).expect("memory");
    guest.start_pair(0).expect("rings");
    wait_for("the guest's link is up", LIMIT, || switch.port("br0", "guest")["link_up"] == true);
    let after = mappings(switch.pid());
    let of_guest: Vec<&Mapping> = after.iter().filter(|one| one.line.contains(" /dev/shm/")).collect();
    let [hidden, shown] = [true, false]
        .map(|hidden| -> u64 { of_guest.iter().filter(|one| one.hidden == hidden).map(|one| one.kib).sum() });
    assert_eq!((hidden * 1024, shown), (MEMORY, 0), "KiB of the guest's memory that a core has not, and has");
}
