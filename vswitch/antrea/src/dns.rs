//! DNS answers (RFC 1035), as Pods receive them: which addresses they give to the name that was
//! asked for.
//!
//! What is read was written by whoever answers, who may be anybody: everything is total. Names may
//! point to others only backwards, and all labels of a message are counted against one budget, so
//! that a message costs what its length is worth. Only the answer section counts, and in it only
//! what the question leads to: the name itself, and what CNAMEs of the same message lead on to.

mod assembly;
mod frame;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

pub use assembly::{Assembly, Put};

/// Labels that are looked at in one message. (A message of 64 KiB full of addresses, each with a
/// name of three labels in full, has 7,000.)
const LABELS_MAX: usize = 16_384;
/// Questions of one message. (There is one, everywhere.)
const QUESTIONS_MAX: usize = 4;
/// CNAMEs one after the other. Resolvers give up after 8 to 16.
const CHAIN_MAX: usize = 16;
/// CNAMEs of one message, whatever they are of.
const ALIASES_MAX: usize = 64;
/// Bytes of a name in a message (RFC 1035, 3.1).
const WIRE_NAME_MAX: usize = 255;

const HEADER_LEN: usize = 12;
const TYPE_A: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_AAAA: u16 = 28;
const CLASS_IN: u16 = 1;

/// What a message says of a name that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The name of the question: in lower case, without a dot at its end; bytes that no host name
    /// has are `\DDD`.
    pub name: String,
    /// Its addresses, each with the seconds that it holds: the least of all records that lead
    /// there.
    pub addresses: Vec<(IpAddr, u32)>,
}

/// Why a message says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is a question, or no query at all.
    NoAnswer,
    /// It ends too early, a length is wrong, or a name points nowhere.
    Malformed,
    /// More labels, questions or CNAMEs than anybody needs.
    TooMuch,
}

/// Reads a message. Of one that says that its end is missing (TC) what is whole counts. An error of
/// the server (SERVFAIL, NXDOMAIN, ...) has no addresses.
///
/// # Errors
/// When it is no answer, is malformed, or has too much in it.
pub fn read(message: &[u8]) -> Result<Vec<Answer>, Unreadable> {
    let mut reader = Reader { message, at: 2, labels: LABELS_MAX };
    let flags = reader.u16()?;
    let (questions, answers) = (reader.u16()?, reader.u16()?);
    reader.at = HEADER_LEN;
    let (is_answer, opcode, is_cut, code) = (flags >> 15 == 1, flags >> 11 & 0xf, flags >> 9 & 1 == 1, flags & 0xf);
    if message.len() < HEADER_LEN {
        return Err(Unreadable::Malformed);
    }
    if !is_answer || opcode != 0 {
        return Err(Unreadable::NoAnswer);
    }
    if usize::from(questions) > QUESTIONS_MAX {
        return Err(Unreadable::TooMuch);
    }
    let mut asked: Vec<Name> = Vec::new();
    for _ in 0..questions {
        let name = reader.name()?;
        let (_kind, class) = (reader.u16()?, reader.u16()?);
        if class == CLASS_IN && !asked.contains(&name) {
            asked.push(name);
        }
    }
    let mut records = Records::default();
    for _ in 0..answers {
        match reader.record() {
            Ok(None) => {}
            Ok(Some((owner, ttl, Data::Address(address)))) => records.addresses.push((owner, ttl, address)),
            Ok(Some((owner, ttl, Data::Alias(target)))) => records.aliases.push((owner, ttl, target)),
            Err(Unreadable::Malformed) if is_cut => break,
            Err(error) => return Err(error),
        }
        if records.aliases.len() > ALIASES_MAX {
            return Err(Unreadable::TooMuch);
        }
    }
    if code != 0 {
        records = Records::default();
    }
    Ok(asked.into_iter().map(|name| answer(&name, &records)).collect())
}

/// A name as its labels are in messages, uncompressed and in lower case.
type Name = Vec<u8>;

/// Records of a message that matter: owner, TTL, what it has.
#[derive(Debug, Default)]
struct Records {
    addresses: Vec<(Name, u32, IpAddr)>,
    aliases: Vec<(Name, u32, Name)>,
}

#[derive(Debug)]
enum Data {
    Address(IpAddr),
    Alias(Name),
}

/// What records say of a name.
fn answer(name: &Name, records: &Records) -> Answer {
    // Names that it leads to, with the least TTL on the way. CNAMEs are in order, nearly always:
    // one pass finds them all.
    let mut led: Vec<(&Name, u32)> = vec![(name, u32::MAX)];
    for _ in 0..CHAIN_MAX {
        let before = led.len();
        for (owner, ttl, target) in &records.aliases {
            let from = led.iter().find(|(there, _)| *there == owner).map(|(_, least)| (*ttl).min(*least));
            let is_new = led.len() <= CHAIN_MAX && !led.iter().any(|(there, _)| *there == target);
            led.extend(from.filter(|_| is_new).map(|least| (target, least)));
        }
        if led.len() == before {
            break;
        }
    }
    let ttl_by = |owner: &Name| led.iter().find(|(there, _)| *there == owner).map(|(_, least)| *least);
    let addresses = records.addresses.iter();
    let addresses = addresses.filter_map(|(owner, ttl, address)| Some((*address, (*ttl).min(ttl_by(owner)?))));
    Answer { name: text(name), addresses: addresses.collect() }
}

/// A name as people write it (RFC 1035, 5.1): a dot within a label must not look like one between
/// labels.
fn text(name: &Name) -> String {
    let mut text = String::with_capacity(name.len());
    let mut rest = name.as_slice();
    while let Some((length, after)) = rest.split_first() {
        let (label, next) = after.split_at_checked(usize::from(*length)).unwrap_or((after, &[]));
        if !text.is_empty() {
            text.push('.');
        }
        for byte in label {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
                text.push(char::from(*byte));
            } else {
                text.push_str(&format!("\\{byte:03}"));
            }
        }
        rest = next;
    }
    text
}

/// A message, and how far it is read.
struct Reader<'a> {
    message: &'a [u8],
    at: usize,
    /// Labels that may still be looked at.
    labels: usize,
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], Unreadable> {
        let end = self.at.checked_add(len).ok_or(Unreadable::Malformed)?;
        let bytes = self.message.get(self.at..end).ok_or(Unreadable::Malformed)?;
        self.at = end;
        Ok(bytes)
    }

    fn u16(&mut self) -> Result<u16, Unreadable> {
        let bytes = self.bytes(2)?;
        bytes.try_into().map(u16::from_be_bytes).map_err(|_| Unreadable::Malformed)
    }

    fn u32(&mut self) -> Result<u32, Unreadable> {
        let bytes = self.bytes(4)?;
        bytes.try_into().map(u32::from_be_bytes).map_err(|_| Unreadable::Malformed)
    }

    /// A name, and what it points to; goes on behind it.
    fn name(&mut self) -> Result<Name, Unreadable> {
        let mut name = Name::new();
        let mut behind = None;
        // A pointer leads to before the place where what it continues began: so there is an end.
        let mut floor = self.at;
        loop {
            self.labels = self.labels.checked_sub(1).ok_or(Unreadable::TooMuch)?;
            let length = *self.bytes(1)?.first().ok_or(Unreadable::Malformed)?;
            match length {
                0 => break,
                1..=63 => {
                    name.push(length);
                    name.extend(self.bytes(length.into())?.iter().map(u8::to_ascii_lowercase));
                    // With the 0 at its end.
                    if name.len() >= WIRE_NAME_MAX {
                        return Err(Unreadable::Malformed);
                    }
                }
                0xc0.. => {
                    let low = *self.bytes(1)?.first().ok_or(Unreadable::Malformed)?;
                    let target = usize::from(u16::from_be_bytes([length & 0x3f, low]));
                    behind = behind.or(Some(self.at));
                    if !(HEADER_LEN..floor).contains(&target) {
                        return Err(Unreadable::Malformed);
                    }
                    (floor, self.at) = (target, target);
                }
                _ => return Err(Unreadable::Malformed),
            }
        }
        self.at = behind.unwrap_or(self.at);
        Ok(name)
    }

    /// A record; None: one that does not matter.
    fn record(&mut self) -> Result<Option<(Name, u32, Data)>, Unreadable> {
        let owner = self.name()?;
        let (kind, class, ttl, len) = (self.u16()?, self.u16()?, self.u32()?, self.u16()?);
        let begin = self.at;
        let data = self.bytes(len.into())?;
        let end = self.at;
        let data = match (class, kind) {
            (CLASS_IN, TYPE_A) => Data::Address(IpAddr::from(*data.as_array::<4>().ok_or(Unreadable::Malformed)?)),
            (CLASS_IN, TYPE_AAAA) => Data::Address(IpAddr::from(*data.as_array::<16>().ok_or(Unreadable::Malformed)?)),
            (CLASS_IN, TYPE_CNAME) => {
                self.at = begin;
                let target = self.name()?;
                if self.at != end {
                    return Err(Unreadable::Malformed);
                }
                Data::Alias(target)
            }
            _ => return Ok(None),
        };
        // RFC 2181, 8: one with the highest bit is 0.
        let ttl = if ttl >> 31 == 1 { 0 } else { ttl };
        Ok(Some((owner, ttl, data)))
    }
}
