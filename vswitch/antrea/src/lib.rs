//! What an agent of Antrea's kind says (`proto/antrea/v1`), compiled to the tables, flows, groups
//! and meters of Antrea's pipeline.
//!
//! **Where in the walk**: nowhere near packets. `vswitch-antrea-node` owns a [`NodeState`], hands
//! it what agents write, and writes what it plans as one transaction of the bridge.
//!
//! **Design**: `docs/architecture/antrea-compiler.md`. An agent's objects are read (messages to
//! typed values), judged (what needs other objects: references,
//! overlaps), given numbers ([`Ids`]), and compiled, each to a [`CompiledObject`]: the flows,
//! groups and meters that are there because of it. The [`Store`] merges parts, since objects share
//! flows, and tells the difference to what was there as [`vswitch_flow::spec::Update`]s. Flows are
//! written as lines in the syntax of ovs-ofctl, as Antrea's pipeline document has them, and parsed
//! as an agent's would be.
//!
//! One module per kind of object holds all of it: `read`, `judge`, `claim`, `compile`; [`Object`]
//! leads there.
//!
//! **Limits**: those of the interface's comments; [`limits`].
//!
//! **Threads**: plain values. No clock, no I/O, no DPDK, no gRPC.
#![forbid(unsafe_code)]

mod address;
mod anti_spoof;
mod compiled;
mod contribution;
mod desired;
pub mod dns;
mod facts;
mod features;
mod flush;
pub mod fqdn;
pub mod gateway;
pub mod host;
mod ids;
pub mod igmp;
mod key;
pub mod limits;
mod macs;
pub mod membership;
mod node;
mod node_state;
pub mod object;
mod problem;
mod store;
mod tables;
pub mod tell;
#[cfg(test)]
mod testing;
pub mod traceflow;
mod tunnel_flows;
pub mod wire;

pub use address::{Cidr, Family};
pub use compiled::{CompiledObject, is_of_rule, rules_of};
pub use contribution::{Category, Contribution, FlowId};
pub use desired::{Claim, Desired};
pub use facts::{Facts, Ports};
pub use features::Features;
pub use flush::Flush;
pub use gateway::GatewayBridge;
pub use ids::{Effect, GroupKey, Ids, MeterKey, Priorities, Rank, RuleKey};
pub use key::{Key, Need, ObjectKind, Reference};
pub use node::{Gateway, NameLimits, Node, PacketCategory, Zones};
pub use node_state::{Kept, KeptError, NodeState, Plan, Snapshot, TraceflowRefused, Write};
pub use object::Object;
pub use object::policy::{Names, Pattern};
pub use problem::{Code, Problem, Problems};
pub use store::{OnWire, Store};
pub use tables::Table;
pub use traceflow::Traceflow;
pub use vswitch_net_types::Mac;
pub use wire::Wire;
