//! Tunnels, addresses and routes of several ports: why one cannot be beside the others. The
//! configuration file and the running switch ask here, and say it in the same words.

use vswitch_dataplane::port::{Cidr, FieldError, PortConfig, PortId, TunnelConfig};
use vswitch_dataplane::tunnel::Clash;
use vswitch_overlay::options::MapError;
use vswitch_overlay::routes::{Part, RouteError};

/// A tunnel port clashes with another one; `name` is how ports are called.
pub(super) fn clash<'a>(tunnel: &TunnelConfig, clash: Clash, name: impl FnOnce(PortId) -> &'a str) -> FieldError {
    let (problem, hint) = match clash {
        Clash::Same(id) => {
            let problem = format!("port {} is for the same packets", name(id));
            (problem, "give another remote_ip, local_ip, key or dst_port")
        }
        Clash::Port(id) => {
            let problem = format!("port {} has UDP port {} for another kind of tunnel", name(id), tunnel.dst_port);
            (problem, "give another dst_port")
        }
    };
    FieldError::new("options", problem, hint)
}

/// One of these addresses is another port's: an address belongs to one port.
pub(super) fn taken<'a>(addresses: &[Cidr], others: impl IntoIterator<Item = &'a PortConfig>) -> Option<FieldError> {
    let of_other = |other: &'a PortConfig| {
        let theirs = other.addresses.iter().map(|cidr| cidr.address);
        let same = theirs.into_iter().find(|address| addresses.iter().any(|cidr| cidr.address == *address))?;
        let problem = format!("{same} is an address of port {}", other.name);
        Some(FieldError::new("addresses", problem, "give an address to one port only"))
    };
    others.into_iter().find_map(of_other)
}

/// A route leads out of a port that has no addresses.
pub(super) fn homeless(port: &str) -> FieldError {
    let hint =
        "give it the address of this end: addresses = [\"192.168.1.1/24\"], vsctl mod-port BRIDGE PORT --address CIDR";
    FieldError::new("port", format!("port {port} has no addresses"), hint)
}

/// A route is refused; the field is the part of it that is wrong.
pub(super) fn route(error: RouteError) -> FieldError {
    let hint = match error {
        RouteError::NoSource(_) => "give a gateway that is in one, or a source",
        RouteError::Unreachable(_) => "give another gateway or port, or a source",
        RouteError::NotOurs(_) => "give one of the port's addresses, or none",
        RouteError::HostBits(_) => "set them to 0",
        RouteError::Family(..) => "give IPv4 addresses only, or IPv6 addresses only",
        RouteError::NotHost(..) => "give a unicast address",
        RouteError::Exists => "give one route to a prefix",
        _ => "see vsctl route-show",
    };
    let field = match error.part() {
        Part::Prefix => "prefix",
        Part::Gateway => "gateway",
        Part::Source => "source",
    };
    FieldError::new(field, error.to_string(), hint)
}

/// Addresses of a port are refused as connected routes.
pub(super) fn addresses(error: RouteError) -> FieldError {
    FieldError::new("addresses", error.to_string(), "see vsctl route-show")
}

/// A mapping of Geneve's options is refused; the hint is Open vSwitch's name of the error.
pub fn mapping(error: &MapError) -> FieldError {
    FieldError::new("mappings", error.to_string(), error.code())
}
