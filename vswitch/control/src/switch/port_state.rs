//! Ports as the control side has them.
//!
//! **Design**: a port is an immutable value behind an `Arc`. The writer changes its own copy
//! (`Arc::make_mut`), so that the readers' [`super::view::View`] has the ports of one moment. What
//! workers count and what links say is behind `Arc`s of its own, and is always of now.

use super::opening::Opening;
use crate::info::PortInfo;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use vswitch_dataplane::observe::PortTotals;
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::pipeline::PortFacts;
use vswitch_dataplane::port::{Link, PortConfig, PortId, PortKind};
use vswitch_dataplane::tunnel::LocalEndpoint;
use vswitch_dataplane::worker::{PortShared, RxqSlot};

#[derive(Clone, Debug)]
pub(super) struct PortState {
    pub(super) bridge: String,
    pub(super) config: PortConfig,
    /// Its kind as it is opened: with paths behind links.
    pub(super) kind: PortKind,
    pub(super) number: u32,
    /// Used where the device has none.
    pub(super) mac: Mac,
    pub(super) opened: Result<Opened, String>,
    /// Its device is being opened: name, number and place are taken.
    pub(super) opening: Option<Arc<Opening>>,
    /// As last reported.
    pub(super) link: Link,
    /// The same for workers.
    pub(super) link_up: Arc<AtomicBool>,
    /// MTU of its interface, as last seen.
    pub(super) seen_mtu: Option<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) rxqs: Vec<Rxq>,
    pub(super) shared: Arc<PortShared>,
}

#[derive(Clone, Debug)]
pub(super) struct Rxq {
    pub(super) slot: Arc<RxqSlot>,
    /// Index of the worker that polls it.
    pub(super) worker: usize,
    pub(super) pinned: bool,
    pub(super) usage: Arc<Usage>,
}

/// How busy a queue keeps its worker. The writer writes it, readers read it.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// Bits of the part of its worker's time, 0 to 1, smoothed over seconds.
    part: AtomicU64,
    /// Cycles at the last sample.
    pub(super) sampled: AtomicU64,
}

impl Usage {
    pub(super) fn get(&self) -> f64 {
        f64::from_bits(self.part.load(Relaxed))
    }

    pub(super) fn set(&self, part: f64) {
        self.part.store(part.to_bits(), Relaxed);
    }
}

/// Ports by [`PortId`]. A clone is cheap.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports(Vec<Option<Arc<PortState>>>);

impl Deref for Ports {
    type Target = Vec<Option<Arc<PortState>>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Ports {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Ports {
    /// All ports that there are.
    pub(super) fn all(&self) -> impl Iterator<Item = (PortId, &PortState)> {
        self.iter().enumerate().filter_map(|(i, port)| Some((PortId(u16::try_from(i).ok()?), port.as_deref()?)))
    }

    /// Those of a bridge.
    pub(super) fn of<'a>(&'a self, bridge: &'a str) -> impl Iterator<Item = (PortId, &'a PortState)> {
        self.all().filter(move |(_, port)| port.bridge == bridge)
    }

    /// A port, to be changed. Readers keep it as it was.
    pub(super) fn change(&mut self, id: PortId) -> Option<&mut PortState> {
        self.get_mut(id.index())?.as_mut().map(Arc::make_mut)
    }

    /// The other end of a patch port, if it is there and points back.
    pub(super) fn peer_of(&self, port: &PortState) -> Option<PortId> {
        let PortKind::Patch { peer } = &port.config.kind else { return None };
        let back = |other: &PortState| {
            other.config.name == *peer
                && matches!(&other.config.kind, PortKind::Patch { peer } if *peer == port.config.name)
        };
        self.all().find(|(_, other)| back(other)).map(|(id, _)| id)
    }

    /// Link of a port now.
    pub(super) fn link_of(&self, port: &PortState) -> Link {
        match (&port.opened, &port.config.kind) {
            (Err(_), _) => Link::default(),
            (Ok(_), PortKind::Patch { .. }) => Link { up: self.peer_of(port).is_some(), speed_mbps: 0 },
            (Ok(opened), _) => opened.shared.device.link(),
        }
    }

    /// Those of a bridge as the API shows them, by number.
    pub(super) fn infos(&self, bridge: &str) -> Vec<PortInfo> {
        let mut ports: Vec<_> = self.of(bridge).map(|(_, port)| port.info()).collect();
        ports.sort_by_key(|port| port.number);
        ports
    }
}

impl PortState {
    /// Notes its link, for reports and for workers.
    pub(super) fn set_link(&mut self, link: Link) {
        self.link = link;
        self.link_up.store(link.up, Relaxed);
    }

    /// Its device is being opened for the first time: if that fails, it was never there.
    pub(super) fn is_new(&self) -> bool {
        self.opening.as_ref().is_some_and(|opening| !opening.is_kept())
    }

    /// As the API shows it.
    pub(super) fn info(&self) -> PortInfo {
        let opened = self.opened.as_ref().ok();
        let count = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        let totals = opened.map_or_else(PortTotals::default, |opened| opened.shared.totals());
        PortInfo {
            bridge: self.bridge.clone(),
            config: self.config.clone(),
            number: self.number,
            mac: self.mac(),
            link_up: self.link.up,
            link_speed_mbps: self.link.speed_mbps,
            interface_mtu: opened.and(self.seen_mtu),
            opening: self.is_new(),
            error: match (&self.opening, &self.opened) {
                (Some(opening), _) => Some(opening.text()),
                (None, Ok(opened)) => opened.shared.device.trouble(),
                (None, Err(error)) => Some(error.clone()),
            },
            rx_queues: opened.map_or(0, |opened| count(opened.rxqs.len())),
            tx_queues: opened.map_or(0, |opened| count(opened.shared.tx.len())),
            offloads: opened.map_or_else(Vec::new, |opened| opened.shared.device.offloads()),
            capabilities: opened
                .map_or_else(Vec::new, |opened| opened.shared.device.capabilities(&self.config.kind, &totals)),
            totals,
        }
    }

    /// As translation sees it.
    pub(super) fn facts(&self, bridge: usize, peer: Option<PortId>) -> PortFacts {
        PortFacts {
            bridge,
            number: self.number,
            name: self.config.name.as_str().into(),
            admin_up: self.config.admin_up,
            link_up: Arc::clone(&self.link_up),
            no_flood: self.config.no_flood,
            no_forward: self.config.no_forward,
            no_receive: self.config.no_receive,
            peer,
            patch: matches!(self.config.kind, PortKind::Patch { .. }),
            strict: self.config.strict,
            underlay: self.config.may_tunnel(),
            tunnel: match &self.config.kind {
                PortKind::Tunnel(tunnel) => Some(Arc::new(tunnel.clone())),
                _ => None,
            },
            vtep: self.vtep().map(Arc::new),
        }
    }

    /// Its address.
    pub(super) fn mac(&self) -> Mac {
        let own = self.opened.as_ref().ok().and_then(|opened| opened.shared.device.mac());
        own.unwrap_or(self.mac)
    }

    fn vtep(&self) -> Option<LocalEndpoint> {
        let addresses: Vec<_> = self.config.addresses.iter().map(|cidr| cidr.address).collect();
        (!addresses.is_empty()).then(|| LocalEndpoint { mac: self.mac(), addresses })
    }
}
