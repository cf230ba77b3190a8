//! What a switch did: lines of text, so that two switches are compared, and a case's expectation is
//! written, in one way.

use crate::masks::Decision;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A packet that went to a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketIn {
    /// Table of the flow that sent it.
    pub(crate) table: u8,
    /// Cookie of that flow.
    pub(crate) cookie: u64,
    /// Why, by its OpenFlow name.
    pub(crate) reason: String,
    /// Metadata fields that are not 0, and `in_port`, as hexadecimal numbers by their names.
    pub(crate) metadata: BTreeMap<String, String>,
    /// What the action carried.
    pub(crate) userdata: Vec<u8>,
    /// The packet.
    pub(crate) packet: Vec<u8>,
    /// Waits to be resumed.
    pub(crate) paused: bool,
}

/// What a step made a switch do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    /// Packets by port name, in order.
    pub(crate) outputs: Vec<(String, Vec<u8>)>,
    /// Packet-ins, in order per controller.
    pub(crate) packet_ins: Vec<PacketIn>,
    /// Flows with `send_flow_rem` that went. When exactly Open vSwitch tells of them is up to its
    /// threads.
    pub(crate) removed: Vec<String>,
    /// What was decided about a packet, if that was asked for
    /// ([`crate::subject::Subject::decide`]).
    pub(crate) decisions: Vec<Decision>,
}

impl Effect {
    /// Adds what happened after it.
    pub(crate) fn merge(&mut self, later: Self) {
        self.outputs.extend(later.outputs);
        self.packet_ins.extend(later.packet_ins);
        self.removed.extend(later.removed);
        self.decisions.extend(later.decisions);
    }

    /// What happened at once, in lines. Packets are described relative to `sent`, what the step
    /// sent.
    pub(crate) fn lines(&self, sent: &[u8]) -> Vec<String> {
        let outputs = self.outputs.iter().map(|(port, packet)| format!("{port} {}", relative(packet, sent)));
        outputs.chain(self.packet_ins.iter().map(|event| event.line(sent))).collect()
    }
}

impl PacketIn {
    /// Leaves out of the metadata what only Open vSwitch has: the protocol that goes with a
    /// connection's tuple, fields of the tuple that are 0; and the tuple behind an error about a
    /// reply, or of protocol 0, which Open vSwitch does not show though it can be matched.
    pub(crate) fn without_quirks(mut self) -> Self {
        let state = self
            .metadata
            .get("ct_state")
            .and_then(|state| u32::from_str_radix(state.trim_start_matches("0x"), 16).ok());
        let Some(state) = state else { return self };
        let related = state & 0x0c == 0x04; // and not a reply
        let hidden = related || self.metadata.get("ct_nw_proto").is_none_or(|protocol| protocol == "0x0");
        self.metadata.remove("eth_type");
        self.metadata.retain(|name, value| {
            let tuple = ["ct_nw_", "ct_tp_", "ct_ipv6_"].iter().any(|start| name.starts_with(start));
            !tuple || !hidden && value != "0x0"
        });
        self
    }

    fn line(&self, sent: &[u8]) -> String {
        let mut line = format!("packet-in table={} cookie={:#x} reason={}", self.table, self.cookie, self.reason);
        for (name, value) in &self.metadata {
            let _ = write!(line, " {name}={value}");
        }
        if !self.userdata.is_empty() {
            let _ = write!(line, " userdata={}", hex(&self.userdata));
        }
        if self.paused {
            line += " paused";
        }
        let _ = write!(line, " {}", relative(&self.packet, sent));
        line
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Hexadecimal as bytes.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).ok()).collect()
}

/// Headers of a tunnel have so many bytes and more.
const TUNNEL_HEADERS: usize = 38;

/// A packet as a change of another one: `=`, or `= 22:3f 24:66f1` (these bytes from these offsets);
/// `HEX + =`: with these headers in front of it; `-50 =`: without its first 50 bytes; or all its
/// bytes when the lengths differ otherwise or most of it does.
fn relative(packet: &[u8], sent: &[u8]) -> String {
    let (front, missing) = (packet.len().saturating_sub(sent.len()), sent.len().saturating_sub(packet.len()));
    let (rest, of) = (&packet[front..], &sent[missing..]);
    let different = rest.iter().zip(of).filter(|(a, b)| a != b).count();
    let is_alike = if front + missing == 0 { different <= 24 } else { different < 24.min(rest.len() / 2) };
    match (front, missing) {
        _ if !is_alike => hex(packet),
        (0, 0) => change(rest, of),
        (TUNNEL_HEADERS.., 0) => format!("{} + {}", hex(&packet[..front]), change(rest, of)),
        (0, TUNNEL_HEADERS..) => format!("-{missing} {}", change(rest, of)),
        _ => hex(packet),
    }
}

/// `=` and what differs, of two of the same length.
fn change(packet: &[u8], sent: &[u8]) -> String {
    let mut text = "=".to_owned();
    let mut last = None;
    for i in (0..packet.len()).filter(|i| packet[*i] != sent[*i]) {
        if last.is_none_or(|last| last + 1 != i) {
            let _ = write!(text, " {i}:");
        }
        let _ = write!(text, "{:02x}", packet[i]);
        last = Some(i);
    }
    text
}
