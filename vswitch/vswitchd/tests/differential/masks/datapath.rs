//! Megaflows of Open vSwitch's datapath, as `ovs-appctl dpctl/dump-flows -m` prints them.

use super::Decision;
use crate::compare::parts;
use std::net::{Ipv4Addr, Ipv6Addr};
use vswitch_flow::Field;
use vswitch_flow::text::{NoNames, parse_value};

/// All megaflows of a dump.
pub(crate) fn megaflows(dump: &str) -> Vec<Decision> {
    dump.lines().filter(|line| line.contains("recirc_id(")).map(megaflow).collect()
}

fn megaflow(line: &str) -> Decision {
    let matching = line.split(", packets:").next().unwrap_or_default();
    let actions = line.split_once("actions:").unwrap_or_default().1;
    let actions = actions.split(", dp-extra-info").next().unwrap_or_default().to_owned();
    let in_port = matching.split_once("in_port(").and_then(|(_, rest)| rest.split(')').next()).unwrap_or_default();
    let (text, in_port) = (matching.to_owned(), in_port.to_owned());
    let decision = Decision { text, actions, in_port, ..Decision::default() };
    let mut reader = Reader { decision, tags: 0 };
    reader.parts(matching);
    // The datapath always knows how many tags there are, and whether there was a tunnel.
    for field in [Field::VlanTci, Field::VlanTci1].into_iter().skip(reader.tags) {
        reader.decision.mask.add(field);
    }
    if !matching.contains("tun_id=") {
        // Nor does it print whether it looked at the key of a tunnel without one.
        reader.decision.mask.add(Field::TunId);
    }
    if !matching.contains("tunnel(") {
        let of_tunnel = [Field::TunId, Field::TunSrc, Field::TunDst, Field::TunIpv6Src, Field::TunIpv6Dst];
        of_tunnel.iter().for_each(|field| reader.decision.mask.add(*field));
    }
    reader.decision
}

struct Reader {
    decision: Decision,
    /// VLAN tags so far.
    tags: usize,
}

impl Reader {
    /// `name(...),name(...)`, in order.
    fn parts(&mut self, text: &str) {
        for part in parts(text).into_iter().map(str::trim) {
            let Some((name, inside)) = part.strip_suffix(')').and_then(|part| part.split_once('(')) else { continue };
            if name == "encap" && inside.is_empty() {
                // Behind a tag there is no Ethernet type, unless the tag is none.
                let tag = if self.tags < 2 { Field::VlanTci } else { Field::VlanTci1 };
                if self.decision.packet.get(tag) != 0 {
                    self.number(Field::EthType, "0");
                }
            } else if name == "encap" {
                self.parts(inside);
            } else if let Some(field) = whole(name) {
                self.number(field, inside);
            } else if name == "vlan" {
                self.tag(inside);
            } else {
                for item in parts(inside) {
                    let Some((key, value)) = item.split_once('=') else { continue };
                    if let Some(field) = part_of(name, key) {
                        self.number(field, value);
                    }
                }
            }
        }
    }

    /// `VALUE` or `VALUE/MASK`.
    fn number(&mut self, field: Field, text: &str) {
        let (value, mask) = match text.split_once('/') {
            Some((value, mask)) => (read(field, value), read(field, mask)),
            // `+new-est+trk`, `syn|ack`: as flows have them.
            None if matches!(field, Field::CtState | Field::TcpFlags)
                && !text.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                parse_value(field, text, &NoNames).unwrap_or_else(|error| panic!("{text}: {error}"))
            }
            None => (read(field, text), field.ones()),
        };
        // 802.3 without a type, in flows and in ours.
        let value = if (field, value) == (Field::EthType, 0) { 0x05ff } else { value };
        self.decision.packet.set(field, value);
        self.decision.key.set_masked(field, value, mask);
        self.decision.mask.add_bits(field, mask);
    }

    /// `vid=5,pcp=2/0x0`: the Ethernet type in front of it says that there is one.
    fn tag(&mut self, inside: &str) {
        let field = if self.tags == 0 { Field::VlanTci } else { Field::VlanTci1 };
        self.tags += 1;
        let (mut tci, mut bits) = (0x1000, 0x1000);
        for item in parts(inside) {
            let Some((key, text)) = item.split_once('=') else { continue };
            if item == "cfi=0" {
                // What should be a tag is cut off.
                (tci, bits) = (0, 0xffff);
                break;
            }
            let shift = if key == "pcp" { 13 } else { 0 };
            let width = if key == "pcp" { 7 } else { 0xfff };
            if !["pcp", "vid"].contains(&key) {
                continue;
            }
            let (value, mask) = match text.split_once('/') {
                Some((value, mask)) => (plain(value), plain(mask)),
                None => (plain(text), width),
            };
            tci |= (value & width) << shift;
            bits |= (mask & width) << shift;
        }
        self.decision.packet.set(field, tci);
        self.decision.key.set_masked(field, tci, bits);
        self.decision.mask.add_bits(field, bits);
    }
}

/// Attributes that are one value.
fn whole(name: &str) -> Option<Field> {
    Some(match name {
        "recirc_id" => Field::RecircId,
        "skb_mark" => Field::PktMark,
        "ct_state" => Field::CtState,
        "ct_zone" => Field::CtZone,
        "ct_mark" => Field::CtMark,
        "ct_label" => Field::CtLabel,
        "dp_hash" => Field::DpHash,
        "eth_type" => Field::EthType,
        "tcp_flags" => Field::TcpFlags,
        _ => return None,
    })
}

/// Attributes of several values. Of tunnels: what both switches have.
fn part_of(name: &str, key: &str) -> Option<Field> {
    Some(match (name, key) {
        ("eth", "src") => Field::EthSrc,
        ("eth", "dst") => Field::EthDst,
        ("ipv4", "src") | ("arp", "sip") => Field::NwSrc,
        ("ipv4", "dst") | ("arp", "tip") => Field::NwDst,
        ("ipv6", "src") => Field::Ipv6Src,
        ("ipv6", "dst") => Field::Ipv6Dst,
        ("ipv6", "label") => Field::Ipv6Label,
        ("ipv4" | "ipv6", "proto") | ("arp", "op") => Field::NwProto,
        ("ipv4", "tos") | ("ipv6", "tclass") => Field::NwTos,
        ("ipv4", "ttl") | ("ipv6", "hlimit") => Field::NwTtl,
        ("ipv4" | "ipv6", "frag") => Field::NwFrag,
        ("tcp" | "udp" | "sctp", "src") | ("icmp" | "icmpv6", "type") => Field::TpSrc,
        ("tcp" | "udp" | "sctp", "dst") | ("icmp" | "icmpv6", "code") => Field::TpDst,
        ("arp", "sha") | ("nd", "sll") => Field::ArpSha,
        ("arp", "tha") | ("nd", "tll") => Field::ArpTha,
        ("nd", "target") => Field::NdTarget,
        ("nd_ext", "nd_reserved") => Field::NdReserved,
        ("nd_ext", "nd_options_type") => Field::NdOptionsType,
        ("ct_tuple4", "src") => Field::CtNwSrc,
        ("ct_tuple4", "dst") => Field::CtNwDst,
        ("ct_tuple6", "src") => Field::CtIpv6Src,
        ("ct_tuple6", "dst") => Field::CtIpv6Dst,
        ("ct_tuple4" | "ct_tuple6", "proto") => Field::CtNwProto,
        ("ct_tuple4", "tp_src") | ("ct_tuple6", "src_port") => Field::CtTpSrc,
        ("ct_tuple4", "tp_dst") | ("ct_tuple6", "dst_port") => Field::CtTpDst,
        ("tunnel", "tun_id") => Field::TunId,
        ("tunnel", "src") => Field::TunSrc,
        ("tunnel", "dst") => Field::TunDst,
        ("tunnel", "ipv6_src") => Field::TunIpv6Src,
        ("tunnel", "ipv6_dst") => Field::TunIpv6Dst,
        _ => return None,
    })
}

/// A value of a field: an address, a number, or what `frag` has.
fn read(field: Field, text: &str) -> u128 {
    let words = [("no", 0), ("first", 1), ("later", 3)];
    if field == Field::NwFrag
        && let Some((_, value)) = words.iter().find(|(word, _)| *word == text)
    {
        return *value;
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return u128::from(address.to_bits());
    }
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return address.to_bits();
    }
    let bytes: Vec<_> = text.split(':').map(|byte| u128::from_str_radix(byte, 16)).collect();
    if bytes.len() == 6 && bytes.iter().all(Result::is_ok) {
        return bytes.into_iter().flatten().fold(0, |mac, byte| mac << 8 | byte);
    }
    plain(text)
}

/// A decimal or hexadecimal number.
pub(crate) fn plain(text: &str) -> u128 {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_read() {
        let dump = "flow-dump from the main thread:\n\
            ufid:16c43f4d-46dd-4d99-936a-496423cf30db, skb_mark(0/0),ct_state(+new-est),ct_mark(0x10/0x30),recirc_id(0x2),\
            in_port(1),packet_type(ns=0,id=0),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02/00:00:00:00:00:00),\
            eth_type(0x8100),vlan(vid=5,pcp=2/0x0),encap(eth_type(0x0800),ipv4(src=10.0.0.1/0.0.0.0,dst=10.0.0.2/255.0.0.0,\
            proto=6,tos=0/0,ttl=64/0,frag=no),tcp(src=1000/0,dst=80/0xff00),tcp_flags(0/0)), packets:0, bytes:0, actions:2\n";
        let found = megaflows(dump);
        let [Decision { key, mask, .. }] = found.as_slice() else { panic!("{found:?}") };
        for (field, value, bits) in [
            (Field::RecircId, 2, 0xffff_ffff),
            (Field::CtState, 1, 3),
            (Field::CtMark, 0x10, 0x30),
            (Field::EthSrc, 0x0200_0000_0001, 0xffff_ffff_ffff),
            (Field::EthDst, 0, 0),
            (Field::VlanTci, 0x1005, 0x1fff),
            (Field::EthType, 0x0800, 0xffff),
            (Field::NwSrc, 0, 0),
            (Field::NwDst, 0x0a00_0000, 0xff00_0000),
            (Field::NwProto, 6, 0xff),
            (Field::TpSrc, 0, 0),
            (Field::TpDst, 0, 0xff00),
        ] {
            assert_eq!((key.get(field), mask.get(field)), (value, bits), "{field:?}");
        }
    }
}
