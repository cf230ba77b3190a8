//! Rules of any kind of policy, to rules of the switch: named ports become numbers, and what they
//! name becomes groups.

use super::world::{Members, World};
use crate::problem::{Origin, Problem};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::group_member::Member;

/// Protocols that have ports.
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// Bytes of a group's name; what is longer is cut and gets a digest. (The switch takes 512.)
const NAME_LEN_MAX: usize = 480;

/// The other side of a rule.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    /// Nothing was said: anybody.
    pub is_any: bool,
    /// Pods and addresses.
    pub members: Vec<Members>,
    /// Prefixes.
    pub blocks: Vec<v1::IpBlock>,
    /// Names.
    pub fqdns: Vec<String>,
    /// Services.
    pub services: Vec<String>,
}

impl Peers {
    /// Anybody.
    pub fn anybody() -> Self {
        Self { is_any: true, ..Self::default() }
    }
}

/// Ports of a rule.
#[derive(Clone, Debug)]
pub enum Ports {
    /// As the switch takes them.
    Match(v1::PortMatch),
    /// By name, with the protocol's name.
    Named(String, String),
}

/// A rule before its ports have numbers.
#[derive(Clone, Debug)]
pub struct Draft {
    /// All that is the same in each rule that this becomes.
    pub rule: v1::Rule,
    /// What it is applied to.
    pub applied: Vec<Members>,
    /// That is said by itself, not by its policy.
    pub has_own: bool,
    /// Services whose NodePorts it is applied to.
    pub services: Vec<String>,
    /// The other side.
    pub peers: Peers,
    /// Empty: all.
    pub ports: Vec<Ports>,
}

/// Groups that rules name.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// Address groups by name.
    pub address: BTreeMap<String, Members>,
    /// Applied-to groups by name.
    pub applied: BTreeMap<String, v1::AppliedToGroup>,
}

impl Groups {
    /// The name of an address group with these members.
    pub fn address(&mut self, members: &Members) -> String {
        let name = bounded(&members.name);
        self.address.entry(name.clone()).or_insert_with(|| members.clone());
        name
    }

    /// Names of applied-to groups with these members; those without Pods of this Node are left out.
    pub fn applied(&mut self, world: &World<'_>, all: &[Members]) -> Vec<String> {
        let mut names = BTreeSet::new();
        for members in all {
            let name = bounded(&members.name);
            if !self.applied.contains_key(&name) {
                let pods = world.local(&members.pods);
                if pods.is_empty() {
                    continue;
                }
                self.applied
                    .insert(name.clone(), v1::AppliedToGroup { name: name.clone(), pods, services: Vec::new() });
            }
            names.insert(name);
        }
        names.into_iter().collect()
    }

    /// The name of an applied-to group of NodePorts.
    pub fn applied_services(&mut self, services: &[String]) -> String {
        let name = bounded(&format!("node ports of {}", services.join(", ")));
        let group = v1::AppliedToGroup { name: name.clone(), pods: Vec::new(), services: services.to_vec() };
        self.applied.entry(name.clone()).or_insert(group);
        name
    }
}

/// An address group as the switch takes it: Pods of this Node by name, others by their addresses.
pub fn address_group(world: &World<'_>, name: String, members: &Members) -> v1::AddressGroup {
    let mut all: BTreeSet<(bool, &str)> = members.addresses.iter().map(|address| (true, address.as_str())).collect();
    for pod in members.pods.iter().map(|index| &world.pods[*index]) {
        if pod.is_local && !pod.item.body.spec.host_network {
            all.insert((false, pod.name));
        } else {
            all.extend(pod.addresses.iter().map(|address| (true, address.as_str())));
        }
    }
    let member = |(is_address, text): (bool, &str)| {
        let text = text.to_owned();
        v1::GroupMember { member: Some(if is_address { Member::Address(text) } else { Member::Pod(text) }) }
    };
    v1::AddressGroup { name, members: all.into_iter().map(member).collect() }
}

/// Rules of this Node that a draft becomes: none if it is applied to nothing here, or matches
/// nothing.
pub fn rules(world: &World<'_>, draft: &Draft, groups: &mut Groups) -> Vec<v1::Rule> {
    let mut rules = Vec::new();
    let with_numbers: Vec<v1::PortMatch> = draft.ports.iter().filter_map(matched).collect();
    if draft.ports.is_empty() || !with_numbers.is_empty() {
        let peers = draft.peers.clone();
        rules.extend(rule(world, draft, &draft.applied, draft.has_own, &peers, (String::new(), with_numbers), groups));
    }
    let is_ingress = draft.rule.direction == v1::Direction::Ingress as i32;
    for ((protocol, number), subset) in by_number(world, &named_side(world, draft), &draft.ports) {
        let ports = vec![v1::PortMatch {
            protocol: protocol_number(&protocol).into(),
            port: number.into(),
            ..Default::default()
        }];
        let ports = (format!("/{}-{number}", protocol.to_lowercase()), ports);
        rules.extend(if is_ingress {
            rule(world, draft, &subset, true, &draft.peers, ports, groups)
        } else {
            let peers = Peers { members: subset, ..Peers::default() };
            rule(world, draft, &draft.applied, draft.has_own, &peers, ports, groups)
        });
    }
    rules
}

/// A rule and whom it may mean besides. A rule that denies means them, too. Of one that does not
/// deny all, or all that it names, it is not known what it would leave to others: in front of it,
/// one of its own drops all that they may be meant by.
pub fn with_doubtful(world: &World<'_>, mut draft: Draft) -> Vec<Draft> {
    let action = draft.rule.action();
    let is_ingress = draft.rule.direction() == v1::Direction::Ingress;
    let has_names = !is_ingress && draft.ports.iter().any(|port| matches!(port, Ports::Named(..)));
    let denies = [v1::RuleAction::Drop, v1::RuleAction::Reject].contains(&action);
    if !denies && action != v1::RuleAction::Pass && draft.rule.l7_protocols.is_empty() {
        return vec![draft];
    }
    if denies && !has_names {
        draft.peers.members.iter_mut().for_each(Members::and_doubtful);
        return vec![draft];
    }
    let everybody = (draft.peers.is_any && has_names).then(|| world.everybody());
    let members: Vec<Members> =
        draft.peers.members.iter().chain(&everybody).filter_map(Members::only_doubtful).collect();
    if members.is_empty() {
        return vec![draft];
    }
    let all_of = |port: &Ports| match port {
        Ports::Named(protocol, _) => {
            Ports::Match(v1::PortMatch { protocol: protocol_number(protocol).into(), ..Default::default() })
        }
        ports @ Ports::Match(_) => ports.clone(),
    };
    let mut in_doubt = draft.clone();
    in_doubt.ports = draft.ports.iter().map(all_of).collect();
    in_doubt.peers = Peers { members, ..Peers::default() };
    in_doubt.rule.id = bounded(&format!("{}/in-doubt", draft.rule.id));
    in_doubt.rule.l7_protocols = Vec::new();
    if !denies {
        in_doubt.rule.action = v1::RuleAction::Drop.into();
    }
    vec![in_doubt, draft]
}

/// Pods whose ports the names of a draft's ports mean; empty, if it has no names.
fn named_side<'a>(world: &World<'_>, draft: &'a Draft) -> Cow<'a, [Members]> {
    let is_ingress = draft.rule.direction == v1::Direction::Ingress as i32;
    let has_names = draft.ports.iter().any(|port| matches!(port, Ports::Named(..)));
    match (has_names, is_ingress, draft.peers.is_any) {
        (false, ..) => Cow::Borrowed(&[]),
        (true, true, _) => Cow::Borrowed(&draft.applied),
        (true, false, true) => Cow::Owned(vec![world.everybody()]),
        (true, false, false) => Cow::Borrowed(&draft.peers.members),
    }
}

/// Tells names of ports that no Pod has which one rule, in all that has become of it, means. That
/// there are no Pods at all is told elsewhere.
pub fn nameless(world: &World<'_>, origin: &Origin, path: &str, drafts: &[Draft], odd: &mut Vec<Problem>) {
    let sides: Vec<_> = drafts.iter().map(|draft| named_side(world, draft)).collect();
    let pods: BTreeSet<usize> =
        sides.iter().flat_map(|side| side.iter()).flat_map(|members| members.pods.iter().copied()).collect();
    let Some(draft) = drafts.first().filter(|_| !pods.is_empty()) else { return };
    for port in &draft.ports {
        let Ports::Named(protocol, name) = port else { continue };
        let has = |protocol: &str| pods.iter().any(|index| !world.pods[*index].named_ports(name, protocol).is_empty());
        // A name of any protocol is one of each, and told once.
        let is_any = PROTOCOLS.iter().all(|protocol| is_named(draft, protocol, name));
        match is_any {
            true if protocol != PROTOCOLS[0] || PROTOCOLS.into_iter().any(has) => {}
            false if has(protocol) => {}
            true => odd.push(origin.warning(path, format!("no Pod has a port {name:?}: it matches nothing"))),
            false => {
                odd.push(origin.warning(path, format!("no Pod has a port {name:?} of {protocol}: it matches nothing")));
            }
        }
    }
}

/// Whether a port of a protocol is among a draft's by this name.
fn is_named(draft: &Draft, protocol: &str, name: &str) -> bool {
    draft.ports.iter().any(|port| matches!(port, Ports::Named(of, known) if of == protocol && known == name))
}

fn rule(
    world: &World<'_>,
    draft: &Draft,
    applied: &[Members],
    has_own: bool,
    peers: &Peers,
    (suffix, ports): (String, Vec<v1::PortMatch>),
    groups: &mut Groups,
) -> Option<v1::Rule> {
    let mut applied_to = groups.applied(world, applied);
    if !draft.services.is_empty() {
        applied_to.push(groups.applied_services(&draft.services));
    }
    if applied_to.is_empty() {
        return None;
    }
    let mut names: Vec<String> = peers.members.iter().map(|members| groups.address(members)).collect();
    names.sort();
    names.dedup();
    let peer = v1::RulePeer {
        address_groups: names,
        blocks: once(peers.blocks.iter().filter(|block| world.has(&block.cidr)).cloned()),
        fqdns: peers.fqdns.clone(),
        services: peers.services.clone(),
    };
    if !peers.is_any && peer == v1::RulePeer::default() {
        return None; // somebody was meant, and is not there; as it is, it would be anybody
    }
    let id = format!("{}{suffix}", draft.rule.id);
    let applied_to = if has_own { applied_to } else { Vec::new() };
    Some(v1::Rule { id, applied_to, peer: Some(peer), ports: once(ports), ..draft.rule.clone() })
}

/// Messages, each once: what is said twice means the same.
pub fn once<T: prost::Message>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    all.into_iter().filter(|message| seen.insert(message.encode_to_vec())).collect()
}

fn matched(ports: &Ports) -> Option<v1::PortMatch> {
    match ports {
        Ports::Match(ports) => Some(ports.clone()),
        Ports::Named(..) => None,
    }
}

/// A protocol and a number.
type Number = (String, u16);

/// Names that mean a number, and Pods in which they do.
type Subset<'a> = (BTreeSet<&'a str>, BTreeSet<usize>);

/// Pods by the numbers that they have for ports that are meant by name.
fn by_number(world: &World<'_>, side: &[Members], ports: &[Ports]) -> BTreeMap<Number, Vec<Members>> {
    let mut found: BTreeMap<Number, Vec<Members>> = BTreeMap::new();
    for members in side {
        let mut subsets: BTreeMap<Number, Subset<'_>> = BTreeMap::new();
        for port in ports {
            let Ports::Named(protocol, name) = port else { continue };
            for index in members.pods.iter() {
                for number in world.pods[*index].named_ports(name, protocol) {
                    let subset = subsets.entry((protocol.clone(), number)).or_default();
                    subset.0.insert(name);
                    subset.1.insert(*index);
                }
            }
        }
        for ((protocol, number), (names, pods)) in subsets {
            let names = names.into_iter().map(super::selector::word).collect::<Vec<_>>().join(",");
            let name = format!("{} with {} {number} as {names}", members.name, protocol.to_lowercase());
            let pods = pods.into_iter().collect();
            let subset = Members { name, pods, ..Members::default() };
            found.entry((protocol, number)).or_default().push(subset);
        }
    }
    found
}

/// The number of a protocol with ports; unspecified: it is not known.
pub fn protocol_number(name: &str) -> v1::Protocol {
    match name {
        "TCP" => v1::Protocol::Tcp,
        "UDP" => v1::Protocol::Udp,
        "SCTP" => v1::Protocol::Sctp,
        _ => v1::Protocol::Unspecified,
    }
}

/// A name that is not too long for the switch: of a longer one the beginning and a digest of all.
pub fn bounded(name: &str) -> String {
    if name.len() <= NAME_LEN_MAX {
        return name.to_owned();
    }
    // FNV-1a, 128 bits
    let digest = name.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    let end = (0..=NAME_LEN_MAX - 40).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    format!("{}... {digest:032x}", &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_stay_apart() {
        let (a, b) = (format!("{}a", "x\u{e9}".repeat(400)), format!("{}b", "x\u{e9}".repeat(400)));
        assert_ne!(bounded(&a), bounded(&b));
        assert!(bounded(&a).len() <= NAME_LEN_MAX && bounded("short") == "short");
    }
}
