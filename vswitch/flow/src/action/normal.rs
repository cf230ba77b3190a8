//! The normal form of a list: what OpenFlow 1.5 has no action for becomes what it has. That of one
//! action is in `one.rs`.

mod one;

use super::{Action, CheckContext, CheckError, check, port};
use crate::field::number::{ETH_VLAN, IP_SCTP, IP_TCP, IP_UDP, VLAN_PRESENT};
use crate::{Field, SparseMatch};

/// A list as a switch takes it, from text and from messages: checked, and in the normal form.
///
/// # Errors
/// What [`check`] finds wrong, with the index of the action.
pub fn accept(actions: Vec<Action>, context: &CheckContext<'_>) -> Result<Vec<Action>, CheckError> {
    check(&actions, context)?;
    Ok(normalize(actions, context.matching))
}

/// A list as Open vSwitch sends it in OpenFlow 1.5. `matching` is the match of the list's flow;
/// None for buckets and packet-outs.
///
/// - `mod_vlan_vid` and `mod_vlan_pcp` become `set_field`, with a `push_vlan` before the first of
///   them if the match has no tag;
/// - `mod_tp_src` and `mod_tp_dst` become `set_field` of the port of the match's protocol, and stay
///   if that is not known;
/// - `output:CONTROLLER` becomes `controller`;
/// - an empty `write_actions` goes.
#[must_use]
pub fn normalize(actions: Vec<Action>, matching: Option<&SparseMatch>) -> Vec<Action> {
    if actions.iter().all(is_normal) {
        return actions;
    }
    let (tci, inner, proto) = match matching {
        Some(matching) => {
            let (key, mask) = matching.expand();
            let present = |field| key.get(field) & mask.get(field) & u128::from(VLAN_PRESENT) != 0;
            let proto = if Field::NwTos.prerequisites_met(&key, &mask) { key.get(Field::NwProto) } else { 0 };
            (present(Field::VlanTci), present(Field::VlanTci1), proto)
        }
        None => (false, false, 0),
    };
    let mut state = State { tags: [tci, inner], proto };
    let mut out = Vec::with_capacity(actions.len() + 2);
    state.list(actions, &mut out);
    out
}

/// Whether normalising leaves an action as it is.
fn is_normal(action: &Action) -> bool {
    match action {
        Action::SetVlanVid(_) | Action::SetVlanPcp(_) | Action::SetField { field: Field::TpSrc | Field::TpDst, .. } => {
            false
        }
        Action::Output { port, max_len } => *port != port::CONTROLLER || max_len.is_some(),
        Action::Clone(actions) => actions.iter().all(is_normal),
        Action::Reject(reject) => reject.actions.iter().all(is_normal),
        Action::WriteActions(actions) => !actions.is_empty() && actions.iter().all(is_normal),
        _ => true,
    }
}

/// What is known of the packet before an action.
#[derive(Clone, Copy)]
struct State {
    /// Whether there is an outer, an inner tag.
    tags: [bool; 2],
    /// IP protocol of the match; 0 if it has none.
    proto: u128,
}

impl State {
    fn list(&mut self, actions: Vec<Action>, out: &mut Vec<Action>) {
        for action in actions {
            self.action(action, out);
        }
    }

    fn action(&mut self, action: Action, out: &mut Vec<Action>) {
        match action {
            Action::SetVlanVid(vid) => {
                self.need_tag(out);
                let value = u128::from(vid | VLAN_PRESENT);
                out.push(Action::SetField { field: Field::VlanVid, value, mask: Field::VlanVid.exact_mask() });
            }
            Action::SetVlanPcp(pcp) => {
                self.need_tag(out);
                let mask = Field::VlanPcp.exact_mask();
                out.push(Action::SetField { field: Field::VlanPcp, value: pcp.into(), mask });
            }
            Action::SetField { field, value, mask } => {
                if field == Field::VlanTci {
                    self.tags[0] = value & u128::from(VLAN_PRESENT) != 0;
                }
                out.push(Action::SetField { field: self.port_field(field), value, mask });
            }
            Action::PushVlan(tpid) => {
                self.tags = [true, self.tags[0]];
                out.push(Action::PushVlan(tpid));
            }
            Action::PopVlan => {
                self.tags = [self.tags[1], false];
                out.push(Action::PopVlan);
            }
            Action::Output { port: port::CONTROLLER, max_len: None } => {
                out.push(Action::Controller(Box::default()));
            }
            Action::Clone(actions) => out.push(Action::Clone(self.nested(actions))),
            Action::Reject(mut reject) => {
                // Of the answer the match says nothing.
                let actions = std::mem::take(&mut reject.actions);
                reject.actions = Self { tags: [false; 2], proto: 0 }.nested(actions);
                out.push(Action::Reject(reject));
            }
            Action::WriteActions(actions) => {
                if !actions.is_empty() {
                    out.push(Action::WriteActions(self.nested(actions)));
                }
            }
            action => out.push(action),
        }
    }

    /// A list whose changes do not last.
    fn nested(mut self, actions: Box<[Action]>) -> Box<[Action]> {
        let mut out = Vec::with_capacity(actions.len());
        self.list(actions.into_vec(), &mut out);
        out.into()
    }

    fn need_tag(&mut self, out: &mut Vec<Action>) {
        if !self.tags[0] {
            out.push(Action::PushVlan(ETH_VLAN));
            self.tags[0] = true;
        }
    }

    /// The port field that a generic one stands for.
    fn port_field(&self, field: Field) -> Field {
        let proto = u8::try_from(self.proto).unwrap_or_default();
        match (field, proto) {
            (Field::TpSrc, IP_TCP) => Field::TcpSrc,
            (Field::TpDst, IP_TCP) => Field::TcpDst,
            (Field::TpSrc, IP_UDP) => Field::UdpSrc,
            (Field::TpDst, IP_UDP) => Field::UdpDst,
            (Field::TpSrc, IP_SCTP) => Field::SctpSrc,
            (Field::TpDst, IP_SCTP) => Field::SctpDst,
            _ => field,
        }
    }
}
