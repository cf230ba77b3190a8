//! Pods of this Node that the CNI server has attached: it knows their ports, MAC addresses and
//! addresses before anybody else does.
//!
//! [`attach`] writes what the server knows into the Pods' documents, as the annotations would say
//! it. `resolve` has one way to a Pod's port for both.
//!
//! **Further interfaces** of a Pod are documents of their own: the Pod's, with the interface's
//! name, port and addresses. So every policy and Egress that selects the Pod binds each of its
//! interfaces. A Service that selects the Pod means its own interface only.

use crate::kinds::pod::{PodBody, PodIp, Spec, Status};
use crate::kinds::{Document, DocumentBody, Meta};
use crate::problem::{NOWHERE, Origin};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Between a Pod's name and that of a further interface. No name of Kubernetes has it
/// (RFC 1123 subdomains).
const BEFORE_INTERFACE: char = '@';

/// Further interfaces of one Pod. Multus users have one to three.
pub const FURTHER_MAX: usize = 8;

/// Where Multus writes a Pod's interfaces (Network Plumbing Working Group, multi-net-spec).
pub const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// Bytes of what Multus writes, about 300 for an interface. A longer text says nothing.
pub const NETWORK_STATUS_LEN_MAX: usize = 16 << 10;

/// The name of a further interface of a Pod: "namespace/name@interface".
pub fn further(pod: &str, interface: &str) -> String {
    format!("{pod}{BEFORE_INTERFACE}{interface}")
}

/// The Pod that a name is of, which may be that of a further interface.
pub fn pod_of(name: &str) -> &str {
    name.split(BEFORE_INTERFACE).next().unwrap_or(name)
}

/// Whether this is a further interface of a Pod.
pub fn is_further(name: &str) -> bool {
    name.contains(BEFORE_INTERFACE)
}

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

/// Attachments by "namespace/name" of their Pods; with "@interface" those of further interfaces.
pub type Attachments = BTreeMap<String, Attachment>;

/// The annotation of a mirror Pod that has the UID of its static Pod (`kubelet`'s
/// `ConfigHashAnnotationKey`).
const STATIC_UID: &str = "kubernetes.io/config.hash";

/// The kind of a Pod in a document's key.
const POD: &str = "Pod.";

/// Documents, with what the CNI server knows of the Pods of `node`.
///
/// - A Pod with an attachment has its port, MAC address and addresses, whatever annotations say.
/// - A Pod with further interfaces has a document more for each of them.
/// - A Pod whose UID is another one than the attachment's has replaced the Pod that was attached:
///   it keeps what its document says.
/// - An attached Pod without a document is in doubt: rules that deny mean its addresses.
pub fn attach(mut documents: Vec<Document>, attachments: &Attachments, node: &str) -> Vec<Document> {
    let (mut found, mut more) = (BTreeSet::new(), Vec::new());
    for document in documents.iter_mut().filter(|document| document.key.0 == POD) {
        let first = further(&document.key.1, "");
        let further = attachments.range(first.clone()..).take_while(|(name, _)| name.starts_with(&first));
        for (name, attachment) in further {
            found.insert(name);
            more.extend(of_further(document, name, attachment, node));
        }
        let Some((name, attachment)) = attachments.get_key_value(&document.key.1) else { continue };
        found.insert(name);
        write(document, attachment, node);
    }
    let missing = attachments.iter().filter(|(name, _)| !found.contains(name));
    more.extend(missing.filter_map(|(name, attachment)| doubtful(name, attachment, node)));
    documents.extend(more);
    documents
}

/// The document of a further interface of a Pod; None: the Pod is not the one that was attached.
fn of_further(pod: &Document, name: &str, attachment: &Attachment, node: &str) -> Option<Document> {
    let mut document = pod.clone();
    rename(&mut document, name);
    write(&mut document, attachment, node);
    document.meta.annotation("port").is_some().then_some(document)
}

/// Gives a document another name, and takes from it what the Pod's own interface has.
fn rename(document: &mut Document, name: &str) {
    name.clone_into(&mut document.key.1);
    document.origin.what = format!("Pod {name}").into();
    let own = name.split_once('/').map_or(name, |(_, own)| own);
    own.clone_into(&mut document.meta.name);
    for annotation in ["vswitch/port", "vswitch/mac", "vswitch/addresses", "vswitch/vlan", NETWORK_STATUS] {
        document.meta.annotations.remove(annotation);
    }
    if let DocumentBody::Pod(pod) | DocumentBody::Wrong { pod: Some(pod), .. } = &mut document.body {
        (pod.status.pod_ip, pod.status.pod_ips) = (None, Vec::new());
    }
    if let Some(left) = &mut document.left {
        rename(&mut left.document, name);
    }
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

    fn with_further(uid: &str) -> Attachments {
        let mut all = attachments(uid);
        let attachment = Attachment {
            uid: uid.to_owned(),
            port: "web-2".to_owned(),
            mac: "02:76:0a:00:00:06".to_owned(),
            addresses: vec!["10.0.0.6".parse().expect("an address")],
        };
        for name in ["default/web@net1", "default/web-2@net1", "default/we@net1"] {
            all.insert(name.to_owned(), attachment.clone());
        }
        all
    }

    #[test]
    fn a_further_interface_is_a_document_of_the_pods_labels() {
        let more = ", uid: u1, labels: {app: web}, annotations: {vswitch/vlan: '7', other: x}";
        let attached = attach(pod(more, "nodeName: n1, serviceAccountName: s"), &with_further("u1"), NODE);
        let names: Vec<&str> = attached.iter().map(|document| document.key.1.as_str()).collect();
        assert_eq!(names, ["default/web", "default/web@net1", "default/we@net1", "default/web-2@net1"]);
        assert_eq!(annotation(&attached[0], "port").as_deref(), Some("web-1"));
        let further = &attached[1];
        assert_eq!(annotation(further, "port").as_deref(), Some("web-2"));
        assert_eq!(annotation(further, "addresses").as_deref(), Some("10.0.0.6"));
        assert_eq!((annotation(further, "vlan"), &*further.origin.what), (None, "Pod default/web@net1"));
        assert_eq!((further.meta.full_name().as_str(), &further.meta.uid), ("default/web@net1", &attached[0].meta.uid));
        assert_eq!(further.meta.labels, attached[0].meta.labels);
        let DocumentBody::Pod(body) = &further.body else { panic!("a Pod: {further:?}") };
        assert_eq!(body.spec.service_account_name.as_deref(), Some("s"));
        assert!(matches!(attached[2].body, DocumentBody::Wrong { .. }), "its Pod has no document");
        assert_eq!((pod_of(names[1]), is_further(names[1]), is_further(names[0])), ("default/web", true, false));
    }

    #[test]
    fn a_pod_that_replaces_another_one_has_none_of_its_interfaces() {
        for (more, spec) in [
            (", uid: u2", "nodeName: n1"),
            (", uid: u1", "nodeName: n2"),
            (", uid: u1", "hostNetwork: true, nodeName: n1"),
        ] {
            let attached = attach(pod(more, spec), &with_further("u1"), NODE);
            assert!(!attached.iter().any(|document| document.key.1 == "default/web@net1"), "{more} {spec}");
        }
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
