//! Programs that cannot be: refused with the place, the reason and what to do instead, and nothing
//! has changed.

use crate::bed::Bed;
use vswitch_proto::v1;

fn check(bed: &Bed, cases: &[(&str, &str)]) {
    bed.load(&["priority=7,in_port=2,actions=output:1"]);
    let before = bed.dump();
    let mut wrong = Vec::new();
    for (line, wanted) in cases {
        // A good line before it, so that its number is not 1.
        let told = bed.refused(&["priority=8,in_port=2,actions=output:1", line]);
        if told != format!("vsctl: -:2: {wanted}") {
            wrong.push(format!("{line}\n  {told}\n  not {wanted}"));
        }
        assert!(bed.dump() == before, "{line}: something has changed");
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// T01: a goto can only go on: a cycle of gotos cannot be written. Missing groups and meters,
/// wherever they are named.
#[test]
fn gotos_backwards_and_missing_groups_and_meters() {
    let group = "OFPBAC_BAD_OUT_GROUP: group 7 does not exist; add it in the same transaction, or before";
    check(
        &Bed::new(2),
        &[
            (
                "table=3,actions=goto_table:2",
                "column 17: OFPBIC_BAD_TABLE_ID: goto_table:2 in table 3: it only goes to later tables; resubmit goes anywhere",
            ),
            (
                "table=3,actions=goto_table:3",
                "column 17: OFPBIC_BAD_TABLE_ID: goto_table:3 in table 3: it only goes to later tables; resubmit goes anywhere",
            ),
            ("table=3,actions=goto_table:254", "column 28: \"254\" is no table; a number from 0 to 253"),
            (
                "table=254,actions=drop",
                "column 7: OFPBRC_EPERM: table 254 is not for flows: tables are 0 to 253; a number from 0 to 253, or a table's name",
            ),
            ("actions=resubmit(,254)", "column 19: \"254\" is no table; a number from 0 to 253"),
            ("actions=group:7", group),
            ("actions=output:1,clone(output:2,clone(group:7))", group),
            ("actions=write_actions(group:7)", group),
            (
                "actions=meter:7",
                "OFPMMFC_INVALID_METER: meter 7 does not exist; add it in the same transaction, or before",
            ),
            ("actions=output:1,meter:7", "column 18: OFPBAC_UNSUPPORTED_ORDER: meter must come before actions"),
        ],
    );
}

/// Fields that are not there, values that do not fit.
#[test]
fn missing_prerequisites_and_values_that_do_not_fit() {
    let tcp = "OFPBAC_MATCH_INCONSISTENT: tcp_dst is only there in a flow that matches tcp or tcp6";
    check(
        &Bed::new(2),
        &[
            ("actions=set_field:80->tcp_dst", &format!("column 9: {tcp}")),
            ("udp,actions=output:1,set_field:80->tcp_dst", &format!("column 22: {tcp}")),
            (
                "arp,actions=dec_ttl",
                "column 13: OFPBAC_MATCH_INCONSISTENT: a TTL is only there in a flow that matches ip or ipv6",
            ),
            (
                "actions=move:NXM_OF_IP_SRC[]->NXM_NX_REG0[]",
                "column 9: OFPBAC_MATCH_INCONSISTENT: ip_src is only there in a flow that matches ip",
            ),
            (
                "actions=push:NXM_NX_ND_TARGET[]",
                "column 9: OFPBAC_MATCH_INCONSISTENT: nd_target is only there in a flow that matches icmp6,icmpv6_type=135 or 136,icmpv6_code=0",
            ),
            (
                "actions=pop_vlan",
                "column 9: OFPBAC_MATCH_INCONSISTENT: pop_vlan needs a packet with a tag: match dl_vlan=N or vlan_tci=0x1000/0x1000, or push_vlan before",
            ),
            (
                "actions=set_field:0x12/0x01->reg0",
                "column 19: OFPBMC_BAD_WILDCARDS: set_field: value 0x12 of reg0 has bits outside of its mask 0x1; clear them, or widen the mask",
            ),
            (
                "ip,actions=set_field:10.0.0.5/24->ip_dst",
                "column 22: OFPBMC_BAD_WILDCARDS: set_field: value 0xa000005 of ip_dst has bits outside of its mask 0xffffff00; clear them, or widen the mask",
            ),
            (
                "actions=set_field:0x123456789->reg0",
                "column 19: 0x123456789 is too large for reg0; reg0 has 32 bits: 0 to 0xffffffff",
            ),
            (
                "actions=load:0x10->NXM_NX_REG0[0..3]",
                "column 14: OFPBAC_BAD_ARGUMENT: \"0x10\" does not fit into 4 bits; at most 0xf",
            ),
            (
                "actions=move:NXM_NX_REG0[]->NXM_OF_ETH_SRC[]",
                "column 14: OFPBAC_BAD_ARGUMENT: 32 bits do not fit into 48 bits: they must be as many; give as many bits on both sides: reg0[0..15]->reg1[0..15]",
            ),
            (
                "tcp,tp_dst=80000,actions=drop",
                "column 12: 80000 is too large for tcp_dst; tcp_dst has 16 bits: 0 to 0xffff",
            ),
            ("actions=conjunction(1,3/2)", "column 21: clause 3 of 2; clauses count from 1 to 2"),
            ("nw_sr=10.0.0.1,actions=drop", "column 1: there is no field or keyword \"nw_sr\"; did you mean nw_src?"),
        ],
    );
}

/// T03: lists that no packet could follow. (10,000 outputs would fit no OpenFlow message; 4,090
/// do.)
#[test]
fn lists_that_are_too_long_or_make_no_sense() {
    let outputs = format!("actions={}", vec!["output:1"; 10_000].join(","));
    let nested = format!("actions={}output:1{}", "clone(".repeat(200), ")".repeat(200));
    let pushes = format!("actions={}", vec!["push_vlan:0x8100"; 100].join(","));
    let members = format!("actions=bundle(eth_src,0,hrw,ofport,members:{})", vec!["1"; 3000].join(","));
    let too_many = vec!["output:1"; 5000].join(",");
    let too_long = "OFPBRC_BAD_LEN: the list is longer than 65471 bytes of OpenFlow, about 4,090 actions";
    // Where 16 bytes for each are too many; where reading ends, since no action takes less than 8.
    let (at, end) = (9 + 9 * (65_471 / 16), 9 + 9 * (65_471 / 8));
    check(
        &Bed::new(2),
        &[
            (&format!("actions={too_many}"), &format!("column {at}: {too_long}")),
            (&outputs, &format!("column {end}: {too_long}; resubmit to a table")),
            (
                &nested,
                "column 201: OFPBAC_BAD_ARGUMENT: actions are nested more than 32 levels deep; resubmit to a table instead",
            ),
            (&pushes, "column 43: OFPBAC_BAD_TAG: a packet has two VLAN tags at most"),
            (&members, "column 16: OFPBAC_BAD_ARGUMENT: a bundle has at most 2048 members, not 3000"),
            (
                "actions=push_vlan:0x1234",
                "column 19: OFPBAC_BAD_ARGUMENT: 0x1234 is no VLAN tag's type; 0x8100 or 0x88a8",
            ),
            (
                "actions=output(port=1,max_len=0)",
                "column 16: OFPBAC_BAD_ARGUMENT: max_len=0: at least 14 bytes must be left",
            ),
            (
                "actions=output:65535",
                "column 9: OFPBAC_BAD_OUT_PORT: 0xffffffff is no port to send to: 0 to 0xfeff, or a reserved port",
            ),
            ("actions=drop,output:1", "column 9: drop must stand alone; leave drop out, or everything else"),
            (
                "actions=resubmit(,255)",
                "column 9: OFPBAC_BAD_ARGUMENT: resubmit has neither a port nor a table: it would only run the same flow again; resubmit:PORT, resubmit(,TABLE) or resubmit(PORT,TABLE)",
            ),
            (
                "actions=conjunction(1,1/2),output:1",
                "column 28: beside conjunction only note is allowed: put the other actions into the flow that matches conj_id",
            ),
            (
                "actions=learn(table=254,output:NXM_OF_IN_PORT[])",
                "column 21: \"254\" is no table; a number from 0 to 253",
            ),
            (
                "actions=learn(table=1,NXM_OF_UDP_DST[])",
                "column 9: OFPBAC_MATCH_INCONSISTENT: udp_dst is only there in a flow that matches udp or udp6",
            ),
        ],
    );
}

/// T04, as far as it is a matter of text: ct() without IP, NAT without commit, ranges that run
/// backwards.
#[test]
fn connection_tracking_in_wrong_order() {
    check(
        &Bed::new(2),
        &[
            (
                "actions=ct(commit)",
                "column 9: OFPBAC_MATCH_INCONSISTENT: a connection is only there in a flow that matches ip or ipv6",
            ),
            (
                "ip,actions=ct(nat(src=10.0.0.1))",
                "column 12: OFPBAC_BAD_ARGUMENT: ct: exec(...), nat(src=...) and nat(dst=...) need commit; ct(commit,...)",
            ),
            (
                "ip,actions=ct(commit,nat(src=10.0.0.9-10.0.0.1))",
                "column 30: OFPBAC_BAD_ARGUMENT: nat: 10.0.0.9 to 10.0.0.1 is no range of addresses; the first one first, both of one version of IP",
            ),
            (
                "ip,actions=ct(commit,nat(src=fd00::1))",
                "column 12: OFPBAC_MATCH_INCONSISTENT: nat to fd00::1 is only possible in a flow that matches ipv6",
            ),
            ("ip,actions=ct(table=300)", "column 21: \"300\" is no table; a number from 0 to 253"),
            (
                "ip,actions=ct(commit,exec(output:1))",
                "column 27: OFPBAC_BAD_ARGUMENT: \"output\" is not allowed in exec; set_field, load or move to ct_mark or ct_label",
            ),
            (
                "ip,actions=set_field:5->ct_mark",
                "column 12: OFPBAC_BAD_SET_ARGUMENT: ct_mark and ct_label can only be set in ct(commit,exec(...))",
            ),
            (
                "ct_nw_src=10.0.0.1,ip,actions=drop",
                "column 1: OFPBMC_BAD_PREREQ: ct_nw_src is matched without a ct_state that implies a known connection; add one of ct_state=+new, +est, +rel, +rpl, +snat, +dnat, or +trk-inv",
            ),
        ],
    );
}

/// T06: meters and groups whose numbers make no sense.
#[test]
fn meters_and_groups_that_cannot_be() {
    check(
        &Bed::new(2),
        &[
            (
                "meter add meter=1,pktps,band=type=drop,rate=0",
                "column 45: OFPMMFC_BAD_RATE: a rate of 0 lets nothing pass; a number from 1 on; to drop everything, use actions=drop",
            ),
            (
                "meter add meter=1,pktps,band=type=drop,rate=4294967296",
                "column 45: \"4294967296\" is no rate; a number from 0 to 4294967295",
            ),
            (
                "meter add meter=1,pktps,burst,band=type=drop,rate=1,burst_size=0",
                "column 64: \"0\" is no burst_size; a number from 1 to 4294967295",
            ),
            (
                "meter add meter=0,pktps,band=type=drop,rate=4",
                "column 17: OFPMMFC_INVALID_METER: 0 is no meter id; a number from 1 to 4294901760",
            ),
            (
                "group add group_id=1,type=select,bucket=weight:65536,output:2",
                "column 48: \"65536\" is no weight; a number from 0 to 65535",
            ),
            (
                "group add group_id=1,type=all,bucket=weight:5,output:2",
                "column 38: OFPGMFC_BAD_BUCKET: only buckets of select groups have weights; leave weight out",
            ),
            (
                "group add group_id=1,type=ff,bucket=output:2",
                "column 37: OFPGMFC_INVALID_GROUP: a fast failover bucket must be watched; watch_port:PORT or watch_group:GROUP",
            ),
            (
                "group add group_id=1,type=all,bucket=goto_table:2",
                "column 38: OFPBIC_UNSUP_INST: goto_table is not allowed in a bucket; resubmit is",
            ),
            (
                "group modify group_id=1,type=all,bucket=output:2",
                "OFPGMFC_UNKNOWN_GROUP: group 1 does not exist; add it first",
            ),
            (
                "meter modify meter=1,pktps,band=type=drop,rate=4",
                "OFPMMFC_UNKNOWN_METER: meter 1 does not exist; add it first",
            ),
        ],
    );
}

/// Inserting buckets does not say into what group: the group's own rules are asked.
#[test]
fn inserted_buckets_obey_the_type_of_their_group() {
    let bed = Bed::new(2);
    bed.load(&[
        "group add group_id=1,type=all,bucket=bucket_id:1,output:1",
        "group add group_id=2,type=select,bucket=bucket_id:1,output:1",
        "group add group_id=3,type=ff,bucket=bucket_id:1,watch_port:1,output:1",
    ]);
    let insert = |group: u32, bucket: &str| {
        format!("group insert_bucket group_id={group},command_bucket_id=last,bucket={bucket}")
    };
    bed.add(&[
        &insert(1, "bucket_id:2,output:2"),
        &insert(2, "bucket_id:2,output:2"),
        &insert(2, "bucket_id:3,weight:1,output:2"),
        &insert(3, "bucket_id:2,watch_port:2,output:2"),
    ]);
    // As ovs-ofctl prints it: a bucket that is inserted without a weight has none, whatever the
    // group.
    let wanted = [
        " group_id=1,type=all,bucket=bucket_id:1,actions=output:1,bucket=bucket_id:2,actions=output:2",
        " group_id=2,type=select,bucket=bucket_id:1,actions=output:1,bucket=bucket_id:2,weight:0,actions=output:2,bucket=bucket_id:3,actions=output:2",
        " group_id=3,type=ff,bucket=bucket_id:1,watch_port:1,actions=output:1,bucket=bucket_id:2,watch_port:2,actions=output:2",
    ];
    let shown = bed.vsctl("dump-groups", &[], None).expect("groups");
    assert_eq!(shown.lines().skip(1).collect::<Vec<_>>(), wanted);
    let weight =
        "vsctl: -:1: OFPGMFC_BAD_BUCKET: bucket 9: only buckets of select groups have weights; leave weight out";
    assert_eq!(bed.refused(&[&insert(1, "bucket_id:9,weight:5,output:2")]), weight);
    let told = bed.refused(&[&insert(3, "bucket_id:9,output:2")]);
    assert!(
        told.starts_with("vsctl: -:1: OFPGMFC_INVALID_GROUP: bucket 9: a fast failover bucket must be watched"),
        "{told}"
    );
    // The dump can be added again.
    bed.load(&[]);
    bed.add(&wanted.map(|line| format!("group add {}", line.trim())).each_ref().map(String::as_str));
    let again = bed.vsctl("dump-groups", &[], None).expect("groups");
    assert_eq!(again, shown);
}

/// Match bits outside of their mask are cleared, as in Open vSwitch, and the client is told.
#[test]
fn match_bits_outside_the_mask_are_cleared_with_a_warning() {
    let bed = Bed::new(2);
    let line = "ip,nw_src=10.0.0.5/24,reg0=5/3,actions=drop";
    let output = bed.run("add-flow", &[line], None);
    assert!(output.status.success(), "{output:?}");
    let warned = String::from_utf8_lossy(&output.stderr);
    let wanted = "vsctl: warning: nw_src=10.0.0.5/24 has bits outside its mask and matches 10.0.0.0/24\n\
                  vsctl: warning: reg0=5/3 has bits outside its mask and matches 0x1/0x3\n";
    assert_eq!(warned, wanted);
    let flows = bed.vsctl("dump-flows", &["--no-stats"], None);
    assert_eq!(flows, Ok(" ip,reg0=0x1/0x3,nw_src=10.0.0.0/24 actions=drop".to_owned()));
    // From a file with its line; in the status of the update over gRPC, as text and typed.
    let output = bed.run(
        "add-flows",
        &["-"],
        Some("actions=drop\nudp,tp_dst=0x51/0xfff0,actions=drop\ntp_dst=80,actions=drop\n"),
    );
    let warned = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success()
            && warned.contains("warning: -:2: tp_dst=0x51/0xfff0 has bits outside its mask and matches 0x50/0xfff0"),
        "{warned}"
    );
    assert!(warned.contains("warning: -:3: tp_dst (or icmp_code) is ignored: it needs tcp, udp"), "{warned}");
    use v1::field_value::{Mask, Value};
    use v1::update::Update as U;
    let field =
        |name: &str, value, mask| v1::FieldValue { field: name.to_owned(), value: Some(Value::Number(value)), mask };
    let fields =
        vec![field("eth_type", 0x800, None), field("ip_src", 0x0a00_0005, Some(Mask::MaskNumber(0xffff_ff00)))];
    let typed =
        v1::Flow { table: 4, matching: Some(v1::flow::Matching::Match(v1::Match { fields })), ..Default::default() };
    let text = v1::LineUpdate { kind: v1::LineKind::AddFlow.into(), line: line.to_owned() };
    let told = bed.write(vec![U::Line(text), U::AddFlow(typed)]).expect("an answer");
    assert!(told.applied, "{told:?}");
    assert_eq!((told.warned, told.statuses[0].warnings.len()), (2, 2), "{told:?}");
    assert!(told.statuses[1].warnings[0].contains("bits outside"), "{told:?}");
    let flows = bed.vsctl("dump-flows", &["--no-stats", "table=4"], None);
    assert_eq!(flows, Ok(" table=4, ip,nw_src=10.0.0.0/24 actions=drop".to_owned()));
}
