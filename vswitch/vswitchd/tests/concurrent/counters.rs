//! At the end, when nothing moves any more: what rules, tables and ports have counted is what was
//! sent.

use crate::Run;
use crate::client::Client;
use crate::common::{Switch, number};
use crate::program::{self, BRIDGE, OUT, OUT_MIXED, REGISTERS};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::sync::atomic::Ordering::SeqCst;

/// Ports that there are.
const PORTS: usize = 9;

/// Ends the load; how many packets came in by its port while that was up. Counters that still move
/// cannot be compared, so the port is removed and its last counters are taken from the event that
/// says so.
fn end_load(switch: &Switch) -> u64 {
    let count = (PORTS + 1).to_string();
    let mut events = switch.vsctl_spawn(&["--json", "port-events", "--existing", "--count", &count]);
    let mut lines = BufReader::new(events.stdout.take().expect("piped")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("an event").expect("text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("no JSON ({error}): {line}"))
    };
    for _ in 0..PORTS {
        next();
    }
    switch.vsctl_ok(&["del-port", BRIDGE, "in"]);
    let removed = next();
    assert_eq!((&removed["event"], &removed["port"]["name"]), (&"removed".into(), &"in".into()), "{removed:#}");
    assert!(events.wait().expect("our own child").success());
    let statistics = &removed["statistics"];
    // Until the load began the port was down, on purpose.
    let before = statistics["rx_drops"]["admin_down"].as_u64().unwrap_or(0);
    assert_eq!(number(statistics, "rx_dropped"), before, "{statistics:#}");
    number(statistics, "rx_packets") - before
}

/// Packets that the rules of registers have counted, by table and register.
fn counted(client: &Client) -> [[u64; 4]; 2] {
    let mut counted = [[0; 4]; 2];
    for entry in client.flows(None) {
        let (flow, statistics) = (entry.flow.expect("a flow"), entry.statistics.expect("statistics"));
        let Some((key, _)) = program::owner(flow.cookie).filter(|(key, _)| REGISTERS.contains(key)) else { continue };
        if let Some(table) = counted.get_mut(flow.table as usize) {
            table[key] += statistics.packets;
        }
    }
    counted
}

/// Compares.
pub(crate) fn check(switch: &Switch, client: &Client, run: &Run) {
    let load = end_load(switch);
    let sent: [u64; 4] = std::array::from_fn(|key| run.sent[key].load(SeqCst));
    let tx = |name: &str| number(&switch.port(BRIDGE, name), "tx_packets");
    let by_hand: u64 = sent.iter().sum();
    eprintln!("{load} packets of the load, {by_hand} by hand: {sent:?}");
    assert_eq!((tx("out2"), tx(OUT_MIXED)), (0, 0), "packets of which the stages did not agree: load, by hand");
    assert_eq!(tx("out0") + tx("out1"), load, "packets of the load that left, and that came in");
    assert_eq!(tx(OUT[0]) + tx(OUT[1]), by_hand, "packets by hand that left, and that were sent");
    let counted = counted(client);
    for (table, counted) in counted.iter().enumerate() {
        assert_eq!(counted.iter().sum::<u64>(), load + by_hand, "table {table}: {counted:?} of {load} and {sent:?}");
        for key in REGISTERS.step_by(2) {
            assert_eq!(counted[key], sent[key], "table {table}, register {key}");
        }
    }
    assert_eq!(counted[0], counted[1], "what passed table 0 came to table 1");
    for table in client.tables().iter().filter(|table| table.number < 4) {
        let want = (load + by_hand, load + by_hand);
        assert_eq!((table.lookups, table.matches), want, "lookups and matches of table {}", table.number);
    }
}
