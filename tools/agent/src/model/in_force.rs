//! Of several documents of one object, the one that counts.

use super::{Item, Items, Model};
use crate::kinds::ruled::Class;
use crate::kinds::{Document, DocumentBody, DocumentKey};
use std::collections::{BTreeSet, HashMap};

/// It is what was in force.
const SAME: u8 = 0;
/// It says what was in force, in another file.
const ALIKE: u8 = 1;
/// It is of the file of what was in force.
const CHANGED: u8 = 2;
/// It is of another file.
const OTHER: u8 = 3;

/// Documents, and objects.
type InTurn = (Vec<Document>, BTreeSet<DocumentKey>, BTreeSet<DocumentKey>);

/// Documents in the order in which they count; objects that several say differently of which none
/// was in force; and all that several say.
pub(super) fn in_turn(mut documents: Vec<Document>, before: &Model) -> InTurn {
    documents.sort_by(|a, b| a.origin.cmp(&b.origin));
    let mut by_key: HashMap<&DocumentKey, Vec<&Document>> = HashMap::with_capacity(documents.len());
    let is_other = |body: &DocumentBody| matches!(body, DocumentBody::Wrong { .. } | DocumentBody::LeftOut);
    for document in documents.iter().filter(|document| !is_other(&document.body)) {
        by_key.entry(&document.key).or_default().push(document);
    }
    by_key.retain(|_, all| all.len() > 1);
    let (mut unsettled, mut kept) = (BTreeSet::new(), Vec::new());
    for (key, all) in &by_key {
        let right: Vec<&Document> = all.iter().copied().filter(|document| document.is_understood()).collect();
        let ranks: Vec<u8> = right.iter().map(|document| before.rank(document)).collect();
        let best = ranks.iter().copied().min().unwrap_or(OTHER);
        if best == OTHER
            && let Some(policy) = became_wrong(all, before)
        {
            kept.push(policy);
        } else if right.iter().any(|document| !is_same(document, right[0])) {
            let firsts = ranks.iter().filter(|rank| **rank == best).count();
            let was_in_force = best <= ALIKE || (best == CHANGED && firsts == 1);
            if !was_in_force || before.unsettled.contains(*key) {
                unsettled.insert((*key).clone());
            }
        }
    }
    let is_double: BTreeSet<DocumentKey> = by_key.into_keys().cloned().collect();
    documents.extend(kept);
    documents
        .sort_by_cached_key(|document| if is_double.contains(&document.key) { before.rank(document) } else { SAME });
    (documents, unsettled, is_double)
}

fn is_same(one: &Document, other: &Document) -> bool {
    one.meta == other.meta && one.body == other.body
}

/// The policy that was in force, if its document is not understood any more: another one of its
/// name does not take its place.
fn became_wrong(all: &[&Document], before: &Model) -> Option<Document> {
    let wrong = all.iter().filter_map(|document| match &document.body {
        DocumentBody::WrongPolicy(wrong) => Some((document, wrong.class)),
        _ => None,
    });
    let mut was_there = wrong.filter_map(|(document, class)| {
        let name = document.meta.full_name();
        let key = document.key.clone();
        let was = match class {
            Class::K8s => was(&before.k8s_policies, &name, key, |body| DocumentBody::K8sPolicy(Box::new(body))),
            Class::Antrea => {
                was(&before.antrea_policies, &name, key, |body| DocumentBody::AntreaPolicy(Box::new(body)))
            }
            Class::Cluster => {
                was(&before.cluster_policies, &name, key, |body| DocumentBody::ClusterPolicy(Box::new(body)))
            }
            Class::Network | Class::Admin | Class::BaselineAdmin => before
                .admin_policies
                .get(&class)
                .and_then(|items| was(items, &name, key, |body| DocumentBody::AdminPolicy(class, Box::new(body)))),
        };
        was.filter(|was| was.origin.file == document.origin.file)
    });
    was_there.next()
}

fn was<T: Clone>(items: &Items<T>, name: &str, key: DocumentKey, body: impl Fn(T) -> DocumentBody) -> Option<Document> {
    let Item { meta, origin, body: was } = items.get(name)?.clone();
    Some(Document { key, origin, meta, says_namespace: true, body: body(was), left: None })
}

impl Model {
    /// How near a document is to the one that counts here.
    fn rank(&self, document: &Document) -> u8 {
        match &document.body {
            DocumentBody::Namespace => rank(&self.namespaces, document, &()),
            DocumentBody::Node(body) => rank(&self.nodes, document, body),
            DocumentBody::NodeConfig(body) => rank(&self.node_configs, document, body),
            DocumentBody::Pod(body) => rank(&self.pods, document, body),
            DocumentBody::Service(body) => rank(&self.services, document, body),
            DocumentBody::EndpointSlice(body) => rank(&self.endpoint_slices, document, body),
            DocumentBody::K8sPolicy(body) => rank(&self.k8s_policies, document, body),
            DocumentBody::AntreaPolicy(body) => rank(&self.antrea_policies, document, body),
            DocumentBody::ClusterPolicy(body) => rank(&self.cluster_policies, document, body),
            DocumentBody::AdminPolicy(class, body) => {
                self.admin_policies.get(class).map_or(OTHER, |items| rank(items, document, body))
            }
            DocumentBody::Tier(body) => rank(&self.tiers, document, body),
            DocumentBody::ClusterGroup(body) => rank(&self.cluster_groups, document, body),
            DocumentBody::Group(body) => rank(&self.groups, document, body),
            DocumentBody::Egress(body) => rank(&self.egresses, document, body),
            DocumentBody::ExternalIpPool(body) => rank(&self.external_ip_pools, document, body),
            DocumentBody::TrafficControl(body) => rank(&self.traffic_controls, document, body),
            DocumentBody::WrongPolicy(_) | DocumentBody::Wrong { .. } | DocumentBody::LeftOut => OTHER,
        }
    }
}

fn rank<T: PartialEq>(items: &Items<T>, document: &Document, body: &T) -> u8 {
    match items.get(&document.meta.full_name()) {
        Some(was) => match (was.meta == document.meta && was.body == *body, was.origin.file == document.origin.file) {
            (true, true) => SAME,
            (true, false) => ALIKE,
            (false, true) => CHANGED,
            (false, false) => OTHER,
        },
        None => OTHER,
    }
}
