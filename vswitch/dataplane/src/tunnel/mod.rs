//! Tunnels of the whole switch: which ports are ends of tunnels, how the other ends are reached,
//! who the next hops are.
//!
//! **Where in the walk**: translation asks here. An output to a tunnel port is a route, a neighbour
//! and a header ([`crate::action::Op::Encap`]), and goes on in the bridge of the *VTEP*: the port
//! that has the switch's own address ([`LocalEndpoint`]). An output to a VTEP whose packet is for
//! one of our tunnels is [`crate::action::Op::Decap`]: the worker takes the outer headers off, and
//! [`Tunnels::find`] says which tunnel port it came by.
//!
//! **Design**: [`Tunnels`] is part of a world and never changes once published; neighbours are a
//! table beside it that workers read without a lock (the crate `vswitch-overlay` has both). A
//! packet comes out of a tunnel only where the pipeline sends it to a VTEP: a packet of a guest
//! that looks like one of a tunnel is just a packet.
//!
//! **Limits**: [`crate::limits::TUNNEL_DEPTH_MAX`], [`crate::limits::VTEP_ADDRESSES_MAX`], those of
//! the crate.
//!
//! **Threads**: any number of readers; the control side publishes.

use crate::packet::Mac;
use crate::port::{End, Key, PortId, TunnelConfig, tunnel_word};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_flow::Field;
use vswitch_overlay::options::FIELDS;
use vswitch_overlay::{Neighbours, Outside, Routes, TunnelKind};

/// The fields of Geneve's options.
pub(crate) const OPTION_FIELDS: [Field; FIELDS] = [
    Field::TunMetadata0,
    Field::TunMetadata1,
    Field::TunMetadata2,
    Field::TunMetadata3,
    Field::TunMetadata4,
    Field::TunMetadata5,
    Field::TunMetadata6,
    Field::TunMetadata7,
];

/// A port that has addresses of the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalEndpoint {
    /// Source of what leaves, destination of what is ours.
    pub mac: Mac,
    /// Our own addresses.
    pub addresses: Vec<IpAddr>,
}

/// What tells a tunnel port from the others, by what a packet shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Match {
    kind: TunnelKind,
    dst_port: u16,
    /// None: the packet says it.
    key: Option<u64>,
    /// Likewise.
    remote: Option<IpAddr>,
    local: End,
}

/// Which parts of a [`Match`] are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    key_flow: bool,
    remote_flow: bool,
    local: Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Local {
    Given,
    Any,
    Flow,
}

/// Why a tunnel port cannot be added beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// Another one is for the same packets.
    Same(PortId),
    /// Another kind of tunnel has this UDP port.
    Port(PortId),
}

/// All tunnels of a world.
#[derive(Clone, Debug)]
pub struct Tunnels {
    /// Ways to the other ends.
    pub routes: Routes,
    /// Next hops, by bridge ([`crate::pipeline::Bridge::id`]).
    pub neighbours: Arc<Neighbours>,
    ports: HashMap<Match, PortId>,
    /// In the order in which they are tried: that of Open vSwitch (`tnl_find`).
    shapes: Vec<Shape>,
    /// UDP ports.
    kinds: HashMap<u16, (TunnelKind, PortId)>,
    gre: bool,
}

impl Default for Tunnels {
    fn default() -> Self {
        Self::new(Routes::default(), Arc::new(Neighbours::new(|| {})))
    }
}

impl Tunnels {
    /// Without tunnel ports.
    #[must_use]
    pub fn new(routes: Routes, neighbours: Arc<Neighbours>) -> Self {
        let (ports, shapes, kinds) = (HashMap::new(), Vec::new(), HashMap::new());
        Self { routes, neighbours, ports, shapes, kinds, gre: false }
    }

    /// Adds a tunnel port.
    ///
    /// # Errors
    /// When it clashes with another one.
    pub fn add(&mut self, port: PortId, config: &TunnelConfig) -> Result<(), Clash> {
        let rule = Match::of(config);
        if let Some(other) = self.ports.get(&rule) {
            return Err(Clash::Same(*other));
        }
        if config.kind == TunnelKind::Gre {
            self.gre = true;
        } else {
            let (kind, other) = *self.kinds.entry(config.dst_port).or_insert((config.kind, port));
            if kind != config.kind {
                return Err(Clash::Port(other));
            }
        }
        self.ports.insert(rule, port);
        let shape = rule.shape();
        if let Err(at) = self.shapes.binary_search(&shape) {
            self.shapes.insert(at, shape);
        }
        Ok(())
    }

    /// There is no tunnel port at all.
    #[must_use]
    pub fn listeners_none(&self) -> bool {
        self.kinds.is_empty() && !self.gre
    }

    /// What a UDP packet to this port of ours is.
    #[must_use]
    pub fn udp(&self, dst_port: u16) -> Option<TunnelKind> {
        self.kinds.get(&dst_port).map(|(kind, _)| *kind)
    }

    /// Whether there is a GRE tunnel.
    #[must_use]
    pub const fn has_gre(&self) -> bool {
        self.gre
    }

    /// The tunnel port that a packet came by: the one that is most specific about it. First those
    /// for its key, of these those for its sender, of these those for our address.
    #[must_use]
    pub fn find(&self, outside: &Outside, dst_port: u16) -> Option<PortId> {
        let (local, remote) = (outside.ends.dst(), outside.ends.src());
        let key = u64::from(outside.id.unwrap_or(0));
        self.shapes.iter().find_map(|shape| {
            let local = match shape.local {
                Local::Given => End::Address(local),
                Local::Any => End::Any,
                Local::Flow => End::Flow,
            };
            let remote = (!shape.remote_flow).then_some(remote);
            let key = (!shape.key_flow).then_some(key);
            self.ports.get(&Match { kind: outside.kind, dst_port, key, remote, local }).copied()
        })
    }

    /// UDP ports and GRE that packets are taken for ours by, for people: `tnl-ports-show`.
    #[must_use]
    pub fn listeners(&self) -> Vec<(TunnelKind, u16)> {
        let mut all: Vec<(TunnelKind, u16)> = self.kinds.iter().map(|(port, (kind, _))| (*kind, *port)).collect();
        all.extend(self.gre.then_some((TunnelKind::Gre, 0)));
        all.sort_unstable();
        all
    }
}

impl Match {
    fn of(config: &TunnelConfig) -> Self {
        Self {
            kind: config.kind,
            dst_port: config.dst_port,
            key: match config.in_key {
                Key::Absent => Some(0),
                Key::Flow => None,
                Key::Value(key) => Some(key),
            },
            remote: match config.remote {
                End::Address(remote) => Some(remote),
                End::Any | End::Flow => None,
            },
            local: config.local,
        }
    }

    const fn shape(&self) -> Shape {
        let local = match self.local {
            End::Address(_) => Local::Given,
            End::Any => Local::Any,
            End::Flow => Local::Flow,
        };
        Shape { key_flow: self.key.is_none(), remote_flow: self.remote.is_none(), local }
    }
}

/// `geneve` with its port, `gre`.
#[must_use]
pub fn listener_name(kind: TunnelKind, port: u16) -> String {
    if port == 0 { tunnel_word(kind).to_owned() } else { format!("{}_{port}", tunnel_word(kind)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use vswitch_overlay::Ends;

    fn config(kind: TunnelKind, options: &str) -> TunnelConfig {
        let pairs = options.split_whitespace().filter_map(|pair| pair.split_once('='));
        let options: BTreeMap<_, _> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        TunnelConfig::parse(kind, &options).expect("good options")
    }

    fn outside(kind: TunnelKind, id: u32, remote: &str, local: &str) -> Outside {
        let ends = Ends::new(remote.parse().expect("an address"), local.parse().expect("an address"));
        Outside {
            kind,
            ends: ends.expect("of one family"),
            tos: 0,
            ttl: 64,
            id: Some(id),
            csum: false,
            oam: false,
            gbp: None,
            options: 0..0,
            header_len: 50,
            payload_end: 64,
            checksum: None,
        }
    }

    #[test]
    fn the_most_specific_port_wins_and_the_key_counts_first() {
        let options = [
            "remote_ip=flow key=flow",
            "remote_ip=1.1.1.1 key=flow",
            "remote_ip=flow key=5",
            "remote_ip=1.1.1.1 key=5",
            "remote_ip=1.1.1.1 local_ip=9.9.9.9 key=5",
            "remote_ip=flow local_ip=9.9.9.9 key=flow",
            "remote_ip=2.2.2.2",
            "remote_ip=flow local_ip=flow key=7",
        ];
        let mut tunnels = Tunnels::default();
        for (i, options) in (0..).zip(options) {
            tunnels.add(PortId(i), &config(TunnelKind::Geneve, options)).expect(options);
        }
        for (key, remote, local, port) in [
            (5, "1.1.1.1", "9.9.9.9", Some(4)),
            (5, "1.1.1.1", "8.8.8.8", Some(3)),
            (5, "3.3.3.3", "8.8.8.8", Some(2)),
            (6, "1.1.1.1", "8.8.8.8", Some(1)),
            // A port for the sender goes before one for our address.
            (6, "1.1.1.1", "9.9.9.9", Some(1)),
            (6, "3.3.3.3", "9.9.9.9", Some(5)),
            (6, "3.3.3.3", "8.8.8.8", Some(0)),
            (0, "2.2.2.2", "8.8.8.8", Some(6)),
            (7, "4.4.4.4", "8.8.8.8", Some(7)),
        ] {
            let found = tunnels.find(&outside(TunnelKind::Geneve, key, remote, local), 6081);
            assert_eq!(found, port.map(PortId), "key {key} from {remote} to {local}");
        }
        assert_eq!(tunnels.find(&outside(TunnelKind::Geneve, 5, "1.1.1.1", "9.9.9.9"), 6082), None, "another UDP port");
        assert_eq!(tunnels.find(&outside(TunnelKind::Vxlan, 5, "1.1.1.1", "9.9.9.9"), 6081), None, "another kind");
    }

    #[test]
    fn ports_for_the_same_packets_and_kinds_on_one_udp_port_clash() {
        let mut tunnels = Tunnels::default();
        let same = config(TunnelKind::Vxlan, "remote_ip=1.1.1.1 key=5");
        tunnels.add(PortId(1), &same).expect("the first");
        assert_eq!(tunnels.add(PortId(2), &TunnelConfig { csum: true, ..same.clone() }), Err(Clash::Same(PortId(1))));
        let other = config(TunnelKind::Geneve, "remote_ip=flow dst_port=4789");
        assert_eq!(tunnels.add(PortId(2), &other), Err(Clash::Port(PortId(1))));
        tunnels.add(PortId(2), &config(TunnelKind::Gre, "remote_ip=flow")).expect("gre has no port");
        assert_eq!(tunnels.listeners(), [(TunnelKind::Vxlan, 4789), (TunnelKind::Gre, 0)]);
        assert_eq!((tunnels.udp(4789), tunnels.udp(6081), tunnels.has_gre()), (Some(TunnelKind::Vxlan), None, true));
    }
}
