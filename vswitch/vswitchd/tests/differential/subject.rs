//! What the harness asks of a switch, Open vSwitch and ours alike.

use crate::record::Effect;
use crate::scenario::{Command, PortChange};
use crate::tunnels::Tunnelling;

/// Name of the bridge.
pub(crate) const BRIDGE: &str = "br0";
/// Its ports: `p1` to `p6` with these numbers, and LOCAL (named like the bridge).
pub(crate) const PORTS: u32 = 6;
/// The number that scenarios use for LOCAL.
pub(crate) const LOCAL: u32 = 65534;
/// The controller id of the second controller that listens; the first has 0.
pub(crate) const SECOND_CONTROLLER: u16 = 62373;

/// A switch under test, with one bridge. All calls return when everything that they cause has
/// happened.
pub(crate) trait Subject {
    /// What to call it.
    fn name(&self) -> &'static str;

    /// Says whether to look for packet-ins after each step.
    fn expect_packet_ins(&mut self, expected: bool);

    /// Says whether each packet is decided about anew, and its decisions told
    /// ([`Effect::decisions`]).
    fn decide(&mut self, told: bool);

    /// As it was at first: no flows, groups, meters or learned addresses; ports up, no connections
    /// or limits of them.
    fn reset(&mut self);

    /// Adds flows in one transaction.
    fn add_flows(&mut self, lines: &[&str]) -> Result<Effect, String>;

    /// Runs a command of ovs-ofctl; returns what it prints.
    fn control(&mut self, command: &Command) -> Result<(String, Effect), String>;

    /// Loads the groups and the flows of the bridge behind ([`crate::behind`]).
    fn load_behind(&mut self, mode: &str) -> Result<(), String>;

    /// Names a table.
    fn name_table(&mut self, number: u8, name: &str);

    /// Changes a port.
    fn change_port(&mut self, port: u32, change: PortChange) -> Effect;

    /// A packet comes in.
    fn packet(&mut self, port: u32, packet: &[u8]) -> Effect;

    /// `packet-out`.
    fn packet_out(&mut self, text: &str) -> Result<Effect, String>;

    /// Resumes the last paused packet.
    fn resume(&mut self) -> Effect;

    /// Time goes on.
    fn warp(&mut self, ms: u64) -> Effect;

    /// The connections, one a line, in Open vSwitch's form (`dump-conntrack -s`, less what only one
    /// of the two counts).
    fn connections(&mut self) -> Vec<String>;

    /// A command of `ovs-appctl dpctl/...` that is about connections; returns what it prints.
    fn conntrack(&mut self, verb: &str, arguments: &[&str]) -> Result<String, String>;

    /// A step about tunnels; returns what it prints.
    fn tunnel(&mut self, step: &Tunnelling) -> Result<(String, Effect), String>;

    /// Packet-ins and flow-removed events that nobody has looked at yet.
    fn rest(&mut self) -> Effect;

    /// What it says about a packet, for people.
    fn trace(&mut self, port: u32, packet: &[u8]) -> String;
}

/// The zones, as `zone=N`, that a command gives a limit.
pub(crate) fn limited<'a>(verb: &str, arguments: &'a [&'a str]) -> impl Iterator<Item = String> + 'a {
    let words = if verb == "ct-set-limits" { arguments } else { &[] };
    let zones = words.iter().filter_map(|word| word.split(',').next());
    zones.filter(|zone| zone.starts_with("zone=")).map(str::to_owned)
}

/// Name of a port by its number.
pub(crate) fn port_name(port: u32) -> String {
    if port == LOCAL { BRIDGE.to_owned() } else { format!("p{port}") }
}

/// The ports that scenarios use.
pub(crate) fn ports() -> Vec<(String, u32)> {
    (1..=PORTS).map(|number| (port_name(number), number)).collect()
}
