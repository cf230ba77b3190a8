//! `listener-show`: where clients connect.

use crate::client::Client;
use crate::output::{Answer, Report, table};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use vswitch_proto::v1;

pub(super) async fn show(client: &Client) -> Answer {
    let answer = client.answer(client.listeners().await?.list_listeners(v1::ListListenersRequest {}).await)?;
    Ok(Box::new(Listeners(answer)))
}

struct Listeners(v1::ListListenersResponse);

const fn role(role: v1::Role) -> &'static str {
    match role {
        v1::Role::Unspecified => "none",
        v1::Role::Read => "read",
        v1::Role::Operate => "operate",
        v1::Role::Admin => "admin",
    }
}

/// The end of a certificate, as days from now.
fn end(not_after: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let left = not_after - i64::try_from(now).unwrap_or(i64::MAX);
    if left < 0 { "expired".to_owned() } else { format!("in {} days", left / 86_400) }
}

fn row(listener: &v1::Listener) -> Vec<String> {
    let mapped = if listener.mapped { " (mapped)" } else { "" };
    let refused: u64 = listener.refusals.iter().map(|refusals| refusals.count).sum();
    vec![
        listener.name.clone(),
        format!("{}{mapped}", role(listener.role())),
        listener.connections.to_string(),
        listener.accepted.to_string(),
        listener.denied.to_string(),
        refused.to_string(),
        listener.certificate.as_ref().map_or(String::new(), |certificate| end(certificate.not_after)),
    ]
}

impl Report for Listeners {
    fn text(&self) -> String {
        let columns = [
            ("LISTENER", false),
            ("ROLE", false),
            ("CONNECTIONS", true),
            ("ACCEPTED", true),
            ("DENIED", true),
            ("REFUSED", true),
            ("EXPIRES", false),
        ];
        table(&columns, self.0.listeners.iter().map(row))
    }

    fn json(&self) -> Value {
        let refusals = |listener: &v1::Listener| {
            let counts = listener.refusals.iter().map(|one| (one.reason.clone(), one.count.into()));
            Value::Object(counts.collect())
        };
        let listeners = self.0.listeners.iter().map(|listener| {
            let certificate = listener.certificate.as_ref().map(|certificate| {
                json!({
                    "file": certificate.file,
                    "not_after": certificate.not_after,
                    "reloads": certificate.reloads,
                    "error": certificate.error,
                })
            });
            json!({
                "name": listener.name,
                "kind": listener.kind().as_str_name().trim_start_matches("LISTENER_KIND_").to_lowercase(),
                "role": role(listener.role()),
                "mapped": listener.mapped,
                "connections": listener.connections,
                "accepted": listener.accepted,
                "denied": listener.denied,
                "refusals": refusals(listener),
                "certificate": certificate,
            })
        });
        json!({ "listeners": listeners.collect::<Vec<_>>(), "audit_lost": self.0.audit_lost })
    }

    /// What an operator should know.
    fn warnings(&self) -> Vec<String> {
        let certificates = self.0.listeners.iter().filter_map(|listener| listener.certificate.as_ref());
        let bad = certificates.filter(|certificate| !certificate.error.is_empty());
        let mut warnings: Vec<String> = bad.map(|certificate| certificate.error.clone()).collect();
        if self.0.audit_lost > 0 {
            warnings.push(format!("{} records of the audit file are lost", self.0.audit_lost));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_both_ways() {
        let unix = v1::Listener {
            name: "unix:/s".to_owned(),
            kind: v1::ListenerKind::Unix.into(),
            role: v1::Role::Admin.into(),
            connections: 2,
            accepted: 5,
            ..v1::Listener::default()
        };
        let tls = v1::Listener {
            name: "tls:[::1]:7471".to_owned(),
            kind: v1::ListenerKind::Tls.into(),
            role: v1::Role::Read.into(),
            mapped: true,
            denied: 1,
            certificate: Some(v1::ListenerCertificate {
                file: "/c".to_owned(),
                error: "torn".to_owned(),
                ..Default::default()
            }),
            refusals: vec![v1::HandshakeRefusals { reason: "expired".to_owned(), count: 3 }],
            ..v1::Listener::default()
        };
        let listeners = Listeners(v1::ListListenersResponse { listeners: vec![unix, tls], audit_lost: 7 });
        let want = "\
LISTENER        ROLE           CONNECTIONS  ACCEPTED  DENIED  REFUSED  EXPIRES
unix:/s         admin                    2         5       0        0
tls:[::1]:7471  read (mapped)            0         0       1        3  expired
";
        let text: String = listeners.text().lines().map(|line| format!("{}\n", line.trim_end())).collect();
        assert_eq!(text, want);
        let json = listeners.json();
        assert_eq!(json["listeners"][1]["refusals"], json!({ "expired": 3 }));
        assert_eq!(
            (&json["listeners"][0]["kind"], &json["listeners"][0]["certificate"]),
            (&json!("unix"), &Value::Null)
        );
        assert_eq!(listeners.warnings(), ["torn", "7 records of the audit file are lost"]);
    }
}
