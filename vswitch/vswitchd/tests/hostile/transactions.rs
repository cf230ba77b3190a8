//! One bad line among many: nothing changes, and it is named.

use crate::bed::{BRIDGE, Bed};
use std::fmt::Write;
use std::path::PathBuf;
use vswitch_proto::v1;

/// Lines of a file.
const LINES: usize = 100_000;

/// What is there before: a refused transaction would have replaced, removed and changed all of it.
const BEFORE: [&str; 5] = [
    "group add group_id=1,type=select,bucket=weight:3,output:2,bucket=output:2",
    "meter add meter=1,pktps,bands=type=drop,rate=7",
    "table=0,priority=32768,ip,nw_src=10.0.0.7,cookie=0x7,actions=meter:1,group:1",
    "table=9,priority=9,in_port=2,actions=learn(table=10,NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),output:1",
    "table=10,priority=1,actions=output:2",
];

fn good(i: usize) -> String {
    let [_, a, b, c] = u32::try_from(i).expect("few").to_be_bytes();
    format!("table={},ip,nw_src=10.{a}.{b}.{c},actions=set_field:{i}->reg0,output:2", i % 200)
}

/// A file of good lines, but for this one (from 1).
fn file(bed: &Bed, name: &str, at: usize, bad: &str) -> PathBuf {
    let mut text = String::with_capacity(LINES * 80);
    for i in 1..=LINES {
        let _ = if i == at { writeln!(text, "{bad}") } else { writeln!(text, "{}", good(i)) };
    }
    let path = bed.switch.dir().join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

/// Bad text and bad references, in the first line, in the middle and in the last, by each verb that
/// takes files.
#[test]
fn one_bad_line_in_100_000_changes_nothing_and_is_named_by_its_number() {
    let bed = Bed::new(2);
    bed.add(&BEFORE);
    let before = bed.dump();
    let cases = [
        (
            "add-flows",
            1,
            "ip,nw_src=10.0.0.1,actions=outptu:2",
            "column 28: there is no action or port \"outptu\"; did you mean output?",
        ),
        (
            "bundle",
            54_321,
            "flow add table=3,actions=goto_table:2",
            "column 26: OFPBIC_BAD_TABLE_ID: goto_table:2 in table 3",
        ),
        (
            "replace-flows",
            100_000,
            "table=5,actions=group:9",
            "OFPBAC_BAD_OUT_GROUP: group 9 does not exist; add it in the same transaction",
        ),
        (
            "bundle",
            99_999,
            "flow add table=5,actions=meter:9",
            "OFPMMFC_INVALID_METER: meter 9 does not exist; add it in the same transaction",
        ),
        (
            "add-flows",
            50_000,
            "udp,actions=set_field:80->tcp_dst",
            "column 13: OFPBAC_MATCH_INCONSISTENT: tcp_dst is only there in a flow that matches tcp or tcp6",
        ),
    ];
    for (verb, at, bad, wanted) in cases {
        let path = file(&bed, "flows.txt", at, bad);
        let path = path.to_str().expect("UTF-8");
        let told = bed.vsctl(verb, &[path], None).expect_err("it is refused");
        let wanted = format!("vsctl: {path}:{at}: {wanted}");
        assert!(told.starts_with(&wanted), "{verb}: {told}\nnot {wanted}");
        assert_eq!(told.lines().count(), 1, "one line is wrong, one is told: {told}");
        assert!(bed.dump() == before, "{verb}, line {at}: something has changed");
    }
    // Without the bad line all of it is there.
    let path = file(&bed, "flows.txt", 0, "");
    bed.vsctl("add-flows", &[path.to_str().expect("UTF-8")], None).expect("good lines");
    let sums = bed.vsctl("dump-aggregate", &[], None).expect("sums");
    // One of them replaces a flow of before.
    assert!(
        sums.contains(&format!("flow_count={}", LINES + 3)) || sums.contains(&format!("flow_count={}", LINES + 2)),
        "{sums}"
    );
}

/// Several bad lines are all named, the first ones at least.
#[test]
fn all_bad_lines_are_told_at_once() {
    let bed = Bed::new(2);
    let lines =
        ["actions=drop", "actoins=drop", "ip,nw_src=300.1.1.1,actions=drop", "actions=drop", "table=x,actions=drop"];
    let told = bed.vsctl("add-flows", &["-"], Some(&lines.join("\n"))).expect_err("refused");
    let starts: Vec<&str> = told.lines().filter_map(|line| line.trim_start_matches("vsctl: ").get(..4)).collect();
    assert_eq!(starts, ["-:2:", "-:3:", "-:5:"], "{told}");
    // A thousand of them are not a thousand lines of error.
    let bad = "nonsense\n".repeat(50_000);
    let told = bed.vsctl("add-flows", &["-"], Some(&bad)).expect_err("refused");
    assert!(
        told.starts_with("vsctl: -:1: column 1:") && told.lines().count() <= 1100,
        "{} lines",
        told.lines().count()
    );
    assert!(told.trim_end().ends_with("more"), "{}", &told[told.len() - 200..]);
    assert_eq!(bed.vsctl("dump-flows", &["--no-stats"], None), Ok(String::new()));
}

/// What is no line at all: other encodings, lines without end, a file that ends in the middle, a
/// file that is not there.
#[test]
fn what_is_no_text_is_refused() {
    let bed = Bed::new(2);
    let write = |bytes: &[u8]| {
        let path = bed.switch.dir().join("odd.txt");
        std::fs::write(&path, bytes).expect("a file");
        bed.vsctl("add-flows", &[path.to_str().expect("UTF-8")], None)
    };
    let cases: [(&[u8], &str); 5] = [
        (b"actions=drop\nactions=output:\xff\xfe\n", ":2: it is not UTF-8"),
        (b"actions=drop\nactions=\0drop\n", "odd.txt:2: column 9"),
        (&[b'x'; 5 << 20], ":1: it has more than 4 MiB"),
        (b"actions=drop\nip,nw_src=10.0.", "odd.txt:2: column 11: \"10.0.\" is no IPv4 address"),
        (b"actions=clone(output:1\n", "odd.txt:1: column"),
    ];
    for (bytes, wanted) in cases {
        let told = write(bytes).expect_err("refused");
        assert!(told.contains(wanted), "{told}\nnot {wanted}");
    }
    let told = bed.vsctl("add-flows", &["/nonexistent/flows"], None).expect_err("refused");
    assert!(told.contains("/nonexistent/flows"), "{told}");
    assert_eq!(bed.vsctl("dump-flows", &["--no-stats"], None), Ok(String::new()));
}

/// Over gRPC: the place, code, reason, field and hint of an update stand in its status, the others
/// are told to be not applied; what has no commit is not applied; too many updates are refused with
/// their limit.
#[test]
fn statuses_tell_every_update_how_it_went() {
    use v1::update::Update as U;
    let bed = Bed::new(2);
    let line = |line: &str| U::Line(v1::LineUpdate { kind: v1::LineKind::Unspecified.into(), line: line.to_owned() });
    let told = bed
        .write(vec![line("actions=drop"), line("table=3,actions=goto_table:3"), line("flow add actions=drop")])
        .expect("an answer");
    assert_eq!((told.applied, told.updates, told.refused, told.affected), (false, 3, 1, 0));
    let outcomes: Vec<_> = told.statuses.iter().map(v1::UpdateStatus::outcome).collect();
    assert_eq!(outcomes, [v1::UpdateOutcome::NotApplied, v1::UpdateOutcome::Invalid, v1::UpdateOutcome::NotApplied]);
    let bad = &told.statuses[1];
    assert_eq!((bad.tag, bad.code.as_str(), bad.column), (1, "OFPBIC_BAD_TABLE_ID", 17), "{bad:?}");
    assert!(bad.reason.contains("goto_table:3 in table 3"), "{bad:?}");
    let told = bed
        .write(vec![line("actions=drop"), line("actions=group:3"), U::DeleteGroups(v1::DeleteById::default())])
        .expect("an answer");
    // The deletion comes behind it, and takes the flow with it: that is no error (the group might
    // have been there).
    assert!(!told.applied || told.statuses[1].affected <= 1, "{told:?}");
    // The first update of another kind: of a table that is not for flows.
    let told = bed.write(vec![U::AddFlow(v1::Flow { table: 254, ..Default::default() })]).expect("an answer");
    assert_eq!((told.applied, told.statuses[0].code.as_str()), (false, "OFPBRC_EPERM"), "{told:?}");
    // No commit.
    let request = |updates: usize, commit| v1::WriteRequest {
        bridge: BRIDGE.to_owned(),
        updates: vec![v1::Update { tag: 0, update: Some(line("table=7,actions=drop")) }; updates],
        commit,
    };
    let write = |requests: Vec<v1::WriteRequest>| {
        let mut service = v1::pipeline_service_client::PipelineServiceClient::new(bed.channel());
        bed.wait(service.write(tokio_stream::iter(requests))).map(tonic::Response::into_inner)
    };
    let status = write(vec![request(5, false)]).expect_err("not applied");
    assert_eq!(status.code(), tonic::Code::Aborted, "{status:?}");
    let status = write(std::iter::repeat_n(request(1 << 14, false), 65).collect()).expect_err("too many");
    assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains("1048576"), "{status:?}");
    let flows = bed.vsctl("dump-flows", &["--no-stats", "table=7"], None);
    assert_eq!(flows, Ok(String::new()));
}
