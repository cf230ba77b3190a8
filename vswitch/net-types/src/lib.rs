//! What every crate of the switch shares: Ethernet addresses, suggestions for misspelt words, and
//! text of others as people are shown it. The crate depends on no other crate of the workspace, and
//! holds no state.
#![forbid(unsafe_code)]

mod mac;
mod shown;
pub mod suggest;

pub use mac::{Mac, MacError};
pub use shown::shown;
