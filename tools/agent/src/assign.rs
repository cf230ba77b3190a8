//! Addresses and Nodes of Egresses that name an ExternalIPPool: one agent assigns for all.
//!
//! **Where**: beside `drive`. `pools` decides; this writes what it decides to the API server.
//!
//! **Design**: [`Assigner::tell`] leaves what Egresses lack for a task. The task follows the
//! [`Lease`]. While it holds the Lease, it writes `spec.egressIP`, `status.egressNode`,
//! `status.egressIP` and conditions, as Antrea's controller and agents do. All agents read what was
//! written there. A change that somebody else has overtaken is written again after the next look.
//!
//! **Limits**: a Node counts as gone when its condition `Ready` says so; kubelets are missed for 40
//! seconds by default.
//!
//! **Threads**: one task of the agent's runtime.

use crate::feedback::{ANSWER_MAX, answered, second};
use crate::kinds::egress::EgressBody;
use crate::last_failure::LastFailure;
use crate::lease::{Lease, PERIOD, Term};
use crate::model::{Item, Model};
use crate::pools::{self, Claim, NoAddress};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Client, Error};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use vswitch_net_types::shown;

/// Egresses in a row: the API server has others to serve.
const BURST_MAX: usize = 50;

/// What an Egress is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Its address; or why it has none.
    pub address: Result<String, String>,
    /// The Node that has the address; or why none has it.
    pub node: Result<String, String>,
}

/// What Egresses are to have and have not, by their names.
pub type Lacking = BTreeMap<String, Assignment>;

/// Addresses of pools, and how many of them Egresses have, by names.
pub fn usage(model: &Model) -> BTreeMap<String, [i64; 2]> {
    let specs = model.external_ip_pools.iter().map(|(name, item)| (name, &item.body.spec));
    let mut used: BTreeMap<&str, BTreeSet<IpAddr>> = BTreeMap::new();
    for egress in model.egresses.values() {
        let spec = &egress.body.spec;
        if let (Some(pool), Ok(address)) = (&spec.external_ip_pool, spec.egress_ip.parse()) {
            used.entry(pool).or_default().insert(address);
        }
    }
    let usage = |(name, spec): (&String, &_)| {
        let addresses = used.get(name.as_str()).into_iter().flatten();
        let used = addresses.filter(|address| pools::is_of(spec, **address)).count();
        (name.clone(), [pools::size(spec), i64::try_from(used).unwrap_or(i64::MAX)])
    };
    specs.map(usage).collect()
}

/// What Egresses that name a pool have not, as it is to be.
pub fn lacking(model: &Model) -> Lacking {
    let of_pool = |item: &Item<EgressBody>| {
        let spec = &item.body.spec;
        spec.external_ip_pool.clone().filter(|pool| !pool.is_empty() && spec.egress_ips.is_empty())
    };
    let claims: Vec<Claim> =
        model.egresses.iter().filter_map(|(egress, item)| claim(egress, item, of_pool(item)?)).collect();
    if claims.is_empty() {
        return Lacking::new();
    }
    let others = model.egresses.values().filter(|item| of_pool(item).is_none());
    let others = others.flat_map(|item| item.body.spec.egress_ips.iter().chain([&item.body.spec.egress_ip]));
    let of_nodes = model.nodes.values().flat_map(|node| node.body.addresses("InternalIP"));
    let others: BTreeSet<IpAddr> = others.cloned().chain(of_nodes).filter_map(|text| text.parse().ok()).collect();
    let specs = model.external_ip_pools.iter().map(|(name, item)| (name.clone(), item.body.spec.clone())).collect();
    let ready = model.nodes.iter().filter(|(_, node)| node.body.is_ready());
    let ready = ready.map(|(name, node)| (name.clone(), node.meta.labels.clone())).collect();
    let addresses = pools::allocate(&specs, &claims, &others);
    let assigned = claims.iter().filter_map(|claim| {
        let address = *addresses.get(&claim.egress)?;
        let pool = specs.get(&claim.pool);
        let node = pool.zip(address.ok()).and_then(|(pool, address)| pools::node(pool, address, &ready));
        let assignment = Assignment {
            address: address.map(|address| address.to_string()).map_err(|why| words(why, claim)),
            node: node.map(str::to_owned).ok_or_else(|| format!("no Node of ExternalIPPool {} is ready", claim.pool)),
        };
        let has = &model.egresses.get(&claim.egress)?.body;
        (!assignment.is_of(has)).then(|| (claim.egress.clone(), assignment))
    });
    assigned.collect()
}

fn claim(egress: &str, item: &Item<EgressBody>, pool: String) -> Option<Claim> {
    let text = &item.body.spec.egress_ip;
    // An address that is none is the Egress's own problem.
    let address = if text.is_empty() { None } else { Some(text.parse().ok()?) };
    Some(Claim { egress: egress.to_owned(), pool, address })
}

fn words(why: NoAddress, claim: &Claim) -> String {
    let pool = &claim.pool;
    match why {
        NoAddress::NoPool => format!("there is no ExternalIPPool {pool}"),
        NoAddress::Full => format!("ExternalIPPool {pool} has no free address"),
        NoAddress::Outside => format!("the address is none of ExternalIPPool {pool}"),
    }
}

impl Assignment {
    /// Whether an Egress has it.
    fn is_of(&self, egress: &EgressBody) -> bool {
        let (spec, status) = (&egress.spec, &egress.status);
        let (Ok(address), Ok(node)) = (&self.address, &self.node) else { return false };
        spec.egress_ip == *address && status.egress_ip == *address && status.egress_node == *node
    }
}

/// The task that assigns. It ends with this value.
#[derive(Debug)]
pub struct Assigner {
    lacking: watch::Sender<Lacking>,
    term: Term,
    task: JoinHandle<()>,
}

impl Assigner {
    /// Starts the task, in a runtime of tokio.
    pub fn start(client: Client, node: &str) -> Self {
        let (lacking, inbox) = watch::channel(Lacking::new());
        let lease = Lease::new(client.clone(), node);
        let term = lease.term();
        Self { lacking, term, task: tokio::spawn(follow(client, lease, inbox)) }
    }

    /// Whether this agent holds the Lease.
    pub fn term(&self) -> Term {
        self.term.clone()
    }

    /// Leaves what Egresses lack.
    pub fn tell(&self, lacking: Lacking) {
        self.lacking.send_if_modified(|old| {
            let is_new = *old != lacking;
            *old = lacking;
            is_new
        });
    }
}

impl Drop for Assigner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(client: Client, mut lease: Lease, mut inbox: watch::Receiver<Lacking>) {
    let gvk = GroupVersionKind::gvk("crd.antrea.io", "v1beta1", "Egress");
    let egresses: Api<DynamicObject> = Api::all_with(client, &ApiResource::from_gvk(&gvk));
    let mut period = tokio::time::interval(PERIOD);
    let mut told = <[LastFailure; 2]>::default();
    loop {
        tokio::select! {
            _ = period.tick() => {
                let failure = answered(lease.follow()).await.unwrap_or_default();
                if told[0].is_new(&failure) {
                    tracing::warn!("the Lease of the agents cannot be followed: {failure}");
                }
            }
            changed = inbox.changed() => if changed.is_err() { return },
        }
        let lacking = inbox.borrow_and_update().clone();
        let failure = assign(&egresses, &lease, lacking).await.unwrap_or_default();
        if told[1].is_new(&failure) {
            tracing::warn!("{failure}");
        }
    }
}

/// Writes what Egresses lack, some in a row; the first failure.
async fn assign(egresses: &Api<DynamicObject>, lease: &Lease, lacking: Lacking) -> Option<String> {
    let mut first = None;
    for (name, assignment) in lacking.into_iter().take(BURST_MAX) {
        if !lease.is_held() {
            break;
        }
        let (failure, is_over) = match tokio::time::timeout(ANSWER_MAX, write(egresses, &name, &assignment)).await {
            Ok(Ok(())) => continue,
            // It has changed, or is gone: the next look tells.
            Ok(Err(Error::Api(status))) if [404, 409].contains(&status.code) => continue,
            // One that the server does not take holds up no other one. A server that is busy or
            // away is asked again later.
            Ok(Err(error)) => {
                let is_of_egress = matches!(&error, Error::Api(status) if status.code < 500 && status.code != 429);
                (error.to_string(), !is_of_egress)
            }
            Err(_) => (format!("no answer in {} s", ANSWER_MAX.as_secs()), true),
        };
        first = first.or_else(|| Some(format!("Egress {}: {}", shown(&name), shown(&failure))));
        if is_over {
            break;
        }
    }
    first
}

async fn write(egresses: &Api<DynamicObject>, name: &str, assignment: &Assignment) -> Result<(), Error> {
    let mut egress = egresses.get(name).await?;
    let address = assignment.address.clone().unwrap_or_default();
    if egress.data.pointer("/spec/egressIP").and_then(Value::as_str).unwrap_or_default() != address
        && !address.is_empty()
    {
        let patch =
            json!({"metadata": {"resourceVersion": egress.metadata.resource_version}, "spec": {"egressIP": address}});
        egress = egresses.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    let old = egress.data.get("status");
    let status = status(assignment, old, &second(Timestamp::now()));
    if old.is_some_and(|old| ["egressNode", "egressIP", "conditions"].iter().all(|field| old[field] == status[field])) {
        return Ok(());
    }
    let patch = json!({"metadata": {"resourceVersion": egress.metadata.resource_version}, "status": status});
    egresses.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ())
}

/// The status of an Egress. A condition that stays as it was keeps its time.
fn status(assignment: &Assignment, old: Option<&Value>, now: &str) -> Value {
    let condition = |kind: &str, result: &Result<String, String>, done: &str, failed: &str| {
        let (status, reason, message) = match result {
            Ok(_) => ("True", done, ""),
            Err(why) => ("False", failed, why.as_str()),
        };
        let olds = old.and_then(|old| old["conditions"].as_array()).cloned().unwrap_or_default();
        let before = olds.iter().find(|condition| condition["type"] == kind && condition["status"] == status);
        let since = before.and_then(|condition| condition["lastTransitionTime"].as_str()).unwrap_or(now);
        let mut condition = json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": since});
        // Kubernetes 1.20 makes a null of an empty text in a list of a merge patch.
        if !message.is_empty() {
            condition["message"] = json!(message);
        }
        condition
    };
    let node = assignment.node.clone().unwrap_or_default();
    let address = if node.is_empty() { String::new() } else { assignment.address.clone().unwrap_or_default() };
    json!({
        "egressNode": node,
        "egressIP": address,
        "conditions": [
            condition("IPAllocated", &assignment.address, "Allocated", "AllocationError"),
            condition("IPAssigned", &assignment.node, "Assigned", "AssignmentError"),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_is_assigned_and_why_not() {
        let assigned = Assignment { address: Ok("10.0.0.1".to_owned()), node: Ok("n1".to_owned()) };
        let first = status(&assigned, None, "1");
        assert_eq!((&first["egressNode"], &first["egressIP"]), (&json!("n1"), &json!("10.0.0.1")));
        let homeless = Assignment { node: Err("no Node".to_owned()), ..assigned };
        let second = status(&homeless, Some(&first), "2");
        assert_eq!((&second["egressNode"], &second["egressIP"]), (&json!(""), &json!("")));
        let [allocated, on_node] = [0, 1].map(|i| second["conditions"][i].clone());
        assert_eq!((&allocated["status"], &allocated["lastTransitionTime"]), (&json!("True"), &json!("1")));
        assert_eq!((&on_node["status"], &on_node["message"]), (&json!("False"), &json!("no Node")));
        assert_eq!(on_node["lastTransitionTime"], "2");
    }
}
