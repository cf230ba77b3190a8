//! What FTP's control connection says about the next data connection: `PORT` and the answer 227
//! (RFC 959), `EPRT` and the answer 229 (RFC 2428).
//!
//! A message is read in one segment, at its start, in its first [`READ_MAX`] bytes, as Open vSwitch
//! does; nothing is put together from several segments. All bytes are hostile.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use vswitch_conntrack::Family;

/// Bytes of a segment that are read.
pub(super) const READ_MAX: usize = 128;

/// What a segment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// Nothing about data connections.
    Other,
    /// Something about one that nobody understands.
    Malformed,
    /// Where whoever sent it waits for one.
    Announced(Announced),
}

/// Where somebody waits for a data connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Announced {
    /// Port.
    pub(super) port: u16,
    /// The address, if one is named.
    pub(super) address: Option<Address>,
}

/// An address in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// As a number.
    pub(super) addr: u128,
    /// Bytes of the text.
    pub(super) at: Range<usize>,
    /// Numbers with commas (`PORT`, 227), or as everybody writes it.
    pub(super) commas: bool,
}

/// Reads the start of a segment. Of a connection over IPv4 a strange `EPRT` or 229 is nothing: Open
/// vSwitch reads neither there.
pub(super) fn read(bytes: &[u8], family: Family) -> Text {
    let bytes = &bytes[..bytes.len().min(READ_MAX)];
    let starts = |with: &[u8]| bytes.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    let v4 = family == Family::V4;
    let (announced, else_) = if v4 && (starts(b"PORT") || starts(b"227")) {
        (port(bytes, if starts(b"227") { 3 } else { 4 }), Text::Malformed)
    } else if starts(b"EPRT") {
        (eprt(bytes, family), if v4 { Text::Other } else { Text::Malformed })
    } else if starts(b"229") {
        (epsv(bytes), if v4 { Text::Other } else { Text::Malformed })
    } else {
        return Text::Other;
    };
    announced.map_or(else_, Text::Announced)
}

/// `h1,h2,h3,h4,p1,p2`: what begins with the first digit behind the first space behind `from`.
fn port(bytes: &[u8], from: usize) -> Option<Announced> {
    let space = from + bytes.get(from..)?.iter().position(|&byte| byte == b' ')?;
    let start = space + bytes[space..].iter().position(u8::is_ascii_digit)?;
    let (mut numbers, mut at, mut end) = ([0; 6], start, start);
    for (i, number) in numbers.iter_mut().enumerate() {
        if i > 0 {
            at += 1;
        }
        let (value, digits) = decimal(&bytes[at..])?;
        // Leading zeros would make an address that others read as octal.
        if digits > 3 || i < 4 && digits > 1 && bytes[at] == b'0' {
            return None;
        }
        *number = u8::try_from(value).ok()?;
        at += digits;
        if i == 3 {
            end = at;
        }
        // Behind the last one anything but a digit: more digits may follow in another segment.
        let next = *bytes.get(at)?;
        if i < 5 && next != b',' {
            return None;
        }
    }
    let [a, b, c, d, high, low] = numbers;
    let address = Address { addr: u32::from_be_bytes([a, b, c, d]).into(), at: start..end, commas: true };
    Some(Announced { port: u16::from_be_bytes([high, low]), address: Some(address) })
}

/// `EPRT |1|10.0.0.1|6446|`, with any delimiter.
fn eprt(bytes: &[u8], family: Family) -> Option<Announced> {
    let start = 4 + bytes[4..].iter().position(|&byte| byte != b' ')?;
    let delimiter = delimiter(bytes[start])?;
    let mut fields = bytes[start + 1..].split(|&byte| byte == delimiter);
    let (number, text, port) = (fields.next()?, fields.next()?, fields.next()?);
    fields.next()?;
    let addr: u128 = match (family, number) {
        (Family::V4, b"1") => u32::from(str::from_utf8(text).ok()?.parse::<Ipv4Addr>().ok()?).into(),
        (Family::V6, b"2") => str::from_utf8(text).ok()?.parse::<Ipv6Addr>().ok()?.into(),
        _ => return None,
    };
    let at = start + 1 + number.len() + 1;
    let address = Address { addr, at: at..at + text.len(), commas: false };
    Some(Announced { port: whole_port(port)?, address: Some(address) })
}

/// `229 Entering Extended Passive Mode (|||6446|)`, with any delimiter.
fn epsv(bytes: &[u8]) -> Option<Announced> {
    let open = bytes.iter().position(|&byte| byte == b'(')?;
    let (&first, rest) = bytes[open + 1..].split_first()?;
    let delimiter = delimiter(first)?;
    let rest = rest.strip_prefix(&[delimiter, delimiter])?;
    let port = &rest[..rest.iter().position(|&byte| byte == delimiter)?];
    Some(Announced { port: whole_port(port)?, address: None })
}

/// RFC 2428: a printable character; no digit, for it would stand in the port.
fn delimiter(byte: u8) -> Option<u8> {
    (byte.is_ascii_graphic() && !byte.is_ascii_digit()).then_some(byte)
}

fn whole_port(text: &[u8]) -> Option<u16> {
    let (value, digits) = decimal(text)?;
    u16::try_from(value).ok().filter(|_| digits == text.len())
}

/// The number that a text begins with, and its digits: five at most.
fn decimal(text: &[u8]) -> Option<(u32, usize)> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = text[..digits].iter().take(6).fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
    (1..=5).contains(&digits).then_some((value, digits))
}

/// Writes an address as text, and returns that.
pub(super) fn write(addr: u128, family: Family, commas: bool, to: &mut [u8; READ_MAX]) -> Option<&[u8]> {
    use std::io::Write;
    let mut left = &mut to[..];
    #[allow(clippy::cast_possible_truncation)] // IPv4 lies in the low half
    let addr = match family {
        Family::V4 => IpAddr::from(Ipv4Addr::from(addr as u32)),
        Family::V6 => IpAddr::from(Ipv6Addr::from(addr)),
    };
    write!(left, "{addr}").ok()?;
    let len = READ_MAX - left.len();
    let text = &mut to[..len];
    if commas {
        text.iter_mut().filter(|byte| **byte == b'.').for_each(|byte| *byte = b',');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn announced(text: &str, family: Family) -> Option<(u16, Option<(u128, String)>)> {
        match read(text.as_bytes(), family) {
            Text::Announced(Announced { port, address }) => {
                Some((port, address.map(|address| (address.addr, text[address.at].to_owned()))))
            }
            _ => None,
        }
    }

    #[test]
    fn well_formed_messages_are_read() {
        let v4 = |text: &str| Some((0x0a00_0001, text.to_owned()));
        for (text, port, address) in [
            ("PORT 10,0,0,1,4,5\r\n", 1029, v4("10,0,0,1")),
            ("port  10,0,0,1,255,255\r\n", 65535, v4("10,0,0,1")),
            ("227 Entering Passive Mode (10,0,0,1,0,021).\r\n", 21, v4("10,0,0,1")),
            ("227 =10,0,0,1,4,5\n", 1029, v4("10,0,0,1")),
            ("EPRT |1|10.0.0.1|6446|\r\n", 6446, v4("10.0.0.1")),
            ("229 Entering Extended Passive Mode (|||6446|)\r\n", 6446, None),
            ("229 (!!!1!", 1, None),
        ] {
            assert_eq!(announced(text, Family::V4), Some((port, address)), "{text:?}");
        }
        let addr = Ipv6Addr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]).into();
        let address = Some((addr, "fd00::1".to_owned()));
        assert_eq!(announced("eprt |2|fd00::1|65535|\r\n", Family::V6), Some((65535, address)));
        assert_eq!(announced("229 x (|||7|)\r\n", Family::V6), Some((7, None)));
    }

    #[test]
    fn everything_else_is_malformed_or_nothing() {
        for text in [
            "PORT",
            "PORT ",
            "PORT x",
            "PORT10,0,0,1,4,5\r\n",
            "PORT 10,0,0,1,4",
            "PORT 10,0,0,1,4,",
            "PORT 10,0,0,1,4,5",
            "PORT 256,0,0,1,4,5\r\n",
            "PORT 10,0,0,1,256,5\r\n",
            "PORT 10,0,0,1,4,256\r\n",
            "PORT 10,0,0,01,4,5\r\n",
            "PORT 10.0.0.1,4,5\r\n",
            "PORT 10,0,,1,4,5\r\n",
            "PORT 10,0,0,1,0004,5\r\n",
            "PORT 99999999999999999999,0,0,1,4,5\r\n",
            "227 Entering 7 (10,0,0,1,4,5)\r\n",
            "227",
        ] {
            assert_eq!(read(text.as_bytes(), Family::V4), Text::Malformed, "{text:?}");
        }
        for text in
            ["", "POR", "NOOP\r\nPORT 10,0,0,1,4,5\r\n", "EPRT |2|fd00::1|7|\r\n", "EPRT", "229", "229 (||7|)", "22"]
        {
            assert_eq!(read(text.as_bytes(), Family::V4), Text::Other, "{text:?}");
        }
        for text in [
            "EPRT |1|10.0.0.1|7|\r\n",
            "EPRT |2|fd00::1|65536|\r\n",
            "EPRT |2|fd00::g|7|\r\n",
            "EPRT |2|fd00::1|7",
            "EPRT  ",
            "EPRT 121fd00::1117171",
            "EPRT |2|fd00::1||",
            "229 (|||7",
            "229 (|||x|)",
            "229 (||7|)",
            "229 (",
            "229 (|x|7|)",
        ] {
            assert_eq!(read(text.as_bytes(), Family::V6), Text::Malformed, "{text:?}");
        }
        assert_eq!(read(b"PORT 10,0,0,1,4,5\r\n", Family::V6), Text::Other);
        let late = format!("PORT {}10,0,0,1,4,5\r\n", " ".repeat(READ_MAX));
        assert_eq!(read(late.as_bytes(), Family::V4), Text::Malformed);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_and_addresses_read_back(
            verb in prop::sample::select(vec!["PORT ", "227 (", "EPRT |", "229 (|", "EPRT |2|", ""]),
            rest in prop_oneof![proptest::collection::vec(any::<u8>(), 0..200), "[0-9,|.:() ]{0,60}".prop_map(Vec::from)],
            addr in any::<u128>(),
        ) {
            let bytes = [verb.as_bytes(), &rest].concat();
            for (family, addr) in [(Family::V4, addr & 0xffff_ffff), (Family::V6, addr)] {
                if let Text::Announced(Announced { address: Some(address), .. }) = read(&bytes, family) {
                    prop_assert!(address.at.end < bytes.len().min(READ_MAX), "{:?}", address);
                }
                let mut buffer = [0; READ_MAX];
                let number = if family == Family::V4 { "1" } else { "2" };
                let text = str::from_utf8(write(addr, family, false, &mut buffer).unwrap()).unwrap().to_owned();
                let message = format!("EPRT |{number}|{text}|7|\r\n");
                prop_assert_eq!(announced(&message, family), Some((7, Some((addr, text)))));
            }
        }
    }
}
