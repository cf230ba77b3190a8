//! What stands before each call, and counts it.

use super::Calls;
use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status};
use tower_layer::Layer;
use tower_service::Service;

/// Counts each call.
#[derive(Clone, Debug)]
pub(crate) struct CountLayer(pub(crate) Arc<Calls>);

impl<S> Layer<S> for CountLayer {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, calls: Arc::clone(&self.0) }
    }
}

/// The services, counted.
#[derive(Clone, Debug)]
pub(crate) struct Counted<S> {
    inner: S,
    calls: Arc<Calls>,
}

impl<S> Service<Request<Body>> for Counted<S>
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
        let mut running = Running::new(&self.calls, request.uri().path());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            // An answer without a message has its status among the headers.
            running.see(response.headers());
            Ok(response.map(|body| Body::new(Answer { body, running })))
        })
    }
}

/// A call in progress. Dropping it ends the call.
struct Running {
    calls: Arc<Calls>,
    place: usize,
    begun: Instant,
    code: Option<Code>,
}

impl Running {
    fn new(calls: &Arc<Calls>, path: &str) -> Self {
        let place = calls.place(path);
        calls.methods[place].in_progress.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self { calls: Arc::clone(calls), place, begun: Instant::now(), code: None }
    }

    /// Takes the code from headers or trailers, if they have one.
    fn see(&mut self, headers: &HeaderMap) {
        if let Some(code) = headers.get("grpc-status") {
            self.code = Some(Code::from_bytes(code.as_bytes()));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.calls.ended(self.place, self.code.unwrap_or(Code::Cancelled), self.begun.elapsed());
    }
}

/// What is sent to a client.
struct Answer {
    body: Body,
    running: Running,
}

impl http_body::Body for Answer {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<bytes::Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.running.see(trailers);
                }
            }
            Some(Err(status)) => self.running.code = Some(status.code()),
            None => self.running.code = self.running.code.or(Some(Code::Unknown)),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use vswitch_proto::v1;

    /// Answers as its path says.
    #[derive(Clone, Debug)]
    struct Inner;

    impl Service<Request<Body>> for Inner {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            let refused = request.uri().path().ends_with("AddPort");
            Box::pin(async move {
                Ok(if refused { Status::not_found("none").into_http() } else { Response::new(Body::empty()) })
            })
        }
    }

    async fn call(calls: &Arc<Calls>, path: &str) -> Response<Body> {
        let request = Request::builder().uri(format!("http://localhost{path}")).body(Body::empty()).expect("a request");
        CountLayer(Arc::clone(calls)).layer(Inner).call(request).await.expect("an answer")
    }

    /// A method, its calls in progress, and ended ones by code.
    type Method = (String, u64, Vec<(String, u64)>);

    fn codes(calls: &Calls) -> Vec<Method> {
        let codes = |codes: Vec<v1::CallCode>| codes.into_iter().map(|code| (code.code, code.calls)).collect();
        let methods = calls.read().methods.into_iter();
        methods.map(|method| (method.method, method.in_progress, codes(method.codes))).collect()
    }

    #[tokio::test]
    async fn calls_are_counted_when_they_end() {
        let calls = Arc::new(Calls::new());
        let code = |code: &str| vec![(code.to_owned(), 1)];
        // Its answer is a status and nothing else.
        let refused = call(&calls, "/vswitch.v1.PortService/AddPort").await;
        assert_eq!(codes(&calls), [("vswitch.v1.PortService/AddPort".to_owned(), 0, code("NOT_FOUND"))]);
        drop(refused);
        drop(call(&calls, "/no.such/Method").await);
        drop(call(&calls, "/vswitch.v1.PortService/ListPorts").await);
        let expected = [
            ("vswitch.v1.PortService/AddPort".to_owned(), 0, code("NOT_FOUND")),
            ("vswitch.v1.PortService/ListPorts".to_owned(), 0, code("CANCELLED")),
            ("other".to_owned(), 0, code("CANCELLED")),
        ];
        assert_eq!(codes(&calls), expected);
        let read = calls.read();
        assert_eq!(read.timed_calls, 2, "a path that is not known is not timed");
        assert_eq!(read.durations.last().map(|last| last.calls), Some(2), "none took 10 s");
    }
}
