//! Processor, cores and clock.

use super::machine::Machine;
use super::{Check, Said, bad, listed, ok, warn};
use std::collections::BTreeSet;

pub(super) const CHECKS: &[Check<Machine>] = &[
    Check::new("cpu", level),
    Check::new("kernel", kernel),
    Check::new("cores", cores),
    Check::new("cpuset", cpuset),
    Check::new("isolation", isolation),
    Check::new("smt", smt),
    Check::new("governor", governor),
    Check::new("clock", clock),
];

/// Flags of `/proc/cpuinfo` that x86-64-v3 has beyond x86-64-v2, and those of v2 (x86-64 psABI).
const V3: [&str; 8] = ["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"];
const V2: [&str; 6] = ["cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"];

/// Oldest kernel with all that ports of the host use, as it is tested.
const KERNEL_MIN: (u32, u32) = (5, 10);

fn level(machine: &Machine) -> Vec<Said> {
    let Some(flags) = machine.field("/proc/cpuinfo", "flags") else { return Vec::new() };
    let flags: BTreeSet<&str> = flags.split_whitespace().collect();
    let missing = |level: &[&'static str]| -> Vec<&'static str> {
        level.iter().copied().filter(|flag| !flags.contains(flag)).collect()
    };
    vec![match (missing(&V2).as_slice(), missing(&V3).as_slice()) {
        ([], []) => ok("the processor has x86-64-v3"),
        ([], v3) => bad(
            format!("the processor has no {}: it is of level x86-64-v2", v3.join(" ")),
            "use programs that were built for x86-64-v2: docs/install.md#requirements",
        ),
        (v2, _) => bad(
            format!("the processor has no {}: it is below x86-64-v2", v2.join(" ")),
            "use a processor from Nehalem on, or set the guest's CPU model to that of its host",
        ),
    }]
}

fn kernel(machine: &Machine) -> Vec<Said> {
    let Some(release) = machine.text("/proc/sys/kernel/osrelease") else { return Vec::new() };
    let mut parts = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let (major, minor) = KERNEL_MIN;
    if version >= KERNEL_MIN {
        return vec![ok(format!("the kernel is {release}"))];
    }
    vec![warn(
        format!("the kernel is {release}, older than {major}.{minor}"),
        "install the kernel of Debian 12 or newer",
    )]
}

fn cores(machine: &Machine) -> Vec<Said> {
    let Some(online) = machine.numbers("/sys/devices/system/cpu/online") else { return Vec::new() };
    let workers = machine.worker_cores();
    let asked: BTreeSet<u32> = workers.iter().copied().chain(machine.settings.main_core).collect();
    let missing: Vec<&u32> = asked.difference(&online).collect();
    if !missing.is_empty() {
        let fact = format!("[dpdk] asks for cores that are not online: {}", listed(missing));
        return vec![bad(fact, format!("choose among {} in [dpdk] worker_cores and main_core", listed(&online)))];
    }
    if machine.settings.main_core.is_some_and(|core| workers.contains(&core)) {
        return vec![bad("[dpdk] main_core is a worker's core", "choose another main_core")];
    }
    if online.len() < 2 {
        let fact = "the machine has one core: worker and control threads share it";
        return vec![warn(fact, "give the machine a second core")];
    }
    vec![ok(format!("workers poll on {} of {} cores", listed(&workers), online.len()))]
}

fn cpuset(machine: &Machine) -> Vec<Said> {
    let (available, workers) = (machine.available(), machine.worker_cores());
    let online = machine.numbers("/sys/devices/system/cpu/online").unwrap_or_default();
    let missing: Vec<&u32> = workers.difference(&available).filter(|core| online.contains(core)).collect();
    if available.is_empty() || missing.is_empty() {
        return vec![ok("the switch may run on all cores that it polls on")];
    }
    let fact = format!("the switch may not run on cores {}: they are not in its cpuset", listed(missing));
    vec![bad(fact, "AllowedCPUs= of the unit, or the container's cpuset, must have them")]
}

fn isolation(machine: &Machine) -> Vec<Said> {
    let workers = machine.worker_cores();
    let isolated = machine.numbers("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let shared: Vec<&u32> = workers.difference(&isolated).collect();
    if shared.is_empty() {
        return vec![ok("the workers' cores are isolated")];
    }
    let cores = listed(shared);
    let fact = format!("other processes may run on the workers' cores {cores}");
    let fix = format!(
        "vswitch-setup host apply --isolate {cores}, or boot with isolcpus=managed_irq,domain,{cores} nohz_full={cores} \
         rcu_nocbs={cores}"
    );
    vec![warn(fact, fix)]
}

fn smt(machine: &Machine) -> Vec<Said> {
    let workers = machine.worker_cores();
    let isolated = machine.numbers("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let mut said = Vec::new();
    for core in &workers {
        let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
        let siblings = machine.numbers(&path).unwrap_or_default();
        let busy: Vec<&u32> = siblings.iter().filter(|other| *other != core).collect();
        let shared: Vec<&u32> =
            busy.into_iter().filter(|other| workers.contains(other) || !isolated.contains(other)).collect();
        if !shared.is_empty() {
            let fact =
                format!("the worker on core {core} shares its core's units with core {}", listed(shared.clone()));
            let fix = format!("isolate core {} and run nothing there, or turn SMT off", listed(shared));
            said.push(warn(fact, fix));
        }
    }
    if said.is_empty() { vec![ok("no worker shares a core with another thread")] } else { said }
}

fn governor(machine: &Machine) -> Vec<Said> {
    let of = |core: &u32| machine.text(&format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"));
    let slow = machine.worker_cores().into_iter().filter_map(|core| Some((core, of(&core)?)));
    let slow: Vec<(u32, String)> = slow.filter(|(_, governor)| governor != "performance").collect();
    let Some((core, governor)) = slow.first() else {
        return vec![ok("the workers' cores run at full frequency, or the machine cannot tell")];
    };
    let fact = format!("the frequency governor of core {core} is {governor}");
    let cores = listed(slow.iter().map(|(core, _)| core));
    vec![warn(fact, format!("cpupower -c {cores} frequency-set -g performance"))]
}

fn clock(machine: &Machine) -> Vec<Said> {
    let source = machine.text("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    match source.as_deref() {
        None => Vec::new(),
        Some("tsc" | "kvm-clock" | "tscls") => vec![ok("the clock is read without a system call")],
        Some(source) => vec![warn(
            format!("the time source is {source}: each reading of the clock is slow"),
            "boot with tsc=reliable, or echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
        )],
    }
}
