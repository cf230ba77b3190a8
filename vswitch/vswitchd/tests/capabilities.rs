//! What the process may do once it has started: all of its threads keep named capabilities alone,
//! and ports of each kind can be added all the same.

use crate::common::{Netns, Switch, Veth, interface_name, wait_for};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

const BRIDGE: &str = "[[bridge]]\nname = \"br0\"\n\n";

/// Bits of `linux/capability.h`: dac_override, net_admin, net_raw, ipc_lock, sys_admin.
const KEPT: u64 = 1 << 1 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 21;

/// A user that is not root.
const USER: u32 = 65_534;

/// The sets of one thread by name, in hexadecimal numbers.
fn sets(status: &str) -> [u64; 5] {
    ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(|name| {
        let mut lines = status.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        u64::from_str_radix(lines.next().expect("a set"), 16).expect("a number")
    })
}

/// Asserts that all threads have these capabilities, as far as this test has them itself.
fn assert_all_have(switch: &Switch, kept: u64) {
    let own = sets(&fs::read_to_string("/proc/self/status").expect("there"))[1] & kept;
    let threads = fs::read_dir(format!("/proc/{}/task", switch.pid())).expect("it runs");
    let statuses: Vec<_> =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok()).collect();
    assert!(statuses.len() > 5, "workers, EAL's threads and others");
    for status in statuses {
        let [inheritable, permitted, effective, bounding, ambient] = sets(&status);
        assert_eq!([permitted, effective, bounding], [own; 3], "{}", status.lines().next().unwrap_or_default());
        assert_eq!((inheritable | ambient) & !kept, 0);
    }
}

#[test]
fn ports_of_each_kind_are_added_without_what_the_start_needs() {
    let ns = Netns::new("c");
    let veths = [Veth::new(&ns, "eth0"), Veth::new(&ns, "eth1"), Veth::new(&ns, "eth2"), Veth::new(&ns, "eth3")];
    let (tap, other_tap) = (interface_name('t'), interface_name('u'));
    let switch = Switch::start(BRIDGE);
    assert_all_have(&switch, KEPT);
    let at = switch.dir().display().to_string();
    let guest = switch.dir().join("guest");
    fs::create_dir(&guest).expect("made");
    let listener = UnixListener::bind(guest.join("net.sock")).expect("bound");
    for (path, mode) in [(guest.join("net.sock"), 0o600), (guest.clone(), 0o700)] {
        chown(&path, Some(USER), Some(USER)).expect("we are root");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("we are root");
    }
    let own = guest.display().to_string();
    let add = |name: &str, arguments: &[&str]| {
        switch.vsctl_ok(&[&["add-port", "br0", name, "--type"], arguments].concat());
    };
    add("guest", &["vhost-user", "--path", &format!("{own}/net.sock")]);
    wait_for("the switch connects to the guest", SOON, || listener.accept().is_ok());
    add("server", &["vhost-user", "--path", &format!("{own}/server.sock"), "--mode", "server"]);
    add("packet", &["af_packet", "--interface", veths[0].host()]);
    add("tap", &["tap", "--interface", &tap]);
    add(&other_tap, &["internal"]);
    add("capture", &["pcap", "--tx-file", &format!("{at}/out.pcap")]);
    for (name, devargs) in [
        ("null", "net_null0".to_owned()),
        ("ring", "net_ring0".to_owned()),
        ("memif", format!("net_memif0,role=server,socket={at}/memif,socket-abstract=no")),
        ("pcap", format!("net_pcap0,iface={}", veths[1].host())),
        ("xdp", format!("net_af_xdp0,iface={},force_copy=1", veths[2].host())),
        ("pmd", format!("net_af_packet0,iface={}", veths[3].host())),
    ] {
        add(name, &["dpdk", "--devargs", &devargs]);
    }
    // A TAP follows its interface into a Pod: that takes setns(2).
    ns.take(&tap);
    switch.vsctl_ok(&["mod-port", "br0", "tap", "--mtu", "1432"]);
    assert!(ns.run(&["ip", "link", "show", &tap]).contains("mtu 1432"));
    let ports = switch.json(&["dump-ports", "br0"]);
    for port in ports.as_array().expect("a list") {
        assert!(port["error"].is_null(), "{port:#}");
    }
    assert_all_have(&switch, KEPT);
}

#[test]
fn the_configuration_says_what_is_kept() {
    let kept = "[process]\nkeep_capabilities = [\"net_raw\"]\n\n";
    let switch = Switch::start(&[kept, BRIDGE].concat());
    assert_all_have(&switch, 1 << 13);
    let refused = switch.vsctl(&["add-port", "br0", "tap", "--type", "tap", "--interface", &interface_name('t')]);
    assert!(!refused.status.success(), "a TAP takes CAP_NET_ADMIN");
    assert!(switch.vsctl(&["health"]).status.success());
    drop(switch);
    let all = "[process]\nkeep_capabilities = [\"all\"]\n\n";
    let switch = Switch::start(&[all, BRIDGE].concat());
    let status = fs::read_to_string(format!("/proc/{}/status", switch.pid())).expect("it runs");
    assert_eq!(sets(&status)[1..4], sets(&fs::read_to_string("/proc/self/status").expect("there"))[1..4]);
}
