//! `AppliedToGroup`: what policies are applied to. It writes nothing itself: policies that name it
//! do.

use super::policy::{check_names, names};
use crate::key::{ObjectKind, Need};
use crate::limits::APPLIED_TO_MAX;
use crate::problem::{Code, Problems};
use crate::{Claim, Desired, Facts, Flush, Ids, Key, CompiledObject, Problem, Reference};
use std::collections::BTreeSet;
use std::sync::Arc;
use vswitch_proto::antrea::v1;

/// Pods, or Services, that policies which name this group are applied to.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedToGroup {
    pub(crate) pods: Vec<Arc<str>>,
    pub(crate) services: Vec<Arc<str>>,
}

impl AppliedToGroup {
    pub(crate) fn name_of(message: &v1::AppliedToGroup) -> String {
        message.name.clone()
    }

    pub(crate) fn read(message: &v1::AppliedToGroup, problems: &mut Problems) -> Option<Self> {
        for (field, list) in [("pods", &message.pods), ("services", &message.services)] {
            if list.len() > APPLIED_TO_MAX {
                problems.push(Code::Limit, field, format!("there are {}, at most {APPLIED_TO_MAX}", list.len()));
            }
        }
        if !message.pods.is_empty() && !message.services.is_empty() {
            problems.push(Code::Value, "services", "they cannot be named together with Pods");
        }
        check_names("services", &message.services, problems);
        Some(Self {
            pods: names("pods", &message.pods, problems),
            services: names("services", &message.services, problems),
        })
    }

    pub(crate) fn references(&self) -> Vec<Reference> {
        let of = |kind, field: &'static str| {
            move |(at, name): (usize, &Arc<str>)| Reference {
                key: Key { kind, name: Arc::clone(name) },
                need: Need::May,
                field: format!("{field}[{at}]"),
            }
        };
        let pods = self.pods.iter().enumerate().map(of(ObjectKind::Pod, "pods"));
        pods.chain(self.services.iter().enumerate().map(of(ObjectKind::Service, "services"))).collect()
    }

    pub(crate) fn claims(&self) -> Vec<(Claim, String)> {
        Vec::new()
    }

    pub(crate) fn judge(&self, _name: &str, facts: &Facts<'_>, problems: &mut Problems) {
        if self.services.is_empty() {
            return;
        }
        if !facts.features().proxy_all {
            problems.push(Code::Feature, "services", "NodePorts need features.proxy_all");
        }
    }

    pub(crate) fn claim(&self, _name: &str, _desired: &Desired, _ids: &mut Ids) -> Result<(), Problem> {
        Ok(())
    }

    pub(crate) fn ports(&self) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn flush(&self, _name: &str, _new: Option<&Self>, _facts: &Facts<'_>, _flush: &mut BTreeSet<Flush>) {}

    pub(crate) fn compile(&self, _name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
        let there = |kind, name: &str| facts.desired.get(&Key::new(kind, name)).is_some();
        for (kind, field, names) in [(ObjectKind::Pod, "pods", &self.pods), (ObjectKind::Service, "services", &self.services)] {
            for (at, name) in names.iter().enumerate().filter(|(_, name)| !there(kind, name)) {
                let reason = format!("{} {name} is not there yet", kind.name());
                compiled.degraded.push(Code::Pending, format!("{field}[{at}]"), reason);
            }
        }
    }
}
