//! `ct_forget`: connections that a packet met as new, and takes back.
//!
//! A pipeline may commit before it denies. What it commits is there then, and the other end may
//! answer what it never got; so a flow that denies takes back what its packet has met as new so
//! far: of all zones, by their handles, as behind a translation its headers find some of them no
//! more. Whoever met a connection as established leaves it alone.
//!
//! **Design**: each handle says which one its packet met before it, and
//! [`crate::worker::slow::execute::Tracked`] which one it met last. So branches of a packet have in
//! common what lies before they part, and packets within packets (out of tunnels, questions to
//! neighbours) begin anew, with nothing to put back in order. All of a burst are forgotten with it.

use crate::limits::RECIRCULATIONS_MAX;
use crate::observe::DropReason;
use crate::worker::step::StepContext;
use vswitch_conntrack::{Handle, TrackVerdict};

/// A connection that a packet met as new.
#[derive(Clone, Copy, Debug)]
struct Meeting {
    handle: Handle,
    /// It was the packet that opened it.
    opened: bool,
    /// The one before it.
    before: Last,
}

/// The last one that a packet met: its number, from 1; 0: none.
pub(in crate::worker) type Last = u32;

/// Those of the packets of a burst.
#[derive(Debug)]
pub(in crate::worker) struct Met(Vec<Meeting>);

impl Default for Met {
    /// With room for what a burst does that is new in three or four zones, or a packet at each of
    /// its stages. It grows beyond that, by what a pipeline does.
    fn default() -> Self {
        Self(Vec::with_capacity(2 * RECIRCULATIONS_MAX as usize))
    }
}

impl Met {
    /// Another burst.
    #[inline]
    pub(in crate::worker) fn clear(&mut self) {
        self.0.clear();
    }

    /// A packet meets another one, unless it has met that before. Returns the last one.
    fn add(&mut self, last: Last, handle: Handle, opened: bool) -> Last {
        if self.of(last).any(|met| met == handle) {
            return last;
        }
        self.0.push(Meeting { handle, opened, before: last });
        u32::try_from(self.0.len()).unwrap_or(0)
    }

    fn meetings(&self, last: Last) -> impl Iterator<Item = &Meeting> {
        let at = |last: Last| self.0.get((last as usize).wrapping_sub(1));
        std::iter::successors(at(last), move |meeting| at(meeting.before))
    }

    /// All that a packet has met, the last one first.
    pub(in crate::worker) fn of(&self, last: Last) -> impl Iterator<Item = Handle> {
        self.meetings(last).map(|meeting| meeting.handle)
    }

    /// Those of them that it opened.
    fn opened_by(&self, last: Last) -> impl Iterator<Item = Handle> {
        self.meetings(last).filter(|meeting| meeting.opened).map(|meeting| meeting.handle)
    }
}

impl StepContext<'_> {
    /// A packet gets a verdict. Returns the last connection that it has met as new.
    #[inline]
    pub(in crate::worker) fn meet(&mut self, last: Last, verdict: &TrackVerdict) -> Last {
        match verdict.fresh {
            None => last,
            Some(handle) => self.outputs.met.add(last, handle, verdict.opened),
        }
    }

    /// The packet that sets out next was paused, and has met these before.
    pub(in crate::worker) fn resume(&mut self, met: &[Handle]) {
        // Who opened them is not known any more; others may have used them meanwhile.
        self.resumed = met.iter().fold(0, |last, handle| self.outputs.met.add(last, *handle, false));
    }

    /// Takes back what a packet has met.
    #[cold]
    pub(in crate::worker) fn take_back(&self, last: Last) {
        let tracker = self.conntrack.tracker();
        for handle in self.outputs.met.of(last) {
            // Another packet may have taken it back, or its time was up.
            let _ = tracker.forget(handle, self.now.0);
        }
    }

    /// A packet dies before its tables have said all of it: of budgets, limits, its TTL (not of
    /// meters: an operator's limit is no judge). Where established means answered, what it opened
    /// goes with it: else who wears out the budget of his port, or sends with a TTL of 1, would be
    /// left with connections that nobody allowed, for the other end to answer. (What it found was
    /// there is not its own: the packet that opened it may have been allowed.)
    #[cold]
    pub(in crate::worker) fn never_decided(&self, last: Last) {
        let tracker = self.conntrack.tracker();
        for handle in self.outputs.met.opened_by(last) {
            let _ = tracker.forget_waiting(handle, self.now.0);
        }
    }
}

/// A decision ends so before it has come to its end; all other reasons are what became of it.
pub(in crate::worker) const fn ends_early(reason: DropReason) -> bool {
    use DropReason::{InvalidTtl, ResubmitCount, ResubmitDepth, StackDepth, WorkLimit};
    matches!(reason, InvalidTtl | ResubmitCount | ResubmitDepth | StackDepth | WorkLimit)
}
