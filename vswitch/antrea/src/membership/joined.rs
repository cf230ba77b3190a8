//! Receivers of groups as the tables have them.

use super::{PodLife, Receivers};
use crate::{Key, ObjectKind};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Receivers by group.
#[derive(Debug, Default)]
pub struct Joined(BTreeMap<Ipv4Addr, Receivers>);

impl Joined {
    /// Of a group; None: it has none.
    #[must_use]
    pub fn receivers(&self, group: Ipv4Addr) -> Option<&Receivers> {
        self.0.get(&group)
    }

    /// Groups that have some, in order.
    pub fn groups(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.0.keys().copied()
    }

    /// Groups that a Pod or a peer of this name is in.
    pub(crate) fn of(&self, key: &Key) -> impl Iterator<Item = Ipv4Addr> {
        let first = PodLife { pod: key.name.clone(), serial: 0 };
        let is_in = move |receivers: &Receivers| match key.kind {
            ObjectKind::Pod => receivers.pods.range(&first..).next().is_some_and(|life| life.pod == key.name),
            ObjectKind::PeerNode => receivers.nodes.contains(&key.name),
            _ => false,
        };
        self.0.iter().filter(move |(_, receivers)| is_in(receivers)).map(|(group, _)| *group)
    }

    /// A group has these from now on; returns those that it had.
    pub(crate) fn set(&mut self, group: Ipv4Addr, receivers: Receivers) -> Receivers {
        let old = if receivers.is_empty() { self.0.remove(&group) } else { self.0.insert(group, receivers) };
        old.unwrap_or_default()
    }
}
