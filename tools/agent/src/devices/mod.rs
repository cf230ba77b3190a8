//! The kubelet's device plug-in `vswitch.io/vhost`: a directory for a vhost-user socket in a
//! container.
//!
//! **Design**: a device is a directory below `--vhost-dir`, of the same name. `plugin` serves
//! Kubernetes' device plug-in API v1beta1
//! (<https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/>).
//! `allocate` makes directories, and says where they go in the container. The path there is that
//! on the Node: so the path that CNI tells the application (device-info file) holds in both.
//! `register` makes the plug-in known to each kubelet that starts, and `authority` makes its
//! requests readable. `vitals` says whether devices are healthy: they are not when the switch is
//! away for long. CNI does the rest: owner of the directory, port of the switch.
//!
//! **Limits**: devices have no NUMA node. A directory is emptied when it is allocated again, or
//! when CNI detaches it: a Pod without such a network leaves what it wrote there until then.
//!
//! **Threads**: tasks of the runtime. What blocks is on threads for that.

mod allocate;
mod authority;
mod plugin;
mod register;
mod vitals;

use allocate::Allocator;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
pub use vitals::Patience;

/// The name of the resource.
pub const RESOURCE: &str = "vswitch.io/vhost";

/// The largest number of devices: a bridge has as many ports.
pub const DEVICES_MAX: u16 = 1024;

/// Tells whether an attachment has its socket in a directory.
#[derive(Clone)]
pub struct Used(Arc<dyn Fn(&Path) -> bool + Send + Sync>);

impl Used {
    /// By a function.
    pub fn by(function: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }
}

impl fmt::Debug for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Used")
    }
}

/// What the plug-in offers, and where.
#[derive(Clone, Debug)]
pub struct Config {
    /// The kubelet's directory of device plug-ins.
    pub kubelet: PathBuf,
    /// Number of devices, 1 to [`DEVICES_MAX`].
    pub count: u16,
    /// Directories of sockets are here.
    pub vhost: PathBuf,
    /// Directories for hugepages are here, in a file system of hugepages.
    pub hugepages: Option<PathBuf>,
    /// Which directories are in use.
    pub used: Used,
    /// Allocation waits so long for a directory that is in use.
    pub wait: Duration,
    /// How long the switch may be away, and is to be there.
    pub patience: Patience,
    /// Between two looks at the kubelet's directory.
    pub period: Duration,
}

impl Config {
    /// With the values that an agent has.
    pub fn new(kubelet: &Path, count: u16, vhost: &Path, used: Used) -> Self {
        Self {
            kubelet: kubelet.to_owned(),
            count,
            vhost: vhost.to_owned(),
            hugepages: allocate::hugepages(Path::new(crate::vhost_dir::HUGEPAGES)),
            used,
            // A kubelet waits with other Pods meanwhile.
            wait: Duration::from_secs(10),
            patience: Patience::default(),
            period: Duration::from_secs(1),
        }
    }
}

/// The plug-in; it ends with this value.
#[derive(Debug)]
pub struct Devices {
    forwards: watch::Sender<bool>,
    tasks: [JoinHandle<()>; 2],
}

impl Devices {
    /// Starts it, in a runtime of tokio. Devices are unhealthy until the switch forwards.
    pub fn start(config: Config) -> Self {
        let (forwards, forwarding) = watch::channel(false);
        let (health, healthy) = watch::channel(false);
        let patience = config.patience;
        let (kubelet, period) = (config.kubelet.clone(), config.period);
        let plugin = plugin::Plugin::new(Allocator::new(config), healthy);
        let vitals = tokio::spawn(vitals::follow(forwarding, health, patience));
        Self { forwards, tasks: [vitals, tokio::spawn(register::forever(kubelet, plugin, period))] }
    }

    /// Takes over whether the switch answers and forwards.
    pub fn follow(&self, forwards: bool) {
        self.forwards.send_if_modified(|is| std::mem::replace(is, forwards) != forwards);
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
