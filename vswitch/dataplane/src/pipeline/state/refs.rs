//! What action lists refer to.

use vswitch_flow::action::{Action, PortNo, port};

/// A group or meter that a flow uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Ref {
    Group(u32),
    Meter(u32),
}

/// Calls `visit` on every action, those inside clone, reject, write_actions and ct(exec) included,
/// until it says true; whether it did. Nesting is bounded: [`vswitch_flow::action::check`] has
/// refused what is too deep.
pub(super) fn any(actions: &[Action], visit: &mut impl FnMut(&Action) -> bool) -> bool {
    actions.iter().any(|action| {
        visit(action)
            || match action {
                Action::Clone(inner) | Action::WriteActions(inner) => any(inner, visit),
                Action::Ct(ct) => any(&ct.exec, visit),
                Action::Reject(reject) => any(&reject.actions, visit),
                _ => false,
            }
    })
}

/// Calls `found` for each group and meter that the list uses, once per mention. The meter of a
/// packet-in is no such use: it may be missing.
pub(super) fn refs(actions: &[Action], found: &mut impl FnMut(Ref)) {
    any(actions, &mut |action| {
        match action {
            Action::Group(id) => found(Ref::Group(*id)),
            Action::Meter(id) => found(Ref::Meter(*id)),
            _ => (),
        }
        false
    });
}

/// Table and cookie of every learn with `delete_learned`. As in Open vSwitch those inside of other
/// actions do not count.
pub(super) fn learners(actions: &[Action], found: &mut impl FnMut((u8, u64))) {
    for action in actions {
        if let Action::Learn(learn) = action
            && learn.delete_learned
        {
            found((learn.table, learn.cookie));
        }
    }
}

/// Whether a flow has `fin_timeout`: workers may shorten its timeouts.
pub(super) fn has_fin_timeout(actions: &[Action]) -> bool {
    any(actions, &mut |action| matches!(action, Action::FinTimeout { .. }))
}

/// Whether the list outputs to a port, as the filter `out_port` means it: whole packets, by number,
/// not through a register, a group or a bundle.
pub(super) fn outputs_to(actions: &[Action], to: PortNo) -> bool {
    any(actions, &mut |action| match action {
        Action::Output { port, max_len: None } => *port == to,
        Action::Controller(_) => to == port::CONTROLLER,
        _ => false,
    })
}

/// Whether the list uses a group, as the filter `out_group` means it.
pub(super) fn uses_group(actions: &[Action], group: u32) -> bool {
    any(actions, &mut |action| *action == Action::Group(group))
}
