//! The agent's side of the CNI plug-in: `--cni` serves `agent.v1.CniService` on a unix socket.
//!
//! **Design**: `vswitch-cni` has parsed the runtime's call and has got addresses from IPAM. The
//! agent does the rest. `service` checks each request (`names`). `add` makes a pair of interfaces
//! (`netns`, `link`) and the port (`ports`), and waits until the switch knows the Pod. `del`,
//! `check` and `gc` are the other commands. `record` has one file for each attachment, which is on
//! the disk before the interfaces are made. `shared` is what the server and the loop of `run`
//! share: attachments that way, and what the switch was told of them the other way. `sweep` makes
//! ports again after a restart of the switch, and removes what has lost its container.
//!
//! **Limits**: a Pod has one interface of this network. An attachment that was made by an earlier
//! run stays as it was made: its address, MTU and routes do not follow the Node's.
//!
//! **Threads**: those of the runtime. A thread of its own enters a network namespace, opens a
//! netlink socket there, and ends: the socket stays in that namespace.

mod add;
mod check;
mod failure;
mod link;
mod names;
mod netns;
mod ports;
mod record;
mod remove;
mod service;
mod shared;
mod socket;
mod sweep;

pub use shared::{Outcome, Told};

use crate::attach::Attachments;
use link::Netlink;
use record::Store;
use shared::Shared;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Notify;
use vswitch_proto::antrea::v1::NodeConfig;

/// The server.
#[derive(Debug)]
pub struct Cni(Arc<Shared>);

impl Cni {
    /// Reads the attachments below `state`, and serves `socket`. `switch` is the socket of
    /// vswitchd, `wake` is called when attachments change.
    ///
    /// # Errors
    /// As text: the directory or the socket cannot be had.
    pub async fn start(socket: &Path, state: &Path, switch: &Path, wake: Arc<Notify>) -> Result<Self, String> {
        let (store, records) = Store::open(state)?;
        let kernel = Netlink::open().map_err(|error| format!("netlink: {error}"))?;
        let shared = Arc::new(Shared::new(store, records, kernel, switch, wake));
        let listener = socket::listen(socket).await?;
        tokio::spawn(socket::serve(listener, Arc::clone(&shared)));
        tokio::spawn(sweep::forever(Arc::clone(&shared)));
        Ok(Self(shared))
    }

    /// Attachments of Pods, and the number of their last change.
    pub fn attachments(&self) -> (u64, Attachments) {
        self.0.attachments()
    }

    /// Takes over what the Node is.
    pub fn follow(&self, node: Option<&NodeConfig>) {
        self.0.follow(node);
    }

    /// Takes over what became of the attachments of a change: outcomes by Pods' names.
    pub fn told(&self, change: u64, pods: BTreeMap<String, Outcome>) {
        self.0.told(Told { change, pods });
    }
}
