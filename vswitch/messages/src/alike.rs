//! The same said as a message and as text is the same flow or group, or is refused in the same
//! words.

use super::{flow, group};
use vswitch_flow::Action;
use vswitch_flow::spec::Update;
use vswitch_flow::text::{FlowCommand, NoNames, TextError, parse_flow, parse_group};
use vswitch_proto::v1;
use vswitch_proto::v1::action::Action as Kind;
use vswitch_proto::v1::field_value::{Mask, Value};

/// What of an error is the same whoever is told: text has a column, too.
fn told<T>(result: Result<T, TextError>) -> Result<T, (&'static str, String)> {
    result.map_err(|error| (error.code, error.reason))
}

fn by_message(action: Kind) -> Result<Vec<Action>, TextError> {
    let actions = vec![v1::Action { action: Some(action) }];
    let doing = Some(v1::flow::Doing::Actions(v1::Actions { actions }));
    let tcp = Some(v1::flow::Matching::MatchText("tcp".to_owned()));
    flow(&v1::Flow { matching: tcp, doing, ..Default::default() }, &NoNames).map(|flow| flow.value.actions.to_vec())
}

fn by_text(action: &str) -> Result<Vec<Action>, TextError> {
    parse_flow(&format!("tcp,actions={action}"), FlowCommand::Add, &NoNames).map(|parsed| match parsed.value {
        Update::AddFlow(flow) => flow.actions.to_vec(),
        other => panic!("{other:?}"),
    })
}

fn bits(field: &str, start: u32, length: u32) -> Option<v1::Subfield> {
    Some(v1::Subfield { field: field.to_owned(), start, length })
}

fn ct(nat: v1::NatAction) -> Kind {
    Kind::Ct(v1::CtAction { commit: true, nat: Some(nat), ..Default::default() })
}

fn set(field: &str, number: u64, mask: Option<u64>) -> Kind {
    let value = Some(Value::Number(number));
    Kind::SetField(v1::FieldValue { field: field.to_owned(), value, mask: mask.map(Mask::MaskNumber) })
}

fn learn(field: &str, length: u32, constant: u32) -> Kind {
    use v1::learn_copy::From;
    let from = Some(From::Constant(constant.to_be_bytes().into()));
    let spec = v1::learn_spec::Spec::Match(v1::LearnCopy { to: bits(field, 0, length), from });
    Kind::Learn(v1::LearnAction { specs: vec![v1::LearnSpec { spec: Some(spec) }], ..Default::default() })
}

#[test]
fn actions_that_open_vswitch_keeps_in_another_form() {
    let nat = |kind, first: [u8; 4], last: [u8; 4]| v1::NatAction {
        kind,
        address_first: first.into(),
        address_last: last.into(),
        ..Default::default()
    };
    let (one, none) = ([10, 0, 0, 1], [0; 4]);
    let resubmit = |port, table| Kind::Resubmit(v1::ResubmitAction { port, table, ct: false });
    let sample = v1::SampleAction { probability: 1, sampling_port: Some(0xffff), ..Default::default() };
    for (action, text) in [
        (ct(v1::NatAction { kind: 1, random: true, ..Default::default() }), "ct(commit,nat(src,random))"),
        (
            ct(v1::NatAction { persistent: true, ..nat(1, none, one) }),
            "ct(commit,nat(src=0.0.0.0-10.0.0.1,persistent))",
        ),
        (ct(v1::NatAction { hash: true, ..nat(2, one, none) }), "ct(commit,nat(dst=10.0.0.1-0.0.0.0,hash))"),
        (ct(v1::NatAction { port_last: 5, ..nat(1, one, one) }), "ct(commit,nat(src=10.0.0.1:0-5))"),
        (resubmit(Some(0xfff8), Some(3)), "resubmit(in_port,3)"),
        (resubmit(Some(2), Some(255)), "resubmit(2,255)"),
        (Kind::Output(v1::OutputAction { port: 0xfffe, max_len: Some(20) }), "output(port=65534,max_len=20)"),
        (Kind::Output(v1::OutputAction { port: 0xffff_fffd, max_len: None }), "controller"),
        (
            Kind::OutputField(v1::OutputFieldAction { from: bits("reg0", 0, 16), max_len: Some(9) }),
            "output:NXM_NX_REG0[0..15]",
        ),
        (
            Kind::Controller(v1::ControllerAction { id: 1, meter_id: Some(0), ..Default::default() }),
            "controller(id=1,meter_id=0)",
        ),
        (Kind::Sample(sample), "sample(probability=1,sampling_port=none)"),
        (Kind::SetVlanVid(5), "mod_vlan_vid:5"),
        (set("tp_dst", 80, None), "mod_tp_dst:80"),
        (set("nw_tos", 8, None), "set_field:8->nw_tos"),
        (set("tun_flags", 1, None), "set_field:1->tun_flags"),
        (set("in_port", 0xfff8, None), "set_field:0xfff8->in_port"),
        (learn("vlan_vid", 0, 0x1005), "learn(vlan_vid=4101)"),
        (learn("in_port", 16, 0xfffe), "learn(in_port=65534)"),
        (learn("in_port", 0, 0xffff_fff8), "learn(in_port=IN_PORT)"),
        (Kind::WriteActions(v1::Actions::default()), "write_actions()"),
    ] {
        let typed = told(by_message(action));
        assert!(typed.is_ok(), "{text}: {typed:?}");
        assert_eq!(typed, told(by_text(text)), "{text}");
    }
}

#[test]
fn actions_that_are_refused_in_the_same_words() {
    let flags = v1::NatAction { kind: 1, hash: true, random: true, ..Default::default() };
    let backwards = v1::NatAction {
        kind: 1,
        address_first: vec![10, 0, 0, 9],
        address_last: vec![10, 0, 0, 1],
        ..Default::default()
    };
    let move_ = v1::MoveAction { from: bits("reg0", 0, 0), to: bits("eth_src", 0, 0) };
    for (action, text) in [
        (ct(flags), "ct(commit,nat(src,hash,random))"),
        (ct(v1::NatAction { random: true, ..Default::default() }), "ct(commit,nat(random))"),
        (ct(backwards), "ct(commit,nat(src=10.0.0.9-10.0.0.1))"),
        (Kind::Ct(v1::CtAction { force: true, ..Default::default() }), "ct(force)"),
        (Kind::Resubmit(v1::ResubmitAction { port: Some(0xffff_fff8), ..Default::default() }), "resubmit(in_port,)"),
        (Kind::Output(v1::OutputAction { port: 1, max_len: Some(13) }), "output(port=1,max_len=13)"),
        (Kind::DecTtl(v1::DecTtlAction { controller_ids: vec![1; 65] }), &format!("dec_ttl({})", "1,".repeat(65))),
        (Kind::Conjunction(v1::ConjunctionAction { id: 1, clause: 3, clauses: 2 }), "conjunction(1,3/2)"),
        (Kind::Move(move_), "move:reg0->eth_src"),
        (Kind::PushVlan(0x9100), "push_vlan:0x9100"),
        (Kind::DeleteField("reg0".to_owned()), "delete_field:reg0"),
        (Kind::Sample(v1::SampleAction::default()), "sample(collector_set_id=0)"),
        (set("reg0", 5, Some(3)), "set_field:5/3->reg0"),
        (set("vlan_vid", 5, None), "set_field:5->vlan_vid"),
        (set("dl_vlan", 5, Some(0xff)), "set_field:5/0xff->dl_vlan"),
        (set("nw_proto", 5, None), "set_field:5->nw_proto"),
        (learn("dl_vlan", 0, 5), "learn(dl_vlan=5)"),
    ] {
        let typed = told(by_message(action));
        assert!(typed.is_err(), "{text}: {typed:?}");
        assert_eq!(typed, told(by_text(text)), "{text}");
    }
}

#[test]
fn groups_that_are_kept_or_refused_alike() {
    let bucket = v1::Bucket::default();
    let watching = v1::Bucket { watch_port: Some(0xffff_ffff), ..bucket.clone() };
    let hashed = |field: &str, mask: Option<u64>| {
        let mask = mask.map(Mask::MaskNumber);
        v1::FieldValue { field: field.to_owned(), value: Some(Value::Number(0)), mask }
    };
    let hash = |selection_fields| v1::Group { r#type: 2, selection_method: 2, selection_fields, ..Default::default() };
    let of = |kind, buckets: &[&v1::Bucket]| v1::Group {
        r#type: kind,
        buckets: buckets.iter().map(|bucket| (*bucket).clone()).collect(),
        ..Default::default()
    };
    let (select, drop) = ("type=select,selection_method=hash", "actions=drop");
    for (message, text) in [
        (of(1, &[&watching]), &format!("type=all,bucket=watch_port:none,{drop}")),
        (of(1, &[&v1::Bucket { weight: Some(0), ..bucket.clone() }]), &format!("type=all,bucket=weight:0,{drop}")),
        (
            of(1, &[&v1::Bucket { id: Some(0xffff_ff00), ..bucket.clone() }]),
            &format!("type=all,bucket=bucket_id:4294967040,{drop}"),
        ),
        (
            hash(vec![hashed("tcp_dst", None), hashed("ip_src", Some(0xff00_0000))]),
            &format!("{select},fields(tcp_dst,ip_src=255.0.0.0)"),
        ),
        (hash(vec![hashed("ip_src", None), hashed("ip_src", None)]), &format!("{select},fields(ip_src,ip_src)")),
        (hash(vec![hashed("nw_ttl", Some(7))]), &format!("{select},fields(nw_ttl=7)")),
        (hash(vec![hashed("reg0", Some(0))]), &format!("{select},fields(reg0=0)")),
        (v1::Group { selection_param: 5, ..of(2, &[]) }, &"type=select,selection_method_param=5".to_owned()),
        (of(3, &[&bucket, &bucket]), &format!("type=indirect,bucket={drop},bucket={drop}")),
    ] {
        let typed = told(group(&message, &NoNames).map(|group| group.value));
        let line = told(parse_group(&format!("group_id=0,{text}"), &NoNames).map(|group| group.value.spec));
        assert_eq!(typed, line, "{text}");
    }
}
