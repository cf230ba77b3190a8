//! What counters of drops rose by, second by second.

use std::collections::HashMap;
use vswitch_dataplane::limits::DROP_RATES_MAX;
use vswitch_dataplane::observe::{Direction, DropReason, PortTotals};

/// Seconds that are kept.
const SECONDS: usize = 60;

/// Drops per second over the last 1, 10 and 60 s, or since the switch started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Over the last second.
    pub last_1s: f64,
    /// Over the last 10 s.
    pub last_10s: f64,
    /// Over the last minute.
    pub last_60s: f64,
}

/// A counter: of an open port, which has an address of its own while it is open.
pub(crate) type Source = (usize, Direction, DropReason);

/// One counter.
#[derive(Debug)]
struct Line {
    total: u64,
    /// What it rose by in each second; none: in none of them.
    rose: Option<Box<[u64; SECONDS]>>,
}

/// Of all counters.
#[derive(Debug)]
pub(crate) struct History {
    lines: HashMap<Source, Line>,
    /// How long each second was.
    seconds: [f64; SECONDS],
    /// The place of the next second.
    next: usize,
    /// Counters that rise.
    rising: usize,
}

impl Default for History {
    fn default() -> Self {
        Self { lines: HashMap::new(), seconds: [0.0; SECONDS], next: 0, rising: 0 }
    }
}

impl History {
    /// About a second has passed. `ports`: each open port, and what it counts now.
    pub(crate) fn tick<'p>(&mut self, seconds: f64, ports: impl Iterator<Item = (usize, &'p PortTotals)>) {
        let place = self.next;
        self.seconds[place] = seconds;
        self.next = (place + 1) % SECONDS;
        let mut there = HashMap::with_capacity(self.lines.len());
        for (port, totals) in ports {
            for (direction, drops) in [(Direction::In, &totals.rx_drops), (Direction::Out, &totals.tx_drops)] {
                for (reason, total) in DropReason::ALL.iter().zip(drops) {
                    if *total > 0 {
                        let source = (port, direction, *reason);
                        let line = self.lines.remove(&source);
                        there.insert(source, self.advance(line, place, *total));
                    }
                }
            }
        }
        // What is left belongs to ports that were closed.
        self.rising = there.values().filter(|line| line.rose.is_some()).count();
        self.lines = there;
    }

    fn advance(&mut self, line: Option<Line>, place: usize, total: u64) -> Line {
        let mut line = line.unwrap_or(Line { total: 0, rose: None });
        let rose = total.saturating_sub(line.total);
        line.total = total;
        if line.rose.is_none() && rose > 0 && self.rising < DROP_RATES_MAX {
            self.rising += 1;
            line.rose = Some(Box::new([0; SECONDS]));
        }
        if let Some(seconds) = &mut line.rose {
            seconds[place] = rose;
            if seconds.iter().all(|rose| *rose == 0) {
                line.rose = None;
            }
        }
        line
    }

    /// How fast a counter rises. None: it is not followed, as too many rise.
    pub(crate) fn rates(&self, source: &Source) -> Option<Rates> {
        let line = self.lines.get(source);
        match line.map(|line| &line.rose) {
            Some(Some(rose)) => {
                let over = |n| self.rate(rose, n);
                Some(Rates { last_1s: over(1), last_10s: over(10), last_60s: over(SECONDS) })
            }
            _ => (self.rising < DROP_RATES_MAX).then(Rates::default),
        }
    }

    /// Over the last `n` seconds.
    #[allow(clippy::cast_precision_loss)] // drops of a minute
    fn rate(&self, rose: &[u64; SECONDS], n: usize) -> f64 {
        let places = || (1..=n).map(|back| (self.next + SECONDS - back) % SECONDS);
        let seconds: f64 = places().map(|place| self.seconds[place]).sum();
        let drops: u64 = places().map(|place| rose[place]).sum();
        if seconds > 0.0 { drops as f64 / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REASON: DropReason = DropReason::TxFull;

    fn dropped(total: u64) -> PortTotals {
        let mut totals = PortTotals::default();
        totals.tx_drops[REASON.index()] = total;
        totals
    }

    fn rates(history: &History, port: usize) -> [f64; 3] {
        let rates = history.rates(&(port, Direction::Out, REASON)).expect("it is followed");
        [rates.last_1s, rates.last_10s, rates.last_60s]
    }

    #[test]
    fn rates_are_means_over_their_seconds() {
        let mut history = History::default();
        for second in 1..=30_u64 {
            history.tick(1.0, [(7, &dropped(second * 100))].into_iter());
        }
        assert_eq!(rates(&history, 7), [100.0; 3], "over what there was");
        for _ in 0..5 {
            history.tick(1.0, [(7, &dropped(3000))].into_iter());
        }
        let [now, ten, minute] = rates(&history, 7);
        assert_eq!((now, ten), (0.0, 50.0));
        assert!((minute - 3000.0 / 35.0).abs() < 1e-9, "{minute}");
        for _ in 0..60 {
            history.tick(2.0, [(7, &dropped(3000))].into_iter());
        }
        assert_eq!(rates(&history, 7), [0.0; 3]);
        assert_eq!(history.rising, 0, "what is still needs no seconds");
        history.tick(2.0, [(7, &dropped(3010))].into_iter());
        assert_eq!(rates(&history, 7)[0], 5.0, "a second of 2 s");
    }

    #[test]
    fn a_port_that_is_closed_is_forgotten_and_another_one_begins_anew() {
        let mut history = History::default();
        history.tick(1.0, [(1, &dropped(50)), (2, &dropped(9))].into_iter());
        history.tick(1.0, [(2, &dropped(10))].into_iter());
        assert_eq!(rates(&history, 1), [0.0; 3]);
        assert_eq!((rates(&history, 2)[0], history.lines.len()), (1.0, 1));
    }

    #[test]
    fn not_more_than_so_many_are_followed_and_the_others_say_so() {
        let mut history = History::default();
        let totals = dropped(1);
        history.tick(1.0, (0..DROP_RATES_MAX + 3).map(|port| (port, &totals)));
        let followed = |port| history.rates(&(port, Direction::Out, REASON)).is_some();
        assert_eq!((0..DROP_RATES_MAX + 3).filter(|port| followed(*port)).count(), DROP_RATES_MAX);
    }
}
