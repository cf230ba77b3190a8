//! Names of the cluster's addresses, as the documents have them.

use crate::kinds::pod::PodBody;
use crate::kinds::{Labels, Meta};
use crate::model::{Item, Model};
use crate::resolve::{own, pods};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_proto::antrea::v1;

/// Names of a book. A switch keeps as many.
pub const NAMES_MAX: usize = 262_144;

/// Label by which a ReplicaSet's Pods say the part of its name that a Deployment has added.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Digits that a CronJob adds to its name for a Job: minutes or seconds since 1970.
const JOB_DIGITS: std::ops::RangeInclusive<usize> = 8..=10;

/// What an address is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Namespace of the Pod or the Service.
    pub namespace: String,
    /// Name of the Pod. Empty: it is none.
    pub pod: String,
    /// Node of the Pod, or the Node that has the address.
    pub node: String,
    /// Name of the Service. Empty: it is none.
    pub service: String,
    /// UID of the Pod, the Service or the Node.
    pub uid: String,
    /// Labels of the Pod.
    pub labels: Labels,
    /// Kind and name of what the Pod belongs to.
    pub workload: Option<(String, String)>,
}

impl Named {
    /// As the switch takes it.
    pub(super) fn to_proto(&self, address: &IpAddr) -> v1::Name {
        let workload = |(kind, name): &(String, String)| v1::Workload { kind: kind.clone(), name: name.clone() };
        v1::Name {
            address: address.to_string(),
            namespace: self.namespace.clone(),
            pod: self.pod.clone(),
            node: self.node.clone(),
            service: self.service.clone(),
            labels: self.labels.clone().into_iter().collect(),
            workloads: self.workload.iter().map(workload).collect(),
        }
    }
}

/// Names by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    names: BTreeMap<IpAddr, Arc<Named>>,
    left_out: usize,
}

impl Book {
    /// Names of all Pods, Services and Nodes of the documents. Of an address that several of them
    /// have, a Pod's name goes before a Service's, and that before a Node's.
    pub fn of(model: &Model) -> Self {
        let mut book = Self::default();
        // A Pod that ends may have given its address to another one already.
        let (staying, leaving): (Vec<_>, Vec<_>) =
            model.pods.values().filter(|item| has_own_address(item)).partition(|item| stays(item));
        for item in staying.into_iter().chain(leaving) {
            book.add(pods::addresses(item), || of_pod(item));
        }
        for item in model.services.values() {
            let (spec, meta) = (&item.body.spec, &item.meta);
            let ingress = item.body.status.load_balancer.ingress.iter().filter_map(|ingress| ingress.ip.clone());
            let all = spec.cluster_ips.iter().chain(&spec.cluster_ip).chain(&spec.external_ips).cloned();
            book.add(all.chain(ingress), || Named {
                namespace: meta.namespace.clone(),
                service: meta.name.clone(),
                uid: meta.uid.clone(),
                ..Named::default()
            });
        }
        for (name, item) in &model.nodes {
            let named = || Named { node: name.clone(), uid: item.meta.uid.clone(), ..Named::default() };
            book.add(own::addresses(item), named);
        }
        book
    }

    fn add(&mut self, addresses: impl IntoIterator<Item = String>, named: impl FnOnce() -> Named) {
        // (`None` of a headless Service is no address.)
        let addresses: Vec<IpAddr> = addresses.into_iter().filter_map(|address| address.parse().ok()).collect();
        if addresses.is_empty() {
            return;
        }
        let named = Arc::new(named());
        for address in addresses {
            if self.names.len() >= NAMES_MAX && !self.names.contains_key(&address) {
                self.left_out += 1;
            } else {
                self.names.entry(address).or_insert_with(|| Arc::clone(&named));
            }
        }
    }

    /// What an address is called.
    pub fn get(&self, address: &IpAddr) -> Option<&Named> {
        self.names.get(address).map(|named| &**named)
    }

    /// All names, in order of addresses.
    pub fn all(&self) -> impl Iterator<Item = (&IpAddr, &Named)> {
        self.names.iter().map(|(address, named)| (address, &**named))
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Addresses beyond [`NAMES_MAX`], which have no name here.
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}

/// A Pod in its Node's network has the Node's address, which is the Node's by name.
fn has_own_address(item: &Item<PodBody>) -> bool {
    let has_ended = ["Succeeded", "Failed"].contains(&item.body.status.phase.as_str());
    !item.body.spec.host_network && !has_ended
}

fn stays(item: &Item<PodBody>) -> bool {
    item.meta.deletion_timestamp.is_none()
}

fn of_pod(item: &Item<PodBody>) -> Named {
    let meta = &item.meta;
    Named {
        namespace: meta.namespace.clone(),
        pod: meta.name.clone(),
        node: item.body.spec.node_name.clone(),
        uid: meta.uid.clone(),
        labels: meta.labels.clone(),
        workload: workload(meta),
        ..Named::default()
    }
}

/// What a Pod belongs to: its controller. A ReplicaSet of a Deployment stands for the Deployment,
/// and a Job of a CronJob for the CronJob.
fn workload(meta: &Meta) -> Option<(String, String)> {
    let (kind, name) = (meta.owner.kind.as_str(), meta.owner.name.as_str());
    let of_deployment = || {
        let hash = meta.labels.get(TEMPLATE_HASH).filter(|hash| !hash.is_empty())?;
        name.strip_suffix(hash.as_str())?.strip_suffix('-')
    };
    let of_cron_job = || {
        let (cron_job, time) = name.rsplit_once('-')?;
        (JOB_DIGITS.contains(&time.len()) && time.bytes().all(|c| c.is_ascii_digit())).then_some(cron_job)
    };
    let above = match kind {
        "" => return None,
        "ReplicaSet" => of_deployment().map(|name| ("Deployment", name)),
        "Job" => of_cron_job().map(|name| ("CronJob", name)),
        _ => None,
    };
    let (kind, name) = above.filter(|(_, name)| !name.is_empty()).unwrap_or((kind, name));
    Some((kind.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::owner::Owner;
    use crate::kinds::understand;
    use crate::source::documents;

    fn book(text: &str) -> Book {
        let (documents, problems) = understand("a.yaml", documents(text).expect("YAML"));
        assert!(problems.is_empty(), "{problems:?}");
        Book::of(&Model::new(documents).0)
    }

    fn pod(name: &str, address: &str, spec: &str, meta: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: a{meta}}}\n\
             spec: {{nodeName: n1, {spec} containers: [{{name: c}}]}}\n\
             status: {{podIPs: [{{ip: {address}}}], phase: Running}}\n---\n"
        )
    }

    const OTHERS: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: n1, uid: un}\n\
        spec: {podCIDRs: [10.0.0.0/24]}\nstatus: {addresses: [{type: InternalIP, address: 192.0.2.1}]}\n---\n\
        apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\n\
        spec: {clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9, fd00::9], ports: [{port: 80}]}\n---\n\
        apiVersion: v1\nkind: Service\nmetadata: {name: headless, namespace: a}\n\
        spec: {clusterIP: None, ports: [{port: 80}]}\n";

    #[test]
    fn pods_services_and_nodes_have_names() {
        let text = [
            pod("p", "10.0.0.5", "", ", uid: up, labels: {app: x}"),
            pod("h", "192.0.2.1", "hostNetwork: true,", ""),
            pod("old", "10.0.0.6", "", ", deletionTimestamp: \"2026-01-01T00:00:00Z\""),
            pod("young", "10.0.0.6", "", ""),
        ]
        .concat()
            + OTHERS;
        let book = book(&text);
        let get = |address: &str| book.get(&address.parse().expect("an address")).cloned().unwrap_or_default();
        let p = get("10.0.0.5");
        assert_eq!((&*p.namespace, &*p.pod, &*p.node, &*p.uid), ("a", "p", "n1", "up"));
        assert_eq!(p.labels["app"], "x");
        assert_eq!((&*get("192.0.2.1").node, &*get("192.0.2.1").pod), ("n1", ""), "a Pod of the host has no name");
        assert_eq!(get("10.0.0.6").pod, "young", "a Pod that ends goes behind");
        assert_eq!(get("10.0.0.1").node, "n1", "the gateway is its Node's");
        assert_eq!(get("fd00::9"), get("10.96.0.9"));
        assert_eq!((&*get("fd00::9").namespace, &*get("fd00::9").service), ("a", "s"));
        assert_eq!((book.len(), book.left_out()), (6, 0));
    }

    #[test]
    fn a_workload_is_the_controller_or_what_is_above_it() {
        for (kind, name, hash, expected) in [
            ("ReplicaSet", "web-6d4cf", "6d4cf", Some(("Deployment", "web"))),
            ("ReplicaSet", "web-6d4cf", "", Some(("ReplicaSet", "web-6d4cf"))),
            ("ReplicaSet", "web-6d4cf", "other", Some(("ReplicaSet", "web-6d4cf"))),
            ("ReplicaSet", "-h", "h", Some(("ReplicaSet", "-h"))),
            ("Job", "backup-29012345", "", Some(("CronJob", "backup"))),
            ("Job", "backup-1", "", Some(("Job", "backup-1"))),
            ("DaemonSet", "d", "h", Some(("DaemonSet", "d"))),
            ("", "", "h", None),
        ] {
            let owner = Owner { kind: kind.to_owned(), name: name.to_owned() };
            let labels = [(TEMPLATE_HASH.to_owned(), hash.to_owned())].into();
            let found = workload(&Meta { owner, labels, ..Meta::default() });
            let expected = expected.map(|(kind, name)| (kind.to_owned(), name.to_owned()));
            assert_eq!(found, expected, "{kind} {name}");
        }
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut book = Book::default();
        let address = |n: usize| std::net::Ipv4Addr::from_bits(u32::try_from(n).expect("small")).to_string();
        book.add((0..NAMES_MAX + 3).map(address), Named::default);
        assert_eq!((book.len(), book.left_out()), (NAMES_MAX, 3));
    }
}
