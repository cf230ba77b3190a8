//! What happens without being asked: link events, announcements, guests that misbehave, timeouts of
//! flows, ageing, load samples.

use super::Switch;
use super::announce::Announcer;
use super::change::{Step, Turn};
#[cfg(feature = "dpdk")]
use super::closing::Closing;
use super::companion::Companion;
use super::healthy::STARVED_S;
use super::port_state::PortState;
use crate::info::{PortEventKind, SwitchError};
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
    switch.watched.monitor.beat();
    Companion::start("monitor", "no link events, no ageing", move |stopped| watch(&weak, announce, stopped))
}

fn watch(switch: &Weak<Switch>, announce: bool, stopped: &mpsc::Receiver<()>) {
    let mut second = Instant::now();
    let mut announcer = Announcer::default();
    while matches!(stopped.recv_timeout(LINK_PERIOD), Err(mpsc::RecvTimeoutError::Timeout)) {
        let Some(switch) = switch.upgrade() else { return };
        switch.watched.monitor.beat();
        switch.publisher.drop_retired();
        vswitch_dpdk::vhost::maintain();
        switch.end_openings();
        switch.look_at_links();
        switch.look_at_losses();
        switch.tell_drops();
        // It does not wait for a change that is in work, nor for a worker that does not move: it
        // comes again.
        if let Some(turn) = switch.try_turn() {
            switch.take_down_lost(&turn);
            switch.look_at_mtus(&turn);
            #[cfg(feature = "dpdk")]
            switch.look_at_peers(&turn);
            switch.expire_flows(&turn);
            switch.follow_vteps(&turn);
        }
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
        let _ = self.edit(|state| {
            let now = |(id, port): (PortId, &PortState)| (id, port.link, state.ports.link_of(port));
            let moved: Vec<_> = state.all_ports().map(now).filter(|(_, before, now)| before != now).collect();
            if moved.is_empty() {
                return Ok(());
            }
            for (id, _, now) in &moved {
                state.ports.change(*id).into_iter().for_each(|port| port.set_link(*now));
            }
            // Who hears of it sees it.
            self.show(state);
            for (id, _, now) in moved.into_iter().filter(|(_, before, now)| before.up != now.up) {
                state.changes.link_changed();
                let kind = if now.up { PortEventKind::LinkUp } else { PortEventKind::LinkDown };
                self.event_of(state, kind, id)?;
            }
            Ok(())
        });
    }

    /// Whoever owns the interface of a VTEP may give it another address: then packets for tunnels
    /// come to that one.
    fn follow_vteps(&self, turn: &Turn<'_>) {
        let _: Result<(), SwitchError> = self.change_in(turn, |state| {
            let published = self.publisher.current();
            let vtep = |id: PortId| published.world.ports.get(id.index())?.as_ref()?.vtep.clone();
            let moved = |(id, port): (PortId, &PortState)| vtep(id).is_some_and(|vtep| vtep.mac != port.mac());
            let moved = state.all_ports().any(moved);
            Ok(if moved { Step::publish(state.snapshot(), |_, _| ()) } else { Step::Done(()) })
        });
    }

    /// Removes flows whose time is over. (What workers' caches counted is to be collected before.)
    pub(super) fn expire_flows(&self, turn: &Turn<'_>) {
        // Idle timeouts are judged by what the caches have counted.
        self.collect();
        let now = Millis::now();
        let names = self.edit(|state| Ok(state.bridges.keys().cloned().collect::<Vec<_>>()));
        for name in names.unwrap_or_default() {
            let _: Result<(), SwitchError> = self.change_in(turn, |state| {
                let world = state.next_world();
                let Some(bridge) = state.bridges.get_mut(&name) else { return Ok(Step::Done(())) };
                if bridge.pipeline.expire(world, now) {
                    return Ok(self.program_step(state, &name, || ()));
                }
                bridge.tell_removed();
                Ok(Step::Done(()))
            });
        }
    }

    fn every_second(&self, seconds: f64) {
        let _ = self.edit(|state| {
            state.sample_rxqs(seconds);
            Ok(())
        });
        self.count_drops(seconds);
        self.look_at_pool();
        self.look_at_disk();
        self.age();
    }

    /// Takes down a port whose peer broke the rules, by name. With the device goes what it holds of
    /// mbufs.
    #[cfg(feature = "dpdk")]
    fn look_at_peers(&self, turn: &Turn<'_>) {
        let _: Result<(), SwitchError> = self.change_in(turn, |state| {
            let broken = |port: &PortState| port.opened.as_ref().ok().and_then(|opened| opened.shared.device.broken());
            let broken = state.all_ports().find_map(|(id, port)| Some((id, broken(port)?)));
            let Some((id, reason)) = broken else { return Ok(Step::Done(())) };
            let Some(port) = state.ports.change(id) else { return Ok(Step::Done(())) };
            tracing::error!(port = port.config.name, bridge = port.bridge, reason, "port is taken down");
            let closing = Closing::of(port);
            port.opened = Err(reason);
            port.set_link(Link::default());
            state.changes.link_changed();
            Ok(Step::publish(state.snapshot(), move |switch, state| {
                let _ = switch.event_of(state, PortEventKind::LinkDown, id);
                state.closing.extend(closing);
            }))
        });
    }

    /// Says when there has been no mbuf for seconds, and when there is one again.
    fn look_at_pool(&self) {
        let engine = self.engine.lock();
        let Some(pool) = &engine.pool else { return };
        let seconds = self.watched.starved_s.load(Relaxed);
        if pool.alloc().is_some() {
            self.watched.starved_s.store(0, Relaxed);
            if seconds >= STARVED_S {
                tracing::info!(seconds, "the mbuf pool has mbufs again");
            }
            return;
        }
        self.watched.starved_s.store(seconds.saturating_add(1), Relaxed);
        if seconds + 1 == STARVED_S {
            let (mbufs, in_use) = (pool.size(), pool.in_use());
            tracing::error!(mbufs, in_use, "the mbuf pool is empty: ports receive nothing; the switch is not healthy");
        }
    }

    /// Lets old addresses go.
    pub(super) fn age(&self) {
        let now_s = Millis::now().seconds();
        let _ = self.edit(|state| {
            state.bridges.values().for_each(|bridge| bridge.fdb.age(now_s));
            state.neighbours.age(Millis::now().0);
            Ok(())
        });
    }
}
