//! What the server and the loop of `run` share.
//!
//! The server changes attachments, and wakes the loop. The loop declares their Pods to the switch,
//! and tells what came of that. Changes are counted, so that ADD knows which answer is its own.

use super::failure::{Outcome as Done, again};
use super::link::Netlink;
use super::names::mac_text;
use super::ports::Ports;
use super::record::{Key, Record, Store, VhostUser};
use super::vhost::Directories;
use crate::attach::{Attachment, Attachments, FURTHER_MAX};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};
use vswitch_proto::antrea::v1::NodeConfig;

/// Calls for one container follow each other. Those for others wait for none, but by chance.
const LOCKS: usize = 64;

/// MTU of Pods if the Node's configuration says none: 1500, less 50 bytes of a tunnel.
const MTU: u32 = 1450;

/// What became of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The switch has it.
    Accepted,
    /// The switch has not been told yet.
    Pending,
    /// There is no document of it yet: it has its port, and no packet passes.
    NoDocument,
    /// The switch refuses it.
    Refused(String),
}

/// What became of the attachments of a change.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Number of the change.
    pub change: u64,
    /// Outcomes by Pods' names.
    pub pods: BTreeMap<String, Outcome>,
}

/// The Node, as far as attachments need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) bridge: String,
    pub(super) pod_cidrs: Vec<String>,
    pub(super) gateways: Vec<IpAddr>,
    pub(super) mtu: u32,
}

#[derive(Debug, Default)]
struct State {
    /// Attachments, and whether their interfaces and ports have been made.
    entries: BTreeMap<Key, (Record, bool)>,
    change: u64,
}

/// Why an attachment cannot be made.
#[derive(Debug)]
pub(super) enum Conflict {
    /// Another one has the name on the Node.
    Name,
    /// Another one has an address.
    Address(IpAddr, Box<Record>),
    /// Another one has the directory of the socket.
    Directory(Box<Record>),
    /// The container has as many further interfaces as are served.
    Many,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) kernel: Netlink,
    pub(super) ports: Ports,
    pub(super) directories: Directories,
    state: Mutex<State>,
    node: watch::Sender<Option<Node>>,
    told: watch::Sender<Told>,
    wake: Arc<Notify>,
    locks: [tokio::sync::Mutex<()>; LOCKS],
}

impl Shared {
    pub(super) fn new(
        store: Store,
        records: BTreeMap<Key, Record>,
        kernel: Netlink,
        (switch, directories): (&Path, Directories),
        wake: Arc<Notify>,
    ) -> Self {
        let entries = records.into_iter().map(|(key, record)| (key, (record, true))).collect();
        Self {
            store,
            kernel,
            ports: Ports::new(switch),
            directories,
            state: Mutex::new(State { entries, change: 1 }),
            node: watch::Sender::new(None),
            told: watch::Sender::default(),
            wake,
            locks: [const { tokio::sync::Mutex::const_new(()) }; LOCKS],
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other call is about the container.
    pub(super) async fn lock(&self, key: &Key) -> tokio::sync::MutexGuard<'_, ()> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&key.container);
        self.locks[usize::try_from(hash % LOCKS as u64).unwrap_or_default()].lock().await
    }

    pub(super) fn record(&self, key: &Key) -> Option<Record> {
        self.state().entries.get(key).map(|(record, _)| record.clone())
    }

    /// All attachments.
    pub(super) fn records(&self) -> Vec<Record> {
        self.state().entries.values().map(|(record, _)| record.clone()).collect()
    }

    /// Whether an attachment has its socket in a directory.
    pub(super) fn uses(&self, directory: &Path) -> bool {
        let is_there = |own: &VhostUser| own.directory == directory;
        self.state().entries.values().any(|(record, _)| record.vhost.as_ref().is_some_and(is_there))
    }

    /// Whether the port of an attachment is to be there.
    pub(super) fn is_made(&self, key: &Key) -> bool {
        self.state().entries.get(key).is_some_and(|(_, is_made)| *is_made)
    }

    /// Takes name and addresses for an attachment.
    pub(super) fn reserve(&self, record: &Record) -> Result<(), Conflict> {
        let mut state = self.state();
        for (other, _) in state.entries.values() {
            if other.host == record.host {
                return Err(Conflict::Name);
            }
            let has = |address: IpAddr| other.addresses.iter().any(|one| one.address == address);
            if let Some(one) = record.addresses.iter().find(|one| has(one.address)) {
                return Err(Conflict::Address(one.address, Box::new(other.clone())));
            }
            let is_same = |own: &VhostUser| other.vhost.as_ref().is_some_and(|one| one.directory == own.directory);
            if record.vhost.as_ref().is_some_and(is_same) {
                return Err(Conflict::Directory(Box::new(other.clone())));
            }
        }
        let is_beside = |key: &&Key| key.container == record.key.container && !key.is_own();
        if !record.key.is_own() && state.entries.keys().filter(is_beside).count() >= FURTHER_MAX {
            return Err(Conflict::Many);
        }
        state.entries.insert(record.key.clone(), (record.clone(), false));
        Ok(())
    }

    /// Interface and port are there; the number of the change.
    pub(super) fn made(&self, key: &Key) -> u64 {
        self.set_made(key, true)
    }

    /// The Pod is to go; the number of the change.
    pub(super) fn withdraw(&self, key: &Key) -> u64 {
        self.set_made(key, false)
    }

    fn set_made(&self, key: &Key, is_made: bool) -> u64 {
        let mut state = self.state();
        if let Some((_, was)) = state.entries.get_mut(key)
            && *was != is_made
        {
            *was = is_made;
            state.change += 1;
            self.wake.notify_one();
        }
        state.change
    }

    /// Nothing is left of an attachment.
    pub(super) fn forget(&self, key: &Key) {
        self.state().entries.remove(key);
    }

    /// Attachments of Pods, and the number of their last change. Of several containers of one Pod
    /// the youngest counts, with all of its interfaces: the others are about to go.
    pub(super) fn attachments(&self) -> (u64, Attachments) {
        let state = self.state();
        let mut made: Vec<&Record> =
            state.entries.values().filter(|(_, is_made)| *is_made).map(|(record, _)| record).collect();
        made.sort_by_key(|record| record.created);
        let (mut begun, mut youngest) = (BTreeSet::new(), BTreeMap::new());
        for record in &made {
            if let Some(pod) = record.pod.as_ref().filter(|_| begun.insert(&record.key.container)) {
                youngest.insert(pod.full_name(), &record.key.container);
            }
        }
        let of = |record: &&Record| {
            let pod = record.pod.as_ref()?;
            let attachment = Attachment {
                uid: pod.uid.clone(),
                port: record.host.clone(),
                mac: mac_text(&record.mac),
                addresses: record.addresses.iter().map(|one| one.address).collect(),
            };
            (youngest.get(&pod.full_name()) == Some(&&record.key.container)).then_some((record.object()?, attachment))
        };
        (state.change, made.iter().filter_map(of).collect())
    }

    pub(super) fn follow(&self, node: Option<&NodeConfig>) {
        let Some(node) = node.map(node_of) else { return };
        self.node.send_if_modified(|was| was.replace(node.clone()).as_ref() != Some(&node));
    }

    pub(super) fn told(&self, told: Told) {
        self.told.send_replace(told);
    }

    /// The Node, if it is known.
    pub(super) fn node(&self) -> Option<Node> {
        self.node.borrow().clone()
    }

    /// The Node, when it is known.
    pub(super) async fn node_by(&self, deadline: Instant) -> Done<Node> {
        let mut node = self.node.subscribe();
        let found = timeout_at(deadline, node.wait_for(Option::is_some)).await;
        let found = found.ok().and_then(Result::ok).and_then(|node| node.clone());
        found.ok_or_else(|| again("the agent has no NodeConfig of this Node yet"))
    }

    /// What became of a change, or of a later one.
    pub(super) async fn told_by(&self, change: u64, deadline: Instant, until: impl Fn(&Told) -> bool) -> Option<Told> {
        let mut told = self.told.subscribe();
        let found = timeout_at(deadline, told.wait_for(|told| told.change >= change && until(told))).await;
        found.ok().and_then(Result::ok).map(|told| told.clone())
    }

    /// What became of the last change that was told.
    pub(super) fn last_told(&self) -> Told {
        self.told.borrow().clone()
    }
}

fn node_of(node: &NodeConfig) -> Node {
    let gateways = node.gateway.iter().flat_map(|gateway| &gateway.addresses);
    let pod_mtu = node.uplink.as_ref().and_then(|uplink| uplink.gateway.as_ref()).map_or(0, |gateway| gateway.pod_mtu);
    Node {
        bridge: node.bridge.clone(),
        pod_cidrs: node.pod_cidrs.clone(),
        gateways: gateways.filter_map(|text| text.parse().ok()).collect(),
        mtu: if pod_mtu == 0 { MTU } else { pod_mtu },
    }
}
