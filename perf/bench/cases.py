"""All cases by name. A case is a function `case(bench, device, round_)` that measures one of its
devices ("switch", "ovs", "testpmd") once and returns a Sample."""

from . import cluster, established, flows, forwarding, gateway, guests, latency, opening, stress, tunnel, vhost, workers
from .captures import IMIX, UDP, Traffic

CASES = {"l2-pcap-null": forwarding.l2_pcap_null, "vhost-virtio-user": vhost.circulating, "guest-tcp": guests.tcp}
CASES |= {f"vhost-pod-{count}": vhost.pods(count) for count in (1, 1000)}
CASES |= {f"flows-{count}": flows.case(count) for count in (1, 1000, 10_000, 100_000)}


def _established(counts, name, *traffic, **options):
    return {f"{name}-{count}": established.case(Traffic(*traffic, **options), count) for count in counts}


for _six in (False, True):
    _digit = "6" if _six else ""
    CASES |= _established((1, 8, 1000, 30_000), f"pod{_digit}", "pod", _six)
    CASES |= _established((1, 1000, 30_000), f"svc{_digit}", "svc", _six)
    CASES |= _established((1, 1000, 30_000, 90_000), f"remote{_digit}", "remote", _six)
CASES |= _established((1000, 30_000), "udp-both", "pod", protocol=UDP)
CASES |= _established((1000, 30_000), "udp-oneway", "pod", protocol=UDP, one_way=True)
CASES |= _established((1000, 30_000), "imix", "pod", sizes=IMIX)
CASES |= {f"{way}-{count}": tunnel.case(way, count) for way in tunnel.WAYS for count in (1, 1000, 30_000)}
CASES |= {f"{way}6-1000": tunnel.case(way, 1000, six=True) for way in tunnel.WAYS}
CASES |= {f"{way}-{link.name}-1000": tunnel.case(way, 1000, link) for link in tunnel.OTHERS for way in tunnel.WAYS}
CASES |= {"new-connections": opening.until_full, "new-connections-steady": opening.in_steady_state}
CASES |= {"new-connections6": opening.until_full6}
CASES |= {"workers-disjoint": workers.case(10_000, split=False), "workers-split": workers.case(10_000, split=True)}
CASES |= {
    "churn-apart": stress.case(1000, stress.churn_apart, "while 1,000 flows a second come and go in tables on their way, matching nothing of them"),
    "churn-matching": stress.case(1000, stress.churn_matching, "while the flows that they hit change, 1,000 a second"),
    "effect": stress.case(1000, stress.effect, "while the flow that sends them changes; how long after the reply it takes effect"),
    "load-100k": stress.case(1000, stress.load, "while 100,000 flows are loaded"),
    "dump": stress.case(30_000, stress.dump, "while connections and flows are dumped all the time"),
    "explosion": stress.case(1000, stress.explosion, "while another port sends 1 Mbit/s of packets that differ in many bits", attacker=True),
    "miss-storm": stress.case(1000, stress.storm, "while another port floods packets of which none is like one before", attacker=True),
}
CASES |= {"latency-l2": latency.case(latency.learning), "latency-pod": latency.case(latency.pods)}
CASES |= {f"gateway-{mode}-{way}": gateway.case(mode, way) for way in gateway.TITLES for mode in ("shared", "local")}
CASES |= {f"antrea-{pods}": cluster.case(pods) for pods in (1000, 10_000)}


def devices(name):
    """The devices that a case measures, in turn."""
    return getattr(CASES[name], "devices", ("switch", "testpmd"))


def needs_agent(name):
    """A case whose switch is told by an agent."""
    return name.startswith("gateway-")


def needs_generator(name):
    """A case that measures with `perf/gen`."""
    return getattr(CASES[name], "generator", False)
