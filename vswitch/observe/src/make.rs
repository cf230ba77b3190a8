//! Observations from what the switch tells.

use crate::names::Names;
use crate::packet;
use crate::policy::observed;
use std::net::IpAddr;
use vswitch_proto::antrea::v1::{
    Direction, FlowRecord, FlowRecordKind, FlowVerdict, Name, Observation, ObservationKind, ObservationVerdict,
    ObservedPolicy, PolicyLog, RuleRef, ServiceRefused,
};
use vswitch_proto::v1::{ConnectionTuple, Count, DropDirection, DropSample};

/// The reason of drops whose sender is told.
const REJECTED: &str = "rejected";

/// Makes observations, with names as they are now.
#[derive(Clone, Copy)]
pub struct Maker<'a> {
    /// What the agent says.
    pub names: &'a Names,
    /// The Pod of this Node with an address, as "namespace/name".
    pub local: &'a dyn Fn(&IpAddr) -> Option<String>,
}

impl std::fmt::Debug for Maker<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maker").field("names", &self.names.len()).finish_non_exhaustive()
    }
}

/// Both ends' Pods, as far as they are known otherwise than by their address.
#[derive(Clone, Copy, Debug, Default)]
struct Known<'a> {
    source: &'a str,
    destination: &'a str,
}

/// The policies of a record that allowed it.
fn allowed(verdict: Option<&FlowVerdict>) -> Vec<ObservedPolicy> {
    let rule = verdict.filter(|verdict| verdict.action == "Allow").and_then(|verdict| verdict.rule.as_ref());
    rule.and_then(|rule| observed(rule, "", false)).into_iter().collect()
}

/// Puts a policy where its direction and its verdict belong.
fn decided(observation: &mut Observation, policy: Option<ObservedPolicy>) {
    let denied = observation.verdict() != ObservationVerdict::Forwarded;
    let list = match (observation.direction(), denied) {
        (Direction::Egress, false) => &mut observation.egress_allowed_by,
        (Direction::Egress, true) => &mut observation.egress_denied_by,
        (_, false) => &mut observation.ingress_allowed_by,
        (_, true) => &mut observation.ingress_denied_by,
    };
    list.extend(policy);
}

impl Maker<'_> {
    /// The beginning or the end of a connection. None: the record is of neither.
    #[must_use]
    pub fn record(&self, record: &FlowRecord) -> Option<Observation> {
        let (kind, unix_ms) = match record.kind() {
            FlowRecordKind::New => (ObservationKind::Begin, record.start_unix_ms),
            FlowRecordKind::End => (ObservationKind::End, record.end_unix_ms),
            // Drops and logs tell of what was denied.
            FlowRecordKind::Unspecified | FlowRecordKind::Update | FlowRecordKind::Denied => return None,
        };
        let mut observation = Observation {
            kind: kind.into(),
            unix_ms,
            verdict: ObservationVerdict::Forwarded.into(),
            tuple: record.original.clone(),
            service: record.service.clone(),
            direction: if record.source_pod.is_empty() { Direction::Ingress } else { Direction::Egress }.into(),
            egress_allowed_by: allowed(record.egress_verdict.as_ref()),
            ingress_allowed_by: allowed(record.ingress_verdict.as_ref()),
            connection_id: record.connection_id,
            original_count: record.original_count,
            reply_count: record.reply_count,
            ..Observation::default()
        };
        let spoken_to = record.original.as_ref().map(|tuple| (&tuple.dst, tuple.dst_port));
        let endpoint = record.reply.as_ref().map(|tuple| (&tuple.src, tuple.src_port));
        if let Some((address, port)) = endpoint.filter(|endpoint| Some(*endpoint) != spoken_to) {
            observation.endpoint_address.clone_from(address);
            observation.endpoint_port = port;
        }
        self.name(&mut observation, Known { source: &record.source_pod, destination: &record.destination_pod });
        Some(observation)
    }

    /// A decision that is logged.
    #[must_use]
    pub fn log(&self, log: &PolicyLog) -> Observation {
        let (direction, known) = match log.direction.as_str() {
            "Egress" => (Direction::Egress, Known { source: &log.applied_to, ..Known::default() }),
            "Ingress" => (Direction::Ingress, Known { destination: &log.applied_to, ..Known::default() }),
            _ => (Direction::Unspecified, Known::default()),
        };
        let verdict = match log.disposition.as_str() {
            "Drop" => ObservationVerdict::Dropped,
            "Reject" => ObservationVerdict::Refused,
            _ => ObservationVerdict::Forwarded,
        };
        let mut observation = Observation {
            kind: ObservationKind::Policy.into(),
            unix_ms: log.unix_ms,
            verdict: verdict.into(),
            tuple: log.tuple.clone(),
            direction: direction.into(),
            original_count: Some(Count { packets: log.packets.into(), bytes: 0 }),
            log_label: log.log_label.clone(),
            ..Observation::default()
        };
        let rule = log.rule.clone().unwrap_or_default();
        let isolates = verdict != ObservationVerdict::Forwarded && rule.rule.is_empty() && rule.number == 0;
        decided(&mut observation, observed(&rule, &log.rule_name, isolates));
        self.name(&mut observation, known);
        observation
    }

    /// A connection to a Service without endpoints.
    #[must_use]
    pub fn refused(&self, refused: &ServiceRefused, unix_ms: u64) -> Observation {
        let mut observation = Observation {
            kind: ObservationKind::Refused.into(),
            unix_ms,
            verdict: ObservationVerdict::Refused.into(),
            tuple: refused.tuple.clone(),
            service: refused.service.clone(),
            original_count: Some(Count { packets: refused.packets.into(), bytes: 0 }),
            ..Observation::default()
        };
        self.name(&mut observation, Known::default());
        observation
    }

    /// A packet that was dropped. `looks`: which way policies look whose rule decided.
    #[must_use]
    pub fn drop(&self, sample: &DropSample, looks: Direction) -> Observation {
        let whole = usize::try_from(sample.length).unwrap_or_default();
        let headers = packet::read(&sample.packet, whole);
        let known = match sample.direction() {
            DropDirection::In => Known { source: &sample.pod, ..Known::default() },
            DropDirection::Out => Known { destination: &sample.pod, ..Known::default() },
            DropDirection::Unspecified => Known::default(),
        };
        let decider = sample.decider.as_ref();
        let policy = decider.and_then(|decider| {
            let rule = RuleRef { policy: decider.policy.clone(), rule: decider.policy_rule.clone(), number: 0 };
            observed(&rule, "", decider.default_deny)
        });
        let verdict = if sample.reason == REJECTED { ObservationVerdict::Refused } else { ObservationVerdict::Dropped };
        let mut observation = Observation {
            kind: ObservationKind::Drop.into(),
            unix_ms: sample.unix_ms,
            verdict: verdict.into(),
            tuple: headers.tuple,
            direction: if policy.is_some() { looks } else { Direction::Unspecified }.into(),
            drop_reason: sample.reason.clone(),
            drop_class: sample.class.clone(),
            decider: sample.decider.clone(),
            bridge: sample.bridge.clone(),
            port: sample.port.clone(),
            original_count: Some(Count { packets: 1, bytes: sample.length.into() }),
            tcp_flags: headers.tcp_flags,
            ethernet_source: headers.source,
            ethernet_destination: headers.destination,
            ..Observation::default()
        };
        decided(&mut observation, policy);
        self.name(&mut observation, known);
        observation
    }

    /// Names both ends, and says which way it went where nothing else does.
    fn name(&self, observation: &mut Observation, known: Known<'_>) {
        let tuple = observation.tuple.clone().unwrap_or_default();
        let ConnectionTuple { src, dst, .. } = &tuple;
        let to = if observation.endpoint_address.is_empty() { dst } else { &observation.endpoint_address };
        let local = |bytes: &[u8], known: &str| match (known, crate::address(bytes)) {
            ("", Some(address)) => (self.local)(&address).unwrap_or_default(),
            _ => known.to_owned(),
        };
        let (source, destination) = (local(src, known.source), local(to, known.destination));
        if observation.direction() == Direction::Unspecified {
            let direction = match (source.is_empty(), destination.is_empty()) {
                (false, _) => Direction::Egress,
                (true, false) => Direction::Ingress,
                (true, true) => Direction::Unspecified,
            };
            observation.direction = direction.into();
        }
        observation.source = self.called(src, &source);
        observation.destination = self.called(to, &destination);
    }

    /// What the agent calls an address, if that is the Pod that is known; else the Pod alone.
    fn called(&self, address: &[u8], pod: &str) -> Option<Name> {
        let told = crate::address(address).and_then(|address| self.names.get(&address));
        let Some((namespace, pod)) = pod.split_once('/') else { return told.map(|name| (*name).clone()) };
        match told.filter(|name| name.namespace == namespace && name.pod == pod) {
            Some(name) => Some((*name).clone()),
            None => Some(Name { namespace: namespace.to_owned(), pod: pod.to_owned(), ..Name::default() }),
        }
    }
}

#[cfg(test)]
#[path = "make_tests.rs"]
mod tests;
