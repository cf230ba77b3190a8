//! A second bridge behind `br0`, as a real OVN programs it (`tools/record-ovn`).
//!
//! **Design**: `br1` has the ports 1 to 3, which scenarios call 101 to 103 (`p101` ...). One port
//! of each bridge leads to the other one. In our switch these are patch ports. In Open vSwitch they
//! are dummy ports, and the harness carries packets between them: joined by patch ports, it would
//! drop what needs more than six decisions, and the longest of these ways needs eight.

use std::path::Path;

/// Its name.
pub(crate) const BRIDGE: &str = "br1";
/// What is added to numbers of its ports in scenarios.
const OFFSET: u32 = 100;
/// The ports that lead from one bridge to the other.
const JOINT: [u32; 2] = [2, OFFSET + 4];

/// The ports of both bridges.
pub(crate) fn ports() -> Vec<(String, u32)> {
    let numbers = [1, JOINT[0], OFFSET + 1, OFFSET + 2, OFFSET + 3, JOINT[1]];
    numbers.map(|number| (crate::subject::port_name(number), number)).to_vec()
}

/// Whether there is such a bridge.
pub(crate) fn is_in(ports: &[(String, u32)]) -> bool {
    ports.iter().any(|(_, number)| *number > OFFSET)
}

/// The bridge and the number there of a port.
pub(crate) fn place(number: u32) -> (&'static str, u32) {
    if number > OFFSET { (BRIDGE, number - OFFSET) } else { (crate::subject::BRIDGE, number) }
}

/// The port at the other end, for a port that leads to the other bridge.
pub(crate) fn other_end(name: &str) -> Option<String> {
    let end = JOINT.iter().position(|number| crate::subject::port_name(*number) == name)?;
    Some(crate::subject::port_name(JOINT[1 - end]))
}

/// The groups and the flows of `br1` in a mode, as text.
///
/// # Panics
/// When there is no such mode.
pub(crate) fn program(mode: &str) -> [String; 2] {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/ovn");
    ["groups", "flows"].map(|kind| {
        let path = directory.join(format!("{mode}.{kind}"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    })
}
