//! Words of the command line, in the syntax of ovs-dpctl(8).

use crate::commands::port::usage;
use crate::error::Error;
use clap::error::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr};
use vswitch_proto::v1;

fn wrong(message: impl std::fmt::Display) -> Error {
    usage(ErrorKind::ValueValidation, message)
}

/// A number, decimal or hexadecimal.
fn number(key: &str, text: &str, max: u128) -> Result<u128, Error> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with('+') => u128::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    };
    let number = number.filter(|number| *number <= max);
    number.ok_or_else(|| wrong(format!("{key}: {text:?} is no number from 0 to {max}")))
}

fn small(key: &str, text: &str, max: u32) -> Result<u32, Error> {
    number(key, text, max.into()).map(|number| u32::try_from(number).unwrap_or(max))
}

/// A value and the mask behind a slash.
fn masked(key: &str, text: &str, max: u128) -> Result<(u128, Option<u128>), Error> {
    match text.split_once('/') {
        None => Ok((number(key, text, max)?, None)),
        Some((value, mask)) => Ok((number(key, value, max)?, Some(number(key, mask, max)?))),
    }
}

fn pair(text: &str) -> Result<(&str, &str), Error> {
    text.split_once('=').ok_or_else(|| wrong(format!("{text:?} is no KEY=VALUE")))
}

/// The number of `zone=N`.
pub(super) fn zone(word: &str) -> Result<u32, Error> {
    match pair(word)? {
        ("zone", number) => small("zone", number, u16::MAX.into()),
        (key, _) => Err(wrong(format!("{key:?} is not known here; give zone=N"))),
    }
}

/// The numbers of `zone=N,N,...`.
pub(super) fn zones(words: &[&str]) -> Result<Vec<u32>, Error> {
    let mut all = Vec::new();
    for word in words {
        let ("zone", numbers) = pair(word)? else {
            return Err(wrong(format!("{word:?} is not known; give zone=N,N,...")));
        };
        for number in numbers.split(',') {
            all.push(small("zone", number, u16::MAX.into())?);
        }
    }
    Ok(all)
}

/// At most one `zone=N`.
pub(super) fn one_zone(words: &[String]) -> Result<Option<u32>, Error> {
    match words {
        [] => Ok(None),
        [word] => zone(word).map(Some),
        [_, more, ..] => Err(wrong(format!("{more:?} is too much; give one zone=N"))),
    }
}

/// `default=L` and `zone=N,limit=L`.
pub(super) fn limits(words: &[String]) -> Result<v1::SetConntrackLimitsRequest, Error> {
    let mut request = v1::SetConntrackLimitsRequest::default();
    // (Open vSwitch takes -1 as the largest number.)
    let limit = |key: &str, text: &str| if text == "-1" { Ok(u32::MAX) } else { small(key, text, u32::MAX) };
    for word in words {
        if let Some(default) = word.strip_prefix("default=") {
            request.default_limit = Some(limit("default", default)?);
            continue;
        }
        let Some((zone, max)) = word.split_once(",limit=") else {
            return Err(wrong(format!("{word:?} is no limit; give default=LIMIT or zone=N,limit=LIMIT")));
        };
        request.zones.push(v1::ZoneLimit { zone: self::zone(zone)?, limit: Some(limit("limit", max)?), count: 0 });
    }
    Ok(request)
}

/// `zone=N` and `NAME=SECONDS`, joined by blanks or commas.
pub(super) fn timeouts(words: &[String]) -> Result<v1::ZoneTimeoutPolicy, Error> {
    let (mut zone, mut policy) = (None, v1::TimeoutPolicy::default());
    for item in words.iter().flat_map(|word| word.split(',')) {
        let (key, value) = pair(item)?;
        let value = small(key, value, if key == "zone" { u16::MAX.into() } else { u32::MAX })?;
        let is_new = match key {
            "zone" => zone.replace(value).is_none(),
            name => policy.seconds.insert(name.to_owned(), value).is_none(),
        };
        if !is_new {
            return Err(wrong(format!("{key} is given twice")));
        }
    }
    let zone = zone.ok_or_else(|| wrong("no zone; give zone=N"))?;
    if policy.seconds.is_empty() {
        return Err(wrong("no timeouts; give NAME=SECONDS"));
    }
    Ok(v1::ZoneTimeoutPolicy { zone, policy: Some(policy) })
}

/// `zone=N,N,...` and `established_after_answer=true`, joined by blanks or commas.
pub(super) fn zone_options(words: &[String]) -> Result<v1::SetZoneOptionsRequest, Error> {
    let (mut zones, mut option, mut is_zone) = (Vec::new(), None, false);
    for item in words.iter().flat_map(|word| word.split(',')) {
        match item.split_once('=') {
            Some(("zone", number)) => zones.push(small("zone", number, u16::MAX.into())?),
            // One more of those before it.
            None if is_zone => zones.push(small("zone", item, u16::MAX.into())?),
            Some(("established_after_answer", word)) => {
                let on = word.parse().map_err(|_| wrong(format!("{word:?} is neither true nor false")))?;
                if option.replace(on).is_some() {
                    return Err(wrong("established_after_answer is given twice"));
                }
            }
            _ => return Err(wrong(format!("{item:?} is not known; give zone=N,N,... established_after_answer=true"))),
        }
        is_zone = item.starts_with("zone=") || is_zone && !item.contains('=');
    }
    if zones.is_empty() {
        return Err(wrong("no zone; give zone=N"));
    }
    let established_after_answer = option.ok_or_else(|| wrong("no option; give established_after_answer=true"))?;
    let options = |zone| v1::ZoneOptions { zone, established_after_answer: Some(established_after_answer) };
    Ok(v1::SetZoneOptionsRequest { zones: zones.into_iter().map(options).collect() })
}

/// Which connections: `zone=N`, one tuple, `mark=V/M`, `labels=V/M`.
pub(super) fn filter(words: &[String]) -> Result<v1::ConnectionFilter, Error> {
    let mut filter = v1::ConnectionFilter::default();
    let (mut known, mut tuples) = (Vec::new(), 0);
    for word in words {
        let before = known.len();
        for item in word.split(',') {
            let (key, value) = pair(item)?;
            let is_tuple = set(&mut filter, key, value)?;
            if known.contains(&(key, is_tuple)) {
                return Err(wrong(format!("{key} is given twice")));
            }
            known.push((key, is_tuple));
        }
        tuples += usize::from(known[before..].iter().any(|(_, is_tuple)| *is_tuple));
    }
    if tuples > 1 {
        let hint = "join the fields of one by commas; replies cannot be asked for";
        return Err(wrong(format!("there are {tuples} tuples; {hint}")));
    }
    Ok(filter)
}

/// Sets a field; whether it is one of the tuple.
fn set(filter: &mut v1::ConnectionFilter, key: &str, value: &str) -> Result<bool, Error> {
    let port = || small(key, value, u16::MAX.into()).map(Some);
    let octet = || small(key, value, u8::MAX.into()).map(Some);
    match key {
        "zone" => filter.zone = port()?,
        "mark" | "ct_mark" => {
            let (mark, mask) = masked(key, value, u32::MAX.into())?;
            let narrow = |bits| u32::try_from(bits).unwrap_or(u32::MAX);
            (filter.mark, filter.mark_mask) = (Some(narrow(mark)), mask.map(narrow));
        }
        "labels" | "label" | "ct_label" | "ct_labels" => {
            let (label, mask) = masked(key, value, u128::MAX)?;
            let octets = |bits: u128| bits.to_be_bytes().to_vec();
            (filter.label, filter.label_mask) = (octets(label), mask.map(octets).unwrap_or_default());
        }
        "ct_nw_src" | "ct_nw_dst" | "ct_ipv6_src" | "ct_ipv6_dst" => {
            let address = if key.starts_with("ct_nw") {
                value.parse::<Ipv4Addr>().map(|address| address.octets().to_vec()).ok()
            } else {
                value.parse::<Ipv6Addr>().map(|address| address.octets().to_vec()).ok()
            };
            let address = address.ok_or_else(|| wrong(format!("{key}: {value:?} is no address")))?;
            let place = if key.ends_with("src") { &mut filter.src } else { &mut filter.dst };
            if !std::mem::replace(place, address).is_empty() {
                return Err(wrong(format!("{key} comes on top of another address; give one of IPv4 or of IPv6")));
            }
        }
        "ct_nw_proto" => filter.protocol = octet()?,
        "ct_tp_src" => filter.src_port = port()?,
        "ct_tp_dst" => filter.dst_port = port()?,
        "icmp_id" => filter.icmp_id = port()?,
        "icmp_type" => filter.icmp_type = octet()?,
        "icmp_code" => filter.icmp_code = octet()?,
        _ => {
            let known = "zone, ct_nw_src, ct_nw_dst, ct_ipv6_src, ct_ipv6_dst, ct_nw_proto, ct_tp_src, ct_tp_dst, icmp_id, icmp_type, icmp_code, mark, labels";
            return Err(wrong(format!("{key:?} is not known; use {known}")));
        }
    }
    Ok(key.starts_with("ct_nw") || key.starts_with("ct_ipv6") || key.starts_with("ct_tp") || key.starts_with("icmp"))
}

/// Whether a filter names all of a tuple: then it is about one connection.
pub(super) fn is_whole(filter: &v1::ConnectionFilter) -> bool {
    let has_addresses = !filter.src.is_empty() && !filter.dst.is_empty();
    let has_ports = filter.src_port.is_some() && filter.dst_port.is_some();
    has_addresses && filter.protocol.is_some() && (has_ports || filter.icmp_id.is_some() && filter.icmp_type.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn told<T: std::fmt::Debug>(result: Result<T, Error>, line: &str) -> String {
        let text = result.expect_err(line).to_string();
        text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    }

    #[test]
    fn every_field_of_a_filter() {
        let line = "zone=1 ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=17,ct_tp_src=0x10,ct_tp_dst=53 mark=0x10/0xff labels=5";
        let want = v1::ConnectionFilter {
            zone: Some(1),
            protocol: Some(17),
            src: vec![10, 0, 0, 1],
            dst: vec![10, 0, 0, 2],
            src_port: Some(16),
            dst_port: Some(53),
            mark: Some(0x10),
            mark_mask: Some(0xff),
            label: [vec![0; 15], vec![5]].concat(),
            ..Default::default()
        };
        assert_eq!(filter(&words(line)).expect(line), want);
        let line = "ct_ipv6_src=fd00::1,ct_nw_proto=58,icmp_id=7,icmp_type=128,icmp_code=0 labels=0x1/0x3";
        let want = v1::ConnectionFilter {
            protocol: Some(58),
            src: [vec![0xfd], vec![0; 14], vec![1]].concat(),
            icmp_id: Some(7),
            icmp_type: Some(128),
            icmp_code: Some(0),
            label: [vec![0; 15], vec![1]].concat(),
            label_mask: [vec![0; 15], vec![3]].concat(),
            ..Default::default()
        };
        assert_eq!(filter(&words(line)).expect(line), want);
        assert_eq!(filter(&[]).expect("all"), v1::ConnectionFilter::default());
    }

    #[test]
    fn wrong_filters_are_told() {
        let cases = [
            ("foo=1", "\"foo\" is not known; use zone, ct_nw_src, "),
            ("zone", "\"zone\" is no KEY=VALUE"),
            ("zone=65536", "zone: \"65536\" is no number from 0 to 65535"),
            ("zone=1 zone=1", "zone is given twice"),
            ("ct_nw_src=10.0.0", "ct_nw_src: \"10.0.0\" is no address"),
            ("ct_nw_src=10.0.0.1,ct_ipv6_src=::1", "ct_ipv6_src comes on top of another address"),
            ("ct_nw_proto=tcp", "ct_nw_proto: \"tcp\" is no number from 0 to 255"),
            ("ct_tp_src=+1", "ct_tp_src: \"+1\" is no number"),
            ("mark=0x100000000", "mark: \"0x100000000\" is no number from 0 to 4294967295"),
            ("labels=1/", "labels: \"\" is no number"),
            ("ct_nw_src=10.0.0.1 ct_nw_dst=10.0.0.2", "there are 2 tuples; join the fields of one by commas"),
        ];
        for (line, want) in cases {
            let got = told(filter(&words(line)), line);
            assert!(got.starts_with(want), "{line}: {got}");
        }
        assert_eq!(told(filter(&[String::new()]), "an empty tuple"), "\"\" is no KEY=VALUE");
    }

    #[test]
    fn whole_tuples() {
        for (line, want) in [
            ("ct_nw_src=1.1.1.1,ct_nw_dst=1.1.1.2,ct_nw_proto=6,ct_tp_src=1,ct_tp_dst=0", true),
            ("ct_nw_src=1.1.1.1,ct_nw_dst=1.1.1.2,ct_nw_proto=1,icmp_id=1,icmp_type=8", true),
            ("ct_nw_src=1.1.1.1,ct_nw_dst=1.1.1.2,ct_nw_proto=1,icmp_id=1", false),
            ("ct_nw_src=1.1.1.1,ct_nw_dst=1.1.1.2,ct_nw_proto=47", false),
            ("ct_nw_src=1.1.1.1,ct_nw_proto=6,ct_tp_src=1,ct_tp_dst=2", false),
            ("zone=1", false),
        ] {
            assert_eq!(is_whole(&filter(&words(line)).expect(line)), want, "{line}");
        }
    }

    #[test]
    fn options_of_zones() {
        for (line, on) in [
            ("zone=1,2 established_after_answer=true zone=7", true),
            ("zone=1,zone=2 zone=7,established_after_answer=false", false),
        ] {
            let options = |zone| v1::ZoneOptions { zone, established_after_answer: Some(on) };
            let want = v1::SetZoneOptionsRequest { zones: [1, 2, 7].map(options).to_vec() };
            assert_eq!(zone_options(&words(line)).expect(line), want);
        }
        for (line, want) in [
            ("zone=1", "no option; give established_after_answer=true"),
            ("established_after_answer=true", "no zone; give zone=N"),
            ("zone=1 established_after_answer=1", "\"1\" is neither true nor false"),
            (
                "zone=1 established_after_answer=true,2",
                "\"2\" is not known; give zone=N,N,... established_after_answer=true",
            ),
            ("zone=65536 established_after_answer=true", "zone: \"65536\" is no number from 0 to 65535"),
            (
                "zone=1 established_after_answer=true established_after_answer=false",
                "established_after_answer is given twice",
            ),
        ] {
            assert_eq!(told(zone_options(&words(line)), line), want);
        }
    }

    #[test]
    fn limits_zones_and_timeouts() {
        let limit = |zone, limit| v1::ZoneLimit { zone, limit: Some(limit), count: 0 };
        let want =
            v1::SetConntrackLimitsRequest { default_limit: Some(u32::MAX), zones: vec![limit(1, 5), limit(65535, 0)] };
        assert_eq!(limits(&words("default=-1 zone=1,limit=5 zone=65535,limit=0")).expect("limits"), want);
        for (line, want) in [
            ("zone=1", "\"zone=1\" is no limit; give default=LIMIT or zone=N,limit=LIMIT"),
            ("zone=70000,limit=1", "zone: \"70000\" is no number from 0 to 65535"),
            ("default=x", "default: \"x\" is no number from 0 to 4294967295"),
            ("foo=1,limit=2", "\"foo\" is not known here; give zone=N"),
        ] {
            assert_eq!(told(limits(&words(line)), line), want);
        }
        assert_eq!(zones(&["zone=1,2", "zone=77"]).expect("zones"), [1, 2, 77]);
        assert_eq!(told(zones(&["zone=x"]), "x"), "zone: \"x\" is no number from 0 to 65535");
        let policy = timeouts(&words("zone=3 udp_first=5,udp_single=6")).expect("timeouts");
        let seconds = [("udp_first".to_owned(), 5), ("udp_single".to_owned(), 6)].into();
        assert_eq!(policy, v1::ZoneTimeoutPolicy { zone: 3, policy: Some(v1::TimeoutPolicy { seconds }) });
        for (line, want) in [
            ("udp_first=5", "no zone; give zone=N"),
            ("zone=1", "no timeouts; give NAME=SECONDS"),
            ("zone=1 a=1 a=2", "a is given twice"),
        ] {
            assert_eq!(told(timeouts(&words(line)), line), want);
        }
    }
}
