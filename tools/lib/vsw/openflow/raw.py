"""Messages that are wrong, each in its own way: what Open vSwitch says to them."""

import struct

VERSIONS = {"OpenFlow13": 4, "OpenFlow15": 6}
FLOW_MOD, GROUP_MOD, METER_MOD, PACKET_OUT, MULTIPART, TABLE_MOD, PORT_MOD, BUNDLE_CONTROL, ROLE = 14, 15, 29, 13, 18, 17, 16, 33, 24
NICIRA = 0x2320
ETH_IPV4 = "80000a020800"


def message(version, kind, body):
    """A message with a header."""
    return struct.pack("!BBHI", VERSIONS[version], kind, 8 + len(body), 0x55) + body


def match(fields):
    """An OXM match."""
    body = bytes.fromhex(fields)
    return struct.pack("!HH", 1, 4 + len(body)) + body + bytes(-(4 + len(body)) % 8)


def flow(version, fields="", instructions=b"", table=0, command=0, out_group=0xFFFFFFFF, flags=0):
    """A flow mod."""
    fixed = struct.pack("!QQBBHHHIIIHH", 0, 0, table, command, 0, 0, 1, 0xFFFFFFFF, 0xFFFFFFFF, out_group, flags, 0)
    return message(version, FLOW_MOD, fixed + match(fields) + instructions)


def instruction(kind, body=b""):
    """An instruction."""
    return struct.pack("!HH", kind, 4 + len(body)) + body


def apply(*actions):
    """Apply-actions."""
    return instruction(4, bytes(4) + b"".join(actions))


def action(kind, body, length=None):
    """A standard action."""
    return struct.pack("!HH", kind, 4 + len(body) if length is None else length) + body


def nicira(subtype, body, vendor=NICIRA):
    """An action of Nicira."""
    return action(0xFFFF, struct.pack("!IH", vendor, subtype) + body)


def _matches(version):
    yield flow(version, "80001604c0a80001")  # ipv4_src without eth_type
    yield flow(version, "80000a020800" * 2)  # the same twice
    yield flow(version, "80007e0100")  # no such field
    yield flow(version, "0001f6040000")  # cut in the middle
    yield flow(version, ETH_IPV4 + "80001708c0a80001ffff0000")  # bits outside of the mask
    yield flow(version, "80000b04" + "0800ff00")  # a mask for a field that has none
    yield flow(version, "80000a0308004f")  # a wrong length
    yield flow(version, "80000a020800" + "80000604020000000001")  # length that does not fit
    yield flow(version, "80000e0101")  # vlan_pcp without a tag
    yield flow(version, ETH_IPV4 + "800010" + "0180")  # dscp too big
    yield flow(version, "00010a" + "0480000000")  # nxm of another class
    yield flow(version, "ffff5406" + "4f4e4600" + "0002")  # ONF's tcp_flags without tcp
    yield flow(version, "8000000400000000")  # in_port 0
    yield flow(version, "80000004" + "00020000")  # in_port out of range
    yield flow(version, "80000d08" + "10051000") + b""
    yield flow(version, "80000c02" + "2005")  # vlan_vid out of range
    yield flow(version, "8000580400000000" + ETH_IPV4)  # right: packets with an Ethernet header


def _instructions(version):
    output = action(0, struct.pack("!IH6x", 1, 0))
    yield flow(version, "", instruction(77, bytes(4)))
    yield flow(version, "", instruction(0xFFFF, struct.pack("!I", 0x1234)))
    yield flow(version, "", apply(output) + apply(output))
    yield flow(version, "", instruction(1, struct.pack("!B3x", 0)))  # goto the same table
    yield flow(version, "", instruction(1, struct.pack("!B3x", 255)))
    yield flow(version, "", instruction(4, bytes(5)))
    yield flow(version, "", instruction(6, struct.pack("!I", 0)))  # meter 0
    yield flow(version, "", instruction(6, struct.pack("!I", 99)))  # no such meter
    yield flow(version, "", apply(action(0x777, bytes(4))))
    yield flow(version, "", apply(action(0, struct.pack("!IH6x", 0xFFFFFFFF, 0))))
    yield flow(version, "", apply(action(0, struct.pack("!IH6x", 0xFFFFFF01, 0))))
    yield flow(version, "", apply(action(0, struct.pack("!IH6x", 0x10000, 0))))
    yield flow(version, "", apply(action(0, bytes(4))))  # an output that is too short
    yield flow(version, "", apply(action(22, struct.pack("!I", 12345))))  # no such group
    yield flow(version, "", apply(action(21, struct.pack("!I", 1))))  # a queue
    yield flow(version, "", apply(action(19, struct.pack("!HH", 0x8847, 0))))  # push_mpls
    yield flow(version, "", apply(action(17, struct.pack("!HH", 0x1234, 0))))  # push_vlan of no VLAN
    yield flow(version, "", apply(action(17, struct.pack("!HH", 0x8100, 7))))  # padding that is not 0
    yield flow(version, "", apply(action(23, struct.pack("!B3x", 7))))  # set_nw_ttl without IP
    yield flow(version, "", apply(action(25, bytes.fromhex("80001604c0a80001") + bytes(4))))  # set ipv4_src without IP
    yield flow(version, "", apply(action(25, bytes.fromhex("80000a020800") + bytes(6))))  # eth_type is not writable
    yield flow(version, "", apply(action(25, bytes.fromhex("8000ee020800") + bytes(6))))  # no such field
    yield flow(version, "", apply(nicira(0x7777, bytes(6))))
    yield flow(version, "", apply(nicira(14, bytes(6), 0x1234)))
    yield flow(version, "", apply(nicira(14, struct.pack("!HB3x", 0xFFF8, 255))))
    yield flow(version, "", apply(nicira(34, struct.pack("!BBI", 5, 2, 1))))  # clause 6 of 2
    yield flow(version, "", apply(nicira(29, struct.pack("!HIII", 0, 0, 0, 0))))  # sample of nothing
    yield flow(version, "", apply(nicira(35, struct.pack("!HIHB3xH", 2, 0, 0, 255, 0))))  # force without commit
    yield flow(version, "", apply(nicira(39, struct.pack("!HI", 1, 3))))  # truncated to 3 bytes
    yield flow(version, "", apply(nicira(10, struct.pack("!HHHHHIHHI", 0, 0, 0, 0, 0, 0, 31, 0, 0x00010004)[:22])))
    yield flow(version, "", apply(struct.pack("!HHI", 0, 4, 0)))
    yield flow(version, "", apply(struct.pack("!HHI", 0, 24, 0)))
    copy = bytes.fromhex("0010" + "0000" + "0004" + "0000" + "00010004" + "00010204" + "00000000")  # right in OpenFlow 1.3
    yield flow(version, "", apply(action(0xFFFF, struct.pack("!IHH", 0x4F4E4600, 3200, 0) + copy)))
    yield flow(version, "", instruction(3, bytes(4) + nicira(17, bytes(6))))  # exit in an action set


def _mods(version):
    yield flow(version, table=255)
    yield flow(version, table=254)
    yield flow(version, command=9)
    yield flow(version, flags=0x8000)
    yield flow(version, "", instruction(1, struct.pack("!B3x", 9)), flags=2)
    group = lambda command, kind, number, body=b"": message(version, GROUP_MOD, struct.pack("!HBxI", command, kind, number) + (
        struct.pack("!H2xI", len(body), 0xFFFFFFFF) if version == "OpenFlow15" else b"") + body)
    yield group(0, 9, 50)
    yield group(9, 0, 50)
    yield group(0, 0, 0xFFFFFFFD)
    yield group(0, 2, 51)
    yield group(0, 0, 1)
    yield group(1, 0, 777)
    yield group(0, 0, 52, struct.pack("!HHI", 8, 4, 0))
    meter = lambda command, flags, number, bands=b"": message(version, METER_MOD, struct.pack("!HHI", command, flags, number) + bands)
    drop = struct.pack("!HHII4x", 1, 16, 10, 0)
    yield meter(0, 1, 1, drop)
    yield meter(1, 1, 88, drop)
    yield meter(0, 3, 60, drop)
    yield meter(0, 1, 61, struct.pack("!HHII4x", 9, 16, 10, 0))
    yield meter(0, 1, 0, drop)
    yield meter(9, 1, 5, drop)
    yield meter(0, 1, 62, drop * 9)
    yield meter(0, 0x10, 63, drop)
    yield meter(0, 1, 64, struct.pack("!HHII4x", 1, 16, 0, 0))


def _others(version):
    yield message(version, 99, b"")
    yield message(version, 4, struct.pack("!II", 0x1234, 1))
    yield message(version, 4, struct.pack("!II", NICIRA, 999))
    yield message(version, 5, bytes(3))
    yield message(version, MULTIPART, struct.pack("!HH4x", 99, 0))
    yield message(version, MULTIPART, struct.pack("!HH4xII", 0xFFFF, 0, 0x1234, 1))
    yield message(version, MULTIPART, struct.pack("!HH4x", 1, 0))
    yield message(version, FLOW_MOD, bytes(10))
    yield message(version, ROLE, struct.pack("!I4xQ", 9, 0))
    yield message(version, PORT_MOD, bytes(5))
    yield message(version, 4, struct.pack("!IIIIB3x", NICIRA, 24, 0, 0, 0)[:20])
    yield message(version, 4, struct.pack("!IIHH4xHBBH2x", NICIRA, 24, 0, 0, 0x102, 1, 5, 0))  # length that is no multiple of 4
    yield message(version, 4, struct.pack("!IIHH4xHBBH2x", NICIRA, 24, 0, 0, 0x102, 1, 4, 64))  # no such field
    yield message(version, 4, struct.pack("!II6xH", NICIRA, 29, 5))
    yield message(version, 4, struct.pack("!II6xH", NICIRA, 29, 5)[:-2])
    if version == "OpenFlow15":
        yield message(version, BUNDLE_CONTROL, struct.pack("!IHH", 7, 4, 0))  # commit of no bundle
        yield message(version, BUNDLE_CONTROL, struct.pack("!IHH", 7, 9, 0))
        yield message(version, 34, struct.pack("!I2xH", 7, 1) + message(version, 2, b""))  # an echo in a bundle
        body = match("80000004fffffffd") + action(0, struct.pack("!IH6x", 0xFFFFFFF7, 0))
        yield message(version, PACKET_OUT, struct.pack("!IH2x", 0xFFFFFFFF, 24) + body)
    else:
        yield message(version, 4, struct.pack("!IIIHH", 0x4F4E4600, 2300, 7, 4, 0))
        yield message(version, PACKET_OUT, struct.pack("!IIH6x", 0xFFFFFFFF, 0xFFFFFFFD, 99))
        yield message(version, PACKET_OUT, struct.pack("!IIH6x", 7, 0xFFFFFFFD, 0))


def messages(version):
    """All of them."""
    for part in (_matches, _instructions, _mods, _others):
        yield from part(version)
