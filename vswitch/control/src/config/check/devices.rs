//! Interfaces, devices, files and directories that ports name.

use super::{Check, ConfigKey};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use vswitch_dataplane::port::{PortKind, VhostConfig, VhostMode};
use vswitch_dpdk::devargs::{MISSING_FILE_HINT, missing_file, pci_address};
use vswitch_net_types::suggest::did_you_mean;

impl Check<'_> {
    pub(super) fn devices(&mut self) {
        let interfaces = self.environment.interfaces();
        let config = self.config;
        let ports = config.bridges.iter().enumerate();
        for (b, p, port) in
            ports.flat_map(|(b, (_, ports))| ports.iter().enumerate().map(move |(p, port)| (b, p, port)))
        {
            let place = |key| ConfigKey::Port(b, p, key);
            if !self.environment.has_dpdk && needs_dpdk(&port.kind) {
                let problem = format!("this build of vswitchd has no DPDK, which type {} needs", port.kind.name());
                self.found.push(self.error(&place("type"), problem, "install a build with DPDK"));
                continue;
            }
            match &port.kind {
                PortKind::Dpdk { devargs, .. } => self.dpdk_device(&place("devargs"), devargs, interfaces.as_deref()),
                PortKind::VhostUser(vhost) => self.vhost(&place("path"), vhost),
                PortKind::Tap { interface, .. } => self.absent(&place("interface"), interface, interfaces.as_deref()),
                PortKind::AfPacket { interface } => {
                    self.present(&place("interface"), interface, interfaces.as_deref());
                }
                PortKind::Pcap { rx_file, tx_file, .. } => {
                    self.readable(&place("rx_file"), rx_file.as_deref());
                    self.creatable(&place("tx_file"), tx_file.as_deref());
                }
                PortKind::Internal { .. } => self.absent(&place("name"), &port.name, interfaces.as_deref()),
                PortKind::Patch { .. } | PortKind::Dummy | PortKind::Tunnel(_) => {}
            }
        }
    }

    /// The switch makes this interface: nobody else may have.
    fn absent(&mut self, place: &ConfigKey, name: &str, interfaces: Option<&[String]>) {
        if interfaces.is_some_and(|all| all.iter().any(|other| other == name)) && !self.places.is_refused(place) {
            let problem = format!("an interface named {name} exists already, the switch makes its own");
            let hint = format!("use another name, or: ip link delete {name}");
            self.found.push(self.error(place, problem, hint));
        }
    }

    fn present(&mut self, place: &ConfigKey, name: &str, interfaces: Option<&[String]>) {
        let Some(all) = interfaces.filter(|_| !self.places.is_refused(place)) else { return };
        if !all.iter().any(|other| other == name) {
            let suggestion = did_you_mean(name, all.iter().map(String::as_str));
            let hint = format!("{suggestion}`ip link` lists those of this network namespace");
            self.found.push(self.error(place, format!("there is no interface named {name:?}"), hint));
        }
    }

    fn dpdk_device(&mut self, place: &ConfigKey, devargs: &str, interfaces: Option<&[String]>) {
        if self.places.is_refused(place) {
            return;
        }
        if let Some(path) = missing_file(devargs) {
            self.found.push(self.error(place, format!("there is no {path}"), MISSING_FILE_HINT));
            return;
        }
        let mut parts = devargs.split(',');
        let device = parts.next().unwrap_or_default();
        if let Some(address) = pci_address(device) {
            if !self.environment.path("sys/bus/pci/devices").join(&address).exists() {
                let problem = format!("there is no PCI device {address}");
                self.found.push(self.error(place, problem, "`lspci -D` lists them"));
            }
        } else if (device.starts_with("net_af_xdp") || device.starts_with("net_af_packet"))
            && let Some(name) = parts.find_map(|part| part.strip_prefix("iface="))
        {
            self.present(place, name, interfaces);
        }
    }

    fn vhost(&mut self, place: &ConfigKey, vhost: &VhostConfig) {
        if self.places.is_refused(place) {
            return;
        }
        let path = &vhost.path;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let is_server = vhost.mode == VhostMode::Server;
        if !directory.is_dir() && !self.is_made_at_start(directory) {
            let problem = format!("there is no directory {directory:?}");
            let found = self.error(place, problem, format!("mkdir -p {}", directory.display()));
            // A client tries again and again: the directory may come with the guest.
            self.found.push(if is_server { found } else { found.warning() });
        } else if let Ok(metadata) = std::fs::metadata(path) {
            if !metadata.file_type().is_socket() {
                self.found.push(self.error(place, format!("{path:?} is not a socket"), "use another path"));
            } else if is_server && self.environment.has_listener(path) {
                let problem = format!("another process listens on {path:?}");
                self.found.push(self.error(place, problem, "stop it, use another path, or mode = \"client\""));
            }
        }
    }

    fn readable(&mut self, place: &ConfigKey, file: Option<&Path>) {
        let Some(file) = file.filter(|_| !self.places.is_refused(place)) else { return };
        let problem = match std::fs::metadata(file) {
            Ok(metadata) if !metadata.is_file() => format!("{file:?} is not a regular file"),
            Ok(_) => match std::fs::File::open(file) {
                Ok(_) => return,
                Err(error) => format!("{file:?} cannot be read: {error}"),
            },
            Err(error) => format!("{file:?} cannot be read: {error}"),
        };
        self.found.push(self.error(place, problem, "name a capture file that vswitchd may read"));
    }

    fn creatable(&mut self, place: &ConfigKey, file: Option<&Path>) {
        let Some(file) = file.filter(|_| !self.places.is_refused(place)) else { return };
        let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !directory.is_dir() {
            let problem = format!("there is no directory {directory:?}");
            self.found.push(self.error(place, problem, format!("mkdir -p {}", directory.display())));
        } else if file.is_dir() {
            self.found.push(self.error(place, format!("{file:?} is a directory"), "name a file"));
        }
    }
}

const fn needs_dpdk(kind: &PortKind) -> bool {
    matches!(kind, PortKind::Dpdk { .. } | PortKind::VhostUser(_) | PortKind::Pcap { .. })
}
