//! Fields that actions read and write.

use super::{BAD_ARGUMENT, BAD_SET, Check, Checker, INCONSISTENT, refuse};
use crate::field::number::VLAN_PRESENT;
use crate::{Field, FlowKey, FlowMask, Subfield};

impl Checker<'_> {
    /// A field that must be there, and what of it is needed.
    pub(super) fn need(&mut self, field: Field, what: &str) -> Check {
        match self.facts() {
            Some((key, mask)) if !field.prerequisites_met(key, mask) => {
                refuse(INCONSISTENT, format!("{what} is only there in a flow that matches {}", wanted(field)))
            }
            _ => Ok(()),
        }
    }

    /// Bits that an action reads.
    pub(super) fn source(&mut self, sub: Subfield) -> Check {
        bits(sub)?;
        match self.facts() {
            Some((key, mask)) => readable(sub.field, key, mask),
            None => Ok(()),
        }
    }

    /// Bits that an action writes.
    pub(super) fn target(&mut self, sub: Subfield) -> Check {
        bits(sub)?;
        writable(sub.field)?;
        self.source(sub)
    }

    pub(super) fn one_bit(&mut self, sub: Subfield, action: &str) -> Check {
        if sub.len != 1 {
            return refuse(BAD_ARGUMENT, format!("{action} writes one bit, not {}", sub.len));
        }
        self.target(sub)
    }

    pub(super) fn copy(&mut self, from: Subfield, to: Subfield) -> Check {
        self.source(from)?;
        self.target(to)?;
        if from.len != to.len {
            return refuse(
                BAD_ARGUMENT,
                format!("{} bits do not fit into {} bits: they must be as many", from.len, to.len),
            );
        }
        Ok(())
    }

    pub(super) fn set_field(&mut self, field: Field, value: u128, mask: u128) -> Check {
        writable(field)?;
        let present = u128::from(VLAN_PRESENT);
        if value & !field.ones() != 0 {
            return refuse(
                BAD_SET,
                format!("{value:#x} is too wide for the {} bits of {}", field.width(), field.name()),
            );
        }
        if value & !mask != 0 {
            return refuse("OFPBMC_BAD_WILDCARDS", format!("value {value:#x} has bits outside of mask {mask:#x}"));
        }
        if field == Field::VlanVid && value & mask & present == 0 {
            let reason = "vlan_vid is set with bit 4096, the tag's presence, in value and mask: 4096 + VLAN ID";
            return refuse(BAD_SET, reason);
        }
        if field == Field::NwTos && value & !Field::NwTos.exact_mask() != 0 {
            return refuse(BAD_SET, format!("{value} is no nw_tos: a multiple of 4, the lowest two bits are nw_ecn"));
        }
        match field {
            Field::TpSrc | Field::TpDst => self.set_port()?,
            Field::VlanVid if self.is_checked() && !self.has_tag(0) => {
                return refuse(
                    INCONSISTENT,
                    "vlan_vid is only there behind push_vlan or in a flow that matches dl_vlan=N",
                );
            }
            _ => self.source(Subfield::whole(field))?,
        }
        if field == Field::VlanTci {
            self.set_tag(0, value & present != 0);
        }
        Ok(())
    }

    /// `mod_tp_src`, `mod_tp_dst`.
    fn set_port(&mut self) -> Check {
        if self.delayed {
            return Ok(());
        }
        match self.facts() {
            Some((key, mask))
                if ![Field::TcpSrc, Field::UdpSrc, Field::SctpSrc]
                    .iter()
                    .any(|port| port.prerequisites_met(key, mask)) =>
            {
                refuse(INCONSISTENT, "ports are only there in a flow that matches tcp, udp, sctp or their IPv6 forms")
            }
            _ => Ok(()),
        }
    }
}

/// What a field's existence asks of a match.
fn wanted(field: Field) -> &'static str {
    field.info().prerequisite.describe()
}

/// Whether there are such bits in the field.
pub(super) fn bits(sub: Subfield) -> Check {
    let Subfield { field, start, len } = sub;
    let width = field.width().max(field.info().bits.into());
    if len == 0 || u32::from(start) + u32::from(len) > width {
        let reason = format!("{} has no {len} bits from bit {start}: it has {width}", field.name());
        return refuse("OFPBAC_BAD_SET_LEN", reason);
    }
    Ok(())
}

pub(super) fn readable(field: Field, key: &FlowKey, mask: &FlowMask) -> Check {
    if field.prerequisites_met(key, mask) {
        return Ok(());
    }
    let reason = format!("{} is only there in a flow that matches {}", field.name(), wanted(field));
    refuse(INCONSISTENT, reason)
}

pub(super) fn writable(field: Field) -> Check {
    if field.is_writable() { Ok(()) } else { refuse(BAD_SET, format!("{} is read-only", field.name())) }
}
