//! The normal form of one action: of the ways in which the same can be said, the one that Open
//! vSwitch keeps.

use super::super::{Action, Bundle, Controller, Ct, LearnSource, LearnSpec, Nat, PortNo, Sample, port, rules};
use crate::field::Format;
use crate::field::number::VLAN_PRESENT;
use crate::{Field, Refusal, Subfield};

/// "This table", as OpenFlow numbers it.
const SAME_TABLE: u8 = 255;

impl Action {
    /// The same action in its normal form. What stands in a list in it is left as it is: it has
    /// been through here itself.
    ///
    /// - reserved ports have 32 bits (`0xfff8` is `IN_PORT`); where no port is needed, IN_PORT
    ///   (`resubmit`) and NONE (`sample`) are none;
    /// - table 255 of a resubmit and meter 0 of a controller are none; a `dec_ttl` without
    ///   controllers tells controller 0;
    /// - a `set_field` has no mask bits that its field has not, and `dl_vlan` is `vlan_vid` with
    ///   the bit that says that there is a tag;
    /// - `learn` matches on all of a VLAN's or a port's number;
    /// - notes are padded ([`Self::note`]);
    /// - what `output:FIELD` is cut to goes: a packet-in always carries the whole packet.
    #[must_use]
    pub fn normal(self) -> Self {
        match self {
            Self::Output { port, max_len } => Self::Output { port: port_number(port), max_len },
            Self::OutputField { from, .. } => Self::OutputField { from, max_len: None },
            Self::Controller(to) => {
                // 0 is how Open vSwitch encodes that there is none.
                let meter = to.meter.filter(|meter| *meter != 0);
                Self::Controller(Box::new(Controller { meter, ..*to }))
            }
            Self::SetField { field, value, mask } => set_field(field, value, mask),
            Self::DecTtl(ids) if ids.is_empty() => Self::DecTtl([0].into()),
            Self::Resubmit { port, table, ct } => Self::Resubmit {
                port: port.map(port_number).filter(|port| *port != port::IN_PORT),
                table: table.filter(|table| *table != SAME_TABLE),
                ct,
            },
            Self::Bundle(bundle) => {
                let members = bundle.members.iter().map(|member| port_number(*member)).collect();
                Self::Bundle(Box::new(Bundle { members, ..*bundle }))
            }
            Self::Learn(mut learn) => {
                learn.specs.iter_mut().for_each(learn_spec);
                Self::Learn(learn)
            }
            Self::Note(bytes) => Self::note(bytes.into()),
            Self::Sample(sample) => {
                let port = sample.port.map(port_number).filter(|port| *port != port::NONE);
                Self::Sample(Box::new(Sample { port, ..*sample }))
            }
            Self::Ct(ct) => Self::Ct(Box::new(Ct { nat: ct.nat.map(Nat::normal), ..*ct })),
            action => action,
        }
    }
}

/// A port in its 32-bit form; what is no port stays, to be refused.
fn port_number(number: PortNo) -> PortNo {
    port::from_number(number.into()).unwrap_or(number)
}

fn set_field(field: Field, value: u128, mask: u128) -> Action {
    let present = u128::from(VLAN_PRESENT);
    // Bits that only the field's name has ([`Field::named_bits`]) stay.
    let named = ((1 << u32::from(field.named_bits()).min(127)) - 1) & !field.ones();
    let mask = mask & (field.exact_mask() | named);
    match field {
        Field::DlVlan => Action::SetField { field: Field::VlanVid, value: value | present, mask: mask | present },
        Field::InPort if mask == field.exact_mask() => Action::SetField { field, value: port_value(value), mask },
        _ => Action::SetField { field, value, mask },
    }
}

/// The same of a port that is a value of a field.
fn port_value(value: u128) -> u128 {
    port::from_number(value).map_or(value, u128::from)
}

/// `vlan_vid=4101` with its bit 4096 (3.1 cuts it off, and the learned flow matches untagged
/// packets), `in_port=LOCAL` in 32 bits.
fn learn_spec(spec: &mut LearnSpec) {
    if let LearnSpec::Match { from: LearnSource::Immediate(value), to } = spec
        && to.is_whole()
    {
        if matches!(to.field, Field::VlanVid | Field::InPort) {
            *to = Subfield::whole(to.field);
        }
        if to.field.info().format == Format::Port {
            *value = port_value(*value);
        }
    }
}

impl Nat {
    /// As Open vSwitch keeps it: the last address is the first one where none is given (0.0.0.0,
    /// `::`), port 0 is none, and without addresses there is nothing to choose, with ports or
    /// flags.
    #[must_use]
    fn normal(self) -> Self {
        let Some(source) = self.source else { return self };
        let addresses = self.addresses.filter(|(first, _)| !first.is_unspecified());
        if addresses.is_none() {
            return Self { source: Some(source), ..Self::default() };
        }
        let addresses = addresses.map(|(first, last)| (first, if last.is_unspecified() { first } else { last }));
        Self { addresses, ports: self.ports.filter(|(first, _)| *first != 0), ..self }
    }

    /// The same, if it can be: what is forgotten is looked at first.
    ///
    /// # Errors
    /// When arguments exclude each other or are missing, or a range is none.
    pub fn checked(self) -> Result<Self, Refusal> {
        rules::nat(&self)?;
        if let Some((first, last)) = self.ports {
            rules::ports(first, last)?;
        }
        if let Some((first, last)) = self.addresses {
            // 0.0.0.0 as the last one is none, in Open vSwitch too.
            rules::addresses(first, if last.is_unspecified() { first } else { last })?;
        }
        Ok(self.normal())
    }
}
