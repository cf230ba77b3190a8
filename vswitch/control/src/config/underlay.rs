//! Tunnels, addresses and routes across the whole file: what the switch would refuse when it puts
//! one port beside the others.

use super::parse::Walk;
use super::place::ConfigKey;
use super::report::Problem;
use crate::underlay;
use std::collections::HashMap;
use std::net::IpAddr;
use vswitch_dataplane::port::{FieldError, PortConfig, PortId, PortKind};
use vswitch_dataplane::tunnel::Tunnels;
use vswitch_overlay::Routes;
use vswitch_overlay::routes::UserRoute;

/// The ports so far, as the switch would have them.
#[derive(Default)]
struct Beside<'a> {
    ports: Vec<(usize, usize, &'a PortConfig)>,
    /// Who has an address, by place in `ports`: a file may have many.
    owners: HashMap<IpAddr, usize>,
    tunnels: Tunnels,
    routes: Routes,
}

impl Walk<'_> {
    /// Reports every clash. Says nothing of values that were refused already, nor of what follows
    /// from them.
    pub(super) fn underlay(&mut self) {
        if !self.reader.is_whole() {
            return;
        }
        let mut found = Vec::new();
        let mut beside = Beside::default();
        for (bridge, (_, ports)) in self.config.bridges.iter().enumerate() {
            for (index, port) in ports.iter().enumerate() {
                let place = |key| ConfigKey::Port(bridge, index, key);
                let errors = beside.add(bridge, index, port, |key| self.places.is_refused(&place(key)));
                found.extend(errors.into_iter().map(|error| (place(error.field), error)));
            }
        }
        let by_name: HashMap<&str, usize> =
            beside.ports.iter().enumerate().map(|(at, (.., port))| (port.name.as_str(), at)).collect();
        for index in 0..self.config.routes.len() {
            let error = self.route_error(index, &mut beside, &by_name);
            found.extend(error.map(|error| (ConfigKey::Route(index, error.field), error)));
        }
        for (place, FieldError { field, problem, hint }) in found {
            self.reader.push(Problem::error(self.places.position(&place), field, problem, hint));
        }
    }

    /// What is wrong with a route.
    fn route_error(&self, index: usize, beside: &mut Beside<'_>, by_name: &HashMap<&str, usize>) -> Option<FieldError> {
        let route = &self.config.routes[index];
        let refused = |key| self.places.is_refused(&ConfigKey::Route(index, key));
        if refused("gateway") || refused("source") {
            return None;
        }
        let Some(at) = by_name.get(route.port.as_str()) else {
            // A port that could not be read is missing, too.
            let named = self.across.has_port(&route.port);
            let hint = "name a port that has addresses";
            return (!named).then(|| FieldError::new("port", format!("there is no port named {}", route.port), hint));
        };
        let (bridge, place, port) = beside.ports[*at];
        if port.addresses.is_empty() {
            let refused = self.places.is_refused(&ConfigKey::Port(bridge, place, "addresses"));
            return (!refused).then(|| underlay::homeless(&route.port));
        }
        let number = u32::try_from(*at).unwrap_or(u32::MAX);
        let (prefix, gateway, source) = (route.prefix, route.gateway, route.source);
        beside.routes.add(UserRoute { prefix, port: number, gateway, source }).err().map(underlay::route)
    }
}

impl<'a> Beside<'a> {
    /// Puts a port beside those that are there already; what is wrong with that.
    fn add(
        &mut self,
        bridge: usize,
        index: usize,
        port: &'a PortConfig,
        refused: impl Fn(&'static str) -> bool,
    ) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let id = PortId(u16::try_from(self.ports.len()).unwrap_or(u16::MAX));
        if let PortKind::Tunnel(tunnel) = &port.kind
            && !refused("options")
            && let Err(clash) = self.tunnels.add(id, tunnel)
        {
            let name = |id: PortId| self.ports.get(id.index()).map_or("", |(.., port)| port.name.as_str());
            errors.push(underlay::clash(tunnel, clash, name));
        }
        if !refused("addresses") {
            let owner = port.addresses.iter().find_map(|cidr| self.owners.get(&cidr.address));
            let taken = owner.and_then(|at| underlay::taken(&port.addresses, [self.ports[*at].2]));
            for cidr in &port.addresses {
                self.owners.entry(cidr.address).or_insert(self.ports.len());
            }
            // In any case: routes through the port are judged by all of them.
            let full = self.routes.set_addresses(id.0.into(), &port.addresses).err().map(underlay::addresses);
            errors.extend(taken.or(full));
        }
        self.ports.push((bridge, index, port));
        errors
    }
}
