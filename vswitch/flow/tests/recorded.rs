//! Lines that Open vSwitch 3.1 was given, and what it made of them: `tests/data/ovs-flows.txt`, recorded with `ovs-ofctl -O OpenFlow15`
//! (`add-flow`, then `dump-flows --no-names --no-stats`).
//!
//! Each line is followed by one that starts with `=` (what was dumped) or `!` (how it was refused: the code if the switch gave one, else
//! what ovs-ofctl said), and where we differ by intent by one that starts with `~` (what we do) and says why.

use vswitch_flow::spec::Update;
use vswitch_flow::text::{FlowCommand, Names, Style, format_flow, parse_flow};

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

/// What we make of a line: what is dumped, or how it is refused.
fn ours(line: &str) -> Result<String, (&'static str, String)> {
    match parse_flow(line, FlowCommand::Add, &Ports) {
        Ok(parsed) => {
            let Update::AddFlow(flow) = parsed.value else { panic!("{line} is no flow to add") };
            let mut out = String::new();
            format_flow(&flow, None, Style::default(), &Ports, &mut out);
            let again =
                parse_flow(&out, FlowCommand::Add, &Ports).unwrap_or_else(|error| panic!("{line}: {out}: {error}"));
            assert_eq!(again.value, Update::AddFlow(flow), "{line}: {out} is another flow");
            Ok(out)
        }
        Err(error) => {
            assert!((1..=line.len() + 1).contains(&error.column), "{line}: {error}");
            assert!(!error.reason.is_empty(), "{line}");
            Err((error.code, error.to_string()))
        }
    }
}

#[test]
fn what_open_vswitch_made_of_flow_lines() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/ovs-flows.txt");
    let text = std::fs::read_to_string(path).expect(path);
    let mut lines = text.lines().peekable();
    let (mut cases, mut wrong) = (0, Vec::new());
    while let Some(line) = lines.next() {
        let recorded = lines.next().expect("an answer");
        let intended = lines.next_if(|line| line.starts_with("~ "));
        cases += 1;
        let ours = ours(line);
        // Intent: `~ = dump # why`, `~ ! CODE # why`.
        let expected = intended.map_or(recorded, |line| line[2..].split_once(" # ").expect("a reason").0);
        let same = match (&ours, expected.split_at(2)) {
            (Ok(ours), ("= ", theirs)) => ours == theirs,
            (Err((code, _)), ("! ", theirs)) => {
                let has_code =
                    theirs.split(' ').count() == 1 && theirs.contains('_') && theirs.to_uppercase() == theirs;
                !has_code || *code == theirs
            }
            _ => false,
        };
        if !same {
            wrong.push(format!("{line}\n  {expected}\n  ours: {ours:?}"));
        }
        assert!(intended != Some(recorded), "{line}: no difference");
    }
    assert!(cases > 500, "{cases} cases");
    assert!(wrong.is_empty(), "{} of {cases} differ:\n{}", wrong.len(), wrong.join("\n"));
}
