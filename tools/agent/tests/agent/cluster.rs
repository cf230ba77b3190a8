//! Documents from an API server: that of the tests, and a real one if there is one.

mod bandwidth;
mod bench;
mod follow;
mod histories;
mod node_port_local;
pub mod objects;
mod real;
mod scene;
