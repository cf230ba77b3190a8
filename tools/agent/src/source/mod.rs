//! Where documents come from.
//!
//! [`Source`] is what `agent` asks of each. [`Directory`] reads files; `cluster` follows the API
//! server of a cluster.

#[cfg(feature = "cluster")]
pub mod cluster;
mod de;
mod decode;
mod directory;
mod file;
mod keep;
mod mounts;
mod restless;
mod split;
mod store;
mod tree;
mod walk;
mod words;
mod yaml;

use crate::kinds::{Document, DocumentKey};
use crate::problem::Problem;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::PathBuf;

pub use de::{FieldError, typed, typed_without_unknown};
pub use directory::Directory;
pub use store::Store;
pub use tree::{Entry, Tree, Value, WrongValue};
pub use words::Words;
pub use yaml::{Unread, YamlError, documents, parts};

/// Where documents come from. What cannot be read keeps what it said before: a source never takes a
/// loss for the end of its objects.
pub trait Source: Debug + Send {
    /// Looks for changes; whether there are any.
    fn scan(&mut self) -> bool;

    /// Documents in force. Of the objects that are disputed, something else said otherwise before.
    fn documents_after(&self, is_disputed: &dyn Fn(&DocumentKey) -> bool) -> Vec<Document>;

    /// What is wrong with what is there now.
    fn problems(&self) -> Vec<Problem>;

    /// Whether there is something of which nobody knows what it says or said.
    fn is_blind(&self) -> bool;

    /// Whether something that cannot be read may hold a policy of which nothing is known.
    fn may_hold_more(&self) -> bool;

    /// Files that may be being written: what they say is not known yet.
    fn unsettled(&self) -> Vec<PathBuf>;

    /// Whether the next scan decides what becomes of something that is not there any more.
    fn is_forgetting(&self) -> bool;

    /// The name under which an agent saves what it knows, if that is not the directory of its
    /// manifests.
    fn saved_as(&self) -> Option<&'static str> {
        None
    }

    /// Begins with what an earlier run has stored, apart from the entry `other`.
    fn load(&mut self, store: &mut Store, other: &str);

    /// Stores what has changed; whether that succeeded. Names of all that is to stay go to `names`.
    fn store(&mut self, store: &mut Store, names: &mut BTreeSet<String>) -> bool;
}
