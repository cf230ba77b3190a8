"""Which flows of the gateway bridges took packets: their counters before and after."""

import concurrent.futures
import re
import time

from ..machine import PATIENCE_S, Failure
from .world import HOSTS, UNDERLAY

# Flows that take packets at any time: neighbours are asked, and the rest is as in a switch that
# learns.
ANYTIME = {"0:1", "0:10", "0:60", "0:120", "0:121", "0:610", "0:620"}
SIX, FOUR = re.compile(r"\b(?:ipv6|tcp6|udp6|icmp6)\b"), re.compile(r"\b(?:ip|tcp|udp|icmp)\b")


class Moved:
    """Counters of the gateway bridges of `switches`, which are by Node."""

    def __init__(self, switches, stack):
        self.switches = switches
        self.pool = concurrent.futures.ThreadPoolExecutor(len(switches))
        stack.callback(self.pool.shutdown)

    def read(self):
        """Packets of each flow, by Node."""
        return dict(zip(HOSTS, self.pool.map(self._read, HOSTS)))

    def _read(self, host):
        flows = self.switches[host].json("dump-flows", UNDERLAY)
        return {(flow["table"], flow["priority"], flow["match"]): flow["packets"] for flow in flows}

    def since(self, before, families):
        """{version of IP: {Node: flows that have counted}}, once no more of them count."""
        last = None
        while (now := self.read()) != last:
            last = now
        return {family: {host: _risen(before[host], now[host], family) for host in HOSTS} for family in families}

    def wait(self, before, wanted):
        """Waits until these flows have counted, as `since` tells them; Failure when others have, or
        one of them has not. Counters may come a moment late."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.since(before, wanted)) != wanted:
            strange, missing = _beyond(found, wanted), _beyond(wanted, found)
            if strange or time.monotonic() > deadline:
                raise Failure("; ".join([*(f"packets at {one}" for one in strange), *(f"none at {one}" for one in missing)]))
            time.sleep(0.1)


def _beyond(one, other):
    """Flows that are in the one and not in the other, as text."""
    pairs = [(family, host) for family in one for host in one[family] if one[family][host] - other[family][host]]
    return [f"{host.name}, IPv{family}: {told(one[family][host] - other[family][host])}" for family, host in pairs]


def _risen(before, now, family):
    other = FOUR if family == 6 else SIX
    risen = [flow for flow, packets in now.items() if packets > before.get(flow, 0) and not other.search(flow[2])]
    return {f"{table}:{priority}" for table, priority, _ in risen} - ANYTIME


def told(flows, some=()):
    """Flows as text, in order of tables, the first one of a table first; those in `some` in
    parentheses."""
    order = sorted(flows, key=lambda one: (int(one.split(":")[0]), -int(one.split(":")[1])))
    return " ".join(f"({one})" if one in some else one for one in order) or "-"
