//! What ports and clients share.

use crate::client::Client;
use crate::output::{Answer, Columns, Report, table};
use serde_json::{Value, json};
use vswitch_proto::v1;

/// `limits`.
pub(super) async fn show(client: &Client, port: Option<&str>) -> Answer {
    let request = v1::GetLimitsRequest { port: port.map(str::to_owned) };
    Ok(Box::new(Limits(client.answer(client.statistics().await?.get_limits(request).await)?)))
}

/// All that is shared, and what ports have of it.
struct Limits(v1::GetLimitsResponse);

const SHARED: Columns<'_> = &[
    ("RESOURCE", false),
    ("OF", false),
    ("USED", true),
    ("LIMIT", true),
    ("PER PORT", false),
    ("COUNTED AS", false),
    ("COUNT", true),
    ("AT THE LIMIT", false),
];

const PORTS: Columns<'_> = &[
    ("PORT", false),
    ("CONNECTIONS", true),
    ("LIMIT", true),
    ("PEAK", true),
    ("REFUSED", true),
    ("UNANSWERED", true),
    ("LIMIT", true),
    ("EVICTED", true),
    ("MACS", true),
    ("LIMIT", true),
];

/// A number that there may be.
fn number(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// A word that there may be.
fn word(word: &str) -> String {
    if word.is_empty() { "-" } else { word }.to_owned()
}

fn shared(row: &v1::SharedLimit) -> Vec<String> {
    vec![
        row.resource.clone(),
        word(&row.scope),
        number(row.used),
        number(row.limit),
        word(&row.per_port),
        word(&row.counter),
        number(row.count),
        row.effect.clone(),
    ]
}

fn port(row: &v1::PortLimit) -> Vec<String> {
    let name = match (row.port.as_str(), row.gone) {
        ("", _) => "(none)".to_owned(),
        (name, true) => format!("{name} (gone)"),
        (name, false) => name.to_owned(),
    };
    vec![
        name,
        row.connections.to_string(),
        number(row.connections_limit),
        row.connections_peak.to_string(),
        row.connections_refused.to_string(),
        row.unanswered.to_string(),
        number(row.unanswered_limit),
        row.unanswered_evicted.to_string(),
        row.mac_addresses.to_string(),
        number(row.mac_addresses_limit),
    ]
}

impl Report for Limits {
    fn text(&self) -> String {
        let ports = table(PORTS, self.0.ports.iter().map(port));
        if self.0.shared.is_empty() {
            return ports;
        }
        format!("{}\n{ports}", table(SHARED, self.0.shared.iter().map(shared)))
    }

    fn json(&self) -> Value {
        let shared = |row: &v1::SharedLimit| {
            json!({
                "resource": row.resource,
                "scope": row.scope,
                "limit": row.limit,
                "used": row.used,
                "per_port": row.per_port,
                "effect": row.effect,
                "counter": row.counter,
                "count": row.count,
            })
        };
        let port = |row: &v1::PortLimit| {
            json!({
                "port": row.port,
                "gone": row.gone,
                "connections": row.connections,
                "connections_limit": row.connections_limit,
                "connections_peak": row.connections_peak,
                "connections_refused": row.connections_refused,
                "unanswered": row.unanswered,
                "unanswered_limit": row.unanswered_limit,
                "unanswered_evicted": row.unanswered_evicted,
                "mac_addresses": row.mac_addresses,
                "mac_addresses_limit": row.mac_addresses_limit,
            })
        };
        json!({
            "shared": self.0.shared.iter().map(shared).collect::<Value>(),
            "ports": self.0.ports.iter().map(port).collect::<Value>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        let shared = v1::SharedLimit {
            resource: "connections".to_owned(),
            limit: Some(4096),
            used: Some(7),
            per_port: "a share".to_owned(),
            effect: "it is refused".to_owned(),
            counter: "ct_port_full".to_owned(),
            count: Some(3),
            ..v1::SharedLimit::default()
        };
        let port = v1::PortLimit {
            port: "pod".to_owned(),
            connections: 7,
            connections_limit: Some(3072),
            connections_peak: 9,
            connections_refused: 3,
            unanswered: 2,
            unanswered_limit: Some(1792),
            unanswered_evicted: 1,
            mac_addresses: 4,
            mac_addresses_limit: Some(6144),
            ..v1::PortLimit::default()
        };
        let gone = v1::PortLimit { port: "old".to_owned(), gone: true, connections: 1, ..v1::PortLimit::default() };
        Limits(v1::GetLimitsResponse { shared: vec![shared], ports: vec![port, gone, v1::PortLimit::default()] })
    }

    #[test]
    fn limits_text() {
        let text = limits().text();
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1][..4], ["connections", "-", "7", "4096"]);
        assert_eq!(words[4], ["pod", "7", "3072", "9", "3", "2", "1792", "1", "4", "6144"]);
        assert_eq!(words[5][..4], ["old", "(gone)", "1", "-"]);
        assert_eq!(words[6][0], "(none)");
        let ports = v1::GetLimitsResponse { shared: Vec::new(), ..limits().0 };
        assert!(Limits(ports).text().starts_with("PORT"), "of one port");
    }

    #[test]
    fn limits_json() {
        let json = limits().json();
        assert_eq!(json["shared"][0]["limit"], 4096);
        assert_eq!(json["ports"][0]["unanswered_limit"], 1792);
        assert_eq!((&json["ports"][1]["gone"], &json["ports"][1]["connections_limit"]), (&json!(true), &Value::Null));
    }
}
