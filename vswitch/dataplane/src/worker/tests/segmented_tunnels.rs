//! Packets in many segments, into tunnels and out of them; and those that have no headroom.

use super::segmented::{Pair, Watched, assert_right, difference, places, specs};
use super::tunnels::{returned, sum_header};
use crate::packet::L4;
use crate::packet::testing::Spec;
use vswitch_dpdk::Csum;
use vswitch_overlay::TunnelKind;

/// What comes back through a tunnel is what went in, whole and right.
#[test]
fn tunnels_take_and_give_packets_however_they_are_cut() {
    for kind in [TunnelKind::Geneve, TunnelKind::Vxlan, TunnelKind::Gre] {
        for (remote, cached) in [("1.1.2.92", false), ("1.1.2.92", true), ("fd00::92", false), ("fd00::92", true)] {
            for (csum, tracked) in [("true", false), ("false", true)] {
                let options = format!("remote_ip={remote} key=5 csum={csum}");
                let name = format!("{kind:?}, {options}, tracked={tracked}");
                let lines = if tracked {
                    &[
                        "in_port=2,ip,actions=ct(commit,zone=5,table=1)",
                        "in_port=2,ipv6,actions=ct(commit,zone=5,table=1)",
                        "in_port=4,ip,actions=ct(commit,zone=6,table=2)",
                        "in_port=4,ipv6,actions=ct(commit,zone=6,table=2)",
                        "table=1,actions=output:4",
                        "table=2,ip,ct_state=-inv+trk,actions=output:5",
                        "table=2,ipv6,ct_state=-inv+trk,actions=output:5",
                    ][..]
                } else {
                    &["in_port=2,actions=output:4"][..]
                };
                let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
                for spec in specs() {
                    through_and_back(&mut Pair::new(&name, &lines, (kind, &options), cached), &spec);
                }
            }
        }
    }
}

/// Into the tunnel, and what the peer would send back out of it.
fn through_and_back(pair: &mut Pair, spec: &Spec) {
    let (complete, len) = (spec.complete(), spec.end());
    for lengths in places(len) {
        for frame in [(complete.clone(), Csum::Unknown), (spec.partial(), Csum::Partial)] {
            let told = format!("{}, {len} bytes, {:?}, cut at {lengths:?}", pair.told, frame.1);
            let sent = pair.feed(2, &frame, &lengths);
            let [(1, outer)] = &sent[..] else { panic!("{told}: {}", difference(&sent, &[])) };
            assert!(outer.len() > len && outer.ends_with(&complete), "{told}: inside is another packet");
            if lengths.len() == 1 && lengths[0] % 10 == 0 {
                assert_right(&pair.whole.bed, outer, &told);
            }
            let outer = (returned(outer), Csum::Unknown);
            assert!(pair.feed(1, &outer, &lengths) == [(5, complete.clone())], "{told}: another one came out");
        }
    }
    assert_eq!((pair.whole.bed.died(), pair.cut.bed.died()), (vec![], vec![]), "{}", pair.told);
    pair.end();
}

/// What is too long for a tunnel is cut, or its sender told: the same, however it came.
#[test]
fn what_is_too_long_for_a_tunnel_is_cut_or_told_of_however_it_came() {
    for (kind, remote) in
        [(TunnelKind::Geneve, "1.1.2.92"), (TunnelKind::Vxlan, "fd00::92"), (TunnelKind::Gre, "fd00::92")]
    {
        for (v4, may_cut, cached) in
            [(true, true, true), (true, false, true), (false, false, true), (false, false, false)]
        {
            let spec = Spec::plain(v4, L4::Udp, 9040);
            let mut frame = (spec.complete(), Csum::Unknown);
            if may_cut {
                frame.0[20] = 0;
                sum_header(&mut frame.0);
            }
            let (name, options) =
                (format!("{kind:?} to {remote}, may_cut={may_cut}"), format!("remote_ip={remote} key=5"));
            let lines = ["in_port=2,actions=output:4".to_owned()];
            let mut pair = Pair::new(&name, &lines, (kind, &options), cached);
            for lengths in places(frame.0.len()) {
                let sent = pair.feed(2, &frame, &lengths);
                let ports: Vec<_> = sent.iter().map(|(port, _)| *port).collect();
                // After some, a sender is told no more.
                let told = ports == [5] || ports.is_empty() && lengths != [1];
                assert!(if may_cut { ports == [1, 1] } else { told }, "{name}, cut at {lengths:?}: sent by {ports:?}");
                sent.iter().for_each(|(_, sent)| assert_right(&pair.whole.bed, sent, &name));
            }
            pair.end();
        }
    }
}

/// Headers of tunnels, and tags in front of them, find room however little a packet brings along.
#[test]
fn headers_and_tags_find_room_however_little_headroom_there_is() {
    let frame = Spec::plain(true, L4::Udp, 200).complete();
    let ways: [&[&str]; 2] = [
        &["in_port=2,actions=output:4", "in_port=3,actions=push_vlan:0x88a8,push_vlan:0x8100,output:1"],
        &["in_port=2,ip,actions=ct(commit,zone=5,table=1)", "table=1,actions=output:4"],
    ];
    for ((kind, remote), lines) in
        [(TunnelKind::Geneve, "1.1.2.92"), (TunnelKind::Vxlan, "fd00::92"), (TunnelKind::Gre, "1.1.2.92")]
            .into_iter()
            .flat_map(|to| ways.map(|lines| (to, lines)))
    {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let mut watched = Watched::new(&lines, (kind, &format!("remote_ip={remote} key=5")), true);
        let mut first = None;
        for used in 0..=128 {
            let mut mbuf = watched.bed.pool.mbuf_from(&frame[used..]).expect("an mbuf");
            mbuf.prepend(used).expect("headroom").copy_from_slice(&frame[..used]);
            let (sent, _) = watched.feed(2, mbuf);
            let told = format!("{kind:?} to {remote}, {} bytes of headroom: {:?}", 128 - used, watched.bed.died());
            assert!(sent.len() == 1 && sent[0].1.ends_with(&frame), "{told}, {} sent", sent.len());
            assert!(*first.get_or_insert_with(|| sent.clone()) == sent, "{told}: another header");
        }
        assert_eq!(watched.bed.pool.in_use(), 0);
    }
}
