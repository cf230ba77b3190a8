//! What stands before each call: its id, its rights, and its record.

use super::audit::{Audit, Record};
use super::identity::Identity;
use super::request::{Ids, REQUEST, Request as Call};
use super::rpcs::needed;
use crate::shares::Peer;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::{Frame, SizeHint};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status};
use tower_layer::Layer;
use tower_service::Service;
use vswitch_control::config::Role;

/// Where an answer has the id of its call.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Lets calls pass whose client has the role that they need.
#[derive(Clone, Debug)]
pub(crate) struct GuardLayer(Arc<Guard>);

#[derive(Debug)]
struct Guard {
    ids: Ids,
    audit: Arc<Audit>,
}

impl GuardLayer {
    pub(crate) fn new(audit: Arc<Audit>) -> Self {
        Self(Arc::new(Guard { ids: Ids::new(), audit }))
    }
}

impl<S> Layer<S> for GuardLayer {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { inner, guard: Arc::clone(&self.0) }
    }
}

/// The services, behind their guard.
#[derive(Clone, Debug)]
pub(crate) struct Guarded<S> {
    inner: S,
    guard: Arc<Guard>,
}

impl<S> Service<Request<Body>> for Guarded<S>
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
        let (rpc, role) = needed(request.uri().path());
        let call = Arc::new(Call::new(self.guard.ids.next()));
        let Some(peer) = request.extensions().get::<Peer>().cloned() else {
            let status = Status::internal("a call without a connection; report it");
            return Box::pin(async move { Ok(with_id(status.into_http(), &call.id)) });
        };
        let kept = |call: &Arc<Call>| Kept {
            audit: Arc::clone(&self.guard.audit),
            identity: Arc::clone(&peer.identity),
            call: Arc::clone(call),
            rpc,
            begin: Instant::now(),
            outcome: None,
        };
        if let Err(status) = judge(&peer, rpc, role, &call.id) {
            drop(kept(&call).ended(status.code()));
            return Box::pin(async move { Ok(with_id(status.into_http(), &call.id)) });
        }
        let kept = (role > Role::Read).then(|| kept(&call));
        let answer = self.inner.call(request);
        Box::pin(REQUEST.scope(Arc::clone(&call), async move {
            let response = with_id(answer.await?, &call.id);
            let Some(kept) = kept else { return Ok(response) };
            let kept = match response.headers().get(STATUS) {
                // There is no body.
                Some(code) => kept.ended(code_of(code)),
                None => kept,
            };
            Ok(response.map(|body| Body::new(Recorded { body, kept })))
        }))
    }
}

/// Where gRPC has its status.
const STATUS: &str = "grpc-status";

fn code_of(value: &HeaderValue) -> Code {
    Code::from_bytes(value.as_bytes())
}

fn with_id(mut response: Response<Body>, id: &str) -> Response<Body> {
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Whether a client may make a call, now. A refusal is logged, as often as the log allows.
fn judge(peer: &Peer, rpc: &'static str, role: Role, id: &str) -> Result<(), Status> {
    let identity = &peer.identity;
    let status = match identity.may(rpc, role) {
        Ok(()) if peer.rate.as_ref().is_none_or(|rate| rate.take(Instant::now())) => return Ok(()),
        Ok(()) => {
            let rate = super::CALLS_PER_SECOND;
            Status::resource_exhausted(format!("{} makes more than {rate} calls per second; wait", identity.principal))
        }
        Err(why) => {
            identity.listener.deny();
            Status::permission_denied(why)
        }
    };
    let (listener, error, left_out) = (&identity.listener.name, status.message(), tracing::field::Empty);
    let (uid, pid, principal) = (identity.uid(), identity.pid(), identity.remote());
    tracing::warn!(rpc, principal, uid, pid, listener, request = id, %error, left_out, "refused");
    Err(status)
}

/// What is recorded of a call when this is dropped.
struct Kept {
    audit: Arc<Audit>,
    identity: Arc<Identity>,
    call: Arc<Call>,
    rpc: &'static str,
    begin: Instant,
    /// None: its client went away first.
    outcome: Option<Code>,
}

impl Kept {
    fn ended(mut self, code: Code) -> Self {
        self.outcome = Some(code);
        self
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.audit.keep(&Record {
            request: &self.call.id,
            identity: &self.identity,
            rpc: self.rpc,
            names: &self.call.names(),
            outcome: name_of(self.outcome.unwrap_or(Code::Cancelled)),
            duration: self.begin.elapsed(),
        });
    }
}

/// An answer, whose end is recorded.
struct Recorded {
    body: Body,
    kept: Kept,
}

impl http_body::Body for Recorded {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<bytes::Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(code) = frame.trailers_ref().and_then(|trailers| trailers.get(STATUS)) {
                    self.kept.outcome = Some(code_of(code));
                }
            }
            Poll::Ready(Some(Err(status))) => self.kept.outcome = Some(status.code()),
            Poll::Ready(None) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// gRPC's name of a status.
const fn name_of(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::Connections;

    #[test]
    fn a_name_in_certificates_calls_at_its_rate_and_takes_nothing_from_others() {
        let connections = Arc::new(Connections::new(4));
        let admit = |identity| connections.admit(identity);
        let (busy, again) = (admit(Identity::of_name("busy")), admit(Identity::of_name("busy")));
        let (calm, local) = (admit(Identity::of_name("calm")), admit(Identity::of_uid(Some(1), None)));
        let call = |peer: &Peer| judge(peer, "Check", Role::Read, "id");
        let refused = std::iter::repeat_with(|| call(&busy.peer())).find_map(Result::err).expect("some day");
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(refused.message().starts_with("san=busy makes more than 500 calls per second"), "{refused:?}");
        let both = std::iter::repeat_with(|| call(&again.peer())).find_map(Result::err).expect("they share it");
        assert_eq!(both.code(), Code::ResourceExhausted);
        assert!(call(&calm.peer()).is_ok());
        assert!((0..5_000).all(|_| call(&local.peer()).is_ok()), "users of the machine have no rate");
    }
}
