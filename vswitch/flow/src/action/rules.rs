//! What single actions must be, wherever they stand: asked by [`super::check`], and by the parser
//! of text, which knows where in the text something is wrong.

use super::{BAD_ARGUMENT, BAD_SET, Nat, PortNo, Reject, limits, port};
use crate::field::Format;
use crate::field::number::{ETH_QINQ, ETH_VLAN, VLAN_PRESENT};
use crate::{Field, Refusal, Subfield};
use std::net::IpAddr;

pub(crate) type Rule = Result<(), Refusal>;

/// Refuses unless `good`.
fn need(good: bool, refusal: impl FnOnce() -> Refusal) -> Rule {
    if good { Ok(()) } else { Err(refusal()) }
}

/// A port's number, as [`port::from_number`] has it.
pub(crate) fn port_number(number: PortNo) -> Rule {
    need(port::from_number(number.into()).is_some(), || {
        Refusal::new("OFPBAC_BAD_OUT_PORT", format!("{number:#x} is no port's number")).hint(port::NUMBERS)
    })
}

/// `output(port=N,max_len=N)`
pub(crate) fn truncated(port: PortNo, max_len: u16) -> Rule {
    need(max_len >= limits::MIN_TRUNCATED, || {
        let reason = format!("max_len={max_len}: at least {} bytes must be left", limits::MIN_TRUNCATED);
        Refusal::new(BAD_ARGUMENT, reason).field("max_len")
    })?;
    need(port::is_physical(port) || matches!(port, port::IN_PORT | port::LOCAL), || {
        let reason = "packets are truncated only to ordinary ports, IN_PORT and LOCAL";
        Refusal::new("OFPBAC_BAD_OUT_PORT", reason)
    })
}

/// IP packets of this length get through everywhere (RFC 791).
const MTU_MIN: u16 = 68;

/// Codes of "destination unreachable" for `reject`: of ICMP (RFC 1812, 5.2.7.1) and ICMPv6 (RFC
/// 4443, 3.1; RFC 8883, 3). Or an MTU, which has no code beside it.
pub(crate) fn reject(reject: &Reject) -> Rule {
    let Reject { reset, icmp, icmp6, mtu, .. } = *reject;
    need(mtu == 0 || mtu >= MTU_MIN, || {
        let reason = format!("mtu={mtu}: every link carries IP packets of {MTU_MIN} bytes");
        Refusal::new(BAD_ARGUMENT, reason).hint("68 to 65535: bytes of an IP packet").field("mtu")
    })?;
    let default = Reject::default();
    need(mtu == 0 || (reset, icmp, icmp6) == (default.reset, default.icmp, default.icmp6), || {
        let reason = format!("mtu={mtu}: who is told of an MTU is told nothing else");
        Refusal::new(BAD_ARGUMENT, reason).hint("leave out tcp, icmp and icmp6, or mtu").field("mtu")
    })?;
    // 4 tells of an MTU, which would be 0.
    need(icmp <= 15 && icmp != 4, || {
        let reason = format!("icmp={icmp}: no code of ICMP's destination unreachable that refuses");
        Refusal::new(BAD_ARGUMENT, reason).hint("0 to 15 but 4; 3: port unreachable, 10: prohibited").field("icmp")
    })?;
    need(icmp6 <= 8, || {
        let reason = format!("icmp6={icmp6}: no code of ICMPv6's destination unreachable");
        Refusal::new(BAD_ARGUMENT, reason).hint("0 to 8; 1: prohibited, 4: port unreachable").field("icmp6")
    })
}

/// A field that is written.
pub(crate) fn writable(field: Field) -> Rule {
    need(field.is_writable(), || Refusal::new(BAD_SET, format!("{} is read-only", field.name())))
}

/// Value and mask of a `set_field`.
pub(crate) fn set_field(field: Field, value: u128, mask: u128) -> Rule {
    need(value & !field.ones() == 0, || {
        let reason = format!("{value:#x} is too wide for the {} bits of {}", field.width(), field.name());
        Refusal::new(BAD_SET, reason)
    })?;
    need(value & !field.own_bits() == 0, || {
        let reason = format!("{value} is no {}: the two lowest bits are nw_ecn", field.name());
        Refusal::new(BAD_SET, reason).hint("a multiple of 4 from 0 to 252")
    })?;
    need(value & !mask == 0, || {
        let reason = format!("set_field: value {value:#x} of {} has bits outside of its mask {mask:#x}", field.name());
        Refusal::new("OFPBMC_BAD_WILDCARDS", reason).hint("clear them, or widen the mask")
    })?;
    need(field != Field::VlanVid || value & mask & u128::from(VLAN_PRESENT) != 0, || {
        let reason = "vlan_vid is only set together with bit 4096 of value and mask, which says that there is a tag";
        let hint = format!("set_field:{}->vlan_vid is VLAN {}", 4096 | value, value & 0xfff);
        Refusal::new(BAD_SET, reason).hint(hint)
    })?;
    // What a bucket or a packet-out cannot name: the protocol's port is not known there.
    need(!matches!(field, Field::TpSrc | Field::TpDst) || mask == field.exact_mask(), || {
        let reason = format!("{} is set whole where the protocol is not known", field.name());
        Refusal::new(BAD_SET, reason).hint("tcp_src, udp_dst, ... can be set in part")
    })?;
    if field == Field::InPort && mask == field.exact_mask() { whole(field, value) } else { Ok(()) }
}

/// A value of all of a field, in an action.
pub(crate) fn whole(field: Field, value: u128) -> Rule {
    let good = match field.info().format {
        Format::Port => port::from_number(value).is_some(),
        // 2 would be a later fragment that is none.
        Format::Frag => matches!(value, 0 | 1 | 3),
        _ => value & !field.exact_mask() == 0,
    };
    need(good, || {
        let reason = format!("{value:#x} is not a valid value of {}", field.name());
        Refusal::new(BAD_ARGUMENT, reason)
    })
}

/// Whether there are such bits in what `NAME[]` means.
pub(crate) fn bits(sub: Subfield) -> Rule {
    let Subfield { field, start, len } = sub;
    let bits = field.named_bits();
    need(len != 0 && u32::from(start) + u32::from(len) <= u32::from(bits), || {
        let reason = format!("{} has no {len} bits from bit {start}: it has {bits}", field.name());
        Refusal::new("OFPBAC_BAD_SET_LEN", reason)
    })
}

/// Bits that are copied to bits.
pub(crate) fn as_many(from: Subfield, to: Subfield) -> Rule {
    need(from.len == to.len, || {
        let reason = format!("{} bits do not fit into {} bits: they must be as many", from.len, to.len);
        Refusal::new(BAD_ARGUMENT, reason).hint("give as many bits on both sides: reg0[0..15]->reg1[0..15]")
    })
}

/// Where an action leaves a yes or no.
pub(crate) fn one_bit(sub: Subfield, action: &str) -> Rule {
    need(sub.len == 1, || {
        Refusal::new(BAD_ARGUMENT, format!("{action} writes one bit, not {} bits", sub.len)).hint("FIELD[BIT]")
    })
}

pub(crate) fn dec_ttl(ids: usize) -> Rule {
    need(ids <= limits::MAX_CONTROLLERS, || {
        Refusal::new(BAD_ARGUMENT, format!("dec_ttl tells at most {} controllers", limits::MAX_CONTROLLERS))
    })
}

pub(crate) fn push_vlan(tpid: u16) -> Rule {
    need(matches!(tpid, ETH_VLAN | ETH_QINQ), || {
        let refusal = Refusal::new(BAD_ARGUMENT, format!("{tpid:#x} is no VLAN tag's type"));
        refusal.hint("0x8100 or 0x88a8").field("push_vlan")
    })
}

pub(crate) fn resubmit(port: Option<PortNo>, table: Option<u8>) -> Rule {
    need(port.is_some() || table.is_some(), || {
        let reason = "resubmit has neither a port nor a table: it would only run the same flow again";
        let hint = "resubmit:PORT, resubmit(,TABLE) or resubmit(PORT,TABLE)";
        Refusal::new(BAD_ARGUMENT, reason).hint(hint).field("resubmit")
    })?;
    table.map_or(Ok(()), known_table)?;
    port.map_or(Ok(()), port_number)
}

/// Whether flows can be in a table.
///
/// # Errors
/// When they cannot.
pub fn known_table(table: u8) -> Rule {
    need(table <= limits::MAX_TABLE, || {
        let reason = format!("table {table} is not for flows: tables are 0 to {}", limits::MAX_TABLE);
        Refusal::new("OFPBRC_EPERM", reason).hint("a number from 0 to 253, or a table's name").field("table")
    })
}

/// Links of a multipath, and the bits for their numbers.
pub(crate) fn links(links: u16, bits: u8) -> Rule {
    need(links != 0, || Refusal::new(BAD_ARGUMENT, "multipath needs at least one link"))?;
    need(bits >= 16 || u32::from(links) <= 1 << bits, || {
        let refusal = Refusal::new(BAD_ARGUMENT, format!("{links} links do not fit into {bits} bits"));
        refusal.hint("give fewer links, or more bits to the result")
    })
}

/// Members of a bundle, and the bits for their numbers.
pub(crate) fn members(members: usize, to: Option<Subfield>) -> Rule {
    need(members <= limits::MAX_MEMBERS, || {
        Refusal::new(BAD_ARGUMENT, format!("a bundle has at most {} members, not {members}", limits::MAX_MEMBERS))
    })?;
    need(to.is_none_or(|to| to.len >= 16), || {
        let bits = to.map_or(0, |to| to.len);
        let refusal = Refusal::new(BAD_ARGUMENT, format!("bundle_load: a port does not fit into {bits} bits"));
        refusal.hint("give bundle_load at least 16 bits")
    })
}

pub(crate) fn conjunction(clause: u64, clauses: u64) -> Rule {
    let (least, most) = (u64::from(*limits::CLAUSES.start()), u64::from(*limits::CLAUSES.end()));
    let refuse = |reason, hint| Refusal::new("NXBAC_BAD_CONJUNCTION", reason).hint(hint).field("conjunction");
    need((least..=most).contains(&clauses), || {
        refuse(format!("a conjunction of {clauses} clauses"), format!("give it {least} to {most}"))
    })?;
    need((1..=clauses).contains(&clause), || {
        refuse(format!("clause {clause} of {clauses}"), format!("clauses count from 1 to {clauses}"))
    })
}

pub(crate) fn sample(probability: u16) -> Rule {
    need(probability != 0, || {
        let refusal = Refusal::new(BAD_ARGUMENT, "sample has no probability");
        refusal.hint("probability=1 to 65535, of 65535 packets").field("sample")
    })
}

pub(crate) fn delete_field(field: Field) -> Rule {
    need((Field::TunMetadata0..=Field::TunMetadata7).contains(&field), || {
        let refusal = Refusal::new(BAD_ARGUMENT, format!("{} cannot be deleted", field.name()));
        refusal.hint("tun_metadata0 to tun_metadata7 can").field("delete_field")
    })
}

/// The arguments of `ct` that need others. `changes`: whether it has an exec, or translates by
/// itself.
pub(crate) fn commit(commit: bool, force: bool, changes: bool) -> Rule {
    let refuse = |reason: &str, hint: &str| Refusal::new(BAD_ARGUMENT, reason).hint(hint).field("ct");
    need(commit || !force, || refuse("ct: force needs commit", "ct(commit,force)"))?;
    need(commit || !changes, || refuse("ct: exec(...), nat(src=...) and nat(dst=...) need commit", "ct(commit,...)"))
}

/// Where a `ct` finds its zone.
pub(crate) fn zone(from: Subfield) -> Rule {
    need(from.len == 16, || {
        let refusal = Refusal::new("OFPBAC_BAD_SET_LEN", format!("a zone has 16 bits, not {} bits", from.len));
        refusal.hint("zone=reg0[0..15]").field("zone")
    })
}

/// What a `nat` may have beside each other.
pub(crate) fn nat(nat: &Nat) -> Rule {
    let refuse = |reason: &str, hint: &str| Refusal::new(BAD_ARGUMENT, reason).hint(hint).field("nat");
    let asks = nat.addresses.is_some() || nat.ports.is_some() || nat.hash || nat.random || nat.persistent;
    need(!(nat.hash && nat.random), || refuse("nat: hash and random exclude each other", "give one of them"))?;
    need(nat.source.is_some() || !asks, || {
        refuse("nat: addresses, ports and flags need src or dst", "nat(src=ADDRESS,random)")
    })
}

/// First and last address of a `nat`.
pub(crate) fn addresses(first: IpAddr, last: IpAddr) -> Rule {
    need(first.is_ipv4() == last.is_ipv4() && first <= last, || {
        let refusal = Refusal::new(BAD_ARGUMENT, format!("nat: {first} to {last} is no range of addresses"));
        refusal.hint("the first one first, both of one version of IP").field("nat")
    })
}

/// First and last port of a `nat`.
pub(crate) fn ports(first: u16, last: u16) -> Rule {
    need(first <= last, || {
        let refusal = Refusal::new(BAD_ARGUMENT, format!("nat: {first} to {last} is no range of ports"));
        refusal.hint("the first one first").field("nat")
    })
}

/// The number of elements of a `learn`.
pub(crate) fn learned(specs: usize) -> Rule {
    need(specs <= limits::MAX_LEARN_SPECS, || {
        Refusal::new(BAD_ARGUMENT, format!("learn has more than {} elements", limits::MAX_LEARN_SPECS))
    })
}

/// A constant that a `learn` matches or loads.
pub(crate) fn constant(value: u128, bits: u8) -> Rule {
    need(bits >= 128 || value >> bits == 0, || {
        let refusal = Refusal::new(BAD_ARGUMENT, format!("learn: {value:#x} does not fit into {bits} bits"));
        refusal.hint(format!("at most {:#x}", u128::MAX >> (128 - u32::from(bits.clamp(1, 128)))))
    })
}

/// A field that a `learn` matches or loads: those without a name in OpenFlow (`dl_vlan`) have no
/// place there.
pub(crate) fn addressable(field: Field) -> Rule {
    let info = field.info();
    need(!info.nxm.is_empty() || !info.oxm.is_empty(), || {
        let refusal = Refusal::new(BAD_ARGUMENT, format!("{} has no place in learn", field.name()));
        refusal.hint("vlan_tci[0..11] is the VLAN ID")
    })
}
