//! How requests of one kind go to the API server, and what comes back.
//!
//! [`Wire`] stands between `kube` and the client. It bounds how long an answer may take and how
//! long it may be, obeys `Retry-After`, and sees when a watch begins and ends: `kube` begins
//! ended watches again by itself, at once and without a word.

use super::state::{Failure, Shared};
use super::table::Kind;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use hyper::header::RETRY_AFTER;
use hyper::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::{BuildHasher, Hasher};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// How long the server may take to begin an answer. (Its own limit for a list is 60 s.)
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Bytes of a page of a list: 500 objects, of which few are as long as they may be.
const PAGE_LEN_MAX: usize = 256 << 20;

/// Bytes of an event of a watch: one object. etcd takes 1.5 MiB, which may be more as JSON.
const EVENT_LEN_MAX: usize = 16 << 20;

/// A watch that ends sooner than that is begun again with a pause.
const SHORT: Duration = Duration::from_secs(1);

/// The longest time that `Retry-After` may ask for.
const RETRY_MAX: Duration = Duration::from_secs(300);

type AnyError = Box<dyn Error + Send + Sync>;

/// A time, and up to half of it more or less: agents of all Nodes do not come at once.
pub(crate) fn about(time: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() % 1000;
    time / 2 + time * u32::try_from(random).unwrap_or_default() / 1000
}

/// Waits that double.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, next: first }
    }

    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }

    pub(crate) fn next(&mut self) -> Duration {
        let time = self.next;
        self.next = (time * 2).min(self.max);
        about(time)
    }
}

#[derive(Debug)]
struct Times {
    /// No request before, as the server asked for.
    not_before: Option<Instant>,
    /// When the last watch began.
    watch: Option<Instant>,
    /// Waits between watches that end at once.
    backoff: Backoff,
}

/// When requests may go.
#[derive(Debug)]
pub(super) struct Pace(Mutex<Times>);

impl Default for Pace {
    fn default() -> Self {
        let backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(10));
        Self(Mutex::new(Times { not_before: None, watch: None, backoff }))
    }
}

impl Pace {
    /// How long the server wants no request.
    pub(super) fn left(&self) -> Duration {
        let times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.not_before.map_or(Duration::ZERO, |time| time.saturating_duration_since(Instant::now()))
    }

    fn note<T>(&self, response: &Response<T>) {
        let is_busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&response.status());
        let seconds = || response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok();
        if let Some(seconds) = Some(()).filter(|()| is_busy).and_then(|()| seconds()) {
            let time = Duration::from_secs(seconds).min(RETRY_MAX);
            self.0.lock().unwrap_or_else(PoisonError::into_inner).not_before = Some(Instant::now() + time);
        }
    }

    /// How long to wait before a watch.
    fn before_watch(&self) -> Duration {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = match times.watch.map(|began| began.elapsed() < SHORT) {
            Some(true) => times.backoff.next(),
            _ => {
                times.backoff.reset();
                Duration::ZERO
            }
        };
        times.watch = Some(Instant::now() + pause);
        pause
    }
}

/// A client for one kind.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) client: Client,
    /// Who is told that its watches begin and end; None: nobody.
    pub(super) watched: Option<(&'static Kind, Arc<Shared>)>,
    pub(super) pace: Arc<Pace>,
}

impl Wire {
    /// As a client of `kube`.
    pub(super) fn into_client(self) -> Client {
        let namespace = self.client.default_namespace().to_owned();
        Client::new(self, namespace)
    }

    async fn send(self, request: Request<Body>) -> Result<Response<Counted>, AnyError> {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.split('&').any(|word| word == "watch=true" || word == "watch=1");
        if is_watch {
            tokio::time::sleep(self.pace.before_watch()).await;
        }
        let answer = tokio::time::timeout(ANSWER_MAX, self.client.send(request)).await;
        let response = answer.map_err(|_| format!("no answer in {} s", ANSWER_MAX.as_secs()))??;
        self.pace.note(&response);
        let watched = self.watched.filter(|_| is_watch && response.status().is_success());
        if let Some((kind, shared)) = &watched {
            shared.goes(kind);
        }
        Ok(response.map(|body| Counted { body, len: 0, is_watch, watched }))
    }
}

impl tower_service::Service<Request<Body>> for Wire {
    type Response = Response<Counted>;
    type Error = AnyError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Counted>, AnyError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), AnyError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

/// A body that is as long as it may be.
pub(super) struct Counted {
    body: Body,
    /// Bytes; of a watch those since the last end of a line.
    len: usize,
    is_watch: bool,
    watched: Option<(&'static Kind, Arc<Shared>)>,
}

impl Counted {
    fn count(&mut self, data: &Bytes) -> Result<(), AnyError> {
        let max = if self.is_watch { EVENT_LEN_MAX } else { PAGE_LEN_MAX };
        let line = data.iter().rev().position(|byte| *byte == b'\n').filter(|_| self.is_watch);
        self.len = line.unwrap_or(self.len.saturating_add(data.len()));
        if self.len > max {
            return Err(format!("the answer is longer than {max} bytes").into());
        }
        Ok(())
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = AnyError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnyError>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)) else { return Poll::Ready(None) };
        let frame = frame.map_err(AnyError::from).and_then(|frame| {
            frame.data_ref().map_or(Ok(()), |data| self.count(data))?;
            Ok(frame)
        });
        Poll::Ready(Some(frame))
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some((kind, shared)) = self.watched.take() {
            shared.fails(kind, Failure { reason: "its watch ended".to_owned(), is_refused: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_pages_have_an_end() {
        let mut watch = Counted { body: Body::empty(), len: 0, is_watch: true, watched: None };
        let mut page = Counted { body: Body::empty(), len: 0, is_watch: false, watched: None };
        let data = Bytes::from(vec![b'x'; EVENT_LEN_MAX / 2]);
        assert!(watch.count(&data).is_ok() && watch.count(&Bytes::from_static(b"xx\ny")).is_ok());
        assert!(watch.count(&data).is_ok(), "that is another event");
        assert!(watch.count(&data).is_err());
        assert!((0..32).all(|_| page.count(&data).is_ok()));
        assert!(page.count(&Bytes::from_static(b"\nx")).is_err(), "lines do not end a page");
    }

    #[test]
    fn the_server_says_when_to_come_again_and_watches_that_end_at_once_wait() {
        let pace = Pace::default();
        let answer = |status: u16, after: &str| {
            Response::builder().status(status).header(RETRY_AFTER, after).body(()).expect("an answer")
        };
        for (status, after) in [(429, "soon"), (200, "100")] {
            pace.note(&answer(status, after));
            assert_eq!(pace.left(), Duration::ZERO, "{status} {after}");
        }
        pace.note(&answer(429, "100"));
        assert!(pace.left() > Duration::from_secs(90));
        pace.note(&answer(503, "99999999"));
        assert!(pace.left() <= RETRY_MAX);
        assert_eq!(pace.before_watch(), Duration::ZERO);
        assert!((0..20).all(|_| pace.before_watch() > Duration::ZERO));
        assert!(pace.before_watch() >= Duration::from_secs(5), "and longer each time");
    }
}
