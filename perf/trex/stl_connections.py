"""New connections: one packet each (a SYN, or a datagram), its tuple never seen before until
--flows have been. From port 0. Tunables: --kind, --ip, --flows, --protocol."""

import vsw_frames as frames
import vsw_streams as streams
import vsw_world as world
from trex.stl.api import STLTXCont


class Connections:
    """The rate is the multiplier's: `-m 2mpps` asks for two million connections per second."""

    def get_streams(self, direction=0, port_id=0, tunables=(), **kwargs):
        """The stream of port 0."""
        parser = streams.parser(__doc__)
        parser.set_defaults(kind="remote")
        parser.add_argument("--flows", type=int, default=15_000_000, help="different connections")
        parser.add_argument("--protocol", choices=("tcp", "udp"), default="tcp", help="SYN, or datagram")
        args = parser.parse_args(tunables)
        if direction == 1:
            raise ValueError("only the client opens connections: start it with -p 0")
        kind = world.kind(args.kind, args.ip)
        servers, ports = world.split(args.flows, kind.servers)
        ends = (kind.request, world.FIRST_PORT, world.SERVICE_PORT)
        if args.protocol == "tcp":
            protocol, frame = frames.TCP, frames.tcp(*ends, frames.SYN, 1000, 0)
        else:
            protocol, frame = frames.UDP, frames.udp(*ends, size=64)
        program = streams.every_flow(args.ip, False, world.FIRST_REMOTE[args.ip], servers, ports, protocol)
        return [streams.stream(frame, program, STLTXCont(pps=1))]


def register():
    """What TRex calls."""
    return Connections()
