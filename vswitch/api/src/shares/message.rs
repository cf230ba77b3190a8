//! Messages of a call while they are received.

use super::Shares;
use super::client::Client;
use super::pool::{Pool, Taken};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;

/// Bytes before each message of gRPC: whether it is compressed, and its length (gRPC over HTTP/2,
/// "Length-Prefixed-Message").
const PREFIX_LEN: usize = 5;

/// Bytes that a call holds for the message that it received last. They are given back when the next
/// one begins, or the call ends.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<Option<Taken>>);

impl Held {
    fn put(&self, taken: Option<Taken>) {
        let before = std::mem::replace(&mut *self.0.lock(), taken);
        drop(before); // beside the lock: it may wake others
    }
}

/// Where in its messages a call is.
#[derive(Debug, Default)]
struct Position {
    prefix: [u8; PREFIX_LEN],
    /// Bytes of the prefix that have come.
    prefix_len: usize,
    /// Bytes of the message that have not come.
    missing: usize,
    /// Messages that have come whole.
    whole: u64,
}

impl Position {
    /// Goes on by what came; the length of a message that begins in it and does not end in it.
    fn advance(&mut self, mut bytes: &[u8]) -> Option<usize> {
        let mut begun = None;
        while !bytes.is_empty() {
            if self.missing == 0 {
                let (now, later) = bytes.split_at(bytes.len().min(PREFIX_LEN - self.prefix_len));
                self.prefix[self.prefix_len..][..now.len()].copy_from_slice(now);
                self.prefix_len += now.len();
                bytes = later;
                if self.prefix_len < PREFIX_LEN {
                    break;
                }
                self.prefix_len = 0;
                let [_, a, b, c, d] = self.prefix;
                self.missing = u32::from_be_bytes([a, b, c, d]) as usize;
                begun = Some(self.missing);
            }
            let now = bytes.len().min(self.missing);
            self.missing -= now;
            bytes = &bytes[now..];
            if self.missing == 0 {
                self.whole += 1;
                begun = None;
            }
        }
        begun
    }

    /// Whether nothing is owed: a message came, and no other one has begun.
    const fn is_between(&self) -> bool {
        self.whole > 0 && self.missing == 0 && self.prefix_len == 0
    }
}

type Take = Pin<Box<dyn Future<Output = Taken> + Send>>;

/// What a client sends in a call. A message that does not fit into one frame waits until the client
/// may have its length. One that does not come in time ends the call.
pub(super) struct Messages {
    body: Body,
    client: Client,
    pool: Arc<Pool>,
    held: Arc<Held>,
    position: Position,
    /// What waits for its length: it is given on then.
    waiting: Option<(Take, Bytes)>,
    deadline: Pin<Box<Sleep>>,
    timeout: Duration,
}

impl Messages {
    pub(super) fn new(body: Body, client: Client, shares: &Shares, held: Arc<Held>) -> Self {
        let (pool, timeout) = (Arc::clone(&shares.messages), shares.message_timeout);
        let deadline = Box::pin(tokio::time::sleep(timeout));
        Self { body, client, pool, held, position: Position::default(), waiting: None, deadline, timeout }
    }

    /// From now on the message has its time.
    fn restart(&mut self) {
        self.deadline.as_mut().reset(Instant::now() + self.timeout);
    }
}

impl http_body::Body for Messages {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if let Some((take, _)) = &mut this.waiting {
            let taken = ready!(take.as_mut().poll(cx));
            let bytes = this.waiting.take().map(|(_, bytes)| bytes).unwrap_or_default();
            this.held.put(Some(taken));
            this.restart();
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let frame = match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(frame) => frame,
            Poll::Pending if this.position.is_between() => return Poll::Pending,
            Poll::Pending => {
                ready!(this.deadline.as_mut().poll(cx));
                let text = format!("no whole message came for {} s", this.timeout.as_secs());
                return Poll::Ready(Some(Err(Status::deadline_exceeded(text))));
            }
        };
        let Some(Ok(frame)) = frame else { return Poll::Ready(frame) };
        let was_between = this.position.is_between();
        let begun = frame.data_ref().and_then(|bytes| this.position.advance(bytes));
        let Some(len) = begun else {
            if was_between {
                this.restart(); // a prefix may have begun
            }
            return Poll::Ready(Some(Ok(frame)));
        };
        // Not beside what it has: it could wait for itself.
        this.held.put(None);
        let (client, pool) = (this.client, Arc::clone(&this.pool));
        let take: Take = Box::pin(async move { pool.take(client, len).await });
        this.waiting = Some((take, frame.into_data().unwrap_or_default()));
        self.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.waiting.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::{Limits, User};
    use http_body::Body as _;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::future::poll_fn;

    fn message(len: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend_from_slice(&u32::try_from(len).expect("short").to_be_bytes());
        bytes.resize(PREFIX_LEN + len, 7);
        bytes
    }

    proptest! {
        #[test]
        fn positions_do_not_depend_on_the_cuts(lens in prop::collection::vec(0_usize..300, 1..20), cut in 1_usize..400) {
            let bytes: Vec<u8> = lens.iter().flat_map(|len| message(*len)).collect();
            let mut position = Position::default();
            for part in bytes.chunks(cut) {
                let begun = position.advance(part);
                prop_assert!(begun.is_none_or(|len| lens.contains(&len)));
                prop_assert!(begun.is_none() || position.missing > 0);
            }
            prop_assert_eq!(position.whole, lens.len() as u64);
            prop_assert!(position.is_between());
        }
    }

    /// Gives frames, and nothing when there are no more.
    struct Script(VecDeque<Vec<u8>>);

    impl http_body::Body for Script {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            self.0.pop_front().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes.into())))))
        }
    }

    async fn next(messages: &mut Messages) -> Result<usize, Status> {
        let frame = poll_fn(|cx| Pin::new(&mut *messages).poll_frame(cx)).await.expect("no end");
        Ok(frame?.into_data().expect("data").len())
    }

    const TIMEOUT: Duration = Duration::from_millis(50);

    fn call(pool: &Arc<Pool>, connection: u64, frames: &[&[u8]]) -> (Messages, Arc<Held>) {
        let held = Arc::new(Held::default());
        let body = Body::new(Script(frames.iter().map(|frame| frame.to_vec()).collect()));
        let shares = Shares { messages: Arc::clone(pool), message_timeout: TIMEOUT, ..Shares::default() };
        (Messages::new(body, Client { user: User::Uid(1), connection }, &shares, Arc::clone(&held)), held)
    }

    #[tokio::test]
    async fn a_long_message_waits_for_its_length_and_ends_in_time() {
        let pool = Arc::new(Pool::new(Limits { total: 1000, share: 1000, reserve: 0 }));
        let long = message(600);
        let (mut first, first_held) = call(&pool, 1, &[&long[..100], &long[100..]]);
        assert_eq!((next(&mut first).await.expect("data"), pool.used()), (100, 600));
        let (mut second, held) = call(&pool, 2, &[&long[..100]]);
        let waits = tokio::time::timeout(TIMEOUT * 5, next(&mut second)).await;
        assert!(waits.is_err(), "there is no room, and waiting for it is not the client's fault");
        assert_eq!(next(&mut first).await.expect("data"), 505);
        assert_eq!(pool.used(), 600, "it is held while the call goes on");
        drop((first, first_held));
        assert_eq!((next(&mut second).await.expect("data"), pool.used()), (100, 600));
        let status = next(&mut second).await.expect_err("it does not come whole");
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
        drop((second, held));
        assert_eq!(pool.used(), 0);
    }

    #[tokio::test]
    async fn short_messages_take_nothing_and_a_call_may_be_silent_between_them() {
        let pool = Arc::new(Pool::new(Limits { total: 10, share: 10, reserve: 0 }));
        let two = [message(50), message(0)].concat();
        let (mut messages, _held) = call(&pool, 1, &[&two]);
        assert_eq!((next(&mut messages).await.expect("data"), pool.used()), (60, 0));
        assert!(tokio::time::timeout(TIMEOUT * 5, next(&mut messages)).await.is_err(), "nothing is owed");
        let (mut silent, _held) = call(&pool, 2, &[]);
        let status = next(&mut silent).await.expect_err("no message at all");
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
    }
}
