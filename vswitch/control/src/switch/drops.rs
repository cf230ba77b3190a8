//! Drops as others see them: counts with rates, and samples with names.

use super::Switch;
use super::port_state::PortState;
use super::view::View;
use crate::drops::{DropCount, DropDecider, DropEvent, DropStream, Source};
use crate::info::SwitchError;
use std::sync::Arc;
use vswitch_dataplane::observe::{Direction, DropReason, DropSample};
use vswitch_dataplane::time::{Millis, unix_ms};
use vswitch_dataplane::worker::PortShared;

/// A number that an open port has for itself.
fn number(shared: &Arc<PortShared>) -> usize {
    Arc::as_ptr(shared).addr()
}

fn opened(port: &PortState) -> Option<&Arc<PortShared>> {
    port.opened.as_ref().ok().map(|opened| &opened.shared)
}

impl Switch {
    /// What was dropped at each port that is open, by direction and reason: those that happened.
    #[must_use]
    pub fn drops(&self) -> Vec<DropCount> {
        let view = self.shown.view();
        let history = self.drop_history.lock();
        let mut counts = Vec::new();
        for port in view.all_ports() {
            let Some(shared) = opened(port) else { continue };
            let totals = shared.totals();
            let mut add = |direction, reason: DropReason, total| {
                let source: Source = (number(shared), direction, reason);
                counts.push(DropCount {
                    bridge: port.bridge.clone(),
                    port: port.config.name.clone(),
                    direction,
                    reason,
                    total,
                    rates: history.rates(&source),
                    external_ids: port.config.external_ids.clone().into_iter().collect(),
                });
            };
            for (direction, drops) in [(Direction::In, &totals.rx_drops), (Direction::Out, &totals.tx_drops)] {
                for (reason, total) in DropReason::ALL.iter().zip(drops).filter(|(_, total)| **total > 0) {
                    add(direction, *reason, *total);
                }
            }
        }
        counts
    }

    /// Samples of drops from now on: at most `rate` per second of each reason and worker.
    ///
    /// # Errors
    /// When there are too many watchers.
    pub fn watch_drops(&self, rate: u32) -> Result<DropStream, SwitchError> {
        self.drop_watchers.watch(rate)
    }

    /// About a second has passed.
    pub(super) fn count_drops(&self, seconds: f64) {
        let view = self.shown.present();
        let totals: Vec<_> =
            view.all_ports().filter_map(opened).map(|shared| (number(shared), shared.totals())).collect();
        let totals = totals.iter().map(|(port, totals)| (*port, totals));
        self.drop_history.lock().tick(seconds, totals);
    }

    /// Hands out what workers have sampled.
    pub(super) fn tell_drops(&self) {
        let view = self.shown.present();
        self.drop_watchers.tell(|sample| named(&view, &sample));
    }
}

fn named(view: &View, sample: &DropSample) -> DropEvent {
    let ago = Millis::now().0.saturating_sub(sample.at.0);
    let decider = sample.decider.and_then(|decider| {
        let (name, bridge) = view.bridges.iter().find(|(_, bridge)| bridge.id == decider.bridge)?;
        Some(DropDecider {
            bridge: name.clone(),
            table: decider.table,
            table_name: bridge.tables.get(&decider.table).cloned().unwrap_or_default(),
            cookie: decider.matched.then_some(decider.cookie),
        })
    });
    DropEvent {
        reason: sample.reason,
        bridge: sample.place.bridge.clone(),
        port: sample.place.name.clone(),
        direction: sample.direction,
        worker: sample.worker,
        core: view.cores.get(sample.worker).copied().unwrap_or_default(),
        unix_ms: unix_ms().saturating_sub(ago),
        second: sample.at.0 / 1000,
        len: sample.len,
        bytes: sample.bytes().to_vec(),
        decider,
    }
}
