//! Results, in the form of each version.

use serde_json::{Map, Value, json};
use vswitch_proto::agent::v1::Attached;

/// What ADD prints.
pub(crate) fn added(version: &str, interface: &str, attached: &Attached, dns: Option<&Value>) -> Value {
    let mut inner = json!({"name": interface, "mac": attached.mac, "sandbox": attached.netns});
    if version == "1.1.0" {
        inner["mtu"] = attached.mtu.into();
    }
    let mut interfaces = Vec::new();
    if attached.socket.is_empty() {
        let mut host = json!({"name": attached.host_interface, "mac": attached.host_mac});
        if version == "1.1.0" {
            host["mtu"] = attached.mtu.into();
        }
        interfaces.push(host);
    } else if version == "1.1.0" {
        inner["socketPath"] = attached.socket.clone().into();
    }
    let place = interfaces.len();
    interfaces.push(inner);
    let ip = |address: &str, gateway: &str| {
        let mut ip = Map::new();
        if version.starts_with('0') {
            ip.insert("version".to_owned(), if address.contains(':') { "6" } else { "4" }.into());
        }
        ip.insert("interface".to_owned(), place.into());
        ip.insert("address".to_owned(), address.into());
        if !gateway.is_empty() {
            ip.insert("gateway".to_owned(), gateway.into());
        }
        Value::Object(ip)
    };
    let route = |destination: &str, gateway: &str| {
        if gateway.is_empty() { json!({"dst": destination}) } else { json!({"dst": destination, "gw": gateway}) }
    };
    json!({
        "cniVersion": version,
        "interfaces": interfaces,
        "ips": attached.addresses.iter().map(|one| ip(&one.address, &one.gateway)).collect::<Vec<_>>(),
        "routes": attached.routes.iter().map(|one| route(&one.destination, &one.gateway)).collect::<Vec<_>>(),
        "dns": dns.cloned().unwrap_or_else(|| json!({})),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_proto::agent::v1::{IpConfig, Route};

    fn attached() -> Attached {
        Attached {
            host_interface: "web-abc".to_owned(),
            host_mac: "02:00:00:00:00:01".to_owned(),
            mac: "02:76:0a:0a:00:05".to_owned(),
            mtu: 1450,
            netns: "/run/netns/a".to_owned(),
            addresses: vec![IpConfig { address: "10.10.0.5/24".to_owned(), gateway: "10.10.0.1".to_owned() }],
            routes: vec![Route { destination: "0.0.0.0/0".to_owned(), gateway: String::new() }],
            socket: String::new(),
        }
    }

    #[test]
    fn a_socket_is_an_interface_of_the_container_only() {
        let attached = Attached { socket: "/run/vswitch/vhost/a/net.sock".to_owned(), ..attached() };
        let of = |version: &str| added(version, "net1", &attached, None);
        let expected = json!([{"name": "net1", "mac": "02:76:0a:0a:00:05", "sandbox": "/run/netns/a"}]);
        assert_eq!((&of("1.0.0")["interfaces"], &of("1.0.0")["ips"][0]["interface"]), (&expected, &json!(0)));
        assert_eq!(of("1.1.0")["interfaces"][0]["socketPath"], "/run/vswitch/vhost/a/net.sock");
    }

    #[test]
    fn each_version_has_its_form() {
        let attached = attached();
        let of = |version: &str| added(version, "eth0", &attached, None);
        for version in ["0.3.1", "0.4.0"] {
            assert_eq!(of(version)["ips"][0]["version"], "4");
        }
        assert_eq!(of("1.0.0")["ips"][0], json!({"interface": 1, "address": "10.10.0.5/24", "gateway": "10.10.0.1"}));
        assert_eq!(of("1.0.0")["interfaces"][1].get("mtu"), None);
        assert_eq!(of("1.1.0")["interfaces"][1]["mtu"], 1450);
        assert_eq!(of("1.1.0")["routes"][0], json!({"dst": "0.0.0.0/0"}));
        assert_eq!(of("1.1.0")["interfaces"][1]["sandbox"], "/run/netns/a");
    }
}
