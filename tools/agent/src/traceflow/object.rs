//! What a Traceflow says: its ends, its packet, and how far it is.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::traceflow_end::End;

/// Seconds of a Traceflow that does not say how long (Antrea's default).
const TIMEOUT_SECONDS: u32 = 20;

/// The longest time that the switch takes.
const TIMEOUT_SECONDS_MAX: u32 = 300;

/// Bytes of headers that `packet.length` counts: of the IP header by family, and of ICMP, TCP, UDP.
const IP_LEN: [u32; 2] = [20, 40];
const TCP_LEN: u32 = 20;
const OTHER_LEN: u32 = 8;

/// How far a Traceflow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nobody has claimed it.
    New,
    /// A Node runs it.
    Running,
    /// It is over.
    Done,
}

/// A Traceflow, as far as agents need it.
#[derive(Clone, Debug)]
pub(super) struct Traceflow {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) phase: Phase,
    pub(super) tag: u32,
    pub(super) started: Option<Timestamp>,
    /// The spec; or why it is not understood.
    pub(super) spec: Result<Spec, String>,
    /// `status.results`.
    pub(super) results: Vec<Value>,
}

/// `spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    source: Place,
    pub(super) destination: Place,
    packet: Packet,
    live_traffic: bool,
    dropped_only: bool,
    timeout: u32,
}

/// `spec.source` or `spec.destination`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Place {
    namespace: String,
    pod: String,
    service: String,
    ip: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Packet {
    length: u32,
    ip_header: Option<IpHeader>,
    #[serde(rename = "ipv6Header")]
    ipv6_header: Option<Ipv6Header>,
    transport_header: TransportHeader,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct IpHeader {
    protocol: u32,
    ttl: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Ipv6Header {
    next_header: Option<u32>,
    hop_limit: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TransportHeader {
    icmp: Option<Value>,
    udp: Option<Ports>,
    tcp: Option<Ports>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Ports {
    src_port: u32,
    dst_port: u32,
    flags: Option<u32>,
}

impl Traceflow {
    /// Of an object of the API server.
    pub(super) fn of(object: &DynamicObject) -> Self {
        let status = object.data.get("status").unwrap_or(&Value::Null);
        let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default();
        let phase = match text("phase") {
            "" | "Pending" => Phase::New,
            "Running" => Phase::Running,
            _ => Phase::Done,
        };
        let tag = status.get("dataplaneTag").and_then(Value::as_u64).and_then(|tag| u32::try_from(tag).ok());
        let spec = object.data.get("spec").cloned().unwrap_or_default();
        Self {
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            version: object.resource_version().unwrap_or_default(),
            phase,
            tag: tag.unwrap_or(0),
            started: text("startTime").parse().ok(),
            spec: Spec::deserialize(spec).map_err(|error| format!("spec: {error}")),
            results: status.get("results").and_then(Value::as_array).cloned().unwrap_or_default(),
        }
    }

    /// Whether it begins at one of these Pods; without a Pod as its source, whether it ends there.
    pub(super) fn is_of(&self, local: &BTreeSet<String>) -> bool {
        let Ok(spec) = &self.spec else { return false };
        match spec.source.pod_name() {
            Some(pod) => local.contains(&pod),
            None => spec.destination.pod_name().is_some_and(|pod| local.contains(&pod)),
        }
    }

    /// Whether its destination is one of these Pods.
    pub(super) fn ends_at(&self, local: &BTreeSet<String>) -> bool {
        let destination = self.spec.as_ref().ok().and_then(|spec| spec.destination.pod_name());
        destination.is_some_and(|pod| local.contains(&pod))
    }

    /// Seconds that it may take.
    pub(super) fn timeout_seconds(&self) -> u32 {
        let asked = self.spec.as_ref().map_or(0, |spec| spec.timeout);
        if asked == 0 { TIMEOUT_SECONDS } else { asked.min(TIMEOUT_SECONDS_MAX) }
    }

    /// Seconds since its time was over; below 0: it is not.
    pub(super) fn overdue_seconds(&self, now: Timestamp) -> i64 {
        let since = self.started.map_or(0, |started| now.duration_since(started).as_secs());
        since.saturating_sub(self.timeout_seconds().into())
    }

    /// The Pod that is its destination, as (namespace, name).
    pub(super) fn destination_pod(&self) -> Option<(&str, &str)> {
        let destination = &self.spec.as_ref().ok()?.destination;
        destination.is_pod().then(|| (destination.namespace(), destination.pod.as_str()))
    }

    /// The address of a Pod that the packet goes to: of the packet's family, else the first one.
    pub(super) fn choose<'a>(&self, addresses: &[&'a str]) -> Option<&'a str> {
        let packet = self.spec.as_ref().ok().map(|spec| &spec.packet);
        let is_asked = |address: &&&str| match packet {
            Some(packet) if packet.ipv6_header.is_some() => address.contains(':'),
            Some(packet) if packet.ip_header.is_some() => !address.contains(':'),
            _ => true,
        };
        addresses.iter().find(is_asked).copied()
    }

    /// What the switch is asked for. `address` takes the place of a destination of another Node.
    pub(super) fn request(&self, role: v1::TraceflowRole, address: Option<&str>) -> Result<v1::Traceflow, String> {
        let base = v1::Traceflow {
            name: self.name.clone(),
            tag: self.tag,
            role: role.into(),
            timeout_seconds: self.timeout_seconds(),
            ..v1::Traceflow::default()
        };
        if role == v1::TraceflowRole::Receiver {
            return Ok(base);
        }
        let spec = self.spec.clone()?;
        Ok(v1::Traceflow {
            source: spec.source.end("spec.source")?,
            destination: match address {
                Some(address) => Some(v1::TraceflowEnd { end: Some(End::Address(address.to_owned())) }),
                None => spec.destination.end("spec.destination")?,
            },
            packet: Some(spec.packet.request()?),
            live: spec.live_traffic,
            dropped_only: spec.dropped_only,
            ..base
        })
    }
}

impl Place {
    fn namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }

    /// "namespace/name" of a Pod.
    fn pod_name(&self) -> Option<String> {
        let namespace = self.namespace();
        (!self.pod.is_empty()).then(|| format!("{namespace}/{}", self.pod))
    }

    /// Whether it is a Pod.
    pub(super) fn is_pod(&self) -> bool {
        !self.pod.is_empty()
    }

    fn end(&self, field: &str) -> Result<Option<v1::TraceflowEnd>, String> {
        let given = [&self.pod, &self.service, &self.ip].into_iter().filter(|text| !text.is_empty()).count();
        if given > 1 {
            return Err(format!("{field}: give one of pod, service and ip"));
        }
        let namespace = self.namespace();
        let end = if let Some(pod) = self.pod_name() {
            Some(End::Pod(pod))
        } else if !self.service.is_empty() {
            Some(End::Service(format!("{namespace}/{}", self.service)))
        } else {
            (!self.ip.is_empty()).then(|| End::Address(self.ip.clone()))
        };
        Ok(end.map(|end| v1::TraceflowEnd { end: Some(end) }))
    }
}

impl Packet {
    fn request(&self) -> Result<v1::TraceflowPacket, String> {
        let (is_v6, header) = (self.ipv6_header.is_some(), &self.transport_header);
        let number = match (&self.ipv6_header, &self.ip_header) {
            (Some(header), _) => header.next_header.unwrap_or(0),
            (None, Some(header)) => header.protocol,
            (None, None) => 0,
        };
        let (protocol, ports) = match (number, &header.tcp, &header.udp, &header.icmp) {
            (6, ports, ..) => (v1::Protocol::Tcp, ports.clone()),
            (17, _, ports, _) => (v1::Protocol::Udp, ports.clone()),
            (132, ..) => (v1::Protocol::Sctp, None),
            (1 | 58, ..) | (0, None, None, Some(_)) => (v1::Protocol::Icmp, None),
            (0, Some(ports), ..) => (v1::Protocol::Tcp, Some(ports.clone())),
            (0, None, Some(ports), _) => (v1::Protocol::Udp, Some(ports.clone())),
            (0, None, None, None) => (v1::Protocol::Unspecified, None),
            (other, ..) => return Err(format!("spec.packet: protocol {other} is not served")),
        };
        let ports = ports.unwrap_or_default();
        let family = match (is_v6, self.ip_header.is_some()) {
            (true, _) => v1::Families::Ipv6,
            (false, true) => v1::Families::Ipv4,
            (false, false) => v1::Families::Unspecified,
        };
        let transport = if protocol == v1::Protocol::Tcp { TCP_LEN } else { OTHER_LEN };
        let ttl = self.ipv6_header.as_ref().map_or(0, |header| header.hop_limit);
        Ok(v1::TraceflowPacket {
            family: family.into(),
            protocol: protocol.into(),
            source_port: ports.src_port,
            destination_port: ports.dst_port,
            tcp_flags: ports.flags.unwrap_or(0),
            ttl: ttl.max(self.ip_header.as_ref().map_or(0, |header| header.ttl)),
            payload_len: self.length.saturating_sub(IP_LEN[usize::from(is_v6)] + transport),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn traceflow(spec: &Value, status: &Value) -> Traceflow {
        let object = json!({
            "apiVersion": "crd.antrea.io/v1beta1",
            "kind": "Traceflow",
            "metadata": {"name": "t", "uid": "u", "resourceVersion": "7"},
            "spec": spec,
            "status": status,
        });
        Traceflow::of(&serde_json::from_value(object).expect("an object"))
    }

    fn request(spec: &Value) -> Result<v1::Traceflow, String> {
        traceflow(spec, &json!({"phase": "Running", "dataplaneTag": 5})).request(v1::TraceflowRole::Sender, None)
    }

    #[test]
    fn a_spec_is_what_the_switch_is_asked_for() {
        let asked = request(&json!({
            "source": {"namespace": "a", "pod": "web"},
            "destination": {"namespace": "b", "service": "db"},
            "packet": {
                "length": 100,
                "ipHeader": {"protocol": 6, "ttl": 9},
                "transportHeader": {"tcp": {"srcPort": 1000, "dstPort": 80, "flags": 2}},
            },
            "timeout": 400,
        }));
        let asked = asked.expect("a request");
        let end = |end: Option<v1::TraceflowEnd>| end.and_then(|end| end.end);
        assert_eq!(end(asked.source), Some(End::Pod("a/web".to_owned())));
        assert_eq!(end(asked.destination), Some(End::Service("b/db".to_owned())));
        assert_eq!((asked.tag, asked.timeout_seconds), (5, 300));
        let packet = asked.packet.expect("a packet");
        assert_eq!((packet.protocol(), packet.source_port, packet.destination_port), (v1::Protocol::Tcp, 1000, 80));
        assert_eq!((packet.family(), packet.ttl, packet.payload_len), (v1::Families::Ipv4, 9, 60));
    }

    #[test]
    fn what_the_switch_does_not_send_is_refused_by_name() {
        for (spec, reason) in [
            (json!({"source": {"pod": "a", "ip": "10.0.0.1"}}), "spec.source: give one of pod, service and ip"),
            (json!({"packet": {"ipHeader": {"protocol": 47}}}), "spec.packet: protocol 47 is not served"),
            (json!({"timeout": "soon"}), "spec: invalid type: string \"soon\", expected u32"),
        ] {
            assert_eq!(request(&spec).err().as_deref(), Some(reason), "{spec}");
        }
    }

    #[test]
    fn it_belongs_to_the_node_of_its_source_or_without_one_of_its_destination() {
        let local: BTreeSet<String> = ["a/x".to_owned(), "default/y".to_owned()].into();
        let is_of = |spec: &Value| traceflow(spec, &Value::Null).is_of(&local);
        assert!(is_of(&json!({"source": {"namespace": "a", "pod": "x"}, "destination": {"pod": "z"}})));
        assert!(is_of(&json!({"source": {"pod": "y"}})), "the namespace is default");
        assert!(is_of(&json!({"source": {"ip": "1.2.3.4"}, "destination": {"pod": "y"}})));
        assert!(!is_of(&json!({"source": {"namespace": "b", "pod": "x"}, "destination": {"pod": "y"}})));
        assert!(!is_of(&json!({})));
    }

    #[test]
    fn its_time_is_over_so_many_seconds_after_its_start() {
        let status = json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z"});
        let at = |second: &str| format!("2026-01-01T00:00:{second}Z").parse::<Timestamp>().expect("a time");
        let overdue = |spec: &Value, second: &str| traceflow(spec, &status).overdue_seconds(at(second));
        assert_eq!(overdue(&json!({}), "05"), -15);
        assert_eq!(overdue(&json!({"timeout": 3}), "05"), 2);
    }
}
