"""The addresses of the recorded Node, for IPv4 and for IPv6. Names are those of the roles in
OVN-Kubernetes' documents."""

from dataclasses import dataclass

NODE_MAC = "02:42:ac:12:00:03"  # of the gateway bridge and of the gateway router alike
OTHER_MAC = "02:42:ac:12:00:04"  # of the other Node
CLIENT_MAC = "02:42:df:4d:b6:d2"  # of the client, who is the default gateway, too
POD1_MAC, POD2_MAC = "0a:58:0a:f4:01:03", "0a:58:0a:f4:01:06"
SWITCH_MAC = "0a:58:0a:f4:01:01"  # of the cluster router towards Pods
MANAGEMENT_MAC = "0a:58:0a:f4:01:02"  # of the management port
CLUSTER_JOIN_MAC, GATEWAY_JOIN_MAC = "0a:58:64:40:00:01", "0a:58:64:40:00:04"


@dataclass(frozen=True)
class Family:
    """Addresses of one family. `masquerade` is the prefix in front of a role's number."""

    version: int
    node: str
    secondary: str
    other: str
    client: str
    outside: str
    host_subnet: str
    services: str
    clusters_pods: str
    pods: str
    router: str
    management: str
    pod1: str
    pod2: str
    join: str
    cluster_join: str
    node_length: int
    pods_length: int
    join_length: int
    masquerade: str
    masquerade_length: int
    next_hop_mac: str  # of masquerade .4
    masquerade_mac: str  # of masquerade .1
    service_prefix: str

    def role(self, number):
        """A masquerade address: 1 Pods' side, 2 the host, 3 local policy, 4 next hop, 5 hairpin."""
        return f"{self.masquerade}{number}"

    def service(self, number):
        """A cluster IP."""
        return f"{self.service_prefix}{number}" if self.version == 4 else f"{self.service_prefix}{number:x}"

    def endpoint(self, address, port):
        """Address and port as OVN and OpenFlow write them."""
        return f"{address}:{port}" if self.version == 4 else f"[{address}]:{port}"


V4 = Family(
    4, "172.18.0.3", "172.20.0.2", "172.18.0.4", "172.18.0.1", "8.8.8.8", "172.18.0.0/16", "10.96.0.0/16",
    "10.244.0.0/16", "10.244.1.0/24", "10.244.1.1", "10.244.1.2", "10.244.1.3", "10.244.1.6",
    "100.64.0.4", "100.64.0.1", 16, 24, 16, "169.254.169.", 29, "0a:58:a9:fe:a9:04", "0a:58:a9:fe:a9:01", "10.96.146.",
)
V6 = Family(
    6, "fc00::3", "fc20::2", "fc00::4", "fc00::1", "2001:db8::8", "fc00::/64", "fd00:10:96::/112",
    "fd00:10:244::/48", "fd00:10:244:1::/64", "fd00:10:244:1::1", "fd00:10:244:1::2", "fd00:10:244:1::3", "fd00:10:244:1::6",
    "fd98::4", "fd98::1", 64, 64, 64, "fd69::", 125, "0a:58:1b:ac:71:41", "0a:58:37:85:74:a5", "fd00:10:96::",
)
FAMILIES = (V4, V6)
PROTOCOLS = ("tcp", "udp")

# Last parts of cluster IPs, by what their Endpoints are.
POD, HOST_ELSEWHERE, HOST_HERE, NOBODY, POD2 = 87, 88, 89, 90, 92
# Node ports, by policy and Endpoint.
LOCAL_POD, CLUSTER_POD, CLUSTER_HOST_ELSEWHERE = 31746, 30015, 30950
NODE_PORTS = (LOCAL_POD, CLUSTER_POD, CLUSTER_HOST_ELSEWHERE)
