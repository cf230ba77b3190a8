//! Addresses that a document has lost while the agent runs. A running Pod keeps its addresses, and
//! a Node its own: the document was written from a form without them.

use super::{Item, Model};
use crate::kinds::{Document, DocumentBody, DocumentKey, node, pod};
use crate::problem::Problem;

/// The annotation that stands for addresses of a Pod.
const ADDRESSES: &str = "vswitch/addresses";

impl Model {
    /// Takes over addresses of `before` for Pods and Nodes that have none any more; returns a line
    /// for each. They count, since no document says them: the next run has to know them.
    pub(super) fn keep_addresses(&mut self, before: &Self) -> Vec<Problem> {
        let (mut told, mut kept) = (Vec::new(), Vec::new());
        for (name, item) in &mut self.pods {
            let old = before.pods.get(name).filter(|old| is_same_pod(item, old));
            if let Some(old) = old.filter(|old| has_addresses(old) && !has_addresses(item)) {
                item.body.status.pod_ip.clone_from(&old.body.status.pod_ip);
                item.body.status.pod_ips.clone_from(&old.body.status.pod_ips);
                item.meta.annotations.remove(ADDRESSES);
                let given = old.meta.annotations.get(ADDRESSES);
                item.meta.annotations.extend(given.map(|given| (ADDRESSES.to_owned(), given.clone())));
                told.push(item.origin.warning("status.podIPs", "are not there any more: those of before stay"));
                kept.push(counted(("Pod.".to_owned(), name.clone()), item, |body| DocumentBody::Pod(Box::new(body))));
            }
        }
        for (name, item) in &mut self.nodes {
            let has_own = |item: &Item<node::NodeBody>| !item.body.addresses("InternalIP").is_empty();
            let old = before.nodes.get(name).filter(|old| is_same(&item.meta.uid, &old.meta.uid));
            if let Some(old) = old.filter(|old| has_own(old) && !has_own(item)) {
                item.body.status.addresses.clone_from(&old.body.status.addresses);
                told.push(item.origin.warning("status.addresses", "are not there any more: those of before stay"));
                kept.push(counted(("Node.".to_owned(), name.clone()), item, DocumentBody::Node));
            }
        }
        self.counted.extend(kept.into_iter().map(|document| (document.key.clone(), document)));
        told
    }
}

/// A document that says what counts.
fn counted<T: Clone>(key: DocumentKey, item: &Item<T>, body: impl Fn(T) -> DocumentBody) -> Document {
    let Item { meta, origin, body: what } = item.clone();
    Document { key, origin, meta, says_namespace: true, body: body(what), left: None }
}

/// Whether two documents of one name may be about one object.
fn is_same(uid: &str, old: &str) -> bool {
    uid.is_empty() || old.is_empty() || uid == old
}

/// Whether a Pod is that of before, and has not ended. A new one of its name has no address at
/// first.
fn is_same_pod(item: &Item<pod::PodBody>, old: &Item<pod::PodBody>) -> bool {
    let is_running = !["Pending", "Succeeded", "Failed"].contains(&item.body.status.phase.as_str());
    is_running && is_same(&item.meta.uid, &old.meta.uid)
}

fn has_addresses(item: &Item<pod::PodBody>) -> bool {
    let is_some = |text: &str| !text.trim_matches([',', ' ']).is_empty();
    match item.meta.annotations.get(ADDRESSES) {
        Some(text) => is_some(text),
        None => {
            let status = &item.body.status;
            !status.pod_ips.is_empty() || status.pod_ip.as_deref().is_some_and(is_some)
        }
    }
}
