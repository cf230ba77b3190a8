//! Verbs of tunnels: routes, neighbours, Geneve's options.

use clap::Subcommand;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Tunnel {
    /// Show the routes of tunnels, like `ovs-appctl ovs/route/show`.
    RouteShow,
    /// Add a route, like `ovs-appctl ovs/route/add`.
    RouteAdd {
        /// Where to, such as 10.0.0.0/8.
        prefix: String,
        /// The port that it leads out of, which has addresses.
        port: String,
        /// The next hop, and `src=ADDRESS`: our own address to be used.
        #[arg(value_name = "GATEWAY|src=ADDRESS", num_args = 0..=2)]
        words: Vec<String>,
    },
    /// Remove a route that was added, like `ovs-appctl ovs/route/del`.
    RouteDel {
        /// Where it leads to.
        prefix: String,
    },
    /// Show the way to an address, like `ovs-appctl ovs/route/lookup`.
    RouteLookup {
        /// The address.
        address: String,
    },
    /// Show the next hops of tunnels, like `ovs-appctl tnl/neigh/show`.
    TnlNeighShow {
        /// How often they changed, were held off while they quarrelled, were refused or forgotten,
        /// too.
        #[arg(short = 's', long)]
        statistics: bool,
    },
    /// Say who a next hop is, like `ovs-appctl tnl/neigh/set`.
    TnlNeighSet {
        /// Name of the bridge.
        bridge: String,
        /// Its IP address.
        address: String,
        /// Its MAC address.
        #[arg(value_parser = super::mac)]
        mac: [u8; 6],
    },
    /// Forget the next hops of a bridge, or all, like `ovs-appctl tnl/neigh/flush`.
    TnlNeighFlush {
        /// Name of the bridge.
        bridge: Option<String>,
    },
    /// Show what packets are taken for ones of tunnels by, like `ovs-appctl tnl/ports/show`.
    TnlPortsShow,
    /// Give Geneve's options names, like `ovs-ofctl add-tlv-map`.
    AddTlvMap {
        /// Name of the bridge.
        bridge: String,
        /// Options and fields: `{class=0xffff,type=0,len=4}->tun_metadata0[,...]`.
        mappings: String,
    },
    /// Take names of Geneve's options away, all if none is given, like `ovs-ofctl del-tlv-map`.
    DelTlvMap {
        /// Name of the bridge.
        bridge: String,
        /// As with add-tlv-map.
        mappings: Option<String>,
    },
    /// Show the names of Geneve's options, like `ovs-ofctl dump-tlv-map`.
    DumpTlvMap {
        /// Name of the bridge.
        bridge: String,
    },
}
