//! Receive-side scaling: how a device with several receive queues spreads packets over them.
//!
//! **Design**: both directions of a connection must come to one queue, or two workers would share
//! each connection's memory. NICs hash by Toeplitz with a key of the driver's choice, under which
//! they do not; under [`KEY`] they do. (DPDK 22.11 can ask for a symmetric hash function only flow
//! by flow, and of few drivers; a key all of them take.) Fragments are hashed by their addresses
//! alone, so they may come elsewhere than the rest of their connection.
//!
//! A driver may take a key and use its own nevertheless: what it uses is read back.

use dpdk_sys as sys;

/// Bytes of the longest key that a driver may want.
const KEY_MAX: usize = 64;

/// Bytes of a key where the driver does not say: what Toeplitz needs for two IPv6 addresses and two
/// ports, as all NICs have it.
const KEY_USUAL: u8 = 40;

/// Key under which both directions of a connection hash alike (Woo and Park, "Scalable TCP Session
/// Monitoring with Symmetric Receive-side Scaling", 2012): the 16-bit pattern 0x6d5a, repeated.
const KEY: [u8; KEY_MAX] = {
    let mut key = [0x6d; KEY_MAX];
    let mut i = 1;
    while i < KEY_MAX {
        key[i] = 0x5a;
        i += 2;
    }
    key
};

/// Kinds of packets to spread, where the device can: the name of the capability, and the flow types
/// that drivers have for it.
const KINDS: [(&str, u64); 6] = [
    ("rss-tcp4", sys::RTE_ETH_RSS_NONFRAG_IPV4_TCP),
    ("rss-udp4", sys::RTE_ETH_RSS_NONFRAG_IPV4_UDP),
    ("rss-ip4", sys::RTE_ETH_RSS_IPV4 | sys::RTE_ETH_RSS_FRAG_IPV4 | sys::RTE_ETH_RSS_NONFRAG_IPV4_OTHER),
    ("rss-tcp6", sys::RTE_ETH_RSS_NONFRAG_IPV6_TCP),
    ("rss-udp6", sys::RTE_ETH_RSS_NONFRAG_IPV6_UDP),
    ("rss-ip6", sys::RTE_ETH_RSS_IPV6 | sys::RTE_ETH_RSS_FRAG_IPV6 | sys::RTE_ETH_RSS_NONFRAG_IPV6_OTHER),
];

/// What a device is asked to do about its queues.
#[derive(Debug)]
pub(super) struct Spread {
    /// Several receive queues were asked for.
    asked: bool,
    /// It has several.
    queues_offered: bool,
    /// It is to use several.
    queues_used: bool,
    /// Flow types that it can hash.
    offered: u64,
    /// Flow types that it is to hash; none: it does not spread.
    types: u64,
    key: [u8; KEY_MAX],
    /// Bytes of a key of the device; 0: none that we could give.
    key_len: u8,
    /// The driver told that length.
    key_len_known: bool,
    /// The device hashes by our key.
    symmetric: bool,
}

impl Spread {
    /// For a device with these abilities, of which `asked` receive queues are wanted.
    pub(super) fn of(asked: u16, info: &sys::rte_eth_dev_info) -> Self {
        let wanted = KINDS.iter().fold(0, |all, (_, types)| all | types);
        let queues_used = asked.min(info.max_rx_queues) > 1;
        let key_len = if info.hash_key_size == 0 { KEY_USUAL } else { info.hash_key_size };
        Self {
            asked: asked > 1,
            queues_offered: info.max_rx_queues > 1,
            queues_used,
            offered: wanted & info.flow_type_rss_offloads,
            types: if queues_used { wanted & info.flow_type_rss_offloads } else { 0 },
            key: KEY,
            key_len: if usize::from(key_len) <= KEY_MAX { key_len } else { 0 },
            key_len_known: info.hash_key_size != 0,
            symmetric: false,
        }
    }

    /// Whether packets are to be spread.
    pub(super) const fn is_wanted(&self) -> bool {
        self.types != 0
    }

    /// Asks for it. `conf` points into `self` from then on.
    pub(super) fn ask(&mut self, conf: &mut sys::rte_eth_conf) {
        if !self.is_wanted() {
            // A driver that is asked for hashing without RSS refuses the whole configuration.
            conf.rxmode.offloads &= !sys::RTE_ETH_RX_OFFLOAD_RSS_HASH;
            return;
        }
        conf.rxmode.mq_mode = sys::RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = self.types;
        if self.key_len_known && self.key_len > 0 {
            conf.rx_adv_conf.rss_conf = self.conf();
        }
    }

    /// Types and key; it points into `self`.
    fn conf(&mut self) -> sys::rte_eth_rss_conf {
        sys::rte_eth_rss_conf { rss_key: self.key.as_mut_ptr(), rss_key_len: self.key_len, rss_hf: self.types }
    }

    /// Once the port is started: looks which key it uses, and gives it ours if that is another one.
    /// On EAL's thread.
    pub(super) fn check(&mut self, port: u16) {
        if !self.is_wanted() || self.key_len == 0 {
            return;
        }
        self.symmetric = match self.uses_ours(port) {
            Some(true) => true,
            Some(false) => {
                let mut conf = self.conf();
                // SAFETY: the port exists; the key outlives the call.
                let rc = unsafe { sys::rte_eth_dev_rss_hash_update(port, &raw mut conf) };
                rc == 0 && self.uses_ours(port) == Some(true)
            }
            // It took the key when it was configured, if it was given one.
            None => self.key_len_known,
        };
    }

    /// Whether a started device hashes by our key; none if its driver does not tell.
    fn uses_ours(&self, port: u16) -> Option<bool> {
        let mut key = [0; KEY_MAX];
        let mut conf = sys::rte_eth_rss_conf { rss_key: key.as_mut_ptr(), rss_key_len: self.key_len, rss_hf: 0 };
        // SAFETY: the port exists; its key is written, for which there is room.
        let rc = unsafe { sys::rte_eth_dev_rss_hash_conf_get(port, &raw mut conf) };
        let len = usize::from(self.key_len);
        (rc == 0).then(|| key[..len] == KEY[..len])
    }

    /// What was asked, what the device has, what it does: (name of the capability, asked, offered,
    /// used).
    pub(super) fn abilities(&self) -> impl Iterator<Item = (&'static str, bool, bool, bool)> {
        let kinds =
            KINDS.iter().map(|(name, types)| (*name, self.asked, self.offered & types != 0, self.types & types != 0));
        let key = self.offered != 0 && self.key_len > 0;
        [("multi-queue", self.asked, self.queues_offered, self.queues_used)].into_iter().chain(kinds).chain([(
            "rss-symmetric",
            self.asked,
            key,
            self.symmetric,
        )])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    /// Toeplitz as NICs compute it (Microsoft, "RSS Hashing Functions"): for every set bit of the
    /// input, the 32 bits of the key at its place.
    fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
        let word = |bit: usize| {
            let bits = |i: usize| u64::from(key[i]);
            let window = (bit / 8..bit / 8 + 5).fold(0, |window, i| window << 8 | bits(i));
            u32::try_from(window >> (8 - bit % 8) & 0xffff_ffff).expect("32 bits")
        };
        let is_set = |bit: usize| input[bit / 8] & (0x80 >> (bit % 8)) != 0;
        (0..input.len() * 8).filter(|bit| is_set(*bit)).fold(0, |hash, bit| hash ^ word(bit))
    }

    /// What is hashed of a packet.
    fn input(src: IpAddr, dst: IpAddr, ports: Option<(u16, u16)>) -> Vec<u8> {
        let bytes = |address: IpAddr| match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let ports = ports.map_or_else(Vec::new, |(a, b)| [a.to_be_bytes(), b.to_be_bytes()].concat());
        [bytes(src), bytes(dst), ports].concat()
    }

    /// Connections of some clients to some servers, as they come: addresses and ports that differ
    /// in few bits.
    fn connections(six: bool) -> impl Iterator<Item = (IpAddr, IpAddr, u16, u16)> {
        let address = move |net: u8, host: u16| -> IpAddr {
            let [a, b] = host.to_be_bytes();
            if six {
                Ipv6Addr::new(0xfd00, 0, 0, net.into(), 0, 0, 0, host).into()
            } else {
                Ipv4Addr::new(10, net, a, b).into()
            }
        };
        (0..4096_u16)
            .map(move |i| (address(1, i % 61), address(2, i % 7), 32_768 + i, [80, 443, 8080][usize::from(i % 3)]))
    }

    #[test]
    fn the_software_hash_is_that_of_the_specification() {
        let key = [
            0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca,
            0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b,
            0xbe, 0xac, 0x01, 0xfa,
        ];
        let (src, dst): (IpAddr, IpAddr) =
            ("66.9.149.187".parse().expect("an address"), "161.142.100.80".parse().expect("an address"));
        assert_eq!(toeplitz(&key, &input(src, dst, Some((2794, 1766)))), 0x51cc_c178);
        assert_eq!(toeplitz(&key, &input(src, dst, None)), 0x323e_8fc2);
        let back = toeplitz(&key, &input(dst, src, Some((1766, 2794))));
        assert_ne!(back, 0x51cc_c178, "the specification's key is not symmetric, or this test could not fail");
    }

    #[test]
    fn both_directions_hash_alike_and_connections_spread_over_queues() {
        for six in [false, true] {
            let mut queues = [0_u32; 4];
            for (src, dst, sport, dport) in connections(six) {
                let there = toeplitz(&KEY, &input(src, dst, Some((sport, dport))));
                let back = toeplitz(&KEY, &input(dst, src, Some((dport, sport))));
                assert_eq!(there, back, "{src}:{sport} and {dst}:{dport}");
                let (there_alone, back_alone) =
                    (toeplitz(&KEY, &input(src, dst, None)), toeplitz(&KEY, &input(dst, src, None)));
                assert_eq!(there_alone, back_alone, "{src} and {dst}");
                // As NICs do with a table of 128 entries that name the queues in turn.
                queues[(there % 128 % 4) as usize] += 1;
            }
            let ideal = queues.iter().sum::<u32>() / 4;
            assert!(queues.iter().all(|n| *n >= ideal / 2), "IPv6 {six}: {queues:?}, ideally {ideal} each");
        }
    }

    fn info(queues: u16, types: u64, key_len: u8) -> sys::rte_eth_dev_info {
        sys::rte_eth_dev_info {
            max_rx_queues: queues,
            flow_type_rss_offloads: types,
            hash_key_size: key_len,
            ..Default::default()
        }
    }

    /// What a device is asked for: hash offload, RSS mode, types, bytes of the key.
    fn asked(queues: u16, info: &sys::rte_eth_dev_info) -> (bool, bool, u64, u8) {
        let mut conf = sys::rte_eth_conf::default();
        conf.rxmode.offloads = sys::RTE_ETH_RX_OFFLOAD_RSS_HASH;
        let mut spread = Spread::of(queues, info);
        spread.ask(&mut conf);
        let rss = &conf.rx_adv_conf.rss_conf;
        (conf.rxmode.offloads != 0, conf.rxmode.mq_mode == sys::RTE_ETH_MQ_RX_RSS, rss.rss_hf, rss.rss_key_len)
    }

    #[test]
    fn a_device_is_asked_for_what_it_has() {
        let (tcp4, foreign) = (sys::RTE_ETH_RSS_NONFRAG_IPV4_TCP, 1 << 40);
        for (what, queues, info, want) in [
            ("several queues", 4, info(8, tcp4 | foreign, 40), (true, true, tcp4, 40)),
            ("a long key", 4, info(8, tcp4, 52), (true, true, tcp4, 52)),
            ("a key too long for us", 4, info(8, tcp4, 80), (true, true, tcp4, 0)),
            ("a key of unknown length", 4, info(8, tcp4, 0), (true, true, tcp4, 0)),
            ("one queue asked", 1, info(8, tcp4, 40), (false, false, 0, 0)),
            ("one queue there", 4, info(1, tcp4, 40), (false, false, 0, 0)),
            ("no RSS", 4, info(8, 0, 40), (false, false, 0, 0)),
        ] {
            assert_eq!(asked(queues, &info), want, "{what}");
        }
    }

    #[test]
    fn what_is_reported() {
        let used = |queues: u16, types: u64| -> (BTreeSet<&str>, BTreeSet<&str>) {
            let spread = Spread::of(queues, &info(8, types, 40));
            let names = |f: fn(&(&'static str, bool, bool, bool)) -> bool| {
                spread.abilities().filter(f).map(|ability| ability.0).collect()
            };
            (names(|ability| ability.2), names(|ability| ability.3))
        };
        let types = sys::RTE_ETH_RSS_NONFRAG_IPV6_UDP | sys::RTE_ETH_RSS_FRAG_IPV4;
        let offered = BTreeSet::from(["multi-queue", "rss-ip4", "rss-udp6", "rss-symmetric"]);
        assert_eq!(used(1, types), (offered.clone(), BTreeSet::new()), "one queue");
        assert_eq!(
            used(2, types),
            (offered, BTreeSet::from(["multi-queue", "rss-ip4", "rss-udp6"])),
            "before the key is checked"
        );
        assert_eq!(used(2, 0), (BTreeSet::from(["multi-queue"]), BTreeSet::from(["multi-queue"])), "no RSS");
    }
}
