//! Features of a Node.

/// Features, defaults filled in. `ipv6` is the Node's family, here because a table depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, missing_docs)] // see the message
pub struct Features {
    pub proxy: bool,
    pub proxy_all: bool,
    pub antrea_policy: bool,
    pub egress: bool,
    pub egress_traffic_shaping: bool,
    pub traffic_control: bool,
    pub l7_network_policy: bool,
    pub multicast: bool,
    pub dsr: bool,
    pub pod_vlans: bool,
    pub ipv6: bool,
}
