//! Which of DPDK's drivers are in the process: those that ports may be of.

use crate::common::{Switch, unique};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

const BRIDGE: &str = "[[bridge]]\nname = \"br0\"\n\n";

/// What every switch needs, and the drivers that any client may name.
const BASE: [&str; 9] = [
    "bus_pci",
    "bus_vdev",
    "mempool_ring",
    "net_af_xdp",
    "net_memif",
    "net_null",
    "net_pcap",
    "net_ring",
    "net_virtio",
];

fn switch(dpdk: &str) -> Switch {
    let prefix = format!("vt{}-{}", std::process::id(), unique());
    let dpdk = format!("[dpdk]\nmemory_mb = 256\nhugepages = false\nfile_prefix = {prefix:?}\n{dpdk}\n\n");
    Switch::start(&[&dpdk, BRIDGE].concat())
}

/// A plugin's file.
fn file(name: &str) -> PathBuf {
    let lib = fs::read_dir("/usr/lib/x86_64-linux-gnu/dpdk").expect("DPDK's plugins").flatten();
    let directory = lib.map(|entry| entry.path()).find(|path| path.display().to_string().contains("pmds-"));
    directory.expect("a directory of plugins").join(format!("librte_{name}.so"))
}

/// Plugins that a process has mapped.
fn loaded(switch: &Switch) -> BTreeSet<String> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", switch.pid())).expect("it runs");
    let files = maps.lines().filter_map(|line| line.split_once("/dpdk/pmds-")?.1.split_once("/librte_"));
    files.filter_map(|(_, name)| Some(name.split_once(".so")?.0.to_owned())).collect()
}

fn base_and(more: &[&str]) -> BTreeSet<String> {
    BASE.iter().chain(more).map(|name| (*name).to_owned()).collect()
}

#[test]
fn only_drivers_that_clients_may_name_are_loaded() {
    let switch = switch("");
    assert_eq!(loaded(&switch), base_and(&[]));
    let at = switch.dir().display().to_string();
    for (name, devargs) in [
        ("null", "net_null0".to_owned()),
        ("ring", "net_ring0".to_owned()),
        ("memif", format!("net_memif0,role=server,socket={at}/memif,socket-abstract=no")),
        ("pcap", format!("net_pcap0,tx_pcap={at}/out.pcap")),
    ] {
        switch.vsctl_ok(&["add-port", "br0", name, "--type", "dpdk", "--devargs", &devargs]);
    }
    switch.vsctl_ok(&["add-port", "br0", "file", "--type", "pcap", "--tx-file", &format!("{at}/file.pcap")]);
    assert_eq!(loaded(&switch), base_and(&[]), "none came with a port");
}

#[test]
fn drivers_of_the_configuration_are_loaded_at_the_start() {
    // The driver's name is not its plugin's.
    let switch = switch("allow_drivers = [\"net_af_packet\", \"net_bonding\", \"net_no_such\"]");
    assert_eq!(loaded(&switch), base_and(&["net_af_packet", "net_bond"]));
    assert!(switch.log().contains("no plugin of DPDK for net_no_such"), "{}", switch.log());
    switch.vsctl_ok(&["add-port", "br0", "lo", "--type", "dpdk", "--devargs", "net_af_packet0,iface=lo"]);
}

#[test]
fn a_port_of_the_configuration_brings_its_driver() {
    let port = "[[bridge.port]]\nname = \"lo\"\ntype = \"dpdk\"\ndevargs = \"net_af_packet0,iface=lo\"\n";
    let prefix = format!("vt{}-{}", std::process::id(), unique());
    let dpdk = format!("[dpdk]\nmemory_mb = 256\nhugepages = false\nfile_prefix = {prefix:?}\n\n");
    let switch = Switch::start(&[&dpdk, BRIDGE, port].concat());
    assert_eq!(loaded(&switch), base_and(&["net_af_packet"]));
    assert_eq!(switch.port("br0", "lo")["type"], "dpdk");
}

#[test]
fn arguments_of_the_configuration_add_plugins() {
    let one = switch(&format!("args = [\"-d\", {:?}]", file("event_sw")));
    assert_eq!(loaded(&one), base_and(&["event_sw"]));
    drop(one);
    let directory = file("event_sw").with_file_name("");
    let all = switch(&format!("args = [\"-d\", {directory:?}]"));
    assert!(loaded(&all).len() > 100, "{:?}", loaded(&all));
}
