//! What services tell of the server itself.

use super::audit::Audit;
use super::listener_state::ListenerState;
use std::sync::Arc;
use std::time::SystemTime;
use vswitch_control::Health;
use vswitch_control::health::{Condition, Part};

/// Names of the parts of the server, in the order in which they are told behind those of the
/// switch.
pub(crate) const SERVER_PARTS: [&str; 2] = ["certificates", "audit"];

/// The server's listeners and its audit.
#[derive(Debug)]
pub(crate) struct ServerState {
    /// In the order of the configuration.
    pub(crate) listeners: Vec<Arc<ListenerState>>,
    pub(crate) audit: Arc<Audit>,
}

impl ServerState {
    /// The health of the switch and of the server. Neither part of the server makes it fail: the
    /// switch forwards and obeys.
    pub(crate) fn health(&self, mut health: Health) -> Health {
        let now = SystemTime::now();
        let tls = self.listeners.iter().filter_map(|listener| listener.tls.as_ref());
        let certificates: Vec<String> = tls.filter_map(|tls| tls.certificate.lock().trouble(now)).collect();
        let certificates = (!certificates.is_empty()).then(|| certificates.join("; "));
        for (name, trouble) in SERVER_PARTS.into_iter().zip([certificates, self.audit.trouble()]) {
            health.parts.push(Part::new(name, trouble.map(|reason| (Condition::Degraded, reason))));
        }
        health
    }
}
