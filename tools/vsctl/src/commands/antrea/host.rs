//! How the host is, as its agent reported it (`vswitch-agent --host`).

use super::words::ago;
use serde_json::{Value, json};
use std::fmt::Write;
use vswitch_net_types::shown;
use vswitch_proto::antrea::v1;

/// Lines of `status`.
pub(super) fn text(host: &v1::HostState, now_ms: u64, text: &mut String) {
    let v1::HostState { generation, reported_unix_ms, problems } = host;
    let _ = writeln!(text, "host: plan {generation:016x}, reported {}", ago(*reported_unix_ms, now_ms));
    for problem in problems {
        let mut line = format!("{} {}: {}", problem.code, problem.item, problem.reason);
        if !problem.hint.is_empty() {
            line = format!("{line}; {}", problem.hint);
        }
        let _ = writeln!(text, "  {} ({})", shown(&line), ago(problem.unix_ms, now_ms));
    }
}

/// The same as JSON.
pub(super) fn json(host: &v1::HostState) -> Value {
    let problem = |problem: &v1::HostProblem| {
        json!({
            "code": problem.code,
            "item": problem.item,
            "reason": problem.reason,
            "hint": (!problem.hint.is_empty()).then_some(&problem.hint),
            "unix_ms": problem.unix_ms,
        })
    };
    json!({
        "generation": format!("{:016x}", host.generation),
        "reported_unix_ms": host.reported_unix_ms,
        "problems": host.problems.iter().map(problem).collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_and_repairs_are_lines() {
        let problem = v1::HostProblem {
            code: "FOREIGN".to_owned(),
            item: "route 10.96.0.0/12 dev gw".to_owned(),
            reason: "another\u{1b} is there".to_owned(),
            hint: "remove it".to_owned(),
            unix_ms: 1000,
        };
        let host = v1::HostState { generation: 0xab, reported_unix_ms: 4000, problems: vec![problem] };
        let mut lines = String::new();
        text(&host, 5000, &mut lines);
        let expected = "host: plan 00000000000000ab, reported 1 s ago\n  \
                        FOREIGN route 10.96.0.0/12 dev gw: another\\u{1b} is there; remove it (4 s ago)\n";
        assert_eq!(lines, expected);
        assert_eq!(json(&host)["problems"][0]["code"], "FOREIGN");
    }
}
