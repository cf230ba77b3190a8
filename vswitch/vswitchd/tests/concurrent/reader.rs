//! Readers: dumps of flows, groups and meters, and traces. Each shows one version of a key, whole.

use crate::Run;
use crate::client::Client;
use crate::linear::{Op, Seen};
use crate::program::{self, GROUP_TOKENS, GROUPED, METER_TOKENS, REGISTERS, TAIL_GROUP, TAIL_RULE, UDP_PORT};
use crate::rng::Rng;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::SeqCst;
use vswitch_proto::v1;

/// Source port of packets that are traced.
const TRACED_SOURCE: u32 = 7;

/// Keys that a dump of all flows shows.
pub(crate) const ALL_FLOWS: [usize; 9] = [0, 1, 2, 3, 4, 5, 6, 7, TAIL_RULE];

/// What was seen of keys.
type Seens = Vec<(usize, u32)>;

fn text(flow: &v1::Flow) -> &str {
    match &flow.doing {
        Some(v1::flow::Doing::ActionsText(text)) => text,
        _ => "",
    }
}

/// The one version that the flows of a key have.
fn version_of(key: usize, flows: &[(u32, &v1::Flow)]) -> Result<u32, String> {
    let wrong = |why: &str| {
        let told: Vec<String> = flows.iter().map(|(_, flow)| format!("{flow:?}")).collect();
        Err(format!("key {key}: {why}:\n{}", told.join("\n")))
    };
    let Some((version, _)) = flows.first().copied() else { return Ok(0) };
    if flows.iter().any(|(other, _)| *other != version) {
        return wrong("versions are mixed");
    }
    let told = |flow: &v1::Flow| (flow.table, flow.priority.unwrap_or_default(), text(flow).to_owned());
    let mut told: Vec<_> = flows.iter().map(|(_, flow)| told(flow)).collect();
    told.sort_unstable();
    if told == program::flows_of(key, version) { Ok(version) } else { wrong("it is not whole") }
}

/// What a dump of flows says of these keys.
pub(crate) fn flows(entries: &[v1::FlowEntry], keys: impl Iterator<Item = usize>) -> Result<Seens, String> {
    let mut by_key: BTreeMap<usize, Vec<(u32, &v1::Flow)>> = BTreeMap::new();
    for flow in entries.iter().filter_map(|entry| entry.flow.as_ref()) {
        if let Some((key, version)) = program::owner(flow.cookie) {
            by_key.entry(key).or_default().push((version, flow));
        }
    }
    keys.map(|key| Ok((key, version_of(key, by_key.get(&key).map_or(&[], Vec::as_slice))?))).collect()
}

/// What a dump of groups says.
fn groups(groups: &[v1::Group]) -> Result<Seens, String> {
    let mut seen: BTreeMap<usize, u32> =
        (0..GROUPED).chain(GROUP_TOKENS).chain([TAIL_GROUP]).map(|key| (key, 0)).collect();
    for group in groups {
        let actions = match group.buckets.as_slice() {
            [v1::Bucket { doing: Some(v1::bucket::Doing::ActionsText(text)), .. }] => text,
            _ => return Err(format!("not a bucket: {group:?}")),
        };
        let hex = actions.split("set_field:0x").nth(1).and_then(|rest| rest.split('-').next());
        let version = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let version = version.ok_or_else(|| format!("no version: {group:?}"))?;
        let key = program::key_of(group.id);
        if key < GROUPED && *actions != program::bucket_actions(version) {
            return Err(format!("versions are mixed: {group:?}"));
        }
        seen.insert(key, version);
    }
    Ok(seen.into_iter().collect())
}

/// What a dump of meters says.
fn meters(meters: &[v1::Meter]) -> Seens {
    let mut seen: BTreeMap<usize, u32> = (0..GROUPED).chain(METER_TOKENS).map(|key| (key, 0)).collect();
    for meter in meters {
        seen.insert(program::key_of(meter.id), program::version_of_rate(meter.bands[0].rate));
    }
    seen.into_iter().collect()
}

/// Packets that the rules of a table have counted, of registers that only the test's own packets
/// get to: between those that had come back when the dump was called and those that had been sent
/// when it returned.
fn check_counters(entries: &[v1::FlowEntry], came_back: &[u64; 4], sent: &[u64; 4]) {
    for entry in entries {
        let (Some(flow), Some(statistics)) = (&entry.flow, &entry.statistics) else { continue };
        let Some((key, _)) = program::owner(flow.cookie).filter(|(key, _)| key % 2 == 0 && REGISTERS.contains(key))
        else {
            continue;
        };
        let (low, high) = (came_back[key], sent[key]);
        let counted = statistics.packets;
        assert!(
            flow.table > 1 || (low..=high).contains(&counted),
            "register {key}, table {}: {counted} packets counted; at least {low} had come back, at most {high} were sent: {flow:?}",
            flow.table
        );
    }
}

/// Dumps something.
fn dump(run: &Run, client: &Client, rng: &mut Rng) -> (&'static str, Result<Seens, String>) {
    match rng.below(6) {
        0 => ("groups", groups(&client.groups())),
        1 => ("meters", Ok(meters(&client.meters()))),
        2 | 3 => {
            let key = rng.pick(&ALL_FLOWS);
            ("flows of a key", flows(&client.flows(Some(program::filter(key, None))), std::iter::once(key)))
        }
        _ => {
            let came_back = std::array::from_fn(|key| run.came_back[key].load(SeqCst));
            let entries = client.flows(None);
            let sent = std::array::from_fn(|key| run.sent[key].load(SeqCst));
            check_counters(&entries, &came_back, &sent);
            ("all flows", flows(&entries, ALL_FLOWS.into_iter()))
        }
    }
}

/// What a trace of a packet of a register says.
fn trace(client: &Client, rng: &mut Rng) -> (&'static str, Result<Seens, String>) {
    let key = rng.below(REGISTERS.end);
    let port = usize::from(UDP_PORT) + key;
    let told = client.trace(&format!(
        "in_port=1,udp,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,tp_src={TRACED_SOURCE},tp_dst={port}"
    ));
    ("trace", traced(&told.actions, key).map_err(|why| format!("{why}: {}", told.text)))
}

/// The value that ops set a part of a header to: `set(ipv4(src=..,dst=..))`, in one op or several.
fn set_to<'a>(actions: &'a str, header: &str, part: &str) -> Option<&'a str> {
    let start = format!("set({header}(");
    let fields = actions.split(start.as_str()).skip(1).filter_map(|rest| rest.split(')').next());
    fields.flat_map(|fields| fields.split(',')).filter_map(|field| field.strip_prefix(part)).last()
}

/// The versions that ops show.
fn traced(actions: &str, key: usize) -> Result<Seens, String> {
    let wrong = || format!("no version, or more than one, in {actions}");
    let address = |part| set_to(actions, "ipv4", part).and_then(|text| text.parse::<Ipv4Addr>().ok()).map(u32::from);
    let mac = |part| {
        let digits = set_to(actions, "eth", part)?.strip_prefix("02:00:")?.replace(':', "");
        u32::from_str_radix(&digits, 16).ok()
    };
    let version = address("src=").ok_or_else(wrong)?;
    let out = program::OUT[version as usize % 2];
    let agreed = [address("dst="), mac("src=")].iter().all(|other| *other == Some(version));
    if !agreed || !actions.ends_with(&format!(",{out}")) {
        return Err(wrong());
    }
    let mut seen = vec![(key, version), (TAIL_RULE, mac("dst=").ok_or_else(wrong)?)];
    if key < GROUPED {
        // A port that the packet has already is not set.
        let port = |part, own| set_to(actions, "ports", part).map_or(Ok(own), |text| text.parse().map_err(|_| wrong()));
        let own = u32::from(UDP_PORT) + u32::try_from(key).expect("small");
        seen.push((TAIL_GROUP, port("src=", TRACED_SOURCE)? << 16 | port("dst=", own)?));
    }
    Ok(seen)
}

/// Reads until the time is over.
pub(crate) fn run(run: &Run, thread: usize, traces: bool) -> Vec<Op> {
    let (client, mut rng) = (Client::new(&run.socket), run.rng(thread));
    let mut ops = Vec::new();
    while !run.is_over() {
        let call = run.clock.now();
        let (what, seen) = if traces { trace(&client, &mut rng) } else { dump(run, &client, &mut rng) };
        let ret = run.clock.now();
        let seen = seen.unwrap_or_else(|why| panic!("{what}: {why}"));
        let seen = seen.into_iter().map(|(key, version)| (key, Seen::Is(version))).collect();
        ops.push(Op { thread, what, call, ret, seen, sets: Vec::new() });
        if traces && rng.chance(1) {
            client.flush();
        }
    }
    ops
}
