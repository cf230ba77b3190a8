//! What documents mean by each other: selectors, named ports, groups, tiers.

pub mod antrea;
pub mod antrea_context;
mod antrea_parts;
mod antrea_rule;
pub mod bandwidth;
pub mod claims;
mod doubtful;
mod families;
mod further;
pub mod groups;
pub mod k8s;
mod multicast;
pub mod net;
pub mod nodes;
pub mod own;
pub(crate) mod pods;
pub mod rule;
pub mod selector;
pub mod services;
mod slices;
mod spaces;
pub mod world;

pub use world::World;
