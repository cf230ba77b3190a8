//! The gRPC services of `proto/vswitch/v1`, one file each.
//!
//! **Where in the walk**: in front of [`vswitch_control::Switch`]; nothing here touches a packet.
//!
//! **Design**: a service turns a request into plain values (`parse`), calls the switch, and turns
//! what comes back into a response (`present`) or a status (`status`). It does nothing else: what
//! is valid and what is possible is the switch's business, except for what a plain value cannot
//! express. [`vswitch_control::SwitchApi`] is the list of what the services call; its other
//! implementation is the double of the tests. `api` is how they call it.
//!
//! **Limits**: at most [`api::CALLS_MAX`] reads and as many changes of the switch at a time;
//! statuses fit into an HTTP/2 header list.
//!
//! **Threads**: handlers run on the tokio runtime, calls of the switch on its blocking threads. A
//! call that has begun is finished even if the client has gone: a change is made whole or not at
//! all.

mod antrea;
mod api;
mod bridge;
mod capabilities;
mod capture;
mod config;
mod conntrack;
mod drops;
mod dummy;
mod fdb;
mod flow;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod group;
mod limits;
mod list;
mod listeners;
mod log;
mod meter;
mod observe;
mod packet;
mod parse;
mod pipeline;
mod port;
mod present;
#[cfg(test)]
mod random;
mod reading;
mod receive;
mod statistics;
mod status;
mod table;
mod text;
mod trace;
mod tunnel;
mod waiting;
mod watch;
mod worker;

pub(super) use antrea::AntreaServices;
pub(super) use api::Control;
pub(super) use bridge::Bridges;
pub(super) use capabilities::Capabilities;
pub(super) use capture::Captures;
pub(super) use config::Configs;
pub(super) use conntrack::Conntracks;
pub(super) use drops::Drops;
pub(super) use dummy::Dummies;
pub(super) use fdb::Fdbs;
pub(super) use flow::Flows;
pub(super) use group::Groups;
pub(super) use listeners::Listening;
pub(super) use log::Logs;
pub(super) use meter::Meters;
pub(super) use observe::{AddressNames, Observations, Observer};
pub(super) use packet::Packets;
pub(super) use pipeline::Pipelines;
pub(super) use port::Ports;
pub(super) use reading::{BridgeReading, Reading};
pub(super) use statistics::Statistics;
pub(super) use table::Tables;
pub(super) use trace::Traces;
pub(super) use tunnel::TunnelSupport;
pub(super) use worker::Workers;
