//! What tests of a whole switch need: packets by hand, a clock that obeys, caches that can be
//! emptied.

use super::Switch;
use super::change::ADOPTION_MAX;
use super::state::State;
use crate::info::SwitchError;
use std::sync::Arc;
use vswitch_dataplane::port::dummy::{DummyDevice, DummyLog, DummyWire, PanicAt, Sent};
use vswitch_dataplane::port::{Device, FieldError};
use vswitch_dataplane::time;

impl Switch {
    /// Whether there may be dummy ports, and tests may play with time (`vswitchd --enable-dummy`).
    #[must_use]
    pub fn dummies_enabled(&self) -> bool {
        self.edit(|state| Ok(state.context.dummies.is_some())).unwrap_or(false)
    }

    /// Gives a packet to a dummy port, waits until it and what it led to has left, and returns what
    /// all dummy ports have sent since the last call, in order: also what left for other reasons
    /// (packet-outs, other ports).
    ///
    /// # Errors
    /// When there is no such port, it is not a dummy, or no worker polls it.
    pub fn dummy_receive(&self, port: &str, packet: &[u8]) -> Result<Vec<Sent>, SwitchError> {
        self.dummy_receive_all(port, vec![packet.to_vec()])
    }

    /// [`Switch::dummy_receive`] for several packets, as one burst if they are few enough.
    ///
    /// # Errors
    /// When there is no such port, it is not a dummy, or no worker polls it.
    pub fn dummy_receive_all(&self, port: &str, packets: Vec<Vec<u8>>) -> Result<Vec<Sent>, SwitchError> {
        let (wire, log) = self.dummy(port)?;
        let wake = || self.publisher.inboxes.iter().for_each(|inbox| inbox.wake());
        wire.receive(packets, wake).map_err(|reason| SwitchError::Device { name: port.to_owned(), reason })?;
        taken(&log)
    }

    /// What all dummy ports have sent since the last call.
    ///
    /// # Errors
    /// When dummy ports are not enabled, or too much was sent to be written down.
    pub fn dummy_sent(&self) -> Result<Vec<Sent>, SwitchError> {
        let log = self.edit(|state| state.context.dummies.clone().ok_or_else(not_enabled))?;
        taken(&log)
    }

    /// Plugs the cable of a dummy port in or pulls it, and tells everyone.
    ///
    /// # Errors
    /// When there is no such port or it is not a dummy.
    pub fn dummy_link(&self, port: &str, up: bool) -> Result<(), SwitchError> {
        self.edit(|state| {
            device(state, port)?.set_link(up);
            Ok(())
        })?;
        self.look_at_links();
        Ok(())
    }

    /// Lets a worker panic at a dummy port with the next packet: when it sends by it, or when it
    /// receives.
    ///
    /// # Errors
    /// When there is no such port or it is not a dummy.
    pub fn dummy_panic(&self, port: &str, sending: bool) -> Result<(), SwitchError> {
        self.edit(|state| {
            device(state, port)?.wire.panic_at(if sending { PanicAt::Send } else { PanicAt::Receive });
            Ok(())
        })
    }

    /// Stops the clock: from now on only [`Switch::time_warp`] moves it. Of the whole process.
    ///
    /// # Errors
    /// When dummy ports are not enabled: time is not to be played with.
    pub fn time_stop(&self) -> Result<(), SwitchError> {
        self.edit(|state| state.context.dummies.as_ref().map(|_| ()).ok_or_else(not_enabled))?;
        time::stop();
        self.wait_for_workers()
    }

    /// Moves the clock forward. What is due then (timeouts, ageing) has happened when this returns,
    /// and the next packet sees the new time.
    ///
    /// # Errors
    /// When dummy ports are not enabled: time is not to be played with.
    pub fn time_warp(&self, ms: u64) -> Result<(), SwitchError> {
        self.edit(|state| state.context.dummies.as_ref().map(|_| ()).ok_or_else(not_enabled))?;
        time::warp(ms);
        // A worker that was in the middle of a burst has finished it; the next one begins by
        // looking at the clock.
        self.wait_for_workers()?;
        let turn = self.take_turn()?;
        self.expire_flows(&turn);
        drop(turn);
        self.age();
        self.expire_connections();
        Ok(())
    }

    fn wait_for_workers(&self) -> Result<(), SwitchError> {
        self.publisher.wait_at_most(ADOPTION_MAX).map_err(|stuck| SwitchError::Late(stuck.to_string()))
    }

    /// Empties the caches of all workers. Nothing but time is lost.
    pub fn cache_flush(&self) {
        self.publisher.caches.iter().for_each(|cache| cache.flush());
    }

    /// Turns the caches of all workers on or off. Off, every packet is looked up in the tables.
    pub fn cache_enable(&self, on: bool) {
        self.publisher.caches.iter().for_each(|cache| cache.enable(on));
    }

    fn dummy(&self, port: &str) -> Result<(Arc<DummyWire>, Arc<DummyLog>), SwitchError> {
        self.edit(|state| {
            let log = state.context.dummies.clone().ok_or_else(not_enabled)?;
            Ok((Arc::clone(&device(state, port)?.wire), log))
        })
    }
}

/// A dummy port by name.
fn device<'a>(state: &'a State, port: &str) -> Result<&'a DummyDevice, SwitchError> {
    let Some((_, found)) = state.all_ports().find(|(_, found)| found.config.name == port) else {
        let hint = "see vsctl list-ports".to_owned();
        return Err(SwitchError::NotFound { what: "port", name: port.to_owned(), hint });
    };
    match found.opened.as_ref().map(|opened| &opened.shared.device) {
        Ok(Device::Dummy(device)) => Ok(device),
        _ => {
            let problem = format!("{port:?} is no port of type dummy");
            Err(FieldError::new("port", problem, "add one: vsctl add-port br0 p1 --type dummy").into())
        }
    }
}

fn taken(log: &DummyLog) -> Result<Vec<Sent>, SwitchError> {
    match log.take() {
        (sent, 0) => Ok(sent),
        (sent, lost) => {
            let limit = sent.len();
            tracing::warn!(lost, "dummy ports have sent more than anyone asked for");
            Err(SwitchError::Exhausted { what: "packets sent by dummy ports", limit })
        }
    }
}

fn not_enabled() -> SwitchError {
    SwitchError::Precondition("this is for tests: start vswitchd with --enable-dummy".to_owned())
}
