//! What is answered: the metrics, and whether the switch lives and is ready.

use super::compat;
use super::encode::{Format, encode};
use super::families;
use super::family::Family;
use super::listener::MetricsListener;
use crate::calls::Calls;
use crate::services::{Control, Reading};
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use vswitch_antrea_node::Antrea;
use vswitch_control::config::Compat;
use vswitch_control::health::Condition;

/// Time for a request to come, and for a reading.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// For how long a text is shown again.
const CACHED: Duration = Duration::from_secs(1);

/// Why metrics are not shown.
const LATE: &str = "the switch cannot be read now: it has been busy for 2 s\n";

/// Yes, or why not.
pub(super) type Probe = Result<(), String>;

/// A text, and when its reading began.
type Made = (Instant, Bytes);

/// The source of answers.
#[derive(Clone)]
pub(crate) struct Page {
    control: Control,
    antrea: Arc<Antrea>,
    calls: Arc<Calls>,
    compat: Arc<[Compat]>,
    /// Rules of policies are shown.
    rules: bool,
    /// By [`Format`]. Locked during a reading: who comes meanwhile has the same text.
    cached: Arc<[Mutex<Option<Made>>; 2]>,
}

impl Page {
    /// Of a switch.
    pub(crate) fn new(control: Control, antrea: Arc<Antrea>, calls: Arc<Calls>, listener: &MetricsListener) -> Self {
        let (compat, rules) = (listener.compat().into(), listener.rules());
        Self { control, antrea, calls, compat, rules, cached: Arc::default() }
    }

    /// The metrics as text: a new one, or that of a moment ago. Why there are none.
    pub(super) async fn metrics(&self, format: Format) -> Result<Bytes, &'static str> {
        let made = async {
            let mut cached = self.cached[format as usize].lock().await;
            if let Some((at, text)) = &*cached
                && at.elapsed() < CACHED
            {
                return Ok(text.clone());
            }
            let (at, text) = (Instant::now(), self.make(format).await?);
            *cached = Some((at, text.clone()));
            Ok(text)
        };
        tokio::time::timeout(REQUEST_TIMEOUT, made).await.unwrap_or(Err(LATE))
    }

    async fn make(&self, format: Format) -> Result<Bytes, &'static str> {
        let (antrea, calls, compat) = (Arc::clone(&self.antrea), Arc::clone(&self.calls), Arc::clone(&self.compat));
        let (server, rules) = (Arc::clone(self.control.server()), self.rules);
        let text = self.control.read(move |switch| {
            let mut reading = Reading::take(switch, &antrea, &calls, &server);
            if rules {
                reading.take_rules(&antrea);
            }
            encode(shown(&compat), &reading, format).0
        });
        text.await.map(Bytes::from).map_err(|_| "the switch cannot be read: the call failed; report it\n")
    }

    /// Whether the switch forwards and obeys.
    pub(super) async fn is_alive(&self) -> Probe {
        let health = match tokio::time::timeout(REQUEST_TIMEOUT, self.control.health()).await {
            Ok(Ok(health)) => health,
            Ok(Err(status)) => return Err(status.message().to_owned()),
            Err(_) => return Err("the switch did not tell its health within 2 s".to_owned()),
        };
        let failing = health.parts.iter().filter(|part| part.condition == Condition::Failing);
        let failing: Vec<String> = failing.map(|part| format!("{}: {}", part.name, part.reason)).collect();
        if failing.is_empty() { Ok(()) } else { Err(failing.join("\n")) }
    }

    /// Whether traffic may come: each device of a port was tried, and the gate is open if there is
    /// a Node.
    pub(super) async fn is_ready(&self) -> Probe {
        self.is_alive().await?;
        let antrea = Arc::clone(&self.antrea);
        let reading = self.control.read(move |switch| {
            let bridges = switch.bridges();
            let ports = bridges.iter().flat_map(|bridge| &bridge.ports).filter(|port| port.opening);
            let opening: Vec<String> = ports.map(|port| port.config.name.clone()).collect();
            let state = antrea.state();
            (opening, state.initialized && !state.gate_open)
        });
        let (opening, shut) = match tokio::time::timeout(REQUEST_TIMEOUT, reading).await {
            Ok(Ok(read)) => read,
            Ok(Err(status)) => return Err(status.message().to_owned()),
            Err(_) => return Err("the switch was busy for 2 s".to_owned()),
        };
        if let Some(first) = opening.first() {
            return Err(format!("devices of {} ports are being opened, such as {first}", opening.len()));
        }
        if shut {
            return Err("the gate is shut: no agent has synced; `vsctl antrea status` tells more".to_owned());
        }
        Ok(())
    }
}

/// The families that are shown.
pub(super) fn shown(compat: &[Compat]) -> impl Iterator<Item = &'static Family> + use<'_> {
    families::all().chain(compat.iter().copied().flat_map(compat::families))
}
