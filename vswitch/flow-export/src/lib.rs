//! Flows of a Kubernetes Node for collectors.
//!
//! **Where**: the agent makes a [`Flow`] of each record of a connection that its switch tells. This
//! crate has the two forms in which collectors take flows: IPFIX ([`ipfix`]) and Antrea's
//! FlowExportService ([`aggregator`]).
//!
//! **Design**: the crate encodes and opens no sockets, but for the gRPC client that is generated.
//! Information elements and their values are one table ([`elements`]), so a template and its
//! records cannot differ.
//!
//! **Limits**: a message of IPFIX has a maximum length. A record that is longer has shorter texts.
//!
//! **Threads**: none.
#![forbid(unsafe_code)]

pub mod aggregator;
pub mod elements;
mod flow;
pub mod ipfix;

pub use flow::{Counts, EgressUse, EndReason, Flow, FlowType, PodEnd, PolicyUse, RuleAction, ServiceUse};

/// The observation domain of a Node: FNV-1 of its name, as Antrea's exporter numbers Nodes.
#[must_use]
pub fn observation_domain(node: &str) -> u32 {
    node.bytes().fold(0x811c_9dc5, |hash: u32, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte))
}

#[cfg(test)]
mod tests {
    #[test]
    fn domains_of_nodes_are_hashes() {
        // Known values of FNV-1 with 32 bits.
        assert_eq!(super::observation_domain(""), 0x811c_9dc5);
        assert_eq!(super::observation_domain("a"), 0x050c_5d7e);
        assert_eq!(super::observation_domain("foobar"), 0x31f0_b262);
    }
}
