//! Services and their endpoints.

use super::listing::Listed;
use super::parts;
use super::words::{cookie, count, count_json, list, or_dash, or_none, protocol, some};
use crate::client::Client;
use crate::error::Error;
use crate::output::Columns;
use serde_json::{Value, json};
use vswitch_proto::antrea::v1;

/// Services by name, or all.
pub(super) async fn services(client: &Client, names: &[String]) -> Result<Vec<v1::ServiceState>, Error> {
    let request = v1::ListServicesRequest { names: names.to_vec() };
    let answer = client.antrea_services().await?.list_services(request).await;
    Ok(parts(client, answer).await?.into_iter().flat_map(|part| part.services).collect())
}

const fn traffic_policy(policy: v1::TrafficPolicy) -> &'static str {
    match policy {
        v1::TrafficPolicy::Unspecified | v1::TrafficPolicy::Cluster => "cluster",
        v1::TrafficPolicy::Local => "local",
    }
}

const fn selection(selection: v1::Selection) -> &'static str {
    match selection {
        v1::Selection::Unspecified | v1::Selection::DpHash => "dp-hash",
        v1::Selection::Maglev => "maglev",
    }
}

const fn load_balancer_mode(mode: v1::LoadBalancerMode) -> &'static str {
    match mode {
        v1::LoadBalancerMode::Unspecified | v1::LoadBalancerMode::Nat => "nat",
        v1::LoadBalancerMode::Dsr => "dsr",
    }
}

/// `http:80/tcp`, without a name `80/tcp`.
fn port_text(port: &v1::ServicePort) -> String {
    let name = if port.name.is_empty() { String::new() } else { format!("{}:", port.name) };
    format!("{name}{}/{}", port.port, protocol(port.protocol(), "tcp"))
}

/// Ids of groups; 0 is none.
fn groups(ids: &[u32]) -> String {
    list(&ids.iter().map(|id| or_none(*id)).collect::<Vec<_>>())
}

fn is_used(endpoint: &v1::EndpointState) -> bool {
    endpoint.in_cluster_group || endpoint.in_local_group
}

/// What an EndpointSlice says of an endpoint.
fn state(endpoint: &v1::Endpoint) -> &'static str {
    match (endpoint.ready, endpoint.serving, endpoint.terminating) {
        (true, ..) => "ready",
        (false, true, true) => "terminating",
        (false, true, false) => "serving",
        (false, false, true) => "terminating,not-serving",
        (false, false, false) => "not-ready",
    }
}

/// An address with a port.
fn place(address: &str, port: u32) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

/// `services`: a row for each port.
impl Listed for v1::ServiceState {
    const COLUMNS: Columns<'static> = &[
        ("SERVICE", false),
        ("PORT", false),
        ("CLUSTER IPS", false),
        ("OTHER IPS", false),
        ("NODEPORT", true),
        ("ENDPOINTS", true),
        ("CLUSTER GROUPS", false),
        ("LOCAL GROUPS", false),
        ("AFFINITY", true),
        ("CLIENTS", true),
    ];
    const NOUN: &'static str = "Service";
    const VERB: &'static str = "services";

    fn name(&self) -> &str {
        self.service.as_ref().map_or("", |service| &service.name)
    }

    fn rows(&self, _: bool) -> Vec<Vec<String>> {
        let service = self.service.clone().unwrap_or_default();
        let others: Vec<_> = service.load_balancer_ips.iter().chain(&service.external_ips).collect();
        let affinity = match service.affinity_timeout_seconds {
            0 => "-".to_owned(),
            seconds => format!("{seconds} s"),
        };
        let row = |state: &v1::ServicePortState| {
            let port = state.port.clone().unwrap_or_default();
            let used = state.endpoints.iter().filter(|endpoint| is_used(endpoint)).count();
            vec![
                service.name.clone(),
                port_text(&port),
                list(&service.cluster_ips),
                list(&others),
                or_none(port.node_port),
                format!("{used}/{}", state.endpoints.len()),
                groups(&state.cluster_groups),
                groups(&state.local_groups),
                affinity.clone(),
                state.affine_clients.to_string(),
            ]
        };
        self.ports.iter().map(row).collect()
    }

    fn json(&self) -> Value {
        let service = self.service.clone().unwrap_or_default();
        json!({
            "name": service.name,
            "cluster_ips": service.cluster_ips,
            "external_ips": service.external_ips,
            "load_balancer_ips": service.load_balancer_ips,
            "load_balancer_source_ranges": service.load_balancer_source_ranges,
            "load_balancer_mode": load_balancer_mode(service.load_balancer_mode()),
            "internal_traffic_policy": traffic_policy(service.internal_traffic_policy()),
            "external_traffic_policy": traffic_policy(service.external_traffic_policy()),
            "affinity_timeout": some(service.affinity_timeout_seconds),
            "selection": selection(service.selection()),
            "nested": service.nested,
            "cookie": cookie(self.cookie),
            "ports": self.ports.iter().map(port_json).collect::<Value>(),
        })
    }
}

fn port_json(state: &v1::ServicePortState) -> Value {
    let port = state.port.clone().unwrap_or_default();
    json!({
        "name": port.name,
        "protocol": protocol(port.protocol(), "tcp"),
        "port": port.port,
        "node_port": some(port.node_port),
        "cluster_groups": state.cluster_groups,
        "local_groups": state.local_groups,
        "affine_clients": state.affine_clients,
        "endpoints": state.endpoints.iter().map(endpoint_json).collect::<Value>(),
    })
}

fn endpoint_json(state: &v1::EndpointState) -> Value {
    let endpoint = state.endpoint.clone().unwrap_or_default();
    json!({
        "address": endpoint.address,
        "port": endpoint.port,
        "node": some(endpoint.node),
        "ready": endpoint.ready,
        "serving": endpoint.serving,
        "terminating": endpoint.terminating,
        "weight": if endpoint.weight == 0 { 100 } else { endpoint.weight },
        "hint_zones": endpoint.hint_zones,
        "hint_nodes": endpoint.hint_nodes,
        "in_cluster_group": state.in_cluster_group,
        "in_local_group": state.in_local_group,
        "chosen": count_json(state.chosen.as_ref()),
    })
}

/// `services -o endpoints`: a row for each endpoint.
pub(super) struct ByEndpoint(pub(super) v1::ServiceState);

impl Listed for ByEndpoint {
    const COLUMNS: Columns<'static> = &[
        ("SERVICE", false),
        ("PORT", false),
        ("ENDPOINT", false),
        ("NODE", false),
        ("STATE", false),
        ("GROUPS", false),
        ("WEIGHT", true),
        ("CHOSEN PACKETS", true),
        ("BYTES", true),
    ];
    const NOUN: &'static str = v1::ServiceState::NOUN;
    const VERB: &'static str = v1::ServiceState::VERB;

    fn name(&self) -> &str {
        self.0.name()
    }

    fn rows(&self, _: bool) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for state in &self.0.ports {
            let port = port_text(&state.port.clone().unwrap_or_default());
            for told in &state.endpoints {
                let endpoint = told.endpoint.clone().unwrap_or_default();
                let (packets, bytes) = count(told.chosen.as_ref());
                let groups = [("cluster", told.in_cluster_group), ("local", told.in_local_group)];
                let groups: Vec<_> = groups.into_iter().filter(|(_, is_in)| *is_in).map(|(word, _)| word).collect();
                rows.push(vec![
                    self.name().to_owned(),
                    port.clone(),
                    place(&endpoint.address, endpoint.port),
                    or_dash(&endpoint.node),
                    self::state(&endpoint).to_owned(),
                    list(&groups),
                    if endpoint.weight == 0 { 100 } else { endpoint.weight }.to_string(),
                    packets.to_string(),
                    bytes.to_string(),
                ]);
            }
        }
        rows
    }

    fn json(&self) -> Value {
        self.0.json()
    }
}

#[cfg(test)]
mod tests {
    use super::super::listing::Listing;
    use super::*;
    use crate::output::Report;
    use vswitch_proto::v1::Count;

    fn endpoint(address: &str, ready: bool, packets: u64) -> v1::EndpointState {
        let endpoint = v1::Endpoint {
            address: address.to_owned(),
            port: 8080,
            node: "worker-0".to_owned(),
            ready,
            serving: ready,
            ..Default::default()
        };
        v1::EndpointState {
            endpoint: Some(endpoint),
            in_cluster_group: ready,
            in_local_group: ready && packets > 0,
            chosen: Some(Count { packets, bytes: packets * 60 }),
        }
    }

    fn service() -> v1::ServiceState {
        let http = v1::ServicePort { name: "http".to_owned(), port: 80, node_port: 30080, ..Default::default() };
        let dns = v1::ServicePort { protocol: v1::Protocol::Udp.into(), port: 53, ..Default::default() };
        let service = v1::Service {
            name: "default/web".to_owned(),
            ports: vec![http.clone(), dns.clone()],
            cluster_ips: vec!["10.96.0.10".to_owned(), "fd00::a".to_owned()],
            load_balancer_ips: vec!["192.0.2.1".to_owned()],
            affinity_timeout_seconds: 300,
            ..Default::default()
        };
        let first = v1::ServicePortState {
            port: Some(http),
            cluster_groups: vec![11, 0],
            local_groups: vec![12, 0],
            endpoints: vec![
                endpoint("10.10.0.24", true, 4),
                endpoint("fd00::18", true, 0),
                endpoint("10.10.0.9", false, 0),
            ],
            affine_clients: 2,
        };
        let second = v1::ServicePortState { port: Some(dns), ..Default::default() };
        v1::ServiceState { service: Some(service), ports: vec![first, second], cookie: 0x10 }
    }

    #[test]
    fn ports_have_a_line_each() {
        let want = "\
SERVICE      PORT         CLUSTER IPS         OTHER IPS  NODEPORT  ENDPOINTS  CLUSTER GROUPS  LOCAL GROUPS  AFFINITY  CLIENTS
default/web  http:80/tcp  10.96.0.10,fd00::a  192.0.2.1     30080        2/3  11,-            12,-             300 s        2
default/web  53/udp       10.96.0.10,fd00::a  192.0.2.1         -        0/0  -               -                300 s        0
";
        let text = Listing::new(vec![service()], &[]).text();
        assert_eq!(text, want);
    }

    #[test]
    fn endpoints_have_a_line_each() {
        let want = "\
SERVICE      PORT         ENDPOINT         NODE      STATE      GROUPS         WEIGHT  CHOSEN PACKETS  BYTES
default/web  http:80/tcp  10.10.0.24:8080  worker-0  ready      cluster,local     100               4    240
default/web  http:80/tcp  [fd00::18]:8080  worker-0  ready      cluster           100               0      0
default/web  http:80/tcp  10.10.0.9:8080   worker-0  not-ready  -                 100               0      0
";
        let listing = Listing::new(vec![ByEndpoint(service())], &[]);
        assert_eq!(listing.text(), want);
        assert_eq!(listing.json(), Listing::new(vec![service()], &[]).json(), "JSON has all in either case");
    }

    #[test]
    fn json_has_defaults_by_name() {
        let json = Listing::new(vec![service()], &[]).json();
        let service = &json[0];
        assert_eq!(
            (&service["internal_traffic_policy"], &service["selection"], &service["load_balancer_mode"]),
            (&json!("cluster"), &json!("dp-hash"), &json!("nat"))
        );
        assert_eq!((&service["affinity_timeout"], &service["cookie"]), (&json!(300), &json!("0x10")));
        let port = &service["ports"][0];
        assert_eq!(
            (&port["protocol"], &port["node_port"], &port["cluster_groups"]),
            (&json!("tcp"), &json!(30080), &json!([11, 0]))
        );
        assert_eq!(port["endpoints"][0]["chosen"], json!({ "packets": 4, "bytes": 240 }));
    }

    #[test]
    fn states_of_endpoints() {
        let told =
            |ready, serving, terminating| state(&v1::Endpoint { ready, serving, terminating, ..Default::default() });
        assert_eq!(told(true, true, false), "ready");
        assert_eq!(told(false, true, true), "terminating");
        assert_eq!(told(false, true, false), "serving");
        assert_eq!(told(false, false, true), "terminating,not-serving");
        assert_eq!(told(false, false, false), "not-ready");
    }
}
