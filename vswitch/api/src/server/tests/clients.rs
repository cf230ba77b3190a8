//! Clients as others write them: the bytes that they send, with nothing but the socket's path.

use super::*;
use crate::server::http2::raw;
use std::collections::HashMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic_reflection::pb::v1alpha;

/// Preface and settings of grpcio 1.85 for Python, over `unix:/tmp/rec/vswitch.sock`.
const CORE_BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \x00\x00\x24\x04\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x04\x00\x40\x00\x00\
    \x00\x05\x00\x40\x00\x00\x00\x06\x00\x00\x40\x00\xfe\x03\x00\x00\x00\x01\
    \x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x3f\x00\x01\x00\x00\x00\x04\x01\x00\x00\x00\x00";

/// Its first call: all fields go into the table, `:authority` as the path, percent-encoded.
const CORE_FIRST: &[u8] = b"\x00\x00\xfc\x01\x04\x00\x00\x00\x01\
    \x40\x05:path\x25/vswitch.v1.BridgeService/ListBridges\x40\x0a:authority\x18tmp%2Frec%2Fvswitch.sock\x83\x86\
    \x40\x0ccontent-type\x10application/grpc\x40\x02te\x08trailers\
    \x40\x14grpc-accept-encoding\x17identity, deflate, gzip\x40\x0cgrpc-timeout\x021S\
    \x40\x0auser-agent0grpc-python/1.85.3 grpc-c/58.0.0 (linux; chttp2)\
    \x00\x00\x04\x08\x00\x00\x00\x00\x01\x00\x00\x00\x05\x00\x00\x05\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00";

/// Its second one: references to the table.
const CORE_SECOND: &[u8] = b"\x00\x00\x1c\x01\x04\x00\x00\x00\x03\xc4\xc3\x83\x86\xc2\xc1\xc0\
    \x40\x0cgrpc-timeout\x051010m\xbf\
    \x00\x00\x04\x08\x00\x00\x00\x00\x03\x00\x00\x00\x05\x00\x00\x05\x00\x01\x00\x00\x00\x03\x00\x00\x00\x00\x00";

/// What a server says of a call in the end.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// `grpc-status`.
    Status(String),
    /// RST_STREAM with a code.
    Reset(u32),
}

/// A client that writes bytes, and reads frames.
struct Raw {
    stream: tokio::net::UnixStream,
    answers: raw::Answers,
    /// Calls that ended, and how. The server works on calls beside each other, so they end in any
    /// order.
    ended: HashMap<u32, End>,
}

impl Raw {
    async fn connect(running: &Running) -> Self {
        let stream = tokio::net::UnixStream::connect(&running.path).await.expect("a connection");
        Self { stream, answers: raw::Answers::default(), ended: HashMap::new() }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("a server that reads");
    }

    /// How a call ends.
    async fn end(&mut self, call: u32) -> End {
        soon("the end of a call", async {
            loop {
                if let Some(end) = self.ended.remove(&call) {
                    return end;
                }
                match self.frame().await {
                    raw::Frame::Headers { stream, fields } => {
                        if let Some((_, status)) = fields.into_iter().find(|(name, _)| name == "grpc-status") {
                            self.ended.insert(stream, End::Status(status));
                        }
                    }
                    raw::Frame::Reset { stream, code } => {
                        // After a status, a reset only says that the server reads no more of the
                        // call.
                        self.ended.entry(stream).or_insert(End::Reset(code));
                    }
                    _ => {}
                }
            }
        })
        .await
    }

    /// The next frame of the server.
    async fn frame(&mut self) -> raw::Frame {
        loop {
            if let Some(frame) = self.answers.next() {
                return frame;
            }
            let mut bytes = [0; 4096];
            let len = self.stream.read(&mut bytes).await.expect("no error");
            assert!(len > 0, "the server closed the connection");
            self.answers.take(&bytes[..len]);
        }
    }
}

/// A call without a body, its fields as literals.
fn call(stream: u32, fields: &[(&str, &[u8])]) -> Vec<u8> {
    raw::call(stream, fields, b"\0\0\0\0\0")
}

/// A good call with this authority.
fn call_with(stream: u32, authority: &[u8]) -> Vec<u8> {
    let path = b"/vswitch.v1.BridgeService/ListBridges";
    let [method, scheme]: [(&str, &[u8]); 2] = [(":method", b"POST"), (":scheme", b"http")];
    let rest: [(&str, &[u8]); 2] = [("content-type", b"application/grpc"), ("te", b"trailers")];
    call(stream, &[method, scheme, (":path", path), (":authority", authority), rest[0], rest[1]])
}

#[tokio::test]
async fn a_client_of_the_c_core_is_answered() {
    let running = Running::start().await;
    for cut in [usize::MAX, 1, 50, 83] {
        let mut client = Raw::connect(&running).await;
        let bytes = [CORE_BEGIN, CORE_FIRST, CORE_SECOND].concat();
        for part in bytes.chunks(cut.min(bytes.len())) {
            client.send(part).await;
            tokio::task::yield_now().await;
        }
        for stream in [1, 3] {
            assert_eq!(client.end(stream).await, End::Status("0".to_owned()), "stream {stream}, reads of {cut}");
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn no_authority_matters_on_a_unix_socket() {
    let running = Running::start().await;
    let path = running.path.clone();
    let path = path.to_str().expect("a path").as_bytes();
    let mut client = Raw::connect(&running).await;
    client.send(CORE_BEGIN).await;
    let authorities: [&[u8]; 10] =
        [b"localhost", path, b"", b"%2Ftmp%2Fa", b"unix:/a", b"@", b"a b", b"\xff", b"[", b"a:b:c:d:e:f:g:h:i:j:k"];
    for (stream, authority) in (1..).step_by(2).zip(authorities) {
        client.send(&call_with(stream, authority)).await;
        assert_eq!(client.end(stream).await, End::Status("0".to_owned()), "{}", authority.escape_ascii());
    }
    running.stop().await;
}

/// What is logged.
#[derive(Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("a lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What is logged when a client sends bytes to a new server and is refused.
async fn logged(bytes: &[u8]) -> String {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    // Of this thread, on which all tasks of the test run
    let _guard = tracing::subscriber::set_default(subscriber);
    let running = Running::start().await;
    // The second one is refused, too, but told of later.
    let mut clients = [Raw::connect(&running).await, Raw::connect(&running).await];
    for client in &mut clients {
        client.send(bytes).await;
    }
    let text = || String::from_utf8(log.0.lock().expect("a lock").clone()).expect("text");
    soon("a line of the log", async {
        while !text().contains("control client") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    running.stop().await;
    text().lines().filter(|line| line.contains("control client")).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_refusal_is_told_with_its_cause() {
    let begin = [CORE_BEGIN, &call(1, &[(":path", b"/a/b"), (":scheme", b"http")])].concat();
    let line = logged(&begin).await;
    let pid = std::process::id();
    for part in ["call (stream 1) refused with PROTOCOL_ERROR", "the request has no :method", &format!("pid={pid}")] {
        assert!(line.contains(part), "{part:?} is not in {line:?}");
    }
    assert_eq!(line.lines().count(), 1, "{line}");
    for (bytes, cause) in [
        (&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], "does not speak HTTP/2"),
        (&[CORE_BEGIN, b"\x00\x00\x01\x01\x05\x00\x00\x00\x01\xff"].concat(), "no HPACK"),
        (&[CORE_BEGIN, b"\x00\x00\x00\x09\x04\x00\x00\x00\x01"].concat(), "a client may not send there"),
        (&[CORE_BEGIN, &call_with(1, b"%"), b"\x00\x00\x01\x01\x05\x00\x00\x00\x03\xc0"].concat(), "no HPACK"),
    ] {
        let line = logged(bytes).await;
        assert!(line.contains(cause), "{cause:?} is not in {line:?}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}

#[tokio::test]
async fn older_clients_ask_for_reflection_by_v1alpha() {
    let running = Running::start().await;
    let request = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1alpha::server_reflection_request::MessageRequest::ListServices(String::new())),
    };
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(running.channel.clone());
    let mut answers =
        client.server_reflection_info(tokio_stream::iter([request])).await.expect("an answer").into_inner();
    let answer = answers.message().await.expect("no error").expect("a message").message_response;
    let Some(v1alpha::server_reflection_response::MessageResponse::ListServicesResponse(services)) = answer else {
        panic!("{answer:?}");
    };
    for name in HEALTH_NAMES.into_iter().filter(|name| !name.is_empty()) {
        assert!(services.service.iter().any(|service| service.name == name), "{name} is missing");
    }
    running.stop().await;
}
