//! An agent for a Node: it reads Kubernetes manifests, or follows the API server of a cluster. It
//! resolves what objects say of each other, and tells the switch what is to be, by `antrea.v1`.
//!
//! `host` does the host's part of it.
//!
//! `source` is where documents come from, `kinds` what they may say, `model` all of them by name;
//! `resolve` finds out what selectors mean, `project` what the Node's switch has to know, `drive`
//! tells it. `health` answers load balancers, `probe` a kubelet. `cni` gives Pods their ports, and
//! `attach` writes them into the Pods' documents. `devices` gives containers directories for
//! vhost-user sockets. `names` tells the switch what addresses are called. `export`
//! sends flows to collectors. `serving` is what the agent does for the cluster beside its switch.
#![forbid(unsafe_code)]

pub mod agent;
#[cfg(feature = "cluster")]
pub mod annotate;
#[cfg(feature = "cluster")]
pub mod assign;
pub mod attach;
pub mod cli;
pub mod cni;
pub mod devices;
pub mod drive;
pub mod export;
#[cfg(feature = "cluster")]
pub mod feedback;
mod hash;
pub mod health;
pub mod host;
pub mod kinds;
mod last_failure;
#[cfg(feature = "cluster")]
pub mod lease;
pub mod model;
pub mod names;
#[cfg(feature = "cluster")]
pub mod packetcapture;
pub mod pools;
pub mod probe;
pub mod problem;
pub mod project;
#[cfg(feature = "cluster")]
pub mod realized;
pub mod resolve;
pub mod run;
pub mod serving;
pub mod signals;
pub mod source;
pub mod sources;
pub mod status;
#[cfg(feature = "cluster")]
pub mod traceflow;
pub mod vhost_dir;
#[cfg(feature = "cluster")]
mod watched;
