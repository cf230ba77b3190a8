//! Every verb parses, and what cannot be meant does not.

use super::*;
use clap::CommandFactory;
use clap::error::ErrorKind;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("vsctl").chain(line.split_whitespace()))
}

fn command(line: &str) -> String {
    format!("{:?}", parse(line).unwrap_or_else(|error| panic!("{line}: {error}")).command)
}

#[test]
fn the_description_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_verb_parses() {
    let cases = [
        ("show", "Show"),
        ("list-br", "ListBr"),
        ("del-br br0", r#"DelBr(BridgeName { bridge: "br0" })"#),
        ("set-fail-mode br0 secure", r#"SetFailMode { bridge: "br0", mode: Secure }"#),
        ("del-port br0 p0", r#"DelPort { bridge: "br0", name: "p0" }"#),
        ("list-ports br0", r#"ListPorts(BridgeName { bridge: "br0" })"#),
        ("dump-ports br0", r#"DumpPorts { bridge: "br0", port: None }"#),
        ("dump-ports br0 p0", r#"DumpPorts { bridge: "br0", port: Some("p0") }"#),
        ("port-events", "PortEvents { existing: false, count: None }"),
        ("port-events --existing --count 3", "PortEvents { existing: true, count: Some(3) }"),
        ("fdb-show br0", r#"FdbShow(BridgeName { bridge: "br0" })"#),
        ("fdb-stats br0", r#"FdbStats(BridgeName { bridge: "br0" })"#),
        (
            "fdb-add br0 p0 4095 02:00:00:00:00:1f",
            r#"FdbAdd { bridge: "br0", port: "p0", vlan: 4095, mac: [2, 0, 0, 0, 0, 31] }"#,
        ),
        ("fdb-del br0 0 2:0:0:0:0:1", r#"FdbDel { bridge: "br0", vlan: 0, mac: [2, 0, 0, 0, 0, 1] }"#),
        ("fdb-flush br0", r#"FdbFlush(FdbFlush { bridge: "br0", port: None, vlan: None, mac: None, statics: false })"#),
        (
            "fdb-flush br0 --port p0 --vlan 5 --mac 2:0:0:0:0:1 --static",
            r#"FdbFlush(FdbFlush { bridge: "br0", port: Some("p0"), vlan: Some(5), mac: Some([2, 0, 0, 0, 0, 1]), statics: true })"#,
        ),
        ("worker-show", "WorkerShow"),
        ("worker-clear", "WorkerClear"),
        ("worker-rxq-show", "WorkerRxqShow"),
        ("worker-rxq-pin p0 1 3", r#"WorkerRxqPin { port: "p0", queue: 1, core: On(3) }"#),
        ("worker-rxq-pin p0 1 auto", r#"WorkerRxqPin { port: "p0", queue: 1, core: Auto }"#),
        ("worker-rxq-rebalance", "WorkerRxqRebalance"),
        ("mempool-show", "MempoolShow"),
        ("drop-reasons", "DropReasons"),
        ("capabilities", "Capabilities"),
        ("health", "Health"),
        ("version", "Version"),
        ("completion bash", "Completion { shell: Bash }"),
        ("completion zsh", "Completion { shell: Zsh }"),
        ("completion fish", "Completion { shell: Fish }"),
        ("man", "Man { verb: None }"),
        ("man add-port", r#"Man { verb: Some("add-port") }"#),
    ];
    for (line, want) in cases {
        assert_eq!(command(line), want, "{line}");
    }
    // Those with many options are tested where they become requests; here only that their words are right.
    let longer = ["add-br br0 --fail-mode standalone --fdb-size 100 --fdb-ageing 60", "mod-port br0 p0 up"];
    for line in longer {
        parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    let tested = |verb: &str| {
        let mut lines = cases.iter().map(|(line, _)| *line).chain(longer).chain(["add-port"]);
        lines.any(|line| line.split(' ').next() == Some(verb))
    };
    for verb in Cli::command().get_subcommands() {
        assert!(tested(verb.get_name()), "{} is not tested", verb.get_name());
    }
}

#[test]
fn global_options_go_anywhere() {
    for line in ["--json --socket /s --timeout 0.5 show", "show --json --socket /s --timeout 0.5"] {
        let cli = parse(line).expect("it parses");
        let got = (cli.json, cli.socket, cli.timeout);
        assert_eq!(got, (true, PathBuf::from("/s"), Duration::from_millis(500)), "{line}");
    }
    let cli = parse("show").expect("it parses");
    assert_eq!((cli.json, cli.timeout), (false, Duration::from_secs(10)));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let cases = [
        ("", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
        ("shwo", ErrorKind::InvalidSubcommand),
        ("del-br", ErrorKind::MissingRequiredArgument),
        ("add-br br0 --fail-mode open", ErrorKind::InvalidValue),
        ("add-br br0 --fdb-size -1", ErrorKind::UnknownArgument),
        ("add-port br0 p0", ErrorKind::MissingRequiredArgument),
        ("add-port br0 p0 --type gre", ErrorKind::InvalidValue),
        ("add-port br0 p0 --type dpdk", ErrorKind::MissingRequiredArgument),
        ("add-port br0 p0 --type vhost-user", ErrorKind::MissingRequiredArgument),
        ("add-port br0 p0 --type patch", ErrorKind::MissingRequiredArgument),
        ("add-port br0 p0 --type tap --external-id a", ErrorKind::ValueValidation),
        ("add-port br0 p0 --type tap --external-id =a", ErrorKind::ValueValidation),
        ("add-port br0 p0 --type tap --mac 1:2:3", ErrorKind::ValueValidation),
        ("mod-port br0 p0 sideways", ErrorKind::InvalidValue),
        ("mod-port br0 p0 --external-id a=b --no-external-ids", ErrorKind::ArgumentConflict),
        ("fdb-add br0 p0 4096 2:0:0:0:0:1", ErrorKind::ValueValidation),
        ("fdb-add br0 p0 0 2:0:0:0:0:1:2", ErrorKind::ValueValidation),
        ("fdb-add br0 p0 0 +2:0:0:0:0:1", ErrorKind::ValueValidation),
        ("fdb-add br0 p0 0 002:0:0:0:0:1", ErrorKind::ValueValidation),
        ("worker-rxq-pin p0 0 any", ErrorKind::ValueValidation),
        ("port-events --count 0", ErrorKind::ValueValidation),
        ("completion tcsh", ErrorKind::InvalidValue),
        ("show --timeout 0", ErrorKind::ValueValidation),
        ("show --timeout nan", ErrorKind::ValueValidation),
        ("show --timeout 1e9", ErrorKind::ValueValidation),
    ];
    for (line, want) in cases {
        match parse(line) {
            Err(error) => assert_eq!(error.kind(), want, "{line}: {error}"),
            Ok(cli) => panic!("{line}: {cli:?}"),
        }
    }
}
