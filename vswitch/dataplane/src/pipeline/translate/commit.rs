//! From written bits to ops, before the packet goes anywhere.

use super::view::{View, eth_type, proto};
use crate::action::{Masked, Op, SetArp, SetEth, SetIcmp, SetIpv4, SetIpv6, SetNd, SetPorts};
use vswitch_flow::{Field, FlowMask};

macro_rules! narrow {
    ($($name:ident $type:ty),*) => {
        $(
            #[allow(clippy::cast_possible_truncation)] // fields are not wider
            const fn $name((value, mask): (u128, u128)) -> Masked<$type> {
                Masked { value: value as $type, mask: mask as $type }
            }
        )*
    };
}

narrow!(to_8 u8, to_16 u16, to_32 u32, to_64 u64);

const fn to_128((value, mask): (u128, u128)) -> Masked<u128> {
    Masked { value, mask }
}

impl View {
    /// Hands out the ops that make the packet look like the key, and notes that it does.
    pub(super) fn commit(&mut self, mut op: impl FnMut(Op)) {
        self.commit_eth(&mut op);
        self.packet.tags.commit(&mut op);
        self.commit_rest(&mut op);
    }

    /// Likewise, but VLAN tags stay as they are: the packet keeps its length.
    pub(super) fn commit_in_place(&mut self, mut op: impl FnMut(Op)) {
        self.commit_eth(&mut op);
        self.commit_rest(&mut op);
    }

    /// Value and mask of what was written to a field. The value is 0 outside the mask.
    fn take(&mut self, field: Field) -> (u128, u128) {
        let mask = self.packet.pending.get(field);
        self.packet.pending.set(field, 0);
        (self.packet.key.get(field) & mask, mask)
    }

    fn commit_eth(&mut self, op: &mut impl FnMut(Op)) {
        let set = SetEth { dst: to_64(self.take(Field::EthDst)), src: to_64(self.take(Field::EthSrc)) };
        if set.dst.mask | set.src.mask != 0 {
            op(Op::SetEth(Box::new(set)));
        }
    }

    fn commit_rest(&mut self, op: &mut impl FnMut(Op)) {
        if self.packet.pending.map() == 0 {
            return;
        }
        // Open vSwitch takes a protocol (or ARP operation) of 0 for "no header", whatever was
        // written.
        if self.read(Field::NwProto) != 0 {
            match self.read(Field::EthType) {
                eth_type::IP => self.commit_ipv4(op),
                eth_type::IPV6 => {
                    self.commit_ipv6(op);
                    self.commit_nd(op);
                }
                eth_type::ARP => self.commit_arp(op),
                _ => {}
            }
            if self.is_ip() {
                self.commit_l4(op);
            }
        }
        self.packet.pending = FlowMask::default();
    }

    fn commit_ipv4(&mut self, op: &mut impl FnMut(Op)) {
        let set = SetIpv4 {
            src: to_32(self.take(Field::NwSrc)),
            dst: to_32(self.take(Field::NwDst)),
            tos: to_8(self.take(Field::NwTos)),
            ttl: to_8(self.take(Field::NwTtl)),
        };
        if set.src.mask | set.dst.mask != 0 || set.tos.mask | set.ttl.mask != 0 {
            op(Op::SetIpv4(Box::new(set)));
        }
    }

    fn commit_ipv6(&mut self, op: &mut impl FnMut(Op)) {
        let set = SetIpv6 {
            src: to_128(self.take(Field::Ipv6Src)),
            dst: to_128(self.take(Field::Ipv6Dst)),
            label: to_32(self.take(Field::Ipv6Label)),
            tclass: to_8(self.take(Field::NwTos)),
            hop_limit: to_8(self.take(Field::NwTtl)),
        };
        if set.src.mask | set.dst.mask != 0 || set.label.mask != 0 || set.tclass.mask | set.hop_limit.mask != 0 {
            op(Op::SetIpv6(Box::new(set)));
        }
    }

    fn commit_nd(&mut self, op: &mut impl FnMut(Op)) {
        if self.read(Field::NwProto) != proto::ICMPV6 {
            return;
        }
        let set = SetNd {
            target: to_128(self.take(Field::NdTarget)),
            sll: to_64(self.take(Field::NdSll)),
            tll: to_64(self.take(Field::NdTll)),
            reserved: to_32(self.take(Field::NdReserved)),
            options_type: to_8(self.take(Field::NdOptionsType)),
        };
        let links = set.sll.mask | set.tll.mask;
        if set.target.mask != 0 || links != 0 || set.reserved.mask != 0 || set.options_type.mask != 0 {
            op(Op::SetNd(Box::new(set)));
        }
    }

    fn commit_arp(&mut self, op: &mut impl FnMut(Op)) {
        let mut set = SetArp {
            op: to_16(self.take(Field::ArpOp)),
            spa: to_32(self.take(Field::ArpSpa)),
            tpa: to_32(self.take(Field::ArpTpa)),
            sha: to_64(self.take(Field::ArpSha)),
            tha: to_64(self.take(Field::ArpTha)),
        };
        if set.op.mask == 0xff {
            // A key holds the low half; the high one of a known operation is 0
            set.op.mask = 0xffff;
        }
        if set.op.mask != 0 || set.spa.mask | set.tpa.mask != 0 || set.sha.mask | set.tha.mask != 0 {
            op(Op::SetArp(Box::new(set)));
        }
    }

    fn commit_l4(&mut self, op: &mut impl FnMut(Op)) {
        match self.read(Field::NwProto) {
            proto::TCP | proto::UDP | proto::SCTP => {
                let set = SetPorts { src: to_16(self.take(Field::TpSrc)), dst: to_16(self.take(Field::TpDst)) };
                if set.src.mask | set.dst.mask != 0 {
                    op(Op::SetPorts(Box::new(set)));
                }
            }
            protocol @ (proto::ICMP | proto::ICMPV6) => {
                let family = if protocol == proto::ICMP { eth_type::IP } else { eth_type::IPV6 };
                let set = SetIcmp { kind: to_8(self.take(Field::IcmpType)), code: to_8(self.take(Field::IcmpCode)) };
                if set.kind.mask | set.code.mask != 0 && self.read(Field::EthType) == family {
                    op(Op::SetIcmp(Box::new(set)));
                }
            }
            _ => {}
        }
    }
}
