//! OpenFlow port numbers of a bridge: which one a new port gets.
//!
//! Flows by number outlive a port. So a number that a port has lately had is not given to the next
//! one, as long as there are others (Open vSwitch's `alloc_ofp_port`).

use super::state::State;
use crate::info::{LOCAL, SwitchError};
use std::collections::{HashMap, HashSet};
use vswitch_dataplane::limits;
use vswitch_dataplane::port::{PortConfig, PortKind};
use vswitch_dataplane::time::Millis;

/// Highest number that is given without being asked for; those above are for who asks.
const GIVEN_MAX: u32 = 32_767;

/// A number is as good as new when its port has been gone for so long.
const FORGOTTEN_MS: u64 = 60 * 60 * 1000;

/// What a bridge remembers of its ports' numbers.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// The last one that was given without being asked for.
    last: u32,
    /// Of ports that are gone: since when.
    freed: HashMap<u32, Millis>,
}

impl Numbers {
    /// The number for the next port that asks for none: behind the last one, and one that no port
    /// has had within the last hour. If there is none such, the one that has been free for the
    /// longest time.
    pub(super) fn next(&self, used: &HashSet<u32>, now: Millis) -> Option<u32> {
        let round = (self.last + 1..=GIVEN_MAX).chain(1..=self.last.min(GIVEN_MAX));
        let mut oldest: Option<(Millis, u32)> = None;
        for number in round.filter(|number| !used.contains(number)) {
            match self.freed.get(&number) {
                Some(at) if now.0.saturating_sub(at.0) < FORGOTTEN_MS => {
                    if oldest.is_none_or(|(before, _)| at.0 < before.0) {
                        oldest = Some((*at, number));
                    }
                }
                _ => return Some(number),
            }
        }
        oldest.map(|(_, number)| number)
    }

    /// A port has this number now.
    pub(super) fn take(&mut self, number: u32, asked_for: bool) {
        self.freed.remove(&number);
        if !asked_for && number <= GIVEN_MAX {
            self.last = number;
        }
    }

    /// The port with this number is gone.
    pub(super) fn free(&mut self, number: u32, now: Millis) {
        if number <= GIVEN_MAX {
            self.freed.retain(|_, at| now.0.saturating_sub(at.0) < FORGOTTEN_MS);
            self.freed.insert(number, now);
        }
    }
}

impl State {
    /// The requested port number, or a free one. An internal (or dummy) port named like its bridge
    /// is LOCAL.
    pub(super) fn number_for(&self, bridge: &str, config: &PortConfig) -> Result<u32, SwitchError> {
        if config.name == bridge && matches!(config.kind, PortKind::Internal { .. } | PortKind::Dummy) {
            return Ok(LOCAL);
        }
        let used: HashSet<u32> = self.all_ports().filter(|(_, p)| p.bridge == bridge).map(|(_, p)| p.number).collect();
        let numbers = &self.bridge(bridge)?.numbers;
        let free = || numbers.next(&used, Millis::now());
        match config.number {
            Some(number) if used.contains(&number) => Err(SwitchError::Exists {
                what: "port number",
                name: number.to_string(),
                hint: format!("a free one of bridge {bridge} is {}", free().unwrap_or(0)),
            }),
            Some(number) => Ok(number),
            None => free().ok_or(SwitchError::Exhausted { what: "port numbers", limit: limits::PORTS_MAX }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Millis = Millis(1 << 40);

    /// Ports come and go as in the test of Open vSwitch that this was seen in: 1, 2, 3, without 2,
    /// then 4.
    #[test]
    fn a_number_that_was_just_freed_is_not_the_next() {
        let (mut numbers, mut used) = (Numbers::default(), HashSet::new());
        for expected in 1..=3 {
            let number = numbers.next(&used, NOW).expect("free");
            assert_eq!(number, expected);
            numbers.take(number, false);
            used.insert(number);
        }
        used.remove(&2);
        numbers.free(2, NOW);
        assert_eq!(numbers.next(&used, NOW), Some(4));
        // Who asks for it gets it, which does not move the others.
        numbers.take(2, true);
        assert_eq!(numbers.next(&used, NOW), Some(4));
    }

    #[test]
    fn numbers_are_given_again_when_all_have_been_used_the_oldest_first() {
        let mut numbers = Numbers::default();
        let mut used: HashSet<u32> = (1..=GIVEN_MAX).collect();
        assert_eq!(numbers.next(&used, NOW), None);
        for (number, ms) in [(7, 3000), (9, 1000), (8, 2000)] {
            used.remove(&number);
            numbers.free(number, Millis(NOW.0 + ms));
        }
        assert_eq!(numbers.next(&used, Millis(NOW.0 + 4000)), Some(9));
        // An hour later they are like new ones: the next behind the last that was given.
        numbers.take(7, false);
        numbers.free(7, Millis(NOW.0 + 5000));
        assert_eq!(numbers.next(&used, Millis(NOW.0 + 5000 + FORGOTTEN_MS)), Some(8));
    }

    proptest! {
        /// Whatever comes and goes: no number is had twice, and none is given within the hour while
        /// others are free.
        #[test]
        fn no_number_comes_back_while_others_are_free(steps in proptest::collection::vec((any::<bool>(), 0..40_usize, 0..600_000_u64), 1..300)) {
            let (mut numbers, mut used, mut now) = (Numbers::default(), Vec::<u32>::new(), NOW);
            let mut freed: HashMap<u32, Millis> = HashMap::new();
            for (add, which, pause) in steps {
                now = Millis(now.0 + pause);
                if add || used.is_empty() {
                    let number = numbers.next(&used.iter().copied().collect(), now).expect("far fewer than there are");
                    prop_assert!(!used.contains(&number) && (1..=GIVEN_MAX).contains(&number));
                    prop_assert!(freed.get(&number).is_none_or(|at| now.0 - at.0 >= FORGOTTEN_MS), "{} again", number);
                    numbers.take(number, false);
                    used.push(number);
                } else {
                    let number = used.swap_remove(which % used.len());
                    numbers.free(number, now);
                    freed.insert(number, now);
                }
            }
        }
    }
}
