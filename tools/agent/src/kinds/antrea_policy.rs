//! NetworkPolicy and ClusterNetworkPolicy of crd.antrea.io.

use super::NumberOrName;
use super::k8s_policy::IpBlock;
use super::ruled::Ruled;
use super::selector::Selector;
use serde::{Deserialize, Deserializer, Serialize};

/// A word; an empty one is as none, as Antrea has it.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let word: Option<String> = Option::deserialize(deserializer)?;
    Ok(word.filter(|word| !word.is_empty()))
}

/// A policy without its metadata.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct AntreaPolicyBody {
    /// What is asked for.
    pub spec: Spec,
}

/// What is asked for.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Spec {
    /// Its tier; application by default.
    #[serde(default, deserialize_with = "given")]
    pub tier: Option<String>,
    /// Its place in the tier, 1 first.
    pub priority: f64,
    /// What it applies to, unless its rules say so themselves.
    #[serde(default)]
    pub applied_to: Vec<AppliedTo>,
    /// What comes in.
    #[serde(skip)]
    pub ingress: Vec<Ruled<Rule>>,
    /// What goes out.
    #[serde(skip)]
    pub egress: Vec<Ruled<Rule>>,
}

impl Spec {
    /// Whether a rule is not understood.
    pub fn has_wrong_rules(&self) -> bool {
        self.ingress.iter().chain(&self.egress).any(|rule| matches!(rule, Ruled::Wrong(_)))
    }
}

/// What a policy or rule applies to.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AppliedTo {
    /// Pods.
    pub pod_selector: Option<Selector>,
    /// Their namespaces.
    pub namespace_selector: Option<Selector>,
    /// A ClusterGroup; of a policy of a namespace a Group of that.
    #[serde(default, deserialize_with = "given")]
    pub group: Option<String>,
    /// Pods of a service account.
    pub service_account: Option<Named>,
    /// NodePorts of a Service.
    pub service: Option<Named>,
    /// Not served.
    pub external_entity_selector: Option<Selector>,
    /// Not served.
    pub node_selector: Option<Selector>,
}

/// Something by namespace and name.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its namespace; that of the policy by default.
    pub namespace: Option<String>,
    /// Not served, but for the cluster itself.
    pub scope: Option<String>,
}

/// A rule.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// What is done.
    pub action: Action,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Ports; empty: all.
    #[serde(default)]
    pub ports: Vec<Port>,
    /// ICMP, IGMP.
    #[serde(default)]
    pub protocols: Vec<Protocol>,
    /// Sources of ingress; empty: anybody.
    #[serde(default)]
    pub from: Vec<Peer>,
    /// Destinations of egress; empty: anybody.
    #[serde(default)]
    pub to: Vec<Peer>,
    /// Services as destinations.
    #[serde(default)]
    pub to_services: Vec<Named>,
    /// What it applies to in place of the policy's.
    #[serde(default)]
    pub applied_to: Vec<AppliedTo>,
    /// Decisions are told.
    #[serde(default)]
    pub enable_logging: bool,
    /// Word for logs.
    #[serde(default)]
    pub log_label: String,
    /// What the application-aware engine is to check.
    #[serde(default)]
    pub l7_protocols: Vec<L7Protocol>,
}

/// What is done.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[allow(missing_docs)] // Antrea's words
pub enum Action {
    Allow,
    Drop,
    Reject,
    Pass,
}

/// Ports.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Port {
    /// TCP by default.
    pub protocol: Option<String>,
    /// One of them, by number or name; none: all.
    pub port: Option<NumberOrName>,
    /// The last one of a range.
    pub end_port: Option<u16>,
    /// A source port.
    pub source_port: Option<u16>,
    /// The last one of a range.
    pub source_end_port: Option<u16>,
}

/// A protocol without ports.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// ICMP.
    pub icmp: Option<Icmp>,
    /// IGMP.
    pub igmp: Option<Igmp>,
}

/// Messages of ICMP.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Icmp {
    /// Their type.
    pub icmp_type: Option<u8>,
    /// Their code.
    pub icmp_code: Option<u8>,
}

/// Messages of IGMP.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Igmp {
    /// Their type.
    pub igmp_type: Option<u8>,
    /// Their group.
    #[serde(default)]
    pub group_address: String,
}

/// The other side.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Peer {
    /// Pods.
    pub pod_selector: Option<Selector>,
    /// Their namespaces.
    pub namespace_selector: Option<Selector>,
    /// Their namespaces, as seen from the Pods that the rule applies to.
    pub namespaces: Option<Namespaces>,
    /// Addresses.
    pub ip_block: Option<IpBlock>,
    /// A ClusterGroup.
    #[serde(default, deserialize_with = "given")]
    pub group: Option<String>,
    /// A name.
    #[serde(default, deserialize_with = "given")]
    pub fqdn: Option<String>,
    /// Pods of a service account.
    pub service_account: Option<Named>,
    /// Nodes.
    pub node_selector: Option<Selector>,
    /// Not served.
    pub external_entity_selector: Option<Selector>,
    /// Not served, but for the cluster itself.
    pub scope: Option<String>,
}

/// Namespaces, as seen from a Pod.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Namespaces {
    /// Its own.
    #[serde(rename = "match")]
    pub own: Option<Own>,
    /// Those with the same values of these labels.
    #[serde(default)]
    pub same_labels: Vec<String>,
}

/// A Pod's own namespace.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
pub enum Own {
    /// `Self`, in Antrea's words.
    #[serde(rename = "Self")]
    Itself,
}

/// What the application-aware engine is to check; told to it as JSON.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct L7Protocol {
    /// Of HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    /// Of TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// Requests of HTTP.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Their host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Their method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Their path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Handshakes of TLS.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Their server name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sni: Option<String>,
}
