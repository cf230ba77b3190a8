//! Pods as policies, Services and Egresses see them, and sets of them.

use super::net::mac;
use super::selector::{matches, text, word};
use crate::kinds::pod::Port;
use crate::kinds::selector::Selector;
use crate::kinds::{Labels, pod};
use crate::model::{Item, Model};
use crate::problem::Problem;
use std::collections::BTreeMap;

/// A Pod with addresses.
#[derive(Debug)]
pub struct Pod<'a> {
    /// "namespace/name".
    pub name: &'a str,
    /// The object.
    pub item: &'a Item<pod::Body>,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// It is of this Node.
    pub is_local: bool,
}

impl Pod<'_> {
    /// Numbers of its ports with this name.
    pub fn named_ports(&self, name: &str, protocol: &str) -> Vec<u16> {
        let spec = &self.item.body.spec;
        let ports = spec.containers.iter().chain(&spec.init_containers).flat_map(|container| &container.ports);
        let is_it = |port: &&Port| port.name == name && port.protocol.as_deref().unwrap_or("TCP") == protocol;
        ports.filter(is_it).map(|port| port.container_port).collect()
    }
}

/// The cluster, seen from one Node.
#[derive(Debug)]
pub struct World<'a> {
    /// All objects.
    pub model: &'a Model,
    /// Name of the Node.
    pub node: &'a str,
    /// Pods with addresses that have not ended, by name.
    pub pods: Vec<Pod<'a>>,
    namespaces: BTreeMap<&'a str, Labels>,
}

/// Which namespaces.
#[derive(Clone, Debug, PartialEq)]
pub enum Spaces {
    /// One.
    One(String),
    /// Those with these labels.
    Matching(Selector),
    /// Those whose labels have these values; empty: there is none.
    Same(BTreeMap<String, String>),
    /// All.
    All,
}

/// Pods, as somebody selects them.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// Of which namespaces.
    pub spaces: Spaces,
    /// With which labels.
    pub pods: Selector,
    /// With which service account.
    pub account: Option<String>,
}

/// Pods and addresses that go by one name: what becomes an address group or an applied-to group.
#[derive(Clone, Debug, PartialEq)]
pub struct Members {
    /// Equal for equal selections, and for no others.
    pub name: String,
    /// Indices of Pods of the world.
    pub pods: Vec<usize>,
    /// Other addresses.
    pub addresses: Vec<String>,
}

impl<'a> World<'a> {
    /// The cluster of `model`, seen from `node`; and what is odd about its Pods.
    pub fn new(model: &'a Model, node: &'a str) -> (Self, Vec<Problem>) {
        let (mut pods, mut problems) = (Vec::new(), Vec::new());
        let mut namespaces = BTreeMap::new();
        for (name, item) in &model.pods {
            namespaces
                .entry(item.meta.namespace.as_str())
                .or_insert_with(|| model.namespace_labels(&item.meta.namespace));
            let has_ended = ["Succeeded", "Failed"].contains(&item.body.status.phase.as_str());
            let addresses = addresses(item);
            if has_ended {
                continue;
            }
            if addresses.is_empty() {
                problems.push(item.origin.warning("status.podIPs", "no address yet: left out"));
                continue;
            }
            let is_local = item.body.spec.node_name == node;
            if is_local && !item.body.spec.host_network {
                let missing = lacks(item);
                if !missing.is_empty() {
                    problems.extend(missing);
                    continue;
                }
            }
            pods.push(Pod { name, item, addresses, is_local });
        }
        (Self { model, node, pods, namespaces }, problems)
    }

    /// Pods that somebody selects; those in the Node's own network are none.
    pub fn select(&self, select: &Select) -> Members {
        let chosen = |pod: &Pod<'_>| {
            let (meta, spec) = (&pod.item.meta, &pod.item.body.spec);
            let account = spec.service_account_name.as_deref().unwrap_or("default");
            !spec.host_network
                && self.holds(&select.spaces, &meta.namespace)
                && matches(&select.pods, &meta.labels)
                && select.account.as_ref().is_none_or(|wanted| wanted == account)
        };
        let pods = (0..self.pods.len()).filter(|index| chosen(&self.pods[*index])).collect();
        Members { name: select.text(), pods, addresses: Vec::new() }
    }

    /// All Pods but those in a Node's own network.
    pub fn everybody(&self) -> Members {
        self.select(&Select { spaces: Spaces::All, pods: Selector::default(), account: None })
    }

    fn holds(&self, spaces: &Spaces, namespace: &str) -> bool {
        let labels = || self.namespaces.get(namespace);
        match spaces {
            Spaces::One(name) => name == namespace,
            Spaces::Matching(selector) => labels().is_some_and(|labels| matches(selector, labels)),
            Spaces::Same(wanted) => labels().is_some_and(|labels| {
                !wanted.is_empty() && wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
            }),
            Spaces::All => true,
        }
    }

    /// Labels of a namespace that has Pods.
    pub fn namespace_labels(&self, namespace: &str) -> Option<&Labels> {
        self.namespaces.get(namespace)
    }

    /// Names of those of this Node, in order.
    pub fn local(&self, pods: &[usize]) -> Vec<String> {
        let pods = pods.iter().map(|index| &self.pods[*index]);
        let mut names: Vec<String> = pods.filter(|pod| pod.is_local).map(|pod| pod.name.to_owned()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// What a Pod of this Node has to have beside what Kubernetes knows.
fn lacks(item: &Item<pod::Body>) -> Vec<Problem> {
    let wrong = |name: &str, reason: String, hint: &str| {
        item.origin.error(format!("metadata.annotations[vswitch/{name}]"), reason).hint(hint)
    };
    let needed = "is required of a Pod of this Node".to_owned();
    let mut problems = Vec::new();
    if item.meta.annotation("port").is_none_or(str::is_empty) {
        problems.push(wrong("port", needed.clone(), "give the name of its port of the bridge"));
    }
    match item.meta.annotation("mac") {
        None => problems.push(wrong("mac", needed, "give its MAC address")),
        Some(text) if mac(text).is_none() => problems.push(wrong("mac", format!("{text:?} is no MAC address"), "")),
        Some(_) => {}
    }
    if let Some(text) = item.meta.annotation("vlan")
        && text.parse::<u16>().is_err()
    {
        problems.push(wrong("vlan", format!("{text:?} is no VLAN"), "1 to 4094"));
    }
    problems
}

/// Addresses of a Pod: its status', or of the annotation `vswitch/addresses`.
fn addresses(item: &Item<pod::Body>) -> Vec<String> {
    let status = &item.body.status;
    if let Some(text) = item.meta.annotation("addresses") {
        return text.split(',').map(|address| address.trim().to_owned()).filter(|a| !a.is_empty()).collect();
    }
    if !status.pod_ips.is_empty() {
        return status.pod_ips.iter().map(|address| address.ip.clone()).collect();
    }
    status.pod_ip.iter().cloned().collect()
}

impl Select {
    /// Pods with these labels in one namespace.
    pub fn in_namespace(namespace: &str, pods: &Selector) -> Self {
        Self { spaces: Spaces::One(namespace.to_owned()), pods: pods.clone(), account: None }
    }

    fn text(&self) -> String {
        let spaces = match &self.spaces {
            Spaces::One(name) => format!("namespace {}", word(name)),
            Spaces::Matching(selector) => format!("namespaces {}", text(selector)),
            Spaces::Same(labels) => {
                let selector = Selector { match_labels: labels.clone(), ..Selector::default() };
                format!("namespaces {}", if labels.is_empty() { "-".to_owned() } else { text(&selector) })
            }
            Spaces::All => "namespaces *".to_owned(),
        };
        let account = self.account.as_ref().map_or(String::new(), |account| format!(" account {}", word(account)));
        format!("pods {} of {spaces}{account}", text(&self.pods))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::kinds::understand;
    use crate::source::documents;

    /// The model of a text of YAML that has nothing wrong.
    pub(crate) fn model(text: &str) -> Model {
        let (documents, problems) = understand("test.yaml", documents(text).expect("YAML"));
        assert_eq!(problems, []);
        let (model, problems) = Model::new(documents);
        assert_eq!(problems, []);
        model
    }

    /// A Pod's document.
    pub(crate) fn pod(namespace: &str, name: &str, labels: &str, node: &str, address: &str) -> String {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{{labels}}}, \
             annotations: {{vswitch/port: p-{namespace}-{name}, vswitch/mac: '02:00:00:00:00:01'}}}}\n\
             spec: {{nodeName: {node}}}\nstatus: {{podIPs: [{{ip: {address}}}]}}\n"
        )
    }

    #[test]
    fn selections() {
        let text = [
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {env: prod}}\n".to_owned(),
            pod("a", "web", "app: web", "n1", "10.0.0.1"),
            pod("a", "db", "app: db", "n2", "10.0.1.1"),
            pod("b", "web", "app: web", "n1", "10.0.0.2"),
            pod("b", "host", "app: web", "n1, hostNetwork: true", "192.168.0.1"),
            "---\napiVersion: v1\nkind: Pod\nmetadata: {name: new}\nspec: {nodeName: n1}\n".to_owned(),
        ];
        let model = model(&text.concat());
        let (world, problems) = World::new(&model, "n1");
        assert_eq!(problems.len(), 1, "one Pod has no address: {problems:?}");
        let web = Selector { match_labels: [("app".to_owned(), "web".to_owned())].into(), ..Selector::default() };
        let names = |spaces: Spaces, pods: &Selector| {
            let members = world.select(&Select { spaces, pods: pods.clone(), account: None });
            (members.name, members.pods.iter().map(|index| world.pods[*index].name).collect::<Vec<_>>())
        };
        let prod = Selector { match_labels: [("env".to_owned(), "prod".to_owned())].into(), ..Selector::default() };
        assert_eq!(names(Spaces::All, &web), ("pods app=web of namespaces *".to_owned(), vec!["a/web", "b/web"]));
        assert_eq!(names(Spaces::One("b".to_owned()), &web), ("pods app=web of namespace b".to_owned(), vec!["b/web"]));
        let (name, pods) = names(Spaces::Matching(prod), &Selector::default());
        assert_eq!((name.as_str(), pods), ("pods * of namespaces env=prod", vec!["a/db", "a/web"]));
        assert_eq!(names(Spaces::Same(BTreeMap::new()), &web).1, [""; 0]);
        assert_eq!(world.local(&[0, 1, 3]), ["a/web", "b/web"]);
    }
}
