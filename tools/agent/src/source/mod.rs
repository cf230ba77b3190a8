//! Where documents come from: files of a directory. (An agent of a real cluster would have another one of this, which watches the API server.)

mod de;
mod directory;
mod file;
mod tree;
mod walk;
mod yaml;

pub use de::{FieldError, typed, typed_without_unknown};
pub use directory::Directory;
pub use tree::{Entry, Tree, Value};
pub use yaml::{Unread, Words, YamlError, documents, parts};
