//! From arguments to requests, and lists of ports.

use super::super::testing;
use super::*;
use crate::cli::Cli;
use crate::cli::Command;
use clap::Parser;

fn add_port(arguments: &str) -> Result<v1::PortConfig, Error> {
    let line = format!("vsctl add-port br0 p0 {arguments}");
    match Cli::try_parse_from(line.split_whitespace()).expect("it parses").command {
        Command::AddPort(args) => config(&args),
        other => panic!("{other:?}"),
    }
}

fn kind(arguments: &str) -> Kind {
    add_port(arguments).expect("valid").kind.expect("a kind")
}

fn mod_port(arguments: &str) -> Result<v1::ModifyPortRequest, Error> {
    let line = format!("vsctl mod-port br0 p0 {arguments}");
    match Cli::try_parse_from(line.split_whitespace()).expect("it parses").command {
        Command::ModPort(args) => change(&args),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_kind_of_port() {
    let dpdk = v1::DpdkPort { devargs: "net_null0".to_owned(), queues: Some(2) };
    assert_eq!(kind("--type dpdk --devargs net_null0 --queues 2"), Kind::Dpdk(dpdk));
    let vhost = v1::VhostUserPort { path: "/s".to_owned(), ..Default::default() };
    assert_eq!(kind("--type vhost-user --path /s"), Kind::VhostUser(vhost));
    let vhost = v1::VhostUserPort {
        path: "/s".to_owned(),
        mode: v1::VhostUserMode::Server.into(),
        queues: Some(4),
        csum: None,
        tso: Some(false),
        mergeable: Some(false),
        indirect: Some(false),
        packed: true,
    };
    let line = "--type vhost-user --path /s --mode server --queues 4 --no-tso --no-mergeable --no-indirect --packed";
    assert_eq!(kind(line), Kind::VhostUser(vhost));
    let tap = v1::TapPort { interface: "t0".to_owned(), queues: Some(2) };
    assert_eq!(kind("--type tap --interface t0 --queues 2"), Kind::Tap(tap));
    assert_eq!(kind("--type tap"), Kind::Tap(v1::TapPort::default()));
    let af_packet = v1::AfPacketPort { interface: "veth0".to_owned() };
    assert_eq!(kind("--type af_packet --interface veth0"), Kind::AfPacket(af_packet));
    let pcap = v1::PcapPort { rx_file: Some("a.pcap".to_owned()), tx_file: Some("b".to_owned()), infinite_rx: true };
    assert_eq!(kind("--type pcap --rx-file a.pcap --tx-file b --infinite-rx"), Kind::Pcap(pcap));
    assert_eq!(kind("--type patch --peer p1"), Kind::Patch(v1::PatchPort { peer: "p1".to_owned() }));
    assert_eq!(kind("--type internal"), Kind::Internal(v1::InternalPort::default()));
    assert_eq!(kind("--type internal --queues 4"), Kind::Internal(v1::InternalPort { queues: Some(4) }));
}

#[test]
fn no_checksums_means_no_tso() {
    let Kind::VhostUser(port) = kind("--type vhost-user --path /s --no-csum") else { panic!("another kind") };
    assert_eq!((port.csum, port.tso), (Some(false), Some(false)));
}

#[test]
fn what_all_kinds_have() {
    let line = "--type internal --number 7 --mac 2:0:0:0:0:1 --mtu 9000 --no-flood --strict --admin-down --external-id a=b=c \
                --external-id d= --address 10.0.0.1/24 --address fd00::1/64";
    let want = v1::PortConfig {
        name: "p0".to_owned(),
        number: Some(7),
        mac: Some(testing::mac(1)),
        mtu: Some(9000),
        admin_up: Some(false),
        no_flood: true,
        strict: true,
        external_ids: [("a", "b=c"), ("d", "")].map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        kind: Some(Kind::Internal(v1::InternalPort::default())),
        addresses: vec!["10.0.0.1/24".to_owned(), "fd00::1/64".to_owned()],
        ..Default::default()
    };
    assert_eq!(add_port(line).expect("valid"), want);
    let plain = add_port("--type internal").expect("valid");
    assert_eq!((plain.number, plain.mac, plain.mtu, plain.admin_up, plain.no_flood), (None, None, None, None, false));
}

#[test]
fn options_of_other_kinds_are_wrong_usage() {
    let cases = [
        ("--type af_packet --peer p1 --queues 2", "--queues, --peer cannot be used with this --type"),
        ("--type patch --peer p1 --interface t0", "--interface cannot be used with this --type"),
        ("--type dpdk --devargs a --packed", "--packed cannot be used with this --type"),
        ("--type patch --peer p1 --address 1.1.1.1/8", "--address cannot be used with this --type"),
        ("--type tap --option key=1", "--option cannot be used with this --type"),
        ("--type internal --rx-file a", "--rx-file cannot be used with this --type"),
    ];
    for (line, want) in cases {
        match add_port(line) {
            Err(Error::Usage(error)) => assert!(error.to_string().contains(want), "{line}: {error}"),
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn changes() {
    let request = mod_port("down no-flood strict --mtu 1400 --external-id a=b").expect("valid");
    let external_ids = Some(v1::ExternalIds { ids: [("a".to_owned(), "b".to_owned())].into() });
    let want = v1::ModifyPortRequest {
        bridge: "br0".to_owned(),
        name: "p0".to_owned(),
        admin_up: Some(false),
        no_flood: Some(true),
        mtu: Some(1400),
        external_ids,
        strict: Some(true),
        ..Default::default()
    };
    assert_eq!(request, want);
    let request = mod_port("up flood").expect("valid");
    assert_eq!((request.admin_up, request.no_flood, request.mtu), (Some(true), Some(false), None));
    assert_eq!(request.strict, None, "it stays");
    let request = mod_port("no-strict").expect("valid");
    assert_eq!((request.admin_up, request.no_flood, request.strict), (None, None, Some(false)));
    assert_eq!(request.external_ids, None, "they stay");
    let request = mod_port("no-receive forward").expect("valid");
    assert_eq!((request.no_receive, request.no_forward), (Some(true), Some(false)));
    let request = mod_port("receive no-forward").expect("valid");
    assert_eq!((request.no_receive, request.no_forward), (Some(false), Some(true)));
    assert_eq!(request.underlay, None, "it stays");
    let request = mod_port("no-underlay").expect("valid");
    assert_eq!(request.underlay, Some(false));
    let request = mod_port("--address 10.0.0.1/24").expect("valid");
    assert_eq!(request.addresses, Some(v1::Addresses { cidrs: vec!["10.0.0.1/24".to_owned()] }));
    let request = mod_port("--no-addresses").expect("valid");
    assert_eq!(request.addresses, Some(v1::Addresses::default()), "they go");
    let request = mod_port("--no-external-ids").expect("valid");
    assert_eq!(request.external_ids, Some(v1::ExternalIds::default()), "they go");
}

#[test]
fn changes_that_make_no_sense_are_wrong_usage() {
    for (line, want) in [
        ("up down", "exclude each other"),
        ("flood up no-flood", "exclude"),
        ("receive no-receive", "exclude"),
        ("strict no-strict", "exclude"),
        ("underlay no-underlay", "exclude"),
        ("", "nothing to change"),
    ] {
        match mod_port(line) {
            Err(Error::Usage(error)) => assert!(error.to_string().contains(want), "{line:?}: {error}"),
            other => panic!("{line:?}: {other:?}"),
        }
    }
}

#[test]
fn lists() {
    let names = Names(vec![testing::guest(), testing::local()]);
    assert_eq!(names.text(), "vm0\nbr0\n");
    let json = names.json();
    assert_eq!((&json[0]["name"], &json[1]["number"]), (&json!("vm0"), &json!(4_294_967_294_u32)));
    assert_eq!(Changed { port: testing::local(), warnings: Vec::new() }.json()["options"], json!({ "queues": 1 }));
}
