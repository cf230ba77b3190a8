//! Ports: add, remove, list; while traffic flows. `modify` changes them.

use super::Switch;
use super::change::Step;
use super::closing::Closing;
use super::opening::{self, NotOpened, Opening, Reserved};
use super::port_state::{Opened, PortState, Rxq};
use super::state::State;
use super::tunnels::addresses_refused;
use crate::access::Asker;
use crate::info::{PortEvent, PortEventKind, PortInfo, SwitchError};
use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use vswitch_dataplane::limits;
use vswitch_dataplane::observe::{DropPlace, PortCounters};
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::port::{FieldError, Link, OpenPort, PortConfig, PortId};
use vswitch_dataplane::time::Millis;
use vswitch_dataplane::worker::{PortShared, RxqSlot};

impl Switch {
    /// Adds a port to a bridge and opens it.
    ///
    /// # Errors
    /// When name or number is taken, a value is wrong, or the device does not open. Then nothing
    /// has changed.
    pub fn add_port(&self, bridge: &str, config: PortConfig) -> Result<PortInfo, SwitchError> {
        self.add_port_for(bridge, config, Asker::Client)
    }

    /// Adds a port with the rights of who asks for it. One that does not open is logged and kept
    /// with its error, where `asker` says so.
    ///
    /// # Errors
    /// As [`Switch::add_port`].
    pub fn add_port_for(&self, bridge: &str, config: PortConfig, asker: Asker) -> Result<PortInfo, SwitchError> {
        let errors = config.errors();
        if !errors.is_empty() {
            return Err(SwitchError::Invalid(errors));
        }
        let reserved = self.edit(|state| {
            let reserved = self.reserve(state, bridge, config, asker)?;
            self.show(state);
            Ok(reserved)
        })?;
        let mut opened = match self.open(&reserved) {
            Ok(opened) => Ok(opened),
            Err(error) if asker.keeps() => Err(match error {
                NotOpened::Failed(reason) => (reason, false),
                NotOpened::Late => (opening::TOO_LATE.to_owned(), true),
                NotOpened::Stopping => ("the switch is stopping".to_owned(), true),
            }),
            Err(error) => {
                if !matches!(error, NotOpened::Late) {
                    self.forget_opening(&reserved);
                }
                return Err(Self::not_opened(&reserved.config.name, error));
            }
        };
        if let Err((reason, _)) = &opened {
            let port = &reserved.config.name;
            tracing::error!(bridge, port, reason, "port did not open; the others run without it");
        }
        let result: Result<_, SwitchError> = self.change(|state| {
            // What is refused stays here, and is closed when no lock is held.
            let port = take_in(state, &reserved, &mut opened)?;
            let id = reserved.id;
            state.ports[id.index()] = Some(port);
            self.count_connections(state, id);
            let snapshot = state.snapshot();
            Ok(Step::publish(snapshot, move |switch, state| switch.event_of(state, PortEventKind::Added, id)))
        });
        if !matches!(result, Ok(_) | Err(SwitchError::Late(_))) {
            self.forget_opening(&reserved);
        }
        result?
    }

    /// Takes a place, a name and a number for a port that is to be opened.
    fn reserve(
        &self,
        state: &mut State,
        bridge: &str,
        config: PortConfig,
        asker: Asker,
    ) -> Result<Reserved, SwitchError> {
        state.bridge(bridge)?;
        if let Some((_, port)) = state.all_ports().find(|(_, port)| port.config.name == config.name) {
            let hint = format!("it is a port of bridge {}: choose another name, or delete it first", port.bridge);
            return Err(SwitchError::Exists { what: "port", name: config.name, hint });
        }
        state.check_patch(bridge, &config)?;
        state.check_tunnel(&config)?;
        state.check_addresses(None, &config)?;
        let number = state.number_for(bridge, &config)?;
        let id = state.free_id()?;
        let kind = self.access.to_open(&config.kind, asker).map_err(SwitchError::Invalid)?;
        let opening = Opening::new(asker.keeps());
        state.ports[id.index()] = Some(Arc::new(PortState {
            bridge: bridge.to_owned(),
            config: config.clone(),
            kind: kind.clone(),
            number,
            mac: config.mac.unwrap_or_else(random_mac),
            opened: Err(String::new()),
            opening: Some(Arc::clone(&opening)),
            link: Link::default(),
            link_up: Arc::default(),
            seen_mtu: None,
        }));
        Ok(Reserved { id, opening, context: state.context.clone(), config, kind })
    }

    /// The port in the state "opening" goes, or is again what it was, if it is still there.
    pub(super) fn forget_opening(&self, reserved: &Reserved) {
        let _ = self.edit(|state| {
            if state.is_opening(reserved) {
                match state.ports.change(reserved.id) {
                    Some(port) if reserved.opening.is_kept() => port.opening = None,
                    _ => state.ports[reserved.id.index()] = None,
                }
                self.show(state);
            }
            Ok(())
        });
    }

    /// Ports whose device came or failed when nobody waited for it any more: those of clients go,
    /// those of the configuration file are kept as ones that did not open. The monitor.
    pub(super) fn end_openings(&self) {
        let _ = self.edit(|state| {
            let is_over = |port: &PortState| port.opening.as_ref().is_some_and(|opening| opening.is_over());
            let over: Vec<PortId> = state.ports.all().filter(|(_, port)| is_over(port)).map(|(id, _)| id).collect();
            if over.is_empty() {
                return Ok(());
            }
            for id in over {
                let Some(port) = state.ports.change(id) else { continue };
                let (name, bridge) = (port.config.name.clone(), port.bridge.clone());
                if port.opening.take().is_some_and(|opening| opening.is_kept()) {
                    port.opened = Err(opening::TOO_LATE.to_owned());
                } else {
                    state.ports[id.index()] = None;
                }
                tracing::warn!(bridge, port = name, "a device came, or failed, too late: it is closed");
            }
            self.show(state);
            Ok(())
        });
    }

    /// Removes a port: workers let go of it, its addresses are forgotten, its device is closed.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn delete_port(&self, bridge: &str, name: &str) -> Result<(), SwitchError> {
        self.change(|state| {
            let id = state.port(bridge, name)?;
            let Some(port) = state.ports[id.index()].take() else { return Ok(Step::Done(())) };
            state.forget_routes(id.index());
            let snapshot = state.snapshot();
            // After the workers let go: nobody learns on it any more, and the index is free for
            // another port.
            Ok(Step::publish(snapshot, move |switch, state| {
                switch.publisher.conntrack.tracker().remove_port(id.0);
                if let Some(bridge) = state.bridges.get_mut(&port.bridge) {
                    bridge.fdb.flush(|entry| entry.port == id);
                    bridge.numbers.free(port.number, Millis::now());
                }
                switch.removed(state, &port);
            }))
        })
    }

    /// Ports of one bridge, by number.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn ports(&self, bridge: &str) -> Result<Vec<PortInfo>, SwitchError> {
        let view = self.shown.view();
        view.bridge(bridge)?;
        Ok(view.ports.infos(bridge))
    }

    /// A port has left the snapshot that workers have.
    pub(super) fn removed(&self, state: &mut State, port: &PortState) {
        if !port.is_new() {
            self.event(state, PortEventKind::Removed, port);
        }
        state.closing.extend(Closing::of(port));
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
        let info = port.info();
        let _ = self.events.send(PortEvent { sequence: state.sequence, kind, port: info.clone() });
        info
    }

    /// The same for a port that is still there.
    pub(super) fn event_of(&self, state: &mut State, kind: PortEventKind, id: PortId) -> Result<PortInfo, SwitchError> {
        let port = state.ports.get(id.index()).cloned().flatten();
        let port = port.ok_or_else(|| SwitchError::Precondition("the port vanished".to_owned()))?;
        Ok(self.event(state, kind, &port))
    }
}

impl State {
    /// Whether the port is still the one whose device is opened with this.
    pub(super) fn is_opening(&self, reserved: &Reserved) -> bool {
        let opening = self.ports.get(reserved.id.index()).and_then(|port| port.as_ref()?.opening.as_ref());
        opening.is_some_and(|opening| Arc::ptr_eq(opening, &reserved.opening))
    }

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

/// The port as it is with its device, or with the reason why it has none (and whether that may
/// still come). A device that is refused stays in `opened`.
fn take_in(
    state: &mut State,
    reserved: &Reserved,
    opened: &mut Result<OpenPort, (String, bool)>,
) -> Result<Arc<PortState>, SwitchError> {
    let Reserved { id, config, .. } = reserved;
    let gone = || SwitchError::Precondition(format!("port {:?} was deleted while its device was opened", config.name));
    let port = state.ports[id.index()].clone().filter(|_| state.is_opening(reserved));
    let mut port = (*port.ok_or_else(gone)?).clone();
    // Other ports may have come meanwhile.
    state.check_tunnel(config)?;
    match opened {
        Err((reason, may_come)) => {
            port.opened = Err(reason.clone());
            port.opening = port.opening.filter(|_| *may_come);
        }
        Ok(device) => {
            if let Err(reason) = state.interface_taken(*id, &device.device) {
                return Err(SwitchError::Device { name: config.name.clone(), reason });
            }
        }
    }
    state.routes.set_addresses(id.0.into(), &config.addresses).map_err(addresses_refused)?;
    if let Ok(device) = std::mem::replace(opened, Err((String::new(), false))) {
        port.opened = Ok(use_device(state, *id, &port.bridge, config, device));
        port.opening = None;
    }
    port.follow_mtu();
    if let Some(bridge) = state.bridges.get_mut(&port.bridge) {
        bridge.numbers.take(port.number, config.number.is_some());
    }
    // Before any worker decides by it.
    port.set_link(state.ports.link_of(&port));
    Ok(Arc::new(port))
}

/// Makes a device a port's, and places its receive queues.
pub(super) fn use_device(state: &State, id: PortId, bridge: &str, config: &PortConfig, opened: OpenPort) -> Opened {
    let OpenPort { rx, tx, device } = opened;
    let place = DropPlace { port: id.index(), name: config.name.clone(), bridge: bridge.to_owned() };
    let place = Arc::new(place);
    let shared = Arc::new(PortShared {
        id,
        name: config.name.clone(),
        tx: tx.into_iter().map(Mutex::new).collect(),
        counters: state.samplers.iter().map(|sampler| PortCounters::watched(&place, sampler)).collect(),
        device,
        sequence: AtomicU32::new(0),
        held: AtomicBool::new(false),
    });
    let mut rxqs: Vec<Rxq> = Vec::with_capacity(rx.len());
    for (number, queue) in (0..).zip(rx) {
        let worker = state.least_loaded(&rxqs);
        let slot = Arc::new(RxqSlot::new(id, number, queue));
        rxqs.push(Rxq { slot, worker, pinned: false, usage: Arc::default() });
    }
    Opened { rxqs, shared }
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
