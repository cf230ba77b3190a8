//! What a request may say: ids, names, addresses. And the names that are made of them.

use super::failure::{Outcome, config, environment};
use super::record::{Address, Key, Pod, Route};
use crate::hash::fnv;
use std::net::IpAddr;
use vswitch_net_types::shown;
use vswitch_proto::agent::v1::{AttachmentRef, IpConfig, PodRef, Route as SaidRoute};

/// Bytes of a container's id. Names of files are made of it.
const CONTAINER_LEN_MAX: usize = 200;

/// Bytes of an interface's name: the kernel's `IFNAMSIZ`, less its end.
const INTERFACE_LEN_MAX: usize = 15;

/// Bytes of a name of Kubernetes (DNS subdomain), and of the switch's UIDs.
const POD_NAME_LEN_MAX: usize = 253;
const UID_LEN_MAX: usize = 128;

/// Routes of one container. IPAM plug-ins have a handful.
const ROUTES_MAX: usize = 64;

/// Letters of a Pod's name in a port's, and of the hash behind it.
const PREFIX_LEN: usize = 7;
const HASH_LEN: usize = 7;

/// What a MAC address begins with: locally administered, then "v".
const MAC_PREFIX: [u8; 2] = [0x02, 0x76];

/// The specification's alphabet.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(|one| one.is_ascii_alphanumeric() || "_.-".contains(one))
}

/// The interface that a request is about.
pub(super) fn key(said: Option<AttachmentRef>) -> Outcome<Key> {
    let AttachmentRef { container, interface } = said.unwrap_or_default();
    if !is_name(&container) || container.len() > CONTAINER_LEN_MAX {
        return Err(environment(format!("container {:?} is no id", shown(&container))));
    }
    let is_right = |one: char| !(one == '/' || one == ':' || one.is_whitespace() || one.is_control());
    let is_interface = !interface.is_empty() && interface.len() <= INTERFACE_LEN_MAX && interface.chars().all(is_right);
    if !is_interface || [".", ".."].contains(&interface.as_str()) {
        return Err(environment(format!("interface {:?} is no name", shown(&interface))));
    }
    Ok(Key { container, interface })
}

/// The Pod that a request is about; None: the container is of no Pod.
pub(super) fn pod(said: Option<PodRef>) -> Outcome<Option<Pod>> {
    let PodRef { namespace, name, uid } = said.unwrap_or_default();
    if namespace.is_empty() && name.is_empty() {
        return Ok(None);
    }
    for text in [&namespace, &name] {
        if !is_name(text) || text.len() > POD_NAME_LEN_MAX {
            return Err(environment(format!("{:?} is no name of a Pod or namespace", shown(text))));
        }
    }
    if uid.len() > UID_LEN_MAX || uid.chars().any(char::is_control) {
        return Err(environment(format!("UID {:?} is none", shown(&uid))));
    }
    Ok(Some(Pod { namespace, name, uid }))
}

/// Addresses that IPAM has given: one or two, of different families. `gateways` are the Node's.
pub(super) fn addresses(said: &[IpConfig], gateways: &[IpAddr]) -> Outcome<Vec<Address>> {
    let mut all: Vec<Address> = Vec::new();
    for IpConfig { address: text, gateway } in said {
        let wrong = |what: &str| Err(config(format!("address {:?} {what}", shown(text))));
        let Some((address, length)) = prefix(text) else { return wrong("is none with a prefix length") };
        if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
            return wrong("is no address of a container");
        }
        if all.iter().any(|one| one.address.is_ipv4() == address.is_ipv4()) {
            return wrong("is the second one of its family");
        }
        let gateway = match gateway.as_str() {
            "" => gateways.iter().find(|one| one.is_ipv4() == address.is_ipv4()).copied(),
            text => match text.parse::<IpAddr>() {
                Ok(gateway) if gateway.is_ipv4() == address.is_ipv4() => Some(gateway),
                _ => return Err(config(format!("gateway {:?} is none of its family", shown(text)))),
            },
        };
        all.push(Address { address, length, gateway });
    }
    if all.is_empty() { Err(config("IPAM has given no address")) } else { Ok(all) }
}

/// Routes that IPAM has given. Without any, the Pod's own interface has a default route by each
/// gateway, and a further one has none.
pub(super) fn routes(said: &[SaidRoute], addresses: &[Address], is_own: bool) -> Outcome<Vec<Route>> {
    if said.len() > ROUTES_MAX {
        return Err(config(format!("{} routes: at most {ROUTES_MAX} are served", said.len())));
    }
    if said.is_empty() && !is_own {
        return Ok(Vec::new());
    }
    if said.is_empty() {
        let default = |address: IpAddr| if address.is_ipv4() { [0; 4].into() } else { IpAddr::from([0; 16]) };
        let by = |one: &Address| Some(Route { destination: default(one.address), length: 0, gateway: one.gateway? });
        return Ok(addresses.iter().filter_map(by).collect());
    }
    let mut all = Vec::new();
    for SaidRoute { destination: text, gateway } in said {
        let Some((destination, length)) = prefix(text) else {
            return Err(config(format!("route {:?} is no prefix", shown(text))));
        };
        let of_family = addresses.iter().find(|one| one.address.is_ipv4() == destination.is_ipv4());
        let gateway = match gateway.as_str() {
            "" => of_family.and_then(|one| one.gateway),
            text => text.parse().ok().filter(|one: &IpAddr| one.is_ipv4() == destination.is_ipv4()),
        };
        let Some(gateway) = gateway.filter(|_| of_family.is_some()) else {
            return Err(config(format!("route {:?} has no gateway of its family", shown(text))));
        };
        all.push(Route { destination, length, gateway });
    }
    Ok(all)
}

/// An address with a prefix length.
pub(super) fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let (address, length) = (address.parse::<IpAddr>().ok()?, length.parse::<u8>().ok()?);
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

/// The MAC address of a container: that of its first address, so that neighbours stay right when an
/// address comes again.
pub(super) fn mac(addresses: &[Address]) -> [u8; 6] {
    let tail = match addresses.first().map(|one| one.address) {
        Some(IpAddr::V4(address)) => address.octets(),
        Some(IpAddr::V6(address)) => fold(fnv(address.octets().into_iter())),
        None => [0; 4],
    };
    [MAC_PREFIX[0], MAC_PREFIX[1], tail[0], tail[1], tail[2], tail[3]]
}

/// A MAC address as text.
pub(super) fn mac_text(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":")
}

fn fold(hash: u64) -> [u8; 4] {
    let [a, b, c, d, e, f, g, h] = hash.to_be_bytes();
    [a ^ e, b ^ f, c ^ g, d ^ h]
}

/// A name for interface and port on the Node: the begin of the Pod's name, and a hash. Another
/// `attempt` gives another name.
pub(super) fn host_interface(key: &Key, pod: Option<&Pod>, attempt: u8) -> String {
    let name = pod.map_or(key.container.as_str(), |pod| pod.name.as_str());
    let mut prefix: String = name.chars().filter(|one| one.is_ascii_alphanumeric() || *one == '-').collect();
    prefix.truncate(PREFIX_LEN);
    let prefix = prefix.trim_matches('-');
    let mut rest = fnv(format!("{}:{}:{attempt}", key.container, key.interface).bytes());
    let mut letters = String::new();
    for _ in 0..HASH_LEN {
        letters.extend(char::from_digit(u32::try_from(rest % 36).unwrap_or_default(), 36));
        rest /= 36;
    }
    if prefix.is_empty() { letters } else { format!("{prefix}-{letters}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(container: &str, interface: &str) -> Option<AttachmentRef> {
        Some(AttachmentRef { container: container.to_owned(), interface: interface.to_owned() })
    }

    fn ip(address: &str, gateway: &str) -> IpConfig {
        IpConfig { address: address.to_owned(), gateway: gateway.to_owned() }
    }

    #[test]
    fn ids_that_would_leave_the_directory_are_refused() {
        assert!(key(reference("c1.x_-", "eth0")).is_ok());
        for id in ["", "..", "../a", "a/b", "a:b", "-a", &"a".repeat(201)] {
            assert_eq!(key(reference(id, "eth0")).map(drop).map_err(|failure| failure.code), Err(4), "{id}");
        }
        for name in ["", ".", "..", "a/b", "a:b", "a b", "sixteen-letters-"] {
            assert_eq!(key(reference("c", name)).map(drop).map_err(|failure| failure.code), Err(4), "{name}");
        }
    }

    #[test]
    fn addresses_are_one_of_each_family() {
        let gateways = ["10.0.0.1".parse().expect("an address")];
        let both = addresses(&[ip("10.0.0.5/24", ""), ip("fd00::5/64", "fd00::1")], &gateways).expect("they are right");
        assert_eq!(both[0].gateway, Some(gateways[0]));
        let defaults = routes(&[], &both, true).expect("they are right");
        assert_eq!(defaults.iter().map(|one| one.gateway.to_string()).collect::<Vec<_>>(), ["10.0.0.1", "fd00::1"]);
        for wrong in [
            &[][..],
            &[ip("10.0.0.5", "")],
            &[ip("10.0.0.5/33", "")],
            &[ip("0.0.0.0/0", "")],
            &[ip("127.0.0.1/8", "")],
            &[ip("224.0.0.1/4", "")],
            &[ip("10.0.0.5/24", "fd00::1")],
            &[ip("10.0.0.5/24", ""), ip("10.0.0.6/24", "")],
        ] {
            assert_eq!(addresses(wrong, &gateways).map_err(|failure| failure.code), Err(7), "{wrong:?}");
        }
        let route = |destination: &str, gateway: &str| {
            let said = SaidRoute { destination: destination.to_owned(), gateway: gateway.to_owned() };
            routes(&[said], &both[..1], false).map_err(|failure| failure.code)
        };
        assert_eq!(routes(&[], &both, false), Ok(Vec::new()), "a further interface");
        assert_eq!(route("10.96.0.0/12", "").map(|all| all[0].gateway), Ok(gateways[0]));
        assert_eq!(route("::/0", "fd00::1"), Err(7), "the container has no such address");
        assert_eq!(route("10.96.0.0", ""), Err(7));
    }

    #[test]
    fn names_fit_and_differ() {
        let key = Key { container: "0123456789abcdef".to_owned(), interface: "eth0".to_owned() };
        let pod = |name: &str| Pod { namespace: "n".to_owned(), name: name.to_owned(), uid: String::new() };
        let long = host_interface(&key, Some(&pod("a-very.long-name")), 0);
        assert!(long.len() <= INTERFACE_LEN_MAX && long.starts_with("a-veryl-"), "{long}");
        assert_ne!(long, host_interface(&key, Some(&pod("a-very.long-name")), 1));
        assert!(host_interface(&key, None, 0).starts_with("0123456-"));
        assert_eq!(host_interface(&key, Some(&pod("---")), 0).len(), HASH_LEN);
    }

    #[test]
    fn a_mac_address_is_that_of_the_address() {
        let of = |text: &str| mac(&addresses(&[ip(text, "")], &[]).expect("it is right"));
        assert_eq!(of("10.0.0.5/24"), [2, 0x76, 10, 0, 0, 5]);
        assert_eq!(of("fd00::5/64"), of("fd00::5/64"));
        assert_ne!(of("fd00::5/64"), of("fd00::6/64"));
    }
}
