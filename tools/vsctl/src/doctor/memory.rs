//! Hugepages.

use super::machine::Machine;
use super::{Check, Said, bad, ok, warn};

pub(super) const CHECKS: &[Check<Machine>] = &[
    Check::new("hugepages", reserved),
    Check::new("hugepages-free", free),
    Check::new("hugepages-node", on_nodes),
    Check::new("hugepages-boot", at_boot),
    Check::new("hugetlbfs", mounted),
];

const POOLS: &str = "/sys/kernel/mm/hugepages";

/// Hugepages of one size.
struct Pool {
    kib: u64,
    total: u64,
    free: u64,
}

/// The pools below a directory of the kernel.
fn pools(machine: &Machine, directory: &str) -> Vec<Pool> {
    let pool = |name: &String| {
        let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count = |file: &str| machine.number(&format!("{directory}/{name}/{file}")).unwrap_or(0);
        Some(Pool { kib, total: count("nr_hugepages"), free: count("free_hugepages") })
    };
    machine.names(directory).iter().filter_map(pool).collect()
}

fn mib(pools: &[Pool], count: fn(&Pool) -> u64) -> u64 {
    pools.iter().map(|pool| pool.kib.saturating_mul(count(pool)) / 1024).sum()
}

/// Hugepages of 2 MiB that the configuration needs.
fn needed_pages(machine: &Machine) -> u64 {
    machine.settings.memory_mb.div_ceil(2)
}

fn reserved(machine: &Machine) -> Vec<Said> {
    let needed = machine.settings.memory_mb;
    if !machine.settings.hugepages {
        return vec![ok("the configuration uses ordinary pages")];
    }
    let total = mib(&pools(machine, POOLS), |pool| pool.total);
    if total >= needed {
        return vec![ok(format!("{total} MiB of hugepages are reserved, and {needed} MiB are needed"))];
    }
    let fact = format!("{total} MiB of hugepages are reserved, and [dpdk] memory_mb needs {needed}");
    vec![bad(fact, format!("vswitch-setup host apply, or sysctl -w vm.nr_hugepages={}", needed_pages(machine)))]
}

fn free(machine: &Machine) -> Vec<Said> {
    let needed = machine.settings.memory_mb;
    let pools = pools(machine, POOLS);
    // A running switch has taken its own. Too few in all are told by the check above.
    if !machine.settings.hugepages || machine.process.is_some() || mib(&pools, |pool| pool.total) < needed {
        return Vec::new();
    }
    let free = mib(&pools, |pool| pool.free);
    if free >= needed {
        return vec![ok(format!("{free} MiB of hugepages are free"))];
    }
    let fact = format!("{free} MiB of hugepages are free, and [dpdk] memory_mb needs {needed}: others hold the rest");
    vec![bad(fact, "find their owners: grep -l hugepages /proc/[0-9]*/maps; or reserve more of them")]
}

fn on_nodes(machine: &Machine) -> Vec<Said> {
    let nodes = machine.nodes();
    if !machine.settings.hugepages || nodes.len() < 2 {
        return Vec::new();
    }
    let of = |node: u32| pools(machine, &format!("/sys/devices/system/node/node{node}/hugepages"));
    let mut without: Vec<u32> = machine.worker_cores().into_iter().map(|core| machine.node_of(core)).collect();
    without.dedup();
    without.retain(|node| mib(&of(*node), |pool| pool.total) == 0);
    match without.first() {
        None => vec![ok("each node of a worker has hugepages")],
        Some(node) => {
            let fact = format!("NUMA node {node} has a worker and no hugepages: its memory is far away");
            let file = format!("/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages");
            vec![warn(fact, format!("vswitch-setup host apply, or echo {} > {file}", needed_pages(machine)))]
        }
    }
}

fn at_boot(machine: &Machine) -> Vec<Said> {
    if !machine.settings.hugepages || mib(&pools(machine, POOLS), |pool| pool.total) == 0 {
        return Vec::new();
    }
    let by_kernel =
        machine.text("/proc/cmdline").is_some_and(|line| line.split(' ').any(|word| word.starts_with("hugepages=")));
    let in_directory = |directory: &&str| {
        machine.names(directory).iter().any(|name| sets_hugepages(machine, &format!("{directory}/{name}")))
    };
    let by_file = sets_hugepages(machine, "/etc/sysctl.conf")
        || ["/etc/sysctl.d", "/usr/lib/sysctl.d", "/run/sysctl.d", "/etc/tmpfiles.d"].iter().any(in_directory);
    if by_kernel || by_file {
        return vec![ok("hugepages are reserved at boot")];
    }
    let pages = needed_pages(machine);
    let fix = format!("vswitch-setup host apply, or echo vm.nr_hugepages={pages} > /etc/sysctl.d/50-vswitch.conf");
    vec![warn("hugepages are not reserved at boot: the next start of the machine has none", fix)]
}

/// Whether a file of sysctl.d, or of tmpfiles.d as vswitch-setup writes it, reserves pages.
fn sets_hugepages(machine: &Machine, file: &str) -> bool {
    let text = machine.text(file).unwrap_or_default();
    text.lines().any(|line| {
        let by_tmpfiles = line.starts_with("w ") && line.contains("/nr_hugepages ");
        by_tmpfiles || line.trim_start_matches('-').trim_start().starts_with("vm.nr_hugepages")
    })
}

fn mounted(machine: &Machine) -> Vec<Said> {
    if !machine.settings.hugepages {
        return Vec::new();
    }
    let mounts = machine.text("/proc/mounts").unwrap_or_default();
    if mounts.lines().any(|line| line.split(' ').nth(2) == Some("hugetlbfs")) {
        return vec![ok("a file system of hugepages is mounted")];
    }
    vec![bad("no file system of hugepages is mounted", "mount -t hugetlbfs nodev /dev/hugepages")]
}
