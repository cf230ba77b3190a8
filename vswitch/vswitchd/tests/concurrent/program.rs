//! What is written: registers, piles and tokens, each with the version that it was written with all
//! over it.
//!
//! - A **register** is a way through tables 0, 1 and 2 for one UDP port. Each stage writes its
//!   version into the packet (source address, destination address, source MAC address, and
//!   registers that table 2 matches), and the last one chooses the port by it. Two of them go
//!   through a meter and a group. Rules of tables 0 and 1 are never deleted, so that they count all
//!   packets.
//! - A **tail** is a single thing that registers' packets pass at the end: a rule of table 3, and a
//!   group behind the registers with groups. It is written alone or with others, and shows that it
//!   alone has changed.
//! - A **pile** is a number of rules that no packet hits, as many as its version says, in table 0
//!   (where they change what lookups look at) and in another one.
//! - A **token** is a group or meter that is added, changed and deleted by whoever comes first: its
//!   transactions fail as its state says.

use crate::linear::KEYS;
use crate::rng::Rng;
use vswitch_proto::v1;
use vswitch_proto::v1::update::Update as Kind;

pub(crate) const BRIDGE: &str = "br0";

/// Keys of the state: registers, piles, tokens that are groups, tokens that are meters, tails.
pub(crate) const REGISTERS: std::ops::Range<usize> = 0..4;
pub(crate) const PILES: std::ops::Range<usize> = 4..8;
pub(crate) const GROUP_TOKENS: std::ops::Range<usize> = 8..10;
pub(crate) const METER_TOKENS: std::ops::Range<usize> = 10..12;
pub(crate) const TAIL_RULE: usize = 12;
pub(crate) const TAIL_GROUP: usize = KEYS - 1;

/// Registers below this one go through a meter and a group.
pub(crate) const GROUPED: usize = 2;

/// UDP port of register 0; the others follow.
pub(crate) const UDP_PORT: u16 = 1000;

/// Number of the port where the endless load comes in.
const LOAD_PORT: u32 = 9;

/// Where packets leave, by the lowest bit of the version, and when the stages do not agree: dummy
/// ports, and those of the load.
pub(crate) const OUT: [&str; 2] = ["p11", "p12"];
pub(crate) const OUT_MIXED: &str = "p13";
const OUT_NUMBER: u32 = 11;
const LOAD_OUT_NUMBER: u32 = 21;
const MIXED: u32 = 2;

/// A meter's rate says its version; it is above what any worker does.
const RATE: u32 = 1 << 30;

/// The part of a cookie that says whose it is.
pub(crate) const OWNER_MASK: u64 = 0xffff_ffff_0000_0000;

/// Priority of rules of registers, and of the first rule of a pile.
const PRIORITY: u32 = 100;
const PILE_PRIORITY: u32 = 200;

pub(crate) fn cookie(key: usize, version: u32) -> u64 {
    (key as u64 + 1) << 32 | u64::from(version)
}

/// Whose a cookie is, and its version.
pub(crate) fn owner(cookie: u64) -> Option<(usize, u32)> {
    let key = usize::try_from(cookie >> 32).ok()?.checked_sub(1).filter(|key| *key < KEYS)?;
    Some((key, u32::try_from(cookie & 0xffff_ffff).ok()?))
}

/// A version as an address.
pub(crate) fn address(version: u32) -> String {
    version.to_be_bytes().map(|octet| octet.to_string()).join(".")
}

pub(crate) fn mac(version: u32) -> String {
    let octets = version.to_be_bytes().map(|octet| format!("{octet:02x}"));
    format!("02:00:{}", octets.join(":"))
}

/// Number of the group and of the meter of a register or token.
pub(crate) fn id(key: usize) -> u32 {
    u32::try_from(key).expect("small") + 1
}

/// The key that a group or meter belongs to.
pub(crate) fn key_of(id: u32) -> usize {
    id as usize - 1
}

/// The version of a meter.
pub(crate) fn version_of_rate(rate: u32) -> u32 {
    rate - RATE
}

/// Rules of a pile of this version.
fn pile_len(version: u32) -> usize {
    version as usize % 13 + 1
}

/// The flows that a key has in this version, as a dump tells them: table, priority, actions.
pub(crate) fn flows_of(key: usize, version: u32) -> Vec<(u32, u32, String)> {
    let flows = match key {
        TAIL_RULE => vec![tail_rule(version)],
        key if REGISTERS.contains(&key) => register(key, version).into(),
        _ => pile(key, version),
    };
    let mut flows: Vec<_> = flows.into_iter().map(|flow| (flow.table, flow.priority, flow.actions)).collect();
    flows.sort_unstable();
    flows
}

/// The actions of the bucket of a group.
pub(crate) fn bucket_actions(version: u32) -> String {
    format!("set_field:{}->eth_src,set_field:{version:#x}->reg1,resubmit(,2)", mac(version))
}

/// The actions of the tail in table 3.
fn tail_actions(version: u32) -> String {
    format!("set_field:{}->eth_dst", mac(version))
}

/// The actions of the bucket of the tail that is a group.
fn tail_bucket_actions(version: u32) -> String {
    let (high, low) = (version >> 16, version & 0xffff);
    // The version once more, where dumps of groups have it.
    format!("set_field:{version:#x}->reg1,set_field:{high}->udp_src,set_field:{low}->udp_dst,resubmit(,4)")
}

fn update(kind: Kind) -> v1::Update {
    v1::Update { tag: 0, update: Some(kind) }
}

/// A flow of a key.
struct Flow {
    table: u32,
    priority: u32,
    matching: String,
    actions: String,
}

impl Flow {
    /// Adds it, in one of the forms that there are.
    fn add(&self, cookie: u64, rng: &mut Rng) -> v1::Update {
        let Self { table, priority, matching, actions } = self;
        if rng.chance(50) {
            let line = format!("table={table},priority={priority},cookie={cookie:#x},{matching},actions={actions}");
            return update(Kind::Line(v1::LineUpdate { kind: v1::LineKind::AddFlow.into(), line }));
        }
        update(Kind::AddFlow(v1::Flow {
            table: *table,
            priority: Some(*priority),
            matching: Some(v1::flow::Matching::MatchText(matching.clone())),
            doing: Some(v1::flow::Doing::ActionsText(actions.clone())),
            cookie,
            ..v1::Flow::default()
        }))
    }

    /// Gives the flows of a key in this table these actions and this cookie.
    fn modify(&self, key: usize, cookie: u64) -> v1::Update {
        // With the match: actions are judged by what it says.
        let matching = Some(v1::flow_filter::Matching::MatchText(self.matching.clone()));
        let filter = Some(v1::FlowFilter { matching, ..filter(key, Some(self.table)) });
        let doing = Some(v1::modify_flows::Doing::ActionsText(self.actions.clone()));
        update(Kind::ModifyFlows(v1::ModifyFlows { filter, doing, reset_counts: false, cookie: Some(cookie) }))
    }
}

/// The flows of a key.
pub(crate) fn filter(key: usize, table: Option<u32>) -> v1::FlowFilter {
    v1::FlowFilter { table, cookie: cookie(key, 0), cookie_mask: OWNER_MASK, ..v1::FlowFilter::default() }
}

/// Tables 0 and 1 of a register, and what it has in table 2, which only its version gets to.
fn register(key: usize, version: u32) -> [Flow; 4] {
    let matching = format!("udp,tp_dst={}", usize::from(UDP_PORT) + key);
    let (address, bucket) = (address(version), bucket_actions(version));
    let next = if key < GROUPED { format!("group:{}", id(key)) } else { bucket };
    let meter = if key < GROUPED { format!("meter:{},", id(key)) } else { String::new() };
    let of_version = format!("{matching},reg0={version:#x},reg1={version:#x}");
    let flow =
        |table, priority, matching: &str, actions| Flow { table, priority, matching: matching.to_owned(), actions };
    let leave = |port: u32| {
        let port = port + version % 2;
        let last = if key < GROUPED {
            format!("set_field:{port:#x}->reg4,group:{}", id(TAIL_GROUP))
        } else {
            format!("output:{port}")
        };
        format!("resubmit(,3),{last}")
    };
    let first = format!("set_field:{address}->ip_src,set_field:{version:#x}->reg0,resubmit(,1)");
    [
        flow(0, PRIORITY, &matching, first),
        flow(1, PRIORITY, &matching, format!("{meter}set_field:{address}->ip_dst,{next}")),
        flow(2, PRIORITY, &of_version, leave(OUT_NUMBER)),
        flow(2, PRIORITY + 1, &format!("{of_version},in_port={LOAD_PORT}"), leave(LOAD_OUT_NUMBER)),
    ]
}

fn group(key: usize, version: u32) -> v1::Group {
    let kinds = [v1::GroupType::Indirect, v1::GroupType::All, v1::GroupType::Select];
    let actions = match key {
        0..GROUPED => bucket_actions(version),
        TAIL_GROUP => tail_bucket_actions(version),
        _ => format!("set_field:{version:#x}->reg1"),
    };
    let doing = Some(v1::bucket::Doing::ActionsText(actions));
    let kind = kinds[version as usize % kinds.len()];
    let buckets = vec![v1::Bucket { doing, ..v1::Bucket::default() }];
    v1::Group { id: id(key), r#type: kind.into(), buckets, ..v1::Group::default() }
}

fn meter(key: usize, version: u32) -> v1::Meter {
    let band = v1::Band { rate: RATE + version, burst_size: 0, dscp_remark: None };
    v1::Meter { id: id(key), pktps: true, burst: false, stats: true, bands: vec![band] }
}

fn delete(key: usize) -> v1::DeleteById {
    v1::DeleteById { id: Some(id(key)) }
}

/// Rules for what the registers' rules let pass: the stages did not agree.
pub(crate) fn base() -> Vec<v1::Update> {
    let line = |line: String| update(Kind::Line(v1::LineUpdate { kind: v1::LineKind::AddFlow.into(), line }));
    vec![
        line("table=4,priority=1,actions=output:NXM_NX_REG4[]".to_owned()),
        line(format!("table=2,priority=1,actions=output:{}", OUT_NUMBER + MIXED)),
        line(format!("table=2,priority=2,in_port={LOAD_PORT},actions=output:{}", LOAD_OUT_NUMBER + MIXED)),
    ]
}

/// A register for the first time.
pub(crate) fn first(key: usize, version: u32, rng: &mut Rng) -> Vec<v1::Update> {
    let mut updates: Vec<v1::Update> =
        register(key, version).iter().map(|flow| flow.add(cookie(key, version), rng)).collect();
    if key < GROUPED {
        updates.push(update(Kind::AddGroup(group(key, version))));
        updates.push(update(Kind::AddMeter(meter(key, version))));
    }
    updates
}

fn tail_rule(version: u32) -> Flow {
    Flow { table: 3, priority: PRIORITY, matching: "udp".to_owned(), actions: tail_actions(version) }
}

/// The tails for the first time.
pub(crate) fn first_tails(version: u32, rng: &mut Rng) -> Vec<v1::Update> {
    let rule = tail_rule(version).add(cookie(TAIL_RULE, version), rng);
    vec![rule, update(Kind::AddGroup(group(TAIL_GROUP, version)))]
}

/// A tail gets another version.
pub(crate) fn write_tail(key: usize, version: u32, rng: &mut Rng) -> Vec<v1::Update> {
    if key == TAIL_GROUP {
        return write_group(key, version, rng);
    }
    let (rule, new) = (tail_rule(version), cookie(key, version));
    match rng.below(3) {
        0 => vec![rule.add(new, rng)],
        1 => vec![rule.modify(key, new)],
        _ => vec![update(Kind::ReplaceFlows(filter(key, None))), rule.add(new, rng)],
    }
}

fn write_group(key: usize, version: u32, rng: &mut Rng) -> Vec<v1::Update> {
    if rng.chance(60) {
        let (group, may_create) = (Some(group(key, version)), rng.chance(50));
        return vec![update(Kind::ModifyGroup(v1::ModifyGroup { group, may_create }))];
    }
    vec![update(Kind::DeleteGroups(delete(key))), update(Kind::AddGroup(group(key, version)))]
}

/// A register gets another version, in one of many ways.
pub(crate) fn write_register(key: usize, version: u32, rng: &mut Rng) -> Vec<v1::Update> {
    let (flows, new) = (register(key, version), cookie(key, version));
    let mut updates = Vec::new();
    match rng.below(3) {
        0 => updates.push(update(Kind::ReplaceFlows(filter(key, None)))),
        1 => {
            updates.push(update(Kind::DeleteFlows(filter(key, Some(2)))));
            updates.extend([flows[0].modify(key, new), flows[1].modify(key, new)]);
        }
        _ => updates.push(update(Kind::DeleteFlows(filter(key, Some(2))))),
    }
    let modified = updates.len() == 3;
    updates.extend(flows.iter().skip(if modified { 2 } else { 0 }).map(|flow| flow.add(new, rng)));
    if key < GROUPED {
        updates.extend(write_group(key, version, rng));
        if rng.chance(60) {
            updates.push(update(Kind::ModifyMeter(meter(key, version))));
        } else {
            updates.push(update(Kind::DeleteMeters(delete(key))));
            updates.push(update(Kind::AddMeter(meter(key, version))));
        }
    }
    updates
}

/// The rules of a pile.
fn pile(key: usize, version: u32) -> Vec<Flow> {
    let flow = |i: usize| {
        let bits = 20 + i % 13;
        let matching = match i % 4 {
            0 => format!("tcp,nw_src=10.{key}.{i}.0/{bits}"),
            1 => format!("tcp,nw_dst=10.{key}.0.0/{bits},tp_dst={}", 5000 + i),
            2 => format!("ip,nw_proto=47,nw_dst=10.0.{key}.{i}"),
            _ => format!("arp,arp_tpa=10.{key}.0.{i}/{bits}"),
        };
        let priority = PILE_PRIORITY + u32::try_from(key * 16 + i).expect("small");
        let table = if i.is_multiple_of(2) { 0 } else { 7 };
        Flow { table, priority, matching, actions: format!("set_field:{version:#x}->reg2") }
    };
    (0..pile_len(version)).map(flow).collect()
}

/// A pile gets another version, or goes (0).
pub(crate) fn write_pile(key: usize, version: u32, rng: &mut Rng) -> Vec<v1::Update> {
    let (filter, gone) = (filter(key, None), version == 0);
    let mut updates =
        vec![update(if gone || rng.chance(50) { Kind::DeleteFlows(filter) } else { Kind::ReplaceFlows(filter) })];
    if !gone {
        updates.extend(pile(key, version).iter().map(|flow| flow.add(cookie(key, version), rng)));
    }
    updates
}

/// What may be done to a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Add,
    Modify,
    Delete,
}

/// Does it. The second is the code of the refusal that its state may lead to.
pub(crate) fn write_token(key: usize, version: u32, act: Act) -> (v1::Update, &'static str) {
    let (kind, code) = match (GROUP_TOKENS.contains(&key), act) {
        (true, Act::Add) => (Kind::AddGroup(group(key, version)), "OFPGMFC_GROUP_EXISTS"),
        (true, Act::Modify) => {
            let change = v1::ModifyGroup { group: Some(group(key, version)), may_create: false };
            (Kind::ModifyGroup(change), "OFPGMFC_UNKNOWN_GROUP")
        }
        (true, Act::Delete) => (Kind::DeleteGroups(delete(key)), ""),
        (false, Act::Add) => (Kind::AddMeter(meter(key, version)), "OFPMMFC_METER_EXISTS"),
        (false, Act::Modify) => (Kind::ModifyMeter(meter(key, version)), "OFPMMFC_UNKNOWN_METER"),
        (false, Act::Delete) => (Kind::DeleteMeters(delete(key)), ""),
    };
    (update(kind), code)
}

/// An update that is refused whatever the state, where it is put, and the code of its refusal.
pub(crate) fn poison(len: usize, rng: &mut Rng) -> (v1::Update, usize, &'static str) {
    let line =
        |line: &str| update(Kind::Line(v1::LineUpdate { kind: v1::LineKind::AddFlow.into(), line: line.to_owned() }));
    let anywhere = rng.below(len + 1);
    match rng.below(5) {
        0 => (line("table=9,actions=group:9999"), anywhere, "OFPBAC_BAD_OUT_GROUP"),
        1 => (line("table=0,nonsense=1,actions=drop"), anywhere, "INVALID"),
        2 => (line(&format!("check_overlap,priority={PRIORITY},udp,actions=drop")), anywhere, "OFPFMFC_OVERLAP"),
        3 => {
            let change = v1::ModifyGroup { group: Some(group(9997, 1)), may_create: false };
            (update(Kind::ModifyGroup(change)), anywhere, "OFPGMFC_UNKNOWN_GROUP")
        }
        // There at the beginning; later the transaction itself may have deleted it.
        _ => (update(Kind::AddMeter(meter(0, 1))), 0, "OFPMMFC_METER_EXISTS"),
    }
}
