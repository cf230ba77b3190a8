//! How the state is changed: turns, publication, and what is left when a worker does not move.
//!
//! **Design**: two locks. A *turn* is for changes that workers have to adopt: one at a time has it,
//! until they have. The lock of the *state* is held for a step, and never while somebody waits for
//! a worker or a device. So links, ages, MAC addresses and names of tables go on while a change
//! waits.
//!
//! A change that a worker has not adopted within [`ADOPTION_MAX`] is not taken back, as the other
//! workers forward by it: its call ends with [`SwitchError::Late`], and what was to be done after
//! it is left for later. The worker adopts the change before its next burst. Until then further
//! changes are refused before they change anything ([`SwitchError::Busy`]).
//!
//! **Limits**: a change waits for its turn for [`TURN_MAX`] at most.

use super::Switch;
use super::closing::{self, Closing};
use super::opening::stopping;
use super::state::{After, State};
use crate::info::SwitchError;
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vswitch_dataplane::worker::{Snapshot, Stuck};

/// A worker adopts a snapshot within a burst, or when it gets its core again. After this long the
/// call that waits for it ends.
pub(super) const ADOPTION_MAX: Duration = Duration::from_secs(5);

/// The largest transaction takes some seconds, before and after its turn too.
const TURN_MAX: Duration = Duration::from_secs(60);

/// Between two looks whether the switch stops.
const LOOK: Duration = Duration::from_millis(50);

/// What a change comes to.
pub(super) enum Step<R> {
    /// Nothing that workers see.
    Done(R),
    /// A snapshot, and what is to be done when workers have adopted it.
    Publish(Snapshot, After<R>),
}

impl<R> Step<R> {
    /// A snapshot, and what then.
    pub(super) fn publish(snapshot: Snapshot, after: impl FnOnce(&Switch, &mut State) -> R + Send + 'static) -> Self {
        Self::Publish(snapshot, Box::new(after))
    }
}

/// The turn of a change that workers have to adopt. No worker is behind.
#[derive(Debug)]
pub(super) struct Turn<'a>(#[allow(dead_code, reason = "held")] MutexGuard<'a, ()>);

impl Switch {
    /// Changes what no worker has to adopt. For a step: it waits for nothing.
    pub(super) fn edit<R>(&self, f: impl FnOnce(&mut State) -> Result<R, SwitchError>) -> Result<R, SwitchError> {
        match &mut *self.state.lock() {
            Some(state) => f(state),
            None => Err(stopping()),
        }
    }

    /// Changes the switch, and returns when all workers have adopted that.
    ///
    /// # Errors
    /// As `f`; then nothing has changed. [`SwitchError::Busy`]: likewise. [`SwitchError::Late`]: it
    /// has changed, and a worker has not adopted it in time.
    pub(super) fn change<R, E>(&self, f: impl FnOnce(&mut State) -> Result<Step<R>, E>) -> Result<R, E>
    where
        R: Send + 'static,
        E: From<SwitchError>,
    {
        let turn = self.take_turn()?;
        self.change_in(&turn, f)
    }

    /// [`Switch::change`], for who has the turn.
    pub(super) fn change_in<R, E>(
        &self,
        turn: &Turn<'_>,
        f: impl FnOnce(&mut State) -> Result<Step<R>, E>,
    ) -> Result<R, E>
    where
        R: Send + 'static,
        E: From<SwitchError>,
    {
        let (snapshot, after) = {
            let mut state = self.state.lock();
            let Some(state) = &mut *state else { return Err(stopping().into()) };
            match f(state)? {
                Step::Done(value) => {
                    self.show(state);
                    return Ok(value);
                }
                Step::Publish(snapshot, after) => {
                    self.shown.show_first(state.view(Arc::clone(&snapshot.world)));
                    (snapshot, after)
                }
            }
        };
        let adopted = self.publisher.publish(snapshot, ADOPTION_MAX);
        self.shown.adopted();
        let mut state = self.state.lock();
        let Some(present) = &mut *state else { return Err(stopping().into()) };
        if let Err(stuck) = adopted {
            present.left.push(Box::new(move |switch, state| drop(after(switch, state))));
            return Err(late(&stuck).into());
        }
        let value = after(self, present);
        self.show(present);
        drop(state);
        self.close_gone(turn, ADOPTION_MAX)?;
        Ok(value)
    }

    /// Shows readers the state as it is, without anything new for workers.
    pub(super) fn show(&self, state: &State) {
        let world = Arc::clone(&self.shown.present().world);
        self.shown.show(state.view(world));
    }

    /// Waits for the turn.
    ///
    /// # Errors
    /// When it does not come, or a worker has not adopted an earlier change.
    pub(super) fn take_turn(&self) -> Result<Turn<'_>, SwitchError> {
        let until = Instant::now() + TURN_MAX;
        loop {
            if let Some(turn) = self.turn.try_lock_for(LOOK) {
                return self.settled(Turn(turn));
            }
            if self.is_hurried() {
                return Err(stopping());
            }
            if Instant::now() >= until {
                let text = format!("another change has been in work for {} s; try again", TURN_MAX.as_secs());
                return Err(SwitchError::Busy(text));
            }
        }
    }

    /// The turn, if it is to be had now. For who comes again.
    pub(super) fn try_turn(&self) -> Option<Turn<'_>> {
        self.settled(Turn(self.turn.try_lock()?)).ok()
    }

    /// Does what earlier changes left to be done, if workers have adopted them by now.
    fn settled<'a>(&'a self, turn: Turn<'a>) -> Result<Turn<'a>, SwitchError> {
        self.publisher.settle().map_err(|stuck| busy(&stuck))?;
        self.edit(|state| {
            let left = std::mem::take(&mut state.left);
            if !left.is_empty() {
                left.into_iter().for_each(|after| after(self, state));
                self.show(state);
            }
            Ok(())
        })?;
        // What is not closed yet is no obstacle.
        let _ = self.close_gone(&turn, Duration::ZERO);
        Ok(turn)
    }

    /// Closes the devices of ports that are gone. Not under the lock of the state: it takes as long
    /// as the devices want.
    fn close_gone(&self, _: &Turn<'_>, patience: Duration) -> Result<(), SwitchError> {
        let mut gone = self.edit(|state| {
            // A lost worker lets go of nothing: nobody waits for it.
            state.kept.extend(state.closing.extract_if(.., |closing| closing.is_held()));
            Ok(std::mem::take(&mut state.closing))
        })?;
        closing::close(&mut gone, Instant::now() + patience, || self.is_hurried());
        let Some(port) = gone.first().map(Closing::port) else { return Ok(()) };
        let text = format!(
            "port {port:?} is removed, but a worker has not let go of its device; the device is closed when it does; \
             see vsctl worker-show"
        );
        self.edit(|state| {
            state.closing.append(&mut gone);
            Ok(())
        })?;
        Err(SwitchError::Late(text))
    }
}

/// The change is there.
fn late(stuck: &Stuck) -> SwitchError {
    SwitchError::Late(format!(
        "the change is made, but {stuck} It adopts the change before its next packets; further changes are refused \
         until then"
    ))
}

/// Nothing has changed.
fn busy(stuck: &Stuck) -> SwitchError {
    SwitchError::Busy(format!("nothing is changed: {stuck} An earlier change waits for it; see vsctl worker-show"))
}
