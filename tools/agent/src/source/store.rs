//! A directory of what an agent knows: for a later run, which has not seen it.
//!
//! **Design**: each file is written beside, brought to the disk, and renamed. The directory is
//! brought to the disk before a caller relies on its names ([`Store::settle`]). A machine that
//! loses its power finds the old file or the new one.

mod names;

use crate::problem::{Origin, Problem};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The form of what is stored. What has another one is not read.
const VERSION: u32 = 1;

/// What names of files end with.
const END: &str = "json";

/// What names of files of documents from an API server begin with. Those of files are hashes.
const CLUSTER: &str = "cluster-";

/// What each file begins with.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[derive(Deserialize, Serialize)]
struct Stored<T> {
    version: u32,
    /// The version of the agent that wrote it.
    agent: String,
    body: T,
}

/// The directory. Only its owner may read it.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    names: BTreeSet<String>,
    /// What could not be read, or cannot be written.
    unread: Vec<Problem>,
    unwritten: Option<Problem>,
}

impl Store {
    /// What is below `state` of the manifests in `dir` for a Node.
    pub fn open(state: &Path, dir: &Path, node: &str) -> Self {
        let real = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        Self::of(state.join(names::of_directory(node, &real)))
    }

    /// What is below `state` of something else than a directory, for a Node.
    pub fn open_named(state: &Path, name: &str, node: &str) -> Self {
        // (No absolute path is so.)
        Self::of(state.join(names::of_directory(node, Path::new(name))))
    }

    fn of(dir: PathBuf) -> Self {
        let mut store = Self { dir, names: BTreeSet::new(), unread: Vec::new(), unwritten: None };
        match fs::read_dir(&store.dir) {
            Ok(entries) => {
                let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
                store.names = names.filter(|name| Path::new(name).extension().is_some_and(|end| end == END)).collect();
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => store.unread(None, &error.to_string()),
        }
        store
    }

    /// The name for what is known of a path.
    pub fn name_of(path: &Path) -> String {
        format!("{}.{END}", names::of_path(path))
    }

    /// The name for a part of what is known of the objects of a kind.
    pub fn name_of_objects(kind: &str, part: usize) -> String {
        format!("{CLUSTER}{kind}-{part}.{END}")
    }

    /// Whether a name is that of documents from an API server.
    pub fn is_of_cluster(name: &str) -> bool {
        name.starts_with(CLUSTER)
    }

    /// Names of what is there.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.names.iter()
    }

    /// What has a name, and whether this version of the agent wrote it; None: it cannot be read, or
    /// is not there.
    pub fn read<T: DeserializeOwned>(&mut self, name: &str) -> Option<(T, bool)> {
        if !self.names.contains(name) {
            return None;
        }
        match self.parsed::<T>(name) {
            Ok(stored) => Some((stored.body, stored.agent == env!("CARGO_PKG_VERSION"))),
            Err(reason) => {
                self.unread(Some(name), &reason);
                None
            }
        }
    }

    fn parsed<T: DeserializeOwned>(&self, name: &str) -> Result<Stored<T>, String> {
        let bytes = fs::read(self.dir.join(name)).map_err(|error| error.to_string())?;
        let head: Head = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        if head.version != VERSION {
            return Err(format!("has version {}, this agent reads {VERSION}", head.version));
        }
        serde_json::from_slice(&bytes).map_err(|error| error.to_string())
    }

    fn unread(&mut self, name: Option<&str>, reason: &str) {
        let path = name.map_or_else(|| self.dir.clone(), |name| self.dir.join(name));
        let reason = format!("saved documents cannot be read: {reason}; they have no effect");
        self.unread.push(Origin::new(&path.to_string_lossy(), 0, "").warning("", reason));
    }

    /// Writes something under a name, all of it or nothing; whether that succeeded.
    pub fn write<T: Serialize>(&mut self, name: &str, body: T) -> bool {
        let stored = Stored { version: VERSION, agent: env!("CARGO_PKG_VERSION").to_owned(), body };
        let result = serde_json::to_vec(&stored).map_err(io::Error::from).and_then(|bytes| self.put(name, &bytes));
        let is_written = self.note(result);
        if is_written {
            self.names.insert(name.to_owned());
        }
        is_written
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if !self.dir.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
            let outer = self.dir.parent().into_iter().flat_map(|state| [Some(state), state.parent()]).flatten();
            outer.filter(|outer| !outer.as_os_str().is_empty()).try_for_each(sync)?;
        }
        let beside = self.dir.join(format!("{name}.new"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(beside, self.dir.join(name))
    }

    /// Brings to the disk which names there are: what was written, and what was removed. Whether
    /// that succeeded.
    pub fn settle(&mut self) -> bool {
        let result = match sync(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        self.note(result)
    }

    /// Removes all but these names; whether that succeeded.
    pub fn keep(&mut self, names: &BTreeSet<String>) -> bool {
        let gone: Vec<String> = self.names.difference(names).cloned().collect();
        gone.into_iter().all(|name| {
            let result = match fs::remove_file(self.dir.join(&name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
            let is_gone = self.note(result);
            if is_gone {
                self.names.remove(&name);
            }
            is_gone
        })
    }

    fn note(&mut self, result: io::Result<()>) -> bool {
        let is_good = result.is_ok();
        self.unwritten = result.err().map(|error| {
            let reason = format!("documents cannot be saved: {error}; a restart knows only what files say then");
            Origin::new(&self.dir.to_string_lossy(), 0, "").warning("", reason)
        });
        is_good
    }

    /// Whether all that was there could be read.
    pub fn is_whole(&self) -> bool {
        self.unread.is_empty()
    }

    /// What could not be read, or cannot be written.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.unread.iter().chain(&self.unwritten)
    }
}

/// Brings the names in a directory to the disk.
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
