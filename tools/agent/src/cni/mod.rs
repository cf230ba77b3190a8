//! The agent's side of the CNI plug-in: `--cni` serves `agent.v1.CniService` on a unix socket.
//!
//! **Design**: `vswitch-cni` has parsed the runtime's call and has got addresses from IPAM. The
//! agent does the rest. `service` checks each request (`names`). `add` makes a pair of interfaces
//! (`netns`, `link`), or a directory for a vhost-user socket (`vhost`). Then it makes the port
//! (`ports`), and waits until the switch knows the Pod. `del`, `check` and `gc` are the other
//! commands. `record` has one file for each attachment, which is on
//! the disk before the interfaces are made. `shared` is what the server and the loop of `run`
//! share: attachments that way, and what the switch was told of them the other way. `sweep` makes
//! ports again after a restart of the switch, and removes what has lost its container.
//!
//! **Limits**: a Pod has its own interface, `eth0`, and at most eight further ones. An attachment
//! that was made by an earlier run stays as it was made: its address, MTU and routes do not follow
//! the Node's.
//!
//! **Threads**: those of the runtime. A thread of its own enters a network namespace, opens a
//! netlink socket there, and ends: the socket stays in that namespace.

mod add;
mod check;
mod conf;
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
mod vhost;

pub use shared::{Outcome, Told};
pub use vhost::Directories;

use crate::attach::Attachments;
use link::Netlink;
use record::Store;
use shared::Shared;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Notify;
use vswitch_proto::antrea::v1::NodeConfig;

/// The server.
#[derive(Debug)]
pub struct Cni {
    shared: Arc<Shared>,
    /// The runtime's network configuration, which is to be written.
    conf: Option<PathBuf>,
    /// Why it cannot be written, as it was logged.
    failure: String,
}

impl Cni {
    /// Reads the attachments below `state`, and serves `socket`. `switch` is the socket of
    /// vswitchd, `directories` are those of vhost-user sockets, `wake` is called when attachments
    /// change.
    ///
    /// # Errors
    /// As text: the directory or the socket cannot be had.
    pub async fn start(
        (socket, state): (&Path, &Path),
        switch: &Path,
        directories: Directories,
        wake: Arc<Notify>,
    ) -> Result<Self, String> {
        let (store, records) = Store::open(state)?;
        let kernel = Netlink::open().map_err(|error| format!("netlink: {error}"))?;
        let shared = Arc::new(Shared::new(store, records, kernel, (switch, directories), wake));
        let listener = socket::listen(socket).await?;
        tokio::spawn(socket::serve(listener, Arc::clone(&shared)));
        tokio::spawn(sweep::forever(Arc::clone(&shared)));
        Ok(Self { shared, conf: None, failure: String::new() })
    }

    /// Writes the runtime's network configuration to a file once the switch forwards.
    #[must_use]
    pub fn announcing(self, conf: Option<PathBuf>) -> Self {
        Self { conf, ..self }
    }

    /// Tells whether an attachment has its socket in a directory.
    pub fn uses(&self) -> impl Fn(&Path) -> bool + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move |directory| shared.uses(directory)
    }

    /// The switch forwards: the runtime may call. What cannot be written is tried again at the next
    /// call.
    pub fn announce(&mut self) {
        let Some(path) = &self.conf else { return };
        match conf::write(path) {
            Ok(is_new) => {
                if is_new {
                    tracing::info!("cni: {} is written: the runtime may call", path.display());
                }
                self.conf = None;
            }
            Err(error) => {
                let failure = format!("cni: {} cannot be written: {error}", path.display());
                if failure != self.failure {
                    tracing::error!("{failure}");
                    self.failure = failure;
                }
            }
        }
    }

    /// Attachments of Pods, and the number of their last change.
    pub fn attachments(&self) -> (u64, Attachments) {
        self.shared.attachments()
    }

    /// Takes over what the Node is.
    pub fn follow(&self, node: Option<&NodeConfig>) {
        self.shared.follow(node);
    }

    /// Takes over what became of the attachments of a change: outcomes by Pods' names.
    pub fn told(&self, change: u64, pods: BTreeMap<String, Outcome>) {
        self.shared.told(Told { change, pods });
    }
}
