//! New connections: how many, how long they may take to say something, and what of their HTTP/2 is
//! mended or told of.

use super::http2::{Answers, Complaints, PREFACE, Requests};
use super::stream::Stream;
use crate::rights::Identity;
use crate::shares::{Admitted, Connections, Peer, User};
use parking_lot::Mutex;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::time::Sleep;
use tonic::transport::server::Connected;

/// Bytes that a client of HTTP/2 sends first. Once they are there, pings find out whether it lives.
const PREFACE_LEN: usize = PREFACE.len();

/// Pause before the next try when the kernel cannot accept: out of descriptors or memory, which
/// takes time to pass.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// How long to wait after `accept` failed. Nothing may end the loop: a server that stops accepting
/// because a client went away too early or descriptors ran out for a moment is down for good
/// (CVE-2024-47609 was that, in tonic).
fn retry_delay(error: &io::Error) -> Duration {
    match error.raw_os_error() {
        // The connection is gone already, the next one may be fine (accept(2)).
        Some(libc::ECONNABORTED | libc::EINTR | libc::EPROTO | libc::EPERM) => Duration::ZERO,
        _ => RETRY_DELAY,
    }
}

/// The next connection. Errors of the kernel only delay it. `failing` is kept from call to call:
/// one message per trouble, not one per try.
pub(super) async fn accepted<T, F, Fut>(accept_one: &mut F, failing: &mut bool) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = io::Result<T>>,
{
    loop {
        match accept_one().await {
            Ok(accepted) => {
                *failing = false;
                return accepted;
            }
            Err(error) => {
                if !*failing {
                    tracing::warn!(%error, "cannot accept control connections; trying again");
                }
                *failing = true;
                tokio::time::sleep(retry_delay(&error)).await;
            }
        }
    }
}

/// What lets connections of all listeners in.
pub(super) struct Gate {
    admitting: Arc<Connections>,
    preface_timeout: Duration,
    aborted: watch::Receiver<bool>,
    connections: mpsc::Sender<io::Result<Connection>>,
    complaints: Arc<Complaints>,
    /// The user who lost a connection for the last one: one message per storm.
    closed: Mutex<Option<User>>,
}

impl Gate {
    pub(super) fn new(
        admitting: Arc<Connections>,
        preface_timeout: Duration,
        aborted: watch::Receiver<bool>,
        connections: mpsc::Sender<io::Result<Connection>>,
    ) -> Self {
        Self { admitting, preface_timeout, aborted, connections, complaints: Arc::default(), closed: Mutex::new(None) }
    }

    /// Takes a connection in. Too many: one is closed for it. False: the server takes no more.
    pub(super) async fn admit(&self, stream: Stream, identity: Identity) -> bool {
        let admitted = self.admitting.admit(identity);
        let before = std::mem::replace(&mut *self.closed.lock(), admitted.closed);
        if let Some(user) = admitted.closed.filter(|user| before != Some(*user)) {
            tracing::warn!(%user, "too many control connections: some of this user are closed");
        }
        let connection = Connection::new(stream, admitted, self.preface_timeout, &self.aborted, &self.complaints);
        self.connections.send(Ok(connection)).await.is_ok()
    }

    /// When the server takes no more.
    async fn closed(&self) {
        self.connections.closed().await;
    }
}

/// Accepts connections for as long as someone takes them. `identify` says who it is.
pub(super) async fn accept<F, Fut>(mut accept_one: F, identify: impl Fn(&UnixStream) -> Identity, gate: &Gate)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = io::Result<UnixStream>>,
{
    let mut failing = false;
    let accepting = async {
        loop {
            let stream = accepted(&mut accept_one, &mut failing).await;
            let identity = identify(&stream);
            if !gate.admit(stream.into(), identity).await {
                return;
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = gate.closed() => {}
    }
}

/// A connection that counts against the limit while it exists.
pub(super) struct Connection {
    stream: Stream,
    admitted: Admitted,
    /// Bytes of the preface still to come, and until when.
    preface_missing: usize,
    preface_deadline: Pin<Box<Sleep>>,
    /// Ready when the server has waited long enough for this connection to end by itself, or when
    /// it makes room for another one; why.
    ends: Option<Pin<Box<dyn Future<Output = &'static str> + Send>>>,
    /// What the client sends, made fit for the library; what the library answers.
    requests: Requests,
    answers: Answers,
    complaints: Arc<Complaints>,
    /// That the client speaks something else was told.
    preface_judged: bool,
}

impl Connection {
    fn new(
        stream: Stream,
        admitted: Admitted,
        preface_timeout: Duration,
        aborted: &watch::Receiver<bool>,
        complaints: &Arc<Complaints>,
    ) -> Self {
        let (mut aborted, mut gone) = (aborted.clone(), admitted.gone());
        let until = admitted.peer().identity.until;
        let ends = async move {
            let expired = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until.into()).await,
                    None => std::future::pending().await,
                }
            };
            // An error means that the server is gone.
            tokio::select! {
                _ = aborted.wait_for(|aborted| *aborted) => "the server stops",
                _ = gone.wait_for(|gone| *gone) => "its user has too many connections",
                () = expired => "the client's certificate has expired",
            }
        };
        Self {
            stream,
            admitted,
            preface_missing: PREFACE_LEN,
            preface_deadline: Box::pin(tokio::time::sleep(preface_timeout)),
            ends: Some(Box::pin(ends)),
            requests: Requests::default(),
            answers: Answers::default(),
            complaints: Arc::clone(complaints),
            preface_judged: false,
        }
    }

    /// Tells that HTTP/2 refused something, unless that was told of another client a moment ago.
    fn complain(&self, what: &dyn std::fmt::Display, stream: u32) {
        let Some(suppressed) = self.complaints.may(Instant::now()) else { return };
        let identity = self.admitted.peer().identity;
        let (pid, principal) = (identity.pid(), identity.remote());
        let cause = self.requests.cause(stream).map_or("unknown".to_owned(), |cause| cause.to_string());
        tracing::warn!(pid, principal, %cause, suppressed, "control client: {what}");
    }

    /// Looks at bytes that were sent to the client.
    fn sent(&mut self, bytes: &[u8]) {
        let mut refusals = Vec::new();
        self.answers.see(bytes, |refusal| refusals.push(refusal));
        for refusal in refusals {
            self.complain(&refusal, refusal.stream);
        }
    }

    /// Reads what the client sent, and puts it into `buffer` or keeps it; true: there is something
    /// for the caller, or the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<bool>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let chunk = buffer.filled().get(before..).unwrap_or_default();
        self.preface_missing = self.preface_missing.saturating_sub(chunk.len());
        if chunk.is_empty() || self.requests.passes(chunk.len()) {
            return Poll::Ready(Ok(true));
        }
        self.requests.take(chunk);
        buffer.set_filled(before);
        Poll::Ready(Ok(false))
    }

    /// An error if the connection is to end now. Asked wherever HTTP/2 may wait: for the client to
    /// send, or to read.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let why = match self.ends.as_mut().map(|ends| ends.as_mut().poll(cx)) {
            None => "it has ended",
            Some(Poll::Ready(why)) => why,
            Some(Poll::Pending) => return self.check_preface(cx),
        };
        self.ends = None; // a future must not be polled again
        Err(io::Error::new(io::ErrorKind::ConnectionAborted, why))
    }

    /// An error if the client does not speak HTTP/2 in time.
    fn check_preface(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.preface_missing > 0 && self.preface_deadline.as_mut().poll(cx).is_ready() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not speak HTTP/2"));
        }
        Ok(())
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        let this = &mut *self;
        loop {
            let given = this.requests.give(buffer.remaining(), |ready| buffer.put_slice(ready));
            if !this.preface_judged && this.requests.is_foreign() {
                this.preface_judged = true;
                this.complain(&"connection refused", 0);
            }
            if given || this.requests.is_over() {
                return Poll::Ready(Ok(()));
            }
            if ready!(this.poll_fill(cx, buffer))? {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let len = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.sent(bytes.get(..len).unwrap_or(bytes));
        Poll::Ready(Ok(len))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let len = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices))?;
        let mut rest = len;
        for slice in slices {
            let part = slice.get(..rest).unwrap_or(slice);
            rest -= part.len();
            self.sent(part);
        }
        Poll::Ready(Ok(len))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.admitted.peer()
    }
}

#[cfg(test)]
mod tests;
