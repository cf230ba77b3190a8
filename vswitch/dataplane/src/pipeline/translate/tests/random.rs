//! Random programs and packets: a decision holds for every packet that agrees on its mask. A mask
//! that is too wide is a security hole (CVE-2023-1668, CVE-2023-5366).

use super::super::dp_hash;
use super::generate::{Random, sanitize};
use super::*;
use crate::action::Op;
use crate::pipeline::{Credit, Effect};
use proptest::prelude::*;
use vswitch_flow::{FIRST_PACKET_WORD, FlowMask, LAST_PACKET_WORD, WORDS};

/// All of a result that must be the same.
fn describe(setup: &Setup, key: &FlowKey, translation: &Translation) -> String {
    let mut text = setup.show(translation);
    for credit in &translation.credits {
        text.push_str(&match credit {
            Credit::Rule(stats) => format!("\nrule {:p}", Arc::as_ptr(stats)),
            Credit::Table(stats, hit) => format!("\ntable {:p} {hit}", Arc::as_ptr(stats)),
            Credit::Bucket(stats, i) => format!("\nbucket {:p} {i}", Arc::as_ptr(stats)),
            Credit::Group(stats) | Credit::AllBuckets(stats) => format!("\ngroup {:p}", Arc::as_ptr(stats)),
            Credit::Longer(..) => unreachable!("no tunnels here"),
        });
    }
    for effect in &translation.effects {
        if let Effect::Fdb { bridge, key, port } = effect {
            text.push_str(&format!("\nfdb {bridge} {key:?} {port:?}"));
        }
    }
    describe_packet_ins(&translation.ops, key, &mut text);
    text.push_str(&format!("\n{:?} {}", translation.deps, translation.cacheable));
    text
}

/// Metadata as controllers see it: what a packet-in does not define is the packet's.
fn describe_packet_ins(ops: &[Op], key: &FlowKey, text: &mut String) {
    for op in ops {
        match op {
            Op::PacketIn(packet_in) => {
                let mut metadata = blend(&packet_in.metadata, &packet_in.defined, key);
                metadata.set(Field::DpHash, 0);
                metadata.0[FIRST_PACKET_WORD..LAST_PACKET_WORD].fill(0);
                text.push_str(&format!("\npacket-in {metadata:?} {:?}", packet_in.continuation));
            }
            Op::Clone(ops) => describe_packet_ins(ops, key, text),
            Op::CheckLen(check) => {
                describe_packet_ins(&check.larger, key, text);
                describe_packet_ins(&check.smaller, key, text);
            }
            _ => {}
        }
    }
}

fn run(setup: &Setup, key: &FlowKey) -> Translation {
    let request = Request {
        bridge: 0,
        key,
        start: Start::Table,
        now: Millis(0),
        side_effects: false,
        learns: None,
        choice: Choice::ByHash,
    };
    translate(&setup.world, &request, None)
}

/// Another packet's bits where the mask has none.
fn blend(key: &FlowKey, mask: &FlowMask, other: &FlowKey) -> FlowKey {
    FlowKey(std::array::from_fn::<u64, WORDS, _>(|i| key.0[i] & mask.0[i] | other.0[i] & !mask.0[i]))
}

fn check(seed: u64) -> Result<(), TestCaseError> {
    let mut random = Random(seed);
    let setup = random.setup();
    for _ in 0..6 {
        let mut key = random.packet();
        // As whoever receives a packet does; none is made up in the translation then.
        key.set(Field::DpHash, (dp_hash(&key) | 1 << 31).into());
        // Addresses for NORMAL.
        setup.translate(&random.packet(), Start::Table);
        let translation = run(&setup, &key);
        for _ in 0..6 {
            let mut other = random.packet();
            if random.one_in(2) {
                // Any bits at all, in a packet of the same kind.
                (FIRST_PACKET_WORD..LAST_PACKET_WORD).for_each(|word| other.0[word] ^= random.next() & random.next());
                other.set(Field::EthType, key.get(Field::EthType));
                sanitize(&mut other);
            }
            other.set(Field::DpHash, (dp_hash(&other) | 1 << 31).into());
            let mut blended = blend(&key, &translation.mask, &other);
            sanitize(&mut blended);
            prop_assert_eq!(
                blended.masked(&translation.mask),
                key.masked(&translation.mask),
                "the mask uses fields without what tells that they are there: {:?}",
                translation.mask
            );
            // What is cached does to the other packet what is decided about it anew.
            let expected = describe(&setup, &blended, &translation);
            let again = describe(&setup, &blended, &run(&setup, &blended));
            prop_assert_eq!(&again, &expected, "\n{:?}\n{:?}", key, blended);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn a_decision_holds_for_all_packets_of_its_mask(seed in any::<u64>()) {
        check(seed)?;
    }
}
