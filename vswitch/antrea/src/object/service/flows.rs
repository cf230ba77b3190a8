//! Flows of a Service: where it answers, and what its endpoints' addresses need.

use super::{Front, Service, ServicePort, choose, flush, groups};
use crate::address::{hex, with_port};
use crate::object::endpoints::{Endpoint, Endpoints};
use crate::contribution::Category;
use crate::problem::Code;
use crate::gateway;
use crate::wire::writer::Writer;
use crate::{CompiledObject, Facts, Family, Key, ObjectKind};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Seconds that an unused flow of a DSR connection stays, and those behind its FIN.
const DSR_TIMEOUTS: (u16, u16) = (160, 5);

/// A Service port in one family, and what is asked of it all the time.
struct Port<'a> {
    name: &'a str,
    service: &'a Service,
    port: &'a ServicePort,
    family: Family,
    facts: &'a Facts<'a>,
}

/// Writes the flows of a Service at all of its addresses and ports.
pub(super) fn compile(service: &Service, name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    if !facts.features().proxy {
        return;
    }
    let effective = service.effective(name, facts);
    for (at, port) in service.ports.iter().enumerate() {
        let set = facts.desired.endpoints(&Endpoints::name(name, &port.name));
        if set.is_none() {
            let reason = "its Endpoints are not there: connections are refused";
            compiled.degraded.push(Code::Pending, format!("ports[{at}]"), reason);
        }
        let endpoints = set.map(|set| set.endpoints.as_slice()).unwrap_or_default();
        let families = facts.node.families.iter().copied();
        for family in families.filter(|family| service.serves(*family)) {
            let chosen = choose(endpoints, family, facts.node);
            let sides = groups::Sides::of(service, port, family);
            groups::compile((name, service), port, family, &chosen, facts, compiled);
            let port = Port { name, service, port, family, facts };
            let used: BTreeMap<(IpAddr, u16), &Endpoint> =
                sides.of_these(&chosen).map(|e| ((e.address, e.port), e)).collect();
            for endpoint in used.into_values() {
                port.endpoint(endpoint, compiled);
            }
            if service.external_local && facts.leads_to_host() {
                chosen.local.iter().for_each(|endpoint| port.to_host(endpoint, compiled));
                endpoints.iter().for_each(|endpoint| port.answers_of_host(endpoint, compiled));
            }
            for front in service.fronts(port.port, family).into_iter().filter(|front| effective.has(port.port, *front)) {
                port.front(front, compiled);
                let number = if let Front::NodePort(number) = front { number } else { port.port.port };
                compiled.places.insert((port.port.protocol, front.address(), number), port.remembered());
            }
        }
    }
}

/// What a ServiceLB flow matches beside the place, and where it leads.
struct Way {
    priority: u16,
    /// Bits of reg4 beside those of the place and the state of the choice.
    reg4: u32,
    /// Another match, with its comma.
    other: &'static str,
    /// Only to endpoints of this Node.
    local: bool,
}

/// States of a choice, in reg4[16..18].
const TO_SELECT: u32 = 0x10000;
const TO_LEARN: u32 = 0x30000;
const TO_RESTORE: u32 = 0x40000;
/// Bits of the state.
const STATE: u32 = 0x70000;
/// To an address of the Node that serves NodePorts.
const NODE_PORT: u32 = 0x80000;
/// From a Pod of this Node, or the Node itself.
const FROM_LOCAL: u32 = 0x1000_0000;

impl Port<'_> {
    /// Its name, and whether clients are remembered.
    fn remembered(&self) -> (String, bool) {
        (self.port.name.clone(), flush::learns(self.service))
    }

    /// `tcp6`
    const fn protocol(&self) -> &'static str {
        self.port.protocol.of(self.family)
    }

    /// The match of a place, in a state of the choice:
    /// `tcp,reg4=0x10000/0x70000,nw_dst=10.96.76.15,tp_dst=80`.
    fn place(&self, front: Front, state: u32, reg4: u32) -> String {
        let (protocol, port) = (self.protocol(), self.port.port);
        match front.address() {
            Some(address) => {
                let field = self.family.destination();
                format!("{protocol},reg4={:#x}/{:#x},{field}={address},tp_dst={port}", state | reg4, STATE | reg4)
            }
            None => {
                let (reg4, port) = (reg4 | NODE_PORT, self.port.node_port.unwrap_or_default());
                format!("{protocol},reg4={:#x}/{:#x},tp_dst={port}", state | reg4, STATE | reg4)
            }
        }
    }

    /// Whether the endpoint's Node answers: without the feature answers come back by this one.
    fn is_dsr(&self, front: Front) -> bool {
        self.facts.features().dsr && self.service.is_dsr(front)
    }

    /// Ways to the groups of a place, by who comes.
    fn ways(&self, front: Front) -> Vec<Way> {
        let local = self.service.is_local(front);
        let mut ways = vec![Way { priority: 200, reg4: 0, other: "", local }];
        if local && front.is_external() {
            // Policy Local is for those outside.
            ways.push(Way { priority: 210, reg4: FROM_LOCAL, other: "", local: false });
        }
        if self.is_dsr(front) {
            // From the Node that chose this one.
            ways.push(Way { priority: 210, reg4: 0, other: ",reg0=0x1/0xf", local: true });
        }
        ways
    }

    /// Who may come: matches with their commas. None at all: nobody of this family may.
    fn sources(&self, front: Front) -> Vec<String> {
        let ranges = &self.service.source_ranges;
        if ranges.is_empty() || !matches!(front, Front::LoadBalancer(_)) {
            return vec![String::new()];
        }
        let of_family = ranges.iter().filter(|range| range.family() == self.family);
        let field = self.family.source();
        of_family.map(|range| if range.length() == 0 { String::new() } else { format!(",{field}={range}") }).collect()
    }

    /// A place: flows that choose an endpoint, that remember it, and that know again whose a
    /// repeated first packet is.
    fn front(&self, front: Front, compiled: &mut CompiledObject) {
        let sources = self.sources(front);
        for way in self.ways(front) {
            let key = super::group_key(self.name, self.port, self.family, way.local);
            let Some(group) = self.facts.ids.group(&key) else { continue };
            // With the group: rules about Services know it by that, of the client's later
            // connections, too.
            let external = if front.is_external() { "set_field:0x200000/0x200000->reg4," } else { "" };
            let nested = if self.service.nested { "set_field:0x1000000/0x1000000->reg4," } else { "" };
            let state = if self.service.affinity > 0 { "0x30000" } else { "0x20000" };
            let Way { priority, other, .. } = way;
            let (select, restore) = (self.place(front, TO_SELECT, way.reg4), self.place(front, TO_RESTORE, way.reg4));
            for source in &sources {
                let line = format!(
                    "table=ServiceLB, priority={priority},{select}{other}{source} actions=set_field:0x200/0x200->reg0,\
                     set_field:{state}/0x70000->reg4,{external}{nested}set_field:{group:#x}->reg7,group:{group}"
                );
                compiled.own(self.facts, "choice of an endpoint", &line);
                let line = format!(
                    "table=ServiceLB, priority={priority},{restore}{other}{source} \
                     actions={external}set_field:{group:#x}->reg7"
                );
                compiled.own(self.facts, "marks of a repeated first packet", &line);
            }
        }
        if sources.iter().all(|source| !source.is_empty()) {
            let line = format!("table=ServiceLB, priority=195,{} actions=drop", self.place(front, TO_SELECT, 0));
            compiled.own(self.facts, "no source of the load balancer", &line);
        }
        self.learn(front, compiled);
        self.on_wire(front, compiled);
    }

    /// Clients on the wire are led here.
    fn on_wire(&self, front: Front, compiled: &mut CompiledObject) {
        let node = self.facts.node;
        if !front.is_external() {
            return;
        }
        if let Some(mut bridge) = gateway::bridge::Writer::new(self.facts, compiled) {
            let on_host = self.on_host(front);
            for (address, port) in self.at(front) {
                bridge.serves(&address, self.protocol(), port, on_host);
            }
            return;
        }
        if !node.uplink.as_ref().is_some_and(|uplink| uplink.external_traffic) {
            return;
        }
        let Some(mut wire) = Writer::new(self.facts, compiled) else { return };
        for (address, port) in self.at(front) {
            wire.serves(&address, self.protocol(), port);
        }
    }

    /// Addresses and ports of a place, as clients outside know it.
    fn at(&self, front: Front) -> Vec<(IpAddr, u16)> {
        match front.address() {
            Some(address) => vec![(address, self.port.port)],
            None => {
                let port = self.port.node_port.unwrap_or_default();
                let own = self.facts.node.node_port_addresses.iter();
                own.filter(|address| Family::of(address) == self.family).map(|address| (*address, port)).collect()
            }
        }
    }

    /// The port of the host that all endpoints of a place are at, if its policy is Local: they may
    /// see their clients. Their packets do not come through the Pods' bridge, so nothing there may
    /// bind them: neither policies, nor sources of the load balancer.
    fn on_host(&self, front: Front) -> Option<u16> {
        let host = self.facts.node.gateway_bridge()?.address(self.family)?;
        let is_bound = |key: &Key| key.kind == ObjectKind::AppliedToGroup;
        let key = Key::new(ObjectKind::Service, self.name);
        let has_ranges = self.sources(front).iter().any(|source| !source.is_empty()) || self.sources(front).is_empty();
        if !self.service.is_local(front) || has_ranges || self.facts.desired.referrers(&key).any(is_bound) {
            return None;
        }
        let set = self.facts.desired.endpoints(&Endpoints::name(self.name, &self.port.name))?;
        let local = choose(&set.endpoints, self.family, self.facts.node).local;
        let first = local.first()?;
        local.iter().all(|one| one.address == host && one.port == first.port).then_some(first.port)
    }

    /// Flows that teach SessionAffinity.
    fn learn(&self, front: Front, compiled: &mut CompiledObject) {
        let key = groups::of_front(self.name, self.service, self.port, self.family, front);
        let Some(group) = self.facts.ids.group(&key) else { return };
        let cookie = Category::Service.learned(group);
        let (eth_type, number) = (self.family.eth_type(), self.port.protocol.number());
        let (source, destination) = (self.family.source_nxm(), self.family.destination_nxm());
        let [source_port, destination_port] = self.port.protocol.ports_nxm();
        let register = self.family.endpoint_register_nxm();
        if self.service.affinity > 0 {
            let external = if front.is_external() { ",load:0x1->NXM_NX_REG4[21]" } else { "" };
            let nested = if self.service.nested { ",load:0x1->NXM_NX_REG4[24]" } else { "" };
            let line = format!(
                "table=ServiceLB, priority=190,{} actions=learn(table=SessionAffinity,hard_timeout={},priority=200,delete_learned,\
                 cookie={cookie:#x},eth_type={eth_type},nw_proto={number},{destination_port},{destination},{source},\
                 load:NXM_NX_REG4[0..15]->NXM_NX_REG4[0..15],load:NXM_NX_REG4[26]->NXM_NX_REG4[26],\
                 load:{register}->{register},load:0x2->NXM_NX_REG4[16..18],load:0x1->NXM_NX_REG0[9],load:NXM_NX_REG7[]->NXM_NX_REG7[]{external}{nested}),\
                 set_field:0x20000/0x70000->reg4,goto_table:DSRServiceMark",
                self.place(front, TO_LEARN, 0),
                self.service.affinity,
            );
            compiled.own(self.facts, "affinity of a client", &line);
        }
        if let (true, Some(address)) = (self.is_dsr(front), front.address()) {
            let (idle, fin_idle) = DSR_TIMEOUTS;
            let (protocol, field, port) = (self.protocol(), self.family.destination(), self.port.port);
            let line = format!(
                "table=DSRServiceMark, priority=200,{protocol},reg4=0xc000000/0xe000000,{field}={address},tp_dst={port} \
                 actions=learn(table=SessionAffinity,idle_timeout={idle},fin_idle_timeout={fin_idle},priority=210,delete_learned,\
                 cookie={cookie:#x},eth_type={eth_type},nw_proto={number},{source_port},{destination_port},{source},{destination},\
                 load:NXM_NX_REG4[0..15]->NXM_NX_REG4[0..15],load:0x2->NXM_NX_REG4[16..18],load:0x1->NXM_NX_REG4[25],\
                 load:{register}->{register}),set_field:0x2000000/0x2000000->reg4,goto_table:EndpointDNAT"
            );
            compiled.own(self.facts, "connection that the endpoint's Node answers", &line);
            let (ip, zone) = (self.family.ip(), self.facts.node.zone_of_packet(self.family));
            let line = format!(
                "table=EndpointDNAT, priority=210,{ip},reg4=0x2000000/0x2000000 \
                 actions=ct(commit,table=AntreaPolicyEgressRule,zone={zone})"
            );
            compiled.shared(self.facts, "translated by the endpoint's Node", &line);
        }
    }

    /// Whether it is an endpoint on this host, and of the port's family.
    fn is_on_host(&self, endpoint: &Endpoint) -> bool {
        let node = self.facts.node;
        let address = &endpoint.address;
        Family::of(address) == self.family && endpoint.is_of(&node.name) && node.is_own(address)
    }

    /// An endpoint on this host sees its clients on the wire, if the traffic policy is Local: they
    /// come to it by the wire's bridge.
    fn to_host(&self, endpoint: &Endpoint, compiled: &mut CompiledObject) {
        let key = super::group_key(self.name, self.port, self.family, true);
        let Some(group) = self.facts.ids.group(&key).filter(|_| self.is_on_host(endpoint)) else { return };
        let (address, port, protocol) = (&endpoint.address, endpoint.port, self.protocol());
        let (register, value) = (self.family.endpoint_register(), hex(address));
        let zone = self.facts.node.zone_of_packet(self.family);
        // Of those outside (reg4[21]) only who comes from the wire.
        let line = format!(
            "table=EndpointDNAT, priority=205,{protocol},reg0=0x4/0xf,{register}={value},reg4={:#x}/0x27ffff,reg7={group:#x} \
             actions=ct(commit,table=AntreaPolicyEgressRule,zone={zone},nat(dst={}),\
             exec(set_field:0x110/0x110->ct_mark,move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))",
            0x22_0000 | u32::from(port),
            with_port(address, port),
        );
        compiled.own(self.facts, "translation to an endpoint on the host", &line);
    }

    /// Its answers come back by that bridge, as long as it is an endpoint: also of connections that
    /// it has when it is not ready any more.
    fn answers_of_host(&self, endpoint: &Endpoint, compiled: &mut CompiledObject) {
        if !self.is_on_host(endpoint) {
            return;
        }
        if let Some(mut wire) = Writer::new(self.facts, compiled) {
            wire.host_endpoint(&endpoint.address, self.protocol(), endpoint.port);
        }
    }

    /// What an endpoint's address needs, whoever has it.
    fn endpoint(&self, endpoint: &Endpoint, compiled: &mut CompiledObject) {
        let (address, protocol) = (&endpoint.address, self.protocol());
        let (register, value, port) = (self.family.endpoint_register(), hex(address), endpoint.port);
        let (ip, zone) = (self.family.ip(), self.facts.node.zone_of_packet(self.family));
        let line = format!(
            "table=EndpointDNAT, priority=200,{protocol},{register}={value},reg4={:#x}/0x7ffff \
             actions=ct(commit,table=AntreaPolicyEgressRule,zone={zone},nat(dst={}),\
             exec(set_field:0x10/0x10->ct_mark,move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))",
            0x20000 | u32::from(port),
            with_port(address, port),
        );
        compiled.shared(self.facts, "translation to an endpoint", &line);
        if let Some(line) = gateway::pods::endpoint(self.facts, endpoint, protocol) {
            compiled.shared(self.facts, "an endpoint on the host, asked by the uplink", &line);
        }
        if endpoint.is_of(&self.facts.node.name) {
            let (source, destination) = (self.family.source(), self.family.destination());
            let line = format!(
                "table=SNATMark, priority=190,ct_state=+new+trk,{ip},{source}={address},{destination}={address} \
                 actions=ct(commit,table=SNAT,zone={zone},exec(set_field:0x20/0x20->ct_mark,set_field:0x40/0x40->ct_mark))"
            );
            compiled.shared(self.facts, "a client that is its own endpoint", &line);
        }
        let inner = Some(self.port.protocol).filter(|_| self.service.nested);
        if let Some(group) = inner.and_then(|protocol| groups::of_cluster_ip(protocol, endpoint, self.facts)) {
            // Without endpoints of its own it comes back here, to be refused: as nobody's, since
            // translation to the Service's address has the same priority.
            let line = format!(
                "table=EndpointDNAT, priority=210,{protocol},{register}={value},reg4={:#x}/0x100ffff actions=set_field:0->{register},group:{group}",
                0x0100_0000 | u32::from(port),
            );
            compiled.shared(self.facts, "an endpoint that is a Service", &line);
        }
    }
}
