//! What stands before each call.

use super::Shares;
use super::client::CLIENT;
use super::connections::{Call, Peer};
use super::message::{Held, Messages};
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tower_layer::Layer;
use tower_service::Service;

/// Calls of health begin with this path. They are small, and never wait.
const HEALTH: &str = "/grpc.health.v1.Health/";

/// Gives each call its share.
#[derive(Clone, Debug)]
pub(crate) struct ShareLayer(pub(crate) Arc<Shares>);

impl<S> Layer<S> for ShareLayer {
    type Service = Shared<S>;

    fn layer(&self, inner: S) -> Shared<S> {
        Shared { inner, shares: Arc::clone(&self.0) }
    }
}

/// The services, behind shares.
#[derive(Clone, Debug)]
pub(crate) struct Shared<S> {
    inner: S,
    shares: Arc<Shares>,
}

impl<S> Service<Request<Body>> for Shared<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The one that is ready is used, its clone is for the next call.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let shares = Arc::clone(&self.shares);
        let Some(peer) = request.extensions().get::<Peer>().cloned() else {
            return Box::pin(async { Ok(Status::internal("a call without a connection; report it").into_http()) });
        };
        if request.uri().path().starts_with(HEALTH) {
            return Box::pin(inner.call(request));
        }
        let client = peer.client;
        Box::pin(CLIENT.scope(client, async move {
            let call = match peer.activity.begin(client, &shares).await {
                Ok(call) => call,
                Err(status) => return Ok(status.into_http()),
            };
            let held = Arc::new(Held::default());
            let request = request.map(|body| Body::new(Messages::new(body, client, &shares, Arc::clone(&held))));
            let response = inner.call(request).await?;
            Ok(response.map(|body| Body::new(Answer { body, _call: call, _held: held })))
        }))
    }
}

/// What is sent to a client. The call has its share until the end of it.
struct Answer {
    body: Body,
    _call: Call,
    _held: Arc<Held>,
}

impl http_body::Body for Answer {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<bytes::Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
