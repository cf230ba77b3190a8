//! The state, held for long: what readers get meanwhile.
//!
//! **Design**: a sync compiles and writes for seconds under the lock of the state. Whoever asks how
//! the Node is must not wait for it. So what takes long publishes first how the Node is, and takes
//! that back before it unlocks. A reader takes what is published, or the lock. It sees all of an
//! answered call, and nothing of one that goes on.
//!
//! **Threads**: any.

use super::{Antrea, State};
use parking_lot::{Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;
use vswitch_proto::antrea::v1;

/// A write of so many objects takes long.
const MANY: usize = 64;

/// Between two looks whether something is published.
const LOOK: Duration = Duration::from_millis(5);

/// How the Node is.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) state: v1::GetStateResponse,
    /// None: there is no Node.
    pub(super) node: Option<v1::GetNodeResponse>,
}

/// How the Node was before what goes on; none: nothing does that takes long.
pub(super) type Published = Mutex<Option<Arc<Shown>>>;

/// The state, locked.
pub(super) struct Held<'a> {
    antrea: &'a Antrea,
    state: MutexGuard<'a, State>,
}

impl Deref for Held<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Before the lock: whoever finds nothing here waits for what is true then.
        self.antrea.published.lock().take();
    }
}

impl Antrea {
    /// Locks the state for what takes long.
    pub(super) fn hold(&self) -> Held<'_> {
        self.hold_for(MANY)
    }

    /// Locks the state for a write of so many objects.
    pub(super) fn hold_for(&self, objects: usize) -> Held<'_> {
        let state = self.state.lock();
        if objects >= MANY {
            let shown = Shown { state: self.state_of(&state), node: self.node_of(&state).ok() };
            *self.published.lock() = Some(Arc::new(shown));
        }
        Held { antrea: self, state }
    }

    /// What is published, or what `ask` says of the state.
    pub(super) fn shown<R>(&self, published: impl FnOnce(&Shown) -> R, ask: impl FnOnce(&State) -> R) -> R {
        loop {
            if let Some(shown) = &*self.published.lock() {
                return published(shown);
            }
            if let Some(state) = self.state.try_lock_for(LOOK) {
                return ask(&state);
            }
        }
    }
}
