//! Rights, from outside: listeners with roles, and all RPCs on each of them.

mod tls;

use super::{soon, without_file};
use crate::rights::RPCS;
use crate::server::serve::serve_api;
use crate::server::{ServeError, bind_all};
use bytes::Bytes;
use h2::client::SendRequest;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use vswitch_control::SwitchConfig;
use vswitch_control::config::{Account, ListenEndpoint, ListenerConfig, Role, UnixListen};
use vswitch_testkit::double::Double;

/// A server with listeners of its own.
struct Serving {
    directory: tempfile::TempDir,
    shutdown: oneshot::Sender<()>,
    server: JoinHandle<Result<(), ServeError>>,
    /// Names of its listeners.
    names: Vec<String>,
}

impl Serving {
    fn start(directory: tempfile::TempDir, listeners: Vec<ListenerConfig>, audit_file: Option<PathBuf>) -> Self {
        let socket = directory.path().join("admin.sock");
        let config = SwitchConfig { socket, listeners, audit_file, ..SwitchConfig::with_defaults(&[0]) };
        let listeners = bind_all(&config).expect("free");
        let names = listeners.names().into_iter().map(str::to_owned).collect();
        let (shutdown, told) = oneshot::channel();
        let switch = Arc::new(Double::default());
        let running = without_file(&switch);
        let server = serve_api(switch, listeners, None, running, None, async {
            let _ = told.await;
        });
        Self { directory, shutdown, server: tokio::spawn(server), names }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Stops it; its directory.
    async fn stop(self) -> tempfile::TempDir {
        self.shutdown.send(()).expect("a server that listens");
        soon("the server stops", self.server).await.expect("no panic").expect("no error");
        self.directory
    }
}

fn unix(path: &Path, role: Role, users: &[(Account, Role)]) -> ListenerConfig {
    let unix = UnixListen {
        path: path.to_owned(),
        mode: UnixListen::MODE_DEFAULT,
        owner: None,
        group: None,
        users: users.to_vec(),
        groups: Vec::new(),
    };
    ListenerConfig { endpoint: ListenEndpoint::Unix(unix), role }
}

/// A client that makes any call.
#[derive(Clone)]
struct Caller(SendRequest<Bytes>);

/// What became of a call.
#[derive(Debug)]
struct End {
    /// `grpc-status`; none: it goes on.
    status: Option<u16>,
    message: String,
    id: String,
}

impl Caller {
    async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        Self::try_over(stream).await.expect("HTTP/2")
    }

    async fn try_over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Self, h2::Error> {
        let (client, connection) = h2::client::handshake(stream).await?;
        tokio::spawn(async {
            let _ = connection.await; // the server may close it
        });
        Ok(Self(client))
    }

    async fn unix(path: &Path) -> Self {
        Self::over(UnixStream::connect(path).await.expect("it listens")).await
    }

    /// Makes a call with one empty message, and with headers of its own.
    async fn try_call(&self, path: &str, headers: &[(&str, &str)]) -> Result<End, h2::Error> {
        let mut request = http::Request::post(format!("http://localhost{path}"));
        for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")].iter().chain(headers) {
            request = request.header(*name, *value);
        }
        let mut client = self.0.clone().ready().await?;
        let (response, mut stream) = client.send_request(request.body(()).expect("a request"), false)?;
        stream.send_data(Bytes::from_static(&[0; 5]), true)?;
        let response = response.await?;
        let text = |headers: &http::HeaderMap, name: &str| {
            headers.get(name).map(|value| value.to_str().expect("text").to_owned())
        };
        let id = text(response.headers(), "x-request-id").unwrap_or_default();
        let status =
            |headers: &http::HeaderMap| text(headers, "grpc-status").map(|status| status.parse().expect("a number"));
        let message = text(response.headers(), "grpc-message").unwrap_or_default();
        Ok(End { status: status(response.headers()), message, id })
    }

    async fn call(&self, path: &str) -> End {
        soon(path, self.try_call(path, &[])).await.expect("an answer")
    }
}

const PERMISSION_DENIED: Option<u16> = Some(7);

fn paths() -> impl Iterator<Item = (String, Role)> {
    RPCS.iter().flat_map(|(service, methods)| {
        methods.iter().map(move |(method, role)| (format!("/{service}/{method}"), *role))
    })
}

/// Every RPC that there is, on a listener of each role, and on one that knows other users only.
#[tokio::test]
async fn each_role_may_call_what_it_may_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let other = [(Account::Id(64_321), Role::Admin)];
    let mut listeners: Vec<_> = Role::WORDS.map(|(word, role)| unix(&at(word), role, &[])).into();
    listeners.push(unix(&at("none"), Role::Admin, &other));
    let serving = Serving::start(directory, listeners, None);
    let held = Role::WORDS.map(|(word, role)| (word, Some(role)));
    let mut denied = BTreeMap::new();
    for (word, role) in held.into_iter().chain([("none", None)]) {
        let caller = Caller::unix(&serving.at(word)).await;
        for (path, needed) in paths() {
            let end = caller.call(&path).await;
            let may = role.is_some_and(|role| role >= needed);
            assert_eq!(end.status != PERMISSION_DENIED, may, "{path} as {word}: {end:?}");
            assert!(!end.id.is_empty(), "{path} has no id");
            if !may {
                let method = path.rsplit('/').next().expect("a method");
                let begin = format!("{method} needs the role {needed}; uid=");
                assert!(end.message.replace("%20", " ").starts_with(&begin), "{end:?}");
                *denied.entry(word).or_insert(0_u64) += 1;
            }
        }
        for path in ["/vswitch.v1.BridgeService/NoSuch", "/no.Such/ListBridges"] {
            let end = caller.call(path).await;
            assert_eq!(end.status == PERMISSION_DENIED, role != Some(Role::Admin), "{path} as {word}: {end:?}");
        }
    }
    let looks = paths().filter(|(_, role)| *role == Role::Read).count() as u64;
    let all = paths().count() as u64;
    assert_eq!((denied.get("read"), denied.get("none"), denied.get("admin")), (Some(&(all - looks)), Some(&all), None));
    serving.stop().await;
}

/// Headers are the client's, and raise nothing.
#[tokio::test]
async fn no_header_raises_a_role_or_chooses_an_id() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("read");
    let serving = Serving::start(directory, vec![unix(&path, Role::Read, &[])], None);
    let caller = Caller::unix(&path).await;
    for (name, value) in [
        ("role", "admin"),
        ("x-role", "admin"),
        ("authorization", "Bearer admin"),
        ("x-forwarded-for", "unix:/run/vswitch/vswitch.sock"),
        ("x-uid", "0"),
        ("x-request-id", "mine"),
        ("x-original-path", "/vswitch.v1.BridgeService/ListBridges"),
    ] {
        let end = caller.try_call("/vswitch.v1.BridgeService/AddBridge", &[(name, value)]).await.expect("an answer");
        assert_eq!(end.status, PERMISSION_DENIED, "{name}: {value}: {end:?}");
        assert_ne!(end.id, "mine");
    }
    serving.stop().await;
}

/// Users of one socket with roles of their own. (A second user is real in `vswitchd`'s tests.)
#[tokio::test]
async fn a_mapped_user_has_its_own_role() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let own = nix_uid();
    let listeners = vec![unix(
        &at("operate"),
        Role::Admin,
        &[(Account::Id(own), Role::Operate), (Account::Id(own + 1), Role::Admin)],
    )];
    let serving = Serving::start(directory, listeners, None);
    let caller = Caller::unix(&serving.at("operate")).await;
    assert_ne!(caller.call("/vswitch.v1.FdbService/FlushFdb").await.status, PERMISSION_DENIED);
    let end = caller.call("/vswitch.v1.BridgeService/AddBridge").await;
    assert_eq!(end.status, PERMISSION_DENIED);
    assert!(end.message.contains("has%20the%20role%20operate"), "{end:?}");
    serving.stop().await;
}

/// The user of this process: that of its own directory in `/proc`.
fn nix_uid() -> u32 {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").expect("mounted"))
}

/// What needs more than to look is recorded, with names and outcome; what only looks is not.
#[tokio::test]
async fn the_audit_file_has_changes_and_refusals() {
    let directory = tempfile::tempdir().expect("a directory");
    let (read, audit) = (directory.path().join("read"), directory.path().join("audit"));
    let serving = Serving::start(directory, vec![unix(&read, Role::Read, &[])], Some(audit.clone()));
    let admin = Caller::unix(&serving.at("admin.sock")).await;
    let changed = admin.call("/vswitch.v1.WorkerService/Rebalance").await;
    admin.call("/vswitch.v1.BridgeService/ListBridges").await;
    let wrong = admin.call("/vswitch.v1.BridgeService/DeleteBridge").await;
    let refused = Caller::unix(&read).await.call("/vswitch.v1.BridgeService/AddBridge").await;
    drop(admin);
    let directory = serving.stop().await;
    let text = std::fs::read_to_string(directory.path().join("audit")).expect("a file");
    let records: BTreeMap<String, serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|record| (record["request"].as_str().expect("an id").to_owned(), record))
        .collect();
    assert_eq!(records.len(), 3, "{text}");
    let of = |end: &End| {
        let record = &records[&end.id];
        ["rpc", "outcome", "names"].map(|key| record[key].as_str().expect("a word").to_owned())
    };
    assert_eq!(of(&changed), ["Rebalance", "OK", ""]);
    assert_eq!(of(&wrong), ["DeleteBridge", "NOT_FOUND", "\"\""]);
    assert_eq!(of(&refused), ["AddBridge", "PERMISSION_DENIED", ""]);
    let principal = records[&refused.id]["principal"].as_str().expect("a word");
    assert!(principal.starts_with(&format!("uid={},", nix_uid())), "{principal}");
    assert_eq!(records[&refused.id]["listener"].as_str(), Some(format!("unix:{}", read.display()).as_str()));
}
