"""Churn beside what stays: short TCP connections, long-lived ones and UDP, in one run. Of kind
remote alone: each needs a port of its own, and policies let web have one. Tunables: --ip,
--servers, --cps, --connections, --response."""

import vsw_astf as astf
import vsw_world as world

LONG_PORT, UDP_PORT = 8081, 8082


class Mix:
    """-m multiplies the rates; the long-lived connections stay so many."""

    def get_profile(self, tunables=(), **kwargs):
        """The profile."""
        parser = astf.parser(__doc__)
        parser.set_defaults(kind="remote", servers=10)
        parser.add_argument("--cps", type=float, default=1000, help="short connections and UDP flows, each, per second at -m 1")
        parser.add_argument("--connections", type=int, default=20_000, help="long-lived ones, open at a time")
        parser.add_argument("--response", type=int, default=128, help="bytes of a response")
        args = parser.parse_args(tunables)
        if args.kind != "remote":
            raise ValueError("the mix is of kind remote")
        if not 1 <= args.connections <= world.PORTS // 2:
            raise ValueError(f"--connections: 1 to {world.PORTS // 2}, short ones need ports of the one client address, too")
        ip_gen, response = astf.addresses(args), b"x" * args.response
        templates = [
            astf.short(ip_gen, response, args.cps, world.SERVICE_PORT),
            astf.long(ip_gen, args.connections, 1000, 10_000, response, args.cps, LONG_PORT),
            astf.datagrams(ip_gen, response, args.cps, UDP_PORT),
        ]
        return astf.profile(args, ip_gen, templates)


def register():
    """What TRex calls."""
    return Mix()
