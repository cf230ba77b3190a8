//! Words and numbers that several verbs tell.

use crate::cli::kind_word;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use vswitch_proto::antrea::v1;
use vswitch_proto::v1::Count;

/// The rule without an id: what a Kubernetes policy denies because none of its rules allows it.
pub(super) const ISOLATION: &str = "(isolation)";

/// `pod/default/web`: as `vsctl antrea flows` takes it.
pub(super) fn object(object: &v1::ObjectRef) -> String {
    let kind = kind_word(object.kind());
    if object.name.is_empty() { kind.to_owned() } else { format!("{kind}/{}", object.name) }
}

/// A cookie. Many readers of JSON cut numbers of 64 bits.
pub(super) fn cookie(cookie: u64) -> String {
    format!("{cookie:#x}")
}

/// Packets and bytes, 0 if they are not told.
pub(super) fn count(count: Option<&Count>) -> (u64, u64) {
    count.map_or((0, 0), |count| (count.packets, count.bytes))
}

/// Likewise, for programs.
pub(super) fn count_json(told: Option<&Count>) -> Value {
    let (packets, bytes) = count(told);
    json!({ "packets": packets, "bytes": bytes })
}

/// What is not there as a dash.
pub(super) fn or_dash(text: impl Into<String>) -> String {
    let text = text.into();
    if text.is_empty() { "-".to_owned() } else { text }
}

/// Joined by commas; none as a dash.
pub(super) fn list<S: AsRef<str>>(texts: &[S]) -> String {
    or_dash(texts.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(","))
}

/// A number of which 0 means none.
pub(super) fn or_none(number: u32) -> String {
    if number == 0 { "-".to_owned() } else { number.to_string() }
}

/// Likewise, for programs.
pub(super) fn some<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

/// `EMPTY: rules[0].peer: it matches nothing; hint (pod/default/web)`.
pub(super) fn problem(problem: &v1::Problem) -> String {
    let mut text = problem.code.clone();
    for part in [&problem.field, &problem.reason] {
        if !part.is_empty() {
            text.push_str(": ");
            text.push_str(part);
        }
    }
    if !problem.hint.is_empty() {
        text.push_str("; ");
        text.push_str(&problem.hint);
    }
    if let Some(other) = &problem.other {
        text.push_str(&format!(" ({})", object(other)));
    }
    text
}

/// A problem, for programs.
pub(super) fn problem_json(problem: &v1::Problem) -> Value {
    json!({
        "code": problem.code,
        "field": some(problem.field.clone()),
        "reason": problem.reason,
        "hint": some(problem.hint.clone()),
        "other": problem.other.as_ref().map(object),
    })
}

/// Now, in milliseconds since 1970.
pub(in crate::commands) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How long ago something was: `12 s ago`; `never` of what has no time.
pub(super) fn ago(unix_ms: u64, now_ms: u64) -> String {
    if unix_ms == 0 {
        return "never".to_owned();
    }
    let seconds = now_ms.saturating_sub(unix_ms) / 1000;
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7_200 => format!("{} min ago", seconds / 60),
        7_200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// The time of day in UTC, with milliseconds.
pub(crate) fn clock(unix_ms: u64) -> String {
    let (seconds, ms) = (unix_ms / 1000 % 86_400, unix_ms % 1000);
    format!("{:02}:{:02}:{:02}.{ms:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// The date in UTC.
pub(in crate::commands) fn date(unix_ms: u64) -> String {
    // Days since 0000-03-01, in eras of 400 years.
    let days = unix_ms / 86_400_000 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02}")
}

/// Protocols of Services and rules; what is not given means `default`.
pub(super) const fn protocol(protocol: v1::Protocol, default: &'static str) -> &'static str {
    match protocol {
        v1::Protocol::Unspecified => default,
        v1::Protocol::Tcp => "tcp",
        v1::Protocol::Udp => "udp",
        v1::Protocol::Sctp => "sctp",
        v1::Protocol::Icmp => "icmp",
        v1::Protocol::Igmp => "igmp",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!((date(0).as_str(), clock(0).as_str()), ("1970-01-01", "00:00:00.000"));
        let leap = 1_709_251_199_999; // the last millisecond of a leap day
        assert_eq!((date(leap).as_str(), clock(leap).as_str()), ("2024-02-29", "23:59:59.999"));
        assert_eq!(date(leap + 1), "2024-03-01");
        assert_eq!(date(4_102_444_800_000), "2100-01-01");
        for (age_s, want) in
            [(0, "0 s ago"), (119, "119 s ago"), (120, "2 min ago"), (7200, "2 h ago"), (172_800, "2 d ago")]
        {
            assert_eq!(ago(1000, 1000 + age_s * 1000), want);
        }
        assert_eq!((ago(0, 5).as_str(), ago(9000, 5).as_str()), ("never", "0 s ago"));
    }

    #[test]
    fn problems_and_objects() {
        let pod = v1::ObjectRef { kind: v1::Kind::Pod.into(), name: "default/web".to_owned() };
        let full = v1::Problem {
            code: "OVERLAP".to_owned(),
            reason: "10.0.0.1 is taken".to_owned(),
            field: "addresses[0]".to_owned(),
            hint: "use another".to_owned(),
            other: Some(pod),
        };
        assert_eq!(problem(&full), "OVERLAP: addresses[0]: 10.0.0.1 is taken; use another (pod/default/web)");
        assert_eq!(problem_json(&full)["other"], "pod/default/web");
        let bare = v1::Problem { code: "EMPTY".to_owned(), ..Default::default() };
        assert_eq!(problem(&bare), "EMPTY");
        assert_eq!(problem_json(&bare)["hint"], Value::Null);
        let node = v1::ObjectRef { kind: v1::Kind::Node.into(), name: String::new() };
        assert_eq!(object(&node), "node");
    }

    #[test]
    fn small_things() {
        assert_eq!((list::<&str>(&[]).as_str(), list(&["a", "b"]).as_str()), ("-", "a,b"));
        assert_eq!((or_none(0).as_str(), or_none(7).as_str(), cookie(0x10).as_str()), ("-", "7", "0x10"));
        assert_eq!(count(None), (0, 0));
        assert_eq!((some(0), some(3)), (None, Some(3)));
    }
}
