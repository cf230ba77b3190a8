//! Which worker polls which receive queue.

use super::Switch;
use super::state::{Rxq, State};
use crate::info::{RxqInfo, SwitchError};
use vswitch_dataplane::port::FieldError;
use vswitch_dpdk::lcore;

impl State {
    /// The worker with the least measured load, then with the fewest queues; `more` are queues
    /// about to be added.
    pub(super) fn least_loaded(&self, more: &[Rxq]) -> usize {
        let mut load = vec![(0.0, 0_usize); self.cores.len()];
        for rxq in self.rxqs().chain(more) {
            load[rxq.worker].0 += rxq.usage;
            load[rxq.worker].1 += 1;
        }
        lightest(&load)
    }

    /// Takes a sample of how busy each queue kept its worker during the last `seconds`.
    pub(super) fn sample_rxqs(&mut self, seconds: f64) {
        #[allow(clippy::cast_precision_loss)] // percentages
        let available = lcore::tsc_hz() as f64 * seconds;
        for rxq in self.rxqs_mut() {
            let now = rxq.slot.cycles.get();
            #[allow(clippy::cast_precision_loss)]
            let usage = (now.wrapping_sub(rxq.sampled) as f64 / available).clamp(0.0, 1.0);
            rxq.sampled = now;
            // Half of the old reading: about five seconds of memory at one sample a second.
            rxq.usage = f64::midpoint(rxq.usage, usage);
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
        self.with(|state| {
            let mut infos = Vec::new();
            for (_, port) in state.all_ports() {
                let Ok(opened) = &port.opened else { continue };
                infos.extend(opened.rxqs.iter().map(|rxq| RxqInfo {
                    bridge: port.bridge.clone(),
                    port: port.config.name.clone(),
                    queue: rxq.slot.queue,
                    core: state.cores[rxq.worker],
                    pinned: rxq.pinned,
                    usage_percent: rxq.usage * 100.0,
                    packets: rxq.slot.packets.get(),
                }));
            }
            infos.sort_by(|a, b| (a.core, &a.port, a.queue).cmp(&(b.core, &b.port, b.queue)));
            Ok(infos)
        })
        .unwrap_or_default()
    }

    /// Pins a receive queue to the worker on a core, or (none) lets it be placed by load again.
    ///
    /// # Errors
    /// When the port, the queue or a worker on that core does not exist.
    pub fn pin_rxq(&self, port: &str, queue: u16, core: Option<u32>) -> Result<(), SwitchError> {
        self.with(|state| {
            let cores = state.cores.clone();
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
            let found = state.ports.iter_mut().flatten().find(|state| state.config.name == port);
            let Some(found) = found else {
                return Err(not_found("port", port.to_owned(), "see vsctl worker-rxq-show".to_owned()));
            };
            let queues = found.opened.as_mut().map(|opened| opened.rxqs.as_mut_slice()).unwrap_or_default();
            let n = queues.len();
            let Some(rxq) = queues.get_mut(usize::from(queue)) else {
                return Err(not_found("receive queue", format!("{port}:{queue}"), format!("the port has {n} queues")));
            };
            rxq.pinned = worker.is_some();
            rxq.worker = worker.unwrap_or(rxq.worker);
            self.publisher.publish(state.snapshot());
            Ok(())
        })
    }

    /// Places all unpinned receive queues anew by measured load, the busiest first; returns how
    /// many moved.
    #[must_use]
    pub fn rebalance(&self) -> usize {
        self.with(|state| {
            let mut load = vec![(0.0, 0_usize); state.cores.len()];
            for rxq in state.rxqs().filter(|rxq| rxq.pinned) {
                load[rxq.worker].0 += rxq.usage;
                load[rxq.worker].1 += 1;
            }
            let mut unpinned: Vec<&mut Rxq> = state.rxqs_mut().filter(|rxq| !rxq.pinned).collect();
            unpinned.sort_by(|a, b| b.usage.total_cmp(&a.usage));
            let mut moved = 0;
            for rxq in unpinned {
                let worker = lightest(&load);
                load[worker].0 += rxq.usage;
                load[worker].1 += 1;
                moved += usize::from(rxq.worker != worker);
                rxq.worker = worker;
            }
            if moved > 0 {
                self.publisher.publish(state.snapshot());
            }
            Ok(moved)
        })
        .unwrap_or(0)
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
        ] {
            assert_eq!(lightest(&load), expected, "{load:?}");
        }
    }
}
