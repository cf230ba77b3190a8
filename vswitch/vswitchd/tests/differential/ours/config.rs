//! The configuration of our switch for scenarios.

use crate::behind;
use crate::subject::BRIDGE;
use crate::tunnels::VTEP_MAC;

/// With these ports, and LOCAL.
pub(super) fn of(ports: &[(String, u32)]) -> String {
    // A worker that sleeps leaves its core to the oracle; a packet wakes it.
    let mut config = "[worker]\nidle_sleep_us = 1000\n\n".to_owned();
    // They are shown after every packet: a large table would take its time each time.
    config += "[conntrack]\nconnections = 4096\n\n";
    // The clock stands: what is used up does not come again. Nothing waits, and nothing is sent
    // unasked, in Open vSwitch.
    config += "[slow_path]\nmisses = 0\npacket_ins = 0\nlearns = 0\nwaiting = 0\n\n[debug]\nannounce = false\n\n";
    config += &format!("[[bridge]]\nname = {BRIDGE:?}\nfail_mode = \"secure\"\n\n");
    config += &format!("[[bridge.port]]\nname = {BRIDGE:?}\ntype = \"dummy\"\nmac = {VTEP_MAC:?}\nmtu = 9000\n\n");
    config += &port_tables(ports);
    config
}

/// The ports in the form of the configuration, and the bridge behind, if some are of it.
fn port_tables(ports: &[(String, u32)]) -> String {
    let mut tables = String::new();
    let mut bridge = BRIDGE;
    let joined = behind::is_in(ports);
    for (name, number) in ports {
        let (of, number) = behind::place(*number);
        if of != bridge {
            tables += &format!("[[bridge]]\nname = {of:?}\nfail_mode = \"secure\"\n\n");
            bridge = of;
        }
        let kind = match behind::other_end(name).filter(|_| joined) {
            Some(peer) => format!("type = \"patch\"\npeer = {peer:?}"),
            None => "type = \"dummy\"\nmtu = 9000".to_owned(),
        };
        tables += &format!("[[bridge.port]]\nname = {name:?}\nnumber = {number}\n{kind}\n\n");
    }
    tables
}
