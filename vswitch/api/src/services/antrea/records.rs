//! `FlowRecordService`.

use super::AntreaServices;
use crate::calls::{StreamKind, lose};
use crate::services::status::invalid;
use crate::services::watch::until_stopped;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use vswitch_antrea_node::{Antrea, AntreaError, Delivery, Only, Reader};
use vswitch_dataplane::port::FieldError;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::{FlowRecord, FlowRecordKind};

/// Who lists records and reads nothing for so long is given up: others wait for its turn to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// Seconds between records of a connection that has packets.
const ACTIVE_SECONDS: std::ops::RangeInclusive<u32> = 1..=86_400;

type Message = Result<v1::WatchFlowRecordsResponse, Status>;

/// What a subscriber wants to know.
struct Wanted {
    /// Empty: all.
    kinds: Vec<FlowRecordKind>,
    active: Option<Duration>,
    existing: bool,
}

impl Wanted {
    fn new(request: &v1::WatchFlowRecordsRequest) -> Result<Self, Status> {
        let kind = |told: &i32| match FlowRecordKind::try_from(*told) {
            Ok(kind) if kind != FlowRecordKind::Unspecified => Ok(kind),
            _ => {
                let problem = format!("{told} is no kind of record");
                Err(invalid(&[FieldError::new("kinds", problem, "use NEW (1), UPDATE (2), END (3) or DENIED (4)")]))
            }
        };
        let kinds = request.kinds.iter().map(kind).collect::<Result<Vec<_>, _>>()?;
        let seconds = request.active_seconds;
        if seconds != 0 && !ACTIVE_SECONDS.contains(&seconds) {
            let problem = format!("{seconds} is out of range");
            return Err(invalid(&[FieldError::new("active_seconds", problem, "use 1 to 86400, or 0 for none")]));
        }
        let updates = kinds.is_empty() || kinds.contains(&FlowRecordKind::Update);
        let active = (seconds != 0 && updates).then(|| Duration::from_secs(seconds.into()));
        Ok(Self { kinds, active, existing: request.include_existing && updates })
    }

    fn wants(&self, record: &FlowRecord) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&record.kind())
    }
}

/// A stream of records on its way.
struct Stream {
    antrea: Arc<Antrea>,
    walks: Arc<Semaphore>,
    messages: mpsc::Sender<Message>,
    lost: u64,
    /// Packets of connections, as walked last.
    seen: HashMap<u64, u64>,
}

impl Stream {
    /// Sends what is wanted of these; false: the reader has gone.
    async fn send(&self, records: Vec<FlowRecord>) -> bool {
        let message = v1::WatchFlowRecordsResponse { records, started: None, lost: self.lost };
        self.messages.send(Ok(message)).await.is_ok()
    }

    /// Walks through all connections, and sends records of those that have had packets since the
    /// last time, unless it only `learns` of them. False: the reader has gone, or the switch.
    async fn walk(&mut self, learns: bool) -> bool {
        let Ok(permit) = Arc::clone(&self.walks).acquire_owned().await else { return false };
        let (antrea, messages, lost) = (Arc::clone(&self.antrea), self.messages.clone(), self.lost);
        let (mut seen, handle) = (std::mem::take(&mut self.seen), Handle::current());
        let walking = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let mut here = true;
            antrea.walk_active(&mut seen, |records| {
                let message = v1::WatchFlowRecordsResponse { records, started: None, lost };
                // A slow reader is not to keep others from their walks; it is told the rest the
                // next time.
                here = learns || handle.block_on(messages.send_timeout(Ok(message), PATIENCE)).is_ok();
                if here { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            (seen, here)
        });
        let Ok((seen, here)) = walking.await else { return false };
        self.seen = seen;
        here
    }

    /// Tells that the subscription stands, then what happens.
    async fn fill(mut self, mut reader: Reader<FlowRecord>, wanted: Wanted) {
        let started = Some(v1::FlowRecordsStarted {});
        let first = v1::WatchFlowRecordsResponse { started, ..v1::WatchFlowRecordsResponse::default() };
        if self.messages.send(Ok(first)).await.is_err() {
            return;
        }
        if (wanted.existing || wanted.active.is_some()) && !self.walk(!wanted.existing).await {
            return;
        }
        let period = wanted.active.unwrap_or(Duration::from_secs(86_400));
        let mut active = interval_at(Instant::now() + period, period);
        active.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let here = tokio::select! {
                told = reader.next() => {
                    let Some(Delivery { items, behind, .. }) = told else { return };
                    self.lost += behind;
                    lose(StreamKind::Records, behind);
                    let items = items.into_iter().filter(|record| wanted.wants(record));
                    let records: Vec<FlowRecord> = items.map(Arc::unwrap_or_clone).collect();
                    (records.is_empty() && behind == 0) || self.send(records).await
                }
                _ = active.tick(), if wanted.active.is_some() => self.walk(false).await,
            };
            if !here {
                return;
            }
        }
    }
}

type CompiledObjects = mpsc::Sender<Result<v1::ListFlowRecordsResponse, Status>>;

/// Fills a list, on a blocking thread.
async fn list(antrea: Arc<Antrea>, walks: Arc<Semaphore>, only: Only, messages: CompiledObjects) {
    let Ok(permit) = walks.acquire_owned().await else { return };
    // NodeState for the last word to a caller that reads too slowly.
    let Ok(last_word) = messages.clone().reserve_owned().await else { return };
    let handle = Handle::current();
    let walk = move || {
        let _permit = permit;
        let mut failed = None;
        antrea.walk_records(&only, |records| {
            let sending = messages.send_timeout(Ok(v1::ListFlowRecordsResponse { records }), PATIENCE);
            match handle.block_on(sending) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        if let Some(mpsc::error::SendTimeoutError::Timeout(_)) = failed {
            let told = format!("the list is not complete: nothing was read for {} s; read faster", PATIENCE.as_secs());
            last_word.send(Err(Status::deadline_exceeded(told)));
        }
    };
    // A panic is told by its hook, and ends the stream
    let _ = tokio::task::spawn_blocking(walk).await;
}

#[tonic::async_trait]
impl v1::flow_record_service_server::FlowRecordService for AntreaServices {
    type WatchFlowRecordsStream = BoxStream<v1::WatchFlowRecordsResponse>;
    type ListFlowRecordsStream = BoxStream<v1::ListFlowRecordsResponse>;

    async fn watch_flow_records(
        &self,
        request: Request<v1::WatchFlowRecordsRequest>,
    ) -> Result<Response<Self::WatchFlowRecordsStream>, Status> {
        let wanted = Wanted::new(request.get_ref())?;
        let reader = self.read(Antrea::watch_records).await?;
        let (antrea, walks) = (Arc::clone(&self.antrea), Arc::clone(&self.walks));
        let fill = |messages| Stream { antrea, walks, messages, lost: 0, seen: HashMap::new() }.fill(reader, wanted);
        Ok(Response::new(until_stopped(self.control.stopping.clone(), fill)))
    }

    async fn list_flow_records(
        &self,
        request: Request<v1::ListFlowRecordsRequest>,
    ) -> Result<Response<Self::ListFlowRecordsStream>, Status> {
        let v1::ListFlowRecordsRequest { pod, service } = request.into_inner();
        self.read(|antrea| if antrea.is_initialized() { Ok(()) } else { Err(AntreaError::NotInitialised) }).await?;
        let (antrea, walks) = (Arc::clone(&self.antrea), Arc::clone(&self.walks));
        let fill = |messages| list(antrea, walks, Only { pod, service }, messages);
        Ok(Response::new(until_stopped(self.control.stopping.clone(), fill)))
    }
}
