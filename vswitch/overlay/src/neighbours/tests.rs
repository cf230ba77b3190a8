use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

fn ip(i: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + i).into()
}

/// A table, and how often it gave notice.
fn table() -> (Neighbours, Arc<AtomicUsize>) {
    let notices = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&notices);
    let table = Neighbours::new(move || {
        counted.fetch_add(1, Relaxed);
    });
    (table, notices)
}

/// One that is asked for and has answered.
fn known(table: &Neighbours, bridge: u32, i: u32, mac: [u8; 6], now_ms: u64) {
    assert!(table.ask(bridge, ip(i), now_ms), "neighbour {i}");
    assert!(table.learn(bridge, ip(i), mac, now_ms), "neighbour {i}");
}

#[test]
fn only_who_was_asked_for_is_learned() {
    let (table, notices) = table();
    assert!(!table.learn(1, ip(1), A, 0), "a stranger");
    assert_eq!((table.dump(), table.epoch()), (vec![], 0));
    assert!(table.ask(1, ip(1), 0));
    assert_eq!((table.lookup(1, ip(1)), table.entry(1, ip(1)).is_none(), table.stats().pending), (None, true, 1));
    assert!(!table.learn(2, ip(1), A, 1), "in another bridge");
    assert!(!table.learn(1, ip(2), A, 1), "another address");
    assert_eq!((table.epoch(), notices.load(Relaxed)), (0, 0));
    assert!(table.learn(1, ip(1), A, 5));
    assert_eq!((table.lookup(1, ip(1)), table.lookup(2, ip(1))), (Some(A), None));
    assert_eq!((table.epoch(), notices.load(Relaxed), table.stats().pending), (1, 1, 0));
    let listed = Listed { bridge: 1, ip: ip(1), mac: Some(A), heard_ms: 5, asked_ms: 0, used_ms: 0 };
    assert_eq!(table.dump(), [listed]);
}

#[test]
fn who_does_not_answer_is_asked_once_a_second_and_then_forgotten() {
    let (table, _) = table();
    let asked: Vec<u64> = (0..4000).step_by(100).filter(|now| table.ask(1, ip(1), *now)).collect();
    assert_eq!(asked, [0, 1000, 2000, 3000]);
    table.age(7999);
    assert_eq!(table.stats().entries, 1, "asked less than five seconds ago");
    table.age(8000);
    assert_eq!((table.stats().entries, table.stats().pending, table.stats().expired), (0, 0, 1));
    assert_eq!(table.epoch(), 0, "nothing was known");
    assert!(!table.learn(1, ip(1), A, 8001), "it comes too late");
    known(&table, 1, 1, A, 9000);
    assert!(!table.ask(1, ip(1), 20_000), "it is known");
}

#[test]
fn an_answer_changes_once_a_second_and_news_only_begin_an_epoch() {
    let (table, notices) = table();
    known(&table, 1, 1, A, 10_000);
    for (now, mac, changes) in [
        (10_001, A, false),
        (10_500, B, false),
        (10_999, B, false),
        (11_000, B, true),
        (11_001, A, false),
        (11_500, B, false),
        (11_999, A, false),
        (20_000, B, false),
        (20_001, A, true),
    ] {
        let epoch = table.epoch();
        assert_eq!(table.learn(1, ip(1), mac, now), changes, "at {now}");
        assert_eq!(table.epoch() > epoch, changes, "at {now}");
    }
    let stats = table.stats();
    assert_eq!((stats.changed, stats.held_off, notices.load(Relaxed)), (3, 4, 3));
    // By hand it changes at once, and what is known already begins no epoch.
    assert!(table.set(1, ip(1), B, 20_002));
    assert_eq!((table.lookup(1, ip(1)), table.epoch()), (Some(B), 4));
    assert!(table.set(1, ip(1), B, 20_003));
    assert_eq!(table.epoch(), 4);
    assert!(!table.learn(1, ip(1), A, 20_500), "not a second after");
}

#[test]
fn who_is_used_is_asked_again_before_it_is_forgotten() {
    let (table, notices) = table();
    known(&table, 1, 1, A, 0);
    let kept = table.entry(1, ip(1)).expect("known");
    assert!(!kept.used(100) && !kept.used(REFRESH_MS - 1), "fresh");
    let asked: Vec<u64> = (REFRESH_MS..REFRESH_MS + 3500).step_by(50).filter(|now| kept.used(*now)).collect();
    let from = REFRESH_MS + 1000;
    assert_eq!(asked, [from, from + 1000, from + 2000], "a second after it was last used, then once a second");
    assert_eq!(table.dump()[0].used_ms, asked[2]);
    assert!(!table.learn(1, ip(1), A, REFRESH_MS + 4000), "nothing new");
    assert!(!kept.used(REFRESH_MS + 6000), "fresh again");
    table.age(REFRESH_MS + 4000 + AGEING_MS - 1);
    assert_eq!(table.lookup(1, ip(1)), Some(A));
    assert!(table.ask(1, ip(1), REFRESH_MS + 4000 + AGEING_MS - 1), "who asks for an old one is told so");
    let before = notices.load(Relaxed);
    table.age(REFRESH_MS + 4000 + AGEING_MS);
    assert_eq!((table.lookup(1, ip(1)), kept.mac(), notices.load(Relaxed)), (None, None, before + 1));
    assert!(!kept.used(u64::MAX - 1), "it is not in the table any more");
    table.age(u64::MAX - 1);
    assert_eq!(notices.load(Relaxed), before + 1, "nobody was left");
}

#[test]
fn bridges_are_forgotten_apart() {
    let (table, notices) = table();
    for i in 0..100 {
        known(&table, i % 2, i, A, 0);
    }
    assert!(table.ask(1, ip(1000), 0));
    let kept = table.entry(1, ip(1)).expect("known");
    let before = notices.load(Relaxed);
    assert_eq!((table.flush(Some(1)), table.flush(Some(1)), kept.mac()), (51, 0, None));
    assert_eq!((notices.load(Relaxed), table.stats().pending), (before + 1, 0));
    assert!(table.dump().iter().map(|listed| listed.ip).eq((0..100).step_by(2).map(ip)), "in order");
    assert_eq!((table.flush(None), table.stats().entries), (50, 0));
}

#[test]
fn addresses_of_nobody_are_refused() {
    let (table, _) = table();
    for text in ["0.0.0.0", "255.255.255.255", "224.0.0.1", "127.0.0.1", "::", "::1", "ff02::1"] {
        let nobody: IpAddr = text.parse().expect(text);
        assert!(!table.ask(1, nobody, 0) && !table.set(1, nobody, A, 0), "{text}");
    }
    assert!(table.ask(1, ip(1), 0));
    for mac in [[0; 6], [0xff; 6], [1, 0, 0x5e, 0, 0, 1]] {
        assert!(!table.learn(1, ip(1), mac, 1) && !table.set(1, ip(1), mac, 1), "{mac:?}");
    }
    assert_eq!((table.stats().entries, table.stats().pending, table.epoch()), (1, 1, 0));
}

#[test]
fn questions_do_not_fill_the_table() {
    let (table, notices) = table();
    known(&table, 1, 1, A, 0);
    let asked = (2..20_000).filter(|i| table.ask(1, ip(*i), 0)).count();
    assert_eq!((asked, table.stats().pending), (PENDING_MAX, PENDING_MAX));
    assert_eq!(table.stats().refused, 19_998 - 1024);
    // A second later they give way to others, unless there is none in the shard of one.
    let asked = (20_000..20_200).filter(|i| table.ask(1, ip(*i), 1000)).count();
    assert!(asked >= 180, "{asked} of 200");
    assert_eq!((table.stats().pending, table.stats().evicted), (PENDING_MAX, asked as u64));
    assert_eq!((table.lookup(1, ip(1)), notices.load(Relaxed)), (Some(A), 1), "who is known stays");
}

#[test]
fn a_full_table_lets_go_of_who_was_not_used() {
    let (table, notices) = table();
    for i in 0..4096 {
        assert!(table.set(1, ip(i), A, 0), "neighbour {i}");
    }
    assert_eq!((table.stats().entries, table.stats().pending), (NEIGHBOURS_MAX, 0));
    assert!(!table.set(1, ip(5000), A, 59_999) && !table.ask(1, ip(5000), 59_999), "all are new");
    assert_eq!((table.stats().entries, table.stats().pending, table.stats().refused), (NEIGHBOURS_MAX, 0, 2));
    let even = (0..4096).step_by(2);
    for i in even.clone() {
        assert!(!table.entry(1, ip(i)).expect("known").used(50_000), "neighbour {i}");
    }
    let before = notices.load(Relaxed);
    let more = (5000..5500).filter(|i| table.ask(1, ip(*i), 60_009)).count();
    assert!(more >= 490, "{more} of 500 found one in their shard that could go");
    let stats = table.stats();
    assert_eq!((stats.entries, stats.pending, stats.evicted), (NEIGHBOURS_MAX, more, more as u64));
    assert_eq!(notices.load(Relaxed), before + more, "somebody was known before");
    for i in even {
        assert_eq!(table.lookup(1, ip(i)), Some(A), "neighbour {i} was used");
    }
}

/// Addresses whose neighbours are in one shard.
fn in_one_shard(table: &Neighbours) -> impl Iterator<Item = u32> {
    let shard = |i: u32| std::ptr::from_ref(table.shard(&(1, ip(i))));
    (0..).filter(move |i| shard(*i) == shard(0))
}

#[test]
fn a_shard_is_bounded_and_lets_go_of_the_longest_unused_one() {
    let (table, _) = table();
    let mut same = in_one_shard(&table);
    let full: Vec<u32> = same.by_ref().take(256).collect();
    for (now, i) in (0..).zip(&full) {
        assert!(table.set(1, ip(*i), A, now), "neighbour {i}");
    }
    let more: Vec<u32> = same.take(3).collect();
    assert!(!table.set(1, ip(more[0]), A, 300) && !table.ask(1, ip(more[0]), 300), "the shard is full");
    assert_eq!((table.stats().entries, table.stats().pending, table.stats().refused), (256, 0, 2));
    assert!(!table.entry(1, ip(full[0])).expect("known").used(50_000));
    assert!(table.set(1, ip(more[0]), A, 60_100));
    assert_eq!(table.lookup(1, ip(full[1])), None, "the longest unused one");
    assert_eq!(table.lookup(1, ip(full[0])), Some(A), "it was used");
    assert!(table.ask(1, ip(more[1]), 60_100));
    assert_eq!((table.lookup(1, ip(full[2])), table.lookup(1, ip(full[3]))), (None, Some(A)), "the next one");
    assert_eq!((table.stats().entries, table.stats().pending, table.stats().evicted), (256, 1, 2));
}

#[test]
fn a_shard_without_room_for_a_question_is_looked_into_again_some_milliseconds_later() {
    let (table, _) = table();
    let same: Vec<u32> = in_one_shard(&table).take(257).collect();
    for i in &same[..256] {
        assert!(table.set(1, ip(*i), A, 0), "neighbour {i}");
    }
    assert!(!table.ask(1, ip(same[256]), 100), "the shard is full");
    assert_eq!(table.flush(None), 256);
    assert!(!table.ask(1, ip(same[256]), 109) && table.ask(1, ip(same[256]), 110));
    assert_eq!(table.stats().refused, 2);
}

#[test]
fn questions_push_out_nobody_who_is_known_while_too_many_wait() {
    let (table, notices) = table();
    known(&table, 1, 0, A, 0);
    let own: Vec<u32> = in_one_shard(&table).take(20).collect();
    let mut others = (1..).filter(|i| !own.contains(i));
    while table.stats().pending < PENDING_MAX {
        let _ = table.ask(1, ip(others.next().expect("endless")), 99_500);
    }
    assert!(!table.ask(1, ip(own[19]), 100_000), "those that wait were asked just now");
    assert_eq!((table.lookup(1, ip(0)), notices.load(Relaxed)), (Some(A), 1));
}

/// What happens in random tests.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(u32, u32),
    Learn(u32, u32, u8),
    Set(u32, u32, u8),
    Flush(u32),
    Age,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (bridge, i, mac) = (0..2_u32, 0..12_u32, 0..3_u8);
    let step = prop_oneof![
        4 => (bridge.clone(), i.clone()).prop_map(|(bridge, i)| Step::Ask(bridge, i)),
        6 => (bridge.clone(), i.clone(), mac.clone()).prop_map(|(bridge, i, mac)| Step::Learn(bridge, i, mac)),
        1 => (bridge.clone(), i, mac).prop_map(|(bridge, i, mac)| Step::Set(bridge, i, mac)),
        1 => bridge.prop_map(Step::Flush),
        1 => Just(Step::Age),
        3 => prop_oneof![1..2000_u64, 1..AGEING_MS].prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 0..120)
}

/// A neighbour in the simplest way.
#[derive(Clone, Copy, Debug, Default)]
struct Model {
    mac: Option<[u8; 6]>,
    heard: u64,
    changed: u64,
    asked: Option<u64>,
    /// It has said something else, too soon.
    doubted: bool,
}

impl Model {
    fn asks(&mut self, now: u64) -> bool {
        let fresh = self.mac.is_some() && !self.doubted && now - self.heard < REFRESH_MS;
        let asks = !fresh && self.asked.is_none_or(|asked| now - asked >= 1000);
        if asks {
            self.asked = Some(now);
        }
        asks
    }

    fn hears(&mut self, mac: [u8; 6], now: u64, at_once: bool) -> bool {
        if self.mac == Some(mac) {
            if at_once || now - self.heard >= 1000 {
                self.heard = now;
                self.doubted &= at_once;
            }
            return false;
        }
        if !at_once && self.mac.is_some() && now - self.changed < 1000 {
            self.doubted = true;
            return false;
        }
        (self.mac, self.heard, self.changed, self.doubted) = (Some(mac), now, now, false);
        true
    }

    fn stays(&self, now: u64) -> bool {
        match self.mac {
            Some(_) => now - self.heard < AGEING_MS,
            None => self.asked.is_some_and(|asked| now - asked < PENDING_MS),
        }
    }
}

proptest! {
    /// With room for all, the table is a map of the simplest kind.
    #[test]
    fn agrees_with_a_map(steps in steps()) {
        let (table, notices) = table();
        let mut map: BTreeMap<(u32, IpAddr), Model> = BTreeMap::new();
        let (mut now, mut changes) = (0, 0);
        let mac = |last: u8| [2, 0, 0, 0, 0, last];
        for step in steps {
            match step {
                Step::Ask(bridge, i) => {
                    let asks = map.entry((bridge, ip(i))).or_default().asks(now);
                    prop_assert_eq!(table.ask(bridge, ip(i), now), asks, "{:?} at {}", step, now);
                }
                Step::Learn(bridge, i, last) => {
                    let entry = map.get_mut(&(bridge, ip(i)));
                    let changed = entry.is_some_and(|model| model.hears(mac(last), now, false));
                    prop_assert_eq!(table.learn(bridge, ip(i), mac(last), now), changed, "{:?} at {}", step, now);
                    changes += usize::from(changed);
                }
                Step::Set(bridge, i, last) => {
                    changes += usize::from(map.entry((bridge, ip(i))).or_default().hears(mac(last), now, true));
                    prop_assert!(table.set(bridge, ip(i), mac(last), now), "{:?} at {}", step, now);
                }
                Step::Flush(_) | Step::Age => {
                    let flushed = |bridge: u32| matches!(step, Step::Flush(only) if only == bridge);
                    let before = map.clone();
                    map.retain(|key, model| if matches!(step, Step::Age) { model.stays(now) } else { !flushed(key.0) });
                    let gone = before.iter().filter(|(key, _)| !map.contains_key(key));
                    changes += usize::from(gone.clone().any(|(_, model)| model.mac.is_some()));
                    match step {
                        Step::Flush(bridge) => prop_assert_eq!(table.flush(Some(bridge)), gone.count()),
                        _ => table.age(now),
                    }
                }
                Step::Wait(ms) => now += ms,
            }
            let listed: Vec<_> = table.dump().iter().map(|listed| ((listed.bridge, listed.ip), listed.mac)).collect();
            let expected: Vec<_> = map.iter().map(|(key, model)| (*key, model.mac)).collect();
            prop_assert_eq!(listed, expected, "after {:?} at {}", step, now);
            prop_assert_eq!(notices.load(Relaxed), changes, "after {:?} at {}", step, now);
            prop_assert_eq!(table.stats().entries, map.len());
            prop_assert_eq!(table.stats().pending, map.values().filter(|model| model.mac.is_none()).count());
        }
    }
}

#[test]
fn workers_at_once_never_see_another_address() {
    const NEIGHBOURS: u32 = 300;
    let (table, notices) = table();
    // The address tells whose it is.
    let mac_of = |i: u32, which: u32| {
        let [.., a, b] = i.to_be_bytes();
        let [.., c] = which.to_be_bytes();
        [2, 0, 0, a, b, c]
    };
    let questions: Vec<AtomicUsize> = (0..NEIGHBOURS).map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        for worker in 0..3_u32 {
            let (table, questions) = (&table, &questions);
            scope.spawn(move || {
                for step in 0..60_000_u32 {
                    // Ten seconds in all, for each of them.
                    let now = u64::from(step) / 6;
                    let i = (step * 7 + worker * 13) % NEIGHBOURS;
                    match step % 4 {
                        0 if table.ask(1, ip(i), now) => {
                            questions[i as usize].fetch_add(1, Relaxed);
                        }
                        1 => drop(table.learn(1, ip(i), mac_of(i, step % 3), now)),
                        2 if step % 1000 == 2 => table.age(now),
                        3 if step % 5000 == 3 => drop(table.flush(Some(1))),
                        _ => {}
                    }
                    if let Some(neighbour) = table.entry(1, ip(i)) {
                        let _ = neighbour.used(now);
                        if let Some(mac) = neighbour.mac() {
                            assert_eq!(mac[..5], mac_of(i, 0)[..5], "neighbour {i}");
                        }
                    }
                }
            });
        }
    });
    let listed = table.dump();
    let pending = listed.iter().filter(|listed| listed.mac.is_none()).count();
    let stats = table.stats();
    assert_eq!((stats.entries, stats.pending), (listed.len(), pending));
    assert_eq!(table.epoch(), notices.load(Relaxed) as u64);
    assert!(questions.iter().any(|count| count.load(Relaxed) > 0));
}
