//! Matches.
//!
//! A match is read item by item ([`MatchBuilder::add`]) into a key and a mask, and then made what
//! Open vSwitch would make of it ([`MatchBuilder::finish`], `normalize.rs`): fields that cannot
//! exist in the packets that match are dropped with a warning, and what the switch would refuse is
//! refused. Printing is in `format.rs`, packets from keys in `compose.rs`.
//!
//! Where ovs-ofctl silently does something else than what is written, we say so: a warning if the
//! result is still what OVS has (`dl_vlan=5000` is 904), an error if two items contradict each
//! other (in OVS the last one wins).

mod compose;
mod format;
mod items;
mod normalize;
#[cfg(test)]
mod tests;

use super::nearest;
use super::value::{self, Written};
use super::{Names, Parsed, TextError};
use crate::action::port;
use crate::field::{Format, lower, number::*};
use crate::{Field, FlowKey, FlowMask, SparseMatch};
use hashbrown::HashMap;
use std::sync::LazyLock;

pub use compose::compose;
pub use format::{format_key, format_match};
pub use items::{Item, Items};

/// Items of one match at most: more than there are fields.
const MAX_ITEMS: usize = 256;

/// Keywords, with the `eth_type` and `nw_proto` that they stand for. `eth` says only that the
/// packet is an Ethernet frame.
const KEYWORDS: [(&str, u16, u8); 19] = [
    ("eth", 0, 0),
    ("ip", ETH_IPV4, 0),
    ("ipv4", ETH_IPV4, 0),
    ("ipv6", ETH_IPV6, 0),
    ("ip6", ETH_IPV6, 0),
    ("icmp", ETH_IPV4, IP_ICMP),
    ("icmp6", ETH_IPV6, IP_ICMPV6),
    ("igmp", ETH_IPV4, IP_IGMP),
    ("tcp", ETH_IPV4, IP_TCP),
    ("tcp6", ETH_IPV6, IP_TCP),
    ("udp", ETH_IPV4, IP_UDP),
    ("udp6", ETH_IPV6, IP_UDP),
    ("sctp", ETH_IPV4, IP_SCTP),
    ("sctp6", ETH_IPV6, IP_SCTP),
    ("arp", ETH_ARP, 0),
    ("rarp", ETH_RARP, 0),
    ("mpls", ETH_MPLS, 0),
    ("mplsm", ETH_MPLS_MCAST, 0),
    ("icmpv6", ETH_IPV6, IP_ICMPV6),
];

/// What a word of a match is.
#[derive(Clone, Copy, Debug)]
enum Word {
    Keyword(u16, u8),
    Field(Field),
    /// `dl_vlan1`, `dl_vlan_pcp1`: the second tag, in keys and masks of cached decisions.
    SecondTag(Field),
    PacketType,
}

type Words = HashMap<&'static str, Word, foldhash::fast::FixedState>;

/// All words, in lower case.
static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let mut words = Words::default();
    for name in crate::field::names() {
        if let Some(field) = value::field_by_name(name) {
            words.insert(name, Word::Field(field));
        }
    }
    for (keyword, eth_type, proto) in KEYWORDS {
        words.insert(keyword, Word::Keyword(eth_type, proto));
    }
    words.insert("packet_type", Word::PacketType);
    words.insert("dl_vlan1", Word::SecondTag(Field::DlVlan));
    words.insert("dl_vlan_pcp1", Word::SecondTag(Field::VlanPcp));
    words
});

/// Collects the `key=value` and keyword items of a match, in any order among other items.
#[derive(Debug)]
pub struct MatchBuilder<'a> {
    names: &'a dyn Names,
    key: FlowKey,
    mask: FlowMask,
    warnings: Vec<String>,
    items: usize,
    /// Takes fields that flows cannot match: the text is that of a packet.
    internal: bool,
}

impl std::fmt::Debug for dyn Names + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Names")
    }
}

impl<'a> MatchBuilder<'a> {
    /// Nothing yet: matches everything.
    #[must_use]
    pub fn new(names: &'a dyn Names) -> Self {
        Self {
            names,
            key: FlowKey::default(),
            mask: FlowMask::default(),
            warnings: Vec::new(),
            items: 0,
            internal: false,
        }
    }

    /// Adds an item (`tcp`; `nw_src` with `10.0.0.0/8`). False: it is no item of a match. Columns
    /// of errors count from the start of the value.
    ///
    /// # Errors
    /// When the value is wrong, or contradicts an item before it.
    pub fn add(&mut self, key: &str, value: Option<&str>) -> Result<bool, TextError> {
        let Some(word) = lower(key, &mut [0; _]).and_then(|name| WORDS.get(name)) else { return Ok(false) };
        self.items += 1;
        if self.items > MAX_ITEMS {
            let reason = format!("more than {MAX_ITEMS} items in one match");
            return Err(value::error(key, reason, "give each field once"));
        }
        match (*word, value) {
            (Word::Keyword(eth_type, proto), None) => {
                if eth_type != 0 {
                    self.merge(key, Field::EthType, eth_type.into(), Field::EthType.ones())?;
                }
                if proto != 0 {
                    self.merge(key, Field::NwProto, proto.into(), Field::NwProto.ones())?;
                }
            }
            (Word::Keyword(..), Some(_)) => {
                return Err(value::error(key, format!("{key} takes no value"), format!("write {key} alone")));
            }
            (Word::PacketType, value) => {
                if value.is_none_or(|value| value != "(0,0)" && value != "(0x0,0x0)") {
                    let reason = "packets are Ethernet frames here, no other packet_type".to_owned();
                    return Err(value::error(key, reason, "packet_type=(0,0), or leave it out"));
                }
            }
            (Word::Field(field), value) => self.add_field(key, field, value.unwrap_or_default(), Field::VlanTci)?,
            (Word::SecondTag(field), value) => {
                self.add_field(key, field, value.unwrap_or_default(), Field::VlanTci1)?;
            }
        }
        Ok(true)
    }

    /// Adds a field. `key` is its name as written, `tag` the tag that it is about if it is a part
    /// of one.
    fn add_field(&mut self, key: &str, field: Field, text: &str, tag: Field) -> Result<(), TextError> {
        if matches!(field, Field::RecircId | Field::DpHash) && !self.internal {
            let reason = format!("{key} is no field that flows can match");
            return Err(TextError { code: "OFPBRC_EPERM", ..value::error(key, reason, "") });
        }
        if text.is_empty() {
            let reason = format!("{key} has no value");
            return Err(value::error(key, reason, format!("{key}=VALUE, or {key}=* for any")));
        }
        let written =
            value::read(field, text, self.names).map_err(|error| TextError { field: key.to_owned(), ..error })?;
        let (target, value, mask) = place(field, text, written, tag);
        let kept = value & mask;
        let no_tag = field == Field::DlVlan && kept == 0;
        if written.excess && !no_tag {
            let cut = shown(field, written.value & field.exact_mask(), u128::MAX);
            self.warnings.push(format!("{key}={text} does not fit into the field and matches {cut}"));
        } else if value != kept {
            let cut = shown(target, kept, mask);
            self.warnings.push(format!("{key}={text} has bits outside its mask and matches {cut}"));
        }
        self.merge(key, target, kept, mask)
    }

    /// Adds bits, unless they contradict what is there.
    fn merge(&mut self, key: &str, field: Field, value: u128, mask: u128) -> Result<(), TextError> {
        let (old, both) = (self.key.get(field), self.mask.get(field) & mask);
        if both != 0 && (old ^ value) & both != 0 {
            let reason = format!("{key} contradicts another item of the match, no packet can match both");
            return Err(value::error(key, reason, "give each field once"));
        }
        self.key.set_masked(field, value, mask);
        self.mask.add_bits(field, mask);
        Ok(())
    }

    /// The match, normalised as Open vSwitch does (fields without their prerequisite go, with a
    /// warning).
    ///
    /// # Errors
    /// When the switch would refuse it (OFPBMC_BAD_PREREQ).
    pub fn finish(mut self) -> Result<Parsed<SparseMatch>, TextError> {
        normalize::normalize(&mut self.key, &mut self.mask, &mut self.warnings)?;
        Ok(Parsed { value: SparseMatch::new(&self.key, &self.mask), warnings: self.warnings })
    }
}

/// A value for a message, in the form that a match has.
fn shown(field: Field, value: u128, mask: u128) -> String {
    let exact = field.exact_mask();
    if field.info().format == Format::Decimal && mask & exact != exact {
        return format!("{value:#x}/{mask:#x}");
    }
    let mut out = String::new();
    super::format_value(field, value, mask, super::Style::default(), &super::NoNames, &mut out);
    out
}

/// The field, value and mask that an item of a match is about, where they are not those of the
/// field it names.
fn place(field: Field, text: &str, written: Written, tag: Field) -> (Field, u128, u128) {
    let Written { value, mask, .. } = written;
    let present = u128::from(VLAN_PRESENT);
    match field {
        // OpenFlow 1.0's "no tag".
        Field::DlVlan if value::is_number(text, 0xffff) => (tag, 0, present | 0xfff),
        Field::DlVlan if mask != 0 => (tag, present | value, present | 0xfff),
        Field::VlanPcp if mask != 0 => (tag, present | value << 13, present | 0xe000),
        // ICMP's type and code are the whole of the ports' fields.
        Field::IcmpType | Field::Icmpv6Type if mask != 0 => (Field::TpSrc, value, Field::TpSrc.ones()),
        Field::IcmpCode | Field::Icmpv6Code if mask != 0 => (Field::TpDst, value, Field::TpDst.ones()),
        // Written without shift, but the lowest two bits are another field's.
        Field::NwTos => (Field::NwTos, value & 0xfc, mask & 0xfc),
        _ => (field, value, mask),
    }
}

/// The error about a word that is no item of a match.
#[must_use]
pub fn unknown_item(item: &Item<'_>) -> TextError {
    let hint = match nearest(item.key, WORDS.keys().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => "fields are those of ovs-fields(7)".to_owned(),
    };
    let reason = format!("there is no field or keyword {:?}", item.key);
    TextError { column: item.key_column, reason, hint, code: "", field: item.key.to_owned() }
}

fn add_all(builder: &mut MatchBuilder<'_>, text: &str) -> Result<(), TextError> {
    for item in Items::new(text) {
        let known = builder
            .add(item.key, item.value)
            .map_err(|error| TextError { column: error.column + item.value_column - 1, ..error })?;
        if !known {
            return Err(unknown_item(&item));
        }
    }
    Ok(())
}

/// A whole match (`tcp,nw_dst=10.0.0.1`).
///
/// # Errors
/// See [`MatchBuilder`].
pub fn parse_match(text: &str, names: &dyn Names) -> Result<Parsed<SparseMatch>, TextError> {
    let mut builder = MatchBuilder::new(names);
    add_all(&mut builder, text)?;
    builder.finish()
}

/// A packet with metadata in match syntax, exact values only, as `ofproto/trace` takes it
/// (`in_port=1,tcp,nw_src=10.0.0.1`). Without `in_port` the port is NONE. VLAN tags are 0x8100
/// unless `vlan_tpid` says otherwise.
///
/// # Errors
/// See [`MatchBuilder`]; and masks, and fields that the packet cannot have.
pub fn parse_key(text: &str, names: &dyn Names) -> Result<FlowKey, TextError> {
    let mut builder = MatchBuilder { internal: true, ..MatchBuilder::new(names) };
    add_all(&mut builder, text)?;
    for item in Items::new(text) {
        let Some(field) = value::field_by_name(item.key) else { continue };
        let exact = field.exact_mask();
        if builder.mask.get(field) & exact != exact {
            let reason =
                format!("{}={} leaves bits open, but a packet has exact values", item.key, item.value.unwrap_or(""));
            let hint = format!("{}=VALUE", item.key);
            return Err(TextError { column: item.value_column, reason, hint, code: "", field: item.key.to_owned() });
        }
    }
    let mut key = builder.key.clone();
    let given = builder.mask.get(Field::InPort) != 0;
    let warnings = builder.finish()?.warnings;
    if let Some(warning) = warnings.into_iter().next() {
        return Err(TextError { column: 1, reason: warning, hint: String::new(), code: "", field: String::new() });
    }
    if !given {
        key.set(Field::InPort, port::NONE.into());
    }
    for (tci, tpid) in [(Field::VlanTci, Field::VlanTpid0), (Field::VlanTci1, Field::VlanTpid1)] {
        if key.get(tci) != 0 && key.get(tpid) == 0 {
            key.set(tpid, ETH_VLAN.into());
        }
    }
    Ok(key)
}
