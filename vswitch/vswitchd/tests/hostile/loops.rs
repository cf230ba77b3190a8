//! T01, T08: programs that never end, and packets that come back to where they were. A budget stops
//! them: the whole packet is dropped, what had been sent for it before included, and counted under
//! the budget's name.

use crate::bed::{BRIDGE, Bed, udp};
use std::time::Duration;

/// Longest time that one packet may hold a worker, in a debug build.
const PACKET_MAX: Duration = Duration::from_secs(10);

/// Loads a program, hands packets in and says what became of them: where they left, and why they
/// were dropped.
fn fate(bed: &mut Bed, program: &[String]) -> (usize, String) {
    bed.load(&program.iter().map(String::as_str).collect::<Vec<_>>());
    let ((ports, reason), took) = bed.timed(|bed| bed.fate(&udp(1)));
    assert!(took < 4 * PACKET_MAX, "{:?}: {took:?}", program[0]);
    // Trace predicts it, and ends.
    let trace = bed.trace(&udp(1));
    let told = if trace.drop_reason.is_empty() { "-" } else { &trace.drop_reason };
    assert_eq!(told, reason, "{}", &trace.text[trace.text.len().saturating_sub(2000)..]);
    (ports.len(), reason)
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

fn dropped(reason: &str) -> (usize, String) {
    (0, reason.to_owned())
}

/// Resubmits to the same table, and round through two and three, with outputs on the way.
#[test]
fn a_loop_of_resubmits_drops_the_whole_packet() {
    let mut bed = Bed::new(3);
    let cases: [&[&str]; 4] = [
        &["actions=output:2,resubmit(,0)"],
        &["actions=output:2,resubmit(,1),output:3", "table=1,actions=output:3,resubmit(,0)"],
        &["actions=output:2,resubmit(,1)", "table=1,actions=goto_table:2", "table=2,actions=output:3,resubmit(3,0)"],
        &["actions=output:2,resubmit(7,)"],
    ];
    for case in cases {
        assert_eq!(fate(&mut bed, &lines(case)), dropped("resubmit_depth"), "{case:?}");
    }
    // Clones in one another have a budget of their own, which a loop of them meets first.
    let clones = lines(&["actions=output:2,clone(output:3,resubmit(,0))"]);
    assert_eq!(fate(&mut bed, &clones), dropped("work_limit"));
    bed.settle();
}

/// 64 resubmits to earlier tables pass and the 65th does not; forward ones do not count.
#[test]
fn the_depth_is_64() {
    let mut bed = Bed::new(3);
    let program = |backwards: u32| {
        let mut program = lines(&["table=1,actions=output:3"]);
        program.push(format!("actions=output:2,goto_table:{}", backwards + 1));
        program.extend((2..=backwards + 1).map(|table| format!("table={table},actions=resubmit(,{})", table - 1)));
        program
    };
    assert_eq!(fate(&mut bed, &program(64)), (2, "-".to_owned()));
    assert_eq!(fate(&mut bed, &program(65)), dropped("resubmit_depth"));
    let forward = |table: u32| format!("table={table},actions=resubmit(,{})", table + 1);
    let mut program: Vec<String> = (0..253).map(forward).collect();
    program.push("table=253,actions=output:2".to_owned());
    assert_eq!(fate(&mut bed, &program), (1, "-".to_owned()));
    bed.settle();
}

/// 4,096 resubmits pass, gotos counted, and the 4,097th does not; 2^40 of them end there, too.
#[test]
fn resubmits_are_4096() {
    let mut bed = Bed::new(3);
    let program = |more: usize| {
        let all = vec!["resubmit(,1)"; 4090].join(",");
        let rest = vec!["resubmit(,3)"; more].join(",");
        vec![
            format!("actions={all},goto_table:2"),
            "table=1,actions=drop".to_owned(),
            format!("table=2,actions=output:2,{rest},output:3"),
            "table=3,actions=drop".to_owned(),
        ]
    };
    assert_eq!(fate(&mut bed, &program(5)), (2, "-".to_owned()));
    assert_eq!(fate(&mut bed, &program(6)), dropped("resubmit_count"));
    let bomb = |table: u32| format!("table={table},actions=resubmit(,{0}),output:2,resubmit(,{0})", table + 1);
    let mut program: Vec<String> = (0..40).map(bomb).collect();
    program.push("table=40,actions=output:3".to_owned());
    assert_eq!(fate(&mut bed, &program), dropped("resubmit_count"));
    bed.settle();
}

/// A group that names itself, groups in a circle, a chain of groups; 63 in a chain pass, 1,000
/// (T02) do not.
#[test]
fn groups_that_lead_to_themselves() {
    let mut bed = Bed::new(3);
    let itself = lines(&["group add group_id=1,type=all,bucket=output:3,bucket=group:1", "actions=output:2,group:1"]);
    assert_eq!(fate(&mut bed, &itself), dropped("resubmit_depth"));
    let circle = lines(&[
        "group add group_id=1,type=indirect,bucket=group:2",
        "group add group_id=2,type=select,bucket=output:3,group:1",
        "actions=output:2,group:1",
    ]);
    assert_eq!(fate(&mut bed, &circle), dropped("resubmit_depth"));
    let through = lines(&["group add group_id=1,type=all,bucket=resubmit(,0)", "actions=output:2,group:1"]);
    assert_eq!(fate(&mut bed, &through), dropped("resubmit_depth"));
    let chain = |length: u32| {
        let mut program: Vec<String> =
            (1..length).map(|id| format!("group add group_id={id},type=indirect,bucket=group:{}", id + 1)).collect();
        program.push(format!("group add group_id={length},type=indirect,bucket=output:2"));
        program.push("actions=group:1".to_owned());
        program
    };
    assert_eq!(fate(&mut bed, &chain(64)), (1, "-".to_owned()));
    assert_eq!(fate(&mut bed, &chain(65)), dropped("resubmit_depth"));
    assert_eq!(fate(&mut bed, &chain(1000)), dropped("resubmit_depth"));
    // A group that is not there is skipped.
    let missing = lines(&["group add group_id=1,type=all,bucket=group:9,bucket=output:2", "actions=group:1,output:3"]);
    assert_eq!(fate(&mut bed, &missing), (2, "-".to_owned()));
    // Groups that watch each other in a circle: none of them lives.
    let watching = lines(&[
        "group add group_id=1,type=ff,bucket=watch_group:2,output:2",
        "group add group_id=2,type=ff,bucket=watch_group:1,output:2",
        "actions=group:1",
    ]);
    assert_eq!(fate(&mut bed, &watching), dropped("no_bucket"));
    bed.settle();
}

/// A bridge with the ports a and c, and br1 with b and d, joined twice (a to b, c to d); q1 is a
/// port of br1.
fn joined() -> Bed {
    let patch = |name: &str, peer: &str, number: u32| {
        format!("[[bridge.port]]\nname = {name:?}\nnumber = {number}\ntype = \"patch\"\npeer = {peer:?}\n\n")
    };
    let mut sections = patch("a", "b", 11) + &patch("c", "d", 12);
    sections += "[[bridge]]\nname = \"br1\"\nfail_mode = \"secure\"\n\n";
    sections += &(patch("b", "a", 21) + &patch("d", "c", 22));
    sections += "[[bridge.port]]\nname = \"q1\"\nnumber = 1\ntype = \"dummy\"\n\n";
    Bed::with(3, "", &sections)
}

/// T08: bridges that send to each other without end. Open vSwitch keeps what was sent before the
/// loop is cut (33 copies here): we chose the one rule that a packet that exceeds a budget is
/// dropped, whatever the budget.
#[test]
fn a_loop_of_bridges_drops_the_whole_packet() {
    let mut bed = joined();
    bed.switch.vsctl_ok(&["add-flow", "br1", "actions=output:1,IN_PORT"]);
    let one = lines(&["in_port=1,actions=output:2,output:11,output:3", "in_port=11,actions=IN_PORT"]);
    assert_eq!(fate(&mut bed, &one), dropped("resubmit_depth"));
    // Two ways between the bridges: every round doubles the copies.
    bed.switch.vsctl_ok(&["del-flows", "br1"]);
    bed.switch.vsctl_ok(&["add-flow", "br1", "actions=FLOOD"]);
    let (ports, reason) = fate(&mut bed, &lines(&["actions=FLOOD"]));
    assert!(ports == 0 && ["work_limit", "resubmit_depth", "resubmit_count"].contains(&reason.as_str()), "{reason}");
    // Learning switches that are joined twice: a broadcast storm of one packet.
    bed.switch.vsctl_ok(&["del-flows", "br1"]);
    bed.switch.vsctl_ok(&["add-flow", "br1", "actions=NORMAL"]);
    let (ports, reason) = fate(&mut bed, &lines(&["actions=NORMAL"]));
    assert!(ports == 0 && reason != "-", "{ports}, {reason}");
    // What is no loop goes through: there, and back by the other patch.
    bed.switch.vsctl_ok(&["del-flows", "br1"]);
    bed.switch.vsctl_ok(&["add-flow", "br1", "in_port=21,actions=output:1,output:22"]);
    let through = lines(&["in_port=1,actions=output:11", "in_port=12,actions=output:2"]);
    assert_eq!(fate(&mut bed, &through), (2, "-".to_owned()));
    // Nothing of all this was counted as lost at other ports.
    assert!(bed.drops("br1", "q1").is_empty() && bed.drops(BRIDGE, "p2").is_empty());
    bed.settle();
}

/// T08: copies to the port that a packet came from, as a mirror would make them: skipped, unless
/// they are asked for by name, and then once per request.
#[test]
fn a_mirror_to_itself_ends() {
    let mut bed = Bed::new(3);
    let cases: [(&str, usize, &str); 6] = [
        ("in_port=1,actions=output:1", 0, "rule_drop"),
        ("in_port=1,actions=output:1,output:2", 1, "-"),
        ("in_port=1,actions=IN_PORT,output:2", 2, "-"),
        ("in_port=1,actions=load:1->NXM_NX_REG0[],output:NXM_NX_REG0[],output:2", 1, "-"),
        ("in_port=1,actions=ALL,ALL", 4, "-"),
        // Mirrors of mirrors: a copy is no packet that comes in.
        ("in_port=1,actions=clone(output:2,clone(output:2,IN_PORT)),output:2", 4, "-"),
    ];
    for (flow, copies, reason) in cases {
        assert_eq!(fate(&mut bed, &lines(&[flow])), (copies, reason.to_owned()), "{flow}");
    }
    let refused = bed.switch.vsctl(&["add-port", BRIDGE, "self", "--type", "patch", "--peer", "self"]);
    assert!(!refused.status.success(), "a patch port that is its own peer");
    bed.settle();
}
