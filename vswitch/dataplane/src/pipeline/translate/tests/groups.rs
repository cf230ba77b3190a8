//! Groups (ovs-facts e), learn, multipath and bundle.

use super::*;
use crate::pipeline::{Credit, Effect};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_flow::action::{Bundle, HashFields, Learn, LearnSource, LearnSpec, Multipath, MultipathAlgorithm};
use vswitch_flow::spec::{BucketSpec, GroupKind, Selection};

fn bucket(id: u32, actions: impl Into<Vec<Action>>) -> BucketSpec {
    BucketSpec { id, weight: 100, watch_port: None, watch_group: None, actions: actions.into().into() }
}

fn watching(id: u32, port: PortNo, actions: impl Into<Vec<Action>>) -> BucketSpec {
    BucketSpec { watch_port: Some(port), ..bucket(id, actions) }
}

fn group(id: u32, kind: GroupKind, buckets: Vec<BucketSpec>) -> GroupSpec {
    GroupSpec { id, kind, selection: Selection::Default, buckets }
}

#[test]
fn all_buckets_get_copies_and_nothing_survives() {
    let mut setup = Setup::new();
    let buckets = vec![
        bucket(0, [out(2), set(Field::NwTtl, 5), set(Field::Reg0, 1)]),
        bucket(1, [set(Field::NwTtl, 6), resubmit(1)]),
        bucket(2, [set(Field::NwTtl, 7)]),
    ];
    setup.group(group(1, GroupKind::All, buckets));
    setup.flow(0, "tcp", [set(Field::EthDst, 9), Action::Group(1), resubmit(2)]);
    setup.flow(1, "reg0=0,ip,nw_ttl=6", [out(3)]);
    setup.flow(2, "reg0=0,ip,nw_ttl=64", [out(4)]);
    let translation = setup.run(TCP);
    assert_eq!(
        setup.show(&translation),
        "set(eth(dst=00:00:00:00:00:09)),clone(set(ipv4(ttl=5)),p2),clone(set(ipv4(ttl=6)),p3),p4"
    );
    let all = translation.credits.iter().filter(|credit| matches!(credit, Credit::AllBuckets(_))).count();
    assert_eq!(all, 1);
    assert!(translation.deps.groups && !translation.deps.links);
    // Exit and dec_ttl in a bucket end the bucket.
    let dec = Action::DecTtl([].into());
    let ends = vec![bucket(0, [dec, out(2)]), bucket(1, [resubmit(3)])];
    setup.group(group(2, GroupKind::All, ends)).flow(3, "", [out(3), Action::Exit]);
    setup.flow(0, "tcp", [Action::Group(2), out(4)]);
    assert_eq!(setup.ops(&TCP.replace("nw_ttl=64", "nw_ttl=1")), "p3,p4");
    setup.group(group(3, GroupKind::Indirect, vec![bucket(0, [set(Field::NwTtl, 5), out(2)])]));
    setup.flow(0, "tcp", [Action::Group(3)]);
    assert_eq!(setup.ops(TCP), "set(ipv4(ttl=5)),p2");
}

#[test]
fn fast_failover_takes_the_first_that_lives() {
    let mut setup = Setup::new();
    let group_watched = BucketSpec { watch_group: Some(2), ..bucket(2, [out(4)]) };
    setup.group(group(2, GroupKind::All, vec![watching(0, 5, [out(5)])]));
    setup.group(group(
        1,
        GroupKind::FastFailover,
        vec![watching(0, 2, [out(2)]), watching(1, 3, [out(3)]), group_watched],
    ));
    setup.flow(0, "", [Action::Group(1)]);
    let translation = setup.run(TCP);
    assert_eq!(setup.show(&translation), "p2");
    assert!(translation.deps.links);
    assert!(matches!(translation.credits.last(), Some(Credit::Bucket(_, 0))), "{:?}", translation.credits);
    setup.port(2).link_up.store(false, Relaxed);
    assert_eq!(setup.ops(TCP), "p3");
    setup.port(3).admin_up = false;
    assert_eq!(setup.ops(TCP), "p4");
    setup.port(5).link_up.store(false, Relaxed);
    assert_eq!(setup.ops(TCP), "drop: no_bucket");
    // Groups that watch each other live by nothing.
    let watch = |group| BucketSpec { watch_group: Some(group), ..bucket(0, [out(2)]) };
    setup.group(group(7, GroupKind::FastFailover, vec![watch(8); 1]));
    setup.group(group(8, GroupKind::FastFailover, vec![watch(7), BucketSpec { id: 1, ..watch(7) }]));
    setup.flow(0, "", [Action::Group(7)]);
    assert_eq!(setup.ops(TCP), "drop: no_bucket");
}

#[test]
fn chains_of_groups() {
    let mut setup = Setup::new();
    setup.group(group(
        1,
        GroupKind::All,
        vec![bucket(0, [Action::Group(2)]), bucket(1, [Action::Group(99)]), bucket(2, [out(3)])],
    ));
    setup.group(group(2, GroupKind::Indirect, vec![bucket(0, [out(2)])]));
    setup.flow(0, "", [Action::Group(1), out(4)]);
    assert_eq!(setup.ops(TCP), "p2,p3,p4", "a missing group is skipped");
    setup.group(group(3, GroupKind::Indirect, vec![bucket(0, [Action::Group(3)])]));
    setup.flow(0, "", [out(2), Action::Group(3)]);
    assert_eq!(setup.ops(TCP), "drop: resubmit_depth", "a group that leads to itself");
}

#[test]
fn buckets_are_action_sets() {
    let mut setup = Setup::new();
    setup.group(group(1, GroupKind::Indirect, vec![bucket(0, [out(2), set(Field::NwTtl, 5), out(3)])]));
    setup.flow(0, "", [Action::Group(1)]);
    assert_eq!(setup.ops(TCP), "set(ipv4(ttl=5)),p3");
    setup.group(group(2, GroupKind::Indirect, vec![bucket(0, [out(port::CONTROLLER)])]));
    setup.flow(0, "", [Action::Group(2)]);
    assert_eq!(setup.ops(TCP), "controller(reason=group,id=0,table=0,cookie=0x64)");
}

fn share(setup: &Setup, packets: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut shares = BTreeMap::new();
    packets.for_each(|packet| *shares.entry(setup.ops(&packet)).or_default() += 1);
    shares
}

fn udp(source: u32, port: u32) -> String {
    let [_, _, a, b] = source.to_be_bytes();
    format!("in_port=1,udp,nw_src=10.0.{a}.{b},nw_dst=10.0.0.2,udp_src={port},udp_dst=53")
}

#[test]
fn select_shares_by_weight_and_keeps_connections() {
    let mut setup = Setup::new();
    let heavy = BucketSpec { weight: 300, ..bucket(1, [out(3)]) };
    setup.group(group(1, GroupKind::Select, vec![bucket(0, [out(2)]), heavy]));
    setup.flow(0, "", [Action::Group(1)]);
    let packets = || (0..2000).map(|i| udp(i, 1000 + i % 7));
    let shares = share(&setup, packets());
    assert!((400..600).contains(&shares["p2"]) && shares.len() == 2, "500 expected: {shares:?}");
    assert_eq!(share(&setup, packets()), shares, "the same again");
    let mask = setup.mask(&udp(5, 6));
    assert_eq!(mask, "recirc_id=0,dp_hash=0/0xff,ip,in_port=1,nw_frag=no", "as few bits as there are slots");
    let mut later = key(&udp(5, 0));
    later.set(Field::NwFrag, 3);
    assert_eq!(setup.translate(&later, Start::Table).mask.get(Field::TpSrc), 0, "a fragment's ports are not used");
    // A dead bucket's share goes to the living.
    let mut setup = Setup::new();
    setup.group(group(1, GroupKind::Select, vec![watching(0, 2, [out(2)]), watching(1, 3, [out(3)])]));
    setup.flow(0, "", [Action::Group(1)]);
    setup.port(2).link_up.store(false, Relaxed);
    assert_eq!(share(&setup, packets()), BTreeMap::from([("p3".to_owned(), 2000)]));
    setup.port(3).link_up.store(false, Relaxed);
    assert_eq!(setup.ops(&udp(1, 1)), "drop: no_bucket");
    setup.group(group(2, GroupKind::Select, vec![])).flow(0, "", [Action::Group(2)]);
    assert_eq!(setup.ops(&udp(1, 1)), "drop: no_bucket");
}

#[test]
fn select_by_given_fields() {
    let mut setup = Setup::new();
    let fields = [(Field::NwSrc, 0xff), (Field::UdpSrc, 0xffff), (Field::TcpDst, 0xffff)].into();
    let buckets = (0..4).map(|i| bucket(i, [out(2 + i)])).collect();
    let selection = Selection::Hash { param: 5, fields };
    setup.group(GroupSpec { selection, ..group(1, GroupKind::Select, buckets) });
    setup.flow(0, "", [Action::Group(1)]);
    assert_eq!(
        setup.mask(&udp(0x0105, 6)),
        "recirc_id=0,udp,in_port=1,nw_src=0.0.0.5/0.0.0.255,nw_frag=no,tp_src=6",
        "exactly these fields; no TCP port in a UDP packet"
    );
    let by_port = share(&setup, (0..400).map(|i| udp(1, i)));
    assert!(by_port.len() == 4 && by_port.values().all(|count| *count > 60), "{by_port:?}");
    // Fields that are not named do not matter.
    let same = share(&setup, (0..8).map(|i| udp(i << 8 | 1, 6)));
    assert_eq!(same.len(), 1, "{same:?}");
}

#[test]
fn multipath_and_bundle_choose() {
    let mut setup = Setup::new();
    let multipath = Multipath {
        fields: HashFields::SymmetricL4,
        basis: 50,
        algorithm: MultipathAlgorithm::ModuloN,
        links: 8,
        arg: 0,
        to: sub("NXM_NX_REG0[0..15]"),
    };
    setup.flow(
        0,
        "",
        [Action::Multipath(multipath.into()), Action::OutputField { from: sub("NXM_NX_REG0[]"), max_len: None }],
    );
    let mask = setup.mask(TCP);
    assert!(mask.contains("nw_src=10.0.0.1") && mask.contains("tp_src=1234") && mask.contains("dl_src"), "{mask}");
    let bundle = |hrw, to| {
        let members = [2, 3, 4].into();
        Action::Bundle(Bundle { fields: HashFields::EthSrc, basis: 0, hrw, members, to }.into())
    };
    setup.flow(0, "", [bundle(false, None)]);
    let translation = setup.run(TCP);
    assert_eq!(setup.show(&translation), "p2");
    assert!(translation.deps.links);
    assert_eq!(translation.mask.get(Field::EthSrc), 0, "active_backup hashes nothing");
    setup.port(2).link_up.store(false, Relaxed);
    assert_eq!(setup.ops(TCP), "p3");
    setup.flow(0, "", [bundle(true, Some(sub("NXM_NX_REG1[]"))), resubmit(1)]);
    setup.flow(1, "reg1=3", [out(3)]).flow(1, "reg1=4", [out(4)]).flow(1, "reg1=0xffff", [out(5)]);
    let macs = |i: u32| format!("in_port=1,dl_src=02:00:00:00:00:{i:02x},dl_dst=02:00:00:00:00:01,dl_type=0x1234");
    let shares = share(&setup, (0..64).map(macs));
    assert_eq!(shares.keys().collect::<Vec<_>>(), ["p3", "p4"], "only live members: {shares:?}");
    setup.port(3).link_up.store(false, Relaxed);
    setup.port(4).link_up.store(false, Relaxed);
    assert_eq!(setup.ops(TCP), "p5", "none lives");
}

fn learn(limit: u32) -> Learn {
    let spec = |from: &str, to: &str| LearnSpec::Match { from: LearnSource::Field(sub(from)), to: sub(to) };
    Learn {
        idle_timeout: 0,
        hard_timeout: 0,
        fin_idle_timeout: 0,
        fin_hard_timeout: 0,
        priority: 200,
        cookie: 5,
        table: 1,
        send_flow_rem: false,
        delete_learned: false,
        limit,
        result: None,
        specs: [spec("NXM_OF_ETH_SRC[]", "NXM_OF_ETH_DST[]"), LearnSpec::Output(sub("NXM_OF_IN_PORT[]"))].into(),
    }
}

#[test]
fn what_is_learned_works_for_the_next_packet() {
    let mut setup = Setup::new();
    setup.flow(0, "", [Action::Learn(learn(0).into()), resubmit(1)]);
    setup.flow(1, "", [out(8)]);
    let packet = |in_port: u32, source: u32, destination: u32| {
        format!(
            "in_port={in_port},dl_src=02:00:00:00:00:{source:02x},dl_dst=02:00:00:00:00:{destination:02x},dl_type=0x1234"
        )
    };
    let translation = setup.run(&packet(2, 0xa, 0xb));
    assert_eq!(setup.show(&translation), "p8");
    assert!(matches!(&translation.effects[..], [Effect::Learn { bridge: 0, .. }]), "{:?}", translation.effects);
    assert_eq!(translation.mask.get(Field::EthSrc), Field::EthSrc.ones(), "what is learned is used");
    assert!(translation.cacheable);
    assert_eq!(setup.ops(&packet(3, 0xb, 0xa)), "p2", "a learned flow of higher priority wins");
    assert_eq!(setup.ops(&packet(2, 0xa, 0xb)), "p3");
    assert_eq!(setup.ops(&packet(4, 0xd, 0xd)), "p8", "what it teaches is not for itself");
    assert_eq!(setup.ops(&packet(4, 0xd, 0xd)), "drop: rule_drop", "learned: to its own port");
    // The other way round: a static flow above.
    setup.flow_in(0, 1, 300, "dl_dst=02:00:00:00:00:0a", [out(7)]);
    assert_eq!(setup.ops(&packet(3, 0xb, 0xa)), "p7");
}

#[test]
fn the_result_of_learn_goes_into_a_field() {
    let mut setup = Setup::new();
    let learn = Learn { limit: 2, result: Some(sub("NXM_NX_REG5[0]")), ..learn(2) };
    setup.flow(0, "", [Action::Learn(learn.into()), resubmit(2)]);
    setup.flow(2, "reg5=1", [out(2)]).flow(2, "reg5=0", [out(3)]);
    let packet =
        |source: u32| format!("in_port=1,dl_src=02:00:00:00:00:{source:02x},dl_dst=02:00:00:00:00:01,dl_type=0x1234");
    let results: Vec<String> = [1, 2, 3, 1].map(|source| setup.ops(&packet(source))).into();
    assert_eq!(results, ["p2", "p2", "p3", "p2"], "two fit, a third does not, the first is there already");
    assert!(!setup.run(&packet(3)).cacheable, "there may be room for the next packet");
}

#[test]
fn fin_timeout_reduces_timeouts() {
    let mut setup = Setup::new();
    setup.flow(0, "tcp", [Action::FinTimeout { idle: 5, hard: 9 }, out(2)]);
    let timeouts = |setup: &Setup| {
        let table = setup.world.bridges[0].program.table(0).expect("a table");
        let rule = &table.rules.iter().next().expect("a rule").data;
        (rule.idle_timeout.load(Relaxed), rule.hard_timeout.load(Relaxed))
    };
    let translation = setup.run(TCP);
    assert!(matches!(&translation.effects[..], [Effect::Fin { idle: 5, hard: 9, .. }]), "{:?}", translation.effects);
    assert_eq!(timeouts(&setup), (0, 0), "no FIN yet");
    setup.run(&format!("{TCP},tcp_flags=0x011"));
    assert_eq!(timeouts(&setup), (5, 9));
    assert_eq!(translation.mask.get(Field::TcpFlags), 0, "flags decide nothing");
}

/// A million buckets that do nothing are work, too.
#[test]
fn empty_buckets_are_work() {
    let mut setup = Setup::new();
    let many = |actions: &[Action]| (0..1024).map(|id| bucket(id, actions)).collect::<Vec<_>>();
    setup.group(group(2, GroupKind::All, many(&[]))).group(group(1, GroupKind::All, many(&[Action::Group(2)])));
    setup.flow(0, "tcp", [out(2), Action::Group(1)]);
    assert_eq!(setup.ops(TCP), "drop: work_limit");
}

#[test]
fn fragments_of_a_packet_take_one_bucket() {
    let mut setup = Setup::new();
    let buckets = (0..4).map(|id| bucket(id, [out(2 + id)])).collect();
    setup.group(group(1, GroupKind::Select, buckets)).flow(0, "udp", [Action::Group(1)]);
    let mut taken = std::collections::BTreeSet::new();
    for source in 1..40 {
        let packet = format!("in_port=1,udp,nw_src=10.0.0.{source},nw_dst=10.0.0.2,nw_ttl=64");
        let first = setup.ops(&format!("{packet},nw_frag=first,udp_src=7,udp_dst={source}"));
        assert_eq!(setup.ops(&format!("{packet},nw_frag=later")), first, "10.0.0.{source}");
        taken.insert(first);
    }
    assert_eq!(taken.len(), 4, "{taken:?}");
}
