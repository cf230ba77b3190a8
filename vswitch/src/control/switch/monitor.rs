//! What happens without being asked: link events, announcements, guests that misbehave, timeouts of flows, ageing, load samples.

use super::Switch;
use super::announce::Announcer;
use super::companion::Companion;
use super::state::{BridgeState, PortState};
use crate::control::info::PortEventKind;
use crate::port::PortId;
use crate::time::Millis;
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, Instant};

/// Links are looked at this often; a change is reported at most so late.
const LINK_PERIOD: Duration = Duration::from_millis(100);

/// Tables age and load is sampled this often.
const SECOND: Duration = Duration::from_secs(1);

/// Starts the thread that does it.
pub(super) fn start(switch: &Arc<Switch>, announce: bool) -> Companion {
    let weak = Arc::downgrade(switch);
    Companion::start("monitor", "no link events, no ageing", move |stopped| watch(&weak, announce, stopped))
}

fn watch(switch: &Weak<Switch>, announce: bool, stopped: &mpsc::Receiver<()>) {
    let mut second = Instant::now();
    let mut announcer = Announcer::default();
    while matches!(stopped.recv_timeout(LINK_PERIOD), Err(mpsc::RecvTimeoutError::Timeout)) {
        let Some(switch) = switch.upgrade() else { return };
        switch.publisher.drop_retired();
        crate::dpdk::vhost::tend();
        switch.look_at_links();
        switch.expire_flows();
        if announce {
            switch.announce(&mut announcer);
        }
        let elapsed = second.elapsed();
        if elapsed >= SECOND {
            second = Instant::now();
            switch.every_second(elapsed.as_secs_f64());
        }
    }
}

impl Switch {
    pub(super) fn look_at_links(&self) {
        let _ = self.with(|state| {
            for i in 0..state.ports.len() {
                let Some(port) = &state.ports[i] else { continue };
                let (before, now) = (port.link, state.link_of(port));
                if let Some(port) = &mut state.ports[i] {
                    port.set_link(now);
                }
                if before.up != now.up {
                    state.changes.link_changed();
                    let kind = if now.up { PortEventKind::LinkUp } else { PortEventKind::LinkDown };
                    self.event_of(state, kind, PortId(u16::try_from(i).unwrap_or(u16::MAX)))?;
                }
            }
            // Whoever owns the interface of a home may give it another address: then packets for tunnels come to that one.
            let published = self.publisher.current();
            let moved = |(i, port): (usize, &Option<PortState>)| {
                let home = published.world.ports.get(i).and_then(Option::as_ref).and_then(|facts| facts.home.as_ref());
                home.zip(port.as_ref()).is_some_and(|(home, port)| home.mac != port.mac())
            };
            if state.ports.iter().enumerate().any(moved) {
                self.publisher.publish(state.snapshot());
            }
            Ok(())
        });
    }

    /// Removes flows whose time is over. (What workers' caches counted is to be collected before.)
    pub(super) fn expire_flows(&self) {
        // Idle timeouts are judged by what the caches have counted.
        self.collect();
        let now = Millis::now();
        let _ = self.with(|state| {
            let names: Vec<String> = state.bridges.keys().cloned().collect();
            for name in names {
                let world = state.next_world();
                let Some(bridge) = state.bridges.get_mut(&name) else { continue };
                let changed = bridge.pipeline.expire(world, now);
                if changed {
                    self.publish_program(state, &name)?;
                    // What was counted until then is part of the story.
                    self.collect();
                }
                state.bridges.get_mut(&name).into_iter().for_each(BridgeState::tell_removed);
            }
            Ok(())
        });
    }

    fn every_second(&self, seconds: f64) {
        let _ = self.with(|state| {
            state.sample_rxqs(seconds);
            Ok(())
        });
        self.age();
    }

    /// Lets old addresses go.
    pub(super) fn age(&self) {
        let now_s = Millis::now().seconds();
        let _ = self.with(|state| {
            state.bridges.values().for_each(|bridge| bridge.fdb.age(now_s));
            state.neighbours.age(Millis::now().0);
            Ok(())
        });
    }
}
