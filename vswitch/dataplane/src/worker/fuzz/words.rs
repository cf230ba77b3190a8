//! Words of programs that meet each other, and packets that meet them.

use crate::worker::bed::{tcp, udp};

/// What flows match.
pub(in crate::worker) const MATCHES: &[&str] = &[
    "",
    "",
    "ip",
    "tcp",
    "udp",
    "arp",
    "ipv6",
    "icmp",
    "in_port=1",
    "in_port=2",
    "tcp,tp_dst=80",
    "tcp,tp_dst=0x40/0xffc0",
    "udp,tp_dst=53",
    "tcp,tcp_flags=+syn-ack",
    "tcp,tcp_flags=+fin",
    "ip,nw_src=10.0.0.0/30",
    "ip,nw_src=0.0.0.1/0.0.0.1",
    "ip,nw_dst=10.0.0.2",
    "ip,nw_ttl=64",
    "ip,nw_tos=4",
    "ip,nw_frag=no",
    "ip,nw_frag=later",
    "dl_src=02:00:00:00:00:01",
    "dl_dst=02:00:00:00:00:00/fe:ff:ff:ff:ff:00",
    "dl_vlan=5",
    "vlan_tci=0",
    "ip,dl_vlan=5",
    "tcp,dl_vlan=5",
    "reg0=0",
    "reg0=1/1",
    "tcp,reg0=2/2",
    "metadata=1",
    "ip,conj_id=1",
    "tcp6,ipv6_src=fd00::/16",
    "udp6",
    "arp,arp_op=1",
    "ip,ct_state=-trk",
    "ip,ct_state=+new+trk",
    "ip,ct_state=+est+trk",
    "ip,ct_state=+rpl+trk",
    "ip,ct_state=+inv+trk",
    "ip,ct_state=+trk-inv,ct_mark=1",
    "ip,ct_state=+dnat",
    "ip,ct_zone=1",
    "ip,ct_label=0x10/0x10",
    "ip,ct_state=+est,ct_nw_src=10.0.0.1",
    "udp,ct_state=+trk-inv,ct_tp_dst=53",
    "ipv6,ct_state=+new",
];

/// What flows do.
pub(in crate::worker) const ACTIONS: &[&str] = &[
    "output:1",
    "output:2",
    "output:3",
    "output:4",
    "IN_PORT",
    "FLOOD",
    "ALL",
    "NORMAL",
    "NORMAL",
    "resubmit(,1)",
    "resubmit(,2)",
    "resubmit(,3)",
    "resubmit(2,1)",
    "set_field:1->reg0",
    "set_field:2/2->reg0",
    "set_field:1->metadata",
    "set_field:10.9.8.7->ip_src",
    "set_field:0.0.0.5/0.0.0.255->ip_dst",
    "set_field:9->tcp_dst",
    "set_field:9->udp_src",
    "set_field:02:00:00:00:00:03->eth_dst",
    "set_field:02:00:00:00:00:04/00:00:00:00:00:ff->eth_src",
    "set_field:fd00::9->ipv6_dst",
    "mod_nw_ttl:5",
    "dec_ttl",
    "mod_nw_tos:8",
    "push_vlan:0x8100",
    "mod_vlan_vid:5",
    "mod_vlan_pcp:3",
    "strip_vlan",
    "move:NXM_OF_IP_SRC[]->NXM_NX_REG1[]",
    "move:NXM_OF_ETH_SRC[0..15]->NXM_NX_REG0[0..15]",
    "move:NXM_NX_REG0[]->NXM_NX_REG2[]",
    "output:NXM_NX_REG0[]",
    "push:NXM_OF_IN_PORT[],pop:NXM_NX_REG0[0..15]",
    "learn(table=3,priority=40,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])",
    "learn(table=2,hard_timeout=5,idle_timeout=3,NXM_OF_IN_PORT[],load:1->NXM_NX_REG0[])",
    "learn(table=3,limit=2,result_dst=NXM_NX_REG0[1],priority=41,NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])",
    "learn(table=1,fin_idle_timeout=2,idle_timeout=9,priority=4,dl_type=0x800,NXM_OF_IP_SRC[])",
    "fin_timeout(idle_timeout=1)",
    "group:1",
    "group:2",
    "group:3",
    "clone(set_field:7->ip_dscp,output:4)",
    "clone(dec_ttl,resubmit(,3))",
    "check_pkt_larger(60)->NXM_NX_REG0[0],resubmit(,2)",
    "controller(max_len=20)",
    "controller(userdata=01,id=0)",
    "multipath(symmetric_l4,1,modulo_n,2,0,NXM_NX_REG0[0..1])",
    "bundle(symmetric_l4,0,hrw,ofport,slaves:2,3)",
    "exit",
    "note:01",
    "write_actions(output:3)",
    "output(port=4,max_len=40)",
    "ct(table=1)",
    "ct(table=2)",
    "ct(zone=1,table=1)",
    "ct(commit,table=2)",
    "ct(commit,zone=1,table=3,exec(load:1->NXM_NX_CT_MARK[]))",
    "ct(commit,exec(move:NXM_OF_IP_SRC[]->NXM_NX_CT_LABEL[0..31]))",
    "ct(commit,table=1,nat(src=10.0.0.9))",
    "ct(commit,zone=1,table=2,nat(dst=10.0.0.3:99))",
    "ct(table=3,nat)",
    "ct(zone=1,table=3,nat)",
    "ct(commit,force,zone=1)",
    "ct_clear",
    "ct_forget",
    "ct(commit,zone=1,table=2),ct_forget",
    "ct(commit,zone=1,table=2,exec(load:3->NXM_NX_CT_LABEL[0..31])),ct(commit,zone=1,exec(load:4->NXM_NX_CT_LABEL[0..31]))",
    "reject(IN_PORT)",
    "move:NXM_NX_CT_MARK[]->NXM_NX_REG0[]",
    "resubmit(,2,ct)",
    "drop",
];

/// Changes of groups; the first three make them.
pub(in crate::worker) const GROUPS: &[&str] = &[
    "group add group_id=1,type=all,bucket=output:2,bucket=mod_nw_ttl:3,output:3",
    "group add group_id=2,type=select,bucket=weight=1,output:2,bucket=weight=2,output:3",
    "group add group_id=3,type=fast_failover,bucket=watch_port=2,output:2,bucket=watch_port=3,output:3",
    "group modify group_id=1,type=all,bucket=output:4",
    "group modify group_id=2,type=select,bucket=weight=2,resubmit(,3),bucket=weight=2,dec_ttl,output:3",
    "group delete group_id=2",
    "group modify group_id=3,type=fast_failover,bucket=watch_port=3,output:3,bucket=watch_port=2,output:4",
];

/// Packets of all kinds: plain ones, and those that the exact-match cache has nothing to do with.
pub(in crate::worker) fn packets() -> Vec<Vec<u8>> {
    let change = |packet: &[u8], at: usize, bytes: &[u8]| {
        let mut packet = packet.to_vec();
        packet[at..at + bytes.len()].copy_from_slice(bytes);
        packet
    };
    let tag = |packet: &[u8], tag: &[u8]| [&packet[..12], tag, &packet[12..]].concat();
    let (web, dns) = (tcp(1, 2, 80), udp(1, 2, 53));
    let v6 = |next: u8, rest: &[u8]| {
        let mut packet =
            [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0][..], &[20, next, 64]].concat();
        packet.extend_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        packet.extend_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        packet.extend_from_slice(rest);
        packet.resize(80, 7);
        packet
    };
    // Sums do not mind the order of what they sum up.
    let answer = |packet: &[u8]| {
        let part = |from: usize, len: usize| &packet[from..from + len];
        [part(6, 6), part(0, 6), part(12, 14), part(30, 4), part(26, 4), part(36, 2), part(34, 2), &packet[38..]]
            .concat()
    };
    let v6_tcp = [&[0, 9, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10][..], &[0; 6]].concat();
    let mut all = vec![
        web.clone(),
        dns.clone(),
        tcp(2, 1, 80),
        tcp(3, 4, 443),
        tcp(4, 1, 64),
        udp(2, 3, 53),
        udp(3, 1, 1),
        answer(&web),
        answer(&dns),
        answer(&udp(3, 1, 1)),
        change(&web, 47, &[0x02]),       // SYN
        change(&web, 47, &[0x11]),       // FIN
        change(&web, 46, &[0xf0]),       // data offset beyond the packet
        change(&web, 22, &[1]),          // TTL 1
        change(&web, 15, &[4]),          // TOS
        change(&web, 20, &[0x20, 0]),    // first fragment
        change(&web, 20, &[0, 9]),       // later fragment
        change(&web, 14, &[0x44]),       // bad header length
        change(&web, 16, &[0xff, 0xff]), // bad total length
        change(&dns, 40, &[0, 0]),       // no checksum
        change(&dns, 23, &[1, 0, 0]),    // ICMP
        change(&dns, 23, &[132]),        // SCTP
        change(&dns, 23, &[47]),         // GRE
        tag(&web, &[0x81, 0, 0, 5]),
        tag(&dns, &[0x81, 0, 0x60, 5]),
        tag(&dns, &[0x88, 0xa8, 0, 6]),
        tag(&tag(&web, &[0x81, 0, 0, 6]), &[0x88, 0xa8, 0, 5]),
        v6(6, &v6_tcp),
        v6(17, &[0, 9, 0, 53, 0, 20, 1, 1]),
        v6(58, &[128, 0, 1, 1, 0, 1, 0, 1]),
        v6(58, &[135, 0, 1, 1, 0, 0, 0, 0]),
        v6(0, &[6, 0, 1, 4, 0, 0, 0, 0]),
        [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[1; 20], &[0; 18]].concat(),
        [&[1, 0x80, 0xc2, 0, 0, 0][..], &[2, 0, 0, 0, 0, 1, 0, 3], &[0x42; 46]].concat(),
        [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5][..]].concat(),
    ];
    all.push(web[..42].to_vec());
    all.push(dns[..42].to_vec());
    all.push(dns[..30].to_vec());
    all
}
