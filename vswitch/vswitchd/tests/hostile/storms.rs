//! P35: every packet is of a new kind, asks for a controller, teaches. What a port may cause is
//! bounded, and others do not pay for it.

use crate::bed::{BRIDGE, Bed};
use vswitch_proto::v1;
use vswitch_proto::v1::packet_service_client::PacketServiceClient;

/// Per second; a fifth of it may come at once.
const RATES: &str = "[slow_path]\nmisses = 400\npacket_ins = 50\nlearns = 100\n\n";

/// A UDP packet whose source port names who sent it, and which one it is.
fn udp(port: u8, number: u8) -> Vec<u8> {
    crate::bed::udp(u16::from_be_bytes([port, number]))
}

fn dropped(bed: &Bed, port: &str, reason: &str) -> u64 {
    bed.drops(BRIDGE, port).get(reason).copied().unwrap_or(0)
}

/// Every source port is a kind of its own. One port brings 200 of them, the other one, packet by
/// packet between them, 40.
#[test]
fn a_storm_of_misses_costs_others_nothing() {
    let mut bed = Bed::with(3, "", RATES);
    bed.add(&["udp,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],output:3"]);
    let mut passed = [0; 2];
    for i in 0..200 {
        passed[0] += bed.ports("p1", &udp(1, i)).len();
        if i % 5 == 0 {
            passed[1] += bed.ports("p2", &udp(2, i)).len();
        }
    }
    assert_eq!(passed, [80, 40]);
    assert_eq!((dropped(&bed, "p1", "miss_rate"), dropped(&bed, "p2", "miss_rate")), (120, 0));
    // What is known passes, and as time goes on, more becomes known.
    assert_eq!(bed.ports("p1", &udp(1, 0)), ["p3"]);
    bed.warp(50);
    let passed: usize = (100..200).map(|i| bed.ports("p1", &udp(1, i)).len()).sum();
    assert_eq!((passed, dropped(&bed, "p1", "miss_rate")), (20, 200));
    let shown = bed.vsctl("dump-ports", &[], None).expect("ports");
    assert!(shown.contains("miss_rate=200"), "{shown}");
    bed.settle();
}

/// Controllers and learned flows: the packets themselves go on.
#[test]
fn storms_of_packet_ins_and_learning_lose_no_packets() {
    let mut bed = Bed::with(3, "", RATES);
    bed.add(&[
        "udp,actions=controller(id=7),learn(table=1,cookie=0x5,eth_type=0x800,nw_proto=17,NXM_OF_UDP_SRC[]),output:3",
    ]);
    let request = v1::WatchPacketInsRequest { bridge: BRIDGE.to_owned(), controller_id: 7, ..Default::default() };
    let stream = bed.wait(PacketServiceClient::new(bed.channel()).watch_packet_ins(request)).expect("packet-ins");
    for i in 0..60 {
        assert_eq!(bed.ports("p1", &udp(1, i)), ["p3"]);
        assert!(i >= 5 || bed.ports("p2", &udp(2, i)) == ["p3"]);
    }
    let reasons = ["miss_rate", "packet_in_rate", "learn_rate"];
    assert_eq!(reasons.map(|reason| dropped(&bed, "p1", reason)), [0, 50, 40], "p1");
    assert_eq!(reasons.map(|reason| dropped(&bed, "p2", reason)), [0, 0, 0], "p2");
    let sums = bed.switch.json(&["dump-aggregate", BRIDGE, "table=1,cookie=0x5/-1"]);
    assert_eq!(crate::common::number(&sums, "flows"), 25);
    drop(stream);
    bed.settle();
}
