//! Where documents come from: files of a directory. (An agent of a real cluster would have another
//! one of this, which watches the API server.)

mod de;
mod decode;
mod directory;
mod file;
mod mounts;
mod restless;
mod split;
mod store;
mod tree;
mod walk;
mod words;
mod yaml;

pub use de::{FieldError, typed, typed_without_unknown};
pub use directory::Directory;
pub use store::Store;
pub use tree::{Entry, Tree, Value, WrongValue};
pub use words::Words;
pub use yaml::{Unread, YamlError, documents, parts};
