//! The program from outside, over a device that gives back what it is sent.

use serde_json::Value;
use std::process::{Command, Output};

fn vsgen(words: &[&str]) -> Output {
    let common = ["--no-huge", "--memory-mb", "128", "--warm-up", "0.1", "--seconds", "0.3"];
    Command::new(env!("CARGO_BIN_EXE_vsgen")).args(common).args(words).output().expect("vsgen starts")
}

/// Its lines, and the results among them.
fn events(output: &Output) -> (Vec<String>, Vec<Value>) {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let names = events.iter().map(|event| event["event"].as_str().expect("an event").to_owned()).collect();
    (names, events.into_iter().filter(|event| event["event"] == "result").collect())
}

#[test]
fn all_that_is_sent_comes_back_in_order() {
    let ports = ["--port", "net_ring0", "--announce", "--flows", "50", "--tcp", "--size", "100"];
    let output = vsgen(&[&ports[..], &["--rate", "max", "--rate", "20000", "--rate", "1%"]].concat());
    let (names, results) = events(&output);
    assert_eq!(names, ["connected", "started", "result", "started", "result", "started", "result"]);
    let number = |result: &Value, name: &str| result[name].as_u64().unwrap_or_else(|| panic!("{name} of {result}"));
    for result in &results {
        assert!(number(result, "sent") > 0, "{result}");
        for name in ["lost", "surplus", "reordered", "foreign"] {
            assert_eq!(number(result, name), 0, "{name} of {result}");
        }
        let latency = &result["latency_us"];
        let times: Vec<f64> = latency.as_object().expect("times").values().filter_map(Value::as_f64).collect();
        assert_eq!(times.len(), 6, "{latency}");
        assert!(times.is_sorted(), "{latency}");
    }
    // Never faster than asked: what was due in the time, a burst and the backlog of before.
    let due = number(&results[1], "sent") + number(&results[1], "given_up");
    assert!(due <= 20_000 * 3 / 10 + 32 + 256 + 1, "{due}");
    assert_eq!(number(&results[2], "pps"), (number(&results[0], "received_pps") / 100).max(1));
}

#[test]
fn what_nobody_gives_back_is_lost() {
    let (_, results) = events(&vsgen(&["--port", "net_null0,no-rx=1", "--rate", "1000"]));
    assert_eq!(results[0]["received"], 0);
    assert_eq!(results[0]["lost"], results[0]["sent"]);
    assert!(results[0]["latency_us"]["p50"].is_null(), "{}", results[0]);
}

/// A device that fills what it gives us (`copy=1`); else they would be buffers with frames of ours
/// in them.
#[test]
fn what_others_send_is_foreign() {
    let (_, results) = events(&vsgen(&["--port", "net_null0,copy=1", "--rate", "1000"]));
    assert!(results[0]["foreign"].as_u64() > Some(0), "{}", results[0]);
    assert_eq!(results[0]["received"], 0);
}

#[test]
fn a_device_that_does_not_open_and_wrong_usage_are_told() {
    let missing = vsgen(&["--port", "net_nonsense0", "--rate", "1"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("net_nonsense0"), "{missing:?}");
    let short = vsgen(&["--port", "net_null0", "--rate", "1", "--tcp"]);
    assert_eq!(short.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&short.stderr).contains("76"), "{short:?}");
    assert_eq!(vsgen(&["--port", "net_null0"]).status.code(), Some(2));
}
