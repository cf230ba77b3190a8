//! One trial: the loop that sends what is due and receives what came, first without looking, then
//! measured.

use crate::cli::DRAIN;
use crate::ends::Ends;
use crate::frame::{Frames, Stamp};
use crate::pace::Pacer;
use crate::tally::Tally;
use std::time::Duration;
use vswitch_dataplane::limits::BURST;
use vswitch_dpdk::Burst;
use vswitch_dpdk::lcore::cycles;

/// Full bursts received one after the other before something is sent again.
const RECEIVES: usize = 4;

/// What to do.
pub(crate) struct Trial {
    /// Packets per second; none: as fast as it goes.
    pub(crate) pps: Option<u64>,
    /// Which one of the run: 100 at most.
    pub(crate) number: u8,
    /// Cycles per second.
    pub(crate) hz: u64,
    pub(crate) warm_up: Duration,
    pub(crate) length: Duration,
}

/// What came of it, in the measured part.
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) sent: u64,
    pub(crate) given_up: u64,
    /// Cycles of the measured part.
    pub(crate) cycles: u64,
    /// Cycles of it during which packets waited because the device had no room.
    pub(crate) blocked: u64,
    /// Cycles per second.
    hz: u64,
}

impl Outcome {
    /// Packets sent per second.
    pub(crate) fn sent_pps(&self) -> u64 {
        self.per_second(self.sent)
    }

    /// Packets received per second.
    pub(crate) fn received_pps(&self) -> u64 {
        self.per_second(self.tally.received)
    }

    fn per_second(&self, count: u64) -> u64 {
        u64::try_from(u128::from(count) * u128::from(self.hz) / u128::from(self.cycles.max(1))).unwrap_or(u64::MAX)
    }
}

/// What is under way in a trial.
struct Run<'a> {
    ends: &'a mut Ends,
    frames: &'a Frames,
    pacer: Pacer,
    tally: Tally,
    /// Built, but not taken by the device yet; all of one part.
    waiting: Burst,
    part: u8,
    /// Of this part: built, and taken by the device.
    built: u64,
    sent: u64,
    blocked: u64,
}

impl Trial {
    /// Runs it; it takes the warm-up and the length, and then [`DRAIN`] at most.
    pub(crate) fn run(&self, ends: &mut Ends, frames: &Frames) -> Outcome {
        let start = cycles();
        let (warm, measured) = (2 * self.number, 2 * self.number + 1);
        let mut run = Run {
            ends,
            frames,
            pacer: Pacer::new(start, self.hz, self.pps),
            tally: Tally::new(measured, self.hz),
            waiting: Burst::new(),
            part: warm,
            built: 0,
            sent: 0,
            blocked: 0,
        };
        run.until(start + self.cycles_of(self.warm_up));
        run.measure(measured);
        let given_up = run.pacer.given_up();
        let from = cycles();
        let to = run.until(from + self.cycles_of(self.length));
        let given_up = run.pacer.given_up() - given_up;
        run.drain(to + self.cycles_of(DRAIN));
        let Run { tally, sent, blocked, .. } = run;
        Outcome { tally, sent, given_up, cycles: to - from, blocked, hz: self.hz }
    }

    fn cycles_of(&self, time: Duration) -> u64 {
        u64::try_from(time.as_nanos() * u128::from(self.hz) / 1_000_000_000).unwrap_or(u64::MAX / 2)
    }
}

impl Run<'_> {
    /// From now on packets count. What was built before goes: its stamps are of the other part.
    fn measure(&mut self, part: u8) {
        self.waiting.clear();
        (self.part, self.built, self.sent, self.blocked, self.tally.foreign) = (part, 0, 0, 0, 0);
        self.tally.gaps.clear();
    }

    /// Sends and receives until then; gives when that was.
    fn until(&mut self, end: u64) -> u64 {
        let mut now = cycles();
        while now < end {
            self.receive();
            let blocked = !self.waiting.is_empty();
            self.send(now);
            let before = std::mem::replace(&mut now, cycles());
            if blocked {
                self.blocked += now - before;
            }
            self.tally.gaps.turn(now);
        }
        now
    }

    #[inline]
    fn send(&mut self, now: u64) {
        if self.waiting.is_empty() {
            let due = self.pacer.grant(now, BURST);
            if due == 0 {
                return;
            }
            let (part, sent) = (self.part, cycles());
            let (number, frames) = (&mut self.built, self.frames);
            self.ends.fill(&mut self.waiting, due, frames.len(), |frame| {
                frames.write(Stamp { part, number: *number, sent }, frame);
                *number += 1;
            });
        }
        let had = self.waiting.len();
        self.ends.send(&mut self.waiting);
        self.sent += (had - self.waiting.len()) as u64;
    }

    #[inline]
    fn receive(&mut self) {
        for _ in 0..RECEIVES {
            let tally = &mut self.tally;
            let more = self.ends.receive(|burst| {
                let now = cycles();
                tally.gaps.turn(now); // one right before it would look like the switch's
                for mbuf in burst.iter() {
                    tally.take(mbuf.head(), now);
                }
            });
            if !more {
                return;
            }
        }
    }

    /// Receives until all has come that was sent, or until then.
    fn drain(&mut self, end: u64) {
        loop {
            self.receive();
            if self.tally.received >= self.sent || cycles() >= end {
                return;
            }
        }
    }
}
