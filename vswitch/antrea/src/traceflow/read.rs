//! From what is asked for to what is done: every wrong field is named.

use super::packet::{Headers, build};
use super::{From, PAYLOAD_MAX, Passing, Protocol, SECONDS, SECONDS_MAX, Sent, TCP_FLAGS_MAX, Traceflow, Way};
use crate::address::parse_address;
use crate::object::pod::{Pod, check_host};
use crate::object::service::{self, Service};
use crate::problem::{Code, Problems};
use crate::{Facts, Family, Key, Mac, ObjectKind, Problem};
use std::net::IpAddr;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::traceflow_end::End;

/// Ports that a source is given: the first one, and how many. Above those that hosts choose from.
const CHOSEN: (u16, u16) = (60_000, 5536);

/// An end that is known.
#[derive(Clone, Copy)]
enum KnownEnd<'a> {
    Pod(&'a str, &'a Pod),
    Address(IpAddr),
    Service(&'a str, &'a Service),
}

impl KnownEnd<'_> {
    /// Its address of a family.
    fn address(&self, family: Family) -> Option<IpAddr> {
        let of = |addresses: &[IpAddr]| addresses.iter().copied().find(|address| Family::of(address) == family);
        match self {
            Self::Pod(_, pod) => of(&pod.addresses),
            Self::Address(address) => of(&[*address]),
            Self::Service(_, service) => of(&service.cluster_ips),
        }
    }
}

/// Fields of the packet, in their ranges.
struct Asked {
    protocol: Option<Protocol>,
    source_port: u16,
    destination_port: u16,
    tcp_flags: u32,
}

/// Reads a Traceflow that is to have this tag. `dice` is any number: of it come a source port and
/// an identifier that nobody gave.
pub(crate) fn read(
    message: &v1::Traceflow,
    tag: u8,
    dice: u32,
    facts: &Facts<'_>,
    problems: &mut Problems,
) -> Option<Traceflow> {
    let mut message = v1::Traceflow { tag: tag.into(), ..message.clone() };
    if message.timeout_seconds == 0 {
        message.timeout_seconds = SECONDS;
    }
    let range = 1..=SECONDS_MAX;
    if !range.contains(&message.timeout_seconds) {
        problems.push(Code::Range, "timeout_seconds", format!("{}: 1 to {SECONDS_MAX}", message.timeout_seconds));
    }
    if message.dropped_only && !message.live {
        problems.push(Code::Value, "dropped_only", "it is for live traffic: set live, too");
    }
    let way = match v1::TraceflowRole::try_from(message.role) {
        Ok(v1::TraceflowRole::Receiver) => Some(Way::Arriving { live: message.live }),
        Ok(v1::TraceflowRole::Unspecified | v1::TraceflowRole::Sender) => {
            begins(&mut message, tag, dice, facts, problems)
        }
        Err(_) => {
            problems.push(Code::Value, "role", format!("{} is no role", message.role));
            None
        }
    };
    let seconds = u16::try_from(message.timeout_seconds).unwrap_or_default();
    let dropped_only = message.dropped_only;
    way.filter(|_| problems.is_empty()).map(|way| Traceflow { message, tag, seconds, dropped_only, way })
}

/// One that begins here.
fn begins(message: &mut v1::Traceflow, tag: u8, dice: u32, facts: &Facts<'_>, problems: &mut Problems) -> Option<Way> {
    let told = message.packet.unwrap_or_default();
    let source = place(message.source.as_ref(), "source", facts, problems);
    let destination = place(message.destination.as_ref(), "destination", facts, problems);
    if let Some(KnownEnd::Service(name, _)) = source {
        problems.push(Code::Value, "source.service", format!("{name}: packets go to Services, and come from Pods"));
    }
    // A Pod's address means the Pod, in this family.
    let only = source.and_then(|source| if let KnownEnd::Address(address) = source { Some(address) } else { None });
    let source = only.and_then(|address| pod_of(&address, facts)).or(source);
    let asked = asked(&told, message.live, destination, problems);
    let families = families(&told, only, source, destination, facts, problems);
    if message.live {
        passing(source, destination, &families, &asked, problems).map(Way::Passing)
    } else {
        let told = v1::TraceflowPacket { tcp_flags: if asked.tcp_flags == 0 { 2 } else { asked.tcp_flags }, ..told };
        let sent = sent((source, destination), &families, &asked, &told, (tag, dice), facts, problems)?;
        Some(Way::Sent(sent))
    }
}

fn pod_of<'a>(address: &IpAddr, facts: &Facts<'a>) -> Option<KnownEnd<'a>> {
    let key = facts.desired.pod_of(address)?;
    facts.desired.pod(&key.name).map(|pod| KnownEnd::Pod(&key.name, pod))
}

/// An end, if it is given and there.
fn place<'a>(
    end: Option<&'a v1::TraceflowEnd>,
    field: &str,
    facts: &Facts<'a>,
    problems: &mut Problems,
) -> Option<KnownEnd<'a>> {
    match end?.end.as_ref()? {
        End::Pod(name) => {
            let pod = facts.desired.pod(name);
            if pod.is_none() {
                let problem =
                    Problem::new(Code::Reference, format!("{field}.pod"), format!("this Node has no Pod {name}"));
                problems.add(
                    problem
                        .hint("\"namespace/name\" of one of this Node's; one of another Node is given by its address"),
                );
            }
            pod.map(|pod| KnownEnd::Pod(name.as_str(), pod))
        }
        End::Service(name) => {
            let service = facts.desired.service(name);
            if service.is_none() {
                let problem =
                    Problem::new(Code::Reference, format!("{field}.service"), format!("there is no Service {name}"));
                problems.add(problem.other(Key::new(ObjectKind::Service, name)));
            } else if !facts.features().proxy {
                problems.push(
                    Code::Feature,
                    format!("{field}.service"),
                    "it needs features.proxy: Services are the host's here",
                );
            }
            service.map(|service| KnownEnd::Service(name.as_str(), service))
        }
        End::Address(text) => {
            let field = format!("{field}.address");
            let address = problems.take(&field, parse_address(text))?;
            check_host(&field, &address, problems);
            crate::object::judge::family(&field, &address, facts, problems);
            Some(KnownEnd::Address(address))
        }
    }
}

/// Protocol, ports and flags.
fn asked(told: &v1::TraceflowPacket, live: bool, destination: Option<KnownEnd<'_>>, problems: &mut Problems) -> Asked {
    let service = match destination {
        Some(KnownEnd::Service(_, service)) if !live => Some(service),
        _ => None,
    };
    let of_service = |protocol| match protocol {
        service::Protocol::Tcp => Protocol::Tcp,
        service::Protocol::Udp => Protocol::Udp,
        service::Protocol::Sctp => Protocol::Sctp,
    };
    let protocol = match v1::Protocol::try_from(told.protocol) {
        Ok(v1::Protocol::Tcp) => Some(Protocol::Tcp),
        Ok(v1::Protocol::Udp) => Some(Protocol::Udp),
        Ok(v1::Protocol::Sctp) => Some(Protocol::Sctp),
        Ok(v1::Protocol::Icmp) => Some(Protocol::Icmp),
        Ok(v1::Protocol::Unspecified) if live => None,
        Ok(v1::Protocol::Unspecified) => {
            let first = service.and_then(|service| service.ports.first()).map(|port| of_service(port.protocol));
            Some(first.unwrap_or(Protocol::Icmp))
        }
        Ok(v1::Protocol::Igmp) | Err(_) => {
            problems.push(Code::Value, "packet.protocol", format!("{}: TCP, UDP, SCTP or ICMP", told.protocol));
            None
        }
    };
    let has_ports = protocol.is_some_and(Protocol::has_ports);
    let mut port = |field: &str, value: u32| {
        if value > u16::MAX.into() {
            problems.push(Code::Range, field, format!("{value}: 1 to 65535, or 0"));
        } else if value != 0 && !has_ports {
            problems.push(
                Code::Value,
                field,
                format!("{value}: TCP, UDP and SCTP have ports; say which (packet.protocol)"),
            );
        }
        u16::try_from(value).unwrap_or_default()
    };
    let source_port = port("packet.source_port", told.source_port);
    let mut destination_port = port("packet.destination_port", told.destination_port);
    if destination_port == 0 && !live && has_ports {
        let of_protocol = |service: &&Service| {
            service.ports.iter().find(|port| Some(of_service(port.protocol)) == protocol).map(|port| port.port)
        };
        destination_port = match (&service, service.as_ref().and_then(of_protocol)) {
            (Some(_), None) => {
                problems.push(Code::Value, "packet.protocol", "the Service has no port of it");
                80
            }
            (_, port) => port.unwrap_or(80),
        };
    }
    if told.tcp_flags > TCP_FLAGS_MAX {
        problems.push(Code::Range, "packet.tcp_flags", format!("{:#x}: up to {TCP_FLAGS_MAX:#x}", told.tcp_flags));
    } else if told.tcp_flags != 0 && protocol != Some(Protocol::Tcp) {
        problems.push(Code::Value, "packet.tcp_flags", "they are TCP's: set packet.protocol");
    }
    for (field, value, most) in [("packet.ttl", told.ttl, 255), ("packet.payload_len", told.payload_len, PAYLOAD_MAX)] {
        if value != 0 && live {
            problems.push(Code::Value, field, format!("{value}: it is for packets that are sent, not for live ones"));
        } else if value > most {
            problems.push(Code::Range, field, format!("{value}: at most {most}"));
        }
    }
    Asked { protocol, source_port, destination_port, tcp_flags: told.tcp_flags }
}

/// Families that the packet may be of, with its ends' addresses in each.
fn families(
    told: &v1::TraceflowPacket,
    only: Option<IpAddr>,
    source: Option<KnownEnd<'_>>,
    destination: Option<KnownEnd<'_>>,
    facts: &Facts<'_>,
    problems: &mut Problems,
) -> Vec<Family> {
    let wanted = match v1::Families::try_from(told.family) {
        Ok(v1::Families::Unspecified) => None,
        Ok(v1::Families::Ipv4) => Some(Family::V4),
        Ok(v1::Families::Ipv6) => Some(Family::V6),
        Ok(v1::Families::Dual) | Err(_) => {
            problems.push(Code::Value, "packet.family", format!("{}: a packet has one, IPv4 or IPv6", told.family));
            return Vec::new();
        }
    };
    if let Some(family) = wanted.filter(|family| !facts.node.has(*family)) {
        problems.push(Code::Family, "packet.family", format!("the Node has no {family:?}"));
        return Vec::new();
    }
    let has = |end: Option<KnownEnd<'_>>, family| end.is_none_or(|end| end.address(family).is_some());
    let families: Vec<Family> = facts
        .node
        .families
        .iter()
        .copied()
        .filter(|family| wanted.is_none_or(|wanted| wanted == *family))
        .filter(|family| only.is_none_or(|only| Family::of(&only) == *family))
        .filter(|family| has(source, *family) && has(destination, *family))
        .collect();
    if families.is_empty() && problems.is_empty() {
        problems.push(
            Code::Family,
            "packet.family",
            "source and destination have no address of one family, or not of this one",
        );
    }
    families
}

fn passing(
    source: Option<KnownEnd<'_>>,
    destination: Option<KnownEnd<'_>>,
    families: &[Family],
    asked: &Asked,
    problems: &mut Problems,
) -> Option<Passing> {
    let from = match source {
        Some(KnownEnd::Pod(name, _)) => From::Pod(name.to_owned()),
        Some(KnownEnd::Address(address)) => From::Address(address),
        _ => From::Anybody,
    };
    if matches!(from, From::Anybody) && destination.is_none() && problems.is_empty() {
        problems.push(Code::Missing, "source", "neither end is given: packets of whom are to be looked at?");
    }
    let to_pod = match (&from, destination) {
        (From::Address(_) | From::Anybody, Some(KnownEnd::Pod(name, _))) => Some(name.to_owned()),
        _ => None,
    };
    let address = |family: &Family| (*family, destination.and_then(|end| end.address(*family)));
    let Asked { protocol, source_port, destination_port, tcp_flags } = *asked;
    let destinations = families.iter().map(address).collect();
    Some(Passing { from, destinations, to_pod, protocol, source_port, destination_port, tcp_flags })
}

#[allow(clippy::too_many_arguments)] // what a packet is made of
fn sent(
    (source, destination): (Option<KnownEnd<'_>>, Option<KnownEnd<'_>>),
    families: &[Family],
    asked: &Asked,
    told: &v1::TraceflowPacket,
    (tag, dice): (u8, u32),
    facts: &Facts<'_>,
    problems: &mut Problems,
) -> Option<Sent> {
    let Some(KnownEnd::Pod(name, pod)) = source else {
        if problems.is_empty() {
            let problem = Problem::new(Code::Missing, "source", "a packet that is sent begins at a Pod of this Node");
            problems.add(problem.hint("give source.pod, or look at live traffic"));
        }
        return None;
    };
    let Some(destination) = destination else {
        if problems.is_empty() {
            problems.push(Code::Missing, "destination", "a packet that is sent goes somewhere");
        }
        return None;
    };
    let Some(in_port) = facts.pod(name).and_then(|pod| facts.ports.number(&pod.port)) else {
        problems.push(
            Code::Port,
            "source.pod",
            format!("bridge {} has no port {:?} of Pod {name}", facts.node.bridge, pod.port),
        );
        return None;
    };
    let family = *families.first()?;
    let (from, to) = (pod.address_of(family)?, destination.address(family)?);
    let other = match destination {
        KnownEnd::Pod(_, other) => Some(other),
        KnownEnd::Address(address) => match pod_of(&address, facts) {
            Some(KnownEnd::Pod(_, other)) => Some(other),
            _ => None,
        },
        KnownEnd::Service(..) => None,
    };
    #[allow(clippy::cast_possible_truncation)] // any number does
    let chosen = CHOSEN.0 + (dice % u32::from(CHOSEN.1)) as u16;
    let headers = Headers {
        source_mac: pod.mac,
        destination_mac: next_hop(pod, other, family, facts),
        source: from,
        destination: to,
        protocol: asked.protocol?,
        source_port: if asked.source_port == 0 { chosen } else { asked.source_port },
        destination_port: asked.destination_port,
        tcp_flags: u16::try_from(told.tcp_flags).ok()?,
        ttl: if told.ttl == 0 { 64 } else { u8::try_from(told.ttl).ok()? },
        dscp: tag,
        payload_len: usize::try_from(told.payload_len.min(PAYLOAD_MAX)).ok()?,
    };
    let bytes = build(&headers);
    Some(Sent { in_port, source: from, destination: to, destination_port: asked.destination_port, bytes })
}

/// The MAC address that a Pod sends to. Pods of this Node know each other's if they are on one
/// link; everything else is behind the gateway. A Pod of the wire has its router's, which nobody
/// has told if it is in a VLAN: it leaves with the gateway's, which none there has.
fn next_hop(pod: &Pod, other: Option<&Pod>, family: Family, facts: &Facts<'_>) -> Mac {
    let on_wire = pod.on_wire(facts.node);
    if let Some(other) = other.filter(|other| other.on_wire(facts.node) == on_wire) {
        return other.mac;
    }
    let router = facts.way_out(family).ok().filter(|_| on_wire == Some(0));
    router.map_or(facts.node.gateway.mac, |(_, hop)| hop)
}

impl Pod {
    /// Its address of a family.
    fn address_of(&self, family: Family) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| Family::of(address) == family)
    }
}
