"""Writes the captures that the cases play."""

import struct


def write_mac_pairs(path, packets, pairs):
    """`packets` UDP packets of 60 bytes (64 with their FCS), in turn between `pairs` pairs of addresses. Returns the
    addresses of the senders and of the receivers."""
    sources = [f"02:00:00:00:00:{i:02x}" for i in range(pairs)]
    destinations = [f"02:00:00:00:01:{i:02x}" for i in range(pairs)]
    with open(path, "wb") as file:
        file.write(header())
        for number in range(packets):
            pair = number % pairs
            packet = udp_packet(destinations[pair], sources[pair], 1024 + number)
            file.write(struct.pack("<IIII", 0, number, len(packet), len(packet)) + packet)
    return sources, destinations


def header():
    """The header of a capture of Ethernet frames."""
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


def udp_packet(destination, source, port):
    """A UDP packet of 60 bytes with correct checksums (UDP's is 0: none)."""
    ethernet = bytes.fromhex((destination + source).replace(":", "")) + b"\x08\x00"
    udp = struct.pack("!HHHH", port, 9, 26, 0) + bytes(18)
    return ethernet + _ipv4(17, bytes((198, 18, 0, 1)), bytes((198, 18, 0, 2))) + udp


def tcp_packet(destination, source, source_ip, destination_ip, source_port, destination_port):
    """A TCP segment (ACK) of 60 bytes with 6 bytes of data; addresses are numbers. Its checksums are right."""
    ethernet = bytes.fromhex((destination + source).replace(":", "")) + b"\x08\x00"
    addresses = struct.pack("!II", source_ip, destination_ip)
    tcp = struct.pack("!HHIIBBHHH", source_port, destination_port, 1, 1, 0x50, 0x10, 65535, 0, 0) + bytes(6)
    checksum = _checksum(addresses + struct.pack("!HH", 6, len(tcp)) + tcp)
    return ethernet + _ipv4(6, addresses[:4], addresses[4:]) + tcp[:16] + struct.pack("!H", checksum) + tcp[18:]


def _ipv4(protocol, source, destination):
    """A header for a frame of 60 bytes."""
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 46, 0, 0, 64, protocol, 0, source, destination)
    return ip[:10] + struct.pack("!H", _checksum(ip)) + ip[12:]


def _checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
