"""The scenarios of OVN-Kubernetes' two documents as packets, for each family and protocol. What the
host's kernel does between them (its NAT rules, its masquerade) is put in by hand. Numbers are those
of the scenario table in docs."""

import ipaddress
import socket
import struct
from dataclasses import dataclass

from ..antrea.agent import checksum
from .addresses import (
    CLIENT_MAC, CLUSTER_HOST_ELSEWHERE, CLUSTER_POD, FAMILIES, HOST_ELSEWHERE, HOST_HERE, LOCAL_POD, MANAGEMENT_MAC, NOBODY,
    NODE_MAC, OTHER_MAC, POD, POD1_MAC, POD2, POD2_MAC, PROTOCOLS, SWITCH_MAC,
)
from .topology import DENIED_PORT

# Ports of the case: of br0, and of br1, the bridge behind it (its number plus 100).
WIRE, HOST, MANAGEMENT, POD_1, POD_2 = "1", "LOCAL", "101", "102", "103"
# What a packet of a connection is.
FIRST, ANSWER, NEXT, BACK = "flags=S", "flags=SA seq=900 ack=101", "flags=A seq=101 ack=901", "flags=A seq=901 ack=101"


@dataclass
class Maker:
    """Writes the steps of one family and protocol."""

    family: object
    protocol: str

    def packet(self, port, macs, ends, kind):
        """A step: `macs` and `ends` are source and destination."""
        suffix = "6" if self.family.version == 6 else ""
        (source, sport), (target, dport) = ends
        flags = f" len=0 {kind}" if self.protocol == "tcp" else ""
        return f"packet {port} {self.protocol}{suffix} smac={macs[0]} dmac={macs[1]} src={source} dst={target} sport={sport} dport={dport}{flags}"

    def host(self, ends, kind, to=None):
        """The host sends, by default to the next hop of Services."""
        return self.packet(HOST, (NODE_MAC, to or self.family.next_hop_mac), ends, kind)

    def wire(self, ends, kind, by=CLIENT_MAC):
        """Somebody on the wire sends to the Node."""
        return self.packet(WIRE, (by, NODE_MAC), ends, kind)

    def pod(self, ends, kind, to=SWITCH_MAC):
        """The first Pod sends."""
        return self.packet(POD_1, (POD1_MAC, to), ends, kind)


def announcements():
    """What the client and the other Node say first: OVN learns their addresses by it. As bytes."""
    for family in FAMILIES:
        for mac, address in ((CLIENT_MAC, family.client), (OTHER_MAC, family.other)):
            yield (_request if family.version == 4 else _advertisement)(mac, address, family.node)


def learn():
    """The same as steps, and the host's own: the bridge learns by which port each one is."""
    for packet in announcements():
        yield f"packet {WIRE} hex={packet.hex()}"
    yield f"packet {HOST} hex={_request(NODE_MAC, FAMILIES[0].node, FAMILIES[0].client).hex()}"


def scenarios(mode):
    """Name and steps of each."""
    for family in FAMILIES:
        for protocol in PROTOCOLS:
            make = Maker(family, protocol)
            for number, name, steps in [*_from_host(make, mode), *_from_wire(make, mode), *_from_pods(make, mode)]:
                yield f"{number} {name}, IPv{family.version}, {protocol.upper()}", steps


def _from_host(make, mode):
    family = make.family
    node, join, pod = family.node, family.join, family.pod1
    asked, answered = ((node, 47108), (family.service(POD), 80)), ((pod, 80), (join, 47108))
    yield 1, "host to a Service with a Pod", [make.host(asked, FIRST), make.pod(answered, ANSWER), make.host(asked, NEXT), make.pod(answered, BACK)]
    asked = ((node, 55978), (family.service(HOST_ELSEWHERE), 80))
    if mode == "sgw":
        yield 2, "host to a Service with a host elsewhere", [make.host(asked, FIRST), make.wire(((family.other, 8080), (node, 55978)), ANSWER, OTHER_MAC), make.host(asked, NEXT)]
    else:
        yield 12, "host to a Service with a host elsewhere", [make.host(asked, FIRST), *_masqueraded(make, 55978, 31991), make.host(asked, NEXT)]
    asked, answered = ((node, 33316), (family.service(HOST_HERE), 80)), ((node, 80), (family.role(1), 33316))
    yield 3, "host to a Service with this host", [make.host(asked, FIRST), _to_pods_side(make, answered, ANSWER), make.host(asked, NEXT), _to_pods_side(make, answered, BACK)]
    yield 15, "host by the management port to a Service with a Pod", [
        make.packet(MANAGEMENT, (MANAGEMENT_MAC, SWITCH_MAC), ((family.management, 42000), (family.service(POD), 80)), FIRST),
        make.pod(((pod, 80), (family.management, 42000)), ANSWER, to=MANAGEMENT_MAC),
    ]
    yield 10, "host to the node port of a Pod, as to a Service", [make.host(((node, 42001), (family.service(POD), 80)), FIRST)]
    yield 22, "host to an address of no Service", [make.host(((node, 50002), (family.service(99), 80)), FIRST)]
    yield 27, "host to the outside", [make.host(((node, 50001), (family.outside, 443)), FIRST, to=CLIENT_MAC), make.wire(((family.outside, 443), (node, 50001)), ANSWER)]


def _masqueraded(make, port, chosen, kind=ANSWER):
    """The way of a host elsewhere by this host, which masquerades with the port `chosen`."""
    family = make.family
    return [
        make.host(((family.node, chosen), (family.other, 8080)), FIRST, to=OTHER_MAC),
        make.wire(((family.other, 8080), (family.node, chosen)), kind, OTHER_MAC),
        _to_pods_side(make, ((family.other, 8080), (family.role(1), port)), kind),
    ]


def _to_pods_side(make, ends, kind):
    """The host sends to the masquerade address of the Pods' side."""
    return make.host(ends, kind, to=make.family.masquerade_mac)


def _from_wire(make, mode):
    family = make.family
    node, client, join, pod = family.node, family.client, family.join, family.pod1
    asked, answer = ((client, 36366), (node, LOCAL_POD)), ((node, LOCAL_POD), (client, 36366))
    by_pod = ((pod, 80), (client, 36366))
    if mode == "sgw":
        yield 5, "wire to a node port, policy Local", [make.wire(asked, FIRST), make.pod(by_pod, ANSWER), make.wire(asked, NEXT), make.pod(by_pod, BACK)]
        asked = ((client, 36367), (node, CLUSTER_POD))
        yield "5c", "wire to a node port, policy Cluster", [make.wire(asked, FIRST), make.pod(((pod, 80), (join, 36367)), ANSWER), make.wire(asked, NEXT)]
        asked = ((client, 36368), (node, CLUSTER_HOST_ELSEWHERE))
        yield 21, "wire to a node port with a host elsewhere", [make.wire(asked, FIRST), make.wire(((family.other, 8080), (node, 36368)), ANSWER, OTHER_MAC), make.wire(asked, NEXT)]
    else:
        yield 6, "wire to a node port, policy Local, by the management port", [
            make.wire(asked, FIRST),
            make.packet(MANAGEMENT, (MANAGEMENT_MAC, SWITCH_MAC), ((client, 36366), (family.role(3), LOCAL_POD)), FIRST),
            make.pod(by_pod, ANSWER), make.host(answer, ANSWER, to=CLIENT_MAC), make.host(answer, BACK, to=CLIENT_MAC), make.wire(asked, NEXT),
        ]
        to_service = ((client, 40123), (family.service(POD), 80))
        yield 13, "wire to a node port, policy Cluster", [
            make.wire(((client, 40123), (node, CLUSTER_POD)), FIRST), make.host(to_service, FIRST), make.pod(((pod, 80), (join, 40123)), ANSWER),
            make.host(((node, CLUSTER_POD), (client, 40123)), ANSWER, to=CLIENT_MAC),
        ]
        to_service = ((client, 36363), (family.service(HOST_ELSEWHERE), 80))
        yield 11, "wire to a node port with a host elsewhere", [
            make.wire(((client, 36363), (node, CLUSTER_HOST_ELSEWHERE)), FIRST), make.host(to_service, FIRST), *_masqueraded(make, 36363, 31992),
            make.host(((node, CLUSTER_HOST_ELSEWHERE), (client, 36363)), ANSWER, to=CLIENT_MAC),
        ]
    asked = ((client, 50000), (node, 22))
    yield 28, "wire to the host itself", [make.wire(asked, FIRST), make.host(asked[::-1], ANSWER, to=CLIENT_MAC), make.wire(asked, NEXT)]


def _from_pods(make, mode):
    family = make.family
    pod, pod2, node = family.pod1, family.pod2, family.node
    asked = ((pod, 41000), (family.service(POD2), 80))
    yield 14, "Pod to a Service with a Pod that a policy allows", [make.pod(asked, FIRST), make.packet(POD_2, (POD2_MAC, SWITCH_MAC), ((pod2, 80), (pod, 41000)), ANSWER), make.pod(asked, NEXT)]
    yield 14, "Pod to a port that a policy denies", [make.pod(((pod, 41100), (pod2, DENIED_PORT)), FIRST, to=POD2_MAC)]
    yield 14, "Pod to a Service with nobody", [make.pod(((pod, 41200), (family.service(NOBODY), 80)), FIRST)]
    asked = ((pod, 41002), (family.outside, 80))
    answered = [make.wire(((family.outside, 80), (node, 41002)), ANSWER)] if mode == "sgw" else []
    yield 27, "Pod to the outside", [make.pod(asked, FIRST), *answered]
    for port in (41003, 41004):  # the second one meets what the first one learned
        yield "H", "Pod to itself by a Service", [make.pod(((pod, port), (family.service(POD), 80)), FIRST), make.pod(((pod, 80), (family.role(5), port)), ANSWER)]
    yield 29, "Pod to the host", [make.pod(((pod, 41005), (node, 10250)), FIRST)]
    yield 30, "Pod with an address of another", [make.pod(((family.pod2, 41006), (family.outside, 80)), FIRST)]


def case(mode):
    """The text of the case, without what happens."""
    from . import bridge
    words = {"sgw": "shared gateway", "lgw": "local gateway"}[mode]
    yield f"# Real OVN behind OVN-Kubernetes' gateway bridge, {words} mode: its documents' scenarios."
    yield "# Made by tools/record-ovn. Ports: 1 the wire, 101 the management port, 102 and 103 Pods, LOCAL"
    yield "# the host. What the host's kernel does in between is put in by hand."
    if mode == "lgw":
        yield "# deviation: bare-nat-is-identity"
    yield f"behind {mode}"
    yield from (f"flow {line}" for line in bridge.flows(mode))
    yield ""
    yield from learn()
    for name, steps in scenarios(mode):
        yield from ["", f"# {name}", "conntrack flush-conntrack", *steps, "connections"]


def _bytes_of_mac(mac):
    return bytes(int(part, 16) for part in mac.split(":"))


def _request(mac, source, target):
    """An ARP request."""
    head = b"\xff" * 6 + _bytes_of_mac(mac) + b"\x08\x06" + struct.pack("!HHBBH", 1, 0x800, 6, 4, 1)
    return head + _bytes_of_mac(mac) + socket.inet_aton(source) + bytes(6) + socket.inet_aton(target) + bytes(18)


def _advertisement(mac, source, target):
    """A neighbour advertisement with its source's link-layer address (RFC 4861, 4.4). OVN does not
    learn from solicitations here."""
    source, target = (ipaddress.IPv6Address(address).packed for address in (source, target))
    solicited_override = 0x60000000
    message = lambda sum_: struct.pack("!BBHI", 136, 0, sum_, solicited_override) + source + b"\x02\x01" + _bytes_of_mac(mac)
    pseudo = source + target + struct.pack("!IHBB", len(message(0)), 0, 0, 58) + message(0)
    ip = struct.pack("!IHBB", 6 << 28, len(message(0)), 58, 255) + source + target
    return _bytes_of_mac(NODE_MAC) + _bytes_of_mac(mac) + b"\x86\xdd" + ip + message(checksum(pseudo))
