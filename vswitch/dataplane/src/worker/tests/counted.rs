//! What ops count for rules by themselves: connections that `ct(commit)` created or gave another
//! label, answers of `reject()`.

use super::bed::Bed;
use super::programs::Packet;
use std::collections::BTreeMap;
use vswitch_flow::spec::FlowFilter;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const SYN_ACK: u8 = 0x12;

fn frame(v6: bool, ends: [(u8, u16); 2], tcp: Option<(u8, u32, u32)>) -> Vec<u8> {
    Packet { v6, tcp, ends, len: 8, ttl: 64, tagged: false }.bytes()
}

fn bed(cache: bool, lines: &[&str]) -> Bed {
    let mut bed = Bed::new(4);
    bed.shared.enable(cache);
    bed.program(lines);
    bed
}

impl Bed {
    /// Commits and rejects of flows that have any, by table and priority.
    fn counted(&mut self) -> BTreeMap<(u8, u16), (u64, u64)> {
        self.collector.collect();
        let infos = self.state.program().flows(&FlowFilter::default(), self.now);
        let all = infos
            .iter()
            .map(|info| ((info.flow.table, info.flow.priority), (info.counters.commits, info.counters.rejects)));
        all.filter(|(_, counted)| *counted != (0, 0)).collect()
    }

    fn lines(&mut self, lines: &[String]) {
        self.program(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// Both ends talk until they are established, and go on for a while. The first packet comes
    /// three times.
    fn talk(&mut self, v6: bool, client: u16, is_tcp: bool) {
        let (there, back) = ([(1, client), (2, 80)], [(2, 80), (1, client)]);
        let segment = |flags, seq, ack| is_tcp.then_some((flags, seq, ack));
        (0..3).for_each(|_| self.receive(1, &frame(v6, there, segment(SYN, 100, 0))));
        self.receive(2, &frame(v6, back, segment(SYN_ACK, 500, 101)));
        for _ in 0..5 {
            self.receive(1, &frame(v6, there, segment(ACK, 101, 501)));
            self.receive(2, &frame(v6, back, segment(ACK, 501, 101)));
        }
    }
}

/// As Antrea's pipeline does: translated and committed first, then labelled by a rule of each
/// direction; what is established passes the rules by.
const RULES: [&str; 7] = [
    "priority=9,IP,actions=ct(zone=5,table=1,nat)",
    "table=1,priority=9,IP,ct_state=-new+est,actions=resubmit(,4)",
    "table=1,priority=8,IP,actions=ct(commit,zone=5,table=2,exec(load:1->NXM_NX_CT_MARK[]))",
    "table=2,priority=7,IP,actions=ct(commit,zone=5,table=3,exec(load:7->NXM_NX_CT_LABEL[32..63]))",
    "table=3,priority=6,IP,actions=group:1",
    "table=4,priority=9,in_port=1,actions=output:2",
    "table=4,priority=8,in_port=2,actions=output:1",
];

const INGRESS: &str = "group add group_id=1,type=all,bucket=ct(commit,zone=5,table=4,exec(load:9->NXM_NX_CT_LABEL[0..31])),bucket=output:3";

#[test]
fn a_rule_counts_the_connections_that_it_created_or_labelled() {
    for (cache, v6, is_tcp) in [true, false].into_iter().flat_map(|cache| {
        [(false, true), (false, false), (true, true), (true, false)].map(|(v6, tcp)| (cache, v6, tcp))
    }) {
        let mut bed = bed(cache, &[INGRESS]);
        let ip = |lines: &[&str]| -> Vec<String> {
            lines.iter().map(|line| line.replace("IP", if v6 { "ipv6" } else { "ip" })).collect()
        };
        bed.lines(&ip(&RULES));
        bed.walk.conntrack.tracker().set_established_after_answer(5, true);
        let told = format!("cache {cache}, v6 {v6}, TCP {is_tcp}");
        for connections in 1..=20 {
            bed.talk(v6, 4000 + connections, is_tcp);
            let each = (u64::from(connections), 0);
            let want = BTreeMap::from([((1, 8), each), ((2, 7), each), ((3, 6), each)]);
            assert_eq!(bed.counted(), want, "{told}: created by one, labelled by two others, each once");
        }
        assert_eq!(bed.shared.stats.program_hits.get() > 0, cache, "{told}: the fast path commits nothing");
        // Written anew it goes on; another flow begins at nothing.
        bed.lines(&ip(&[
            "table=2,priority=7,IP,actions=ct(commit,zone=5,table=3,exec(load:8->NXM_NX_CT_LABEL[32..63]))",
        ]));
        bed.lines(&ip(&["table=1,priority=88,IP,actions=ct(commit,zone=5,table=2,exec(load:1->NXM_NX_CT_MARK[]))"]));
        bed.receive(1, &frame(v6, [(1, 4001), (2, 80)], is_tcp.then_some((ACK, 101, 501))));
        let counted = bed.counted();
        assert_eq!(counted.get(&(2, 7)), Some(&(21, 0)), "{told}: another label, once more");
        assert_eq!(counted.get(&(1, 88)), None, "{told}: it was there, and no mark is a label");
        assert_eq!(bed.pool.in_use(), 0);
    }
}

#[test]
fn each_ct_of_a_list_counts_for_itself_and_nobody_counts_for_another() {
    for cache in [true, false] {
        let mut bed = bed(
            cache,
            &[
                "priority=9,udp,actions=ct(commit,zone=1),ct(commit,zone=2,exec(load:1->NXM_NX_CT_LABEL[])),resubmit(,1),clone(ct(commit,zone=3,table=2))",
                "table=1,priority=8,udp,actions=ct(zone=4),ct(commit,zone=4),resubmit(,2)",
                "table=2,priority=7,udp,ct_state=-trk,actions=ct(commit,zone=5)",
                "table=2,priority=6,actions=output:2",
            ],
        );
        for round in 1..=4 {
            for client in 0..5 {
                bed.receive(1, &frame(false, [(1, 4000 + round * 10 + client), (2, 53)], None));
                // Nothing is new.
                bed.receive(1, &frame(false, [(1, 4000 + round * 10 + client), (2, 53)], None));
            }
            let n = u64::from(round) * 5;
            let want = BTreeMap::from([((0, 9), (3 * n, 0)), ((1, 8), (n, 0)), ((2, 7), (n, 0))]);
            assert_eq!(bed.counted(), want, "cache {cache}, round {round}");
        }
        // What is refused was not created.
        bed.walk.conntrack.tracker().set_limit(1, Some(20));
        bed.receive(1, &frame(false, [(1, 9), (2, 53)], None));
        assert_eq!(bed.counted().get(&(0, 9)), Some(&(60, 0)), "cache {cache}");
    }
}

/// What a decision counted is credited when it is over, too, whoever still has it then.
#[test]
fn nothing_is_lost_with_a_decision() {
    let mut bed =
        bed(true, &["priority=9,udp,actions=ct(commit,zone=1,table=1)", "table=1,priority=8,actions=output:2"]);
    for client in 0..50_u16 {
        bed.receive(1, &frame(false, [(1, 4000 + client), (2, 53)], None));
        if client % 10 == 0 {
            bed.shared.flush();
        }
    }
    assert_eq!(bed.counted(), BTreeMap::from([((0, 9), (50, 0))]));
    assert_eq!(bed.counted(), BTreeMap::from([((0, 9), (50, 0))]), "once");
}

/// An answer counts for all rules that the packet met on its way there, one that was not sent for
/// none.
#[test]
fn answers_count_for_the_rules_of_their_packets() {
    for cache in [true, false] {
        let mut bed = bed(
            cache,
            &[
                "group add group_id=1,type=all,bucket=resubmit(,2),bucket=resubmit(,3)",
                "priority=9,ip,actions=ct(commit,zone=1,table=1)",
                "table=1,priority=9,udp,tp_dst=1,actions=load:1->NXM_NX_REG0[],group:1",
                "table=1,priority=8,udp,tp_dst=2,actions=load:2->NXM_NX_REG0[],group:1",
                "table=2,priority=7,reg0=1,actions=drop",
                "table=2,priority=6,reg0=2,actions=drop",
                "table=3,priority=5,actions=reject(IN_PORT)",
            ],
        );
        for _ in 0..3 {
            bed.receive(1, &frame(false, [(1, 4000), (2, 1)], None));
        }
        bed.receive(1, &frame(false, [(1, 4000), (2, 2)], None));
        // From a group address: nobody is told.
        bed.receive(1, &frame(false, [(255, 4000), (2, 2)], None));
        let answers = bed.ports().len() as u64;
        let counted = bed.counted();
        let rejects = |table, priority| counted.get(&(table, priority)).map_or(0, |counted| counted.1);
        assert_eq!([rejects(1, 9), rejects(2, 7)], [3, 3], "cache {cache}: {counted:?}");
        assert_eq!(rejects(1, 8) + 3, answers, "cache {cache}: {counted:?}");
        assert_eq!(rejects(2, 6), rejects(1, 8), "cache {cache}");
        assert_eq!(rejects(3, 5), answers, "cache {cache}");
        assert_eq!(rejects(0, 9), 0, "cache {cache}: that was another decision");
    }
}
