//! A double of TraceflowService: senders wait at a gate, and tags are counted over all switches.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::run_traceflow_response::Update;
use vswitch_proto::antrea::v1::traceflow_service_server::TraceflowService;

type Answer = Result<v1::RunTraceflowResponse, Status>;

/// What runs.
#[derive(Debug, Default)]
struct Running {
    /// Tags of senders.
    tags: BTreeSet<u32>,
    /// Senders and receivers.
    all: usize,
    /// Tags that two senders had at once.
    doubled: Vec<u32>,
}

/// The Traceflows of all switches that have it.
#[derive(Clone, Debug)]
pub struct Traces {
    running: Arc<Mutex<Running>>,
    gate: Arc<watch::Sender<bool>>,
}

impl Traces {
    fn new(is_open: bool) -> Self {
        Self { running: Arc::default(), gate: Arc::new(watch::Sender::new(is_open)) }
    }

    /// Packets arrive at once.
    pub fn open() -> Self {
        Self::new(true)
    }

    /// Packets arrive when the gate is opened.
    pub fn shut() -> Self {
        Self::new(false)
    }

    pub fn release(&self) {
        self.gate.send_replace(true);
    }

    /// Senders that run; all that run; tags that two had at once.
    pub fn counts(&self) -> (usize, usize, Vec<u32>) {
        let running = self.running.lock().expect("not poisoned");
        (running.tags.len(), running.all, running.doubled.clone())
    }
}

/// One that runs, until it is dropped.
struct Run(Traces, v1::Traceflow);

impl Run {
    fn begin(traces: &Traces, traceflow: v1::Traceflow) -> Self {
        let mut running = traces.running.lock().expect("not poisoned");
        running.all += 1;
        let is_sender = traceflow.role() != v1::TraceflowRole::Receiver;
        if is_sender && !running.tags.insert(traceflow.tag) {
            running.doubled.push(traceflow.tag);
        }
        drop(running);
        Self(traces.clone(), traceflow)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let mut running = self.0.running.lock().expect("not poisoned");
        running.all -= 1;
        if self.1.role() != v1::TraceflowRole::Receiver {
            running.tags.remove(&self.1.tag);
        }
    }
}

async fn run(run: Run, answers: mpsc::Sender<Answer>) {
    let tell = |update| {
        let answers = answers.clone();
        async move { answers.send(Ok(v1::RunTraceflowResponse { update: Some(update) })).await.is_ok() }
    };
    if !tell(Update::Started(v1::TraceflowStarted::default())).await {
        return;
    }
    if run.1.role() == v1::TraceflowRole::Receiver {
        return answers.closed().await;
    }
    let mut gate = run.0.gate.subscribe();
    tokio::select! {
        _ = gate.wait_for(|is_open| *is_open) => {}
        () = answers.closed() => return,
    }
    let action = v1::TraceflowAction::Delivered.into();
    let observation = v1::TraceflowObservation { action, ..v1::TraceflowObservation::default() };
    if tell(Update::Observation(observation)).await {
        drop(run);
        tell(Update::Finished(v1::TraceflowFinished::default())).await;
    }
}

#[tonic::async_trait]
impl TraceflowService for Traces {
    type RunTraceflowStream = ReceiverStream<Answer>;

    async fn run_traceflow(
        &self,
        request: Request<v1::RunTraceflowRequest>,
    ) -> Result<Response<ReceiverStream<Answer>>, Status> {
        let traceflow = request.into_inner().traceflow.unwrap_or_default();
        let (answers, stream) = mpsc::channel(4);
        tokio::spawn(run(Run::begin(self, traceflow), answers));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn list_traceflows(
        &self,
        _: Request<v1::ListTraceflowsRequest>,
    ) -> Result<Response<v1::ListTraceflowsResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }
}
