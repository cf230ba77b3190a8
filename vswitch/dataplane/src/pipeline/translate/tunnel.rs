//! Into tunnels, and out of them (`tnl_port_send`, `native_tunnel_output` and
//! `terminate_native_tunnel` of Open vSwitch).
//!
//! An output to a tunnel port puts the packet into another one, which goes through the bridge of
//! the port of a *VTEP*, the local end of tunnels, like one that came in there. An output to a VTEP
//! port takes a packet out of a tunnel, if it is for one of ours; which tunnel port that is, each
//! packet says, so the worker finds out.

use super::run::Translator;
use super::view::{View, eth_type, proto};
use crate::action::{AskOp, DecapOp, EncapOp, Op, Question};
use crate::observe::DropReason;
use crate::pipeline::PortFacts;
use crate::port::{End, Key, Outer as Inherited, PortId, TunnelConfig};
use crate::tunnel::{LocalEndpoint, OPTION_FIELDS};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use vswitch_flow::{FIRST_PACKET_WORD, Field, FlowKey, LAST_PACKET_WORD, TUNNEL_WORD};
use vswitch_overlay::options::Values;
use vswitch_overlay::question::question;
use vswitch_overlay::routes::Route;
use vswitch_overlay::{Ends, Header, Neighbour, Outer, TunnelHeader, TunnelKind};

/// TTL of a packet in a tunnel that inherits it, when the inner packet has none.
const TTL_DEFAULT: u8 = 64;

/// "Congestion experienced" and "ECN-capable" in an IP header (RFC 3168).
const CE: u8 = 3;
const ECT_0: u8 = 2;

/// IP protocol of GRE.
const GRE: u128 = 47;

/// Where a packet for a tunnel leaves.
struct Way<'a> {
    ends: Ends,
    route: Route,
    next_hop: IpAddr,
    port: PortId,
    facts: &'a PortFacts,
    vtep: &'a Arc<LocalEndpoint>,
}

/// The number of the option that a field is, if it is one.
pub(super) fn option_of(field: Field) -> Option<u32> {
    OPTION_FIELDS.iter().position(|own| *own == field).and_then(|i| u32::try_from(i).ok())
}

/// Our own end of the tunnel that a packet came out of.
pub(super) fn own_end(key: &FlowKey) -> Option<IpAddr> {
    address(key.get(Field::TunDst), key.get(Field::TunIpv6Dst))
}

#[allow(clippy::cast_possible_truncation)] // 32 bits
fn address(v4: u128, v6: u128) -> Option<IpAddr> {
    match (v4, v6) {
        (0, 0) => None,
        (0, v6) => Some(Ipv6Addr::from_bits(v6).into()),
        (v4, _) => Some(Ipv4Addr::from_bits(v4 as u32).into()),
    }
}

impl<'a> Translator<'a, '_> {
    /// A packet leaves by a tunnel port.
    pub(super) fn encapsulate(&mut self, (port, here): (PortId, &PortFacts), tunnel: &TunnelConfig, max: Option<u16>) {
        if !here.admin_up {
            self.skip(DropReason::AdminDown);
            return;
        }
        let Some(remote) = self.view.tunnel_end(tunnel.remote, Field::TunDst, Field::TunIpv6Dst) else {
            self.warn(|| "native tunnel routing failed".to_owned());
            self.reason = Some(DropReason::NoRoute);
            return;
        };
        if self.own_end.is_some() || self.met_ct {
            // It depends on the packet's own end, whatever was written over it since. (That there
            // is none is known by the port, where that is still the one it came by.)
            self.view.mask.add(Field::TunDst);
            self.view.mask.add(Field::TunIpv6Dst);
        }
        if self.own_end == Some(remote) {
            self.warn(|| "Not tunneling to our own address".to_owned());
            self.reason = Some(DropReason::NoRoute);
            return;
        }
        self.detail(|| "output to native tunnel".to_owned());
        let Some(way) = self.way_to(remote, tunnel) else { return };
        let outer = self.outer_of(tunnel, &way);
        let bridge = &self.world.bridges[way.facts.bridge];
        let neighbour = self.world.tunnels.neighbours.entry(bridge.id, way.next_hop);
        match neighbour.and_then(|neighbour| Some((neighbour.mac()?, neighbour))) {
            Some((mac, neighbour)) => {
                let outer = Outer { eth_dst: mac, ..outer };
                match Header::new(&outer) {
                    Ok(header) => self.enter_underlay(port, &way, &outer, header, neighbour, max),
                    Err(_) => self.skip(DropReason::TunnelOption),
                }
            }
            None => self.ask(port, &way, outer, max),
        }
    }

    /// Route, source and VTEP of a tunnel's packet.
    fn way_to(&mut self, remote: IpAddr, tunnel: &TunnelConfig) -> Option<Way<'a>> {
        // What routes and VTEPs there are is a fact of the whole world.
        self.out.deps.all = true;
        let local = self.view.tunnel_end(tunnel.local, Field::TunSrc, Field::TunIpv6Src);
        let world = self.world;
        let way = world.tunnels.routes.lookup(remote).and_then(|route| {
            let port = PortId(u16::try_from(route.port).ok()?);
            let facts = world.ports.get(port.index())?.as_ref()?;
            let vtep = facts.vtep.as_ref()?;
            let ends = Ends::new(local.unwrap_or(route.source), remote)?;
            Some(Way { ends, route, next_hop: route.gateway.unwrap_or(remote), port, facts, vtep })
        });
        let Some(way) = way else {
            self.warn(|| "native tunnel routing failed".to_owned());
            self.reason = Some(DropReason::NoRoute);
            return None;
        };
        self.detail(|| format!("tunneling to {} via {}", way.next_hop, way.facts.name));
        if !way.facts.admin_up {
            self.skip(DropReason::AdminDown);
            return None;
        }
        if way.facts.no_receive {
            self.skip(DropReason::NoReceive);
            return None;
        }
        Some(way)
    }

    /// The outer headers, but the next hop's address.
    fn outer_of(&mut self, tunnel: &TunnelConfig, way: &Way<'_>) -> Outer {
        let (tos, ttl) = self.view.outer_tos_and_ttl(tunnel);
        let id = match tunnel.out_key {
            Key::Absent => 0,
            Key::Value(id) => id,
            Key::Flow => low_64(self.view.read(Field::TunId)),
        };
        #[allow(clippy::cast_possible_truncation)] // the low bits are what is sent
        let vni = id as u32;
        let (dst_port, csum) = (tunnel.dst_port, tunnel.csum);
        let body = match tunnel.kind {
            TunnelKind::Geneve => {
                let oam = self.view.read_bits(Field::TunFlags, 1) != 0;
                let options = self.world.bridges[self.bridge].options.encode(&self.view.options());
                TunnelHeader::Geneve { vni, dst_port, csum, oam, options }
            }
            TunnelKind::Vxlan => {
                let gbp = tunnel.gbp.then(|| self.view.gbp());
                TunnelHeader::Vxlan { vni, dst_port, csum, gbp }
            }
            TunnelKind::Gre => {
                let key = (tunnel.out_key != Key::Absent).then_some(vni);
                TunnelHeader::Gre { key, csum, seq: tunnel.seq }
            }
        };
        Outer { eth_src: way.vtep.mac.0, eth_dst: [0; 6], ends: way.ends, tos, ttl, df: tunnel.df, body }
    }

    /// The next hop is to be asked for its address; the packet waits for it, if it may.
    fn ask(&mut self, port: PortId, way: &Way<'_>, outer: Outer, max: Option<u16>) {
        let bridge = &self.world.bridges[way.facts.bridge];
        let what = if way.next_hop.is_ipv4() { "ARP" } else { "ND" };
        self.detail(|| {
            format!("neighbor cache miss for {} on bridge {}, sending {what} request", way.next_hop, bridge.name)
        });
        let Some(question) = self.question(way) else { return self.skip(DropReason::NoNeighbour) };
        self.commit();
        self.push(Op::Ask(Arc::new(AskOp { port, outer, max, question })));
        // The worker counts it if it is lost.
        self.delivered = true;
    }

    /// What is to be sent to learn a next hop's address: from our address on its link.
    fn question(&self, way: &Way<'_>) -> Option<Question> {
        let tunnels = &self.world.tunnels;
        let own = tunnels.routes.lookup(way.next_hop).filter(|route| route.port == way.route.port);
        let source = own.map_or(way.route.source, |route| route.source);
        let frame = question(way.vtep.mac.0, Ends::new(source, way.next_hop)?);
        Some(Question { vtep: way.port, ip: way.next_hop, frame: frame.into() })
    }

    /// The packet, in its outer headers, goes through the bridge of the VTEP. That happens to a
    /// copy.
    fn enter_underlay(
        &mut self,
        port: PortId,
        way: &Way<'_>,
        outer: &Outer,
        header: Header,
        neighbour: Arc<Neighbour>,
        max: Option<u16>,
    ) {
        self.detail(|| {
            let mac = crate::packet::Mac;
            let (from, to) = (mac(outer.eth_src), mac(outer.eth_dst));
            format!("tunneling from {from} {} to {to} {}", outer.ends.src(), way.next_hop)
        });
        self.commit();
        let Some(question) = self.question(way) else { return };
        let longer = self.longer;
        self.longer += u32::try_from(header.len()).unwrap_or(0);
        let op = Op::Encap(Arc::new(EncapOp { port, header, max, neighbour, question }));
        self.visit((way.facts.bridge, way.facts.number), |this| {
            this.push(op);
            this.view.show_outer(outer);
        });
        self.longer = longer;
    }

    /// A packet is to leave by a VTEP port. True: it comes out of a tunnel instead.
    pub(super) fn arrive(&mut self, id: PortId, vtep: &LocalEndpoint, max: Option<u16>) -> bool {
        let is_v4 = match self.view.read(Field::EthType) {
            eth_type::IP => true,
            eth_type::IPV6 => false,
            eth_type::ARP => {
                self.commit();
                self.push(Op::Snoop(id));
                return false;
            }
            _ => return false,
        };
        if let Some(kind) = self.view.tunnel_to(vtep, is_v4, self.world) {
            // As far as it is known here by which port the packet came in; the worker looks again.
            if self.out.deps.port.and_then(|id| self.facts(id)).is_some_and(|facts| !facts.underlay) {
                self.skip(DropReason::SpoofVtep);
                return true;
            }
            self.detail(|| "output to native tunnel, decapsulated".to_owned());
            self.commit();
            self.push(Op::Decap(Box::new(DecapOp { vtep: id, kind, max })));
            self.delivered = true;
            return true;
        }
        // A neighbour advertisement.
        if !is_v4 && self.view.read(Field::NwProto) == proto::ICMPV6 && self.view.read(Field::TpSrc) == 136 {
            self.commit();
            self.push(Op::Snoop(id));
        }
        false
    }

    /// Congestion that was marked on the way is told to the inner packet (RFC 6040, as Open vSwitch
    /// has it). False: it cannot be told, and the packet dies.
    pub(super) fn receive_ecn(&mut self) -> bool {
        let in_port = self.out.deps.port.and_then(|id| self.facts(id));
        if in_port.is_none_or(|facts| facts.tunnel.is_none()) {
            return true;
        }
        let ce = u128::from(CE);
        if self.view.read_bits(Field::TunTos, ce) != ce || !self.view.is_ip() {
            return true;
        }
        if self.view.read(Field::NwEcn) == 0 {
            self.skip(DropReason::TunnelEcn);
            return false;
        }
        self.view.write(Field::NwEcn, ce, ce);
        true
    }
}

#[allow(clippy::cast_possible_truncation)] // 64 bits
const fn low_64(value: u128) -> u64 {
    value as u64
}

#[allow(clippy::cast_possible_truncation)] // 8 bits
const fn low_8(value: u128) -> u8 {
    value as u8
}

impl View {
    /// An end of a tunnel, of its port or of the packet.
    fn tunnel_end(&mut self, end: End, v4: Field, v6: Field) -> Option<IpAddr> {
        match end {
            End::Address(address) => Some(address),
            End::Any => None,
            End::Flow => {
                let v4 = self.read(v4);
                let v6 = if v4 == 0 { self.read(v6) } else { 0 };
                address(v4, v6)
            }
        }
    }

    /// Type of service and time to live outside. The ECN bits are always those of the inner packet,
    /// but that congestion which it has met is not told again outside.
    fn outer_tos_and_ttl(&mut self, tunnel: &TunnelConfig) -> (u8, u8) {
        let is_ip = self.is_ip();
        let ttl = match tunnel.ttl {
            Inherited::Value(ttl) => ttl,
            Inherited::Inherit if is_ip => low_8(self.read(Field::NwTtl)),
            Inherited::Inherit => TTL_DEFAULT,
        };
        let dscp = match tunnel.tos {
            Inherited::Value(tos) => tos,
            Inherited::Inherit if is_ip => low_8(self.read_bits(Field::NwTos, 0xfc)),
            Inherited::Inherit => 0,
        };
        let ecn = match if is_ip { low_8(self.read(Field::NwEcn)) } else { 0 } {
            CE => ECT_0,
            ecn => ecn,
        };
        (dscp | ecn, ttl)
    }

    /// Group policy: flags and id.
    #[allow(clippy::cast_possible_truncation)] // 16 bits
    fn gbp(&mut self) -> (u8, u16) {
        (low_8(self.read(Field::TunGbpFlags)), self.read(Field::TunGbpId) as u16)
    }

    /// Geneve's options as the packet has them now.
    fn options(&mut self) -> Values {
        self.mask.0[TUNNEL_WORD] |= 0xff & !self.packet.written.0[TUNNEL_WORD];
        let present = self.packet.key.tunnel_options();
        let mut values = Values { present, ..Values::default() };
        for (i, field) in OPTION_FIELDS.into_iter().enumerate() {
            if present & 1 << i != 0 {
                values.values[i] = self.read(field);
            }
        }
        values
    }

    /// Says whether the packet has an option, from now on.
    pub(super) fn set_option(&mut self, number: u32, there: bool) {
        let bit = 1 << number;
        let word = &mut self.packet.key.0[TUNNEL_WORD];
        *word = if there { *word | bit } else { *word & !bit };
        self.packet.written.0[TUNNEL_WORD] |= bit;
    }

    /// The kind of our tunnel that a packet for a VTEP is in, if it is in one. Fragments are none,
    /// nor are tagged packets.
    fn tunnel_to(&mut self, vtep: &LocalEndpoint, is_v4: bool, world: &crate::pipeline::World) -> Option<TunnelKind> {
        let tunnels = &world.tunnels;
        if tunnels.listeners_none() || self.read(Field::EthDst) != u128::from(vtep.mac.to_u64()) || self.is_tagged() {
            return None;
        }
        if !vtep.addresses.iter().any(|own| own.is_ipv4() == is_v4) {
            return None;
        }
        let to = if is_v4 { address(self.read(Field::NwDst), 0) } else { address(0, self.read(Field::Ipv6Dst)) };
        if !to.is_some_and(|to| vtep.addresses.contains(&to)) || self.read_bits(Field::NwFrag, 3) != 0 {
            return None;
        }
        match self.read(Field::NwProto) {
            #[allow(clippy::cast_possible_truncation)] // 16 bits
            proto::UDP => tunnels.udp(self.read(Field::TpDst) as u16),
            GRE => tunnels.has_gre().then_some(TunnelKind::Gre),
            _ => None,
        }
    }

    /// From now on the packet is what its outer headers say. (Of the UDP source port, which each
    /// packet has its own of, nothing is known: 0, as in Open vSwitch.)
    fn show_outer(&mut self, outer: &Outer) {
        let packet = &mut self.packet;
        for i in FIRST_PACKET_WORD..LAST_PACKET_WORD {
            packet.key.0[i] = 0;
            packet.written.0[i] = u64::MAX;
            packet.pending.0[i] = 0;
        }
        packet.tags = super::tags::Tags::default();
        let mac = |octets: [u8; 6]| u128::from(crate::packet::Mac(octets).to_u64());
        let mut set = |field: Field, value: u128| packet.key.set(field, value);
        set(Field::EthDst, mac(outer.eth_dst));
        set(Field::EthSrc, mac(outer.eth_src));
        match outer.ends {
            Ends::V4 { src, dst } => {
                set(Field::EthType, eth_type::IP);
                set(Field::NwSrc, src.to_bits().into());
                set(Field::NwDst, dst.to_bits().into());
            }
            Ends::V6 { src, dst } => {
                set(Field::EthType, eth_type::IPV6);
                set(Field::Ipv6Src, src.to_bits());
                set(Field::Ipv6Dst, dst.to_bits());
            }
        }
        set(Field::NwTos, outer.tos.into());
        set(Field::NwTtl, outer.ttl.into());
        match outer.body {
            TunnelHeader::Geneve { dst_port, .. } | TunnelHeader::Vxlan { dst_port, .. } => {
                set(Field::NwProto, proto::UDP);
                set(Field::TpDst, dst_port.into());
            }
            TunnelHeader::Gre { .. } => set(Field::NwProto, GRE),
        }
    }
}
