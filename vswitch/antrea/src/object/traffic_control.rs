//! `TrafficControl`.

mod compile;
#[cfg(test)]
mod tests;

use super::egress::{pod_references, read_pods};
use super::judge;
use crate::problem::{Code, Problems};
use crate::{Claim, Desired, Facts, Flush, Ids, ObjectKind, CompiledObject, Problem, Reference};
use std::collections::BTreeSet;
use vswitch_proto::antrea::v1;

/// The highest priority.
const PRIORITY_MAX: u32 = 4;

/// What happens to packets. A redirect goes before a mirror of the same priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A copy leaves.
    Mirror,
    /// They leave, and go on when they come back.
    Redirect,
}

/// A mirror or redirection of the packets of some Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficControl {
    /// Pods of this Node that it applies to.
    pub pods: Vec<String>,
    /// Packets that Pods receive.
    pub ingress: bool,
    /// Packets that Pods send.
    pub egress: bool,
    /// What happens to them.
    pub action: Action,
    /// Where copies or packets leave.
    pub target: String,
    /// Where they come back.
    pub back: Option<String>,
    /// The highest counts.
    pub priority: u8,
}

impl TrafficControl {
    pub(crate) fn name_of(message: &v1::TrafficControl) -> String {
        message.name.clone()
    }

    pub(crate) fn read(message: &v1::TrafficControl, problems: &mut Problems) -> Option<Self> {
        let pods = read_pods(&message.pods, problems);
        let direction = match v1::TrafficDirection::try_from(message.direction) {
            Ok(v1::TrafficDirection::Unspecified) => {
                problems.push(Code::Missing, "direction", "it has no direction");
                None
            }
            Ok(v1::TrafficDirection::Ingress) => Some((true, false)),
            Ok(v1::TrafficDirection::Egress) => Some((false, true)),
            Ok(v1::TrafficDirection::Both) => Some((true, true)),
            Err(_) => {
                problems.push(Code::Value, "direction", format!("{} is no direction", message.direction));
                None
            }
        };
        let action = match v1::TrafficControlAction::try_from(message.action) {
            Ok(v1::TrafficControlAction::Unspecified) => {
                problems.push(Code::Missing, "action", "it has no action");
                None
            }
            Ok(v1::TrafficControlAction::Mirror) => Some(Action::Mirror),
            Ok(v1::TrafficControlAction::Redirect) => Some(Action::Redirect),
            Err(_) => {
                problems.push(Code::Value, "action", format!("{} is no action", message.action));
                None
            }
        };
        if message.target_port.is_empty() {
            problems.push(Code::Missing, "target_port", "it has no target");
        }
        if action == Some(Action::Mirror) && !message.return_port.is_empty() {
            problems.push(Code::Value, "return_port", "copies do not come back: it is for redirects only");
        }
        let priority = u8::try_from(message.priority).ok().filter(|_| message.priority <= PRIORITY_MAX);
        if priority.is_none() {
            problems.push(Code::Range, "priority", format!("{}: 0 to {PRIORITY_MAX}", message.priority));
        }
        let (ingress, egress) = direction?;
        Some(Self {
            pods,
            ingress,
            egress,
            action: action?,
            target: message.target_port.clone(),
            back: Some(message.return_port.clone()).filter(|port| !port.is_empty()),
            priority: priority?,
        })
    }

    pub(crate) fn references(&self) -> Vec<Reference> {
        pod_references(&self.pods)
    }

    pub(crate) fn claims(&self) -> Vec<(Claim, String)> {
        Vec::new()
    }

    pub(crate) fn judge(&self, _name: &str, facts: &Facts<'_>, problems: &mut Problems) {
        if !facts.features().traffic_control {
            problems.push(Code::Feature, "", "it needs features.traffic_control");
        }
        judge::there("target_port", &self.target, facts, problems);
        if self.target == facts.node.gateway.port {
            problems.push(Code::Port, "target_port", "it is the gateway");
        }
        if let Some(back) = &self.back {
            judge::port("return_port", back, facts, problems);
        }
        let back = self.back.iter().map(|port| ("return_port", port));
        for (field, port) in [("target_port", &self.target)].into_iter().chain(back) {
            let claim = Claim::Port(port.clone());
            let mut holders = facts.desired.holders(&claim);
            // A target may be a peer's tunnel; packets that come back by one are tunneled ones.
            if let Some(key) = holders.find(|key| key.kind == ObjectKind::Pod || field == "return_port") {
                let problem = Problem::new(Code::Port, field, format!("port {port:?} belongs to {key}"));
                problems.add(problem.other(key.clone()));
            }
        }
    }

    pub(crate) fn claim(&self, _name: &str, _desired: &Desired, _ids: &mut Ids) -> Result<(), Problem> {
        Ok(())
    }

    pub(crate) fn ports(&self) -> Vec<String> {
        [&self.target].into_iter().chain(&self.back).cloned().collect()
    }

    pub(crate) fn flush(&self, _name: &str, _new: Option<&Self>, _facts: &Facts<'_>, _flush: &mut BTreeSet<Flush>) {}

    pub(crate) fn compile(&self, name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
        compile::compile(self, name, facts, compiled);
    }

    /// Whether two of them are for the same packets of a Pod with the same right: by direction,
    /// ingress and egress.
    const fn contends(&self, other: &Self) -> (bool, bool) {
        let equal = self.priority == other.priority && matches!(self.action, Action::Mirror) == matches!(other.action, Action::Mirror);
        (equal && self.ingress && other.ingress, equal && self.egress && other.egress)
    }
}
