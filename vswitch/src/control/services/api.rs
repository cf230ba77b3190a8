//! What the services need of a switch, and how they call it.

use super::status::{clip, status};
use crate::conntrack::Conntrack;
use crate::control::switch::conntrack::ConnectionStream;
use crate::control::switch::pipeline::{
    MegaflowInfo, NameMap, PacketStream, TraceHow, TraceInput, TraceReport, WriteError,
};
use crate::control::{
    BridgeChange, BridgeConfig, BridgeInfo, FdbFilter, FdbInfo, FdbStats, MempoolInfo, NeighbourInfo, PortChange,
    PortEvent, PortInfo, RouteConfig, RouteInfo, RxqInfo, Switch, SwitchError, WorkerInfo,
};
use crate::meter::Rates;
use crate::packet::Mac;
use crate::pipeline::state::{Applied, FlowCount, FlowInfo, FlowRemoved, GroupInfo, MeterInfo, TableInfo};
use crate::pipeline::{ControllerInfo, Interest, RuleStats};
use crate::port::dummy::Sent;
use crate::port::{Cidr, PortConfig};
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::{Semaphore, broadcast, watch};
use tonic::transport::server::UdsConnectInfo;
use tonic::{Extensions, Status};
use vswitch_flow::spec::{FlowFilter, Update};
use vswitch_flow::text::PacketOut;
use vswitch_tunnel::neighbours::Stats;
use vswitch_tunnel::options::Mapping;

/// Calls of the switch at a time. They block, and changes wait for each other anyway: more threads would only wait.
pub(in crate::control) const CALLS_MAX: usize = 8;

/// Declares the trait and its implementation by the real switch from one list.
macro_rules! switch_api {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        /// What the services need of a switch; see the methods of [`Switch`]. All of them block.
        pub(in crate::control) trait SwitchApi: Send + Sync + 'static {
            $(fn $name(&self $(, $argument: $type)*) $(-> $result)?;)*
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
    fn healthy(&self) -> bool;
    fn slow_path(&self) -> Rates;
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
    fn time_stop(&self) -> Result<(), SwitchError>;
    fn time_warp(&self, ms: u64) -> Result<(), SwitchError>;
    fn cache_enable(&self, on: bool);
    fn cache_flush(&self);
}

/// A call of the switch, which keeps its answer.
type Call = Box<dyn FnOnce(&dyn SwitchApi) + Send>;

/// The way from the services to the switch.
#[derive(Clone)]
pub(in crate::control) struct Control {
    switch: Arc<dyn SwitchApi>,
    calls: Arc<Semaphore>,
    /// Becomes true when the server is to stop: streams without an end of their own end then.
    pub(super) stopping: watch::Receiver<bool>,
}

impl Control {
    pub(in crate::control) fn new(switch: Arc<dyn SwitchApi>, stopping: watch::Receiver<bool>) -> Self {
        Self { switch, calls: Arc::new(Semaphore::new(CALLS_MAX)), stopping }
    }

    /// What one port may cost a worker.
    pub(in crate::control) fn slow_path(&self) -> Rates {
        self.switch.slow_path()
    }

    /// Asks the switch something, on a blocking thread.
    pub(super) async fn read<R, F>(&self, call: F) -> Result<R, Status>
    where
        R: Send + 'static,
        F: FnOnce(&dyn SwitchApi) -> R + Send + 'static,
    {
        let answer = Arc::new(Mutex::new(None)); // locked when there is an answer, not during the call
        let place = Arc::clone(&answer);
        self.run(Box::new(move |switch| *place.lock() = Some(call(switch)))).await?;
        let answer = answer.lock().take();
        answer.ok_or_else(|| Status::internal("the call ended without an answer; report it"))
    }

    /// Runs a call on a blocking thread. One type of call for all of them, since the runtime's code is compiled once for each.
    async fn run(&self, call: Call) -> Result<(), Status> {
        let permit = Arc::clone(&self.calls).acquire_owned().await.map_err(|error| Status::internal(error.to_string()));
        let (permit, switch) = (permit?, Arc::clone(&self.switch));
        let done = tokio::task::spawn_blocking(move || {
            // Held by the call, not by the handler, which the client may cancel.
            let _permit = permit;
            call(&*switch);
        });
        done.await.map_err(|error| Status::internal(format!("the call failed inside the switch: {error}; report it")))
    }

    /// Asks the switch something that can fail.
    pub(super) async fn try_read<R, F>(&self, call: F) -> Result<R, Status>
    where
        R: Send + 'static,
        F: FnOnce(&dyn SwitchApi) -> Result<R, SwitchError> + Send + 'static,
    {
        self.read(call).await?.map_err(|error| status(&error))
    }

    /// Changes the switch, and logs who asked for it and how it went.
    pub(super) async fn change<R, F>(&self, asked: Asked, call: F) -> Result<R, Status>
    where
        R: Send + 'static,
        F: FnOnce(&dyn SwitchApi) -> Result<R, SwitchError> + Send + 'static,
    {
        self.read(move |switch| {
            let result = call(switch);
            asked.log(result.as_ref().err().map(ToString::to_string).as_deref());
            result
        })
        .await?
        .map_err(|error| status(&error))
    }
}

/// Who asked for a change of what.
pub(super) struct Asked {
    rpc: &'static str,
    subject: String,
    uid: Option<u32>,
    pid: Option<i32>,
}

impl Asked {
    /// Takes the peer's credentials from the connection; names are quoted and cut, since anyone may have chosen them.
    pub(super) fn new(rpc: &'static str, extensions: &Extensions, names: &[&str]) -> Self {
        let peer = extensions.get::<UdsConnectInfo>().and_then(|info| info.peer_cred);
        let names: Vec<String> = names.iter().map(|name| format!("{:?}", clip(name, 64))).collect();
        Self { rpc, subject: names.join(" "), uid: peer.map(|peer| peer.uid()), pid: peer.and_then(|peer| peer.pid()) }
    }

    /// Logs how it went.
    pub(super) fn log(&self, error: Option<&str>) {
        let Self { rpc, subject, uid, pid } = self;
        match error {
            None => tracing::info!(rpc, subject, uid, pid, "changed"),
            Some(error) => tracing::warn!(rpc, subject, uid, pid, error = %clip(error, 512), "refused"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_log_are_quoted_and_cut() {
        let long = "x".repeat(1 << 20);
        let asked = Asked::new("AddPort", &Extensions::new(), &["br0\nfake=1", &long]);
        assert!(asked.subject.starts_with(r#""br0\nfake=1" "xxx"#), "{:?}", asked.subject);
        assert!(asked.subject.len() < 100, "a name of 1 MiB became {} bytes", asked.subject.len());
    }
}
