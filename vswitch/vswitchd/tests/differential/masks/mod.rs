//! The masks of decisions: which bits of a packet a switch looked at.
//!
//! A decision that looks at more bits than that of Open vSwitch is for fewer packets: it costs
//! misses. One that looks at fewer may be for packets that it does not fit: it may be wrong. Each
//! difference has a reason in [`reasons::REASONS`], or is a fault.
//!
//! **Design**:
//! - Both switches run a scenario with empty caches in front of every packet. Afterwards they tell
//!   what they hold: Open vSwitch the megaflows of its datapath, ours those of its workers.
//! - [`pairing`] puts those beside each other that are about the same packet at the same place of
//!   its way.
//! - [`Tally`] compares their masks.
//! - [`flips`] tries the wider ones: it runs the scenario again, with the caches as they are in
//!   use. Behind each such packet comes another one that differs in a bit which only Open vSwitch
//!   looks at.

pub(crate) mod datapath;
mod flips;
mod pairing;
mod program;
mod reasons;
mod tally;

pub(crate) use tally::Tally;

use crate::golden::Case;
use crate::pair::Pair;
use crate::random;
use crate::subject::{BRIDGE, LOCAL};
use vswitch_flow::text::{Names, field_by_name, parse_value};
use vswitch_flow::{Field, FlowKey, FlowMask};

/// A decision that a switch keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// What packets it is for, as the switch prints it.
    pub(crate) text: String,
    /// What they undergo, as the switch prints it.
    pub(crate) actions: String,
    /// Name of the port that they came by.
    pub(crate) in_port: String,
    pub(crate) key: FlowKey,
    pub(crate) mask: FlowMask,
    /// The packet that it was made for, as far as the switch tells: ours does not, Open vSwitch
    /// tells all but TCP flags.
    pub(crate) packet: FlowKey,
}

impl Decision {
    /// From the text of a megaflow of ours.
    pub(crate) fn of_ours(text: &str, actions: &str) -> Self {
        let (mut key, mut mask, mut in_port) = (FlowKey::default(), FlowMask::default(), String::new());
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
            if name == "in_port" {
                value.clone_into(&mut in_port);
                continue;
            }
            // Of the second tag.
            if let Some(shift) = ["dl_vlan1", "dl_vlan_pcp1"].iter().position(|tag| *tag == name).map(|i| 13 * i) {
                let tag: u128 = value.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
                add(Field::VlanTci1, (tag << shift | 0x1000, if shift == 0 { 0x1fff } else { 0xf000 }));
                continue;
            }
            let field = field_by_name(name).unwrap_or_else(|| panic!("{text}: {item}"));
            // What nobody compares need not be readable.
            if COMPARED.contains(&field) || field == Field::RecircId {
                // Of what flows cannot match in parts: numbers.
                let parts =
                    || value.split_once('/').map(|(value, bits)| (datapath::plain(value), datapath::plain(bits)));
                let parsed = parse_value(field, value, &Ports).ok().or_else(parts);
                add(field, parsed.unwrap_or_else(|| panic!("{text}: {item}")));
            }
        }
        let (text, actions) = (text.to_owned(), actions.to_owned());
        Self { text, actions, in_port, key, mask, packet: FlowKey::default() }
    }

    /// Number of the stage that its packets came to by `ct()`; 0: none.
    fn stage(&self) -> u128 {
        self.key.get(Field::RecircId)
    }

    /// Whether it fits the packet that another one was made for. Metadata that a packet takes to a
    /// stage are those of the stage: the datapath of Open vSwitch does not have them.
    fn fits(&self, other: &Self) -> bool {
        let differs = |field: &Field| (self.key.get(*field) ^ other.packet.get(*field)) & self.mask.get(*field) != 0;
        let is_told = |field: &Field| *field != Field::TcpFlags && (self.stage() == 0 || !is_frozen(*field));
        !COMPARED.iter().filter(|field| is_told(field)).any(differs)
    }

    /// This one and the one that goes on where it ends, as one.
    fn and(&mut self, other: &Self) {
        for (word, other) in self.key.0.iter_mut().zip(&other.key.0) {
            *word |= other;
        }
        self.mask.add_mask(&other.mask);
        self.text += &format!(" and {}", other.text);
    }

    /// Bits that this one looks at and the other does not.
    fn beyond(&self, other: &Self) -> Vec<(Field, u128)> {
        let bits = COMPARED.iter().map(|field| (*field, self.mask.get(*field) & !other.mask.get(*field)));
        bits.filter(|(_, bits)| *bits != 0).collect()
    }
}

/// Random programs of each kind, unless their number is given.
const PROGRAMS: u64 = 2;

/// Compares the masks of decisions in cases.
pub(crate) fn of_cases(cases: &[Case]) -> Tally {
    let mut tally = Tally::default();
    // Two bridges in a row are one decision here, and two in Open vSwitch.
    let cases = cases.iter().filter(|case| !case.behind).cloned().collect::<Vec<_>>();
    crate::golden::by_ports(&cases, |ports, cases| {
        let mut pair = Pair::start(ports);
        for case in cases {
            tally.check(&mut pair, &case.path.file_stem().unwrap_or_default().to_string_lossy(), &case.steps());
        }
        Vec::new()
    });
    tally
}

/// Compares those in random programs.
pub(crate) fn of_random_programs() -> Tally {
    let (mut tally, mut pair) = (Tally::default(), Pair::start(&crate::subject::ports()));
    let kinds =
        [("seed", random::scenario as fn(u64) -> _), ("stateful seed", random::stateful), ("crowd", random::crowds)];
    for (name, scenario) in kinds {
        for seed in random::some_seeds(PROGRAMS) {
            tally.check(&mut pair, &format!("{name} {seed}"), &scenario(seed));
        }
    }
    tally
}

/// Metadata that packets take along.
fn is_frozen(field: Field) -> bool {
    field == Field::PktMark || field.name().starts_with("tun_")
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
