//! Shares of ports: what one port may have, what it loses, and that what is counted is there.

use super::super::ports::{Ports, SLOTS, Slot};
use crate::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

const NOW: u64 = 1000;

/// A tracker with ports 0 to `ports`, named `p0` and so on, each of one peer.
fn tracker(connections_max: usize, ports: u16) -> Tracker {
    let tracker = Tracker::new(Config { connections_max });
    (0..ports).for_each(|port| tracker.add_port(port, &format!("p{port}"), Share::One));
    tracker
}

/// A datagram of some number by a port.
fn datagram(port: u16, number: u16) -> Seen {
    let end = |addr: u128, port| End { addr, port };
    let tuple = Tuple { src: end(port.into(), number), dst: end(1 << 20, 53), protocol: 17, ..Tuple::default() };
    Seen { tuple, l4: L4::Udp, len: 60, port: Ingress::port(port) }
}

/// Its answer, which comes in by another port.
fn answer(to: &Seen) -> Seen {
    Seen { tuple: to.tuple.reversed(), port: Ingress::port(900), ..*to }
}

fn commit() -> Request {
    Request { commit: true, ..Request::default() }
}

/// Opens a connection, and answers it; says why not.
fn open(tracker: &Tracker, seen: &Seen, answered: bool) -> Result<(), Refusal> {
    if let Some(why) = tracker.track(seen, &commit(), 0, NOW).refusal {
        return Err(why);
    }
    if answered {
        let verdict = tracker.track(&answer(seen), &Request::default(), 0, NOW);
        assert_eq!(verdict.state, state::EST | state::RPL | state::TRK);
    }
    Ok(())
}

/// Opens so many; how many were not refused.
fn flood(tracker: &Tracker, port: u16, numbers: std::ops::Range<u16>, answered: bool) -> usize {
    numbers.filter(|number| open(tracker, &datagram(port, *number), answered).is_ok()).count()
}

fn count(tracker: &Tracker, name: &str) -> PortCount {
    tracker.port_counts().into_iter().find(|count| count.name == name).unwrap_or_default()
}

fn is_there(tracker: &Tracker, seen: &Seen) -> bool {
    tracker.connection(&seen.tuple, NOW).is_some()
}

#[test]
fn one_port_alone_has_three_quarters() {
    let tracker = tracker(1024, 2);
    assert_eq!(flood(&tracker, 0, 0..2000, true), 768);
    assert_eq!(open(&tracker, &datagram(0, 3000), true), Err(Refusal::PortFull));
    let hog = count(&tracker, "p0");
    assert_eq!((hog.connections, hog.unanswered, hog.limit, hog.peak), (768, 0, Some(768), 768));
    assert_eq!((hog.refused, tracker.counts().refused_port), (2001 - 768, 2001 - 768));
    assert_eq!(flood(&tracker, 1, 0..170, true), 110, "another port has six sevenths of what the pool has");
    assert!((0..768).all(|number| is_there(&tracker, &datagram(0, number))), "what was answered stays");
    assert_eq!(count(&tracker, "p0").evicted + tracker.counts().dropped_early, 0);
}

#[test]
fn many_peers_have_more_than_one() {
    let tracker = tracker(1024, 0);
    tracker.add_port(7, "uplink", Share::Many);
    assert_eq!(flood(&tracker, 7, 0..2000, true), 832);
    assert_eq!(count(&tracker, "uplink").limit, Some(832));
}

#[test]
fn a_port_at_its_limit_loses_its_own_oldest_unanswered() {
    let tracker = tracker(1024, 2);
    assert_eq!(flood(&tracker, 1, 0..100, false), 100);
    let opened = flood(&tracker, 0, 0..2000, false);
    assert!(opened > 1800, "nearly each of them comes in place of another one: {opened}");
    let (hog, other) = (count(&tracker, "p0"), count(&tracker, "p1"));
    assert_eq!(
        (hog.connections, hog.unanswered, hog.unanswered_limit),
        (398, 398, Some(398)),
        "half of the pool, 896, without 100"
    );
    assert_eq!((hog.evicted, hog.refused), (opened as u64 - 398, 2000 - opened as u64));
    assert_eq!((other.connections, other.evicted), (100, 0));
    assert!((0..100).all(|number| is_there(&tracker, &datagram(1, number))), "another port's stay");
    assert_eq!(flood(&tracker, 1, 100..200, true), 100);
}

#[test]
fn however_many_ports_fill_the_table_another_one_has_room() {
    let tracker = tracker(4096, 41);
    for port in 0..40 {
        assert!(flood(&tracker, port, 0..4096, true) >= 12, "its part of the reserve: 512 / 41");
    }
    assert_eq!(flood(&tracker, 40, 0..4096, true), 12);
    assert_eq!(tracker.counts().refused_full, 0);
}

#[test]
fn a_guarantee_is_no_place() {
    let tracker = tracker(16, 1);
    let nobody = |number| Seen { port: Ingress::NONE, ..datagram(0, number) };
    assert!((0..16).all(|number| open(&tracker, &nobody(number), true).is_ok()));
    assert_eq!(open(&tracker, &datagram(0, 20), true), Err(Refusal::Full));
    assert_eq!(count(&tracker, "p0").connections, 0);
}

#[test]
fn what_nobody_looked_for_waits_for_the_search() {
    let tracker = tracker(64, 1);
    let unsought = |number| tracker.open_unsought(&datagram(0, number), &commit(), 0, NOW);
    assert_eq!((0..64).filter(|number| unsought(*number)).count(), 28, "half of the pool");
    assert_eq!((count(&tracker, "p0").refused, count(&tracker, "p0").evicted), (0, 0), "nothing has happened");
    assert_eq!(open(&tracker, &datagram(0, 99), false), Ok(()));
    assert_eq!(count(&tracker, "p0").evicted, 1);
}

#[test]
fn connections_of_no_port_have_no_share() {
    let tracker = tracker(64, 1);
    let nobody = |number| Seen { port: Ingress::NONE, ..datagram(0, number) };
    assert!((0..64).all(|number| open(&tracker, &nobody(number), true).is_ok()));
    let none = count(&tracker, "");
    assert_eq!((none.connections, none.limit, none.number), (64, None, None));
    assert_eq!(open(&tracker, &nobody(64), true), Err(Refusal::Full));
    assert_eq!(Ingress::port(u16::MAX), Ingress::NONE);
}

#[test]
fn a_port_may_have_all_where_nothing_is_shared_out() {
    let tracker = tracker(64, 2);
    tracker.share_among_ports(false);
    tracker.add_port(2, "later", Share::One);
    assert_eq!(flood(&tracker, 0, 0..64, true), 64);
    let hog = count(&tracker, "p0");
    assert_eq!((hog.connections, hog.limit, hog.unanswered_limit), (64, None, None));
    assert_eq!(open(&tracker, &datagram(1, 0), true), Err(Refusal::Full));
    tracker.share_among_ports(true);
    assert_eq!(open(&tracker, &datagram(0, 70), true), Err(Refusal::PortFull));
}

#[test]
fn a_number_that_is_given_again_begins_with_nothing() {
    let tracker = tracker(64, 1);
    assert_eq!(flood(&tracker, 0, 0..5, true), 5);
    tracker.remove_port(0);
    tracker.add_port(0, "next", Share::One);
    assert_eq!(count(&tracker, "next").connections, 0);
    let gone = count(&tracker, "p0");
    assert_eq!((gone.connections, gone.number), (5, None));
    assert_eq!(flood(&tracker, 0, 10..13, true), 3);
    assert_eq!((count(&tracker, "next").connections, count(&tracker, "p0").connections), (3, 5));
    tracker.add_port(1, "p0", Share::One);
    assert_eq!((count(&tracker, "p0").connections, count(&tracker, "p0").number), (5, Some(1)), "by its name");
    tracker.flush(&Filter::default(), NOW);
    assert!(tracker.port_counts().iter().all(|count| count.connections == 0 && count.unanswered == 0));
    tracker.remove_port(1);
    assert_eq!(count(&tracker, "p0"), PortCount::default(), "forgotten with its last connection");
}

#[test]
fn slots_that_are_all_taken_leave_none() {
    let ports = Ports::new(64);
    for slot in 1..SLOTS {
        let name = ports.named(&format!("gone{slot}"));
        assert_eq!(usize::from(name.0), slot);
        ports.enter_anyway(name, true);
    }
    ports.add(3, "late", Share::One);
    assert_eq!(ports.slot(Ingress::port(3)), Slot::NONE);
    ports.leave(Slot(7), 1, 1);
    ports.add(3, "late", Share::One);
    assert_eq!(ports.slot(Ingress::port(3)), Slot(7));
}

#[test]
fn a_file_gives_connections_back_to_ports_of_their_names() {
    let before = tracker(256, 3);
    flood(&before, 0, 0..20, true);
    flood(&before, 0, 20..27, false);
    flood(&before, 2, 0..3, true);
    flood(&before, 50, 0..4, true);
    let mut file = Vec::new();
    before.save(NOW, 1, &mut file).unwrap();
    let after = Tracker::new(Config { connections_max: 256 });
    after.add_port(9, "p0", Share::One);
    assert_eq!(after.restore(NOW, 1, &file[..]).unwrap().connections, 34);
    let [p0, p2, none] = ["p0", "p2", ""].map(|name| count(&after, name));
    assert_eq!((p0.connections, p0.unanswered, p0.number), (27, 7, Some(9)), "a port that is there");
    assert_eq!((p2.connections, p2.unanswered, p2.number), (3, 0, None), "one that may come");
    assert_eq!(none.connections, 4, "of no port");
    after.add_port(4, "p2", Share::One);
    assert_eq!((count(&after, "p2").connections, count(&after, "p2").number), (3, Some(4)));
    after.flush(&Filter::default(), NOW);
    assert!(after.port_counts().iter().all(|count| count.connections == 0 && count.unanswered == 0));
}

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
                self.tracker.save(self.now, 1, &mut file).expect("memory");
                let tracker = Tracker::new(Config { connections_max: Self::PLACES });
                tracker.restore(self.now, 1, &file[..]).expect("what was written");
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
