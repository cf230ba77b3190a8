//! Packets for controllers: who limits them, and what became of them by controller id.

use super::bed::{Bed, udp};
use crate::meter::Rates;
use crate::observe::DropReason;
use crate::pipeline::{Fate, Interest};
use crate::time::Millis;

const PACKETS: u64 = 100;

/// A port may have ten packets for controllers per second, two of them at once; the meter lets 40
/// pass.
const FLOWS: [&str; 12] = [
    "meter add meter=1,pktps,bands=type=drop,rate=40",
    "meter add meter=2,kbps,bands=type=drop,rate=1000000",
    "meter add meter=3,pktps,bands=type=dscp_remark,prec_level=1,rate=40",
    "meter add meter=4,pktps,bands=type=drop,rate=20,type=dscp_remark,prec_level=1,rate=40",
    "udp,tp_dst=10,actions=controller(id=10)",
    "udp,tp_dst=11,actions=meter:1,controller(id=11)",
    "udp,tp_dst=12,actions=controller(id=12,meter_id=1)",
    "udp,tp_dst=13,actions=meter:1,controller(id=13,pause),output:2",
    "udp,tp_dst=14,actions=meter:2,set_field:1->reg0,controller(id=14)",
    "udp,tp_dst=15,actions=meter:3,controller(id=15)",
    "udp,tp_dst=16,actions=meter:4,controller(id=16)",
    "udp,tp_dst=17,actions=meter:1,resubmit(,1)",
];

fn bed(cache: bool) -> Bed {
    let mut bed = Bed::limited(2, Rates { packet_ins: 10, ..Rates::NONE });
    bed.shared.enable(cache);
    bed.program(&FLOWS);
    bed.program(&["table=1,actions=controller(id=17)"]);
    bed
}

/// Packets of a kind as they were told, lost, metered, limited.
fn told(bed: &mut Bed, controller: u16) -> [u64; 4] {
    (0..PACKETS).for_each(|_| bed.receive(1, &udp(1, 2, controller)));
    let infos = bed.packet_ins.controllers();
    let info = infos.iter().find(|info| info.controller == controller).expect("counted");
    assert_eq!(info.subscribers, 1);
    info.packets
}

#[test]
fn what_a_meter_lets_pass_is_not_charged_to_its_port() {
    for cache in [true, false] {
        for (controller, want) in [
            (10, [2, 0, 0, 98]),
            (11, [40, 0, 60, 0]),
            (12, [40, 0, 60, 0]),
            (13, [40, 0, 60, 0]),
            (14, [100, 0, 0, 0]),
            // It drops nothing, or not what is most.
            (15, [2, 0, 0, 98]),
            (16, [2, 0, 20, 78]),
            // Of another list: what it is for nobody knows.
            (17, [2, 0, 60, 38]),
        ] {
            let mut bed = bed(cache);
            let _watched = bed.packet_ins.subscribe(Interest::of(controller)).expect("room");
            assert_eq!(told(&mut bed, controller), want, "cache {cache}, controller {controller}");
            let drops = bed.totals(1).rx_drops;
            assert_eq!(drops[DropReason::PacketInRate.index()], want[Fate::Limited as usize]);
            assert_eq!(drops[DropReason::Meter.index()], want[Fate::Metered as usize], "controller {controller}");
        }
    }
}

/// Packets that a meter let pass leave the port's budget to others.
#[test]
fn the_budget_is_for_what_no_meter_limits() {
    let mut bed = bed(true);
    let _watched = [10, 11].map(|id| bed.packet_ins.subscribe(Interest::of(id)).expect("room"));
    assert_eq!(told(&mut bed, 11)[0], 40);
    assert_eq!(told(&mut bed, 10), [2, 0, 0, 98], "all of it is there");
    bed.now = Millis(bed.now.0 + 1000);
    assert_eq!(told(&mut bed, 10)[0], 4);
}

#[test]
fn what_nobody_reads_in_time_is_lost_and_what_nobody_watches_is_nothing() {
    let mut bed = bed(true);
    let watched = bed.packet_ins.subscribe(Interest::of(14)).expect("room");
    let rounds = crate::limits::PACKET_INS_QUEUED as u64 / PACKETS + 1;
    let mut last = [0; 4];
    (0..rounds).for_each(|_| last = told(&mut bed, 14));
    assert_eq!(last[0], crate::limits::PACKET_INS_QUEUED as u64);
    assert_eq!(last[0] + last[1], rounds * PACKETS);
    drop(watched);
    bed.receive(1, &udp(1, 2, 14));
    bed.receive(1, &udp(1, 2, 10));
    (0..PACKETS).for_each(|packet| bed.receive(1, &udp(1, 2, if packet % 2 == 0 { 11 } else { 12 })));
    let infos = bed.packet_ins.controllers();
    assert_eq!((infos.len(), infos[0].subscribers, infos[0].packets), (1, 0, last));
}
