//! A controller of the oracle: a connection of our own to the bridge's management socket, for what
//! `ovs-ofctl monitor` would print: packet-ins with all their properties, and flow-removed events.

use super::{ANSWER_LIMIT, hangs};
use crate::record::{Effect, PacketIn};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const VERSION: u8 = 6; // OpenFlow 1.5
const NICIRA: u32 = 0x2320;

/// Message types.
mod kind {
    pub(super) const HELLO: u8 = 0;
    pub(super) const ERROR: u8 = 1;
    pub(super) const ECHO_REQUEST: u8 = 2;
    pub(super) const ECHO_REPLY: u8 = 3;
    pub(super) const EXPERIMENTER: u8 = 4;
    pub(super) const SET_CONFIG: u8 = 9;
    pub(super) const FLOW_REMOVED: u8 = 11;
    pub(super) const PORT_STATUS: u8 = 12;
    pub(super) const FLOW_MOD: u8 = 14;
    pub(super) const BARRIER_REQUEST: u8 = 20;
    pub(super) const BARRIER_REPLY: u8 = 21;
}

/// Subtypes of Nicira's experimenter messages.
mod nicira {
    pub(super) const SET_PACKET_IN_FORMAT: u32 = 16;
    pub(super) const SET_CONTROLLER_ID: u32 = 20;
    pub(super) const RESUME: u32 = 28;
    pub(super) const PACKET_IN2: u32 = 30;
}

/// A connection with one controller id.
#[derive(Debug)]
pub(crate) struct Controller {
    stream: UnixStream,
    received: Vec<u8>,
    events: Effect,
    /// The properties of the last paused packet.
    paused: Option<Vec<u8>>,
    flow_events: bool,
    /// How often a port has changed.
    pub(crate) port_changes: u64,
}

impl Controller {
    /// Connects, and asks for packet-ins of this controller id (and flow-removed events if
    /// `flow_events`).
    pub(crate) fn connect(socket: &Path, id: u16, flow_events: bool) -> Self {
        let stream = UnixStream::connect(socket).unwrap_or_else(|error| panic!("{}: {error}", socket.display()));
        stream.set_read_timeout(Some(ANSWER_LIMIT)).expect("a timeout");
        let mut controller = Self {
            stream,
            received: Vec::new(),
            events: Effect::default(),
            paused: None,
            flow_events,
            port_changes: 0,
        };
        controller.send(kind::HELLO, &[]);
        controller.send(kind::SET_CONFIG, &[0, 0, 0xff, 0xff]);
        controller.nicira(nicira::SET_PACKET_IN_FORMAT, &2_u32.to_be_bytes());
        controller.nicira(nicira::SET_CONTROLLER_ID, &[&[0; 6][..], &id.to_be_bytes()].concat());
        controller.barrier();
        controller
    }

    /// Waits until the bridge has answered everything so far: all events that it sent have arrived.
    pub(crate) fn barrier(&mut self) {
        self.send(kind::BARRIER_REQUEST, &[]);
        while self.receive() != kind::BARRIER_REPLY {}
    }

    /// The events since the last call, in order.
    pub(crate) fn take(&mut self) -> Effect {
        std::mem::take(&mut self.events)
    }

    /// Lets the last paused packet go on.
    ///
    /// # Panics
    /// When none is paused.
    pub(crate) fn resume(&mut self) {
        let properties = self.paused.take().expect("a packet was paused");
        self.nicira(nicira::RESUME, &properties);
        self.barrier();
    }

    /// Adds a flow to the last table and takes it away again: a change makes the revalidators look
    /// at all megaflows.
    pub(crate) fn make_a_change(&mut self) {
        for command in [0, 4] {
            let mut body = vec![0; 16]; // cookie and mask
            body.extend_from_slice(&[253, command, 0, 0, 0, 0, 0, 0]);
            body.extend_from_slice(&[0xff; 12]); // buffer, port and group: none
            // flags, importance; matches everything
            body.extend_from_slice(&[0, 0, 0, 0, 0, 1, 0, 4, 0, 0, 0, 0]);
            self.send(kind::FLOW_MOD, &body);
        }
    }

    fn send(&mut self, kind: u8, body: &[u8]) {
        let len = u16::try_from(8 + body.len()).expect("a short message");
        let mut message = vec![VERSION, kind];
        message.extend_from_slice(&len.to_be_bytes());
        message.extend_from_slice(&[0, 0, 0, 1]);
        message.extend_from_slice(body);
        self.stream.write_all(&message).expect("ovs-vswitchd reads what a controller sends");
    }

    fn nicira(&mut self, subtype: u32, body: &[u8]) {
        let head = [NICIRA.to_be_bytes(), subtype.to_be_bytes()].concat();
        self.send(kind::EXPERIMENTER, &[&head, body].concat());
    }

    /// Handles one message and returns its type.
    fn receive(&mut self) -> u8 {
        let head = self.read(8);
        let len = usize::from(u16::from_be_bytes([head[2], head[3]])) - 8;
        let body = self.read(len);
        match head[1] {
            kind::ECHO_REQUEST => self.send(kind::ECHO_REPLY, &body),
            kind::ERROR => panic!("ovs-vswitchd refuses what a controller sent: {body:02x?}"),
            kind::PORT_STATUS => self.port_changes += 1,
            kind::FLOW_REMOVED if self.flow_events => self.events.removed.push(flow_removed(&body)),
            kind::EXPERIMENTER
                if number(&body[..4]) == u64::from(NICIRA) && number(&body[4..8]) == u64::from(nicira::PACKET_IN2) =>
            {
                let event = packet_in(&body[8..]);
                if event.paused {
                    self.paused = Some(body[8..].to_vec());
                }
                self.events.packet_ins.push(event);
            }
            _ => {}
        }
        head[1]
    }

    fn read(&mut self, len: usize) -> Vec<u8> {
        let mut chunk = [0; 65536];
        while self.received.len() < len {
            let n = match self.stream.read(&mut chunk) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => hangs("a controller's connection"),
                n => n.expect("ovs-vswitchd answers a controller"),
            };
            assert!(n > 0, "ovs-vswitchd has closed a controller's connection");
            self.received.extend_from_slice(&chunk[..n]);
        }
        let rest = self.received.split_off(len);
        std::mem::replace(&mut self.received, rest)
    }
}

/// Big-endian bytes as a number.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Decodes `ofp_flow_removed` (OpenFlow 1.5.1, 7.4.4); its counters are a list of fields (OXS).
fn flow_removed(body: &[u8]) -> String {
    let reasons = ["idle", "hard", "delete", "group_delete", "meter_delete"];
    let reason = reasons.get(usize::from(body[1])).unwrap_or(&"other");
    let match_len = usize::from(u16::from_be_bytes([body[18], body[19]])).next_multiple_of(8);
    let mut stats = &body[16 + match_len + 4..];
    let mut counters = [0; 6];
    while stats.len() >= 4 {
        let (field, len) = (usize::from(stats[2] >> 1), usize::from(stats[3]));
        if let Some(counter) = counters.get_mut(field) {
            *counter = number(&stats[4..4 + len]);
        }
        stats = stats.get(4 + len..).unwrap_or_default();
    }
    format!(
        "cookie={:#x} table={} priority={} reason={reason} idle_timeout={} hard_timeout={} n_packets={} n_bytes={}",
        number(&body[8..16]),
        body[0],
        number(&body[2..4]),
        number(&body[4..6]),
        number(&body[6..8]),
        counters[4],
        counters[5],
    )
}

/// Decodes the properties of `NXT_PACKET_IN2` (nicira-ext.h).
fn packet_in(mut properties: &[u8]) -> PacketIn {
    let mut event = PacketIn { reason: "no_match".to_owned(), ..PacketIn::default() };
    while properties.len() >= 4 {
        let (kind, len) = (number(&properties[..2]), usize::try_from(number(&properties[2..4])).expect("16 bits"));
        let value = &properties[4..len];
        match kind {
            0 => event.packet = value.to_vec(),
            3 => event.table = value[0],
            4 => event.cookie = number(&value[value.len() - 8..]),
            5 => event.reason = reason(value[0]),
            6 => event.metadata = metadata(value),
            7 => event.userdata = value.to_vec(),
            8 => event.paused = true,
            _ => {}
        }
        properties = properties.get(len.next_multiple_of(8)..).unwrap_or_default();
    }
    event.without_quirks()
}

fn reason(code: u8) -> String {
    let names = ["no_match", "action", "invalid_ttl", "action_set", "group", "packet_out"];
    names.get(usize::from(code)).map_or_else(|| format!("reason {code}"), |name| (*name).to_owned())
}

/// Decodes OXM fields (`nx_put_raw`). Registers come as 32, 64 or 128 bits: here they are 32 each.
fn metadata(mut oxm: &[u8]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    while oxm.len() >= 4 {
        let class = u16::from_be_bytes([oxm[0], oxm[1]]);
        let (field, masked, len) = (oxm[2] >> 1, oxm[2] & 1 == 1, usize::from(oxm[3]));
        let value = &oxm[4..4 + len];
        let value = if masked { &value[..len / 2] } else { value };
        let registers = match (class, field) {
            (0x0001, 0..=15) => Some(usize::from(field)),
            (0x8001, 0..=7) => Some(usize::from(field) * 2),
            (0x0001, 111..=114) => Some(usize::from(field - 111) * 4),
            _ => None,
        };
        if let Some(first) = registers {
            for (i, word) in value.chunks(4).enumerate().filter(|(_, word)| number(word) != 0) {
                fields.insert(format!("reg{}", first + i), format!("{:#x}", number(word)));
            }
        } else {
            let text = value.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let text = text.trim_start_matches('0');
            fields.insert(name(class, field), format!("0x{}", if text.is_empty() { "0" } else { text }));
        }
        oxm = &oxm[4 + len..];
    }
    fields
}

fn name(class: u16, field: u8) -> String {
    let name = match (class, field) {
        (0x8000, 0) | (0x0000, 0) => "in_port",
        (0x8000, 2) => "metadata",
        (0x8000, 43) => "actset_output",
        (0x8000, 5) | (0x0000, 3) => "eth_type",
        (0x8000, 38) | (0x0001, 16) => "tun_id",
        (0x0001, 31) => "tun_src",
        (0x0001, 32) => "tun_dst",
        (0x0001, 33) => "pkt_mark",
        (0x0001, 105) => "ct_state",
        (0x0001, 106) => "ct_zone",
        (0x0001, 107) => "ct_mark",
        (0x0001, 108) => "ct_label",
        (0x0001, 119) => "ct_nw_proto",
        (0x0001, 120) => "ct_nw_src",
        (0x0001, 121) => "ct_nw_dst",
        (0x0001, 122) => "ct_ipv6_src",
        (0x0001, 123) => "ct_ipv6_dst",
        (0x0001, 124) => "ct_tp_src",
        (0x0001, 125) => "ct_tp_dst",
        (0x0001, 38) => "tun_gbp_id",
        (0x0001, 39) => "tun_gbp_flags",
        (0x0001, 40..=103) => return format!("tun_metadata{}", field - 40),
        (0x0001, 104) => "tun_flags",
        (0x0001, 109) => "tun_ipv6_src",
        (0x0001, 110) => "tun_ipv6_dst",
        _ => return format!("oxm_{class:04x}_{field}"),
    };
    name.to_owned()
}
