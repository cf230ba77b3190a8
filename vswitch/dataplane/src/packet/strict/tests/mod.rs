//! Packets that a strict port refuses, packets that it lets pass, and what rules see of both by
//! default.

mod cases;
mod properties;

use super::check;
use vswitch_dpdk::{Mbuf, Mempool};
use vswitch_flow::FlowKey;
use vswitch_flow::extract::extract;
use vswitch_flow::text::{NoNames, Style, format_key};

/// Why a strict port refuses the packet; "-": it does not.
fn verdict(mbuf: &Mbuf) -> &'static str {
    check(mbuf).map_or("-", crate::observe::DropReason::name)
}

/// The same for a frame in one piece.
fn verdict_of(frame: &[u8]) -> &'static str {
    let pool = Mempool::for_tests(64);
    verdict(&pool.mbuf_from(frame).expect("the pool is large enough"))
}

/// What rules see of a frame, without what is the same in most cases.
fn fields(frame: &[u8]) -> String {
    let mut key = FlowKey::default();
    let _ = extract(frame, frame.len(), &mut key);
    let mut out = String::new();
    format_key(&key, Style::default(), &NoNames, &mut out);
    for (long, short) in [
        ("dl_src=00:00:00:00:00:01,dl_dst=00:00:00:00:00:02", ""),
        ("vlan_tci=0x0000,", ""),
        ("nw_src=0.0.0.0,nw_dst=0.0.0.0,nw_proto=0,nw_tos=0,nw_ecn=0,nw_ttl=0,nw_frag=no", "ZEROS"),
        ("ipv6_src=::,ipv6_dst=::,ipv6_label=0x00000,nw_proto=0,nw_tos=0,nw_ecn=0,nw_ttl=0,nw_frag=no", "ZEROS"),
        ("arp_spa=0.0.0.0,arp_tpa=0.0.0.0,arp_op=0,arp_sha=00:00:00:00:00:00,arp_tha=00:00:00:00:00:00", "ZEROS"),
        ("nw_src=10.0.0.1,nw_dst=10.0.0.2", "IPS"),
        ("ipv6_src=2001:db8::1,ipv6_dst=2001:db8::2", "IPS"),
        (",ipv6_label=0x00000", ""),
        (",nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=no", ""),
        (",,", ","),
    ] {
        out = out.replace(long, short);
    }
    out.trim_matches(',').to_owned()
}
