//! What the configuration of the switch asks of the machine.
//!
//! The file is judged by `vswitchd --check`, where that is at hand. Here values of the wrong kind
//! are as if they were not there.

use std::collections::BTreeSet;
use std::path::Path;
use toml::{Table, Value};

/// Where the file is unless it is named.
pub(super) const CONFIG_DEFAULT: &str = "/etc/vswitch/vswitchd.toml";

/// A socket of a guest.
#[derive(Clone, Debug)]
pub(super) struct GuestSocket {
    pub(super) port: String,
    pub(super) path: String,
    /// The guest makes it.
    pub(super) by_guest: bool,
}

/// What the file says of the machine; defaults where it says nothing.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// The file.
    pub(super) file: String,
    /// It was named, not assumed.
    pub(super) is_named: bool,
    /// Why it cannot be used: it is not there, or is no TOML.
    pub(super) problem: Option<String>,
    pub(super) memory_mb: u64,
    pub(super) hugepages: bool,
    /// None: the highest core available.
    pub(super) worker_cores: Option<BTreeSet<u32>>,
    pub(super) main_core: Option<u32>,
    pub(super) socket: String,
    /// Devices of ports of type dpdk, without their arguments.
    pub(super) devices: Vec<String>,
    pub(super) guests: Vec<GuestSocket>,
    /// Ports that need `/dev/net/tun`.
    pub(super) tun_ports: Vec<String>,
    /// Ports that are interfaces of the host: port, interface.
    pub(super) interfaces: Vec<(String, String)>,
    /// Directories that must be there: key, directory.
    pub(super) directories: Vec<(&'static str, String)>,
}

impl Settings {
    /// Of a file, or of the default one, with its text or why there is none.
    pub(super) fn read(config: Option<&Path>, text: Result<String, String>) -> Self {
        let file = config.map_or_else(|| CONFIG_DEFAULT.to_owned(), |path| path.display().to_string());
        let parsed = text.and_then(|text| text.parse::<Table>().map_err(|error| error.message().to_owned()));
        let (table, problem) = match parsed {
            Ok(table) => (table, None),
            Err(problem) => (Table::new(), Some(problem)),
        };
        Self { file, is_named: config.is_some(), problem, ..Self::of(&table) }
    }

    fn of(table: &Table) -> Self {
        let dpdk = section(table, "dpdk");
        let number = |value: &Value| u64::try_from(value.as_integer()?).ok();
        let core = |value: &Value| u32::try_from(value.as_integer()?).ok();
        let cores = |value: &Value| Some(value.as_array()?.iter().filter_map(core).collect());
        let mut settings = Self {
            memory_mb: dpdk.get("memory_mb").and_then(number).unwrap_or(512),
            hugepages: dpdk.get("hugepages").and_then(Value::as_bool).unwrap_or(true),
            worker_cores: dpdk.get("worker_cores").and_then(cores),
            main_core: dpdk.get("main_core").and_then(core),
            socket: text(section(table, "control"), "socket").unwrap_or(crate::cli::DEFAULT_SOCKET).to_owned(),
            ..Self::default()
        };
        if let Some(file) = text(section(table, "conntrack"), "state_file") {
            let directory = Path::new(file).parent().unwrap_or_else(|| Path::new("/"));
            settings.directories.push(("[conntrack] state_file", directory.display().to_string()));
        }
        if let Some(directory) = text(section(table, "antrea"), "state_dir") {
            settings.directories.push(("[antrea] state_dir", directory.to_owned()));
        }
        for bridge in tables(table, "bridge") {
            tables(bridge, "port").for_each(|port| settings.add_port(port));
        }
        settings
    }

    fn add_port(&mut self, port: &Table) {
        let name = text(port, "name").unwrap_or_default().to_owned();
        match text(port, "type") {
            Some("dpdk") => {
                let devargs = text(port, "devargs").unwrap_or_default();
                self.devices.push(devargs.split(',').next().unwrap_or_default().to_owned());
            }
            Some("vhost-user") => {
                let path = text(port, "path").unwrap_or_default().to_owned();
                let by_guest = text(port, "mode") != Some("server");
                self.guests.push(GuestSocket { port: name, path, by_guest });
            }
            Some("tap" | "internal") => self.tun_ports.push(name),
            Some("af_packet") => {
                let interface = text(port, "interface").unwrap_or(&name).to_owned();
                self.interfaces.push((name, interface));
            }
            _ => {}
        }
    }
}

fn section<'a>(table: &'a Table, name: &str) -> &'a Table {
    static EMPTY: std::sync::LazyLock<Table> = std::sync::LazyLock::new(Table::new);
    table.get(name).and_then(Value::as_table).unwrap_or(&EMPTY)
}

fn tables<'a>(table: &'a Table, name: &str) -> impl Iterator<Item = &'a Table> {
    table.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

fn text<'a>(table: &'a Table, key: &str) -> Option<&'a str> {
    table.get(key).and_then(Value::as_str)
}

/// Whether a device is named by its PCI address: `0000:3b:00.0`, `3b:00.0`.
pub(super) fn is_pci(device: &str) -> bool {
    let hex = |text: &str, len: usize| text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit());
    let Some((bus, function)) = device.rsplit_once('.') else { return false };
    let mut parts = bus.rsplit(':');
    let (slot, bus, domain) = (parts.next(), parts.next(), parts.next());
    hex(function, 1)
        && slot.is_some_and(|slot| hex(slot, 2))
        && bus.is_some_and(|bus| hex(bus, 2))
        && domain.is_none_or(|domain| hex(domain, 4))
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses() {
        assert!(is_pci("0000:3b:00.0") && is_pci("3b:00.1"));
        assert!(!is_pci("net_null0") && !is_pci("0000:3b:00") && !is_pci("zz:00.0") && !is_pci("1:0000:3b:00.0"));
    }

    #[test]
    fn the_example_file_is_understood() {
        let example = include_str!("../../../../vswitch/vswitchd.example.toml");
        let settings = Settings::of(&example.parse().expect("the example is TOML"));
        assert_eq!((settings.memory_mb, settings.hugepages), (512, true));
        assert_eq!(settings.guests[0].path, "/run/vswitch/pod-a.sock");
        assert!(settings.guests[0].by_guest);
        assert_eq!(settings.tun_ports, ["br-int", "tap0"]);
    }

    #[test]
    fn wrong_kinds_are_as_if_not_there() {
        let settings =
            Settings::of(&"bridge = 1\n[dpdk]\nmemory_mb = \"x\"\nworker_cores = 3\n".parse().expect("TOML"));
        assert_eq!((settings.memory_mb, settings.worker_cores), (512, None));
    }
}
