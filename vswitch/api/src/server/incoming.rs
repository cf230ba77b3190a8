//! New connections: how many, how long they may take to say something, and what of their HTTP/2 is
//! mended or told of.

use super::http2::{Answers, Complaints, PREFACE, Requests};
use crate::shares::{Admitted, Connections, Peer};
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

/// Accepts connections for as long as someone takes them. Too many: one is closed for each that
/// comes.
pub(super) async fn accept<F, Fut>(
    mut accept_one: F,
    admitting: Arc<Connections>,
    preface_timeout: Duration,
    aborted: watch::Receiver<bool>,
    connections: mpsc::Sender<io::Result<Connection>>,
) where
    F: FnMut() -> Fut,
    Fut: Future<Output = io::Result<UnixStream>>,
{
    let complaints = Arc::new(Complaints::default());
    // One message per trouble, not one per try.
    let (mut closed, mut failing) = (None, false);
    let accepting = async {
        loop {
            match accept_one().await {
                Ok(stream) => {
                    failing = false;
                    let credentials = stream.peer_cred().ok();
                    let pid = credentials.and_then(|credentials| credentials.pid());
                    let admitted = admitting.admit(credentials.map(|credentials| credentials.uid()), pid);
                    if admitted.closed.is_some() && admitted.closed != closed {
                        let uid = admitted.closed;
                        tracing::warn!(uid, "too many control connections: some of this user are closed");
                    }
                    closed = admitted.closed;
                    let connection =
                        Connection::new(stream, admitted, preface_timeout, &aborted, Arc::clone(&complaints));
                    if connections.send(Ok(connection)).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    if !failing {
                        tracing::warn!(%error, "cannot accept control connections; trying again");
                    }
                    failing = true;
                    tokio::time::sleep(retry_delay(&error)).await;
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = connections.closed() => {}
    }
}

/// A connection that counts against the limit while it exists.
pub(super) struct Connection {
    stream: UnixStream,
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
        stream: UnixStream,
        admitted: Admitted,
        preface_timeout: Duration,
        aborted: &watch::Receiver<bool>,
        complaints: Arc<Complaints>,
    ) -> Self {
        let (mut aborted, mut gone) = (aborted.clone(), admitted.gone());
        let ends = async move {
            // An error means that the server is gone.
            tokio::select! {
                _ = aborted.wait_for(|aborted| *aborted) => "the server stops",
                _ = gone.wait_for(|gone| *gone) => "its user has too many connections",
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
            complaints,
            preface_judged: false,
        }
    }

    /// Tells that HTTP/2 refused something, unless that was told of another client a moment ago.
    fn complain(&self, what: &dyn std::fmt::Display, stream: u32) {
        let Some(suppressed) = self.complaints.may(Instant::now()) else { return };
        let pid = self.stream.peer_cred().ok().and_then(|credentials| credentials.pid());
        let cause = self.requests.cause(stream).map_or("unknown".to_owned(), |cause| cause.to_string());
        tracing::warn!(pid, %cause, suppressed, "control client: {what}");
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
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const LONG: Duration = Duration::from_secs(60);

    async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(5), future).await.unwrap_or_else(|_| panic!("{what}: not within 5 s"))
    }

    fn connection(timeout: Duration, aborted: &watch::Receiver<bool>) -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let admitted = Arc::new(Connections::new(1)).admit(None, None);
        (Connection::new(ours, admitted, timeout, aborted, Arc::default()), theirs)
    }

    #[tokio::test]
    async fn no_error_of_accept_ends_the_loop() {
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let errors = [libc::ECONNABORTED, libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EPROTO, libc::EINVAL];
        let mut script: VecDeque<_> = errors.map(|code| Err(io::Error::from_raw_os_error(code))).into();
        script.push_back(Ok(ours));
        let script = Arc::new(Mutex::new(script));
        let (sender, mut receiver) = mpsc::channel(1);
        let (_abort, aborted) = watch::channel(false);
        let accept_one = move || {
            let next = script.lock().expect("a lock").pop_front();
            async move { if let Some(next) = next { next } else { std::future::pending().await } }
        };
        let task = tokio::spawn(accept(accept_one, Arc::new(Connections::new(2)), LONG, aborted, sender));
        soon("a connection after six errors", receiver.recv()).await.expect("a connection").expect("no error");
        drop(receiver);
        soon("the loop ends with its receiver", task).await.expect("no panic");
    }

    #[test]
    fn only_a_shortage_makes_it_wait() {
        let delay = |code| retry_delay(&io::Error::from_raw_os_error(code));
        assert_eq!(delay(libc::ECONNABORTED), Duration::ZERO);
        assert_eq!(delay(libc::EMFILE), RETRY_DELAY, "a loop without a pause would eat a core");
        assert_eq!(delay(libc::ENFILE), RETRY_DELAY);
        assert_eq!(retry_delay(&io::Error::other("unknown")), RETRY_DELAY);
    }

    #[tokio::test]
    async fn over_the_limit_the_oldest_idle_connection_is_closed_for_the_new_one() {
        let peers = Arc::new(Mutex::new(Vec::new()));
        let (sender, mut receiver) = mpsc::channel(1);
        let (_abort, aborted) = watch::channel(false);
        let kept = Arc::clone(&peers);
        let accept_one = move || {
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            kept.lock().expect("a lock").push(theirs);
            async move { Ok(ours) }
        };
        tokio::spawn(accept(accept_one, Arc::new(Connections::new(4)), LONG, aborted, sender));
        let mut all = Vec::new();
        for _ in 0..6 {
            all.push(soon("a connection", receiver.recv()).await.expect("a connection").expect("no error"));
        }
        // (Two or three more are accepted already, and wait to be taken.)
        let (old, new) = all.split_at_mut(1);
        let error = soon("its end", old[0].read(&mut [0; 1])).await.expect_err("closed");
        assert_eq!(error.to_string(), "its user has too many connections");
        let reading = tokio::time::timeout(Duration::from_millis(100), new[4].read(&mut [0; 1])).await;
        assert!(reading.is_err(), "the newest one lives: {reading:?}");
    }

    #[tokio::test]
    async fn a_client_that_says_too_little_is_cut_off() {
        let (_abort, aborted) = watch::channel(false);
        let (mut connection, mut client) = connection(Duration::from_millis(200), &aborted);
        client.write_all(&[b'x'; PREFACE_LEN - 1]).await.expect("room");
        let mut bytes = Vec::new();
        let error = soon("an error", connection.read_to_end(&mut bytes)).await.expect_err("a timeout");
        assert_eq!((error.kind(), bytes.len()), (io::ErrorKind::TimedOut, PREFACE_LEN - 1));
        let (mut connection, mut client) = self::connection(Duration::from_millis(50), &aborted);
        client.write_all(&[b'x'; PREFACE_LEN]).await.expect("room");
        let mut bytes = [0; PREFACE_LEN + 1];
        soon("the preface", connection.read_exact(&mut bytes[..PREFACE_LEN])).await.expect("no error");
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.write_all(b"y").await.expect("room");
        soon("a byte after the deadline", connection.read_exact(&mut bytes[PREFACE_LEN..])).await.expect("no error");
    }

    #[tokio::test]
    async fn aborting_wakes_readers_and_writers() {
        let (abort, aborted) = watch::channel(false);
        let (mut reader, _client) = connection(LONG, &aborted);
        let (mut writer, _client_that_reads_nothing) = connection(LONG, &aborted);
        let reading = tokio::spawn(async move { reader.read(&mut [0; 1]).await });
        let writing = tokio::spawn(async move { writer.write_all(&vec![0; 64 << 20]).await });
        tokio::time::sleep(Duration::from_millis(50)).await; // both wait now
        abort.send(true).expect("receivers");
        let error = soon("the reader", reading).await.expect("no panic").expect_err("aborted");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
        let error = soon("the writer", writing).await.expect("no panic").expect_err("aborted");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }
}
