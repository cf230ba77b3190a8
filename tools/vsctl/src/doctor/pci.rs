//! Network cards that the configuration names by PCI address.

use super::machine::Machine;
use super::{Check, Said, bad, listed, ok, warn};

pub(super) const CHECKS: &[Check<Machine>] = &[
    Check::new("card", present),
    Check::new("card-driver", driver),
    Check::new("vfio", module),
    Check::new("iommu", iommu),
    Check::new("iommu-group", group),
    Check::new("card-node", node),
];

/// Drivers that give a card to a process.
const PASSING: [&str; 4] = ["vfio-pci", "uio_pci_generic", "igb_uio", "uio_hv_generic"];

/// Drivers of the kernel that DPDK works beside: the card stays with the kernel.
const BESIDE: [&str; 3] = ["mlx5_core", "mlx4_core", "mana"];

const DEVICES: &str = "/sys/bus/pci/devices";

/// The address as the kernel writes it.
fn full(address: &str) -> String {
    let address = address.to_ascii_lowercase();
    if address.matches(':').count() == 1 { format!("0000:{address}") } else { address }
}

fn driver_of(machine: &Machine, card: &str) -> Option<String> {
    machine.link(&format!("{DEVICES}/{card}/driver"))
}

/// Cards of the configuration that the machine has.
fn cards(machine: &Machine) -> Vec<String> {
    let is_there = |card: &String| machine.path(&format!("{DEVICES}/{card}")).is_some();
    machine.cards().map(full).filter(is_there).collect()
}

fn present(machine: &Machine) -> Vec<Said> {
    let check = |card: String| match machine.path(&format!("{DEVICES}/{card}")) {
        Some(_) => ok(format!("{card} is there")),
        None => {
            bad(format!("the machine has no PCI device {card}"), "lspci -D lists those that there are: correct devargs")
        }
    };
    machine.cards().map(full).map(check).collect()
}

fn driver(machine: &Machine) -> Vec<Said> {
    let check = |card: String| match driver_of(machine, &card) {
        Some(driver) if PASSING.contains(&driver.as_str()) => ok(format!("{card} is bound to {driver}")),
        Some(driver) if BESIDE.contains(&driver.as_str()) => {
            ok(format!("{card} stays with {driver}, as its driver of DPDK wants"))
        }
        Some(driver) => bad(
            format!("{card} belongs to the kernel's driver {driver}"),
            format!(
                "vswitch-setup host apply, or dpdk-devbind.py --bind=vfio-pci {card}, after uplink save if it carries the \
                 Node's addresses"
            ),
        ),
        None => bad(
            format!("{card} has no driver"),
            format!("vswitch-setup host apply, or dpdk-devbind.py --bind=vfio-pci {card}"),
        ),
    };
    cards(machine).into_iter().map(check).collect()
}

/// Cards that are to be passed by VFIO.
fn by_vfio(machine: &Machine) -> Vec<String> {
    let mut cards = cards(machine);
    cards.retain(|card| driver_of(machine, card).as_deref() == Some("vfio-pci"));
    cards
}

fn module(machine: &Machine) -> Vec<Said> {
    let beside = |card: &String| driver_of(machine, card).is_some_and(|driver| BESIDE.contains(&driver.as_str()));
    if cards(machine).iter().all(beside) {
        return Vec::new();
    }
    if machine.path("/sys/module/vfio_pci").is_some() || machine.path("/sys/bus/pci/drivers/vfio-pci").is_some() {
        return vec![ok("the module vfio-pci is loaded")];
    }
    vec![bad(
        "the module vfio-pci is not loaded",
        "vswitch-setup host apply, or modprobe vfio-pci; echo vfio-pci > /etc/modules-load.d/vfio-pci.conf",
    )]
}

fn iommu(machine: &Machine) -> Vec<Said> {
    if by_vfio(machine).is_empty() {
        return Vec::new();
    }
    if !machine.names("/sys/kernel/iommu_groups").is_empty() {
        return vec![ok("an IOMMU guards memory from cards")];
    }
    let fix = "turn VT-d or AMD-Vi on in the firmware, and boot with intel_iommu=on iommu=pt";
    let unsafe_mode = machine.text("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    vec![match unsafe_mode.as_deref() {
        Some("Y" | "1") => warn("there is no IOMMU: a card may write anywhere in memory", fix),
        _ => bad("there is no IOMMU, and VFIO refuses cards without one", fix),
    }]
}

fn group(machine: &Machine) -> Vec<Said> {
    let mut said = Vec::new();
    for card in by_vfio(machine) {
        let members = machine.names(&format!("{DEVICES}/{card}/iommu_group/devices"));
        let held = |other: &&String| {
            let driver = driver_of(machine, other);
            **other != card && driver.is_some_and(|driver| !PASSING.contains(&driver.as_str()) && driver != "pcieport")
        };
        match members.iter().find(held) {
            None => said.push(ok(format!("{card} is alone in its IOMMU group, or with devices that no driver has"))),
            Some(other) => {
                let driver = driver_of(machine, other).unwrap_or_default();
                let fact =
                    format!("{other} is in the IOMMU group of {card}, and belongs to {driver}: VFIO refuses the group");
                said.push(bad(
                    fact,
                    format!("dpdk-devbind.py --bind=vfio-pci {other}, or put the card into another slot"),
                ));
            }
        }
    }
    said
}

fn node(machine: &Machine) -> Vec<Said> {
    let workers = machine.worker_cores();
    let mut said = Vec::new();
    for card in cards(machine) {
        // -1: the machine has no nodes, or does not say.
        let node = machine.number(&format!("{DEVICES}/{card}/numa_node"));
        let Some(node) = node.and_then(|node| u32::try_from(node).ok()) else { continue };
        if workers.iter().any(|core| machine.node_of(*core) == node) {
            said.push(ok(format!("{card} and a worker are on NUMA node {node}")));
            continue;
        }
        let cores = machine.numbers(&format!("/sys/devices/system/node/node{node}/cpulist")).unwrap_or_default();
        let fact = format!("{card} is on NUMA node {node}, and no worker is");
        said.push(warn(fact, format!("choose [dpdk] worker_cores among {}", listed(&cores))));
    }
    said
}
