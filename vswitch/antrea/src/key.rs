//! What an object is called, and how one names another.

use std::sync::Arc;
use vswitch_proto::antrea::v1;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum ObjectKind {
    /// Of the Node there is one, without a name.
    Node,
    PeerNode,
    Pod,
    Service,
    Endpoints,
    AddressGroup,
    AppliedToGroup,
    NetworkPolicy,
    Egress,
    TrafficControl,
    MulticastGroup,
    /// One that runs: nobody writes it as an object.
    Traceflow,
}

impl ObjectKind {
    /// Those that an agent writes as objects.
    pub const WRITTEN: [Self; 10] = [
        Self::PeerNode,
        Self::Pod,
        Self::Service,
        Self::Endpoints,
        Self::AddressGroup,
        Self::AppliedToGroup,
        Self::NetworkPolicy,
        Self::Egress,
        Self::TrafficControl,
        Self::MulticastGroup,
    ];

    /// In the interface.
    #[must_use]
    pub const fn to_proto(self) -> v1::Kind {
        match self {
            Self::Node => v1::Kind::Node,
            Self::PeerNode => v1::Kind::PeerNode,
            Self::Pod => v1::Kind::Pod,
            Self::Service => v1::Kind::Service,
            Self::Endpoints => v1::Kind::Endpoints,
            Self::AddressGroup => v1::Kind::AddressGroup,
            Self::AppliedToGroup => v1::Kind::AppliedToGroup,
            Self::NetworkPolicy => v1::Kind::NetworkPolicy,
            Self::Egress => v1::Kind::Egress,
            Self::TrafficControl => v1::Kind::TrafficControl,
            Self::MulticastGroup => v1::Kind::MulticastGroup,
            Self::Traceflow => v1::Kind::Traceflow,
        }
    }

    /// From the interface; None: not one that is written as an object.
    #[must_use]
    pub fn read(told: v1::Kind) -> Option<Self> {
        Self::WRITTEN.into_iter().find(|kind| kind.to_proto() == told)
    }

    /// In words: `Pod`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::PeerNode => "PeerNode",
            Self::Pod => "Pod",
            Self::Service => "Service",
            Self::Endpoints => "Endpoints",
            Self::AddressGroup => "AddressGroup",
            Self::AppliedToGroup => "AppliedToGroup",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::Egress => "Egress",
            Self::TrafficControl => "TrafficControl",
            Self::MulticastGroup => "MulticastGroup",
            Self::Traceflow => "Traceflow",
        }
    }
}

/// An object's identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What it is.
    pub kind: ObjectKind,
    /// Its name.
    pub name: Arc<str>,
}

impl Key {
    /// Of a kind and a name.
    #[must_use]
    pub fn new(kind: ObjectKind, name: &str) -> Self {
        Self { kind, name: name.into() }
    }

    /// The Node's.
    #[must_use]
    pub fn node() -> Self {
        Self::new(ObjectKind::Node, "")
    }

    /// In the interface.
    #[must_use]
    pub fn to_proto(&self) -> v1::ObjectRef {
        v1::ObjectRef { kind: self.kind.to_proto().into(), name: self.name.to_string() }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.name)
    }
}

/// How an object needs another that it names. What names it has its effect as soon as the other one
/// is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The other one cannot be removed meanwhile.
    Holds,
    /// The other one may come and go.
    May,
}

/// An object that another one names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Which.
    pub key: Key,
    /// How much it matters.
    pub need: Need,
    /// The field that names it.
    pub field: String,
}
