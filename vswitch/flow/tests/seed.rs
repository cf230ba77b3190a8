//! The flows and groups of published pipelines, as their documents print them: they are read, and
//! printed as they were.

use vswitch_flow::spec::Update;
use vswitch_flow::text::{
    FlowCommand, FlowCounters, Names, Style, format_flow, format_group, parse_bundle_line, parse_flow, parse_group,
};

/// Ports and tables of the documents.
struct Pipeline {
    tables: &'static [&'static str],
    ports: &'static [(&'static str, u32)],
}

impl Names for Pipeline {
    fn port(&self, name: &str) -> Option<u32> {
        self.ports.iter().find(|(other, _)| *other == name).map(|(_, number)| *number)
    }
    fn port_name(&self, number: u32) -> Option<&str> {
        self.ports.iter().find(|(_, other)| *other == number).map(|(name, _)| *name)
    }
    fn table(&self, name: &str) -> Option<u8> {
        self.tables.iter().position(|other| *other == name).and_then(|at| u8::try_from(at).ok())
    }
    fn table_name(&self, number: u8) -> Option<&str> {
        self.tables.get(usize::from(number)).copied()
    }
}

const ANTREA: Pipeline = Pipeline { tables: &vswitch_testkit::antrea::TABLES, ports: &vswitch_testkit::antrea::PORTS };

const OVN: Pipeline = Pipeline { tables: &[], ports: &[("eth0", 1), ("patch-breth0_ov", 2)] };

const NAMES: Style = Style { names: true };

fn data(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Without blanks behind commas, in which documents differ.
fn plain(line: &str) -> String {
    let mut out = String::new();
    for part in line.split(',') {
        if !out.is_empty() {
            out.push(',');
        }
        out.push_str(part.trim_start());
    }
    out
}

fn flow(line: &str, names: &Pipeline) -> vswitch_flow::spec::FlowSpec {
    let parsed = parse_flow(line, FlowCommand::Add, names).unwrap_or_else(|error| panic!("{line}: {error}"));
    assert_eq!(parsed.warnings, [] as [&str; 0], "{line}");
    let Update::AddFlow(flow) = parsed.value else { panic!("{line} is no flow to add") };
    flow
}

#[test]
fn all_167_flows_of_the_antrea_document_are_printed_as_they_were() {
    let text = data("antrea-flows.txt");
    assert_eq!(text.lines().count(), 167);
    let mut different = Vec::new();
    for line in text.lines() {
        let flow = flow(line, &ANTREA);
        let mut printed = String::new();
        format_flow(&flow, None, NAMES, &ANTREA, &mut printed);
        if plain(line) != plain(&printed) {
            different.push(format!("{line}\n{printed}"));
        }
        // With numbers instead of names it is the same flow.
        let mut numbered = String::new();
        format_flow(&flow, None, Style::default(), &ANTREA, &mut numbered);
        assert_eq!(self::flow(&numbered, &ANTREA), flow, "{line}\n{numbered}");
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}

#[test]
fn the_groups_of_the_antrea_document_are_printed_as_they_were() {
    let text = data("antrea-groups.txt");
    assert_eq!(text.lines().count(), 3);
    for line in text.lines() {
        let group = parse_group(line, &ANTREA).unwrap_or_else(|error| panic!("{line}: {error}")).value;
        assert!(group.kind_given && group.place.is_none());
        let mut printed = String::new();
        format_group(&group.spec, NAMES, &ANTREA, &mut printed);
        assert_eq!(plain(line), plain(&printed));
        let update = parse_bundle_line(&format!("group add {line}"), &ANTREA).expect("as a bundle line").value;
        assert_eq!(update, Update::AddGroup(group.spec));
    }
}

/// Dumps of ovn-kubernetes, with counters, mostly printed by OpenFlow 1.0 (`load:`).
#[test]
fn the_flows_of_ovn_kubernetes_are_read() {
    let text = data("ovn-flows.txt");
    assert!(text.lines().count() > 40);
    for line in text.lines() {
        let flow = flow(line, &OVN);
        let mut printed = String::new();
        format_flow(&flow, Some(&FlowCounters::default()), NAMES, &OVN, &mut printed);
        assert_eq!(self::flow(&printed, &OVN), flow, "{line}\n{printed}");
        let tail = |line: &str| plain(&line[line.find("priority=").or(line.find("actions=")).unwrap_or_default()..]);
        let expected = tail(line)
            .replace("load:0x1->NXM_NX_CT_MARK[]", "set_field:0x1->ct_mark")
            .replace("load:0x2->NXM_NX_CT_MARK[]", "set_field:0x2->ct_mark")
            .replace("output:1", "output:eth0")
            .replace("in_port=1", "in_port=eth0");
        assert_eq!(tail(&printed), expected, "{line}");
    }
}
