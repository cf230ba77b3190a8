//! An API server of Kubernetes for tests: strict, in memory, and able to fail on demand.
//!
//! ```text
//!  client ──HTTP──▶ http ── route, rbac ──▶ write / read / watch ──▶ store (objects, history)
//!                    │                          │ admit, patch, schema, selector
//!                    └── discovery, control     └── kinds (built in, and by CRDs)
//!  test ──▶ Server: apply, get, requests, wait ── hurt
//! ```
//!
//! It speaks what kube-rs and `kubectl` ask for: discovery, lists in pages, watches with
//! bookmarks, patches, status subresources, CustomResourceDefinitions, tokens and RBAC. Where it
//! is less than Kubernetes, the head of the module says so. [`real`] starts a real API server
//! instead, and [`AnyServer`] is either of both, so that one suite holds them to the same.
//!
//! Limits: plain HTTP/1, JSON only, no admission webhooks, no managed fields, no tables.
//! Threads: [`Server`] has a runtime of its own. One lock guards its state, and nothing waits
//! while it is held.
#![forbid(unsafe_code)]

mod admit;
mod any;
mod body;
mod cause;
mod client;
mod control;
mod discovery;
mod error;
mod events;
mod http;
mod hurt;
mod hurts;
mod kinds;
mod kubeconfig;
mod log;
mod meta;
mod options;
mod patch;
mod rbac;
mod read;
pub mod real;
mod route;
mod schema;
mod selector;
mod server;
mod state;
mod store;
mod target;
mod watch;
mod write;
pub mod yaml;

pub use any::{AnyServer, Reply, WatchLines};
pub use cause::Cause;
pub use error::ApiError;
pub use hurt::Hurt;
pub use hurts::{Answer, Cut};
pub use kinds::{Kind, Version};
pub use log::Entry;
pub use options::Options;
pub use rbac::User;
pub use server::Server;
