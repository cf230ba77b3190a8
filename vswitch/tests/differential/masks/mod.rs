//! The masks of decisions: which bits of a packet a switch looked at. A decision that looks at more bits than Open vSwitch's is for fewer packets; one that looks at
//! fewer may be for packets that it does not fit. Each difference is in [`REASONS`], or a fault.
//!
//! **Design**: both switches decide about every packet anew, their caches being empty; what they then hold is read: of Open vSwitch its datapath's megaflows, of ours those
//! of the workers. One packet makes one megaflow, and one more behind each `ct()`. Of those the ones are compared that are about the same packet: Open vSwitch tells for which
//! packet it made each.

pub(crate) mod datapath;
mod reasons;

use crate::oracle::Oracle;
use crate::ours::Ours;
use crate::run::{Record, run};
use crate::scenario::Step;
use crate::subject::{BRIDGE, LOCAL, Subject};
use reasons::{REASONS, Side};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use vswitch_flow::text::{Names, field_by_name, parse_value};
use vswitch_flow::{Field, FlowKey, FlowMask};

/// A decision that a switch keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// As the switch prints it.
    pub(crate) text: String,
    pub(crate) key: FlowKey,
    pub(crate) mask: FlowMask,
    /// The packet that it was made for, as far as the switch tells; of Open vSwitch, all but TCP flags.
    pub(crate) packet: FlowKey,
}

impl Decision {
    /// From the text of a megaflow of ours.
    pub(crate) fn of_ours(text: &str) -> Self {
        let (mut key, mut mask) = (FlowKey::default(), FlowMask::default());
        let mut add = |field: Field, (value, bits): (u128, u128)| {
            key.set_masked(field, value, bits);
            mask.add_bits(field, bits);
        };
        for item in text.split(',').filter(|item| *item != "eth") {
            if let Some((_, eth_type, proto)) = PROTOCOLS.iter().find(|(word, ..)| *word == item) {
                add(Field::EthType, (*eth_type, 0xffff));
                if let Some(proto) = proto {
                    add(Field::NwProto, (*proto, 0xff));
                }
                continue;
            }
            let (name, value) = item.split_once('=').unwrap_or_else(|| panic!("{text}: {item}"));
            // Of the second tag.
            if let Some(shift) = ["dl_vlan1", "dl_vlan_pcp1"].iter().position(|tag| *tag == name).map(|i| 13 * i) {
                let tag: u128 = value.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
                add(Field::VlanTci1, (tag << shift | 0x1000, if shift == 0 { 0x1fff } else { 0xf000 }));
                continue;
            }
            let field = field_by_name(name).unwrap_or_else(|| panic!("{text}: {item}"));
            // What nobody compares need not be readable.
            if COMPARED.contains(&field) || field == Field::RecircId || field == Field::InPort {
                // Of what flows cannot match in parts: numbers.
                let parts =
                    || value.split_once('/').map(|(value, bits)| (datapath::plain(value), datapath::plain(bits)));
                let parsed = parse_value(field, value, &Ports).ok().or_else(parts);
                add(field, parsed.unwrap_or_else(|| panic!("{text}: {item}")));
            }
        }
        Self { text: text.to_owned(), key, mask, packet: FlowKey::default() }
    }

    fn is_recirculated(&self) -> bool {
        self.key.get(Field::RecircId) != 0
    }

    /// Whether it fits the packet that another one was made for.
    fn fits(&self, other: &Self) -> bool {
        let differs = |field: &Field| (self.key.get(*field) ^ other.packet.get(*field)) & self.mask.get(*field) != 0;
        let told = COMPARED.iter().filter(|field| **field != Field::TcpFlags);
        self.is_recirculated() == other.is_recirculated() && !told.into_iter().any(differs)
    }

    /// Two decisions about one packet as one.
    fn and(mut self, other: Self) -> Self {
        for i in 0..self.key.0.len() {
            self.key.0[i] |= other.key.0[i];
        }
        self.mask.add_mask(&other.mask);
        self.text += &format!(" and {}", other.text);
        self
    }

    /// Bits that this one looks at and the other does not.
    fn beyond(&self, other: &Self) -> Vec<(Field, u128)> {
        let bits = COMPARED.iter().map(|field| (*field, self.mask.get(*field) & !other.mask.get(*field)));
        bits.filter(|(_, bits)| *bits != 0).collect()
    }
}

/// Fields that both datapaths have, each bit in one of them.
const COMPARED: [Field; 34] = [
    Field::TunId,
    Field::TunSrc,
    Field::TunDst,
    Field::TunIpv6Src,
    Field::TunIpv6Dst,
    Field::CtMark,
    Field::CtZone,
    Field::CtState,
    Field::CtLabel,
    Field::CtNwSrc,
    Field::CtNwDst,
    Field::CtIpv6Src,
    Field::CtIpv6Dst,
    Field::CtTpSrc,
    Field::CtTpDst,
    Field::CtNwProto,
    Field::PktMark,
    Field::EthDst,
    Field::EthSrc,
    Field::EthType,
    Field::VlanTci,
    Field::VlanTci1,
    Field::NwSrc,
    Field::NwDst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Ipv6Label,
    Field::NwProto,
    Field::NwTos,
    Field::NwTtl,
    Field::TpSrc,
    Field::TpDst,
    Field::TcpFlags,
    Field::NdTarget,
];

/// Words for an Ethernet type and an IP protocol.
const PROTOCOLS: [(&str, u128, Option<u128>); 14] = [
    ("ip", 0x0800, None),
    ("ipv6", 0x86dd, None),
    ("arp", 0x0806, None),
    ("rarp", 0x8035, None),
    ("icmp", 0x0800, Some(1)),
    ("igmp", 0x0800, Some(2)),
    ("tcp", 0x0800, Some(6)),
    ("udp", 0x0800, Some(17)),
    ("sctp", 0x0800, Some(132)),
    ("tcp6", 0x86dd, Some(6)),
    ("udp6", 0x86dd, Some(17)),
    ("icmp6", 0x86dd, Some(58)),
    ("sctp6", 0x86dd, Some(132)),
    ("mpls", 0x8847, None),
];

/// Names of the scenarios' ports.
struct Ports;

impl Names for Ports {
    fn port(&self, name: &str) -> Option<u32> {
        if name == BRIDGE { Some(LOCAL) } else { name.get(1..)?.parse().ok() }
    }
    fn port_name(&self, _: u32) -> Option<&str> {
        None
    }
    fn table(&self, _: &str) -> Option<u8> {
        None
    }
    fn table_name(&self, _: u8) -> Option<&str> {
        None
    }
}

/// What was compared.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Decisions of ours that have one of Open vSwitch's beside them, and that do not.
    pub(crate) compared: usize,
    pub(crate) alone: usize,
    /// Those with equal masks.
    pub(crate) equal: usize,
    /// How often each reason was one, by its name.
    pub(crate) reasons: BTreeMap<&'static str, usize>,
    /// Differences without a reason, by kind: how often, and the first one.
    pub(crate) faults: BTreeMap<String, (usize, String)>,
}

impl Tally {
    /// Compares what both switches decided about the packets of a scenario.
    pub(crate) fn add(&mut self, what: &str, steps: &[Step], theirs: &Record, ours: &Record) {
        let program = Program::of(steps);
        for (i, (theirs, ours)) in theirs.decisions.iter().zip(&ours.decisions).enumerate() {
            for decision in ours {
                self.compare(&format!("{what}, step {i}: {}", steps[i]), &program, (decision, ours.len()), theirs);
            }
        }
    }

    /// Compares one of so many decisions about a packet.
    fn compare(&mut self, what: &str, program: &Program, (ours, count): (&Decision, usize), all: &[Decision]) {
        let size = |bits: &[(Field, u128)]| bits.iter().map(|(_, bits)| bits.count_ones()).sum::<u32>();
        let candidates = all.iter().filter(|theirs| ours.fits(theirs));
        // Behind a group, and behind a tunnel's end, Open vSwitch decides anew, where ours goes on.
        let nearest = if all.len() == count || !ours.is_recirculated() {
            candidates.min_by_key(|theirs| size(&ours.beyond(theirs)) + size(&theirs.beyond(ours))).cloned()
        } else {
            candidates.cloned().reduce(Decision::and)
        };
        let Some(theirs) = &nearest else {
            self.alone += 1;
            return;
        };
        self.compared += 1;
        let count_theirs = all.len();
        let (narrower, mut wider) = (ours.beyond(theirs), theirs.beyond(ours));
        // What its datapath knows anyhow.
        let is_known =
            |field: Field| field.name().starts_with("tun_") || matches!(field, Field::VlanTci | Field::VlanTci1);
        wider.retain(|(field, _)| !is_known(*field));
        self.equal += usize::from(narrower.is_empty() && wider.is_empty());
        for (side, bits) in [(Side::Narrower, narrower), (Side::Wider, wider)] {
            for (field, bits) in bits {
                let difference = reasons::Difference { side, field, theirs, program };
                match REASONS.iter().find(|reason| (reason.explains)(&difference)) {
                    Some(reason) => *self.reasons.entry(reason.name).or_default() += 1,
                    None => {
                        let text = || {
                            format!(
                                "{what}\n  {side:?} {field:?} {bits:#x}\n  ours: {}\n  OVS:  {} (one of {count_theirs})",
                                ours.text, theirs.text
                            )
                        };
                        let fault = self.faults.entry(format!("{side:?} {field:?}")).or_insert_with(|| (0, text()));
                        fault.0 += 1;
                    }
                }
            }
        }
    }

    /// Says what is wrong; empty: nothing.
    pub(crate) fn wrong(&self) -> String {
        self.faults.iter().fold(String::new(), |mut text, (kind, (count, first))| {
            let _ = writeln!(text, "{kind}: {count} times, first {first}");
            text
        })
    }
}

/// What a scenario's program looks at, for reasons.
#[derive(Debug)]
pub(crate) struct Program {
    /// Its flows and groups, as text.
    text: String,
    /// Fields that one of two flows of a table and priority looks at, and the other does not.
    ties: BTreeSet<Field>,
}

impl Program {
    fn of(steps: &[Step]) -> Self {
        let mut text = String::new();
        for step in steps.iter().filter(|step| !matches!(step, Step::Packet { .. })) {
            let _ = writeln!(text, "{step}");
        }
        if steps.contains(&Step::Document) {
            crate::document::flows().iter().for_each(|line| text += line);
        }
        let flows = steps.iter().filter_map(|step| if let Step::Flow(line) = step { Some(line.clone()) } else { None });
        let document = if steps.contains(&Step::Document) { crate::document::flows() } else { Vec::new() };
        Self { text, ties: ties(flows.chain(document)) }
    }

    /// Whether flows of one priority and table differ in that they look at a field.
    pub(crate) fn ties(&self, field: Field) -> bool {
        self.ties
            .iter()
            .any(|tie| tie.location().word == field.location().word && tie.location().shift == field.location().shift)
    }

    /// Whether one of the words is in it.
    pub(crate) fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.text.contains(word))
    }
}

/// See [`Program::ties`].
fn ties(flows: impl Iterator<Item = String>) -> BTreeSet<Field> {
    let mut seen: BTreeMap<(String, String), BTreeSet<Field>> = BTreeMap::new();
    let mut ties = BTreeSet::new();
    for line in flows {
        let matching = line.split("actions=").next().unwrap_or_default().replace([' ', '\t'], ",");
        let value =
            |name: &str| matching.split(',').find_map(|item| item.strip_prefix(name)).unwrap_or_default().to_owned();
        let field = |item: &str| match PROTOCOLS.iter().find(|(word, ..)| *word == item) {
            Some((.., proto)) => proto.map(|_| Field::NwProto),
            None => field_by_name(item.split('=').next().unwrap_or_default()),
        };
        let fields: BTreeSet<Field> = matching.split(',').filter_map(field).collect();
        match seen.entry((value("table="), value("priority="))) {
            Entry::Vacant(place) => drop(place.insert(fields)),
            Entry::Occupied(before) => ties.extend(before.get().symmetric_difference(&fields)),
        }
    }
    ties
}

/// Runs a scenario on both, with empty caches in front of every packet. None: Open vSwitch did not survive it.
pub(crate) fn both(
    oracle: &mut Oracle,
    ours: &mut Ours,
    ports: &[(String, u32)],
    steps: &[Step],
) -> Option<(Record, Record)> {
    oracle.decide(true);
    ours.decide(true);
    let found = run(ours, steps);
    match catch_unwind(AssertUnwindSafe(|| run(oracle, steps))) {
        Ok(expected) => Some((expected, found)),
        Err(panic) if oracle.has_died(&*panic) => {
            *oracle = Oracle::start(ports);
            None
        }
        Err(panic) => resume_unwind(panic),
    }
}
