//! Files of attachments: `CONTAINER:INTERFACE.json` below `--cni-state`.
//!
//! A file is on the disk, and so is its name, before anything of the attachment is made. So an
//! agent that was killed finds all that it has made. `CONTAINER:INTERFACE.deleted` is a note of the
//! plug-in: the runtime has detached the interface while the agent was away.

use crate::attach;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use vswitch_net_types::shown;

/// The interface that every Pod has: each runtime of Kubernetes names it so, and kubelet has its
/// addresses.
pub(super) const OWN_INTERFACE: &str = "eth0";

/// The name of a socket in its directory.
const SOCKET: &str = "net.sock";

/// Bytes of a file: a record has some hundred.
const LEN_MAX: u64 = 64 << 10;

/// An interface of a container.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(super) struct Key {
    pub(super) container: String,
    pub(super) interface: String,
}

impl Key {
    /// Whether this is the Pod's own interface, and no further one.
    pub(super) fn is_own(&self) -> bool {
        self.interface == OWN_INTERFACE
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.container, self.interface)
    }
}

/// A Pod.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

impl Pod {
    pub(super) fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// An address of a container.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Address {
    pub(super) address: IpAddr,
    pub(super) length: u8,
    pub(super) gateway: Option<IpAddr>,
}

/// A route of a container.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Route {
    pub(super) destination: IpAddr,
    pub(super) length: u8,
    pub(super) gateway: IpAddr,
}

/// An attachment.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Record {
    #[serde(flatten)]
    pub(super) key: Key,
    /// Name of the network.
    pub(super) network: String,
    /// Path of the network namespace, and which one it was.
    pub(super) netns: String,
    pub(super) netns_id: (u64, u64),
    pub(super) pod: Option<Pod>,
    /// Interface and port on the Node.
    pub(super) host: String,
    /// Bridge of the port.
    pub(super) bridge: String,
    pub(super) mac: [u8; 6],
    pub(super) mtu: u32,
    pub(super) addresses: Vec<Address>,
    pub(super) routes: Vec<Route>,
    /// The interface is a socket; None: a pair of veth interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) vhost: Option<VhostUser>,
    /// Milliseconds since 1970-01-01 00:00:00 UTC.
    pub(super) created: u64,
}

impl Record {
    /// The name of the switch's Pod: the Pod's own, or with the interface's if it is a further one.
    pub(super) fn object(&self) -> Option<String> {
        let name = self.pod.as_ref()?.full_name();
        Some(if self.key.is_own() { name } else { attach::further(&name, &self.key.interface) })
    }
}

/// A vhost-user socket.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct VhostUser {
    /// The directory that it is in.
    pub(super) directory: PathBuf,
    /// The directory is a device plug-in's, which makes and removes it.
    pub(super) is_device: bool,
    /// Queue pairs.
    pub(super) queues: u32,
    /// Owner and group of the directory.
    pub(super) owner: (u32, u32),
}

impl VhostUser {
    /// The socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join(SOCKET)
    }
}

/// The directory.
#[derive(Debug)]
pub(super) struct Store {
    directory: PathBuf,
    /// Held as long as this lives.
    _lock: File,
}

impl Store {
    /// Opens the directory, and reads all files that can be read.
    pub(super) fn open(directory: &Path) -> Result<(Self, BTreeMap<Key, Record>), String> {
        let wrong = |error: io::Error| format!("{}: {error}", directory.display());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(wrong)?;
        let lock = File::create(directory.join("lock")).map_err(wrong)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(format!("{}: another agent with --cni has it; end that one first", directory.display()));
            }
            Err(fs::TryLockError::Error(error)) => return Err(wrong(error)),
        }
        let mut records = BTreeMap::new();
        for entry in fs::read_dir(directory).map_err(wrong)?.flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            match read(&path) {
                Ok(record) => drop(records.insert(record.key.clone(), record)),
                Err(reason) => tracing::warn!("cni: {}: {}", shown(&path.to_string_lossy()), shown(&reason)),
            }
        }
        Ok((Self { directory: directory.to_owned(), _lock: lock }, records))
    }

    fn file(&self, key: &Key, extension: &str) -> PathBuf {
        self.directory.join(format!("{key}.{extension}"))
    }

    /// Brings a record to the disk.
    pub(super) fn save(&self, record: &Record) -> io::Result<()> {
        let beside = self.file(&record.key, "new");
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(&serde_json::to_vec_pretty(record)?)?;
        file.sync_all()?;
        fs::rename(&beside, self.file(&record.key, "json"))?;
        File::open(&self.directory)?.sync_all()
    }

    /// Whether the record of a key is on the disk.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.file(key, "json").exists()
    }

    /// Removes the files of a key.
    pub(super) fn remove(&self, key: &Key) -> io::Result<()> {
        for extension in ["json", "deleted"] {
            match fs::remove_file(self.file(key, extension)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether the plug-in has left a note that the interface is detached.
    pub(super) fn is_deleted(&self, key: &Key) -> bool {
        self.file(key, "deleted").exists()
    }
}

/// A record, if the file has the name of what is in it.
fn read(path: &Path) -> Result<Record, String> {
    let len = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if len > LEN_MAX {
        return Err(format!("{len} bytes: no record is so long"));
    }
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let record: Record = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    let is_its = path.file_name().is_some_and(|name| name.to_string_lossy() == format!("{}.json", record.key));
    if is_its { Ok(record) } else { Err(format!("has the record of {}", record.key)) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::cni) fn record(container: &str, pod: &str, address: &str) -> Record {
        let address = Address { address: address.parse().expect("an address"), length: 24, gateway: None };
        Record {
            key: Key { container: container.to_owned(), interface: "eth0".to_owned() },
            network: "n".to_owned(),
            netns: format!("/run/netns/{container}"),
            netns_id: (4, 1),
            pod: Some(Pod { namespace: "default".to_owned(), name: pod.to_owned(), uid: "u".to_owned() }),
            host: format!("{pod}-x"),
            bridge: "br0".to_owned(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1450,
            addresses: vec![address],
            routes: Vec::new(),
            vhost: None,
            created: 1,
        }
    }

    #[test]
    fn what_was_saved_is_there_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let (store, records) = Store::open(directory.path()).expect("it is new");
        assert!(records.is_empty());
        let one = record("c1", "web", "10.0.0.5");
        store.save(&one).expect("it is saved");
        assert!(store.has(&one.key));
        assert!(Store::open(directory.path()).expect_err("it is in use").contains("another agent"));
        drop(store);
        let (store, records) = Store::open(directory.path()).expect("it is free");
        assert_eq!(records[&one.key], one);
        fs::write(directory.path().join("c1:eth0.deleted"), "").expect("a note");
        assert!(store.is_deleted(&one.key));
        store.remove(&one.key).expect("it is removed");
        store.remove(&one.key).expect("it is removed twice");
        assert!(!store.has(&one.key) && !store.is_deleted(&one.key));
    }

    #[test]
    fn files_that_are_none_keep_nobody_from_starting() {
        let directory = tempfile::tempdir().expect("a directory");
        let (store, _) = Store::open(directory.path()).expect("it is new");
        store.save(&record("c1", "web", "10.0.0.5")).expect("it is saved");
        drop(store);
        let text = fs::read(directory.path().join("c1:eth0.json")).expect("it is there");
        fs::write(directory.path().join("c2:eth0.json"), &text).expect("a file of another name");
        fs::write(directory.path().join("c3:eth0.json"), &text[..20]).expect("a file that is cut");
        let (_, records) = Store::open(directory.path()).expect("it starts");
        assert_eq!(records.keys().map(ToString::to_string).collect::<Vec<_>>(), ["c1:eth0"]);
    }
}
