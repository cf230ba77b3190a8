"""What must be true of the frames between two Nodes, and how some of them look."""

from ..machine import Failure
from . import world
from .capture import SUMS
from .world import six

WIRE_TAKES = 1514  # bytes, without the checksum of Ethernet
GOOD = "1"  # of a checksum, as tshark has it


def judged(frames):
    """(title, what was found: a text, or a Failure)."""
    for title, found in (
        ("no frame is malformed, every checksum is right", nothing_wrong),
        ("packets of Pods are in Geneve only, between the Nodes", all_in_geneve),
        ("no frame is larger than a wire takes", none_too_large),
    ):
        try:
            yield title, found(frames)
        except Failure as error:
            yield title, error


def nothing_wrong(frames):
    """Something was checked, and nothing was wrong."""
    if wrong := frames.wrong():
        raise Failure(f"{len(wrong)} frames, the first: {wrong[0].strip()}")
    right = {name: sum(row[f"{name}.checksum.status"].count(GOOD) for row in frames.rows) for name in SUMS}
    for name in ("ip", "tcp", "udp"):
        if not right[name]:
            raise Failure(f"not one checksum of {name} was there to check")
    return f"{len(frames.rows):,} frames; checksums: " + ", ".join(f"{count:,} {name}" for name, count in right.items() if count)


def all_in_geneve(frames):
    """Whatever has an address of a Pod is in a tunnel from Node to Node, with VNI 0; there are such
    of both versions of IP, both ways."""
    counts = {}
    for row in frames.rows:
        ends, inside = _ends(row)
        if not row["geneve.vni"] and not any(_of_pods(address) for address in ends + inside):
            continue  # ARP requests and the like, between the Nodes
        if [int(vni, 0) for vni in row["geneve.vni"]] != [0] or any(map(_of_pods, ends)):
            raise Failure(f"frame {row['frame.number'][0]}: {_told(row)}")
        counts[ends] = counts.get(ends, 0) + 1
    told = []
    for one, other in ((world.NODE, world.PEER_NODE), (six(world.NODE), six(world.PEER_NODE))):
        both = [counts.get(ends, 0) for ends in ((one, other), (other, one))]
        if not all(both):
            raise Failure(f"between {one} and {other}: {both[0]} frames, {both[1]} back")
        told.append(f"{both[0]:,} and back {both[1]:,}")
    return f"IPv4: {told[0]}; IPv6: {told[1]}"


def none_too_large(frames):
    """Neither the switches nor the kernel leave segmentation to the wire."""
    sizes = [int(row["frame.len"][0]) for row in frames.rows]
    if max(sizes) > WIRE_TAKES:
        raise Failure(f"{sum(size > WIRE_TAKES for size in sizes)} frames, the largest of {max(sizes):,} bytes")
    return f"the largest has {max(sizes):,} bytes"


def shown(frames):
    """Some frames, decoded: an echo request, a SYN for a Service and its answer, over IPv4 and
    IPv6."""
    for remote in (world.REMOTE, six(world.REMOTE)):
        for what, has in (
            ("echo request", lambda row, inside: "(ping) request" in row["_ws.col.Info"][0] and (":" in inside[1]) == (":" in remote)),
            ("SYN", lambda row, inside: "[SYN]" in row["_ws.col.Info"][0] and inside[1] == remote and row["tcp.dstport"] == ["80"]),
            ("SYN, ACK", lambda row, inside: "[SYN, ACK]" in row["_ws.col.Info"][0] and inside[0] == remote),
        ):
            row = next((row for row in frames.rows if row["geneve.vni"] and has(row, _ends(row)[1])), None)
            if row is None:
                raise Failure(f"not one {what} of {remote} was on the wire")
            yield _told(row)


def _ends(row):
    """Addresses (source, target) of the outermost IP header, and of the one inside; () where there
    is none."""
    pairs = list(zip(row["ip.src"], row["ip.dst"])) + list(zip(row["ipv6.src"], row["ipv6.dst"]))
    return (*pairs, (), ())[:2]


def _of_pods(address):
    return address.startswith(("10.10.", "fd00:10:10:"))


def _told(row):
    """A frame in two lines: the outer headers, and what is inside."""
    ends, inside = _ends(row)
    outer = f"{' -> '.join(ends)}" + (f", UDP {row['udp.srcport'][0]} -> {row['udp.dstport'][0]}" if row["udp.srcport"] else "")
    vni = f", Geneve VNI {int(row['geneve.vni'][0], 0)}" if row["geneve.vni"] else ""
    return (f"frame {row['frame.number'][0]}: {outer}{vni}\n"
            f"    inside: {row['eth.src'][-1]} -> {row['eth.dst'][-1]}, {' -> '.join(inside)}, {row['_ws.col.Info'][0]}")
