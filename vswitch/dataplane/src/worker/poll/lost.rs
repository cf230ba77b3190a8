//! A worker that panics, and what becomes of its thread.
//!
//! **Where in the walk**: at its unplanned end. The panic hook of the process calls [`lose`] on the
//! thread that panics.
//!
//! **Design**: the build aborts on a panic, since unwinding costs 4 % of each packet. The hook runs
//! before the abort, and [`lose`] does not return on a worker's thread. So nothing is unwound: the
//! thread keeps its receive queues, its snapshot and the locks that it holds. What it was changing
//! under a lock is never seen half changed. The worker leaves its section of the connection
//! table and is offline, so that no change waits for it. The control side sees the loss
//! ([`Publisher::losses`]), takes the ports of its queues down, and goes on, or stops the switch.
//!
//! **Limits**: others may wait for a lock that the thread holds. Therefore the thread stays as a
//! guard: every [`LOOK`] it asks whether the others still move, and ends the process if they do
//! not.
//!
//! **Threads**: [`lose`] is for the thread that panics.

use crate::worker::Publisher;
use crate::worker::control::losses::Loss;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use vswitch_dpdk::lcore;

/// Between two looks of the guard.
const LOOK: Duration = Duration::from_millis(100);

/// The worker that this thread is.
struct Here {
    worker: usize,
    publisher: Arc<Publisher>,
}

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// This thread is the worker from here on.
pub(super) fn begin(worker: usize, publisher: &Arc<Publisher>) {
    HERE.set(Some(Here { worker, publisher: Arc::clone(publisher) }));
}

/// This thread is no worker any more.
pub(super) fn end() {
    HERE.set(None);
}

/// For the panic hook: the calling thread panics. Returns at once if it is no worker. Otherwise it
/// returns when the switch does not move without it, with the reason: the process is to end then.
#[must_use]
pub fn lose(reason: &str) -> Option<String> {
    let Here { worker, publisher } = HERE.take()?;
    publisher.conntrack.tracker().leave_for(worker);
    let loss = Loss { reason: reason.to_owned(), in_library: lcore::is_in_library() };
    publisher.losses.note(worker, loss);
    publisher.inboxes[worker].leave();
    publisher.quiescence().offline(worker);
    loop {
        std::thread::sleep(LOOK);
        if let Some(trouble) = publisher.losses.trouble() {
            return Some(trouble);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conntrack::Conntrack;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    fn publisher(workers: &[u32]) -> Arc<Publisher> {
        let conntrack = Arc::new(Conntrack::new(vswitch_conntrack::Config { connections_max: 1 }));
        Arc::new(Publisher::new(workers, conntrack))
    }

    #[test]
    fn a_thread_that_is_no_worker_goes_on() {
        assert_eq!(lose("a reader"), None);
        begin(0, &publisher(&[1]));
        end();
        assert_eq!(lose("it was one before"), None);
    }

    /// The lost worker is waited for no more, in a section or not, and guards the others.
    #[test]
    fn a_lost_worker_keeps_nobody_waiting_and_guards() {
        let publisher = publisher(&[1, 2]);
        let blocked = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&blocked);
        publisher.losses.guard_by(Box::new(move || told.load(Relaxed).then(|| "worker-2 waits".to_owned())));
        std::thread::scope(|scope| {
            let lost = scope.spawn(|| {
                publisher.quiescence().online(0);
                begin(0, &publisher);
                lcore::set_in_library(true);
                lose("index out of bounds")
            });
            while publisher.losses.of(0).is_none() {
                std::thread::yield_now();
            }
            publisher.wait();
            assert!(!publisher.losses.are_total() && !lost.is_finished());
            let loss = Loss { reason: "index out of bounds".to_owned(), in_library: true };
            assert_eq!(publisher.losses.all().collect::<Vec<_>>(), [(0, &loss)]);
            blocked.store(true, Relaxed);
            assert_eq!(lost.join().expect("no panic"), Some("worker-2 waits".to_owned()));
        });
    }
}
