//! A running switch.

use super::asked::Asked;
use super::{Check, Said, bad, ok, warn};
use crate::output::percent;
use vswitch_proto::antrea::v1::ObjectStatus;
use vswitch_proto::v1;
use vswitch_proto::v1::HealthCondition;
use vswitch_proto::v1::port_config::Kind;

pub(super) const CHECKS: &[Check<Asked>] = &[
    Check::new("switch", reachable),
    Check::new("health", health),
    Check::new("version", version),
    Check::new("ports", ports),
    Check::new("worker-load", load),
    Check::new("core-taken", core_taken),
    Check::new("lost-misses", lost_misses),
    Check::new("drops", drops),
    Check::new("connections", connections),
    Check::new("mbufs", mbufs),
    Check::new("tunnel-mtu", tunnel_mtu),
    Check::new("log", log),
    Check::new("antrea-gate", gate),
    Check::new("antrea-agent", agent),
    Check::new("antrea-objects", objects),
    Check::new("antrea-state", state),
];

/// Percent of a worker's time from which on bursts of traffic will be lost.
const BUSY_MAX: f64 = 90.0;

/// Percent of the connections from which on a rise would fill the table.
const CONNECTIONS_MAX: f64 = 80.0;

/// Percent of the mbufs that may be held.
const MBUFS_MAX: f64 = 90.0;

fn reachable(asked: &Asked) -> Vec<Said> {
    vec![match &asked.unreachable {
        None => ok("the switch answers"),
        Some(reason) => bad(
            format!("no switch answers: {reason}"),
            "systemctl start vswitchd; journalctl -u vswitchd tells why it ended; --no-switch looks at the machine only",
        ),
    }]
}

fn health(asked: &Asked) -> Vec<Said> {
    let judge = |part: &v1::HealthPart| match part.condition() {
        HealthCondition::Failing => bad(
            format!("{} fails: {}", part.name, part.reason),
            "docs/operations.md#health names the remedy of each part",
        ),
        HealthCondition::Degraded => warn(
            format!("{} is degraded: {}", part.name, part.reason),
            "docs/operations.md#health names the remedy of each part",
        ),
        _ => ok(format!("{} is good", part.name)),
    };
    asked.health.iter().map(judge).collect()
}

fn version(asked: &Asked) -> Vec<Said> {
    let Some(version) = &asked.version else { return Vec::new() };
    let own = env!("CARGO_PKG_VERSION");
    let mut said = vec![if version.package == own {
        ok(format!("vsctl and vswitchd are of version {own}"))
    } else {
        let fact = format!("vsctl is of version {own}, and the running vswitchd of {}", version.package);
        warn(fact, "systemctl restart vswitchd, or install the other of both")
    }];
    let running = version.dpdk_runtime.trim_start_matches("DPDK ");
    if !version.dpdk_build.is_empty() && version.dpdk_build != running {
        let fact = format!("the switch was built for DPDK {}, and runs with {running}", version.dpdk_build);
        said.push(warn(fact, "install the DPDK that it was built for, or build it again"));
    }
    said
}

fn ports(asked: &Asked) -> Vec<Said> {
    let mut said = Vec::new();
    for port in &asked.ports {
        let (bridge, name) = (&port.bridge, port.config.as_ref().map_or("", |config| &config.name));
        let is_up = port.config.as_ref().is_none_or(|config| config.admin_up != Some(false));
        if let Some(error) = &port.error {
            said.push(bad(
                format!("port {name} is not open: {error}"),
                format!("vsctl mod-port {bridge} {name} up, when that is mended"),
            ));
        } else if is_up && !port.link_up {
            let fact = format!("port {name} has no link: no guest, no carrier, or no other end");
            said.push(warn(fact, format!("connect its other end, or vsctl mod-port {bridge} {name} down")));
        }
    }
    if said.is_empty() { vec![ok(format!("{} ports are open and linked", asked.ports.len()))] } else { said }
}

/// Each worker with its two readings.
fn readings(asked: &Asked) -> impl Iterator<Item = (&v1::Worker, &v1::Worker)> {
    let [before, after] = &asked.workers;
    before.iter().filter_map(|worker| Some((worker, after.iter().find(|other| other.id == worker.id)?)))
}

fn load(asked: &Asked) -> Vec<Said> {
    let mut said = Vec::new();
    for (before, after) in readings(asked) {
        let spent = |of: fn(&v1::Worker) -> u64| of(after).saturating_sub(of(before));
        let (busy, idle, sleep) = (spent(|w| w.busy_cycles), spent(|w| w.idle_cycles), spent(|w| w.sleep_cycles));
        let part = percent(busy, busy.saturating_add(idle).saturating_add(sleep));
        let core = after.core;
        if part > BUSY_MAX {
            let fact = format!("the worker on core {core} is {part:.0} % busy");
            said.push(warn(fact, "vsctl worker-rxq-rebalance, or more [dpdk] worker_cores and queues"));
        } else {
            said.push(ok(format!("the worker on core {core} is {part:.0} % busy")));
        }
    }
    said
}

/// Times per second that the kernel may take a worker's core away.
const TAKEN_MAX: u64 = 20;

fn core_taken(asked: &Asked) -> Vec<Said> {
    let mut said = Vec::new();
    for (before, after) in readings(asked) {
        let count = |worker: &v1::Worker| worker.nonvoluntary_switches;
        let Some((earlier, later)) = count(before).zip(count(after)) else { continue };
        let (core, taken) = (after.core, later.saturating_sub(earlier));
        if taken > TAKEN_MAX {
            let fact = format!("the kernel took core {core} away from its worker {taken} times within a second");
            said.push(warn(
                fact,
                format!("ps -eLo psr,comm | awk '$1 == {core}' names who runs there; isolate the core"),
            ));
        } else {
            said.push(ok(format!("the worker on core {core} keeps its core")));
        }
    }
    said
}

fn drops(asked: &Asked) -> Vec<Said> {
    let rising = |drops: &&v1::PortDrops| drops.rates.as_ref().is_some_and(|rates| rates.last_60s > 0.0);
    let mut said = Vec::new();
    for one in asked.drops.iter().filter(rising) {
        let rate = one.rates.as_ref().map_or(0.0, |rates| rates.last_60s);
        let fact = format!("port {} drops {rate:.1} packets per second: {}", one.port, one.reason);
        said.push(warn(fact, format!("vsctl drops explain {}", one.reason)));
    }
    if said.is_empty() { vec![ok("no packet was dropped for want of a resource within a minute")] } else { said }
}

fn lost_misses(asked: &Asked) -> Vec<Said> {
    let lost = |worker: &v1::Worker| worker.caches.as_ref().map_or(0, |caches| caches.lost_misses);
    let risen: u64 = readings(asked).map(|(before, after)| lost(after).saturating_sub(lost(before))).sum();
    if risen == 0 {
        return vec![ok("no packet of a new kind was refused within a second")];
    }
    let fact = format!("{risen} packets of new kinds were dropped within a second (miss_rate)");
    vec![warn(fact, "vsctl dump-ports BRIDGE names the port; raise [slow_path] misses if it is to be trusted")]
}

/// Use of something that is shared, in percent: what is taken, and how much there is.
fn used(asked: &Asked, resource: &str) -> Option<(f64, u64, u64)> {
    let limit = asked.limits.iter().find(|limit| limit.resource == resource)?;
    let (used, most) = (limit.used?, limit.limit?);
    Some((percent(used, most), used, most))
}

fn connections(asked: &Asked) -> Vec<Said> {
    let Some((part, used, most)) = used(asked, "connections") else { return Vec::new() };
    let fact = format!("{used} of {most} connections are tracked");
    if part <= CONNECTIONS_MAX {
        return vec![ok(fact)];
    }
    vec![warn(fact, "vsctl limits names ports with many; raise [conntrack] connections")]
}

fn mbufs(asked: &Asked) -> Vec<Said> {
    let Some((part, used, most)) = used(asked, "mbufs") else { return Vec::new() };
    let fact = format!("{used} of {most} mbufs are held");
    if part <= MBUFS_MAX {
        return vec![ok(fact)];
    }
    vec![warn(fact, "raise [dpdk] mbufs and memory_mb; ports with many queues hold most")]
}

/// Bytes that a tunnel puts around a packet of Ethernet, over IPv4 and without options.
fn overhead(kind: v1::TunnelKind) -> u32 {
    match kind {
        v1::TunnelKind::Gre => 38,
        _ => 50,
    }
}

fn tunnel_mtu(asked: &Asked) -> Vec<Said> {
    let config = |port: &v1::Port| port.config.clone().unwrap_or_default();
    let underlay = asked.ports.iter().map(config).filter(|config| !config.addresses.is_empty());
    let Some(outside) = underlay.filter_map(|config| config.mtu).min() else { return Vec::new() };
    let mut said = Vec::new();
    for tunnel in &asked.ports {
        let Some(Kind::Tunnel(options)) = config(tunnel).kind else { continue };
        let room = outside.saturating_sub(overhead(options.kind()));
        let of_guests = |port: &&v1::Port| port.bridge == tunnel.bridge && port.r#type == "vhost-user";
        let long =
            asked.ports.iter().filter(of_guests).map(config).find(|config| config.mtu.is_some_and(|mtu| mtu > room));
        if let Some(long) = long {
            let (mtu, name) = (long.mtu.unwrap_or_default(), &long.name);
            let fact = format!("port {name} has an MTU of {mtu}, and {} carries {room}", config(tunnel).name);
            said.push(warn(
                fact,
                format!("vsctl mod-port {} {name} --mtu {room}, or raise the MTU of the uplink", tunnel.bridge),
            ));
        }
    }
    if said.is_empty() { vec![ok("packets of guests fit into tunnels")] } else { said }
}

fn log(asked: &Asked) -> Vec<Said> {
    let Some(log) = &asked.log else { return Vec::new() };
    let lost = log.lost_error + log.lost_warn + log.lost_info;
    if lost == 0 {
        return vec![ok("the log has lost no line")];
    }
    vec![warn(
        format!("{lost} lines of the log are lost: its reader was too slow"),
        "systemctl restart systemd-journald; vsctl log-show",
    )]
}

/// The first problem of an object.
fn problem(object: &ObjectStatus) -> &str {
    object.problems.first().map_or("its status has no text", |problem| problem.reason.as_str())
}

fn gate(asked: &Asked) -> Vec<Said> {
    let Some(state) = &asked.antrea else { return Vec::new() };
    if state.gate_open {
        return vec![ok("the gate of the Node is open")];
    }
    let reason = state.gate_held_by.first().map_or_else(String::new, |object| format!(": {}", problem(object)));
    vec![bad(
        format!("the gate of the Node is shut: no Pod's packet passes{reason}"),
        "vsctl antrea status; is the agent running?",
    )]
}

fn agent(asked: &Asked) -> Vec<Said> {
    let Some(state) = &asked.antrea else { return Vec::new() };
    if !state.restored {
        return vec![ok("an agent has synced since the switch started")];
    }
    let fact = "no agent has synced since the switch started: it forwards by what was saved";
    vec![warn(fact, "start the agent: systemctl start vswitch-agent, or kubectl -n kube-system get pods")]
}

fn objects(asked: &Asked) -> Vec<Said> {
    let Some(state) = &asked.antrea else { return Vec::new() };
    let Some(first) = state.degraded.first() else { return vec![ok("every object has its effect")] };
    let fact = format!("{} objects have no effect, or not all: {}", state.degraded.len(), problem(first));
    vec![warn(fact, "vsctl antrea status lists them with reasons")]
}

fn state(asked: &Asked) -> Vec<Said> {
    let Some(state) = &asked.antrea else { return Vec::new() };
    if state.unwritten.is_empty() {
        return vec![ok("what agents declared is saved")];
    }
    let fact = format!("what agents declared is not saved: {}", state.unwritten);
    vec![warn(fact, "make room on the disk of [antrea] state_dir")]
}

#[cfg(test)]
mod tests;
