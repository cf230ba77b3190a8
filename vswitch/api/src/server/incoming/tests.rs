use super::*;
use std::collections::VecDeque;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LONG: Duration = Duration::from_secs(60);

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(5), future).await.unwrap_or_else(|_| panic!("{what}: not within 5 s"))
}

fn anyone(_: &UnixStream) -> Identity {
    Identity::of_uid(None, None)
}

fn connection(timeout: Duration, aborted: &watch::Receiver<bool>) -> (Connection, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let admitted = Arc::new(Connections::new(1)).admit(Identity::of_uid(None, None));
    (Connection::new(ours.into(), admitted, timeout, aborted, &Arc::default()), theirs)
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
        let next = script.lock().pop_front();
        async move { if let Some(next) = next { next } else { std::future::pending().await } }
    };
    let gate = Gate::new(Arc::new(Connections::new(2)), LONG, aborted, sender);
    let task = tokio::spawn(async move { accept(accept_one, anyone, &gate).await });
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
        kept.lock().push(theirs);
        async move { Ok(ours) }
    };
    let gate = Gate::new(Arc::new(Connections::new(4)), LONG, aborted, sender);
    tokio::spawn(async move { accept(accept_one, anyone, &gate).await });
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
