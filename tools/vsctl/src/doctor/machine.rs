//! The machine as its files tell it: `/proc`, `/sys`, `/etc`, below a root that may be another one.

use super::list;
use super::settings::{CONFIG_DEFAULT, Settings, is_pci};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes of a file that are read.
const FILE_LEN_MAX: u64 = 1 << 20;

/// What is known of the machine.
#[derive(Debug)]
pub(crate) struct Machine {
    root: PathBuf,
    /// What the configuration asks for.
    pub(super) settings: Settings,
    /// The process of the switch, if one runs.
    pub(super) process: Option<u32>,
}

/// What is known of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathFacts {
    pub(super) is_directory: bool,
    pub(super) is_socket: bool,
    /// Permission bits.
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Machine {
    /// The machine below a root, with the configuration of this file there.
    pub(crate) fn read(root: &Path, config: Option<&Path>) -> Self {
        let mut machine = Self { root: root.to_owned(), settings: Settings::default(), process: None };
        machine.process = machine.find_process("vswitchd");
        // A file that is named is one of this machine, also if the rest is another one.
        let text = match config {
            Some(path) => fs::read_to_string(path).map_err(|error| error.to_string()),
            None => machine.text(CONFIG_DEFAULT).ok_or_else(|| "it cannot be read".to_owned()),
        };
        machine.settings = Settings::read(config, text);
        machine
    }

    /// Whether it is this machine, and not one whose files lie elsewhere.
    pub(super) fn is_here(&self) -> bool {
        self.root == Path::new("/")
    }

    /// A path of the machine, as this program reaches it.
    pub(super) fn reach(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The text of a file, without blanks at its ends. None: it cannot be read.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let mut bytes = Vec::new();
        fs::File::open(self.reach(path)).ok()?.take(FILE_LEN_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A number that is all of a file.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// A list of numbers that is all of a file.
    pub(super) fn numbers(&self, path: &str) -> Option<BTreeSet<u32>> {
        Some(list(&self.text(path)?))
    }

    /// Names in a directory, sorted. Empty: it cannot be read.
    pub(super) fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.reach(directory)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// The last part of where a link leads.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        Some(fs::read_link(self.reach(path)).ok()?.file_name()?.to_str()?.to_owned())
    }

    /// What is at a path; links are followed.
    pub(super) fn path(&self, path: &str) -> Option<PathFacts> {
        let metadata = fs::metadata(self.reach(path)).ok()?;
        let kind = metadata.file_type();
        Some(PathFacts {
            is_directory: kind.is_dir(),
            is_socket: kind.is_socket(),
            mode: metadata.mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
        })
    }

    /// The value behind a name in a file of lines `Name: value`.
    pub(super) fn field(&self, path: &str, name: &str) -> Option<String> {
        let text = self.text(path)?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
        Some(line.trim().to_owned())
    }

    /// The first process of this name, by number.
    fn find_process(&self, name: &str) -> Option<u32> {
        let mut pids: Vec<u32> = self.names("/proc").iter().filter_map(|name| name.parse().ok()).collect();
        pids.sort_unstable();
        pids.into_iter().find(|pid| self.text(&format!("/proc/{pid}/comm")).as_deref() == Some(name))
    }

    /// Cores that workers are to poll on.
    pub(super) fn worker_cores(&self) -> BTreeSet<u32> {
        let configured = self.settings.worker_cores.clone();
        configured.unwrap_or_else(|| self.available().into_iter().next_back().into_iter().collect())
    }

    /// Cores that the switch may use.
    pub(super) fn available(&self) -> BTreeSet<u32> {
        let process = self.process.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
        let allowed = self.field(&format!("/proc/{process}/status"), "Cpus_allowed_list").map(|text| list(&text));
        allowed.or_else(|| self.numbers("/sys/devices/system/cpu/online")).unwrap_or_default()
    }

    /// The NUMA node of a core. Machines without nodes have node 0.
    pub(super) fn node_of(&self, core: u32) -> u32 {
        let has = |node: &&String| {
            let cores = self.numbers(&format!("/sys/devices/system/node/{node}/cpulist"));
            cores.is_some_and(|cores| cores.contains(&core))
        };
        let nodes = self.nodes();
        nodes.iter().find(has).and_then(|node| node.strip_prefix("node")?.parse().ok()).unwrap_or(0)
    }

    /// Names of the NUMA nodes.
    pub(super) fn nodes(&self) -> Vec<String> {
        let is_node = |name: &String| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok());
        self.names("/sys/devices/system/node").into_iter().filter(is_node).collect()
    }

    /// PCI addresses of the ports that the configuration names.
    pub(super) fn cards(&self) -> impl Iterator<Item = &str> {
        self.settings.devices.iter().map(String::as_str).filter(|device| is_pci(device))
    }
}
