//! A packet while ops are applied to it, and where its headers lie.

use super::{Op, arp, ethernet, ip, l4, nd};
use crate::observe::DropReason;
use crate::packet::{Headers, checksum, ethertype, icmp, tcp, udp};
use vswitch_dpdk::{Csum, Mbuf};
use vswitch_flow::extract::Layers;

/// Not there ([`Layers`]).
const ABSENT: u16 = u16::MAX;

/// Bytes of a TCP header without options (RFC 9293).
pub(crate) const TCP_LEN: usize = 20;
/// Bytes of a UDP header (RFC 768).
pub(crate) const UDP_LEN: usize = 8;

/// IPv6 extension headers (RFC 8200, 4; RFC 4302) that are walked over.
pub(crate) mod extension {
    pub(crate) const HOP_BY_HOP: u8 = 0;
    pub(crate) const ROUTING: u8 = 43;
    pub(crate) const FRAGMENT: u8 = 44;
    pub(crate) const AUTHENTICATION: u8 = 51;
    pub(crate) const DESTINATION: u8 = 60;
}

/// What the extension headers of an IPv6 packet say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Protocol behind them: the last next header.
    pub(crate) protocol: u8,
    /// A routing header has segments left, so that the destination address is not part of L4
    /// checksums.
    pub(crate) routed: bool,
    /// Where the fragment header is, from the packet's front; the last one of several. Those of
    /// atomic fragments (RFC 6946) are none.
    pub(crate) fragment: Option<usize>,
    /// How many.
    pub(crate) fragments: usize,
}

/// A packet under execution. The layers are those of its bytes, at every moment.
#[derive(Debug)]
pub struct Packet {
    /// Its bytes. Headers that are to be rewritten lie in the first segment.
    pub mbuf: Mbuf,
    /// Where its headers lie.
    pub layers: Layers,
}

/// The L4 header of a packet, where one may be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct L4Header {
    /// Where it starts, from the packet's front.
    pub(super) at: usize,
    /// Bytes of it and its payload; padding is none of them.
    pub(super) size: usize,
    /// Protocol number: the last next header of IPv6.
    pub(super) protocol: u8,
    /// IPv6: a routing header has segments left, so that the destination address is not part of the
    /// checksum.
    pub(super) routed: bool,
}

impl Packet {
    /// Applies an op that changes bytes. Other ops are the executor's own and change nothing here.
    ///
    /// # Errors
    /// Why the packet dies of it.
    pub fn rewrite(&mut self, op: &Op) -> Result<(), DropReason> {
        match op {
            Op::SetEth(set) => ethernet::set_eth(self, set),
            Op::PushVlan { tpid, tci } => return ethernet::push_vlan(self, *tpid, *tci),
            Op::PopVlan => ethernet::pop_vlan(self),
            Op::SetVlanTci(tci) => ethernet::set_vlan_tci(self, tci),
            Op::SetIpv4(set) => ip::set_ipv4(self, set),
            Op::SetIpv6(set) => ip::set_ipv6(self, set),
            Op::SetPorts(set) => l4::set_ports(self, set),
            Op::SetIcmp(set) => l4::set_icmp(self, set),
            Op::SetArp(set) => arp::set_arp(self, set),
            Op::SetNd(set) => nd::set_nd(self, set),
            Op::Output(_)
            | Op::OutputTruncated(..)
            | Op::Crossed(..)
            | Op::Encap(_)
            | Op::Decap(_)
            | Op::Ask(_)
            | Op::Snoop(_)
            | Op::Meter(_)
            | Op::PacketIn(_)
            | Op::Clone(_)
            | Op::Ct(_)
            | Op::CtClear
            | Op::CtForget
            | Op::Reject(_)
            | Op::CheckLen(_) => {}
        }
        Ok(())
    }

    /// Raises the drop precedence of the packet's code point, as a meter's remark does.
    pub fn remark(&mut self, by: u8) {
        ip::remark(self, by);
    }

    /// Bytes of the packet, without what lies behind its IP packet: what `check_pkt_larger` looks
    /// at. Of one that a device will segment, those of a segment: no longer packet is ever sent.
    #[must_use]
    pub fn content_len(&self) -> usize {
        let whole = match self.layers.l3_end {
            ABSENT => self.mbuf.len(),
            end => self.mbuf.len().min(end.into()),
        };
        match self.mbuf.gso_size() {
            0 => whole,
            size => Headers::of(&self.mbuf).map_or(whole, |all| whole.min(all.payload_start() + usize::from(size))),
        }
    }

    /// Bytes `from..from + N` of the packet, if they are there.
    #[inline]
    pub(crate) fn bytes<const N: usize>(&self, from: usize) -> Option<&[u8; N]> {
        self.mbuf.head().get(from..)?.first_chunk()
    }

    /// [`Packet::bytes`], to write.
    #[inline]
    pub(crate) fn bytes_mut<const N: usize>(&mut self, from: usize) -> Option<&mut [u8; N]> {
        self.mbuf.head_mut().get_mut(from..)?.first_chunk_mut()
    }

    /// It has an L4 header, which was found behind headers of IP that are whole.
    #[inline]
    pub(crate) fn has_l4(&self) -> bool {
        self.layers.l4 != ABSENT
    }

    /// Where the L3 header starts.
    #[inline]
    pub(crate) fn l3(&self) -> Option<usize> {
        (self.layers.l3 != ABSENT).then_some(self.layers.l3.into())
    }

    /// The L3 header moved by a tag that was pushed (`by` > 0) or removed.
    pub(super) fn shift_layers(&mut self, by: i16) {
        for layer in [&mut self.layers.l3, &mut self.layers.l4, &mut self.layers.l3_end] {
            if *layer != ABSENT {
                *layer = layer.saturating_add_signed(by);
            }
        }
    }

    /// The type of what the L3 header is: the two bytes before it, of Ethernet II and of SNAP.
    pub(crate) fn l3_type(&self) -> Option<u16> {
        self.l3()?.checked_sub(2).and_then(|at| self.bytes(at)).map(|kind| u16::from_be_bytes(*kind))
    }

    /// The L4 header of an IP packet; none for a later fragment, which has none, and for a packet
    /// whose IP header is malformed.
    pub(super) fn l4(&self) -> Option<L4Header> {
        match self.l3_type()? {
            ethertype::IPV4 => self.l4_of_ipv4(),
            ethertype::IPV6 => self.l4_of_ipv6(),
            _ => None,
        }
    }

    fn l4_place(&self) -> Option<(usize, usize)> {
        let (at, end) = (usize::from(self.layers.l4), usize::from(self.layers.l3_end));
        let size = end.min(self.mbuf.len()).checked_sub(at)?;
        (self.layers.l4 != ABSENT).then_some((at, size))
    }

    pub(super) fn l4_of_ipv4(&self) -> Option<L4Header> {
        let header: &[u8; 20] = self.bytes(self.l3()?)?;
        let (at, size) = self.l4_place()?;
        let later = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
        (!later).then_some(L4Header { at, size, protocol: header[9], routed: false })
    }

    pub(super) fn l4_of_ipv6(&self) -> Option<L4Header> {
        let chain = self.chain_of_ipv6()?;
        let (at, size) = self.l4_place()?;
        let fragment = chain.fragment.and_then(|at| self.bytes::<8>(at));
        let later = fragment.is_some_and(|header| u16::from_be_bytes([header[2], header[3]]) & 0xfff8 != 0);
        (!later).then_some(L4Header { at, size, protocol: chain.protocol, routed: chain.routed })
    }

    /// Walks over the extension headers up to the L4 header that extraction found (of a later
    /// fragment: up to its part of the payload): bounded by it.
    pub(crate) fn chain_of_ipv6(&self) -> Option<Chain> {
        let l3 = self.l3()?;
        let header: &[u8; 40] = self.bytes(l3)?;
        let l4 = Some(usize::from(self.layers.l4)).filter(|_| self.layers.l4 != ABSENT)?;
        let (mut at, mut chain) = (l3 + 40, Chain { protocol: header[6], ..Chain::default() });
        while at < l4 {
            let front: &[u8; 8] = self.bytes(at)?;
            let len = match chain.protocol {
                extension::FRAGMENT => {
                    if front[2..4] != [0, 0] {
                        (chain.fragment, chain.fragments) = (Some(at), chain.fragments + 1);
                    }
                    8
                }
                extension::AUTHENTICATION => (usize::from(front[1]) + 2) * 4,
                extension::HOP_BY_HOP | extension::ROUTING | extension::DESTINATION => {
                    chain.routed |= chain.protocol == extension::ROUTING && front[3] > 0;
                    (usize::from(front[1]) + 1) * 8
                }
                _ => break,
            };
            at += len;
            chain.protocol = front[0];
        }
        Some(chain)
    }

    /// Adjusts the L4 checksum to an address that changes from `old` to `new`: TCP, UDP and, in
    /// IPv6, ICMPv6 cover the addresses.
    pub(super) fn readdress(&mut self, l4: L4Header, old: &[u8], new: &[u8]) {
        let v6 = old.len() == 16;
        let field = match l4.protocol {
            tcp::PROTOCOL if l4.size >= TCP_LEN => 16,
            udp::PROTOCOL if l4.size >= UDP_LEN => 6,
            icmp::PROTOCOL_V6 if v6 && l4.size >= 4 => 2,
            _ => return,
        };
        let partial = self.mbuf.csum() == Csum::Partial && l4.protocol != icmp::PROTOCOL_V6;
        let Some(field) = self.bytes_mut::<2>(l4.at + field) else { return };
        let before = u16::from_be_bytes(*field);
        let after = if partial {
            // The field holds the sum over the pseudo-header itself, not its complement.
            !checksum::update_bytes(!before, old, new)
        } else if l4.protocol == udp::PROTOCOL {
            udp_sum(before, |sum| checksum::update_bytes(sum, old, new))
        } else {
            checksum::update_bytes(before, old, new)
        };
        *field = after.to_be_bytes();
    }

    /// Adjusts the checksum at `at`, which covers bytes that change from `old` to `new`.
    pub(crate) fn adjust(&mut self, at: usize, old: &[u8], new: &[u8]) {
        if let Some(field) = self.bytes_mut::<2>(at) {
            *field = checksum::update_bytes(u16::from_be_bytes(*field), old, new).to_be_bytes();
        }
    }
}

/// A UDP checksum of 0 is none and stays; a result of 0 is written as all ones (RFC 768).
pub(crate) fn udp_sum(before: u16, update: impl FnOnce(u16) -> u16) -> u16 {
    match before {
        0 => 0,
        before => match update(before) {
            0 => 0xffff,
            after => after,
        },
    }
}

macro_rules! masked {
    ($($int:ty),*) => { $(
        impl super::Masked<$int> {
            /// The bits of `old` with those of the mask replaced.
            #[inline]
            #[must_use]
            pub const fn apply(&self, old: $int) -> $int {
                old & !self.mask | self.value & self.mask
            }

            /// Writes nothing.
            #[inline]
            #[must_use]
            pub const fn is_none(&self) -> bool {
                self.mask == 0
            }
        }
    )* };
}

masked!(u8, u16, u32, u64, u128);
