"""UDP flows: one way (they stay new for the tracker), or both ways. Tunables: --kind, --ip,
--flows, --size, --ways, --phase, --rate, --latency."""

import vsw_frames as frames
import vsw_streams as streams
import vsw_world as world
from trex.stl.api import STLTXCont, STLTXSingleBurst


class Udp:
    """Port 0 (and every even one) is the client, port 1 the servers."""

    def get_streams(self, direction=0, port_id=0, tunables=(), **kwargs):
        """The streams of one port."""
        parser = streams.parser(__doc__)
        parser.add_argument("--flows", type=int, default=1000, help="flows")
        parser.add_argument("--size", type=streams.sizes, default="64", help="bytes on the wire with FCS, or imix")
        parser.add_argument("--ways", choices=("one", "both"), default="both", help="one: only the client sends")
        parser.add_argument("--phase", choices=("first", "data"), default="data", help="first: one packet of each flow, once")
        parser.add_argument("--rate", type=int, default=100_000, help="packets per second of the first phase")
        parser.add_argument("--latency", type=int, default=0, help="packets per second of a stamped flow beside the data")
        args = parser.parse_args(tunables)
        if args.ways == "one" and direction == 1:
            raise ValueError("--ways one is for port 0 alone: start it with -p 0")
        kind = world.kind(args.kind, args.ip)
        servers, ports = world.split(args.flows, kind.servers)
        flows = (args.ip, direction == 1, world.FIRST_REMOTE[args.ip], servers, ports, frames.UDP)
        if args.phase == "first":
            mode = STLTXSingleBurst(total_pkts=args.flows, pps=args.rate)
            return [streams.stream(self._frame(kind, direction, 64), streams.every_flow(*flows), mode, core=0)]
        made = [streams.stream(self._frame(kind, direction, size), streams.any_flow(*flows), STLTXCont(pps=part)) for size, part in args.size]
        if args.latency:
            made.append(streams.latency(kind, args.ip, direction == 1, args.latency, port_id))
        return made

    @staticmethod
    def _frame(kind, direction, size):
        if direction:
            return frames.udp(kind.reply, world.SERVICE_PORT, world.FIRST_PORT, size)
        return frames.udp(kind.request, world.FIRST_PORT, world.SERVICE_PORT, size)


def register():
    """What TRex calls."""
    return Udp()
