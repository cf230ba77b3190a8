use super::*;
use proptest::prelude::*;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn cache(patterns: &[&str], limits: NameLimits) -> Cache {
    let mut cache = Cache::default();
    cache.set_limits(limits);
    cache.set_patterns(patterns.iter().map(|text| pattern(text)));
    cache
}

fn says(name: &str, addresses: &[(u8, u32)]) -> Answer {
    Answer { name: name.to_owned(), addresses: addresses.iter().map(|(last, ttl)| (ip(*last), *ttl)).collect() }
}

fn changes(cache: &mut Cache) -> Vec<(String, Vec<IpAddr>)> {
    let Some((_, changes)) = cache.take() else { return Vec::new() };
    cache.landed(true);
    changes.into_iter().map(|(name, addresses)| (name, addresses.into_iter().collect())).collect()
}

#[test]
fn an_answer_waits_for_the_round_that_brings_it_and_no_longer() {
    let mut cache = cache(&["*.example.com"], NameLimits::default());
    assert_eq!(cache.learn(&says("www.other.com", &[(1, 60)]), 0), None, "nobody means it");
    assert_eq!(cache.learn(&says("www.example.com", &[]), 0), None, "it has none");
    assert_eq!(cache.take(), None);
    assert_eq!(cache.learn(&says("www.example.com", &[(1, 60)]), 0), Some(1));
    assert_eq!(cache.learn(&says("www.example.com", &[(1, 60)]), 1), Some(1), "not taken yet");
    let (round, first) = cache.take().expect("a round");
    assert_eq!((round, first), (1, Changes::from([("www.example.com".to_owned(), BTreeSet::from([ip(1)]))])));
    assert_eq!(cache.learn(&says("www.example.com", &[(1, 60)]), 2), Some(1), "under way");
    assert_eq!(cache.learn(&says("www.example.com", &[(1, 60), (2, 60)]), 3), Some(2), "something new");
    assert_eq!(cache.take(), None, "one at a time");
    cache.landed(true);
    assert_eq!(cache.learn(&says("www.example.com", &[(1, 60)]), 4), Some(2), "the name changes");
    assert_eq!(changes(&mut cache), [("www.example.com".to_owned(), vec![ip(1), ip(2)])]);
    assert_eq!(cache.learn(&says("www.example.com", &[(2, 60)]), 5), None, "the rules have it");
    assert_eq!(cache.take(), None);
}

#[test]
fn addresses_go_with_the_longest_time_that_was_told_of_them() {
    let mut cache = cache(&["a.b"], NameLimits::default());
    cache.learn(&says("a.b", &[(1, 10), (2, 20), (3, 0)]), 0);
    cache.learn(&says("a.b", &[(1, 5)]), 1000);
    changes(&mut cache);
    assert_eq!(cache.next_expiry(), Some(1000), "a TTL of 0 is a second");
    cache.expire(999);
    assert_eq!(cache.take(), None);
    cache.expire(1000);
    assert_eq!(changes(&mut cache), [("a.b".to_owned(), vec![ip(1), ip(2)])]);
    assert_eq!(cache.next_expiry(), Some(10_000), "not 6 s");
    cache.learn(&says("a.b", &[(1, 30)]), 9000);
    cache.expire(19_999);
    assert_eq!(cache.take(), None, "it was renewed");
    cache.expire(20_000);
    assert_eq!(changes(&mut cache), [("a.b".to_owned(), vec![ip(1)])]);
    cache.expire(39_000);
    assert_eq!(changes(&mut cache), [("a.b".to_owned(), vec![])]);
    assert_eq!((cache.sizes(), cache.next_expiry(), cache.memory()), ((0, 0, 0), None, 0));
    let limits = NameLimits { min_ttl_seconds: 100, ..NameLimits::default() };
    cache.set_limits(limits);
    cache.learn(&says("a.b", &[(1, 10), (2, u32::MAX)]), 0);
    assert_eq!(cache.next_expiry(), Some(100_000));
    cache.expire(u64::from(TTL_MAX) * 1000);
    assert_eq!(cache.sizes().0, 0, "not for 136 years");
}

#[test]
fn beyond_a_limit_the_name_goes_that_was_not_heard_of_for_longest() {
    let limits = NameLimits { names_per_pattern: 2, names: 3, ..NameLimits::default() };
    let mut cache = cache(&["*.a", "*.b"], limits);
    for name in ["x.a", "y.a", "x.a", "z.a"] {
        cache.learn(&says(name, &[(1, 60)]), 0);
    }
    let names = |cache: &Cache| cache.list(None).into_iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&cache), ["x.a", "z.a"], "the pattern's limit");
    cache.learn(&says("x.b", &[(1, 60)]), 0);
    cache.learn(&says("y.b", &[(1, 60)]), 0);
    assert_eq!(names(&cache), ["x.b", "y.b", "z.a"], "the limit of all");
    assert_eq!(cache.sizes(), (3, 3, 2));
    assert_eq!(cache.list(Some(&pattern("*.b"))).len(), 2);
    cache.set_limits(NameLimits { names: 1, ..limits });
    assert_eq!(names(&cache), ["y.b"]);
    cache.set_patterns([pattern("y.b"), pattern("*.c")].into_iter());
    assert_eq!(names(&cache), ["y.b"], "another pattern means it");
    changes(&mut cache);
    cache.set_patterns([pattern("*.c")].into_iter());
    assert_eq!(changes(&mut cache), [("y.b".to_owned(), vec![])]);
}

#[test]
fn a_name_has_a_bound_of_addresses_too() {
    let mut cache = cache(&["a.b"], NameLimits::default());
    let address = |word: u32| IpAddr::from(word.to_be_bytes());
    for first in (0..4096).step_by(512) {
        // The first ones of each answer are over soonest.
        let addresses = (first..first + 512).map(|word| (address(word), 60 + word)).collect();
        cache.learn(&Answer { name: "a.b".to_owned(), addresses }, 0);
    }
    let (_, changes) = cache.take().expect("a round");
    let left: Vec<IpAddr> = changes["a.b"].iter().copied().collect();
    let wanted: Vec<IpAddr> = (4096 - 1024..4096).map(address).collect();
    assert_eq!(left, wanted);
    assert_eq!(cache.sizes(), (1, ADDRESSES_OF_NAME_MAX, 0));
}

#[test]
fn a_round_that_came_to_nothing_leaves_nothing() {
    let mut cache = cache(&["*.a"], NameLimits::default());
    cache.learn(&says("x.a", &[(1, 60)]), 0);
    assert!(cache.take().is_some());
    cache.landed(false);
    assert_eq!(changes(&mut cache), [("x.a".to_owned(), vec![])], "whatever became of it");
    assert_eq!(cache.learn(&says("x.a", &[(1, 60)]), 0), Some(3), "brought again");
}

/// One thing that happens to a cache.
#[derive(Clone, Debug)]
enum Event {
    Learn(u8, Vec<(u8, u32)>),
    Pass(u64),
    Round(bool),
    Patterns(u8),
}

fn event() -> impl Strategy<Value = Event> {
    let addresses = prop::collection::vec((0..4_u8, 0..20_u32), 0..4);
    prop_oneof![
        4 => (0..6_u8, addresses).prop_map(|(name, addresses)| Event::Learn(name, addresses)),
        2 => (0..8000_u64).prop_map(Event::Pass),
        3 => prop::bool::weighted(0.8).prop_map(Event::Round),
        1 => any::<u8>().prop_map(Event::Patterns),
    ]
}

const PATTERNS: [&str; 4] = ["*.a", "x.a", "*.b", "x.b"];
const NAMES: [&str; 6] = ["x.a", "y.a", "z.a", "x.b", "y.b", "x.c"];

proptest! {
    /// After all rounds the rules have what the cache has, which is what was told and is not over;
    /// limits hold at every moment.
    #[test]
    fn the_rules_have_what_the_cache_has(events in prop::collection::vec(event(), 0..60)) {
        let limits = NameLimits { names_per_pattern: 2, names: 3, ..NameLimits::default() };
        let mut cache = cache(&PATTERNS, limits);
        let mut rules = Changes::new();
        let mut now = 0;
        let apply = |rules: &mut Changes, changes: Changes| for (name, addresses) in changes {
            if addresses.is_empty() { rules.remove(&name) } else { rules.insert(name, addresses) };
        };
        for event in events {
            match event {
                Event::Learn(name, addresses) => {
                    let answer = says(NAMES[usize::from(name)], &addresses);
                    let wait = cache.learn(&answer, now);
                    if wait.is_none() && cache.names.contains_key(NAMES[usize::from(name)]) {
                        let there = rules.get(NAMES[usize::from(name)]).cloned().unwrap_or_default();
                        prop_assert!(answer.addresses.iter().all(|(address, _)| there.contains(address)), "it need not wait");
                    }
                }
                Event::Pass(ms) => {
                    now += ms;
                    cache.expire(now);
                    prop_assert!(cache.next_expiry().is_none_or(|next| next > now));
                }
                Event::Round(done) => if let Some((_, changes)) = cache.take() {
                    if done { apply(&mut rules, changes); }
                    cache.landed(done);
                },
                Event::Patterns(bits) => cache.set_patterns(
                    PATTERNS.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, text)| pattern(text)),
                ),
            }
            prop_assert!(cache.names.len() <= 3 && cache.patterns.values().all(|heard| heard.len() <= 2));
            prop_assert_eq!(cache.expiry.len(), cache.names.len());
            prop_assert_eq!(cache.heard.len(), cache.names.len());
            prop_assert_eq!(cache.addresses, cache.names.values().map(|known| known.addresses.len()).sum::<usize>());
            prop_assert!(cache.names.values().all(|known| !known.addresses.is_empty() && !known.patterns.is_empty()));
        }
        while let Some((_, changes)) = cache.take() {
            apply(&mut rules, changes);
            cache.landed(true);
        }
        let there: Changes = cache.list(None).into_iter()
            .map(|(name, addresses)| (name.to_string(), addresses.into_iter().map(|(address, _)| address).collect())).collect();
        prop_assert_eq!(rules, there);
    }
}
