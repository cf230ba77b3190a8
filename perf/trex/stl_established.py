"""Established TCP connections, data both ways. Four runs: the handshake's three packets, a burst
each, then the data for as long as you like. Tunables: --kind, --ip, --flows, --size, --phase,
--order, --rate, --latency."""

import vsw_frames as frames
import vsw_streams as streams
import vsw_world as world
from trex.stl.api import STLTXCont, STLTXSingleBurst

# Initial sequence numbers of client and server. Data is the first segment again and again: always
# within the window.
CLIENT_SEQ, SERVER_SEQ = 1000, 5000

# Phase: who sends it, its flags, sequence and acknowledgement numbers.
HANDSHAKE = {
    "syn": (0, frames.SYN, CLIENT_SEQ, 0),
    "synack": (1, frames.SYN | frames.ACK, SERVER_SEQ, CLIENT_SEQ + 1),
    "ack": (0, frames.ACK, CLIENT_SEQ + 1, SERVER_SEQ + 1),
}


class Established:
    """Port 0 (and every even one) is the client, port 1 the servers."""

    def get_streams(self, direction=0, port_id=0, tunables=(), **kwargs):
        """The streams of one port."""
        parser = streams.parser(__doc__)
        parser.add_argument("--flows", type=int, default=1000, help="connections")
        parser.add_argument("--size", type=streams.sizes, default="64", help="bytes on the wire with FCS, or imix")
        parser.add_argument("--phase", choices=(*HANDSHAKE, "data"), default="data", help="what to send")
        parser.add_argument("--order", choices=("random", "inc"), default="random", help="order of the connections in the data phase")
        parser.add_argument("--rate", type=int, default=100_000, help="packets per second of the handshake")
        parser.add_argument("--latency", type=int, default=0, help="packets per second of a stamped UDP flow beside the data")
        args = parser.parse_args(tunables)
        kind = world.kind(args.kind, args.ip)
        servers, ports = world.split(args.flows, kind.servers)
        flows = (args.ip, direction == 1, world.FIRST_REMOTE[args.ip], servers, ports, frames.TCP)
        if args.phase != "data":
            return [self._handshake(kind, direction, args, streams.every_flow(*flows))]
        program = streams.any_flow if args.order == "random" else streams.every_flow
        made = [self._data(kind, direction, size, part, program(*flows)) for size, part in args.size]
        if args.latency:
            made.append(streams.latency(kind, args.ip, direction == 1, args.latency, port_id))
        return made

    @staticmethod
    def _handshake(kind, direction, args, program):
        """One packet of the handshake for each connection, once. On one core: several would not
        share the flows out evenly."""
        sender, flags, seq, ack = HANDSHAKE[args.phase]
        if direction != sender:
            raise ValueError(f"{args.phase} is for port {sender} alone: start it with -p {sender}")
        frame = frames.tcp(*_side(kind, direction), flags, seq, ack)
        return streams.stream(frame, program, STLTXSingleBurst(total_pkts=args.flows, pps=args.rate), core=0)

    @staticmethod
    def _data(kind, direction, size, part, program):
        seq, ack = (SERVER_SEQ, CLIENT_SEQ) if direction else (CLIENT_SEQ, SERVER_SEQ)
        frame = frames.tcp(*_side(kind, direction), frames.PSH | frames.ACK, seq + 1, ack + 1, size)
        return streams.stream(frame, program, STLTXCont(pps=part))


def _side(kind, direction):
    """Addresses and ports of a frame of this direction, of the first flow."""
    if direction:
        return kind.reply, world.SERVICE_PORT, world.FIRST_PORT
    return kind.request, world.FIRST_PORT, world.SERVICE_PORT


def register():
    """What TRex calls."""
    return Established()
