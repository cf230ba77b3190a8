//! Objects by kind and name, whatever file they are from.

use crate::kinds::ruled::{Class, WrongPolicy};
use crate::kinds::{
    Document, DocumentBody, DocumentKey, Labels, Meta, antrea_policy, cluster_group, egress, endpoint_slice,
    k8s_policy, node, node_config, pod, service, tier, traffic_control,
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
    /// Tiers.
    pub tiers: Items<tier::TierBody>,
    /// All priorities that documents say of a Tier.
    pub tier_priorities: BTreeMap<String, BTreeSet<u32>>,
    /// ClusterGroups.
    pub cluster_groups: Items<cluster_group::ClusterGroupBody>,
    /// Groups of namespaces.
    pub groups: Items<cluster_group::ClusterGroupBody>,
    /// Egresses.
    pub egresses: Items<egress::EgressBody>,
    /// TrafficControls.
    pub traffic_controls: Items<traffic_control::TrafficControlBody>,
    /// Policies that are not understood as a whole, and those whose name another one has.
    pub wrong_policies: Vec<Item<WrongPolicy>>,
    /// Other documents that are not understood.
    pub wrong: BTreeSet<DocumentKey>,
    /// What is in force without labels that cannot be read: no rule that allows means it by its labels.
    pub unknown_labels: BTreeSet<DocumentKey>,
    /// Pods of which not all is understood, and whether their labels are.
    pub doubtful: BTreeMap<String, (Item<pod::PodBody>, bool)>,
}

impl Model {
    /// Puts documents together. Of two with one name, the first one in order of files and lines counts.
    pub fn new(documents: Vec<Document>) -> (Self, Vec<Problem>) {
        let (mut model, mut problems) = (Self::default(), Vec::new());
        let is_short = |document: &&Document| document.left.as_ref().is_some_and(|left| !left.knows_labels);
        model.unknown_labels = documents.iter().filter(is_short).map(|document| document.key.clone()).collect();
        let mut documents: Vec<Document> = documents.into_iter().flat_map(Document::settled).collect();
        documents.sort_by(|a, b| a.origin.cmp(&b.origin));
        for document in documents {
            if let Err(problem) = model.insert(document) {
                problems.push(*problem);
            }
        }
        (model, problems)
    }

    fn insert(&mut self, Document { key, origin, meta, body, left: _ }: Document) -> Result<(), Box<Problem>> {
        if let DocumentBody::Tier(body) = &body {
            self.tier_priorities.entry(meta.full_name()).or_default().insert(body.spec.priority);
        }
        let double = match &body {
            DocumentBody::K8sPolicy(body) => Some(WrongPolicy::of_k8s(&body.spec)),
            DocumentBody::AntreaPolicy(body) => Some(WrongPolicy::of_antrea(Class::Antrea, &body.spec)),
            DocumentBody::ClusterPolicy(body) => Some(WrongPolicy::of_antrea(Class::Cluster, &body.spec)),
            _ => None,
        };
        let again = double.map(|body| Item { meta: meta.clone(), origin: origin.clone(), body });
        self.insert_body(&key, origin, meta, body).map_err(|double| {
            let Double { problem, other } = *double;
            self.wrong_policies.extend(again); // somebody may count on it
            self.doubt(key, other);
            Box::new(problem)
        })
    }

    /// An object that another document says otherwise: which one is meant is not known.
    fn doubt(&mut self, key: DocumentKey, Item { meta, origin, body: () }: Item<()>) {
        if let Some(first) = self.pods.get(&key.1).filter(|_| key.0 == "Pod.") {
            let has_labels = !self.doubtful.contains_key(&key.1);
            self.doubtful.insert(key.1.clone(), (Item { meta, origin, body: first.body.clone() }, has_labels));
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
                if let (Some(body), false) = (pod, key.1.is_empty()) {
                    self.doubtful.insert(key.1.clone(), (Item { meta, origin, body: *body }, has_meta));
                }
                self.wrong.insert(key.clone());
                Ok(())
            }
            DocumentBody::Namespace => insert(&mut self.namespaces, origin, meta, ()),
            DocumentBody::Node(body) => insert(&mut self.nodes, origin, meta, body),
            DocumentBody::NodeConfig(body) => insert(&mut self.node_configs, origin, meta, *body),
            DocumentBody::Pod(body) => insert(&mut self.pods, origin, meta, *body),
            DocumentBody::Service(body) => insert(&mut self.services, origin, meta, *body),
            DocumentBody::EndpointSlice(body) => insert(&mut self.endpoint_slices, origin, meta, *body),
            DocumentBody::K8sPolicy(body) => insert(&mut self.k8s_policies, origin, meta, *body),
            DocumentBody::AntreaPolicy(body) => insert(&mut self.antrea_policies, origin, meta, *body),
            DocumentBody::ClusterPolicy(body) => insert(&mut self.cluster_policies, origin, meta, *body),
            DocumentBody::Tier(body) => insert(&mut self.tiers, origin, meta, body),
            DocumentBody::ClusterGroup(body) => insert(&mut self.cluster_groups, origin, meta, *body),
            DocumentBody::Group(body) => insert(&mut self.groups, origin, meta, *body),
            DocumentBody::Egress(body) => insert(&mut self.egresses, origin, meta, *body),
            DocumentBody::TrafficControl(body) => insert(&mut self.traffic_controls, origin, meta, *body),
        }
    }

    /// Whether there is a document of a kind (`Service.`, `ClusterGroup.crd.antrea.io`) and name that is not understood.
    pub fn is_wrong(&self, kind: &str, name: &str) -> bool {
        self.wrong.contains(&(kind.to_owned(), name.to_owned()))
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
