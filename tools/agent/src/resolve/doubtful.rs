//! Pods that may be more than they are known to be, since their document or their namespace's is
//! not understood. Rules that deny mean them, too.

use super::selector::matches;
use super::spaces::Meant;
use super::world::{Members, Select, Spaces, World};
use crate::problem::{NOWHERE, Origin, Problem};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Namespaces of Pods, as one selection has them.
pub(super) struct Among<'a> {
    world: &'a World<'a>,
    spaces: &'a Spaces,
    /// What has been asked before.
    known: RefCell<HashMap<&'a str, Meant>>,
}

impl<'a> Among<'a> {
    pub(super) fn new(world: &'a World<'a>, spaces: &'a Spaces) -> Self {
        Self { world, spaces, known: RefCell::default() }
    }

    /// Whether a namespace is meant.
    pub(super) fn holds(&self, namespace: &'a str) -> Meant {
        match self.spaces {
            Spaces::One(name) => (name == namespace).into(),
            Spaces::All => Meant::Yes,
            spaces => {
                let mut known = self.known.borrow_mut();
                *known.entry(namespace).or_insert_with(|| self.world.is_among(spaces, namespace))
            }
        }
    }
}

/// What is not known.
#[derive(Debug, Default)]
pub(super) struct Doubtful {
    /// Pods whose documents are not understood, by their indices, and whether their labels are
    /// known.
    pods: BTreeMap<usize, bool>,
    /// Pods that documents say differently, none of which was in force: what another one says;
    /// None: that is not known.
    twins: BTreeMap<usize, Option<usize>>,
    /// There are Pods of namespaces of which not all labels are known.
    pub(super) has_spaces: bool,
    /// Namespaces without a document by whose labels somebody is selected.
    missing: RefCell<BTreeSet<String>>,
}

impl Doubtful {
    pub(super) fn add(&mut self, index: usize, has_labels: bool) {
        self.pods.insert(index, has_labels);
    }

    pub(super) fn add_twin(&mut self, index: usize, other: Option<usize>) {
        self.twins.insert(index, other);
    }

    /// Whether all documents of a Pod say that it is selected, as far as none of them was in force.
    pub(super) fn agrees(&self, world: &World<'_>, index: usize, select: &Select) -> bool {
        match self.twins.get(&index) {
            None => true,
            Some(Some(other)) => select.selects(world.pods[*other].item),
            Some(None) => select.account.is_none() && matches(&select.pods, &BTreeMap::new()),
        }
    }

    /// Pods that may be selected beside those that are.
    pub(super) fn of<'a>(
        &self,
        world: &'a World<'a>,
        select: &'a Select,
        among: &Among<'a>,
        selected: &[usize],
    ) -> Vec<usize> {
        let mut candidates: BTreeSet<usize> = self.pods.keys().chain(self.twins.keys()).copied().collect();
        if self.has_spaces && matches!(select.spaces, Spaces::Matching(_) | Spaces::Same(_) | Spaces::Unknown) {
            let namespace = |index: &usize| world.pods[*index].item.meta.namespace.as_str();
            let labelled = world.candidates(&select.spaces, &select.pods);
            candidates.extend(labelled.filter(|index| among.holds(namespace(index)) == Meant::Maybe));
        }
        if candidates.is_empty() {
            return Vec::new();
        }
        let may_be = |index: &usize| {
            let pod = &world.pods[*index];
            let (meta, spec) = (&pod.item.meta, &pod.item.body.spec);
            let account = spec.service_account_name.as_deref().unwrap_or("default");
            let knows_labels = self.pods.get(index).copied().unwrap_or(true);
            !spec.host_network
                && (!knows_labels || matches(&select.pods, &meta.labels))
                && (among.holds(&meta.namespace) != Meant::No || meta.namespace.is_empty())
                && select.account.as_ref().is_none_or(|wanted| wanted == account || pod.is_wrong)
        };
        let selected: HashSet<usize> = selected.iter().copied().collect();
        let found: Vec<usize> = candidates.into_iter().filter(may_be).filter(|i| !selected.contains(i)).collect();
        let spaces: BTreeSet<&str> =
            found.iter().map(|index| world.pods[*index].item.meta.namespace.as_str()).collect();
        let is_missing =
            |name: &&str| !name.is_empty() && world.namespaces.get(name).is_some_and(|space| space.is_missing());
        let missing = spaces.into_iter().filter(is_missing).filter(|name| among.holds(name) == Meant::Maybe);
        self.missing.borrow_mut().extend(missing.map(str::to_owned));
        found
    }
}

impl Members {
    /// All that may be meant: of a rule that denies.
    pub fn and_doubtful(&mut self) {
        if !self.doubtful.is_empty() || !self.in_doubt.is_empty() {
            self.name = format!("{}, and who may be one", self.name);
            self.addresses.append(&mut self.in_doubt);
            self.pods = self.pods.iter().chain(self.doubtful.iter()).copied().collect();
            self.doubtful = [].into();
        }
    }

    /// Those that may be meant, and are not known to be.
    pub fn only_doubtful(&self) -> Option<Self> {
        let name = format!("{}, who may be one", self.name);
        let (pods, addresses) = (self.doubtful.iter().copied().collect(), self.in_doubt.clone());
        let is_known = self.doubtful.is_empty() && addresses.is_empty();
        (!is_known).then_some(Self { name, pods, addresses, ..Self::default() })
    }

    /// Whether it has no addresses beside those of Pods, and may have none.
    pub fn has_no_addresses(&self) -> bool {
        self.addresses.is_empty() && self.in_doubt.is_empty()
    }
}

impl World<'_> {
    /// Whether there is a Pod that may be more than it is known to be.
    pub fn has_doubts(&self) -> bool {
        !self.doubtful.pods.is_empty() || !self.doubtful.twins.is_empty() || self.doubtful.has_spaces
    }

    /// Namespaces without a document by whose labels somebody has selected Pods.
    pub fn missing_namespaces(&self) -> Vec<Problem> {
        let missing = self.doubtful.missing.borrow();
        let told = |name: &String| {
            let origin = Origin::new(NOWHERE, 0, &format!("Namespace {name}"));
            let reason = "has no document: rules that allow by labels of namespaces leave its Pods out, and rules that \
                          deny mean them";
            origin.warning("", reason).hint("give its document")
        };
        missing.iter().map(told).collect()
    }

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
