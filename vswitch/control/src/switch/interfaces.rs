//! Interfaces of the kernel under ports, as wholes: each is under one port only, and what its owner
//! makes of it is followed.

use super::change::{Step, Turn};
use super::port_state::PortState;
use super::state::State;
use crate::info::{PortEventKind, SwitchError};
use vswitch_dataplane::limits::{MTU_MAX, MTU_MIN};
use vswitch_dataplane::port::{Device, PortId};

impl State {
    /// Why a device cannot be this port's: its interface is another port's already, by whatever
    /// name it was given.
    pub(super) fn interface_taken(&self, id: PortId, device: &Device) -> Result<(), String> {
        let Some(index) = device.interface_index() else { return Ok(()) };
        let has_it = |port: &PortState| {
            port.opened.as_ref().is_ok_and(|opened| opened.shared.device.interface_index() == Some(index))
        };
        let Some((_, other)) = self.all_ports().find(|(other, port)| *other != id && has_it(port)) else {
            return Ok(());
        };
        let (name, bridge) = (&other.config.name, &other.bridge);
        Err(format!(
            "its interface (index {index}) is that of port {name} of bridge {bridge}; an interface is one port: name \
             another one, or delete that port first"
        ))
    }
}

impl PortState {
    /// MTU of the interface of the kernel behind it, in bytes; none where there is none here.
    pub(super) fn interface_mtu(&self) -> Option<u32> {
        self.opened.as_ref().ok().and_then(|opened| opened.shared.device.interface_mtu())
    }

    /// Takes its interface's MTU over, where none was asked for; tells the log where it stays
    /// another one. Returns whether the port's MTU is another one now.
    pub(super) fn follow_mtu(&mut self) -> bool {
        let theirs = self.interface_mtu();
        if theirs.is_none() || theirs == self.seen_mtu {
            return false;
        }
        self.seen_mtu = theirs;
        let theirs = theirs.unwrap_or_default();
        let (port, before) = (&self.config.name, self.config.mtu);
        if self.config.mtu_follows {
            let wanted = theirs.clamp(MTU_MIN.into(), MTU_MAX.into());
            self.config.mtu = u16::try_from(wanted).unwrap_or(MTU_MAX);
            if self.config.mtu != before {
                tracing::info!(port, mtu = self.config.mtu, before, "the port takes its interface's MTU");
            }
        }
        if u32::from(self.config.mtu) != theirs {
            tracing::warn!(
                port,
                mtu = self.config.mtu,
                interface_mtu = theirs,
                "the port and its interface differ in MTU: longer packets than the smaller of them are dropped"
            );
        }
        self.config.mtu != before
    }
}

impl super::Switch {
    /// Looks at the MTUs of interfaces, which their owners may change.
    pub(super) fn look_at_mtus(&self, turn: &Turn<'_>) {
        let _: Result<(), SwitchError> = self.change_in(turn, |state| {
            let moved = |port: &PortState| port.interface_mtu().is_some_and(|mtu| Some(mtu) != port.seen_mtu);
            let moved: Vec<PortId> = state.all_ports().filter(|(_, port)| moved(port)).map(|(id, _)| id).collect();
            let changed: Vec<PortId> =
                moved.into_iter().filter(|id| state.ports.change(*id).is_some_and(PortState::follow_mtu)).collect();
            if changed.is_empty() {
                return Ok(Step::Done(()));
            }
            Ok(Step::publish(state.snapshot(), move |switch, state| {
                for id in changed {
                    let _ = switch.event_of(state, PortEventKind::Modified, id);
                }
            }))
        });
    }
}
