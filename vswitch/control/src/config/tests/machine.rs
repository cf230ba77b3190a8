//! A machine in a directory: what it lacks is told.

use super::super::{Environment, Severity};
use super::read;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use tempfile::TempDir;

/// Two cores of four (one is offline, one not ours), 1 GiB of hugepages of which half are free,
/// `lo` and `eth0`, one PCI card.
fn machine() -> (TempDir, Environment) {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    };
    write("sys/devices/system/cpu/present", "0-3\n");
    write("sys/devices/system/cpu/online", "0-2\n");
    write("sys/bus/pci/devices/0000:3b:00.0/class", "0x020000\n");
    for (name, value) in [("nr", 512), ("free", 300), ("resv", 44), ("nr_overcommit", 0), ("surplus", 0)] {
        write(&format!("sys/kernel/mm/hugepages/hugepages-2048kB/{name}_hugepages"), &format!("{value}\n"));
        write(&format!("sys/kernel/mm/hugepages/hugepages-1048576kB/{name}_hugepages"), "0\n");
    }
    write("proc/meminfo", "MemTotal: 4194304 kB\nMemAvailable:  1048576 kB\nHugepagesize:       2048 kB\n");
    write("proc/self/net/dev", "Inter-| Receive\n face |bytes\n    lo: 0 0\n  eth0: 1 2\n");
    write("proc/self/net/unix", "Num RefCount Protocol Flags Type St Inode Path\n");
    let environment = Environment { root: dir.path().to_owned(), cores: vec![0, 1], has_dpdk: true };
    (dir, environment)
}

#[track_caller]
fn expect_on(environment: &Environment, text: &str, expected: &[&str]) {
    let mut file = read(text);
    file.check(environment);
    let lines: Vec<_> = file.report().lines().map(|(_, line)| line).collect();
    assert_eq!(lines, expected, "of this text:\n{text}");
}

#[track_caller]
fn expect(text: &str, expected: &[&str]) {
    expect_on(&machine().1, text, expected);
}

#[test]
fn cores_that_are_not_there() {
    expect(
        "[dpdk]\nworker_cores = [1, 2, 3, 4]\nmain_core = 9\n",
        &[
            "f:2:20: worker_cores: core 2 is outside this process's affinity mask 0-1; use a core of the mask, or start with \
             another (taskset -c, CPUAffinity=, the container's cpuset)",
            "f:2:23: worker_cores: core 3 is offline; use one of 0-1, or: echo 1 > /sys/devices/system/cpu/cpu3/online",
            "f:2:26: worker_cores: core 4 does not exist, this machine has 0-3; use one of 0-1",
            "f:3:13: main_core: core 9 does not exist, this machine has 0-3; use one of 0-1",
        ],
    );
}

#[test]
fn a_core_shared_by_control_and_worker_is_a_warning_if_there_are_others() {
    let warning = "f:3:13: warning: main_core: core 1 is a worker's core too; give the control threads a core of their own, or \
                   packets wait for them";
    let text = "[dpdk]\nworker_cores = [1]\nmain_core = 1\n";
    expect(text, &[warning]);
    let (_dir, environment) = machine();
    let alone = Environment { cores: vec![1], ..environment };
    expect_on(&alone, text, &[]);
    expect(
        "[dpdk]\nworker_cores = [0, 1]\n",
        &[
            "f: warning: main_core: core 0 is a worker's core too; give the control threads a core of their own, or packets wait \
           for them",
        ],
    );
}

#[test]
fn hugepages_that_are_not_there() {
    expect("[dpdk]\nmemory_mb = 512\n", &[]);
    expect(
        "[dpdk]\nmemory_mb = 513\n",
        &[
            "f:2:13: memory_mb: 513 MiB of hugepages wanted (257 pages of 2048 KiB), 512 MiB free (256 pages of 2048 KiB, 0 pages \
           of 1048576 KiB); sysctl -w vm.nr_hugepages=513, or a smaller memory_mb, or hugepages = false",
        ],
    );
    let (dir, environment) = machine();
    fs::write(dir.path().join("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages"), "1").expect("a file");
    expect_on(&environment, "[dpdk]\nmemory_mb = 1536\n", &[]);
    fs::write(dir.path().join("sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages"), "10")
        .expect("a file");
    expect_on(&environment, "[dpdk]\nmemory_mb = 1556\n", &[]);
    fs::remove_dir_all(dir.path().join("sys/kernel")).expect("removed");
    expect_on(
        &environment,
        "",
        &["f: memory_mb: 512 MiB of hugepages wanted (256 pages of 2048 KiB), 0 MiB free (no hugepages); sysctl -w \
           vm.nr_hugepages=256, or a smaller memory_mb, or hugepages = false"],
    );
    let meminfo = "Hugepagesize: 2048 kB\nHugePages_Total: 300\nHugePages_Free: 256\nHugePages_Rsvd: 0\n";
    fs::write(dir.path().join("proc/meminfo"), meminfo).expect("a file");
    expect_on(&environment, "", &[]);
    let without_dpdk = Environment { has_dpdk: false, ..environment };
    expect_on(&without_dpdk, "[dpdk]\nmemory_mb = 1048576\n", &[]);
}

#[test]
fn ordinary_memory_that_is_not_there_is_a_warning() {
    expect(
        "[dpdk]\nhugepages = false\nmemory_mb = 1025\n",
        &["f:3:13: warning: memory_mb: 1025 MiB wanted, 1024 MiB of memory available; use less"],
    );
    expect("[dpdk]\nhugepages = false\nmemory_mb = 1024\n", &[]);
}

#[test]
fn interfaces_and_devices() {
    expect(
        "[[bridge]]\nname = 'b'\nport = [\n\
         { name = 'a', type = 'af_packet', interface = 'eht0' },\n\
         { name = 'b', type = 'tap', interface = 'lo' },\n\
         { name = 'eth0', type = 'internal' },\n\
         { name = 'd', type = 'dpdk', devargs = '3b:00.0' },\n\
         { name = 'e', type = 'dpdk', devargs = '3B:00.1,x=1' },\n\
         { name = 'f', type = 'dpdk', devargs = 'net_af_xdp0,iface=eth1' },\n\
         { name = 'g', type = 'dpdk', devargs = 'net_null0' },\n\
         { name = 'h', type = 'af_packet', interface = 'eth0' },\n]\n",
        &[
            "f:4:47: interface: there is no interface named \"eht0\"; did you mean eth0? `ip link` lists those of this network \
             namespace",
            "f:5:41: interface: an interface named lo exists already, the switch makes its own; use another name, or: ip link \
             delete lo",
            "f:6:10: name: an interface named eth0 exists already, the switch makes its own; use another name, or: ip link delete \
             eth0",
            "f:8:40: devargs: there is no PCI device 0000:3b:00.1; `lspci -D` lists them",
            "f:9:40: devargs: there is no interface named \"eth1\"; did you mean eth0? `ip link` lists those of this network \
             namespace",
            "f:11:47: interface: interface \"eth0\" is used by two ports or ways, first at f:6:10; give each port its own",
        ],
    );
}

#[test]
fn files_directories_and_vhost_sockets() {
    let (dir, environment) = machine();
    let at = |name: &str| dir.path().join(name).display().to_string();
    fs::write(dir.path().join("file"), "").expect("a file");
    let _listener = UnixListener::bind(dir.path().join("live")).expect("a socket");
    drop(UnixListener::bind(dir.path().join("stale")).expect("a socket"));
    let listening = format!("Num RefCount\n00: 00000002 00000000 00010000 0001 01 7 {}\n", at("live"));
    fs::write(dir.path().join("proc/self/net/unix"), listening).expect("a file");
    let port = |i: usize, rest: &str| format!("[[bridge.port]]\nname = 'p{i}'\n{rest}\n");
    let ports = [
        format!("type = 'pcap'\nrx_file = '{}'\ntx_file = '{}'", at("missing"), at("no/dir")),
        format!("type = 'pcap'\nrx_file = '{}'\ntx_file = '{}'", at("proc"), at("sys")),
        format!("type = 'pcap'\nrx_file = '{}'\ntx_file = 'relative'", at("proc/meminfo")),
        format!("type = 'vhost-user'\npath = '{}'", at("no/client")),
        format!("type = 'vhost-user'\nmode = 'server'\npath = '{}'", at("no/server")),
        format!("type = 'vhost-user'\npath = '{}'", at("file")),
        format!("type = 'vhost-user'\nmode = 'server'\npath = '{}'", at("live")),
        format!("type = 'vhost-user'\nmode = 'server'\npath = '{}'", at("stale")),
        format!("type = 'vhost-user'\npath = '{}'", at("not-yet")),
    ];
    let ports: String = ports.iter().enumerate().map(|(i, rest)| port(i, rest)).collect();
    let text = format!("[[bridge]]\nname = 'b'\n{ports}");
    let (root, no) = (dir.path().display(), at("no"));
    let expected = [
        format!(
            "f:6:11: rx_file: \"{root}/missing\" cannot be read: No such file or directory (os error 2); name a capture file \
             that vswitchd may read"
        ),
        format!("f:7:11: tx_file: there is no directory {no:?}; mkdir -p {no}"),
        format!("f:11:11: rx_file: \"{root}/proc\" is not a regular file; name a capture file that vswitchd may read"),
        format!("f:12:11: tx_file: \"{root}/sys\" is a directory; name a file"),
        format!("f:21:8: warning: path: there is no directory {no:?}; mkdir -p {no}"),
        format!("f:26:8: path: there is no directory {no:?}; mkdir -p {no}"),
        format!("f:30:8: path: \"{root}/file\" is not a socket; use another path"),
        format!(
            "f:35:8: path: another process listens on \"{root}/live\"; stop it, use another path, or mode = \"client\""
        ),
    ];
    expect_on(&environment, &text, &expected.each_ref().map(String::as_str));
}

#[test]
fn the_control_socket() {
    let (dir, environment) = machine();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let text = |name: &str| format!("[control]\nsocket = '{}'\n", at(name));
    let _listener = UnixListener::bind(dir.path().join("live")).expect("a socket");
    drop(UnixListener::bind(dir.path().join("stale")).expect("a socket"));
    fs::write(dir.path().join("file"), "").expect("a file");
    expect_on(&environment, &text("free"), &[]);
    expect_on(&environment, &text("stale"), &[]);
    for (name, problem) in [
        (
            "live",
            format!(
                "another process listens on {:?}; stop it (is vswitchd running already?) or use another path",
                at("live")
            ),
        ),
        ("file", format!("{:?} exists and is not a socket; remove it or use another path", at("file"))),
        (
            "no/dir",
            format!(
                "there is no directory {:?}; mkdir -p {}; only the directory of the default socket is made at start",
                at("no"),
                at("no")
            ),
        ),
    ] {
        expect_on(&environment, &text(name), &[&format!("f:2:10: socket: {problem}")]);
    }
}

#[test]
fn a_build_without_dpdk_refuses_ports_that_need_it() {
    let (_dir, environment) = machine();
    let environment = Environment { has_dpdk: false, ..environment };
    let text = "[[bridge]]\nname = 'b'\nport = [\n{ name = 'd', type = 'dpdk', devargs = '0000:00:00.0' },\n\
                { name = 't', type = 'tap', interface = 't' },\n]\n";
    let expected = "f:4:22: type: this build of vswitchd has no DPDK, which type dpdk needs; install a build with DPDK";
    expect_on(&environment, text, &[expected]);
}

#[test]
fn nothing_is_said_twice_about_a_refused_value() {
    expect(
        "[dpdk]\nmemory_mb = 'x'\nworker_cores = ['9']\nmain_core = -1\n[control]\nsocket = 'x'\n[[bridge]]\nname = 'b'\n\
         [[bridge.port]]\nname = 'p q'\ntype = 'internal'\n",
        &[
            "f:2:13: memory_mb: is a string, must be an integer from 64 to 1048576; write memory_mb = 64",
            "f:3:17: worker_cores: contains a string, must be an array of core numbers; write worker_cores = [1, 2]",
            "f:4:13: main_core: -1 is out of range; use 0 to 1023",
            "f:6:10: socket: \"x\" is no socket path; use an absolute path of at most 107 bytes",
            "f:10:8: name: \"p q\" is not a name; use 1 to 15 characters of A-Z a-z 0-9 . _ -",
        ],
    );
}

#[test]
fn both_kinds_of_problem_come_in_one_report() {
    let (_dir, environment) = machine();
    let mut file = read("[dpdk]\nmain_core = 4\npci = 1\n");
    file.check(&environment);
    let found: Vec<_> = file.report().problems().iter().map(|p| (p.field.as_str(), p.severity)).collect();
    assert_eq!(found, [("main_core", Severity::Error), ("pci", Severity::Error)]);
    let mut broken = read("[dpdk]\nmain_core = 4\npci =\n");
    broken.check(&environment);
    assert_eq!(broken.report().problems().len(), 1, "{}", broken.report());
    assert_eq!(broken.report().file(), Path::new("f"));
}

#[test]
fn directories_of_state_that_are_not_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let here = dir.path().display();
    expect(&format!("[conntrack]\nstate_file = '{here}/c'\n[antrea]\nstate_dir = '{here}'\n"), &[]);
    expect(
        &format!("[conntrack]\nstate_file = '{here}'\n[antrea]\nstate_dir = '{here}/a'\n"),
        &[
            &format!("f:2:14: state_file: \"{here}\" is a directory; name a file in it"),
            &format!("f:4:13: state_dir: there is no directory \"{here}/a\"; mkdir -p -m 0700 {here}/a"),
        ],
    );
}

#[test]
fn paths_of_state_are_absolute() {
    expect(
        "[conntrack]\nstate_file = 'c'\n[antrea]\nstate_dir = '/'\n",
        &[
            "f:2:14: state_file: \"c\" is no absolute path; write state_file = \"/var/lib/vswitch/connections\", or another path of at most 4000 bytes",
            "f:4:13: state_dir: \"/\" is no absolute path; write state_dir = \"/var/lib/vswitch/antrea\", or another path of at most 4000 bytes",
        ],
    );
}
