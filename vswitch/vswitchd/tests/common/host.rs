//! A host on the switch: a network namespace with one interface, wired in one of the ways there are
//! for hosts.

use super::command::{output, run, unique, wait_for};
use super::counters::ChecksumErrors;
use super::netns::{Netns, Veth, interface_name};
use super::switch::Switch;
use std::time::Duration;

/// How a host is wired to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// A veth pair; the switch has a packet socket on the host's end.
    AfPacket,
    /// A TAP interface that the switch makes and the test moves into the namespace.
    Tap,
    /// An internal port's interface, moved likewise.
    Internal,
}

/// A namespace with one interface, offloads as the kernel sets them by default.
#[derive(Debug)]
pub(crate) struct Host {
    /// Name of its port on the switch.
    pub(crate) port: String,
    /// Its IPv4 address.
    pub(crate) v4: String,
    /// Its IPv6 address.
    pub(crate) v6: String,
    /// Its namespace.
    pub(crate) ns: Netns,
    wire: Wire,
    interface: String,
    veth: Option<Veth>,
}

impl Host {
    /// Makes the namespace, and what must exist before the switch starts. `index` (1 to 250) sets
    /// its addresses.
    pub(crate) fn new(wire: Wire, index: u8) -> Self {
        let ns = Netns::new(&format!("h{index}"));
        let veth = (wire == Wire::AfPacket).then(|| Veth::new(&ns, "eth0"));
        let interface = match wire {
            Wire::AfPacket => "eth0".to_owned(),
            Wire::Tap => interface_name('t'),
            Wire::Internal => interface_name('i'),
        };
        // An internal port's interface has the port's name.
        let port = if wire == Wire::Internal { interface.clone() } else { format!("p{index}-{}", unique()) };
        Self { port, v4: format!("10.99.0.{index}"), v6: format!("fd99::{index}"), ns, wire, interface, veth }
    }

    /// Its `[[bridge.port]]`, to stand below a `[[bridge]]`.
    pub(crate) fn config(&self, number: u32) -> String {
        let device = match (&self.veth, self.wire) {
            (Some(veth), _) => format!("type = \"af_packet\"\ninterface = {:?}\n", veth.host()),
            (None, Wire::Tap) => format!("type = \"tap\"\ninterface = {:?}\n", self.interface),
            (None, _) => "type = \"internal\"\n".to_owned(),
        };
        format!("[[bridge.port]]\nname = {:?}\nnumber = {number}\n{device}\n", self.port)
    }

    /// Gives both ends of its veth pair an MTU, before the switch starts.
    pub(crate) fn set_mtu(&self, mtu: u32) {
        let mtu = mtu.to_string();
        let veth = self.veth.as_ref().expect("it is wired by a veth pair");
        run(&["ip", "link", "set", "dev", veth.host(), "mtu", &mtu]);
        self.ns.run(&["ip", "link", "set", "dev", &self.interface, "mtu", &mtu]);
    }

    /// Adds its port to bridge br0 of a running switch, with these arguments beside the type.
    ///
    /// # Panics
    /// When the switch refuses it.
    pub(crate) fn add_to(&self, switch: &Switch, arguments: &[&str]) {
        let (kind, interface) = match (&self.veth, self.wire) {
            (Some(veth), _) => ("af_packet", Some(veth.host())),
            (None, Wire::Tap) => ("tap", Some(self.interface.as_str())),
            (None, _) => ("internal", None),
        };
        let interface = interface.map_or_else(Vec::new, |name| vec!["--interface", name]);
        let own = ["add-port", "br0", &self.port, "--type", kind];
        switch.vsctl_ok(&[&own[..], &interface, arguments].concat());
    }

    /// Once the switch runs: takes the interface that it made and gives it its addresses.
    pub(crate) fn attach(&self) {
        if self.veth.is_none() {
            let made = || output(&["ip", "link", "show", "dev", &self.interface]).status.success();
            wait_for(&format!("the switch makes {}", self.interface), Duration::from_secs(60), made);
            self.ns.take(&self.interface);
        }
        self.ns.configure(&self.interface, &[&format!("{}/24", self.v4), &format!("{}/64", self.v6)]);
    }

    /// Waits until another host answers, over IPv4 and IPv6: links take a moment to come up.
    pub(crate) fn wait_reaches(&self, other: &Self) {
        for address in [&other.v4, &other.v6] {
            let what = format!("{:?} host to {:?} host", self.wire, other.wire);
            self.ns.wait_reaches(address, Duration::from_secs(60), &what);
        }
    }

    /// Packets that its kernel dropped for a wrong checksum so far.
    pub(crate) fn checksum_errors(&self) -> ChecksumErrors {
        ChecksumErrors::of(&self.ns)
    }
}
