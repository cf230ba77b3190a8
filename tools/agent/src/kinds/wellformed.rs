//! Texts that are addresses, prefixes, MAC addresses, names of ports: what the switch would refuse,
//! and the whole object with it, is told of its entry.

use crate::source::FieldError;
use std::net::IpAddr;

/// What the address of a host is called.
pub(super) const ADDRESS: &str = "address that one may have";

/// Whether a host may have this address.
pub fn is_host(text: &str) -> bool {
    let Ok(address) = text.parse::<IpAddr>() else { return false };
    let is_of_link = match address {
        IpAddr::V4(v4) => v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some(),
    };
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_of_link)
}

/// Whether it is an address with the length of its link's prefix.
pub(super) fn is_with_length(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, _)| is_host(address)) && is_prefix(text)
}

/// Whether it is a prefix; bits behind its length may be set.
pub(super) fn is_prefix(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_none() => 128,
        _ => return false,
    };
    let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
    is_number && length.parse::<u32>().is_ok_and(|length| length <= most)
}

/// Whether it is any address.
pub(super) fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Whether it is the MAC address of one station: `02:00:00:00:00:01`.
pub(super) fn is_mac(text: &str) -> bool {
    let is_octet = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_of_one = |part: &str| u8::from_str_radix(part, 16).is_ok_and(|octet| octet & 1 == 0);
    let parts: Vec<&str> = text.split(':').collect();
    parts.len() == 6 && parts.iter().all(|part| is_octet(part)) && is_of_one(parts[0])
}

/// Whether it is a protocol of ports.
pub(super) fn is_protocol(word: &str) -> bool {
    ["TCP", "UDP", "SCTP"].contains(&word)
}

/// What Kubernetes refuses in a port's number and protocol. `number` is the field of the former.
pub(super) fn wrong_port(path: &str, number: &str, port: u16, protocol: Option<&str>) -> Option<FieldError> {
    if port == 0 {
        return Some(FieldError::new(0, &format!("{path}.{number}"), "0 is no port, which is 1 to 65535"));
    }
    let word = protocol.filter(|word| !is_protocol(word))?;
    let reason = format!("{word:?} is not one of TCP, UDP, SCTP");
    Some(FieldError::new(0, &format!("{path}.protocol"), reason))
}

/// Whether a text is the name of a port, as Kubernetes takes it: a number is none.
pub fn is_port_name(name: &str) -> bool {
    let is_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_part = |part: &str| !part.is_empty();
    name.len() <= 15
        && name.chars().all(is_char)
        && name.split('-').all(is_part)
        && name.contains(|c: char| c.is_ascii_lowercase())
}

/// Whether an object may have this name: labels of a domain, with dots between them.
pub fn is_domain(domain: &str) -> bool {
    let is_edge = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(|c| is_edge(*c))
            && bytes.last().is_some_and(|c| is_edge(*c))
            && bytes.iter().all(|c| is_edge(*c) || *c == b'-')
    };
    domain.len() <= 253 && domain.split('.').all(is_label)
}

/// Whether a Namespace or a Service may have this name: that of one label of a domain.
pub(super) fn is_domain_label(name: &str) -> bool {
    name.len() <= 63 && !name.contains('.') && is_domain(name)
}

/// Whether a label may have this key: a name, or the name of a domain, a slash and a name.
pub fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((domain, name)) => is_domain(domain) && is_word(name),
        None => is_word(key),
    }
}

/// Whether a label may have this value.
pub fn is_value(value: &str) -> bool {
    value.is_empty() || is_word(value)
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_char = |c: &u8| c.is_ascii_alphanumeric() || b"-_.".contains(c);
    let is_edge = |c: Option<&u8>| c.is_some_and(u8::is_ascii_alphanumeric);
    text.len() <= 63 && is_edge(bytes.first()) && is_edge(bytes.last()) && bytes.iter().all(is_char)
}

/// Texts of a list that are not what they are to be.
pub(super) fn list<'a>(
    path: &str,
    texts: impl IntoIterator<Item = &'a String>,
    is_right: fn(&str) -> bool,
    what: &str,
) -> Vec<FieldError> {
    let texts = texts.into_iter().enumerate();
    let wrong = texts.filter(|(_, text)| !is_right(text));
    wrong.map(|(place, text)| error(&format!("{path}[{place}]"), text, what)).collect()
}

/// The error of a text that is not what it is to be.
pub(super) fn error(path: &str, text: &str, what: &str) -> FieldError {
    FieldError::new(0, path, format!("{text:?} is no {what}"))
}
