//! Fields that options of Geneve are mapped to: who may use them, and when a mapping may go.
//! Refused as by Open vSwitch 3.1, seen in its answers.

use super::{Bench, Update};
use vswitch_flow::spec::FlowFilter;
use vswitch_flow::text::{NoNames, parse_bundle_line, parse_match};
use vswitch_overlay::options::{MapError, parse};

/// Flows that use tun_metadata1, each in another way.
const USERS: [&str; 20] = [
    "tun_metadata1=5,actions=drop",
    "tun_metadata1=0/1,actions=drop",
    "actions=set_field:1->tun_metadata1",
    "actions=load:1->tun_metadata1[3]",
    "actions=delete_field:tun_metadata1",
    "actions=move:tun_metadata1[0..7]->reg0[0..7]",
    "actions=move:reg0[0..7]->tun_metadata1[0..7]",
    "actions=push:tun_metadata1[0..7]",
    "actions=pop:tun_metadata1[0..7]",
    "actions=output:tun_metadata1[0..15]",
    "actions=clone(set_field:1->tun_metadata1)",
    "actions=write_actions(set_field:1->tun_metadata1)",
    "actions=multipath(symmetric_l4,50,modulo_n,1,0,tun_metadata1[0..15])",
    "actions=bundle_load(symmetric_l4,0,hrw,ofport,tun_metadata1[0..15],members:1,2)",
    "actions=check_pkt_larger(100)->tun_metadata1[0]",
    "ip,actions=ct(zone=tun_metadata1[0..15])",
    "ip,actions=ct(commit,exec(move:tun_metadata1[0..15]->ct_mark[0..15]))",
    "actions=learn(table=1,tun_metadata1[0..7])",
    "actions=learn(table=1,reg0[0..7],load:1->tun_metadata1[0..7])",
    "actions=learn(table=1,reg0[0..7],output:tun_metadata1[0..15])",
];

fn update(line: &str) -> Update {
    parse_bundle_line(line, &NoNames).unwrap_or_else(|error| panic!("{line}: {error}")).value
}

impl Bench {
    fn map(&mut self, text: &str) {
        self.state.add_options(&parse(text).expect("mappings")).expect("no clash");
    }

    fn unmap(&mut self, text: &str) -> Result<(), MapError> {
        let mappings = if text.is_empty() { Vec::new() } else { parse(text).expect("mappings") };
        self.state.delete_options(&mappings)
    }
}

const ZERO: &str = "{class=0xffff,type=0,len=4}->tun_metadata0";
const ONE: &str = "{class=0xffff,type=1,len=8}->tun_metadata1";

#[test]
fn what_no_option_is_mapped_to_no_flow_may_use() {
    for line in USERS {
        let mut bench = Bench::default();
        bench.map(ZERO);
        let refused = (1, "NXFMFC_INVALID_TLV_FIELD");
        assert_eq!(bench.refused(&[update("actions=drop"), update(line)]), refused, "{line}");
        bench.map(ONE);
        assert_eq!(bench.ok(&[update(line)]), [1], "{line}, mapped");
        assert!(matches!(bench.unmap(ONE), Err(MapError::InUse { field: 1, .. })), "{line}, used");
        assert!(matches!(bench.unmap(""), Err(MapError::InUse { field: 1, .. })), "{line}, used, all");
        assert_eq!(bench.state.options().mapped(), 0b11, "{line}: nothing has changed");
        assert_eq!(bench.unmap(ZERO), Ok(()), "{line}: the other one");
        bench.ok(&[update("flow delete ")]);
        assert_eq!((bench.unmap(""), bench.state.options().mapped()), (Ok(()), 0), "{line}, deleted");
    }
}

#[test]
fn what_selects_flows_may_not_use_it_either() {
    let mut bench = Bench::default();
    bench.ok(&[update("actions=drop")]);
    for line in ["flow modify tun_metadata1=1,actions=drop", "flow modify actions=set_field:1->tun_metadata1"] {
        assert_eq!(bench.refused(&[update(line)]), (0, "NXFMFC_INVALID_TLV_FIELD"), "{line}");
    }
    let matching = std::sync::Arc::new(parse_match("tun_metadata1=1", &NoNames).expect("a match").value);
    let filter = FlowFilter { matching, ..FlowFilter::default() };
    for update in [Update::DeleteFlows(filter.clone()), Update::ReplaceFlows(filter.clone())] {
        assert_eq!(bench.refused(&[update]), (0, "NXFMFC_INVALID_TLV_FIELD"));
    }
    let refused = bench.state.check_filter(&filter).expect_err("no option is mapped to it");
    assert_eq!(
        refused.to_string(),
        "update 1: NXFMFC_INVALID_TLV_FIELD: no option of Geneve is mapped to tun_metadata1; map one first: vsctl \
         add-tlv-map BRIDGE '{class=N,type=N,len=N}->tun_metadata1'"
    );
    bench.map(ONE);
    bench.state.check_filter(&filter).expect("mapped");
    assert_eq!(bench.ok(&[Update::DeleteFlows(filter)]), [0]);
}

#[test]
fn groups_do_not_count_as_in_open_vswitch() {
    let mut bench = Bench::default();
    bench.ok(&[update("group add group_id=1,type=all,bucket=set_field:1->tun_metadata1,output:1")]);
    bench.map(ONE);
    assert_eq!(bench.unmap(ONE), Ok(()));
}

#[test]
fn a_mapping_in_use_says_by_whom() {
    let mut bench = Bench::default();
    bench.map(ONE);
    bench.ok(&[update("table=3,priority=7,cookie=0xab,tun_metadata1=5,actions=drop")]);
    let error = bench.unmap("").expect_err("in use");
    assert_eq!(
        (error.to_string().as_str(), error.code()),
        ("tun_metadata1 is used by a flow of table 3, priority 7, cookie 0xab", "NXTTMFC_INVALID_TLV_DEL")
    );
    assert!(matches!(bench.unmap("{class=1,type=1,len=8}->tun_metadata1"), Err(MapError::Another { .. })));
}
