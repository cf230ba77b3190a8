//! What goes out as a message comes back in as the same value, and what a message cannot mean is
//! refused by name.

use super::*;
use std::sync::Arc;
use vswitch_flow::action::{
    Bundle, Controller, Ct, CtZone, HashFields, Learn, LearnSource, LearnSpec, Multipath, MultipathAlgorithm, Nat,
    Reason, Reject, Sample, SampleDirection, port,
};
use vswitch_flow::spec::{
    Band, BandKind, BucketPlace, BucketSpec, FlowFilter, FlowFlags, FlowSpec, GroupKind, GroupSpec, MeterSpec,
    Selection,
};
use vswitch_flow::text::{NoNames, Style, parse_match};
use vswitch_flow::{Action, Field, SparseMatch, Subfield};
use vswitch_proto::v1;
use vswitch_proto::v1::field_value::{Mask, Value};

fn parsed(text: &str) -> SparseMatch {
    parse_match(text, &NoNames).unwrap_or_else(|error| panic!("{text}: {error}")).value
}

fn sub(field: Field, start: u8, len: u8) -> Subfield {
    Subfield { field, start, len }
}

/// Every kind of action, most of them with everything that they can have.
fn every_action() -> Vec<Action> {
    let learn = Learn {
        idle_timeout: 1,
        hard_timeout: 2,
        fin_idle_timeout: 3,
        fin_hard_timeout: 4,
        priority: 5,
        cookie: u64::MAX,
        table: 7,
        send_flow_rem: true,
        delete_learned: true,
        limit: 8,
        result: Some(sub(Field::Reg5, 3, 1)),
        specs: [
            LearnSpec::Match { from: LearnSource::Immediate(0x800), to: Subfield::whole(Field::EthType) },
            LearnSpec::Match {
                from: LearnSource::Field(Subfield::whole(Field::NwSrc)),
                to: Subfield::whole(Field::NwDst),
            },
            LearnSpec::Load { from: LearnSource::Immediate(3), to: sub(Field::Reg0, 4, 2) },
            LearnSpec::Output(Subfield::whole(Field::InPort)),
        ]
        .into(),
    };
    let nat = Nat {
        source: Some(true),
        addresses: Some(([10, 0, 0, 1].into(), [10, 0, 0, 9].into())),
        ports: Some((5000, 5003)),
        persistent: true,
        hash: false,
        random: true,
    };
    let v6 = Nat { source: Some(false), addresses: Some(([1; 16].into(), [2; 16].into())), ..Nat::default() };
    let ct = Ct {
        commit: true,
        force: true,
        table: Some(9),
        zone: CtZone::Field(sub(Field::Reg8, 0, 16)),
        alg: 21,
        nat: Some(nat),
        exec: [Action::SetField { field: Field::CtLabel, value: 1 << 100, mask: 0xff << 96 }].into(),
    };
    let multipath = Multipath {
        fields: HashFields::SymmetricL3L4Udp,
        basis: 50,
        algorithm: MultipathAlgorithm::Hrw,
        links: 12,
        arg: 3,
        to: sub(Field::Reg0, 0, 8),
    };
    let bundle = Bundle { fields: HashFields::EthSrc, basis: 1, hrw: true, members: [1, 2, 300].into(), to: None };
    let controller = Controller {
        id: 7,
        reason: Reason::NoMatch,
        max_len: 100,
        userdata: [1, 0xab].into(),
        pause: true,
        meter: Some(3),
    };
    let sample = Sample {
        probability: 1,
        collector_set: 2,
        domain: 3,
        point: 4,
        port: Some(5),
        direction: SampleDirection::Egress,
    };
    vec![
        Action::Output { port: port::NORMAL, max_len: Some(64) },
        Action::Output { port: 2, max_len: None },
        Action::OutputField { from: sub(Field::Reg1, 0, 16), max_len: None },
        Action::Controller(Box::new(controller)),
        Action::Group(u32::MAX),
        Action::Meter(1),
        Action::SetField { field: Field::Reg0, value: 5, mask: 0xf },
        Action::SetField { field: Field::Ipv6Src, value: u128::MAX, mask: u128::MAX },
        Action::Move { from: sub(Field::Reg0, 1, 4), to: sub(Field::Xxreg3, 120, 4) },
        Action::SetTtl(64),
        Action::DecTtl([0].into()),
        Action::DecTtl([1, 65535].into()),
        Action::PushVlan(0x88a8),
        Action::PopVlan,
        Action::SetVlanVid(4095),
        Action::SetVlanPcp(7),
        Action::StackPush(Subfield::whole(Field::Xreg0)),
        Action::StackPop(sub(Field::Reg2, 31, 1)),
        Action::Resubmit { port: Some(port::LOCAL), table: Some(253), ct: true },
        Action::Resubmit { port: None, table: Some(0), ct: false },
        Action::Multipath(Box::new(multipath)),
        Action::Bundle(Box::new(bundle.clone())),
        Action::Bundle(Box::new(Bundle { to: Some(sub(Field::Reg3, 0, 16)), hrw: false, ..bundle })),
        Action::Learn(Box::new(learn)),
        Action::FinTimeout { idle: 5, hard: 0 },
        Action::Conjunction { id: 4, clause: 1, clauses: 64 },
        Action::Clone([Action::PopVlan, Action::Clone([].into())].into()),
        Action::Note([1, 2, 3, 0, 0, 0].into()),
        Action::Exit,
        Action::Sample(Box::new(sample)),
        Action::CheckPktLarger { len: 1500, to: sub(Field::Reg0, 0, 1) },
        Action::Ct(Box::new(ct)),
        Action::Ct(Box::new(Ct { nat: Some(v6), ..Ct::default() })),
        Action::Ct(Box::new(Ct { nat: Some(Nat::default()), zone: CtZone::Immediate(65535), ..Ct::default() })),
        Action::CtClear,
        Action::CtForget,
        Action::Reject(Box::default()),
        Action::Reject(Box::new(Reject { mtu: 1400, ..Reject::default() })),
        Action::Reject(Box::new(Reject {
            reset: false,
            icmp: 3,
            icmp6: 4,
            mtu: 0,
            actions: [Action::CtClear, Action::Output { port: port::IN_PORT, max_len: None }].into(),
        })),
        Action::DeleteField(Field::TunMetadata7),
        Action::ClearActions,
        Action::WriteActions([Action::Group(1)].into()),
        Action::WriteMetadata { value: 1, mask: u64::MAX },
        Action::WriteMetadata { value: 1, mask: 3 },
        Action::GotoTable(253),
    ]
}

#[test]
fn every_action_survives_the_way_through_protobuf() {
    for action in every_action() {
        let message = actions_out::list(std::slice::from_ref(&action));
        let back = actions::list(&message.actions).unwrap_or_else(|error| panic!("{action:?}: {error}"));
        assert_eq!(back, [action]);
    }
}

/// As the text `note:ab` is: both must be the same flow.
#[test]
fn notes_are_padded() {
    for (bytes, padded) in [(0, 6), (1, 6), (6, 6), (7, 14), (51, 54)] {
        let message = v1::Action { action: Some(v1::action::Action::Note(vec![7; bytes])) };
        let action = actions::list(&[message]).unwrap_or_else(|error| panic!("{bytes} bytes: {error}"));
        let expected = [vec![7; bytes], vec![0; padded - bytes]].concat();
        assert_eq!(action, [Action::Note(expected.into())], "{bytes} bytes");
    }
}

#[test]
fn matches_survive_the_way_through_protobuf() {
    let texts = [
        "",
        "in_port=1",
        "ip,nw_src=10.0.0.0/8,nw_dst=1.2.3.4/255.0.255.0,nw_tos=40,nw_ecn=1,nw_ttl=64,nw_frag=later",
        "ip_dscp=10,ip",
        "arp,arp_spa=10.0.0.1,arp_tpa=10.0.0.0/24,arp_op=1,arp_sha=02:00:00:00:00:01,arp_tha=02:00:00:00:00:02",
        "tcp,tp_src=80,tp_dst=0x8000/0xff00,tcp_flags=+syn-ack",
        "udp6,ipv6_src=fe80::/64,ipv6_dst=::1,ipv6_label=0x5,tp_dst=53",
        "sctp,tp_dst=5",
        "icmp,icmp_type=8,icmp_code=0",
        "icmp6,icmp_type=135,icmp_code=0,nd_target=fe80::2,nd_sll=02:00:00:00:00:01",
        "vlan_tci=0,dl_src=02:00:00:00:00:00/ff:00:00:00:00:00",
        "dl_vlan=5,dl_vlan_pcp=3,dl_dst=ff:ff:ff:ff:ff:ff",
        "vlan_tci=0x1000/0x1000",
        "ct_state=+new-est+trk,ct_zone=3,ct_mark=0x1/0x3,ct_label=0x5/0xff,ip",
        "reg0=0x1/0x3,reg15=7,xreg3=5,xxreg2=0x1/0x1,metadata=0x5/0xff,pkt_mark=1,conj_id=7,tun_id=5",
        "tun_src=1.1.1.1,tun_dst=2.2.2.2,tun_flags=+oam",
        "dl_type=0x1234",
        "ip,nw_proto=89",
    ];
    for text in texts {
        let matching = parsed(text);
        let message = matching::to_message(&matching);
        let back = matching::from_message(&message, &NoNames).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((back.value, back.warnings.len()), (matching, 0), "{text}: {message:?}");
    }
}

#[test]
fn fields_have_the_names_that_the_packet_gives_them() {
    let names = |text: &str| -> Vec<String> {
        matching::to_message(&parsed(text)).fields.into_iter().map(|field| field.field).collect()
    };
    assert_eq!(names("tcp,nw_src=10.0.0.1,tp_dst=80"), ["eth_type", "ip_src", "nw_proto", "tcp_dst"]);
    assert_eq!(names("arp,arp_tpa=10.0.0.1,arp_op=2"), ["eth_type", "arp_tpa", "arp_op"]);
    assert_eq!(names("udp,tp_dst=53"), ["eth_type", "nw_proto", "udp_dst"]);
    assert_eq!(names("reg3=5"), ["reg3"]);
}

#[test]
fn metadata_goes_out_by_field_and_comes_back() {
    let mut key = vswitch_flow::FlowKey::default();
    key.set(Field::InPort, 5);
    key.set(Field::Reg1, 7);
    key.set(Field::TunIpv6Src, 1 << 70);
    key.set(Field::NwSrc, 0x0a00_0001); // read from the packet, not metadata
    let messages = fields(&key);
    let names: Vec<_> = messages.iter().map(|message| message.field.as_str()).collect();
    assert_eq!(names, ["reg1", "tun_ipv6_src", "in_port"]);
    key.set(Field::NwSrc, 0);
    assert_eq!(metadata(&messages).expect("metadata"), key);
    let wrong = v1::FieldValue { field: "nw_src".to_owned(), value: Some(Value::Number(1)), mask: None };
    assert_eq!(metadata(&[wrong]).expect_err("a header field").reason, "ip_src cannot be given to a packet");
}

fn flow_spec() -> FlowSpec {
    FlowSpec {
        table: 3,
        priority: 7,
        matching: Arc::new(parsed("tcp,reg0=1")),
        cookie: 5,
        idle_timeout: 1,
        hard_timeout: 2,
        importance: 3,
        flags: FlowFlags { send_flow_rem: true, no_byte_counts: true, ..FlowFlags::default() },
        actions: [Action::Output { port: 2, max_len: None }].into(),
    }
}

#[test]
fn flows_groups_and_meters_survive_the_way_through_protobuf() {
    let spec = flow_spec();
    let back = flow(&flow_message(&spec, true, Style::default(), &NoNames), &NoNames).expect("a flow");
    assert_eq!((back.value, back.warnings.len()), (spec, 0));

    let bucket = |id, weight, watch_port| BucketSpec {
        id,
        weight,
        watch_port,
        watch_group: None,
        actions: [Action::Output { port: 2, max_len: None }].into(),
    };
    let fields = [(Field::NwSrc, 0xffff_ff00), (Field::TcpDst, 0xffff)].into();
    let groups = [
        (GroupKind::Select, Selection::Hash { param: 5, fields }, vec![bucket(7, 50, Some(3)), bucket(0, 0, None)]),
        (GroupKind::Select, Selection::DpHash { param: 1 }, vec![bucket(0, 1, None)]),
        (GroupKind::Select, Selection::Maglev { param: 0 }, vec![bucket(4_000_000_000, 1, None)]),
        (GroupKind::Select, Selection::Maglev { param: 7 }, vec![bucket(0, 1, None)]),
        (GroupKind::FastFailover, Selection::Default, vec![bucket(1, 0, Some(1))]),
        (GroupKind::Indirect, Selection::Default, vec![bucket(1, 0, None)]),
        (GroupKind::All, Selection::Default, Vec::new()),
    ];
    for (kind, selection, buckets) in groups {
        let spec = GroupSpec { id: 9, kind, selection, buckets };
        let message = group_message(&spec, true, Style::default(), &NoNames);
        assert_eq!(group(&message, &NoNames).expect("a group").value, spec);
    }

    let bands = vec![
        Band { kind: BandKind::Drop, rate: 100, burst: 10 },
        Band { kind: BandKind::DscpRemark { precedence: 1 }, rate: 50, burst: 5 },
    ];
    let spec = MeterSpec { id: 1, pktps: true, burst: true, stats: true, bands };
    assert_eq!(meter(&meter_message(&spec)).expect("a meter"), spec);
}

#[test]
fn what_is_not_given_is_the_default() {
    let spec = flow(&v1::Flow::default(), &NoNames).expect("a flow").value;
    assert_eq!(
        (spec.table, spec.priority, spec.actions.len(), &*spec.matching),
        (0, 32768, 0, &SparseMatch::default())
    );
    assert_eq!(filter(&v1::FlowFilter::default(), &NoNames).expect("a filter").value, FlowFilter::default());
    let place = |place| bucket_place(Some(&v1::BucketPlace { place: Some(place) })).expect("a place");
    assert_eq!(place(v1::bucket_place::Place::BucketId(5)), BucketPlace::Before(5));
    assert_eq!(place(v1::bucket_place::Place::Last(true)), BucketPlace::Last);
    // Ids of buckets are counted around those that are given.
    let bucket = |id| v1::Bucket { id, ..Default::default() };
    let ids = buckets(&[bucket(None), bucket(Some(0)), bucket(None)], None, &NoNames).expect("buckets").value;
    assert_eq!(ids.iter().map(|bucket| bucket.id).collect::<Vec<_>>(), [1, 0, 2]);
}

fn field(name: &str, value: u64) -> v1::FieldValue {
    v1::FieldValue { field: name.to_owned(), value: Some(Value::Number(value)), mask: None }
}

#[test]
fn a_field_that_cannot_be_is_refused_by_name() {
    let masked = v1::FieldValue { mask: Some(Mask::MaskNumber(3)), ..field("reg0", 5) };
    let cases = [
        (field("nw_srk", 1), "\"nw_srk\" is no field"),
        (v1::FieldValue { value: None, ..field("reg0", 0) }, "reg0: no value is given"),
        (field("nw_ttl", 256), "nw_ttl: 0x100 has more than 8 bits"),
        (
            v1::FieldValue { value: Some(Value::Octets(vec![0; 17])), ..field("ct_label", 0) },
            "ct_label: 17 octets are too many",
        ),
    ];
    for (message, want) in cases {
        let error = matching::from_message(&v1::Match { fields: vec![message] }, &NoNames).expect_err(want);
        assert_eq!((error.reason.as_str(), error.column), (want, 0));
    }
    let error = of_actions(v1::action::Action::SetField(masked)).expect_err("bits outside of the mask");
    assert_eq!(error.reason, "set_field: value 0x5 of reg0 has bits outside of its mask 0x3");
    // Text clears such bits in a match, and warns; so do fields.
    let masked = v1::FieldValue { mask: Some(Mask::MaskNumber(3)), ..field("reg0", 5) };
    let parsed = matching::from_message(&v1::Match { fields: vec![masked] }, &NoNames).expect("a match");
    assert_eq!((parsed.value.get(Field::Reg0), parsed.warnings.len()), ((1, 3), 1), "{:?}", parsed.warnings);
}

/// What becomes of a flow of this action.
fn of_actions(action: v1::action::Action) -> Result<Vec<Action>, TextError> {
    let actions = vec![v1::Action { action: Some(action) }];
    let doing = Some(v1::flow::Doing::Actions(v1::Actions { actions }));
    let ip = Some(v1::flow::Matching::MatchText("ip".to_owned()));
    flow(&v1::Flow { matching: ip, doing, ..Default::default() }, &NoNames).map(|flow| flow.value.actions.to_vec())
}

#[test]
fn what_an_action_cannot_mean_is_refused() {
    use v1::action::Action as A;
    let sub = |field: &str, start, length| Some(v1::Subfield { field: field.to_owned(), start, length });
    let cases = [
        (A::SetTtl(256), "set_ttl: 256 is out of range"),
        (A::GotoTable(256), "goto_table: 256 is out of range"),
        (A::Output(v1::OutputAction { port: 1, max_len: Some(65_536) }), "max_len: 65536 is out of range"),
        (
            A::Resubmit(v1::ResubmitAction::default()),
            "resubmit has neither a port nor a table: it would only run the same flow again",
        ),
        (A::Move(v1::MoveAction { from: sub("reg0", 0, 0), to: None }), "move.to: no field is given"),
        (A::StackPush(sub("reg0", 30, 4).expect("bits")), "reg0: 4 bits from bit 30 on are not in its 32"),
        (A::StackPush(sub("reg0", 32, 0).expect("bits")), "reg0: 0 bits from bit 32 on are not in its 32"),
        (
            A::StackPush(sub("reg0", u32::MAX, u32::MAX).expect("bits")),
            "reg0: 4294967295 bits from bit 4294967295 on are not in its 32",
        ),
        (A::Multipath(v1::MultipathAction::default()), "multipath.algorithm: 0 is not known"),
        (A::Conjunction(v1::ConjunctionAction { id: 1, clause: 3, clauses: 2 }), "clause 3 of 2"),
        (A::DeleteField("reg0".to_owned()), "reg0 cannot be deleted"),
        (
            A::Learn(v1::LearnAction { specs: vec![v1::LearnSpec { spec: None }], ..Default::default() }),
            "learn: an element is empty",
        ),
        (
            A::Ct(v1::CtAction {
                nat: Some(v1::NatAction { address_first: vec![1, 2, 3], ..Default::default() }),
                ..Default::default()
            }),
            "nat: 3 octets are no address",
        ),
        (
            A::Ct(v1::CtAction {
                nat: Some(v1::NatAction { kind: 1, port_first: 5, port_last: 4, ..Default::default() }),
                ..Default::default()
            }),
            "nat: 5 to 4 is no range of ports",
        ),
    ];
    for (action, want) in cases {
        let error = of_actions(action).expect_err(want);
        assert_eq!(error.reason, want);
    }
    assert_eq!(actions::list(&[v1::Action { action: None }]).expect_err("empty").reason, "an action is empty");
}

#[test]
fn what_a_flow_or_group_cannot_be_is_refused() {
    let error = |message: v1::Flow| flow(&message, &NoNames).expect_err("refused").reason;
    assert_eq!(error(v1::Flow { table: 254, ..Default::default() }), "table 254 is not for flows: tables are 0 to 253");
    assert_eq!(error(v1::Flow { priority: Some(65_536), ..Default::default() }), "priority: 65536 is out of range");
    assert_eq!(error(v1::Flow { table_name: "x".to_owned(), ..Default::default() }), "no table is named \"x\"");
    let error = |message: v1::Group| group(&message, &NoNames).expect_err("refused").reason;
    let select = v1::GroupType::Select.into();
    assert_eq!(error(v1::Group { id: u32::MAX, ..Default::default() }), "0xffffffff is no group id");
    assert_eq!(error(v1::Group { r#type: 9, ..Default::default() }), "9 is no group type");
    let bucket = v1::Bucket { weight: Some(1), ..Default::default() };
    assert_eq!(
        error(v1::Group { buckets: vec![bucket], ..Default::default() }),
        "bucket 0: only buckets of select groups have weights"
    );
    assert_eq!(error(v1::Group { r#type: select, selection_method: 9, ..Default::default() }), "9 is no method");
    let indirect = v1::GroupType::Indirect.into();
    assert_eq!(error(v1::Group { r#type: indirect, ..Default::default() }), "an indirect group has one bucket, not 0");
    let failover = v1::GroupType::FastFailover.into();
    let buckets = vec![v1::Bucket::default()];
    assert_eq!(
        error(v1::Group { r#type: failover, buckets, ..Default::default() }),
        "bucket 0: a fast failover bucket must be watched"
    );
    let band = v1::Band { rate: 0, ..Default::default() };
    assert_eq!(
        meter(&v1::Meter { id: 1, bands: vec![band], ..Default::default() }).expect_err("refused").reason,
        "band 1: a rate of 0 lets nothing pass"
    );
}
