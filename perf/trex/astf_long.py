"""Long-lived TCP connections: so many at a time, each with a request and a response now and then.
Tunables: --kind, --ip, --servers, --connections, --rounds, --pause, --response, --cps."""

import vsw_astf as astf
import vsw_world as world


class Long:
    """--cps (times -m) is how fast they are opened at first; packets follow from connections and
    pause."""

    def get_profile(self, tunables=(), **kwargs):
        """The profile."""
        parser = astf.parser(__doc__)
        parser.add_argument("--connections", type=int, default=30_000, help="that are open at a time")
        parser.add_argument("--rounds", type=int, default=1000, help="requests of a connection before it is closed and another opened")
        parser.add_argument("--pause", type=int, default=10_000, help="microseconds between its requests")
        parser.add_argument("--response", type=int, default=128, help="bytes of a response")
        parser.add_argument("--cps", type=float, default=5000, help="connections opened per second at -m 1")
        args = parser.parse_args(tunables)
        if not 1 <= args.connections <= world.PORTS:
            raise ValueError(f"--connections: 1 to {world.PORTS}, there is one client address")
        ip_gen = astf.addresses(args)
        response = b"x" * args.response
        template = astf.long(ip_gen, args.connections, args.rounds, args.pause, response, args.cps, world.SERVICE_PORT)
        return astf.profile(args, ip_gen, template)


def register():
    """What TRex calls."""
    return Long()
