//! What happens without being asked: link events, announcements, guests that misbehave, timeouts of
//! flows, ageing, load samples.

use super::announce::Announcer;
use super::companion::Companion;
use super::state::{BridgeState, PortState};
use super::{STARVED_S, Switch};
use crate::info::PortEventKind;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, Instant};
#[cfg(feature = "dpdk")]
use vswitch_dataplane::port::Link;
use vswitch_dataplane::port::PortId;
use vswitch_dataplane::time::Millis;

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
        vswitch_dpdk::vhost::maintain();
        switch.look_at_links();
        switch.look_at_mtus();
        #[cfg(feature = "dpdk")]
        switch.look_at_peers();
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
            // Whoever owns the interface of a VTEP may give it another address: then packets for
            // tunnels come to that one.
            let published = self.publisher.current();
            let moved = |(i, port): (usize, &Option<PortState>)| {
                let vtep = published.world.ports.get(i).and_then(Option::as_ref).and_then(|facts| facts.vtep.as_ref());
                vtep.zip(port.as_ref()).is_some_and(|(vtep, port)| vtep.mac != port.mac())
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
        self.look_at_pool();
        self.age();
    }

    /// Takes down ports whose peer broke the rules, by name. With the device goes what it holds of
    /// mbufs.
    #[cfg(feature = "dpdk")]
    fn look_at_peers(&self) {
        let _ = self.with(|state| {
            for i in 0..state.ports.len() {
                let Some(port) = &mut state.ports[i] else { continue };
                let broken = port.opened.as_ref().ok().and_then(|opened| opened.shared.device.broken());
                let Some(reason) = broken else { continue };
                tracing::error!(port = port.config.name, bridge = port.bridge, reason, "port is taken down");
                let opened = std::mem::replace(&mut port.opened, Err(reason));
                port.set_link(Link::default());
                state.changes.link_changed();
                self.publisher.publish(state.snapshot());
                self.event_of(state, PortEventKind::LinkDown, PortId(u16::try_from(i).unwrap_or(u16::MAX)))?;
                if let (Some(port), Ok(opened)) = (&state.ports[i], opened) {
                    opened.close(&port.config.name);
                }
            }
            Ok(())
        });
    }

    /// Says when there has been no mbuf for seconds, and when there is one again.
    fn look_at_pool(&self) {
        let engine = self.engine.lock();
        let Some(pool) = &engine.pool else { return };
        let seconds = self.starved_s.load(Relaxed);
        if pool.alloc().is_some() {
            self.starved_s.store(0, Relaxed);
            if seconds >= STARVED_S {
                tracing::info!(seconds, "the mbuf pool has mbufs again");
            }
            return;
        }
        self.starved_s.store(seconds.saturating_add(1), Relaxed);
        if seconds + 1 == STARVED_S {
            let (mbufs, in_use) = (pool.size(), pool.in_use());
            tracing::error!(mbufs, in_use, "the mbuf pool is empty: ports receive nothing; the switch is not healthy");
        }
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
