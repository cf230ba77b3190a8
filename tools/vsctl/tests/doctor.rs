//! `vsctl doctor` on machines whose files lie in a directory: a healthy Node, and one fault at a
//! time.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A Node with four cores on two NUMA nodes, a worker on core 3, a card, guests and an interface.
struct Node(TempDir);

const CONFIG: &str = r#"
[dpdk]
worker_cores = [3]
main_core = 0
memory_mb = 512
[conntrack]
state_file = "/var/lib/vswitch/connections"
[antrea]
state_dir = "/var/lib/vswitch/antrea"
[[bridge]]
name = "br-int"
[[bridge.port]]
name = "pod-a"
type = "vhost-user"
path = "/var/lib/guests/pod-a.sock"
[[bridge.port]]
name = "br-int"
type = "internal"
[[bridge.port]]
name = "uplink"
type = "dpdk"
devargs = "0000:3b:00.0,x=1"
[[bridge.port]]
name = "eth1"
type = "af_packet"
"#;

const FLAGS: &str = "fpu cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma abm movbe";

const CARD: &str = "sys/bus/pci/devices/0000:3b:00.0";

impl Node {
    fn healthy() -> Self {
        let node = Self(tempfile::tempdir().expect("a directory"));
        node.processor();
        node.memory();
        node.card();
        node.process();
        node.put("etc/vswitch/vswitchd.toml", CONFIG);
        node.put("etc/passwd", "root:x:0:0::/:\nlibvirt-qemu:x:64055:994::/:\n");
        node.put("etc/group", "kvm:x:994:\nguests:x:1234:libvirt-qemu,other\n");
        node.put("etc/sysctl.d/50-vswitch.conf", "# ours\nvm.nr_hugepages=256\n");
        for directory in ["run/vswitch", "var/lib/vswitch/antrea", "var/lib/guests", "sys/class/net/eth1"] {
            node.directory(directory, 0o755);
        }
        node.directory("var/lib/guests", 0o777);
        node.put("dev/net/tun", "");
        node
    }

    fn processor(&self) {
        self.put("proc/cpuinfo", &format!("processor\t: 0\nflags\t\t: {FLAGS}\n"));
        self.put("proc/sys/kernel/osrelease", "6.1.0-27-amd64");
        self.put("proc/cmdline", "quiet isolcpus=3");
        self.put("sys/devices/system/cpu/online", "0-3\n");
        self.put("sys/devices/system/cpu/isolated", "3\n");
        self.put("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc");
        for core in 0..4 {
            let cpu = format!("sys/devices/system/cpu/cpu{core}");
            self.put(&format!("{cpu}/topology/thread_siblings_list"), &core.to_string());
            self.put(&format!("{cpu}/cpufreq/scaling_governor"), "performance");
        }
        self.directory("proc/irq/24/virtio0-input.0", 0o755);
        self.put("proc/irq/24/effective_affinity_list", "1\n");
        self.put("proc/irq/25/effective_affinity_list", "3\n"); // no handler: it never comes
    }

    fn memory(&self) {
        for (pool, total) in [("sys/kernel/mm/hugepages", 256), ("sys/devices/system/node/node1/hugepages", 256)] {
            self.put(&format!("{pool}/hugepages-2048kB/nr_hugepages"), &total.to_string());
            self.put(&format!("{pool}/hugepages-2048kB/free_hugepages"), "0");
        }
        self.put("sys/devices/system/node/node0/cpulist", "0-1");
        self.put("sys/devices/system/node/node1/cpulist", "2-3");
        self.put("proc/mounts", "proc /proc proc rw 0 0\nhugetlbfs /dev/hugepages hugetlbfs rw 0 0\n");
    }

    fn card(&self) {
        self.put(&format!("{CARD}/numa_node"), "1");
        self.directory("sys/bus/pci/drivers/vfio-pci", 0o755);
        self.link(&format!("{CARD}/driver"), "../../drivers/vfio-pci");
        self.directory(&format!("{CARD}/iommu_group/devices/0000:3b:00.0"), 0o755);
        self.directory("sys/kernel/iommu_groups/7", 0o755);
        self.directory("sys/module/vfio_pci", 0o755);
    }

    fn process(&self) {
        self.put("proc/900/comm", "vswitchd\n");
        self.put(
            "proc/900/status",
            "Name:\tvswitchd\nVmSwap:\t       0 kB\nCpus_allowed_list:\t0-3\nCapEff:\t0000000000004000\n",
        );
        self.limits(65536, "65536");
        self.link("proc/900/exe", "/usr/bin/vswitchd");
    }

    fn limits(&self, files: u64, locked: &str) {
        let text = format!(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max open files            {files}                524288               files     \n\
             Max locked memory         {locked}                unlimited            bytes     \n"
        );
        self.put("proc/900/limits", &text);
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
        fs::write(path, text).expect("a file");
    }

    fn directory(&self, path: &str, mode: u32) {
        let path = self.0.path().join(path);
        fs::create_dir_all(&path).expect("directories");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    }

    fn link(&self, path: &str, to: &str) {
        self.remove(path);
        symlink(to, self.0.path().join(path)).expect("a link");
    }

    fn remove(&self, path: &str) {
        let path = self.0.path().join(path);
        let _ = if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }

    fn configure(&self, from: &str, to: &str) {
        assert!(CONFIG.contains(from), "{from}");
        self.put("etc/vswitch/vswitchd.toml", &CONFIG.replace(from, to));
    }

    /// The exit code, and what is not well: check, level, fact, fix.
    fn examined(&self) -> (i32, Vec<[String; 4]>) {
        examined(self.0.path())
    }
}

fn examined(root: &Path) -> (i32, Vec<[String; 4]>) {
    let root = root.to_str().expect("UTF-8");
    let output = Command::new(env!("CARGO_BIN_EXE_vsctl"))
        .args(["--json", "doctor", "--no-switch", "--root", root])
        .output()
        .expect("vsctl runs");
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let text = |outcome: &Value, key: &str| outcome[key].as_str().expect("a text").to_owned();
    let outcomes = answer["outcomes"].as_array().expect("outcomes").iter();
    let found = outcomes.filter(|outcome| outcome["level"] != "ok");
    let found = found.map(|outcome| ["check", "level", "fact", "fix"].map(|key| text(outcome, key))).collect();
    (output.status.code().expect("an exit code"), found)
}

/// A fault: the check that tells it, its level, a word of the fact, and how it comes about.
type Fault = (&'static str, &'static str, &'static str, fn(&Node));

const FAULTS: &[Fault] = &[
    ("cpu", "bad", "avx2", |node| node.put("proc/cpuinfo", &format!("flags: {}", FLAGS.replace("avx2 ", "")))),
    ("cpu", "bad", "popcnt", |node| node.put("proc/cpuinfo", &format!("flags: {}", FLAGS.replace("popcnt ", "")))),
    ("kernel", "warn", "4.19", |node| node.put("proc/sys/kernel/osrelease", "4.19.0-20-amd64")),
    ("cores", "bad", "not online: 9", |node| node.configure("main_core = 0", "main_core = 9")),
    ("cores", "bad", "worker's core", |node| node.configure("main_core = 0", "main_core = 3")),
    ("cpuset", "bad", "cores 3", |node| {
        let status = "VmSwap: 0 kB\nCpus_allowed_list: 0-2\nCapEff: 0000000000004000\n";
        node.put("proc/900/status", status);
    }),
    ("isolation", "warn", "cores 3", |node| node.put("sys/devices/system/cpu/isolated", "\n")),
    ("smt", "warn", "core 2", |node| node.put("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "2-3")),
    ("governor", "warn", "powersave", |node| {
        node.put("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave");
    }),
    ("clock", "warn", "hpet", |node| {
        node.put("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet");
    }),
    ("interrupts", "warn", "24 (virtio0-input.0)", |node| node.put("proc/irq/24/effective_affinity_list", "3")),
    ("hugepages", "bad", "256 MiB", |node| node.put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "128")),
    ("hugepages-free", "bad", "0 MiB", |node| node.remove("proc/900")),
    ("hugepages-node", "warn", "node 1", |node| {
        node.put("sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", "0");
    }),
    ("hugepages-boot", "warn", "not reserved at boot", |node| node.remove("etc/sysctl.d/50-vswitch.conf")),
    ("hugetlbfs", "bad", "mounted", |node| node.put("proc/mounts", "proc /proc proc rw 0 0\n")),
    ("card", "bad", "0000:3b:00.0", |node| node.remove("sys/bus/pci/devices")),
    ("card-driver", "bad", "ixgbe", |node| node.link(&format!("{CARD}/driver"), "../../drivers/ixgbe")),
    ("card-driver", "bad", "no driver", |node| node.remove(&format!("{CARD}/driver"))),
    ("iommu", "bad", "refuses", |node| node.remove("sys/kernel/iommu_groups")),
    ("iommu", "warn", "anywhere in memory", |node| {
        node.remove("sys/kernel/iommu_groups");
        node.put("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y");
    }),
    ("iommu-group", "bad", "0000:3b:00.1", |node| {
        node.directory(&format!("{CARD}/iommu_group/devices/0000:3b:00.1"), 0o755);
        node.directory("sys/bus/pci/devices/0000:3b:00.1", 0o755);
        node.link("sys/bus/pci/devices/0000:3b:00.1/driver", "../../drivers/ixgbe");
    }),
    ("card-node", "warn", "node 0", |node| node.put(&format!("{CARD}/numa_node"), "0")),
    ("config", "bad", "/etc/vswitch/vswitchd.toml", |node| {
        // Read as far as it goes: nothing; so the machine has nothing else to be judged by.
        node.put("etc/vswitch/vswitchd.toml", "[dpdk\n");
    }),
    ("control-socket", "bad", "/srv/vs", |node| {
        node.configure("[conntrack]", "[control]\nsocket = \"/srv/vs/a.sock\"\n[conntrack]");
    }),
    ("control-socket", "bad", "every user may write", |node| node.directory("run/vswitch", 0o777)),
    ("guest-directory", "bad", "pod-a", |node| node.remove("var/lib/guests")),
    ("guest-rights", "warn", "libvirt-qemu", |node| node.directory("var/lib/guests", 0o755)),
    ("state-directory", "bad", "[antrea] state_dir", |node| node.remove("var/lib/vswitch/antrea")),
    ("tun", "bad", "br-int", |node| node.remove("dev/net/tun")),
    ("interface", "bad", "eth1", |node| node.remove("sys/class/net/eth1")),
    ("open-files", "warn", "1024", |node| node.limits(1024, "unlimited")),
    ("locked-memory", "bad", "64 MiB", |node| {
        node.limits(65536, "67108864");
        node.put("proc/900/status", "VmSwap: 0 kB\nCpus_allowed_list: 0-3\nCapEff: 0000000000000000\n");
    }),
    ("swap", "warn", "1200 KiB", |node| {
        let status = "VmSwap:     1200 kB\nCpus_allowed_list: 0-3\nCapEff: 0000000000004000\n";
        node.put("proc/900/status", status);
    }),
    ("program", "warn", "replaced", |node| node.link("proc/900/exe", "/usr/bin/vswitchd (deleted)")),
];

#[test]
fn nothing_is_found_on_a_healthy_node() {
    assert_eq!(Node::healthy().examined(), (0, Vec::new()));
}

/// Each fault is told by its own check and by no other one, with a fix.
#[test]
fn each_fault_is_found_alone() {
    assert!(FAULTS.len() >= 25, "{} faults", FAULTS.len());
    for (check, level, word, plant) in FAULTS {
        let node = Node::healthy();
        plant(&node);
        let (code, found) = node.examined();
        let mut found = found.into_iter();
        let Some([told, how, fact, fix]) = found.next() else { panic!("{check} ({word}): nothing is found") };
        // A file that is no TOML leaves defaults, of which some may not fit this machine.
        if *check != "config" {
            assert_eq!(found.next(), None, "{check} ({word}): more is found");
        }
        assert_eq!((told.as_str(), how.as_str()), (*check, *level), "{fact}");
        assert!(fact.contains(word) && !fix.is_empty(), "{check}: {fact:?}, {fix:?}");
        assert_eq!(code, if *level == "bad" { 2 } else { 1 }, "{check}: {fact}");
    }
}

/// vswitch-setup reserves hugepages by a file of tmpfiles.d.
#[test]
fn hugepages_of_the_setup_are_those_of_the_boot() {
    let node = Node::healthy();
    node.remove("etc/sysctl.d/50-vswitch.conf");
    let line = "w /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - 256\n";
    node.put("etc/tmpfiles.d/vswitch-hugepages.conf", line);
    assert_eq!(node.examined(), (0, Vec::new()));
}

/// A card without VFIO's module has no driver either; both are told.
#[test]
fn the_module_of_vfio_is_asked_for() {
    let node = Node::healthy();
    for gone in ["sys/module/vfio_pci", "sys/bus/pci/drivers/vfio-pci"] {
        node.remove(gone);
    }
    node.remove(&format!("{CARD}/driver"));
    let checks: Vec<String> = node.examined().1.into_iter().map(|[check, ..]| check).collect();
    assert_eq!(checks, ["card-driver", "vfio"]);
}

#[test]
fn an_empty_machine_and_this_one_are_examined() {
    let empty = tempfile::tempdir().expect("a directory");
    let (code, _) = examined(empty.path());
    assert!((0..=2).contains(&code));
    let (code, _) = examined(Path::new("/"));
    assert!((0..=2).contains(&code));
}

#[test]
fn text_has_facts_and_fixes() {
    let node = Node::healthy();
    node.remove("dev/net/tun");
    let root = node.0.path().to_str().expect("UTF-8");
    let text = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_vsctl"))
            .args(["doctor", "--no-switch", "--root", root])
            .args(more)
            .output()
            .expect("vsctl runs");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let short = text(&[]);
    assert!(
        short.starts_with("bad   tun: there is no /dev/net/tun, and port br-int needs it\n      fix: modprobe tun"),
        "{short}"
    );
    assert_eq!(short.lines().count(), 3, "{short}");
    assert!(text(&["--all"]).contains("ok    cpu: the processor has x86-64-v3\n"));
}
