//! Every verb of `vsctl antrea` parses, and what cannot be meant does not.

use crate::cli::{Cli, Command, description};
use clap::Parser;
use clap::error::ErrorKind;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(["vsctl", "antrea"].into_iter().chain(line.split_whitespace()))
}

fn verb(line: &str) -> String {
    let Command::Antrea { verb } = parse(line).unwrap_or_else(|error| panic!("{line}: {error}")).command else {
        panic!("{line}")
    };
    format!("{verb:?}")
}

#[test]
fn every_verb_parses() {
    let cases = [
        ("status", "Status"),
        ("node", "Node"),
        ("open-gate", "OpenGate"),
        ("reset", "Reset { yes: false }"),
        ("reset --yes", "Reset { yes: true }"),
        ("pods", "Pods(Objects { names: [] })"),
        ("pods default/web default/db", r#"Pods(Objects { names: ["default/web", "default/db"] })"#),
        ("peers worker-1", r#"Peers(Objects { names: ["worker-1"] })"#),
        ("services", "Services { objects: Objects { names: [] }, by: Ports }"),
        ("services -o endpoints a/b", r#"Services { objects: Objects { names: ["a/b"] }, by: Endpoints }"#),
        ("policies", "Policies { names: [], pod: None }"),
        ("policies np:a/b policy/acnp:c --pod a/b", r#"Policies { names: ["np:a/b", "acnp:c"], pod: Some("a/b") }"#),
        ("rules", "Rules(Rules { policies: [], pod: None, watch: None, count: None })"),
        (
            "rules --policy np:a/b --policy anp/a/c --watch 500 --count 3",
            r#"Rules(Rules { policies: ["np:a/b", "anp:a/c"], pod: None, watch: Some(500), count: Some(3) })"#,
        ),
        ("rules --watch", "Rules(Rules { policies: [], pod: None, watch: Some(10000), count: None })"),
        ("rules --pod a/b", r#"Rules(Rules { policies: [], pod: Some("a/b"), watch: None, count: None })"#),
        ("events", "Events(Events { kinds: [], count: None })"),
        (
            "events --kind policy-log --kind round-committed --count 2",
            "Events(Events { kinds: [PolicyLog, RoundCommitted], count: Some(2) })",
        ),
        ("answer 0a0b resume", "Answer { token: Bytes([10, 11]), verdict: Resume }"),
        (
            "records --pod a/b",
            r#"Records(Records { pod: Some("a/b"), service: None, follow: false, kinds: [], existing: false, active: None, count: None })"#,
        ),
        (
            "records --follow --kind end --existing --active 5 --count 1",
            "Records(Records { pod: None, service: None, follow: true, kinds: [End], existing: true, active: Some(5), count: Some(1) })",
        ),
        ("groups web", r#"Groups(Objects { names: ["web"] })"#),
        ("fqdns", "Fqdns { pattern: None }"),
        ("names *.example.com", r#"Fqdns { pattern: Some("*.example.com") }"#),
        ("egress", "Egress(Objects { names: [] })"),
        ("egresses out", r#"Egress(Objects { names: ["out"] })"#),
        ("traffic-controls", "TrafficControls(Objects { names: [] })"),
        ("tc", "TrafficControls(Objects { names: [] })"),
        ("multicast 239.1.1.1", r#"Multicast { objects: Objects { names: ["239.1.1.1"] }, pods: false }"#),
        ("multicast --pods", "Multicast { objects: Objects { names: [] }, pods: true }"),
        ("set-multicast", "SetMulticast { interval: None, versions: [] }"),
        ("set-multicast --interval 5 --versions 2,3", "SetMulticast { interval: Some(5), versions: [2, 3] }"),
        ("set-multicast-group 239.1.1.1", "SetMulticastGroup { address: 239.1.1.1, pods: [], nodes: [] }"),
        (
            "set-multicast-group 239.1.1.1 --pod a/b --pod a/c --node worker-1",
            r#"SetMulticastGroup { address: 239.1.1.1, pods: ["a/b", "a/c"], nodes: ["worker-1"] }"#,
        ),
        (
            "trace-flow a/web 10.0.0.1 --protocol tcp --port 80 --tag 5",
            r#"TraceFlow(TraceFlow { source: Some(Pod("a/web")), destination: Some(Address("10.0.0.1")), protocol: Some(Tcp), port: Some(80), source_port: None, tcp_flags: None, ttl: None, payload: None, ipv4: false, ipv6: false, live: false, dropped_only: false, receiver: false, tag: Some(5), name: None, wait: 20, tables: false })"#,
        ),
        (
            "flows POD/default/web",
            r#"Flows { object: Object { kind: Pod, name: "default/web" }, rule: None, names: false, no_names: false }"#,
        ),
        (
            "flows np/a/b --rule ingress-0 --no-names",
            r#"Flows { object: Object { kind: NetworkPolicy, name: "np:a/b" }, rule: Some("ingress-0"), names: false, no_names: true }"#,
        ),
        ("gateway", "Gateway { names: false, no_names: false }"),
        ("gateway --no-names", "Gateway { names: false, no_names: true }"),
        ("whose 0x1", r#"Whose { words: ["0x1"] }"#),
        ("whose table=4,ip actions=drop", r#"Whose { words: ["table=4,ip", "actions=drop"] }"#),
    ];
    for (line, want) in cases {
        assert_eq!(verb(line), want, "{line}");
    }
    let command = description();
    let antrea = command.find_subcommand("antrea").expect("the verb");
    for verb in antrea.get_subcommands() {
        let name = verb.get_name();
        assert!(cases.iter().any(|(line, _)| line.split(' ').next() == Some(name)), "{name} is not tested");
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (line, want) in [
        ("", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
        ("pod", ErrorKind::InvalidSubcommand),
        ("services -o pods", ErrorKind::InvalidValue),
        ("policies web", ErrorKind::ValueValidation),
        ("policies --pod web", ErrorKind::ValueValidation),
        ("rules --watch 99", ErrorKind::ValueValidation),
        ("rules --count 3", ErrorKind::MissingRequiredArgument),
        ("rules --watch --count 0", ErrorKind::ValueValidation),
        ("rules --watch --pod a/b", ErrorKind::ArgumentConflict),
        ("flows", ErrorKind::MissingRequiredArgument),
        ("flows pdo/a/b", ErrorKind::ValueValidation),
        ("answer 0a0 drop", ErrorKind::ValueValidation),
        ("answer 0a forget", ErrorKind::InvalidValue),
        ("whose", ErrorKind::MissingRequiredArgument),
    ] {
        match parse(line) {
            Err(error) => assert_eq!(error.kind(), want, "{line}: {error}"),
            Ok(cli) => panic!("{line}: {cli:?}"),
        }
    }
}
