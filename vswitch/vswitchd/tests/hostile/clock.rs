//! The machine's clock is stepped while the switch is stopped: what is left of a connection's time
//! is not taken by it.
//!
//! The clock of the test's machine stays as it is. The file is changed instead: a clock that is a
//! day behind what the file says was stepped back by a day.

use crate::bed::{Bed, udp};
use crate::common::{Switch, number};
use std::fs;
use vswitch_conntrack::Checksum;

/// Connections, each with an hour of time.
const CONNECTIONS: u16 = 50;
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Words of a file's head (`vswitch_conntrack::tracker::saved`).
const UNIX_MS: usize = 2;
const BOOT: usize = 3;
const BOOT_MS: usize = 5;

fn connections(switch: &Switch) -> u64 {
    number(&switch.json(&["ct-counters-show"]), "connections")
}

/// Stops the switch, changes words of the file by `change`, and starts it again.
fn restart(switch: &mut Switch, change: impl FnOnce(&mut [u64])) {
    assert_eq!(switch.terminate().code(), Some(0), "{}", switch.log());
    let file = switch.dir().join("connections");
    let bytes = fs::read(&file).expect("a file of connections");
    let mut words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    assert_eq!(words[1], 3, "a format that this test knows");
    words.pop();
    change(&mut words);
    let mut checksum = Checksum::default();
    words.iter().for_each(|word| checksum.add(*word));
    words.push(checksum.value());
    fs::write(&file, words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()).expect("written");
    switch.start_again();
}

/// For how long it was stopped, as it says.
fn stopped_ms(switch: &Switch) -> u64 {
    let log = switch.log();
    let line = log.lines().rfind(|line| line.contains("are there again")).expect("a line of the log");
    let (_, rest) = line.split_once("stopped_ms=").expect("a time");
    rest.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// Since the boot of this machine (proc(5), `uptime`).
fn uptime_ms() -> u64 {
    let text = fs::read_to_string("/proc/uptime").expect("a file");
    let digits: String = text.split(' ').next().expect("seconds").chars().filter(char::is_ascii_digit).collect();
    digits.parse::<u64>().expect("hundredths of seconds") * 10
}

/// A switch with connections.
fn connected() -> Bed {
    let mut bed = Bed::with(2, "", "[conntrack]\nconnections = 65536\nstate_file = \"@DIR@/connections\"\n");
    bed.switch.vsctl_ok(&["ct-set-timeouts", "zone=1", "udp_first=3600"]);
    bed.load(&["flow in_port=p1,ip,actions=ct(commit,zone=1),output:p2"]);
    for source in 1..=CONNECTIONS {
        assert_eq!(bed.ports("p1", &udp(source)), ["p2"]);
    }
    assert_eq!(connections(&bed.switch), u64::from(CONNECTIONS));
    bed
}

#[test]
fn steps_of_the_clock_while_the_switch_is_stopped_end_no_connection() {
    let mut bed = connected();
    let all = u64::from(CONNECTIONS);
    restart(&mut bed.switch, |words| words[UNIX_MS] -= DAY_MS);
    assert_eq!(connections(&bed.switch), all, "stepped forward by a day");
    restart(&mut bed.switch, |words| words[UNIX_MS] += DAY_MS);
    assert_eq!(connections(&bed.switch), all, "stepped back by a day");
    // Within a boot, its time counts.
    let up = uptime_ms();
    restart(&mut bed.switch, |words| words[BOOT_MS] = 0);
    assert!(stopped_ms(&bed.switch) >= up, "{}", bed.switch.log());
}

/// Over a boot only the machine's clock is left. Back counts as nothing but the time since the
/// boot; forward counts.
#[test]
fn steps_of_the_clock_over_a_boot_count() {
    let mut bed = connected();
    let up = uptime_ms();
    restart(&mut bed.switch, |words| {
        words[BOOT] ^= 1;
        words[UNIX_MS] += DAY_MS;
    });
    let stopped = stopped_ms(&bed.switch);
    assert!(stopped >= up && stopped <= uptime_ms(), "{stopped} ms, up since {up} ms");
    restart(&mut bed.switch, |words| {
        words[BOOT] ^= 1;
        words[UNIX_MS] -= DAY_MS;
    });
    assert_eq!(connections(&bed.switch), 0, "a day later");
    assert!(stopped_ms(&bed.switch) >= DAY_MS);
}
