//! This Node's report: a Lease in the agent's namespace, with the report as an annotation.
//!
//! **Design**: a write when something is new, at most each [`Timing::gap`], and else each
//! [`Timing::renew`] or so. Each write names the version that was read, so that one write costs one
//! request. The Node owns the Lease: Kubernetes deletes it with the Node. An agent that starts
//! leaves what an earlier run reported until its switch has everything.

use super::report::Report;
use super::{News, Timing};
use crate::feedback::{answered, micro};
use crate::hash::mixed;
use crate::last_failure::LastFailure;
use crate::source::cluster::{Backoff, about};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, Error};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The label of reports: no other Lease of the namespace has it.
pub const LABEL: (&str, &str) = ("vswitch.io/report", "agent");

/// The annotation that has the report.
pub(super) const ANNOTATION: &str = "vswitch.io/report";

/// Waits after failures.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Tries of a write that somebody else overtakes: another agent of this Node that ends.
const TRIES_MAX: usize = 3;

/// Bytes of an object's name (DNS subdomain).
const NAME_LEN_MAX: usize = 253;

/// The name of a Node's report. One that would be too long ends with a hash.
pub fn lease_name(node: &str) -> String {
    let name = format!("vswitch-agent-{node}");
    if name.len() <= NAME_LEN_MAX {
        return name;
    }
    let stem = &name[..name.floor_char_boundary(NAME_LEN_MAX - 17)];
    format!("{}-{:016x}", stem.trim_end_matches(['.', '-']), mixed(node.bytes()))
}

/// The resource of reports, in the agent's namespace.
pub(super) fn leases(client: Client) -> (Api<DynamicObject>, ApiResource) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease"));
    (Api::default_namespaced_with(client, &resource), resource)
}

/// Reports for ever.
pub(super) async fn report(client: Client, node: String, mut inbox: watch::Receiver<News>, timing: Timing) {
    let (api, resource) = leases(client);
    let mut own = Own { api, resource, node, renew: timing.silent, known: None };
    let mut backoff = Backoff::new(WAITS[0], WAITS[1]);
    let (mut due, mut earliest) = (Instant::now(), Instant::now());
    let (mut told, mut written) = (LastFailure::default(), None);
    loop {
        tokio::select! {
            changed = inbox.changed() => {
                if changed.is_err() {
                    return;
                }
                let news = inbox.borrow_and_update();
                if written.as_ref() != Some(&(news.report.clone(), news.node_uid.clone())) {
                    due = due.min(earliest.max(Instant::now()));
                }
            }
            () = tokio::time::sleep_until(due) => {
                let (report, uid) = {
                    let news = inbox.borrow_and_update();
                    (news.report.clone(), news.node_uid.clone())
                };
                let failure = answered(own.write(report.as_ref(), &uid)).await.unwrap_or_default();
                if told.is_new(&failure) {
                    tracing::warn!("the Node's report (Lease {}) cannot be written: {failure}", lease_name(&own.node));
                }
                if failure.is_empty() {
                    backoff.reset();
                    written = Some((report, uid));
                    (earliest, due) = (Instant::now() + timing.gap, Instant::now() + about(timing.renew));
                } else {
                    own.known = None;
                    due = Instant::now() + backoff.next();
                    earliest = due;
                }
            }
        }
    }
}

struct Own {
    api: Api<DynamicObject>,
    resource: ApiResource,
    node: String,
    /// After this time without a write the Node is silent.
    renew: Duration,
    /// The Lease as it was written last.
    known: Option<DynamicObject>,
}

impl Own {
    async fn write(&mut self, report: Option<&Report>, uid: &str) -> Result<(), Error> {
        let name = lease_name(&self.node);
        let mut tries = 0;
        loop {
            tries += 1;
            let old = match self.known.take() {
                Some(old) => Some(old),
                None => self.api.get_opt(&name).await?,
            };
            let lease = self.lease(&name, old.as_ref(), report, uid);
            let written = match &old {
                Some(_) => self.api.replace(&name, &PostParams::default(), &lease).await,
                None => self.api.create(&PostParams::default(), &lease).await,
            };
            match written {
                Ok(lease) => {
                    self.known = Some(lease);
                    return Ok(());
                }
                // Somebody has deleted or changed it.
                Err(Error::Api(status)) if [404, 409].contains(&status.code) && tries < TRIES_MAX => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn lease(&self, name: &str, old: Option<&DynamicObject>, report: Option<&Report>, uid: &str) -> DynamicObject {
        let mut lease = old.cloned().unwrap_or_else(|| DynamicObject::new(name, &self.resource));
        lease.metadata.labels.get_or_insert_default().insert(LABEL.0.to_owned(), LABEL.1.to_owned());
        let annotations = lease.metadata.annotations.get_or_insert_default();
        match report {
            Some(report) => drop(annotations.insert(ANNOTATION.to_owned(), report.text())),
            None => drop(annotations.entry(ANNOTATION.to_owned()).or_insert_with(|| Report::new().text())),
        }
        if !uid.is_empty() {
            let owner = json!({"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": uid});
            lease.metadata.owner_references = serde_json::from_value(Value::Array(vec![owner])).ok();
        }
        lease.data = json!({"spec": {
            "holderIdentity": self.node,
            "leaseDurationSeconds": self.renew.as_secs().max(1),
            "renewTime": micro(Timestamp::now()),
        }});
        lease
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_reports_are_names_of_objects() {
        assert_eq!(lease_name("n1"), "vswitch-agent-n1");
        let [one, other] = ["a", "b"].map(|end| lease_name(&format!("{}{end}", "n.".repeat(130))));
        assert!(one.len() <= NAME_LEN_MAX && one != other, "{one}");
    }
}
