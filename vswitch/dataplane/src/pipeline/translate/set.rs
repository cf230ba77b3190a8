//! The action set, and buckets, which are action sets: in which order they are executed.

use vswitch_flow::Action;
use vswitch_flow::action::port;

/// What `write_actions` collects.
#[derive(Clone, Debug, Default)]
pub(super) struct ActionSet {
    actions: Vec<Action>,
}

impl ActionSet {
    pub(super) fn write(&mut self, actions: &[Action]) {
        self.actions.extend_from_slice(actions);
    }

    pub(super) fn clear(&mut self) {
        self.actions.clear();
    }

    pub(super) fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// What `actset_output` of a packet is: the last output, unless there is a group.
    pub(super) fn output(&self) -> u32 {
        if self.actions.iter().any(|action| matches!(action, Action::Group(_))) {
            return port::UNSET;
        }
        let output = self.actions.iter().rev().find_map(|action| match action {
            Action::Output { port, max_len: None } => Some(*port),
            action if is_controller(action) => Some(port::CONTROLLER),
            _ => None,
        });
        output.unwrap_or(port::UNSET)
    }
}

/// `CONTROLLER` as a port, in either form that the syntax has for it.
pub(super) fn is_controller(action: &Action) -> bool {
    match action {
        Action::Output { port, .. } => *port == port::CONTROLLER,
        Action::Controller(controller) => {
            let plain = controller.id == 0 && controller.userdata.is_empty() && controller.meter.is_none();
            plain && !controller.pause && controller.reason == vswitch_flow::action::Reason::Action
        }
        _ => false,
    }
}

/// Where an action stands in the order of OpenFlow 1.5.1, 5.6 (and of Open vSwitch, for its own
/// actions).
enum Class {
    /// Once, the last one written, at this place.
    Slot(usize),
    /// All of them, as written, behind the slots.
    Set,
    /// At the end: the last one written of the highest class.
    Final(u8),
    /// Never.
    None,
}

fn classify(action: &Action) -> Class {
    match action {
        Action::PopVlan => Class::Slot(0),
        Action::PushVlan(_) => Class::Slot(1),
        Action::DecTtl(_) => Class::Slot(2),
        Action::SetField { .. }
        | Action::Move { .. }
        | Action::SetTtl(_)
        | Action::SetVlanVid(_)
        | Action::SetVlanPcp(_) => Class::Set,
        Action::Ct(_) => Class::Final(0),
        Action::Resubmit { .. } => Class::Final(1),
        Action::Output { max_len: None, .. } => Class::Final(2),
        action if is_controller(action) => Class::Final(2),
        Action::Group(_) => Class::Final(3),
        _ => Class::None,
    }
}

/// The list that executes an action set. A set that sends the packet nowhere is not executed at
/// all.
pub(super) fn in_order(set: &[Action]) -> Vec<Action> {
    let mut slots = [None; 3];
    let mut sets = Vec::new();
    let mut last: Option<(u8, &Action)> = None;
    for action in set {
        match classify(action) {
            Class::Slot(i) => slots[i] = Some(action),
            Class::Set => sets.push(action),
            Class::Final(class) => {
                if last.is_none_or(|(highest, _)| class >= highest) {
                    last = Some((class, action));
                }
            }
            Class::None => {}
        }
    }
    let Some((_, last)) = last else { return Vec::new() };
    slots.into_iter().flatten().chain(sets).chain([last]).cloned().collect()
}
