//! `TunnelService` from outside.

use super::*;
use vswitch_proto::v1::flow_service_client::FlowServiceClient;
use vswitch_proto::v1::pipeline_service_client::PipelineServiceClient;
use vswitch_proto::v1::tunnel_service_client::TunnelServiceClient;

/// A server with bridge br0, and a client.
async fn start() -> (Running, TunnelServiceClient<Channel>) {
    let running = Running::start().await;
    running.add_bridge("br0").await.expect("a new bridge");
    let client = TunnelServiceClient::new(running.channel.clone());
    (running, client)
}

fn route(prefix: &str, gateway: Option<&str>, source: Option<&str>) -> v1::Route {
    let text = |text: Option<&str>| text.map(str::to_owned);
    let (gateway, source) = (text(gateway), text(source));
    v1::Route { prefix: prefix.to_owned(), port: "br0".to_owned(), gateway, source, user: false }
}

fn mapping(option_class: u32, option_type: u32, length: u32, field: u32) -> v1::OptionMapping {
    v1::OptionMapping { option_class, option_type, length, field }
}

/// Invalid, and of these fields.
#[track_caller]
fn assert_invalid<T: std::fmt::Debug>(answer: Result<T, Status>, fields: &[&str], part: &str) {
    let status = answer.expect_err(part);
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let violations = status.get_details_bad_request().expect("details").field_violations;
    assert_eq!(violations.iter().map(|violation| violation.field.as_str()).collect::<Vec<_>>(), fields, "{status:?}");
    assert!(status.message().contains(part), "{:?} does not say {part:?}", status.message());
}

#[tokio::test]
async fn routes_come_and_go() {
    let (running, mut client) = start().await;
    let wanted = route("10.0.0.0/8", Some("192.168.1.254"), Some("192.168.1.1"));
    client.add_route(v1::AddRouteRequest { route: Some(wanted.clone()) }).await.expect("a good route");
    let as_told = v1::Route { user: true, ..wanted };
    let routes = client.list_routes(v1::ListRoutesRequest {}).await.expect("a list").into_inner().routes;
    assert_eq!(routes, std::slice::from_ref(&as_told));
    let lookup = |address: &str| v1::LookupRouteRequest { address: address.to_owned() };
    let found = client.lookup_route(lookup("10.1.2.3")).await.expect("a way").into_inner().route;
    assert_eq!(found, Some(as_told));

    for (prefix, gateway, source, field) in [
        ("10.0.0.0/33", None, None, "prefix"),
        ("", None, None, "prefix"),
        ("10.0.0.0/8", Some("1.2.3"), None, "gateway"),
        ("10.0.0.0/8", None, Some("1.2.3.4/8"), "source"),
    ] {
        let request = v1::AddRouteRequest { route: Some(route(prefix, gateway, source)) };
        assert_invalid(client.add_route(request).await, &[field], "is no ");
    }
    assert_invalid(client.add_route(v1::AddRouteRequest { route: None }).await, &["prefix"], "is no prefix");
    assert_invalid(client.lookup_route(lookup("10.1.2")).await, &["address"], "\"10.1.2\" is no address");
    let delete = |prefix: &str| v1::DeleteRouteRequest { prefix: prefix.to_owned() };
    assert_invalid(client.delete_route(delete("x")).await, &["prefix"], "\"x\" is no prefix");
    assert_eq!(client.delete_route(delete("11.0.0.0/8")).await.expect_err("another").code(), Code::NotFound);
    client.delete_route(delete("10.0.0.0/8")).await.expect("it is there");
    assert_eq!(client.lookup_route(lookup("10.1.2.3")).await.expect_err("gone").code(), Code::NotFound);
    assert_eq!(client.list_routes(v1::ListRoutesRequest {}).await.expect("a list").into_inner().routes, []);
    running.stop().await;
}

#[tokio::test]
async fn neighbours_and_listeners() {
    let (running, mut client) = start().await;
    let set = |bridge: &str, address: &str, octets: &[u8]| v1::SetNeighbourRequest {
        bridge: bridge.to_owned(),
        address: address.to_owned(),
        mac: Some(v1::MacAddress { octets: octets.to_vec() }),
    };
    client.set_neighbour(set("br0", "fd00::2", &[2, 0, 0, 0, 0, 9])).await.expect("room");
    assert_invalid(client.set_neighbour(set("br0", "fd00:2", &[2; 6])).await, &["address"], "is no address");
    assert_invalid(client.set_neighbour(set("br0", "fd00::2", &[2; 5])).await, &["mac"], "5 bytes are no address");
    let none = v1::SetNeighbourRequest { mac: None, ..set("br0", "fd00::2", &[]) };
    assert_invalid(client.set_neighbour(none).await, &["mac"], "0 bytes are no address");
    let status = client.set_neighbour(set("br9", "fd00::2", &[2; 6])).await.expect_err("no br9");
    assert_eq!(status.code(), Code::NotFound, "{status:?}");
    let list = v1::ListNeighboursRequest {};
    let v1::ListNeighboursResponse { neighbours: listed, statistics } =
        client.list_neighbours(list).await.expect("a list").into_inner();
    let numbers = v1::NeighbourStatistics { pending: 2, changed: 3, held_off: 4, refused: 5, expired: 6, evicted: 7 };
    assert_eq!(statistics, Some(numbers));
    let mac = Some(v1::MacAddress { octets: vec![2, 0, 0, 0, 0, 9] });
    let (bridge, address) = ("br0".to_owned(), "fd00::2".to_owned());
    assert_eq!(listed, [v1::Neighbour { bridge, address, mac, age_seconds: 0 }]);
    for flushed in [1, 0] {
        let request = v1::FlushNeighboursRequest { bridge: Some("br0".to_owned()) };
        assert_eq!(client.flush_neighbours(request).await.expect("a bridge").into_inner().flushed, flushed);
    }
    assert_eq!(client.list_neighbours(list).await.expect("a list").into_inner().neighbours, []);
    let listeners = client.list_tunnel_listeners(v1::ListTunnelListenersRequest {}).await.expect("a list");
    let geneve = v1::TunnelListener { name: "geneve_6081".to_owned(), port: 6081 };
    assert_eq!(listeners.into_inner().listeners, [geneve]);
    running.stop().await;
}

#[tokio::test]
async fn options_get_names_and_lose_them() {
    let (running, mut client) = start().await;
    let add = |mappings: &[v1::OptionMapping]| v1::AddOptionsRequest {
        bridge: "br0".to_owned(),
        mappings: mappings.to_vec(),
    };
    let delete = |mappings: &[v1::OptionMapping]| v1::DeleteOptionsRequest {
        bridge: "br0".to_owned(),
        mappings: mappings.to_vec(),
    };
    let list = || v1::ListOptionsRequest { bridge: "br0".to_owned() };
    let (one, two) = (mapping(0x102, 0x80, 4, 0), mapping(0xffff, 1, 16, 7));
    client.add_options(add(&[one, two])).await.expect("good ones");
    let listed = client.list_options(list()).await.expect("a bridge").into_inner().mappings;
    assert_eq!(listed, [one, two]);

    let out_of_range = [mapping(1 << 16, 0, 4, 1), mapping(0, 256, 4, 1), mapping(0, 0, 256, 1), mapping(0, 0, 4, 256)];
    for bad in out_of_range {
        assert_invalid(client.add_options(add(&[bad])).await, &["mappings"], "a number is out of range");
        assert_invalid(client.delete_options(delete(&[bad])).await, &["mappings"], "a number is out of range");
    }
    assert_invalid(client.add_options(add(&[])).await, &["mappings"], "not given");
    for (bad, code) in [
        (mapping(0, 0, 5, 1), "NXTTMFC_BAD_OPT_LEN"),
        (mapping(0, 0, 4, 8), "NXTTMFC_BAD_FIELD_IDX"),
        (mapping(0, 0, 4, 0), "NXTTMFC_ALREADY_MAPPED"),
        (mapping(0x102, 0x80, 4, 1), "NXTTMFC_DUP_ENTRY"),
    ] {
        assert_invalid(client.add_options(add(&[mapping(9, 9, 4, 3), bad])).await, &["mappings"], code);
    }
    assert_invalid(client.delete_options(delete(&[mapping(9, 9, 4, 0)])).await, &["mappings"], "NXTTMFC_BAD_FIELD_IDX");
    assert_eq!(client.list_options(list()).await.expect("a bridge").into_inner().mappings, [one, two]);
    let nowhere = v1::AddOptionsRequest { bridge: "br9".to_owned(), mappings: vec![one] };
    assert_eq!(client.add_options(nowhere).await.expect_err("no br9").code(), Code::NotFound);
    let nowhere = v1::ListOptionsRequest { bridge: "br9".to_owned() };
    assert_eq!(client.list_options(nowhere).await.expect_err("no br9").code(), Code::NotFound);
    let nowhere = v1::DeleteOptionsRequest { bridge: "br9".to_owned(), mappings: vec![] };
    assert_eq!(client.delete_options(nowhere).await.expect_err("no br9").code(), Code::NotFound);

    client.delete_options(delete(&[one])).await.expect("it is there");
    assert_eq!(client.list_options(list()).await.expect("a bridge").into_inner().mappings, [two]);
    client.delete_options(delete(&[])).await.expect("all");
    assert_eq!(client.list_options(list()).await.expect("a bridge").into_inner().mappings, []);
    running.stop().await;
}

#[tokio::test]
async fn flows_and_the_mappings_that_they_use() {
    let (running, mut client) = start().await;
    let mut pipeline = PipelineServiceClient::new(running.channel.clone());
    let mut write = async |line: &str| {
        let line = v1::LineUpdate { line: line.to_owned(), ..Default::default() };
        let update = v1::Update { update: Some(v1::update::Update::Line(line)), ..Default::default() };
        let request = v1::WriteRequest { bridge: "br0".to_owned(), updates: vec![update], commit: true };
        let response = pipeline.write(tokio_stream::iter([request])).await.expect("an answer").into_inner();
        response.statuses.into_iter().next().expect("a status")
    };
    let line = "tun_metadata0=5,actions=drop";
    let status = write(line).await;
    assert_eq!((status.code.as_str(), status.field.as_str()), ("NXFMFC_INVALID_TLV_FIELD", "tun_metadata0"), "{line}");
    let mut flows = FlowServiceClient::new(running.channel.clone());
    let filter = Some(v1::list_flows_request::Filter::Text("tun_metadata0=5".to_owned()));
    let dump = v1::ListFlowsRequest { bridge: "br0".to_owned(), filter, ..Default::default() };
    assert_invalid(flows.list_flows(dump).await, &["filter"], "NXFMFC_INVALID_TLV_FIELD");
    let request = v1::AddOptionsRequest { bridge: "br0".to_owned(), mappings: vec![mapping(0xffff, 0, 4, 0)] };
    client.add_options(request).await.expect("a good one");
    assert_eq!(write(line).await.outcome(), v1::UpdateOutcome::Applied, "mapped now");
    let delete = || v1::DeleteOptionsRequest { bridge: "br0".to_owned(), mappings: vec![] };
    assert_invalid(client.delete_options(delete()).await, &["mappings"], "NXTTMFC_INVALID_TLV_DEL");
    assert_eq!(write("flow delete tun_metadata0=5").await.affected, 1);
    client.delete_options(delete()).await.expect("nobody uses it");
    running.stop().await;
}
