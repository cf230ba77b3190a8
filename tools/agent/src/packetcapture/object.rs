//! What a PacketCapture says: its ends, which packets, how many, and how far it is.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;
use std::net::IpAddr;
use vswitch_proto::v1::CapturePoint;

/// Seconds of a PacketCapture that does not say how long, and the longest time (Antrea's).
const TIMEOUT_SECONDS: u32 = 60;
const TIMEOUT_SECONDS_MAX: u32 = 300;

/// Packets of a PacketCapture.
pub(super) const PACKETS_MAX: u32 = 1000;

/// Names that Antrea has for types of ICMP.
const ICMP_TYPES: [(&str, u64); 4] =
    [("icmp-echoreply", 0), ("icmp-unreach", 3), ("icmp-echo", 8), ("icmp-timxceed", 11)];
const ICMPV6_TYPES: [(&str, u64); 4] =
    [("icmp6-destinationunreach", 1), ("icmp6-timeexceeded", 3), ("icmp6-echo", 128), ("icmp6-echoreply", 129)];

/// A PacketCapture, as far as agents need it.
#[derive(Clone, Debug)]
pub(super) struct PacketCapture {
    pub(super) name: String,
    pub(super) uid: String,
    /// An agent has begun it.
    pub(super) has_started: bool,
    /// It is over.
    pub(super) is_complete: bool,
    /// An agent has said why it does not begin.
    pub(super) has_status: bool,
    /// The spec; or why it is not understood.
    pub(super) spec: Result<Spec, String>,
}

/// `spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    timeout: Option<u32>,
    capture_config: CaptureConfig,
    source: Option<End>,
    destination: Option<End>,
    direction: String,
    capture_point: String,
    packet: Option<Packet>,
    file_server: Option<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CaptureConfig {
    #[serde(rename = "firstN")]
    first_n: Option<FirstN>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct FirstN {
    number: u32,
}

/// `spec.source` or `spec.destination`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct End {
    pod: Option<PodReference>,
    ip: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodReference {
    namespace: String,
    name: String,
}

impl End {
    /// "namespace/name" of its Pod.
    pub(super) fn pod_name(&self) -> Option<String> {
        let pod = self.pod.as_ref()?;
        let namespace = if pod.namespace.is_empty() { "default" } else { &pod.namespace };
        Some(format!("{namespace}/{}", pod.name))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Packet {
    ip_family: String,
    protocol: Option<Value>,
    transport_header: TransportHeader,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TransportHeader {
    udp: Option<Ports>,
    tcp: Option<Ports>,
    icmp: Option<Messages>,
    icmpv6: Option<Messages>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Ports {
    src_port: Option<u16>,
    dst_port: Option<u16>,
    flags: Vec<Flags>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Flags {
    value: u16,
    mask: Option<u16>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Messages {
    messages: Vec<Message>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    #[serde(rename = "type")]
    kind: Value,
    code: Option<u8>,
}

/// What the switch is to capture at one point of the Pod's port.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) point: CapturePoint,
    pub(super) matched: String,
}

impl PacketCapture {
    /// Of an object of the API server.
    pub(super) fn of(object: &DynamicObject) -> Self {
        let status = object.data.get("status").unwrap_or(&Value::Null);
        let conditions = status.get("conditions").and_then(Value::as_array);
        let has = |kind: &str| {
            conditions.is_some_and(|all| all.iter().any(|each| each["type"] == kind && each["status"] == "True"))
        };
        let spec = object.data.get("spec").cloned().unwrap_or_default();
        Self {
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            has_started: has("PacketCaptureStarted"),
            is_complete: has("PacketCaptureComplete"),
            has_status: conditions.is_some_and(|all| !all.is_empty()),
            spec: Spec::deserialize(spec).map_err(|error| format!("spec: {error}")),
        }
    }

    /// The Pod at whose port packets are captured, as "namespace/name".
    pub(super) fn pod(&self) -> Option<String> {
        let spec = self.spec.as_ref().ok()?;
        let pod = |end: &Option<End>| end.as_ref().and_then(End::pod_name);
        if spec.is_at_destination() { pod(&spec.destination) } else { pod(&spec.source) }
    }
}

impl Spec {
    /// Packets are captured at the Pod that receives.
    fn is_at_destination(&self) -> bool {
        let has_source = self.source.as_ref().is_some_and(|source| source.pod.is_some());
        self.capture_point == "Destination" || (self.capture_point.is_empty() && !has_source)
    }

    /// Packets that are asked for.
    pub(super) fn number(&self) -> Result<u32, String> {
        let number = self.capture_config.first_n.as_ref().map_or(0, |first| first.number);
        let is_right = (1..=PACKETS_MAX).contains(&number);
        is_right.then_some(number).ok_or_else(|| format!("spec.captureConfig.firstN.number: give 1 to {PACKETS_MAX}"))
    }

    /// How long the capture may take.
    pub(super) fn seconds(&self) -> u32 {
        self.timeout.filter(|seconds| *seconds > 0).unwrap_or(TIMEOUT_SECONDS).min(TIMEOUT_SECONDS_MAX)
    }

    /// A file server is named, to which nothing is sent.
    pub(super) fn has_file_server(&self) -> bool {
        self.file_server.is_some()
    }

    /// What the switch is to capture. `addresses` are those of a Pod by its name.
    pub(super) fn parts(&self, addresses: impl Fn(&str) -> Vec<IpAddr>) -> Result<Vec<Part>, String> {
        let packet = self.packet.clone().unwrap_or_default();
        let is_six = match packet.ip_family.as_str() {
            "" => self.is_six(),
            "IPv4" => false,
            "IPv6" => true,
            other => return Err(format!("spec.packet.ipFamily: {other:?}: give IPv4 or IPv6")),
        };
        let ends = [("source", &self.source), ("destination", &self.destination)];
        let [source, destination] = ends.map(|(field, end)| address(field, end.as_ref(), is_six, &addresses));
        let (source, destination) = (source?, destination?);
        let header = Header::new(&packet, is_six)?;
        let way = |source: Option<IpAddr>, destination: Option<IpAddr>, ports: [Option<u16>; 2]| {
            let field = |name: &str| if is_six { format!("ipv6_{name}") } else { format!("nw_{name}") };
            let mut words = header.words.clone();
            words.extend(source.map(|address| format!("{}={address}", field("src"))));
            words.extend(destination.map(|address| format!("{}={address}", field("dst"))));
            words.extend(ports[0].map(|port| format!("tp_src={port}")));
            words.extend(ports[1].map(|port| format!("tp_dst={port}")));
            words.join(",")
        };
        let [there, back] = if self.is_at_destination() {
            [CapturePoint::Tx, CapturePoint::Rx]
        } else {
            [CapturePoint::Rx, CapturePoint::Tx]
        };
        let [src, dst] = header.ports;
        let there = || Part { point: there, matched: way(source, destination, [src, dst]) };
        let back = || Part { point: back, matched: way(destination, source, [dst, src]) };
        match self.direction.as_str() {
            "" | "SourceToDestination" => Ok(vec![there()]),
            "DestinationToSource" => Ok(vec![back()]),
            "Both" => Ok(vec![there(), back()]),
            other => Err(format!("spec.direction: {other:?} is unknown")),
        }
    }

    /// The family of an end that is an address.
    fn is_six(&self) -> bool {
        let ends = [&self.source, &self.destination].into_iter().flatten();
        ends.filter_map(|end| end.ip.as_deref()).any(|address| address.contains(':'))
    }
}

/// The address of an end. None: any.
fn address(
    field: &str,
    end: Option<&End>,
    is_six: bool,
    addresses: impl Fn(&str) -> Vec<IpAddr>,
) -> Result<Option<IpAddr>, String> {
    let Some(end) = end else { return Ok(None) };
    if let Some(text) = &end.ip {
        let address: Option<IpAddr> = text.parse().ok().filter(|address: &IpAddr| address.is_ipv6() == is_six);
        let wrong = || format!("spec.{field}.ip: {text:?} is no address of the packet's family");
        return address.map(Some).ok_or_else(wrong);
    }
    let Some(pod) = end.pod_name() else { return Ok(None) };
    let address = addresses(&pod).into_iter().find(|address| address.is_ipv6() == is_six);
    address.map(Some).ok_or_else(|| format!("spec.{field}.pod: Pod {pod} has no address of the packet's family yet"))
}

/// What a match says of headers behind the addresses.
struct Header {
    words: Vec<String>,
    /// Of the sender and the receiver.
    ports: [Option<u16>; 2],
}

impl Header {
    fn new(packet: &Packet, is_six: bool) -> Result<Self, String> {
        let number = protocol(packet, is_six)?;
        let six = if is_six { "6" } else { "" };
        let first = match number {
            None => format!("ip{}", if is_six { "v6" } else { "" }),
            Some(6) => format!("tcp{six}"),
            Some(17) => format!("udp{six}"),
            Some(number) => format!("ip{},nw_proto={number}", if is_six { "v6" } else { "" }),
        };
        let (mut words, mut ports) = (vec![first], [None, None]);
        let header = &packet.transport_header;
        match number {
            Some(6) => {
                let tcp = header.tcp.clone().unwrap_or_default();
                ports = [tcp.src_port, tcp.dst_port];
                match &tcp.flags[..] {
                    [] => {}
                    [Flags { value, mask }] => {
                        words.push(format!("tcp_flags={value:#x}/{:#x}", mask.unwrap_or(*value)));
                    }
                    _ => return Err(several("tcp.flags")),
                }
            }
            Some(17) => ports = header.udp.as_ref().map(|udp| [udp.src_port, udp.dst_port]).unwrap_or_default(),
            Some(1) if !is_six => words.extend(messages(header.icmp.as_ref(), "icmp", &ICMP_TYPES)?),
            Some(58) if is_six => words.extend(messages(header.icmpv6.as_ref(), "icmpv6", &ICMPV6_TYPES)?),
            _ => {}
        }
        Ok(Self { words, ports })
    }
}

fn several(field: &str) -> String {
    format!("spec.packet.transportHeader.{field}: the switch takes one entry: create a PacketCapture for each")
}

/// The IP protocol. None: any.
fn protocol(packet: &Packet, is_six: bool) -> Result<Option<u8>, String> {
    let wrong = |given: &Value| format!("spec.packet.protocol: {given} is no protocol");
    let Some(given) = &packet.protocol else { return Ok(None) };
    if let Some(number) = given.as_u64() {
        return u8::try_from(number).map(Some).map_err(|_| wrong(given));
    }
    match given.as_str().unwrap_or_default().to_ascii_uppercase().as_str() {
        "TCP" => Ok(Some(6)),
        "UDP" => Ok(Some(17)),
        "ICMP" if !is_six => Ok(Some(1)),
        "ICMPV6" if is_six => Ok(Some(58)),
        _ => Err(wrong(given)),
    }
}

fn messages(given: Option<&Messages>, field: &str, names: &[(&str, u64)]) -> Result<Vec<String>, String> {
    let message = match given.map(|given| &given.messages[..]).unwrap_or_default() {
        [] => return Ok(Vec::new()),
        [message] => message,
        _ => return Err(several(&format!("{field}.messages"))),
    };
    let name = message.kind.as_str().unwrap_or_default().to_ascii_lowercase();
    let named = names.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    let number = named.or_else(|| message.kind.as_u64()).filter(|number| *number <= 255);
    let wrong = || format!("spec.packet.transportHeader.{field}.messages: {} is no type", message.kind);
    let (kind, code) = if field == "icmp" { ("icmp_type", "icmp_code") } else { ("icmpv6_type", "icmpv6_code") };
    let mut words = vec![format!("{kind}={}", number.ok_or_else(wrong)?)];
    words.extend(message.code.map(|number| format!("{code}={number}")));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parts(spec: Value) -> Result<Vec<(CapturePoint, String)>, String> {
        let spec = Spec::deserialize(spec).map_err(|error| error.to_string())?;
        let addresses = |pod: &str| match pod {
            "a/p" => vec![IpAddr::from([10, 0, 1, 5]), "fd00::5".parse().expect("an address")],
            "a/q" => vec![IpAddr::from([10, 0, 2, 6])],
            _ => Vec::new(),
        };
        spec.parts(addresses).map(|parts| parts.into_iter().map(|part| (part.point, part.matched)).collect())
    }

    fn pod(name: &str) -> Value {
        json!({"pod": {"namespace": "a", "name": name}})
    }

    #[test]
    fn ends_and_headers_become_a_match() {
        use CapturePoint::{Rx, Tx};
        let tcp = json!({"protocol": "tcp", "transportHeader": {"tcp": {"dstPort": 80, "flags": [{"value": 2}]}}});
        let there = "tcp,tcp_flags=0x2/0x2,nw_src=10.0.1.5,nw_dst=10.0.2.6,tp_dst=80";
        let back = "tcp,tcp_flags=0x2/0x2,nw_src=10.0.2.6,nw_dst=10.0.1.5,tp_src=80";
        for (more, expected) in [
            (json!({}), vec![(Rx, there)]),
            (json!({"direction": "DestinationToSource"}), vec![(Tx, back)]),
            (json!({"direction": "Both"}), vec![(Rx, there), (Tx, back)]),
            (json!({"direction": "Both", "capturePoint": "Destination"}), vec![(Tx, there), (Rx, back)]),
        ] {
            let mut spec = json!({"source": pod("p"), "destination": pod("q"), "packet": tcp});
            spec.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
            let expected = expected.into_iter().map(|(point, text)| (point, text.to_owned())).collect();
            assert_eq!(parts(spec), Ok(expected), "{more}");
        }
        let icmp = |kind: Value| {
            let packet = json!({"protocol": 1, "transportHeader": {"icmp": {"messages": [{"type": kind, "code": 0}]}}});
            parts(json!({"source": pod("p"), "packet": packet}))
        };
        let expected = "ip,nw_proto=1,icmp_type=8,icmp_code=0,nw_src=10.0.1.5";
        assert_eq!(icmp(json!("ICMP-echo")), Ok(vec![(Rx, expected.to_owned())]));
        assert_eq!(icmp(json!(8)), icmp(json!("icmp-echo")));
        let six = json!({"source": {"ip": "2001:db8::1"}, "destination": pod("p")});
        assert_eq!(parts(six), Ok(vec![(Tx, "ipv6,ipv6_src=2001:db8::1,ipv6_dst=fd00::5".to_owned())]));
    }

    #[test]
    fn what_cannot_be_captured_is_named() {
        let flags = json!({"protocol": "TCP", "transportHeader": {"tcp": {"flags": [{"value": 1}, {"value": 2}]}}});
        for (spec, expected) in [
            (json!({"source": pod("none")}), "spec.source.pod: Pod a/none has no address"),
            (json!({"source": pod("q"), "packet": {"ipFamily": "IPv6"}}), "has no address of the packet's family"),
            (json!({"source": pod("p"), "destination": {"ip": "x"}}), "spec.destination.ip: \"x\""),
            (json!({"source": pod("p"), "packet": {"protocol": "XTP"}}), "spec.packet.protocol"),
            (json!({"source": pod("p"), "packet": {"protocol": "ICMPv6"}}), "spec.packet.protocol"),
            (json!({"source": pod("p"), "packet": flags}), "the switch takes one entry"),
            (json!({"source": pod("p"), "direction": "Up"}), "spec.direction"),
        ] {
            let error = parts(spec.clone()).expect_err("refused");
            assert!(error.contains(expected), "{spec}: {error}");
        }
        let spec = |number: u32| Spec::deserialize(json!({"captureConfig": {"firstN": {"number": number}}}));
        let number = |number: u32| spec(number).expect("a spec").number();
        assert_eq!(number(PACKETS_MAX), Ok(PACKETS_MAX));
        assert!(number(0).is_err() && number(PACKETS_MAX + 1).is_err());
    }
}
