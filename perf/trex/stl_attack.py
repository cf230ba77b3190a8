"""What a hostile Pod sends beside others' traffic, from a port of its own (db's). Tunables:
--attack, --protocol, --spoof, --kind, --ip.

explosion: fields that rules look at, each as a rule has it or with one bit turned, at 1 Mb/s unless
-m says otherwise: packet by packet they ask for masks that no other needed, until a tuple space has
thousands.
storm: every packet new in all fields that it may choose, as fast as -m says: each misses whatever
was kept of the ones before.
"""

import vsw_frames as frames
import vsw_streams as streams
import vsw_world as world
from trex.stl.api import STLTXCont, STLVmFlowVar, STLVmWrFlowVar

EXPLOSION_BPS = 1_000_000  # on the wire
SOURCE_PORT = 12345
MAC_TAIL = 8  # offset of the last four bytes of the source MAC


class Attack:
    """Any port of TRex may be the attacker."""

    def get_streams(self, direction=0, port_id=0, tunables=(), **kwargs):
        """The stream of the port that it is started on."""
        parser = streams.parser(__doc__)
        parser.add_argument("--attack", choices=("explosion", "storm"), default="explosion", help="see above")
        parser.add_argument("--protocol", choices=("tcp", "udp"), default="tcp", help="of its packets")
        parser.add_argument("--spoof", action="store_true", help="vary the source's addresses too: for pipelines without SpoofGuard")
        args = parser.parse_args(tunables)
        target = world.kind(args.kind, args.ip).request
        ends = target._replace(src_mac=world.DB_MAC, src=world.DB[args.ip])
        if args.protocol == "tcp":
            protocol, frame = frames.TCP, frames.tcp(ends, SOURCE_PORT, world.SERVICE_PORT, frames.SYN, 1000, 0)
        else:
            protocol, frame = frames.UDP, frames.udp(ends, SOURCE_PORT, world.SERVICE_PORT, size=64)
        program = self._program(args, ends) + streams.fix(args.ip, protocol)
        mode = STLTXCont(bps_L1=EXPLOSION_BPS) if args.attack == "explosion" else STLTXCont(pps=1)
        return [streams.stream(frame, program, mode)]

    @staticmethod
    def _program(args, ends):
        """Variables and writes for each field: its name, the value that rules have, its size in
        bytes, its offset."""
        l4 = frames.l4_offset(args.ip)
        fields = [
            ("dst", world.low_word(ends.dst), 4, frames.address_offset(args.ip, "dst")),
            ("sport", SOURCE_PORT, 2, l4),
            ("dport", world.SERVICE_PORT, 2, l4 + 2),
        ]
        if args.spoof:
            fields.append(("src", world.low_word(ends.src), 4, frames.address_offset(args.ip, "src")))
            fields.append(("mac", int(ends.src_mac.replace(":", ""), 16) & 0xFFFFFFFF, 4, MAC_TAIL))
        variables, writes = [], []
        for name, value, size, offset in fields:
            if args.attack == "explosion":
                turned = [value] + [value ^ 1 << bit for bit in range(8 * size)]
                variables.append(STLVmFlowVar(name=name, value_list=turned, size=size, op="random"))
            else:
                variables.append(STLVmFlowVar(name=name, min_value=0, max_value=(1 << 8 * size) - 1, size=size, op="random"))
            writes.append(STLVmWrFlowVar(fv_name=name, pkt_offset=offset))
        return variables + writes


def register():
    """What TRex calls."""
    return Attack()
