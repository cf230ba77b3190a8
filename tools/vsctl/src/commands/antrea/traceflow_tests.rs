//! What `trace-flow` prints.

use super::*;

fn run() -> Run {
    let pod = |name: &str| Some(v1::TraceflowEnd { end: Some(v1::traceflow_end::End::Pod(name.to_owned())) });
    let rule = v1::RuleRef { policy: "np:a/b".to_owned(), rule: "egress-0".to_owned(), number: 7 };
    let observations = vec![
        v1::TraceflowObservation {
            component: Component::SpoofGuard.into(),
            action: Action::Forwarded.into(),
            table: "SpoofGuard".to_owned(),
            pod: "a/client".to_owned(),
            ..Default::default()
        },
        v1::TraceflowObservation {
            component: Component::NetworkPolicy.into(),
            action: Action::Dropped.into(),
            table: "EgressMetric".to_owned(),
            rule: Some(rule),
            reason: "Drop".to_owned(),
            ..Default::default()
        },
    ];
    let traceflow = v1::Traceflow {
        name: "t".to_owned(),
        tag: 5,
        source: pod("a/client"),
        destination: pod("a/web"),
        ..Default::default()
    };
    let would = Some(pipeline::TraceResponse {
        actions: "drop".to_owned(),
        drop_reason: "flow".to_owned(),
        ..Default::default()
    });
    let finished = Some(v1::TraceflowFinished { timed_out: false });
    Run { traceflow, observations, packet: vec![1, 0xff], finished, would, tables: false }
}

#[test]
fn a_tree_says_what_happened_and_what_would() {
    let want = "\
a/client -> a/web (tag 5)
├─ SpoofGuard     forwarded  SpoofGuard    pod a/client
└─ NetworkPolicy  dropped    EgressMetric  policy np:a/b, rule egress-0, Drop
by the tables now (TraceService): drop (flow)
";
    assert_eq!(run().text(), want);
    let json = run().json();
    assert_eq!(
        (&json["packet"], &json["timed_out"], &json["trace"]["actions"]),
        (&json!("01ff"), &json!(false), &json!("drop"))
    );
    assert_eq!(json["observations"][1]["rule"]["policy"], json!("np:a/b"));
    let late = Run { observations: Vec::new(), finished: None, would: None, ..run() };
    assert!(late.text().ends_with("before the time was over\n"), "{}", late.text());
}

#[test]
fn those_that_run_are_listed() {
    let listed = Listed(vec![v1::Traceflow { live: true, dropped_only: true, timeout_seconds: 20, ..run().traceflow }]);
    assert_eq!(
        listed.text(),
        "TAG  NAME  ROLE    LIVE     SOURCE    DESTINATION  SECONDS\n  5  t     sender  dropped  a/client  a/web             20\n"
    );
    assert_eq!(listed.json()[0]["source"], json!("a/client"));
}
