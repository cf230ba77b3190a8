//! Measures the classifier: `cargo run --release -p vswitch-flow --example classify
//! [own|shared|sets|exact|prefixes|few]`. Prints nanoseconds per lookup, the best of twenty rounds.

#![allow(clippy::print_stdout)] // what it is for

mod policies;

use policies::{Kind, Mix, Numbers, RULES, entries, matching, packet_of, rules};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use vswitch_flow::classifier::{Classifier, Entry};
use vswitch_flow::{Field, FlowKey, FlowMask};

const PACKETS: usize = 10_000;
const CHANGES: usize = 10_000;

fn plain(priority: u16, fields: &[(Field, u128, u128)]) -> Entry<u32> {
    Entry { priority, matching: Arc::new(matching(fields)), clauses: Arc::default(), data: 1 }
}

fn key(fields: &[(Field, u128)]) -> FlowKey {
    let mut key = FlowKey::default();
    fields.iter().for_each(|(field, value)| key.set(*field, *value));
    key
}

fn load(entries: Vec<Entry<u32>>) -> Classifier<u32> {
    let mut table = Classifier::default();
    for entry in entries {
        table.insert(entry);
    }
    table
}

/// The best of twenty: this may share its core.
fn best(mut round: impl FnMut() -> f64) -> f64 {
    (0..20).map(|_| round()).fold(f64::INFINITY, f64::min)
}

#[allow(clippy::cast_precision_loss)] // numbers of packets
fn lookups(name: &str, table: &Classifier<u32>, packets: &[FlowKey]) {
    let mut hits = 0;
    let time = best(|| {
        let start = Instant::now();
        hits =
            packets.iter().filter(|key| table.lookup(key, black_box(&mut FlowMask::default()), None).is_some()).count();
        start.elapsed().as_nanos() as f64 / packets.len() as f64
    });
    // One by one as well: the slowest of a hundredth.
    let mut each: Vec<u128> = packets
        .iter()
        .map(|key| {
            let start = Instant::now();
            black_box(table.lookup(key, black_box(&mut FlowMask::default()), None).is_some());
            start.elapsed().as_nanos()
        })
        .collect();
    each.sort_unstable();
    let hundredth = each[each.len() * 99 / 100];
    println!("{name:44} {time:7.0} ns, 99 % below {hundredth:5}  ({:3} % found)", hits * 100 / packets.len());
}

fn exact(count: u32) {
    let fields = |i: u32| [(Field::InPort, u128::from(i % 16)), (Field::EthDst, u128::from(i) << 8)];
    let flow = |i| plain(200, &fields(i).map(|(field, value)| (field, value, u128::MAX)));
    let table = load((0..count).map(flow).collect());
    let mut numbers = Numbers(7);
    let hits: Vec<_> = (0..PACKETS).map(|_| key(&fields(numbers.below(count)))).collect();
    lookups(&format!("{count} exact, hit"), &table, &hits);
    let misses: Vec<_> = (0..PACKETS).map(|_| key(&fields(count + numbers.below(count)))).collect();
    lookups(&format!("{count} exact, miss"), &table, &misses);
}

fn prefixes() {
    let mut numbers = Numbers(5);
    let mut flows = vec![plain(0, &[])];
    for _ in 0..10_000 {
        let len = [8u16, 12, 16, 20, 22, 24, 24, 24, 28, 32][numbers.below(10) as usize];
        let bits = u128::from(u32::MAX << (32 - len));
        let value = u128::from(numbers.below(1 << 24)) << 6;
        flows.push(plain(len, &[(Field::EthType, 0x800, u128::MAX), (Field::NwDst, value & bits, bits)]));
    }
    let table = load(flows);
    let packet = |dst: u32| key(&[(Field::EthType, 0x800), (Field::NwDst, dst.into())]);
    let packets: Vec<_> = (0..PACKETS).map(|_| packet(numbers.below(1 << 30))).collect();
    lookups("10,000 prefixes of 9 lengths", &table, &packets);
}

/// Thirty rules of thirty masks, all of one priority: a table of a pipeline.
fn few() {
    let flow = |i: u16| plain(200, &[(Field::EthType, 0x800, u128::MAX), (Field::Reg0, i.into(), (i + 1).into())]);
    let table = load((0..30).map(flow).collect());
    let packets: Vec<_> =
        (0..PACKETS as u128).map(|i| key(&[(Field::EthType, 0x800), (Field::Reg0, i % 37)])).collect();
    lookups("30 flows of 30 masks", &table, &packets);
}

#[allow(clippy::cast_precision_loss)] // numbers of flows
fn policies(kind: Kind, name: &str) {
    let rules = rules(kind);
    let flows = entries(&rules);
    let count = flows.len();
    let before = resident();
    let mut table = Classifier::default();
    let time = best(|| {
        let flows = flows.clone();
        let start = Instant::now();
        table = load(flows);
        start.elapsed().as_secs_f64() * 1e3
    });
    println!(
        "{name}: {count} flows, loaded in {time:.1} ms ({:.2} us each), about {} MB",
        time * 1e3 / count as f64,
        resident() - before
    );
    for mix in [Mix::Allowed, Mix::Any, Mix::Stranger, Mix::OtherService] {
        let mut numbers = Numbers(3);
        let packets: Vec<_> = (0..PACKETS).map(|_| packet_of(mix, &rules, &mut numbers)).collect();
        lookups(&format!("{name}, {mix:?}"), &table, &packets);
    }
    let change = best(|| {
        let start = Instant::now();
        for i in 0..CHANGES {
            let (mut new, old) = (table.clone(), &flows[i * count / CHANGES]);
            new.remove(&old.matching, old.priority);
            new.insert(old.clone());
            table = new;
        }
        start.elapsed().as_secs_f64() * 1e6 / CHANGES as f64
    });
    println!("{name}: clone, remove, insert, publish {change:.1} us");
}

/// Rules of two clauses that most packets match: both sides name all rules.
fn long_sets(same: bool) {
    let clause = |id, clause| vswitch_flow::classifier::Clause { id, clause, clauses: 2 };
    let mut flows = Vec::new();
    for id in 1..=RULES {
        #[allow(clippy::cast_possible_truncation)] // small numbers
        let priority = (id * 7 % RULES * 10) as u16 + 1;
        let other = if same { id } else { id + RULES };
        let sides = [(Field::EthType, 0x800, id, 0), (Field::NwProto, 6, other, 1)];
        flows.extend(sides.map(|(field, value, id, k)| Entry {
            clauses: [clause(id, k)].into(),
            ..plain(priority, &[(field, value, u128::MAX)])
        }));
        flows.push(plain(priority, &[(Field::ConjId, id.into(), u128::MAX)]));
    }
    let table = load(flows);
    let packets: Vec<_> =
        (0..PACKETS as u128).map(|i| key(&[(Field::EthType, 0x800), (Field::NwProto, 6), (Field::NwSrc, i)])).collect();
    lookups(&format!("two sets of 5,000, {}", if same { "all complete" } else { "none complete" }), &table, &packets);
}

/// Megabytes of memory in use.
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<i64>().ok()).unwrap_or_default() / 1024
}

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let measurements: [(&str, fn()); 6] = [
        ("own", || policies(Kind::Own, "policies, own priorities")),
        ("shared", || policies(Kind::Shared, "policies, one priority")),
        ("sets", || [true, false].into_iter().for_each(long_sets)),
        ("exact", || [1, 16, 10_000].into_iter().for_each(exact)),
        ("prefixes", prefixes),
        ("few", few),
    ];
    measurements.iter().filter(|(name, _)| name.contains(&only)).for_each(|(_, run)| run());
}
