"""TCP connections per second: each is opened, carries a request and a response, and is closed.
Tunables: --kind, --ip, --servers, --cps, --response."""

import vsw_astf as astf
import vsw_world as world


class Connections:
    """-m multiplies the rate."""

    def get_profile(self, tunables=(), **kwargs):
        """The profile."""
        parser = astf.parser(__doc__)
        parser.add_argument("--cps", type=float, default=1000, help="connections per second at -m 1")
        parser.add_argument("--response", type=int, default=128, help="bytes of the response")
        args = parser.parse_args(tunables)
        ip_gen = astf.addresses(args)
        return astf.profile(args, ip_gen, astf.short(ip_gen, b"x" * args.response, args.cps, world.SERVICE_PORT))


def register():
    """What TRex calls."""
    return Connections()
