//! What a policy writes.

use super::clauses::{Clauses, Dimension, ends};
use super::deny::{self, Ends, TO_CONTROLLER};
use super::matching::{Addresses, End, Head};
use super::unfit::missing;
use super::{Action, Direction, NetworkPolicy, Order, Peer, Rule, held};
use crate::problem::Code;
use crate::tell::Disposition;
use crate::{Cidr, Facts, Family, CompiledObject, RuleKey, Table};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_flow::Field;

/// Clauses of K8s rules have one priority, their actions another (Antrea: `priorityNormal`,
/// `priorityLow`).
const K8S_CLAUSE: u16 = 200;
const K8S_ACTION: u16 = 190;
/// Priority of what is done with packets that enter again: above the bypass of established
/// connections.
const REENTRANCE: u16 = 64995;

/// A policy on its way.
struct Work<'a> {
    policy: &'a NetworkPolicy,
    facts: &'a Facts<'a>,
    compiled: &'a mut CompiledObject,
    clauses: Clauses,
    /// Tables behind which packets fork.
    forks: BTreeSet<Table>,
    /// Numbers of ports of Pods that ask for names.
    asking: BTreeSet<u32>,
    /// Members of applied-to groups, each looked up once.
    applied: BTreeMap<&'a str, Applied>,
}

/// Members of an applied-to group that are there.
#[derive(Clone, Default)]
struct Applied {
    ports: Vec<u32>,
    addresses: Vec<IpAddr>,
    /// Groups of Services.
    groups: Vec<u32>,
}

/// Where a rule's flows are.
struct RulePlace {
    number: u32,
    table: Table,
    metric: Table,
    clause: u16,
    action: u16,
}

pub(super) fn compile(policy: &NetworkPolicy, name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let name: Arc<str> = name.into();
    let mut work = Work {
        policy,
        facts,
        compiled,
        clauses: Clauses::default(),
        forks: BTreeSet::new(),
        asking: BTreeSet::new(),
        applied: BTreeMap::new(),
    };
    let is_off = matches!(policy.order, Order::Antrea { .. }) && !facts.features().antrea_policy;
    for rule in policy.rules.iter().filter(|_| !is_off) {
        // What the Node does not have is told by `judge`; the rule alone has no effect then. An L7
        // rule must not become one that allows everything: it drops.
        let unable = missing(rule, facts).iter().any(|(code, ..)| *code == Code::Feature) && !rule.l7;
        let key = RuleKey { policy: Arc::clone(&name), rule: Arc::clone(&rule.id) };
        if let Some(place) = work.place(rule, &key).filter(|_| !unable) {
            work.rule(rule.at, rule, &place, facts.ids.vlan(&key));
        }
    }
    held::tell_missing(policy, facts, work.compiled);
    held::compile(policy, facts, work.compiled);
    let mut ends = Ends::default();
    for group in &policy.applied_to {
        let applied = work.applied(group);
        ends.ingress.extend(applied.ports.iter().map(|port| format!("reg1={port:#x}")));
        let addresses = applied.addresses.iter().map(|address| (Family::of(address), address));
        ends.egress.extend(addresses.map(|(family, address)| format!("{},{}={address}", family.ip(), family.source())));
    }
    for line in deny::isolation(policy, facts, &ends) {
        work.compiled.shared(facts, deny::ISOLATION, &line);
    }
    work.names();
    let Work { clauses, forks, compiled, .. } = work;
    clauses.finish(compiled);
    for line in forks.into_iter().filter_map(|table| deny::group(facts, table)) {
        compiled.group(facts, &line);
    }
}

impl<'a> Work<'a> {
    fn place(&self, rule: &Rule, key: &RuleKey) -> Option<RulePlace> {
        let table = self.policy.table(rule);
        let metric = match (rule.direction, rule.is_multicast()) {
            (Direction::Ingress, false) => Table::IngressMetric,
            (Direction::Egress, false) => Table::EgressMetric,
            (Direction::Ingress, true) => Table::MulticastIngressMetric,
            (Direction::Egress, true) => Table::MulticastEgressMetric,
        };
        let (clause, action) = match self.policy.order {
            Order::K8s => (K8S_CLAUSE, K8S_ACTION),
            Order::Antrea { .. } => {
                let priority = self.facts.ids.priorities.get(key)?;
                (priority, priority)
            }
        };
        Some(RulePlace { number: self.facts.ids.rule(key)?, table, metric, clause, action })
    }

    fn rule(&mut self, at: usize, rule: &'a Rule, place: &RulePlace, vlan: Option<u32>) {
        let dimensions = self.dimensions(at, rule);
        // IGMP is decided by who reads it, and only counted here.
        if !rule.is_igmp() {
            let at = (place.table, place.clause);
            self.clauses.add(self.facts, self.compiled, at, place.number, dimensions);
        }
        match held::action(rule, self.facts) {
            _ if rule.is_multicast() => self.multicast(rule, place),
            Action::Allow => self.allow(at, rule, place, vlan),
            Action::Pass => self.pass(rule, place),
            action @ (Action::Drop | Action::Reject) => self.deny(rule, action, place),
        }
    }

    /// Whom it is applied to, the other side, ports: source before destination.
    fn dimensions(&mut self, at: usize, rule: &'a Rule) -> Vec<Dimension> {
        let mut applied = Applied::default();
        for group in self.policy.applied_to(rule) {
            let members = self.applied(group);
            applied.ports.extend(&members.ports);
            applied.addresses.extend(&members.addresses);
            applied.groups.extend(&members.groups);
        }
        let is_egress = rule.direction == Direction::Egress;
        let denies = matches!(held::action(rule, self.facts), Action::Drop | Action::Reject);
        let unfit = is_egress || rule.is_multicast() || self.policy.order == Order::K8s;
        // Packets for Pods and for NodePorts are known by different sources. Who is not to pass is
        // known by either.
        let mixed = !applied.ports.is_empty() && !applied.groups.is_empty();
        if unfit || mixed && !denies {
            applied.groups.clear();
        }
        let for_services = !applied.groups.is_empty();
        let own = if is_egress { self.addresses(&applied.addresses, End::Source) } else { ends(&applied.ports, &applied.groups) };
        let other_end = match (is_egress, for_services) {
            (true, _) => End::Destination,
            (false, true) => End::First,
            (false, false) => End::Source,
        };
        let by_name = matches!(&rule.peer, Peer::Some { patterns, .. } if !patterns.is_empty());
        if by_name {
            self.asking.extend(&applied.ports);
        }
        let known = !held::is_anybody(rule, self.facts.desired);
        let mut peer = if known { self.peer(&rule.peer, other_end) } else { None };
        if let Some(peer) = peer.as_mut().filter(|_| mixed && for_services) {
            peer.extend(self.peer(&rule.peer, End::Source).unwrap_or_default());
        }
        let ports = self.ports(rule);
        if own.is_empty() {
            let reason = "none of those that it is applied to is there: the rule matches nothing";
            self.compiled.degraded.push(Code::Empty, format!("rules[{at}].applied_to"), reason);
        }
        if peer.as_ref().is_some_and(Vec::is_empty) && !by_name {
            let reason = "its groups are empty: the rule matches nothing";
            self.compiled.degraded.push(Code::Empty, format!("rules[{at}].peer"), reason);
        }
        if peer.is_none() && ports.is_none() {
            // A conjunction has two clauses at least.
            peer = Some(self.families().map(|family| Head::ip(family).matching()).collect());
        }
        let (source, destination) = if is_egress { (Some(own), peer) } else { (peer, Some(own)) };
        [source, destination, ports].into_iter().flatten().collect()
    }

    fn families(&self) -> impl Iterator<Item = Family> + use<'a> {
        let node = self.facts.node;
        Family::BOTH.into_iter().filter(move |family| node.has(*family))
    }

    /// The other side; None: anybody.
    fn peer(&self, peer: &Peer, end: End) -> Option<Dimension> {
        let desired = self.facts.desired;
        match peer {
            Peer::Anybody => None,
            Peer::Some { groups, blocks, patterns } => {
                let mut dimension = Vec::new();
                let mut others = Vec::new();
                for group in groups.iter().filter_map(|group| desired.address_group(group)) {
                    let matches = group.matches(end);
                    let of = |family| &matches[family as usize];
                    self.families().for_each(|family| dimension.extend_from_slice(of(family)));
                    group.addresses_of_pods(self.facts, &mut others);
                }
                others.extend(patterns.iter().flat_map(|pattern| desired.names().of(pattern)));
                dimension.extend(self.addresses(&others, end));
                let mut matches = Addresses::new(end);
                let blocks = blocks.iter().filter(|block| self.facts.node.has(block.family()));
                dimension.extend(blocks.map(|block| matches.of(block)));
                Some(dimension)
            }
            Peer::Services(services) => {
                let groups = services.iter().flat_map(|service| self.facts.ids.groups_of(service));
                Some(groups.map(|group| Head::any().with(Field::Reg7, group.into()).matching()).collect())
            }
        }
    }

    fn addresses(&self, addresses: &[IpAddr], end: End) -> Dimension {
        let mut matches = Addresses::new(end);
        let known = addresses.iter().filter(|address| self.facts.node.has(Family::of(address)));
        known.map(|address| matches.of(&Cidr::host(*address))).collect()
    }

    /// Ports; None: any.
    fn ports(&self, rule: &Rule) -> Option<Dimension> {
        let mut dimension = Vec::new();
        for ports in &rule.ports {
            self.families().for_each(|family| ports.matches(family, &mut dimension));
        }
        (!rule.ports.is_empty()).then_some(dimension)
    }

    /// Members of an applied-to group.
    fn applied(&mut self, group: &'a str) -> &Applied {
        let (facts, compiled) = (self.facts, &mut *self.compiled);
        self.applied.entry(group).or_insert_with(|| {
            let mut applied = Applied::default();
            let Some(group) = facts.desired.applied_to_group(group) else { return applied };
            for name in &group.pods {
                let Some(pod) = facts.pod(name) else {
                    if facts.desired.pod(name).is_some() {
                        let reason = format!("Pod {name} has no effect at present");
                        compiled.degraded.push(Code::Pending, "applied_to", reason);
                    }
                    continue;
                };
                applied.ports.extend(facts.ports.number(&pod.port));
                applied.addresses.extend(pod.addresses);
            }
            applied.groups.extend(group.services.iter().flat_map(|service| facts.ids.groups_of(service)));
            applied
        })
    }

    fn allow(&mut self, at: usize, rule: &Rule, place: &RulePlace, vlan: Option<u32>) {
        let RulePlace { number, table, metric, action, .. } = *place;
        let (register, shift) = if rule.direction == Direction::Egress { (5, 32) } else { (6, 0) };
        let (label, mask) = (u64::from(number) << shift, 0xffff_ffff_u64 << shift);
        let engine = match vlan.filter(|_| rule.l7) {
            Some(vlan) => {
                let vlan = u128::from(vlan) << 64;
                format!(",set_field:0x80/0x80->ct_mark,set_field:{vlan:#x}/0xfff0000000000000000->ct_label")
            }
            None => String::new(),
        };
        let told = if rule.logging {
            // Behind ct() it is the packet as it was; its copy goes on.
            let told = deny::told(Disposition::Allow, deny::logged(true), table);
            format!(",{told},{TO_CONTROLLER},goto_table:Output")
        } else {
            String::new()
        };
        let (name, to) = (table.name(), metric.name());
        for family in self.families() {
            let (ip, zone) = (family.ip(), self.facts.node.zone_of_packet(family));
            self.own("rule", &format!(
                "table={name}, priority={action},conj_id={number},{ip} actions=set_field:{number:#x}->reg{register},ct(commit,table={to},zone={zone},exec(set_field:{label:#x}/{mask:#x}->ct_label{engine})){told}"
            ));
            for state in ["+new", "-new"] {
                let next = metric.next(self.facts.features()).map_or("Output", Table::name);
                self.own("counter", &format!(
                    "table={to}, priority=200,ct_state={state},ct_label={label:#x}/{mask:#x},{ip} actions=goto_table:{next}"
                ));
            }
        }
        if rule.direction == Direction::Egress && self.facts.node.reenters() {
            self.reentrant(at, rule, place);
        }
    }

    /// Packets for Services that the host translated. Nothing is committed for them.
    fn reentrant(&mut self, at: usize, rule: &Rule, place: &RulePlace) {
        let RulePlace { number, table, metric, .. } = *place;
        let (name, to) = (table.name(), metric.name());
        if rule.l7 {
            let line = format!("table={name}, priority={REENTRANCE},conj_id={number},reg4=0x20000000/0x20000000 actions=drop");
            self.own("rule", &line);
            let reason = "the engine cannot read connections to Services that the host translates: they are dropped";
            return self.compiled.degraded.push(Code::Feature, format!("rules[{at}].l7_protocols"), reason);
        }
        self.own("rule", &format!(
            "table={name}, priority={REENTRANCE},conj_id={number},reg4=0x20000000/0x20000000 actions=set_field:{number:#x}->reg5,goto_table:{to}"
        ));
        // Nothing is committed, so no label tells whose it is.
        let next = metric.next(self.facts.features()).map_or("Output", Table::name);
        self.own("counter", &format!(
            "table={to}, priority=200,reg4=0x20000000/0x20000000,reg5={number:#x} actions=goto_table:{next}"
        ));
        if rule.logging {
            let reason = "allowed packets for Services, which the host translates, are not told of: each of them is judged by itself";
            self.compiled.degraded.push(Code::Feature, format!("rules[{at}].logging"), reason);
        }
    }

    fn pass(&mut self, rule: &Rule, place: &RulePlace) {
        let RulePlace { number, table, action, .. } = *place;
        let (register, to) =
            if rule.direction == Direction::Egress { (5, Table::EgressRule) } else { (6, Table::IngressRule) };
        let then = match self.fork(Disposition::Pass, deny::logged(rule.logging), table, to) {
            Some(fork) => fork,
            None => format!("goto_table:{}", to.name()),
        };
        let name = table.name();
        self.own("rule", &format!(
            "table={name}, priority={action},conj_id={number} actions=set_field:{number:#x}->reg{register},{then}"
        ));
    }

    fn deny(&mut self, rule: &Rule, denial: Action, place: &RulePlace) {
        let RulePlace { number, table, metric, action, .. } = *place;
        let disposition = if denial == Action::Reject { Disposition::Reject } else { Disposition::Drop };
        let operations = deny::operations(self.facts, denial, rule.logging);
        let (name, to) = (table.name(), metric.name());
        let then = match self.fork(disposition, operations, table, metric) {
            Some(fork) => fork,
            None => format!("goto_table:{to}"),
        };
        self.own("rule", &format!(
            "table={name}, priority={action},conj_id={number} actions=set_field:{number:#x}->reg3,set_field:0x400/0x400->reg0,{then}"
        ));
        // Above what counts for rules that allow: a connection that one of them allowed carries its
        // label still, and may be +new still.
        let drop = deny::drop();
        self.own("counter", &format!("table={to}, priority=201,reg0=0x400/0x400,reg3={number:#x} actions={drop}"));
    }

    /// Multicast has no connections: an allowed packet carries its rule's number like a denied one.
    fn multicast(&mut self, rule: &Rule, place: &RulePlace) {
        if matches!(rule.action, Action::Drop | Action::Reject) {
            return self.deny(rule, rule.action, place);
        }
        let RulePlace { number, table, metric, action, .. } = *place;
        let (name, to) = (table.name(), metric.name());
        let then = match self.fork(Disposition::Allow, deny::logged(rule.logging), table, metric) {
            Some(fork) => fork,
            None => format!("goto_table:{to}"),
        };
        self.own("rule", &format!(
            "table={name}, priority={action},conj_id={number} actions=set_field:{number:#x}->reg3,{then}"
        ));
        let next = metric.next(self.facts.features()).map_or("MulticastOutput", Table::name);
        self.own("counter", &format!(
            "table={to}, priority=200,reg0=0/0x400,reg3={number:#x} actions=goto_table:{next}"
        ));
    }

    /// Actions that tell the controller and go on; None: there is nothing to tell.
    fn fork(&mut self, disposition: Disposition, operations: u32, table: Table, to: Table) -> Option<String> {
        if operations == 0 {
            return None;
        }
        let fork = deny::fork(self.facts, to, &mut self.forks)?;
        Some(format!("{},{fork}", deny::told(disposition, operations, table)))
    }

    /// Answers to questions for names wait until their addresses are known: conjunction 1.
    fn names(&mut self) {
        if self.asking.is_empty() {
            return;
        }
        let facts = self.facts;
        let mut shared = |line: String| {
            self.compiled.shared(facts, "names", &format!("table=AntreaPolicyIngressRule, priority=64991,{line}"));
        };
        // Only answers of these servers count, if any are named.
        let servers = &facts.node.dns_servers;
        let clauses = if servers.is_empty() { 2 } else { 3 };
        for (udp, tcp) in [(Family::V4, ("udp", "tcp")), (Family::V6, ("udp6", "tcp6"))]
            .into_iter()
            .filter_map(|(family, protocols)| facts.node.has(family).then_some(protocols))
        {
            for protocol in [udp, tcp] {
                shared(format!("ct_state=+rpl+trk,{protocol},tp_src=53 actions=conjunction(1,1/{clauses})"));
            }
        }
        for port in &self.asking {
            shared(format!("reg1={port:#x} actions=conjunction(1,2/{clauses})"));
        }
        for server in servers.iter().filter(|server| facts.node.has(Family::of(server))) {
            let family = Family::of(server);
            shared(format!("{},{}={server} actions=conjunction(1,3/3)", family.ip(), family.source()));
        }
        shared(
            "conj_id=1 actions=meter:258,controller(reason=no_match,id=62375,userdata=02,pause),goto_table:IngressMetric"
                .to_owned(),
        );
    }

    fn own(&mut self, purpose: &'static str, line: &str) {
        self.compiled.own(self.facts, purpose, line);
    }
}
