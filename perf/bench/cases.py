"""All cases by name. A case is a function `case(bench, device, round_)` that measures one of its devices ("switch", "ovs", "testpmd") once
and returns a Sample."""

from . import established, flows, forwarding
from .captures import Traffic

CASES = {"l2-pcap-null": forwarding.l2_pcap_null, "vhost-virtio-user": forwarding.vhost_virtio_user}
CASES |= {f"flows-{count}": flows.case(count) for count in (1, 1000, 10_000, 100_000)}


def _established(counts, *traffic):
    return {f"{t.name}-{count}": established.case(t, count) for t in traffic for count in counts}


CASES |= _established((1, 8, 1000, 30_000), Traffic("pod"))
CASES |= _established((1, 1000, 30_000), Traffic("svc"))
CASES |= _established((1, 1000, 30_000, 90_000), Traffic("remote"))


def devices(name):
    """The devices that a case measures, in turn."""
    return getattr(CASES[name], "devices", ("switch", "testpmd"))
