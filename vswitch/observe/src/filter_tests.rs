//! What filters let pass.

use super::*;
use proptest::prelude::*;
use vswitch_proto::antrea::v1::{EndFilter, Name, Workload};
use vswitch_proto::v1::ConnectionTuple;

fn name(pod: &str) -> Name {
    Name {
        namespace: "shop".to_owned(),
        pod: pod.to_owned(),
        labels: [("app".to_owned(), "web".to_owned()), ("tier".to_owned(), "a".to_owned())].into(),
        workloads: vec![Workload { kind: "Deployment".to_owned(), name: "web".to_owned() }],
        ..Name::default()
    }
}

fn observation() -> Observation {
    Observation {
        kind: ObservationKind::Drop.into(),
        verdict: ObservationVerdict::Dropped.into(),
        tuple: Some(ConnectionTuple {
            src: vec![10, 0, 0, 1],
            dst: vec![10, 96, 0, 10],
            protocol: 6,
            src_port: 41234,
            dst_port: 80,
            icmp: None,
        }),
        source: Some(name("web-1")),
        destination: Some(Name {
            service: "db".to_owned(),
            ..Name { namespace: "data".to_owned(), pod: "db-0".to_owned(), ..Name::default() }
        }),
        service: "data/db:sql".to_owned(),
        direction: Direction::Egress.into(),
        egress_denied_by: vec![ObservedPolicy {
            namespace: "shop".to_owned(),
            name: "deny".to_owned(),
            ..ObservedPolicy::default()
        }],
        drop_reason: "rule_drop".to_owned(),
        drop_class: "policy".to_owned(),
        endpoint_address: vec![10, 0, 1, 9],
        endpoint_port: 5432,
        ..Observation::default()
    }
}

#[allow(clippy::needless_pass_by_value)] // each call makes its own
fn filters(allow: Vec<ObservationFilter>, deny: Vec<ObservationFilter>) -> Filters {
    Filters::new(&allow, &deny, &|name| name == "rule_drop" || name == "policy").expect("good filters")
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

/// Filters with one field each, and whether they mean the observation.
fn cases() -> Vec<(ObservationFilter, bool)> {
    let all = ObservationFilter::default;
    let end = EndFilter::default;
    let pods = |names: &[&str]| Some(EndFilter { pods: texts(names), ..end() });
    let addresses = |names: &[&str]| Some(EndFilter { addresses: texts(names), ..end() });
    let labels = |names: &[&str]| Some(EndFilter { labels: texts(names), ..end() });
    let ports = |ports: &[u32]| Some(EndFilter { ports: ports.to_vec(), ..end() });
    vec![
        (ObservationFilter { kinds: vec![ObservationKind::Begin.into(), ObservationKind::Drop.into()], ..all() }, true),
        (ObservationFilter { kinds: vec![ObservationKind::Begin.into()], ..all() }, false),
        (ObservationFilter { verdicts: vec![ObservationVerdict::Forwarded.into()], ..all() }, false),
        (ObservationFilter { verdicts: vec![ObservationVerdict::Dropped.into()], ..all() }, true),
        (ObservationFilter { source: pods(&["shop/web-1"]), ..all() }, true),
        (ObservationFilter { source: pods(&["web-*", "x"]), ..all() }, true),
        (ObservationFilter { source: pods(&["other/web-1"]), ..all() }, false),
        (ObservationFilter { source: pods(&["web"]), ..all() }, false),
        (ObservationFilter { destination: pods(&["web-1"]), ..all() }, false),
        (ObservationFilter { either: pods(&["db-0"]), ..all() }, true),
        (ObservationFilter { either: pods(&["db-1"]), ..all() }, false),
        (ObservationFilter { destination: addresses(&["10.96.0.0/16"]), ..all() }, true),
        (ObservationFilter { destination: addresses(&["10.0.1.9"]), ..all() }, true),
        (ObservationFilter { source: addresses(&["10.0.1.9"]), ..all() }, false),
        (ObservationFilter { source: ports(&[80]), ..all() }, false),
        (ObservationFilter { destination: ports(&[5432]), ..all() }, true),
        (ObservationFilter { source: labels(&["app=web", "tier"]), ..all() }, true),
        (ObservationFilter { source: labels(&["app=web", "zone"]), ..all() }, false),
        (ObservationFilter { source: labels(&["app=db"]), ..all() }, false),
        (
            ObservationFilter { source: Some(EndFilter { workloads: texts(&["Deployment/web"]), ..end() }), ..all() },
            true,
        ),
        (ObservationFilter { source: Some(EndFilter { workloads: texts(&["Job/web"]), ..end() }), ..all() }, false),
        (ObservationFilter { source: Some(EndFilter { namespaces: texts(&["shop"]), ..end() }), ..all() }, true),
        (ObservationFilter { destination: Some(EndFilter { namespaces: texts(&["shop"]), ..end() }), ..all() }, false),
        (ObservationFilter { drop_reasons: texts(&["rule_drop"]), ..all() }, true),
        (ObservationFilter { drop_reasons: texts(&["policy"]), ..all() }, true),
        (ObservationFilter { policies: texts(&["deny"]), ..all() }, true),
        (ObservationFilter { policies: texts(&["data/deny"]), ..all() }, false),
        (ObservationFilter { services: texts(&["data/db"]), ..all() }, true),
        (ObservationFilter { services: texts(&["data/db:sql"]), ..all() }, true),
        (ObservationFilter { services: texts(&["shop/db"]), ..all() }, false),
        (ObservationFilter { protocols: vec![17], ..all() }, false),
        (ObservationFilter { protocols: vec![6], ..all() }, true),
        (ObservationFilter { directions: vec![Direction::Ingress.into()], ..all() }, false),
        (ObservationFilter { ip_versions: vec![6], ..all() }, false),
        (ObservationFilter { ip_versions: vec![4], ..all() }, true),
    ]
}

#[test]
fn each_field_has_to_hold() {
    for (filter, fits) in cases() {
        let shown = format!("{filter:?}");
        assert_eq!(filters(vec![filter], vec![]).fit(&observation()), fits, "{shown}");
    }
    assert!(filters(vec![], vec![]).fit(&observation()));
    let nothing = Observation::default();
    let named = cases().into_iter().map(|(filter, _)| filter).filter(|filter| filter.kinds.is_empty());
    for filter in named {
        assert!(!filters(vec![filter.clone()], vec![]).fit(&nothing), "{filter:?} means an empty observation");
    }
}

proptest! {
    /// A request means what one of its filters means, and none that is denied; a filter means what
    /// all of its fields mean.
    #[test]
    fn filters_are_combined(allow in proptest::collection::vec(0usize..35, 0..4), deny in proptest::collection::vec(0usize..35, 0..3)) {
        let all = cases();
        let pick = |list: &[usize]| list.iter().map(|at| all[*at % all.len()].clone()).collect::<Vec<_>>();
        let (allowed, denied) = (pick(&allow), pick(&deny));
        let want = (allowed.is_empty() || allowed.iter().any(|(_, fits)| *fits)) && !denied.iter().any(|(_, fits)| *fits);
        let only = |list: Vec<(ObservationFilter, bool)>| list.into_iter().map(|(filter, _)| filter).collect();
        prop_assert_eq!(filters(only(allowed.clone()), only(denied)).fit(&observation()), want);
        // Two filters of different fields in one.
        if let [(one, fits), (two, too), ..] = &allowed[..]
            && !one.policies.is_empty() && two.policies.is_empty()
        {
            let both = ObservationFilter { policies: one.policies.clone(), ..two.clone() };
            prop_assert_eq!(filters(vec![both], vec![]).fit(&observation()), *fits && *too);
        }
    }
}

#[test]
fn every_wrong_value_is_named() {
    let filter = ObservationFilter {
        kinds: vec![0, 9],
        source: Some(EndFilter {
            pods: texts(&["a/", "ok"]),
            addresses: texts(&["10.0.0.0/40"]),
            ..EndFilter::default()
        }),
        drop_reasons: texts(&["nonsense"]),
        protocols: vec![256],
        ip_versions: vec![5],
        ..ObservationFilter::default()
    };
    let wrong = Filters::new(&[], &[filter], &|_| false).expect_err("wrong values");
    let mut fields: Vec<_> = wrong.iter().map(|one| one.field.as_str()).collect();
    fields.sort_unstable();
    let want = [
        "deny[0].drop_reasons[0]",
        "deny[0].ip_versions[0]",
        "deny[0].kinds[0]",
        "deny[0].kinds[1]",
        "deny[0].protocols[0]",
        "deny[0].source.addresses[0]",
        "deny[0].source.pods[0]",
    ];
    assert_eq!(fields, want);
    let many = ObservationFilter { ip_versions: vec![4; VALUES_MAX], ..ObservationFilter::default() };
    let wrong = Filters::new(&[many], &[], &|_| false).expect_err("too many");
    assert!(wrong[0].problem.contains("1025"), "{wrong:?}");
}

#[test]
fn connections_are_meant_unless_a_filter_excludes_them() {
    let means = |filter: ObservationFilter| filters(vec![filter], vec![]).mean_connections();
    assert!(filters(vec![], vec![]).mean_connections());
    assert!(means(ObservationFilter { kinds: vec![ObservationKind::End.into()], ..ObservationFilter::default() }));
    assert!(!means(ObservationFilter { kinds: vec![ObservationKind::Drop.into()], ..ObservationFilter::default() }));
    assert!(!means(ObservationFilter {
        verdicts: vec![ObservationVerdict::Dropped.into()],
        ..ObservationFilter::default()
    }));
    assert!(!means(ObservationFilter { drop_reasons: texts(&["policy"]), ..ObservationFilter::default() }));
}
