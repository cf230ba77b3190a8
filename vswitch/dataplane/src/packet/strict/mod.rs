//! What a strict port refuses: malformed packets, each for a named reason.
//!
//! **Where in the walk**: behind receive, before anything is looked up, and only for ports that are
//! strict (`strict = true` of a port or its bridge). What comes in by a patch port or from the
//! controller was made or looked at elsewhere. The default is what Open vSwitch does: nothing is
//! refused, broken headers have fields of 0 ([`vswitch_flow::extract`]).
//!
//! | case | input | default: what rules see | strict |
//! |---|---|---|---|
//! | P01 | frame of 0 to 13 bytes | `eth_short` | `eth_short` |
//! | | 14 bytes: a header and nothing else | its addresses and type | `eth_short` |
//! | P02 | longer than the port's MTU with its header | `oversize` | `oversize` |
//! | | headers cut into segments anywhere | as if in one piece | as if in one piece |
//! | P03 | VLAN tag cut off (802.1Q, 9.3) | type 0x8100, no tag | `vlan_short` |
//! | | 3 to 16 tags, priority tags, 0x88a8 inside 0x8100 | two tags, the rest is payload | as default |
//! | P04 | MPLS stack without bottom in 16 labels, or cut off (RFC 3032, 2.1) | its type | `mpls_depth` |
//! | P05 | IPv4 header or its lengths beyond the frame or in contradiction (RFC 791, 3.1; RFC 8200, 3) | `ip`, fields 0 | `ip_len` |
//! | | version 0 or 6 behind type 0x0800, other than 6 behind 0x86dd | as if the version were right | `ip_ver` |
//! | P06 | 1 to 1500 bytes of padding behind the IP packet | part of nothing, forwarded | as default |
//! | P07 | IPv4 option of length 0, 1, or past the header (RFC 791, 3.1) | not looked at | `ip_opt` |
//! | | record route or timestamp with a bad length or pointer | not looked at | `ip_opt` |
//! | | loose or strict source route (RFC 7126, 4.3 and 4.4) | not looked at | `ip_opt` |
//! | | 40 bytes of NOP, record route, timestamp | not looked at | as default |
//! | P08 | every protocol number | `nw_proto` | as default |
//! | P09 | TTL or hop limit 0 (RFC 1122, 3.2.1.7) | `nw_ttl=0` | `ttl` |
//! | | TTL 1 or 255; `dec_ttl` at 0 or 1 | ends its action list | as default |
//! | P10 | wrong IPv4 header checksum (RFC 1812, 5.2.2) | not looked at, never repaired | `csum` |
//! | | wrong TCP, UDP, ICMP, ICMPv6 checksum | not looked at | `csum` |
//! | P11 | TCP header cut off or data offset below 5 or past the end (RFC 9293, 3.1) | `tcp`, ports and flags 0 | `tcp_hdr` |
//! | | TCP option of length 0, 1, or past the header | not looked at | `tcp_hdr` |
//! | | flags that no TCP sends: SYN+FIN, SYN+RST, none, FIN without ACK (xmas) | `tcp_flags` | `tcp_hdr` |
//! | P12 | UDP header cut off; length 0, 7, other than the IP payload's (RFC 768) | ports, if 8 bytes are there | `udp_len` |
//! | | UDP checksum 0 over IPv6 (RFC 8200, 8.1) | not looked at | `csum` |
//! | - | ICMP or ICMPv6 header of less than 8 bytes | type and code 0 | `icmp_hdr` |
//! | P15 | neighbour discovery cut off, code not 0, hop limit not 255 (RFC 4861, 6.1 and 7.1) | what is there | `nd_opt` |
//! | | option of length 0, past the end, or the 33rd (RFC 4861, 4.6) | `nd_sll`, `nd_tll` 0 | `nd_opt` |
//! | | redirect, advertisement that lies | `nd_target` and addresses: for rules to judge | as default |
//! | P16 | 9 or more IPv6 extension headers (RFC 8504, 5.3), one cut off or past the end | all skipped; `ipv6` without fields | `ip6_ext` |
//! | | hop-by-hop options not first (RFC 8200, 4.1); malformed or more than 32 options (4.2) | skipped | `ip6_ext` |
//! | | jumbo payload (RFC 2675); routing type 0 (RFC 5095) | skipped | `ip6_ext` |
//! | | segment or home address routing that contradicts itself (RFC 8754, 4.3.1.1; RFC 6275, 6.4.1) | skipped | `ip6_ext` |
//! | | authentication header not of 16, 24, ... bytes (RFC 4302, 2.2) | skipped | `ip6_ext` |
//! | | no next header, with or without bytes behind it (RFC 8200, 4.7) | `nw_proto=59` | as default |
//! | P20 | ARP, RARP cut off; not Ethernet and IPv4 (RFC 826) | `arp`, fields 0 | `arp` |
//! | | sender's hardware address is a group's | `arp_sha` | `arp` |
//! | | address that moves between ports | the table counts it as moved | as default |
//! | P21 | more source addresses than the table or its port's quota holds ([`crate::pipeline::Fdb`]) | not learned, flooded | as default |
//! | P22 | LLDP, LACP, STP, BFD, IGMP, MLD, whatever is in them | for rules; NORMAL drops `reserved_multicast` | as default, never parsed |
//!
//! **Design**: one pass from the outside in, along the way that extraction goes: what rules see as
//! IP is judged as IP. Bytes are read across segments, so that it makes no difference where a
//! packet is cut. Fragments are judged up to their IP headers: what they carry is for reassembly.
//! So are encrypted payloads, tunnels and what MPLS carries for whoever unwraps them. A device's
//! word that an L4 checksum is good is believed, its word that it is bad is not; a partial one is
//! finished on the way out. The checksums of a GSO packet are those of the segments to be made of
//! it.
//!
//! **Limits**: [`crate::limits::STRICT_MPLS_LABELS_MAX`],
//! [`crate::limits::STRICT_IP6_EXTENSIONS_MAX`], [`crate::limits::STRICT_IP6_OPTIONS_MAX`],
//! [`crate::limits::STRICT_ND_OPTIONS_MAX`]; every loop ends by one of them, or with the 40 bytes
//! of IPv4 or TCP options.
//!
//! **Threads**: no state.

mod ip;
#[cfg(test)]
mod tests;
mod transport;

use super::ethertype;
use crate::limits::STRICT_MPLS_LABELS_MAX;
use crate::observe::DropReason;
use vswitch_dpdk::Mbuf;

/// VLAN tags that are parsed, as by extraction.
const TAGS_MAX: usize = 2;
/// Smallest Ethernet type; below it the number is a length (IEEE 802.3, 3.2.6).
const ETHERTYPE_MIN: u16 = 0x600;
const RARP: u16 = 0x8035;
const MPLS: u16 = 0x8847;
const MPLS_UPSTREAM: u16 = 0x8848;

/// Why a strict port refuses this packet; none: it may pass.
#[must_use]
pub fn check(mbuf: &Mbuf) -> Option<DropReason> {
    link(&Frame { head: mbuf.head(), mbuf }).err()
}

type Checked = Result<(), DropReason>;

/// Bytes of a packet, across its segments.
#[derive(Clone, Copy)]
struct Frame<'a> {
    /// The first segment: nearly always all that is read.
    head: &'a [u8],
    mbuf: &'a Mbuf,
}

impl Frame<'_> {
    fn len(&self) -> usize {
        self.mbuf.len()
    }

    /// `N` bytes from `at`; none where the packet is shorter.
    fn part<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        if let Some(part) = self.head.get(at..).and_then(<[u8]>::first_chunk) {
            return Some(*part);
        }
        let mut bytes = [0; N];
        self.mbuf.read(at, &mut bytes).then_some(bytes)
    }

    /// `N` bytes from `at` that end at `end` or before.
    fn part_within<const N: usize>(&self, at: usize, end: usize) -> Option<[u8; N]> {
        if at + N <= end { self.part(at) } else { None }
    }
}

/// The Ethernet header, its tags, and what follows.
fn link(frame: &Frame<'_>) -> Checked {
    let [high, low] = frame.part(12).filter(|_| frame.len() > 14).ok_or(DropReason::EthShort)?;
    let (mut kind, mut at) = (u16::from_be_bytes([high, low]), 14);
    for _ in 0..TAGS_MAX {
        if !ethertype::is_vlan(kind) {
            break;
        }
        let [_, _, high, low] = frame.part(at).ok_or(DropReason::VlanShort)?;
        (kind, at) = (u16::from_be_bytes([high, low]), at + 4);
    }
    // A SNAP header names a type too (IEEE 802, 10.5); other IEEE 802.2 frames are payload.
    if kind < ETHERTYPE_MIN
        && let Some([0xaa, 0xaa, 3, 0, 0, 0, high, low]) = frame.part(at)
    {
        (kind, at) = (u16::from_be_bytes([high, low]), at + 8);
    }
    match kind {
        ethertype::IPV4 => ip::v4(frame, at),
        ethertype::IPV6 => ip::v6(frame, at),
        ethertype::ARP | RARP => arp(frame, at),
        MPLS | MPLS_UPSTREAM => mpls(frame, at),
        _ => Ok(()),
    }
}

/// RFC 826, for Ethernet and IPv4; the sender is a host.
fn arp(frame: &Frame<'_>, at: usize) -> Checked {
    match frame.part::<28>(at) {
        Some([0, 1, 8, 0, 6, 4, _, _, sender, ..]) if sender & 1 == 0 => Ok(()),
        _ => Err(DropReason::Arp),
    }
}

/// A label stack that has a bottom.
fn mpls(frame: &Frame<'_>, at: usize) -> Checked {
    for i in 0..STRICT_MPLS_LABELS_MAX {
        let [_, _, bottom, _] = frame.part(at + 4 * i).ok_or(DropReason::MplsDepth)?;
        if bottom & 1 != 0 {
            return Ok(());
        }
    }
    Err(DropReason::MplsDepth)
}

/// Options as IPv4 and TCP have them: 0 ends them, 1 is one byte, all others have a length. False
/// where a length is wrong or `fits` says no to the kind and its bytes. Ends because every step
/// takes a byte of 40 at most.
fn options(mut bytes: &[u8], fits: impl Fn(u8, &[u8]) -> bool) -> bool {
    loop {
        match bytes {
            [] | [0, ..] => return true,
            [1, rest @ ..] => bytes = rest,
            [kind, len, ..] => match bytes.split_at_checked(usize::from(*len)) {
                Some((option, rest)) if option.len() >= 2 && fits(*kind, option) => bytes = rest,
                _ => return false,
            },
            [_] => return false,
        }
    }
}
