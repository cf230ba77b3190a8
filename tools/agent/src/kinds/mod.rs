//! Kinds of documents, one file each, as Kubernetes and Antrea write them. Fields that mean nothing
//! to a Node's network are named here and left out silently. Fields that nobody knows are told and
//! left out. In what a policy says they may narrow it, so there they make its rule, or the policy,
//! wrong.

mod admin_policy;
pub mod antrea_policy;
pub mod cluster_group;
pub mod egress;
pub mod endpoint_slice;
pub mod external_ip_pool;
mod guess;
pub mod k8s_policy;
mod left_out;
mod lists;
mod misspelt;
mod names;
pub mod node;
pub mod node_config;
pub mod node_port_local;
pub mod owner;
mod partial;
pub mod pod;
mod read;
pub mod ruled;
mod said;
pub mod selector;
mod served;
pub mod service;
mod stored;
mod suspect;
pub mod tier;
pub mod traffic_control;
mod unserved;
pub mod wellformed;

use crate::problem::Origin;
use owner::Owner;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

pub use read::{is_read, understand};
pub use served::understand_served;
pub use suspect::understand_unread;

/// Labels or annotations.
pub type Labels = BTreeMap<String, String>;

/// What every object has.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Meta {
    /// Its name.
    pub name: String,
    /// Its namespace; empty where the kind has none.
    #[serde(default)]
    pub namespace: String,
    /// Labels.
    #[serde(default)]
    pub labels: Labels,
    /// Annotations.
    #[serde(default)]
    pub annotations: Labels,
    /// UID.
    #[serde(default)]
    pub uid: String,
    /// It is about to go.
    pub deletion_timestamp: Option<String>,
    /// Of a Pod, its controller; from `ownerReferences`. No document has a field of this name.
    #[serde(default, rename = "vswitch.io/owner", skip_serializing_if = "Owner::is_none")]
    pub owner: Owner,
}

impl Meta {
    /// "namespace/name", or the name of what has no namespace.
    pub fn full_name(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }

    /// An annotation of ours: `vswitch/NAME`.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(&format!("vswitch/{name}")).map(String::as_str)
    }
}

/// What a document says, by kind.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum DocumentBody {
    /// Namespace: its labels are all of it.
    Namespace,
    /// Node.
    Node(node::NodeBody),
    /// The agent's own.
    NodeConfig(Box<node_config::NodeConfigBody>),
    /// Pod.
    Pod(Box<pod::PodBody>),
    /// Service.
    #[serde(with = "stored::service")]
    Service(Box<service::ServiceBody>),
    /// EndpointSlice.
    EndpointSlice(Box<endpoint_slice::EndpointSliceBody>),
    /// NetworkPolicy of networking.k8s.io.
    #[serde(with = "stored::k8s")]
    K8sPolicy(Box<k8s_policy::K8sPolicyBody>),
    /// NetworkPolicy of crd.antrea.io.
    #[serde(with = "stored::antrea")]
    AntreaPolicy(Box<antrea_policy::AntreaPolicyBody>),
    /// ClusterNetworkPolicy.
    #[serde(with = "stored::antrea")]
    ClusterPolicy(Box<antrea_policy::AntreaPolicyBody>),
    /// A policy of policy.networking.k8s.io, as the policy of Antrea that means the same.
    AdminPolicy(ruled::Class, #[serde(with = "stored::antrea")] Box<antrea_policy::AntreaPolicyBody>),
    /// Tier.
    Tier(tier::TierBody),
    /// ClusterGroup.
    ClusterGroup(Box<cluster_group::ClusterGroupBody>),
    /// Group of a namespace.
    Group(Box<cluster_group::ClusterGroupBody>),
    /// Egress.
    Egress(Box<egress::EgressBody>),
    /// ExternalIPPool.
    ExternalIpPool(Box<external_ip_pool::ExternalIpPoolBody>),
    /// TrafficControl.
    TrafficControl(Box<traffic_control::TrafficControlBody>),
    /// A policy that is not understood as a whole.
    WrongPolicy(Box<ruled::WrongPolicy>),
    /// A document of another kind that is not understood.
    Wrong {
        /// Its metadata is right.
        has_meta: bool,
        /// Of a Pod: where it is, as far as that can be read.
        pod: Option<Box<pod::PodBody>>,
    },
    /// A document of somebody's kind that is named as one that is read.
    LeftOut,
}

/// Which object a document is about: its kind with its group, and its name; the name is empty if
/// that is not known.
pub type DocumentKey = (String, String);

/// A document, and what is understood of it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Document {
    /// Which object it is about.
    pub key: DocumentKey,
    /// Where it is from.
    pub origin: Origin,
    /// Its metadata.
    pub meta: Meta,
    /// It says its namespace itself, or has none.
    pub says_namespace: bool,
    /// What it says.
    pub body: DocumentBody,
    /// Of a document that is not understood: what it says without the entries that are wrong.
    pub left: Option<Left>,
}

/// What is left of a document without the entries that are wrong.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Left {
    /// The document without them.
    pub document: Box<Document>,
    /// Policies may select other Pods than those that it says.
    pub is_in_doubt: bool,
    /// All of its labels are in it.
    pub knows_labels: bool,
}

impl Left {
    /// Whether nothing right was in it: endpoints of which none is right are not known to be none.
    fn is_hollow(&self) -> bool {
        matches!(&self.document.body, DocumentBody::EndpointSlice(slice) if slice.endpoints.is_empty())
    }
}

impl Document {
    /// Whether what is left of it counts in place of an older form that was right. Endpoints come
    /// and go each minute: one that is wrong holds up no other one.
    pub fn prefers_left(&self) -> bool {
        let Some(left) = &self.left else { return false };
        let DocumentBody::EndpointSlice(slice) = &left.document.body else { return false };
        !slice.endpoints.is_empty() && !slice.ports.is_empty()
    }

    /// The documents to read in its place: itself, or what is left of it, or both if that is in
    /// doubt.
    pub fn settled(mut self) -> impl Iterator<Item = Self> {
        let left = self.left.take().filter(|left| !left.is_hollow());
        let is_itself = left.as_ref().is_none_or(|left| left.is_in_doubt);
        left.map(|left| *left.document).into_iter().chain(is_itself.then_some(self))
    }

    /// Whether it is understood, but for rules of a policy perhaps.
    pub fn is_understood(&self) -> bool {
        !matches!(self.body, DocumentBody::WrongPolicy(_) | DocumentBody::Wrong { .. } | DocumentBody::LeftOut)
    }

    /// Whether nobody knows what it is: it may hold any document.
    pub fn may_be_any(&self) -> bool {
        self.key.0.is_empty()
    }

    /// Whether it may be a policy, of which nobody knows which one.
    pub fn is_suspect(&self) -> bool {
        self.may_be_any() && matches!(self.body, DocumentBody::WrongPolicy(_))
    }

    /// Whether it is a policy that is understood, but for its rules perhaps.
    pub fn is_right_policy(&self) -> bool {
        use DocumentBody::{AdminPolicy, AntreaPolicy, ClusterPolicy, K8sPolicy};
        matches!(self.body, K8sPolicy(_) | AntreaPolicy(_) | ClusterPolicy(_) | AdminPolicy(..))
    }

    /// Whether it says which object it is about.
    pub fn has_key(&self) -> bool {
        !self.key.0.is_empty() && !self.key.0.starts_with('.') && !self.key.1.is_empty()
    }

    /// Whether policies may select other Pods by this document, which is not understood, than by
    /// `old`, which is what it said when it was right.
    pub fn is_in_doubt(&self, old: &Self) -> bool {
        let DocumentBody::Wrong { has_meta, pod } = &self.body else { return false };
        let knows_labels = *has_meta || self.left.as_ref().is_some_and(|left| left.knows_labels);
        let is_same = knows_labels && self.meta.labels == old.meta.labels;
        let account = |body: &pod::PodBody| body.spec.service_account_name.clone();
        match &old.body {
            DocumentBody::Namespace => !is_same,
            DocumentBody::Pod(old) => !is_same || pod.as_deref().map(account) != Some(account(old)),
            DocumentBody::ClusterGroup(_) | DocumentBody::Group(_) => true,
            _ => false,
        }
    }

    /// Whether it may be what has become of `old`: it has its name, and its kind or namespace may
    /// be written wrongly.
    pub fn may_be(&self, old: &Self) -> bool {
        let kind = |document: &Self| document.key.0.split('.').next().unwrap_or_default().to_owned();
        self.meta.name == old.meta.name
            && (self.meta.namespace == old.meta.namespace || !self.says_namespace)
            && (kind(self) == kind(old) || misspelt::is_akin(&kind(self), &kind(old)))
    }

    /// A document of the same object of which only `origin` is known, if policies select by such
    /// objects.
    pub fn in_doubt(&self, origin: &Origin) -> Option<Self> {
        let pod = match &self.body {
            DocumentBody::Namespace | DocumentBody::ClusterGroup(_) | DocumentBody::Group(_) => None,
            DocumentBody::Pod(pod) => Some(pod.clone()),
            _ => return None,
        };
        let body = DocumentBody::Wrong { has_meta: false, pod };
        Some(Self { origin: origin.clone(), body, ..self.clone() })
    }

    /// Takes over where a Pod is: as `old` says.
    pub fn stand_beside(&mut self, old: &Self) {
        if let (DocumentBody::Wrong { pod, .. }, DocumentBody::Pod(old)) = (&mut self.body, &old.body) {
            *pod = Some(old.clone());
        }
    }
}

/// A number or a name: `port: 80`, `port: http`.
#[derive(Clone, Debug, PartialEq)]
pub enum NumberOrName {
    /// A number.
    Number(u16),
    /// A name.
    Name(String),
}

impl<'de> Deserialize<'de> for NumberOrName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PortVisitor)
    }
}

impl Serialize for NumberOrName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u16(*number),
            Self::Name(name) => serializer.serialize_str(name),
        }
    }
}

struct PortVisitor;

impl Visitor<'_> for PortVisitor {
    type Value = NumberOrName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number or the name of a port")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<NumberOrName, E> {
        let wrong = |_| E::custom(format!("{number} is no port, which is 1 to 65535"));
        u16::try_from(number).map(NumberOrName::Number).map_err(wrong)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<NumberOrName, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<NumberOrName, E> {
        Ok(NumberOrName::Name(name.to_owned()))
    }
}
