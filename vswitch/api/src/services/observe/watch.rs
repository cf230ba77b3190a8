//! `WatchObservations`: what is kept, and what comes.

use super::{Following, Observer, take};
use crate::calls::{StreamKind, lose};
use crate::services::status::invalid_paths;
use crate::services::watch::until_stopped;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::MissedTickBehavior;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use vswitch_dataplane::observe::{DropClass, DropReason};
use vswitch_dataplane::time::unix_ms;
use vswitch_observe::{Batch, Filters, Follower};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::Observation;
use vswitch_proto::antrea::v1::watch_observations_response::Update;

/// What was not told is told so often.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// Logs are told that much later than they happened: they wait for others like them.
const LATE: Duration = Duration::from_millis(1100);

type Messages = mpsc::Sender<Result<v1::WatchObservationsResponse, Status>>;

/// A client's stream.
struct Watch {
    observer: Arc<Observer>,
    filters: Filters,
    /// How many of those that are kept, and from when on.
    last: Option<usize>,
    since_unix_ms: u64,
    /// 0: without an end.
    until_unix_ms: u64,
    messages: Messages,
    /// What was lost before it began.
    before: (u64, u64),
    told: v1::ObservationsLost,
    behind: u64,
}

/// Whether it is the name of a drop reason or of a class.
fn is_reason(name: &str) -> bool {
    DropReason::by_name(name).is_some() || DropClass::by_name(name).is_some()
}

impl Watch {
    /// False: the client has gone.
    async fn send(&self, update: Update) -> bool {
        self.messages.send(Ok(v1::WatchObservationsResponse { update: Some(update) })).await.is_ok()
    }

    fn fits(&self, observation: &Observation) -> bool {
        (self.until_unix_ms == 0 || observation.unix_ms <= self.until_unix_ms) && self.filters.fit(observation)
    }

    /// Those that are kept and meant.
    fn kept(&self, mut kept: Vec<Arc<Observation>>) -> Vec<Arc<Observation>> {
        if self.last.is_none() && self.since_unix_ms == 0 {
            return Vec::new();
        }
        kept.retain(|observation| observation.unix_ms >= self.since_unix_ms && self.fits(observation));
        let first = self.last.map_or(0, |last| kept.len().saturating_sub(last));
        kept.split_off(first)
    }

    async fn begin(&self) -> bool {
        let antrea = Arc::clone(&self.observer.antrea);
        let node = tokio::task::spawn_blocking(move || antrea.node_name()).await.ok().flatten();
        self.send(Update::Started(v1::ObservationsStarted {
            ring: u32::try_from(self.observer.ring.keeps()).unwrap_or(u32::MAX),
            oldest_unix_ms: self.observer.ring.oldest_unix_ms().unwrap_or_default(),
            has_node: node.is_some(),
            node: node.unwrap_or_default(),
        }))
        .await
    }

    /// What was not told so far, if it is news.
    fn lost(&mut self) -> Option<Update> {
        let (unread, suppressed) = self.observer.losses();
        let (unread_before, suppressed_before) = self.before;
        let now = v1::ObservationsLost {
            behind: self.behind,
            unread: unread.saturating_sub(unread_before),
            suppressed: suppressed.saturating_sub(suppressed_before),
        };
        if now == self.told {
            return None;
        }
        self.told = now;
        Some(Update::Lost(now))
    }

    /// Time until the stream ends.
    fn left(&self) -> Duration {
        match self.until_unix_ms {
            0 => Duration::from_secs(u32::MAX.into()),
            until => Duration::from_millis(until.saturating_sub(unix_ms())) + LATE,
        }
    }

    /// Tells what is kept. The stream itself, unless the client has gone.
    async fn tell_kept(self, kept: Vec<Arc<Observation>>) -> Option<Self> {
        if !self.begin().await {
            return None;
        }
        // Thousands of observations are matched, which takes milliseconds.
        let matching = tokio::task::spawn_blocking(move || (self.kept(kept), self));
        let (kept, watch) = matching.await.ok()?;
        for observation in kept {
            if !watch.send(Update::Observation(Arc::unwrap_or_clone(observation))).await {
                return None;
            }
        }
        Some(watch)
    }

    /// Tells what is kept, and no more.
    async fn read(self, _permit: OwnedSemaphorePermit) {
        let kept = self.observer.ring.read().0;
        self.tell_kept(kept).await;
    }

    /// Tells what is kept, then what comes.
    async fn follow(self, _following: Following) {
        let (kept, mut follower) = self.observer.ring.read();
        let end = tokio::time::Instant::now() + self.left();
        let Some(mut watch) = self.tell_kept(kept).await else { return };
        let mut every = tokio::time::interval(TOLD_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let here = tokio::select! {
                batch = follower.next() => watch.tell(batch).await,
                _ = every.tick() => match watch.lost() {
                    Some(lost) => watch.send(lost).await,
                    None => true,
                },
                () = tokio::time::sleep_until(end) => {
                    watch.tell_rest(&mut follower).await;
                    false
                }
            };
            if !here {
                return;
            }
        }
    }

    /// Tells what of a batch is meant. False: the client has gone.
    async fn tell(&mut self, Batch { items, behind }: Batch) -> bool {
        self.behind += behind;
        lose(StreamKind::Observations, behind);
        for observation in items.into_iter().filter(|observation| self.fits(observation)).collect::<Vec<_>>() {
            if !self.send(Update::Observation(Arc::unwrap_or_clone(observation))).await {
                return false;
            }
        }
        true
    }

    /// Tells what has come by the end of the stream, and what was lost.
    async fn tell_rest(&mut self, follower: &mut Follower) {
        while let Some(batch) = follower.take_now() {
            if !self.tell(batch).await {
                return;
            }
        }
        if let Some(lost) = self.lost() {
            self.send(lost).await;
        }
    }
}

/// [`v1::observe_service_server::ObserveService`].
pub(crate) struct Observations(pub(crate) Arc<Observer>);

#[tonic::async_trait]
impl v1::observe_service_server::ObserveService for Observations {
    type WatchObservationsStream = BoxStream<v1::WatchObservationsResponse>;

    async fn watch_observations(
        &self,
        request: Request<v1::WatchObservationsRequest>,
    ) -> Result<Response<Self::WatchObservationsStream>, Status> {
        let request = request.into_inner();
        let filters = Filters::new(&request.allow, &request.deny, &is_reason)
            .map_err(|wrong| invalid_paths(wrong.iter().map(|one| (one.field.as_str(), one.problem.as_str()))))?;
        let observer = Arc::clone(&self.0);
        let (stopping, means_connections) = (observer.control.stopping.clone(), filters.mean_connections());
        let before = observer.losses();
        let watch = move |messages| Watch {
            observer,
            filters,
            last: (request.last > 0).then(|| usize::try_from(request.last).unwrap_or(usize::MAX)),
            since_unix_ms: request.since_unix_ms,
            until_unix_ms: request.until_unix_ms,
            messages,
            before,
            told: v1::ObservationsLost::default(),
            behind: 0,
        };
        if request.follow {
            let following = self.0.follow(means_connections).await?;
            return Ok(Response::new(until_stopped(stopping, |messages| watch(messages).follow(following))));
        }
        let permit = take(&self.0.reading, "read")?;
        Ok(Response::new(until_stopped(stopping, |messages| watch(messages).read(permit))))
    }
}
