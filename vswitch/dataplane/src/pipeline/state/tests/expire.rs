//! Timeouts.

use super::*;

impl Bench {
    fn expire(&mut self, now: u64) -> Vec<String> {
        self.now = now;
        self.world += 1;
        let (world, flows) = (self.world, self.flows().len());
        let changed = self.state.expire(world, Millis(now));
        assert_eq!(changed, self.flows().len() != flows, "at {now} ms");
        self.removed()
    }
}

fn timed(priority: u16, idle_timeout: u32, hard_timeout: u32, actions: &[Action]) -> Update {
    let flags = FlowFlags { send_flow_rem: true, ..FlowFlags::default() };
    Update::AddFlow(FlowSpec { flags, idle_timeout, hard_timeout, ..flow(0, priority, 1, 0, actions) })
}

#[test]
fn flows_go_when_their_time_is_over() {
    let none: [&str; 0] = [];
    let mut bench = Bench::default();
    bench.ok(&[
        timed(1, 0, 0, &[]),
        timed(2, 5, 0, &[]),
        timed(3, 0, 7, &[]),
        timed(4, 5, 5, &[]),
        timed(5, 9, 8, &[]),
    ]);
    assert_eq!(bench.expire(4999), none);
    bench.now = 4000;
    bench.hit(2, 1);
    assert_eq!(bench.expire(5000), ["4:0 HardTimeout"], "both at once: the hard one is named");
    assert_eq!(bench.expire(7000), ["3:0 HardTimeout"]);
    assert_eq!(bench.expire(8000), ["5:0 HardTimeout"]);
    bench.hit(2, 1);
    assert_eq!(bench.expire(12_999), none);
    assert_eq!(bench.expire(13_000), ["2:0 IdleTimeout"], "five seconds after the last packet");
    assert_eq!(bench.expire(1 << 40), none);
    assert_eq!(bench.flows(), ["0/1:0"]);
}

#[test]
fn changes_move_deadlines_as_in_open_vswitch() {
    let none: [&str; 0] = [];
    let mut bench = Bench::default();
    bench.ok(&[timed(1, 0, 50, &[]), timed(2, 0, 0, &[]), timed(3, 50, 0, &[])]);
    bench.now = 40_000;
    let actions: Arc<[Action]> = [output(1)].into();
    bench.ok(&[Update::ModifyFlows { filter: table(0), actions, reset_counts: false, cookie: None }]);
    assert_eq!(bench.expire(49_999), none);
    assert_eq!(bench.expire(50_000), ["3:0 IdleTimeout"], "modified, but not used");
    assert_eq!(bench.expire(89_999), none, "a hard timeout counts from the last change");
    assert_eq!(bench.expire(90_000), ["1:0 HardTimeout"]);
    // An add over a flow keeps when it was last hit: observed.
    bench.ok(&[timed(2, 60, 0, &[])]);
    assert_eq!(bench.expire(90_001), ["2:0 IdleTimeout"]);
    assert!(bench.flows().is_empty());
}

/// More seconds than 16 bits hold: a day, and the most that can be said.
#[test]
fn a_timeout_may_be_longer_than_65_535_seconds() {
    let none: [&str; 0] = [];
    let mut bench = Bench::default();
    bench.ok(&[timed(1, 0, 86_400, &[]), timed(2, 86_400, 0, &[]), timed(3, u32::MAX, u32::MAX, &[])]);
    assert_eq!(bench.expire(86_399_999), none);
    let mut gone = bench.expire(86_400_000);
    gone.sort_unstable();
    assert_eq!(gone, ["1:0 HardTimeout", "2:0 IdleTimeout"]);
    let last = u64::from(u32::MAX) * 1000;
    assert_eq!(bench.expire(last - 1), none);
    assert_eq!(bench.expire(last), ["3:0 HardTimeout"]);
}

#[test]
fn fin_timeout_takes_effect_though_nobody_tells() {
    let none: [&str; 0] = [];
    let mut bench = Bench::default();
    let tcp = matching(&[(Field::EthType, 0x800), (Field::NwProto, 6)]);
    let fin = flow(0, 1, 0, 0, &[Action::FinTimeout { idle: 5, hard: 6 }]);
    let flags = FlowFlags { send_flow_rem: true, ..FlowFlags::default() };
    bench.ok(&[Update::AddFlow(FlowSpec { matching: tcp, idle_timeout: 600, flags, ..fin })]);
    assert_eq!(bench.expire(3000), none);
    let program = bench.state.program();
    let rule = &program.table(0).and_then(|table| table.rules.iter().next()).expect("a flow").data;
    rule.idle_timeout.store(5, Relaxed);
    assert_eq!(bench.expire(4999), none);
    let gone: Vec<String> = (50..=56).flat_map(|tenth| bench.expire(tenth * 100)).collect();
    assert_eq!(gone, ["1:0 IdleTimeout"], "within half a second of the deadline");
}

#[test]
fn what_expires_may_be_the_last_learn() {
    let mut bench = Bench::default();
    bench.ok(&[timed(1, 0, 5, &[learn(1, 0x77)]), add(1, 2, 1, 0x77, &[]), add(1, 3, 1, 0x78, &[])]);
    assert_eq!(bench.expire(5000), ["1:0 HardTimeout"]);
    assert_eq!(bench.flows(), ["1/3:78"]);
    assert_eq!(bench.changed(1), bench.world);
}

#[test]
fn a_flow_that_went_otherwise_does_not_expire() {
    let none: [&str; 0] = [];
    let mut bench = Bench::default();
    bench.ok(&[timed(1, 5, 0, &[]), timed(2, 5, 0, &[])]);
    let strict = FlowFilter { strict: Some(1), matching: matching(&[(Field::Reg0, 1)]), ..table(0) };
    bench.ok(&[delete(strict), timed(2, 0, 0, &[])]);
    bench.removed();
    assert_eq!(bench.expire(1_000_000), none);
    assert_eq!(bench.flows(), ["0/2:0"]);
}
