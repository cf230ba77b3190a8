//! Health check NodePorts: load balancers ask there which Nodes have endpoints of a Service.
//!
//! A Service of type LoadBalancer with `externalTrafficPolicy: Local` has a `healthCheckNodePort`.
//! The agent answers HTTP there as kube-proxy does, on all addresses of the Node: 200 with a count
//! of local endpoints, or 503 when there is none or the switch does not forward.
//!
//! **Design**: [`Checks`] follows what the projection says. Each port and family has a listener
//! ([`listener`]), which ends with its Service. A port that cannot be bound is a problem of its
//! Service, stops nothing else, and is tried again at each call.
//!
//! **Limits**: [`PORTS_MAX`] ports; the listeners bound connections, headers and time.

mod listener;

use crate::problem::{Origin, Problem};
use listener::{Answer, Family, Listener};
pub(crate) use listener::{Permits, respond};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Ports that are served at most. Each takes two sockets: with all connections they leave a fourth
/// of the 1,024 descriptors that a process has by default.
const PORTS_MAX: usize = 256;

/// The field of a Service that problems name.
pub const FIELD: &str = "spec.healthCheckNodePort";

/// What a Service's health check NodePort is to answer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct HealthCheck {
    /// The port.
    pub port: u16,
    /// The Service's namespace.
    pub namespace: String,
    /// The Service's name.
    pub name: String,
    /// Ready endpoints of this Node by family, IPv4 and IPv6; None: the Service has not the family.
    pub local_endpoints: [Option<usize>; 2],
    /// The Service's document.
    pub origin: Origin,
}

/// Listeners of all health check NodePorts.
#[derive(Debug, Default)]
pub struct Checks {
    listeners: BTreeMap<(u16, Family), Listener>,
    permits: Permits,
}

impl Checks {
    /// Serves these, by the names of their Services, and nothing else from now on. `healthy`: the
    /// switch forwards. Returns what cannot be served. It is called in a runtime of tokio.
    pub fn follow(&mut self, wanted: &BTreeMap<String, HealthCheck>, healthy: bool) -> Vec<Problem> {
        let (answers, mut problems) = answers(wanted, healthy);
        self.listeners.retain(|at, _| answers.contains_key(at));
        for (at, (answer, origin)) in answers {
            if let Some(listener) = self.listeners.get(&at) {
                listener.answer(answer);
                continue;
            }
            match Listener::open(at.0, at.1, answer, &self.permits) {
                Ok(listener) => {
                    self.listeners.insert(at, listener);
                }
                Err(error) => {
                    let reason = format!("{} port {}: {error}", at.1.any(), at.0);
                    let hint = "health checks there are not answered; it is tried again".to_owned();
                    problems.push(Problem { hint, ..origin.error(FIELD, reason) });
                }
            }
        }
        problems
    }
}

type Answers<'a> = BTreeMap<(u16, Family), (Answer, &'a Origin)>;

/// What is to be answered where. Of Services that have one port, the first by name has it.
fn answers(wanted: &BTreeMap<String, HealthCheck>, healthy: bool) -> (Answers<'_>, Vec<Problem>) {
    let (mut owners, mut problems) = (BTreeMap::new(), Vec::new());
    for (service, check) in wanted {
        if let Some((other, _)) = owners.get(&check.port) {
            let reason = format!("{} is that of Service {other}, too", check.port);
            problems.push(check.origin.error(FIELD, reason));
        } else if owners.len() == PORTS_MAX {
            let reason = format!("more than {PORTS_MAX} ports: health checks there are not answered");
            problems.push(check.origin.error(FIELD, reason));
        } else {
            owners.insert(check.port, (service, check));
        }
    }
    let mut answers = Answers::new();
    for (_, check) in owners.into_values() {
        for (family, count) in Family::BOTH.into_iter().zip(check.local_endpoints) {
            let Some(local_endpoints) = count else { continue };
            let (namespace, name) = (check.namespace.clone(), check.name.clone());
            let answer = Answer { namespace, name, local_endpoints, healthy };
            answers.insert((check.port, family), (answer, &check.origin));
        }
    }
    (answers, problems)
}
