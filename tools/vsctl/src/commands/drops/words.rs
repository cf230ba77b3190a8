//! Samples in words.

use crate::commands::antrea::clock;
use serde_json::{Value, json};
use std::fmt::Write;
use vswitch_proto::v1;

/// Which way a packet was going.
pub(in crate::commands) fn way(direction: v1::DropDirection) -> &'static str {
    match direction {
        v1::DropDirection::Unspecified => "-",
        v1::DropDirection::In => "in",
        v1::DropDirection::Out => "out",
    }
}

/// The policy of a decider: its name and rule, or that it isolates.
fn policy(decider: &v1::DropDecider) -> Option<String> {
    let v1::DropDecider { policy, policy_rule, default_deny, .. } = decider;
    match (policy.as_str(), policy_rule.as_str()) {
        ("", _) => None,
        (policy, _) if *default_deny => Some(format!("{policy} (default deny)")),
        (policy, "") => Some(policy.to_owned()),
        (policy, rule) => Some(format!("{policy} rule {rule}")),
    }
}

/// The table of a decider: its number, and its name if it has one.
fn table(decider: &v1::DropDecider) -> String {
    let number = decider.table;
    if decider.table_name.is_empty() { number.to_string() } else { format!("{number} ({})", decider.table_name) }
}

/// What a capture file says of a sample.
pub(super) fn comment(sample: &v1::DropSample) -> String {
    let mut text = format!("drop: {}; class {}", sample.reason, sample.class);
    if let Some(decider) = &sample.decider {
        let _ = write!(text, "; table {}", table(decider));
        if let Some(cookie) = decider.cookie {
            let _ = write!(text, "; cookie {cookie:#x}");
        }
        if let Some(policy) = policy(decider) {
            let _ = write!(text, "; policy {policy}");
        }
    }
    if !sample.pod.is_empty() {
        let _ = write!(text, "; pod {}", sample.pod);
    }
    text
}

/// Bytes as hex.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// One line.
pub(super) fn line(sample: &v1::DropSample) -> String {
    let mut text = format!(
        "{} {} {} {} core={} len={}",
        clock(sample.unix_ms),
        sample.bridge,
        sample.port,
        way(sample.direction()),
        sample.core,
        sample.length
    );
    let _ = write!(text, " {}", comment(sample));
    if !sample.packet.is_empty() {
        let _ = write!(text, " packet={}", hex(&sample.packet));
    }
    text
}

/// A sample for programs.
pub(super) fn sample_json(sample: &v1::DropSample) -> Value {
    let decider = sample.decider.as_ref().map(|decider| {
        json!({
            "bridge": decider.bridge,
            "table": decider.table,
            "table_name": decider.table_name,
            "cookie": decider.cookie.map(|cookie| format!("{cookie:#x}")),
            "policy": decider.policy,
            "policy_rule": decider.policy_rule,
            "default_deny": decider.default_deny,
        })
    });
    json!({
        "reason": sample.reason,
        "class": sample.class,
        "bridge": sample.bridge,
        "port": sample.port,
        "pod": sample.pod,
        "direction": way(sample.direction()),
        "core": sample.core,
        "unix_ms": sample.unix_ms,
        "length": sample.length,
        "packet": hex(&sample.packet),
        "decider": decider,
    })
}

/// What was not told, for programs.
pub(super) fn not_told_json(not_told: &v1::DropsNotTold) -> Value {
    let of =
        |one: &v1::DropsNotSampled| json!({ "reason": one.reason, "suppressed": one.suppressed, "lost": one.lost });
    json!({ "not_told": not_told.reasons.iter().map(of).collect::<Vec<_>>() })
}

/// What was not told, in one line.
pub(super) fn not_told(not_told: &v1::DropsNotTold) -> String {
    let of = |one: &v1::DropsNotSampled| match one.lost {
        0 => format!("{} {}", one.reason, one.suppressed),
        lost => format!("{} {} and {lost} lost", one.reason, one.suppressed),
    };
    format!("not shown so far: {}", not_told.reasons.iter().map(of).collect::<Vec<_>>().join(", "))
}
