//! Pods of this Node that the CNI server has attached: it knows their ports, MAC addresses and
//! addresses before anybody else does.
//!
//! [`attach`] writes what the server knows into the Pods' documents, as the annotations would say
//! it. `resolve` has one way to a Pod's port for both.

use crate::kinds::pod::{PodBody, PodIp, Spec, Status};
use crate::kinds::{Document, DocumentBody, Meta};
use crate::problem::{NOWHERE, Origin};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What the CNI server has given to a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// UID of the Pod, if the runtime has told it; else empty.
    pub uid: String,
    /// Name of the port in the Pods' bridge.
    pub port: String,
    /// MAC address, as text.
    pub mac: String,
    /// Addresses, one for each family.
    pub addresses: Vec<IpAddr>,
}

/// Attachments by "namespace/name" of their Pods.
pub type Attachments = BTreeMap<String, Attachment>;

/// The annotation of a mirror Pod that has the UID of its static Pod (`kubelet`'s
/// `ConfigHashAnnotationKey`).
const STATIC_UID: &str = "kubernetes.io/config.hash";

/// The kind of a Pod in a document's key.
const POD: &str = "Pod.";

/// Documents, with what the CNI server knows of the Pods of `node`.
///
/// - A Pod with an attachment has its port, MAC address and addresses, whatever annotations say.
/// - A Pod whose UID is another one than the attachment's has replaced the Pod that was attached:
///   it keeps what its document says.
/// - An attached Pod without a document is in doubt: rules that deny mean its addresses.
pub fn attach(mut documents: Vec<Document>, attachments: &Attachments, node: &str) -> Vec<Document> {
    let mut found = BTreeSet::new();
    for document in documents.iter_mut().filter(|document| document.key.0 == POD) {
        let Some((name, attachment)) = attachments.get_key_value(&document.key.1) else { continue };
        found.insert(name);
        write(document, attachment, node);
    }
    let missing = attachments.iter().filter(|(name, _)| !found.contains(name));
    let doubtful: Vec<Document> = missing.filter_map(|(name, attachment)| doubtful(name, attachment, node)).collect();
    documents.extend(doubtful);
    documents
}

/// Writes an attachment into a document, and into what is left of it without its wrong entries.
fn write(document: &mut Document, attachment: &Attachment, node: &str) {
    let is_here = |pod: &PodBody| pod.spec.node_name == node && !pod.spec.host_network;
    let is_its = match &document.body {
        DocumentBody::Pod(pod) => is_here(pod),
        DocumentBody::Wrong { pod: Some(pod), .. } => is_here(pod),
        _ => false,
    };
    if is_its && is_same(&document.meta, &attachment.uid) {
        annotate(&mut document.meta, attachment);
    }
    if let Some(left) = &mut document.left {
        write(&mut left.document, attachment, node);
    }
}

/// Whether a document is of the Pod with a UID, as far as both are known. A runtime knows the UID
/// of a static Pod. Its mirror in the API server has another one, and that one as an annotation.
fn is_same(meta: &Meta, uid: &str) -> bool {
    let is_static = || meta.annotations.get(STATIC_UID).is_some_and(|own| own == uid);
    meta.uid.is_empty() || uid.is_empty() || meta.uid == uid || is_static()
}

fn annotate(meta: &mut Meta, attachment: &Attachment) {
    let addresses: Vec<String> = attachment.addresses.iter().map(ToString::to_string).collect();
    for (name, value) in
        [("port", attachment.port.clone()), ("mac", attachment.mac.clone()), ("addresses", addresses.join(","))]
    {
        meta.annotations.insert(format!("vswitch/{name}"), value);
    }
}

/// A document of a Pod of which nothing is known but where it is.
fn doubtful(name: &str, attachment: &Attachment, node: &str) -> Option<Document> {
    let (namespace, own) = name.split_once('/')?;
    let meta =
        Meta { name: own.to_owned(), namespace: namespace.to_owned(), uid: attachment.uid.clone(), ..Meta::default() };
    let spec = Spec { node_name: node.to_owned(), ..Spec::default() };
    let pod_ips = attachment.addresses.iter().map(|address| PodIp { ip: address.to_string() }).collect();
    let body = PodBody { spec, status: Status { pod_ips, ..Status::default() } };
    Some(Document {
        key: (POD.to_owned(), name.to_owned()),
        origin: Origin::new(NOWHERE, 0, &format!("Pod {name}")),
        meta,
        says_namespace: true,
        body: DocumentBody::Wrong { has_meta: false, pod: Some(Box::new(body)) },
        left: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::understand;
    use crate::source::documents;

    const NODE: &str = "n1";

    fn attachments(uid: &str) -> Attachments {
        let attachment = Attachment {
            uid: uid.to_owned(),
            port: "web-1".to_owned(),
            mac: "02:76:0a:00:00:05".to_owned(),
            addresses: vec!["10.0.0.5".parse().expect("an address"), "fd00::5".parse().expect("an address")],
        };
        [("default/web".to_owned(), attachment)].into()
    }

    fn pod(more: &str, spec: &str) -> Vec<Document> {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: default{more}}}\nspec: {{{spec}, containers: [{{name: c}}]}}\n"
        );
        understand("pods.yaml", documents(&text).expect("YAML")).0
    }

    fn annotation(document: &Document, name: &str) -> Option<String> {
        document.meta.annotation(name).map(str::to_owned)
    }

    #[test]
    fn a_pod_has_what_was_attached() {
        for uid in ["", ", uid: u1"] {
            let attached = attach(pod(uid, "nodeName: n1"), &attachments("u1"), NODE);
            assert_eq!(attached.len(), 1);
            assert_eq!(annotation(&attached[0], "port").as_deref(), Some("web-1"));
            assert_eq!(annotation(&attached[0], "mac").as_deref(), Some("02:76:0a:00:00:05"));
            assert_eq!(annotation(&attached[0], "addresses").as_deref(), Some("10.0.0.5,fd00::5"));
        }
    }

    #[test]
    fn a_pod_that_replaces_another_one_has_nothing_of_it() {
        let attached = attach(pod(", uid: u2", "nodeName: n1"), &attachments("u1"), NODE);
        assert_eq!((attached.len(), annotation(&attached[0], "port")), (1, None));
        let mirror = ", uid: u2, annotations: {kubernetes.io/config.hash: u1}";
        let attached = attach(pod(mirror, "nodeName: n1"), &attachments("u1"), NODE);
        assert_eq!(annotation(&attached[0], "port").as_deref(), Some("web-1"), "the mirror of a static Pod");
        for spec in ["nodeName: n2", "nodeName: n1, hostNetwork: true"] {
            let attached = attach(pod("", spec), &attachments(""), NODE);
            assert_eq!((attached.len(), annotation(&attached[0], "port")), (1, None), "{spec}");
        }
    }

    #[test]
    fn annotations_count_where_nothing_is_attached() {
        let own = ", annotations: {vswitch/port: own, vswitch/mac: '02:00:00:00:00:01'}";
        let attached = attach(pod(own, "nodeName: n1"), &Attachments::new(), NODE);
        assert_eq!(annotation(&attached[0], "port").as_deref(), Some("own"));
        let attached = attach(pod(own, "nodeName: n1"), &attachments(""), NODE);
        assert_eq!(annotation(&attached[0], "port").as_deref(), Some("web-1"));
    }

    #[test]
    fn a_pod_without_a_document_is_in_doubt() {
        let attached = attach(Vec::new(), &attachments("u1"), NODE);
        let [document] = attached.as_slice() else { panic!("one document: {attached:?}") };
        assert_eq!(document.key, (POD.to_owned(), "default/web".to_owned()));
        let DocumentBody::Wrong { has_meta: false, pod: Some(pod) } = &document.body else {
            panic!("it is not in doubt: {document:?}")
        };
        assert_eq!(pod.spec.node_name, NODE);
        assert_eq!(pod.status.pod_ips.iter().map(|one| one.ip.as_str()).collect::<Vec<_>>(), ["10.0.0.5", "fd00::5"]);
    }
}
