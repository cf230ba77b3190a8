//! Actions, from messages.

use super::field::{self, number, subfield};
use super::{learn, narrow, narrow16, wrong};
use std::net::IpAddr;
use vswitch_flow::action::{
    Bundle, Controller, Ct, CtZone, HashFields, Multipath, MultipathAlgorithm, Nat, Reason, Reject, Sample,
    SampleDirection,
};
use vswitch_flow::text::{Names, TextError, field_by_name, parse_actions};
use vswitch_flow::{Action, Field};
use vswitch_proto::v1;
use vswitch_proto::v1::action::Action as Kind;

/// Actions as text or as messages: what the `doing` of a message holds.
#[derive(Debug)]
pub enum Text<'a> {
    /// As text.
    Line(&'a str),
    /// As messages.
    Typed(&'a v1::Actions),
    /// Not given.
    None,
}

/// A list. Warnings of text are added to `warnings`.
pub fn actions(given: &Text<'_>, names: &dyn Names, warnings: &mut Vec<String>) -> Result<Vec<Action>, TextError> {
    match given {
        Text::Line(text) => {
            let parsed = parse_actions(text, names).map_err(|error| TextError {
                reason: format!("actions, column {}: {}", error.column, error.reason),
                column: 0,
                ..error
            })?;
            warnings.extend(parsed.warnings);
            Ok(parsed.value)
        }
        Text::Typed(actions) => list(&actions.actions),
        Text::None => Ok(Vec::new()),
    }
}

pub(super) fn list(actions: &[v1::Action]) -> Result<Vec<Action>, TextError> {
    actions.iter().map(|message| action(message).map(Action::normal)).collect()
}

fn action(message: &v1::Action) -> Result<Action, TextError> {
    let kind = message.action.as_ref();
    let kind = kind.ok_or_else(|| wrong("action", "an action is empty", "this switch may be older than the client"))?;
    Ok(match kind {
        Kind::Output(output) => Action::Output { port: output.port, max_len: len(output.max_len)? },
        Kind::OutputField(output) => Action::OutputField {
            from: subfield("output_field.from", output.from.as_ref())?,
            max_len: len(output.max_len)?,
        },
        Kind::Controller(message) => Action::Controller(Box::new(controller(message)?)),
        Kind::Group(id) => Action::Group(*id),
        Kind::Meter(id) => Action::Meter(*id),
        Kind::SetField(message) => set_field(message)?,
        Kind::Move(message) => Action::Move {
            from: subfield("move.from", message.from.as_ref())?,
            to: subfield("move.to", message.to.as_ref())?,
        },
        Kind::SetTtl(ttl) => Action::SetTtl(narrow("set_ttl", *ttl, 255)?),
        Kind::DecTtl(message) => {
            let ids: Result<Vec<u16>, _> =
                message.controller_ids.iter().map(|id| narrow16("dec_ttl.controller_ids", *id)).collect();
            Action::DecTtl(ids?.into())
        }
        Kind::PushVlan(tpid) => Action::PushVlan(narrow16("push_vlan", *tpid)?),
        Kind::PopVlan(v1::PopVlanAction {}) => Action::PopVlan,
        Kind::SetVlanVid(vid) => Action::SetVlanVid(narrow("set_vlan_vid", *vid, 4095)?),
        Kind::SetVlanPcp(pcp) => Action::SetVlanPcp(narrow("set_vlan_pcp", *pcp, 7)?),
        Kind::StackPush(sub) => Action::StackPush(subfield("stack_push", Some(sub))?),
        Kind::StackPop(sub) => Action::StackPop(subfield("stack_pop", Some(sub))?),
        Kind::Resubmit(message) => resubmit(message)?,
        Kind::Multipath(message) => Action::Multipath(Box::new(multipath(message)?)),
        Kind::Bundle(message) => Action::Bundle(Box::new(bundle(message)?)),
        Kind::Learn(message) => Action::Learn(Box::new(learn::from_message(message)?)),
        Kind::FinTimeout(message) => Action::FinTimeout { idle: message.idle_timeout, hard: message.hard_timeout },
        Kind::Conjunction(message) => Action::conjunction(message.id, message.clause.into(), message.clauses.into())?,
        Kind::Clone(actions) => Action::Clone(list(&actions.actions)?.into()),
        Kind::Note(note) => Action::Note(note.as_slice().into()),
        Kind::Exit(v1::ExitAction {}) => Action::Exit,
        Kind::Sample(message) => Action::Sample(Box::new(sample(message)?)),
        Kind::CheckPktLarger(message) => Action::CheckPktLarger {
            len: narrow16("check_pkt_larger.length", message.length)?,
            to: subfield("check_pkt_larger.to", message.to.as_ref())?,
        },
        Kind::Ct(message) => Action::Ct(Box::new(ct(message)?)),
        Kind::CtClear(v1::CtClearAction {}) => Action::CtClear,
        Kind::CtForget(v1::CtForgetAction {}) => Action::CtForget,
        Kind::Reject(message) => Action::Reject(Box::new(reject(message)?)),
        Kind::DeleteField(name) => Action::DeleteField(tunnel_option(name)?),
        Kind::ClearActions(v1::ClearActionsAction {}) => Action::ClearActions,
        Kind::WriteActions(actions) => Action::WriteActions(list(&actions.actions)?.into()),
        Kind::WriteMetadata(message) => {
            Action::WriteMetadata { value: message.value, mask: message.mask.unwrap_or(u64::MAX) }
        }
        Kind::GotoTable(table) => Action::GotoTable(narrow("goto_table", *table, 255)?),
    })
}

fn len(max_len: Option<u32>) -> Result<Option<u16>, TextError> {
    max_len.map(|len| narrow16("max_len", len)).transpose()
}

fn set_field(message: &v1::FieldValue) -> Result<Action, TextError> {
    let (field, value, mask) = field::value(message)?;
    // The ports of a protocol that is not known have no other name.
    let field = match message.field.as_str() {
        "tp_src" => Field::TpSrc,
        "tp_dst" => Field::TpDst,
        _ => field,
    };
    Ok(Action::SetField { field, value, mask })
}

fn controller(message: &v1::ControllerAction) -> Result<Controller, TextError> {
    Ok(Controller {
        id: narrow16("controller.id", message.id)?,
        reason: reason(message.reason)?,
        max_len: narrow16("controller.max_len", message.max_len.unwrap_or(65535))?,
        userdata: message.userdata.as_slice().into(),
        pause: message.pause,
        meter: message.meter_id,
    })
}

fn reason(number: i32) -> Result<Reason, TextError> {
    use v1::PacketInReason as R;
    Ok(match R::try_from(number) {
        Ok(R::Unspecified | R::Action) => Reason::Action,
        Ok(R::NoMatch) => Reason::NoMatch,
        Ok(R::InvalidTtl) => Reason::InvalidTtl,
        Ok(R::ActionSet) => Reason::ActionSet,
        Ok(R::Group) => Reason::Group,
        Ok(R::PacketOut) => Reason::PacketOut,
        Err(_) => return Err(unknown("controller.reason", number)),
    })
}

fn reject(message: &v1::RejectAction) -> Result<Reject, TextError> {
    use v1::RejectTcp as T;
    let default = Reject::default();
    let reset = match T::try_from(message.tcp) {
        Ok(T::Unspecified) => default.reset,
        Ok(T::Reset) => true,
        Ok(T::Icmp) => false,
        Err(_) => return Err(unknown("reject.tcp", message.tcp)),
    };
    let code = |field, given: Option<u32>, default| given.map_or(Ok(default), |code| narrow(field, code, 255));
    Ok(Reject {
        reset,
        icmp: code("reject.icmp_code", message.icmp_code, default.icmp)?,
        icmp6: code("reject.icmp6_code", message.icmp6_code, default.icmp6)?,
        mtu: message.mtu.map_or(Ok(default.mtu), |mtu| narrow16("reject.mtu", mtu))?,
        actions: list(&message.actions)?.into(),
    })
}

fn unknown(field: &str, number: i32) -> TextError {
    wrong(field, format!("{field}: {number} is not known"), "use a number that the API has")
}

fn resubmit(message: &v1::ResubmitAction) -> Result<Action, TextError> {
    let table = message.table.map(|table| narrow("resubmit.table", table, 255)).transpose()?;
    Ok(Action::Resubmit { port: message.port, table, ct: message.ct })
}

fn hash_fields(field: &str, number: i32) -> Result<HashFields, TextError> {
    use v1::HashFields as H;
    Ok(match H::try_from(number) {
        Ok(H::EthSrc) => HashFields::EthSrc,
        Ok(H::SymmetricL4) => HashFields::SymmetricL4,
        Ok(H::SymmetricL3l4) => HashFields::SymmetricL3L4,
        Ok(H::SymmetricL3l4Udp) => HashFields::SymmetricL3L4Udp,
        Ok(H::NwSrc) => HashFields::NwSrc,
        Ok(H::NwDst) => HashFields::NwDst,
        Ok(H::SymmetricL3) => HashFields::SymmetricL3,
        Ok(H::Unspecified) | Err(_) => return Err(unknown(field, number)),
    })
}

fn multipath(message: &v1::MultipathAction) -> Result<Multipath, TextError> {
    use v1::MultipathAlgorithm as A;
    let algorithm = match A::try_from(message.algorithm) {
        Ok(A::ModuloN) => MultipathAlgorithm::ModuloN,
        Ok(A::HashThreshold) => MultipathAlgorithm::HashThreshold,
        Ok(A::Hrw) => MultipathAlgorithm::Hrw,
        Ok(A::IterHash) => MultipathAlgorithm::IterHash,
        Ok(A::Unspecified) | Err(_) => return Err(unknown("multipath.algorithm", message.algorithm)),
    };
    Ok(Multipath {
        fields: hash_fields("multipath.fields", message.fields)?,
        basis: narrow16("multipath.basis", message.basis)?,
        algorithm,
        links: narrow16("multipath.links", message.links)?,
        arg: message.arg,
        to: subfield("multipath.to", message.to.as_ref())?,
    })
}

fn bundle(message: &v1::BundleAction) -> Result<Bundle, TextError> {
    Ok(Bundle {
        fields: hash_fields("bundle.fields", message.fields)?,
        basis: narrow16("bundle.basis", message.basis)?,
        hrw: message.hrw,
        members: message.members.as_slice().into(),
        to: message.to.as_ref().map(|to| subfield("bundle.to", Some(to))).transpose()?,
    })
}

fn sample(message: &v1::SampleAction) -> Result<Sample, TextError> {
    use v1::SampleDirection as D;
    let direction = match D::try_from(message.direction) {
        Ok(D::Unspecified) => SampleDirection::Default,
        Ok(D::Ingress) => SampleDirection::Ingress,
        Ok(D::Egress) => SampleDirection::Egress,
        Err(_) => return Err(unknown("sample.direction", message.direction)),
    };
    Ok(Sample {
        probability: narrow16("sample.probability", message.probability)?,
        collector_set: message.collector_set_id,
        domain: message.obs_domain_id,
        point: message.obs_point_id,
        port: message.sampling_port,
        direction,
    })
}

fn tunnel_option(name: &str) -> Result<Field, TextError> {
    field_by_name(name).ok_or_else(|| {
        wrong(
            "delete_field",
            format!("delete_field: {name:?} is no field"),
            "tun_metadata0 to tun_metadata7 can be deleted",
        )
    })
}

fn ct(message: &v1::CtAction) -> Result<Ct, TextError> {
    use v1::ct_action::Zone;
    let zone = match &message.zone {
        None => CtZone::default(),
        Some(Zone::ZoneId(id)) => CtZone::Immediate(narrow16("ct.zone_id", *id)?),
        Some(Zone::ZoneFrom(sub)) => CtZone::Field(subfield("ct.zone_from", Some(sub))?),
    };
    Ok(Ct {
        commit: message.commit,
        force: message.force,
        table: message.table.map(|table| narrow("ct.table", table, 255)).transpose()?,
        zone,
        alg: narrow16("ct.alg", message.alg)?,
        nat: message.nat.as_ref().map(nat).transpose()?,
        exec: list(&message.exec)?.into(),
    })
}

fn nat(message: &v1::NatAction) -> Result<Nat, TextError> {
    use v1::NatKind as K;
    let source = match K::try_from(message.kind) {
        Ok(K::Unspecified) => None,
        Ok(K::Source) => Some(true),
        Ok(K::Destination) => Some(false),
        Err(_) => return Err(unknown("nat.kind", message.kind)),
    };
    let addresses = match (address(&message.address_first)?, address(&message.address_last)?) {
        (None, None) => None,
        (None, Some(_)) => return Err(wrong("nat", "nat: a last address without a first", "give both")),
        (Some(first), last) => Some((first, last.unwrap_or(first))),
    };
    let (first, last) =
        (narrow16("nat.port_first", message.port_first)?, narrow16("nat.port_last", message.port_last)?);
    let ports = (first != 0 || last != 0).then_some((first, if last == 0 { first } else { last }));
    let v1::NatAction { persistent, hash, random, .. } = *message;
    Ok(Nat { source, addresses, ports, persistent, hash, random }.checked()?)
}

fn address(octets: &[u8]) -> Result<Option<IpAddr>, TextError> {
    if octets.is_empty() {
        return Ok(None);
    }
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        return Ok(Some(octets.into()));
    }
    if octets.len() == 16 {
        return number("nat", octets).map(|number| Some(number.to_be_bytes().into()));
    }
    Err(wrong("nat", format!("nat: {} octets are no address", octets.len()), "give 4 or 16"))
}
