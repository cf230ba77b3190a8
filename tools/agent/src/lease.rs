//! One agent of the cluster does what concerns all Nodes: the one that holds the Lease.
//!
//! **Design**: a Lease of coordination.k8s.io/v1 in the agent's own namespace, as client-go's
//! leader election uses it. Clocks of Nodes are not compared: a holder counts as gone when its
//! Lease has been the same for [`DURATION`] by this agent's own clock. Each write names the version
//! that was read. So of two agents that take a Lease at once, one gets a conflict.
//!
//! **Limits**: a holder that cannot renew stops after [`DURATION`] less one period. By then no
//! other agent has taken the Lease.

use crate::feedback::micro;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, Error};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The Lease's name.
pub const NAME: &str = "vswitch-agent";

/// How long a Lease holds without a renewal.
pub const DURATION: Duration = Duration::from_secs(15);

/// How often the holder renews, and others look.
pub const PERIOD: Duration = Duration::from_secs(4);

/// The Lease, as one agent sees it.
#[derive(Debug)]
pub struct Lease {
    api: Api<DynamicObject>,
    resource: ApiResource,
    identity: String,
    /// How long it holds without a renewal, and how often it is renewed.
    duration: Duration,
    period: Duration,
    /// Version of the Lease, and since when it has been that one.
    seen: Option<(String, Instant)>,
    term: Term,
}

/// Until when this agent holds the Lease: what other tasks of the agent ask.
#[derive(Clone, Debug, Default)]
pub struct Term(Arc<Mutex<Option<Instant>>>);

impl Term {
    /// Whether this agent holds the Lease.
    pub fn is_held(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|end| Instant::now() < end)
    }

    fn set(&self, end: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }
}

impl Lease {
    /// The Lease in the client's own namespace. `identity` is the agent's, one for each Node.
    pub fn new(client: Client, identity: &str) -> Self {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease"));
        let api = Api::default_namespaced_with(client, &resource);
        Self {
            api,
            resource,
            identity: identity.to_owned(),
            duration: DURATION,
            period: PERIOD,
            seen: None,
            term: Term::default(),
        }
    }

    /// The same, but for how long it holds, and how often it is renewed.
    #[must_use]
    pub fn lasting(self, (duration, period): (Duration, Duration)) -> Self {
        Self { duration, period, ..self }
    }

    /// Whether this agent holds it.
    pub fn is_held(&self) -> bool {
        self.term.is_held()
    }

    /// The same for other tasks.
    pub fn term(&self) -> Term {
        self.term.clone()
    }

    /// Renews it, or takes it if nobody holds it. To be called each [`PERIOD`].
    pub async fn follow(&mut self) -> Result<(), Error> {
        let asked = Instant::now();
        let Some(old) = self.api.get_opt(NAME).await? else {
            let lease = self.lease(None);
            return self.written(asked, self.api.create(&PostParams::default(), &lease).await);
        };
        let version = old.metadata.resource_version.clone().unwrap_or_default();
        if self.seen.as_ref().is_none_or(|(seen, _)| *seen != version) {
            self.seen = Some((version, asked));
        }
        let holder = old.data.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default();
        let is_lapsed = self.seen.as_ref().is_some_and(|(_, since)| since.elapsed() >= self.duration);
        if !(holder.is_empty() || holder == self.identity || is_lapsed) {
            self.term.set(None);
            return Ok(());
        }
        let lease = self.lease(Some(&old));
        self.written(asked, self.api.replace(NAME, &PostParams::default(), &lease).await)
    }

    fn written(&mut self, asked: Instant, result: Result<DynamicObject, Error>) -> Result<(), Error> {
        match result {
            Ok(lease) => {
                self.seen = Some((lease.metadata.resource_version.unwrap_or_default(), asked));
                self.term.set(asked.checked_add(self.duration.saturating_sub(self.period)));
                Ok(())
            }
            Err(Error::Api(status)) if status.code == 409 => {
                self.term.set(None);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn lease(&self, old: Option<&DynamicObject>) -> DynamicObject {
        let now = micro(Timestamp::now());
        let of_old = |field: &str| old.and_then(|old| old.data.pointer(&format!("/spec/{field}")));
        let was_held = of_old("holderIdentity").and_then(Value::as_str) == Some(&self.identity);
        let acquired = of_old("acquireTime").filter(|_| was_held).cloned().unwrap_or_else(|| json!(now));
        let changes = of_old("leaseTransitions").and_then(Value::as_i64).unwrap_or(0);
        let mut lease = old.cloned().unwrap_or_else(|| DynamicObject::new(NAME, &self.resource));
        lease.data = json!({"spec": {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.duration.as_secs().max(1),
            "acquireTime": acquired,
            "renewTime": now,
            "leaseTransitions": if was_held || old.is_none() { changes } else { changes.saturating_add(1) },
        }});
        lease
    }
}
