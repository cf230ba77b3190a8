//! How the control side waits for a worker, and when it complains.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// After this long without a quiescent point a worker is named in the log.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// Turns for which whoever waits spins: most bursts end within them.
const SPINS: u32 = 64;

/// Between two looks, after that.
const NAP: Duration = Duration::from_micros(20);

/// How long a wait goes on when the switch stops: many bursts.
const HURRIED: Duration = Duration::from_millis(250);

/// One wait for all workers.
#[derive(Debug)]
pub(in crate::worker) struct WorkerWait<'a> {
    /// By worker.
    cores: &'a [u32],
    began: Instant,
    /// Since when it has waited for the present one.
    since: Instant,
    complained: bool,
    /// When it is given up; none: never.
    until: Option<Instant>,
    /// It is to be given up soon.
    hurry: Option<&'a AtomicBool>,
}

impl<'a> WorkerWait<'a> {
    /// As long as it takes.
    pub(in crate::worker) fn new(cores: &'a [u32]) -> Self {
        let now = Instant::now();
        Self { cores, began: now, since: now, complained: false, until: None, hurry: None }
    }

    /// For so long at most, and for [`HURRIED`] when `hurry` says so.
    pub(in crate::worker) fn at_most(self, patience: Duration, hurry: Option<&'a AtomicBool>) -> Self {
        Self { until: Some(self.began + patience), hurry, ..self }
    }

    /// Since when it is waited.
    pub(in crate::worker) const fn began(&self) -> Instant {
        self.began
    }

    /// The worker is still behind; see [`vswitch_quiescence::Quiescence::wait_while`].
    pub(in crate::worker) fn pause(&mut self, worker: usize, turn: u32) -> bool {
        if turn == 0 {
            (self.since, self.complained) = (Instant::now(), false);
        }
        if turn < SPINS {
            std::hint::spin_loop();
            return true;
        }
        std::thread::sleep(NAP);
        if !self.complained && self.since.elapsed() > STUCK_AFTER {
            self.complained = true;
            let core = self.cores[worker];
            tracing::error!(
                worker,
                core,
                "worker-{core} has had no quiescent point for 1 s: is its core taken away or a burst stuck?"
            );
        }
        if self.hurry.is_some_and(|hurry| hurry.load(Relaxed)) {
            self.hurry = None;
            let soon = Instant::now() + HURRIED;
            self.until = self.until.map(|until| until.min(soon));
        }
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

#[cfg(test)]
mod tests {
    use crate::conntrack::Conntrack;
    use crate::worker::Publisher;
    use parking_lot::Mutex;
    use std::io;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    /// What is logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<String>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().push_str(&String::from_utf8_lossy(bytes));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_worker_that_keeps_everybody_waiting_is_named() {
        let conntrack = Arc::new(Conntrack::new(vswitch_conntrack::Config { connections_max: 1 }));
        let publisher = Publisher::new(&[3, 5], conntrack);
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        publisher.quiescence().online(1);
        std::thread::scope(|scope| {
            scope.spawn(|| tracing::subscriber::with_default(subscriber, || publisher.wait()));
            let begin = Instant::now();
            while log.0.lock().is_empty() && begin.elapsed() < Duration::from_secs(30) {
                std::thread::sleep(Duration::from_millis(1));
            }
            publisher.quiescence().offline(1);
        });
        let text = log.0.lock().clone();
        assert!(text.contains("worker-5 has had no quiescent point for 1 s"), "{text:?}");
        assert!(text.contains("worker=1 core=5"), "{text:?}");
        assert_eq!(text.lines().count(), 1, "{text:?}");
    }

    /// What a snapshot owns goes when the worker has left it, and not before, however long that
    /// takes. Nobody waits for that.
    #[test]
    fn a_wait_that_is_given_up_goes_on_without_the_writer() {
        let conntrack = Arc::new(Conntrack::new(vswitch_conntrack::Config { connections_max: 1 }));
        let publisher = Publisher::new(&[3, 5], conntrack);
        publisher.quiescence().online(1);
        let snapshot = |number| {
            let world = Arc::new(crate::pipeline::World { number, ..Default::default() });
            (Arc::downgrade(&world), crate::worker::Snapshot { world, rxqs: vec![Vec::new(); 2], ..Default::default() })
        };
        let (first, published) = snapshot(1);
        let stuck = publisher.publish(published, Duration::ZERO).expect_err("worker 1 has not moved");
        assert_eq!((stuck.worker, stuck.core), (1, 5));
        assert!(stuck.to_string().starts_with("worker-5 has not moved for "), "{stuck}");
        let (_, published) = snapshot(2);
        publisher.publish(published, Duration::ZERO).expect_err("worker 1 has not moved");
        assert!(first.upgrade().is_some(), "the worker may be in the first world");
        assert_eq!(publisher.settle().expect_err("it has not moved").since, stuck.since, "since the first one");
        publisher.quiescence().quiescent(1, publisher.quiescence().epoch());
        assert_eq!(publisher.settle(), Ok(()));
        assert!(first.upgrade().is_none(), "nobody uses it, and somebody keeps it");
    }

    /// A wait of an hour ends when the switch stops.
    #[test]
    fn waits_are_short_when_the_switch_stops() {
        let conntrack = Arc::new(Conntrack::new(vswitch_conntrack::Config { connections_max: 1 }));
        let publisher = Publisher::new(&[5], conntrack);
        publisher.quiescence().online(0);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| publisher.wait_at_most(Duration::from_secs(3600)));
            publisher.hurry();
            assert_eq!(waiting.join().expect("no panic").expect_err("it is stuck").core, 5);
        });
    }
}
