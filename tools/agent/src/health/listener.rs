//! One health check NodePort of one family: a socket, and HTTP/1.1 on it.
//!
//! **Threads**: a task per listener accepts and has a task per connection; all end with the
//! [`Listener`]. They read the answer of the moment.
//!
//! **Limits**: all who reach the Node may connect. So a listener has at most
//! [`CONNECTIONS_MAX`] connections, and ends its oldest one for a new one. All listeners have at
//! most [`ALL_MAX`]; beyond, a new connection is closed. A request has [`HEADER_LEN_MAX`] bytes and
//! [`HEADERS_MAX`] headers at most, and a connection [`TIME`].

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

/// Connections of one listener.
const CONNECTIONS_MAX: usize = 16;
/// Connections of all listeners.
const ALL_MAX: usize = 256;
/// Bytes of a request line with its headers; hyper's least is 8 KiB.
const HEADER_LEN_MAX: usize = 8192;
/// Headers of a request.
const HEADERS_MAX: usize = 64;
/// How long a connection may last.
const TIME: Duration = Duration::from_secs(5);
/// How long a listener waits that cannot accept: the process has no descriptors, for example.
const PAUSE: Duration = Duration::from_millis(100);
/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// kube-proxy's header with the count of local endpoints.
const WEIGHT: HeaderName = HeaderName::from_static("x-load-balancing-endpoint-weight");

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// Its unspecified address: all of the Node's.
    pub(super) const fn any(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Self::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }
}

/// What a listener says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) local_endpoints: usize,
    /// The switch forwards.
    pub(super) healthy: bool,
}

impl Answer {
    /// As kube-proxy writes it.
    fn response(&self) -> Response<Full<Bytes>> {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let body = format!(
            "{{\n\t\"service\": {{\n\t\t\"namespace\": {},\n\t\t\"name\": {}\n\t}},\n\t\"localEndpoints\": {},\n\t\
             \"serviceProxyHealthy\": {}\n}}",
            quoted(&self.namespace),
            quoted(&self.name),
            self.local_endpoints,
            self.healthy
        );
        let is_ready = self.local_endpoints > 0 && self.healthy;
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(WEIGHT, HeaderValue::from(self.local_endpoints));
        response
    }
}

/// Connections that all listeners may have still.
#[derive(Clone, Debug)]
pub(crate) struct Permits(Arc<Semaphore>);

impl Permits {
    /// For one socket.
    pub(crate) fn few() -> Self {
        Self(Arc::new(Semaphore::new(CONNECTIONS_MAX)))
    }

    /// One of them, if there is one.
    pub(crate) fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_owned().ok()
    }
}

impl Default for Permits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ALL_MAX)))
    }
}

/// A port that is served. It ends with this value, and so do its connections.
#[derive(Debug)]
pub(super) struct Listener {
    answer: watch::Sender<Answer>,
    task: JoinHandle<()>,
}

impl Listener {
    /// Serves a port on all addresses of a family.
    ///
    /// # Errors
    /// The port cannot be bound.
    pub(super) fn open(port: u16, family: Family, answer: Answer, permits: &Permits) -> io::Result<Self> {
        let listener = bind(port, family)?;
        let (answer, answers) = watch::channel(answer);
        let task = tokio::spawn(accept(listener, answers, permits.clone()));
        Ok(Self { answer, task })
    }

    /// What is said from now on.
    pub(super) fn answer(&self, answer: Answer) {
        self.answer.send_if_modified(|old| {
            let is_other = *old != answer;
            *old = answer;
            is_other
        });
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn bind(port: u16, family: Family) -> io::Result<TcpListener> {
    let domain = if family == Family::V6 { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::STREAM.nonblocking().cloexec(), None)?;
    if family == Family::V6 {
        // IPv4 has a socket of its own.
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::new(family.any(), port).into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

async fn accept(listener: TcpListener, answers: watch::Receiver<Answer>, permits: Permits) {
    let (mut connections, mut oldest) = (JoinSet::new(), VecDeque::<AbortHandle>::new());
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        oldest.retain(|connection| !connection.is_finished());
        if oldest.len() >= CONNECTIONS_MAX
            && let Some(connection) = oldest.pop_front()
        {
            connection.abort();
        }
        let Some(permit) = permits.take() else { continue };
        oldest.push_back(connections.spawn(serve(stream, answers.clone(), permit)));
    }
}

async fn serve(stream: TcpStream, answers: watch::Receiver<Answer>, _permit: OwnedSemaphorePermit) {
    respond(stream, move |_| answers.borrow().response()).await;
}

/// Answers one request at most.
pub(crate) async fn respond(stream: TcpStream, answer: impl Fn(&Request<Incoming>) -> Response<Full<Bytes>>) {
    let respond = |request: Request<Incoming>| {
        let response = answer(&request);
        async move { Ok::<_, Infallible>(response) }
    };
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(TIME).keep_alive(false);
    http.max_buf_size(HEADER_LEN_MAX).max_headers(HEADERS_MAX);
    // What a client does wrong is its own matter.
    let _ = tokio::time::timeout(TIME, http.serve_connection(TokioIo::new(stream), service_fn(respond))).await;
}
