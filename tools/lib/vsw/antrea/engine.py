"""An application-aware engine between two TAPs that reads TCP: what belongs to no connection that
it knows both directions of does not pass."""

import contextlib
import select
import socket
import struct
import threading

from . import traffic
from .node import INSPECT

TARGET, RETURN, WIRE = "antrea-l7-tap0", "antrea-l7-tap1", "l7-wire"
# linux/if_packet.h: what is left of checksums and segments to be done stands in front of a frame
PACKET_VNET_HDR = 15
VNET = struct.Struct("=BBHHHH")
SYN, RST, ACK = 2, 4, 16
HALF = 1 << 31


def behind(one, other):
    """Whether a sequence number is behind another one."""
    return 0 < (one - other) % (1 << 32) < HALF


class Engine:
    """Takes the place of the bridge between the TAPs as long as it is entered."""

    def __init__(self, node):
        self.node, name = node, node.names[INSPECT]
        self.sockets = {}
        for interface in (TARGET, RETURN):
            made = traffic.make_socket(name, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            made.setsockopt(traffic.SOL_PACKET, traffic.PACKET_AUXDATA, 1)
            made.setsockopt(traffic.SOL_PACKET, PACKET_VNET_HDR, 1)
            with traffic.inside(name):
                made.bind((interface, 3))
            self.sockets[interface] = made
        self.ends, self.ending = socket.socketpair()
        self.known = {}  # (VLAN, client's end, server's end): the next byte of either
        self.strange, self.passed = [], [0, 0]
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        for interface in (TARGET, RETURN):
            self.node.ip(INSPECT, "link", "set", interface, "nomaster")
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ending.close()
        self.thread.join()
        for one in (*self.sockets.values(), self.ends):
            one.close()
        for interface in (TARGET, RETURN):
            self.node.ip(INSPECT, "link", "set", interface, "master", WIRE)
            self.node.ip(INSPECT, "link", "set", interface, "type", "bridge_slave", "learning", "off")

    def _run(self):
        target = self.sockets[TARGET]
        while self.ends not in select.select([target, self.ends], [], [])[0]:
            data, beside, _, source = target.recvmsg(1 << 17, socket.CMSG_SPACE(20), socket.MSG_DONTWAIT)
            if source[2] != socket.PACKET_OUTGOING:
                self._packet(data, beside)

    def _packet(self, data, beside):
        """Lets it pass, with its tag, or not."""
        header, frame = list(VNET.unpack_from(data)), data[VNET.size:]
        for level, kind, value in beside:
            if (level, kind) == (traffic.SOL_PACKET, traffic.PACKET_AUXDATA):
                status, _, _, _, _, tag, protocol = struct.unpack("=IIIHHHH", value)
                if status & traffic.HAS_VLAN:
                    frame = frame[:12] + struct.pack("!HH", protocol, tag) + frame[12:]
                    header[2] += 4 if header[1] else 0
                    header[4] += 4 if header[0] & 1 else 0
        if self._is_known(frame):
            with contextlib.suppress(OSError):  # the TAP is full: TCP sends again
                self.sockets[RETURN].send(VNET.pack(*header) + frame)

    def _is_known(self, frame):
        """Reads a frame: of a connection, as far as it goes."""
        kind, vlan = struct.unpack_from("!HH", frame, 12)
        if kind != 0x8100:
            self.strange.append(frame)
            return False
        six = frame[18] >> 4 == 6
        protocol, at, ends = (frame[24], 58, (frame[26:42], frame[42:58])) if six else (frame[27], 18 + (frame[18] & 15) * 4, (frame[30:34], frame[34:38]))
        if protocol != socket.IPPROTO_TCP:
            return True  # an ICMP error of one
        total = struct.unpack_from("!H", frame, 22)[0] + 40 if six else struct.unpack_from("!H", frame, 20)[0]
        source_port, destination_port, sequence, acknowledged, offset, flags = struct.unpack_from("!HHIIBB", frame, at)
        length = (total or len(frame) - 18) - (at - 18) - (offset >> 4) * 4 + bool(flags & SYN) + flags % 2
        source, destination = (ends[0], source_port), (ends[1], destination_port)
        end = (sequence + length) % (1 << 32)
        if flags & (SYN | ACK) == SYN:
            self.known[vlan & 0xFFF, source, destination] = [end, None]
            self.passed[0] += 1
            return True
        side = int((vlan & 0xFFF, destination, source) in self.known)
        there = self.known.get((vlan & 0xFFF, *((destination, source) if side else (source, destination))))
        answers = there and (there[1] is not None or side and flags & SYN)
        if not answers or flags & ACK and behind(acknowledged, there[1 - side]):
            self.strange.append(frame)
            return False
        if there[side] is None or behind(end, there[side]):
            there[side] = end
        self.passed[side] += 1
        return True
