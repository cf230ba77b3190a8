//! Select groups: a packet takes the bucket that its hash and the group as it is say, and decisions
//! are as many as buckets.

use super::bed::{Bed, udp};
use crate::conntrack::Conntrack;
use crate::meter::Rates;
use crate::worker::Walk;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A group whose bucket `i` sends to port `i + 2`.
fn group(buckets: &[usize], method: &str) -> String {
    let bucket = |i: &usize| format!(",bucket=bucket_id:{i},actions=output:{}", i + 2);
    format!("group modify group_id=1,type=select{method}{}", buckets.iter().map(bucket).collect::<String>())
}

/// Datagrams of so many flows.
fn flows(many: u16) -> Vec<Vec<u8>> {
    (0..many).map(|flow| from(&udp(1, 2, 80), flow)).collect()
}

/// A datagram with another source port, and no checksum.
fn from(frame: &[u8], port: u16) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    frame[40..42].fill(0);
    frame
}

/// Where they leave, one by one.
fn ports(bed: &mut Bed, frames: &[Vec<u8>]) -> Vec<usize> {
    let port = |frame: &Vec<u8>| {
        bed.receive(1, frame);
        bed.ports()
    };
    frames.iter().flat_map(port).collect()
}

/// With caches as without, before and after each change of the group; and of a group that many
/// flows meet there are few decisions.
#[test]
fn decisions_are_as_many_as_buckets() {
    let frames = flows(500);
    let plain = ["priority=1,ip,actions=group:1"];
    let tracked = ["priority=1,ip,actions=ct(zone=1,table=1)", "table=1,priority=1,ct_state=+trk,ip,actions=group:1"];
    for (program, before) in [(&plain[..], 0), (&tracked[..], 1)] {
        for method in ["", ",selection_method=maglev"] {
            let (mut bed, mut without) = (Bed::new(6), Bed::new(6));
            without.shared.enable(false);
            for bed in [&mut bed, &mut without] {
                bed.program(&[&group(&[0, 1, 2, 3], method).replace("modify", "add")]);
                bed.program(program);
            }
            for buckets in [&[0, 1, 2, 3][..], &[0, 2, 3], &[3, 2, 0], &[0, 2, 3, 4], &[4]] {
                for bed in [&mut bed, &mut without] {
                    bed.program(&[&group(buckets, method)]);
                }
                let missed = bed.decided().2;
                for time in 0..2 {
                    let (one, other) = (ports(&mut bed, &frames), ports(&mut without, &frames));
                    assert_eq!(one.len(), frames.len());
                    assert_eq!(one, other, "{buckets:?} {method} {time}");
                }
                let missed = bed.decided().2 - missed;
                assert!(missed <= before + 1 + buckets.len() as u64, "{buckets:?} {method}: {missed} decisions");
            }
            assert_eq!(bed.counts(), without.counts(), "{method}");
        }
    }
}

/// What its packets meet behind the group is looked at like anything: a change there is seen by the
/// next packet.
#[test]
fn a_change_behind_the_choice_is_seen() {
    let mut bed = Bed::new(6);
    bed.program(&[
        "group add group_id=1,type=select,bucket=actions=load:1->NXM_NX_REG0[],resubmit(,1),bucket=actions=load:2->NXM_NX_REG0[],resubmit(,1)",
        "priority=1,ip,actions=group:1",
        "table=1,priority=1,reg0=1,actions=output:2",
        "table=1,priority=1,reg0=2,actions=output:3",
    ]);
    let frames = flows(64);
    let before = ports(&mut bed, &frames);
    assert!(before.contains(&2) && before.contains(&3));
    bed.program(&["table=1,priority=2,reg0=2,actions=output:4"]);
    let expected: Vec<usize> = before.iter().map(|port| if *port == 3 { 4 } else { *port }).collect();
    assert_eq!(ports(&mut bed, &frames), expected);
    // Conjunctions have their number where the choice stands.
    bed.program(&[
        "table=1,priority=3,reg0=1,actions=conjunction(1,1/2)",
        "table=1,priority=3,udp,tp_dst=80,actions=conjunction(1,2/2)",
        "table=1,priority=3,conj_id=1,ip,actions=output:5",
    ]);
    let expected: Vec<usize> = expected.iter().map(|port| if *port == 2 { 5 } else { *port }).collect();
    assert_eq!(ports(&mut bed, &frames), expected);
    bed.program(&["modify table=1,conj_id=1,ip,actions=output:6"]);
    let expected: Vec<usize> = expected.iter().map(|port| if *port == 5 { 6 } else { *port }).collect();
    assert_eq!(ports(&mut bed, &frames), expected);
}

/// A second group in the same decision, one whose bucket watches, and one behind a change of what
/// is hashed.
#[test]
fn other_choices_hang_on_the_packet() {
    let (mut bed, mut without) = (Bed::new(6), Bed::new(6));
    without.shared.enable(false);
    let frames = flows(300);
    for bed in [&mut bed, &mut without] {
        bed.program(&[
            "group add group_id=1,type=select,bucket=actions=group:2,bucket=actions=group:3,bucket=actions=mod_nw_dst:10.0.0.9,group:2",
            "group add group_id=2,type=select,bucket=actions=output:2,bucket=actions=output:3",
            "group add group_id=3,type=select,bucket=watch_port:4,actions=output:4,bucket=watch_port:5,actions=output:5",
            "priority=1,ip,actions=group:1,group:2",
        ]);
    }
    let (one, other) = (ports(&mut bed, &frames), ports(&mut without, &frames));
    assert_eq!(one, other);
    for bed in [&mut bed, &mut without] {
        bed.facts[3].link_up.store(false, std::sync::atomic::Ordering::Relaxed);
        bed.changes.link_changed();
    }
    let (one, other) = (ports(&mut bed, &frames), ports(&mut without, &frames));
    assert_eq!(one, other);
    assert!(!one.contains(&4) && one.contains(&5));
}

/// `cargo nextest run --cargo-profile fast -p vswitch-dataplane --no-default-features --run-ignored
/// only -E 'test(new_connections)' --no-capture`
#[test]
#[ignore = "measures"]
fn new_connections_per_second() {
    for (services, endpoints, method) in
        [(1000, 10, ""), (1000, 10, ",selection_method=maglev"), (1, 5000, ""), (1, 5000, ",selection_method=maglev")]
    {
        for budget in [Rates::NONE, Rates::default()] {
            measure(services, endpoints, method, budget);
        }
    }
}

/// Services behind `ct()`, with what a bucket leads to translated and committed: the stages of
/// Antrea's pipeline that new connections differ in.
fn measure(services: u32, endpoints: u32, method: &str, rates: Rates) {
    const CONNECTIONS: u32 = 400_000;
    let mut bed = Bed::limited(2, rates);
    let tracker = Conntrack::new(vswitch_conntrack::Config { connections_max: 1 << 19 });
    bed.walk = Walk::new(0, bed.pool.clone(), Arc::clone(&bed.shared), Arc::new(tracker), rates);
    bed.publish();
    let address = |number: u32| std::net::Ipv4Addr::from_bits(number).to_string();
    let mut lines = vec![
        "priority=1,ip,actions=ct(zone=1,table=1,nat)".to_owned(),
        "table=3,priority=1,ip,actions=output:2".to_owned(),
    ];
    let mut began = Instant::now();
    for service in 0..services {
        let endpoint = |i: u32| 0x0a64_0000 + service * endpoints + i;
        let bucket = |i: u32| format!(",bucket=bucket_id:{i},actions=load:{}->NXM_NX_REG3[],resubmit(,2)", endpoint(i));
        let buckets: String = (0..endpoints).map(bucket).collect();
        lines.push(format!("group add group_id={service},type=select{method}{buckets}"));
        lines.push(format!(
            "table=1,priority=1,ct_state=+new+trk,udp,nw_dst={},tp_dst=80,actions=group:{service}",
            address(0x0a60_0000 + service)
        ));
        lines.extend((0..endpoints).map(|i| {
            format!(
                "table=2,priority=1,udp,reg3={},actions=ct(commit,zone=1,table=3,nat(dst={}:8080))",
                endpoint(i),
                address(endpoint(i))
            )
        }));
    }
    bed.program(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    println!("{services} x {endpoints}{method}, {rates:?}: programmed in {:?}", began.elapsed());
    let frame = |i: u32| {
        let mut frame = from(&udp(1, 2, 80), u16::try_from(i % 50_000 + 1024).expect("a port"));
        let destination = 0x0a60_0000 + i % services;
        frame[26..30].copy_from_slice(&(0x0a0a_0000 + i / 50_000).to_be_bytes());
        frame[30..34].copy_from_slice(&destination.to_be_bytes());
        frame[24..26].fill(0);
        let sum: u32 = frame[14..34].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let folded = u16::try_from((sum & 0xffff) + (sum >> 16)).expect("folded");
        frame[24..26].copy_from_slice(&(!folded).to_be_bytes());
        frame
    };
    let (mut busy, mut passed, mut missed) = (Duration::ZERO, 0, bed.decided().2);
    for batch in 0..CONNECTIONS / 50_000 {
        let frames: Vec<Vec<u8>> = (0..50_000).map(|i| frame(batch * 50_000 + i)).collect();
        began = Instant::now();
        for part in frames.chunks(500) {
            // At 100,000 per second.
            bed.now.0 += 5;
            bed.receive_in(1, part, 32);
        }
        let took = began.elapsed();
        busy += took;
        let now = bed.sent().len();
        passed += now;
        let decided = bed.decided().2;
        println!(
            "  50,000 connections: {took:?}, {now} passed, {} decided anew, {} kept",
            decided - missed,
            bed.shared.stats.megaflows.get()
        );
        missed = decided;
        bed.walk.maintain(bed.now);
    }
    println!(
        "  {:.0} connections per second of one core, {passed} of {CONNECTIONS} passed at 100,000 per second",
        f64::from(CONNECTIONS) / busy.as_secs_f64()
    );
}
