//! Pods of this Node, and other Nodes.

use super::listing::Listed;
use super::parts;
use super::words::{cookie, count, count_json, list, or_dash, or_none, some};
use crate::client::Client;
use crate::error::Error;
use crate::output::{Columns, mac, port_number};
use serde_json::{Value, json};
use vswitch_proto::antrea::v1;

/// Pods by name, or all.
pub(super) async fn pods(client: &Client, names: &[String]) -> Result<Vec<v1::PodState>, Error> {
    let request = v1::ListPodsRequest { names: names.to_vec() };
    let answer = client.antrea_pods().await?.list_pods(request).await;
    Ok(parts(client, answer).await?.into_iter().flat_map(|part| part.pods).collect())
}

/// Peers by name, or all.
pub(super) async fn peers(client: &Client, names: &[String]) -> Result<Vec<v1::PeerNodeState>, Error> {
    let request = v1::ListPeerNodesRequest { names: names.to_vec() };
    let answer = client.antrea_peers().await?.list_peer_nodes(request).await;
    Ok(parts(client, answer).await?.into_iter().flat_map(|part| part.peers).collect())
}

/// `pods`.
impl Listed for v1::PodState {
    const COLUMNS: Columns<'static> = &[
        ("NAME", false),
        ("PORT", false),
        ("NUMBER", true),
        ("LINK", false),
        ("ADDRESSES", false),
        ("MAC", false),
        ("VLAN", true),
        ("POLICIES", true),
        ("EGRESS", false),
        ("SENT PACKETS", true),
        ("BYTES", true),
        ("IN KBIT/S", true),
        ("DROPPED", true),
        ("OUT KBIT/S", true),
        ("DROPPED", true),
    ];
    const NOUN: &'static str = "Pod";
    const VERB: &'static str = "pods";

    fn name(&self) -> &str {
        self.pod.as_ref().map_or("", |pod| &pod.name)
    }

    fn rows(&self, _: bool) -> Vec<Vec<String>> {
        let pod = self.pod.clone().unwrap_or_default();
        let (packets, bytes) = count(self.sent.as_ref());
        let rate = |limit: Option<v1::PodBandwidth>| or_none(limit.map_or(0, |limit| limit.rate_kbps));
        let dropped = |dropped: Option<&vswitch_proto::v1::Count>| count(dropped).0.to_string();
        vec![vec![
            pod.name,
            pod.port,
            if self.port_number == 0 { "-".to_owned() } else { port_number(self.port_number) },
            if self.link_up { "up" } else { "down" }.to_owned(),
            list(&pod.addresses),
            mac(pod.mac.as_ref()),
            or_none(pod.vlan),
            self.policies.len().to_string(),
            or_dash(&self.egress),
            packets.to_string(),
            bytes.to_string(),
            rate(pod.ingress_bandwidth),
            dropped(self.ingress_dropped.as_ref()),
            rate(pod.egress_bandwidth),
            dropped(self.egress_dropped.as_ref()),
        ]]
    }

    fn json(&self) -> Value {
        let pod = self.pod.clone().unwrap_or_default();
        let limit = |limit: Option<v1::PodBandwidth>, meter: u32, dropped: Option<&vswitch_proto::v1::Count>| {
            limit.map(|limit| {
                json!({
                    "rate_kbps": limit.rate_kbps,
                    "burst_kb": some(limit.burst_kb),
                    "meter": some(meter),
                    "dropped": count_json(dropped),
                })
            })
        };
        json!({
            "name": pod.name,
            "port": pod.port,
            "port_number": some(self.port_number),
            "link_up": self.link_up,
            "addresses": pod.addresses,
            "mac": mac(pod.mac.as_ref()),
            "vlan": some(pod.vlan),
            "policies": self.policies,
            "egress": some(self.egress.clone()),
            "cookie": cookie(self.cookie),
            "sent": count_json(self.sent.as_ref()),
            "ingress_bandwidth": limit(pod.ingress_bandwidth, self.ingress_meter, self.ingress_dropped.as_ref()),
            "egress_bandwidth": limit(pod.egress_bandwidth, self.egress_meter, self.egress_dropped.as_ref()),
        })
    }
}

/// How packets for a peer's Pods leave.
const fn path(path: v1::PeerPath) -> &'static str {
    match path {
        v1::PeerPath::Unspecified => "by-mode",
        v1::PeerPath::Tunnel => "tunnel",
        v1::PeerPath::Gateway => "gateway",
        v1::PeerPath::Uplink => "uplink",
    }
}

/// `peers`.
impl Listed for v1::PeerNodeState {
    const COLUMNS: Columns<'static> = &[
        ("NAME", false),
        ("POD CIDRS", false),
        ("GATEWAYS", false),
        ("TRANSPORT", false),
        ("PATH", false),
        ("TUNNEL PORT", false),
        ("MAC", false),
        ("ROUTED PACKETS", true),
        ("BYTES", true),
    ];
    const NOUN: &'static str = "peer";
    const VERB: &'static str = "peers";

    fn name(&self) -> &str {
        self.peer.as_ref().map_or("", |peer| &peer.name)
    }

    fn rows(&self, _: bool) -> Vec<Vec<String>> {
        let peer = self.peer.clone().unwrap_or_default();
        let sum = |part: fn(&vswitch_proto::v1::Count) -> u64| self.routed.iter().map(part).sum::<u64>().to_string();
        vec![vec![
            peer.name,
            list(&peer.pod_cidrs),
            list(&peer.gateway_addresses),
            list(&peer.transport_addresses),
            path(self.path()).to_owned(),
            or_dash(peer.tunnel_port),
            or_dash(mac(peer.mac.as_ref())),
            sum(|count| count.packets),
            sum(|count| count.bytes),
        ]]
    }

    fn json(&self) -> Value {
        let peer = self.peer.clone().unwrap_or_default();
        json!({
            "name": peer.name,
            "pod_cidrs": peer.pod_cidrs,
            "gateway_addresses": peer.gateway_addresses,
            "transport_addresses": peer.transport_addresses,
            "asked_path": path(peer.path()),
            "path": path(self.path()),
            "mac": peer.mac.as_ref().map(|address| mac(Some(address))),
            "tunnel_port": some(peer.tunnel_port),
            "cookie": cookie(self.cookie),
            "routed": self.routed.iter().map(|count| count_json(Some(count))).collect::<Value>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::listing::Listing;
    use super::*;
    use crate::output::Report;
    use vswitch_proto::v1::{Count, MacAddress};

    #[test]
    fn pods_both_ways() {
        let pod = |name: &str, vlan| v1::Pod {
            name: name.to_owned(),
            port: "web-7975".to_owned(),
            addresses: vec!["10.10.0.24".to_owned(), "fd00::18".to_owned()],
            mac: Some(MacAddress { octets: vec![2, 0, 0, 0, 0, 1] }),
            vlan,
            uid: String::new(),
            ..v1::Pod::default()
        };
        let limit = v1::PodBandwidth { rate_kbps: 100_000, burst_kb: 0 };
        let web = v1::PodState {
            pod: Some(v1::Pod { ingress_bandwidth: Some(limit), ..pod("default/web", 0) }),
            port_number: 37,
            link_up: true,
            cookie: 0x1_0080_0000_0005,
            sent: Some(Count { packets: 12, bytes: 3400 }),
            policies: vec!["np:default/web".to_owned()],
            egress: "egress-web".to_owned(),
            ingress_meter: 1024,
            ingress_dropped: Some(Count { packets: 3, bytes: 4500 }),
            ..Default::default()
        };
        let bare = v1::PodState { pod: Some(pod("default/x", 7)), ..Default::default() };
        let listing = Listing::new(vec![web, bare], &[]);
        let want = "\
NAME         PORT      NUMBER  LINK  ADDRESSES            MAC                VLAN  POLICIES  EGRESS      SENT PACKETS  BYTES  IN KBIT/S  DROPPED  OUT KBIT/S  DROPPED
default/web  web-7975      37  up    10.10.0.24,fd00::18  02:00:00:00:00:01     -         1  egress-web            12   3400     100000        3           -        0
default/x    web-7975       -  down  10.10.0.24,fd00::18  02:00:00:00:00:01     7         0  -                      0      0          -        0           -        0
";
        assert_eq!(listing.text(), want);
        let json = listing.json();
        assert_eq!(
            json[0],
            json!({
                "name": "default/web", "port": "web-7975", "port_number": 37, "link_up": true,
                "addresses": ["10.10.0.24", "fd00::18"], "mac": "02:00:00:00:00:01", "vlan": null,
                "policies": ["np:default/web"], "egress": "egress-web", "cookie": "0x1008000000005",
                "sent": { "packets": 12, "bytes": 3400 },
                "ingress_bandwidth": {
                    "rate_kbps": 100_000, "burst_kb": null, "meter": 1024, "dropped": { "packets": 3, "bytes": 4500 },
                },
                "egress_bandwidth": null,
            })
        );
        assert_eq!(
            (&json[1]["port_number"], &json[1]["vlan"], &json[1]["egress"]),
            (&Value::Null, &json!(7), &Value::Null)
        );
    }

    #[test]
    fn peers_both_ways() {
        let peer = v1::PeerNode {
            name: "worker-1".to_owned(),
            pod_cidrs: vec!["10.10.1.0/24".to_owned(), "fd00:1::/64".to_owned()],
            gateway_addresses: vec!["10.10.1.1".to_owned()],
            transport_addresses: vec!["192.168.77.103".to_owned()],
            ..Default::default()
        };
        let routed = vec![Count { packets: 1, bytes: 100 }, Count { packets: 2, bytes: 50 }];
        let state = v1::PeerNodeState { peer: Some(peer), path: v1::PeerPath::Tunnel.into(), cookie: 16, routed };
        let listing = Listing::new(vec![state], &[]);
        let want = "\
NAME      POD CIDRS                 GATEWAYS   TRANSPORT       PATH    TUNNEL PORT  MAC  ROUTED PACKETS  BYTES
worker-1  10.10.1.0/24,fd00:1::/64  10.10.1.1  192.168.77.103  tunnel  -            -                 3    150
";
        assert_eq!(listing.text(), want);
        let json = &listing.json()[0];
        assert_eq!(
            (&json["asked_path"], &json["path"], &json["mac"]),
            (&json!("by-mode"), &json!("tunnel"), &Value::Null)
        );
        assert_eq!(json["routed"][1], json!({ "packets": 2, "bytes": 50 }));
    }
}
