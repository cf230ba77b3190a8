//! Matches.

use super::field::{value, value_message};
use vswitch_flow::text::{MatchBuilder, Names, Parsed, Style, TextError, format_value};
use vswitch_flow::{Field, FlowKey, FlowMask, SparseMatch};
use vswitch_proto::v1;

const ARP: [u128; 2] = [0x0806, 0x8035];
const ICMP: u128 = 1;
const TCP: u128 = 6;
const UDP: u128 = 17;
const ICMPV6: u128 = 58;
const SCTP: u128 = 132;

/// A match given as fields, by the rules that text has: the same builder judges it.
pub(super) fn from_message(message: &v1::Match, names: &dyn Names) -> Result<Parsed<SparseMatch>, TextError> {
    let mut builder = MatchBuilder::new(names);
    let mut text = String::new();
    for message in &message.fields {
        let (field, value, mask) = value(message)?;
        let name = field.name();
        text.clear();
        format_value(field, value, mask, Style::default(), names, &mut text);
        let here = |error: TextError| TextError { column: 0, field: name.to_owned(), ..error };
        if !builder.add(name, Some(&text)).map_err(here)? {
            return Err(super::wrong(name, format!("{name} cannot be matched"), "ovs-fields(7) tells which can"));
        }
    }
    builder.finish().map_err(|error| TextError { column: 0, ..error })
}

/// A match as fields. Of the fields that share bits, those are told that the packet's type makes of
/// them.
pub(super) fn to_message(matching: &SparseMatch) -> v1::Match {
    let (key, mask) = matching.expand();
    let fields = parts(&key, &mask).into_iter().map(|(field, value, mask)| value_message(field, value, mask));
    v1::Match { fields: fields.collect() }
}

/// Fields that cover all bits of the mask once.
pub(super) fn parts(key: &FlowKey, mask: &FlowMask) -> Vec<(Field, u128, u128)> {
    let mut left = mask.clone();
    let mut parts = Vec::new();
    let mut take = |field: Field| {
        let bits = left.get(field);
        if bits != 0 {
            left.set(field, 0);
            parts.push((field, key.get(field) & bits, bits));
        }
    };
    preferred(key, mask).into_iter().for_each(&mut take);
    // What has no better name goes by the first one that covers it.
    Field::ALL.iter().copied().for_each(&mut take);
    parts
}

/// The fields that a packet of this type has where several share bits, before those of all packets.
fn preferred(key: &FlowKey, mask: &FlowMask) -> Vec<Field> {
    use Field as F;
    let exact = |field: Field| (mask.get(field) == field.ones()).then(|| key.get(field));
    let (eth_type, nw_proto) = (exact(F::EthType), exact(F::NwProto));
    let mut fields = vec![F::EthType, F::VlanTci];
    if eth_type.is_some_and(|eth_type| ARP.contains(&eth_type)) {
        fields.extend([F::ArpSpa, F::ArpTpa, F::ArpOp, F::ArpSha, F::ArpTha]);
    }
    fields.extend([F::NwSrc, F::NwDst, F::NwProto, F::IpDscp, F::NwEcn]);
    match nw_proto {
        Some(TCP) => fields.extend([F::TcpSrc, F::TcpDst]),
        Some(UDP) => fields.extend([F::UdpSrc, F::UdpDst]),
        Some(SCTP) => fields.extend([F::SctpSrc, F::SctpDst]),
        Some(ICMP) => fields.extend([F::IcmpType, F::IcmpCode]),
        Some(ICMPV6) => fields.extend([F::Icmpv6Type, F::Icmpv6Code, F::NdSll, F::NdTll, F::NdOptionsType]),
        _ => {}
    }
    fields
}
