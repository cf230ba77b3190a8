//! What tests of several crates share. No program depends on it: it is a dev-dependency only.
//!
//! **Where in the walk**: nowhere.
//!
//! **Design**: [`frames`] are packets by hand, [`rng`] numbers from a seed, [`antrea`] the names of
//! the pipeline that Antrea documents, [`certificates`] those of openssl(1); they need no other
//! crate. [`double`] (feature `switch`) is a
//! switch without ports and packets, for tests of what stands above `vswitch-control`. Its
//! pipelines and its connection tracker are real; no packet comes to them but by hand.
//!
//! **Limits**: those of the real ones; streams of the double are short, so that tests can overrun
//! them.
//!
//! **Threads**: a double may be called from any thread.
#![forbid(unsafe_code)]

pub mod antrea;
pub mod certificates;
#[cfg(feature = "switch")]
pub mod double;
pub mod frames;
pub mod rng;
