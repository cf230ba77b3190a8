//! Every interleaving of workers and of those who publish, as far as three preemptions lead, and
//! every value that a load may then return: loom explores them on the real code.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --target-dir target/loom --profile fast -p vswitch-quiescence
//! --test models`, or `tools/test`, runs them; without `--cfg loom` there are none.
#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_models::{AtomicU64, explore, skip_branch, thread};
use vswitch_quiescence::{Published, Quiescence};

/// What a published state leads to, and what is closed when nobody uses it any more. All of it is
/// relaxed: nothing here orders what the code under test does not order.
#[derive(Debug)]
struct Device {
    closed: AtomicU64,
    /// By worker.
    busy: [AtomicU64; 2],
}

impl Device {
    fn new() -> Arc<Self> {
        Arc::new(Self { closed: AtomicU64::new(0), busy: [AtomicU64::new(0), AtomicU64::new(0)] })
    }

    /// A burst.
    fn used(&self, worker: usize) {
        self.busy[worker].store(1, Relaxed);
        assert!(self.closed.load(Relaxed) == 0, "worker {worker} uses what is closed");
        self.busy[worker].store(0, Relaxed);
    }

    fn close(&self) {
        for (worker, busy) in self.busy.iter().enumerate() {
            assert!(busy.load(Relaxed) == 0, "closed under the hands of worker {worker}");
        }
        self.closed.store(1, Relaxed);
    }
}

type Devices = Published<Arc<Device>>;

/// A worker, as `Poll` in the worker's room is one.
struct Worker {
    id: usize,
    version: u64,
    device: Arc<Device>,
    devices: Arc<Devices>,
}

impl Worker {
    /// Goes online, before the model begins.
    fn start(id: usize, devices: &Arc<Devices>) -> Self {
        devices.quiescence.online(id);
        Self { id, version: 0, device: Device::new(), devices: Arc::clone(devices) }
    }

    /// One turn of its loop: a quiescent point, and a burst.
    fn turn(&mut self) {
        let epoch = self.devices.quiescence.epoch();
        if let Some(device) = self.devices.newer(&mut self.version) {
            self.device = Arc::clone(&device);
        }
        self.devices.quiescence.quiescent(self.id, epoch);
        self.device.used(self.id);
    }

    fn sleep(&self) {
        self.devices.quiescence.offline(self.id);
    }

    fn wake(&self) {
        self.devices.quiescence.online(self.id);
    }
}

/// Publishes another device and closes the one before.
fn replace(devices: &Devices) {
    devices.publish(Device::new(), |_, _| thread::yield_now()).close();
}

/// Like [`replace`], for two at once, whom loom would let wait for each other for ever. Looking
/// once more than needed changes nothing: from there on one way is enough.
fn replace_with_others(devices: &Devices) {
    let pause = |_, _| {
        skip_branch();
        thread::yield_now();
    };
    devices.publish(Device::new(), pause).close();
}

fn devices(workers: usize) -> Arc<Devices> {
    Arc::new(Published::new(workers, Device::new()))
}

/// Fails when `epoch` or the load in `wait` is no Acquire, `quiescent`, `offline` or the raising in
/// `wait` no Release; when a worker loads the epoch behind the look at what is published; when the
/// number is raised before the state is there; when nobody waits, or for the epoch before.
#[test]
fn a_busy_worker_is_waited_for() {
    explore(3, || {
        let devices = devices(1);
        let mut worker = Worker::start(0, &devices);
        worker.turn();
        let working = thread::spawn(move || {
            worker.turn();
            worker.turn();
            worker.sleep();
        });
        replace(&devices);
        working.join().expect("the worker's assertions hold");
    });
}

/// Fails when the fence in `online` or the one in `wait` is missing.
#[test]
fn a_worker_that_sleeps_and_wakes_uses_nothing_old() {
    explore(3, || {
        let devices = devices(1);
        let mut worker = Worker::start(0, &devices);
        worker.turn();
        let working = thread::spawn(move || {
            worker.sleep();
            worker.wake();
            worker.turn();
            worker.sleep();
        });
        replace(&devices);
        working.join().expect("the worker's assertions hold");
    });
}

/// Fails when the store in `online` or the one in `offline` is no Release.
#[test]
fn what_a_worker_did_before_it_slept_is_over_when_it_is_seen_awake() {
    explore(3, || {
        let devices = devices(1);
        let mut worker = Worker::start(0, &devices);
        let working = thread::spawn(move || {
            worker.turn();
            worker.sleep();
            worker.wake();
            worker.sleep();
        });
        replace(&devices);
        working.join().expect("the worker's assertions hold");
    });
}

/// Fails when the second one is not looked at.
#[test]
fn both_of_two_workers_are_waited_for() {
    explore(2, || {
        let devices = devices(2);
        let working: Vec<_> = (0..2)
            .map(|id| {
                let mut worker = Worker::start(id, &devices);
                worker.turn();
                thread::spawn(move || {
                    worker.device.used(id);
                    worker.turn();
                    worker.sleep();
                })
            })
            .collect();
        replace(&devices);
        working.into_iter().for_each(|worker| worker.join().expect("the worker's assertions hold"));
    });
}

/// Fails when the raising in `wait` is no Release: who has seen the later epoch must know of both.
#[test]
fn two_who_publish_at_once_close_what_each_replaced() {
    explore(3, || {
        let devices = devices(1);
        let mut worker = Worker::start(0, &devices);
        worker.turn();
        let working = thread::spawn(move || {
            worker.turn();
            worker.sleep();
        });
        let other = Arc::clone(&devices);
        let publishing = thread::spawn(move || replace_with_others(&other));
        replace_with_others(&devices);
        publishing.join().expect("the worker's assertions hold");
        working.join().expect("the worker's assertions hold");
    });
}

/// Nobody pauses for a worker that sleeps through it; that one is still asleep when the other,
/// which is busy, has been waited for. Fails when OFFLINE is smaller than an epoch.
#[test]
fn nobody_waits_for_a_worker_that_sleeps() {
    explore(3, || {
        let quiescence = Arc::new(Quiescence::new(2));
        quiescence.online(0);
        quiescence.offline(0);
        quiescence.online(1);
        let working = {
            let quiescence = Arc::clone(&quiescence);
            thread::spawn(move || quiescence.quiescent(1, quiescence.epoch()))
        };
        let waiting = {
            let quiescence = Arc::clone(&quiescence);
            // Returns although no worker ever calls again: at worst when this one goes to sleep.
            thread::spawn(move || {
                quiescence.wait(|worker, _| {
                    assert_eq!(worker, 1, "the one that sleeps");
                    thread::yield_now();
                });
            })
        };
        working.join().expect("it has no assertions");
        quiescence.offline(1);
        waiting.join().expect("nobody waits for the worker that sleeps");
    });
}

/// A worker that holds the number of a state holds that state or a newer one: it is told of none
/// too few. Fails when the number is raised before the state is there, or looked at behind it.
#[test]
fn nobody_misses_a_state() {
    explore(3, || {
        let published = Arc::new(Published::new(1, 1_u64));
        let working = {
            let published = Arc::clone(&published);
            thread::spawn(move || {
                let (mut version, mut held) = (0, 0);
                for _ in 0..2 {
                    if let Some(state) = published.newer(&mut version) {
                        assert!(*state >= held, "{held} is newer than {state}");
                        held = *state;
                    }
                    assert!(held >= version, "number {version} with state {held}");
                }
                (version, held)
            })
        };
        published.publish(2, |_, _| unreachable!("no worker is online"));
        let (mut version, mut held) = working.join().expect("the worker's assertions hold");
        if let Some(state) = published.newer(&mut version) {
            held = *state;
        }
        assert_eq!((version, held), (2, 2), "the last state");
    });
}
