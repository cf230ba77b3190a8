"""Who speaks to whom: names, addresses and MAC addresses of the pipeline's Node, as perf/bench and
tools/demo have them.

The files of this directory whose names begin with vsw_ are what the profiles share. They run on
TRex's machine and need nothing else of this repository, and no Python newer than 3.7.
"""

import ipaddress
from typing import NamedTuple, Tuple

CLIENT_MAC, WEB_MAC, DB_MAC = "5e:b5:e3:a6:90:b7", "fa:b7:53:74:21:a6", "36:48:21:a2:9d:b4"
GATEWAY_MAC, VIRTUAL_MAC = "ba:5e:d1:55:aa:c0", "aa:bb:cc:dd:ee:ff"

# An address of each IP version, by name.
CLIENT = {4: "10.10.0.26", 6: "fd00:10:10::26"}
WEB = {4: "10.10.0.24", 6: "fd00:10:10::24"}
DB = {4: "10.10.0.25", 6: "fd00:10:10::25"}
CLUSTER_IP = {4: "10.105.31.235", 6: "fd00:10:96::2:235"}
FIRST_REMOTE = {4: "10.10.1.2", 6: "fd00:10:10:1::2"}

# Of the client: its first, and how many one server's connections may use
FIRST_PORT, PORTS = 1024, 60_000
REMOTE_SERVERS = 253  # 10.10.1.2 to 10.10.1.254
SERVICE_PORT = 80


class Ends(NamedTuple):
    """What a frame of one direction carries at its two ends."""

    src_mac: str
    dst_mac: str
    src: str
    dst: str


class Kind(NamedTuple):
    """A way through the pipeline. Port 0 of TRex is the client, port 1 where the answers come
    from."""

    request: Ends  # of the first server
    reply: Ends
    servers: int  # at most; their addresses follow each other


def kind(name: str, ip: int) -> Kind:
    """`pod`: client to web. `svc`: client to a ClusterIP whose Endpoint is web. `remote`: client to
    Pods of the peer Node, whose answers come in by the tunnel's port. `ip` is 4 or 6. ValueError
    for another name."""
    client, web, remote = CLIENT[ip], WEB[ip], FIRST_REMOTE[ip]
    if name == "pod":
        return Kind(Ends(CLIENT_MAC, WEB_MAC, client, web), Ends(WEB_MAC, CLIENT_MAC, web, client), 1)
    if name == "svc":
        return Kind(Ends(CLIENT_MAC, GATEWAY_MAC, client, CLUSTER_IP[ip]), Ends(WEB_MAC, GATEWAY_MAC, web, client), 1)
    if name == "remote":
        request = Ends(CLIENT_MAC, GATEWAY_MAC, client, remote)
        return Kind(request, Ends(GATEWAY_MAC, VIRTUAL_MAC, remote, client), REMOTE_SERVERS)
    raise ValueError(f"kind {name}: there are pod, svc and remote")


KINDS = ("pod", "svc", "remote")


def split(flows: int, most_servers: int) -> Tuple[int, int]:
    """So many flows as servers times ports of the client, with as few servers as will do.
    ValueError when that does not come out even, or there are too many."""
    servers = max(1, -(-flows // PORTS))
    if flows < 1 or servers > most_servers:
        raise ValueError(f"{flows} flows: this kind has 1 to {most_servers * PORTS}")
    if flows % servers:
        raise ValueError(f"{flows} flows are not the same number for each of {servers} servers: take {flows - flows % servers}")
    return servers, flows // servers


def low_word(address: str) -> int:
    """The last four bytes of an address: what the field engine counts in."""
    return int(ipaddress.ip_address(address)) & 0xFFFFFFFF
