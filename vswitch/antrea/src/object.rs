//! An object of any kind, by its identity, and the way to what its kind does.

pub(crate) mod judge;

use crate::problem::Problems;
use crate::{Cidr, Claim, CompiledObject, Desired, Facts, Flush, Ids, Key, Node, ObjectKind, Problem, Reference};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use vswitch_proto::antrea::v1;

macro_rules! kinds {
    ($($kind:ident, $module:ident;)*) => {
        $(pub mod $module;)*

        /// An object, read.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum Object { $($kind(Arc<$module::$kind>),)* }

        impl Object {
            /// What it is.
            #[must_use]
            pub const fn kind(&self) -> ObjectKind {
                match self { $(Self::$kind(_) => ObjectKind::$kind,)* }
            }

            /// Reads a message. What is wrong with it by itself goes to `problems`, all of it; None
            /// if nothing can be made of it. The name is checked elsewhere.
            pub fn read(message: &v1::object::Object, problems: &mut Problems) -> Option<Self> {
                match message {
                    $(v1::object::Object::$kind(message) => $module::$kind::read(message, problems).map(|read| Self::$kind(Arc::new(read))),)*
                }
            }

            /// The name in a message, and what it is the name of.
            #[must_use]
            pub fn key_of(message: &v1::object::Object) -> Key {
                match message { $(v1::object::Object::$kind(message) => Key::new(ObjectKind::$kind, &$module::$kind::name_of(message)),)* }
            }

            /// Objects that it names, whether they are there or not.
            #[must_use]
            pub fn references(&self) -> Vec<Reference> {
                match self { $(Self::$kind(object) => object.references(),)* }
            }

            /// What nobody else may have, with the field that says so. Of several who claim it one
            /// has it ([`Desired::holder`]).
            #[must_use]
            pub fn claims(&self) -> Vec<(Claim, String)> {
                match self { $(Self::$kind(object) => object.claims(),)* }
            }

            /// What of it has no effect at present, beside the Node and other objects: features,
            /// families, ports, overlaps, limits. None of it is a reason to refuse.
            pub fn judge(&self, name: &str, facts: &Facts<'_>, problems: &mut Problems) {
                match self { $(Self::$kind(object) => object.judge(name, facts, problems),)* }
            }

            /// Sees to the numbers that it needs. Those it has, it keeps; those it needs no more
            /// are released.
            ///
            /// # Errors
            /// When there are no more.
            pub fn claim(&self, name: &str, desired: &Desired, ids: &mut Ids) -> Result<(), Problem> {
                match self { $(Self::$kind(object) => object.claim(name, desired, ids),)* }
            }

            /// Ports of the bridge that it uses without claiming them for itself alone.
            #[must_use]
            pub fn ports(&self) -> Vec<String> {
                match self { $(Self::$kind(object) => object.ports(),)* }
            }

            /// Connections that end, since what they rest on went with the change from this to
            /// `new` (None: it is gone). `facts` are those after.
            pub fn flush(&self, name: &str, new: Option<&Self>, facts: &Facts<'_>, flush: &mut BTreeSet<Flush>) {
                match self {
                    $(Self::$kind(object) => {
                        let new = new.and_then(|new| match new { Self::$kind(new) => Some(&**new), _ => None });
                        object.flush(name, new, facts, flush);
                    })*
                }
            }

            /// What it writes. Things that have no effect at present are told in
            /// [`CompiledObject::degraded`].
            pub fn compile(&self, name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
                match self { $(Self::$kind(object) => object.compile(name, facts, compiled),)* }
            }
        }
    };
}

kinds! {
    PeerNode, peer;
    Pod, pod;
    Service, service;
    Endpoints, endpoints;
    AddressGroup, address_group;
    AppliedToGroup, applied_to_group;
    NetworkPolicy, policy;
    Egress, egress;
    TrafficControl, traffic_control;
    MulticastGroup, multicast;
}

impl Object {
    /// Objects that must be compiled anew with it, beside those that name it.
    #[must_use]
    pub fn drags(&self) -> Vec<Key> {
        match self {
            // A Service writes for its Endpoints.
            Self::Endpoints(endpoints) => vec![Key::new(ObjectKind::Service, &endpoints.service)],
            // A Service that policies bind is not led past them.
            Self::AppliedToGroup(group) => {
                group.services.iter().map(|name| Key::new(ObjectKind::Service, name)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether it sees itself to what of it has an effect; else it has none at all, if
    /// [`Self::judge`] finds something.
    pub(crate) const fn copes(&self) -> bool {
        !matches!(self, Self::TrafficControl(_) | Self::MulticastGroup(_))
    }

    /// Objects that may have another effect when this one comes, changes or goes, since they want
    /// something that it wants, too.
    pub(crate) fn contenders(&self, desired: &Desired, node: &Node) -> Vec<Key> {
        let claims = self.claims();
        let mut contenders: Vec<Key> = claims.iter().flat_map(|(claim, _)| desired.holders(claim)).cloned().collect();
        let mut add = |keys: &mut dyn Iterator<Item = &Key>| contenders.extend(keys.cloned());
        for cidr in self.prefixes() {
            add(&mut desired.overlapping(&cidr).into_iter().map(|(_, key)| key));
            if matches!(self, Self::Pod(_) | Self::Egress(_)) {
                add(&mut desired.services_at(&cidr.address()));
            }
        }
        for (claim, _) in &claims {
            match claim {
                Claim::Service(address, protocol, port) => {
                    // At addresses of the Node NodePorts go before.
                    let is_node = node.node_port_addresses.contains(address);
                    add(&mut desired.holders(&Claim::NodePort(*protocol, *port)).filter(|_| is_node));
                }
                Claim::NodePort(protocol, port) => {
                    for address in &node.node_port_addresses {
                        add(&mut desired.holders(&Claim::Service(*address, *protocol, *port)));
                    }
                }
                Claim::Port(port) => {
                    let controls = desired.of(ObjectKind::TrafficControl);
                    add(&mut controls.filter(|(_, entry)| entry.object.ports().contains(port)).map(|(key, _)| key));
                }
                _ => {}
            }
        }
        // What only Services have is no Pod's and no Egress's as long as there is one.
        if let Self::Service(service) = self {
            for address in &service.cluster_ips {
                add(&mut desired.overlapping(&Cidr::host(*address)).into_iter().map(|(_, key)| key));
            }
        }
        if let Self::PeerNode(peer) = self {
            for gateway in &peer.gateways {
                add(&mut desired.overlapping(&Cidr::host(*gateway)).into_iter().map(|(_, key)| key));
            }
        }
        contenders
    }

    /// Objects that are compiled anew when this one comes, changes or goes, since of all of its
    /// kind that name the same Pod one counts. Those of Pods in `seen` are not told again.
    #[must_use]
    pub(crate) fn rivals(&self, desired: &Desired, seen: &mut HashSet<(ObjectKind, Key)>) -> Vec<Key> {
        let kind = self.kind();
        if !matches!(kind, ObjectKind::Egress | ObjectKind::TrafficControl) {
            return Vec::new();
        }
        let pods = self.references().into_iter().map(|reference| reference.key);
        let new: Vec<Key> =
            pods.filter(|pod| pod.kind == ObjectKind::Pod && seen.insert((kind, pod.clone()))).collect();
        new.iter().flat_map(|pod| desired.referrers(pod)).filter(|key| key.kind == kind).cloned().collect()
    }

    /// Prefixes that are its own: what [`Desired::overlapping`] finds.
    #[must_use]
    pub(crate) fn prefixes(&self) -> Vec<Cidr> {
        match self {
            Self::Pod(pod) => pod.addresses.iter().copied().map(Cidr::host).collect(),
            Self::PeerNode(peer) => peer.pod_cidrs.clone(),
            Self::Egress(egress) => vec![Cidr::host(egress.address)],
            _ => Vec::new(),
        }
    }

    /// The same of one that is gone, by its name.
    pub fn dragged_by(key: &Key) -> impl Iterator<Item = Key> {
        let service = key.name.rsplit_once(':').filter(|_| key.kind == ObjectKind::Endpoints);
        service.into_iter().map(|(service, _)| Key::new(ObjectKind::Service, service))
    }
}

/// Forgets the numbers of an object that is gone.
pub(crate) fn release(key: &Key, ids: &mut Ids) {
    match key.kind {
        ObjectKind::Service => service::release(&key.name, ids),
        ObjectKind::NetworkPolicy => policy::release(&key.name, ids),
        ObjectKind::MulticastGroup => multicast::release(&key.name, ids),
        ObjectKind::Pod => pod::release(&key.name, ids),
        _ => {}
    }
    ids.release_cookie(key);
}
