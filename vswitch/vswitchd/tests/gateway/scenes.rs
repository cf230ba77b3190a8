//! Who reaches whom, and whose address is seen.

use super::{Addresses, HOLD, Held, Node, SOON, url};
use crate::common::Netns;
use serde_json::Value;

/// What a namespace hears when it asks; the exit status of curl else: 7 refused, 28 silence.
pub(super) fn asks(ns: &Netns, address: &str, port: u16, more: &[&str]) -> Result<String, Option<i32>> {
    let answer = ns.exec(&[&["curl", "-gsS", "-m", "3"], more, &[&*url(address, port)]].concat());
    let text = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    if answer.status.success() { Ok(text) } else { Err(answer.status.code()) }
}

pub(super) fn hears(ns: &Netns, address: &str, port: u16, wanted: &str, what: &str) {
    // An answer is waited for longer than silence is: the machine may be busy.
    let heard = asks(ns, address, port, &["-m", "20"]);
    assert_eq!(heard.as_deref(), Ok(wanted), "{what}: {address} port {port}");
}

/// The host and the wire reach each other, whatever the switch has been told.
pub(super) fn host_and_wire(node: &Node, of: &Addresses, when: &str) {
    node.outside.wait_reaches(of.node, SOON, when);
    node.node.wait_reaches(of.outside, SOON, when);
    hears(&node.outside, of.node, 22, &format!("host sees {}", of.outside), &format!("{when}: outside -> host"));
    hears(&node.node, of.far, 8080, &format!("outside sees {}", of.node), &format!("{when}: host -> far"));
}

/// Who answers Pods, and for them, in mode Shared.
pub(super) fn pods_side(node: &Node, of: &Addresses) {
    let seen_by = |who: &str, address: &str| format!("{who} sees {address}");
    let outside = seen_by("pod", of.outside);
    hears(&node.outside, of.node, 31746, &outside, "outside -> NodePort -> Pod");
    hears(&node.outside, of.node, 31747, &outside, "outside -> NodePort, policy Local -> Pod");
    hears(&node.outside, of.balancer, 80, &outside, "outside -> load balancer -> Pod");
    hears(&node.pod, of.far, 8080, &seen_by("outside", of.node), "Pod -> far, with the Node's address");
    node.pod.wait_reaches(of.far, SOON, "Pod -> far");
    let large = node.pod.exec(&["ping", "-n", "-c", "3", "-s", "4000", "-W", "2", of.far]);
    assert!(large.status.success(), "fragments, Pod -> far: {}", String::from_utf8_lossy(&large.stdout));
    let large = node.outside.exec(&["ping", "-n", "-c", "3", "-s", "4000", "-W", "2", of.node]);
    assert!(large.status.success(), "fragments, outside -> host: {}", String::from_utf8_lossy(&large.stdout));
    // It has no endpoint: it refuses, and the host is not asked.
    assert_eq!(asks(&node.outside, of.node, 30014, &[]), Err(Some(7)), "outside -> NodePort without endpoint");
    let by_gateway = seen_by("pod", of.gateway);
    hears(&node.node, &of.cluster_ip(10), 80, &by_gateway, "host -> ClusterIP -> Pod");
    hears(&node.node, of.balancer, 80, &by_gateway, "host -> load balancer -> Pod");
    hears(&node.node, of.node, 31746, &by_gateway, "host -> its own NodePort -> Pod");
}

/// What the host's routing does in mode Local.
pub(super) fn by_the_host(node: &Node, of: &Addresses) {
    let by_gateway = format!("pod sees {}", of.gateway);
    hears(&node.outside, of.node, 31746, &by_gateway, "outside -> NodePort, policy Cluster -> Pod");
    hears(&node.outside, of.balancer, 80, &by_gateway, "outside -> load balancer -> Pod");
    let client = format!("pod sees {}", of.outside);
    hears(&node.outside, of.node, 31747, &client, "outside -> NodePort, policy Local -> Pod");
    hears(&node.pod, of.far, 8080, &format!("outside sees {}", of.node), "Pod -> far, by the host");
    node.pod.wait_reaches(of.far, SOON, "Pod -> far");
    assert_eq!(asks(&node.outside, of.node, 30014, &[]), Err(Some(7)), "outside -> NodePort without endpoint");
    hears(&node.node, &of.cluster_ip(10), 80, &by_gateway, "host -> ClusterIP -> Pod");
    hears(&node.node, of.balancer, 80, &by_gateway, "host -> load balancer -> Pod");
    hears(&node.node, of.node, 31746, &by_gateway, "host -> its own NodePort, policy Cluster -> Pod");
    hears(&node.node, of.node, 31747, &by_gateway, "host -> its own NodePort, policy Local -> Pod");
    assert_eq!(asks(&node.outside, of.node, 31748, &[]), Err(Some(28)), "outside -> NodePort: a policy forbids it");
}

/// Ports of the Node that one Pod has (NodePortLocal): it sees its client, and policies bind it.
pub(super) fn ports_of_a_pod(node: &Node, of: &Addresses) {
    let services = node.switch.json(&["antrea", "services"]);
    let is_its = |service: &&Value| service["name"] == "default/web@nodeportlocal";
    let own = services.as_array().and_then(|services| services.iter().find(is_its));
    let own = own.unwrap_or_else(|| panic!("the Pod has no ports: {services:#}"));
    let port = |number: u64| {
        let ports = own["ports"].as_array().into_iter().flatten();
        let port = ports.into_iter().find(|port| port["port"] == number).and_then(|port| port["node_port"].as_u64());
        port.and_then(|port| u16::try_from(port).ok()).unwrap_or_else(|| panic!("no port for {number}: {own:#}"))
    };
    assert!((61000..=62000).contains(&port(8080)) && port(8080) != port(8082), "{own:#}");
    hears(&node.outside, of.node, port(8080), &format!("pod sees {}", of.outside), "outside -> port of the Pod");
    hears(&node.node, of.node, port(8080), &format!("pod sees {}", of.gateway), "host -> port of the Pod");
    if of.link != 64 {
        assert_eq!(asks(&node.outside, of.node, port(8082), &[]), Err(Some(28)), "a policy forbids it");
    }
}

/// Services that the host itself serves.
pub(super) fn endpoints_on_the_host(node: &Node, of: &Addresses) {
    let side = format!("host sees {}", of.masquerade(1));
    hears(&node.node, &of.cluster_ip(11), 80, &side, "host -> ClusterIP -> itself");
    hears(&node.node, &of.cluster_ip(13), 80, &side, "host -> ClusterIP -> another address of its own");
    hears(&node.outside, of.node, 30011, &side, "outside -> NodePort, policy Cluster -> host");
    let client = format!("host sees {}", of.outside);
    hears(&node.outside, of.node, 30012, &client, "outside -> NodePort, policy Local -> host");
    hears(&node.outside, of.node, 8081, &client, "outside -> host, the same port");
}

/// Who may ask, whatever way he comes.
pub(super) fn policies(node: &Node, of: &Addresses) {
    let silence = Err(Some(28));
    let by_gateway = format!("pod sees {}", of.gateway);
    hears(&node.node, &of.cluster_ip(10), 82, &by_gateway, "host -> ClusterIP: the Node itself may");
    assert_eq!(asks(&node.outside, of.node, 31748, &[]), silence, "outside -> NodePort: a policy forbids it");
    // The host forwards: its privilege is its own.
    hears(&node.outside, &of.cluster_ip(10), 80, &by_gateway, "outside -> ClusterIP by the host");
    assert_eq!(
        asks(&node.outside, &of.cluster_ip(10), 82, &[]),
        silence,
        "outside -> ClusterIP by the host: forbidden"
    );
    for claimed in [of.masquerade(2), of.masquerade(6), of.node.to_owned()] {
        let length = if claimed.contains(':') { 128 } else { 32 };
        node.outside.configure("lo", &[&format!("{claimed}/{length}")]);
        let heard = asks(&node.outside, of.balancer, 82, &["--interface", &claimed]);
        node.outside.run(&["ip", "address", "del", &format!("{claimed}/{length}"), "dev", "lo"]);
        assert_eq!(heard, silence, "outside says that it is {claimed}");
    }
    // A masquerade address is no way to the host past policies about its addresses.
    assert_eq!(asks(&node.pod, &of.masquerade(2), 8081, &[]), silence, "Pod -> masquerade address");
}

/// Ports that the host and others use at the same time.
pub(super) fn ports(node: &Node, of: &Addresses) {
    // Each family has ports of its own: those of the other one may not be free yet.
    let (own, held) = if of.link == 64 { ("31748", "5556") } else { ("31746", "5555") };
    let wanted = format!("outside sees {}", of.node);
    let heard = asks(&node.node, of.far, 8080, &["--local-port", own]);
    assert_eq!(heard.as_deref(), Ok(&*wanted), "host -> far from a port that is a NodePort");
    let mut host = Held::start(&node.node, HOLD, &[of.far, "8080", held]);
    assert_eq!(host.ask(), wanted);
    let heard = asks(&node.pod, of.far, 8080, &["--local-port", held]);
    assert_eq!(heard.as_deref(), Ok(&*wanted), "Pod -> far from the port of the host's connection");
    assert_eq!(host.ask(), wanted, "the host's connection lives on");
}
