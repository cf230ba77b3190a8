//! The desired state: all objects, with what is looked up in them.

use crate::membership::Joined;
use crate::object::policy::{Names, Pattern};
use crate::{Cidr, Family, Key, Mac, Object, ObjectKind, Problems};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;
use vswitch_proto::antrea::v1;

/// Something that at most one object may have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// An address of a Pod.
    Address(IpAddr),
    /// A MAC address of a Pod.
    Mac(Mac),
    /// A port of the bridge.
    Port(String),
    /// Where a Service answers: address, IP protocol, port.
    Service(IpAddr, u8, u16),
    /// A `NodePort`: IP protocol, port.
    NodePort(u8, u16),
    /// A multicast group.
    Multicast(IpAddr),
    /// An address of a Node in the network between Nodes.
    Node(IpAddr),
}

impl std::fmt::Display for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) | Self::Multicast(address) | Self::Node(address) => write!(f, "{address}"),
            Self::Mac(mac) => write!(f, "{mac}"),
            Self::Port(port) => write!(f, "port {port:?}"),
            Self::Service(address, protocol, port) => write!(f, "{address} port {port} of protocol {protocol}"),
            Self::NodePort(protocol, port) => write!(f, "NodePort {port} of protocol {protocol}"),
        }
    }
}

/// An object as it was written, and as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// As written. If that was wrong and an older form is in force: the older form.
    pub message: v1::object::Object,
    /// As read: what is in force.
    pub object: Object,
    /// What is wrong with it as it was written last. None: it is right.
    pub flaws: Problems,
    /// As it was written last, if an older form is in force.
    pub newest: Option<v1::object::Object>,
    /// It is right, and the switch has no room for it.
    pub withheld: bool,
}

impl Entry {
    /// One that is right.
    #[must_use]
    pub fn new(message: v1::object::Object, object: Object) -> Self {
        Self { message, object, flaws: Problems::default(), newest: None, withheld: false }
    }

    /// As it was written last.
    #[must_use]
    pub fn written(&self) -> &v1::object::Object {
        self.newest.as_ref().unwrap_or(&self.message)
    }
}

/// Bytes in memory for each byte of an object on the wire: an address of 12 there is a `String` of
/// 24 with an allocation of 32 in the message, and about 20 in what was read of it.
const READ_PER_WRITTEN: usize = 6;

/// All objects.
#[derive(Debug, Default)]
pub struct Desired {
    objects: BTreeMap<Key, Arc<Entry>>,
    /// Bytes of all objects as they were written.
    written: usize,
    /// Those that claim it, in order of names.
    claims: HashMap<Claim, BTreeSet<Key>>,
    /// Of what several claim: who has it.
    contested: BTreeMap<Claim, Key>,
    /// Those that name it.
    referrers: HashMap<Key, BTreeSet<Key>>,
    /// Whose prefixes and addresses are where.
    prefixes: BTreeSet<(Cidr, Key)>,
    /// Those of peers that have an effect.
    peer_prefixes: BTreeSet<(Cidr, Key)>,
    /// How many of them have a length.
    lengths: BTreeMap<(Family, u8), usize>,
    /// Services with an address.
    service_addresses: HashMap<IpAddr, BTreeSet<Key>>,
    /// Addresses of names, as answers to Pods told them.
    names: Names,
    /// Who is in which group, as IGMP told.
    joined: Joined,
    /// What names rules mean, and the policies that have such rules.
    patterns: BTreeMap<Pattern, BTreeSet<Key>>,
    /// Changes with every pattern that comes or goes.
    patterns_version: u64,
}

macro_rules! getters {
    ($($name:ident, $kind:ident, $module:ident;)*) => {
        $(
            /// By its name.
            #[must_use]
            pub fn $name(&self, name: &str) -> Option<&crate::object::$module::$kind> {
                match &self.objects.get(&Key::new(ObjectKind::$kind, name))?.object {
                    Object::$kind(object) => Some(object),
                    _ => None,
                }
            }
        )*
    };
}

impl Desired {
    getters! {
        peer_node, PeerNode, peer;
        pod, Pod, pod;
        service, Service, service;
        endpoints, Endpoints, endpoints;
        address_group, AddressGroup, address_group;
        applied_to_group, AppliedToGroup, applied_to_group;
        network_policy, NetworkPolicy, policy;
        egress, Egress, egress;
        traffic_control, TrafficControl, traffic_control;
        multicast_group, MulticastGroup, multicast;
    }

    /// By its identity.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.objects.get(key)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Bytes that all of it takes, about: each object as it was written and as it was read, what
    /// was made of it to look things up, and names.
    #[must_use]
    pub fn memory(&self) -> usize {
        let claim = size_of::<(Claim, BTreeSet<Key>)>() + size_of::<Key>();
        let referrer = size_of::<(Key, BTreeSet<Key>)>() + size_of::<Key>();
        let tables = self.claims.capacity() * claim + self.referrers.capacity() * referrer;
        let prefixes = self.prefixes.len() * size_of::<(Cidr, Key)>();
        self.objects.len() * (size_of::<(Key, Arc<Entry>)>() + size_of::<Entry>())
            + READ_PER_WRITTEN * self.written
            + tables
            + prefixes
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// All of them, by kind and name.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &Arc<Entry>)> {
        self.objects.iter()
    }

    /// All of a kind, by name.
    pub fn of(&self, kind: ObjectKind) -> impl Iterator<Item = (&Key, &Arc<Entry>)> {
        let first = Key::new(kind, "");
        self.objects.range((Bound::Included(first), Bound::Unbounded)).take_while(move |(key, _)| key.kind == kind)
    }

    /// Who claims it, in order of names. One of them has it: [`Self::holder`].
    pub fn holders<'a>(&'a self, claim: &Claim) -> impl Iterator<Item = &'a Key> + use<'a> {
        self.claims.get(claim).into_iter().flatten()
    }

    /// Those of them that may have it if none had it. A port that a Pod claims is no peer's tunnel
    /// then: what comes from a tunnel is trusted, and what a Pod sends is not.
    pub(crate) fn candidates<'a>(&'a self, claim: &Claim) -> impl Iterator<Item = &'a Key> + use<'a> {
        let is_pods = |key: &Key| key.kind == ObjectKind::Pod;
        let of_pods = matches!(claim, Claim::Port(_)) && self.holders(claim).any(is_pods);
        self.holders(claim).filter(move |key| !of_pods || is_pods(key))
    }

    /// Who has it: of several who claim it the one that had it before the others came; of those
    /// that came together, the first by name of those that may have it.
    #[must_use]
    pub fn holder(&self, claim: &Claim) -> Option<&Key> {
        self.contested.get(claim).or_else(|| self.candidates(claim).next())
    }

    /// What several claim, and who has it.
    pub(crate) const fn contested(&self) -> &BTreeMap<Claim, Key> {
        &self.contested
    }

    /// Says who has what several claim; who does not claim it cannot have it. Returns who was said
    /// to.
    pub(crate) fn set_holder(&mut self, claim: &Claim, holder: Option<Key>) -> Option<Key> {
        let is_contested = self.claims.get(claim).is_some_and(|keys| keys.len() > 1);
        match holder.filter(|holder| is_contested && self.claims.get(claim).is_some_and(|keys| keys.contains(holder))) {
            Some(holder) => self.contested.insert(claim.clone(), holder),
            None => self.contested.remove(claim),
        }
    }

    /// Objects that name it, in order.
    pub fn referrers(&self, key: &Key) -> impl Iterator<Item = &Key> {
        self.referrers.get(key).into_iter().flatten()
    }

    /// The Pod with an address.
    #[must_use]
    pub fn pod_of(&self, address: &IpAddr) -> Option<&Key> {
        self.holder(&Claim::Address(*address))
    }

    /// What is known of names.
    #[must_use]
    pub const fn names(&self) -> &Names {
        &self.names
    }

    pub(crate) const fn names_mut(&mut self) -> &mut Names {
        &mut self.names
    }

    /// Who is in which multicast group, as IGMP told.
    #[must_use]
    pub const fn joined(&self) -> &Joined {
        &self.joined
    }

    pub(crate) const fn joined_mut(&mut self) -> &mut Joined {
        &mut self.joined
    }

    /// Services with an address.
    pub(crate) fn services_at(&self, address: &IpAddr) -> impl Iterator<Item = &Key> {
        self.service_addresses.get(address).into_iter().flatten()
    }

    /// Services with an address of a prefix. Looks at all of them.
    pub(crate) fn services_in(&self, cidr: &Cidr) -> impl Iterator<Item = &Key> {
        self.service_addresses.iter().filter(|(address, _)| cidr.contains(address)).flat_map(|(_, keys)| keys)
    }

    /// Prefixes of Pods, peers and Egresses that have an address in common with this one.
    #[must_use]
    pub(crate) fn overlapping(&self, cidr: &Cidr) -> Vec<(Cidr, &Key)> {
        let from = |cidr: Cidr| self.prefixes.range((cidr, Key::node())..);
        let lengths =
            self.lengths.range((cidr.family(), 0)..(cidr.family(), cidr.length())).map(|((_, length), _)| *length);
        let wider = lengths.filter_map(|length| Cidr::new(cidr.address(), length));
        let covering = wider.flat_map(|wider| from(wider).take_while(move |(other, _)| *other == wider));
        let covered = from(*cidr).take_while(|(other, _)| cidr.covers(other));
        covering.chain(covered).map(|(cidr, key)| (*cidr, key)).collect()
    }

    /// Prefixes of peers that have an effect: no two of them overlap.
    pub(crate) const fn peer_prefixes(&self) -> &BTreeSet<(Cidr, Key)> {
        &self.peer_prefixes
    }

    /// Says which prefixes of peers have an effect. Returns those that had it.
    pub(crate) fn set_peer_prefixes(&mut self, in_force: BTreeSet<(Cidr, Key)>) -> BTreeSet<(Cidr, Key)> {
        std::mem::replace(&mut self.peer_prefixes, in_force)
    }

    /// Prefixes of peers that have an effect, and an address in common with this one.
    pub(crate) fn peers_at<'a>(&'a self, cidr: &Cidr) -> impl Iterator<Item = (Cidr, &'a Key)> + use<'a> {
        let all = self.overlapping(cidr).into_iter().filter(|(_, key)| key.kind == ObjectKind::PeerNode);
        all.filter(|(cidr, key)| self.peer_prefixes.contains(&(*cidr, (*key).clone())))
    }

    /// What names rules mean.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.patterns.keys()
    }

    /// Another number whenever [`Self::patterns`] may be others.
    #[must_use]
    pub const fn patterns_version(&self) -> u64 {
        self.patterns_version
    }

    /// Policies with a rule that means a name (in lower case, without a dot at its end).
    pub fn meaning(&self, name: &str) -> BTreeSet<&Key> {
        Pattern::meaning(&self.patterns, name).flat_map(|(_, keys)| keys).collect()
    }

    fn forget_patterns(&mut self, object: &Object, key: &Key) {
        let Object::NetworkPolicy(policy) = object else { return };
        for pattern in policy.patterns() {
            if let Some(keys) = self.patterns.get_mut(pattern) {
                keys.remove(key);
                if keys.is_empty() {
                    self.patterns.remove(pattern);
                    self.patterns_version += 1;
                }
            }
        }
    }

    fn add_patterns(&mut self, object: &Object, key: &Key) {
        let Object::NetworkPolicy(policy) = object else { return };
        for pattern in policy.patterns() {
            self.patterns_version += u64::from(!self.patterns.contains_key(pattern));
            self.patterns.entry(pattern.clone()).or_default().insert(key.clone());
        }
    }

    fn count_length(&mut self, cidr: &Cidr, by: isize) {
        let count = self.lengths.entry((cidr.family(), cidr.length())).or_default();
        *count = count.saturating_add_signed(by);
        if *count == 0 {
            self.lengths.remove(&(cidr.family(), cidr.length()));
        }
    }

    /// Puts an object there, or takes it away; returns what was there.
    pub(crate) fn set(&mut self, key: &Key, entry: Option<Arc<Entry>>) -> Option<Arc<Entry>> {
        let old = self.objects.remove(key);
        if let Some(old) = &old {
            self.written = self.written.saturating_sub(old.message.encoded_len());
            self.forget_patterns(&old.object, key);
            for (claim, _) in old.object.claims() {
                forget(&mut self.claims, &claim, key);
                if let Claim::Service(address, _, _) = claim {
                    forget(&mut self.service_addresses, &address, key);
                }
            }
            for cidr in old.object.prefixes() {
                if self.prefixes.remove(&(cidr, key.clone())) {
                    self.count_length(&cidr, -1);
                }
            }
            for reference in old.object.references() {
                forget(&mut self.referrers, &reference.key, key);
            }
        }
        if let Some(entry) = entry {
            self.written += entry.message.encoded_len();
            self.add_patterns(&entry.object, key);
            for cidr in entry.object.prefixes() {
                if self.prefixes.insert((cidr, key.clone())) {
                    self.count_length(&cidr, 1);
                }
            }
            for (claim, _) in entry.object.claims() {
                if let Claim::Service(address, _, _) = claim {
                    self.service_addresses.entry(address).or_default().insert(key.clone());
                }
                self.claims.entry(claim).or_default().insert(key.clone());
            }
            for reference in entry.object.references() {
                self.referrers.entry(reference.key).or_default().insert(key.clone());
            }
            self.objects.insert(key.clone(), entry);
        }
        old
    }
}

fn forget<K: std::hash::Hash + Eq>(map: &mut HashMap<K, BTreeSet<Key>>, of: &K, key: &Key) {
    if let Some(keys) = map.get_mut(of) {
        keys.remove(key);
        if keys.is_empty() {
            map.remove(of);
        }
    }
}
