//! Actions, as messages.

use super::field::{subfield_message as sub, value_message};
use super::learn;
use std::net::IpAddr;
use vswitch_flow::Action;
use vswitch_flow::action::{
    Bundle, Controller, Ct, CtZone, HashFields, Multipath, MultipathAlgorithm, Nat, Reason, Reject, Sample,
    SampleDirection,
};
use vswitch_proto::v1;
use vswitch_proto::v1::action::Action as Kind;

/// A list of actions.
pub(super) fn list(actions: &[Action]) -> v1::Actions {
    v1::Actions { actions: messages(actions) }
}

fn messages(actions: &[Action]) -> Vec<v1::Action> {
    actions.iter().map(|action| v1::Action { action: Some(kind(action)) }).collect()
}

fn kind(action: &Action) -> Kind {
    match action {
        Action::Output { port, max_len } => {
            Kind::Output(v1::OutputAction { port: *port, max_len: max_len.map(Into::into) })
        }
        Action::OutputField { from, max_len } => {
            Kind::OutputField(v1::OutputFieldAction { from: Some(sub(*from)), max_len: max_len.map(Into::into) })
        }
        Action::Controller(action) => Kind::Controller(controller(action)),
        Action::Group(id) => Kind::Group(*id),
        Action::Meter(id) => Kind::Meter(*id),
        Action::SetField { field, value, mask } => Kind::SetField(value_message(*field, *value, *mask)),
        Action::Move { from, to } => Kind::Move(v1::MoveAction { from: Some(sub(*from)), to: Some(sub(*to)) }),
        Action::SetTtl(ttl) => Kind::SetTtl((*ttl).into()),
        Action::DecTtl(ids) => {
            Kind::DecTtl(v1::DecTtlAction { controller_ids: ids.iter().map(|id| (*id).into()).collect() })
        }
        Action::PushVlan(tpid) => Kind::PushVlan((*tpid).into()),
        Action::PopVlan => Kind::PopVlan(v1::PopVlanAction {}),
        Action::SetVlanVid(vid) => Kind::SetVlanVid((*vid).into()),
        Action::SetVlanPcp(pcp) => Kind::SetVlanPcp((*pcp).into()),
        Action::StackPush(from) => Kind::StackPush(sub(*from)),
        Action::StackPop(to) => Kind::StackPop(sub(*to)),
        Action::Resubmit { port, table, ct } => {
            Kind::Resubmit(v1::ResubmitAction { port: *port, table: table.map(Into::into), ct: *ct })
        }
        Action::Multipath(action) => Kind::Multipath(multipath(action)),
        Action::Bundle(action) => Kind::Bundle(bundle(action)),
        Action::Learn(action) => Kind::Learn(learn::to_message(action)),
        Action::FinTimeout { idle, hard } => {
            Kind::FinTimeout(v1::FinTimeoutAction { idle_timeout: *idle, hard_timeout: *hard })
        }
        Action::Conjunction { id, clause, clauses } => {
            let clause = u32::from(*clause) + 1;
            Kind::Conjunction(v1::ConjunctionAction { id: *id, clause, clauses: (*clauses).into() })
        }
        Action::Clone(actions) => Kind::Clone(list(actions)),
        Action::Note(note) => Kind::Note(note.to_vec()),
        Action::Exit => Kind::Exit(v1::ExitAction {}),
        Action::Sample(action) => Kind::Sample(sample(action)),
        Action::CheckPktLarger { len, to } => {
            Kind::CheckPktLarger(v1::CheckPktLargerAction { length: (*len).into(), to: Some(sub(*to)) })
        }
        Action::Ct(action) => Kind::Ct(ct(action)),
        Action::CtClear => Kind::CtClear(v1::CtClearAction {}),
        Action::CtForget => Kind::CtForget(v1::CtForgetAction {}),
        Action::Reject(action) => Kind::Reject(reject(action)),
        Action::DeleteField(field) => Kind::DeleteField(field.name().to_owned()),
        Action::ClearActions => Kind::ClearActions(v1::ClearActionsAction {}),
        Action::WriteActions(actions) => Kind::WriteActions(list(actions)),
        Action::WriteMetadata { value, mask } => {
            Kind::WriteMetadata(v1::WriteMetadataAction { value: *value, mask: (*mask != u64::MAX).then_some(*mask) })
        }
        Action::GotoTable(table) => Kind::GotoTable((*table).into()),
    }
}

/// Why a packet was sent to controllers.
pub const fn reason(reason: Reason) -> v1::PacketInReason {
    match reason {
        Reason::NoMatch => v1::PacketInReason::NoMatch,
        Reason::Action => v1::PacketInReason::Action,
        Reason::InvalidTtl => v1::PacketInReason::InvalidTtl,
        Reason::ActionSet => v1::PacketInReason::ActionSet,
        Reason::Group => v1::PacketInReason::Group,
        Reason::PacketOut => v1::PacketInReason::PacketOut,
    }
}

fn controller(action: &Controller) -> v1::ControllerAction {
    v1::ControllerAction {
        id: action.id.into(),
        reason: reason(action.reason).into(),
        max_len: Some(action.max_len.into()),
        userdata: action.userdata.to_vec(),
        pause: action.pause,
        meter_id: action.meter,
    }
}

fn reject(action: &Reject) -> v1::RejectAction {
    let tcp = if action.reset { v1::RejectTcp::Reset } else { v1::RejectTcp::Icmp };
    v1::RejectAction {
        tcp: tcp.into(),
        icmp_code: Some(action.icmp.into()),
        icmp6_code: Some(action.icmp6.into()),
        actions: messages(&action.actions),
        mtu: (action.mtu != 0).then_some(action.mtu.into()),
    }
}

const fn hash_fields(fields: HashFields) -> v1::HashFields {
    match fields {
        HashFields::EthSrc => v1::HashFields::EthSrc,
        HashFields::SymmetricL4 => v1::HashFields::SymmetricL4,
        HashFields::SymmetricL3L4 => v1::HashFields::SymmetricL3l4,
        HashFields::SymmetricL3L4Udp => v1::HashFields::SymmetricL3l4Udp,
        HashFields::NwSrc => v1::HashFields::NwSrc,
        HashFields::NwDst => v1::HashFields::NwDst,
        HashFields::SymmetricL3 => v1::HashFields::SymmetricL3,
    }
}

fn multipath(action: &Multipath) -> v1::MultipathAction {
    let algorithm = match action.algorithm {
        MultipathAlgorithm::ModuloN => v1::MultipathAlgorithm::ModuloN,
        MultipathAlgorithm::HashThreshold => v1::MultipathAlgorithm::HashThreshold,
        MultipathAlgorithm::Hrw => v1::MultipathAlgorithm::Hrw,
        MultipathAlgorithm::IterHash => v1::MultipathAlgorithm::IterHash,
    };
    v1::MultipathAction {
        fields: hash_fields(action.fields).into(),
        basis: action.basis.into(),
        algorithm: algorithm.into(),
        links: action.links.into(),
        arg: action.arg,
        to: Some(sub(action.to)),
    }
}

fn bundle(action: &Bundle) -> v1::BundleAction {
    v1::BundleAction {
        fields: hash_fields(action.fields).into(),
        basis: action.basis.into(),
        hrw: action.hrw,
        members: action.members.to_vec(),
        to: action.to.map(sub),
    }
}

fn sample(action: &Sample) -> v1::SampleAction {
    let direction = match action.direction {
        SampleDirection::Default => v1::SampleDirection::Unspecified,
        SampleDirection::Ingress => v1::SampleDirection::Ingress,
        SampleDirection::Egress => v1::SampleDirection::Egress,
    };
    v1::SampleAction {
        probability: action.probability.into(),
        collector_set_id: action.collector_set,
        obs_domain_id: action.domain,
        obs_point_id: action.point,
        sampling_port: action.port,
        direction: direction.into(),
    }
}

fn ct(action: &Ct) -> v1::CtAction {
    use v1::ct_action::Zone;
    v1::CtAction {
        commit: action.commit,
        force: action.force,
        table: action.table.map(Into::into),
        zone: Some(match action.zone {
            CtZone::Immediate(zone) => Zone::ZoneId(zone.into()),
            CtZone::Field(from) => Zone::ZoneFrom(sub(from)),
        }),
        alg: action.alg.into(),
        nat: action.nat.as_ref().map(nat),
        exec: messages(&action.exec),
    }
}

fn nat(nat: &Nat) -> v1::NatAction {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let kind = match nat.source {
        None => v1::NatKind::Unspecified,
        Some(true) => v1::NatKind::Source,
        Some(false) => v1::NatKind::Destination,
    };
    let (first, last) = nat.addresses.map_or_else(Default::default, |(first, last)| (octets(first), octets(last)));
    let (port_first, port_last) = nat.ports.unwrap_or_default();
    v1::NatAction {
        kind: kind.into(),
        address_first: first,
        address_last: last,
        port_first: port_first.into(),
        port_last: port_last.into(),
        persistent: nat.persistent,
        hash: nat.hash,
        random: nat.random,
    }
}
