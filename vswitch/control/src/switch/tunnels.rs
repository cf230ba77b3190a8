//! Routes, neighbours and Geneve's options.

// The real DPDK starts once per process, not once per test.
#[cfg(all(test, not(feature = "dpdk")))]
mod tests;

use super::Switch;
use super::change::Step;
use super::port_state::PortState;
use super::state::State;
use super::view::View;
use crate::info::{NeighbourInfo, RouteConfig, RouteInfo, SwitchError};
use crate::underlay;
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::pipeline::state::PipelineState;
use vswitch_dataplane::port::{FieldError, PortConfig, PortId, PortKind, cidr_text};
use vswitch_dataplane::time::Millis;
use vswitch_dataplane::tunnel::{Tunnels, listener_name};
use vswitch_dataplane::worker::{Begin, Injection};
use vswitch_flow::action::port::TABLE;
use vswitch_flow::{Action, Field, FlowKey};
use vswitch_overlay::Ends;
use vswitch_overlay::neighbours::Stats;
use vswitch_overlay::options::{MapError, Mapping};
use vswitch_overlay::question::question;
use vswitch_overlay::routes::{Cidr, Listed, ROUTES_MAX, RouteError, UserRoute};

/// Why a route is not taken.
fn route_refused(error: RouteError) -> SwitchError {
    full(error).unwrap_or_else(|| underlay::route(error).into())
}

/// Why addresses of a port are not taken.
pub(super) fn addresses_refused(error: RouteError) -> SwitchError {
    full(error).unwrap_or_else(|| underlay::addresses(error).into())
}

fn full(error: RouteError) -> Option<SwitchError> {
    (error == RouteError::Full).then_some(SwitchError::Exhausted { what: "routes", limit: ROUTES_MAX })
}

impl State {
    /// All tunnels as workers see them. Ports that clash were refused.
    pub(super) fn tunnels(&self) -> Tunnels {
        let mut tunnels = Tunnels::new(self.routes.clone(), Arc::clone(&self.neighbours));
        for (id, port) in self.all_ports() {
            if let (PortKind::Tunnel(tunnel), Ok(_)) = (&port.config.kind, &port.opened) {
                let _ = tunnels.add(id, tunnel);
            }
        }
        tunnels
    }

    /// No two tunnel ports are for the same packets, and a UDP port is for one kind of tunnel.
    pub(super) fn check_tunnel(&self, config: &PortConfig) -> Result<(), SwitchError> {
        let PortKind::Tunnel(tunnel) = &config.kind else { return Ok(()) };
        let name = |id: PortId| self.ports[id.index()].as_deref().map_or("", |port| port.config.name.as_str());
        let added = self.tunnels().add(PortId::NONE, tunnel);
        Ok(added.map_err(|clash| underlay::clash(tunnel, clash, name))?)
    }

    /// The port is gone, its routes with it: its number may be another port's soon.
    pub(super) fn forget_routes(&mut self, port: usize) {
        let number = u32::try_from(port).unwrap_or(u32::MAX);
        let own: Vec<Cidr> =
            self.routes.iter().filter(|route| route.user && route.port == number).map(|route| route.prefix).collect();
        for prefix in own {
            let _ = self.routes.remove(prefix);
        }
        let _ = self.routes.set_addresses(number, &[]);
    }

    /// An address belongs to one port.
    pub(super) fn check_addresses(&self, own: Option<PortId>, config: &PortConfig) -> Result<(), SwitchError> {
        let others = self.all_ports().filter(|(id, _)| Some(*id) != own).map(|(_, port)| &port.config);
        underlay::taken(&config.addresses, others).map_or(Ok(()), |taken| Err(taken.into()))
    }

    /// A port by its name, in whatever bridge.
    fn vtep(&self, name: &str) -> Result<PortId, SwitchError> {
        let found = self.all_ports().find(|(_, port)| port.config.name == name);
        let Some((id, port)) = found else {
            let hint = "name a port that has addresses".to_owned();
            return Err(SwitchError::NotFound { what: "port", name: name.to_owned(), hint });
        };
        if port.config.addresses.is_empty() {
            return Err(underlay::homeless(name).into());
        }
        self.opened_or_failed(id)
    }
}

impl View {
    fn route_info(&self, route: &Listed) -> RouteInfo {
        let port = usize::try_from(route.port).ok().and_then(|i| self.ports.get(i)?.as_ref());
        RouteInfo {
            prefix: cidr_text(&route.prefix),
            port: port.map(|port| port.config.name.clone()).unwrap_or_default(),
            gateway: route.gateway,
            source: route.source,
            user: route.user,
        }
    }
}

impl Switch {
    /// All routes, in order of lookup.
    #[must_use]
    pub fn routes(&self) -> Vec<RouteInfo> {
        let view = self.shown.view();
        view.routes.iter().map(|route| view.route_info(&route)).collect()
    }

    /// Adds a route, in the place of the one that was added to the same prefix before.
    ///
    /// # Errors
    /// When the port does not exist or has no addresses, or the route contradicts itself.
    pub fn add_route(&self, route: &RouteConfig) -> Result<(), SwitchError> {
        self.change(|state| {
            let port = state.vtep(&route.port)?.0.into();
            let RouteConfig { prefix, gateway, source, .. } = *route;
            let mut routes = state.routes.clone();
            // Another way to the same prefix takes the place of the first one.
            let _ = routes.remove(prefix);
            routes.add(UserRoute { prefix, port, gateway, source }).map_err(route_refused)?;
            state.routes = routes;
            Ok(Step::publish(state.snapshot(), |_, _| ()))
        })
    }

    /// Removes a route that was added.
    ///
    /// # Errors
    /// When there is none to this prefix.
    pub fn delete_route(&self, prefix: Cidr) -> Result<(), SwitchError> {
        self.change(|state| {
            state.routes.remove(prefix).map_err(|error| match error {
                RouteError::Missing => SwitchError::NotFound {
                    what: "route",
                    name: cidr_text(&prefix),
                    hint: "see vsctl route-show; connected ones go with their address".to_owned(),
                },
                error => route_refused(error),
            })?;
            Ok(Step::publish(state.snapshot(), |_, _| ()))
        })
    }

    /// The way to an address.
    ///
    /// # Errors
    /// When there is none.
    pub fn lookup_route(&self, to: IpAddr) -> Result<RouteInfo, SwitchError> {
        let view = self.shown.view();
        let missing = || {
            let hint = "see vsctl route-show".to_owned();
            SwitchError::NotFound { what: "route", name: to.to_string(), hint }
        };
        view.routes.lookup_listed(to).map(|route| view.route_info(&route)).ok_or_else(missing)
    }

    /// All neighbours.
    #[must_use]
    pub fn neighbours(&self) -> Vec<NeighbourInfo> {
        let view = self.shown.view();
        let now = Millis::now().0;
        let bridge = |id: u32| view.bridges.values().find(|bridge| bridge.id == id);
        let info = |listed: vswitch_overlay::neighbours::Listed| NeighbourInfo {
            bridge: bridge(listed.bridge).map(|bridge| bridge.config.name.clone()).unwrap_or_default(),
            address: listed.ip,
            mac: listed.mac.map(Mac),
            // Of one that has not answered there is nothing to be old.
            age_s: if listed.mac.is_some() { now.saturating_sub(listed.heard_ms) / 1000 } else { 0 },
        };
        view.neighbours.iter().flat_map(|neighbours| neighbours.dump()).map(info).collect()
    }

    /// The table of neighbours in numbers.
    #[must_use]
    pub fn neighbour_stats(&self) -> Stats {
        self.shown.view().neighbours.as_ref().map(|neighbours| neighbours.stats()).unwrap_or_default()
    }

    /// Says who a neighbour is. It ages, and an answer may change it.
    ///
    /// # Errors
    /// When there is no such bridge, the address is no host's, or there are too many.
    pub fn set_neighbour(&self, bridge: &str, ip: IpAddr, mac: Mac) -> Result<(), SwitchError> {
        self.edit(|state| {
            let id = state.bridge(bridge)?.id;
            if mac.is_multicast() || mac.is_zero() {
                return Err(
                    FieldError::new("mac", format!("{mac} is not a host's address"), "give a unicast one").into()
                );
            }
            if ip.is_multicast() || ip.is_unspecified() || ip.is_loopback() {
                return Err(
                    FieldError::new("address", format!("{ip} is not a host's"), "give a neighbour's address").into()
                );
            }
            if state.neighbours.set(id, ip, mac.0, Millis::now().0) {
                return Ok(());
            }
            Err(SwitchError::Exhausted { what: "neighbours", limit: vswitch_overlay::neighbours::NEIGHBOURS_MAX })
        })
    }

    /// Who a neighbour on the link of a VTEP of this bridge is, as far as it has said; asks it if
    /// that is not known, or old. Call it once a second as long as somebody wants to know.
    ///
    /// # Errors
    /// When there is no such bridge, or none of its VTEPs has a link with that address.
    pub fn ask_neighbour(&self, bridge: &str, ip: IpAddr) -> Result<Option<Mac>, SwitchError> {
        let (known, question) = self.edit(|state| {
            let id = state.bridge(bridge)?.id;
            let vteps = state.all_ports().filter(|(_, port)| port.bridge == bridge);
            let on_link = |port: &PortState| port.config.addresses.iter().find(|own| own.contains(ip)).copied();
            let Some((port, own)) = vteps.filter_map(|(_, port)| Some((port, on_link(port)?))).next() else {
                let hint =
                    "give a port of the bridge an address on its link: vsctl mod-port BRIDGE PORT --address CIDR";
                return Err(SwitchError::NotFound { what: "link with", name: ip.to_string(), hint: hint.to_owned() });
            };
            let question = match Ends::new(own.address, ip) {
                Some(ends) if state.neighbours.ask(id, ip, Millis::now().0) => {
                    Some((port.number, question(port.mac().0, ends)))
                }
                _ => None,
            };
            Ok((state.neighbours.lookup(id, ip).map(Mac), question))
        })?;
        if let (Some((number, packet)), Some(inbox)) = (question, self.publisher.inbox()) {
            let mut metadata = FlowKey::default();
            metadata.set(Field::InPort, number.into());
            let actions = [Action::Output { port: TABLE, max_len: None }];
            // Nobody waits for the worker. A question that does not leave is asked again in a
            // second.
            if let Err(error) = inbox.post(Injection {
                bridge: bridge.into(),
                metadata,
                packet,
                begin: Begin::Actions(actions.as_slice().into()),
            }) {
                tracing::debug!(bridge, %ip, %error, "a neighbour could not be asked");
            }
        }
        Ok(known)
    }

    /// Forgets the neighbours of a bridge, or all; returns how many.
    ///
    /// # Errors
    /// When there is no such bridge.
    pub fn flush_neighbours(&self, bridge: Option<&str>) -> Result<u64, SwitchError> {
        self.edit(|state| {
            let id = bridge.map(|name| state.bridge(name).map(|bridge| bridge.id)).transpose()?;
            Ok(state.neighbours.flush(id) as u64)
        })
    }

    /// What packets are taken for ones of our tunnels by: kind, UDP port (0: GRE), name.
    #[must_use]
    pub fn tunnel_listeners(&self) -> Vec<(String, u16)> {
        self.shown
            .view()
            .world
            .tunnels
            .listeners()
            .into_iter()
            .map(|(kind, port)| (listener_name(kind, port), port))
            .collect()
    }

    /// What Geneve's options are called in a bridge.
    ///
    /// # Errors
    /// When there is no such bridge.
    pub fn option_map(&self, bridge: &str) -> Result<Vec<Mapping>, SwitchError> {
        Ok(self.shown.view().bridge(bridge)?.options.iter().copied().collect())
    }

    /// Gives options names, all or none.
    ///
    /// # Errors
    /// When there is no such bridge, or one clashes with another one.
    pub fn add_options(&self, bridge: &str, mappings: &[Mapping]) -> Result<(), SwitchError> {
        self.change_options(bridge, |pipeline| pipeline.add_options(mappings))
    }

    /// Takes names of options away; an empty list: all.
    ///
    /// # Errors
    /// When there is no such bridge or mapping, or a flow uses the field.
    pub fn delete_options(&self, bridge: &str, mappings: &[Mapping]) -> Result<(), SwitchError> {
        self.change_options(bridge, |pipeline| pipeline.delete_options(mappings))
    }

    fn change_options(
        &self,
        bridge: &str,
        change: impl FnOnce(&mut PipelineState) -> Result<(), MapError>,
    ) -> Result<(), SwitchError> {
        self.change(|state| {
            state.bridge(bridge)?;
            if let Some(bridge) = state.bridges.get_mut(bridge) {
                change(&mut bridge.pipeline).map_err(|error| underlay::mapping(&error))?;
            }
            Ok(Step::publish(state.snapshot(), |_, _| ()))
        })
    }
}
