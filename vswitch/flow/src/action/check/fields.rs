//! Fields that actions read and write.

use super::{Check, Checker, INCONSISTENT, refuse, rules};
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
        rules::bits(sub)?;
        self.readable(sub.field)
    }

    fn readable(&mut self, field: Field) -> Check {
        match self.facts() {
            Some((key, mask)) => readable(field, key, mask),
            None => Ok(()),
        }
    }

    /// Bits that an action writes.
    pub(super) fn target(&mut self, sub: Subfield) -> Check {
        rules::bits(sub)?;
        rules::writable(sub.field)?;
        self.source(sub)
    }

    pub(super) fn one_bit(&mut self, sub: Subfield, action: &str) -> Check {
        rules::one_bit(sub, action)?;
        self.target(sub)
    }

    pub(super) fn copy(&mut self, from: Subfield, to: Subfield) -> Check {
        self.source(from)?;
        self.target(to)?;
        Ok(rules::as_many(from, to)?)
    }

    pub(super) fn set_field(&mut self, field: Field, value: u128, mask: u128) -> Check {
        rules::writable(field)?;
        rules::set_field(field, value, mask)?;
        let present = u128::from(VLAN_PRESENT);
        match field {
            Field::TpSrc | Field::TpDst => self.set_port()?,
            Field::VlanVid if self.is_checked() && !self.has_tag(0) => {
                return refuse(
                    INCONSISTENT,
                    "vlan_vid is only there behind push_vlan or in a flow that matches dl_vlan=N",
                );
            }
            _ => self.readable(field)?,
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

pub(super) fn readable(field: Field, key: &FlowKey, mask: &FlowMask) -> Check {
    if field.prerequisites_met(key, mask) {
        return Ok(());
    }
    let reason = format!("{} is only there in a flow that matches {}", field.name(), wanted(field));
    refuse(INCONSISTENT, reason)
}
