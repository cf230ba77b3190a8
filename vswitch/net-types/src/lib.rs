//! Values that every crate of the switch shares: Ethernet addresses, and suggestions for misspelt
//! words. The crate depends on no other crate of the workspace, and holds no state.
#![forbid(unsafe_code)]

mod mac;
pub mod suggest;

pub use mac::{Mac, MacError};
