//! What is learned of clients, and what ends it (docs/antrea.md, "Learned, and what ends it").

use crate::objects::{self, Families, Layout, Proxy};
use crate::switch::Told;
use crate::world::{Outcome, World};
use std::net::IpAddr;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

/// A Service with affinity; its endpoints are those.
fn sticky(layout: &Layout, endpoints: &[&str], change: impl Fn(&mut v1::Service)) -> Vec<Object> {
    let [service, set] = objects::service_of(layout, "b");
    let (Object::Service(mut service), Object::Endpoints(mut set)) = (service, set) else { unreachable!("both") };
    service.affinity_timeout_seconds = 80_000;
    change(&mut service);
    let of = |who: &str| {
        let [_, set] = objects::service_of(layout, who);
        let Object::Endpoints(set) = set else { unreachable!("a set") };
        set.endpoints
    };
    set.endpoints = endpoints.iter().flat_map(|who| of(who)).collect();
    vec![Object::Service(service), Object::Endpoints(set)]
}

/// Who asks where, and which policy is about him.
fn places(family: usize) -> Vec<(&'static str, IpAddr, u16, bool)> {
    vec![
        ("outside", objects::balancer("b", family), 80, true),
        ("outside", objects::external("b", family), 80, true),
        ("outside", objects::transport(family), objects::node_port("b"), true),
        ("a", objects::service("b", family), 80, false),
    ]
}

fn local(external: bool) -> impl Fn(&mut v1::Service) {
    move |service| {
        let policy = if external { &mut service.external_traffic_policy } else { &mut service.internal_traffic_policy };
        *policy = v1::TrafficPolicy::Local.into();
    }
}

#[test]
fn a_policy_that_becomes_local_leads_old_clients_to_endpoints_of_this_node() {
    let mut world = World::new(Told::start());
    let layout = Layout { families: Families::Both, proxy: Proxy::All, ..Layout::default() };
    for external in [true, false] {
        for family in [0, 1] {
            for (client, to, port, _) in places(family).into_iter().filter(|place| place.3 == external) {
                world.settle(layout, Vec::new());
                world.told.apply(sticky(&layout, &["c"], |_| {}));
                let source = objects::address(&layout, client, family);
                let masked = if external { objects::address(&layout, "host", family) } else { source };
                let remote = Outcome::Answer(format!("c sees {masked}"));
                assert_eq!(world.ask(client, family, to, port), remote, "{to}");
                // Another endpoint alone changes nothing.
                world.told.apply(sticky(&layout, &["b", "c"], |_| {}));
                assert_eq!(world.ask(client, family, to, port), remote, "{to}: affinity");
                world.told.apply(sticky(&layout, &["b", "c"], local(external)));
                let here = Outcome::Answer(format!("b sees {source}"));
                assert_eq!(world.ask(client, family, to, port), here, "{to}: the policy is Local");
                // Without one there is nobody.
                world.told.apply(sticky(&layout, &["b", "c"], |_| {}));
                world.told.apply(sticky(&layout, &["c"], |_| {}));
                assert_eq!(world.ask(client, family, to, port), remote, "{to}");
                world.told.apply(sticky(&layout, &["c"], local(external)));
                assert!(!matches!(world.ask(client, family, to, port), Outcome::Answer(_)), "{to}: nobody is here");
            }
        }
    }
}

/// How what is known of a client ends.
type End = (&'static str, fn(&Layout) -> Vec<Object>, bool);

#[test]
fn what_is_learned_of_a_client_ends_with_what_it_was_learned_under() {
    let mut world = World::new(Told::start());
    let layout = Layout { families: Families::Both, proxy: Proxy::All, ..Layout::default() };
    let ends: [End; 8] = [
        ("nothing", |layout| sticky(layout, &["b", "c"], |_| {}), false),
        (
            "a longer time",
            |layout| sticky(layout, &["b", "c"], |service| service.affinity_timeout_seconds = 86_400),
            false,
        ),
        ("the endpoint leaves", |layout| sticky(layout, &["b"], |_| {}), true),
        (
            "the endpoint ends",
            |layout| {
                let mut all = sticky(layout, &["b", "c"], |_| {});
                for object in &mut all {
                    let Object::Endpoints(set) = object else { continue };
                    for endpoint in set.endpoints.iter_mut().filter(|endpoint| endpoint.node == "near") {
                        (endpoint.ready, endpoint.serving, endpoint.terminating) = (false, false, true);
                    }
                }
                all
            },
            true,
        ),
        ("external policy", |layout| sticky(layout, &["b", "c"], local(true)), true),
        (
            "both policies",
            |layout| {
                sticky(layout, &["b", "c"], |service| {
                    local(true)(service);
                    local(false)(service);
                })
            },
            true,
        ),
        ("a shorter time", |layout| sticky(layout, &["b"], |service| service.affinity_timeout_seconds = 60), true),
        ("no affinity", |layout| sticky(layout, &["b"], |service| service.affinity_timeout_seconds = 0), true),
    ];
    for (what, end, goes) in ends {
        for family in [0, 1] {
            world.settle(layout, Vec::new());
            world.told.apply(sticky(&layout, &["c"], |_| {}));
            let (to, source) = (objects::balancer("b", family), objects::address(&layout, "outside", family));
            let remote = Outcome::Answer(format!("c sees {}", objects::address(&layout, "host", family)));
            assert_eq!(world.ask("outside", family, to, 80), remote, "{what}");
            world.told.apply(end(&layout));
            let wanted = if goes { Outcome::Answer(format!("b sees {source}")) } else { remote };
            assert_eq!(world.ask("outside", family, to, 80), wanted, "{what}");
        }
    }
}
