//! What became of calls of gRPC.

use crate::client::Client;
use crate::output::{Answer, Columns, Report, table};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use vswitch_proto::v1;

/// `calls-show`.
pub(super) async fn show(client: &Client) -> Answer {
    Ok(Box::new(Calls(client.answer(client.statistics().await?.get_calls(v1::GetCallsRequest {}).await)?)))
}

/// Methods that were called, and what streams lost.
struct Calls(v1::GetCallsResponse);

const METHODS: Columns<'_> = &[("METHOD", false), ("RUNNING", true), ("ENDED", true), ("CODES", false)];

impl Report for Calls {
    fn text(&self) -> String {
        let row = |method: &v1::MethodCalls| {
            let codes: Vec<String> = method.codes.iter().map(|code| format!("{}={}", code.code, code.calls)).collect();
            let ended: u64 = method.codes.iter().map(|code| code.calls).sum();
            vec![method.method.clone(), method.in_progress.to_string(), ended.to_string(), codes.join(" ")]
        };
        let mut text = table(METHODS, self.0.methods.iter().map(row));
        let lost: Vec<String> = self.0.losses.iter().map(|losses| format!("{}={}", losses.kind, losses.lost)).collect();
        let _ = writeln!(text, "lost by streams: {}", lost.join(" "));
        text
    }

    fn json(&self) -> Value {
        let v1::GetCallsResponse { methods, durations, timed_calls, timed_us, losses } = &self.0;
        let codes = |method: &v1::MethodCalls| -> Map<String, Value> {
            method.codes.iter().map(|code| (code.code.clone(), code.calls.into())).collect()
        };
        let method = |method: &v1::MethodCalls| json!({ "method": method.method, "in_progress": method.in_progress, "codes": codes(method) });
        let duration = |class: &v1::CallDuration| json!({ "up_to_ms": class.up_to_ms, "calls": class.calls });
        let lost: Map<String, Value> = losses.iter().map(|losses| (losses.kind.clone(), losses.lost.into())).collect();
        json!({
            "methods": methods.iter().map(method).collect::<Vec<_>>(),
            "durations": durations.iter().map(duration).collect::<Vec<_>>(),
            "timed_calls": timed_calls,
            "timed_us": timed_us,
            "lost": lost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_both_ways() {
        let code = |code: &str, calls| v1::CallCode { code: code.to_owned(), calls };
        let method =
            |method: &str, in_progress, codes| v1::MethodCalls { method: method.to_owned(), in_progress, codes };
        let calls = Calls(v1::GetCallsResponse {
            methods: vec![
                method("vswitch.v1.PortService/AddPort", 0, vec![code("OK", 2), code("NOT_FOUND", 1)]),
                method("vswitch.v1.PortService/WatchPorts", 1, Vec::new()),
            ],
            durations: vec![v1::CallDuration { up_to_ms: 0.5, calls: 3 }],
            timed_calls: 3,
            timed_us: 700,
            losses: vec![v1::StreamLosses { kind: "ports".to_owned(), lost: 4 }],
        });
        let want = "\
METHOD                             RUNNING  ENDED  CODES
vswitch.v1.PortService/AddPort           0      3  OK=2 NOT_FOUND=1
vswitch.v1.PortService/WatchPorts        1      0
lost by streams: ports=4
";
        assert_eq!(calls.text(), want);
        let json = calls.json();
        assert_eq!(json["methods"][0]["codes"], json!({ "OK": 2, "NOT_FOUND": 1 }));
        assert_eq!((&json["timed_us"], &json["lost"]["ports"]), (&json!(700), &json!(4)));
    }
}
