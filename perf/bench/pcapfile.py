"""Writes the captures that the cases play."""

import struct


def write_mac_pairs(path, packets, pairs):
    """`packets` UDP packets of 60 bytes (64 with their FCS), in turn between `pairs` pairs of addresses. Returns the
    addresses of the senders and of the receivers."""
    sources = [f"02:00:00:00:00:{i:02x}" for i in range(pairs)]
    destinations = [f"02:00:00:00:01:{i:02x}" for i in range(pairs)]
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number in range(packets):
            pair = number % pairs
            packet = udp_packet(destinations[pair], sources[pair], 1024 + number)
            file.write(struct.pack("<IIII", 0, number, len(packet), len(packet)) + packet)
    return sources, destinations


def udp_packet(destination, source, port):
    """A UDP packet of 60 bytes with correct checksums (UDP's is 0: none)."""
    ethernet = bytes.fromhex((destination + source).replace(":", "")) + b"\x08\x00"
    udp = struct.pack("!HHHH", port, 9, 26, 0) + bytes(18)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 46, 0, 0, 64, 17, 0, bytes((198, 18, 0, 1)), bytes((198, 18, 0, 2)))
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return ethernet + ip[:10] + struct.pack("!H", ~total & 0xFFFF) + ip[12:] + udp
