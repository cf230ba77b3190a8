//! Network namespaces and veth pairs that go when their guard does.

use super::command::{self, output, run, unique, wait_for};
use std::process::{Command, Output};
use std::time::Duration;

/// A network namespace with its loopback up and IPv6 ready without waiting (no duplicate address
/// detection).
#[derive(Debug)]
pub(crate) struct Netns {
    name: String,
}

impl Netns {
    /// Makes one; `label` shows up in its name.
    pub(crate) fn new(label: &str) -> Self {
        let name = format!("vt{}-{}-{label}", std::process::id(), unique());
        run(&["ip", "netns", "add", &name]);
        let ns = Self { name };
        ns.run(&["ip", "link", "set", "lo", "up"]);
        ns.run(&["sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0", "net.ipv6.conf.default.accept_ra=0"]);
        ns
    }

    /// Its name, for `ip netns exec`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A program in it, to be started.
    pub(crate) fn command(&self, argv: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).args(argv);
        command
    }

    /// Runs a program in it that may fail.
    pub(crate) fn exec(&self, argv: &[&str]) -> Output {
        output(&[&["ip", "netns", "exec", &self.name], argv].concat())
    }

    /// Runs a program in it and returns what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub(crate) fn run(&self, argv: &[&str]) -> String {
        let output = command::unless_busy(|| self.exec(argv), command::describe);
        assert!(
            output.status.success(),
            "`{}` in {} failed: {}",
            argv.join(" "),
            self.name,
            command::describe(&output)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until something answers its pings: links take a moment to come up, and whoever is
    /// asked first asks for the way.
    pub(crate) fn wait_reaches(&self, address: &str, limit: Duration, what: &str) {
        wait_for(&format!("{what}: {} reaches {address}", self.name), limit, || {
            self.exec(&["ping", "-n", "-c", "1", "-W", "1", address]).status.success()
        });
    }

    /// Moves an interface of the host in here.
    pub(crate) fn take(&self, interface: &str) {
        run(&["ip", "link", "set", "dev", interface, "netns", &self.name]);
    }

    /// Gives an interface in here addresses (with prefix length) and brings it up.
    pub(crate) fn configure(&self, interface: &str, addresses: &[&str]) {
        for address in addresses {
            let nodad: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
            self.run(&[&["ip", "address", "add", address, "dev", interface], nodad].concat());
        }
        self.run(&["ip", "link", "set", "dev", interface, "up"]);
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // Programs in it would keep it alive, and its interfaces with it.
        let pids = output(&["ip", "netns", "pids", &self.name]);
        for pid in String::from_utf8_lossy(&pids.stdout).split_whitespace() {
            output(&["kill", "-KILL", pid]);
        }
        output(&["ip", "netns", "delete", &self.name]);
    }
}

/// A veth pair: one end stays with the host (for the switch), the other is in a namespace.
#[derive(Debug)]
pub(crate) struct Veth {
    host: String,
}

impl Veth {
    /// Makes a pair whose far end is `inside` in `ns`. The near end is up and takes no part in
    /// IPv6.
    pub(crate) fn new(ns: &Netns, inside: &str) -> Self {
        let host = interface_name('v');
        run(&["ip", "link", "add", "name", &host, "type", "veth", "peer", "name", inside, "netns", ns.name()]);
        let veth = Self { host };
        run(&["ip", "link", "set", "dev", &veth.host, "addrgenmode", "none"]);
        run(&["ip", "link", "set", "dev", &veth.host, "up"]);
        veth
    }

    /// A wire of a switch's uplink, to a peer that has these addresses (with prefix length) and may
    /// have tunnels by it.
    pub(crate) fn uplink(ns: &Netns, inside: &str, addresses: &[&str]) -> Self {
        let veth = Self::new(ns, inside);
        // The kernel would answer for addresses that other interfaces of this machine have, with
        // this one's MAC address.
        run(&["ip", "link", "set", "dev", &veth.host, "arp", "off"]);
        ns.configure(inside, addresses);
        // Captures on this side are to have all checksums, and DPDK's `net_af_packet` cannot be
        // told of those that are left to it.
        ns.run(&["ethtool", "-K", inside, "tx", "off"]);
        veth
    }

    /// Name of the host's end.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        output(&["ip", "link", "delete", &self.host]);
    }
}

/// An interface name that is unique on this machine; at most 15 characters.
pub(crate) fn interface_name(kind: char) -> String {
    format!("vt{}{kind}{}", std::process::id(), unique())
}
