"""Frames as bytes, without Scapy, so that what a profile sends can be tested where there is no
TRex."""

import ipaddress
import struct

from vsw_world import Ends

FCS = 4
SMALLEST = 60  # bytes of an Ethernet frame without its FCS
TCP, UDP = 6, 17
FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
L3 = 14  # offset of the IP header


def l4_offset(ip: int) -> int:
    """Where the TCP or UDP header begins, in bytes."""
    return L3 + (20 if ip == 4 else 40)


def address_offset(ip: int, which: str) -> int:
    """Where the last four bytes of the address `src` or `dst` lie."""
    if ip == 4:
        return L3 + (12 if which == "src" else 16)
    return L3 + (20 if which == "src" else 36)


def tcp(ends: Ends, sport: int, dport: int, flags: int, seq: int, ack: int, size: int = 0) -> bytes:
    """A TCP segment. `size` is that of the frame on the wire, with FCS, if it is to carry data; a
    smaller one than the headers need gives a segment without data."""
    header = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, 0x50, flags, 65535, 0, 0)
    return _frame(ends, TCP, header, size, checksum_at=16)


def udp(ends: Ends, sport: int, dport: int, size: int = 0, checksum: bool = True) -> bytes:
    """A UDP datagram; `size` as for `tcp`. Without `checksum` the field is 0, which IPv4 alone
    allows."""
    length = max(0, size - FCS - l4_offset(_version(ends)) - 8)
    header = struct.pack("!HHHH", sport, dport, 8 + length, 0)
    return _frame(ends, UDP, header, size, checksum_at=6 if checksum else None)


def _version(ends):
    return ipaddress.ip_address(ends.src).version


def _frame(ends, protocol, header, size, checksum_at):
    ip = _version(ends)
    source, destination = (ipaddress.ip_address(address).packed for address in (ends.src, ends.dst))
    segment = header + b"x" * max(0, size - FCS - l4_offset(ip) - len(header))
    if checksum_at is not None:
        pseudo = source + destination + struct.pack("!IHH", len(segment), 0, protocol)
        # A UDP sum of 0 would say that there is none.
        value = checksum(pseudo + segment) or (0xFFFF if protocol == UDP else 0)
        segment = segment[:checksum_at] + struct.pack("!H", value) + segment[checksum_at + 2:]
    if ip == 4:
        l3 = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(segment), 1, 0x4000, 64, protocol, 0) + source + destination
        l3 = l3[:10] + struct.pack("!H", checksum(l3)) + l3[12:]
    else:
        l3 = struct.pack("!IHBB", 6 << 28, len(segment), protocol, 64) + source + destination
    macs = bytes.fromhex((ends.dst_mac + ends.src_mac).replace(":", ""))
    frame = macs + (b"\x08\x00" if ip == 4 else b"\x86\xdd") + l3 + segment
    return frame + bytes(max(0, SMALLEST - len(frame)))


def checksum(data: bytes) -> int:
    """The Internet checksum."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
