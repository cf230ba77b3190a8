//! Flags of VTEPs and of tunnel ports, and packets that are cut before they come out: port 1 is the
//! uplink, 2 a host, 3 the VTEP, 4 a tunnel.

use super::bed::{Bed, udp};
use super::tunnels::{from_peer, from_peer_by};
use crate::observe::DropReason;
use crate::pipeline::PortFacts;
use vswitch_overlay::TunnelKind;

fn bed(flows: &[&str]) -> Bed {
    let mut bed = Bed::new(4);
    bed.add_tunnels(2, &[(3, TunnelKind::Geneve, "remote_ip=1.1.2.92 key=5")]);
    bed.knows_peer();
    bed.program(flows);
    bed
}

/// Where packets were lost, and why.
fn died(bed: &Bed) -> Vec<&'static str> {
    let of = |port: usize| {
        let totals = bed.totals(port);
        let lost = move |reason: DropReason| totals.rx_drops[reason.index()] + totals.tx_drops[reason.index()];
        DropReason::ALL.iter().filter(move |reason| lost(**reason) > 0).map(|reason| reason.name())
    };
    (1..=4).flat_map(of).collect()
}

/// What Open vSwitch does, by its userspace datapath: a VTEP that is down or takes nothing still
/// lets packets out of tunnels, one that forwards nothing does not. (It also still sends through a
/// VTEP that is down, by routes that were added by hand; those of the kernel have gone with the
/// device then. Ours go.)
#[test]
fn flags_of_homes_and_tunnels_say_what_goes_through() {
    const FLOWS: [&str; 4] = [
        "priority=9,in_port=2,actions=output:4",
        "priority=9,in_port=3,actions=output:1",
        "priority=9,in_port=1,actions=output:3",
        "priority=9,in_port=4,actions=output:2",
    ];
    type Change = fn(&mut PortFacts);
    let down: Change = |facts| facts.admin_up = false;
    let no_receive: Change = |facts| facts.no_receive = true;
    let no_forward: Change = |facts| facts.no_forward = true;
    for (what, port, change, out, inside) in [
        ("a VTEP that is down", 3, down, None, Some("admin_down")),
        ("a VTEP that takes nothing", 3, no_receive, None, Some("no_receive")),
        ("a VTEP that forwards nothing", 3, no_forward, Some("no_forward"), None),
        ("a tunnel that takes nothing", 4, no_receive, Some("no_receive"), None),
        ("a tunnel that forwards nothing", 4, no_forward, None, Some("no_forward")),
    ] {
        for (way, from, to, lost) in [("out of a tunnel", 1, 2, out), ("into a tunnel", 2, 1, inside)] {
            let mut bed = bed(&FLOWS);
            change(&mut bed.facts[port - 1]);
            bed.publish();
            for _ in 0..2 {
                let frame = if from == 1 { from_peer(&udp(1, 2, 53), (5, 0, 64)) } else { udp(1, 2, 53) };
                bed.receive(from, &frame);
                let expected = if lost.is_none() { vec![to] } else { vec![] };
                assert_eq!(bed.ports(), expected, "{what}, {way}; lost by {:?}", died(&bed));
            }
            assert_eq!((died(&bed), bed.pool.in_use()), (lost.into_iter().collect(), 0), "{what}, {way}");
        }
    }
}

/// `output(port=VTEP,max_len=N)` cuts the packet first: what is missing of it then makes it
/// malformed, in Open vSwitch, too.
#[test]
fn what_is_cut_before_it_comes_out_is_malformed() {
    let packet = from_peer(&udp(1, 2, 53), (5, 0, 64));
    let len = packet.len();
    // Bytes behind the outer packet, as of a frame that was padded.
    let padded = [&packet[..], &[0; 6]].concat();
    for (max, whole) in [(14, false), (60, false), (len - 1, false), (len, true), (len + 3, true), (1500, true)] {
        let flows =
            [format!("in_port=1,actions=output(port=3,max_len={max})"), "in_port=4,actions=output:2".to_owned()];
        let mut bed = bed(&flows.each_ref().map(String::as_str));
        for _ in 0..3 {
            bed.receive(1, &padded);
            let (expected, lost) =
                if whole { (vec![(2, udp(1, 2, 53))], vec![]) } else { (vec![], vec!["tunnel_header"]) };
            assert_eq!((bed.sent(), died(&bed)), (expected, lost), "max_len={max} of {len} and 6 bytes");
        }
        assert_eq!(bed.pool.in_use(), 0, "max_len={max}");
    }
}

/// P26. Whoever is not of the underlay brings nothing out of our tunnels, not by what others have
/// opened either; what is not for them he may send.
#[test]
fn what_a_pod_sends_to_our_end_of_tunnels_is_dropped_by_name() {
    for (cached, kind) in
        [(true, TunnelKind::Geneve), (false, TunnelKind::Geneve), (true, TunnelKind::Vxlan), (true, TunnelKind::Gre)]
    {
        for track in [false, true] {
            let mut bed = Bed::new(5);
            bed.shared.enable(cached);
            bed.add_tunnels(2, &[(3, kind, "remote_ip=1.1.2.92 key=5")]);
            bed.knows_peer();
            let actions = if track { "ct(table=1,zone=7)" } else { "goto_table:1" };
            let entrance = format!("priority=9,ip,actions={actions}");
            let flows = [&entrance[..], "priority=99,in_port=4,actions=output:5", "table=1,actions=output:3"];
            bed.program(&flows);
            let packet = from_peer_by((kind, false), &udp(1, 2, 53), (5, 0, 64));
            let burst = vec![packet.clone(); 4];
            let what = format!("{kind:?}, cached={cached}, ct={track}");
            for round in 0..3 {
                bed.receive_in(1, &burst, 4);
                assert_eq!(bed.ports(), [5; 4], "{what}, round {round}: the underlay's");
            }
            bed.facts[1].underlay = false;
            bed.publish();
            for round in 0..3 {
                bed.receive_in(1, &burst, 4);
                assert_eq!(bed.ports(), [5; 4], "{what}, round {round}: the underlay's, again");
                bed.receive_in(2, &burst, 4);
                assert_eq!(bed.ports(), [0; 0], "{what}, round {round}: a Pod's");
            }
            let dropped = bed.totals(2).rx_drops[DropReason::SpoofVtep.index()];
            assert_eq!((dropped, died(&bed)), (12, vec!["spoof_vtep"]), "{what}");
            bed.receive(2, &udp(1, 2, 53));
            assert_eq!(bed.ports(), [3], "{what}: a packet for nobody's tunnel");
            // The port that was of the underlay is not any more.
            bed.facts[0].underlay = false;
            bed.publish();
            bed.receive_in(1, &burst, 4);
            assert_eq!((bed.ports(), bed.pool.in_use()), (vec![], 0), "{what}: what was opened is shut");
        }
    }
}
