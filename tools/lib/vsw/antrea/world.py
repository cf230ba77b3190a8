"""Names and addresses: what the document says, and what it leaves out."""

from dataclasses import dataclass

# Tables of the document, in order of their numbers.
TABLES = """PipelineRootClassifier ARPSpoofGuard ARPResponder Classifier SpoofGuard UnSNAT ConntrackZone ConntrackState
PreRoutingClassifier NodePortMark SessionAffinity ServiceLB EndpointDNAT AntreaPolicyEgressRule EgressRule EgressDefaultRule
EgressMetric L3Forwarding EgressMark L3DecTTL SNATMark SNAT L2ForwardingCalc TrafficControl IngressSecurityClassifier
AntreaPolicyIngressRule IngressRule IngressDefaultRule IngressMetric ConntrackCommit Output""".split()

TUNNEL, GATEWAY = "antrea-tun0", "antrea-gw0"
GATEWAY_MAC, VIRTUAL_MAC = "ba:5e:d1:55:aa:c0", "aa:bb:cc:dd:ee:ff"


@dataclass(frozen=True)
class Pod:
    """A Pod: its namespace's short name, its port's name and number, its address and MAC."""

    name: str
    port: str
    number: int
    v4: str
    mac: str
    kind: str  # how it is wired to the switch

    @property
    def v6(self):
        """Its IPv6 twin."""
        return six(self.v4)

    @property
    def interface(self):
        """Its interface, in its namespace."""
        return "eth0" if self.kind == "af_packet" else f"{self.name}0"


CLIENT = Pod("client", "client-6-3353ef", 0x24, "10.10.0.26", "5e:b5:e3:a6:90:b7", "af_packet")
WEB = Pod("web", "web-7975-274540", 0x25, "10.10.0.24", "fa:b7:53:74:21:a6", "tap")
DB = Pod("db", "db-755c6-5080e3", 0x26, "10.10.0.25", "36:48:21:a2:9d:b4", "af_packet")
# Not in the document, but for its address in SNATMark: an Endpoint of this Node that no Pod there
# has.
WEB2 = Pod("web2", "web2-6f8c-1a2b3", 0x2A, "10.10.0.23", "72:1c:5d:0e:9a:23", "tap")
PODS = (CLIENT, WEB, DB, WEB2)

# Ports behind which somebody looks at packets, or works on them: (name, number).
TAPS = (
    ("antrea-tc-tap0", 0x22),  # web's packets, redirected
    ("antrea-tc-tap1", 0x23),  # where they come back
    ("antrea-tc-tap2", 0x27),  # copies of db's packets
    ("antrea-l7-tap0", 0x28),  # to the application-aware engine
    ("antrea-l7-tap1", 0x29),  # where they come back
)
PORTS = {TUNNEL: 1, GATEWAY: 2, **{pod.port: pod.number for pod in PODS}, **dict(TAPS)}

GATEWAY_IP = "10.10.0.1"
NODE, PEER_NODE, OUTSIDE = "192.168.77.102", "192.168.77.103", "192.168.77.1"
INTERNET = "203.0.113.1"
REMOTE, REMOTE_GATEWAY = "10.10.1.6", "10.10.1.1"
VIRTUAL_SERVICE, VIRTUAL_NODE_PORT = "169.254.0.253", "169.254.0.252"

# Services: addresses of the document. Its flows lead to these groups; it defines 9 to 11 only.
NO_ENDPOINT, CLUSTER_IP, AFFINITY = "10.101.255.29", "10.105.31.235", "10.96.76.15"
LOAD_BALANCER, LOCAL_POLICY, EXTERNAL = "192.168.77.150", "192.168.77.151", "192.168.77.200"
NODE_PORT = 30004
NOBODY = 9  # a port that nobody listens at
ENDPOINTS = {
    12: (WEB2.v4, REMOTE),  # NodePort
    14: (WEB2.v4,),  # LoadBalancer
    16: (WEB2.v4, NODE),  # external IP; one Endpoint uses the Node's own network
    17: (WEB2.v4, REMOTE),  # externalTrafficPolicy Local, seen from inside
    18: (WEB2.v4,),  # the same from outside: Endpoints of this Node only
}

_SIX = {
    "10.10.0": "fd00:10:10::",
    "10.10.1": "fd00:10:10:1::",
    "10.10.2": "fd00:10:10:2::",
    "10.96.0": "fd00:10:96::4:",
    "192.168.77": "fd00:192:168:77::",
    "192.168.78": "fd00:192:168:78::",
    "172.16.100": "fd00:172:16:100::",
    "172.16.200": "fd00:172:16:200::",
    "203.0.113": "fd00:203:0:113::",
    "10.101.255": "fd00:10:96::1:",
    "10.105.31": "fd00:10:96::2:",
    "10.96.76": "fd00:10:96::3:",
}
_SIX_WHOLE = {
    "10.10.0.0/24": "fd00:10:10::/64",
    "10.10.1.0/24": "fd00:10:10:1::/64",
    "10.10.2.0/24": "fd00:10:10:2::/64",
    "192.168.77.0/24": "fd00:192:168:77::/64",
    "192.168.78.0/24": "fd00:192:168:78::/64",
    "10.96.0.0/12": "fd00:10:96::/64",
    "169.254.0.253": "fc01::aabb:ccdd:eeff",
    "169.254.0.252": "fc01::aabb:ccdd:eefe",
}


def six(v4):
    """The IPv6 twin of an address or prefix: the last number stays, as digits."""
    if v4 in _SIX_WHOLE:
        return _SIX_WHOLE[v4]
    head, _, last = v4.rpartition(".")
    return _SIX[head] + last
