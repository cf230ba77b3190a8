//! What outlives a Service's address or endpoint and must go with it: connections of UDP, and
//! learned flows.

use super::{Protocol, Service, ServicePort};
use crate::object::endpoints::Endpoints;
use crate::{Desired, Family, Flush};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Where a Service port answers: protocol, address (None: the Node's, for a `NodePort`), port.
pub(crate) type ServiceAddress = (Protocol, Option<IpAddr>, u16);

/// Places of a Service, with the names of the ports that have them.
fn places(service: &Service) -> BTreeMap<ServiceAddress, &str> {
    service.ports.iter().flat_map(|port| places_of(service, port).map(move |place| (place, port.name.as_str()))).collect()
}

fn places_of<'a>(service: &'a Service, port: &'a ServicePort) -> impl Iterator<Item = ServiceAddress> {
    let addresses = service.addresses().map(|address| (port.protocol, Some(*address), port.port));
    addresses.chain(port.node_port.map(|number| (port.protocol, None, number)))
}

/// Whether clients are remembered, and so may be led past the choice.
pub(super) const fn learns(service: &Service) -> bool {
    service.affinity > 0 || service.dsr
}

pub(super) fn forget(place: ServiceAddress, endpoint: Option<(IpAddr, u16)>, learned: bool, flush: &mut BTreeSet<Flush>) {
    let (protocol, address, port) = place;
    let number = protocol.number();
    if protocol == Protocol::Udp {
        flush.insert(Flush::Service { protocol: number, address, port, endpoint });
    }
    if learned {
        flush.insert(Flush::Affinity { protocol: number, address, port, endpoint });
    }
}

/// Of a Service that changed or went: places that it has no more, or that another set of endpoints
/// has now.
pub(super) fn of_service(old: &Service, new: Option<&Service>, flush: &mut BTreeSet<Flush>) {
    let after = new.map(places).unwrap_or_default();
    for (place, name) in places(old) {
        if after.get(&place) != Some(&name) {
            forget(place, None, learns(old), flush);
        }
    }
    if let Some(new) = new.filter(|_| learns(old)) {
        chosen_otherwise(old, new, flush);
    }
    // Who was let in once would be led past the question who may come in.
    let Some(new) = new.filter(|new| new.source_ranges != old.source_ranges && learns(old)) else { return };
    for port in &new.ports {
        for address in &new.load_balancer_ips {
            let (protocol, port) = (port.protocol.number(), port.port);
            flush.insert(Flush::Affinity { protocol, address: Some(*address), port, endpoint: None });
        }
    }
}

/// Of places where clients would be led otherwise now: to other endpoints (a policy that became
/// Local, or Cluster: another group, which rules about Services know by its number), to what those
/// are (nested), or for a shorter time.
fn chosen_otherwise(old: &Service, new: &Service, flush: &mut BTreeSet<Flush>) {
    let everywhere = old.nested != new.nested || new.affinity < old.affinity;
    let inside = everywhere || old.internal_local != new.internal_local;
    let outside = everywhere || old.external_local != new.external_local;
    let external: BTreeSet<&IpAddr> = old.external_ips.iter().chain(&old.load_balancer_ips).collect();
    for place in places(old).into_keys() {
        let is_outside = place.1.is_none_or(|address| external.contains(&address));
        if !if is_outside { outside } else { inside } {
            continue;
        }
        let (protocol, address, port) = place;
        let protocol = protocol.number();
        flush.insert(if old.dsr {
            Flush::Clients { protocol, address, port }
        } else {
            Flush::Affinity { protocol, address, port, endpoint: None }
        });
    }
}

/// Of a set of endpoints: those that are gone, or of no use any more, of a Service port that is
/// still there. (What of the Service went is its own business.)
pub(crate) fn of_endpoints(old: &Endpoints, new: Option<&Endpoints>, desired: &Desired, flush: &mut BTreeSet<Flush>) {
    let Some(service) = desired.service(&old.service) else { return };
    let Some(port) = service.port(&old.port) else { return };
    let alive = |set: &Endpoints| -> BTreeSet<(IpAddr, u16)> {
        let alive = set.endpoints.iter().filter(|endpoint| endpoint.is_alive());
        alive.map(|endpoint| (endpoint.address, endpoint.port)).collect()
    };
    let after = new.map(alive).unwrap_or_default();
    for endpoint in alive(old).difference(&after) {
        for place in places_of(service, port) {
            let family = place.1.is_none_or(|address| Family::of(&address) == Family::of(&endpoint.0));
            if family {
                forget(place, Some(*endpoint), learns(service), flush);
            }
        }
    }
}
