//! What the gateway bridge that this switch compiles does with the scenarios that a real OVN was
//! recorded with (`cases/ovn-real-*.case`): the same packets at the host, on the wire and at Pods,
//! and the same connections in the gateway bridge's zones.
//!
//! **Design**: two programs are compared, not two switches. Packets and connections become text
//! with names for addresses ([`text`]). So one list of differences (`ovn/differences.txt`) is for
//! both families and protocols. An answer goes to the address that was seen, by the port where it
//! was seen ([`play`]). Each difference has its number in docs/gateway.md. One that does not occur
//! is an error, too.

mod differences;
mod node;
mod play;
mod text;

use crate::behind;
use crate::golden;
use crate::ours::Ours;
use differences::Listed;
use play::Player;
use std::collections::BTreeSet;
use text::Family;
use vswitch_proto::antrea::v1;

/// The modes, by their words here, and the recordings'.
const MODES: [(&str, &str, v1::GatewayMode); 2] =
    [("shared", "ovn-real-sgw.case", v1::GatewayMode::Shared), ("local", "ovn-real-lgw.case", v1::GatewayMode::Local)];

/// Each difference has a reason there.
const DOCUMENT: &str = include_str!("../../../../../docs/gateway.md");

/// Plays every scenario of both modes, with caches and without. Returns what differs and is not
/// listed, and what is listed and does not occur.
pub(crate) fn check() -> Vec<String> {
    let (listed, mut wrong) = (Listed::read(), Vec::new());
    let (_, reasons) = DOCUMENT.split_once("## Differences").expect("a section of docs/gateway.md");
    let untold = listed.numbers().into_iter().filter(|number| !reasons.contains(&format!("\n| {number} |")));
    wrong.extend(untold.map(|number| format!("{number}: not in docs/gateway.md")));
    let cases = golden::all_cases();
    for (word, file, mode) in MODES {
        let case = cases.iter().find(|case| case.path.ends_with(file)).expect("the recording");
        let scenarios = case.scenarios();
        assert!(scenarios.len() > 50, "{file}: {} scenarios", scenarios.len());
        let mut player = Player::new(start(mode));
        let mut known = BTreeSet::new();
        for cached in [true, false] {
            player.set_cache(cached);
            let mut played = BTreeSet::new();
            for scenario in &scenarios {
                let (name, family, protocol) = split(&scenario.name);
                let again = if played.insert(&scenario.name) { "" } else { ", again" };
                let name = format!("{word}: {name}{again}");
                let found = player.play(family, &scenario.steps);
                wrong.extend(listed.judge(&name, family.version, protocol, &found));
                known.insert(name);
            }
        }
        wrong.extend(listed.strangers(word, &known));
    }
    wrong
}

/// A switch with the gateway bridge `br0`, and the Pods' bridge behind it. It has the ports of the
/// recorded ones.
fn start(mode: v1::GatewayMode) -> Ours {
    let mut ours = Ours::start_with(&node::config(), &behind::ports());
    ours.become_node(node::node(mode), node::objects());
    ours
}

/// `"5 wire to a node port, IPv4, TCP"`: name, family and protocol. In front of the first scenario
/// neighbours say who they are.
fn split(name: &str) -> (&str, Family, &str) {
    if name.is_empty() {
        return ("neighbours", text::V4, "");
    }
    let mut parts = name.rsplitn(3, ", ");
    let (protocol, family, rest) = (parts.next(), parts.next(), parts.next());
    match (rest, family, protocol) {
        (Some(name), Some("IPv4"), Some(protocol)) => (name, text::V4, protocol),
        (Some(name), Some("IPv6"), Some(protocol)) => (name, text::V6, protocol),
        _ => panic!("{name:?} tells neither family nor protocol"),
    }
}
