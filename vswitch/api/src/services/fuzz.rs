//! For the fuzz target `grpc_decode` and the test of its seeds: a request as bytes, through
//! everything that a service does with it before it asks the switch. Nothing panics, and what
//! converts is told and converts back to the same.

use super::{flow, list, packet, parse, pipeline, present};
use prost::Message;
use std::collections::HashSet;
use vswitch_control::switch::pipeline::NameMap;
use vswitch_flow::spec::{BucketSpec, FlowSpec, GroupKind, GroupSpec, MeterSpec, Selection, Update};
use vswitch_flow::text::{
    FlowCommand, Parsed, Style, TextError, format_flow, format_group, format_key, format_meter, parse_filter,
    parse_flow, parse_group, parse_key, parse_meter,
};
use vswitch_messages::{self as typed, wrong};
use vswitch_proto::v1;

/// Updates of a request that are looked at: more of them tell nothing new.
const UPDATES_MAX: usize = 64;

/// Decodes what the first byte says from the others, and converts it.
///
/// # Panics
/// When something is told that does not come back as the same: a bug.
pub fn request(bytes: &[u8]) {
    let Some((kind, message)) = bytes.split_first() else { return };
    let _ = match kind % 8 {
        0 => v1::WriteRequest::decode(message).map(write),
        1 => v1::SendPacketRequest::decode(message).map(send_packet),
        2 => v1::TraceRequest::decode(message).map(trace),
        3 => v1::ListFlowsRequest::decode(message).map(list_flows),
        4 => v1::NormalizeFlowsRequest::decode(message).map(|request| normalize(&request)),
        5 => v1::AddPortRequest::decode(message).map(add_port),
        6 => v1::ModifyPortRequest::decode(message).map(|mut request| drop(parse::port_change(&mut request))),
        _ => v1::FlushFdbRequest::decode(message).map(|request| drop(parse::fdb_filter(request))),
    };
}

/// Two ports and a table with names.
fn names() -> NameMap {
    let (ports, tables) = ([("p1", 1), ("uplink", 7)], [("classify", 3)]);
    NameMap {
        ports: ports.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect(),
        guests: HashSet::new(),
        port_names: ports.iter().map(|(name, number)| (*number, (*name).to_owned())).collect(),
        tables: tables.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect(),
        table_names: tables.iter().map(|(name, number)| (*number, (*name).to_owned())).collect(),
    }
}

fn write(request: v1::WriteRequest) {
    let names = names();
    for message in request.updates.into_iter().take(UPDATES_MAX) {
        let told = format!("{message:?}");
        match pipeline::update(message, &names).map(|parsed| parsed.value) {
            Ok(Update::AddFlow(flow)) => flow_comes_back(&flow, &names, &told),
            Ok(Update::AddGroup(group) | Update::ModifyGroup { spec: group, .. }) => {
                group_comes_back(&group, &names, &told);
            }
            Ok(Update::AddMeter(meter) | Update::ModifyMeter(meter)) => meter_comes_back(&meter, &told),
            Ok(Update::InsertBuckets { buckets, .. }) => buckets_come_back(&buckets, &names, &told),
            Ok(_) | Err(_) => {}
        }
    }
}

fn same<T: PartialEq + std::fmt::Debug>(back: Result<T, TextError>, value: &T, form: &str, told: &str) {
    match back {
        Ok(back) => assert!(back == *value, "{told}\nis {value:?}\ntold as {form}\nthat is {back:?}"),
        Err(error) => panic!("{told}\nis {value:?}\ntold as {form}\nthat is refused: {error:?}"),
    }
}

fn flow_comes_back(flow: &FlowSpec, names: &NameMap, told: &str) {
    for by_name in [false, true] {
        let (style, mut line) = (Style { names: by_name }, String::new());
        format_flow(flow, None, style, names, &mut line);
        let back = parse_flow(&line, FlowCommand::Add, names).and_then(|parsed| match parsed.value {
            Update::AddFlow(flow) => Ok(flow),
            other => Err(wrong("", format!("{other:?}"), "")),
        });
        same(back, flow, &line, told);
        for typed in [false, true] {
            let message = typed::flow_message(flow, typed, style, names);
            let back = typed::flow(&message, names).map(|parsed| parsed.value);
            same(back, flow, &format!("{message:?}"), told);
        }
    }
}

fn group_comes_back(group: &GroupSpec, names: &NameMap, told: &str) {
    let mut line = String::new();
    format_group(group, Style::default(), names, &mut line);
    same(parse_group(&line, names).map(|parsed| parsed.value.spec), group, &line, told);
    for typed in [false, true] {
        let message = typed::group_message(group, typed, Style::default(), names);
        let back = typed::group(&message, names).map(|parsed| parsed.value);
        same(back, group, &format!("{message:?}"), told);
    }
}

/// As those of a select group, whose buckets may have everything.
fn buckets_come_back(buckets: &[BucketSpec], names: &NameMap, told: &str) {
    for typed in [false, true] {
        let group =
            GroupSpec { id: 1, kind: GroupKind::Select, selection: Selection::Default, buckets: buckets.to_vec() };
        let messages = typed::group_message(&group, typed, Style::default(), names).buckets;
        let back = typed::buckets(&messages, None, names).map(|parsed| parsed.value);
        same(back, &group.buckets, &format!("{messages:?}"), told);
    }
}

fn meter_comes_back(meter: &MeterSpec, told: &str) {
    let mut line = String::new();
    format_meter(meter, &mut line);
    same(parse_meter(&line).map(|parsed| parsed.value), meter, &line, told);
    same(typed::meter(&typed::meter_message(meter)), meter, "a message", told);
}

fn send_packet(request: v1::SendPacketRequest) {
    let names = names();
    let Some(message) = request.packet_out else { return };
    let told = format!("{message:?}");
    let Ok(Parsed { value, .. }) = packet::packet_out(message, &names) else { return };
    let fields = typed::fields(&value.metadata);
    same(typed::metadata(&fields), &value.metadata, &format!("{fields:?}"), &told);
}

fn trace(request: v1::TraceRequest) {
    let names = names();
    let Some(v1::trace_request::Input::Flow(line)) = request.input else { return };
    let Ok(key) = parse_key(&line, &names) else { return };
    format_key(&key, Style { names: true }, &names, &mut String::new());
}

fn list_flows(request: v1::ListFlowsRequest) {
    use v1::list_flows_request::Filter;
    let names = names();
    let _ = list::form(request.form);
    let _ = flow::sort_keys(&request.sort);
    let _ = match request.filter {
        Some(Filter::Typed(filter)) => typed::filter(&filter, &names).map(drop),
        Some(Filter::Text(text)) => parse_filter(&text, false, &names).map(drop),
        None => Ok(()),
    };
}

fn normalize(request: &v1::NormalizeFlowsRequest) {
    let names = names();
    for line in request.lines.iter().take(UPDATES_MAX) {
        if let Ok(Parsed { value: Update::AddFlow(flow), .. }) = parse_flow(&line.text, FlowCommand::Add, &names) {
            flow_comes_back(&flow, &names, &line.text);
        }
    }
}

fn add_port(request: v1::AddPortRequest) {
    let Some(message) = request.port else { return };
    let told = format!("{message:?}");
    let Ok(port) = parse::port_config(message) else { return };
    // What is told has always an MTU, so it is one that is asked for.
    let port = vswitch_dataplane::port::PortConfig { mtu_follows: false, ..port };
    let back = parse::port_config(present::port_config(&port));
    assert!(back.as_ref().is_ok_and(|back| *back == port), "{told}\nis {port:?}\ncomes back as {back:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request with its number in front.
    fn seed(kind: u8, message: &impl Message) -> Vec<u8> {
        [&[kind][..], &message.encode_to_vec()].concat()
    }

    fn line(kind: v1::LineKind, line: &str) -> v1::Update {
        let line = v1::LineUpdate { kind: kind.into(), line: line.to_owned() };
        v1::Update { tag: 1, update: Some(v1::update::Update::Line(line)) }
    }

    /// Requests that convert: what a fuzzer begins with.
    fn seeds() -> Vec<(&'static str, Vec<u8>)> {
        let names = names();
        let flow = "table=3,cookie=5,idle_timeout=9,tcp,in_port=uplink,nw_src=10.0.0.0/8,actions=set_field:1->reg0,\
                    learn(table=4,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),ct(commit,zone=1,nat(src=10.0.0.1)),output:p1";
        let group = "group_id=3,type=select,selection_method=hash,fields=ip_src,bucket=weight:3,actions=output:p1";
        let meter = "meter=3,pktps,burst,bands=type=drop,rate=5,burst_size=7";
        let lines = vec![
            line(v1::LineKind::AddFlow, flow),
            line(v1::LineKind::AddGroup, group),
            line(v1::LineKind::AddMeter, meter),
            line(v1::LineKind::DeleteFlowsStrict, "table=1,priority=3,ip"),
        ];
        let typed = lines.iter().filter_map(|update| {
            use v1::update::Update as Kind;
            let update = match pipeline::update(update.clone(), &names).expect("a good line").value {
                Update::AddFlow(flow) => Kind::AddFlow(typed::flow_message(&flow, true, Style::default(), &names)),
                Update::AddGroup(group) => Kind::AddGroup(typed::group_message(&group, true, Style::default(), &names)),
                Update::AddMeter(meter) => Kind::AddMeter(typed::meter_message(&meter)),
                _ => return None,
            };
            Some(v1::Update { tag: 2, update: Some(update) })
        });
        let write = |updates| v1::WriteRequest { bridge: "br0".to_owned(), updates, commit: true };
        let packet_out = |text: &str| v1::SendPacketRequest {
            bridge: "br0".to_owned(),
            packet_out: Some(v1::send_packet_request::PacketOut::Text(text.to_owned())),
        };
        let trace = v1::trace_request::Input::Flow("in_port=1,tcp,nw_dst=10.0.0.1,tp_dst=80".to_owned());
        let list = v1::list_flows_request::Filter::Text("table=3,tcp,cookie=0x1/-1".to_owned());
        let sort = vec![v1::SortKey { field: "nw_dst".to_owned(), descending: true }];
        let kind = Some(v1::port_config::Kind::Tap(v1::TapPort { interface: "tap0".to_owned(), queues: None }));
        let port = v1::PortConfig { name: "p9".to_owned(), number: Some(9), kind, ..v1::PortConfig::default() };
        vec![
            ("write_typed", seed(0, &write(typed.collect()))),
            ("write_lines", seed(0, &write(lines))),
            ("packet_out", seed(1, &packet_out("in_port=1,packet=0200000000020200000000010800,actions=output:p1"))),
            (
                "trace",
                seed(
                    2,
                    &v1::TraceRequest {
                        bridge: "br0".to_owned(),
                        input: Some(trace),
                        names: false,
                        ct_next: Vec::new(),
                    },
                ),
            ),
            ("list_flows", seed(3, &v1::ListFlowsRequest { filter: Some(list), sort, form: 2, ..Default::default() })),
            ("normalize", {
                let lines = vec![v1::Line { tag: 1, text: flow.to_owned() }];
                seed(4, &v1::NormalizeFlowsRequest { lines, ..Default::default() })
            }),
            ("add_port", seed(5, &v1::AddPortRequest { bridge: "br0".to_owned(), port: Some(port) })),
        ]
    }

    /// Each seed is committed (VSWITCH_FUZZ_RECORD=1 writes them), and so is every input that once
    /// failed; all of them hold.
    #[test]
    fn seeds_come_back_as_they_were() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/grpc_decode");
        for (name, bytes) in seeds() {
            request(&bytes);
            if std::env::var_os("VSWITCH_FUZZ_RECORD").is_some() {
                std::fs::write(dir.join(name), &bytes).expect("a seed can be written");
            }
            assert_eq!(std::fs::read(dir.join(name)).ok(), Some(bytes), "{name}: VSWITCH_FUZZ_RECORD=1 writes it");
        }
        for file in std::fs::read_dir(&dir).expect("seeds").flatten() {
            request(&std::fs::read(file.path()).expect("a seed"));
        }
    }
}
