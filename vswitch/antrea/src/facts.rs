//! What a compilation may look at.

use crate::object::peer::PeerNode;
use crate::object::pod::Pod;
use crate::problem::Code;
use crate::{Desired, Features, Ids, Key, Node, ObjectKind, Problems, Table, Zones};
use std::collections::{BTreeSet, HashMap, HashSet};
use vswitch_flow::text::Names;

/// Ports of the Node's bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    numbers: HashMap<String, u32>,
    /// Those at whose other end a guest is.
    guests: HashSet<String>,
}

impl Ports {
    /// By name.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// Names that have another number there, or another kind of end, or are in one of both only.
    pub(crate) fn differing<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a String> {
        let gone = self.numbers.keys().filter(|name| !other.numbers.contains_key(*name));
        let moved = other.numbers.iter().filter(|(name, number)| self.numbers.get(*name) != Some(number));
        let turned = self.guests.symmetric_difference(&other.guests).filter(|name| self.numbers.contains_key(*name));
        gone.chain(moved.map(|(name, _)| name)).chain(turned)
    }

    /// The same ports; at the other end of these a guest is, which sends what it likes.
    #[must_use]
    pub fn with_guests(self, guests: HashSet<String>) -> Self {
        Self { guests, ..self }
    }

    /// Tells that a port is a guest's: what a guest sends would count as from the host, or from
    /// another Node.
    pub(crate) fn no_guest(&self, field: &str, name: &str, problems: &mut Problems) {
        if self.guests.contains(name) {
            problems.push(Code::Port, field, format!("port {name:?} is a guest's (vhost-user or memif)"));
        }
    }

    /// By number.
    #[must_use]
    pub fn name(&self, number: u32) -> Option<&str> {
        self.numbers.iter().find(|(_, other)| **other == number).map(|(name, _)| name.as_str())
    }
}

impl FromIterator<(String, u32)> for Ports {
    fn from_iter<I: IntoIterator<Item = (String, u32)>>(ports: I) -> Self {
        Self { numbers: ports.into_iter().collect(), guests: HashSet::new() }
    }
}

/// The Node, its ports, all objects, and their numbers, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The Node.
    pub node: &'a Node,
    /// Ports of its bridge.
    pub ports: &'a Ports,
    /// What is known of the wire.
    pub wire: &'a crate::Wire,
    /// All objects.
    pub desired: &'a Desired,
    /// Their numbers.
    pub ids: &'a Ids,
}

impl Facts<'_> {
    /// A Pod that is there and has an effect, with those of its addresses that have one. What else
    /// it was written with may be another Pod's.
    #[must_use]
    pub fn pod(&self, name: &str) -> Option<Pod> {
        self.desired.pod(name)?.effective(name, self, &mut Problems::default())
    }

    /// A peer that is there and has an effect, with those of its prefixes and addresses that have
    /// one.
    pub(crate) fn peer(&self, name: &str) -> Option<PeerNode> {
        self.desired.peer_node(name)?.effective(name, self, &mut Problems::default())
    }

    /// The Node's features.
    #[must_use]
    pub fn features(&self) -> &Features {
        &self.node.features
    }

    /// Zones of connections of the VLANs that Pods are in; untagged ones count, too.
    #[must_use]
    pub fn vlan_zones(&self) -> BTreeSet<u16> {
        if !self.node.features.pod_vlans {
            return BTreeSet::new();
        }
        self.vlan_zones_of(self.desired.of(ObjectKind::Pod).map(|(key, _)| key))
    }

    /// Those of the Pods among these objects.
    #[must_use]
    pub fn vlan_zones_of<'b>(&self, keys: impl IntoIterator<Item = &'b Key>) -> BTreeSet<u16> {
        let pods = keys.into_iter().filter(|key| key.kind == ObjectKind::Pod).filter_map(|key| self.pod(&key.name));
        let vlans: BTreeSet<u16> = pods.filter_map(|pod| pod.on_wire(self.node)).collect();
        let families = self.node.families.iter();
        families.flat_map(|family| vlans.iter().map(|vlan| Zones::of_vlan(*family, *vlan))).collect()
    }

    /// Match of what comes in by a port: `in_port=37`. A port that is not there: nothing does.
    pub(crate) fn in_port(&self, name: &str) -> String {
        format!("in_port={}", self.ports.number(name).unwrap_or_default())
    }

    /// Action that loads a port's number into a register: `set_field:0x25->reg1`. None: there is no
    /// such port.
    pub(crate) fn load_port(&self, name: &str, register: &str) -> Option<String> {
        self.ports.number(name).map(|number| format!("set_field:{number:#x}->{register}"))
    }
}

/// Names in lines of flows: ports of the bridge; tables, where one that does not exist means the
/// next one that does.
impl Names for Facts<'_> {
    fn port(&self, name: &str) -> Option<u32> {
        self.ports.number(name)
    }

    fn port_name(&self, number: u32) -> Option<&str> {
        self.ports.name(number)
    }

    fn table(&self, name: &str) -> Option<u8> {
        Some(Table::by_name(name)?.or_next(self.features())?.number())
    }

    fn table_name(&self, number: u8) -> Option<&str> {
        Table::by_number(number).map(Table::name)
    }
}
