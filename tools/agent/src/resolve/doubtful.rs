//! Pods that may be more than they are known to be, since their document or their namespace's is not understood. Rules that deny mean them, too.

use super::selector::matches;
use super::world::{Members, Select, Spaces, World};
use crate::model::Model;
use std::collections::{BTreeMap, BTreeSet};

/// What is not known.
#[derive(Debug)]
pub(super) struct Doubtful<'a> {
    /// Pods whose documents are not understood, by their indices, and whether their labels are known.
    pods: BTreeMap<usize, bool>,
    /// Namespaces whose labels are not known, or may be others than they have.
    spaces: BTreeSet<&'a str>,
}

impl<'a> Doubtful<'a> {
    pub(super) fn new(model: &'a Model) -> Self {
        let spaces = model.wrong.iter().filter(|(kind, _)| kind == "Namespace.");
        Self { pods: BTreeMap::new(), spaces: spaces.map(|(_, name)| name.as_str()).collect() }
    }

    pub(super) fn add(&mut self, index: usize, has_labels: bool) {
        self.pods.insert(index, has_labels);
    }

    /// Whether the labels of a namespace are not known, or may be others than it has.
    pub(super) fn has_space(&self, namespace: &str) -> bool {
        self.spaces.contains(namespace)
    }

    /// Pods that may be selected beside those that are.
    pub(super) fn of(&self, world: &World<'_>, select: &Select, selected: &[usize]) -> Vec<usize> {
        if self.pods.is_empty() && self.spaces.is_empty() {
            return Vec::new();
        }
        let by_labels = matches!(select.spaces, Spaces::Matching(_) | Spaces::Same(_));
        let may_be = |index: &usize| {
            let pod = &world.pods[*index];
            let (meta, spec) = (&pod.item.meta, &pod.item.body.spec);
            let account = spec.service_account_name.as_deref().unwrap_or("default");
            let knows_labels = self.pods.get(index).copied().unwrap_or(true);
            let is_in_doubt = pod.is_wrong || self.has_space(&meta.namespace);
            let may_space =
                world.holds(&select.spaces, &meta.namespace) || (by_labels && self.has_space(&meta.namespace));
            is_in_doubt
                && !spec.host_network
                && (may_space || meta.namespace.is_empty())
                && (!knows_labels || matches(&select.pods, &meta.labels))
                && select.account.as_ref().is_none_or(|wanted| wanted == account || pod.is_wrong)
        };
        (0..world.pods.len()).filter(may_be).filter(|index| !selected.contains(index)).collect()
    }
}

impl Members {
    /// All that may be meant: of a rule that denies.
    pub fn and_doubtful(&mut self) {
        if !self.doubtful.is_empty() {
            self.name = format!("{}, and who may be one", self.name);
            self.pods = self.pods.iter().chain(self.doubtful.iter()).copied().collect();
            self.doubtful = [].into();
        }
    }

    /// Those that may be meant, and are not known to be.
    pub fn only_doubtful(&self) -> Option<Self> {
        let name = format!("{}, who may be one", self.name);
        let (pods, addresses, doubtful) = (self.doubtful.iter().copied().collect(), Vec::new(), [].into());
        (!self.doubtful.is_empty()).then_some(Self { name, pods, addresses, doubtful })
    }
}

impl World<'_> {
    /// Names of those of this Node that may be among members, and are not known to be.
    pub fn local_doubtful(&self, members: &Members) -> Vec<String> {
        let names: Vec<&str> = members.doubtful.iter().map(|index| self.pods[*index].name).collect();
        if names.is_empty() {
            return Vec::new();
        }
        let local = self.pods.iter().filter(|pod| pod.is_local && names.contains(&pod.name));
        local.map(|pod| pod.name.to_owned()).collect()
    }
}
