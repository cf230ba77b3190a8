//! What readers see: the state of one moment.
//!
//! **Design**: the writer shows a [`View`] with each change, as a whole. A reader takes the present
//! one under a lock that is held for a few instructions, and works with that. It never waits for
//! the writer's locks, nor for a worker.
//!
//! **Order**. A change is shown before the workers get it. A reader that takes a view which is not
//! adopted by all workers yet waits for that, [`READ_WAIT`] at most. So a reader that sees a change
//! sees what packets see, and one that does not has begun before any packet saw it. Only where a
//! worker does not move is a view told that this worker has not adopted: nobody can see more of the
//! world than that then.

use super::port_state::{PortState, Ports};
use crate::info::{BridgeConfig, SwitchError};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::broadcast;
use vswitch_dataplane::pipeline::state::FlowRemoved;
use vswitch_dataplane::pipeline::{Fdb, PacketIns, Program, World};
use vswitch_overlay::{Neighbours, OptionMap, Routes};

/// A worker that moves adopts within a burst, or when it gets a core again. A reader waits for so
/// long that it does.
const READ_WAIT: Duration = Duration::from_millis(150);

/// The state of one moment.
#[derive(Debug, Default)]
pub(super) struct View {
    /// Counts views that were shown.
    pub(super) number: u64,
    /// The world that workers get with it, or had when it was shown.
    pub(super) world: Arc<World>,
    pub(super) cores: Arc<[u32]>,
    pub(super) bridges: BTreeMap<String, BridgeView>,
    pub(super) ports: Ports,
    pub(super) routes: Routes,
    pub(super) neighbours: Option<Arc<Neighbours>>,
}

/// A bridge of one moment.
#[derive(Clone, Debug)]
pub(super) struct BridgeView {
    pub(super) config: BridgeConfig,
    pub(super) id: u32,
    pub(super) fdb: Arc<Fdb>,
    pub(super) program: Arc<Program>,
    /// Names of tables.
    pub(super) tables: Arc<BTreeMap<u8, String>>,
    pub(super) options: OptionMap,
    pub(super) packet_ins: Arc<PacketIns>,
    pub(super) flow_events: broadcast::Sender<Arc<FlowRemoved>>,
}

impl View {
    /// A bridge by name.
    pub(super) fn bridge(&self, name: &str) -> Result<&BridgeView, SwitchError> {
        self.bridges.get(name).ok_or_else(|| no_bridge(name, self.bridges.keys().map(String::as_str)))
    }

    /// Its ports.
    pub(super) fn all_ports(&self) -> impl Iterator<Item = &PortState> {
        self.ports.all().map(|(_, port)| port)
    }
}

/// A bridge of this name is not among these.
pub(super) fn no_bridge<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> SwitchError {
    SwitchError::NotFound { what: "bridge", name: name.to_owned(), hint: hint("bridges", names) }
}

/// What there is, or that there is nothing.
pub(super) fn hint<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.take(8).collect();
    if names.is_empty() { format!("there are no {what}") } else { format!("{what} are: {}", names.join(", ")) }
}

/// The present view, and whether workers are about to adopt it.
#[derive(Debug, Default)]
pub(super) struct Shown {
    present: Mutex<Arc<View>>,
    /// Number of the view that workers are about to adopt: that one and later ones are waited for.
    pending: Mutex<Option<u64>>,
    changed: Condvar,
}

impl Shown {
    /// The present view. One that workers are about to adopt is waited for.
    pub(super) fn view(&self) -> Arc<View> {
        let view = self.present();
        let mut pending = self.pending.lock();
        let until = Instant::now() + READ_WAIT;
        while pending.is_some_and(|pending| pending <= view.number) {
            if self.changed.wait_until(&mut pending, until).timed_out() {
                // One reader has waited for all.
                *pending = None;
            }
        }
        view
    }

    /// The present view, whether workers have it or not.
    pub(super) fn present(&self) -> Arc<View> {
        Arc::clone(&self.present.lock())
    }

    /// Shows a view in which there is nothing new for workers.
    pub(super) fn show(&self, view: View) {
        drop(self.replace(view, false));
    }

    /// Shows a view that workers are to adopt next. [`Shown::adopted`] is to follow.
    pub(super) fn show_first(&self, view: View) {
        drop(self.replace(view, true));
    }

    /// Workers have adopted the last view, or nobody waits any more.
    pub(super) fn adopted(&self) {
        *self.pending.lock() = None;
        self.changed.notify_all();
    }

    fn replace(&self, mut view: View, pending: bool) -> Arc<View> {
        let mut present = self.present.lock();
        view.number = present.number + 1;
        if pending {
            // Before anybody can see the view.
            *self.pending.lock() = Some(view.number);
        }
        std::mem::replace(&mut *present, Arc::new(view))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_waits_until_workers_see_what_it_sees() {
        let shown = Shown::default();
        assert_eq!(shown.view().number, 0, "nothing to wait for");
        shown.show_first(View::default());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| shown.view().number);
            shown.adopted();
            assert_eq!(reader.join().expect("no panic"), 1);
        });
        shown.show(View::default());
        assert_eq!(shown.view().number, 2);
    }

    #[test]
    fn a_reader_does_not_wait_for_a_worker_that_does_not_move() {
        let shown = Shown::default();
        shown.show_first(View::default());
        // It has what workers are about to adopt, too.
        shown.show(View::default());
        assert_eq!(*shown.pending.lock(), Some(1));
        assert_eq!(shown.view().number, 2);
        assert_eq!(*shown.pending.lock(), None, "the next reader waits again");
    }
}
