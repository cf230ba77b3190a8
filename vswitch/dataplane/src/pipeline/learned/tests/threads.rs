//! Many threads.

use super::*;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

/// A decision remembers the epoch that it began in, and moves on to a later one as long as no table
/// that it used has changed since. Once a learn that it has not seen is done, it must know that it
/// is stale.
#[test]
fn an_epoch_never_hides_a_change() {
    let changes = Arc::new(Changes::default());
    let learned = Learned::new(Arc::clone(&changes));
    let (stop, done, stale) = (AtomicBool::new(false), AtomicU64::new(0), [const { AtomicU64::new(0) }; 2]);
    let table = |f: &dyn Fn(&LearnedTable) -> u64| learned.tables().get(1).and_then(Option::as_ref).map_or(0, |t| f(t));
    let len = || table(&|table| table.rules.len() as u64);
    let epoch_of_table = || table(&|table| table.epoch);
    let decide = || {
        let (mut epoch, seen) = (changes.epoch(), len());
        while !stop.load(SeqCst) {
            let missed = done.load(SeqCst) > seen;
            let now = changes.epoch();
            let fresh = now == epoch || epoch_of_table() <= epoch;
            assert!(
                !missed || !fresh,
                "a decision that saw {seen} flows, good until {epoch}, is held for good at {now}"
            );
            if !fresh {
                return true;
            }
            epoch = now;
        }
        false
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(SeqCst) {
                changes.advance();
            }
        });
        for stale in &stale {
            scope.spawn(|| {
                while decide() {
                    stale.fetch_add(1, SeqCst);
                }
            });
        }
        let mut from = 0;
        while stale.iter().any(|stale| stale.load(SeqCst) < 100) && from < 5000 {
            learned.learn(&learn(), &packet(from), Millis(0), None);
            from += 1;
            assert_eq!(len(), u64::from(from), "effective at once");
            done.store(u64::from(from), SeqCst);
            std::thread::yield_now();
        }
        stop.store(true, SeqCst);
    });
    assert!(stale.iter().all(|stale| stale.load(SeqCst) > 0), "{stale:?}");
}

/// Workers learn by the program that they have, as long as it tells them to; the control side takes
/// the learn out and puts it back. When the workers have adopted a program without it, nothing
/// learned is left, ever.
#[test]
fn nothing_is_left_of_a_learn_that_went() {
    const WORKERS: usize = 3;
    let last = Learn { delete_learned: true, ..learn() };
    let learner = FlowSpec { table: 0, ..flow(1, 1, 1, &[last_learn(&last)]) };
    let mut bench = Bench::new();
    let published = ArcSwap::new(bench.state.program());
    let seen: Vec<AtomicU64> = (0..WORKERS).map(|_| AtomicU64::new(0)).collect();
    let (version, stop, learned) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (published, seen, version, stop, last) = (&published, &seen, &version, &stop, &last);
            let learned = &learned;
            scope.spawn(move || {
                let mut from = 0;
                while !stop.load(SeqCst) {
                    let number = version.load(SeqCst);
                    let program = published.load_full();
                    seen[worker].store(number, SeqCst);
                    std::thread::yield_now();
                    for _ in 0..8 {
                        let told = program.table(0).is_some_and(|table| !table.rules.is_empty());
                        if told && program.learned.learn(last, &packet(from % 50), Millis(0), None) {
                            learned.fetch_add(1, SeqCst);
                        }
                        from += 1;
                    }
                }
            });
        }
        let publish = |bench: &mut Bench, update: Update| {
            bench.apply(&[update]);
            published.store(bench.state.program());
            let number = version.fetch_add(1, SeqCst) + 1;
            while seen.iter().any(|seen| seen.load(SeqCst) < number) {
                std::thread::yield_now();
            }
            bench.state.adopted();
        };
        for round in 0..50 {
            publish(&mut bench, Update::AddFlow(learner.clone()));
            let before = learned.load(SeqCst);
            while learned.load(SeqCst) < before + 20 {
                std::thread::yield_now();
            }
            publish(&mut bench, Update::DeleteFlows(FlowFilter { table: Some(0), ..FlowFilter::default() }));
            assert_eq!(bench.flows(), [""; 0], "round {round}");
        }
        stop.store(true, SeqCst);
    });
}
