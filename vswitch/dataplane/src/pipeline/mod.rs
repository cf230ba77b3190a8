//! What a packet means to a bridge. Today: the MAC table and the Ethernet learning switch
//! (`NORMAL`); the tables of rules come on top of it.
//!
//! **Where in the walk**: between parse and output. [`decide`] turns addresses and the ingress port
//! into a [`LearningVerdict`]; it touches no packet.
//!
//! **Design**: a [`Bridge`] is a read-only view that a snapshot carries; the only thing that
//! changes under a worker's hands is its [`Fdb`], which is made for that (atomic words, one writer
//! at a time, readers never wait).
//!
//! **Limits**: [`crate::limits::FDB_ENTRIES_MAX`], and a quota per port.
//!
//! **Threads**: any number of workers read and learn; the control side ages, flushes and adds
//! static addresses.

mod bridge;
mod changes;
mod controllers;
mod fdb;
mod learned;
mod learning;
mod log;
mod op_count;
mod packet_in;
mod program;
mod stage;
pub mod state;
pub mod translate;
mod world;

pub use bridge::FailMode;
pub use changes::Changes;
pub use controllers::{ControllerInfo, Fate};
pub use fdb::{Entry, Fdb, FdbKey, FdbPlace, FdbReader, FdbStats, Sighting};
pub use learned::{Learned, LearnedTable, LearnedTables};
pub use learning::{LearningVerdict, Lookup, decide, is_special, is_vendors};
pub use log::{ChangeLog, ChangedMatches};
pub use op_count::{Counted, OpCount};
pub use packet_in::{Continuation, Interest, NO_COOKIE, PacketIn, PacketIns, Paused, Received, Subscription};
pub use program::{Program, Rule, RuleStats, TABLES, Table, TableStats};
pub use stage::{FrozenState, Stage, Stages};
pub use translate::{
    Choice, Credit, Deps, Effect, Request, Start, Trace, Tracing, Translation, choose, format_megaflow, format_ops,
    trace, translate,
};
pub use world::{Bridge, PortFacts, World};
