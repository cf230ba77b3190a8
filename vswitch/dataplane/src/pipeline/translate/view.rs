//! The packet as translation sees it: what it would look like now, and which bits of the packet
//! that came in that depends on.
//!
//! **Design**: every bit of the key is either *written* (by an action: its value is the same for
//! every packet of the megaflow) or still that of the packet that came in. Reading a bit that is
//! not written adds it to the mask. So a constant write never un-wildcards what it overwrites, and
//! a match on what an action wrote does not narrow the megaflow.

use super::tags::Tags;
use vswitch_flow::action::port;
use vswitch_flow::{
    FIRST_PACKET_WORD, Field, FlowKey, FlowMask, LAST_PACKET_WORD, PacketKind, Subfield, WORDS, metadata_words,
};

/// Present bit of a TCI in a key.
pub(super) const PRESENT: u16 = 0x1000;

/// Ethertypes that actions know.
pub(super) mod eth_type {
    pub(in super::super) const IP: u128 = 0x0800;
    pub(in super::super) const ARP: u128 = 0x0806;
    pub(in super::super) const RARP: u128 = 0x8035;
    pub(in super::super) const IPV6: u128 = 0x86dd;
}

/// IP protocols that actions know.
pub(super) mod proto {
    pub(in super::super) const ICMP: u128 = 1;
    pub(in super::super) const IGMP: u128 = 2;
    pub(in super::super) const TCP: u128 = 6;
    pub(in super::super) const UDP: u128 = 17;
    pub(in super::super) const ICMPV6: u128 = 58;
    pub(in super::super) const SCTP: u128 = 132;
}

/// The 16-bit form of `in_port`.
const IN_PORT_16: Subfield = Subfield { field: Field::InPort, start: 0, len: 16 };

/// Bit of `nw_frag`: not the first fragment.
const FRAG_LATER: u128 = 2;

/// A packet on its way: what a clone copies.
#[derive(Clone, Debug, Default)]
pub(super) struct Packet {
    /// The packet as it is now.
    pub(super) key: FlowKey,
    /// Bits whose value is the translation's, not the packet's.
    pub(super) written: FlowMask,
    /// Bits of headers that were written since the last commit.
    pub(super) pending: FlowMask,
    /// VLAN tags likewise.
    pub(super) tags: Tags,
}

/// A packet on its way, and the bits used of the one that came in.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) packet: Packet,
    pub(super) mask: FlowMask,
    /// Of the packet that came in.
    kind: PacketKind,
}

impl View {
    /// Of a packet that comes in. Metadata and registers are the pipeline's own: they count as
    /// written.
    pub(super) fn new(key: &FlowKey) -> Self {
        let packet = Packet { key: key.clone(), ..Packet::default() };
        let mut view = Self { packet, mask: FlowMask::default(), kind: PacketKind::of(key) };
        view.packet.key.set(Field::ActsetOutput, u128::from(port::UNSET));
        view.packet.key.set(Field::ConjId, 0);
        if key.get(Field::DpHash) == 0 {
            // Of a packet that somebody made up.
            view.packet.key.set(Field::DpHash, super::dp_hash(key).into());
        }
        for field in [Field::Metadata, Field::Xxreg0, Field::Xxreg1, Field::Xxreg2, Field::Xxreg3] {
            view.packet.written.add(field);
        }
        view.packet.written.add(Field::ActsetOutput);
        view.packet.written.add(Field::ConjId);
        // What Open vSwitch always looks at.
        view.read(Field::InPort);
        view.read(Field::RecircId);
        view.read(Field::EthType);
        if view.is_ip() {
            view.read_bits(Field::NwFrag, 3);
        }
        view
    }

    /// A field, whose value decides something.
    pub(super) fn read(&mut self, field: Field) -> u128 {
        self.read_bits(field, field.ones())
    }

    /// Some bits of a field, in place.
    pub(super) fn read_bits(&mut self, field: Field, bits: u128) -> u128 {
        self.mask.add_bits(field, bits & !self.packet.written.get(field));
        self.packet.key.get(field) & bits
    }

    /// A subfield, as a number.
    pub(super) fn read_sub(&mut self, sub: Subfield) -> u128 {
        self.read_bits(sub.field, sub.mask() & sub.field.own_bits()) >> sub.start
    }

    /// Notes that a decision used these bits of the key.
    pub(super) fn used(&mut self, used: &FlowMask) {
        for i in 0..WORDS {
            self.mask.0[i] |= used.0[i] & !self.packet.written.0[i];
        }
    }

    /// Writes bits of a field. The caller knows that the packet has it ([`View::has`]).
    pub(super) fn write(&mut self, field: Field, value: u128, bits: u128) {
        let bits = bits & field.own_bits();
        match field {
            Field::VlanTci | Field::VlanVid | Field::VlanPcp => self.write_tci(field, value, bits),
            // As OpenFlow 1.0 has it: a VLAN id means that there is a tag.
            Field::DlVlan => {
                let present = u128::from(PRESENT);
                self.write_tci(Field::VlanTci, value & 0xfff | present, bits | present);
            }
            Field::VlanTpid0 | Field::VlanTpid1 | Field::VlanTci1 => {}
            // The 16-bit form stands for the whole port: reserved ones are the highest of either
            // width.
            Field::InPort if bits == IN_PORT_16.mask() => {
                let mut key = FlowKey::default();
                key.set_sub(IN_PORT_16, value);
                self.write_plain(field, key.get(field), field.ones());
            }
            _ => self.write_plain(field, value, bits),
        }
    }

    fn write_plain(&mut self, field: Field, value: u128, bits: u128) {
        let packet = &mut self.packet;
        // What was written before and has this value need not be written again.
        let changes = bits & (!packet.written.get(field) | packet.key.get(field) ^ value) != 0;
        packet.key.set_masked(field, value, bits);
        packet.written.add_bits(field, bits);
        if changes && (FIRST_PACKET_WORD..LAST_PACKET_WORD).contains(&usize::from(field.location().word)) {
            packet.pending.add_bits(field, bits);
        }
        if let Some(option) = super::tunnel::option_of(field) {
            self.set_option(option, true);
        }
    }

    /// Writes a number to a subfield; what does not fit is cut off.
    pub(super) fn write_sub(&mut self, sub: Subfield, value: u128) {
        self.write(sub.field, value << sub.start, sub.mask());
    }

    /// Sets a field that is no part of the packet's bytes to 0.
    pub(super) fn clear(&mut self, field: Field) {
        self.packet.key.set(field, 0);
        self.packet.written.add(field);
        if let Some(option) = super::tunnel::option_of(field) {
            self.set_option(option, false);
        }
    }

    /// Values of some bits of the metadata, and these bits: those that `bits` says of each word.
    pub(super) fn metadata(&self, bits: impl Fn(usize) -> u64) -> (FlowKey, FlowMask) {
        let (mut metadata, mut defined) = (FlowKey::default(), FlowMask::default());
        for i in metadata_words() {
            defined.0[i] = bits(i);
            metadata.0[i] = self.packet.key.0[i] & defined.0[i];
        }
        (metadata, defined)
    }

    /// The key without what only translation knows.
    pub(super) fn end(&self) -> FlowKey {
        let mut key = self.packet.key.clone();
        key.set(Field::ActsetOutput, 0);
        key.set(Field::DpHash, 0);
        key
    }

    /// Adds what tells that the used bits are there at all (a TCI's present bit, the protocol above
    /// ports and the like), and takes out those of fields that the packet does not have.
    pub(super) fn close_mask(&mut self) {
        for tci in [Field::VlanTci, Field::VlanTci1] {
            if self.mask.get(tci) != 0 {
                self.mask.add_bits(tci, u128::from(PRESENT));
            }
        }
        // Of the packet as it came in, whatever was written since.
        self.mask.close_protocol(self.kind);
    }

    /// Whether the packet has a field (`mf_are_prereqs_ok` of Open vSwitch). What decides that is
    /// used.
    pub(super) fn has(&mut self, field: Field) -> bool {
        use Field as F;
        match field {
            F::VlanPcp => self.is_tagged(),
            F::ArpSpa | F::ArpTpa | F::ArpSha | F::ArpTha | F::ArpOp => {
                matches!(self.read(F::EthType), eth_type::ARP | eth_type::RARP)
            }
            F::NwSrc | F::NwDst => self.read(F::EthType) == eth_type::IP,
            F::Ipv6Src | F::Ipv6Dst | F::Ipv6Label => self.read(F::EthType) == eth_type::IPV6,
            F::NwTos | F::IpDscp | F::NwEcn | F::NwTtl | F::NwProto | F::NwFrag => self.is_ip(),
            F::TpSrc | F::TpDst => self.is_ip() && self.l4_of(|_| true),
            F::TcpSrc | F::TcpDst | F::TcpFlags => self.is_ip() && self.l4_of(|p| p == proto::TCP),
            F::UdpSrc | F::UdpDst => self.is_ip() && self.l4_of(|p| p == proto::UDP),
            F::SctpSrc | F::SctpDst => self.is_ip() && self.l4_of(|p| p == proto::SCTP),
            F::IcmpType | F::IcmpCode => self.read(F::EthType) == eth_type::IP && self.l4_of(|p| p == proto::ICMP),
            F::IgmpGroup => self.read(F::EthType) == eth_type::IP && self.l4_of(|p| p == proto::IGMP),
            F::Icmpv6Type | F::Icmpv6Code => self.is_icmpv6(),
            F::NdTarget | F::NdReserved | F::NdOptionsType => self.is_nd(|kind| matches!(kind, 135 | 136)),
            F::NdSll => self.is_nd(|kind| kind == 135),
            F::NdTll => self.is_nd(|kind| kind == 136),
            _ => true,
        }
    }

    /// It has a VLAN tag.
    pub(super) fn is_tagged(&mut self) -> bool {
        self.read_bits(Field::VlanTci, u128::from(PRESENT)) != 0
    }

    /// IPv4 or IPv6.
    pub(super) fn is_ip(&mut self) -> bool {
        matches!(self.read(Field::EthType), eth_type::IP | eth_type::IPV6)
    }

    /// The IP protocol is one of these, and the L4 header is in this packet.
    pub(super) fn l4_of(&mut self, accept: impl Fn(u128) -> bool) -> bool {
        accept(self.read(Field::NwProto)) && self.read_bits(Field::NwFrag, FRAG_LATER) == 0
    }

    fn is_icmpv6(&mut self) -> bool {
        self.read(Field::EthType) == eth_type::IPV6 && self.l4_of(|p| p == proto::ICMPV6)
    }

    fn is_nd(&mut self, accept: impl Fn(u128) -> bool) -> bool {
        self.is_icmpv6() && self.read(Field::TpDst) == 0 && accept(self.read(Field::TpSrc))
    }

    /// Number of the port that it came from, as actions see it.
    #[allow(clippy::cast_possible_truncation)] // 32 bits
    pub(super) fn in_port(&mut self) -> u32 {
        self.read(Field::InPort) as u32
    }
}
