//! What one port may cost a worker: tokens for misses, for packet-ins, for learning.
//!
//! **Where in the walk**: behind the caches, where a packet is about to cost more than its way
//! through them.
//!
//! **Design**: every worker has a [`Budget`] for every port, so that a port that storms spends its
//! own tokens. An [`Allowance`] is a token bucket in one word (the virtual scheduling of ITU-T
//! I.371): the moment at which what was spent so far will have run in again. What costs more than
//! was thought is charged afterwards, as a debt.
//!
//! **Threads**: one worker writes; no locked instruction, no clock read: time is the burst's.

use crate::limits::{
    BURST_OF_A_SECOND, LEARNS_PER_SECOND_DEFAULT, MEGAFLOWS_MAX, MISSES_PER_SECOND_DEFAULT,
    PACKET_INS_PER_SECOND_DEFAULT, PORTS_MAX, REJECTS_PER_SECOND, RENEWALS_PER_MISS, TOO_BIGS_PER_SECOND,
    WAITING_DEFAULT,
};
use crate::observe::Counter;
use crate::port::PortId;
use crate::time::Millis;

/// Nanoseconds of a millisecond and of a second.
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// What one port may cause on one worker, per second. 0: as much as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Packets of a new kind: no cache knows what happens to them.
    pub misses: u32,
    /// Packets for controllers.
    pub packet_ins: u32,
    /// Flows that learn installs or replaces.
    pub learns: u32,
    /// Packets that may wait for the address of one next hop, of all ports together; at 0 they are
    /// lost. No rate.
    pub waiting: u32,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            misses: MISSES_PER_SECOND_DEFAULT,
            packet_ins: PACKET_INS_PER_SECOND_DEFAULT,
            learns: LEARNS_PER_SECOND_DEFAULT,
            waiting: WAITING_DEFAULT,
        }
    }
}

impl Rates {
    /// No limits, and nothing waits.
    pub const NONE: Self = Self { misses: 0, packet_ins: 0, learns: 0, waiting: 0 };
}

/// A token bucket that one thread takes from.
#[derive(Debug)]
pub struct Allowance {
    /// What a token takes to run in, in nanoseconds; 0: there are always tokens.
    token: u64,
    /// Likewise a full bucket.
    depth: u64,
    /// When all that was spent will have run in, in nanoseconds of the clock. Not later than now:
    /// the bucket is full.
    full_at: Counter,
    refused: Counter,
}

impl Allowance {
    /// A full bucket of `burst` tokens, into which `rate` tokens run per second; at a rate of 0 it
    /// never empties.
    #[must_use]
    pub fn new(rate: u32, burst: u32) -> Self {
        let token = SECOND.checked_div(rate.into()).unwrap_or(0);
        let depth = token * u64::from(burst.max(1));
        Self { token, depth, full_at: Counter::default(), refused: Counter::default() }
    }

    /// Takes a token, if there is one; counts if there is none.
    pub fn take(&self, now: Millis) -> bool {
        let now = now.0.saturating_mul(MS);
        let full_at = self.full_at.get().max(now).saturating_add(self.token);
        let there = full_at <= now.saturating_add(self.depth);
        if there {
            self.full_at.set(full_at);
        } else {
            self.refused.add(1);
        }
        there
    }

    /// Takes tokens that may not be there yet: until they have run in, there are none.
    pub fn charge(&self, tokens: u32) {
        self.full_at.set(self.full_at.get().saturating_add(self.token.saturating_mul(tokens.into())));
    }

    /// How often there was no token, since the last call.
    pub fn take_refused(&self) -> u64 {
        let refused = self.refused.get();
        if refused > 0 {
            self.refused.set(0);
        }
        refused
    }
}

/// What one port may cost one worker.
#[derive(Debug)]
#[repr(align(64))]
pub struct Budget {
    /// Translations of packets of a new kind.
    pub misses: Allowance,
    /// Translations of a kind that was known until something changed.
    pub renewals: Allowance,
    /// Packets for controllers.
    pub packet_ins: Allowance,
    /// Flows that learn installs or replaces.
    pub learns: Allowance,
    /// Senders that are told that a packet is too long. A limit of the protocol, whatever the
    /// rates.
    pub too_bigs: Allowance,
    /// Senders that are told that a packet was refused. Likewise.
    pub rejects: Allowance,
}

impl Budget {
    /// Everything that these rates allow.
    #[must_use]
    pub fn new(rates: Rates) -> Self {
        let some = |rate: u32| Allowance::new(rate, rate / BURST_OF_A_SECOND);
        let renewals = rates.misses.saturating_mul(RENEWALS_PER_MISS);
        Self {
            misses: some(rates.misses),
            renewals: Allowance::new(renewals, u32::try_from(MEGAFLOWS_MAX).unwrap_or(u32::MAX)),
            packet_ins: some(rates.packet_ins),
            learns: some(rates.learns),
            too_bigs: some(TOO_BIGS_PER_SECOND),
            rejects: some(REJECTS_PER_SECOND),
        }
    }
}

/// One worker's budgets for all ports, and one without limits, for what the control side sends.
#[derive(Debug)]
pub struct Budgets {
    ports: Box<[Budget]>,
    free: Budget,
}

impl Budgets {
    /// Likewise.
    #[must_use]
    pub fn new(rates: Rates) -> Self {
        Self { ports: (0..PORTS_MAX).map(|_| Budget::new(rates)).collect(), free: Budget::new(Rates::NONE) }
    }

    /// That of a port; of no port: the one without limits.
    #[inline]
    #[must_use]
    pub fn of(&self, port: PortId) -> &Budget {
        self.ports.get(port.index()).unwrap_or(&self.free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(allowance: &Allowance, now: u64, tries: u32) -> usize {
        (0..tries).filter(|_| allowance.take(Millis(now))).count()
    }

    #[test]
    fn a_burst_at_once_and_then_what_runs_in() {
        for start in [0, 1, 1_000_000] {
            let allowance = Allowance::new(2000, 50);
            assert_eq!(taken(&allowance, start, 100), 50, "a full bucket at {start} ms");
            assert_eq!(allowance.take_refused(), 50);
            assert_eq!(allowance.take_refused(), 0, "told once");
            assert_eq!(taken(&allowance, start + 1, 100), 2);
            assert_eq!(taken(&allowance, start + 11, 100), 20);
            assert_eq!(taken(&allowance, start + 1011, 100), 50, "never more than full");
        }
    }

    #[test]
    fn what_is_spent_in_a_long_time_is_the_rate() {
        let allowance = Allowance::new(1500, 30);
        let sum: usize = (0..10_000).map(|ms| taken(&allowance, ms, 7)).sum();
        assert!((15_000..=15_031).contains(&sum), "{sum} in 10 s");
    }

    #[test]
    fn a_debt_is_paid_first() {
        let allowance = Allowance::new(1000, 10);
        assert!(allowance.take(Millis(5)));
        allowance.charge(29);
        assert_eq!(taken(&allowance, 5, 3), 0);
        assert_eq!(taken(&allowance, 25, 3), 0, "30 spent, 10 were there, 20 have run in");
        assert_eq!(taken(&allowance, 26, 3), 1);
    }

    #[test]
    fn nothing_ends_at_a_rate_of_0() {
        let allowance = Allowance::new(0, 0);
        allowance.charge(u32::MAX);
        assert_eq!(taken(&allowance, 0, 100_000), 100_000);
    }

    #[test]
    fn every_port_has_its_own() {
        let budgets = Budgets::new(Rates { misses: 1, packet_ins: 1, learns: 1, waiting: 0 });
        let of = |port: u16| &budgets.of(PortId(port)).misses;
        assert!(of(0).take(Millis(0)) && !of(0).take(Millis(0)), "one token");
        assert!(of(1).take(Millis(0)) && of(1023).take(Millis(0)));
        assert_eq!(taken(&budgets.of(PortId::NONE).misses, 0, 1000), 1000);
    }
}
