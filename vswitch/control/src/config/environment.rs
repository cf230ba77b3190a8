//! What the machine has.

use std::path::{Path, PathBuf};
use vswitch_dpdk::lcore;

/// The machine as this process sees it. Read when asked, since it changes.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Where `proc` and `sys` are mounted: `/`, elsewhere in tests.
    pub root: PathBuf,
    /// Cores that the process may run on.
    pub cores: Vec<u32>,
    /// Whether this build has DPDK.
    pub has_dpdk: bool,
}

/// The hugepages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hugepages {
    /// Size of a page.
    pub(super) kb: u64,
    /// Pages in all.
    pub(super) total: u64,
    /// Pages that can be had: free and not reserved, plus what the kernel may still add
    /// (`nr_overcommit_hugepages`).
    pub(super) usable: u64,
}

impl Environment {
    /// This machine.
    #[must_use]
    pub fn host() -> Self {
        Self { root: PathBuf::from("/"), cores: lcore::available_cores(), has_dpdk: cfg!(feature = "dpdk") }
    }

    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    fn text(&self, relative: &str) -> Option<String> {
        std::fs::read_to_string(self.path(relative)).ok()
    }

    /// Cores that the kernel knows and those that are online; `None` where it does not say.
    pub(super) fn present_and_online(&self) -> Option<(Vec<u32>, Vec<u32>)> {
        let list = |name| self.text(&format!("sys/devices/system/cpu/{name}")).map(|text| core_list(&text));
        Some((list("present")?, list("online")?))
    }

    /// A value of `proc/meminfo`, in its unit (KiB or pages).
    pub(super) fn meminfo(&self, name: &str) -> Option<u64> {
        let text = self.text("proc/meminfo")?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.split_whitespace().next()?.parse().ok()
    }

    /// Hugepages of each size: from `sys`, or where that is not mounted of the default size from
    /// `proc/meminfo`.
    pub(super) fn hugepages(&self) -> Vec<Hugepages> {
        let dir = self.path("sys/kernel/mm/hugepages");
        let Ok(entries) = std::fs::read_dir(&dir) else { return self.default_hugepages().into_iter().collect() };
        let mut sizes: Vec<_> = entries.flatten().filter_map(|entry| hugepages_of_size(&entry.path())).collect();
        sizes.sort_by_key(|size| size.kb);
        sizes
    }

    fn default_hugepages(&self) -> Option<Hugepages> {
        let kb = self.meminfo("Hugepagesize")?;
        let usable = self.meminfo("HugePages_Free")?.saturating_sub(self.meminfo("HugePages_Rsvd")?);
        Some(Hugepages { kb, total: self.meminfo("HugePages_Total")?, usable })
    }

    /// Names of the interfaces in this process's network namespace (not of `sys`, which is that of
    /// whoever mounted it).
    pub(super) fn interfaces(&self) -> Option<Vec<String>> {
        let text = self.text("proc/self/net/dev")?;
        let name = |line: &str| Some(line.split_once(':')?.0.trim().to_owned());
        Some(text.lines().skip(2).filter_map(name).collect())
    }

    /// Whether a process of this network namespace listens on a socket at this path. Does not
    /// connect: that would disturb a vhost-user peer.
    pub(super) fn has_listener(&self, path: &Path) -> bool {
        const SO_ACCEPTCON: u64 = 1 << 16;
        let text = self.text("proc/self/net/unix").unwrap_or_default();
        text.lines().skip(1).any(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let flags = fields.get(3).and_then(|flags| u64::from_str_radix(flags, 16).ok()).unwrap_or(0);
            flags & SO_ACCEPTCON != 0 && fields.get(7).is_some_and(|listening| Path::new(listening) == path)
        })
    }
}

fn hugepages_of_size(dir: &Path) -> Option<Hugepages> {
    let kb = dir.file_name()?.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    let value = |name: &str| -> u64 {
        let text = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    let extra = value("nr_overcommit_hugepages").saturating_sub(value("surplus_hugepages"));
    let free = value("free_hugepages").saturating_sub(value("resv_hugepages"));
    Some(Hugepages { kb, total: value("nr_hugepages"), usable: free + extra })
}

/// Largest core number in a list; the kernel's own bound is 8192.
const CORE_MAX: u32 = 1 << 16;

/// The kernel's list format: `0-3,8`. What cannot be parsed is left out.
fn core_list(text: &str) -> Vec<u32> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|core| *core <= CORE_MAX);
    let ranges = text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(number(first)?..=number(last)?)
    });
    ranges.flatten().collect()
}

/// Cores as the kernel lists them: `0-3,8`.
pub(super) fn show_cores(cores: &[u32]) -> String {
    let mut sorted = cores.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let runs = sorted.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        [only] => only.to_string(),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_lists_are_read_and_written() {
        for (text, cores) in [("0-1\n", vec![0, 1]), ("0,2-4,8", vec![0, 2, 3, 4, 8]), ("", vec![]), ("5", vec![5])] {
            assert_eq!(core_list(text), cores, "{text:?}");
            assert_eq!(show_cores(&cores), text.trim(), "{cores:?}");
        }
        assert_eq!(core_list("x,1,2-x,4294967295,0-99999999"), [1]);
    }

    #[test]
    fn this_machine_can_be_read() {
        let host = Environment::host();
        let (present, online) = host.present_and_online().expect("sysfs");
        assert!(host.cores.iter().all(|core| online.contains(core)), "{:?} of {online:?}", host.cores);
        assert!(online.iter().all(|core| present.contains(core)));
        assert!(host.interfaces().expect("procfs").contains(&"lo".to_owned()));
        assert!(host.meminfo("MemTotal").expect("procfs") > 0);
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("listener");
        assert!(!host.has_listener(&path));
        let _listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        assert!(host.has_listener(&path));
    }
}
