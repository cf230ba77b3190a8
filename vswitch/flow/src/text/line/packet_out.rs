//! Packet-outs.

use super::Line;
use crate::action::{ListPlace, PortNo, port};
use crate::text::actions::Parser;
use crate::text::scan::{Token, Tokens};
use crate::text::{Names, Parsed, TextError, field_by_name, parse_value};
use crate::{Action, Field, FlowKey, Refusal};

/// `in_port=36,packet=HEX,actions=...` of packet-out (and metadata fields before `actions`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// Where the packet seems to come from, and the other metadata that it starts with.
    pub metadata: FlowKey,
    /// The packet, at least an Ethernet header.
    pub packet: Vec<u8>,
    /// What to do with it. Empty: drop.
    pub actions: Vec<Action>,
}

/// Shortest packet: an Ethernet header.
const MIN_PACKET: usize = 14;

impl PacketOut {
    /// Where a packet comes from that is given no in_port.
    pub const IN_PORT: PortNo = port::CONTROLLER;

    /// A value of the metadata that a packet is given, as the packet has it: ports in 32 bits.
    ///
    /// # Errors
    /// When a packet cannot be given the field, or no packet comes from the port.
    pub fn metadata(field: Field, value: u128) -> Result<u128, Refusal> {
        if !is_pipeline(field) {
            let refusal = Refusal::new("", format!("{} cannot be given to a packet", field.name()));
            return Err(refusal
                .hint("in_port, metadata, registers and tunnel fields can; set others with actions")
                .field(""));
        }
        if field != Field::InPort {
            return Ok(value);
        }
        match port::from_number(value) {
            Some(port) if port::is_physical(port) || matches!(port, port::LOCAL | port::CONTROLLER | port::NONE) => {
                Ok(port.into())
            }
            _ => {
                let refusal = Refusal::new("OFPBRC_BAD_PORT", format!("no packet comes from port {value:#x}"));
                Err(refusal.hint("a port's number or name, LOCAL, CONTROLLER or NONE").field("in_port"))
            }
        }
    }

    /// Whether a packet is one.
    ///
    /// # Errors
    /// When it has no Ethernet header.
    pub fn check(packet: &[u8]) -> Result<(), Refusal> {
        if packet.len() >= MIN_PACKET {
            return Ok(());
        }
        let refusal = Refusal::new("", format!("a packet of {} bytes has no Ethernet header", packet.len()));
        Err(refusal.hint(format!("at least {MIN_PACKET} bytes")).field("packet"))
    }
}

/// See [`PacketOut`]. Without `in_port` it is CONTROLLER.
///
/// # Errors
/// With the column.
pub fn parse_packet_out(line: &str, names: &dyn Names) -> Result<Parsed<PacketOut>, TextError> {
    let line = Line::new(line, names)?;
    let source = line.source;
    let mut out = PacketOut { metadata: FlowKey::default(), packet: Vec::new(), actions: Vec::new() };
    out.metadata.set(Field::InPort, PacketOut::IN_PORT.into());
    let mut warnings = Vec::new();
    let mut tokens = Tokens::new(source, source.0);
    while let Some(token) = tokens.next()? {
        match token.key {
            "actions" | "action" => {
                let text = super::filter::actions_text(&line, &token, &tokens)?;
                let mut parser = Parser::new(source, names);
                let actions = parser.list(text)?;
                warnings.append(&mut parser.warnings);
                out.actions = line.accept(text, actions, None, ListPlace::PacketOut)?;
                break;
            }
            "packet" => out.packet = packet(&line, &token)?,
            "packet_type" => {}
            _ => metadata(&line, &token, &mut out.metadata)?,
        }
    }
    if out.packet.is_empty() {
        let error = source.error(source.0, "there is no packet before the actions");
        return Err(error.hint("in_port=PORT,packet=HEX,actions=...").field("packet"));
    }
    Ok(Parsed { value: out, warnings })
}

fn packet(line: &Line<'_>, token: &Token<'_>) -> Result<Vec<u8>, TextError> {
    let text = line.value(token)?;
    let packet = Parser::new(line.source, line.names).hex(text)?;
    line.source.judged(text, PacketOut::check(&packet))?;
    Ok(packet)
}

fn metadata(line: &Line<'_>, token: &Token<'_>, key: &mut FlowKey) -> Result<(), TextError> {
    let source = line.source;
    let Some(field) = field_by_name(token.key) else {
        let words = crate::field::names().chain(["packet", "actions"]).collect::<Vec<_>>();
        return Err(source.unknown(token.key, "field or keyword", words));
    };
    let judged = |at, rule: Result<u128, Refusal>| rule.map_err(|refusal| source.refused(at, refusal).field(token.key));
    judged(token.key, PacketOut::metadata(field, 0))?;
    let text = line.value(token)?;
    let (value, mask) = parse_value(field, text, line.names).map_err(|error| source.within(text, error))?;
    let value = judged(text, PacketOut::metadata(field, value))?;
    key.set_masked(field, value, mask);
    Ok(())
}

/// Whether a packet has a field before anybody has looked at it.
const fn is_pipeline(field: Field) -> bool {
    use Field as F;
    let number = field as u8;
    matches!(field, F::Metadata | F::InPort)
        || number >= F::Reg0 as u8 && number <= F::Xxreg3 as u8
        || number >= F::TunId as u8 && number <= F::TunTtl as u8
        || number >= F::TunMetadata0 as u8 && number <= F::TunMetadata7 as u8
}
