//! Objects by kind and name, whatever file they are from.

mod addresses;
mod in_force;

use crate::kinds::ruled::{Class, WrongPolicy};
use crate::kinds::{
    Document, DocumentBody, DocumentKey, Labels, Meta, antrea_policy, cluster_group, egress, endpoint_slice,
    external_ip_pool, k8s_policy, node, node_config, pod, service, tier, traffic_control,
};
use crate::problem::{Origin, Problem};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// An object.
#[derive(Clone, Debug)]
pub struct Item<T> {
    /// Its metadata.
    pub meta: Meta,
    /// Where it is from.
    pub origin: Origin,
    /// What it says.
    pub body: T,
}

/// Objects by "namespace/name" or name.
pub type Items<T> = BTreeMap<String, Item<T>>;

/// All objects.
#[derive(Debug, Default)]
pub struct Model {
    /// Namespaces that have a document.
    pub namespaces: Items<()>,
    /// Nodes.
    pub nodes: Items<node::NodeBody>,
    /// NodeConfigs.
    pub node_configs: Items<node_config::NodeConfigBody>,
    /// Pods of all Nodes.
    pub pods: Items<pod::PodBody>,
    /// Services.
    pub services: Items<service::ServiceBody>,
    /// EndpointSlices.
    pub endpoint_slices: Items<endpoint_slice::EndpointSliceBody>,
    /// NetworkPolicies of Kubernetes.
    pub k8s_policies: Items<k8s_policy::K8sPolicyBody>,
    /// NetworkPolicies of Antrea.
    pub antrea_policies: Items<antrea_policy::AntreaPolicyBody>,
    /// ClusterNetworkPolicies.
    pub cluster_policies: Items<antrea_policy::AntreaPolicyBody>,
    /// Policies of policy.networking.k8s.io, by their kinds.
    pub admin_policies: BTreeMap<Class, Items<antrea_policy::AntreaPolicyBody>>,
    /// Tiers.
    pub tiers: Items<tier::TierBody>,
    /// All priorities that documents say of a Tier.
    pub tier_priorities: BTreeMap<String, BTreeSet<u32>>,
    /// ClusterGroups.
    pub cluster_groups: Items<cluster_group::ClusterGroupBody>,
    /// Groups of namespaces.
    pub groups: Items<cluster_group::ClusterGroupBody>,
    /// Names of Groups whose documents do not say their namespace: they may be meant to be
    /// ClusterGroups, or of another one.
    pub homeless_groups: BTreeSet<String>,
    /// Egresses.
    pub egresses: Items<egress::EgressBody>,
    /// ExternalIPPools.
    pub external_ip_pools: Items<external_ip_pool::ExternalIpPoolBody>,
    /// TrafficControls.
    pub traffic_controls: Items<traffic_control::TrafficControlBody>,
    /// Policies that are not understood as a whole.
    pub wrong_policies: Vec<Item<WrongPolicy>>,
    /// Policies of Kubernetes that another one of their name keeps from counting.
    pub other_k8s: Vec<Item<k8s_policy::K8sPolicyBody>>,
    /// Policies of Antrea that another one of their name keeps from counting.
    pub other_antrea: Vec<(Class, Item<antrea_policy::AntreaPolicyBody>)>,
    /// Other documents that are not understood.
    pub wrong: BTreeSet<DocumentKey>,
    /// What is in force without labels that cannot be read: no rule that allows means it by its
    /// labels.
    pub unknown_labels: BTreeSet<DocumentKey>,
    /// Pods of which not all is understood, and whether their labels are.
    pub doubtful: BTreeMap<String, (Item<pod::PodBody>, bool)>,
    /// Objects that documents say differently, none of which was in force: the first one counts, as
    /// far as the others agree.
    pub unsettled: BTreeSet<DocumentKey>,
    /// Of objects with several documents, the one that counts; and those with addresses that no
    /// document says any more.
    pub counted: BTreeMap<DocumentKey, Document>,
    /// Of Namespaces that are unsettled, the labels that do not count.
    pub other_labels: BTreeMap<String, Vec<Labels>>,
    /// The CNI server gives Pods of this Node their ports: one without a port will have one.
    pub gives_ports: bool,
}

impl Model {
    /// Puts documents together of which nothing was in force before.
    pub fn new(documents: Vec<Document>) -> (Self, Vec<Problem>) {
        Self::after(documents, &Self::default())
    }

    /// Puts documents together. Of those with one name the one that counted in `before` counts, or
    /// what has become of it; else the first one in order of files and lines.
    pub fn after(documents: Vec<Document>, before: &Self) -> (Self, Vec<Problem>) {
        let is_short = |document: &&Document| document.left.as_ref().is_some_and(|left| !left.knows_labels);
        let unknown_labels = documents.iter().filter(is_short).map(|document| document.key.clone()).collect();
        let documents = documents.into_iter().flat_map(Document::settled).collect();
        let (documents, unsettled, doubled) = in_force::in_turn(documents, before);
        let mut model = Self { unsettled, unknown_labels, ..Self::default() };
        let mut problems = Vec::new();
        for document in documents {
            if document.is_understood() && doubled.contains(&document.key) {
                model.counted.entry(document.key.clone()).or_insert_with(|| document.clone());
            }
            if let Err(problem) = model.insert(document) {
                problems.push(*problem);
            }
        }
        problems.extend(model.keep_addresses(before));
        model.wrong_policies.sort_by(|a, b| a.origin.cmp(&b.origin));
        (model, problems)
    }

    /// What was known at the end of an earlier run of objects that several documents say: which one
    /// counts, objects of which none does, and those that were not understood.
    pub fn known(counted: Vec<Document>, unsettled: BTreeSet<DocumentKey>, wrong: BTreeSet<DocumentKey>) -> Self {
        let mut model = Self { unsettled, wrong, ..Self::default() };
        for Document { key, origin, meta, body, .. } in counted {
            // (Each is there once.)
            let _ = model.insert_body(&key, origin, meta, body);
        }
        model
    }

    fn insert(&mut self, document: Document) -> Result<(), Box<Problem>> {
        let Document { key, origin, meta, says_namespace, body, left: _ } = document;
        if matches!(body, DocumentBody::Group(_)) && !says_namespace {
            self.homeless_groups.insert(meta.name.clone());
        }
        if let DocumentBody::Tier(body) = &body {
            self.tier_priorities.entry(meta.full_name()).or_default().insert(body.spec.priority);
        }
        let again = self.is_taken(&key).then(|| body.clone());
        self.insert_body(&key, origin, meta, body).map_err(|double| {
            let Double { problem, other } = *double;
            self.doubt(key, other, again);
            Box::new(problem)
        })
    }

    /// Whether a document of which more is to be known has an object's name already.
    fn is_taken(&self, (kind, name): &DocumentKey) -> bool {
        let has = [self.pods.contains_key(name), self.k8s_policies.contains_key(name)];
        let has_admin = self.admin_policies.values().any(|items| items.contains_key(name));
        let has_antrea = [self.antrea_policies.contains_key(name), self.cluster_policies.contains_key(name), has_admin];
        (kind == "Pod." || kind.contains("NetworkPolicy.")) && (has.contains(&true) || has_antrea.contains(&true))
    }

    /// An object that another document says otherwise: which one is meant is not known.
    fn doubt(&mut self, key: DocumentKey, Item { meta, origin, body: () }: Item<()>, body: Option<DocumentBody>) {
        match body {
            // Where it is, the first one says.
            Some(DocumentBody::Pod(mut body)) => {
                if let Some(first) = self.pods.get(&key.1) {
                    first.body.spec.node_name.clone_into(&mut body.spec.node_name);
                    body.spec.host_network = first.body.spec.host_network;
                    body.status = first.body.status.clone();
                    let has_labels = !self.doubtful.contains_key(&key.1);
                    self.doubtful.insert(key.1.clone(), (Item { meta, origin, body: *body }, has_labels));
                }
            }
            Some(DocumentBody::K8sPolicy(body)) => self.other_k8s.push(Item { meta, origin, body: *body }),
            Some(DocumentBody::AntreaPolicy(body)) => {
                self.other_antrea.push((Class::Antrea, Item { meta, origin, body: *body }));
            }
            Some(DocumentBody::ClusterPolicy(body)) => {
                self.other_antrea.push((Class::Cluster, Item { meta, origin, body: *body }));
            }
            Some(DocumentBody::AdminPolicy(class, body)) => {
                self.other_antrea.push((class, Item { meta, origin, body: *body }));
            }
            _ if key.0 == "Namespace." && self.unsettled.contains(&key) => {
                self.other_labels.entry(key.1.clone()).or_default().push(meta.labels);
            }
            _ => {}
        }
        self.wrong.insert(key);
    }

    fn insert_body(
        &mut self,
        key: &DocumentKey,
        origin: Origin,
        meta: Meta,
        body: DocumentBody,
    ) -> Result<(), Box<Double>> {
        match body {
            DocumentBody::WrongPolicy(body) => {
                self.wrong_policies.push(Item { meta, origin, body: *body });
                Ok(())
            }
            DocumentBody::Wrong { has_meta, pod } => {
                if let Some(body) = pod {
                    // One without a name may be any: it goes by its place, which is no Pod's name.
                    let place = || format!("{}:{}", origin.file, origin.line);
                    let name = if key.1.is_empty() { place() } else { key.1.clone() };
                    self.doubtful.insert(name, (Item { meta, origin, body: *body }, has_meta));
                }
                self.wrong.insert(key.clone());
                Ok(())
            }
            DocumentBody::LeftOut => Ok(()),
            DocumentBody::Namespace => insert(&mut self.namespaces, origin, meta, ()),
            DocumentBody::Node(body) => insert(&mut self.nodes, origin, meta, body),
            DocumentBody::NodeConfig(body) => insert(&mut self.node_configs, origin, meta, *body),
            DocumentBody::Pod(body) => insert(&mut self.pods, origin, meta, *body),
            DocumentBody::Service(body) => insert(&mut self.services, origin, meta, *body),
            DocumentBody::EndpointSlice(body) => insert(&mut self.endpoint_slices, origin, meta, *body),
            DocumentBody::K8sPolicy(body) => insert(&mut self.k8s_policies, origin, meta, *body),
            DocumentBody::AntreaPolicy(body) => insert(&mut self.antrea_policies, origin, meta, *body),
            DocumentBody::ClusterPolicy(body) => insert(&mut self.cluster_policies, origin, meta, *body),
            DocumentBody::AdminPolicy(class, body) => {
                insert(self.admin_policies.entry(class).or_default(), origin, meta, *body)
            }
            DocumentBody::Tier(body) => insert(&mut self.tiers, origin, meta, body),
            DocumentBody::ClusterGroup(body) => insert(&mut self.cluster_groups, origin, meta, *body),
            DocumentBody::Group(body) => insert(&mut self.groups, origin, meta, *body),
            DocumentBody::Egress(body) => insert(&mut self.egresses, origin, meta, *body),
            DocumentBody::ExternalIpPool(body) => insert(&mut self.external_ip_pools, origin, meta, *body),
            DocumentBody::TrafficControl(body) => insert(&mut self.traffic_controls, origin, meta, *body),
        }
    }

    /// Whether documents say an object differently, or one of it is not understood.
    pub fn is_disputed(&self, key: &DocumentKey) -> bool {
        self.wrong.contains(key)
    }

    /// Whether there is a document of a kind (`Service.`, `ClusterGroup.crd.antrea.io`) and name
    /// that is not understood.
    pub fn is_wrong(&self, kind: &str, name: &str) -> bool {
        self.wrong.contains(&(kind.to_owned(), name.to_owned()))
    }

    /// Whether an object that is not there may have a document: one that is not understood has its
    /// name, or no name that can be read.
    pub fn may_be(&self, kind: &str, name: &str) -> bool {
        self.is_wrong(kind, name) || self.is_wrong(kind, "")
    }

    /// Whether an object is in force without labels that cannot be read.
    pub fn has_unknown_labels(&self, kind: &str, name: &str) -> bool {
        !self.unknown_labels.is_empty() && self.unknown_labels.contains(&(kind.to_owned(), name.to_owned()))
    }

    /// Labels of a namespace; one without a document has its name only.
    pub fn namespace_labels(&self, namespace: &str) -> Labels {
        let mut labels = self.namespaces.get(namespace).map(|item| item.meta.labels.clone()).unwrap_or_default();
        labels.insert("kubernetes.io/metadata.name".to_owned(), namespace.to_owned());
        labels
    }
}

/// A document whose name another one has, which says something else.
struct Double {
    problem: Problem,
    other: Item<()>,
}

fn insert<T: PartialEq>(items: &mut Items<T>, origin: Origin, meta: Meta, body: T) -> Result<(), Box<Double>> {
    match items.entry(meta.full_name()) {
        Entry::Vacant(entry) => {
            entry.insert(Item { meta, origin, body });
            Ok(())
        }
        // What is said twice means the same once.
        Entry::Occupied(entry) if entry.get().meta == meta && entry.get().body == body => Ok(()),
        Entry::Occupied(entry) => {
            let first = &entry.get().origin;
            let reason = format!("is in {}:{} already, which counts", first.file, first.line);
            let problem = origin.error("metadata.name", reason).hint("take one of them away");
            Err(Box::new(Double { problem, other: Item { meta, origin, body: () } }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::understand;
    use crate::source::documents;

    #[test]
    fn of_two_with_one_name_the_first_counts() {
        let text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {n: FIRST}}\n";
        let read = |file: &str, n: &str| understand(file, documents(&text.replace("FIRST", n)).expect("YAML")).0;
        for order in [["a.yaml", "b.yaml"], ["b.yaml", "a.yaml"]] {
            let both = order.iter().flat_map(|file| read(file, &file[..1])).collect();
            let (model, problems) = Model::new(both);
            assert_eq!(model.namespaces["a"].meta.labels["n"], "a");
            let text = problems.iter().map(ToString::to_string).collect::<Vec<_>>();
            let expected =
                "b.yaml:3 Namespace a: metadata.name: is in a.yaml:1 already, which counts; take one of them away";
            assert_eq!(text, [expected]);
            assert_eq!(model.namespace_labels("a")["kubernetes.io/metadata.name"], "a");
            assert_eq!(model.namespace_labels("other").len(), 1);
        }
    }
}
