//! Who has joined which multicast group: IGMP of Pods and of other Nodes is read here, questions
//! are asked, and groups led to their receivers.
//!
//! **Design**: `docs/architecture/antrea-compiler.md`, "Multicast task". One task waits for packets
//! (a bounded queue, [`vswitch_dataplane::limits::PACKET_INS_QUEUED`]) and for
//! time. What has come is taken in at once, under the node state's lock and without waiting; what
//! changed by it is one transaction. No more than one in [`PAUSE`], so a storm of reports is no
//! storm of transactions. Packets are sent when the lock is free again.
//!
//! **Limits**: [`HEARD_MAX`] messages of a port at a time; those of `vswitch_antrea::membership`;
//! meter 260.

mod send;

use super::carry::Carry;
use super::{Antrea, AntreaError, State};
use send::Outbox;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::watch;
use vswitch_antrea::membership::{Counters, Heard, Membership, QUERY_INTERVAL_S, Receivers, hear};
use vswitch_antrea::object::policy::igmp::Judge;
use vswitch_antrea::{Facts, ObjectKind, PacketCategory};
use vswitch_control::switch::pipeline::PacketStream;
use vswitch_dataplane::pipeline::{Interest, PacketIn};
use vswitch_dataplane::time::Millis;
use vswitch_flow::Field;
use vswitch_proto::antrea::v1;

/// Controller id of IGMP.
pub(super) const CONTROLLER: u16 = 62376;
/// How often time is looked at: members that have left, questions that are due.
const TICK: Duration = Duration::from_millis(500);
/// At least so long between two looks at all members.
const PASS_MS: u64 = 250;
/// At least so long between two transactions.
const PAUSE: Duration = Duration::from_millis(50);
/// Messages of one port that are read at a time: a host with
/// [`vswitch_antrea::membership::POD_GROUPS_MAX`] groups sends fewer, spread over seconds.
const HEARD_MAX: usize = 64;
/// Messages that are read at a time.
const BATCH_MAX: usize = 512;
/// Another Node's question is answered no sooner after the last answer (to all).
const ANSWER_MS: u64 = 1000;
/// Seconds between general queries that an agent may ask for.
const INTERVAL_MAX: u32 = 3600;

/// What is known of groups, and how it is kept.
#[derive(Debug, Default)]
pub struct Igmp {
    /// Who has joined.
    pub membership: Membership,
    /// What came of messages.
    pub counters: Counters,
    config: v1::MulticastConfig,
    /// When the next general query is due; 0: at once.
    query_ms: u64,
    /// General queries since this began.
    queries: u32,
    /// When other Nodes are told all groups next; None: with the next query.
    report_ms: Option<u64>,
    reported_ms: u64,
    peers: BTreeSet<Arc<str>>,
    /// When members were looked at last.
    passed_ms: u64,
    is_on: bool,
}

impl Igmp {
    const fn interval_s(&self) -> u32 {
        match self.config.query_interval_seconds {
            0 => QUERY_INTERVAL_S,
            seconds => seconds,
        }
    }

    /// Versions in which is asked.
    fn versions(&self) -> Vec<u8> {
        let told = self.config.query_versions.iter().filter_map(|version| u8::try_from(*version).ok());
        let told: Vec<u8> = told.collect();
        if told.is_empty() { vec![1, 2, 3] } else { told }
    }

    /// Members of a group, as they are told.
    pub fn members(&self, group: Ipv4Addr) -> Vec<v1::MulticastMember> {
        let now = Millis::now().0;
        let told = self.membership.members(group).map(|(life, member)| v1::MulticastMember {
            pod: life.pod.to_string(),
            version: member.version.into(),
            expires_in_ms: member.until_ms.saturating_sub(now),
        });
        told.collect()
    }
}

/// Reads IGMP until the server stops.
pub async fn read(antrea: Arc<Antrea>, mut stopping: watch::Receiver<bool>) {
    let mut stream: Option<(String, PacketStream)> = None;
    let mut lost = 0;
    loop {
        let mut batch = Vec::new();
        let waited = async {
            match &mut stream {
                None => std::future::pending().await,
                Some((_, packets)) => packets.receiver.recv_many(&mut batch, BATCH_MAX).await,
            }
        };
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => break,
            () = tokio::time::sleep(TICK) => {}
            _ = waited => {}
        }
        let worked = {
            let (antrea, read) = (Arc::clone(&antrea), stream.as_ref().map(|(bridge, _)| bridge.clone()));
            tokio::task::spawn_blocking(move || antrea.keep_groups(read.as_deref(), &batch)).await
        };
        let bridge = worked.unwrap_or_default();
        if stream.as_ref().map(|(of, _)| of) != bridge.as_ref()
            || stream.as_ref().is_some_and(|(_, packets)| packets.receiver.is_closed())
        {
            // A bridge that went meanwhile is told by the next look.
            let subscribe = |bridge: String| {
                let packets = antrea.switch.subscribe_packets(&bridge, Interest::of(CONTROLLER)).ok()?;
                Some((bridge, packets))
            };
            stream = bridge.and_then(subscribe);
            lost = 0;
        }
        if let Some((bridge, packets)) = &stream {
            let now = packets.lost.load(Relaxed);
            if now != lost {
                tracing::warn!(bridge, lost = now - lost, "IGMP messages did not fit their queue; who sends so many?");
                lost = now;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn heard(packet: &PacketIn) -> Heard<'_> {
    let of = |field| packet.metadata.get(field);
    let v4 = u32::try_from(of(Field::TunSrc)).unwrap_or_default();
    let tunnel_source = match (v4, of(Field::TunIpv6Src)) {
        (0, 0) => None,
        (0, v6) => Some(IpAddr::V6(Ipv6Addr::from_bits(v6))),
        (v4, _) => Some(IpAddr::V4(Ipv4Addr::from_bits(v4))),
    };
    Heard { in_port: u32::try_from(of(Field::InPort)).unwrap_or_default(), tunnel_source, frame: &packet.packet }
}

impl State {
    /// Whether the switch reads IGMP itself.
    fn reads_igmp(&self) -> bool {
        self.gate_open
            && self
                .node_state
                .node()
                .is_some_and(|(_, node)| node.features.multicast && !node.taken_over.contains(&PacketCategory::Igmp))
    }
}

impl Antrea {
    /// Takes in what came and what time it is: one transaction at most, then what is to be sent.
    /// Returns the bridge of which IGMP is to be read; if that is another one than it `is_read` of,
    /// no more: nobody is asked before somebody hears the answer.
    fn keep_groups(&self, is_read: Option<&str>, packets: &[PacketIn]) -> Option<String> {
        let now = Millis::now().0;
        let (bridge, outbox) = {
            let mut state = self.state.lock();
            if !state.reads_igmp() {
                self.forget_groups(&mut state);
                return None;
            }
            let bridge = state.bridge().ok()?;
            if is_read != Some(bridge.as_str()) {
                return Some(bridge);
            }
            let outbox = take_in(&mut state, packets, now);
            self.lead(&mut state);
            (bridge, outbox)
        };
        for packet in outbox.packets() {
            if let Err(error) = self.switch.packet_out(&bridge, packet) {
                tracing::debug!(bridge, %error, "IGMP could not be sent");
            }
        }
        Some(bridge)
    }

    /// Puts receivers that changed into the tables.
    fn lead(&self, state: &mut State) {
        let changed = state.igmp.membership.take_changed();
        if changed.is_empty() {
            return;
        }
        if let Err((groups, error)) = self.plan_and_carry(state, changed) {
            tracing::warn!(%error, groups = groups.len(), "receivers of multicast groups could not be changed");
            state.igmp.membership.put_back(groups);
        }
    }

    fn plan_and_carry(
        &self,
        state: &mut State,
        groups: BTreeMap<Ipv4Addr, Receivers>,
    ) -> Result<(), (Vec<Ipv4Addr>, AntreaError)> {
        let addresses: Vec<Ipv4Addr> = groups.keys().copied().collect();
        let before = self.receivers(state, &addresses);
        let ports = state.bridge().and_then(|bridge| self.ports(&bridge));
        match ports {
            Ok(ports) => state.node_state.set_ports(ports),
            Err(error) => return Err((addresses, error)),
        }
        let plan = match state.node_state.plan_groups(groups) {
            Ok(plan) => plan,
            Err(problems) => {
                // Tried again, it would be refused again: the next change tries all of it.
                tracing::error!(?problems, "receivers of multicast groups are refused; report it");
                return Ok(());
            }
        };
        if let Err(error) = self.carry_out(state, plan, Carry::of_our_own()) {
            return Err((addresses, error));
        }
        self.tell_memberships(state, before);
        Ok(())
    }

    /// IGMP is read no more: what it told is over.
    fn forget_groups(&self, state: &mut State) {
        if !std::mem::take(&mut state.igmp.is_on) {
            return;
        }
        let config = std::mem::take(&mut state.igmp.config);
        state.igmp = Igmp { config, ..Igmp::default() };
        let joined = state.node_state.desired().joined().groups().map(|group| (group, Receivers::default())).collect();
        if let Err((_, error)) = self.plan_and_carry(state, joined) {
            tracing::warn!(%error, "receivers of multicast groups could not be taken away");
        }
    }

    /// How memberships are kept from the next query on.
    ///
    /// # Errors
    /// When a value is wrong, or the Node has no multicast.
    pub fn set_multicast(&self, config: v1::MulticastConfig) -> Result<(), AntreaError> {
        let wrong = |field, reason| Err(AntreaError::Request { field, reason });
        if config.query_interval_seconds > INTERVAL_MAX {
            let reason = format!("{} s: 1 to {INTERVAL_MAX}", config.query_interval_seconds);
            return wrong("config.query_interval_seconds", reason);
        }
        let mut versions = BTreeSet::new();
        for version in &config.query_versions {
            if !(1..=3).contains(version) || !versions.insert(*version) {
                let reason = format!("{:?}: some of 1, 2 and 3, each once", config.query_versions);
                return wrong("config.query_versions", reason);
            }
        }
        let mut state = self.state.lock();
        require_multicast(&state)?;
        state.igmp.config = config;
        let interval = state.igmp.interval_s();
        state.igmp.membership.set_interval(interval);
        // One that is due later than it would be now comes now.
        let latest = Millis::now().0.saturating_add(u64::from(interval) * 1000);
        state.igmp.query_ms = state.igmp.query_ms.min(latest);
        Ok(())
    }

    /// Groups are the agent's to say.
    ///
    /// # Errors
    /// When they are not: the switch knows them itself.
    pub fn require_said_groups(&self) -> Result<(), AntreaError> {
        let state = self.state.lock();
        require_multicast(&state)?;
        let said = state.node_state.node().is_some_and(|(_, node)| node.taken_over.contains(&PacketCategory::Igmp));
        if said {
            return Ok(());
        }
        let reason =
            "the switch knows multicast groups itself, by IGMP; take IGMP over (NodeConfig.taken_over) to say them";
        Err(AntreaError::Precondition(reason.to_owned()))
    }
}

fn require_multicast(state: &State) -> Result<(), AntreaError> {
    let (_, node) = state.node_state.node().ok_or(AntreaError::NotInitialised)?;
    if node.features.multicast {
        return Ok(());
    }
    Err(AntreaError::Precondition("the Node has no multicast (NodeConfig.features.multicast)".to_owned()))
}

/// What packets say, and what time brings; returns what is to be sent.
fn take_in(state: &mut State, packets: &[PacketIn], now: u64) -> Outbox {
    let State { node_state, igmp, .. } = state;
    let mut outbox = Outbox::default();
    let Some(facts) = node_state.facts() else { return outbox };
    igmp.is_on = true;
    let rules = Judge::new(facts);
    let mut by_port: HashMap<u32, usize> = HashMap::new();
    for packet in packets {
        let heard = heard(packet);
        let count = by_port.entry(heard.in_port).or_default();
        *count += 1;
        if *count > HEARD_MAX {
            igmp.counters.full += 1;
            continue;
        }
        if hear(&mut igmp.membership, (&facts, &rules), heard, &mut igmp.counters, now) {
            let soonest = igmp.reported_ms.saturating_add(ANSWER_MS).max(now);
            igmp.report_ms = Some(igmp.report_ms.map_or(soonest, |at| at.min(soonest)));
        }
    }
    if igmp.passed_ms.saturating_add(PASS_MS) <= now {
        igmp.passed_ms = now;
        igmp.counters.rules.retain(|rule, _| facts.ids.rule(rule).is_some());
        let due = igmp.membership.pass(&facts, now);
        for (group, life, version) in due.last_members {
            outbox.ask_one(&facts, &rules, group, &life.pod, version, igmp.interval_s());
        }
    }
    ask_and_report(igmp, &facts, &rules, now, &mut outbox);
    outbox
}

/// General queries and reports that are due.
fn ask_and_report(igmp: &mut Igmp, facts: &Facts<'_>, rules: &Judge<'_>, now: u64, outbox: &mut Outbox) {
    let peers: BTreeSet<Arc<str>> =
        facts.desired.of(ObjectKind::PeerNode).map(|(key, _)| Arc::clone(&key.name)).collect();
    if !peers.is_subset(&igmp.peers) {
        // Somebody new, or we are: both tell what there is.
        outbox.ask_nodes(facts);
        igmp.report_ms.get_or_insert(now);
    }
    igmp.peers = peers;
    if igmp.query_ms <= now {
        let interval = u64::from(igmp.interval_s()) * 1000;
        // The first two are close to each other: one may be lost (RFC 9776, 8.6 and 8.7).
        let until = if igmp.queries == 0 { interval / 4 } else { interval };
        igmp.query_ms = now.saturating_add(until.max(1000));
        igmp.queries = igmp.queries.saturating_add(1);
        for version in igmp.versions() {
            outbox.ask_all(facts, rules, version, igmp.interval_s());
        }
        igmp.report_ms.get_or_insert(now);
    }
    let all = igmp.report_ms.is_some_and(|at| at <= now);
    if all {
        (igmp.report_ms, igmp.reported_ms) = (None, now);
    }
    let report = igmp.membership.take_report(all);
    outbox.report(facts, &report, all);
}
