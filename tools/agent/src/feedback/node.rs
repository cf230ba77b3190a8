//! That the Node has a network: its condition, and the taint that keeps Pods off until then.
//!
//! **Design**: the agent sets `NetworkUnavailable` to False when the switch forwards by what the
//! agent told it, and never to True again. A switch that restarts is no reason to evict Pods. The
//! scheduler's taint `node.kubernetes.io/network-unavailable` follows the condition; the
//! node lifecycle controller takes it away. The taint [`TAINT`] is the administrator's: a Node
//! registers with it, and the agent takes it away once.

use super::events::second;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Client, Error};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The taint of Nodes whose switch does not forward yet.
pub const TAINT: &str = "node.vswitch.io/agent-not-ready";

/// The condition of a Node (Kubernetes API, `NodeConditionType`).
const CONDITION: &str = "NetworkUnavailable";

/// How often the agent looks whether somebody has taken the condition away.
const REFRESH: Duration = Duration::from_secs(300);

/// What is told of a Node.
pub(super) struct Node {
    client: Client,
    name: String,
    /// When it was told last that there is a network.
    told: Option<Instant>,
}

impl Node {
    pub(super) fn new(client: Client, name: &str) -> Self {
        Self { client, name: name.to_owned(), told: None }
    }

    /// Tells that the Node has a network, as soon as it has.
    pub(super) async fn follow(&mut self, is_ready: bool) -> Result<(), Error> {
        if !is_ready || self.told.is_some_and(|at| at.elapsed() < REFRESH) {
            return Ok(());
        }
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Node"));
        let nodes: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let node = nodes.get(&self.name).await?;
        if let Some(taints) = without_taint(&node.data) {
            // The version makes a change of somebody else a conflict: the next turn reads anew.
            let version = &node.metadata.resource_version;
            let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
            nodes.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        if !has_network(&node.data) {
            let patch = json!({"status": {"conditions": [condition(Timestamp::now())]}});
            nodes.patch_status(&self.name, &PatchParams::default(), &Patch::Strategic(patch)).await?;
        }
        self.told = Some(Instant::now());
        Ok(())
    }
}

/// Whether a Node's status says that it has a network.
fn has_network(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let is_it = |condition: &&Value| condition["type"] == CONDITION;
    conditions.into_iter().flatten().find(is_it).is_some_and(|condition| condition["status"] == "False")
}

fn condition(now: Timestamp) -> Value {
    json!({
        "type": CONDITION,
        "status": "False",
        "reason": "SwitchForwards",
        "message": "vswitch forwards by what the agent has told it",
        "lastHeartbeatTime": second(now),
        "lastTransitionTime": second(now),
    })
}

/// A Node's taints without [`TAINT`]; None: it has not got it.
fn without_taint(node: &Value) -> Option<Vec<Value>> {
    let taints = node.pointer("/spec/taints").and_then(Value::as_array)?;
    let left: Vec<Value> = taints.iter().filter(|taint| taint["key"] != TAINT).cloned().collect();
    (left.len() < taints.len()).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_agents_own_taint_goes() {
        let node =
            |keys: &[&str]| json!({"spec": {"taints": keys.iter().map(|key| json!({"key": key})).collect::<Vec<_>>()}});
        assert_eq!(without_taint(&node(&["a", TAINT, "b"])), Some(vec![json!({"key": "a"}), json!({"key": "b"})]));
        assert_eq!(without_taint(&node(&[TAINT])), Some(vec![]));
        assert_eq!(without_taint(&node(&["a"])), None);
        assert_eq!(without_taint(&json!({})), None);
    }

    #[test]
    fn a_node_has_a_network_if_its_status_says_so() {
        let node = |status: &str| json!({"status": {"conditions": [{"type": "Ready"}, {"type": CONDITION, "status": status}]}});
        assert!(has_network(&node("False")));
        assert!(!has_network(&node("True")) && !has_network(&node("Unknown")) && !has_network(&json!({})));
    }
}
