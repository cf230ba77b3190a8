//! What others may ask of a switch.

use crate::drops::{DropCount, DropStream};
use crate::switch::capture::{Capture, CaptureSpec};
use crate::switch::conntrack::ConnectionStream;
use crate::switch::pipeline::{MegaflowInfo, NameMap, PacketStream, TraceHow, TraceInput, TraceReport, WriteError};
use crate::{
    Asker, BridgeChange, BridgeConfig, BridgeInfo, FdbFilter, FdbInfo, FdbStats, Health, MempoolInfo, NeighbourInfo,
    PortChange, PortEvent, PortInfo, RouteConfig, RouteInfo, RxqInfo, Switch, SwitchError, WorkerInfo,
};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::broadcast;
use vswitch_dataplane::conntrack::Conntrack;
use vswitch_dataplane::meter::Rates;
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::pipeline::state::{Applied, FlowCount, FlowInfo, FlowRemoved, GroupInfo, MeterInfo, TableInfo};
use vswitch_dataplane::pipeline::{ControllerInfo, Interest, RuleStats};
use vswitch_dataplane::port::dummy::Sent;
use vswitch_dataplane::port::{Cidr, PortConfig};
use vswitch_flow::spec::{FlowFilter, Update};
use vswitch_flow::text::PacketOut;
use vswitch_overlay::neighbours::Stats;
use vswitch_overlay::options::Mapping;

/// Declares the trait and its implementation by the real switch from one list.
macro_rules! switch_api {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        /// What others may ask of a switch: the methods of [`Switch`] that the services and the
        /// owner of agents' objects call. All of them block. The double of the tests is the other
        /// implementation.
        pub trait SwitchApi: Send + Sync + 'static {
            $(
                #[doc = concat!("[`Switch::", stringify!($name), "`].")]
                fn $name(&self $(, $argument: $type)*) $(-> $result)?;
            )*
        }

        impl SwitchApi for Switch {
            $(fn $name(&self $(, $argument: $type)*) $(-> $result)? { Self::$name(self $(, $argument)*) })*
        }
    };
}

switch_api! {
    fn add_bridge(&self, config: BridgeConfig) -> Result<(), SwitchError>;
    fn delete_bridge(&self, name: &str) -> Result<(), SwitchError>;
    fn set_bridge(&self, name: &str, change: BridgeChange) -> Result<(), SwitchError>;
    fn bridges(&self) -> Vec<BridgeInfo>;
    fn add_port(&self, bridge: &str, config: PortConfig) -> Result<PortInfo, SwitchError>;
    fn add_port_for(&self, bridge: &str, config: PortConfig, asker: Asker) -> Result<PortInfo, SwitchError>;
    fn delete_port(&self, bridge: &str, name: &str) -> Result<(), SwitchError>;
    fn modify_port(&self, bridge: &str, name: &str, change: &PortChange) -> Result<PortInfo, SwitchError>;
    fn ports(&self, bridge: &str) -> Result<Vec<PortInfo>, SwitchError>;
    fn subscribe(&self) -> broadcast::Receiver<PortEvent>;
    fn workers(&self) -> Vec<WorkerInfo>;
    fn clear_worker_stats(&self);
    fn rxqs(&self) -> Vec<RxqInfo>;
    fn pin_rxq(&self, port: &str, queue: u16, core: Option<u32>) -> Result<(), SwitchError>;
    fn rebalance(&self) -> usize;
    fn fdb(&self, bridge: &str) -> Result<Vec<FdbInfo>, SwitchError>;
    fn fdb_stats(&self, bridge: &str) -> Result<FdbStats, SwitchError>;
    fn fdb_add(&self, bridge: &str, port: &str, vlan: u16, mac: Mac) -> Result<(), SwitchError>;
    fn fdb_delete(&self, bridge: &str, vlan: u16, mac: Mac) -> Result<(), SwitchError>;
    fn fdb_flush(&self, bridge: &str, filter: &FdbFilter) -> Result<u64, SwitchError>;
    fn mempool(&self) -> MempoolInfo;
    fn health(&self) -> Health;
    fn report_disk(&self, what: &'static str, problem: Option<String>);
    fn slow_path(&self) -> Rates;
    fn drops(&self) -> Vec<DropCount>;
    fn watch_drops(&self, rate: u32) -> Result<DropStream, SwitchError>;
    fn names(&self, bridge: &str) -> Result<NameMap, SwitchError>;
    fn write_pipeline(&self, bridge: &str, updates: &[Update]) -> Result<Applied, WriteError>;
    fn add_table(&self, bridge: &str, number: Option<u8>, name: &str) -> Result<u8, SwitchError>;
    fn delete_table(&self, bridge: &str, name: &str) -> Result<u8, SwitchError>;
    fn tables(&self, bridge: &str) -> Result<Vec<TableInfo>, SwitchError>;
    fn flows(&self, bridge: &str, filter: &FlowFilter) -> Result<Vec<FlowInfo>, SwitchError>;
    fn count_flows(&self, bridge: &str, tables: &[u8], visit: &mut dyn FnMut(FlowCount<'_>)) -> Result<(), SwitchError>;
    fn rule_stats(&self, bridge: &str, flows: &[&FlowFilter]) -> Result<Vec<Option<Arc<RuleStats>>>, SwitchError>;
    fn groups(&self, bridge: &str, id: Option<u32>) -> Result<Vec<GroupInfo>, SwitchError>;
    fn meters(&self, bridge: &str, id: Option<u32>) -> Result<Vec<MeterInfo>, SwitchError>;
    fn packet_out(&self, bridge: &str, packet: &PacketOut) -> Result<(), WriteError>;
    fn controllers(&self, bridge: &str) -> Result<Vec<ControllerInfo>, SwitchError>;
    fn subscribe_packets(&self, bridge: &str, interest: Interest) -> Result<PacketStream, SwitchError>;
    fn resume_packet(&self, bridge: &str, token: &[u8], packet: &[u8]) -> Result<(), SwitchError>;
    fn resume_packets(&self, bridge: &str, tokens: &[Vec<u8>]) -> Result<usize, SwitchError>;
    fn subscribe_flows(&self, bridge: &str) -> Result<broadcast::Receiver<Arc<FlowRemoved>>, SwitchError>;
    fn trace(&self, bridge: &str, input: &TraceInput, how: &TraceHow) -> Result<TraceReport, SwitchError>;
    fn megaflows(&self, bridge: Option<&str>) -> Vec<MegaflowInfo>;
    fn conntrack(&self) -> Arc<Conntrack>;
    fn subscribe_connections(&self) -> Result<ConnectionStream, SwitchError>;
    fn routes(&self) -> Vec<RouteInfo>;
    fn add_route(&self, route: &RouteConfig) -> Result<(), SwitchError>;
    fn delete_route(&self, prefix: Cidr) -> Result<(), SwitchError>;
    fn lookup_route(&self, to: IpAddr) -> Result<RouteInfo, SwitchError>;
    fn neighbours(&self) -> Vec<NeighbourInfo>;
    fn neighbour_stats(&self) -> Stats;
    fn set_neighbour(&self, bridge: &str, ip: IpAddr, mac: Mac) -> Result<(), SwitchError>;
    fn ask_neighbour(&self, bridge: &str, ip: IpAddr) -> Result<Option<Mac>, SwitchError>;
    fn flush_neighbours(&self, bridge: Option<&str>) -> Result<u64, SwitchError>;
    fn tunnel_listeners(&self) -> Vec<(String, u16)>;
    fn option_map(&self, bridge: &str) -> Result<Vec<Mapping>, SwitchError>;
    fn add_options(&self, bridge: &str, mappings: &[Mapping]) -> Result<(), SwitchError>;
    fn delete_options(&self, bridge: &str, mappings: &[Mapping]) -> Result<(), SwitchError>;
    fn dummies_enabled(&self) -> bool;
    fn dummy_receive(&self, port: &str, packet: &[u8]) -> Result<Vec<Sent>, SwitchError>;
    fn dummy_link(&self, port: &str, up: bool) -> Result<(), SwitchError>;
    fn dummy_panic(&self, port: &str, sending: bool) -> Result<(), SwitchError>;
    fn time_stop(&self) -> Result<(), SwitchError>;
    fn time_warp(&self, ms: u64) -> Result<(), SwitchError>;
    fn cache_enable(&self, on: bool);
    fn cache_flush(&self);
    fn start_capture(&self, spec: &CaptureSpec) -> Result<Capture, SwitchError>;
    fn stop_capture(&self, id: u64) -> Result<(), SwitchError>;
}
