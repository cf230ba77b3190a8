//! Packets from keys.

use crate::field::number::*;
use crate::{Field, FlowKey, checksum};

/// Bytes of payload, counting up from 0, where a packet of this kind would have some.
const PAYLOAD: u8 = 64;

/// Offset of later fragments, in units of 8 bytes.
const LATER_OFFSET: u16 = 100;
/// IPv4's flag "more fragments".
const MORE_FRAGMENTS: u16 = 0x2000;
/// IPv6's fragment header.
const FRAGMENT: u8 = 44;
/// IPv6: nothing follows.
const NO_NEXT: u8 = 59;

/// Bytes of a packet that a key describes (`flow_compose` of OVS): what trace runs on when it is
/// given a flow. Checksums are right, and [`crate::extract::extract`] makes the same key of the
/// bytes, if a well-formed packet can have it.
#[must_use]
pub fn compose(key: &FlowKey) -> Vec<u8> {
    let mut out = Vec::with_capacity(160);
    let key = Key(key);
    out.extend(&key.0.get(Field::EthDst).to_be_bytes()[10..]);
    out.extend(&key.0.get(Field::EthSrc).to_be_bytes()[10..]);
    for (tci, tpid) in [(Field::VlanTci, Field::VlanTpid0), (Field::VlanTci1, Field::VlanTpid1)] {
        if key.u16(tci) & VLAN_PRESENT != 0 {
            let tpid = key.u16(tpid);
            out.extend((if tpid == 0 { ETH_VLAN } else { tpid }).to_be_bytes());
            out.extend((key.u16(tci) & !VLAN_PRESENT).to_be_bytes());
        }
    }
    let eth_type = key.u16(Field::EthType);
    if eth_type == ETH_NONE {
        // An unnumbered frame of the spanning tree's service access point.
        out.extend([0, 3, 0x42, 0x42, 0x03]);
        return out;
    }
    out.extend(eth_type.to_be_bytes());
    match eth_type {
        ETH_IPV4 => ipv4(key, &mut out),
        ETH_IPV6 => ipv6(key, &mut out),
        ETH_ARP | ETH_RARP => arp(key, &mut out),
        _ => {}
    }
    out
}

/// A key whose fields are read in the widths of headers.
#[derive(Clone, Copy)]
struct Key<'a>(&'a FlowKey);

#[allow(clippy::cast_possible_truncation)] // fields are not wider
impl Key<'_> {
    fn u8(self, field: Field) -> u8 {
        self.0.get(field) as u8
    }

    fn u16(self, field: Field) -> u16 {
        self.0.get(field) as u16
    }

    fn u32(self, field: Field) -> u32 {
        self.0.get(field) as u32
    }
}

fn arp(key: Key<'_>, out: &mut Vec<u8>) {
    out.extend([0, 1, 8, 0, 6, 4, 0, key.u8(Field::ArpOp)]);
    out.extend(&key.0.get(Field::ArpSha).to_be_bytes()[10..]);
    out.extend(key.u32(Field::ArpSpa).to_be_bytes());
    out.extend(&key.0.get(Field::ArpTha).to_be_bytes()[10..]);
    out.extend(key.u32(Field::ArpTpa).to_be_bytes());
}

fn ipv4(key: Key<'_>, out: &mut Vec<u8>) {
    let l3 = out.len();
    let fragment = match key.u8(Field::NwFrag) {
        0 => 0,
        frag if frag & FRAG_LATER == 0 => MORE_FRAGMENTS,
        _ => MORE_FRAGMENTS | LATER_OFFSET,
    };
    let proto = key.u8(Field::NwProto);
    out.extend([0x45, key.u8(Field::NwTos), 0, 0, 0, 0]);
    out.extend(fragment.to_be_bytes());
    out.extend([key.u8(Field::NwTtl), proto, 0, 0]);
    out.extend(key.u32(Field::NwSrc).to_be_bytes());
    out.extend(key.u32(Field::NwDst).to_be_bytes());
    let l4 = out.len();
    transport(key, out);
    let total = short(out.len() - l3);
    put16(out, l3 + 2, total);
    let sum = checksum::internet(&out[l3..l4], 0);
    put16(out, l3 + 10, sum);
    let pseudo = checksum::sum(&out[l3 + 12..l4]);
    finish_transport(key, l4, pseudo, out);
}

fn ipv6(key: Key<'_>, out: &mut Vec<u8>) {
    let l3 = out.len();
    let (frag, proto) = (key.u8(Field::NwFrag), key.u8(Field::NwProto));
    let first = 6 << 28 | u32::from(key.u8(Field::NwTos)) << 20 | key.u32(Field::Ipv6Label);
    out.extend(first.to_be_bytes());
    out.extend([0, 0, if frag == 0 { proto } else { FRAGMENT }, key.u8(Field::NwTtl)]);
    out.extend(key.0.get(Field::Ipv6Src).to_be_bytes());
    out.extend(key.0.get(Field::Ipv6Dst).to_be_bytes());
    let payload = out.len();
    if frag != 0 {
        let (next, offset) = if frag & FRAG_LATER == 0 { (proto, 1) } else { (NO_NEXT, LATER_OFFSET << 3 | 1) };
        out.extend([next, 0]);
        out.extend(offset.to_be_bytes());
        out.extend([0; 4]);
    }
    let l4 = out.len();
    transport(key, out);
    let length = short(out.len() - payload);
    put16(out, l3 + 4, length);
    let pseudo = checksum::sum(&out[l3 + 8..payload]);
    finish_transport(key, l4, pseudo, out);
}

/// The L4 header, with a checksum of 0, and a payload.
fn transport(key: Key<'_>, out: &mut Vec<u8>) {
    if key.u8(Field::NwFrag) & FRAG_LATER != 0 {
        return;
    }
    let (src, dst) = (key.u16(Field::TpSrc), key.u16(Field::TpDst));
    let [_, kind] = src.to_be_bytes();
    let [_, code] = dst.to_be_bytes();
    let ports = u32::from(src) << 16 | u32::from(dst);
    match key.u8(Field::NwProto) {
        IP_TCP => {
            let flags = key.u16(Field::TcpFlags) & 0xfff;
            out.extend(ports.to_be_bytes());
            out.extend([0; 8]);
            out.extend((5 << 12 | flags).to_be_bytes());
            out.extend([0; 6]);
            // SYN, FIN and RST carry nothing.
            out.extend(0..if flags & 0b111 == 0 { PAYLOAD } else { 0 });
        }
        IP_UDP => {
            out.extend(ports.to_be_bytes());
            out.extend([0, 8 + PAYLOAD, 0, 0]);
            out.extend(0..PAYLOAD);
        }
        IP_SCTP => {
            out.extend(ports.to_be_bytes());
            out.extend([0; 8]);
        }
        IP_ICMP => {
            out.extend([kind, code, 0, 0, 0, 0, 0, 0]);
            // Echo and its reply.
            out.extend(0..if matches!((kind, code), (0 | 8, 0)) { PAYLOAD } else { 0 });
        }
        IP_IGMP => {
            out.extend([kind, code, 0, 0]);
            out.extend(key.u32(Field::IgmpGroup).to_be_bytes());
        }
        IP_ICMPV6 => {
            out.extend([kind, code, 0, 0]);
            let nd = code == 0 && [ND_SOLICIT, ND_ADVERT].contains(&u16::from(kind));
            out.extend(if nd { key.u32(Field::NdReserved) } else { 0 }.to_be_bytes());
            if nd {
                neighbor(key, out);
            }
            out.extend(0..if matches!((kind, code), (128 | 129, 0)) { PAYLOAD } else { 0 });
        }
        _ => {}
    }
}

/// Target and options of neighbor discovery.
fn neighbor(key: Key<'_>, out: &mut Vec<u8>) {
    out.extend(key.0.get(Field::NdTarget).to_be_bytes());
    let mut options = [(1, key.0.get(Field::NdSll)), (2, key.0.get(Field::NdTll))];
    let first = key.u8(Field::NdOptionsType);
    if first == 2 {
        options.reverse();
    }
    for (kind, address) in options.into_iter().filter(|(kind, address)| *address != 0 || *kind == first) {
        out.extend([kind, 1]);
        out.extend(&address.to_be_bytes()[10..]);
    }
}

/// The checksum of the L4 header. `addresses`: sum of the IP addresses.
fn finish_transport(key: Key<'_>, l4: usize, addresses: u32, out: &mut [u8]) {
    if key.u8(Field::NwFrag) & FRAG_LATER != 0 {
        return;
    }
    let proto = key.u8(Field::NwProto);
    let pseudo = addresses + u32::from(proto) + u32::from(short(out.len() - l4));
    match proto {
        IP_TCP => put16(out, l4 + 16, checksum::internet(&out[l4..], pseudo)),
        // 0 would mean that there is none.
        IP_UDP => {
            put16(out, l4 + 6, Some(checksum::internet(&out[l4..], pseudo)).filter(|sum| *sum != 0).unwrap_or(0xffff));
        }
        IP_ICMP | IP_IGMP => put16(out, l4 + 2, checksum::internet(&out[l4..], 0)),
        IP_ICMPV6 => put16(out, l4 + 2, checksum::internet(&out[l4..], pseudo)),
        IP_SCTP => {
            let crc = checksum::crc32c(&out[l4..]).to_le_bytes();
            out[l4 + 8..l4 + 12].copy_from_slice(&crc);
        }
        _ => {}
    }
}

fn put16(out: &mut [u8], at: usize, value: u16) {
    out[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// A length; packets made here have less than 200 bytes.
#[allow(clippy::cast_possible_truncation)]
const fn short(length: usize) -> u16 {
    length as u16
}
