//! Plays scenarios on the compiled program, beside what was recorded.

use super::text::{Family, Packet};
use crate::frame::{self, Names};
use crate::ours::Ours;
use crate::record::unhex;
use crate::scenario::Step;
use crate::subject::{LOCAL, Subject, port_name};
use std::collections::BTreeMap;

/// The cluster router that Pods know, and the MAC address that answers for Services here.
const ROUTER: &str = "0a:58:0a:f4:01:01";
const GATEWAY: &str = super::node::GATEWAY_MAC;
const VIRTUAL: &str = "aa:bb:cc:dd:ee:ff";

/// What a step did that differs: of the recording, and here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differs {
    pub(super) recorded: Vec<String>,
    pub(super) here: Vec<String>,
}

/// A packet that left in the recording, and what left here in its place.
struct Left {
    port: String,
    recorded: Packet,
    here: Option<(String, Packet)>,
}

/// A switch with the compiled program.
pub(super) struct Player {
    ours: Ours,
    left: Vec<Left>,
}

impl Player {
    pub(super) fn new(ours: Ours) -> Self {
        Self { ours, left: Vec::new() }
    }

    /// Switches the caches of the workers on or off.
    pub(super) fn set_cache(&mut self, enabled: bool) {
        self.ours.set_cache(enabled);
    }

    /// Plays a scenario; what differs, by the number of the packet, or `c` for its connections.
    pub(super) fn play(&mut self, family: Family, steps: &[(Step, Vec<String>)]) -> BTreeMap<String, Differs> {
        self.left.clear();
        let (mut found, mut number) = (BTreeMap::new(), 0);
        for (step, expected) in steps {
            let (name, recorded, here) = match step {
                Step::Packet { port, text, bytes } => {
                    number += 1;
                    let (recorded, here) = self.packet(family, *port, text, bytes, expected);
                    (number.to_string(), recorded, here)
                }
                Step::Connections => {
                    let connections = self.ours.connections();
                    let of = |lines: &[String]| lines.iter().filter_map(|line| family.connection(line)).collect();
                    let (recorded, here): (Vec<_>, Vec<_>) = (of(expected), of(&connections));
                    ("c".to_owned(), shown(&recorded, &here), shown(&here, &recorded))
                }
                Step::Conntrack(command) => {
                    self.ours.conntrack(command, &[]).expect("connections can be ended");
                    continue;
                }
                other => panic!("{other}: no step of a scenario"),
            };
            let alone = |these: &[String], those: &[String]| {
                let mut alone: Vec<_> = these.iter().filter(|line| !those.contains(line)).cloned().collect();
                alone.sort();
                alone
            };
            let differs = Differs { recorded: alone(&recorded, &here), here: alone(&here, &recorded) };
            if differs != Differs::default() {
                found.insert(name, differs);
            }
        }
        found
    }

    /// What was recorded for a packet, and what happens here.
    fn packet(
        &mut self,
        family: Family,
        port: u32,
        text: &str,
        bytes: &[u8],
        expected: &[String],
    ) -> (Vec<String>, Vec<String>) {
        let recorded: Vec<(String, Vec<u8>)> = expected.iter().map(|line| output(line, bytes)).collect();
        let (port, mine) = self.adapted(port, text, bytes);
        let here = self.ours.packet(port, &mine).outputs;
        if let [(recorded_port, packet)] = &recorded[..]
            && let Some(packet) = Packet::read(packet)
        {
            let one = if let [(port, packet)] = &here[..] {
                Packet::read(packet).map(|packet| (port.clone(), packet))
            } else {
                None
            };
            self.left.push(Left { port: recorded_port.clone(), recorded: packet, here: one });
        }
        let of = |outputs: &[(String, Vec<u8>)], sent: &[u8]| {
            let sent = Packet::read(sent);
            outputs.iter().map(|(port, packet)| family.packet(port, packet, sent.as_ref())).collect()
        };
        (of(&recorded, bytes), of(&here, &mine))
    }

    /// The packet as it is here: an answer goes to the address that was seen, by the port where it
    /// was seen. Pods know another router.
    fn adapted(&self, port: u32, text: &str, bytes: &[u8]) -> (u32, Vec<u8>) {
        let Some(packet) = Packet::read(bytes).filter(|_| !text.starts_with("hex=")) else {
            return (port, bytes.to_vec());
        };
        let place = port_name(port);
        let asked = self.left.iter().rev().find(|left| left.port == place && packet.answers(&left.recorded));
        let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let mut set = |key: &str, value: String| {
            let word = words.iter_mut().find(|word| word.starts_with(&format!("{key}=")));
            *word.unwrap_or_else(|| panic!("{text}: no {key}")) = format!("{key}={value}");
        };
        let mut to = port;
        match asked.and_then(|left| left.here.as_ref()) {
            Some((at, seen)) if *at != place || !packet.answers(seen) => {
                to = number(at);
                set("smac", colons(seen.target_mac));
                set("dmac", colons(seen.source_mac));
                set("src", seen.target.to_string());
                set("dst", seen.source.to_string());
                set("sport", seen.target_port.to_string());
                set("dport", seen.source_port.to_string());
            }
            _ if text.contains(&format!("dmac={ROUTER}")) => {
                set("dmac", if place == "p101" { VIRTUAL } else { GATEWAY }.to_owned());
            }
            _ => {}
        }
        (to, frame::parse(&words.join(" "), &Names::new()).expect("a packet"))
    }
}

/// Connections as lines: with their state where there is one with another state on the other side.
fn shown(these: &[(String, String)], those: &[(String, String)]) -> Vec<String> {
    let shown = |(text, state): &(String, String)| {
        let other = those.iter().find(|(other, _)| other == text);
        if other.is_some_and(|(_, other)| other != state) { format!("{text} {state}") } else { text.clone() }
    };
    these.iter().map(shown).collect()
}

/// A recorded line, as the port and the packet: all bytes, or what differs from what was sent.
fn output(line: &str, sent: &[u8]) -> (String, Vec<u8>) {
    let (port, rest) = line.split_once(' ').expect("a port");
    let Some(changes) = rest.strip_prefix('=') else {
        return (port.to_owned(), unhex(rest).expect("a packet's bytes"));
    };
    let mut packet = sent.to_vec();
    for change in changes.split_whitespace() {
        let (at, bytes) = change.split_once(':').expect("a change");
        let (at, bytes) = (at.parse::<usize>().expect("an offset"), unhex(bytes).expect("bytes"));
        packet[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    (port.to_owned(), packet)
}

fn number(port: &str) -> u32 {
    port.strip_prefix('p').map_or(LOCAL, |number| number.parse().expect("a number"))
}

fn colons(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
