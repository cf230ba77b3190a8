//! What is counted of ports is there, whatever opens and ends connections.

use super::shares::{NOW, answer, commit, count, datagram, tracker};
use crate::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

/// What happens to a table.
#[derive(Clone, Debug)]
enum Step {
    Open {
        port: u16,
        number: u16,
        worker: usize,
        unsought: bool,
    },
    Answer {
        port: u16,
        number: u16,
    },
    /// An answer that begins a connection of its own.
    Replace {
        port: u16,
        number: u16,
    },
    Forget {
        port: u16,
        number: u16,
    },
    Wait(u64),
    Sweep,
    Flush(u16),
    /// A port goes, and comes back by this name.
    Rename {
        port: u16,
        name: u8,
    },
    /// All of it is written, and read by the next process.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = || (0..4_u16, 0..60_u16);
    let step = prop_oneof![
        40 => (one(), 0..5_usize, any::<bool>())
            .prop_map(|((port, number), worker, unsought)| Step::Open { port, number, worker, unsought }),
        20 => one().prop_map(|(port, number)| Step::Answer { port, number }),
        3 => one().prop_map(|(port, number)| Step::Replace { port, number }),
        3 => one().prop_map(|(port, number)| Step::Forget { port, number }),
        3 => (1_u64..40_000).prop_map(Step::Wait),
        3 => Just(Step::Sweep),
        1 => (0..60_u16).prop_map(Step::Flush),
        1 => (0..4_u16, 0..6_u8).prop_map(|(port, name)| Step::Rename { port, name }),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..400)
}

/// The tracker, and which port opened what, told by whoever opened it.
struct Bench {
    tracker: Tracker,
    now: u64,
    names: [String; 4],
    openers: HashMap<Tuple, String>,
}

impl Bench {
    const PLACES: usize = 96;

    fn new() -> Self {
        let names = std::array::from_fn(|port| format!("p{port}"));
        Self { tracker: tracker(Self::PLACES, 4), now: NOW, names, openers: HashMap::new() }
    }

    fn track(&mut self, seen: &Seen, request: &Request, worker: usize) -> TrackVerdict {
        let verdict = self.tracker.track(seen, request, worker, self.now);
        if verdict.opened {
            self.opened(seen);
        }
        verdict
    }

    fn opened(&mut self, seen: &Seen) {
        let name = (0..4).find(|port| Ingress::port(*port) == seen.port);
        let name = name.map_or_else(String::new, |port| self.names[usize::from(port)].clone());
        self.openers.insert(seen.tuple, name);
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Open { port, number, worker, unsought } => {
                let seen = datagram(port, number);
                if !unsought {
                    self.track(&seen, &commit(), worker);
                } else if self.tracker.open_unsought(&seen, &commit(), worker, self.now) {
                    self.opened(&seen);
                }
            }
            Step::Answer { port, number } => {
                self.track(&answer(&datagram(port, number)), &Request::default(), 0);
            }
            Step::Replace { port, number } => {
                self.track(&answer(&datagram(port, number)), &Request { force: true, ..commit() }, 1);
            }
            Step::Forget { port, number } => {
                if let Some(handle) = self.track(&datagram(port, number), &commit(), 2).fresh {
                    self.tracker.forget(handle, self.now);
                }
            }
            Step::Wait(ms) => self.now += ms,
            Step::Sweep => {
                self.tracker.expire(self.now);
            }
            Step::Flush(number) => {
                self.tracker.flush(&Filter { src_port: Some(number), ..Filter::default() }, self.now);
            }
            Step::Rename { port, name } => {
                let name = format!("p{name}");
                if !self.names.contains(&name) {
                    self.tracker.remove_port(port);
                    self.tracker.add_port(port, &name, Share::One);
                    self.names[usize::from(port)] = name;
                }
            }
            Step::Restart => {
                let mut file = Vec::new();
                self.tracker.save(self.now, &Moment::default(), &mut file).expect("memory");
                let tracker = Tracker::new(Config { connections_max: Self::PLACES });
                tracker.restore(self.now, &Moment::default(), &file[..]).expect("what was written");
                for (port, name) in (0..).zip(&self.names) {
                    tracker.add_port(port, name, Share::One);
                }
                self.tracker = tracker;
            }
        }
    }

    /// Connections by port, all of them and unanswered ones: of those that are there, once what has
    /// expired has gone.
    fn there(&self) -> BTreeMap<String, [u32; 2]> {
        self.tracker.expire(self.now);
        let mut there = BTreeMap::new();
        self.tracker.dump(&Filter::default(), self.now, |connection| {
            let name = self.openers[&connection.original].clone();
            let [all, unanswered]: &mut [u32; 2] = there.entry(name).or_default();
            *all += 1;
            *unanswered += u32::from(!connection.replied);
            ControlFlow::Continue(())
        });
        there
    }

    fn told(&self) -> BTreeMap<String, [u32; 2]> {
        let counts = self.tracker.port_counts().into_iter();
        let held = counts.filter(|count| count.connections > 0 || count.unanswered > 0);
        held.map(|count| (count.name, [count.connections, count.unanswered])).collect()
    }
}

proptest! {
    /// What is counted for each port is there, whatever opens and ends connections.
    #[test]
    fn counts_of_ports_are_those_of_their_connections(steps in steps()) {
        let mut bench = Bench::new();
        for step in &steps {
            bench.step(step);
            let there = bench.there();
            prop_assert_eq!(bench.told(), there, "after {:?}", step);
        }
    }
}

/// Workers open, answer and end connections of the same ports at once: none is counted twice.
#[test]
fn counts_are_right_when_workers_race() {
    let tracker = &tracker(2048, 4);
    std::thread::scope(|scope| {
        for worker in 0..4_u16 {
            scope.spawn(move || {
                for i in 0..20_000_u16 {
                    let seen = datagram(i % 4, i % 700);
                    tracker.track(&seen, &commit(), worker.into(), NOW);
                    if i % 3 == 0 {
                        tracker.track(&answer(&seen), &Request::default(), worker.into(), NOW);
                    }
                    if i % 2000 == 7 {
                        let some = Filter { src_port: Some(i % 700), ..Filter::default() };
                        tracker.flush(&some, NOW);
                    }
                }
            });
        }
    });
    let counts = tracker.port_counts();
    let mut there = [[0; 2]; 4];
    tracker.dump(&Filter::default(), NOW, |connection| {
        let [all, unanswered]: &mut [u32; 2] = &mut there[usize::try_from(connection.original.src.addr & 3).unwrap()];
        *all += 1;
        *unanswered += u32::from(!connection.replied);
        ControlFlow::Continue(())
    });
    for (port, there) in there.iter().enumerate() {
        let count = count(tracker, &format!("p{port}"));
        assert_eq!([count.connections, count.unanswered], *there, "port {port}: {counts:?}");
    }
}
