//! Nodes of Antrea's kind in one process: a real `vswitchd` with ports of kind `dummy`, told by
//! gRPC as an agent tells it, and around it Pods, a host, other Nodes and an application-aware
//! engine that are values here. A connection is a few packets, so hundreds of configurations take
//! seconds. Real kernels are in `tools/tests`.

#[path = "../common/mod.rs"]
mod common;

mod combinations;
mod engine;
mod frame;
mod learned;
mod objects;
mod reach;
mod switch;
mod world;
