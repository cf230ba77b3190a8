//! Lines that Open vSwitch 3.1 was given, and what it made of them: `tests/data/ovs-*.txt`,
//! recorded with `ovs-ofctl -O OpenFlow15` (`add-flow`, then `dump-flows --no-names --no-stats`;
//! likewise groups and meters; packet-outs have no dump).
//!
//! Each line is followed by one that starts with `=` (what was dumped) or `!` (how it was refused:
//! the code if the switch gave one, else what ovs-ofctl said), and where we differ by intent by one
//! that starts with `~` (what we do) and says why.

use vswitch_flow::spec::Update;
use vswitch_flow::text::{
    FlowCommand, GroupCommand, Names, Style, TextError, format_flow, format_group, format_meter, parse_flow,
    parse_group_update, parse_meter, parse_packet_out,
};

struct Ports;

const PORTS: [(&str, u32); 3] = [("p1", 1), ("p2", 2), ("p3", 3)];

impl Names for Ports {
    fn port(&self, name: &str) -> Option<u32> {
        PORTS.iter().find(|(other, _)| *other == name).map(|(_, number)| *number)
    }
    fn port_name(&self, number: u32) -> Option<&str> {
        PORTS.iter().find(|(_, other)| *other == number).map(|(name, _)| *name)
    }
    fn table(&self, _: &str) -> Option<u8> {
        None
    }
    fn table_name(&self, _: u8) -> Option<&str> {
        None
    }
}

fn flow(line: &str) -> Result<String, TextError> {
    let Update::AddFlow(flow) = parse_flow(line, FlowCommand::Add, &Ports)?.value else { panic!("{line}: no flow") };
    let mut out = String::new();
    format_flow(&flow, None, Style::default(), &Ports, &mut out);
    Ok(out)
}

fn group(line: &str) -> Result<String, TextError> {
    let update = parse_group_update(line, GroupCommand::Add, &Ports)?.value;
    let Update::AddGroup(group) = update else { panic!("{line}: no group") };
    let mut out = String::new();
    format_group(&group, Style::default(), &Ports, &mut out);
    Ok(out)
}

fn meter(line: &str) -> Result<String, TextError> {
    let mut out = String::new();
    format_meter(&parse_meter(line)?.value, &mut out);
    Ok(out)
}

fn packet_out(line: &str) -> Result<String, TextError> {
    parse_packet_out(line, &Ports).map(|_| String::new())
}

/// Whether what we make of a line is what is expected.
fn is_expected(ours: &Result<String, TextError>, expected: &str) -> bool {
    match (ours, expected.split_at(2)) {
        (Ok(ours), ("= ", theirs)) => *ours == theirs.replace("\\n", "\n"),
        (Err(error), ("! ", theirs)) => {
            let has_code = theirs.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') && theirs.contains('_');
            !has_code || error.code == theirs
        }
        _ => false,
    }
}

fn compare(file: &str, least: usize, ours: impl Fn(&str) -> Result<String, TextError>) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = text.lines().peekable();
    let (mut cases, mut wrong) = (0, Vec::new());
    while let Some(line) = lines.next() {
        let recorded = lines.next().expect("an answer");
        let intended = lines.next_if(|line| line.starts_with("~ "));
        cases += 1;
        let result = ours(line);
        let expected = intended.map_or(recorded, |line| line[2..].split_once(" # ").expect("a reason").0);
        if !is_expected(&result, expected) {
            wrong.push(format!("{line}\n  {expected}\n  ours: {result:?}"));
        }
        if intended.is_some() && is_expected(&result, recorded) {
            wrong.push(format!("{line}\n  is no deviation"));
        }
        match result {
            Ok(out) if !out.is_empty() => {
                let again = ours(&out).unwrap_or_else(|error| panic!("{line}: {out}: {error}"));
                assert_eq!(again, out, "{line}: {out} is another thing");
            }
            Ok(_) => {}
            Err(error) => {
                assert!((1..=line.len() + 1).contains(&error.column) && !error.reason.is_empty(), "{line}: {error:?}");
            }
        }
    }
    assert!(cases >= least, "{cases} cases");
    assert!(wrong.is_empty(), "{} of {cases} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_open_vswitch_made_of_flows() {
    compare("ovs-flows.txt", 590, flow);
}

#[test]
fn what_open_vswitch_made_of_groups() {
    compare("ovs-groups.txt", 80, group);
}

#[test]
fn what_open_vswitch_made_of_meters() {
    compare("ovs-meters.txt", 30, meter);
}

#[test]
fn what_open_vswitch_made_of_packet_outs() {
    compare("ovs-packet-outs.txt", 40, packet_out);
}
