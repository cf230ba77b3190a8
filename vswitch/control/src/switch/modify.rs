//! Ports: change some of their attributes, while traffic flows; open those that did not open.

use super::Switch;
use super::change::Step;
use super::opening::{NotOpened, Opening, Reserved};
use super::port_state::{Opened, PortState};
use super::ports::use_device;
use super::state::State;
use super::tunnels::addresses_refused;
use crate::info::{PortChange, PortEventKind, PortInfo, SwitchError};
use std::sync::Arc;
use vswitch_dataplane::port::{OpenPort, PortConfig, PortId};

impl Switch {
    /// Changes some of a port's attributes. Setting a port up that failed to open tries again.
    ///
    /// # Errors
    /// When it does not exist, a value is wrong, or the device refuses. Then nothing has changed.
    pub fn modify_port(&self, bridge: &str, name: &str, change: &PortChange) -> Result<PortInfo, SwitchError> {
        let reserved = self.edit(|state| {
            let reserved = state.reopens(bridge, name, change)?;
            self.show(state);
            Ok(reserved)
        })?;
        let mut opened = match &reserved {
            None => None,
            Some(reserved) => Some(self.open(reserved).map_err(|error| {
                if !matches!(error, NotOpened::Late) {
                    self.forget_opening(reserved);
                }
                Self::not_opened(name, error)
            })?),
        };
        let result: Result<_, SwitchError> = self.change(|state| {
            let id = state.port(bridge, name)?;
            let changed = state.change_port(id, change, reserved.as_ref(), &mut opened)?;
            state.ports[id.index()] = Some(changed);
            let snapshot = state.snapshot();
            Ok(Step::publish(snapshot, move |switch, state| switch.event_of(state, PortEventKind::Modified, id)))
        });
        if let (Some(reserved), Err(_)) = (&reserved, &result) {
            self.forget_opening(reserved);
        }
        result?
    }
}

impl State {
    /// What a port would be after a change, if that can be.
    fn port_config(&self, id: PortId, change: &PortChange) -> Result<(Arc<PortState>, PortConfig), SwitchError> {
        let Some(port) = self.ports[id.index()].clone() else {
            return Err(SwitchError::Precondition("the port vanished".to_owned()));
        };
        let config = changed(&port.config, change);
        let errors = config.errors();
        if !errors.is_empty() {
            return Err(SwitchError::Invalid(errors));
        }
        self.check_addresses(Some(id), &config)?;
        Ok((port, config))
    }

    /// A port that did not open and is to be set up: its state is "opening" from now on.
    fn reopens(&mut self, bridge: &str, name: &str, change: &PortChange) -> Result<Option<Reserved>, SwitchError> {
        let id = self.port(bridge, name)?;
        let (port, config) = self.port_config(id, change)?;
        if let Some(opening) = &port.opening {
            return Err(SwitchError::Busy(format!("port {name:?} is {}; try again when it has", opening.text())));
        }
        if port.opened.is_ok() || change.admin_up != Some(true) {
            return Ok(None);
        }
        let opening = Opening::new(true);
        if let Some(port) = self.ports.change(id) {
            port.opening = Some(Arc::clone(&opening));
        }
        Ok(Some(Reserved { id, opening, context: self.context.clone(), config, kind: port.kind.clone() }))
    }

    /// The port after a change. A device that is refused stays in `opened`.
    fn change_port(
        &mut self,
        id: PortId,
        change: &PortChange,
        reserved: Option<&Reserved>,
        opened: &mut Option<OpenPort>,
    ) -> Result<Arc<PortState>, SwitchError> {
        let (port, config) = self.port_config(id, change)?;
        let mut port = (*port).clone();
        let device = |reason| SwitchError::Device { name: config.name.clone(), reason };
        let mut routes = self.routes.clone();
        routes.set_addresses(id.0.into(), &config.addresses).map_err(addresses_refused)?;
        if let Ok(opened) = &port.opened {
            reconfigure(opened, &port.config, &config).map_err(device)?;
        }
        if let Some(reserved) = reserved {
            if !self.is_opening(reserved) {
                return Err(SwitchError::Precondition("the port was deleted while its device was opened".to_owned()));
            }
            if let Some(opened) = opened {
                self.interface_taken(id, &opened.device).map_err(device)?;
            }
            if let Some(opened) = opened.take() {
                port.opened = Ok(use_device(self, id, &port.bridge, &config, opened));
            }
            port.opening = None;
        }
        self.routes = routes;
        port.config = config;
        port.seen_mtu = None;
        port.follow_mtu();
        Ok(Arc::new(port))
    }
}

/// What a port is to be after a change.
fn changed(old: &PortConfig, change: &PortChange) -> PortConfig {
    let mut config = old.clone();
    config.admin_up = change.admin_up.unwrap_or(config.admin_up);
    config.no_flood = change.no_flood.unwrap_or(config.no_flood);
    config.no_receive = change.no_receive.unwrap_or(config.no_receive);
    config.no_forward = change.no_forward.unwrap_or(config.no_forward);
    config.strict = change.strict.unwrap_or(config.strict);
    config.underlay = change.underlay.or(config.underlay);
    config.mtu = change.mtu.unwrap_or(config.mtu);
    config.mtu_follows = change.mtu_follows.unwrap_or(config.mtu_follows && change.mtu.is_none());
    config.addresses.clone_from(change.addresses.as_ref().unwrap_or(&old.addresses));
    config.external_ids.clone_from(change.external_ids.as_ref().unwrap_or(&old.external_ids));
    config
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
