//! The server as a test holds it: start, objects, log, hurting.
//!
//! It runs on threads of its own, so that tests may be blocking or not. Dropping it ends it.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::error::ApiError;
use crate::http;
use crate::hurt::Hurt;
use crate::kubeconfig;
use crate::log::Entry;
use crate::options::Options;
use crate::rbac::User;
use crate::route;
use crate::state::Shared;

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Does not wait, so that a test within another runtime may drop it.
            runtime.shutdown_background();
        }
    }
}

impl Server {
    /// Starts a server; it listens when this returns.
    pub fn start(options: Options) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let guard = runtime.enter();
        // This socket never listens. It keeps the port while the server is away.
        let kept = socket(options.listen)?;
        let address = kept.local_addr()?;
        let listener = socket(address)?.listen(1024)?;
        drop(guard);
        let shared = Arc::new(Shared::new(options));
        *shared.listening.lock() = true;
        runtime.spawn(accept(shared.clone(), listener, kept));
        Ok(Self { shared, address, runtime: Some(runtime) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Writes a kubeconfig with the first token, if there is one.
    pub fn kubeconfig(&self, path: &Path) -> io::Result<()> {
        let token = self.shared.lock().options.tokens.first().map(|(token, _)| token.clone());
        self.kubeconfig_of(path, token.as_deref())
    }

    /// Writes a kubeconfig with a token.
    pub fn kubeconfig_of(&self, path: &Path, token: Option<&str>) -> io::Result<()> {
        std::fs::write(path, self.kubeconfig_text(token))
    }

    /// Text of a kubeconfig. The token is in the URL: `kubectl` sends none over plain HTTP. So its
    /// characters must be such that a path may have.
    pub fn kubeconfig_text(&self, token: Option<&str>) -> String {
        let prefix = token.map(|token| format!("{}{token}", route::TOKEN)).unwrap_or_default();
        kubeconfig::text(&format!("{}{prefix}", self.url()), None, token)
    }

    /// Makes an object what is given. Its status stays if none is given. The Namespace is `default`
    /// if none is given.
    pub fn apply(&self, object: Value) -> Result<Value, ApiError> {
        self.shared.change(|state| state.apply(object))
    }

    /// Adds a token while the server runs.
    pub fn add_token(&self, token: &str, user: &str, groups: &[&str]) {
        self.shared.lock().options.tokens.push((token.to_owned(), User::new(user, groups)));
    }

    fn named(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
        json!({ "apiVersion": api_version, "kind": kind, "metadata": { "namespace": namespace, "name": name } })
    }

    /// Deletes an object. With finalizers it is only marked.
    pub fn delete(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<(), ApiError> {
        let named = Self::named(api_version, kind, namespace, name);
        self.shared.change(|state| {
            let target = state.object_target(&named)?;
            state.delete(&target, &Value::Null, false).map(|_| ())
        })
    }

    /// An object.
    pub fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let state = self.shared.lock();
        let target = state.object_target(&Self::named(api_version, kind, namespace, name)).ok()?;
        state.find(&target).ok().map(|object| target.present(&object))
    }

    /// All objects of a kind, in all Namespaces, by Namespace and name.
    pub fn list(&self, api_version: &str, kind: &str) -> Vec<Value> {
        let state = self.shared.lock();
        let Ok(target) = state.object_target(&Self::named(api_version, kind, "", "")) else { return Vec::new() };
        state.store.all(&target.kind.bucket()).map(|(_, object)| target.present(object)).collect()
    }

    /// The log of requests, in the order of their answers.
    pub fn requests(&self) -> Vec<Entry> {
        self.shared.log.lock().clone()
    }

    /// Empties the log.
    pub fn forget_requests(&self) {
        self.shared.log.lock().clear();
    }

    /// Resources of the watches that are open, one entry for each watch.
    pub fn watches(&self) -> Vec<String> {
        self.shared.watches.lock().values().cloned().collect()
    }

    /// Hurts its clients.
    pub fn hurt(&self) -> Hurt {
        Hurt { shared: self.shared.clone() }
    }

    /// Waits until something holds of the log, the watches, the lists at a gate, or of objects that
    /// clients write. False: not within 30 seconds.
    pub fn wait(&self, holds: impl Fn(&Self) -> bool) -> bool {
        let end = Instant::now() + Duration::from_secs(30);
        let mut held = self.shared.waiting.lock();
        loop {
            if holds(self) {
                return true;
            }
            if self.shared.waiting_changed.wait_until(&mut held, end).timed_out() {
                return holds(self);
            }
        }
    }

    /// [`Self::wait`] for tests in a runtime.
    pub async fn until(&self, holds: impl Fn(&Self) -> bool) -> bool {
        let mut news = self.shared.news.subscribe();
        let end = tokio::time::Instant::now() + Duration::from_secs(30);
        while !holds(self) {
            match tokio::time::timeout_at(end, news.changed()).await {
                Ok(Ok(())) => {}
                _ => return holds(self),
            }
        }
        true
    }
}

fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn set_listening(shared: &Shared, listening: bool) {
    *shared.listening.lock() = listening;
    shared.listening_changed.notify_all();
}

async fn accept(shared: Arc<Shared>, mut listener: TcpListener, kept: TcpSocket) {
    let mut away = shared.away.subscribe();
    let Ok(address) = kept.local_addr() else { return };
    loop {
        while !*away.borrow_and_update() {
            tokio::select! {
                _ = away.changed() => {}
                accepted = listener.accept() => {
                    if let Ok((stream, _)) = accepted {
                        tokio::spawn(connection(Open::begin(shared.clone()), stream));
                    }
                }
            }
        }
        drop(listener);
        set_listening(&shared, false);
        if away.wait_for(|away| !*away).await.is_err() {
            return;
        }
        listener = match socket(address).and_then(|socket| socket.listen(1024)) {
            Ok(listener) => listener,
            Err(_) => return,
        };
        set_listening(&shared, true);
    }
}

/// A connection that is counted until it is closed.
struct Open {
    shared: Arc<Shared>,
    connections: watch::Receiver<u64>,
    begun: u64,
}

impl Open {
    fn begin(shared: Arc<Shared>) -> Self {
        let mut open = shared.open.lock();
        let connections = shared.connections.subscribe();
        let begun = *connections.borrow();
        *open.entry(begun).or_default() += 1;
        drop(open);
        Self { shared, connections, begun }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut open = self.shared.open.lock();
        let left = open.get(&self.begun).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            open.remove(&self.begun);
        } else {
            open.insert(self.begun, left);
        }
        self.shared.open_changed.notify_all();
    }
}

async fn connection(mut open: Open, stream: TcpStream) {
    // Lines of a watch are to be seen at once.
    let _ = stream.set_nodelay(true);
    let shared = open.shared.clone();
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, std::convert::Infallible>(http::answer(shared, request).await) }
    });
    // The stream is closed before `open` says so: it is dropped first.
    let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // The client left, or the test cut a stream: both end only this connection.
        _ = served => {}
        _ = open.connections.changed() => {}
    }
}
