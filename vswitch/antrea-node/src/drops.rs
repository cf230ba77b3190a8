//! Which policy a packet was dropped by, as a sample of the drop tells.

use super::Antrea;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use vswitch_antrea::tell::{Naming, Packet};
use vswitch_antrea::{Category, Claim, Key, ObjectKind, Table, rules_of};
use vswitch_proto::antrea::v1;

impl Antrea {
    /// Pods by the names of their ports.
    #[must_use]
    pub fn pods_of_ports(&self) -> HashMap<String, String> {
        let state = self.state.lock();
        let desired = state.node_state.desired();
        let pods = desired.of(ObjectKind::Pod).filter_map(|(key, _)| Some((desired.pod(&key.name)?, key)));
        pods.map(|(pod, key)| (pod.port.clone(), key.name.to_string())).collect()
    }

    /// The Pod of a port.
    #[must_use]
    pub fn pod_of_port(&self, port: &str) -> Option<String> {
        let state = self.state.lock();
        let holder = state.node_state.desired().holder(&Claim::Port(port.to_owned()))?;
        (holder.kind == ObjectKind::Pod).then(|| holder.name.to_string())
    }

    /// The Pod of this Node with an address.
    #[must_use]
    pub fn pod_at(&self, address: &IpAddr) -> Option<String> {
        let state = self.state.lock();
        state.node_state.desired().pod_of(address).map(|key| key.name.to_string())
    }

    /// Name of the Node. None: there is none.
    #[must_use]
    pub fn node_name(&self) -> Option<String> {
        self.state.lock().node_state.node().map(|(_, node)| node.name.clone())
    }

    /// The policy and the rule that dropped a packet in a table, by a flow with this cookie. No
    /// rule: the policy isolates the Pod, or several of its rules drop there; which of the two says
    /// the flag. None: it was no policy, or not one that is there. Of the frame only the first
    /// bytes may be known: it has `whole` bytes.
    #[must_use]
    pub fn denied_by(
        &self,
        (bridge, table, cookie): (&str, u8, u64),
        frame: &[u8],
        whole: usize,
    ) -> Option<(v1::RuleRef, bool)> {
        let state = self.state.lock();
        let facts = state.node_state.facts()?;
        let is_egress = match Table::by_number(table).filter(|_| facts.node.bridge == bridge)?.stage() {
            "egressSecurity" => true,
            "ingressSecurity" => false,
            _ => return None,
        };
        let isolation = || {
            let tuple = Packet::read_part(frame, whole)?.tuple;
            let own = if is_egress { tuple.source } else { tuple.destination };
            let naming = Naming::new(facts);
            let rule = naming.isolation(naming.pod(&own)?, is_egress, false);
            (!rule.policy.is_empty()).then_some((rule, true))
        };
        if cookie == Category::NetworkPolicy.shared() {
            // Several policies may write such a flow.
            return isolation();
        }
        let owner = Category::serial(cookie).and_then(|serial| state.node_state.ids().object_of(serial));
        let owner: &Key = owner.filter(|key| key.kind == ObjectKind::NetworkPolicy)?;
        let compiled = state.node_state.store().compiled(owner)?;
        let (mut rules, mut isolates) = (BTreeSet::new(), false);
        for flow in compiled.flows().iter().filter(|flow| flow.id.table == table) {
            let of = rules_of(&flow.flow);
            isolates |= of.is_empty();
            rules.extend(of);
        }
        if rules.is_empty() && isolates {
            return isolation();
        }
        let only = rules.first().filter(|_| rules.len() == 1 && !isolates);
        let named = only.map(|number| Naming::new(facts).rule(*number)).filter(|rule| !rule.policy.is_empty());
        let whole = || v1::RuleRef { policy: owner.name.to_string(), ..v1::RuleRef::default() };
        Some((named.unwrap_or_else(whole), false))
    }
}
