"""The flows, groups and meter of Antrea's pipeline document, with numbers for names: the same text
for every device."""

import re
from dataclasses import dataclass, field

from vsw.antrea import pipeline, world

from .captures import UDP

# A Service's Endpoint is the local web Pod only, so that the way of replies is known. The document
# shows groups 9 to 11.
ENDPOINT_GROUPS = (10, 12, 14, 16, 17, 18)
ENDPOINT = "bucket=bucket_id:0,weight:100,actions=set_field:0xa0a0018->reg3,set_field:0x50/0xffff->reg4,resubmit(,EndpointDNAT)"
ZONE = 65520  # of connections over IPv4
METER = "meter=256,pktps,burst,bands=type=drop,rate=100,burst_size=200"

# Ports where traffic may come out, by the names that the cases use; `client` and the port of the
# servers are in `NUMBERS` too.
NUMBERS = {"tun": 1, "gw": 2, "tap0": 34, "client": 36, "web": 37, "db": 38, "tap2": 39, "l7tap0": 40, "l7tap1": 41}


@dataclass(frozen=True)
class Program:
    """Lines for flows, groups and meters."""

    flows: list
    groups: list = field(default_factory=list)
    meters: list = field(default_factory=list)


def program(traffic):
    """The document's 167 flows, and where the traffic needs them their twins for UDP and IPv6."""
    flows = _lines("antrea-flows.txt")
    groups = [line for line in _lines("antrea-groups.txt") if not line.startswith("group_id=10,")]
    groups += [f"group_id={number},type=select,{ENDPOINT}" for number in ENDPOINT_GROUPS]
    if traffic.protocol == UDP:
        flows += [twin for line in flows if (twin := pipeline.udp_twin(line))]
    if traffic.six:
        flows += [twin for line in flows if (twin := pipeline.twin(line))]
        groups += [pipeline.twin_group(line) for line in groups]
    return Program([numbered(line) for line in flows], [numbered(line) for line in groups], [METER])


def dumped(switch, bridge):
    """What a bridge of a running switch (`vsw.daemon.Switch`) has, without counters."""
    meters = re.findall(r"meter=(\d+) .*?bands=\s*type=drop rate=(\d+) burst_size=(\d+)", switch.vsctl("dump-meters", bridge))
    groups = [line.strip() for line in switch.vsctl("dump-groups", bridge).splitlines() if "group_id=" in line]
    flows = [line.strip() for line in switch.vsctl("dump-flows", "--no-names", "--no-stats", bridge).splitlines() if "actions=" in line]
    return Program(flows, groups, [f"meter={number},pktps,burst,bands=type=drop,rate={rate},burst_size={burst}" for number, rate, burst in meters])


def guards(count):
    """Flows that hold `count` Pods to their IPv6 addresses in neighbour discovery, the client
    first, as an agent writes them."""
    pods = [(NUMBERS["client"], world.CLIENT.mac, world.CLIENT.v6)]
    pods += [(1000 + i, f"5e:00:00:00:{i >> 8:02x}:{i & 255:02x}", f"fd00:10:244::{i:x}") for i in range(1, count)]
    guard = "table=SpoofGuard,priority=210,icmp6,in_port={},dl_src={},icmp_type=136,icmp_code=0,nd_target={} actions=NORMAL"
    link_local = "fe80::5e00:ff:fe00:{:x}"
    return [numbered(guard.format(port, mac, target)) for i, (port, mac, address) in enumerate(pods) for target in (address, link_local.format(i))]


def _lines(name):
    text = (pipeline.DATA / name).read_text().splitlines()
    return [re.sub(r",\s+", ",", line.strip()) for line in text if line.strip()]


def numbered(line):
    """A flow or group with the numbers of its tables and ports."""
    for name, number in world.PORTS.items():
        line = line.replace(f'"{name}"', str(number))
    tables = {name: str(number) for number, name in enumerate(world.TABLES)}
    return re.sub(r"[A-Za-z]\w*", lambda word: tables.get(word[0], word[0]), line)
