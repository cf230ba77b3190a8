//! The process of a running switch.

use super::machine::Machine;
use super::{Check, Said, bad, ok, warn};

pub(super) const CHECKS: &[Check<Machine>] = &[
    Check::new("open-files", open_files),
    Check::new("locked-memory", locked_memory),
    Check::new("swap", swap),
    Check::new("program", program),
];

/// Fewer open files than these are too few for some hundred ports of guests.
const FILES_MIN: u64 = 4096;

/// Its place in `CapEff` (capability.h).
const CAP_IPC_LOCK: u32 = 14;

/// A soft limit of a process. None: no limit, or not known.
fn limit(machine: &Machine, pid: u32, name: &str) -> Option<u64> {
    let limits = machine.text(&format!("/proc/{pid}/limits"))?;
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn open_files(machine: &Machine) -> Vec<Said> {
    let Some(pid) = machine.process else { return Vec::new() };
    match limit(machine, pid, "Max open files") {
        Some(files) if files < FILES_MIN => {
            let fact = format!("the switch may open {files} files: too few for many ports of guests");
            vec![warn(fact, "systemctl edit vswitchd: LimitNOFILE=65536")]
        }
        _ => vec![ok("the switch may open enough files")],
    }
}

fn locked_memory(machine: &Machine) -> Vec<Said> {
    let Some(pid) = machine.process else { return Vec::new() };
    let effective = machine.field(&format!("/proc/{pid}/status"), "CapEff");
    let bits = effective.and_then(|text| u64::from_str_radix(&text, 16).ok()).unwrap_or(0);
    let limit = limit(machine, pid, "Max locked memory");
    let needed = machine.settings.memory_mb << 20;
    match limit {
        Some(bytes) if bytes < needed && bits & (1 << CAP_IPC_LOCK) == 0 => {
            let fact = format!(
                "the switch may lock {} MiB of memory, and VFIO locks all of its {} MiB",
                bytes >> 20,
                needed >> 20
            );
            vec![bad(
                fact,
                "systemctl edit vswitchd: LimitMEMLOCK=infinity, or add ipc_lock to [process] keep_capabilities",
            )]
        }
        _ => vec![ok("the switch may lock its memory")],
    }
}

fn swap(machine: &Machine) -> Vec<Said> {
    let Some(pid) = machine.process else { return Vec::new() };
    let swapped = machine.field(&format!("/proc/{pid}/status"), "VmSwap").unwrap_or_default();
    let kib: u64 = swapped.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    if kib == 0 {
        return vec![ok("no memory of the switch is swapped out")];
    }
    vec![warn(
        format!("{kib} KiB of the switch are swapped out"),
        "systemctl edit vswitchd: MemorySwapMax=0; then swapoff -a",
    )]
}

fn program(machine: &Machine) -> Vec<Said> {
    let Some(pid) = machine.process else { return Vec::new() };
    match machine.link(&format!("/proc/{pid}/exe")) {
        Some(name) if name.ends_with(" (deleted)") => {
            let fact = "the program of the running switch was replaced since it started";
            vec![warn(fact, "systemctl restart vswitchd")]
        }
        _ => vec![ok("the running switch is the installed program")],
    }
}
