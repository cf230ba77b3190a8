//! PacketCaptures of the API server (crd.antrea.io/v1alpha1): `kubectl create -f` one, and packets
//! of a Pod are in a file on its Node.
//!
//! **Where**: beside `drive`. `run` says which Pods are on this Node.
//!
//! **Design**: each agent watches all PacketCaptures. The agent of the Pod at the capture point
//! runs one (`session`): its switch captures at the Pod's port. A direction is a capture of its
//! own. The agent writes how far the capture is into the status (`status`), in Antrea's words. The
//! file goes with the object.
//!
//! **Limits**: one capture runs at a time, others wait. `object::PACKETS_MAX` packets of a capture,
//! [`FILES_MAX`] files, `session::FILE_LEN_MAX` bytes of a file. Nothing is sent to a file server.
//!
//! **Threads**: one task that watches, and one for the capture that runs.

mod object;
mod session;
mod status;

use crate::names::book::Book;
use crate::watched::{Watched, follow};
use futures_util::StreamExt;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use object::PacketCapture;
use session::Session;
use status::State;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Files of a Node. With as many a capture waits until a PacketCapture is deleted.
const FILES_MAX: usize = 64;

/// How often captures are looked at that have not changed.
const PERIOD: Duration = Duration::from_secs(1);

/// What files end with.
const SUFFIX: &str = ".pcapng";

/// A Pod of this Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPod {
    /// Its port.
    pub port: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// What is known of Pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pods {
    /// The bridge of this Node.
    pub bridge: String,
    /// Pods of this Node by "namespace/name".
    pub local: BTreeMap<String, LocalPod>,
}

/// What tasks share.
#[derive(Clone)]
struct Shared {
    api: Api<DynamicObject>,
    node: Arc<str>,
    socket: Arc<Path>,
    dir: Arc<Path>,
    pods: watch::Receiver<Pods>,
    book: watch::Receiver<Option<Arc<Book>>>,
}

impl Shared {
    /// Addresses of a Pod of the cluster.
    fn addresses(&self, pod: &str) -> Vec<IpAddr> {
        if let Some(local) = self.pods.borrow().local.get(pod) {
            return local.addresses.clone();
        }
        let Some((namespace, name)) = pod.split_once('/') else { return Vec::new() };
        let book = self.book.borrow().clone().unwrap_or_default();
        let is_it = |named: &crate::names::book::Named| named.namespace == namespace && named.pod == name;
        book.all().filter(|(_, named)| is_it(named)).map(|(address, _)| *address).collect()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}{SUFFIX}"))
    }
}

/// The PacketCaptures. They end with this value.
#[derive(Debug)]
pub struct PacketCaptures {
    pods: watch::Sender<Pods>,
    task: JoinHandle<()>,
}

impl PacketCaptures {
    /// Starts the task, in a runtime of tokio. `socket` is the switch's, files are in `dir`.
    pub fn start(
        client: Client,
        node: &str,
        (socket, dir): (PathBuf, PathBuf),
        book: watch::Receiver<Option<Arc<Book>>>,
    ) -> Self {
        let gvk = GroupVersionKind::gvk("crd.antrea.io", "v1alpha1", "PacketCapture");
        let api = Api::all_with(client, &ApiResource::from_gvk(&gvk));
        let (pods, of_node) = watch::channel(Pods::default());
        let shared = Shared { api, node: node.into(), socket: socket.into(), dir: dir.into(), pods: of_node, book };
        Self { pods, task: tokio::spawn(Watch::new(shared).follow()) }
    }

    /// Takes over which Pods are on this Node.
    pub fn local(&self, pods: Pods) {
        self.pods.send_if_modified(|old| {
            let is_new = *old != pods;
            *old = pods;
            is_new
        });
    }
}

impl Drop for PacketCaptures {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is known of all PacketCaptures.
struct Watch {
    shared: Shared,
    watched: Watched<PacketCapture>,
    /// The capture that runs. Dropped, it ends.
    session: Option<Session>,
    /// Statuses that were written, by UID.
    written: BTreeMap<String, State>,
}

impl Watch {
    fn new(shared: Shared) -> Self {
        let watched = Watched::new("PacketCapture", PacketCapture::of);
        Self { shared, watched, session: None, written: BTreeMap::new() }
    }

    async fn follow(mut self) {
        let mut events = follow(self.shared.api.clone());
        let mut turn = tokio::time::interval(PERIOD);
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => self.watched.take(event),
                    None => return,
                },
                _ = turn.tick() => {}
            }
            self.look().await;
        }
    }

    async fn look(&mut self) {
        let objects = &self.watched.objects;
        let is_known = |uid: &str| objects.values().any(|object| object.uid == uid);
        self.written.retain(|uid, _| is_known(uid));
        if self.session.as_ref().is_some_and(|session| !is_known(session.uid())) {
            self.session = None;
        }
        if self.watched.is_listed {
            self.remove_files();
        }
        if let Some(session) = &mut self.session {
            let (uid, name, state) = (session.uid().to_owned(), session.name().to_owned(), session.state());
            let is_over = state.is_over();
            if self.write(&name, &uid, state).await && is_over {
                self.session = None;
            }
        }
        let names: Vec<String> = self.watched.objects.keys().cloned().collect();
        for name in names {
            let Some(object) = self.watched.objects.get(&name).cloned() else { continue };
            let is_mine = object.pod().is_some_and(|pod| self.shared.pods.borrow().local.contains_key(&pod));
            let runs = self.session.as_ref().is_some_and(|session| session.uid() == object.uid);
            let is_done = self.written.get(&object.uid).is_some_and(State::is_over);
            if object.is_complete || !is_mine || runs || is_done {
                continue;
            }
            if object.has_started {
                // An agent before this one has begun it.
                let state = State::failed("the agent was restarted");
                self.write(&name, &object.uid, state).await;
            } else if self.session.is_none() {
                self.begin(&object).await;
            } else if !object.has_status {
                self.write(&name, &object.uid, State::Pending(String::new())).await;
            }
        }
    }

    /// Begins a capture, or says why not.
    async fn begin(&mut self, object: &PacketCapture) {
        if count_files(&self.shared.dir) >= FILES_MAX {
            let reason = format!("{FILES_MAX} files are there: delete PacketCaptures");
            self.write(&object.name, &object.uid, State::Pending(reason)).await;
            return;
        }
        match Session::start(&self.shared, object) {
            Ok(session) => self.session = Some(session),
            Err(reason) => {
                self.write(&object.name, &object.uid, State::Pending(reason)).await;
            }
        }
    }

    /// Writes a status that is new. Whether the server has it.
    async fn write(&mut self, name: &str, uid: &str, state: State) -> bool {
        if self.written.get(uid) == Some(&state) {
            return true;
        }
        match status::write(&self.shared.api, (name, uid), &state).await {
            Ok(()) => {
                self.written.insert(uid.to_owned(), state);
                true
            }
            Err(reason) => {
                self.watched.tell(format!("PacketCapture {name}: its status cannot be written: {reason}"));
                false
            }
        }
    }

    /// Removes files whose PacketCaptures are gone.
    fn remove_files(&self) {
        for (name, path) in files(&self.shared.dir) {
            if !self.watched.objects.contains_key(&name) {
                // A file that stays counts, and is tried again.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// Files of captures, by the names of their PacketCaptures.
fn files(dir: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some((name.strip_suffix(SUFFIX)?.to_owned(), entry.path()))
    });
    named.collect()
}

fn count_files(dir: &Path) -> usize {
    files(dir).len()
}
