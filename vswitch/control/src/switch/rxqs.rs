//! Which worker polls which receive queue.

use super::Switch;
use super::change::Step;
use super::port_state::Rxq;
use super::state::State;
use crate::info::{RxqInfo, SwitchError};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_dataplane::port::FieldError;
use vswitch_dpdk::lcore;

impl State {
    /// The worker with the least measured load, then with the fewest queues; `more` are queues
    /// about to be added.
    pub(super) fn least_loaded(&self, more: &[Rxq]) -> usize {
        let mut load = self.no_load();
        for rxq in self.rxqs().chain(more) {
            load[rxq.worker].0 += rxq.usage.get();
            load[rxq.worker].1 += 1;
        }
        lightest(&load)
    }

    /// By worker: its load before it has a queue. That of a lost worker is infinite.
    fn no_load(&self) -> Vec<(f64, usize)> {
        let lost = |worker| if self.lost.contains(&worker) { f64::INFINITY } else { 0.0 };
        (0..self.cores.len()).map(|worker| (lost(worker), 0)).collect()
    }

    /// Takes a sample of how busy each queue kept its worker during the last `seconds`.
    pub(super) fn sample_rxqs(&self, seconds: f64) {
        #[allow(clippy::cast_precision_loss)] // percentages
        let available = lcore::tsc_hz() as f64 * seconds;
        for rxq in self.rxqs() {
            let now = rxq.slot.cycles.get();
            let before = rxq.usage.sampled.swap(now, Relaxed);
            #[allow(clippy::cast_precision_loss)]
            let usage = (now.wrapping_sub(before) as f64 / available).clamp(0.0, 1.0);
            // Half of the old reading: about five seconds of memory at one sample a second.
            rxq.usage.set(f64::midpoint(rxq.usage.get(), usage));
        }
    }
}

/// Index of the smallest load; rounded so that noise does not decide over the number of queues.
fn lightest(load: &[(f64, usize)]) -> usize {
    let rank = |&(usage, queues): &(f64, usize)| ((usage * 20.0).round(), queues);
    let better = |a: usize, b: usize| if rank(&load[b]) < rank(&load[a]) { b } else { a };
    (1..load.len()).fold(0, better)
}

impl Switch {
    /// All receive queues, by worker.
    #[must_use]
    pub fn rxqs(&self) -> Vec<RxqInfo> {
        let view = self.shown.view();
        let mut infos = Vec::new();
        for port in view.all_ports() {
            let Ok(opened) = &port.opened else { continue };
            infos.extend(opened.rxqs.iter().map(|rxq| RxqInfo {
                bridge: port.bridge.clone(),
                port: port.config.name.clone(),
                queue: rxq.slot.queue,
                core: view.cores[rxq.worker],
                pinned: rxq.pinned,
                usage_percent: rxq.usage.get() * 100.0,
                packets: rxq.slot.packets.get(),
            }));
        }
        infos.sort_by(|a, b| (a.core, &a.port, a.queue).cmp(&(b.core, &b.port, b.queue)));
        infos
    }

    /// Pins a receive queue to the worker on a core, or (none) lets it be placed by load again.
    ///
    /// # Errors
    /// When the port, the queue or a worker on that core does not exist.
    pub fn pin_rxq(&self, port: &str, queue: u16, core: Option<u32>) -> Result<(), SwitchError> {
        self.change(|state| {
            let cores = Arc::clone(&state.cores);
            let not_found = |what, name: String, hint: String| SwitchError::NotFound { what, name, hint };
            let worker = match core {
                Some(core) => Some(cores.iter().position(|own| *own == core).ok_or_else(|| {
                    FieldError::new(
                        "core",
                        format!("no worker runs on core {core}"),
                        format!("workers run on {cores:?}"),
                    )
                })?),
                None => None,
            };
            if worker.is_some_and(|worker| state.lost.contains(&worker)) {
                let problem = format!("the worker on core {} has panicked", core.unwrap_or_default());
                return Err(FieldError::new("core", problem, "choose another one, or restart the switch").into());
            }
            let found = state.all_ports().find(|(_, found)| found.config.name == port).map(|(id, _)| id);
            let Some(found) = found.and_then(|id| state.ports.change(id)) else {
                return Err(not_found("port", port.to_owned(), "see vsctl worker-rxq-show".to_owned()));
            };
            let queues = found.opened.as_mut().map(|opened| opened.rxqs.as_mut_slice()).unwrap_or_default();
            let n = queues.len();
            let Some(rxq) = queues.get_mut(usize::from(queue)) else {
                return Err(not_found("receive queue", format!("{port}:{queue}"), format!("the port has {n} queues")));
            };
            rxq.pinned = worker.is_some();
            rxq.worker = worker.unwrap_or(rxq.worker);
            Ok(Step::publish(state.snapshot(), |_, _| ()))
        })
    }

    /// Places all unpinned receive queues anew by measured load, the busiest first; returns how
    /// many moved.
    #[must_use]
    pub fn rebalance(&self) -> usize {
        let moved: Result<usize, SwitchError> = self.change(|state| {
            let mut load = state.no_load();
            for rxq in state.rxqs().filter(|rxq| rxq.pinned) {
                load[rxq.worker].0 += rxq.usage.get();
                load[rxq.worker].1 += 1;
            }
            let mut unpinned: Vec<&mut Rxq> = state.rxqs_mut().filter(|rxq| !rxq.pinned).collect();
            unpinned.sort_by(|a, b| b.usage.get().total_cmp(&a.usage.get()));
            let mut moved = 0;
            for rxq in unpinned {
                let worker = lightest(&load);
                load[worker].0 += rxq.usage.get();
                load[worker].1 += 1;
                moved += usize::from(rxq.worker != worker);
                rxq.worker = worker;
            }
            Ok(if moved > 0 { Step::publish(state.snapshot(), move |_, _| moved) } else { Step::Done(0) })
        });
        moved.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::lightest;

    #[test]
    fn load_decides_before_the_number_of_queues_and_noise_does_not() {
        for (load, expected) in [
            (vec![(0.9, 1), (0.2, 5)], 1),
            (vec![(0.501, 3), (0.502, 1)], 1),
            (vec![(0.0, 2), (0.0, 2), (0.0, 1)], 2),
            (vec![(0.3, 1)], 0),
            (vec![(f64::INFINITY, 0), (0.9, 4)], 1),
        ] {
            assert_eq!(lightest(&load), expected, "{load:?}");
        }
    }
}
