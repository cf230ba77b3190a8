"""The CustomResourceDefinitions: kinds that the agent reads, by group.

Schemas are structural, and without CEL: an API server of 1.20 takes them. Schemas of policies keep
fields that they do not name. A server that dropped such a field would turn a narrow peer into a
wide one; so the agent sees the field, and refuses it by name. The schemas of Antrea's kinds and of
`policy.networking.k8s.io` are this project's own, and say less than those of their owners.
"""

from .node_config import NODE_CONFIG_SPEC
from .schema import ANY, INTEGER, SELECTOR, STRING, TEXTS, array, enum, integer, obj

IP_BLOCK = {**obj({"cidr": STRING, "except": TEXTS}, "cidr"), "x-kubernetes-preserve-unknown-fields": True}
PORT = integer(1, 65535)
BYTE = integer(0, 255)
CONDITIONS = array(
    obj(
        {
            "type": STRING,
            "status": STRING,
            "reason": STRING,
            "message": STRING,
            "lastTransitionTime": STRING,
            "observedGeneration": INTEGER,
        },
        "type",
        "status",
    )
)


def kept(schema):
    """A schema that keeps fields which it does not name."""
    return {**schema, "x-kubernetes-preserve-unknown-fields": True}


def antrea_rule():
    """A rule of an Antrea-native policy; its peers are judged by the agent."""
    return kept(
        obj(
            {
                "action": enum("Allow", "Drop", "Reject", "Pass"),
                "name": STRING,
                "enableLogging": {"type": "boolean"},
                "logLabel": STRING,
                "from": array(ANY),
                "to": array(ANY),
                "ports": array(ANY),
                "protocols": array(ANY),
                "l7Protocols": array(ANY),
                "toServices": array(ANY),
                "appliedTo": array(ANY),
            },
            "action",
        )
    )


POLICY_STATUS = kept(
    obj(
        {
            "phase": STRING,
            "observedGeneration": INTEGER,
            "currentNodesRealized": INTEGER,
            "desiredNodesRealized": INTEGER,
            "conditions": CONDITIONS,
        }
    )
)
ANTREA_POLICY = kept(
    obj(
        {
            "tier": STRING,
            "priority": {"type": "number", "minimum": 1, "maximum": 10000},
            "appliedTo": array(ANY),
            "ingress": array(antrea_rule()),
            "egress": array(antrea_rule()),
        },
        "priority",
    )
)
GROUP = kept(
    obj(
        {
            "podSelector": SELECTOR,
            "namespaceSelector": SELECTOR,
            "externalEntitySelector": SELECTOR,
            "nodeSelector": SELECTOR,
            "ipBlock": IP_BLOCK,
            "ipBlocks": array(IP_BLOCK),
            "childGroups": TEXTS,
            "serviceReference": obj({"name": STRING, "namespace": STRING}),
        }
    )
)
PODS_OR_GROUP = kept(obj({"podSelector": SELECTOR, "namespaceSelector": SELECTOR, "group": STRING}))
EGRESS = kept(
    obj(
        {
            "appliedTo": PODS_OR_GROUP,
            "egressIP": STRING,
            "egressIPs": TEXTS,
            "externalIPPool": STRING,
            "externalIPPools": TEXTS,
            "bandwidth": obj({"rate": STRING, "burst": STRING}, "rate", "burst"),
        },
        "appliedTo",
    )
)
POOL = kept(
    obj(
        {
            "ipRanges": array(obj({"cidr": STRING, "start": STRING, "end": STRING})),
            "nodeSelector": SELECTOR,
            "subnetInfo": obj({"gateway": STRING, "prefixLength": integer(1, 127), "vlan": integer(0, 4094)}, "gateway", "prefixLength"),
        },
        "ipRanges",
        "nodeSelector",
    )
)
TRAFFIC_CONTROL = kept(
    obj(
        {
            "appliedTo": PODS_OR_GROUP,
            "direction": enum("Ingress", "Egress", "Both"),
            "action": enum("Mirror", "Redirect"),
            "targetPort": ANY,
            "returnPort": ANY,
        },
        "appliedTo",
        "direction",
        "action",
        "targetPort",
    )
)

PACKET = {
    "srcIP": STRING,
    "dstIP": STRING,
    "length": integer(0, 65535),
    "ipHeader": obj({"protocol": BYTE, "ttl": BYTE, "flags": integer(0, 7)}),
    "ipv6Header": obj({"nextHeader": BYTE, "hopLimit": BYTE}),
    "transportHeader": obj(
        {
            "icmp": obj({"id": integer(0, 65535), "sequence": integer(0, 65535)}),
            "udp": obj({"srcPort": PORT, "dstPort": PORT}),
            "tcp": obj({"srcPort": PORT, "dstPort": PORT, "flags": BYTE}),
        }
    ),
}
TRACEFLOW = obj(
    {
        "source": obj({"namespace": STRING, "pod": STRING, "ip": STRING}),
        "destination": obj({"namespace": STRING, "pod": STRING, "service": STRING, "ip": STRING}),
        "packet": obj({name: PACKET[name] for name in ("ipHeader", "ipv6Header", "transportHeader")}),
        "liveTraffic": {"type": "boolean"},
        "droppedOnly": {"type": "boolean"},
        "timeout": integer(1, 300),
    }
)
OBSERVATION = kept(
    obj(
        {
            **{
                name: STRING
                for name in (
                    "component",
                    "componentInfo",
                    "action",
                    "pod",
                    "dstMAC",
                    "networkPolicy",
                    "networkPolicyRule",
                    "translatedSrcIP",
                    "translatedDstIP",
                    "tunnelDstIP",
                    "egressIP",
                    "egress",
                    "egressNode",
                )
            },
            "ttl": BYTE,
        }
    )
)
TRACEFLOW_STATUS = obj(
    {
        "phase": STRING,
        "reason": STRING,
        "startTime": STRING,
        "dataplaneTag": INTEGER,
        "capturedPacket": obj(PACKET),
        "results": array(obj({"node": STRING, "role": STRING, "timestamp": INTEGER, "observations": array(OBSERVATION)})),
    }
)
POD_OR_ADDRESS = obj({"pod": obj({"namespace": STRING, "name": STRING}, "name"), "ip": STRING})
# A number, or a name.
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
MESSAGES = obj({"messages": array(obj({"type": INT_OR_STRING, "code": BYTE}, "type"))})
PACKET_CAPTURE = kept(
    obj(
        {
            "timeout": integer(1, 300),
            "captureConfig": obj({"firstN": obj({"number": integer(1, 2**31 - 1)}, "number")}, "firstN"),
            "source": POD_OR_ADDRESS,
            "destination": POD_OR_ADDRESS,
            "direction": enum("SourceToDestination", "DestinationToSource", "Both"),
            "capturePoint": enum("Source", "Destination"),
            "packet": obj(
                {
                    "ipFamily": enum("IPv4", "IPv6"),
                    "protocol": INT_OR_STRING,
                    "transportHeader": obj(
                        {
                            "udp": obj({"srcPort": PORT, "dstPort": PORT}),
                            "tcp": obj({"srcPort": PORT, "dstPort": PORT, "flags": array(obj({"value": BYTE, "mask": BYTE}, "value"))}),
                            "icmp": MESSAGES,
                            "icmpv6": MESSAGES,
                        }
                    ),
                }
            ),
            "fileServer": obj({"url": STRING, "hostPublicKey": STRING}, "url"),
        },
        "captureConfig",
    )
)
PACKET_CAPTURE_STATUS = obj({"numberCaptured": INTEGER, "filePath": STRING, "conditions": CONDITIONS})

ADMIN_RULE = kept(
    obj(
        {
            "name": {"type": "string", "maxLength": 100},
            "action": STRING,
            "from": array(ANY),
            "to": array(ANY),
            "protocols": array(ANY),
            "ports": array(ANY),
        },
        "action",
    )
)
ADMIN_RULES = {"subject": ANY, "ingress": array(ADMIN_RULE), "egress": array(ADMIN_RULE)}
CONDITIONED = kept(obj({"conditions": CONDITIONS}))
# The owner of a group below k8s.io approves its schemas. One that is not the owner's says so.
NOT_THE_OWNERS = {"api-approved.kubernetes.io": "unapproved, a reduced schema of sigs.k8s.io/network-policy-api"}


def column(name, path, of="string"):
    """A column of `kubectl get`."""
    return {"name": name, "type": of, "jsonPath": path}


AGE = column("Age", ".metadata.creationTimestamp", "date")


def crd(group, version, kind, plural, spec, *, short=(), namespaced=False, status=None, columns=(), annotations=None):
    """A CustomResourceDefinition with one version."""
    properties = {"apiVersion": STRING, "kind": STRING, "metadata": {"type": "object"}, "spec": spec}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": obj(properties, "spec")}}
    if status:
        properties["status"] = status
        served["subresources"] = {"status": {}}
    served["additionalPrinterColumns"] = [*columns, AGE]
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    if short:
        names["shortNames"] = list(short)
    meta = {"name": f"{plural}.{group}", "labels": {"app.kubernetes.io/part-of": "vswitch"}}
    if annotations:
        meta["annotations"] = annotations
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta,
        "spec": {"group": group, "scope": "Namespaced" if namespaced else "Cluster", "names": names, "versions": [served]},
    }


def antrea(version, kind, plural, spec, **options):
    """A kind of Antrea's."""
    return crd("crd.antrea.io", version, kind, plural, spec, **options)


def admin(version, kind, plural, spec, **options):
    """A kind of the Network Policy API."""
    return crd("policy.networking.k8s.io", version, kind, plural, spec, status=CONDITIONED, annotations=NOT_THE_OWNERS, **options)


TIERED = (column("Tier", ".spec.tier"), column("Priority", ".spec.priority", "number"))
REALIZED = (
    column("Phase", ".status.phase"),
    column("Desired Nodes", ".status.desiredNodesRealized", "integer"),
    column("Current Nodes", ".status.currentNodesRealized", "integer"),
)
IS_REALIZED = column("Realized", '.status.conditions[?(@.type=="Realized")].status')

# Files of deploy/crds, each with a group.
FILES = {
    "vswitch.io.yaml": [
        crd(
            "vswitch.io",
            "v1",
            "NodeConfig",
            "nodeconfigs",
            NODE_CONFIG_SPEC,
            status=CONDITIONED,
            columns=[column("Mode", ".spec.trafficMode")],
        ),
    ],
    "crd.antrea.io.yaml": [
        antrea(
            "v1beta1",
            "NetworkPolicy",
            "networkpolicies",
            ANTREA_POLICY,
            short=["anp"],
            namespaced=True,
            status=POLICY_STATUS,
            columns=TIERED + REALIZED,
        ),
        antrea(
            "v1beta1",
            "ClusterNetworkPolicy",
            "clusternetworkpolicies",
            ANTREA_POLICY,
            short=["acnp"],
            status=POLICY_STATUS,
            columns=TIERED + REALIZED,
        ),
        antrea(
            "v1beta1",
            "Tier",
            "tiers",
            obj({"priority": integer(0, 255), "description": STRING}, "priority"),
            short=["tr"],
            columns=[column("Priority", ".spec.priority", "integer")],
        ),
        antrea("v1beta1", "ClusterGroup", "clustergroups", GROUP, short=["cg"], status=CONDITIONED),
        antrea("v1beta1", "Group", "groups", GROUP, short=["grp"], namespaced=True, status=CONDITIONED),
        antrea(
            "v1beta1",
            "Egress",
            "egresses",
            EGRESS,
            short=["eg"],
            status=kept(obj({"egressNode": STRING, "egressIP": STRING, "conditions": CONDITIONS})),
            columns=[column("EgressIP", ".status.egressIP"), column("Node", ".status.egressNode")],
        ),
        antrea("v1alpha2", "TrafficControl", "trafficcontrols", TRAFFIC_CONTROL, short=["tc"], columns=[column("Action", ".spec.action")]),
        antrea(
            "v1beta1",
            "ExternalIPPool",
            "externalippools",
            POOL,
            short=["eip"],
            status=kept(obj({"usage": obj({"total": INTEGER, "used": INTEGER})})),
            columns=[column("Total", ".status.usage.total", "integer"), column("Used", ".status.usage.used", "integer")],
        ),
        antrea(
            "v1beta1",
            "Traceflow",
            "traceflows",
            TRACEFLOW,
            short=["tf"],
            status=TRACEFLOW_STATUS,
            columns=[
                column("Phase", ".status.phase"),
                column("Source-Pod", ".spec.source.pod"),
                column("Destination-Pod", ".spec.destination.pod"),
            ],
        ),
        antrea(
            "v1alpha1",
            "PacketCapture",
            "packetcaptures",
            PACKET_CAPTURE,
            short=["pcap"],
            status=PACKET_CAPTURE_STATUS,
            columns=[column("Captured", ".status.numberCaptured", "integer"), column("File", ".status.filePath")],
        ),
    ],
    "policy.networking.k8s.io.yaml": [
        admin(
            "v1alpha2",
            "ClusterNetworkPolicy",
            "clusternetworkpolicies",
            kept(obj({"tier": STRING, "priority": integer(0, 1000), **ADMIN_RULES}, "priority", "subject", "tier")),
            short=["cnp"],
            columns=[*TIERED, IS_REALIZED],
        ),
        admin(
            "v1alpha1",
            "AdminNetworkPolicy",
            "adminnetworkpolicies",
            kept(obj({"priority": integer(0, 1000), **ADMIN_RULES}, "priority", "subject")),
            short=["anp"],
            columns=[*TIERED[1:], IS_REALIZED],
        ),
        admin(
            "v1alpha1",
            "BaselineAdminNetworkPolicy",
            "baselineadminnetworkpolicies",
            kept(obj(ADMIN_RULES, "subject")),
            short=["banp"],
            columns=[IS_REALIZED],
        ),
    ],
}
