//! Interrupts on the cores of workers.

use super::machine::Machine;
use super::{Check, Said, listed, ok, warn};

pub(super) const CHECKS: &[Check<Machine>] = &[Check::new("interrupts", interrupts)];

/// Interrupts that are named in the fact.
const NAMED_MAX: usize = 4;

fn interrupts(machine: &Machine) -> Vec<Said> {
    let workers = machine.worker_cores();
    let mut found: Vec<(u32, String)> = Vec::new();
    for number in machine.names("/proc/irq").iter().filter_map(|name| name.parse::<u32>().ok()) {
        // The handler of an interrupt is a directory of its own; one without handler never comes.
        let directory = format!("/proc/irq/{number}");
        let files = ["affinity_hint", "effective_affinity", "effective_affinity_list", "node", "smp_affinity"];
        let is_handler = |name: &String| {
            !files.contains(&name.as_str())
                && machine.path(&format!("{directory}/{name}")).is_some_and(|p| p.is_directory)
        };
        let Some(handler) = machine.names(&directory).into_iter().find(is_handler) else { continue };
        let cores = machine.numbers(&format!("{directory}/effective_affinity_list")).unwrap_or_default();
        if !cores.is_disjoint(&workers) {
            found.push((number, handler));
        }
    }
    if found.is_empty() {
        return vec![ok("no interrupt goes to a worker's core")];
    }
    let named: Vec<String> =
        found.iter().take(NAMED_MAX).map(|(number, handler)| format!("{number} ({handler})")).collect();
    let fact =
        format!("{} interrupts go to the workers' cores {}: {}", found.len(), listed(&workers), named.join(", "));
    let online = machine.numbers("/sys/devices/system/cpu/online").unwrap_or_default();
    let others = listed(online.difference(&workers));
    let first = found[0].0;
    vec![warn(fact, format!("echo {others} > /proc/irq/{first}/smp_affinity_list, for each; or irqbalance --banirq"))]
}
