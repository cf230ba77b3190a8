//! What a memory is stored as.

use super::Memory;
use super::node_port_local::PodPort;
use crate::kinds::{Document, DocumentBody, DocumentKey, Meta};
use crate::model::Item;
use crate::problem::Origin;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What is remembered that documents do not say as they are.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct KnownMemory {
    policies: Vec<(String, Document)>,
    tiers: BTreeMap<String, u32>,
    holders: BTreeMap<IpAddr, String>,
    #[serde(default)]
    node_ports: Vec<(PodPort, u16)>,
}

fn document(meta: &Meta, origin: &Origin, body: DocumentBody) -> Document {
    let (key, origin, meta) = (DocumentKey::default(), origin.clone(), meta.clone());
    Document { key, origin, meta, says_namespace: true, body, left: None }
}

impl Memory {
    /// What there is to be stored.
    pub fn known(&self) -> KnownMemory {
        let is_old = |key: &String| !self.right.contains(key);
        let k8s = self.k8s.iter().filter(|(key, _)| is_old(key)).map(|(key, Item { meta, origin, body })| {
            (key.clone(), document(meta, origin, DocumentBody::K8sPolicy(Box::new(body.clone()))))
        });
        let antrea = self.antrea.iter().filter(|(key, _)| is_old(key)).map(|(key, Item { meta, origin, body })| {
            (key.clone(), document(meta, origin, DocumentBody::AntreaPolicy(Box::new(body.clone()))))
        });
        let policies = k8s.chain(antrea).collect();
        KnownMemory {
            policies,
            tiers: self.tiers.clone(),
            holders: self.holders.contested.clone(),
            node_ports: self.node_ports.iter().map(|(key, port)| (key.clone(), *port)).collect(),
        }
    }
}

impl From<KnownMemory> for Memory {
    fn from(known: KnownMemory) -> Self {
        let mut memory = Self { tiers: known.tiers, ..Self::default() };
        memory.holders.contested = known.holders;
        memory.node_ports = known.node_ports.into_iter().collect();
        for (key, Document { meta, origin, body, .. }) in known.policies {
            match body {
                DocumentBody::K8sPolicy(body) => drop(memory.k8s.insert(key, Item { meta, origin, body: *body })),
                DocumentBody::AntreaPolicy(body) => drop(memory.antrea.insert(key, Item { meta, origin, body: *body })),
                _ => {}
            }
        }
        memory
    }
}
