//! Which plugins of DPDK a process loads: the drivers that ports may be of, and no others.
//!
//! **Where in the walk**: nowhere; EAL's start asks before it initialises.
//!
//! **Design**: by default EAL loads each file of its plugin directory, more than a hundred drivers.
//! Each of them runs code at its loading, and a device's name can reach it later. So EAL gets the
//! files by name (`-d FILE`), and the shim keeps it from its directory. Plugins are loaded at the
//! start alone: their constructors change DPDK's lists of drivers and of logs without a lock, and
//! other threads read those lists.
//!
//! A driver is found by its record `PMD_INFO_STRING`, which each plugin has among its constants
//! (DPDK 22.11, `buildtools/pmdinfogen`). The record names the driver and the PCI cards that it is
//! for. The files of [`DRIVERS`](crate::drivers::DRIVERS) are known without that.
//!
//! **Limits**: drivers of network cards only. A card of another kind that is put in later needs a
//! start, or its driver in `[dpdk] args` (`-d FILE`). A virtual function's driver is loaded if its
//! card was there.
//!
//! **Threads**: EAL's.

use crate::devargs::pci_address;
use crate::drivers::is_device_of;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What all need: the pool's ring, the buses, and the drivers that any client may name.
const BASE: [&str; 9] = [
    "mempool_ring",
    "bus_pci",
    "bus_vdev",
    "net_af_xdp",
    "net_memif",
    "net_null",
    "net_pcap",
    "net_ring",
    "net_virtio",
];

/// What stands before a driver's record.
const RECORD: &[u8] = b"PMD_INFO_STRING= ";

/// Any number, in the ids of a record.
const ANY: u16 = 0xffff;

/// What names a card on the PCI bus: its vendor and device, then those of its subsystem.
type PciId = [u16; 4];

/// The plugins to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plugins {
    /// Files, each once.
    pub(crate) files: Vec<PathBuf>,
    /// Drivers and devices that were asked for and that no plugin is for.
    pub(crate) missing: Vec<String>,
}

/// A driver, as its plugin describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    name: String,
    cards: Vec<PciId>,
}

/// The plugins of `directory` for further drivers. `wanted`: names of drivers, of their devices, or
/// PCI addresses. With `pci` all cards of this machine are wanted. `None`: the directory has not
/// even the pool's plugin.
pub(crate) fn choose(directory: &Path, wanted: &[String], pci: bool) -> Option<Plugins> {
    let cards = if pci { cards(Path::new("/sys/bus/pci/devices")) } else { Vec::new() };
    choose_for(directory, wanted, &cards)
}

fn choose_for(directory: &Path, wanted: &[String], cards: &[PciId]) -> Option<Plugins> {
    let all = plugins_of(directory);
    let named = |name: &str| all.iter().find(|file| plugin_name(file) == Some(name)).cloned();
    named(BASE[0])?;
    let mut files: Vec<_> = BASE.iter().filter_map(|name| named(name)).collect();
    let is_base = |word: &str| BASE.iter().any(|name| is_device_of(word, name));
    let names: Vec<_> = wanted.iter().filter(|word| pci_address(word).is_none() && !is_base(word)).collect();
    let mut missing: BTreeSet<_> = names.iter().map(|name| (*name).clone()).collect();
    if !names.is_empty() || !cards.is_empty() {
        for file in all.iter().filter(|file| plugin_name(file).is_some_and(|name| name.starts_with("net_"))) {
            let records = fs::read(file).map(|bytes| records(&bytes)).unwrap_or_default();
            let of = |word: &str| records.iter().any(|record| is_device_of(word, &record.name));
            missing.retain(|word| !of(word));
            let has_card = || records.iter().any(|record| cards.iter().any(|card| record.is_for(card)));
            if (names.iter().any(|word| of(word)) || has_card()) && !files.contains(file) {
                files.push(file.clone());
            }
        }
    }
    Some(Plugins { files, missing: missing.into_iter().collect() })
}

/// All plugins, each by one of its names.
fn plugins_of(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut files: Vec<_> =
        entries.flatten().map(|entry| entry.path()).filter(|path| plugin_name(path).is_some()).collect();
    files.sort(); // "x.so" before "x.so.23": links come with the development files only
    files.dedup_by(|longer, shorter| plugin_name(longer) == plugin_name(shorter));
    files
}

/// `net_null` of `librte_net_null.so.23.0`.
fn plugin_name(file: &Path) -> Option<&str> {
    let (name, rest) = file.file_name()?.to_str()?.strip_prefix("librte_")?.split_once(".so")?;
    (rest.is_empty() || rest.starts_with('.')).then_some(name)
}

impl Record {
    fn is_for(&self, card: &PciId) -> bool {
        self.cards.iter().any(|ids| ids.iter().zip(card).all(|(id, own)| *id == ANY || id == own))
    }

    /// Reads `{"name": "net_x", ..., "pci_ids": [[1, 2, 3, 4], ...]}`.
    fn read(text: &str) -> Option<Self> {
        let name = text.split_once("\"name\": \"")?.1.split_once('"')?.0.to_owned();
        let ids = text.split_once("\"pci_ids\": [").map_or("", |(_, ids)| ids);
        let cards = ids.split('[').filter_map(|ids| {
            let mut ids = ids.split_once(']')?.0.split(", ").map(str::parse);
            let mut next = || ids.next()?.ok();
            Some([next()?, next()?, next()?, next()?])
        });
        Some(Self { name, cards: cards.collect() })
    }
}

/// The records among a plugin's bytes. Each ends with a NUL.
fn records(bytes: &[u8]) -> Vec<Record> {
    let (mut found, mut rest) = (Vec::new(), bytes);
    while let Some(at) = rest.iter().position(|byte| *byte == RECORD[0]) {
        rest = &rest[at..];
        match rest.strip_prefix(RECORD) {
            Some(text) => {
                let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
                found.extend(str::from_utf8(&text[..end]).ok().and_then(Record::read));
                rest = &text[end..];
            }
            None => rest = &rest[1..],
        }
    }
    found
}

/// The cards of a directory of sysfs, with those virtual ones that they can bring.
fn cards(directory: &Path) -> Vec<PciId> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut cards = Vec::new();
    for entry in entries.flatten() {
        let read = |name: &str| {
            let text = fs::read_to_string(entry.path().join(name)).ok()?;
            u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
        };
        let (Some(vendor), Some(device)) = (read("vendor"), read("device")) else { continue };
        let [subvendor, subdevice] =
            ["subsystem_vendor", "subsystem_device"].map(|name| read(name).unwrap_or_default());
        cards.push([vendor, device, subvendor, subdevice]);
        cards.extend(read("sriov_vf_device").map(|function| [vendor, function, subvendor, subdevice]));
    }
    cards
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "\0PMD_INFO_STRING= {\"name\": \"net_two_user\", \"params\": \"a=<b>\"}\0junkP\
        PMD_INFO_STRING= {\"name\": \"net_two\", \"kmod\": \"* vfio-pci\", \"pci_ids\": [[6900, 4096, 65535, 65535], \
        [6900, 4161, 1, 2]]}\0";

    fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in [
            ("librte_mempool_ring.so.23", ""),
            ("librte_mempool_ring.so.23.0", ""),
            ("librte_net_null.so", ""),
            ("librte_net_null.so.23", ""),
            ("librte_net_two.so.23", TWO),
            ("librte_net_bond.so.23", "PMD_INFO_STRING= {\"name\": \"net_bonding\"}"),
            ("librte_event_sw.so.23", "PMD_INFO_STRING= {\"name\": \"event_sw\"}"),
            ("librte_net_x.sock", "PMD_INFO_STRING= {\"name\": \"net_x\"}"),
        ] {
            fs::write(directory.path().join(name), text).expect("written");
        }
        directory
    }

    fn chosen(wanted: &[&str], cards: &[PciId]) -> (Vec<String>, Vec<String>) {
        let directory = directory();
        let wanted: Vec<_> = wanted.iter().map(|word| (*word).to_owned()).collect();
        let plugins = choose_for(directory.path(), &wanted, cards).expect("a directory of plugins");
        let names = plugins.files.iter().map(|file| file.strip_prefix(directory.path()).expect("within it"));
        (names.map(|name| name.display().to_string()).collect(), plugins.missing)
    }

    #[test]
    fn each_driver_that_is_wanted_is_loaded_once_and_no_other_one() {
        let base = ["librte_mempool_ring.so.23", "librte_net_null.so"];
        let (two, bond) = ("librte_net_two.so.23", "librte_net_bond.so.23");
        for (wanted, cards, more) in [
            (vec![], vec![], vec![]),
            (vec!["net_null7", "net_virtio_user0", "net_memif_a"], vec![], vec![]),
            (vec!["net_two"], vec![], vec![two]),
            (vec!["net_two_user3", "net_two"], vec![], vec![two]),
            (vec!["net_bonding"], vec![], vec![bond]),
            (vec!["net_bonding0", "net_two0"], vec![], vec![bond, two]),
            (vec!["0000:3b:00.0"], vec![[6900, 4096, 7, 7]], vec![two]),
            (vec![], vec![[6900, 4161, 1, 2]], vec![two]),
            (vec![], vec![[6900, 4161, 1, 3], [6901, 4096, 1, 2]], vec![]),
        ] {
            let want: Vec<_> = base.iter().chain(&more).map(|name| (*name).to_owned()).collect();
            assert_eq!(chosen(&wanted, &cards), (want, vec![]), "{wanted:?}");
        }
    }

    /// Of DPDK's own plugins: a card, its virtual function, one of another vendor, and none.
    #[test]
    fn cards_of_this_machine_would_have_their_drivers() {
        let [path @ .., _] = dpdk_sys::RTE_EAL_PMD_PATH;
        let directory = Path::new(str::from_utf8(path).expect("ASCII"));
        let more = |cards: &[PciId]| -> Vec<String> {
            let plugins = choose_for(directory, &[], cards).expect("DPDK's plugins");
            let names = plugins.files.iter().filter_map(|file| plugin_name(file));
            names.filter(|name| !BASE.contains(name)).map(str::to_owned).collect()
        };
        assert_eq!(more(&[]), [""; 0]);
        assert_eq!(more(&[[0x8086, 0x1583, 0x8086, 1]]), ["net_i40e"]);
        assert_eq!(more(&[[0x8086, 0x154c, 0x8086, 1], [0x8086, 0x1583, 0x8086, 1]]), ["net_i40e", "net_iavf"]);
        assert_eq!(more(&[[0x15b3, 0x1017, 0x15b3, 7]]), ["net_mlx5"]);
        assert_eq!(more(&[[0x10de, 0x1eb8, 0, 0]]), [""; 0], "no network card");
    }

    #[test]
    fn drivers_that_no_plugin_of_network_cards_is_for_are_told() {
        for name in ["event_sw", "net_x", "net_twofold/", "net_none"] {
            assert_eq!(chosen(&[name, "net_two"], &[]).1, [name.to_owned()]);
        }
        assert_eq!(choose_for(Path::new("/vswitch-no-such"), &[], &[]), None);
    }

    #[test]
    fn cards_come_with_their_virtual_functions() {
        let bus = tempfile::tempdir().expect("a directory");
        let card = bus.path().join("0000:3b:00.0");
        fs::create_dir(&card).expect("made");
        for (file, text) in [
            ("vendor", "0x8086\n"),
            ("device", "0x1583\n"),
            ("subsystem_vendor", "0x8086\n"),
            ("subsystem_device", "0x0001\n"),
            ("sriov_vf_device", "154c\n"),
        ] {
            fs::write(card.join(file), text).expect("written");
        }
        assert_eq!(cards(bus.path()), [[0x8086, 0x1583, 0x8086, 1], [0x8086, 0x154c, 0x8086, 1]]);
    }

    #[test]
    fn each_driver_that_clients_may_name_is_of_the_base() {
        for driver in &crate::drivers::DRIVERS {
            assert!(BASE.iter().any(|name| is_device_of(driver.name, name)), "{}", driver.name);
        }
    }
}
