//! Which drops a request means.

use crate::services::status::invalid;
use std::collections::BTreeSet;
use tonic::Status;
use vswitch_control::{BridgeInfo, SwitchError};
use vswitch_dataplane::observe::{DropClass, DropReason};
use vswitch_dataplane::port::FieldError;
use vswitch_net_types::suggest::nearest;
use vswitch_proto::v1;

/// What is empty allows all.
#[derive(Debug, Default)]
pub(super) struct Filter {
    bridges: BTreeSet<String>,
    ports: BTreeSet<String>,
    reasons: BTreeSet<DropReason>,
    classes: BTreeSet<DropClass>,
}

/// A word that is none of these.
fn unknown<'a>(field: &'static str, word: &str, known: impl Iterator<Item = &'a str> + Clone, list: &str) -> Status {
    let hint = match nearest(word, known) {
        Some(near) => format!("did you mean {near}? {list}"),
        None => list.to_owned(),
    };
    invalid(&[FieldError::new(field, format!("{word:?} is not known"), hint)])
}

/// A reason by its name.
pub(super) fn reason(field: &'static str, name: &str) -> Result<DropReason, Status> {
    let all = DropReason::ALL.iter().map(|reason| reason.name());
    DropReason::by_name(name).ok_or_else(|| unknown(field, name, all, "`vsctl drop-reasons` lists them"))
}

fn class(name: &str) -> Result<DropClass, Status> {
    let all = DropClass::ALL.iter().map(|class| class.name());
    let list = format!("classes are: {}", all.clone().collect::<Vec<_>>().join(", "));
    DropClass::by_name(name).ok_or_else(|| unknown("classes", name, all, &list))
}

impl Filter {
    pub(super) fn new(message: v1::DropFilter) -> Result<Self, Status> {
        Ok(Self {
            bridges: message.bridges.into_iter().collect(),
            ports: message.ports.into_iter().collect(),
            reasons: message.reasons.iter().map(|name| reason("reasons", name)).collect::<Result<_, _>>()?,
            classes: message.classes.iter().map(|name| class(name)).collect::<Result<_, _>>()?,
        })
    }

    /// Whether what it names is there.
    pub(super) fn check(&self, bridges: &[BridgeInfo]) -> Result<(), SwitchError> {
        let missing = |what: &'static str, name: &str, hint: &str| SwitchError::NotFound {
            what,
            name: name.to_owned(),
            hint: hint.to_owned(),
        };
        if let Some(name) = self.bridges.iter().find(|name| !bridges.iter().any(|one| one.config.name == **name)) {
            return Err(missing("bridge", name, "`vsctl list-br` lists them"));
        }
        let has = |name: &str| bridges.iter().flat_map(|bridge| &bridge.ports).any(|port| port.config.name == name);
        match self.ports.iter().find(|name| !has(name)) {
            Some(name) => Err(missing("port", name, "`vsctl show` lists them")),
            None => Ok(()),
        }
    }

    pub(super) fn allows(&self, bridge: &str, port: &str, reason: DropReason) -> bool {
        self.allows_reason(reason)
            && (self.bridges.is_empty() || self.bridges.contains(bridge))
            && (self.ports.is_empty() || self.ports.contains(port))
    }

    pub(super) fn allows_reason(&self, reason: DropReason) -> bool {
        (self.reasons.is_empty() || self.reasons.contains(&reason))
            && (self.classes.is_empty() || self.classes.contains(&reason.class()))
    }
}
