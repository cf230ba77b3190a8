//! What objects need on the wire, together.

use super::layer::Layer;
use crate::Key;
use crate::contribution::Outside;
use crate::contribution::{FlowId, only};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_flow::spec::FlowSpec;

/// What all objects together need on the wire, counted by object: flows of the uplink's bridge,
/// addresses of the tunnels' end, addresses to announce.
#[derive(Debug)]
pub struct OnWire {
    flows: Layer<FlowId, FlowSpec>,
    /// Addresses, and how many objects need each.
    vteps: BTreeMap<IpAddr, usize>,
    announced: BTreeMap<IpAddr, usize>,
    version: u64,
    /// At the last change of addresses.
    addresses_version: u64,
}

impl OnWire {
    pub(super) fn new() -> Self {
        let (vteps, announced) = (BTreeMap::new(), BTreeMap::new());
        Self { flows: Layer::new(only), vteps, announced, version: 0, addresses_version: 0 }
    }

    /// What an object needs from now on, in place of what it needed.
    pub(super) fn replace(&mut self, key: &Key, old: Option<&Outside>, new: Option<&Outside>) {
        let nothing = Outside::default();
        let (old, new) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
        if old == new {
            return;
        }
        self.version += 1;
        old.flows.iter().for_each(|flow| self.flows.remove(&flow.id, key));
        new.flows.iter().for_each(|flow| self.flows.insert(&flow.id, key, &flow.flow));
        if (&old.vteps, &old.announced) != (&new.vteps, &new.announced) {
            self.addresses_version = self.version;
            count(&mut self.vteps, &old.vteps, &new.vteps);
            count(&mut self.announced, &old.announced, &new.announced);
        }
    }

    /// How often it has changed since the node state was made.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Flows of the bridge behind the uplink.
    pub fn flows(&self) -> impl Iterator<Item = &FlowId> {
        self.flows.keys()
    }

    /// One of them.
    #[must_use]
    pub fn flow(&self, id: &FlowId) -> Option<Arc<FlowSpec>> {
        self.flows.merged(id)
    }

    /// Those that may be another since [`Self::settle`].
    pub fn touched(&self) -> impl Iterator<Item = &FlowId> {
        self.flows.touched()
    }

    /// Whether addresses are others than they were at a version.
    #[must_use]
    pub const fn has_other_addresses(&self, version: u64) -> bool {
        self.addresses_version > version
    }

    /// Where tunnels end.
    #[must_use]
    pub fn vteps(&self) -> BTreeSet<IpAddr> {
        self.vteps.keys().copied().collect()
    }

    /// What the link is to be told of.
    #[must_use]
    pub fn announced(&self) -> BTreeSet<IpAddr> {
        self.announced.keys().copied().collect()
    }

    /// The bridge behind the uplink has its flows.
    pub(crate) fn settle(&mut self) {
        self.flows.settle();
    }

    pub(super) fn memory(&self) -> usize {
        self.flows.memory()
    }
}

/// Counts those out that one needed, and those in that it needs.
fn count(counted: &mut BTreeMap<IpAddr, usize>, old: &[IpAddr], new: &[IpAddr]) {
    new.iter().for_each(|address| *counted.entry(*address).or_default() += 1);
    for address in old {
        if let Entry::Occupied(mut count) = counted.entry(*address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}
