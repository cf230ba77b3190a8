//! How select groups choose: what of it can be asked for.

use super::{GroupKind, Selection};
use crate::action::rules;
use crate::{Field, Refusal};

/// The methods that can be asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `dp_hash`
    DpHash,
    /// `hash`
    Hash,
    /// `maglev`
    Maglev,
}

/// Fields to hash, with masks: each once, in the order of Open vSwitch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HashedFields(Vec<(Field, u128)>);

impl HashedFields {
    /// Adds those bits of a field that a mask selects; all of [`Field::ones`] are the whole field.
    ///
    /// # Errors
    /// When the field is there already, or cannot have the mask.
    pub fn add(&mut self, field: Field, mask: u128) -> Result<(), Refusal> {
        let (exact, place) = (field.exact_mask(), rank(field));
        let mask = mask & exact;
        if self.0.iter().any(|(other, _)| *other == field) {
            let reason = format!("{} is there twice", field.name());
            return Err(Refusal::new("OFPBPC_DUP_TYPE", reason).field("fields").hint("give each field once"));
        }
        let good = mask == exact || field.info().maskable && mask != 0 && rules::whole(field, mask).is_ok();
        if !good {
            let refusal = Refusal::new("OFPBPC_BAD_VALUE", format!("{mask:#x} is no mask of {}", field.name()));
            return Err(refusal.field("fields").hint("the bits to hash, as a value of the field, without /"));
        }
        let at = self.0.partition_point(|(other, _)| rank(*other) < place);
        self.0.insert(at, (field, mask));
        Ok(())
    }
}

impl Selection {
    /// What a group of a kind is asked for: a method, its parameter, and fields, where they are
    /// given.
    ///
    /// # Errors
    /// When one of them needs another that is not there, or the group does not select. The
    /// refusal's field says which.
    pub fn new(
        kind: GroupKind,
        method: Option<Method>,
        param: Option<u64>,
        fields: Option<HashedFields>,
    ) -> Result<Self, Refusal> {
        if fields.is_some() && method != Some(Method::Hash) {
            let refusal = Refusal::new("OFPBPC_BAD_VALUE", "fields need selection_method=hash").field("fields");
            return Err(refusal.hint("add selection_method=hash, or leave fields out"));
        }
        if param.is_some() && method.is_none() {
            let refusal = Refusal::new("OFPBPC_BAD_VALUE", "selection_method_param needs a selection_method");
            return Err(refusal.field("selection_method_param").hint("selection_method=hash, dp_hash or maglev"));
        }
        if method.is_some() && kind != GroupKind::Select {
            let refusal = Refusal::new("OFPBPC_BAD_VALUE", "only select groups select").field("selection_method");
            return Err(refusal.hint("type=select, or no selection_method"));
        }
        let param = param.unwrap_or_default();
        Ok(match method {
            None => Self::Default,
            Some(Method::DpHash) => Self::DpHash { param },
            Some(Method::Maglev) => Self::Maglev { param },
            Some(Method::Hash) => Self::Hash { param, fields: fields.unwrap_or_default().0.into() },
        })
    }
}

/// Place of a field in the order of Open vSwitch: by kind, and within a kind as in our table, but
/// for these.
const fn rank(field: Field) -> (u8, u8) {
    use Field as F;
    let number = field as u8;
    let kind = match field {
        F::TunId
        | F::TunSrc
        | F::TunDst
        | F::TunIpv6Src
        | F::TunIpv6Dst
        | F::TunFlags
        | F::TunGbpId
        | F::TunGbpFlags => 0,
        F::TunTos | F::TunTtl => 1,
        _ if number >= F::TunMetadata0 as u8 && number <= F::TunMetadata7 as u8 => 2,
        F::Metadata => 3,
        F::InPort => 4,
        F::PktMark => 5,
        F::CtState => 6,
        F::CtZone => 7,
        F::CtMark | F::CtLabel => 8,
        F::CtNwProto => 9,
        F::CtNwSrc | F::CtNwDst | F::CtIpv6Src | F::CtIpv6Dst | F::CtTpSrc | F::CtTpDst => 10,
        _ if number >= F::Reg0 as u8 && number <= F::Xxreg3 as u8 => 11,
        F::EthSrc => 12,
        F::EthDst => 13,
        F::EthType | F::VlanTci | F::DlVlan | F::VlanVid | F::VlanPcp | F::NwSrc | F::NwDst => 14,
        F::Ipv6Src | F::Ipv6Dst | F::Ipv6Label => 15,
        F::NwProto => 16,
        F::NwTos | F::IpDscp | F::NwEcn | F::NwTtl => 17,
        F::NwFrag => 18,
        F::ArpOp => 19,
        F::ArpSpa | F::ArpTpa | F::ArpSha | F::ArpTha => 20,
        F::TcpSrc | F::TcpDst => 21,
        F::TcpFlags => 22,
        F::NdTarget => 24,
        F::NdSll | F::NdTll => 25,
        _ => 23,
    };
    (kind, number)
}
