//! Workers that have panicked: what goes on without them, and when the switch is to restart.
//!
//! **Where in the walk**: beside it. The monitor looks.
//!
//! **Design**: a lost worker ([`vswitch_dataplane::worker::lose`]) keeps what it had. The ports of
//! its receive queues are taken down with the reason, and no queue is placed on it any more. All
//! other ports go on. Ports that were open then are held: if one of them is deleted, its device
//! stays open until the process ends.
//!
//! The switch asks for a restart ([`Switch::restart_wanted`]) if it cannot go on in that way: no
//! worker is left, the worker held a lock of a library, or it polled a port that many peers share
//! (a network card, the host). A restart by that way is a clean stop: connections are saved.
//!
//! **Limits**: what the others wait for in vain ends the process ([`Switch::blocked`]).

use super::Switch;
use super::change::{Step, Turn};
use super::closing::Closing;
use super::healthy::HEARTBEAT_MAX_MS;
use super::port_state::PortState;
use super::state::State;
use crate::health::{Condition, Part};
use crate::info::{PortEventKind, SwitchError};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use vswitch_conntrack::Share;
use vswitch_dataplane::port::{Link, PortId};

/// The guard waits for so long for a lock that is held for microseconds.
const LOCK_MAX: Duration = Duration::from_secs(1);

/// Another worker that is lost, too, is no obstacle; one that moves beats 1,000 times a second.
const BEAT_MAX_MS: u64 = 2 * HEARTBEAT_MAX_MS;

impl Switch {
    /// Why the switch is to be stopped and started again; None: it is not.
    #[must_use]
    pub fn restart_wanted(&self) -> watch::Receiver<Option<String>> {
        self.watched.restart.subscribe()
    }

    /// The lost workers' threads ask this switch whether the rest of it moves.
    pub(super) fn guard_losses(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.publisher.losses.guard_by(Box::new(move || weak.upgrade()?.blocked()));
    }

    /// What does not move any more, since a lost worker keeps something. None while the switch
    /// stops, which has a time limit of its own.
    fn blocked(&self) -> Option<String> {
        if self.stopped.load(Relaxed) {
            return None;
        }
        let Some(engine) = self.engine.try_lock_for(LOCK_MAX) else { return Some("the engine is locked".to_owned()) };
        let waits =
            engine.workers.iter().find(|worker| !worker.is_lost() && super::heartbeat_age(worker) > BEAT_MAX_MS);
        if let Some(worker) = waits {
            return Some(format!("worker-{} waits for what a lost worker holds", worker.core));
        }
        drop(engine);
        let parts = self.watched.own_threads(self.state.try_lock_for(LOCK_MAX).is_none(), Instant::now());
        let blocked = parts.into_iter().find(|part| part.condition != Condition::Good);
        blocked.map(|Part { name, reason, .. }| format!("{name}: {reason}"))
    }

    /// Looks for workers that were lost since the last look. Without the turn: what must restart
    /// does not wait for a change.
    pub(super) fn look_at_losses(&self) {
        let losses = &self.publisher.losses;
        let core = |worker: usize| self.shown.present().cores.get(worker).copied().unwrap_or_default();
        for (worker, loss) in losses.all() {
            if losses.are_total() {
                self.want_restart(format!("no worker is left: {}", loss.reason));
            } else if loss.in_library {
                self.want_restart(format!("worker-{} was lost inside of a library: {}", core(worker), loss.reason));
            }
        }
    }

    fn want_restart(&self, reason: String) {
        self.watched.restart.send_if_modified(|wanted| {
            if wanted.is_some() {
                return false;
            }
            tracing::error!(reason, "the switch is to restart");
            *wanted = Some(reason);
            true
        });
    }

    /// Takes down the ports of workers that were lost since the last look.
    pub(super) fn take_down_lost(&self, turn: &Turn<'_>) {
        if self.publisher.losses.all().next().is_none() {
            return;
        }
        let _: Result<(), SwitchError> = self.change_in(turn, |state| {
            let new = self.publisher.losses.all().find(|(worker, _)| !state.lost.contains(worker));
            let Some((worker, loss)) = new else { return Ok(Step::Done(())) };
            let core = state.cores[worker];
            let reason = format!("worker-{core} polled it, and has panicked ({}): restart the switch", loss.reason);
            let taken = state.lose(worker, &reason);
            if let Some((_, port)) = taken.iter().find(|(_, port)| port.config.kind.share() == Some(Share::Many)) {
                self.want_restart(format!("worker-{core}, which polled port {}, has panicked", port.config.name));
            }
            state.changes.link_changed();
            Ok(Step::publish(state.snapshot(), move |switch, state| {
                for (id, port) in taken {
                    let _ = switch.event_of(state, PortEventKind::LinkDown, id);
                    state.closing.extend(Closing::of(&port));
                }
            }))
        });
    }
}

impl State {
    /// No queue is placed on this worker any more. Returns the ports that it polled, as they were
    /// before they were taken down with this reason.
    fn lose(&mut self, worker: usize, reason: &str) -> Vec<(PortId, Arc<PortState>)> {
        self.lost.insert(worker);
        // It has the last snapshot that it adopted, with any of these.
        self.closing.iter().for_each(Closing::hold);
        for opened in self.ports.iter().flatten().filter_map(|port| port.opened.as_ref().ok()) {
            opened.shared.held.store(true, Relaxed);
        }
        let polled = |port: &PortState| {
            port.opened.as_ref().is_ok_and(|opened| opened.rxqs.iter().any(|rxq| rxq.worker == worker))
        };
        let ids: Vec<PortId> = self.all_ports().filter(|(_, port)| polled(port)).map(|(id, _)| id).collect();
        let mut taken = Vec::new();
        for id in ids {
            let Some(before) = self.ports[id.index()].clone() else { continue };
            tracing::error!(port = before.config.name, bridge = before.bridge, reason, "port is taken down");
            if let Some(port) = self.ports.change(id) {
                port.opened = Err(reason.to_owned());
                port.set_link(Link::default());
            }
            taken.push((id, before));
        }
        taken
    }
}
