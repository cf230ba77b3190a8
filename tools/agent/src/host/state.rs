//! What the agent has made and cannot recognise by itself later: addresses, neighbours, and values
//! that it changed.
//!
//! **Design**: a file below `--state`, written before the change that it is about, and brought to
//! the disk. An agent that is killed between two changes knows at its next start what is its own.
//! Routes, routing rules and nftables' table are not here: they have a protocol number and a
//! comment of the agent's.
//!
//! The file is of one boot and one network namespace. After another boot nothing of it is there.
//! The file is locked as long as an agent runs.

use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// An address that the agent added.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct MadeAddress {
    pub(super) interface: String,
    pub(super) address: std::net::IpAddr,
    pub(super) length: u8,
}

/// A neighbour that the agent added.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct MadeNeighbour {
    pub(super) interface: String,
    pub(super) address: std::net::IpAddr,
    pub(super) mac: [u8; 6],
}

/// A value that the agent changed, with the one of before.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct ChangedSysctl {
    pub(super) path: String,
    pub(super) value: String,
    pub(super) before: String,
    /// Values that the kernel changes with it, as they were before: paths and values.
    pub(super) with: Vec<(String, String)>,
}

/// An interface that the agent changed, as it was before.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct ChangedLink {
    pub(super) interface: String,
    /// Another interface of this name has another index.
    pub(super) index: u32,
    pub(super) mac: Vec<u8>,
    pub(super) up: bool,
}

/// All of it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Made {
    /// Of which boot and network namespace.
    place: String,
    pub(super) addresses: Vec<MadeAddress>,
    pub(super) neighbours: Vec<MadeNeighbour>,
    pub(super) sysctls: Vec<ChangedSysctl>,
    pub(super) links: Vec<ChangedLink>,
}

impl Made {
    /// Whether nothing of it is left.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self { place: self.place.clone(), ..Self::default() }
    }
}

/// The file.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    /// Held as long as this lives.
    _lock: File,
    pub(super) made: Made,
    written: Made,
}

impl State {
    /// Opens the file below `directory`, and reads it.
    ///
    /// # Errors
    /// As text: another agent has it, or it cannot be read or made.
    pub(super) fn open(directory: &Path) -> Result<Self, String> {
        let shown = directory.display();
        let wrong = |error: io::Error| format!("{shown}: {error}");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(wrong)?;
        let lock = File::create(directory.join("host.lock")).map_err(wrong)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!("{shown}: another agent with --host has it; end that one first"));
            }
            Err(TryLockError::Error(error)) => return Err(wrong(error)),
        }
        let path = directory.join("host.json");
        let place = place().map_err(wrong)?;
        let made: Made = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", path.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Made::default(),
            Err(error) => return Err(wrong(error)),
        };
        let written = made.clone();
        let made = if made.place == place { made } else { Made { place, ..Made::default() } };
        Ok(Self { path, _lock: lock, made, written })
    }

    /// Brings it to the disk, if it is another one than there.
    pub(super) fn save(&mut self) -> io::Result<()> {
        if self.made == self.written {
            return Ok(());
        }
        let beside = self.path.with_extension("new");
        let mut file = File::create(&beside)?;
        file.write_all(&serde_json::to_vec_pretty(&self.made)?)?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        File::open(self.path.parent().unwrap_or(Path::new("/")))?.sync_all()?;
        self.written = self.made.clone();
        Ok(())
    }

    /// Nothing is left of what was made: neither is the file.
    pub(super) fn remove(self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => fs::remove_file(self.path.with_file_name("host.lock")),
        }
    }
}

/// The boot and the network namespace.
fn place() -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(format!("{} {}", boot.trim(), fs::metadata("/proc/self/ns/net")?.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(path: &str) -> ChangedSysctl {
        ChangedSysctl { path: path.to_owned(), value: "1".to_owned(), before: "0".to_owned(), with: Vec::new() }
    }

    #[test]
    fn what_was_saved_is_there_again_and_one_agent_has_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let below = directory.path().join("state");
        let mut state = State::open(&below).expect("it is new");
        assert!(state.made.is_empty());
        state.made.sysctls.push(value("net/ipv4/ip_forward"));
        state.save().expect("it is saved");
        assert!(State::open(&below).expect_err("it is in use").contains("another agent"));
        drop(state);
        let state = State::open(&below).expect("it is free");
        assert_eq!(state.made.sysctls, [value("net/ipv4/ip_forward")]);
        state.remove().expect("it is removed");
        assert_eq!(fs::read_dir(&below).expect("the directory").count(), 0);
    }

    #[test]
    fn what_another_boot_made_is_gone() {
        let directory = tempfile::tempdir().expect("a directory");
        let other = Made { place: "another".to_owned(), sysctls: vec![value("net/x")], ..Made::default() };
        fs::write(directory.path().join("host.json"), serde_json::to_vec(&other).expect("JSON")).expect("a file");
        assert!(State::open(directory.path()).expect("it is read").made.is_empty());
    }

    #[test]
    fn a_file_that_is_none_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("host.json"), "{").expect("a file");
        assert!(State::open(directory.path()).is_err());
    }
}
