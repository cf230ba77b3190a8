//! Ports: add, remove, list, change; while traffic flows.

use super::Switch;
use super::state::{Opened, PortState, Rxq, State};
use super::tunnels::addresses_refused;
use crate::access::Asker;
use crate::info::{PortChange, PortEvent, PortEventKind, PortInfo, SwitchError};
use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use vswitch_dataplane::limits;
use vswitch_dataplane::observe::PortCounters;
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::port::{self, FieldError, Link, OpenPort, PortConfig, PortId, PortKind};
use vswitch_dataplane::time::Millis;
use vswitch_dataplane::worker::{PortShared, RxqSlot};

impl Switch {
    /// Adds a port to a bridge and opens it.
    ///
    /// # Errors
    /// When name or number is taken, a value is wrong, or the device does not open. Then nothing
    /// has changed.
    pub fn add_port(&self, bridge: &str, config: PortConfig) -> Result<PortInfo, SwitchError> {
        self.insert_port(bridge, config, Asker::Client)
    }

    /// Adds a port of the configuration file: one that does not open is logged and kept with its
    /// error.
    ///
    /// # Errors
    /// As [`Switch::add_port`], but for the device.
    pub(super) fn add_configured_port(&self, bridge: &str, config: PortConfig) -> Result<PortInfo, SwitchError> {
        self.insert_port(bridge, config, Asker::File)
    }

    fn insert_port(&self, bridge: &str, config: PortConfig, asker: Asker) -> Result<PortInfo, SwitchError> {
        let errors = config.errors();
        if !errors.is_empty() {
            return Err(SwitchError::Invalid(errors));
        }
        self.with(|state| {
            state.bridge(bridge)?;
            if let Some((_, port)) = state.all_ports().find(|(_, port)| port.config.name == config.name) {
                let hint = format!("it is a port of bridge {}: choose another name, or delete it first", port.bridge);
                return Err(SwitchError::Exists { what: "port", name: config.name, hint });
            }
            state.check_patch(bridge, &config)?;
            state.check_tunnel(&config)?;
            state.check_addresses(None, &config)?;
            let number = state.number_for(bridge, &config)?;
            let asked_for = config.number.is_some();
            let id = state.free_id()?;
            let kind = self.access.to_open(&config.kind, asker).map_err(SwitchError::Invalid)?;
            let opened = open_port(state, id, &config, &kind);
            if let Err(reason) = &opened {
                if asker == Asker::Client {
                    return Err(SwitchError::Device { name: config.name, reason: reason.clone() });
                }
                tracing::error!(bridge, port = config.name, reason, "port did not open; the others run without it");
            }
            let mac = config.mac.unwrap_or_else(random_mac);
            let link_up = Arc::default();
            let bridge = bridge.to_owned();
            let link = Link::default();
            let mut port = PortState { bridge, config, kind, number, mac, opened, link, link_up, seen_mtu: None };
            port.follow_mtu();
            state.routes.set_addresses(id.0.into(), &port.config.addresses).map_err(addresses_refused)?;
            if let Some(bridge) = state.bridges.get_mut(&port.bridge) {
                bridge.numbers.take(number, asked_for);
            }
            state.ports[id.index()] = Some(port);
            let link = state.ports[id.index()].as_ref().map(|port| state.link_of(port)).unwrap_or_default();
            if let Some(port) = &mut state.ports[id.index()] {
                // Before any worker decides by it.
                port.set_link(link);
            }
            self.count_connections(state, id);
            self.publisher.publish(state.snapshot());
            self.event_of(state, PortEventKind::Added, id)
        })
    }

    /// Removes a port: workers let go of it, its addresses are forgotten, its device is closed.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn delete_port(&self, bridge: &str, name: &str) -> Result<(), SwitchError> {
        self.with(|state| {
            let id = state.port(bridge, name)?;
            let Some(port) = state.ports[id.index()].take() else { return Ok(()) };
            state.forget_routes(id.index());
            self.publisher.publish(state.snapshot());
            // After the workers let go: nobody learns on it any more, and the index is free for
            // another port.
            self.publisher.conntrack.tracker().remove_port(id.0);
            if let Some(bridge) = state.bridges.get_mut(bridge) {
                bridge.fdb.flush(|entry| entry.port == id);
                bridge.numbers.free(port.number, Millis::now());
            }
            self.event(state, PortEventKind::Removed, &port);
            port.close();
            Ok(())
        })
    }

    /// Changes some of a port's attributes. Setting a port up that failed to open tries again.
    ///
    /// # Errors
    /// When it does not exist, a value is wrong, or the device refuses. Then nothing has changed.
    pub fn modify_port(&self, bridge: &str, name: &str, change: &PortChange) -> Result<PortInfo, SwitchError> {
        self.with(|state| {
            let id = state.port(bridge, name)?;
            let Some(port) = &state.ports[id.index()] else {
                return Err(SwitchError::Precondition("the port vanished".to_owned()));
            };
            let mut config = port.config.clone();
            config.admin_up = change.admin_up.unwrap_or(config.admin_up);
            config.no_flood = change.no_flood.unwrap_or(config.no_flood);
            config.no_receive = change.no_receive.unwrap_or(config.no_receive);
            config.no_forward = change.no_forward.unwrap_or(config.no_forward);
            config.strict = change.strict.unwrap_or(config.strict);
            config.underlay = change.underlay.or(config.underlay);
            config.mtu = change.mtu.unwrap_or(config.mtu);
            config.mtu_follows &= change.mtu.is_none();
            config.addresses.clone_from(change.addresses.as_ref().unwrap_or(&port.config.addresses));
            config.external_ids.clone_from(change.external_ids.as_ref().unwrap_or(&port.config.external_ids));
            let errors = config.errors();
            if !errors.is_empty() {
                return Err(SwitchError::Invalid(errors));
            }
            state.check_addresses(Some(id), &config)?;
            let mut routes = state.routes.clone();
            routes.set_addresses(id.0.into(), &config.addresses).map_err(addresses_refused)?;
            let device = |reason| SwitchError::Device { name: name.to_owned(), reason };
            let reopened = match &port.opened {
                Ok(opened) => {
                    reconfigure(opened, &port.config, &config).map_err(device)?;
                    None
                }
                Err(_) if change.admin_up == Some(true) => {
                    Some(open_port(state, id, &config, &port.kind).map_err(device)?)
                }
                Err(_) => None,
            };
            state.routes = routes;
            if let Some(port) = &mut state.ports[id.index()] {
                port.config = config;
                if let Some(opened) = reopened {
                    port.opened = Ok(opened);
                }
                port.seen_mtu = None;
                port.follow_mtu();
            }
            self.publisher.publish(state.snapshot());
            self.event_of(state, PortEventKind::Modified, id)
        })
    }

    /// Ports of one bridge, by number.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn ports(&self, bridge: &str) -> Result<Vec<PortInfo>, SwitchError> {
        self.with(|state| {
            state.bridge(bridge)?;
            let here = state.all_ports().filter(|(_, port)| port.bridge == bridge);
            let mut ports: Vec<_> = here.map(|(_, port)| state.info(port)).collect();
            ports.sort_by_key(|port| port.number);
            Ok(ports)
        })
    }

    /// What packets open that come in by a port counts for it from here on.
    fn count_connections(&self, state: &State, id: PortId) {
        if let Some(port) = &state.ports[id.index()]
            && let Some(share) = port.config.kind.share()
        {
            self.publisher.conntrack.tracker().add_port(id.0, &port.config.name, share);
        }
    }

    /// Tells subscribers what happened to a port.
    pub(super) fn event(&self, state: &mut State, kind: PortEventKind, port: &PortState) -> PortInfo {
        state.sequence += 1;
        let info = state.info(port);
        let _ = self.events.send(PortEvent { sequence: state.sequence, kind, port: info.clone() });
        info
    }

    /// The same for a port that is still there.
    pub(super) fn event_of(&self, state: &mut State, kind: PortEventKind, id: PortId) -> Result<PortInfo, SwitchError> {
        let Some(port) = state.ports[id.index()].take() else {
            return Err(SwitchError::Precondition("the port vanished".to_owned()));
        };
        let info = self.event(state, kind, &port);
        state.ports[id.index()] = Some(port);
        Ok(info)
    }
}

impl State {
    fn free_id(&mut self) -> Result<PortId, SwitchError> {
        let free = self.ports.iter().position(Option::is_none).unwrap_or_else(|| {
            self.ports.push(None);
            self.ports.len() - 1
        });
        match u16::try_from(free) {
            Ok(id) if free < limits::PORTS_MAX => Ok(PortId(id)),
            _ => {
                self.ports.truncate(limits::PORTS_MAX);
                Err(SwitchError::Exhausted { what: "ports", limit: limits::PORTS_MAX })
            }
        }
    }
}

/// Opens a port's device, as `kind` has it, and places its receive queues.
fn open_port(state: &State, id: PortId, config: &PortConfig, kind: &PortKind) -> Result<Opened, String> {
    let OpenPort { rx, tx, device } = port::open(&state.context, config, kind)?;
    state.interface_taken(id, &device)?;
    if !config.admin_up {
        device.set_admin(false)?;
    }
    let shared = Arc::new(PortShared {
        id,
        name: config.name.clone(),
        tx: tx.into_iter().map(Mutex::new).collect(),
        counters: state.cores.iter().map(|_| PortCounters::default()).collect(),
        device,
        sequence: std::sync::atomic::AtomicU32::new(0),
    });
    let mut rxqs: Vec<Rxq> = Vec::with_capacity(rx.len());
    for (number, queue) in (0..).zip(rx) {
        let worker = state.least_loaded(&rxqs);
        let slot = Arc::new(RxqSlot::new(id, number, queue));
        rxqs.push(Rxq { slot, worker, pinned: false, usage: 0.0, sampled: 0 });
    }
    Ok(Opened { rxqs, shared })
}

/// Tells the device what has changed; all or nothing.
fn reconfigure(opened: &Opened, old: &PortConfig, new: &PortConfig) -> Result<(), String> {
    let device = &opened.shared.device;
    if new.mtu != old.mtu {
        device.set_mtu(new.mtu)?;
    }
    if new.admin_up == old.admin_up {
        return Ok(());
    }
    device.set_admin(new.admin_up).inspect_err(|_| {
        if let Err(reason) = device.set_mtu(old.mtu) {
            tracing::error!(port = new.name, reason, "the device keeps the new mtu though the change failed");
        }
    })
}

/// A random unicast address with the local bit set (IEEE 802, clause 8.2.2).
fn random_mac() -> Mac {
    let [_, _, _, b, c, d, e, f] = RandomState::new().hash_one(0).to_be_bytes();
    Mac([0x02, b, c, d, e, f])
}

impl From<FieldError> for SwitchError {
    fn from(error: FieldError) -> Self {
        Self::Invalid(vec![error])
    }
}
