//! Every verb parses, and what cannot be meant does not.

use super::*;
use clap::error::ErrorKind;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    super::parse(std::iter::once("vsctl").chain(line.split_whitespace()).map(OsString::from))
}

fn command(line: &str) -> String {
    match parse(line).unwrap_or_else(|error| panic!("{line}: {error}")).command {
        Command::Pipeline(command) => format!("{command:?}"),
        Command::Conntrack(command) => format!("{command:?}"),
        Command::Testing(command) => format!("{command:?}"),
        command => format!("{command:?}"),
    }
}

#[test]
fn the_description_is_consistent() {
    description().debug_assert();
}

#[test]
fn every_verb_parses() {
    let cases = [
        ("show", "Show"),
        ("list-br", "ListBr"),
        ("del-br br0", r#"DelBr(BridgeName { bridge: "br0" })"#),
        ("set-fail-mode br0 secure", r#"SetFailMode { bridge: "br0", mode: Secure }"#),
        ("set-strict br0 on", r#"SetStrict { bridge: "br0", strict: On }"#),
        ("del-port br0 p0", r#"DelPort { bridge: "br0", name: "p0" }"#),
        ("list-ports br0", r#"ListPorts(BridgeName { bridge: "br0" })"#),
        ("dump-ports br0", r#"DumpPorts { bridge: "br0", port: None }"#),
        ("dump-ports br0 p0", r#"DumpPorts { bridge: "br0", port: Some("p0") }"#),
        ("port-caps br0 p0", r#"PortCaps { bridge: "br0", port: Some("p0") }"#),
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
        ("worker-perf-show", "WorkerPerfShow { interval: None, total: false }"),
        ("worker-perf-show --interval 0.5 --total", "WorkerPerfShow { interval: Some(500ms), total: true }"),
        ("worker-clear", "WorkerClear"),
        ("worker-rxq-show", "WorkerRxqShow"),
        ("worker-rxq-pin p0 1 3", r#"WorkerRxqPin { port: "p0", queue: 1, core: On(3) }"#),
        ("worker-rxq-pin p0 1 auto", r#"WorkerRxqPin { port: "p0", queue: 1, core: Auto }"#),
        ("worker-rxq-rebalance", "WorkerRxqRebalance"),
        ("mempool-show", "MempoolShow"),
        ("limits", "Limits { port: None }"),
        ("limits --port p0", r#"Limits { port: Some("p0") }"#),
        ("log-show", "LogShow"),
        ("log show", "Log { verb: Show }"),
        ("config export", "Config { verb: Export }"),
        ("config apply f", r#"Config { verb: Apply { file: "f", dry_run: false, confirm: None } }"#),
        ("config apply - --dry-run", r#"Config { verb: Apply { file: "-", dry_run: true, confirm: None } }"#),
        ("config apply f --confirm 60s", r#"Config { verb: Apply { file: "f", dry_run: false, confirm: Some(60) } }"#),
        ("config confirm", "Config { verb: Confirm }"),
        ("config rollback", "Config { verb: Rollback }"),
        ("config diff", "Config { verb: Diff { file: None } }"),
        ("config diff f", r#"Config { verb: Diff { file: Some("f") } }"#),
        ("config state", "Config { verb: State }"),
        ("log reset", "Log { verb: Reset }"),
        ("log set warn,vswitch=debug", r#"Log { verb: Set { filter: "warn,vswitch=debug", span: None } }"#),
        ("log set debug --for 10m", r#"Log { verb: Set { filter: "debug", span: Some(600) } }"#),
        ("calls-show", "CallsShow"),
        ("drop-reasons", "DropReasons"),
        (
            "observe -f --last 5 -o json --verdict dropped --pod a/b --not --port 53",
            r#"Observe(Observe { follow: true, last: Some(5), first: None, all: false, since: None, until: None, output: Json, filter: ObserveFilter { verdict: [Dropped], drop_reason: [], kind: [], pod: ["a/b"], from_pod: [], to_pod: [], namespace: [], from_namespace: [], to_namespace: [], ip: [], from_ip: [], to_ip: [], port: [], from_port: [], to_port: [], protocol: [], service: [], policy: [], label: [], from_label: [], to_label: [], workload: [], from_workload: [], to_workload: [], traffic_direction: [], ipv4: false, ipv6: false }, not: ["--port=53"] })"#,
        ),
        ("names", "Names { pod: None }"),
        ("names --pod shop/web-1", r#"Names { pod: Some("shop/web-1") }"#),
        (
            "drops",
            "Drops(Drops { verb: None, by: None, filter: DropFilter { bridges: [], ports: [], reasons: [], classes: [] } })",
        ),
        (
            "drops --by pod --class policy --class limit --bridge br0 --port p0 --reason rule_drop",
            r#"Drops(Drops { verb: None, by: Some(Pod), filter: DropFilter { bridges: ["br0"], ports: ["p0"], reasons: ["rule_drop"], classes: [Policy, Limit] } })"#,
        ),
        (
            "drops explain tx_full",
            r#"Drops(Drops { verb: Some(Explain { reason: "tx_full" }), by: None, filter: DropFilter { bridges: [], ports: [], reasons: [], classes: [] } })"#,
        ),
        (
            "drops samples --count 3 --rate 100 -w x.pcapng",
            r#"Drops(Drops { verb: Some(Samples(Samples { filter: DropFilter { bridges: [], ports: [], reasons: [], classes: [] }, count: Some(3), rate: 100, write: Some("x.pcapng") })), by: None, filter: DropFilter { bridges: [], ports: [], reasons: [], classes: [] } })"#,
        ),
        ("capabilities", "Capabilities"),
        ("health", "Health { part: None }"),
        ("health disk", "Health { part: Some(\"disk\") }"),
        ("health-show", "HealthShow"),
        ("listener-show", "ListenerShow"),
        ("version", "Version"),
        ("completion bash", "Completion { shell: Bash }"),
        ("completion zsh", "Completion { shell: Zsh }"),
        ("completion fish", "Completion { shell: Fish }"),
        ("__complete -- --json del-br ", r#"Complete { words: ["--json", "del-br"] }"#),
        ("man", "Man { verb: None }"),
        ("man add-port", r#"Man { verb: Some("add-port") }"#),
        ("add-table br0 Classifier", r#"AddTable { bridge: "br0", name: "Classifier", number: None }"#),
        ("add-table br0 Output --number 99", r#"AddTable { bridge: "br0", name: "Output", number: Some(99) }"#),
        ("del-table br0 Output", r#"DelTable { bridge: "br0", name: "Output" }"#),
        ("dump-tables br0", r#"DumpTables { bridge: "br0" }"#),
        ("dump-aggregate br0 table=1", r#"DumpAggregate { bridge: "br0", flows: Some("table=1") }"#),
        ("dump-group-stats br0 group_id=0x10", r#"DumpGroupStats { bridge: "br0", group: Some(Id(Some(16))) }"#),
        ("dump-meters br0 all", r#"DumpMeters { bridge: "br0", meter: Some(Id(None)) }"#),
        ("dump-meter br0 meter=1", r#"DumpMeters { bridge: "br0", meter: Some(Id(Some(1))) }"#),
        ("meter-stats br0", r#"MeterStats { bridge: "br0", meter: None }"#),
        ("packet-out br0 in_port=1", r#"PacketOut { bridge: "br0", packet: "in_port=1" }"#),
        ("dump-controllers br0", r#"DumpControllers { bridge: "br0" }"#),
        ("dump-megaflows", "DumpMegaflows { bridge: None }"),
        (
            "trace br0 in_port=1,tcp",
            r#"Trace { bridge: "br0", flow: Some("in_port=1,tcp"), packet: None, in_port: None, ct_next: [], names: Names { names: false, no_names: false } }"#,
        ),
        (
            "ofproto/trace br0 --packet 02fF --in-port p1 --names",
            r#"Trace { bridge: "br0", flow: None, packet: Some(Bytes([2, 255])), in_port: Some("p1"), ct_next: [], names: Names { names: true, no_names: false } }"#,
        ),
        (
            "dump-conntrack -s zone=1",
            r#"DumpConntrack { connections: Connections { words: ["zone=1"] }, shown: Shown { statistics: true } }"#,
        ),
        (
            "-m -s dpctl/dump-conntrack",
            "DumpConntrack { connections: Connections { words: [] }, shown: Shown { statistics: true } }",
        ),
        ("flush-conntrack zone=1 mark=1/1", r#"FlushConntrack(Connections { words: ["zone=1", "mark=1/1"] })"#),
        ("dpctl/flush-conntrack", "FlushConntrack(Connections { words: [] })"),
        ("ct-stats-show zone=1 verbose", r#"CtStatsShow { words: ["zone=1", "verbose"] }"#),
        ("dpctl/ct-stats-show --more", "CtStatsShow { words: [] }"),
        ("ct-set-limits default=1 zone=1,limit=2", r#"CtSetLimits { words: ["default=1", "zone=1,limit=2"] }"#),
        ("ct-get-limits zone=1,2", r#"CtGetLimits { words: ["zone=1,2"] }"#),
        ("ct-del-limits zone=1,2", r#"CtDelLimits { words: ["zone=1,2"] }"#),
        ("ct-get-nconns", "CtGetNconns"),
        ("ct-get-maxconns", "CtGetMaxconns"),
        ("ct-set-maxconns 5", "CtSetMaxconns { connections: 5 }"),
        ("ct-counters-show", "CtCountersShow"),
        ("ct-enable-tcp-seq-chk", "CtEnableTcpSeqChk"),
        ("ct-disable-tcp-seq-chk", "CtDisableTcpSeqChk"),
        ("ct-get-tcp-seq-chk", "CtGetTcpSeqChk"),
        ("ct-set-timeouts zone=1 udp_first=5", r#"CtSetTimeouts { words: ["zone=1", "udp_first=5"] }"#),
        ("ct-get-timeouts", "CtGetTimeouts { words: [] }"),
        ("ct-del-timeouts zone=1", r#"CtDelTimeouts { words: ["zone=1"] }"#),
        ("ct-set-zone-options zone=1", r#"CtSetZoneOptions { words: ["zone=1"] }"#),
        ("ct-get-zone-options", "CtGetZoneOptions { words: [] }"),
        (
            "monitor-conntrack zone=1 --count 3",
            r#"MonitorConntrack { connections: Connections { words: ["zone=1"] }, shown: Shown { statistics: false }, count: Some(3) }"#,
        ),
        ("dummy/receive p1 00 ff", r#"Receive { port: "p1", packets: [Bytes([0]), Bytes([255])] }"#),
        ("time/stop", "StopTime"),
        ("dummy/panic p1 --sending", r#"Panic { port: "p1", sending: true }"#),
        ("time/warp 5000 100", "WarpTime { milliseconds: 5000, step: Some(100) }"),
        ("cache flush", "Cache { state: Flush }"),
    ];
    for (line, want) in cases {
        assert_eq!(command(line), want, "{line}");
    }
    // Those with many options are tested where they become requests; here only that their words are
    // right.
    let longer = [
        "add-br br0 --fail-mode standalone --fdb-size 100 --fdb-ageing 60",
        "mod-port br0 p0 up",
        "add-flow br0 actions=drop",
        "add-flow br0 -",
        "add-flows br0 /tmp/flows --bundle",
        "mod-flows br0 --strict in_port=1,actions=drop",
        "del-flows br0",
        "del-flows br0 in_port=1 --strict",
        "replace-flows br0 - --filter cookie=0x10/0xf0",
        "diff-flows br0 /tmp/flows --no-names",
        "dump-flows br0 table=1,tcp --names --no-stats --sort --rsort=nw_src --rsort",
        "add-group br0 group_id=1,type=all",
        "add-groups br0 -",
        "mod-group br0 group_id=1,type=all --may-create",
        "del-groups br0",
        "del-groups br0 group_id=1",
        "insert-buckets br0 group_id=1,command_bucket_id=last,bucket=actions=1",
        "remove-buckets br0 group_id=1,command_bucket_id=first",
        "dump-groups br0 1 --names",
        "add-meter br0 meter=1,pktps,band=type=drop,rate=1",
        "mod-meter br0 meter=1,pktps,band=type=drop,rate=1",
        "del-meters br0 meter=1",
        "del-meter br0 meter=1",
        "bundle br0 - --replace-all --replace-meters",
        "monitor br0 65534 --controller 7 --resume --count 3 --no-names",
        "route-show",
        "route-add 10.0.0.0/8 br-phy",
        "route-add 10.0.0.0/8 br-phy 192.168.1.254 src=192.168.1.1",
        "route-del 10.0.0.0/8",
        "route-lookup 10.1.2.3",
        "tnl-neigh-show",
        "tnl-neigh-set br-phy 192.168.1.2 2:0:0:0:0:1",
        "tnl-neigh-flush",
        "tnl-neigh-flush br-phy",
        "tnl-ports-show",
        "add-tlv-map br0 {class=0xffff,type=0,len=4}->tun_metadata0",
        "del-tlv-map br0",
        "dump-tlv-map br0",
        "antrea status",
        "top --page drops --interval 0.5 --once",
        "capture br0 p0 p1 --point rx -c 9 -w x.pcapng",
        "tcpdump br0 p0 -nn tcp port 80",
        "doctor --no-switch --root /host --all",
        "support-bundle -o x.tar.gz",
        "add-port br0 t0 --type geneve --option remote_ip=flow --option key=flow",
    ];
    for line in longer {
        parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    let tested = |verb: &str| {
        let mut lines = cases.iter().map(|(line, _)| *line).chain(longer).chain(["add-port"]);
        lines.any(|line| line.split(' ').next() == Some(verb))
    };
    for verb in description().get_subcommands() {
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
fn an_address_goes_anywhere_and_a_socket_on_the_line_before_one_in_the_environment() {
    for line in ["--connect a:1 --cert c --key k --ca r show", "show --connect a:1 --cert c --key k --ca r"] {
        let Tls { connect, cert, key, ca } = parse(line).expect("it parses").tls;
        assert_eq!(connect.as_deref(), Some("a:1"), "{line}");
        assert_eq!([cert, key, ca], ["c", "k", "r"].map(|file| Some(PathBuf::from(file))), "{line}");
    }
    let both = parse("--socket /s show --connect a:1").expect("it parses");
    assert_eq!(both.tls.connect.as_deref(), Some("a:1"));
}

#[test]
fn options_of_ovs_ofctl_may_stand_before_the_verb() {
    let cases = [
        ("--strict del-flows br0 in_port=1", "del-flows --strict br0 in_port=1"),
        ("-O OpenFlow15 --bundle add-flows br0 f", "-O OpenFlow15 add-flows --bundle br0 f"),
        ("--names --rsort=nw_src --socket /s dump-flows br0", "--socket /s dump-flows --names --rsort=nw_src br0"),
        ("dump-flows --no-stats br0", "dump-flows --no-stats br0"),
        ("--json show", "--json show"),
        ("--strict", "--strict"),
    ];
    for (line, want) in cases {
        let words = std::iter::once("vsctl").chain(line.split_whitespace()).map(OsString::from);
        let got: Vec<_> = arguments(words).into_iter().skip(1).collect();
        assert_eq!(got.join(&OsString::from(" ")), OsString::from(want), "{line}");
    }
    let Command::Pipeline(Pipeline::DelFlows(flows)) = parse(cases[0].0).expect("it parses").command else { panic!() };
    assert!(flows.strict);
}

#[test]
fn options_of_ovs_ofctl_without_meaning_are_taken() {
    for line in [
        "-F OpenFlow15-OXM -m --color --readd -t 5 dump-flows br0",
        "--flow-format=any --more --color=always -T 5 dump-flows br0",
        "dump-flows br0 -F any -m --color=never --readd --timeout 5",
    ] {
        let cli = parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(cli.timeout, Duration::from_secs(5), "{line}");
        assert!(matches!(cli.command, Command::Pipeline(Pipeline::DumpFlows(_))), "{line}");
    }
}

#[test]
fn sort_keys_keep_their_order() {
    let cases = [
        ("--sort=nw_src --rsort dump-flows br0 --sort=tp_dst", "nw_src priority- tp_dst"),
        ("--rsort dump-flows br0 --sort --rsort=nw_dst", "priority- priority nw_dst-"),
        ("dump-flows br0 --rsort=a --sort=b --rsort=c --sort=d", "a- b c- d"),
        ("dump-flows br0", ""),
    ];
    for (line, want) in cases {
        let Command::Pipeline(Pipeline::DumpFlows(args)) = parse(line).expect(line).command else { panic!("{line}") };
        let keys =
            args.sort.0.iter().map(|(field, descending)| format!("{field}{}", if *descending { "-" } else { "" }));
        assert_eq!(keys.collect::<Vec<_>>().join(" "), want, "{line}");
    }
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
        ("add-port br0 p0 --type stt", ErrorKind::InvalidValue),
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
        ("worker-perf-show --interval 0", ErrorKind::ValueValidation),
        ("port-events --count 0", ErrorKind::ValueValidation),
        ("completion tcsh", ErrorKind::InvalidValue),
        ("add-table br0 t --number 254", ErrorKind::ValueValidation),
        ("add-flow br0", ErrorKind::MissingRequiredArgument),
        ("replace-flows br0", ErrorKind::MissingRequiredArgument),
        ("dump-groups br0 one", ErrorKind::ValueValidation),
        ("trace br0", ErrorKind::MissingRequiredArgument),
        ("trace br0 tcp --packet 00", ErrorKind::ArgumentConflict),
        ("trace br0 tcp --in-port p1", ErrorKind::ArgumentConflict),
        ("trace br0 --packet 0", ErrorKind::ValueValidation),
        ("trace br0 --packet 0x", ErrorKind::ValueValidation),
        ("monitor br0 --controller 65536", ErrorKind::ValueValidation),
        ("ct-set-limits", ErrorKind::MissingRequiredArgument),
        ("ct-del-limits", ErrorKind::MissingRequiredArgument),
        ("ct-set-maxconns many", ErrorKind::ValueValidation),
        ("monitor-conntrack --count 0", ErrorKind::ValueValidation),
        ("dummy/receive p1", ErrorKind::MissingRequiredArgument),
        ("cache maybe", ErrorKind::InvalidValue),
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
