//! What a port's other end can do in our place: asked for, offered, used.

use super::open::Device;
use super::{PortKind, VhostConfig};
use crate::observe::{PortTotals, Software};

/// One ability of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Its name: `rx-csum`, `tx-csum`, `rx-tso4`, `rx-tso6`, `tx-tso4`, `tx-tso6`, `tx-uso`,
    /// `multi-segment`, `multi-queue`, `mergeable`, `indirect`, `packed`, `mtu`; what a device
    /// spreads over its queues, `rss-tcp4`, `rss-udp4`, `rss-ip4` and the like with 6, and whether
    /// both directions of a connection alike, `rss-symmetric`. Receiving is what comes into the
    /// switch.
    pub name: &'static str,
    /// The switch wants it, as the port is configured.
    pub asked: bool,
    /// The device has it; of a vhost-user port: the guest is offered it.
    pub offered: bool,
    /// It is in use; of a vhost-user port: with the guest that is connected.
    pub used: bool,
    /// Packets for which the switch did it itself, in software, since the port was opened; none: it
    /// is nothing that could be done for a packet.
    pub software: Option<u64>,
}

impl Capability {
    const fn new(name: &'static str, asked: bool, offered: bool, used: bool) -> Self {
        Self { name, asked, offered, used, software: None }
    }

    /// Always there, and in use.
    const fn given(name: &'static str) -> Self {
        Self::new(name, true, true, true)
    }
}

impl Device {
    /// Everything that a port of its kind may be able to do, in a fixed order; `totals` are the
    /// port's.
    #[must_use]
    pub fn capabilities(&self, kind: &PortKind, totals: &PortTotals) -> Vec<Capability> {
        let all = match (self, kind) {
            #[cfg(feature = "dpdk")]
            (Self::Ethdev(device), _) => {
                let all = device.abilities().into_iter();
                all.map(|(name, asked, offered, used)| Capability::new(name, asked, offered, used)).collect()
            }
            (Self::AfPacket(_), _) => kernel(self.tx_caps().uso),
            (Self::Tap(device), _) => {
                let several = device.queues() > 1;
                let mut all = kernel(self.tx_caps().uso);
                all.push(Capability::new("multi-queue", several, true, several));
                all
            }
            (Self::Vhost(_), PortKind::VhostUser(config)) => guest(config, &self.offloads()),
            _ => Vec::new(),
        };
        with_software(all, totals)
    }
}

/// Says how often the switch did it itself.
fn with_software(mut all: Vec<Capability>, totals: &PortTotals) -> Vec<Capability> {
    for capability in &mut all {
        capability.software = Software::of(capability.name).map(|kind| totals.software[kind.index()]);
    }
    all
}

/// The kernel's interfaces have a virtio-net header.
fn kernel(uso: bool) -> Vec<Capability> {
    let mut all: Vec<Capability> =
        ["rx-csum", "tx-csum", "rx-tso4", "rx-tso6", "tx-tso4", "tx-tso6"].map(Capability::given).to_vec();
    all.push(Capability::new("tx-uso", true, uso, uso));
    all.push(Capability::given("multi-segment"));
    all
}

/// `negotiated`: features by the names of the virtio specification.
fn guest(config: &VhostConfig, negotiated: &[&str]) -> Vec<Capability> {
    let tso = config.csum && config.tso;
    let used = |feature: &str| negotiated.contains(&feature);
    [
        ("rx-csum", config.csum, used("csum")),
        ("tx-csum", config.csum, used("guest_csum")),
        ("rx-tso4", tso, used("csum") && used("host_tso4")),
        ("rx-tso6", tso, used("csum") && used("host_tso6")),
        ("tx-tso4", tso, used("guest_csum") && used("guest_tso4")),
        ("tx-tso6", tso, used("guest_csum") && used("guest_tso6")),
        ("multi-queue", config.queues > 1, used("mq")),
        ("mergeable", config.mergeable, used("mrg_rxbuf")),
        ("indirect", config.indirect, used("indirect_desc")),
        ("packed", config.packed, used("ring_packed")),
        ("mtu", true, used("mtu")),
    ]
    .map(|(name, asked, used)| Capability::new(name, asked, asked, used))
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::VhostMode;

    #[test]
    fn what_a_guest_did_not_negotiate_is_offered_and_not_used() {
        let config = VhostConfig { tso: false, queues: 2, ..VhostConfig::new("/run/a".into(), VhostMode::Client) };
        let all = guest(&config, &["csum", "mrg_rxbuf", "host_tso4"]);
        let state = |name: &str| {
            let found = all.iter().find(|capability| capability.name == name).expect("it is listed");
            (found.asked, found.offered, found.used)
        };
        assert_eq!(state("rx-csum"), (true, true, true));
        assert_eq!(state("tx-csum"), (true, true, false));
        assert_eq!(state("tx-tso4"), (false, false, false));
        assert_eq!(state("multi-queue"), (true, true, false));
        assert_eq!(state("packed"), (false, false, false));
        assert_eq!(state("mtu"), (true, true, false));
    }

    #[test]
    fn what_the_switch_does_itself_is_counted_where_it_would_be_done() {
        let mut totals = PortTotals::default();
        totals.software[Software::Checksum.index()] = 7;
        totals.software[Software::Tso6.index()] = 3;
        let all = with_software(kernel(false), &totals);
        let counts: Vec<_> =
            all.iter().filter_map(|capability| Some((capability.name, capability.software?))).collect();
        assert_eq!(counts, [("tx-csum", 7), ("tx-tso4", 0), ("tx-tso6", 3), ("tx-uso", 0)]);
    }
}
