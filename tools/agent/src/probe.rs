//! `/livez` and `/readyz`: what a kubelet asks the agent. `/metrics`: what Prometheus asks.
//!
//! The agent is live while its loop turns. It is ready once the switch has everything, and while
//! each kind of the cluster can be followed, but for two minutes.
//!
//! **Threads**: a task accepts, and has a task for each connection; all end with the [`Probe`].

use crate::health::{Permits, respond};
use crate::sources::Following;
use crate::status::Status;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// How long a turn of the loop may take: the largest sync takes some seconds, and the switch may
/// let the agent wait.
const TURN_MAX: Duration = Duration::from_secs(120);

/// How long to wait if no connection can be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// The type of what `/metrics` answers: Prometheus takes nothing without one.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How the agent is.
#[derive(Debug)]
pub struct Condition {
    status: Arc<Status>,
    turned: Mutex<Instant>,
    is_synced: AtomicBool,
    following: Following,
}

impl Condition {
    /// Of an agent that begins.
    pub fn new(following: Following) -> Self {
        let turned = Mutex::new(Instant::now());
        Self { status: Arc::default(), turned, is_synced: AtomicBool::new(false), following }
    }

    /// What is counted.
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// The loop turns. `is_synced`: the switch has everything.
    pub fn turn(&self, is_synced: bool) {
        *self.turned.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.is_synced.fetch_or(is_synced, Ordering::Relaxed);
    }

    /// What is wrong that makes it not live.
    fn stuck(&self, now: Instant) -> Option<String> {
        let turned = *self.turned.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_duration_since(turned);
        (since > TURN_MAX).then(|| format!("the loop has not turned for {} s\n", since.as_secs()))
    }

    /// What is wrong that makes it not ready.
    fn unready(&self) -> Option<String> {
        if !self.is_synced.load(Ordering::Relaxed) {
            return Some("the switch was not told everything yet\n".to_owned());
        }
        let lost = self.following.lost();
        (!lost.is_empty()).then(|| format!("lost: {}\n", lost.join(", ")))
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let wrong = match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/livez") => self.stuck(Instant::now()),
            (&Method::GET | &Method::HEAD, "/readyz") => self.stuck(Instant::now()).or_else(|| self.unready()),
            (&Method::GET | &Method::HEAD, "/metrics") => {
                let mut response = Response::new(Full::new(Bytes::from(self.status.metrics())));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(METRICS_TYPE));
                return response;
            }
            _ => {
                let here = Bytes::from_static(b"/livez, /readyz and /metrics are here\n");
                let mut response = Response::new(Full::new(here));
                *response.status_mut() = StatusCode::NOT_FOUND;
                return response;
            }
        };
        let status = if wrong.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let mut response = Response::new(Full::new(wrong.map_or(Bytes::from_static(b"ok\n"), Bytes::from)));
        *response.status_mut() = status;
        response
    }
}

/// A socket at which it is asked.
#[derive(Debug)]
pub struct Probe {
    task: JoinHandle<()>,
}

impl Probe {
    /// Answers at an address.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn open(address: SocketAddr, condition: Arc<Condition>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        tracing::info!("/livez, /readyz and /metrics are at {}", listener.local_addr()?);
        Ok(Self { task: tokio::spawn(accept(listener, condition)) })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, condition: Arc<Condition>) {
    let permits = Permits::few();
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let Some(permit) = permits.take() else { continue };
        let condition = Arc::clone(&condition);
        connections.spawn(async move {
            respond(stream, move |request| condition.answer(request)).await;
            drop(permit);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn it_answers_what_the_agent_is() {
        let condition = Arc::new(Condition::new(Following::default()));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it has one");
        let _probe = Probe { task: tokio::spawn(accept(listener, Arc::clone(&condition))) };
        let ask = async |path: &str| {
            let mut stream = tokio::net::TcpStream::connect(address).await.expect("connected");
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("answered");
            answer.split(' ').nth(1).unwrap_or_default().to_owned()
        };
        assert_eq!([ask("/livez").await, ask("/readyz").await, ask("/x").await], ["200", "503", "404"]);
        condition.turn(true);
        condition.turn(false);
        assert_eq!([ask("/livez").await, ask("/readyz").await], ["200", "200"], "once is enough");
        assert_eq!(ask("/metrics").await, "200");
        assert!(condition.stuck(Instant::now() + TURN_MAX * 2).is_some());
    }
}
