use super::super::{Level, look_at_switch};
use super::Asked;
use vswitch_proto::antrea::v1 as antrea;
use vswitch_proto::v1;
use vswitch_proto::v1::port_config::Kind;

fn worker(idle: u64, busy: u64, lost_misses: u64) -> v1::Worker {
    let caches = v1::Caches { lost_misses, ..Default::default() };
    v1::Worker {
        core: 3,
        idle_cycles: idle,
        busy_cycles: busy,
        caches: Some(caches),
        nonvoluntary_switches: Some(5),
        ..Default::default()
    }
}

fn dropped(last_60s: f64) -> v1::PortDrops {
    let rates = Some(v1::DropRates { last_60s, ..Default::default() });
    v1::PortDrops { port: "pod-a".to_owned(), reason: "tx_full".to_owned(), rates, total: 9, ..Default::default() }
}

fn limit(resource: &str, used: u64, limit: u64) -> v1::SharedLimit {
    v1::SharedLimit { resource: resource.to_owned(), used: Some(used), limit: Some(limit), ..Default::default() }
}

fn port(name: &str, word: &str, config: v1::PortConfig) -> v1::Port {
    let config = v1::PortConfig { name: name.to_owned(), ..config };
    v1::Port {
        bridge: "br".to_owned(),
        r#type: word.to_owned(),
        config: Some(config),
        link_up: true,
        ..Default::default()
    }
}

fn healthy() -> Asked {
    let own = env!("CARGO_PKG_VERSION").to_owned();
    let [build, runtime] = ["22.11.6", "DPDK 22.11.6"].map(str::to_owned);
    let good = v1::HealthPart {
        name: "workers".to_owned(),
        condition: v1::HealthCondition::Good.into(),
        reason: String::new(),
    };
    let tunnel = v1::TunnelPort { kind: v1::TunnelKind::Geneve.into(), ..Default::default() };
    let mtu = |mtu| v1::PortConfig { mtu: Some(mtu), ..Default::default() };
    Asked {
        unreachable: None,
        version: Some(v1::Version { package: own, dpdk_build: build, dpdk_runtime: runtime, ..Default::default() }),
        health: vec![good],
        ports: vec![
            port("pod-a", "vhost-user", mtu(1450)),
            port("br", "internal", v1::PortConfig { addresses: vec!["192.0.2.1/24".to_owned()], ..mtu(1500) }),
            port("geneve0", "geneve", v1::PortConfig { kind: Some(Kind::Tunnel(tunnel)), ..Default::default() }),
        ],
        workers: [vec![worker(100, 100, 7)], vec![worker(200, 110, 7)]],
        limits: vec![limit("connections", 80, 100), limit("mbufs", 90, 100)],
        drops: vec![dropped(0.0)],
        log: Some(v1::LogState::default()),
        antrea: Some(antrea::GetStateResponse { initialized: true, gate_open: true, ..Default::default() }),
    }
}

/// What is not well: check, level, fact.
fn found(asked: &Asked) -> Vec<(&'static str, Level, String)> {
    let outcomes = look_at_switch(asked).into_iter().filter(|outcome| outcome.level > Level::Ok);
    let told = |outcome: super::super::Outcome| {
        assert!(!outcome.fix.is_empty(), "{outcome:?}");
        (outcome.check, outcome.level, outcome.fact)
    };
    outcomes.map(told).collect()
}

#[test]
fn nothing_is_found_at_a_healthy_switch() {
    assert_eq!(found(&healthy()), []);
    let checks = look_at_switch(&healthy());
    assert!(super::CHECKS.iter().all(|check| checks.iter().any(|outcome| outcome.check == check.name)));
}

fn antrea(asked: &mut Asked) -> &mut antrea::GetStateResponse {
    asked.antrea.as_mut().expect("a Node")
}

fn object(reason: &str) -> antrea::ObjectStatus {
    let problem = antrea::Problem { reason: reason.to_owned(), ..Default::default() };
    antrea::ObjectStatus { problems: vec![problem], ..Default::default() }
}

/// A fault: the check that tells it, its level, a word of the fact, and how it comes about.
type Fault = (&'static str, Level, &'static str, fn(&mut Asked));

const FAULTS: &[Fault] = &[
    ("health", Level::Bad, "no heartbeat", |asked| {
        asked.health[0].set_condition(v1::HealthCondition::Failing);
        asked.health[0].reason = "no heartbeat".to_owned();
    }),
    ("health", Level::Warn, "full", |asked| {
        asked.health[0].set_condition(v1::HealthCondition::Degraded);
        asked.health[0].reason = "full".to_owned();
    }),
    ("version", Level::Warn, "0.0.1", |asked| asked.version.as_mut().expect("one").package = "0.0.1".to_owned()),
    ("version", Level::Warn, "runs with 23", |asked| {
        asked.version.as_mut().expect("one").dpdk_runtime = "DPDK 23".to_owned();
    }),
    ("ports", Level::Bad, "no such device", |asked| asked.ports[0].error = Some("no such device".to_owned())),
    ("ports", Level::Warn, "pod-a has no link", |asked| asked.ports[0].link_up = false),
    ("worker-load", Level::Warn, "core 3 is 91 %", |asked| asked.workers[1][0] = worker(109, 191, 7)),
    ("lost-misses", Level::Warn, "3 packets", |asked| asked.workers[1][0] = worker(200, 110, 10)),
    ("core-taken", Level::Warn, "core 3 away from its worker 21 times", |asked| {
        asked.workers[1][0].nonvoluntary_switches = Some(26);
    }),
    ("drops", Level::Warn, "pod-a drops 1.5 packets per second: tx_full", |asked| asked.drops = vec![dropped(1.5)]),
    ("connections", Level::Warn, "81 of 100", |asked| asked.limits[0].used = Some(81)),
    ("mbufs", Level::Warn, "91 of 100", |asked| asked.limits[1].used = Some(91)),
    ("tunnel-mtu", Level::Warn, "geneve0 carries 1450", |asked| {
        asked.ports[0].config.as_mut().expect("one").mtu = Some(1451);
    }),
    ("log", Level::Warn, "2 lines", |asked| asked.log.as_mut().expect("one").lost_warn = 2),
    ("antrea-gate", Level::Bad, "a port is missing", |asked| {
        antrea(asked).gate_open = false;
        antrea(asked).gate_held_by = vec![object("a port is missing")];
    }),
    ("antrea-agent", Level::Warn, "what was saved", |asked| antrea(asked).restored = true),
    ("antrea-objects", Level::Warn, "no such group", |asked| antrea(asked).degraded = vec![object("no such group")]),
    ("antrea-state", Level::Warn, "disk full", |asked| antrea(asked).unwritten = "disk full".to_owned()),
];

#[test]
fn each_fault_is_found_alone() {
    for (check, level, word, plant) in FAULTS {
        let mut asked = healthy();
        plant(&mut asked);
        match found(&asked).as_slice() {
            [(told, how, fact)] => {
                assert_eq!((told, how), (check, level), "{fact}");
                assert!(fact.contains(word), "{fact:?} has no {word:?}");
            }
            found => panic!("{check} ({word}): {found:?}"),
        }
    }
}

/// What a silent switch is asked for is not judged.
#[test]
fn a_silent_switch_has_one_fault() {
    let silent = Asked { unreachable: Some("no such file".to_owned()), ..Asked::default() };
    let checks: Vec<_> = found(&silent).into_iter().map(|(check, level, _)| (check, level)).collect();
    assert_eq!(checks, [("switch", Level::Bad)]);
}

/// A port that is off on purpose needs no link.
#[test]
fn a_port_that_is_off_needs_no_link() {
    let mut asked = healthy();
    asked.ports[0].link_up = false;
    asked.ports[0].config.as_mut().expect("one").admin_up = Some(false);
    assert_eq!(found(&asked), []);
}
