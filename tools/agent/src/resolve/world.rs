//! Pods as policies, Services and Egresses see them, and sets of them.

use super::claims::{self, Claim, Holders, parsed};
use super::doubtful::{Among, Doubtful};
use super::families::families;
use super::further;
use super::net::{is_six, once};
use super::own::{Own, own};
use super::pods::{addresses, has_no_port, lacks};
use super::selector::{matches, text, word};
use super::slices::{SERVICE_NAME, of_nobody};
pub use super::spaces::Spaces;
use super::spaces::{Meant, Space};
use crate::attach::is_further;
use crate::kinds::pod::Port;
use crate::kinds::selector::Selector;
use crate::kinds::{Labels, endpoint_slice, pod};
use crate::model::{Item, Model};
use crate::problem::Problem;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::rc::Rc;

/// Pods that are selected, and those that may be besides.
type Selected = (Rc<[usize]>, Rc<[usize]>);

/// EndpointSlices of a Service.
type Slices<'a> = Vec<&'a Item<endpoint_slice::EndpointSliceBody>>;

/// A Pod with addresses.
#[derive(Debug)]
pub struct Pod<'a> {
    /// "namespace/name".
    pub name: &'a str,
    /// The object.
    pub item: &'a Item<pod::PodBody>,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// It is of this Node.
    pub is_local: bool,
    /// Its document is not understood: it is here for who is to deny it something.
    pub(super) is_wrong: bool,
}

impl Pod<'_> {
    /// Numbers of its ports with this name.
    pub fn named_ports(&self, name: &str, protocol: &str) -> Vec<u16> {
        let spec = &self.item.body.spec;
        let sidecars = spec.init_containers.iter().filter(|container| container.stays());
        let ports = spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
        let is_it = |port: &&Port| port.name == name && port.protocol.as_deref().unwrap_or("TCP") == protocol;
        ports.filter(is_it).map(|port| port.container_port).filter(|port| *port != 0).collect()
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
    /// What the Node is; else what is wrong with what says it.
    pub own: Result<Own, Vec<Problem>>,
    /// The Node has IPv4, IPv6.
    families: [bool; 2],
    pub(super) namespaces: BTreeMap<&'a str, Space>,
    by_namespace: BTreeMap<&'a str, Vec<usize>>,
    by_label: BTreeMap<&'a str, BTreeMap<&'a str, Vec<usize>>>,
    pub(super) by_address: HashMap<IpAddr, &'a str>,
    slices: BTreeMap<&'a str, BTreeMap<&'a str, Slices<'a>>>,
    /// Pods that may be more than they are known to be.
    pub(super) doubtful: Doubtful,
    /// Tiers that have a document or had one, and their priorities.
    pub tiers: BTreeMap<String, u32>,
    /// What has been selected before, by the selection's text: many policies say the same.
    selected: RefCell<HashMap<String, Selected>>,
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Members {
    /// Equal for equal selections, and for no others.
    pub name: String,
    /// Indices of Pods of the world.
    pub pods: Rc<[usize]>,
    /// Other addresses.
    pub addresses: Vec<String>,
    /// Pods that may be meant besides, of which that is not known since a document is not
    /// understood.
    pub doubtful: Rc<[usize]>,
    /// Other addresses that may be meant besides.
    pub in_doubt: Vec<String>,
}

impl<'a> World<'a> {
    /// The cluster of `model`, seen from `node`; and what is odd about its Pods. Addresses of Pods
    /// of other Nodes are those that they had before (`holders`) if several say to have them.
    pub fn new(model: &'a Model, node: &'a str, holders: &mut Holders) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let own = own(model, node);
        let mut world = Self {
            model,
            node,
            pods: Vec::new(),
            families: families(&own),
            own,
            namespaces: BTreeMap::new(),
            by_namespace: BTreeMap::new(),
            by_label: BTreeMap::new(),
            by_address: HashMap::new(),
            slices: BTreeMap::new(),
            doubtful: Doubtful::default(),
            tiers: BTreeMap::new(),
            selected: RefCell::default(),
        };
        for slice in model.endpoint_slices.values() {
            let service = slice.meta.labels.get(SERVICE_NAME);
            if let Some(service) = service {
                let namespace = world.slices.entry(&slice.meta.namespace).or_default();
                namespace.entry(service).or_default().push(slice);
            }
            problems.extend(of_nobody(model, slice, service));
        }
        let mut claims = world.claims(&mut problems);
        let (held, more) = claims::settle(model, (node, world.own_pod_cidrs()), &mut claims, holders);
        (*holders, problems) = (held, [problems, more].concat());
        further::add(model, &mut claims, |address| world.has(address));
        for Claim { name, item, addresses, is_local, in_doubt } in claims {
            if !in_doubt.is_empty() {
                world.doubtful.add(world.pods.len(), true);
                world.add(Pod { name, item, addresses: in_doubt, is_local: false, is_wrong: true });
            }
            if !addresses.is_empty() {
                world.add(Pod { name, item, addresses, is_local, is_wrong: false });
            }
        }
        for (name, (item, has_labels)) in &model.doubtful {
            let addresses: Vec<String> = once(addresses(item)).into_iter().filter(|a| world.has(a)).collect();
            if !addresses.is_empty() {
                let is_unsettled = model.unsettled.contains(&("Pod.".to_owned(), name.clone()));
                let is_twin = |pod: &Pod<'_>| pod.name == name && !pod.is_wrong;
                if let Some(twin) = world.pods.iter().position(is_twin).filter(|_| is_unsettled) {
                    world.doubtful.add_twin(twin, has_labels.then_some(world.pods.len()));
                }
                world.doubtful.add(world.pods.len(), *has_labels);
                world.add(Pod { name, item, addresses, is_local: false, is_wrong: true });
            }
        }
        (world, problems)
    }

    /// Pods that there are, with the addresses that they say to have.
    fn claims(&self, problems: &mut Vec<Problem>) -> Vec<Claim<'a>> {
        let mut claims = Vec::new();
        for (name, item) in &self.model.pods {
            let has_ended = ["Succeeded", "Failed"].contains(&item.body.status.phase.as_str());
            if has_ended {
                continue;
            }
            let is_local = item.body.spec.node_name == self.node;
            let has_port = is_local && !item.body.spec.host_network;
            // The runtime has not asked for its port yet, or has asked for its end.
            let is_between = has_port && self.model.gives_ports && has_no_port(item);
            let addresses: Vec<String> = addresses(item).into_iter().filter(|address| self.has(address)).collect();
            if addresses.is_empty() {
                let reason = "no address of the Node's families yet: left out";
                problems.extend((!is_between).then(|| item.origin.warning("status.podIPs", reason)));
                continue;
            }
            if is_between {
                claims.push(Claim { name, item, addresses: Vec::new(), is_local, in_doubt: once(addresses) });
                continue;
            }
            let (mut missing, namespace) = (if has_port { lacks(item) } else { Vec::new() }, &item.meta.namespace);
            let (is_elsewhere, is_wrong) = (!missing.is_empty(), self.model.is_wrong("Namespace.", namespace));
            if has_port && is_wrong && !self.model.namespaces.contains_key(namespace) {
                let reason = "is held back until the document of its Namespace is right: policies may bind it by that";
                missing.push(item.origin.warning("metadata.namespace", reason));
            }
            // One that cannot be here may be another Node's still: who denies it means its
            // addresses.
            let (addresses, none) = (once(addresses), Vec::new());
            match (missing.is_empty(), is_elsewhere) {
                (true, _) => claims.push(Claim { name, item, addresses, is_local, in_doubt: none }),
                (_, true) => claims.push(Claim { name, item, addresses: none, is_local, in_doubt: addresses }),
                _ => {}
            }
            problems.extend(missing);
        }
        claims
    }

    fn add(&mut self, pod: Pod<'a>) {
        let (index, meta, namespace) = (self.pods.len(), &pod.item.meta, pod.item.meta.namespace.as_str());
        let space = self.namespaces.entry(namespace).or_insert_with(|| Space::new(self.model, namespace));
        self.doubtful.has_spaces |= space.is_in_doubt();
        self.by_namespace.entry(namespace).or_default().push(index);
        for (key, value) in &meta.labels {
            self.by_label.entry(key).or_default().entry(value).or_default().push(index);
        }
        if !pod.item.body.spec.host_network {
            let all = pod.addresses.iter().filter_map(|address| parsed(address));
            self.by_address.extend(all.map(|address| (address, pod.name)));
        }
        self.pods.push(pod);
    }

    /// Where Pods of this Node have their addresses from.
    fn own_pod_cidrs(&self) -> &[String] {
        self.own.as_ref().map(Own::pod_cidrs).unwrap_or_default()
    }

    /// Whether the Node has the family of an address or prefix.
    pub fn has(&self, address: &str) -> bool {
        self.families[usize::from(is_six(address))]
    }

    /// EndpointSlices of a Service.
    pub fn slices(&self, namespace: &str, service: &str) -> &[&'a Item<endpoint_slice::EndpointSliceBody>] {
        self.slices.get(namespace).and_then(|slices| slices.get(service)).map_or(&[], Vec::as_slice)
    }

    /// Pods of a namespace with these labels, those in the Node's own network among them, and no
    /// further interfaces.
    pub fn labelled(&self, namespace: &str, labels: &Labels) -> Vec<usize> {
        let selector = Selector { match_labels: labels.clone(), ..Selector::default() };
        let candidates = self.candidates(&Spaces::One(namespace.to_owned()), &selector);
        let is_it = |index: &usize| {
            let (pod, meta) = (&self.pods[*index], &self.pods[*index].item.meta);
            !pod.is_wrong && !is_further(pod.name) && meta.namespace == namespace && matches(&selector, &meta.labels)
        };
        candidates.filter(is_it).collect()
    }

    /// Pods among which those selected are: of all ways to look for them, the one that finds the
    /// fewest.
    pub(super) fn candidates(&self, spaces: &Spaces, pods: &Selector) -> Box<dyn Iterator<Item = usize> + '_> {
        let of = |found: Option<&'_ Vec<usize>>| found.map_or(0, Vec::len);
        let labels = pods.match_labels.iter().map(|(key, value)| self.by_label.get(key.as_str())?.get(value.as_str()));
        let space = match spaces {
            Spaces::One(name) => Some(self.by_namespace.get(name.as_str())),
            _ => None,
        };
        match labels.chain(space).min_by_key(|found| of(*found)) {
            Some(found) => Box::new(found.into_iter().flatten().copied()),
            None => Box::new(0..self.pods.len()),
        }
    }

    /// Pods that somebody selects; those in the Node's own network are none.
    pub fn select(&self, select: &Select) -> Members {
        let name = select.text();
        if let Some((pods, doubtful)) = self.selected.borrow().get(&name) {
            let (pods, doubtful) = (Rc::clone(pods), Rc::clone(doubtful));
            return Members { name, pods, doubtful, ..Members::default() };
        }
        let among = Among::new(self, &select.spaces);
        let chosen = |index: &usize| {
            let pod = &self.pods[*index];
            !pod.is_wrong
                && self.knows_labels(select, pod)
                && select.selects(pod.item)
                && among.holds(&pod.item.meta.namespace) == Meant::Yes
                && self.doubtful.agrees(self, *index, select)
        };
        let candidates = self.candidates(&select.spaces, &select.pods);
        let pods: Rc<[usize]> = candidates.filter(chosen).collect();
        let doubtful: Rc<[usize]> = self.doubtful.of(self, select, &among, &pods).into();
        self.selected.borrow_mut().insert(name.clone(), (Rc::clone(&pods), Rc::clone(&doubtful)));
        Members { name, pods, doubtful, ..Members::default() }
    }

    /// Whether the labels are known by which a Pod is selected. If not, it may be selected.
    fn knows_labels(&self, select: &Select, pod: &Pod<'_>) -> bool {
        select.pods == Selector::default() || !self.model.has_unknown_labels("Pod.", pod.name)
    }

    /// All Pods but those in a Node's own network.
    pub fn everybody(&self) -> Members {
        self.select(&Select { spaces: Spaces::All, pods: Selector::default(), account: None })
    }

    /// Whether a namespace that has Pods is meant.
    pub(super) fn is_among(&self, spaces: &Spaces, namespace: &str) -> Meant {
        self.namespaces.get(namespace).map_or(Meant::No, |space| space.is_among(spaces, namespace))
    }

    /// Labels of a namespace that has Pods; None: it has no document.
    pub fn namespace_labels(&self, namespace: &str) -> Option<&Labels> {
        self.namespaces.get(namespace).filter(|space| space.is_there).map(|space| &space.labels)
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

impl Select {
    /// Pods with these labels in one namespace.
    pub fn in_namespace(namespace: &str, pods: &Selector) -> Self {
        Self { spaces: Spaces::One(namespace.to_owned()), pods: pods.clone(), account: None }
    }

    /// Whether a Pod is meant, if its namespace is.
    pub(super) fn selects(&self, item: &Item<pod::PodBody>) -> bool {
        let spec = &item.body.spec;
        let account = spec.service_account_name.as_deref().unwrap_or("default");
        !spec.host_network
            && matches(&self.pods, &item.meta.labels)
            && self.account.as_ref().is_none_or(|wanted| wanted == account)
    }

    fn text(&self) -> String {
        let spaces = match &self.spaces {
            Spaces::One(name) => format!("namespace {}", word(name)),
            Spaces::Matching(selector) => format!("namespaces {}", text(selector)),
            Spaces::Same(labels) => {
                let selector = Selector { match_labels: labels.clone(), ..Selector::default() };
                format!("namespaces {}", if labels.is_empty() { "-".to_owned() } else { text(&selector) })
            }
            Spaces::Unknown => "namespaces with labels that are not known".to_owned(),
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
        let (world, problems) = World::new(&model, "n1", &mut Holders::default());
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
