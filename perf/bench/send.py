#!/usr/bin/env python3
"""Sends the packets of a capture on an interface, for ever: send.py INTERFACE CAPTURE
PACKETS_PER_SECOND (0: as many as go)."""

import socket
import struct
import sys
import time

BURST = 32  # packets between looks at the clock


def packets_of(path):
    """The frames of a capture."""
    with open(path, "rb") as file:
        data, packets, at = file.read(), [], 24
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        packets.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return packets


def send(interface, packets, rate):
    """Until the process is ended. Packets for which the kernel has no room are lost: it is a
    source, not a service."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((interface, 0))
        start, sent = time.monotonic(), 0
        while True:
            for packet in packets[sent % len(packets) :][:BURST]:
                try:
                    raw.send(packet)
                except OSError:
                    pass
                sent += 1
            if rate:
                time.sleep(max(0.0, start + sent / rate - time.monotonic()))


if __name__ == "__main__":
    send(sys.argv[1], packets_of(sys.argv[2]), float(sys.argv[3]))
