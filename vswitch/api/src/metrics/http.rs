//! HTTP: who may ask what, and for how long.

use super::encode::Format;
use super::listener::{ListenerKind, MetricsListener};
use super::page::{Page, Probe, REQUEST_TIMEOUT};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, watch};

/// Connections at a time; more wait until one ends.
const CONNECTIONS_MAX: usize = 4;

/// Time for a whole connection: for its request, the reading, and a slow reader of the answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(6);

/// Bytes of the head of a request.
const HEAD_LEN_MAX: usize = 16 << 10;

/// Pause before the next try when the kernel cannot accept.
const RETRY_DELAY: Duration = Duration::from_millis(100);

const TEXT: &str = "text/plain; charset=utf-8";

/// Answers until the server stops. What fails here fails one connection.
pub(crate) async fn serve(listener: MetricsListener, page: Page, mut stopping: watch::Receiver<bool>) {
    let page = Arc::new(page);
    let serving = async {
        match listener.kind {
            ListenerKind::Unix(listener) => {
                // Kept to the end: dropping it removes the socket.
                let (listener, _guard) = listener.into_parts();
                let listener = UnixListener::from_std(listener)?;
                accept(|| async { listener.accept().await.map(|(stream, _)| stream) }, &page).await;
            }
            ListenerKind::Tcp(listener) => {
                let listener = TcpListener::from_std(listener)?;
                accept(|| async { listener.accept().await.map(|(stream, _)| stream) }, &page).await;
            }
        }
        io::Result::Ok(())
    };
    tokio::select! {
        result = serving => if let Err(error) = result {
            tracing::error!(%error, "metrics cannot be served");
        },
        // An error means that the server is gone.
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
}

/// Takes connections, so many at a time. Never ends.
async fn accept<S, Fut>(accept_one: impl Fn() -> Fut, page: &Arc<Page>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    Fut: Future<Output = io::Result<S>>,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut failing = false;
    // The semaphore is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match accept_one().await {
            Ok(stream) => {
                failing = false;
                let page = Arc::clone(page);
                tokio::spawn(async move {
                    connection(stream, page).await;
                    drop(place);
                });
            }
            Err(error) => {
                if !failing {
                    tracing::warn!(%error, "cannot accept connections for metrics; trying again");
                }
                failing = true;
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// One request and its answer. A client that is slow or speaks something else is cut off.
async fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, page: Arc<Page>) {
    let service = service_fn(move |request| {
        let page = Arc::clone(&page);
        async move { Ok::<_, Infallible>(answer(&request, &page).await) }
    });
    let serving = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(HEAD_LEN_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = tokio::time::timeout(CONNECTION_TIMEOUT, serving).await {
        tracing::debug!(%error, "a connection for metrics failed");
    }
}

async fn answer(request: &Request<Incoming>, page: &Page) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD are answered\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    if !request.body().is_end_stream() {
        return plain(StatusCode::PAYLOAD_TOO_LARGE, "a request has no body here\n");
    }
    match request.uri().path() {
        "/metrics" => metrics(request, page).await,
        "/livez" => probe(page.is_alive().await),
        "/readyz" => probe(page.is_ready().await),
        "/" => plain(StatusCode::OK, "vswitch: /metrics /livez /readyz\n"),
        _ => plain(StatusCode::NOT_FOUND, "there are /metrics, /livez and /readyz\n"),
    }
}

async fn metrics(request: &Request<Incoming>, page: &Page) -> Response<Full<Bytes>> {
    let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = accept.map_or(Format::Text, Format::accepted);
    match page.metrics(format).await {
        Ok(text) => response(StatusCode::OK, format.content_type(), text),
        Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, why),
    }
}

fn probe(probe: Probe) -> Response<Full<Bytes>> {
    let (status, text) = match probe {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    };
    response(status, TEXT, text.into())
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    response(status, TEXT, Bytes::from_static(text.as_bytes()))
}

fn response(status: StatusCode, content_type: &'static str, text: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
