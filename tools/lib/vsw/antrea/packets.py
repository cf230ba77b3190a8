"""Packets that no socket would send: segments and frames byte by byte, with right checksums."""

import socket
import struct

from .agent import TCP, checksum

SCTP = 132
SYN, SYN_ACK = 0x02, 0x12


def address_bytes(address):
    """An address as it is in a header."""
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def mac_bytes(mac):
    """A MAC address as it is in a header."""
    return bytes.fromhex(mac.replace(":", ""))


def segment(ends, ports, sequence, flags=SYN):
    """A segment of TCP without data; `ends`, `ports`: (source, target)."""
    source, target = map(address_bytes, ends)
    head = struct.pack("!HHIIBBHHH", *ports, sequence, 0, 0x50, flags, 65535, 0, 0)
    pseudo = source + target + struct.pack("!HH" if len(source) == 4 else "!II", *((TCP, len(head)) if len(source) == 4 else (len(head), TCP)))
    return head[:16] + struct.pack("!H", checksum(pseudo + head)) + head[18:]


def frame(macs, ends, protocol, payload):
    """A frame with one IP packet; `macs`, `ends`: (source, target)."""
    source, target = map(address_bytes, ends)
    ethernet = mac_bytes(macs[1]) + mac_bytes(macs[0])
    if len(source) == 16:
        return ethernet + b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + source + target + payload
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0) + source + target
    return ethernet + b"\x08\x00" + head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def parsed(data, of_ethernet=True):
    """(source, target, protocol, payload) of a frame, or of an IPv4 packet, as a raw socket has it;
    None: it is no IP."""
    start = 14 if of_ethernet else 0
    kind = data[12:14] if of_ethernet else b"\x08\x00"
    if kind == b"\x08\x00" and len(data) >= start + 20:
        whole = data[start : start + struct.unpack("!H", data[start + 2 : start + 4])[0]]
        return socket.inet_ntop(socket.AF_INET, whole[12:16]), socket.inet_ntop(socket.AF_INET, whole[16:20]), whole[9], whole[(whole[0] & 15) * 4 :]
    if kind == b"\x86\xdd" and len(data) >= start + 40:
        end = start + 40 + struct.unpack("!H", data[start + 4 : start + 6])[0]
        ends = [socket.inet_ntop(socket.AF_INET6, data[at : at + 16]) for at in (start + 8, start + 24)]
        return *ends, data[start + 6], data[start + 40 : end]
    return None
