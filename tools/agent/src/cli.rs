//! The arguments.

use crate::devices::DEVICES_MAX;
use crate::export::{self, Target};
use clap::{ArgGroup, Parser};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where vswitchd listens unless configured otherwise.
const DEFAULT_SOCKET: &str = "/run/vswitch/vswitch.sock";

/// Where an agent saves what it knows unless told otherwise.
const DEFAULT_STATE: &str = "/var/lib/vswitch-agent";

/// Where the CNI plug-in looks for the agent unless configured otherwise.
const DEFAULT_CNI: &str = "/run/vswitch/cni.sock";

/// Where an agent has what it has attached unless told otherwise.
const DEFAULT_CNI_STATE: &str = "/var/lib/vswitch/cni";

/// Where a kubelet looks for device plug-ins unless its `--root-dir` says otherwise.
const DEFAULT_DEVICE_PLUGINS: &str = "/var/lib/kubelet/device-plugins";

/// Where files of PacketCaptures are unless told otherwise.
const DEFAULT_CAPTURES: &str = "/var/lib/vswitch/packetcapture";

/// Where directories of vhost-user sockets are unless told otherwise.
const DEFAULT_VHOST: &str = "/run/vswitch/vhost";
const DEFAULT_PODS: &str = "/run/vswitch/pods";

const AFTER_HELP: &str = "\
With --host the agent sets up the host's kernel, too: addresses, routes, rules, nftables and sysctls. It then needs CAP_NET_ADMIN, and nft(8). Without --dir
and --cluster it does that alone.

Manifests are files *.yaml, *.yml and *.json below --dir. What is wrong is told as `FILE:LINE Kind namespace/name: field: reason; hint`.

What the Node is beside what Kubernetes knows of it says a document of apiVersion `vswitch.io/v1`, kind `NodeConfig`, named as the Node or `default`. Pods of the Node have
annotations vswitch/port and vswitch/mac.

Exit codes: 0 done; 1 something is wrong or was refused; 2 wrong usage; 3 vswitchd cannot be reached (--once).
The environment variable VSWITCH_SOCKET names the socket where --socket is not given, RUST_LOG what is logged.";

/// Reads Kubernetes manifests, or follows an API server, and tells vswitchd what is to be on this
/// Node.
#[derive(Debug, Parser)]
#[command(name = "vswitch-agent", version, after_help = AFTER_HELP)]
#[command(group(ArgGroup::new("documents").args(["dir", "cluster"]).multiple(true)))]
pub struct Cli {
    /// Directory of the manifests; looked at each period.
    #[arg(long, value_name = "PATH", requires = "node", required_unless_present_any = ["cluster", "host", "host_plan", "host_clear"])]
    pub dir: Option<PathBuf>,
    /// Follow the API server of a cluster, by the service account of the agent's Pod.
    #[arg(long, requires = "node")]
    pub cluster: bool,
    /// With --cluster: file that says where the API server is, and who the agent is.
    #[arg(long, value_name = "PATH", requires = "cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// Name of this Node in the cluster.
    #[arg(long, value_name = "NAME", requires = "documents")]
    pub node: Option<String>,
    /// File with this Node's NodeConfig, if that is not in the directory.
    #[arg(long, value_name = "PATH")]
    pub node_config: Option<PathBuf>,
    /// Socket of vswitchd.
    #[arg(long, value_name = "PATH", env = "VSWITCH_SOCKET", default_value = DEFAULT_SOCKET)]
    pub socket: PathBuf,
    /// Directory in which the agent saves what documents said when they were right, for its next
    /// start.
    #[arg(long, value_name = "PATH", default_value = DEFAULT_STATE)]
    pub state: PathBuf,
    /// Save nothing, and begin with nothing that was saved.
    #[arg(long, conflicts_with = "state")]
    pub no_state: bool,
    /// Between two looks at the files; one that has changed is read when it has been the same for
    /// as long.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(20..=60_000))]
    pub period_ms: u64,
    /// One wrong document refuses all changes, one refused object all objects; what is not known is
    /// wrong. Without it, what is right is applied.
    #[arg(long)]
    pub strict: bool,
    /// Open the gate, and let new Pods in, even if a file cannot be read, in which a policy may be,
    /// and whatever the switch refuses.
    #[arg(long)]
    pub open_anyway: bool,
    /// Serve no health check NodePorts: somebody else does, such as kube-proxy.
    #[arg(long)]
    pub no_health_checks: bool,
    /// Answer /livez, /readyz and /metrics at this address, such as 127.0.0.1:9478.
    #[arg(long, value_name = "ADDR", requires = "documents", conflicts_with_all = ["once", "print"])]
    pub health: Option<SocketAddr>,
    /// Directory of the files of PacketCaptures.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_CAPTURES, requires = "cluster")]
    pub packet_captures: PathBuf,
    /// Send flows there: ipfix:udp:HOST:PORT, ipfix:tcp:HOST:PORT, or grpc:HOST:PORT of Antrea's
    /// Flow Aggregator. May be given four times.
    #[arg(long, value_name = "TARGET", requires = "documents", conflicts_with_all = ["once", "print"])]
    pub flow_export: Vec<Target>,
    /// Time between two flows of a connection that has packets, 1s to 1440m.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = export::seconds, requires = "flow_export")]
    pub flow_export_active: u32,
    /// Time without packets after which a connection has a last flow until it has packets again.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = export::seconds, requires = "flow_export")]
    pub flow_export_idle: u32,
    /// Certificates in PEM of those who sign collectors of gRPC. Without it gRPC has no TLS.
    #[arg(long, value_name = "PATH", requires = "flow_export")]
    pub flow_export_ca: Option<PathBuf>,
    /// Certificate in PEM that the agent shows collectors of gRPC.
    #[arg(long, value_name = "PATH", requires_all = ["flow_export_ca", "flow_export_key"])]
    pub flow_export_cert: Option<PathBuf>,
    /// Key in PEM of that certificate.
    #[arg(long, value_name = "PATH", requires = "flow_export_cert")]
    pub flow_export_key: Option<PathBuf>,
    /// Serve the CNI plug-in on this socket: it makes interfaces and ports of Pods of this Node.
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = DEFAULT_CNI, requires = "node",
          conflicts_with_all = ["once", "print"])]
    pub cni: Option<PathBuf>,
    /// Directory of what was attached for the CNI plug-in.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_CNI_STATE, requires = "cni")]
    pub cni_state: PathBuf,
    /// Directory of vhost-user sockets of devices: each device of the device plug-in has one in it.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_VHOST)]
    pub vhost_dir: PathBuf,
    /// Directory of vhost-user sockets of Pods without a device: UID/INTERFACE in it.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_PODS, requires = "cni")]
    pub pods_dir: PathBuf,
    /// Write the container runtime's network configuration to this file once the switch forwards.
    /// A file that is there stays.
    #[arg(long, value_name = "PATH", requires = "cni")]
    pub cni_conf: Option<PathBuf>,
    /// Offer the resource vswitch.io/vhost to the kubelet that has this directory of device
    /// plug-ins: directories for vhost-user sockets.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = DEFAULT_DEVICE_PLUGINS, requires = "node",
          conflicts_with_all = ["once", "print"])]
    pub device_plugin: Option<PathBuf>,
    /// Number of devices of vswitch.io/vhost.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=i64::from(DEVICES_MAX)),
          requires = "device_plugin")]
    pub vhost_devices: u16,
    /// Sync once, and exit.
    #[arg(long, conflicts_with = "print")]
    pub once: bool,
    /// Print what the switch would be told, and exit; no switch is needed.
    #[arg(long)]
    pub print: bool,
    /// Apply the host plan of the switch to this host, and keep it so.
    #[arg(long, conflicts_with_all = ["no_state", "print"])]
    pub host: bool,
    /// Print the host plan, and exit; nothing changes.
    #[arg(long, conflicts_with_all = ["host", "dir", "cluster"])]
    pub host_plan: bool,
    /// With --host-plan: as JSON.
    #[arg(long, requires = "host_plan")]
    pub json: bool,
    /// Take back what --host has done to this host, and exit; no switch is needed.
    #[arg(long, conflicts_with_all = ["host", "host_plan", "dir", "cluster", "no_state"])]
    pub host_clear: bool,
}
