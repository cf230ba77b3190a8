//! The tables of Antrea's pipeline: names, numbers, order, what a packet that nothing matches does.
//!
//! Only tables of enabled features exist (Antrea's code, `pkg/agent/openflow/framework.go`).
//! Numbers are the same for all features.

use crate::Features;

/// Which part of the pipeline a table is of: a packet does not go from one to another but by a flow
/// that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pipeline {
    Root,
    Arp,
    Ip,
    Multicast,
    NonIp,
}

/// What a packet does that no other flow of the table matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    Drop,
    /// To the next table that exists.
    Next,
    /// These actions.
    Actions(&'static str),
}

const GATEWAY: Miss = Miss::Actions("set_field:0x20/0xf0->reg0,goto_table:L2ForwardingCalc");
const SELECT: Miss = Miss::Actions("set_field:0x10000/0x70000->reg4");

macro_rules! tables {
    ($($name:ident, $text:literal, $pipeline:ident, $stage:literal, $miss:expr, $exists:expr;)*) => {
        /// A table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)]
        pub enum Table { $($name,)* }

        impl Table {
            /// All of them, in the order of the pipeline.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// As Antrea's documents and dumps name it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The stage of the pipeline that it belongs to, in Antrea's words.
            #[must_use]
            pub const fn stage(self) -> &'static str {
                match self { $(Self::$name => $stage,)* }
            }

            pub(crate) const fn pipeline(self) -> Pipeline {
                match self { $(Self::$name => Pipeline::$pipeline,)* }
            }

            pub(crate) const fn miss(self) -> Miss {
                match self { $(Self::$name => $miss,)* }
            }

            /// Whether these features have it.
            #[must_use]
            pub fn exists(self, features: &Features) -> bool {
                #[allow(clippy::redundant_closure_call)]
                match self { $(Self::$name => ($exists)(features),)* }
            }
        }
    };
}

use Miss::{Drop, Next};

const fn always(_: &Features) -> bool {
    true
}

const fn never(_: &Features) -> bool {
    false
}

const fn multicast(features: &Features) -> bool {
    features.multicast
}

const fn proxy(features: &Features) -> bool {
    features.proxy
}

tables! {
    PipelineRootClassifier, "PipelineRootClassifier", Root, "start", Drop, always;
    ArpSpoofGuard, "ARPSpoofGuard", Arp, "validation", Drop, always;
    ArpResponder, "ARPResponder", Arp, "output", Drop, always;
    Classifier, "Classifier", Ip, "classifier", Drop, always;
    SpoofGuard, "SpoofGuard", Ip, "validation", Drop, always;
    Ipv6, "IPv6", Ip, "validation", Next, |features: &Features| features.ipv6;
    PipelineIpClassifier, "PipelineIPClassifier", Ip, "validation", Next, multicast;
    UnSnat, "UnSNAT", Ip, "conntrackState", Next, always;
    ConntrackZone, "ConntrackZone", Ip, "conntrackState", Next, always;
    ConntrackState, "ConntrackState", Ip, "conntrackState", Next, always;
    PreRoutingClassifier, "PreRoutingClassifier", Ip, "preRouting", Next, proxy;
    NodePortMark, "NodePortMark", Ip, "preRouting", Next, |features: &Features| features.proxy_all;
    SessionAffinity, "SessionAffinity", Ip, "preRouting", SELECT, proxy;
    ServiceLb, "ServiceLB", Ip, "preRouting", Next, proxy;
    DsrServiceMark, "DSRServiceMark", Ip, "preRouting", Next, |features: &Features| features.dsr;
    EndpointDnat, "EndpointDNAT", Ip, "preRouting", Next, proxy;
    Dnat, "DNAT", Ip, "preRouting", Next, |features: &Features| !features.proxy;
    EgressSecurityClassifier, "EgressSecurityClassifier", Ip, "egressSecurity", Next, never;
    AntreaPolicyEgressRule, "AntreaPolicyEgressRule", Ip, "egressSecurity", Next, |features: &Features| features.antrea_policy;
    EgressRule, "EgressRule", Ip, "egressSecurity", Next, always;
    EgressDefaultRule, "EgressDefaultRule", Ip, "egressSecurity", Next, always;
    EgressMetric, "EgressMetric", Ip, "egressSecurity", Next, always;
    L3Forwarding, "L3Forwarding", Ip, "routing", GATEWAY, always;
    EgressMark, "EgressMark", Ip, "routing", GATEWAY, |features: &Features| features.egress;
    EgressQos, "EgressQoS", Ip, "routing", Next, |features: &Features| features.egress_traffic_shaping;
    L3DecTtl, "L3DecTTL", Ip, "routing", Next, always;
    SnatMark, "SNATMark", Ip, "postRouting", Next, always;
    Snat, "SNAT", Ip, "postRouting", Next, always;
    L2ForwardingCalc, "L2ForwardingCalc", Ip, "switching", Next, always;
    TrafficControl, "TrafficControl", Ip, "switching", Next, |features: &Features| features.traffic_control || features.l7_network_policy;
    IngressSecurityClassifier, "IngressSecurityClassifier", Ip, "ingressSecurity", Next, always;
    AntreaPolicyIngressRule, "AntreaPolicyIngressRule", Ip, "ingressSecurity", Next, |features: &Features| features.antrea_policy;
    IngressRule, "IngressRule", Ip, "ingressSecurity", Next, always;
    IngressDefaultRule, "IngressDefaultRule", Ip, "ingressSecurity", Next, always;
    IngressMetric, "IngressMetric", Ip, "ingressSecurity", Next, always;
    ConntrackCommit, "ConntrackCommit", Ip, "conntrack", Next, always;
    Vlan, "VLAN", Ip, "output", Next, |features: &Features| features.pod_vlans;
    Output, "Output", Ip, "output", Drop, always;
    MulticastEgressRule, "MulticastEgressRule", Multicast, "egressSecurity", Next, multicast;
    MulticastEgressMetric, "MulticastEgressMetric", Multicast, "egressSecurity", Next, multicast;
    MulticastEgressPodMetric, "MulticastEgressPodMetric", Multicast, "egressSecurity", Next, multicast;
    MulticastRouting, "MulticastRouting", Multicast, "routing", Next, multicast;
    MulticastIngressRule, "MulticastIngressRule", Multicast, "ingressSecurity", Next, multicast;
    MulticastIngressMetric, "MulticastIngressMetric", Multicast, "ingressSecurity", Next, multicast;
    MulticastIngressPodMetric, "MulticastIngressPodMetric", Multicast, "ingressSecurity", Next, multicast;
    MulticastOutput, "MulticastOutput", Multicast, "output", Drop, multicast;
    NonIp, "NonIP", NonIp, "output", Drop, never;
}

/// Numbers between two tables: room for others.
const STRIDE: u8 = 4;

impl Table {
    /// Its number: 0, 4, 8, ...
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8 * STRIDE
    }

    /// By its name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|table| table.name() == name)
    }

    /// By its number.
    #[must_use]
    pub fn by_number(number: u8) -> Option<Self> {
        number.is_multiple_of(STRIDE).then(|| Self::ALL.get(usize::from(number / STRIDE)).copied()).flatten()
    }

    /// Itself, or the next one of its pipeline that exists: where a flow that leads here leads.
    #[must_use]
    pub fn or_next(self, features: &Features) -> Option<Self> {
        let behind = &Self::ALL[self as usize..];
        behind
            .iter()
            .copied()
            .take_while(|table| table.pipeline() == self.pipeline())
            .find(|table| table.exists(features))
    }

    /// The one that a packet goes to that this one's miss passes on.
    #[must_use]
    pub fn next(self, features: &Features) -> Option<Self> {
        let behind = Self::ALL.get(self as usize + 1).copied().filter(|table| table.pipeline() == self.pipeline())?;
        behind.or_next(features)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_47_with_names_and_numbers_of_their_own() {
        assert_eq!(Table::ALL.len(), 47);
        for table in Table::ALL {
            assert_eq!(Table::by_name(table.name()), Some(*table));
            assert_eq!(Table::by_number(table.number()), Some(*table));
            assert!(table.name().len() <= 25, "{}", table.name());
        }
        assert_eq!(Table::by_number(1), None);
        assert_eq!(Table::NonIp.number(), 184);
    }

    #[test]
    fn what_does_not_exist_is_passed_by() {
        let features = Features { proxy: true, ..Features::default() };
        assert_eq!(Table::TrafficControl.or_next(&features), Some(Table::IngressSecurityClassifier));
        assert_eq!(Table::ServiceLb.next(&features), Some(Table::EndpointDnat));
        assert_eq!(Table::AntreaPolicyEgressRule.or_next(&features), Some(Table::EgressRule));
        assert_eq!(Table::Output.next(&features), None);
        assert_eq!(Table::MulticastRouting.or_next(&features), None);
    }
}
