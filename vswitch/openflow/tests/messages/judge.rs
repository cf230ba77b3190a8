//! Messages that no recording has, as `ovs-ofctl ofp-print` reads them.

use crate::recording::hex;
use std::process::Command;
use vswitch_flow::spec::{Band, BandKind, MeterSpec};
use vswitch_openflow::{
    AsyncConfig, AsyncMasks, BundleControl, BundleStep, Codec, CtFlush, CtTuple, Envelope, ErrorCode, ErrorMessage,
    FlowUpdate, Hello, Message, MonitorCommand, MonitorRequest, OptionMapping, OptionMod, Part, Port, PortMod, Reply,
    Request, Role, RoleMessage, RoleStatus, SwitchConfig, TableFeatures, TableMod, Version,
};

/// What Open vSwitch says of a message, without the first line's header.
fn printed(version: Version, message: &Message) -> String {
    let codec = Codec::new(version);
    let envelope = Envelope { xid: 5, message: message.clone() };
    let bytes = codec.encode(&envelope).unwrap();
    let sent = codec.decode(&bytes).unwrap();
    assert_eq!(codec.encode(&sent).unwrap(), bytes, "{message:?}");
    let output = Command::new("ovs-ofctl").arg("ofp-print").arg(hex(&bytes)).output();
    let output = output.expect("ovs-ofctl is missing: install openvswitch-switch (tools/setup does)");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("***"), "{message:?}:\n{text}");
    text
}

fn says(versions: &[Version], message: &Message, parts: &[&str]) {
    for version in versions {
        let text = printed(*version, message);
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }
}

const ALL: &[Version] = &Version::ALL;
const V13: &[Version] = &[Version::V13];
const V15: &[Version] = &[Version::V15];

#[test]
fn connections_begin_and_live() {
    says(ALL, &Message::Hello(Hello { versions: Some(0x50) }), &["version bitmap: 0x04, 0x06"]);
    says(ALL, &Message::EchoRequest(vec![1, 2]), &["OFPT_ECHO_REQUEST", "2 bytes of payload"]);
    says(
        ALL,
        &Message::SetConfig(SwitchConfig { flags: 2, miss_send_len: 128 }),
        &["frags=reassemble", "miss_send_len=128"],
    );
    let role = RoleMessage { role: Role::Primary, generation: 9 };
    says(ALL, &Message::RoleRequest(role), &["role=primary", "generation_id=9"]);
    says(ALL, &Message::RoleReply(RoleMessage { role: Role::Secondary, ..role }), &["role=secondary"]);
    let status = RoleStatus { role: Role::Secondary, reason: 0, generation: 3 };
    says(ALL, &Message::RoleStatus(status), &["role=secondary", "generation_id=3"]);
    says(ALL, &Message::SetControllerId(77), &["77"]);
    says(ALL, &Message::SetPacketInFormat(2), &["nxt_packet_in2"]);
}

#[test]
fn controllers_say_what_they_want_to_get() {
    let masks = |primary, secondary| AsyncMasks { primary: Some(primary), secondary: Some(secondary) };
    let config = AsyncConfig {
        packet_in: masks(3, 0),
        port_status: masks(7, 7),
        flow_removed: masks(1, 0),
        ..AsyncConfig::default()
    };
    says(ALL, &Message::SetAsync(config), &["primary:", "PACKET_IN: no_match", "PORT_STATUS: add delete modify"]);
    says(ALL, &Message::GetAsyncReply(config), &["FLOW_REMOVED: idle"]);
}

#[test]
fn errors_have_names() {
    for (name, data) in [("OFPBAC_BAD_OUT_PORT", 3), ("OFPBFC_MSG_FAILED", 0), ("NXTTMFC_DUP_ENTRY", 0)] {
        for version in ALL {
            let code = ErrorCode::of_name(*version, name);
            let message = Message::Error(ErrorMessage { code, data: vec![0; data] });
            says(&[*version], &message, &[name]);
        }
    }
}

#[test]
fn mods_are_understood() {
    let port = PortMod { number: 3, address: [2, 0, 0, 0, 0, 1], config: 1, mask: 1, advertise: 0 };
    says(ALL, &Message::PortMod(port), &["port: 3", "config: PORT_DOWN", "addr:02:00:00:00:00:01"]);
    says(ALL, &Message::TableMod(TableMod { table: 5, ..TableMod::default() }), &["table_id=5"]);
    let bundle = BundleControl { id: 8, step: BundleStep::CommitRequest, flags: 3 };
    says(ALL, &Message::BundleControl(bundle), &["bundle_id=0x8", "COMMIT_REQUEST", "atomic ordered"]);
    let mapping = OptionMapping { class: 0x102, kind: 0x80, len: 4, field: 0 };
    says(ALL, &Message::OptionMod(OptionMod::Add(vec![mapping])), &["ADD", "0x102", "0x80", "tun_metadata0"]);
    says(ALL, &Message::OptionMod(OptionMod::Clear), &["CLEAR"]);
    let tuple = CtTuple { source: Some("10.0.0.1".parse().unwrap()), source_port: Some(5), ..CtTuple::default() };
    let flush = CtFlush { protocol: 6, original: tuple, zone: Some(3), ..CtFlush::default() };
    says(ALL, &Message::CtFlush(flush), &["zone=3", "ct_nw_src=10.0.0.1", "ct_tp_src=5"]);
}

#[test]
fn monitors_begin_change_and_end() {
    let request = MonitorRequest {
        id: 4,
        command: MonitorCommand::Modify,
        flags: 0x1f,
        out_port: 2,
        out_group: u32::MAX,
        table: 3,
        matching: vswitch_flow::SparseMatch::default().into(),
    };
    let part = |request| Message::MultipartRequest(Part { more: false, body: Request::FlowMonitor(vec![request]) });
    says(V15, &part(request.clone()), &["id=4", "out_port=2", "table=3"]);
    says(V13, &part(MonitorRequest { command: MonitorCommand::Add, ..request }), &["id=4", "out_port=2"]);
    says(V13, &Message::FlowMonitorCancel(4), &["id=4"]);
    says(V13, &Message::FlowMonitorPaused, &["PAUSED"]);
    says(V13, &Message::FlowMonitorResumed, &["RESUMED"]);
    let updates = |list| Message::MultipartReply(Part { more: false, body: Reply::FlowMonitor(list) });
    says(ALL, &updates(vec![FlowUpdate::Abbreviated(0x77)]), &["event=ABBREV", "xid=0x77"]);
    says(V15, &updates(vec![FlowUpdate::Paused, FlowUpdate::Resumed]), &["event=PAUSED", "event=RESUMED"]);
}

#[test]
fn descriptions_are_cut_to_their_fields() {
    let port = Port { number: 7, name: "a-name-of-more-than-15-bytes".to_owned(), state: 4, ..Port::default() };
    let reply = |body| Message::MultipartReply(Part { more: true, body });
    says(ALL, &reply(Reply::PortDescriptions(vec![port])), &["7(a-name-of-more-)", "LIVE", "more"]);
    let band = Band { kind: BandKind::DscpRemark { precedence: 2 }, rate: 10, burst: 5 };
    let meter = MeterSpec { id: 1, pktps: true, burst: true, stats: true, bands: vec![band] };
    let bands = ["pktps burst stats", "type=dscp_remark rate=10 burst_size=5 prec_level=2"];
    says(ALL, &reply(Reply::MeterConfigs(vec![meter])), &bands);
}

#[test]
fn tables_say_what_their_flows_may_do() {
    for version in ALL {
        let table = |number| TableFeatures::of_table(Codec::new(*version), number, "Classifier", 9);
        let body = Reply::TableFeatures(vec![table(3), table(253)]);
        let parts = [
            "\"Classifier\"",
            "max_entries=9",
            "next tables: 4-253",
            "apply_actions",
            "goto_table",
            "tcp_{src,dst,flags}",
            "arbitrary mask: ",
            "xxreg3",
        ];
        says(&[*version], &Message::MultipartReply(Part { more: false, body }), &parts);
    }
}
