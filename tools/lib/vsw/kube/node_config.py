"""The schema of NodeConfig: the fields of `kinds/node_config.rs` of the agent, which are those of
`antrea.v1.NodeConfig`. Nothing is required at the top: a NodeConfig of one Node overrides some
fields, and the default one has the others."""

from .schema import BOOLEAN, SELECTOR, STRING, TEXTS, array, described, enum, integer, obj

MAC = {"type": "string", "pattern": "^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$"}
PORT = {"type": "string", "minLength": 1, "maxLength": 15}
ZONE = integer(0, 65535)
CATEGORY = enum("PolicyReject", "ServiceReject", "DNS", "IGMP", "PolicyLog", "Traceflow")

GATEWAY_BRIDGE = obj(
    {
        "mode": enum("Shared", "Local"),
        "addresses": TEXTS,
        "otherAddresses": TEXTS,
        "masqueradePrefixes": TEXTS,
        "firstZone": ZONE,
        "podsKeepAddresses": BOOLEAN,
        "port": STRING,
        "noUplink": BOOLEAN,
        "podMtu": integer(0, 65535),
    }
)
UPLINK = obj(
    {
        "port": PORT,
        "underlayBridge": STRING,
        "mac": MAC,
        "nextHops": array(obj({"address": STRING, "mac": MAC}, "address")),
        "externalTraffic": BOOLEAN,
        "answeredAddresses": TEXTS,
        "gateway": described(GATEWAY_BRIDGE, "The bridge behind the uplink as a gateway bridge, as in OVN-Kubernetes."),
    },
    "port",
)
FEATURES = obj(
    {
        name: BOOLEAN
        for name in (
            "proxy",
            "proxyAll",
            "antreaPolicy",
            "egress",
            "egressTrafficShaping",
            "trafficControl",
            "l7NetworkPolicy",
            "multicast",
            "dsr",
            "podVLANs",
        )
    }
)

NODE_CONFIG_SPEC = obj(
    {
        "nodeSelector": described(
            SELECTOR, "Labels of the Nodes that it is about. Not given: default is for all Nodes, others for the Node of their name."
        ),
        "bridge": described(PORT, "Bridge of the Pods, with fail mode secure. Default: br-int."),
        "trafficMode": described(enum("Encap", "NoEncap", "Hybrid", "NetworkPolicyOnly"), "How Pods of different Nodes reach each other."),
        "families": described(enum("IPv4", "IPv6", "Dual"), "Default: those of the prefixes of Pods."),
        "transportAddresses": described(
            TEXTS, "The Node's addresses between Nodes, with the lengths of their links. Default: its InternalIPs."
        ),
        "transportInterfaceCIDRs": described(TEXTS, "Networks between Nodes, with the lengths of their links."),
        "podCIDRs": described(TEXTS, "Default: those of the Node object."),
        "gateway": described(
            obj({"port": PORT, "mac": MAC, "addresses": TEXTS}),
            "The host's port in the Pods' bridge. Default: antrea-gw0, the first address of the Pods' prefix.",
        ),
        "tunnel": described(obj({"port": PORT}, "port"), "The tunnel port, in modes Encap and Hybrid. Default: antrea-tun0."),
        "uplink": described(UPLINK, "A way past the host's stack. Not given: there is none."),
        "serviceCIDRs": described(TEXTS, "Where cluster IPs are from."),
        "features": described(FEATURES, "Features of Antrea. On by default: proxy, antreaPolicy, egress."),
        "nodePortAddresses": described(TEXTS, "Addresses that serve NodePorts. Default: transportAddresses."),
        "egressExceptCIDRs": described(TEXTS, "Destinations that no Egress applies to."),
        "topologyZone": described(STRING, "Default: the Node's label topology.kubernetes.io/zone."),
        "l7": described(obj({"target": PORT, "returnPort": PORT}, "target", "returnPort"), "Ports of the application-aware engine."),
        "localProbe": described(enum("ByAddress", "ByPort", "None"), "How the host's own packets are known."),
        "localProbePort": described(STRING, "Port of the host's own packets, with ByPort."),
        "takenOver": described(array(CATEGORY), "Categories of packets that another program answers."),
        "packetLimits": described(
            array(obj({"category": CATEGORY, "ratePPS": integer(0, 1000000), "burstPackets": integer(0, 4294967295)}, "category")),
            "Rates by category.",
        ),
        "recordDenied": described(BOOLEAN, "Denied connections are flow records, too."),
        "fqdn": described(
            obj(
                {
                    **{name: integer(0, 4294967295) for name in ("minTTLSeconds", "namesPerPatternMax", "namesMax", "waitMsMax")},
                    "servers": TEXTS,
                }
            ),
            "Bounds of what is learned of names.",
        ),
        "zones": described(
            obj({name: ZONE for name in ("mainV4", "snatV4", "egressV4", "mainV6", "snatV6", "egressV6", "uplink", "hostEndpoints")}),
            "Zones of the connection tracker.",
        ),
        "virtualMAC": described(MAC, "MAC address of all that is tunneled or routed."),
        "reentranceMAC": described(MAC, "Source of packets that enter the host again."),
        "virtualServiceAddresses": described(TEXTS, "Source of hairpin connections, by family."),
        "virtualNodePortAddresses": described(TEXTS, "What the host translates NodePort packets to, by family."),
        "host": described(obj({"podsKeepAddresses": BOOLEAN}), "The host's part."),
        "nodePortLocal": described(
            obj({"enable": BOOLEAN, "portRange": {"type": "string", "pattern": "^[0-9]+-[0-9]+$"}}),
            "Ports of the Node for ports of Pods that annotated Services select. Default range: 61000-62000.",
        ),
    }
)
