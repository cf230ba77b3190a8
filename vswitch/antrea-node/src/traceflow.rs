//! Traceflows: their flows in the bridge, and the packets that they tell of.
//!
//! **Design**: what is told of all that run comes to one subscriber of the bridge, whose task deals
//! it out by tags to queues of their own, and never waits: what does not fit is lost, and only the
//! first one matters. Nobody holds the node state's lock while he waits for a packet. A [`Running`]
//! that is dropped, for whatever reason, takes its flows away; and they have its time as their hard
//! timeout.
//!
//! **Limits**: as many as there are tags ([`vswitch_antrea::traceflow::TAG_MAX`]); [`QUEUED`]
//! packets each.

use super::{Antrea, AntreaError};
use crate::carry::Carry;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use vswitch_antrea::traceflow::{CONTROLLER, Seen, TraceflowReport, tag_of};
use vswitch_antrea::{Code, Problems, Traceflow, TraceflowRefused};
use vswitch_control::SwitchError;
use vswitch_control::switch::pipeline::PacketStream;
use vswitch_dataplane::pipeline::{Interest, PacketIn};
use vswitch_proto::antrea::v1;

/// Packets that wait for one to be told.
const QUEUED: usize = 4;

/// Why a Traceflow does not begin.
#[derive(Debug, thiserror::Error)]
pub enum TraceflowError {
    /// As of any call.
    #[error(transparent)]
    Antrea(#[from] AntreaError),
    /// Every field that is wrong.
    #[error("the Traceflow is wrong: {}", first(.0))]
    Wrong(Problems),
    /// Its tag or name is in use.
    #[error("{0}")]
    Exists(String),
    /// All tags are.
    #[error("all 63 tags are in use; wait until a Traceflow is over")]
    Exhausted,
}

/// The first problem, for logs: the answer has all.
fn first(problems: &Problems) -> String {
    problems.all().first().map(|problem| format!("{}: {}", problem.field, problem.reason)).unwrap_or_default()
}

impl From<SwitchError> for TraceflowError {
    fn from(error: SwitchError) -> Self {
        Self::Antrea(error.into())
    }
}

/// Queues by tags.
type Queues = Arc<Mutex<HashMap<u8, mpsc::Sender<PacketIn>>>>;

/// Those that run, as long as some do.
#[derive(Debug, Default)]
pub(super) struct Traceflows(Mutex<Weak<Dealer>>);

/// Deals packets out, until the last one who waits is gone.
#[derive(Debug)]
struct Dealer {
    bridge: String,
    queues: Queues,
    task: AbortHandle,
}

impl Drop for Dealer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Dealer {
    fn new(bridge: &str, packets: PacketStream, runtime: &Handle) -> Self {
        let queues = Queues::default();
        let task = runtime.spawn(deal(packets, Arc::clone(&queues))).abort_handle();
        Self { bridge: bridge.to_owned(), queues, task }
    }
}

async fn deal(mut packets: PacketStream, queues: Queues) {
    while let Some(packet) = packets.receiver.recv().await {
        if let Some(queue) = queues.lock().get(&tag_of(&packet.metadata)) {
            // Without room: the first one is there already.
            let _ = queue.try_send(packet);
        }
    }
    // The bridge is gone: so are those that wait.
    queues.lock().clear();
}

impl Traceflows {
    /// Ends all: the Node is another one.
    pub(super) fn cut(&self) {
        if let Some(dealer) = self.0.lock().upgrade() {
            dealer.queues.lock().clear();
        }
    }
}

/// One that runs. When it is dropped nothing is left of it.
pub struct Running {
    antrea: Option<Arc<Antrea>>,
    runtime: Handle,
    dealer: Arc<Dealer>,
    /// It.
    pub traceflow: Arc<Traceflow>,
    /// Packets with its mark. At its end it is cut off: the Node was reset.
    pub packets: mpsc::Receiver<PacketIn>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

impl Running {
    /// Sends its packet, if it is one that is sent. Blocks.
    ///
    /// # Errors
    /// When the bridge does not take it.
    pub fn send(traceflow: &Traceflow, antrea: &Antrea) -> Result<(), AntreaError> {
        let Some(packet) = traceflow.packet_out() else { return Ok(()) };
        let bridge = antrea.state.lock().bridge()?;
        Ok(antrea.switch.packet_out(&bridge, &packet)?)
    }

    /// Takes its flows away, and returns when they are gone.
    pub async fn end(mut self) {
        if let Some(ending) = self.ending() {
            let _ = ending.await; // a panic there is logged by itself, and timeouts do the rest
        }
    }

    fn ending(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        let antrea = self.antrea.take()?;
        self.dealer.queues.lock().remove(&self.traceflow.tag);
        let traceflow = Arc::clone(&self.traceflow);
        Some(self.runtime.spawn_blocking(move || antrea.end_traceflow(&traceflow)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.ending();
    }
}

impl Antrea {
    /// Begins a Traceflow: what comes with its mark is told from now on. Blocks; on a thread of the
    /// runtime.
    ///
    /// # Errors
    /// When there is no Node, the gate is shut, or it cannot be.
    pub fn start_traceflow(self: &Arc<Self>, asked: &v1::Traceflow) -> Result<Running, TraceflowError> {
        let mut state = self.state.lock();
        let bridge = state.bridge()?;
        if !state.gate_open {
            let reason = "the gate is shut: no packet passes; sync, or open it (SyncService.OpenGate), first";
            return Err(AntreaError::Precondition(reason.to_owned()).into());
        }
        let ports = self.ports(&bridge)?;
        state.node_state.set_ports(ports);
        let dice = RandomState::new().hash_one(&asked.name);
        #[allow(clippy::cast_possible_truncation)] // any number does
        let (plan, traceflow) =
            state.node_state.plan_traceflow(asked, dice as u32).map_err(|refused| match refused {
                TraceflowRefused::Wrong(problems) => TraceflowError::Wrong(problems),
                TraceflowRefused::Exists(what) => TraceflowError::Exists(what),
                TraceflowRefused::Exhausted => TraceflowError::Exhausted,
            })?;
        // Before its flows: nothing of it is missed.
        let runtime = Handle::current();
        let dealer = match self.dealer(&bridge, &runtime) {
            Ok(dealer) => dealer,
            Err(error) => {
                state.node_state.revert(plan);
                return Err(error.into());
            }
        };
        let (queue, packets) = mpsc::channel(QUEUED);
        dealer.queues.lock().insert(traceflow.tag, queue);
        match self.carry_out(&mut state, plan, Carry::of_our_own()) {
            Ok(result) if result.applied => {
                let antrea = Some(Arc::clone(self));
                Ok(Running { antrea, runtime, dealer, traceflow, packets })
            }
            Ok(result) => {
                dealer.queues.lock().remove(&traceflow.tag);
                let mut problems = Problems::default();
                for problem in result.statuses.iter().flat_map(|status| &status.problems) {
                    problems.push(Code::Pipeline, problem.field.clone(), problem.reason.clone());
                }
                Err(TraceflowError::Wrong(problems))
            }
            Err(error) => {
                dealer.queues.lock().remove(&traceflow.tag);
                Err(error.into())
            }
        }
    }

    /// Who deals the bridge's packets out.
    fn dealer(&self, bridge: &str, runtime: &Handle) -> Result<Arc<Dealer>, SwitchError> {
        let mut current = self.traceflows.0.lock();
        if let Some(dealer) = current.upgrade().filter(|dealer| dealer.bridge == bridge && !dealer.task.is_finished()) {
            return Ok(dealer);
        }
        let packets = self.switch.subscribe_packets(bridge, Interest::of(CONTROLLER))?;
        let dealer = Arc::new(Dealer::new(bridge, packets, runtime));
        *current = Arc::downgrade(&dealer);
        Ok(dealer)
    }

    /// Takes the flows of one away. That they cannot be taken away is logged: they have timeouts.
    fn end_traceflow(&self, traceflow: &Arc<Traceflow>) {
        let mut state = self.state.lock();
        let Some(plan) = state.node_state.plan_end_of_traceflow(traceflow) else { return };
        let bridge = state.bridge();
        let written = if state.gate_open && !plan.updates.is_empty() {
            bridge.and_then(|bridge| Ok(self.write_flows(&bridge, &plan.updates).map(|_| ())?))
        } else {
            Ok(())
        };
        if let Err(error) = written {
            tracing::warn!(traceflow = traceflow.message.name, %error, "flows of a Traceflow stay until they time out");
        }
        // Over in any case.
        state.node_state.settle(plan);
    }

    /// What a packet tells of one that runs; None: it is over. Blocks.
    pub fn tell_traceflow(&self, traceflow: &Arc<Traceflow>, packet: &PacketIn) -> Option<TraceflowReport> {
        let seen = Seen { table: packet.table, metadata: &packet.metadata, packet: &packet.packet };
        self.state.lock().node_state.tell_traceflow(traceflow, &seen)
    }

    /// Those that run, in order of their tags.
    ///
    /// # Errors
    /// When there is no Node.
    pub fn traceflows(&self) -> Result<Vec<v1::Traceflow>, AntreaError> {
        let state = self.state.lock();
        state.bridge()?;
        Ok(state.node_state.traceflows().map(|traceflow| traceflow.message.clone()).collect())
    }
}
