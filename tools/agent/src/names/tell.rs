//! The task that tells the switch names.

use super::book::{Book, Named};
use crate::drive::channel;
use crate::last_failure::LastFailure;
use crate::status::Status;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tonic::transport::Channel;
use tonic::{Code, Response};
use vswitch_net_types::shown;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::name_service_client::NameServiceClient;

/// Names of one call.
const CALL_MAX: usize = 8192;

/// Bytes of names of one call, about. (The switch takes 16 MiB.)
const CALL_LEN_MAX: usize = 4 << 20;

/// A call that takes longer has failed.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// The switch is asked this often whether it has the names still.
const CHECK: Duration = Duration::from_secs(2);

/// Waits after a failure: doubled each time up to the longer one.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// A switch without the service may be replaced by a newer one.
const RETRY_UNSERVED: Duration = Duration::from_secs(60);

/// Why telling ended.
enum Failure {
    /// The switch is not there. The driver tells of it.
    Away,
    /// The switch is older than the service.
    Unserved,
    /// The switch refuses a call.
    Refused(String),
    /// The switch does not have the names that it was told.
    Lost,
    /// There is no agent any more.
    Over,
}

/// Tells names until the sender of `inbox` is gone.
pub(super) async fn follow(socket: PathBuf, mut inbox: watch::Receiver<Option<Arc<Book>>>, status: Arc<Status>) {
    let (mut told, mut is_unserved_told) = (LastFailure::default(), false);
    let (mut pause, mut round) = (RETRY.0, 0);
    loop {
        round = next_round(round);
        let mut session = match Session::begin(&socket, &mut inbox, round).await {
            Ok(session) => {
                is_unserved_told = false;
                told.is_new("");
                Ok(session)
            }
            Err(failure) => Err(failure),
        };
        let begin = Instant::now();
        let failure = match &mut session {
            Ok(session) => session.follow(&mut inbox, &status).await,
            Err(failure) => std::mem::replace(failure, Failure::Away),
        };
        status.names.told.store(0, Ordering::Relaxed);
        if begin.elapsed() > RETRY.1 {
            pause = RETRY.0;
        }
        let wait = match failure {
            Failure::Over => return,
            Failure::Unserved => {
                if !std::mem::replace(&mut is_unserved_told, true) {
                    tracing::info!("the switch takes no names of addresses: it is older than this agent");
                }
                RETRY_UNSERVED
            }
            Failure::Refused(reason) => {
                let reason = shown(&reason).into_owned();
                if told.is_new(&reason) {
                    tracing::warn!("the switch refuses names of addresses: {reason}");
                }
                pause
            }
            Failure::Away | Failure::Lost => pause,
        };
        tokio::time::sleep(wait).await;
        pause = (pause * 2).min(RETRY.1);
    }
}

/// Rounds of later agents are higher, as clocks go.
fn next_round(before: u64) -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX).max(before.saturating_add(1))
}

/// A switch that has names.
struct Session {
    client: NameServiceClient<Channel>,
    round: u64,
    /// What it was told.
    book: Arc<Book>,
    /// Addresses of names that it did not take.
    refused: BTreeSet<IpAddr>,
}

impl Session {
    /// Tells all names, once there is a book.
    async fn begin(socket: &Path, inbox: &mut watch::Receiver<Option<Arc<Book>>>, round: u64) -> Result<Self, Failure> {
        let book = inbox.wait_for(Option::is_some).await.map_err(|_| Failure::Over)?.clone().unwrap_or_default();
        let channel = channel(socket).await.map_err(|_| Failure::Away)?;
        let client = NameServiceClient::new(channel);
        let mut session = Self { client, round, book: Arc::clone(&book), refused: BTreeSet::new() };
        let all: Vec<_> = book.all().collect();
        session.apply(&all, true).await?;
        Ok(session)
    }

    /// Tells changes until something fails.
    async fn follow(&mut self, inbox: &mut watch::Receiver<Option<Arc<Book>>>, status: &Status) -> Failure {
        loop {
            status.names.told.store((self.book.len() - self.refused.len()) as u64, Ordering::Relaxed);
            status.names.refused.store(self.refused.len() as u64, Ordering::Relaxed);
            let changed = tokio::time::timeout(CHECK, inbox.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                return Failure::Over;
            }
            let book = inbox.borrow_and_update().clone().unwrap_or_default();
            if let Err(failure) = self.differ(book).await {
                return failure;
            }
        }
    }

    /// Tells what differs from what the switch was told. Without a difference the call asks what
    /// the switch has.
    async fn differ(&mut self, book: Arc<Book>) -> Result<(), Failure> {
        let before = std::mem::replace(&mut self.book, Arc::clone(&book));
        let gone: Vec<IpAddr> = before.all().map(|(address, _)| *address).filter(|a| book.get(a).is_none()).collect();
        for part in gone.chunks(CALL_MAX) {
            self.refused.retain(|address| !part.contains(address));
            let addresses = part.iter().map(ToString::to_string).collect();
            answered(self.client.delete_names(v1::DeleteNamesRequest { addresses })).await?;
        }
        let news: Vec<_> = book.all().filter(|(address, named)| before.get(address) != Some(*named)).collect();
        let kept = self.apply(&news, false).await?;
        if kept == book.len() - self.refused.len() { Ok(()) } else { Err(Failure::Lost) }
    }

    /// Tells names in one call at least. Returns how many names the switch has.
    async fn apply(&mut self, names: &[(&IpAddr, &Named)], complete: bool) -> Result<usize, Failure> {
        let (mut rest, mut has_no_room, mut kept) = (names, None, 0);
        loop {
            let mut call = Vec::new();
            let mut len = 0;
            for (address, named) in rest.iter().take(CALL_MAX) {
                let name = named.to_proto(address);
                len += prost::Message::encoded_len(&name);
                call.push(name);
                if len > CALL_LEN_MAX {
                    break;
                }
            }
            let (part, behind) = rest.split_at(call.len());
            rest = behind;
            let is_last = complete && rest.is_empty();
            let request = v1::ApplyNamesRequest { names: call, round: self.round, complete: is_last };
            match answered(self.client.apply_names(request)).await {
                Ok(answer) => {
                    let problems = answer.problems.iter().filter_map(|problem| part.get(problem.index as usize));
                    let refused: BTreeSet<IpAddr> = problems.map(|(address, _)| **address).collect();
                    // (They are in order of addresses.)
                    self.refused.retain(|address| part.binary_search_by(|(other, _)| (*other).cmp(address)).is_err());
                    self.refused.extend(refused);
                    kept = answer.kept as usize;
                }
                Err(Failure::Refused(reason)) if reason.starts_with("ResourceExhausted") => {
                    has_no_room = Some(reason);
                }
                Err(failure) => return Err(failure),
            }
            if rest.is_empty() {
                break;
            }
        }
        let Some(reason) = has_no_room else { return Ok(kept) };
        if complete {
            // Names of an earlier agent take the room: they go, and all is told again.
            let request = v1::ApplyNamesRequest { names: Vec::new(), round: self.round, complete };
            answered(self.client.apply_names(request)).await?;
        }
        Err(Failure::Refused(reason))
    }
}

async fn answered<T>(call: impl Future<Output = Result<Response<T>, tonic::Status>>) -> Result<T, Failure> {
    match tokio::time::timeout(ANSWER_MAX, call).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(match status.code() {
            Code::Unimplemented => Failure::Unserved,
            Code::Unavailable | Code::Cancelled | Code::Unknown | Code::DeadlineExceeded => Failure::Away,
            code => Failure::Refused(format!("{code:?}: {}", status.message())),
        }),
        Err(_) => Err(Failure::Away),
    }
}
