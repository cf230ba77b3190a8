//! Addresses and prefixes, as far as the agent has to look into them; the switch judges them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is of IPv6. What is no address is told by the switch.
pub fn is_six(address: &str) -> bool {
    address.contains(':')
}

/// A prefix without bits behind its length; None: it is no prefix.
pub fn prefix(text: &str) -> Option<String> {
    let (address, length) = text.split_once('/')?;
    let length: u32 = if length.starts_with('+') { return None } else { length.parse().ok()? };
    Some(format!("{}/{length}", front(address.parse().ok()?, length)?))
}

/// The first `length` bits of an address, the others 0; None: it has fewer.
fn front(address: IpAddr, length: u32) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) if length <= 32 => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            Some(IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask)))
        }
        IpAddr::V6(address) if length <= 128 => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            Some(IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask)))
        }
        _ => None,
    }
}

/// The first address behind a prefix's own: where its Node's gateway is.
pub fn first_address(cidr: &str) -> Option<String> {
    let prefix = prefix(cidr)?;
    let (address, _) = prefix.split_once('/')?;
    Some(match address.parse().ok()? {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits().checked_add(1)?).to_string(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits().checked_add(1)?).to_string(),
    })
}

/// A name of hosts, in which `*` stands for any characters, in lower case and without a final dot;
/// None: it is none.
pub fn name_pattern(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        let is_char = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'*');
        (1..=63).contains(&label.len()) && label.bytes().all(is_char)
    };
    (name.len() <= 253 && name.split('.').all(is_label)).then(|| name.to_ascii_lowercase())
}

/// Whether all addresses of a prefix are of another, which has more.
pub fn is_within(inner: &str, outer: &str) -> bool {
    let parts = |text: &str| {
        let (address, length) = text.split_once('/')?;
        Some((address.parse::<IpAddr>().ok()?, length.parse::<u32>().ok()?))
    };
    let (Some((inner, inner_len)), Some((outer, len))) = (parts(inner), parts(outer)) else { return false };
    len < inner_len && front(inner, len).is_some_and(|inner| front(outer, len) == Some(inner))
}

/// Whether an address is of a prefix.
pub fn contains(cidr: &str, address: IpAddr) -> bool {
    let parts = cidr.split_once('/').and_then(|(first, length)| Some((first.parse().ok()?, length.parse().ok()?)));
    let Some((first, length)) = parts else { return false };
    let in_front = front(address, length);
    in_front.is_some() && in_front == front(first, length)
}

/// Addresses or prefixes, each once, in whatever form it is written.
pub fn once(all: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    let form = |text: &String| {
        let (address, length) = text.split_once('/').unwrap_or((text.as_str(), ""));
        address.parse::<IpAddr>().map_or_else(|_| text.clone(), |address| format!("{address}/{length}"))
    };
    all.into_iter().filter(|text| seen.insert(form(text))).collect()
}

/// A MAC address made of an address: locally administered, and the same for the same address.
pub fn mac_of(address: IpAddr) -> String {
    let (kind, [a, b, c, d]) = match address {
        IpAddr::V4(four) => (0x58, four.octets()),
        // FNV-1a, 32 bits
        IpAddr::V6(six) => {
            let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
            (0x59, six.octets().into_iter().fold(0x811c_9dc5, hash).to_be_bytes())
        }
    };
    format!("0a:{kind:02x}:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

/// The bytes of a MAC address: `02:00:00:00:00:01`.
pub fn mac(text: &str) -> Option<Vec<u8>> {
    let is_octet = |part: &str| part.len() == 2 && part.chars().all(|c| c.is_ascii_hexdigit());
    let octet = |part: &str| is_octet(part).then(|| u8::from_str_radix(part, 16).ok()).flatten();
    let octets: Option<Vec<u8>> = text.split(':').map(octet).collect();
    octets.filter(|octets| octets.len() == 6)
}

/// Thousands of bits of a quantity of bits as Kubernetes writes it: `500k`, `10M`, `1Gi`. At least
/// 1.
pub fn kilobits(quantity: &str) -> Option<u32> {
    let digits = quantity.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match &quantity[digits.len()..] {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let bits = digits.parse::<u64>().ok()?.checked_mul(factor)?;
    u32::try_from(bits.div_ceil(1000)).ok().filter(|kilobits| *kilobits > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_lose_their_host_bits() {
        for (text, expected) in [
            ("10.0.0.5/24", Some("10.0.0.0/24")),
            ("10.0.0.5/32", Some("10.0.0.5/32")),
            ("1.2.3.4/0", Some("0.0.0.0/0")),
            ("fd00::18/64", Some("fd00::/64")),
            ("::1/0", Some("::/0")),
            ("10.0.0.5/33", None),
            ("10.0.0.5", None),
            ("10.0.0/8", None),
            ("x/8", None),
            ("10.0.0.0/+8", None),
            ("10.0.0.0/-1", None),
        ] {
            assert_eq!(prefix(text).as_deref(), expected, "{text}");
        }
        assert_eq!(first_address("10.10.1.0/24").as_deref(), Some("10.10.1.1"));
        assert_eq!(first_address("fd00:10:10:1::/64").as_deref(), Some("fd00:10:10:1::1"));
    }

    #[test]
    fn prefixes_within_others() {
        for (inner, outer, expected) in [
            ("10.1.0.0/16", "10.0.0.0/8", true),
            ("10.0.0.0/8", "10.0.0.0/8", false),
            ("10.0.0.0/7", "10.0.0.0/8", false),
            ("11.0.0.0/16", "10.0.0.0/8", false),
            ("11.0.0.0/16", "0.0.0.0/0", true),
            ("fd00::/64", "fd00::/8", true),
            ("fd00::/64", "fc00::/8", false),
            ("::1/128", "::/0", true),
            ("10.1.0.0/16", "::/0", false),
        ] {
            assert_eq!(is_within(inner, outer), expected, "{inner} in {outer}");
        }
        for (cidr, address, expected) in [
            ("10.1.0.0/16", "10.1.2.3", true),
            ("10.1.0.0/16", "10.2.2.3", false),
            ("0.0.0.0/0", "10.2.2.3", true),
            ("0.0.0.0/0", "fd00::1", false),
            ("fd00::/64", "fd00::1", true),
            ("fd00::/64", "fd00:0:0:1::1", false),
            ("10.1.2.3", "10.1.2.3", false),
            ("x/8", "10.1.2.3", false),
        ] {
            assert_eq!(contains(cidr, address.parse().expect("an address")), expected, "{address} in {cidr}");
        }
        let all = ["fd00::1", "fd00:0::1", "10.0.0.1", "10.0.0.1", "x", "x"].map(str::to_owned).to_vec();
        assert_eq!(once(all), ["fd00::1", "10.0.0.1", "x"]);
    }

    #[test]
    fn patterns_of_names() {
        for (text, expected) in [
            ("A.b", Some("a.b")),
            ("x.com.", Some("x.com")),
            ("*", Some("*")),
            ("*foobar.com", Some("*foobar.com")),
            ("www.*.com", Some("www.*.com")),
            ("Foo*.bar.com", Some("foo*.bar.com")),
            ("*.*.x", Some("*.*.x")),
            ("", None),
            (".", None),
            ("a..b", None),
            ("a b", None),
            ("a.b..", None),
        ] {
            assert_eq!(name_pattern(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn macs_and_quantities() {
        let of = |text: &str| mac_of(text.parse().expect("an address"));
        assert_eq!(of("10.10.0.1"), "0a:58:0a:0a:00:01");
        assert_ne!(of("fd00::1"), of("fd00::2"));
        assert!(mac(&of("fd00::1")).is_some() && of("fd00::1").starts_with("0a:59:"));
        assert_eq!(mac("fa:b7:53:74:21:a6"), Some(vec![0xfa, 0xb7, 0x53, 0x74, 0x21, 0xa6]));
        for bad in [
            "",
            "fa:b7:53:74:21",
            "fa:b7:53:74:21:a6:00",
            "fa:b7:53:74:21:g6",
            "fa:b7:53:74:21:+6",
            "fa-b7-53-74-21-a6",
        ] {
            assert_eq!(mac(bad), None, "{bad}");
        }
        for (text, expected) in [
            ("500k", Some(500)),
            ("10M", Some(10_000)),
            ("1Ki", Some(2)),
            ("1", Some(1)),
            ("0", None),
            ("x", None),
            ("5X", None),
            ("99999999999G", None),
            ("+5k", None),
        ] {
            assert_eq!(kilobits(text), expected, "{text}");
        }
    }
}
