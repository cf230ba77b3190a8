//! Ports that are gone, and whose devices are to be closed.
//!
//! **Design**: the port is unpublished, and every worker has adopted the newer snapshot or sleeps.
//! A worker that sleeps holds its old snapshot until it wakes, and a reader an old view until it
//! has its answer. So a device is closed when its queues and its last reference have come back: by
//! the call that removed the port, or later by the monitor.

use super::port_state::{Opened, PortState};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use vswitch_dataplane::worker::{PortShared, RxqSlot};

/// A worker lets go of a port within a burst, or one sleep. After this long it is reported.
const RELEASE_SOON: Duration = Duration::from_secs(1);

/// Between two looks.
const NAP: Duration = Duration::from_micros(50);

/// The device of a port that is gone. Dropped when it [`Closing::is_free`], the device is closed.
#[derive(Debug)]
pub(super) struct Closing {
    port: String,
    since: Instant,
    reported: bool,
    slots: Vec<Arc<RxqSlot>>,
    shared: Arc<PortShared>,
}

impl Closing {
    /// Of a port, if it is open.
    pub(super) fn of(port: &PortState) -> Option<Self> {
        port.opened.as_ref().ok().map(|opened| Self::new(&port.config.name, opened))
    }

    /// Of what was opened for a port of this name.
    pub(super) fn new(port: &str, opened: &Opened) -> Self {
        let slots = opened.rxqs.iter().map(|rxq| Arc::clone(&rxq.slot)).collect();
        let shared = Arc::clone(&opened.shared);
        Self { port: port.to_owned(), since: Instant::now(), reported: false, slots, shared }
    }

    /// Name of the port.
    pub(super) fn port(&self) -> &str {
        &self.port
    }

    /// A lost worker has it.
    pub(super) fn hold(&self) {
        self.shared.held.store(true, Relaxed);
    }

    /// Whether a lost worker has it: it is never free.
    pub(super) fn is_held(&self) -> bool {
        self.shared.held.load(Relaxed)
    }

    /// Whether nobody else has it any more.
    fn is_free(&mut self) -> bool {
        self.slots.retain(|slot| slot.take().is_none());
        let free = self.slots.is_empty() && Arc::strong_count(&self.shared) == 1;
        if !free && !self.reported && self.since.elapsed() > RELEASE_SOON {
            self.reported = true;
            tracing::error!(port = self.port, "a worker has not let go of the port for 1 s");
        }
        free
    }
}

/// Closes those that nobody else has, until `until` or until `hurry`. Those that are left stay.
pub(super) fn close(closing: &mut Vec<Closing>, until: Instant, hurry: impl Fn() -> bool) {
    loop {
        closing.retain_mut(|one| !one.is_free());
        if closing.is_empty() || Instant::now() >= until || hurry() {
            return;
        }
        std::thread::sleep(NAP);
    }
}
