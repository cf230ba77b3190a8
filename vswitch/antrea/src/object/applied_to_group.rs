//! `AppliedToGroup`: what policies are applied to. It writes nothing itself: policies that name it do.

use super::policy::{check_names, names};
use crate::address::parse_address;
use crate::object::{Kind, Need, Object};
use crate::problem::{Code, Problems};
use crate::{Claim, Desired, Facts, Flush, Ids, Key, Part, Problem, Reference};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_proto::antrea::v1;

/// Pods of a group.
const PODS_MAX: usize = 4096;

/// See the message.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedToGroup {
    pub(crate) pods: Vec<Arc<str>>,
    pub(crate) services: Vec<Arc<str>>,
}

/// What policies know of a Pod of this Node.
pub(crate) struct LocalPod {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) port: String,
}

/// A Pod, if it is there: from what was written, since that is the contract, and what Pods keep of it is their business.
pub(crate) fn pod(desired: &Desired, name: &str) -> Option<LocalPod> {
    match &desired.get(&Key::new(Kind::Pod, name))?.message {
        v1::object::Object::Pod(pod) => {
            let addresses = pod.addresses.iter().filter_map(|text| parse_address(text).ok()).collect();
            Some(LocalPod { addresses, port: pod.port.clone() })
        }
        _ => None,
    }
}

impl AppliedToGroup {
    pub(crate) fn name_of(message: &v1::AppliedToGroup) -> String {
        message.name.clone()
    }

    pub(crate) fn read(message: &v1::AppliedToGroup, problems: &mut Problems) -> Option<Self> {
        if message.pods.len() > PODS_MAX {
            problems.push(Code::Limit, "pods", format!("there are {}, at most {PODS_MAX}", message.pods.len()));
            return None;
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
        let pods = self.pods.iter().enumerate().map(of(Kind::Pod, "pods"));
        pods.chain(self.services.iter().enumerate().map(of(Kind::Service, "services"))).collect()
    }

    pub(crate) fn claims(&self) -> Vec<(Claim, String)> {
        Vec::new()
    }

    pub(crate) fn judge(&self, name: &str, facts: &Facts<'_>, problems: &mut Problems) {
        if self.services.is_empty() {
            return;
        }
        if !facts.features().proxy_all {
            problems.push(Code::Feature, "services", "NodePorts need features.proxy_all");
        }
        // A policy was good before its group became one of Services.
        for key in facts.desired.referrers(&Key::new(Kind::AppliedToGroup, name)) {
            let Some(Object::NetworkPolicy(policy)) = facts.desired.get(key).map(|entry| &entry.object) else { continue };
            if let Some((field, reason)) = policy.unfit_for_services(name, facts.desired) {
                problems.add(Problem::new(Code::Value, "services", format!("{field}: {reason}")).other(key.clone()));
            }
        }
    }

    pub(crate) fn claim(&self, _name: &str, _desired: &Desired, _ids: &mut Ids) -> Result<(), Problem> {
        Ok(())
    }

    pub(crate) fn ports(&self) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn flush(&self, _name: &str, _new: Option<&Self>, _facts: &Facts<'_>, _flush: &mut BTreeSet<Flush>) {}

    pub(crate) fn compile(&self, _name: &str, facts: &Facts<'_>, part: &mut Part) {
        let there = |kind, name: &str| facts.desired.get(&Key::new(kind, name)).is_some();
        for (kind, field, names) in [(Kind::Pod, "pods", &self.pods), (Kind::Service, "services", &self.services)] {
            for (at, name) in names.iter().enumerate().filter(|(_, name)| !there(kind, name)) {
                let reason = format!("{} {name} is not there yet", kind.name());
                part.degraded.push(Code::Pending, format!("{field}[{at}]"), reason);
            }
        }
    }
}
