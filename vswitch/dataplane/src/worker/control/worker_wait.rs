//! How the control side waits for a worker, and when it complains.

use std::time::{Duration, Instant};

/// After this long without a quiescent point a worker is named in the log.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// Turns for which whoever waits spins: most bursts end within them.
const SPINS: u32 = 64;

/// Between two looks, after that.
const NAP: Duration = Duration::from_micros(20);

/// One wait for all workers.
#[derive(Debug)]
pub(in crate::worker) struct WorkerWait<'a> {
    /// By worker.
    cores: &'a [u32],
    /// Since when it has waited for the present one.
    since: Instant,
    complained: bool,
}

impl<'a> WorkerWait<'a> {
    pub(in crate::worker) fn new(cores: &'a [u32]) -> Self {
        Self { cores, since: Instant::now(), complained: false }
    }

    /// The worker is still behind; see [`vswitch_quiescence::Quiescence::wait`].
    pub(in crate::worker) fn pause(&mut self, worker: usize, turn: u32) {
        if turn == 0 {
            (self.since, self.complained) = (Instant::now(), false);
        }
        if turn < SPINS {
            std::hint::spin_loop();
            return;
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
}
