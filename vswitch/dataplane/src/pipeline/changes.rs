//! The epoch: a number that rises with every change that workers or links make on their own,
//! outside of the publication of worlds.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Counts changes of learned rules, MAC tables and links, of all bridges. A decision reads the
/// epoch before it looks at anything and remembers it: it is good while the epoch stands, and later
/// if nothing it used ([`super::Deps`]) changed at a later epoch.
#[derive(Debug, Default)]
pub struct Changes {
    epoch: AtomicU64,
    links: AtomicU64,
}

impl Changes {
    /// The present epoch.
    #[inline]
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// Begins a new epoch and returns it. Call it after the change itself is visible, then note the
    /// number with what changed: a decision that saw the change but not the number is looked at
    /// once more; one that saw neither is stale.
    pub fn advance(&self) -> u64 {
        self.epoch.fetch_add(1, Release) + 1
    }

    /// Shows a change and begins the epoch that it belongs to, so that nobody sees the epoch
    /// without the change: `show` publishes the change together with the number that it is given.
    /// It is called again, with a higher number, when others began an epoch meanwhile.
    ///
    /// A decision of an earlier epoch is stale once this one has begun, whether it saw the change
    /// or not; a decision of this epoch has seen it.
    pub fn publish(&self, mut show: impl FnMut(u64)) -> u64 {
        let mut epoch = self.epoch();
        loop {
            show(epoch + 1);
            match self.epoch.compare_exchange(epoch, epoch + 1, AcqRel, Acquire) {
                Ok(_) => return epoch + 1,
                Err(now) => epoch = now,
            }
        }
    }

    /// A link went up or down; what tells so is stored already.
    pub fn link_changed(&self) {
        self.publish(|epoch| {
            self.links.fetch_max(epoch, Release);
        });
    }

    /// Epoch of the last change of a link.
    #[must_use]
    pub fn links(&self) -> u64 {
        self.links.load(Acquire)
    }
}
