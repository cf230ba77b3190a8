//! Which packets a rule is about, beside its ends: `PortMatch`.

use super::matching::Head;
use crate::problem::{Code, Problems};
use crate::{Family, address};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use vswitch_flow::{Field, SparseMatch};
use vswitch_proto::antrea::v1;

const ICMP: u8 = 1;
const IGMP: u8 = 2;
const ICMPV6: u8 = 58;

/// A range of ports, both ends within.
pub(super) type Range = (u16, u16);

/// What a packet must be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ports {
    /// Anything.
    Any,
    /// TCP, UDP, SCTP.
    Transport { protocol: u8, destination: Option<Range>, source: Option<Range> },
    /// ICMP over IPv4, ICMPv6 over IPv6.
    Icmp { kind: Option<u8>, code: Option<u8> },
    /// Reports and queries of Pods. Its type is in the message, which flows do not see.
    Igmp { kind: Option<u8>, group: Option<Ipv4Addr> },
    /// Data for a multicast group.
    Multicast { protocol: Option<u8>, destination: Option<Range>, source: Option<Range>, group: Ipv4Addr },
}

impl Ports {
    /// All of TCP.
    pub(super) const TCP: Self = Self::Transport { protocol: 6, destination: None, source: None };

    /// Whether it is about multicast traffic, which has tables of its own.
    pub(super) const fn is_multicast(&self) -> bool {
        matches!(self, Self::Igmp { .. } | Self::Multicast { .. })
    }

    pub(super) const fn is_tcp(&self) -> bool {
        matches!(self, Self::Transport { protocol: 6, .. })
    }

    /// How many clauses it is for one family.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Transport { destination, source, .. } | Self::Multicast { destination, source, .. } => {
                let of = |range: &Option<Range>| range.map_or(1, |(from, to)| masks(from, to).len() as u64);
                of(destination) * of(source)
            }
            _ => 1,
        }
    }

    /// What they match in packets of a family.
    pub(super) fn matches(&self, family: Family, to: &mut Vec<Arc<SparseMatch>>) {
        let head = Head::ip(family);
        match self {
            Self::Any => to.push(head.matching()),
            Self::Transport { protocol, destination, source } => {
                transport(&head.with(Field::NwProto, (*protocol).into()), *destination, *source, to);
            }
            Self::Icmp { kind, code } => {
                let protocol = match family {
                    Family::V4 => ICMP,
                    Family::V6 => ICMPV6,
                };
                let mut head = head.with(Field::NwProto, protocol.into());
                // Where ICMP has 8 bits, flows have the 16 of a port, and match all of them.
                if let Some(kind) = kind {
                    head = head.with(Field::TpSrc, (*kind).into());
                }
                if let Some(code) = code {
                    head = head.with(Field::TpDst, (*code).into());
                }
                to.push(head.matching());
            }
            Self::Igmp { group, .. } if family == Family::V4 => {
                let head = head.with(Field::NwProto, IGMP.into());
                to.push(group.map_or_else(|| head.matching(), |group| of_group(head.clone(), group).matching()));
            }
            Self::Multicast { protocol, destination, source, group } if family == Family::V4 => {
                let head = of_group(head, *group);
                match protocol {
                    Some(protocol) => {
                        transport(&head.with(Field::NwProto, (*protocol).into()), *destination, *source, to);
                    }
                    None => to.push(head.matching()),
                }
            }
            Self::Igmp { .. } | Self::Multicast { .. } => {}
        }
    }
}

fn of_group(head: Head, group: Ipv4Addr) -> Head {
    head.with(Field::NwDst, u32::from(group).into())
}

fn transport(head: &Head, destination: Option<Range>, source: Option<Range>, to: &mut Vec<Arc<SparseMatch>>) {
    let of = |range: Option<Range>| range.map_or_else(|| vec![(0, 0)], |(from, to)| masks(from, to));
    for (source, source_mask) in of(source) {
        let head = head.clone().bits(Field::TpSrc, source.into(), source_mask.into());
        for (value, mask) in of(destination) {
            to.push(head.clone().bits(Field::TpDst, value.into(), mask.into()).matching());
        }
    }
}

/// Values and masks that cover a range and nothing else, as few as there can be.
pub(super) fn masks(from: u16, to: u16) -> Vec<(u16, u16)> {
    let mut masks = Vec::new();
    let (mut next, last) = (u32::from(from), u32::from(to));
    while next <= last {
        // The largest block that begins here and does not end behind the last.
        let aligned = if next == 0 { 16 } else { next.trailing_zeros().min(16) };
        let bits = (0..=aligned).rev().find(|bits| next + (1 << bits) - 1 <= last).unwrap_or(0);
        #[allow(clippy::cast_possible_truncation)] // `next` is at most `last`, a u16
        masks.push((next as u16, (0xffff_u32 << bits) as u16));
        next += 1 << bits;
    }
    masks
}

/// Reads one; None: something is wrong with it.
pub(super) fn read(field: &str, message: &v1::PortMatch, problems: &mut Problems) -> Option<Ports> {
    let Ok(protocol) = v1::Protocol::try_from(message.protocol) else {
        problems.push(Code::Value, format!("{field}.protocol"), format!("there is no protocol {}", message.protocol));
        return None;
    };
    let number = match protocol {
        v1::Protocol::Tcp => Some(6),
        v1::Protocol::Udp => Some(17),
        v1::Protocol::Sctp => Some(132),
        _ => None,
    };
    let (is_icmp, is_igmp) = (protocol == v1::Protocol::Icmp, protocol == v1::Protocol::Igmp);
    let has_group = !message.multicast_group.is_empty();
    let given = [
        ("port", message.port != 0, number.is_some()),
        ("end_port", message.end_port != 0, number.is_some()),
        ("source_port", message.source_port != 0, number.is_some()),
        ("source_end_port", message.source_end_port != 0, number.is_some()),
        ("icmp_type", message.icmp_type.is_some(), is_icmp),
        ("icmp_code", message.icmp_code.is_some(), is_icmp),
        ("igmp_type", message.igmp_type.is_some(), is_igmp),
        ("multicast_group", has_group, !is_icmp),
    ];
    let before = problems.count();
    for (name, is_given, fits) in given {
        if is_given && !fits {
            let reason = format!("packets of protocol {} have none", protocol.as_str_name());
            problems.push(Code::Value, format!("{field}.{name}"), reason);
        }
    }
    let destination = range(field, "port", "end_port", message.port, message.end_port, problems);
    let source =
        range(field, "source_port", "source_end_port", message.source_port, message.source_end_port, problems);
    let kind = octet(field, "icmp_type", message.icmp_type, problems);
    let code = octet(field, "icmp_code", message.icmp_code, problems);
    if code.is_some() && kind.is_none() {
        problems.push(Code::Missing, format!("{field}.icmp_type"), "there is a code without a type");
    }
    let igmp = octet(field, "igmp_type", message.igmp_type, problems);
    let group = multicast(field, &message.multicast_group, problems);
    if problems.count() > before {
        return None;
    }
    Some(match (protocol, group) {
        (v1::Protocol::Icmp, _) => Ports::Icmp { kind, code },
        (v1::Protocol::Igmp, group) => Ports::Igmp { kind: igmp, group },
        (_, Some(group)) => Ports::Multicast { protocol: number, destination, source, group },
        (_, None) => match number {
            Some(protocol) => Ports::Transport { protocol, destination, source },
            None => Ports::Any,
        },
    })
}

fn range(field: &str, name: &str, end: &str, from: u32, to: u32, problems: &mut Problems) -> Option<Range> {
    let mut port = |name: &str, value: u32| {
        let port = u16::try_from(value);
        problems.take(&format!("{field}.{name}"), port.map_err(|_| format!("{value} is no port: 1 to 65535")))
    };
    let (from, to) = (port(name, from)?, port(end, to)?);
    if from == 0 && to == 0 {
        None
    } else if from == 0 {
        problems.push(Code::Missing, format!("{field}.{name}"), format!("there is an end of a range, {to}, and no begin"));
        None
    } else if to != 0 && to < from {
        problems.push(Code::Value, format!("{field}.{end}"), format!("{to} is below {from}"));
        None
    } else {
        Some((from, to.max(from)))
    }
}

fn octet(field: &str, name: &str, value: Option<u32>, problems: &mut Problems) -> Option<u8> {
    let value = value?;
    problems.take(&format!("{field}.{name}"), u8::try_from(value).map_err(|_| format!("{value} is not 0 to 255")))
}

fn multicast(field: &str, text: &str, problems: &mut Problems) -> Option<Ipv4Addr> {
    if text.is_empty() {
        return None;
    }
    let read = match address::parse_address(text) {
        Ok(IpAddr::V4(group)) if group.is_multicast() => Ok(group),
        Ok(other) => Err(format!("{other} is no IPv4 multicast group")),
        Err(error) => Err(error),
    };
    problems.take(&format!("{field}.multicast_group"), read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vswitch_flow::text::{NoNames, parse_match};

    proptest! {
        #[test]
        fn masks_cover_the_range_and_nothing_else(from: u16, to: u16, probe: u16) {
            let (from, to) = (from.min(to), from.max(to));
            let masks = masks(from, to);
            prop_assert!(masks.len() <= 30);
            for port in [from, to, from.wrapping_sub(1), to.wrapping_add(1), probe] {
                let covered = masks.iter().filter(|(value, mask)| port & mask == *value).count();
                prop_assert_eq!(covered, usize::from((from..=to).contains(&port)), "{}", port);
            }
        }
    }

    #[test]
    fn ports_are_what_text_says() {
        let transport = |destination, source| Ports::Transport { protocol: 6, destination, source };
        for (ports, family, wanted) in [
            (Ports::Any, Family::V4, "ip"),
            (transport(Some((80, 80)), None), Family::V4, "tcp,tp_dst=80"),
            (transport(Some((80, 80)), None), Family::V6, "tcp6,tp_dst=80"),
            (transport(Some((8000, 8003)), Some((1, 1))), Family::V4, "tcp,tp_dst=0x1f40/0xfffc,tp_src=1"),
            (transport(None, None), Family::V4, "tcp"),
            (Ports::Icmp { kind: Some(8), code: Some(0) }, Family::V4, "icmp,icmp_type=8,icmp_code=0"),
            (Ports::Icmp { kind: Some(128), code: Some(0) }, Family::V6, "icmp6,icmpv6_type=128,icmpv6_code=0"),
            (Ports::Icmp { kind: None, code: None }, Family::V6, "icmp6"),
            (Ports::Igmp { kind: None, group: Some([239, 1, 1, 1].into()) }, Family::V4, "igmp,nw_dst=239.1.1.1"),
        ] {
            let mut matches = Vec::new();
            ports.matches(family, &mut matches);
            let wanted = parse_match(wanted, &NoNames).unwrap_or_else(|error| panic!("{wanted}: {error}")).value;
            assert_eq!(matches.len() as u64, ports.count());
            assert_eq!(matches.into_iter().map(|one| (*one).clone()).collect::<Vec<_>>(), [wanted]);
        }
    }
}
