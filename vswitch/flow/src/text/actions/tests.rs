//! What the recorded cases (`tests/recorded.rs`) and the round trip (`text/round_trip.rs`) do not
//! show: values behind the text, places of errors, and hostile text.

use super::*;
use crate::action::{CtZone, LearnSource, LearnSpec, Reject, limits, port};
use crate::text::NoNames;
use crate::{Field, Subfield};

fn parse(text: &str) -> Result<Vec<Action>, TextError> {
    parse_actions(text, &NoNames).map(|parsed| parsed.value)
}

fn one(text: &str) -> Action {
    let mut actions = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(actions.len(), 1, "{text}");
    actions.remove(0)
}

fn error(text: &str) -> TextError {
    match parse(text) {
        Ok(actions) => panic!("{text} is taken as {actions:?}"),
        Err(error) => error,
    }
}

#[test]
fn values_behind_the_text() {
    let reg = |number: usize, start, len| Subfield { field: Field::reg(number).expect("a register"), start, len };
    let set = |field: Field, value, mask| Action::SetField { field, value, mask };
    for (text, action) in [
        ("load:5->NXM_NX_REG3[4..7]", set(Field::Reg3, 0x50, 0xf0)),
        ("set_field:0x10/0xf0->reg3", set(Field::Reg3, 0x10, 0xf0)),
        ("mod_nw_tos:8", set(Field::IpDscp, 2, 0x3f)),
        ("set_vlan_vid:5", set(Field::VlanVid, 0x1005, 0x1fff)),
        ("mod_vlan_vid:5", Action::SetVlanVid(5)),
        ("mod_tp_dst:80", set(Field::TpDst, 80, 0xffff)),
        ("set_field:80->tp_dst", set(Field::TcpDst, 80, 0xffff)),
        ("dec_ttl", Action::DecTtl([0].into())),
        ("dec_ttl(0)", Action::DecTtl([0].into())),
        ("conjunction(7,2/3)", Action::Conjunction { id: 7, clause: 1, clauses: 3 }),
        ("65534", Action::Output { port: port::LOCAL, max_len: None }),
        ("resubmit(in_port,3)", Action::Resubmit { port: None, table: Some(3), ct: false }),
        ("resubmit(2,)", Action::Resubmit { port: Some(2), table: None, ct: false }),
        ("note:ab", Action::Note([0xab, 0, 0, 0, 0, 0].into())),
        ("check_pkt_larger(1500)->reg0[3]", Action::CheckPktLarger { len: 1500, to: reg(0, 3, 1) }),
        ("output:reg1[0..15]", Action::OutputField { from: reg(1, 0, 16), max_len: None }),
        ("write_metadata:5/7", Action::WriteMetadata { value: 5, mask: 7 }),
    ] {
        assert_eq!(one(text), action, "{text}");
    }
    let Action::Learn(learn) = one("learn(in_port=LOCAL,NXM_OF_IN_PORT[]=reg0[0..15],load:3->reg1[2..3])") else {
        panic!("no learn")
    };
    let in_port = Subfield { field: Field::InPort, start: 0, len: 16 };
    let expected = [
        LearnSpec::Match { from: LearnSource::Immediate(port::LOCAL.into()), to: Subfield::whole(Field::InPort) },
        LearnSpec::Match { from: LearnSource::Field(reg(0, 0, 16)), to: in_port },
        LearnSpec::Load { from: LearnSource::Immediate(3), to: reg(1, 2, 2) },
    ];
    assert_eq!(*learn.specs, expected);
    assert_eq!((learn.table, learn.priority), (1, 32768));
    let Action::Learn(learn) = one("learn(in_port=IN_PORT)") else { panic!("no learn") };
    let LearnSpec::Match { from, .. } = learn.specs[0] else { panic!("no match") };
    assert_eq!(from, LearnSource::Immediate(port::IN_PORT.into()));
    for (flags, value) in [("[200]", 0x200), ("fin|[800]", 0x801)] {
        let Action::Learn(learn) = one(&format!("learn(tcp_flags={flags})")) else { panic!("no learn") };
        let LearnSpec::Match { from, .. } = learn.specs[0] else { panic!("no match") };
        assert_eq!(from, LearnSource::Immediate(value), "{flags}");
    }
    let Action::Ct(ct) = one("ct(commit,zone=reg8[0..15],nat(dst=10.0.0.1-10.0.0.9:80-90,random))") else {
        panic!("no ct")
    };
    assert_eq!(ct.zone, CtZone::Field(reg(8, 0, 16)));
    let nat = ct.nat.expect("nat");
    assert_eq!(
        nat.addresses.map(|(first, last)| (first.to_string(), last.to_string())).expect("addresses").1,
        "10.0.0.9"
    );
    assert_eq!((nat.source, nat.ports, nat.random, nat.hash), (Some(false), Some((80, 90)), true, false));
}

#[test]
fn lists_without_actions() {
    for text in ["", "drop", "DROP", " drop , ", "write_actions()", "write_actions(drop)"] {
        assert_eq!(parse(text), Ok(vec![]), "{text}");
    }
    assert_eq!(one("clone()"), Action::Clone([].into()));
    for text in ["reject", "reject()", "reject(drop)"] {
        assert_eq!(one(text), Action::Reject(Box::default()), "{text}");
    }
}

#[test]
fn refusals_have_parameters_and_then_a_list() {
    let in_port = Action::Output { port: port::IN_PORT, max_len: None };
    for (text, reset, icmp, icmp6, mtu, printed) in [
        ("reject(IN_PORT)", true, 10, 1, 0, "reject(IN_PORT)"),
        ("reject(tcp=reset,icmp=10,icmp6=1,IN_PORT)", true, 10, 1, 0, "reject(IN_PORT)"),
        ("reject(icmp6=4,icmp=3,IN_PORT)", true, 3, 4, 0, "reject(icmp=3,icmp6=4,IN_PORT)"),
        ("reject(tcp=icmp,IN_PORT)", false, 10, 1, 0, "reject(tcp=icmp,IN_PORT)"),
        ("REJECT( icmp:0 , IN_PORT )", true, 0, 1, 0, "reject(icmp=0,IN_PORT)"),
        ("reject(mtu=1400,IN_PORT)", true, 10, 1, 1400, "reject(mtu=1400,IN_PORT)"),
    ] {
        let action = one(text);
        let expected = Reject { reset, icmp, icmp6, mtu, actions: [in_port.clone()].into() };
        assert_eq!(action, Action::Reject(Box::new(expected)), "{text}");
        let mut out = String::new();
        format_actions(&[action], Style::default(), &NoNames, &mut out);
        assert_eq!(out, printed, "{text}");
    }
    let Action::Reject(reject) = one("reject(icmp=3,load:1->NXM_NX_REG0[],clone(2),resubmit(,5))") else {
        panic!("no reject")
    };
    assert_eq!(reject.actions.len(), 3);
}

/// Column, what the reason or hint has to contain, code.
#[test]
fn errors_say_where_and_how() {
    for (text, column, says, code) in [
        ("outpt:2", 1, "did you mean output?", ""),
        ("2,set_feild:1->reg0", 3, "did you mean set_field?", ""),
        ("2,3,Normall", 5, "did you mean NORMAL?", ""),
        ("set_field:1->rge0", 14, "did you mean", ""),
        ("2,set_field:0x10/0xf->reg0", 13, "outside of its mask", "OFPBMC_BAD_WILDCARDS"),
        ("load:16->reg0[0..3]", 6, "at most 0xf", "OFPBAC_BAD_ARGUMENT"),
        ("move:reg0[0..3]->reg1", 6, "4 bits do not fit into 32 bits", "OFPBAC_BAD_ARGUMENT"),
        ("clone(2,clone(3,nosuch))", 17, "nosuch", ""),
        ("ct(commit,exec(set_field:1->reg0))", 26, "exec cannot set reg0", "OFPBAC_BAD_ARGUMENT"),
        ("ct(comit)", 4, "did you mean commit?", ""),
        ("ct(commit,nat(src=10.0.0.9-10.0.0.1))", 19, "no range of addresses", "OFPBAC_BAD_ARGUMENT"),
        ("ct(nat(src=10.0.0.1))", 1, "need commit", "OFPBAC_BAD_ARGUMENT"),
        ("ct(commit,zone=reg0)", 16, "32 bits", "OFPBAC_BAD_SET_LEN"),
        ("learn(table=1,eth_typ=0x800)", 15, "did you mean eth_type?", ""),
        ("learn(table=1,nw_dst=10.0.0.1/24)", 22, "mask", ""),
        ("learn(table=1,result_dst=reg0)", 26, "32 bits", "OFPBAC_BAD_ARGUMENT"),
        ("goto_table:300", 12, "0 to 253", ""),
        ("goto_table:UnSNAT", 12, "there is no table \"UnSNAT\"", ""),
        ("resubmit(,3,tc)", 13, "did you mean ct?", ""),
        ("resubmit(,)", 1, "neither a port nor a table", "OFPBAC_BAD_ARGUMENT"),
        ("output:\"antrea-gw1\"", 8, "antrea-gw1", ""),
        ("conjunction(1,3/2)", 13, "1 to 2", "NXBAC_BAD_CONJUNCTION"),
        ("conjunction(1,1/65)", 13, "2 to 64", "NXBAC_BAD_CONJUNCTION"),
        ("2,drop", 3, "drop must stand alone", ""),
        ("note:0x12", 6, "0x", ""),
        ("controller(reason=nomatch)", 19, "did you mean no_match?", ""),
        ("controller(userdata=01.2)", 24, "\"2\"", ""),
        ("multipath(eth_src,1,modulo_n,17,0,reg0[0..3])", 30, "17 links", "OFPBAC_BAD_ARGUMENT"),
        ("multipath(eth_src,1)", 1, "multipath(FIELDS,", ""),
        ("bundle(eth_src,0,hrw,ofport,1,2)", 8, "members:PORT", ""),
        ("set_queue:1", 1, "no queues", "OFPBAC_BAD_TYPE"),
        ("push_mpls:0x8847", 1, "MPLS", "OFPBAC_BAD_TYPE"),
        ("push_vlan:0x9100", 11, "0x8100 or 0x88a8", "OFPBAC_BAD_ARGUMENT"),
        ("set_field:5->nw_proto", 14, "read-only", "OFPBAC_BAD_SET_ARGUMENT"),
        ("set_field:5->vlan_vid", 11, "set_field:4101->vlan_vid", "OFPBAC_BAD_SET_ARGUMENT"),
        ("set_field:1->NXM_NX_REG0[0..3]", 14, "load:VALUE->NXM_NX_REG0[0..3]", ""),
        ("exit(3)", 6, "takes no argument", ""),
        ("2->3", 1, "no action or port", ""),
        ("dec_ttl(1,x)", 11, "\"x\"", ""),
        ("reject(tcp=rst,IN_PORT)", 12, "reset", ""),
        ("reject(icmp=256,IN_PORT)", 13, "code of ICMP", ""),
        ("reject(icmp=4,IN_PORT)", 8, "0 to 15 but 4", "OFPBAC_BAD_ARGUMENT"),
        ("reject(icmp6=9,IN_PORT)", 8, "0 to 8", "OFPBAC_BAD_ARGUMENT"),
        ("reject(mtu=67,IN_PORT)", 8, "68 to 65535", "OFPBAC_BAD_ARGUMENT"),
        ("reject(mtu=65536,IN_PORT)", 12, "MTU", ""),
        ("reject(icmp=3,mtu=1400,IN_PORT)", 8, "leave out tcp, icmp and icmp6", "OFPBAC_BAD_ARGUMENT"),
        ("reject(IN_PORT,icmp=3)", 16, "no action or port", ""),
    ] {
        let error = error(text);
        let message = error.to_string();
        assert_eq!((error.column, error.code), (column, code), "{text}: {message}");
        assert!(message.contains(says), "{text}: {message}");
    }
}

#[test]
fn hostile_text_is_refused_quickly() {
    let nested = |levels: usize| format!("{}2{}", "clone(".repeat(levels), ")".repeat(levels));
    assert!(parse(&nested(limits::MAX_NESTING - 1)).is_ok());
    let refusing = |levels: usize| format!("{}2{}", "reject(icmp=3,".repeat(levels), ")".repeat(levels));
    assert!(parse(&refusing(limits::MAX_NESTING - 1)).is_ok());
    for levels in [limits::MAX_NESTING, 100_000] {
        assert!(error(&refusing(levels)).reason.contains("nested more than 32 levels"));
    }
    assert!(parse(&"reject(".repeat(100_000)).is_err());
    assert!(parse(&format!("reject({}2)", "icmp=3,".repeat(100_000))).is_ok(), "one after the other is no depth");
    let deep = error(&nested(limits::MAX_NESTING));
    assert!(deep.reason.contains("nested more than 32 levels"), "{deep}");
    assert_eq!(deep.column, 1 + 6 * limits::MAX_NESTING);
    assert!(parse(&nested(100_000)).is_err());
    assert!(parse(&"clone(".repeat(100_000)).is_err());
    assert!(parse(&")".repeat(100_000)).is_err());
    assert!(parse(&"\"".repeat(99_999)).is_err());
    let long = error(&"resubmit(,1),".repeat(10_000));
    assert_eq!((long.code, long.reason.contains("65471 bytes")), ("OFPBRC_BAD_LEN", true), "{long}");
    assert!(parse(&"2,".repeat(500_000)).is_err());
    let clauses = "conjunction(7,1/2),".repeat(limits::MAX_CLAUSES);
    assert_eq!(parse(&clauses).map(|actions| actions.len()).ok(), Some(limits::MAX_CLAUSES));
    let long = error(&format!("{clauses}conjunction(7,2/2)"));
    assert_eq!((long.code, long.reason.contains("65536 conjunctions")), ("OFPBRC_BAD_LEN", true), "{long}");
    let mixed = error(&format!("{clauses}note:01"));
    assert_eq!(mixed.code, "OFPBRC_BAD_LEN", "only of nothing else: {mixed}");
    assert!(parse(&format!("learn({})", "reg0=1,".repeat(65))).is_err());
    assert!(parse(&format!("dec_ttl({})", "1,".repeat(65))).is_err());
    assert!(parse(&format!("bundle(eth_src,0,hrw,ofport,members:{})", "1,".repeat(2049))).is_err());
    let unknown = error(&"x".repeat(1 << 20));
    assert!(unknown.to_string().len() < 400, "{}", unknown.to_string().len());
    for text in [
        "é",
        "output:é",
        "set_field:é->reg0",
        "set_field:1->é",
        "note:é",
        "ct(é)",
        "clone(é)",
        "\u{0}",
        "resubmit(é,é)",
    ] {
        error(text);
    }
}

/// Ports and tables that are called like actions.
#[test]
fn names_that_are_words() {
    struct Words;
    const WORDS: [&str; 5] = ["drop", "output", "exit", "antrea-gw0", "3rd"];
    impl Names for Words {
        fn port(&self, name: &str) -> Option<u32> {
            WORDS.iter().zip(1..).find(|(word, _)| **word == name).map(|(_, number)| number)
        }
        fn port_name(&self, number: u32) -> Option<&str> {
            WORDS.get((number as usize).checked_sub(1)?).copied()
        }
        fn table(&self, name: &str) -> Option<u8> {
            WORDS.iter().zip(0..).find(|(word, _)| **word == name).map(|(_, number)| number)
        }
        fn table_name(&self, number: u8) -> Option<&str> {
            WORDS.get(usize::from(number)).copied()
        }
    }
    let text = "output:drop,output:\"antrea-gw0\",resubmit(exit,\"3rd\"),resubmit:output,goto_table:drop";
    let parsed = parse_actions(text, &Words).expect(text).value;
    let mut out = String::new();
    format_actions(&parsed, Style { names: true }, &Words, &mut out);
    assert_eq!(out, text);
    out.clear();
    format_actions(&parsed, Style::default(), &Words, &mut out);
    assert_eq!(out, "output:1,output:4,resubmit(3,4),resubmit:2,goto_table:0");
}
