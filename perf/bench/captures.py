"""Writes the captures that the cases play: frames with right checksums, one per connection, in a
fixed shuffled order."""

import random
import socket
import struct
from dataclasses import dataclass

from vsw.antrea import world

TCP, UDP, GRE = 6, 17, 47
CHECKSUM_AT = {TCP: 16, UDP: 6}  # in a header
SYN, ACK, PUSH = 0x02, 0x10, 0x08
FCS = 4  # sizes on the wire count it, captures do not have it
MINIMUM = 60  # of a frame, without FCS
PORTS = 60_000  # source ports that a client uses towards one server, from 1024
RECORD = 16  # bytes before a packet in a capture
FILE_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)  # microseconds, Ethernet

# What is played to establish connections, and what is measured. Numbers of both ends' first bytes:
# see `tcp_words`.
HANDSHAKE = {TCP: ("syn", "synack", "ack"), UDP: ("data", "rdata")}
FROM_SERVER = ("synack", "rdata")
CLIENT_START, SERVER_START = 1000, 5000

# 12 frames of simple IMIX: 7 of 64 bytes, 4 of 594, 1 of 1518.
IMIX = (64, 594, 64, 594, 64, 64, 1518, 64, 594, 64, 594, 64)


@dataclass(frozen=True)
class Traffic:
    """Connections of the document's client Pod: to the web Pod (`pod`), to a ClusterIP that leads
    there (`svc`), or to Pods of the peer Node (`remote`). Sizes, on the wire and in turn, are those
    of data; by default the smallest with 6 bytes in a segment."""

    kind: str
    six: bool = False
    protocol: int = TCP
    sizes: tuple = ()
    one_way: bool = False

    @property
    def name(self):
        """What its cases are called."""
        way = "" if self.protocol == TCP else "-udp-oneway" if self.one_way else "-udp"
        return f"{self.kind}{'6' if self.six else ''}{way}{'-imix' if self.sizes else ''}"

    @property
    def handshake(self):
        """The phases that establish connections, in order."""
        return HANDSHAKE[self.protocol][: 1 if self.one_way else None]

    @property
    def server_port(self):
        """The name of the port where servers answer."""
        return "tun" if self.kind == "remote" else "web"

    def port(self, phase):
        """The name of the port where a phase's packets enter."""
        return self.server_port if phase in FROM_SERVER else "client"

    def frame(self, phase, number):
        """The packet of a phase of connection `number`."""
        if self.kind != "remote" and number >= PORTS:
            raise ValueError(f"at most {PORTS} connections of a client to one server")
        client, server = self._addresses(phase, number)
        macs = self._macs(phase)
        port = 1024 + number % PORTS
        room = self._size(number) - FCS - 14 - (40 if self.six else 20) - (20 if self.protocol == TCP else 8)
        data = b"x" * room if phase in ("data", "rdata") else b""
        ends = (server, client, 80, port) if phase in FROM_SERVER else (client, server, port, 80)
        if self.protocol == TCP:
            return ip_frame(*macs, *ends[:2], TCP, tcp_header(*ends[2:], *tcp_words(phase)) + data)
        return ip_frame(*macs, *ends[:2], UDP, struct.pack("!HHHH", *ends[2:], 8 + len(data), 0) + data)

    def _size(self, number):
        return self.sizes[number % len(self.sizes)] if self.sizes else 84 if self.six else 64

    def _addresses(self, phase, number):
        """Of the client and of the server, as this packet has them."""
        server = {"pod": world.WEB.v4, "svc": world.CLUSTER_IP, "remote": f"10.10.1.{2 + number // PORTS}"}[self.kind]
        if self.kind == "svc" and phase in FROM_SERVER:
            server = world.WEB.v4
        return [world.six(address) if self.six else address for address in (world.CLIENT.v4, server)]

    def _macs(self, phase):
        """Destination and source."""
        if phase not in FROM_SERVER:
            return world.WEB.mac if self.kind == "pod" else world.GATEWAY_MAC, world.CLIENT.mac
        if self.kind == "remote":
            return world.VIRTUAL_MAC, world.GATEWAY_MAC
        return world.CLIENT.mac if self.kind == "pod" else world.GATEWAY_MAC, world.WEB.mac

    def write(self, path, phase, numbers):
        """A capture of one packet of each connection."""
        write(path, (self.frame(phase, number) for number in shuffled(numbers, 2 if phase in FROM_SERVER else 1)))


def tcp_words(phase):
    """Flags, sequence and acknowledged number; both ends have sent a SYN when there is data, which
    fits their windows for ever."""
    client, server = CLIENT_START + 1, SERVER_START + 1
    return {
        "syn": (SYN, CLIENT_START, 0),
        "synack": (SYN | ACK, SERVER_START, client),
        "ack": (ACK, client, server),
        "data": (ACK | PUSH, client, server),
        "rdata": (ACK | PUSH, server, client),
    }[phase]


def shuffled(numbers, seed):
    """The numbers in an order that is always the same."""
    order = list(numbers)
    random.Random(seed).shuffle(order)
    return order


def source(device, *captures):
    """What DPDK is to make a device of this name of, that plays these captures for ever, each by a
    receive queue of its own."""
    return ",".join([device, *(f"rx_pcap={path}" for path in captures), "infinite_rx=1"])


def write(path, packets):
    """A capture of Ethernet frames."""
    with open(path, "wb") as file:
        file.write(FILE_HEADER)
        for number, packet in enumerate(packets):
            file.write(struct.pack("<IIII", 0, number, len(packet), len(packet)) + packet)


def write_openings(path, count, six=False):
    """SYNs of `count` connections to Pods of the peer Node, no two alike; millions within a second:
    they are copies of one packet, and what differs in the sequence number makes up in the checksum
    for what differs in ports and addresses."""
    if count > 252 * PORTS:
        raise ValueError(f"a client has {252 * PORTS} connections to the peer's Pods at most")
    traffic, ports = Traffic("remote", six), shuffled(range(1024, 1024 + PORTS), 1)
    first = traffic.frame("syn", 0)
    source_port = 54 if six else 34  # offsets in a frame
    address, sequence, ip_sum = source_port - 2, source_port + 4, 24
    copied = (address, address + 1) if six else (ip_sum, ip_sum + 1, address, address + 1)

    def last_word(frame):
        return int.from_bytes(frame[address : address + 2], "big")

    block = bytearray((struct.pack("<IIII", 0, 0, len(first), len(first)) + first) * PORTS)

    def column(offset, values):
        block[RECORD + offset :: RECORD + len(first)] = bytes(values)

    column(source_port, (port >> 8 for port in ports))
    column(source_port + 1, (port & 255 for port in ports))
    low = [(1024 + CLIENT_START - port) % 0xFFFF for port in ports]
    column(sequence + 2, (word >> 8 for word in low))
    column(sequence + 3, (word & 255 for word in low))
    with open(path, "wb") as file:
        file.write(FILE_HEADER)
        for server in range((count + PORTS - 1) // PORTS):
            frame = traffic.frame("syn", server * PORTS)
            high = (last_word(first) - last_word(frame)) % 0xFFFF
            for offset, value in (*((offset, frame[offset]) for offset in copied), (sequence, high >> 8), (sequence + 1, high & 255)):
                column(offset, [value] * PORTS)
            file.write(memoryview(block)[: (RECORD + len(first)) * min(PORTS, count - server * PORTS)])


def write_mac_pairs(path, packets, pairs):
    """`packets` UDP packets of 60 bytes (64 with their FCS), in turn between `pairs` pairs of
    addresses. Returns the addresses of the senders and of the receivers."""
    sources = [f"02:00:00:00:00:{i:02x}" for i in range(pairs)]
    destinations = [f"02:00:00:00:01:{i:02x}" for i in range(pairs)]
    frames = (
        ip_frame(destinations[n % pairs], sources[n % pairs], "198.18.0.1", "198.18.0.2", UDP,
                 struct.pack("!HHHH", 1024 + n, 9, 26, 0) + bytes(18))
        for n in range(packets)
    )
    write(path, frames)
    return sources, destinations


def tcp_header(source_port, destination_port, flags, sequence, acknowledged):
    """Without options; its checksum is for `ip_frame` to fill in."""
    return struct.pack("!HHIIBBHHH", source_port, destination_port, sequence, acknowledged, 0x50, flags, 65535, 0, 0)


def ip_frame(destination_mac, source_mac, source, destination, protocol, segment):
    """An Ethernet frame, at least 60 bytes long, of an IPv4 or IPv6 packet; its checksums are
    right, those of IP, TCP and UDP."""
    six = ":" in source
    ends = b"".join(socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, address) for address in (source, destination))
    pseudo = ends + struct.pack("!IBBBB", len(segment), 0, 0, 0, protocol)
    if at := CHECKSUM_AT.get(protocol):
        segment = segment[:at] + struct.pack("!H", checksum(pseudo + segment) or 0xFFFF) + segment[at + 2 :]
    if six:
        header, ether_type = struct.pack("!IHBB", 6 << 28, len(segment), protocol, 64) + ends, b"\x86\xdd"
    else:
        header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(segment), 1, 0x4000, 64, protocol, 0) + ends
        header, ether_type = header[:10] + struct.pack("!H", checksum(header)) + header[12:], b"\x08\x00"
    frame = bytes.fromhex((destination_mac + source_mac).replace(":", "")) + ether_type + header + segment
    return frame.ljust(MINIMUM, b"\0")


def checksum(data):
    """The Internet checksum (RFC 1071)."""
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
