//! What the documents say of addresses, policies and Egresses, for flows.

use crate::agent::Agent;
use crate::model::Model;
use crate::names::book::Book;
use crate::project::Projection;
use crate::resolve::own;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use vswitch_flow_export::{EgressUse, PolicyUse, RuleAction};
use vswitch_proto::antrea::v1::object::Object as Kinded;
use vswitch_proto::antrea::v1::{FlowVerdict, TrafficMode};

/// Prefixes of kinds of policies in the switch's names, and Antrea's numbers of these kinds.
const POLICIES: [(&str, u8); 4] = [("np", 1), ("anp", 2), ("acnp:k8s-", 4), ("acnp", 3)];

/// A policy that the switch has.
#[derive(Debug, Default)]
struct Policy {
    uid: String,
    /// Names of rules by their ids.
    rules: HashMap<String, String>,
}

/// What is known for flows.
#[derive(Debug, Default)]
pub struct Facts {
    /// This Node.
    pub(super) node: String,
    /// Names of addresses.
    pub(super) book: Arc<Book>,
    /// Policies have no prefixes of Pods.
    pub(super) is_policy_only: bool,
    node_uids: HashMap<String, String>,
    prefixes: Prefixes,
    gateways: HashSet<IpAddr>,
    policies: HashMap<String, Policy>,
    egresses: HashMap<String, EgressUse>,
}

impl Facts {
    /// Of an agent's documents, and of what its switch has.
    pub fn of(agent: &Agent, node: &str, book: Arc<Book>) -> Self {
        Self::new(agent.model(), agent.projection(), node, book)
    }

    fn new(model: &Model, projection: &Projection, node: &str, book: Arc<Book>) -> Self {
        let mut facts = Self { node: node.to_owned(), book, ..Self::default() };
        for (name, item) in &model.nodes {
            facts.node_uids.insert(name.clone(), item.meta.uid.clone());
            facts.prefixes.add(&item.body.pod_cidrs());
            facts.gateways.extend(addresses(&own::gateways(item)));
        }
        if let Some((config, _)) = &projection.node {
            facts.is_policy_only = config.traffic_mode() == TrafficMode::NetworkPolicyOnly;
            facts.prefixes.add(&config.pod_cidrs);
            let gateway = config.gateway.as_ref().map(|gateway| &gateway.addresses[..]).unwrap_or_default();
            facts.gateways.extend(addresses(gateway));
        }
        for projected in projection.objects.values() {
            match &projected.object.object {
                Some(Kinded::NetworkPolicy(policy)) => {
                    let named = policy.rules.iter().filter(|rule| !rule.name.is_empty());
                    let rules = named.map(|rule| (rule.id.clone(), rule.name.clone())).collect();
                    facts.policies.insert(policy.name.clone(), Policy { uid: policy.uid.clone(), rules });
                }
                Some(Kinded::Egress(egress)) => {
                    let of = EgressUse {
                        name: egress.name.clone(),
                        address: egress.address.clone(),
                        node: egress.node.clone(),
                    };
                    facts.egresses.insert(egress.name.clone(), of);
                }
                _ => {}
            }
        }
        facts
    }

    /// Whether an address is a Pod's.
    pub(super) fn is_pod(&self, address: &IpAddr) -> bool {
        self.book.get(address).is_some_and(|named| !named.pod.is_empty()) || self.prefixes.have(address)
    }

    /// Whether an address is that of a Node's gateway.
    pub(super) fn is_gateway(&self, address: &IpAddr) -> bool {
        self.gateways.contains(address)
    }

    /// UID of a Node. Empty: it is not known.
    pub(super) fn node_uid(&self, node: &str) -> String {
        self.node_uids.get(node).cloned().unwrap_or_default()
    }

    /// An Egress by its name.
    pub(super) fn egress(&self, name: &str) -> EgressUse {
        let unknown = || EgressUse { name: name.to_owned(), ..EgressUse::default() };
        self.egresses.get(name).cloned().unwrap_or_else(unknown)
    }

    /// A policy that decided. A policy that is gone has its name still.
    pub(super) fn policy(&self, verdict: Option<&FlowVerdict>) -> PolicyUse {
        let Some((verdict, rule)) = verdict.and_then(|verdict| Some((verdict, verdict.rule.as_ref()?))) else {
            return PolicyUse::default();
        };
        let found = POLICIES.iter().find_map(|(prefix, kind)| {
            let rest = rule.policy.strip_prefix(prefix)?;
            Some((*kind, rest.rsplit_once(':')?.1))
        });
        let (kind, name) = found.unwrap_or((0, &rule.policy));
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let known = self.policies.get(&rule.policy);
        PolicyUse {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: known.map(|policy| policy.uid.clone()).unwrap_or_default(),
            rule: known.and_then(|policy| policy.rules.get(&rule.rule)).cloned().unwrap_or_default(),
            action: match verdict.action.as_str() {
                "Allow" => RuleAction::Allow,
                "Drop" => RuleAction::Drop,
                "Reject" => RuleAction::Reject,
                _ => RuleAction::None,
            },
        }
    }
}

fn addresses(texts: &[String]) -> impl Iterator<Item = IpAddr> {
    // (A gateway of a NodeConfig may have a length.)
    texts.iter().filter_map(|text| text.split('/').next()?.parse().ok())
}

/// Prefixes of Pods.
#[derive(Debug, Default)]
struct Prefixes {
    /// Lengths that there are.
    lengths: BTreeSet<u32>,
    all: HashSet<(u32, IpAddr)>,
}

impl Prefixes {
    fn add(&mut self, texts: &[String]) {
        for text in texts {
            let parts = text.split_once('/');
            let parsed = parts.and_then(|(address, length)| Some((address.parse().ok()?, length.parse().ok()?)));
            if let Some((address, length)) =
                parsed.and_then(|(address, length)| Some((front(address, length)?, length)))
            {
                self.lengths.insert(length);
                self.all.insert((length, address));
            }
        }
    }

    fn have(&self, address: &IpAddr) -> bool {
        self.lengths
            .iter()
            .any(|length| front(*address, *length).is_some_and(|front| self.all.contains(&(*length, front))))
    }
}

/// The first `length` bits of an address, the others 0. None: it has fewer.
fn front(address: IpAddr, length: u32) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) if length <= 32 => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            Some(Ipv4Addr::from_bits(address.to_bits() & mask).into())
        }
        IpAddr::V6(address) if length <= 128 => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            Some(Ipv6Addr::from_bits(address.to_bits() & mask).into())
        }
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::kinds::understand;
    use crate::project::project;
    use crate::source::documents;
    use vswitch_proto::antrea::v1::RuleRef;

    /// A Node `n1` with Pod `a/p` and a policy, and a Node `n2` with Pod `a/q`.
    pub(in crate::export) fn facts() -> Facts {
        let node = |name: &str, third: u8| {
            format!(
                "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, uid: uid-{name}}}\n\
                 spec: {{podCIDRs: [10.0.{third}.0/24]}}\n\
                 status: {{addresses: [{{type: InternalIP, address: 192.0.2.{third}}}]}}\n---\n"
            )
        };
        let pod = |name: &str, node: &str, address: &str| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: a\n  uid: uid-{name}\n  \
                 labels: {{app: {name}}}\n  annotations: {{vswitch/port: {name}, vswitch/mac: 02:00:00:00:00:01}}\n\
                 spec: {{nodeName: {node}, containers: [{{name: c}}]}}\nstatus: {{podIPs: [{{ip: {address}}}]}}\n---\n"
            )
        };
        let more = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n\
            apiVersion: vswitch.io/v1\nkind: NodeConfig\nmetadata: {name: default}\nspec: {}\n---\n\
            apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a, uid: uid-s}\n\
            spec: {clusterIPs: [10.96.0.9], ports: [{name: http, port: 80}]}\n---\n\
            apiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\n\
            metadata: {name: deny, namespace: a, uid: uid-deny}\n\
            spec:\n  priority: 5\n  appliedTo: [{podSelector: {}}]\n  ingress: [{name: all, action: Drop}]\n";
        let text =
            [node("n1", 1), node("n2", 2), pod("p", "n1", "10.0.1.5"), pod("q", "n2", "10.0.2.6"), more.to_owned()]
                .concat();
        let (documents, problems) = understand("a.yaml", documents(&text).expect("YAML"));
        assert!(problems.is_empty(), "{problems:?}");
        let model = Model::new(documents).0;
        let (projection, _) = project(&model, "n1");
        let book = Arc::new(Book::of(&model));
        Facts::new(&model, &projection, "n1", book)
    }

    fn verdict(policy: &str, rule: &str, action: &str) -> FlowVerdict {
        let rule = RuleRef { policy: policy.to_owned(), rule: rule.to_owned(), number: 0 };
        FlowVerdict { rule: Some(rule), action: action.to_owned() }
    }

    #[test]
    fn policies_have_kinds_names_and_rules() {
        let facts = facts();
        let rule = facts.policies["anp:a/deny"].rules.keys().next().cloned().expect("a rule");
        let found = facts.policy(Some(&verdict("anp:a/deny", &rule, "Drop")));
        let expected = PolicyUse {
            kind: 2,
            namespace: "a".to_owned(),
            name: "deny".to_owned(),
            uid: "uid-deny".to_owned(),
            rule: "all".to_owned(),
            action: RuleAction::Drop,
        };
        assert_eq!(found, expected);
        for (policy, kind, namespace, name) in [
            ("np:a/gone", 1, "a", "gone"),
            ("acnp:gone", 3, "", "gone"),
            ("acnp:k8s-cnp:gone", 4, "", "gone"),
            ("acnp:k8s-banp:default", 4, "", "default"),
            ("acnp:k8s-by-name", 3, "", "k8s-by-name"),
            ("odd", 0, "", "odd"),
        ] {
            let found = facts.policy(Some(&verdict(policy, "", "Allow")));
            assert_eq!((found.kind, &*found.namespace, &*found.name), (kind, namespace, name), "{policy}");
        }
        assert_eq!(facts.policy(None), PolicyUse::default());
    }

    #[test]
    fn addresses_of_pods_and_gateways_are_known() {
        let facts = facts();
        let address = |text: &str| -> IpAddr { text.parse().expect("an address") };
        for (text, is_pod, is_gateway) in [
            ("10.0.1.5", true, false),
            ("10.0.2.99", true, false),
            ("10.0.3.1", false, false),
            ("10.0.2.1", true, true),
            ("192.0.2.1", false, false),
            ("fd00::1", false, false),
        ] {
            let address = address(text);
            assert_eq!((facts.is_pod(&address), facts.is_gateway(&address)), (is_pod, is_gateway), "{text}");
        }
        assert_eq!((&*facts.node_uid("n2"), &*facts.node_uid("n3")), ("uid-n2", ""));
    }
}
