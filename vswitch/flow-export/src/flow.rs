//! A record of a connection, as exporters have it.

use std::net::IpAddr;

/// Why there is a record; numbers of the element flowEndReason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndReason {
    /// The connection had no packets for some time.
    Idle = 1,
    /// The connection goes on.
    #[default]
    Active = 2,
    /// The connection ended, or was denied.
    End = 3,
}

/// Where the ends are; numbers of Antrea's element flowType.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowType {
    /// Not known.
    #[default]
    Unknown = 0,
    /// Two Pods of one Node.
    IntraNode = 1,
    /// Two Pods of two Nodes.
    InterNode = 2,
    /// From a Pod to an address outside the cluster.
    ToExternal = 3,
    /// From such an address to a Pod.
    FromExternal = 4,
}

/// What a rule did; numbers of Antrea's elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleAction {
    /// No rule decided.
    #[default]
    None = 0,
    /// Allow.
    Allow = 1,
    /// Drop.
    Drop = 2,
    /// Reject.
    Reject = 3,
}

/// Counts of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets since the connection began.
    pub packets: u64,
    /// Bytes since then.
    pub bytes: u64,
    /// Packets since the last record.
    pub new_packets: u64,
    /// Bytes since then.
    pub new_bytes: u64,
}

/// A Pod at an end. Empty: the end is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodEnd {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Name of its Node.
    pub node: String,
    /// UID of its Node.
    pub node_uid: String,
    /// Labels.
    pub labels: Vec<(String, String)>,
}

/// A Service that the sender spoke to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUse {
    /// "namespace/name:port".
    pub port_name: String,
    /// Address that the sender used.
    pub address: IpAddr,
    /// Port that the sender used.
    pub port: u16,
    /// UID.
    pub uid: String,
}

/// A policy that decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyUse {
    /// 1: NetworkPolicy of Kubernetes; 2: NetworkPolicy of Antrea; 3: ClusterNetworkPolicy of
    /// Antrea; 4: ClusterNetworkPolicy of Kubernetes. 0: no policy decided.
    pub kind: u8,
    /// Namespace. Empty: the policy is one of the whole cluster.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Name of the rule. Empty: the rule has none.
    pub rule: String,
    /// What the rule did.
    pub action: RuleAction,
}

/// An Egress that the flow uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressUse {
    /// Name.
    pub name: String,
    /// Address, as text.
    pub address: String,
    /// Node that has the address.
    pub node: String,
}

/// A record of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// When the connection began, in milliseconds since 1970-01-01 00:00:00 UTC.
    pub start_ms: u64,
    /// When the connection ended, or when the record was made.
    pub end_ms: u64,
    /// Why there is a record.
    pub reason: EndReason,
    /// Sender.
    pub source: IpAddr,
    /// Receiver; of a Service its endpoint.
    pub destination: IpAddr,
    /// Sender's port. 0: the protocol has none.
    pub source_port: u16,
    /// Receiver's port.
    pub destination_port: u16,
    /// IP protocol.
    pub protocol: u8,
    /// The direction of the first packet.
    pub forward: Counts,
    /// The answers.
    pub reverse: Counts,
    /// The Pod that sends.
    pub source_pod: PodEnd,
    /// The Pod that receives.
    pub destination_pod: PodEnd,
    /// The Service that the sender spoke to.
    pub service: Option<ServiceUse>,
    /// The policy of the receiver that decided.
    pub ingress: PolicyUse,
    /// The policy of the sender that decided.
    pub egress_policy: PolicyUse,
    /// State of TCP, such as ESTABLISHED. Empty: not TCP.
    pub tcp_state: String,
    /// Where the ends are.
    pub flow_type: FlowType,
    /// The Egress that the flow uses. An empty name: none.
    pub egress: EgressUse,
    /// Address and port that the sender has behind a Service's translation.
    pub translated: Option<(IpAddr, u16)>,
}

impl Flow {
    /// A flow between two addresses of which nothing else is known.
    #[must_use]
    pub fn new(source: IpAddr, destination: IpAddr) -> Self {
        Self {
            start_ms: 0,
            end_ms: 0,
            reason: EndReason::default(),
            source,
            destination,
            source_port: 0,
            destination_port: 0,
            protocol: 0,
            forward: Counts::default(),
            reverse: Counts::default(),
            source_pod: PodEnd::default(),
            destination_pod: PodEnd::default(),
            service: None,
            ingress: PolicyUse::default(),
            egress_policy: PolicyUse::default(),
            tcp_state: String::new(),
            flow_type: FlowType::default(),
            egress: EgressUse::default(),
            translated: None,
        }
    }
}
