//! Messages of IPFIX (RFC 7011).
//!
//! **Design**: an [`Encoder`] is one transport session. It makes messages of templates and of
//! records, and counts records for the sequence numbers. There are two templates, one for each
//! family.
//!
//! **Limits**: a message has [`Encoder::new`]'s length at most. Texts of a record that does not fit
//! are cut.

use crate::Flow;
use crate::elements::{ELEMENTS, Family, Value};
use std::net::IpAddr;

/// Version of IPFIX.
const VERSION: u16 = 10;
/// Bytes of a set's header.
const SET_HEADER_LEN: usize = 4;
/// The set of templates.
const TEMPLATE_SET: u16 = 2;
/// The bit of an element that has an enterprise.
const ENTERPRISE_BIT: u16 = 0x8000;
/// Numbers of the templates, of IPv4 and of IPv6. Numbers below 256 are sets of IPFIX itself.
pub const TEMPLATES: [u16; 2] = [256, 257];

/// Bytes of a message on UDP: no packet is fragmented, whatever the tunnel on the way.
pub const DATAGRAM_LEN_MAX: usize = 1400;
/// Bytes of a message on TCP. Its length has 16 bits.
pub const STREAM_LEN_MAX: usize = 16_384;
/// Texts of a record have one of these lengths at most: the first with which the record fits.
const TEXT_LENS: [usize; 5] = [1024, 253, 128, 64, 16];

/// One transport session of an exporter.
#[derive(Clone, Debug)]
pub struct Encoder {
    domain: u32,
    len_max: usize,
    /// Records that were sent, as the next message's header has it.
    sequence: u32,
    shortened: u64,
}

impl Encoder {
    /// For messages of at most `len_max` bytes, 1,400 at least.
    #[must_use]
    pub fn new(domain: u32, len_max: usize) -> Self {
        Self { domain, len_max: len_max.clamp(DATAGRAM_LEN_MAX, usize::from(u16::MAX)), sequence: 0, shortened: 0 }
    }

    /// Records whose texts were cut.
    #[must_use]
    pub const fn shortened(&self) -> u64 {
        self.shortened
    }

    /// A message with both templates.
    #[must_use]
    pub fn templates(&self, unix_seconds: u32) -> Vec<u8> {
        let mut message = self.begin(unix_seconds);
        let mut set = Set::begin(&mut message, TEMPLATE_SET);
        // The values of some flow have the lengths of those of all.
        let none = Flow::new(IpAddr::from([0; 4]), IpAddr::from([0; 4]));
        for family in [Family::V4, Family::V6] {
            set.u16(TEMPLATES[family as usize]);
            set.u16(u16::try_from(ELEMENTS.len()).unwrap_or(u16::MAX));
            for element in &ELEMENTS {
                let bit = if element.enterprise == 0 { 0 } else { ENTERPRISE_BIT };
                set.u16(element.id(family) | bit);
                set.u16((element.value)(&none).declared_len(family));
                if element.enterprise != 0 {
                    set.bytes(&element.enterprise.to_be_bytes());
                }
            }
        }
        set.end();
        end(message)
    }

    /// A message with as many flows as fit, from the first one on. Returns how many these are: one
    /// at least, if there is one.
    pub fn records(&mut self, flows: &[Flow], unix_seconds: u32) -> (Vec<u8>, usize) {
        let mut message = self.begin(unix_seconds);
        let (mut count, mut family) = (0, None);
        let mut set_at = message.len();
        for flow in flows {
            let of_flow = Family::of(&flow.source);
            let is_new = family != Some(of_flow);
            let header = if is_new { SET_HEADER_LEN } else { 0 };
            let rest = self.len_max - message.len();
            let Some(record) = self.record(flow, of_flow, rest.saturating_sub(header), count == 0) else { break };
            if is_new {
                finish_set(&mut message, set_at);
                set_at = message.len();
                message.extend(TEMPLATES[of_flow as usize].to_be_bytes());
                message.extend([0; 2]);
                family = Some(of_flow);
            }
            message.extend(record);
            count += 1;
        }
        finish_set(&mut message, set_at);
        self.sequence = self.sequence.wrapping_add(u32::try_from(count).unwrap_or(u32::MAX));
        (end(message), count)
    }

    /// A record, if it has room. Texts are cut only where the record is alone.
    fn record(&mut self, flow: &Flow, family: Family, room: usize, is_alone: bool) -> Option<Vec<u8>> {
        for (step, text_len) in TEXT_LENS.into_iter().enumerate() {
            let record = encode(flow, family, text_len);
            if record.len() <= room {
                self.shortened += u64::from(step > 0);
                return Some(record);
            }
            if !is_alone {
                return None;
            }
        }
        None
    }

    fn begin(&self, unix_seconds: u32) -> Vec<u8> {
        let mut message = Vec::with_capacity(DATAGRAM_LEN_MAX);
        message.extend(VERSION.to_be_bytes());
        message.extend([0; 2]); // the length
        message.extend(unix_seconds.to_be_bytes());
        message.extend(self.sequence.to_be_bytes());
        message.extend(self.domain.to_be_bytes());
        message
    }
}

/// Writes a length into two bytes of a message.
fn write_len(message: &mut [u8], at: usize, len: usize) {
    // (No message is longer than its header can say.)
    let len = u16::try_from(len).unwrap_or(u16::MAX);
    message[at..at + 2].copy_from_slice(&len.to_be_bytes());
}

/// Writes the length of the set that began there, if one did.
fn finish_set(message: &mut [u8], begin: usize) {
    let len = message.len() - begin;
    if len > 0 {
        write_len(message, begin + 2, len);
    }
}

fn end(mut message: Vec<u8>) -> Vec<u8> {
    let len = message.len();
    write_len(&mut message, 2, len);
    message
}

/// A set that is written.
struct Set<'a> {
    message: &'a mut Vec<u8>,
    begin: usize,
}

impl<'a> Set<'a> {
    fn begin(message: &'a mut Vec<u8>, id: u16) -> Self {
        let begin = message.len();
        message.extend(id.to_be_bytes());
        message.extend([0; 2]);
        Self { message, begin }
    }

    fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.message.extend(bytes);
    }

    fn end(self) {
        finish_set(self.message, self.begin);
    }
}

fn encode(flow: &Flow, family: Family, text_len_max: usize) -> Vec<u8> {
    let mut record = Vec::with_capacity(512);
    for element in &ELEMENTS {
        match (element.value)(flow) {
            Value::U8(value) => record.push(value),
            Value::U16(value) => record.extend(value.to_be_bytes()),
            Value::U32(value) => record.extend(value.to_be_bytes()),
            Value::U64(value) => record.extend(value.to_be_bytes()),
            Value::Address(address) => match (family, address) {
                (Family::V4, Some(IpAddr::V4(address))) => record.extend(address.octets()),
                (Family::V4, _) => record.extend([0; 4]),
                (Family::V6, Some(IpAddr::V6(address))) => record.extend(address.octets()),
                (Family::V6, _) => record.extend([0; 16]),
            },
            Value::Text(text) => push_text(&mut record, text, text_len_max),
        }
    }
    record
}

/// A text with its length in front: one byte, or three for 255 bytes and more.
fn push_text(record: &mut Vec<u8>, text: &str, len_max: usize) {
    let text = &text[..text.floor_char_boundary(len_max)];
    match u8::try_from(text.len()) {
        Ok(len) if len < u8::MAX => record.push(len),
        _ => {
            record.push(u8::MAX);
            record.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    record.extend(text.as_bytes());
}

#[cfg(test)]
mod tests;
