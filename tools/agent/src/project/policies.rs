//! Policies as they are, and what stands for those that are wrong: never less than what was meant.

use super::hold::Bound;
use super::node_port_local::NodePorts;
use super::{Projector, hold, tiers};
use crate::kinds::ruled::{Class, WrongPolicy};
use crate::kinds::{DocumentKey, antrea_policy, k8s_policy};
use crate::model::{Item, Model};
use crate::problem::{Origin, Problem};
use crate::resolve::claims::Holders;
use crate::resolve::rule::{Groups, address_group};
use crate::resolve::{World, antrea, k8s};
use std::collections::{BTreeMap, BTreeSet};
use vswitch_proto::antrea::v1::Kind;
use vswitch_proto::antrea::v1::object::Object as Kinded;

/// What documents said when they were right: of policies all, of Tiers their priorities, of Pods of
/// other Nodes whose addresses are; and which ports of the Node Pods have.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub(super) k8s: BTreeMap<String, Item<k8s_policy::K8sPolicyBody>>,
    pub(super) antrea: BTreeMap<String, Item<antrea_policy::AntreaPolicyBody>>,
    pub(super) tiers: BTreeMap<String, u32>,
    pub(super) holders: Holders,
    pub(super) node_ports: NodePorts,
    /// Policies that are right as they are.
    pub(super) right: BTreeSet<String>,
}

impl Memory {
    /// A policy as it was when it was right, in the world as it is.
    fn policy(&self, class: Class, key: &str, world: &World<'_>) -> Option<k8s::Policy> {
        let form = match class {
            Class::K8s => Form::K8s(self.k8s.get(key)?),
            _ => Form::Antrea(class, self.antrea.get(key)?),
        };
        let mut told = Vec::new();
        let policy = form.resolve(world, &mut told).ok()?;
        (!told.iter().any(Problem::is_error)).then_some(policy)
    }

    /// Forgets Tiers that have no document any more and that no policy names, as it is or as it
    /// was: their places are free.
    pub(super) fn forget_tiers(&mut self, model: &Model) {
        let mut named = tiers::named(model);
        named.extend(self.antrea.values().filter_map(|item| item.body.spec.tier.as_deref()));
        self.tiers.retain(|name, _| model.tiers.contains_key(name) || named.contains(name.as_str()));
    }

    fn keep(&mut self, form: &Form<'_>) {
        self.right.insert(form.key());
        match form {
            Form::K8s(item) => {
                self.k8s.insert(form.key(), (*item).clone());
            }
            Form::Antrea(_, item) => {
                self.antrea.insert(form.key(), (*item).clone());
            }
        }
    }
}

/// A policy's document that is understood, but for its rules perhaps.
pub(super) enum Form<'a> {
    K8s(&'a Item<k8s_policy::K8sPolicyBody>),
    Antrea(Class, &'a Item<antrea_policy::AntreaPolicyBody>),
}

impl Form<'_> {
    pub(super) fn class(&self) -> Class {
        match self {
            Self::K8s(_) => Class::K8s,
            Self::Antrea(class, _) => *class,
        }
    }

    pub(super) fn origin(&self) -> &Origin {
        match self {
            Self::K8s(item) => &item.origin,
            Self::Antrea(_, item) => &item.origin,
        }
    }

    pub(super) fn key(&self) -> String {
        let name = match self {
            Self::K8s(item) => item.meta.full_name(),
            Self::Antrea(_, item) => item.meta.full_name(),
        };
        format!("{}:{name}", self.class().prefix())
    }

    pub(super) fn resolve(&self, world: &World<'_>, told: &mut Vec<Problem>) -> Result<k8s::Policy, Box<Problem>> {
        match self {
            Self::K8s(item) => k8s::policy(world, item, told),
            Self::Antrea(class, item) => antrea::policy(world, *class, item, told),
        }
    }

    /// The object that its document is about.
    fn document(&self) -> DocumentKey {
        let name = match self {
            Self::K8s(item) => item.meta.full_name(),
            Self::Antrea(_, item) => item.meta.full_name(),
        };
        (self.class().kind(), name)
    }

    fn has_wrong_rules(&self) -> bool {
        match self {
            Self::K8s(item) => item.body.spec.has_wrong_rules(),
            Self::Antrea(_, item) => item.body.spec.has_wrong_rules(),
        }
    }

    /// The same as one that cannot be taken as it is.
    pub(super) fn wrong(&self) -> Item<WrongPolicy> {
        let (meta, body) = match self {
            Self::K8s(item) => (&item.meta, WrongPolicy::of_k8s(&item.body.spec)),
            Self::Antrea(class, item) => (&item.meta, WrongPolicy::of_antrea(*class, &item.body.spec)),
        };
        Item { meta: meta.clone(), origin: self.origin().clone(), body }
    }
}

impl Projector<'_> {
    pub(super) fn policies(&mut self) {
        let model = self.world.model;
        let k8s = model.k8s_policies.values().map(Form::K8s);
        let antrea = model.antrea_policies.values().map(|item| Form::Antrea(Class::Antrea, item));
        let cluster = model.cluster_policies.values().map(|item| Form::Antrea(Class::Cluster, item));
        let admin = model.admin_policies.iter().flat_map(|(class, items)| {
            let form = |item| Form::Antrea(*class, item);
            items.values().map(form)
        });
        self.tell_what_is_off();
        let mut keys = BTreeSet::new();
        self.memory.right.clear();
        for form in k8s.chain(antrea).chain(cluster).chain(admin) {
            self.policy(&form);
            keys.insert(form.key());
        }
        self.others();
        for item in &model.wrong_policies {
            let key = hold::key(item);
            self.wrong(&key, item);
            keys.insert(key);
        }
        self.memory.k8s.retain(|key, _| keys.contains(key));
        self.memory.antrea.retain(|key, _| keys.contains(key));
    }

    /// Policies of Antrea, and those like them, that bind nobody, since the Node does not serve
    /// them.
    fn tell_what_is_off(&mut self) {
        let model = self.world.model;
        let features = self.world.own.as_ref().ok().and_then(|own| own.spec.features.as_ref());
        if features.and_then(|features| features.antrea_policy) != Some(false) {
            return;
        }
        let admin = model.admin_policies.values().flat_map(BTreeMap::values);
        for item in model.antrea_policies.values().chain(model.cluster_policies.values()).chain(admin) {
            let reason = "binds nobody: features.antreaPolicy of the NodeConfig is off";
            self.problems.push(item.origin.warning("", reason));
        }
    }

    fn policy(&mut self, form: &Form<'_>) {
        let (key, origin) = (form.key(), form.origin());
        let mut told = Vec::new();
        let resolved = form.resolve(&self.world, &mut told);
        let is_unsettled = self.world.model.unsettled.contains(&form.document());
        let is_right =
            resolved.is_ok() && !form.has_wrong_rules() && !told.iter().any(Problem::is_error) && !is_unsettled;
        if is_right {
            self.memory.keep(form);
        }
        let old = if is_right { None } else { self.memory.policy(form.class(), &key, &self.world) };
        let (wrong, is_understood) = (form.wrong(), resolved.is_ok());
        match (resolved, old) {
            (Ok(mut policy), None) => {
                self.problems.extend(told);
                if is_unsettled && self.narrow(form, &mut policy) {
                    let reason = "rules that not all documents of its name have are left out";
                    self.problems.push(origin.warning("", reason));
                }
                self.add_policy(policy, origin);
            }
            (Err(problem), None) => {
                self.problems.extend(told);
                self.problems.push(*problem);
                let bound = hold::selected(&self.world, &wrong);
                self.hold(&key, &wrong, &bound, hold::RIGHT);
                return;
            }
            (resolved, Some(old)) => {
                // What stands for rules that are wrong is not in force.
                self.problems.extend(told.into_iter().filter(Problem::is_error));
                let new = match resolved {
                    Ok(policy) => Bound::of(policy.as_ref()),
                    Err(problem) => {
                        self.problems.push(*problem);
                        hold::selected(&self.world, &wrong)
                    }
                };
                let rest = new.without(&Bound::of(old.as_ref()));
                self.problems.push(origin.warning("", "stays as it was until it is right"));
                self.add_policy(old, origin);
                self.hold(&key, &wrong, &rest, hold::RIGHT);
                if !is_understood {
                    return;
                }
            }
        }
        let may_be = hold::doubtful(&self.world, &wrong);
        let rest = may_be.without(&hold::bound(&self.projection, &key));
        self.hold(&key, &wrong, &rest, hold::KNOWN);
    }

    /// A policy that is not understood as a whole.
    fn wrong(&mut self, key: &str, item: &Item<WrongPolicy>) {
        let projected = self.projection.objects.contains_key(&(Kind::NetworkPolicy as i32, key.to_owned()));
        let mut bound = if projected { hold::bound(&self.projection, key) } else { Bound::default() };
        if !projected && let Some(old) = self.memory.policy(item.body.class, key, &self.world) {
            bound = Bound::of(old.as_ref());
            self.problems.push(item.origin.warning("", "stays as it was until it is right"));
            self.add_policy(old, &item.origin);
        }
        let rest = hold::selected(&self.world, item).without(&bound);
        self.hold(key, item, &rest, hold::RIGHT);
    }

    pub(super) fn add_policy(&mut self, policy: k8s::Policy, origin: &Origin) {
        let Some((policy, Groups { address, applied })) = policy else { return };
        self.add(Kinded::NetworkPolicy(policy), origin);
        for (name, members) in address {
            if !self.projection.objects.contains_key(&(Kind::AddressGroup as i32, name.clone())) {
                let group = address_group(&self.world, name, &members);
                self.add(Kinded::AddressGroup(group), origin);
            }
        }
        applied.into_values().for_each(|group| self.add(Kinded::AppliedToGroup(group), origin));
    }
}
