//! What the kernel has, as a look finds it.

use super::plan::{Route, Rule};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) index: u32,
    pub(super) mac: Vec<u8>,
    pub(super) up: bool,
}

/// An address that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ThereAddress {
    pub(super) index: u32,
    pub(super) address: IpAddr,
    pub(super) length: u8,
}

/// A neighbour that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ThereNeighbour {
    pub(super) index: u32,
    pub(super) address: IpAddr,
    pub(super) mac: Vec<u8>,
    /// It does not change by itself.
    pub(super) permanent: bool,
}

/// A route that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ThereRoute {
    /// `interface` is None: the index is below.
    pub(super) route: Route,
    pub(super) index: u32,
    pub(super) metric: Option<u32>,
    pub(super) ours: bool,
    /// It has several next hops, or is of another kind than to one.
    pub(super) odd: bool,
}

impl ThereRoute {
    /// Whether it leads where another one is to lead. `index`: of its interface, if it names one.
    pub(super) fn is(&self, wanted: &Route, index: Option<u32>) -> bool {
        let same = |of: &Route| (of.destination, of.length, of.table, of.via, of.onlink, of.source);
        !self.odd && same(&self.route) == same(wanted) && index.is_none_or(|index| index == self.index)
    }

    /// Whether it is for the same destination, in the same table.
    pub(super) fn is_to(&self, wanted: &Route) -> bool {
        let to = |of: &Route| (of.destination, of.length, of.table);
        to(&self.route) == to(wanted)
    }
}

/// A routing rule that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ThereRule {
    pub(super) rule: Rule,
    pub(super) ours: bool,
    /// It has conditions that a rule of a plan never has.
    pub(super) odd: bool,
}

/// Everything that a look compares.
#[derive(Clone, Debug, Default)]
pub(super) struct There {
    pub(super) interfaces: BTreeMap<String, Interface>,
    pub(super) addresses: Vec<ThereAddress>,
    pub(super) neighbours: Vec<ThereNeighbour>,
    /// Those of the agent's protocol.
    pub(super) routes: Vec<ThereRoute>,
    pub(super) rules: Vec<ThereRule>,
}

impl There {
    pub(super) fn index(&self, interface: &str) -> Option<u32> {
        self.interfaces.get(interface).map(|found| found.index)
    }

    pub(super) fn name(&self, index: u32) -> Option<&str> {
        self.interfaces.iter().find(|(_, found)| found.index == index).map(|(name, _)| name.as_str())
    }
}
