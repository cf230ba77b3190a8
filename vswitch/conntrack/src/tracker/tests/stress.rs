//! Many workers at once, and many connections.

use super::talk::{Talk, request, seen};
use crate::{Config, End, Family, Filter, L4, Request, Seen, TrackVerdict, Tracker, Tuple, state};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// What must hold when nobody is at work.
fn check(tracker: &Tracker, now: u64) {
    tracker_swept(tracker, now);
    let (mut tuples, mut connections) = (HashSet::new(), Vec::new());
    tracker.dump(&Filter::default(), now, |connection| {
        connections.push(*connection);
        ControlFlow::Continue(())
    });
    for connection in &connections {
        assert!(tuples.insert(connection.original), "two connections have {:?}", connection.original);
        if connection.reply != connection.original {
            assert!(tuples.insert(connection.reply), "two connections have {:?}", connection.reply);
        }
    }
    assert_eq!(tracker.index.len(), tuples.len(), "words of the index");
    assert_eq!(tracker.arena.free() + connections.len(), tracker.arena.places().len(), "places");
    let v6 = connections.iter().filter(|connection| connection.original.family == Family::V6).count();
    assert_eq!(tracker.arena.v6_addrs(), v6, "lines with addresses of IPv6");
    assert_eq!(tracker.counts().connections, connections.len() as u64, "connections counted");
    for zone in tracker.limits().1 {
        let those = connections.iter().filter(|connection| connection.original.zone == zone.zone).count();
        assert_eq!(zone.count as usize, those, "connections of zone {}", zone.zone);
    }
}

fn tracker_swept(tracker: &Tracker, now: u64) {
    for _ in 0..130 {
        tracker.expire(now);
    }
}

/// The packet as it goes on.
fn rewritten(seen: &Seen, verdict: &TrackVerdict) -> Tuple {
    let rewrite = &verdict.rewrite;
    Tuple { src: rewrite.src.unwrap_or(seen.tuple.src), dst: rewrite.dst.unwrap_or(seen.tuple.dst), ..seen.tuple }
}

#[test]
fn who_opens_the_same_connection_at_once_gets_the_same_one() {
    const WORKERS: usize = 4;
    const ROUNDS: u64 = 1500;
    let tracker = Tracker::new(Config { connections_max: 1 << 14 });
    let barrier = Barrier::new(WORKERS);
    let outcomes: Vec<AtomicU64> = (0..WORKERS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (tracker, barrier, outcomes) = (&tracker, &barrier, &outcomes);
            scope.spawn(move || {
                let nat = request("commit src=700:5000-9999");
                for round in 0..ROUNDS {
                    let seen = seen(&format!("udp {}:{}>2:53", 10 + round % 7, 1024 + round));
                    barrier.wait();
                    let verdict = tracker.track(&seen, &nat, worker, 5);
                    assert_eq!(verdict.refusal, None, "worker {worker}, round {round}");
                    outcomes[worker].store(u64::from(rewritten(&seen, &verdict).src.port), Relaxed);
                    barrier.wait();
                    for other in outcomes {
                        assert_eq!(outcomes[worker].load(Relaxed), other.load(Relaxed), "ports in round {round}");
                    }
                }
            });
        }
    });
    assert_eq!(tracker.counts().created, ROUNDS);
    check(&tracker, 5);
}

/// A number that looks random, from others.
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits ^ bits >> 27
}

fn requests() -> Vec<Request> {
    [
        "",
        "nat",
        "commit",
        "commit mark=3/3",
        "commit force",
        "commit src=700",
        "commit src=700:5000-5040",
        "commit dst=3:53",
        "zone=2 commit",
    ]
    .map(request)
    .into()
}

/// One step of a worker: a packet of one of few connections, or an answer to what it became.
fn step(tracker: &Tracker, requests: &[Request], worker: usize, now: u64, dice: &mut u64) {
    let throw = mix(dice);
    let (client, port) = (10 + (throw & 7), 1024 + (throw >> 3 & 31));
    let v6 = ["", "v6 "][(throw >> 25 & 1) as usize];
    let packet = match throw >> 8 & 3 {
        0 => seen(&format!("{v6}ping {client}>2#{port}")),
        1 => seen(&format!("{v6}tcp {client}:{port}>2:80 {}", ["S", "S", "A", "RA"][(throw >> 10 & 3) as usize])),
        2 => seen(&format!("{v6}gre {client}>2")),
        _ => seen(&format!("{v6}udp {client}:{port}>2:53")),
    };
    let request = &requests[(throw >> 16) as usize % requests.len()];
    let verdict = tracker.track(&packet, request, worker, now);
    if verdict.state & state::SNAT != 0 {
        // Or another port, unasked, since the answers are taken.
        let (src, own) = (rewritten(&packet, &verdict).src, packet.tuple.src);
        let unasked = src.addr == own.addr && src.port != own.port;
        assert!(src.addr == 700 || unasked, "{packet:?} {request:?} {verdict:?}");
    }
    if throw >> 24 & 1 == 0 && verdict.refusal.is_none() {
        let reset = seen("tcp 1:1>2:2 RA ack=1");
        let l4 = if matches!(packet.l4, L4::Tcp(_)) { reset.l4 } else { packet.l4 };
        let answer = Seen { tuple: rewritten(&packet, &verdict).reversed(), l4, ..packet };
        tracker.track(&answer, request, worker, now);
    }
}

#[test]
fn workers_open_use_and_close_the_same_connections_and_nothing_is_lost_or_there_twice() {
    const WORKERS: usize = 4;
    // Fewer places than there are connections to open.
    let tracker = Tracker::new(Config { connections_max: 500 });
    tracker.set_limit(2, Some(50));
    let clock = AtomicU64::new(1000);
    let requests = requests();
    for round in 0..6_u64 {
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let (tracker, clock, requests) = (&tracker, &clock, &requests);
                scope.spawn(move || {
                    let mut dice = round << 8 | worker as u64;
                    for _ in 0..20_000 {
                        // Clocks of workers differ a little.
                        let now = clock.load(Relaxed) - (dice & 1);
                        step(tracker, requests, worker, now, &mut dice);
                    }
                });
            }
            let (tracker, clock) = (&tracker, &clock);
            scope.spawn(move || {
                for turn in 0..400 {
                    let now = clock.fetch_add(200, Relaxed);
                    tracker.expire(now);
                    if turn % 50 == 0 {
                        tracker.flush(&Filter { protocol: Some(17), ..Filter::default() }, now);
                    }
                    tracker.dump(&Filter::default(), now, |_| ControlFlow::Continue(()));
                }
            });
        });
        check(&tracker, clock.load(Relaxed));
    }
    let counts = tracker.counts();
    println!("{counts:?}");
    assert!(counts.created > 1000 && counts.dropped_early + counts.expired > 0, "{counts:?}");
}

/// No two connections get the same tuple, however many workers ask for few ports.
#[test]
fn few_ports_are_given_to_one_connection_each() {
    let tracker = Tracker::new(Config { connections_max: 10_000 });
    let nat = request("commit src=700:5000-5099");
    std::thread::scope(|scope| {
        for worker in 0..4_u64 {
            let (tracker, nat) = (&tracker, &nat);
            scope.spawn(move || {
                for port in 0..500 {
                    tracker.track(&seen(&format!("udp {}:{port}>2:53", 10 + worker)), nat, 0, 5);
                }
            });
        }
    });
    check(&tracker, 5);
    let counts = tracker.counts();
    assert_eq!(
        (counts.connections, counts.refused_nat),
        (100, 1900),
        "all ports of the range are given, and only once"
    );
}

/// All workers want the same port first, and each gets one of its own.
#[test]
fn the_same_port_is_given_to_one_connection_only() {
    const WORKERS: usize = 4;
    const ROUNDS: usize = 1000;
    const EACH: usize = 20;
    let tracker = Tracker::new(Config { connections_max: WORKERS * ROUNDS * EACH });
    let barrier = Barrier::new(WORKERS);
    // A worker that ended early would be waited for.
    let refused = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (tracker, barrier) = (&tracker, &barrier);
                scope.spawn(move || {
                    let (nat, mut refused) = (request("commit src=700"), Vec::new());
                    for round in 0..ROUNDS {
                        let packets: Vec<_> = (0..EACH)
                            .map(|i| seen(&format!("udp {}:2000>{}:{round}", 10 + worker, 1000 + i)))
                            .collect();
                        barrier.wait();
                        for packet in &packets {
                            let verdict = tracker.track(packet, &nat, 0, 5);
                            refused.extend(verdict.refusal.map(|why| (worker, packet.tuple, why)));
                        }
                    }
                    refused
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("it did not panic")).collect::<Vec<_>>()
    });
    assert_eq!(refused, [], "worker, tuple, why");
    assert_eq!(tracker.counts().connections, (WORKERS * ROUNDS * EACH) as u64);
    check(&tracker, 5);
}

#[test]
fn a_million_connections() {
    a_million("udp 1:1>2:53", 0);
}

#[test]
fn a_million_connections_of_ipv6() {
    a_million("v6 udp 1:1>2:53", 64);
}

/// More of them like this one, in a table that they fill; each takes so many bytes that were not
/// taken at start.
fn a_million(first: &str, more: u64) {
    const COUNT: u32 = 1_000_000;
    let begun = Instant::now();
    let mut talk = Talk::new(COUNT as usize);
    let memory = talk.tracker.counts().memory;
    println!("{} MiB taken in {:?}", memory >> 20, begun.elapsed());
    let commit = request("commit");
    let base = seen(first);
    let packet = |i: u32| Seen { tuple: Tuple { src: End { addr: u128::from(i), port: 7 }, ..base.tuple }, ..base };
    let timed = |what: &str, run: &mut dyn FnMut()| {
        let begun = Instant::now();
        run();
        println!("{what}: {:?}, {} ns each", begun.elapsed(), begun.elapsed().as_nanos() / u128::from(COUNT));
    };
    timed("opened", &mut || {
        for i in 0..COUNT {
            let verdict = talk.tracker.track(&packet(i), &commit, 0, talk.now);
            assert_eq!(verdict.refusal, None, "connection {i}");
        }
    });
    assert_eq!((talk.tracker.counts().connections, talk.tracker.index.len()), (COUNT.into(), COUNT as usize * 2));
    timed("answered", &mut || {
        for i in 0..COUNT {
            let answer = Seen { tuple: packet(i).tuple.reversed(), ..base };
            let verdict = talk.tracker.track(&answer, &request_of(1), 0, talk.now);
            assert_eq!(verdict.state, state::EST | state::RPL | state::TRK, "connection {i}");
        }
    });
    assert_eq!(talk.ct("udp 5000000:1>2:3", "commit"), "refused Full");
    let mut shown = 0;
    timed("dumped", &mut || {
        talk.tracker.dump(&Filter::default(), talk.now, |connection| {
            shown += u32::from(connection.replied);
            ControlFlow::Continue(())
        });
    });
    assert_eq!(shown, COUNT);
    timed("swept", &mut || tracker_swept(&talk.tracker, talk.now));
    assert_eq!(talk.tracker.counts().connections, COUNT.into());
    timed("flushed", &mut || assert_eq!(talk.tracker.flush(&Filter::default(), talk.now), COUNT as usize));
    assert_eq!((talk.tracker.counts().connections, talk.tracker.index.len()), (0, 0));
    talk.say(&[("udp 5000000:1>2:3", "commit", "new|trk")]);
    assert_eq!(talk.tracker.counts().memory, memory + more * u64::from(COUNT), "memory");
}

fn request_of(zone: u16) -> Request {
    Request { zone, ..Request::default() }
}

/// P30: who finds a full range is refused, within bounds; nobody is before it is nearly full.
#[test]
fn an_exhausted_range_is_refused() {
    let talk = Talk::new(10_000);
    let nat = request("commit src=700:1024-6023");
    let mut refused = 0;
    let begun = Instant::now();
    for i in 0..6000_u32 {
        let packet = seen("udp 1:7>2:53");
        let packet = Seen { tuple: Tuple { src: End { addr: u128::from(i), port: 7 }, ..packet.tuple }, ..packet };
        refused += u32::from(talk.tracker.track(&packet, &nat, 0, talk.now).refusal.is_some());
    }
    println!("6,000 connections for 5,000 ports: {refused} refused, {:?}", begun.elapsed());
    let counts = talk.tracker.counts();
    assert_eq!((counts.connections + u64::from(refused), counts.refused_nat), (6000, u64::from(refused)));
    assert!(counts.connections > 4950, "only {} of 5,000 ports were found", counts.connections);
    check(&talk.tracker, talk.now);
}
