//! Learned rules: what they are, how they get along with hand-made ones and with transactions, and
//! what readers may rely on.

mod control;
mod threads;
mod worlds;

use super::*;
use crate::pipeline::state::PipelineState;
use crate::pipeline::{Program, Rule};
use vswitch_flow::action::{Action, LearnSource, LearnSpec, port};
use vswitch_flow::spec::{FlowFilter, FlowFlags, FlowSpec, Update};
use vswitch_flow::{Field, FlowMask, SparseMatch, Subfield};

/// `learn(table=1,priority=7,cookie=5,idle_timeout=10,hard_timeout=20,nw_src,load:5->reg0)`.
fn learn() -> Learn {
    let source = Subfield::whole(Field::NwSrc);
    Learn {
        idle_timeout: 10,
        hard_timeout: 20,
        fin_idle_timeout: 0,
        fin_hard_timeout: 0,
        priority: 7,
        cookie: 5,
        table: 1,
        send_flow_rem: false,
        delete_learned: false,
        limit: 0,
        result: None,
        specs: [
            LearnSpec::Match { from: LearnSource::Field(source), to: source },
            LearnSpec::Load { from: LearnSource::Immediate(5), to: Subfield::whole(Field::Reg0) },
        ]
        .into(),
    }
}

fn packet(source: u32) -> FlowKey {
    let mut key = FlowKey::default();
    key.set(Field::NwSrc, source.into());
    key.set(Field::InPort, 3);
    key
}

fn source(source: u32) -> Arc<SparseMatch> {
    let mut mask = FlowMask::default();
    mask.add(Field::NwSrc);
    Arc::new(SparseMatch::new(&packet(source), &mask))
}

fn flow(priority: u16, from: u32, cookie: u64, actions: &[Action]) -> FlowSpec {
    FlowSpec {
        table: 1,
        priority,
        matching: source(from),
        cookie,
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        flags: FlowFlags::default(),
        actions: actions.into(),
    }
}

/// A learn of the same table and cookie that deletes its flows, as an action of any flow.
fn last_learn(learn: &Learn) -> Action {
    Action::Learn(Box::new(Learn { delete_learned: true, specs: [].into(), ..learn.clone() }))
}

fn output(port: u32) -> Action {
    Action::Output { port, max_len: None }
}

/// A pipeline with a clock.
struct Bench {
    changes: Arc<Changes>,
    state: PipelineState,
    world: u64,
    now: u64,
}

impl Bench {
    fn new() -> Self {
        let changes = Arc::new(Changes::default());
        Self { state: PipelineState::new(&changes), changes, world: 0, now: 0 }
    }

    fn apply(&mut self, updates: &[Update]) -> Vec<u64> {
        self.world += 1;
        self.state.apply(updates, self.world, Millis(self.now)).expect("not refused").counts
    }

    fn expire(&mut self, now: u64) -> bool {
        (self.now, self.world) = (now, self.world + 1);
        self.state.expire(self.world, Millis(now))
    }

    fn learn(&self, learn: &Learn, from: u32) -> bool {
        self.state.program().learned.learn(learn, &packet(from), Millis(self.now), None)
    }

    /// Flows as `priority:cookie idle/hard packets duration source`, sorted as dumped.
    fn flows(&self) -> Vec<String> {
        let infos = self.state.flows(&FlowFilter::default(), Millis(self.now));
        let text = |info: &crate::pipeline::state::FlowInfo| {
            let FlowSpec { priority, cookie, idle_timeout, hard_timeout, matching, .. } = &info.flow;
            let (packets, duration) = (info.counters.packets, info.counters.duration_ms);
            let from = matching.get(Field::NwSrc).0;
            format!("{priority}:{cookie:x} {idle_timeout}/{hard_timeout} {packets} {duration} {from}")
        };
        infos.iter().map(text).collect()
    }

    /// What a packet finds: the cookie of the rule, learned ones before hand-made ones of equal
    /// priority.
    fn finds(&self, from: u32) -> Option<u64> {
        find(&self.state.program(), from).map(|rule| rule.cookie)
    }
}

/// As translation looks a packet up in table 1.
fn find(program: &Program, from: u32) -> Option<Arc<Rule>> {
    let (key, mut used) = (packet(from), FlowMask::default());
    let tables = program.learned.tables();
    let learned = tables.get(1).and_then(Option::as_ref);
    let learned = learned.and_then(|table| table.rules.lookup(&key, &mut used, None)).map(|found| found.entry);
    let floor = learned.map(|entry| entry.priority);
    let rules = program.table(1).map(|table| &table.rules);
    let hand_made = rules.and_then(|rules| rules.lookup(&key, &mut used, floor)).map(|found| found.entry);
    // The floor is the classifier's business; here it must not matter.
    let hand_made = hand_made.filter(|entry| floor.is_none_or(|floor| entry.priority > floor));
    hand_made.or(learned).map(|entry| Arc::clone(&entry.data))
}

#[test]
fn flows_are_made_of_the_packet_and_of_constants() {
    let bits = |field, start, len| Subfield { field, start, len };
    let whole = Subfield::whole;
    let field = |sub| LearnSource::Field(sub);
    let set = |field: Field, value, mask| Action::SetField { field, value, mask };
    let mut key = packet(0x0a00_0001);
    key.set(Field::Reg1, 0x1234_5678);
    key.set(Field::Reg2, 0xfffe);
    key.set(Field::Reg3, 0x1_0002);
    key.set(Field::Reg4, 0xff00);
    key.set(Field::VlanTci, 0x1005);
    let local = {
        let mut key = key.clone();
        key.set(Field::InPort, port::LOCAL.into());
        key
    };
    use LearnSpec::{Load, Match, Output};
    // Specs; what is matched, as field, value, mask; actions.
    type Case<'a> = (&'a str, &'a FlowKey, &'a [LearnSpec], &'a [(Field, u128, u128)], &'a [Action]);
    let cases: &[Case<'_>] = &[
        ("nothing", &key, &[], &[], &[]),
        (
            "a constant, a field, the same field elsewhere",
            &key,
            &[
                Match { from: LearnSource::Immediate(0x800), to: whole(Field::EthType) },
                Match { from: field(whole(Field::NwSrc)), to: whole(Field::NwSrc) },
                Match { from: field(whole(Field::NwSrc)), to: whole(Field::NwDst) },
            ],
            &[
                (Field::EthType, 0x800, 0xffff),
                (Field::NwSrc, 0x0a00_0001, 0xffff_ffff),
                (Field::NwDst, 0x0a00_0001, 0xffff_ffff),
            ],
            &[],
        ),
        (
            "bits",
            &key,
            &[
                Match { from: field(bits(Field::VlanTci, 0, 12)), to: bits(Field::VlanTci, 0, 12) },
                Match { from: field(bits(Field::Reg1, 4, 8)), to: bits(Field::Reg0, 16, 8) },
                Load { from: field(bits(Field::Reg1, 24, 8)), to: bits(Field::Reg5, 8, 8) },
                Load { from: LearnSource::Immediate(1), to: bits(Field::Reg6, 31, 1) },
            ],
            &[(Field::VlanTci, 5, 0xfff), (Field::Reg0, 0x67_0000, 0xff_0000)],
            &[set(Field::Reg5, 0x1200, 0xff00), set(Field::Reg6, 1 << 31, 1 << 31)],
        ),
        (
            "ports",
            &key,
            &[
                Output(bits(Field::InPort, 0, 16)),
                Output(whole(Field::Reg2)),
                Output(whole(Field::Reg3)),
                Output(bits(Field::Reg3, 0, 16)),
                Output(whole(Field::Reg4)),
            ],
            &[],
            &[output(3), output(port::LOCAL), output(2)],
        ),
        (
            "the local port",
            &local,
            &[
                Match { from: field(bits(Field::InPort, 0, 16)), to: bits(Field::InPort, 0, 16) },
                Load { from: field(bits(Field::InPort, 0, 16)), to: bits(Field::Reg0, 0, 16) },
                Output(bits(Field::InPort, 0, 16)),
                Output(whole(Field::InPort)),
            ],
            &[(Field::InPort, port::LOCAL as u128, 0xffff_ffff)],
            &[set(Field::Reg0, 0xfffe, 0xffff), output(port::LOCAL), output(port::LOCAL)],
        ),
    ];
    for (name, packet, specs, matched, actions) in cases {
        let made = make::flow(&Learn { specs: (*specs).into(), ..learn() }, packet);
        let (mut key, mut mask) = (FlowKey::default(), FlowMask::default());
        for (field, value, bits) in *matched {
            key.set_masked(*field, *value, *bits);
            mask.add_bits(*field, *bits);
        }
        assert_eq!(*made.matching, SparseMatch::new(&key, &mask), "{name}");
        assert_eq!(&*made.actions, *actions, "{name}");
        assert_eq!((made.table, made.priority, made.cookie), (1, 7, 5));
        assert_eq!((made.idle_timeout, made.hard_timeout, made.flags), (10, 20, FlowFlags::default()));
    }
    let fin = Learn { fin_idle_timeout: 5, fin_hard_timeout: 6, send_flow_rem: true, ..learn() };
    let made = make::flow(&fin, &key);
    assert_eq!(made.actions[0], Action::FinTimeout { idle: 5, hard: 6 });
    assert!(made.flags.send_flow_rem);
}

#[test]
fn a_learned_flow_is_refreshed_and_nothing_else() {
    let mut bench = Bench::new();
    bench.apply(&[Update::AddFlow(flow(1, 9, 0x90, &[]))]);
    let epoch = bench.changes.epoch();
    assert!(bench.learn(&learn(), 1));
    assert_eq!(bench.changes.epoch(), epoch + 1);
    assert_eq!(bench.state.program().learned.tables()[1].as_ref().map(|table| table.epoch), Some(epoch + 1));
    bench.now = 3000;
    assert!(bench.learn(&learn(), 1));
    assert_eq!(bench.changes.epoch(), epoch + 1, "nothing that a decision could depend on");
    assert_eq!(bench.flows(), ["1:90 0/0 0 3000 9", "7:5 10/20 0 3000 1"]);
    bench.learn(&Learn { cookie: 6, hard_timeout: 99, ..learn() }, 1);
    assert_eq!(bench.flows()[1], "7:6 10/20 0 3000 1", "the rest of what there was stays");
    assert_eq!(bench.changes.epoch(), epoch + 2);
    // Other timeouts than the flow has, as after a FIN: it keeps its own, however often it is
    // learned.
    assert!(bench.learn(&Learn { cookie: 6, idle_timeout: 3, ..learn() }, 1));
    assert_eq!(bench.changes.epoch(), epoch + 2);
    assert_eq!((bench.finds(1), bench.finds(9), bench.finds(2)), (Some(6), Some(0x90), None));
}

/// Observed: Open vSwitch 3.1 learns by `OFPFC_MODIFY_STRICT`.
#[test]
fn a_hand_made_flow_keeps_all_but_cookie_and_actions() {
    let mut bench = Bench::new();
    let there = FlowSpec { idle_timeout: 100, hard_timeout: 200, importance: 3, ..flow(7, 1, 9, &[]) };
    bench.apply(&[Update::AddFlow(there), Update::AddFlow(flow(6, 1, 8, &[]))]);
    find(&bench.state.program(), 1).expect("a rule").stats.packets.store(4, Relaxed);
    bench.now = 3000;
    assert!(bench.learn(&learn(), 1));
    assert_eq!(bench.flows(), ["7:5 100/200 4 3000 1", "6:8 0/0 0 3000 1"], "in its place of the dump");
    assert_eq!((bench.finds(1), bench.state.tables()[0].flows), (Some(5), 2));
    let rule = find(&bench.state.program(), 1).expect("a rule");
    assert_eq!((rule.importance, rule.modified_ms.load(Relaxed), rule.learned), (3, 3000, true));
    // The control side takes the hand-made one out, in whatever it does next.
    assert!(bench.expire(3001));
    assert_eq!(bench.state.program().table(1).map(|table| table.rules.len()), Some(1));
    assert!(!bench.expire(3002));
    assert_eq!(bench.flows().len(), 2);
    // An equal one stays as it is.
    let mut bench = Bench::new();
    let actions = [Action::SetField { field: Field::Reg0, value: 5, mask: 0xffff_ffff }];
    let equal = FlowSpec { idle_timeout: 10, hard_timeout: 20, ..flow(7, 1, 5, &actions) };
    bench.apply(&[Update::AddFlow(equal)]);
    bench.now = 15_000;
    assert!(bench.learn(&learn(), 1));
    let rule = find(&bench.state.program(), 1).expect("a rule");
    assert_eq!((rule.learned, rule.modified_ms.load(Relaxed)), (false, 15_000));
}

/// Observed.
#[test]
fn the_limit_counts_all_flows_of_the_cookie_in_the_table() {
    let mut bench = Bench::new();
    let limited = Learn { limit: 2, ..learn() };
    bench.apply(&[Update::AddFlow(flow(1, 9, 5, &[])), Update::AddFlow(FlowSpec { table: 2, ..flow(1, 9, 5, &[]) })]);
    assert!(bench.learn(&limited, 1));
    assert!(!bench.learn(&limited, 2), "the third");
    assert!(bench.learn(&limited, 1), "there already");
    assert!(bench.learn(&Learn { cookie: 6, ..limited.clone() }, 2), "another cookie");
    bench.apply(&[Update::DeleteFlows(FlowFilter { strict: Some(1), matching: source(9), ..FlowFilter::default() })]);
    assert!(bench.learn(&limited, 3));
    assert!(!bench.learn(&limited, 4));
    // A flow with other timeouts would have to be changed: that is refused, too.
    bench.apply(&[Update::AddFlow(flow(7, 1, 5, &[]))]);
    assert!(!bench.learn(&limited, 1));
    // Hand-made ones that were replaced do not count twice.
    let mut bench = Bench::new();
    bench.apply(&[Update::AddFlow(flow(7, 1, 5, &[]))]);
    bench.learn(&learn(), 1);
    assert!(bench.learn(&limited, 2));
    assert!(!bench.learn(&limited, 3));
    bench.apply(&[]);
    assert!(!bench.learn(&limited, 3));
    assert_eq!(bench.flows().len(), 2);
}

#[test]
fn there_is_an_end_to_learning() {
    let learned = Learned::bounded(Arc::default(), Bounds { per_table: 3, per_bridge: 4 });
    let mut now = 0;
    let mut try_learn = |learn: &Learn, from| {
        now += 1;
        learned.learn(learn, &packet(from), Millis(now), None)
    };
    let other = Learn { table: 2, ..learn() };
    assert!((1..=3).all(|from| try_learn(&learn(), from)));
    assert!(!try_learn(&learn(), 4), "the table is full");
    assert!(try_learn(&learn(), 3), "there already");
    assert!(try_learn(&Learn { cookie: 77, ..learn() }, 3), "in the place of another");
    assert!(try_learn(&other, 1));
    assert!(!try_learn(&other, 2), "the bridge is full");
    assert_eq!([1, 2, 3, 255].map(|table| learned.refused(table)), [1, 1, 0, 0]);
}
