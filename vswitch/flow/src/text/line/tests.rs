//! Lines as updates, filters and packets, and what is wrong with them.

use crate::action::port;
use crate::spec::{BucketPlace, FlowFilter, GroupKind, Selection, Update};
use crate::text::*;
use crate::{Action, Field};
use std::sync::Arc;

fn update(line: &str, command: FlowCommand) -> Update {
    parse_flow(line, command, &NoNames).unwrap_or_else(|error| panic!("{line}: {error}")).value
}

fn filter(line: &str, strict: bool) -> FlowFilter {
    parse_filter(line, strict, &NoNames).unwrap_or_else(|error| panic!("{line}: {error}")).value
}

fn bundle(line: &str) -> Update {
    parse_bundle_line(line, &NoNames).unwrap_or_else(|error| panic!("{line}: {error}")).value
}

#[test]
fn modifies_and_deletes() {
    let Update::ModifyFlows { filter, actions, reset_counts, cookie } = update(
        "table=3,cookie=0x10/0xf0,cookie=7,priority=5,idle_timeout=9,reset_counts,ip,actions=dec_ttl,2",
        FlowCommand::Modify,
    ) else {
        panic!("no modify")
    };
    assert_eq!((filter.table, filter.strict, filter.cookie, filter.cookie_mask), (Some(3), None, 0x10, 0xf0));
    assert_eq!((actions.len(), reset_counts, cookie), (2, true, None), "a modify keeps cookies");
    // Without a table it is table 0; strict without priority is 32768.
    let Update::ModifyFlows { filter, cookie, .. } = update("actions=drop", FlowCommand::ModifyStrict) else {
        panic!("no modify")
    };
    assert_eq!((filter.table, filter.strict, cookie), (Some(0), Some(32768), None));
    let Update::DeleteFlows(filter) = update("ip,cookie=5,out_port=3,out_group=9", FlowCommand::Delete) else {
        panic!("no delete")
    };
    assert_eq!((filter.table, filter.cookie, filter.cookie_mask), (None, 5, u64::MAX));
    assert_eq!((filter.out_port, filter.out_group, filter.strict), (Some(3), Some(9), None));
    let Update::DeleteFlows(filter) = update("priority=7,table=255,tcp", FlowCommand::DeleteStrict) else {
        panic!("no delete")
    };
    assert_eq!((filter.table, filter.strict), (None, Some(7)));
    assert_eq!(filter.matching.get(Field::NwProto), (6, 0xff));
}

#[test]
fn filters() {
    assert_eq!(filter("", false), FlowFilter::default());
    assert_eq!(filter("table=all", false).table, None);
    assert_eq!(filter("table=7 , cookie=-1/0xff", false).cookie, 0xff);
    assert_eq!(filter("out_port=any,out_group=any", false), FlowFilter::default());
    assert_eq!(filter("out_port=CONTROLLER", false).out_port, Some(port::CONTROLLER));
    assert_eq!(filter("priority=3", true).strict, Some(3));
    // What dump-flows prints of a flow selects it, but for its actions.
    let line =
        "cookie=0x5/-1, duration=1s, table=2, n_packets=3, n_bytes=4, idle_age=1, hard_age=1, ip,nw_dst=10.0.0.0/8";
    assert_eq!((filter(line, false).table, filter(line, false).cookie), (Some(2), 5));
}

#[test]
fn mod_actions_follow_the_match() {
    for (line, printed) in [
        ("actions=mod_vlan_vid:5", "push_vlan:0x8100,set_field:4101->vlan_vid"),
        ("dl_vlan=3,actions=mod_vlan_vid:5", "set_field:4101->vlan_vid"),
        ("udp,actions=mod_tp_src:5,clone(mod_tp_dst:6)", "set_field:5->udp_src,clone(set_field:6->udp_dst)"),
        (
            "dl_vlan=3,actions=clone(pop_vlan,mod_vlan_pcp:2),mod_vlan_pcp:2",
            "clone(pop_vlan,push_vlan:0x8100,set_field:2->vlan_pcp),set_field:2->vlan_pcp",
        ),
        ("actions=output:CONTROLLER", "CONTROLLER:65535"),
    ] {
        let Update::AddFlow(flow) = update(line, FlowCommand::Add) else { panic!("{line}") };
        let mut out = String::new();
        format_actions(&flow.actions, Style::default(), &NoNames, &mut out);
        assert_eq!(out, printed, "{line}");
    }
}

#[test]
fn dumps_with_counters() {
    let Update::AddFlow(flow) = update(
        "table=3,cookie=7,priority=5,idle_timeout=9,hard_timeout=8,importance=2,send_flow_rem,ip,in_port=1,actions=2",
        FlowCommand::Add,
    ) else {
        panic!("no flow")
    };
    let counters = FlowCounters {
        duration_ms: 61_005,
        packets: 3,
        bytes: 180,
        idle_age_s: 4,
        hard_age_s: 61,
        commits: 2,
        rejects: 1,
    };
    let print = |counters: Option<&FlowCounters>| {
        let mut out = String::new();
        format_flow(&flow, counters, Style::default(), &NoNames, &mut out);
        out
    };
    // As Open vSwitch 3.1 printed it.
    assert_eq!(
        print(Some(&counters)),
        "cookie=0x7, duration=61.005s, table=3, n_packets=3, n_bytes=180, idle_timeout=9, hard_timeout=8, send_flow_rem \
         importance=2, idle_age=4, priority=5,ip,in_port=1 actions=output:2"
    );
    let changed = FlowCounters { duration_ms: 70_000, ..counters };
    assert!(print(Some(&changed)).starts_with("cookie=0x7, duration=70s, "), "{}", print(Some(&changed)));
    assert!(print(Some(&changed)).contains("idle_age=4, hard_age=61, priority="));
    assert_eq!(
        print(None),
        "cookie=0x7, table=3, idle_timeout=9, hard_timeout=8, send_flow_rem importance=2, priority=5,ip,in_port=1 \
         actions=output:2"
    );
    let Update::AddFlow(bare) = update("actions=drop", FlowCommand::Add) else { panic!("no flow") };
    let mut out = String::new();
    format_flow(&bare, Some(&FlowCounters::default()), Style::default(), &NoNames, &mut out);
    assert_eq!(out, "cookie=0x0, duration=0s, table=0, n_packets=0, n_bytes=0, idle_age=0, actions=drop");
}

/// As `ovs-ofctl --names dump-flows` of Open vSwitch 3.1 printed them.
#[test]
fn dumps_with_names() {
    struct Book;
    const PORTS: [(&str, u32); 6] =
        [("p1", 1), ("my_port", 10), ("a-b.c", 11), ("9lives", 12), ("drop", 13), ("eth0", 14)];
    const TABLES: [&str; 4] = ["", "First", "se_cond", "3rd"];
    impl Names for Book {
        fn port(&self, name: &str) -> Option<u32> {
            PORTS.iter().find(|(other, _)| *other == name).map(|(_, number)| *number)
        }
        fn port_name(&self, number: u32) -> Option<&str> {
            PORTS.iter().find(|(_, other)| *other == number).map(|(name, _)| *name)
        }
        fn table(&self, name: &str) -> Option<u8> {
            TABLES.iter().zip(0..).skip(1).find(|(other, _)| **other == name).map(|(_, number)| number)
        }
        fn table_name(&self, number: u8) -> Option<&str> {
            TABLES.get(usize::from(number)).copied().filter(|name| !name.is_empty())
        }
    }
    for line in [
        "table=First, in_port=\"my_port\" actions=output:\"my_port\",output:\"a-b.c\",output:\"9lives\",output:drop,output:eth0,\
         LOCAL,resubmit(\"my_port\",\"se_cond\"),resubmit:\"a-b.c\",goto_table:\"3rd\"",
        "table=\"se_cond\", in_port=\"a-b.c\" actions=output:\"my_port\",output:\"9lives\",resubmit(drop,\"3rd\")",
        "table=\"3rd\", ip,in_port=LOCAL actions=ct(table=\"se_cond\"),output(port=\"my_port\",max_len=64),\
         learn(table=First,in_port=\"my_port\"),bundle(eth_src,0,hrw,ofport,members:\"my_port\",p1),\
         sample(probability=1,collector_set_id=0,obs_domain_id=0,obs_point_id=0,sampling_port=\"my_port\"),\
         set_field:\"my_port\"->in_port,CONTROLLER:65535",
        "in_port=99 actions=output:99",
        "table=9, actions=drop",
    ] {
        let parsed = parse_flow(line, FlowCommand::Add, &Book).unwrap_or_else(|error| panic!("{line}: {error}"));
        let Update::AddFlow(flow) = parsed.value else { panic!("{line}") };
        let mut out = String::new();
        format_flow(&flow, None, Style { names: true }, &Book, &mut out);
        assert_eq!(out, line);
    }
}

#[test]
fn lines_of_bundles() {
    let Update::AddFlow(flow) = bundle("flow add table=1,actions=2") else { panic!("no flow") };
    assert_eq!((flow.table, flow.actions.len()), (1, 1));
    for line in ["flow table=1,actions=2", "add table=1,actions=2", " table=1 actions=2", "flow  add,table=1,actions=2"]
    {
        assert_eq!(bundle(line), Update::AddFlow(flow.clone()), "{line}");
    }
    assert_eq!(bundle("delete table=2"), Update::DeleteFlows(FlowFilter { table: Some(2), ..FlowFilter::default() }));
    assert_eq!(bundle("flow delete"), Update::DeleteFlows(FlowFilter::default()));
    let Update::DeleteFlows(strict) = bundle("flow delete_strict table=2,priority=3") else { panic!("no delete") };
    assert_eq!(strict.strict, Some(3));
    assert!(matches!(bundle("modify table=2,actions=3"), Update::ModifyFlows { .. }));
    let Update::ModifyFlows { filter, .. } = bundle("flow modify_strict table=2,actions=drop") else {
        panic!("no modify")
    };
    assert_eq!(filter.strict, Some(32768));
    // A flow that matches a protocol is no misspelt command.
    assert!(matches!(bundle("arp,actions=drop"), Update::AddFlow(_)));
    assert!(matches!(bundle("tcp actions=drop"), Update::AddFlow(_)));

    assert_eq!(bundle("group delete"), Update::DeleteGroups(None));
    assert_eq!(bundle("group delete group_id=all"), Update::DeleteGroups(None));
    assert_eq!(bundle("group delete group_id=4"), Update::DeleteGroups(Some(4)));
    assert!(matches!(bundle("group group_id=6,type=all,bucket=2"), Update::AddGroup(group) if group.id == 6));
    assert!(matches!(bundle("group modify group_id=6,type=all"), Update::ModifyGroup { may_create: false, .. }));
    assert!(matches!(bundle("group add_or_mod group_id=6,type=all"), Update::ModifyGroup { may_create: true, .. }));
    for word in ["remove_bucket", "remove_buckets"] {
        for (place, expected) in [
            ("first", BucketPlace::First),
            ("last", BucketPlace::Last),
            ("all", BucketPlace::All),
            ("5", BucketPlace::Before(5)),
        ] {
            let line = format!("group {word} group_id=6,command_bucket_id={place}");
            assert_eq!(bundle(&line), Update::RemoveBuckets { group: 6, place: expected }, "{line}");
        }
    }
    let all = Update::RemoveBuckets { group: 6, place: BucketPlace::All };
    assert_eq!(bundle("group remove_buckets group_id=6"), all);
    let line = "group insert_buckets group_id=6,command_bucket_id=5,bucket=bucket_id:7,2,bucket=weight:3,actions=3";
    let Update::InsertBuckets { group: 6, place: BucketPlace::Before(5), buckets } = bundle(line) else {
        panic!("no insert")
    };
    assert_eq!(buckets.iter().map(|bucket| (bucket.id, bucket.weight)).collect::<Vec<_>>(), [(7, 0), (0, 3)]);

    assert!(matches!(bundle("meter meter=5,kbps,bands=type=drop,rate=5"), Update::AddMeter(meter) if meter.id == 5));
    assert!(matches!(bundle("meter modify meter=5,pktps,bands=type=drop,rate=5"), Update::ModifyMeter(_)));
    assert_eq!(bundle("meter delete meter=5"), Update::DeleteMeters(Some(5)));
    assert_eq!(bundle("meter delete"), Update::DeleteMeters(None));
}

#[test]
fn misspelt_names_find_theirs() {
    struct Named;
    impl Names for Named {
        fn port(&self, _: &str) -> Option<u32> {
            None
        }
        fn port_name(&self, _: u32) -> Option<&str> {
            None
        }
        fn table(&self, _: &str) -> Option<u8> {
            None
        }
        fn table_name(&self, _: u8) -> Option<&str> {
            None
        }
        fn ports(&self) -> Box<dyn Iterator<Item = &str> + '_> {
            Box::new(["antrea-gw0", "web-1"].into_iter())
        }
        fn tables(&self) -> Box<dyn Iterator<Item = &str> + '_> {
            Box::new(["Classifier", "Output"].into_iter())
        }
    }
    for (line, column, hint) in [
        ("table=Clasifier,actions=drop", 7, "did you mean Classifier?"),
        ("actions=resubmit(,Ouptut)", 19, "did you mean Output?"),
        ("table=Elsewhere,actions=drop", 7, "a number from 0 to 253, or a table's name"),
        ("in_port=antrea-gw,actions=drop", 9, "did you mean antrea-gw0?"),
        ("actions=output:\"web1\"", 16, "did you mean web-1?"),
        ("actions=output:LOCALE", 16, "did you mean LOCAL?"),
    ] {
        let error = parse_flow(line, FlowCommand::Add, &Named).expect_err(line);
        assert_eq!((error.column, error.hint.as_str()), (column, hint), "{line}: {error}");
    }
}

#[test]
fn comments_and_blank_lines() {
    for (line, rest) in [
        ("", None),
        ("  \t", None),
        ("# all of it", None),
        (" flow delete # this", Some("flow delete")),
        ("actions=2\r", Some("actions=2")),
    ] {
        assert_eq!(significant(line), rest, "{line:?}");
    }
}

#[test]
fn groups() {
    let line = "group_id=7 type=select,selection_method=hash,selection_method_param=9,fields(ip_src=255.255.0.0,eth_dst),\
                bucket=2,3,weight:5,bucket=bucket_id=0,watch_port=9,actions=set_field:1->reg0,resubmit(,4)";
    let parsed = parse_group(line, &NoNames).unwrap_or_else(|error| panic!("{error}")).value;
    assert!(parsed.kind_given && parsed.place.is_none());
    let group = parsed.spec;
    assert_eq!((group.id, group.kind), (7, GroupKind::Select));
    let fields = [(Field::EthDst, Field::EthDst.ones()), (Field::NwSrc, 0xffff_0000)];
    assert_eq!(group.selection, Selection::Hash { param: 9, fields: fields.into() });
    let output = |port| Action::Output { port, max_len: None };
    assert_eq!((group.buckets[0].id, group.buckets[0].weight), (1, 5));
    assert_eq!(group.buckets[0].actions, Arc::from([output(2), output(3)]));
    assert_eq!((group.buckets[1].id, group.buckets[1].weight, group.buckets[1].watch_port), (0, 1, Some(9)));
    assert_eq!(group.buckets[1].actions.len(), 2);
    for line in [
        "group_id=1,type=select,selection_method=maglev,bucket=bucket_id:7,actions=output:2",
        "group_id=1,type=select,selection_method=maglev,selection_method_param=3,bucket=bucket_id:7,weight:0,actions=drop",
    ] {
        let group = parse_group(line, &NoNames).expect(line).value.spec;
        assert!(matches!(group.selection, Selection::Maglev { param: 0 | 3 }));
        let mut text = String::new();
        format_group(&group, Style::default(), &NoNames, &mut text);
        assert_eq!(text, line);
    }
    // Of another kind of group, or of an unknown one.
    let weight = |line: &str| parse_group(line, &NoNames).expect(line).value.spec.buckets[0].weight;
    assert_eq!(weight("group_id=1,type=all,bucket=2"), 0);
    assert_eq!(weight("group_id=1,bucket=2"), 0);
}

#[test]
fn packet_outs() {
    let line = "in_port=LOCAL,reg0=5,xreg1=7/0xf,tun_dst=10.0.0.1,packet=0011.22334455 66778899aabb,actions=2";
    // Blanks end the packet: what follows is no key.
    assert!(parse_packet_out(line, &NoNames).is_err());
    let line = "in_port=LOCAL,reg0=5,xreg1=7/0xf,tun_dst=10.0.0.1,packet=00112233445566778899aabb0800ff,actions=TABLE,mod_vlan_vid:5";
    let out = parse_packet_out(line, &NoNames).unwrap_or_else(|error| panic!("{error}")).value;
    assert_eq!(out.metadata.get(Field::InPort), port::LOCAL.into());
    assert_eq!((out.metadata.get(Field::Reg0), out.metadata.get(Field::Reg3)), (5, 7));
    assert_eq!(out.metadata.get(Field::TunDst), 0x0a00_0001);
    assert_eq!((out.packet.len(), out.packet[14]), (15, 0xff));
    assert_eq!(out.actions.len(), 3, "{:?}", out.actions);
    let out =
        parse_packet_out("packet=00112233445566778899aabb0800", &NoNames).expect("without port and actions").value;
    assert_eq!((out.metadata.get(Field::InPort), out.actions.len()), (port::CONTROLLER.into(), 0));
}

/// Column, what the message has to contain, code.
#[test]
fn errors_say_where_and_how() {
    type Parse = fn(&str) -> Option<TextError>;
    let add: Parse = |line| parse_flow(line, FlowCommand::Add, &NoNames).err();
    let delete: Parse = |line| parse_flow(line, FlowCommand::Delete, &NoNames).err();
    let bundled: Parse = |line| parse_bundle_line(line, &NoNames).err();
    let group: Parse = |line| parse_group(line, &NoNames).err();
    let meter: Parse = |line| parse_meter(line).err();
    let packet: Parse = |line| parse_packet_out(line, &NoNames).err();
    for (parse, line, column, says, code) in [
        (add, "ip,nw_src=10.0.0.300,actions=2", 11, "10.0.0.300", ""),
        (add, "ip,prioriti=5,actions=2", 4, "did you mean priority?", ""),
        (add, "ip,nw_srcc=10.0.0.1,actions=2", 4, "did you mean nw_src?", ""),
        (add, "ip", 3, "actions=", ""),
        (add, "ip,actions:2", 4, "no =", ""),
        (add, "table=254,actions=2", 7, "0 to 253", "OFPBRC_EPERM"),
        (add, "table=x,actions=2", 7, "there is no table \"x\"", ""),
        (add, "priority=65536,actions=2", 10, "0 to 65535", ""),
        (add, "cookie=1/2,actions=2", 8, "not a mask", ""),
        (add, "out_port=2,actions=2", 1, "leave it out", ""),
        (add, "idle_timeout=,actions=2", 1, "idle_timeout=VALUE", ""),
        (add, "actions=2,set_field:1.2.3.4->ip_src", 11, "matches ip", "OFPBAC_MATCH_INCONSISTENT"),
        (add, "actions=2,dec_ttl", 11, "ip or ipv6", "OFPBAC_MATCH_INCONSISTENT"),
        (add, "dl_vlan1=5,actions=2,mod_vlan_vid:3", 22, "two VLAN tags", "OFPBAC_BAD_TAG"),
        (add, "table=5,actions=2,goto_table:5", 19, "later tables", "OFPBIC_BAD_TABLE_ID"),
        (add, "actions=2,meter:1", 11, "meter must come before", "OFPBAC_UNSUPPORTED_ORDER"),
        (add, "actions=conjunction(1,1/2),2", 28, "only note", "NXBAC_BAD_CONJUNCTION"),
        (add, "actions=2,clone(3,goto_table:4)", 11, "not allowed inside", "OFPBIC_UNSUP_INST"),
        (add, "actions=2,ct(commit)", 11, "ip or ipv6", "OFPBAC_MATCH_INCONSISTENT"),
        (add, "reg0[0..3]=16,actions=2", 12, "at most 0xf", ""),
        (add, "reg0[0..99]=1,actions=2", 5, "32 bits", ""),
        (add, "ip,actions=2\0", 13, "NUL", ""),
        (delete, "priority=5", 1, "--strict", ""),
        (delete, "actions=2", 1, "leave actions out", ""),
        (delete, "idle_timeout=5", 1, "no meaning here", ""),
        (bundled, "flow ad table=1,actions=2", 6, "did you mean add?", ""),
        (bundled, "group insert_bukets group_id=1", 7, "did you mean insert_buckets?", ""),
        (bundled, "packet-out in_port=1", 1, "cannot send packets", ""),
        (bundled, "flo add actions=2", 1, "did you mean flow?", ""),
        (bundled, "gruop add group_id=1,type=all", 1, "did you mean group?", ""),
        (bundled, "group insert_bucket group_id=1,bucket=2", 20, "command_bucket_id", ""),
        (bundled, "group delete group_id=1,type=all", 25, "type does not select groups", ""),
        (bundled, "group insert_bucket group_id=1,type=all", 32, "has a type already", ""),
        (bundled, "group add group_id=1,type=all,command_bucket_id=last", 31, "only for inserting", ""),
        (bundled, "group add group_id=ALL,type=all", 20, "only del-groups", "OFPGMFC_INVALID_GROUP"),
        (
            bundled,
            "group insert_bucket group_id=1,command_bucket_id=all,bucket=2",
            32,
            "first, last or an id",
            "OFPGMFC_BAD_BUCKET",
        ),
        (
            bundled,
            "group insert_bucket group_id=1,command_bucket_id=last",
            20,
            "no bucket to insert",
            "OFPGMFC_BAD_BUCKET",
        ),
        (bundled, "group delete group_id=1,bucket=2", 25, "no meaning", ""),
        (bundled, "group add group_id=1,bucket=2", 10, "type=all", ""),
        (bundled, "meter delete metre=1", 14, "did you mean meter?", ""),
        (group, "group_id=1,type=selekt", 17, "did you mean select?", ""),
        (group, "group_id=1,type=all,bucket=outpt:2", 28, "did you mean output?", ""),
        (group, "group_id=1,type=all,bucket=weight:5,2", 28, "weight", "OFPGMFC_BAD_BUCKET"),
        (group, "group_id=1,type=ff,bucket=2", 27, "watch_port:PORT", "OFPGMFC_INVALID_GROUP"),
        (group, "group_id=1,type=all,bucket=weight:0", 28, "no actions", "OFPGMFC_BAD_BUCKET"),
        (group, "group_id=1,type=all,bucket=2,goto_table:4", 28, "in a bucket", "OFPBIC_UNSUP_INST"),
        (group, "group_id=1,type=select,bucket=bucket_id:1,2,bucket=bucket_id:1,3", 52, "id 1", "OFPGMFC_BAD_BUCKET"),
        (group, "group_id=1,selection_method=maglev,bucket=2", 29, "only select groups", "OFPBPC_BAD_VALUE"),
        (
            group,
            "group_id=1,type=select,selection_method=maglef,bucket=2",
            41,
            "did you mean maglev",
            "OFPBPC_BAD_VALUE",
        ),
        (group, "group_id=1,type=select,fields(ip_src),bucket=2", 24, "selection_method=hash", "OFPBPC_BAD_VALUE"),
        (group, "group_id=1,type=select,selection_method=hash,fields(ip_scr)", 53, "did you mean", ""),
        (group, "group_id=1,type=indirect,bucket=2,bucket=3", 42, "one bucket, not 2", "OFPGMFC_INVALID_GROUP"),
        (group, "group_id=all,type=all", 10, "means all groups", "OFPGMFC_INVALID_GROUP"),
        (group, "type=all", 1, "group_id=N", ""),
        (meter, "meter=controller,kbps,bands=type=drop,rate=1", 7, "controller(meter_id=N)", "OFPMMFC_INVALID_METER"),
        (packet, "in_port=1,nosuch=4,packet=00", 11, "ovs-fields(7)", ""),
        (meter, "meter=1,kbps,band=type=drop", 19, "no rate", "OFPMMFC_BAD_BAND"),
        (meter, "meter=1,kbps,band=rate=5", 19, "before the type", ""),
        (meter, "meter=1,kbps,bands=type=drop,rate=0", 35, "from 1", "OFPMMFC_BAD_RATE"),
        (meter, "meter=0,kbps,bands=type=drop,rate=1", 7, "from 1", "OFPMMFC_INVALID_METER"),
        (packet, "in_port=1,pkt_mark=5,packet=00", 11, "pkt_mark", ""),
        (packet, "in_port=1,ct_mark=5,packet=00", 11, "ct_mark", ""),
        (packet, "in_port=FLOOD,packet=00", 9, "no packet comes from", "OFPBRC_BAD_PORT"),
        (packet, "in_port=1,packet=0011", 18, "14 bytes", ""),
        (packet, "in_port=1,packet=00112233445566778899aabb08zz", 44, "zz", ""),
        (
            packet,
            "packet=00112233445566778899aabb0800,actions=goto_table:1",
            45,
            "in a packet-out",
            "OFPBIC_UNSUP_INST",
        ),
        (packet, "in_port=1,actions=2", 1, "no packet", ""),
    ] {
        let error = parse(line).unwrap_or_else(|| panic!("{line} is taken"));
        let message = error.to_string();
        assert_eq!((error.column, error.code), (column, code), "{line}: {message}");
        assert!(message.contains(says), "{line}: {message}");
    }
}

#[test]
fn hostile_lines_are_refused() {
    let long = format!("reg0=5,actions={}", "2,".repeat(1 << 21));
    let error = parse_flow(&long, FlowCommand::Add, &NoNames).expect_err("too long");
    assert!(error.reason.contains("4194304"), "{error}");
    let line = format!("actions={}", "resubmit(,1),".repeat(4091));
    assert!(parse_flow(&line, FlowCommand::Add, &NoNames).is_ok());
    for n in [4092, 10_000] {
        let line = format!("actions={}", "resubmit(,1),".repeat(n));
        let error = parse_flow(&line, FlowCommand::Add, &NoNames).expect_err("too many actions");
        assert_eq!(error.code, "OFPBRC_BAD_LEN", "{error}");
        assert!(error.column > 53_000, "{error}");
    }
    for line in [&"(".repeat(1 << 19), &"reg0=1,".repeat(100_000), &"bucket=".repeat(100_000), &"=".repeat(1 << 20)] {
        assert!(parse_flow(line, FlowCommand::Add, &NoNames).is_err());
        assert!(parse_group(line, &NoNames).is_err());
        assert!(parse_meter(line).is_err());
        assert!(parse_packet_out(line, &NoNames).is_err());
        assert!(parse_filter(line, false, &NoNames).is_err());
        assert!(parse_bundle_line(line, &NoNames).is_err());
    }
}
