"""Records of connections, as flow exporters get them: how each begins, what becomes of it, what it
was in the end. Checked field by field."""

import contextlib
import socket
import time

from ..machine import PATIENCE_S, Failure
from . import traffic, world
from .actions import BOTH, HTTP, MYSQL, of
from .ledger import Rule
from .manifests import EGRESS_IP
from .telling import DATAGRAMS, HEADERS, NAME, SIZE, Stream, same
from .world import CLIENT, DB, WEB, WEB2

ACTIVE_S = 1  # between records of a connection that has packets
PERIOD_S = 0.05
ACNP = "acnp:web-app-db-network-policy"
# By the manifests.
EGRESSES = {4: "egress-web", 6: "egress-web-v6"}
ZONES = {4: 65520, 6: 65510}


def datagrams(client, count, size=SIZE):
    """Sends datagrams of a size, each when the one before has its echo."""
    client.settimeout(PATIENCE_S)
    for _ in range(count):
        client.send(b"x" * size)
        client.recv(65535)


def counted(family, packets, size=SIZE):
    """What a record says of so many datagrams."""
    return {"packets": packets, "bytes": packets * (HEADERS[family] + 8 + size)}


def of_port(port, *words):
    """Of the lines of `records` those about a connection from this port, of one of these kinds."""
    return lambda line: line.get("record") in words and line["original"].get("sport") == port


@contextlib.contextmanager
def socket_for(space, address):
    """A socket of UDP in a namespace, for one address."""
    with traffic.make_socket(space, traffic.family_of(address), traffic.DATAGRAM) as client:
        client.connect((address, HTTP))
        yield client


def flush(switch, client, protocol):
    """Ends a connection of a Pod's; returns the port that it is from."""
    source, port = client.getsockname()[:2]
    zone, field = (ZONES[6], "ct_ipv6_src") if ":" in source else (ZONES[4], "ct_nw_src")
    switch.vsctl("flush-conntrack", f"zone={zone}", f"{field}={source},ct_nw_proto={protocol},ct_tp_src={port}")
    return port


def told_of(switch, space, address, count=DATAGRAMS):
    """What is told of a connection of UDP of `count` datagrams: (its port, NEW, END). The counters
    of END are those of what was sent."""
    with contextlib.ExitStack() as stack:
        records = Stream(switch, stack, "records", "--follow", "--kind", "new", "--kind", "end")
        client = stack.enter_context(socket_for(space, address))
        datagrams(client, count)
        port = flush(switch, client, socket.IPPROTO_UDP)
        new, end = (records.wait(word, of_port(port, word))[0] for word in ("new", "end"))
    count = counted(6 if ":" in address else 4, count)
    same(end, original_count=count, reply_count=count, connection_id=new["connection_id"], start_unix_ms=new["start_unix_ms"])
    if not end["end_unix_ms"] or new["end_unix_ms"]:
        raise Failure(f"it ended at {end['end_unix_ms']}, and began with {new['end_unix_ms']}")
    return port, new, end


class Records:
    """Scenes about records; a part of `AgentScenes`, as `Telling` is."""

    def records_with_rules(self):
        """While policies say what client may ask web2."""
        service = [Rule("ServiceLB nw_dst=192.168.77.150")]
        yield f"record: client -> 192.168.77.150 (UDP) -> web2, {DATAGRAMS} datagrams", self.record, service, BOTH
        yield f"records of a connection that stays: client -> 192.168.77.150 (UDP), each {ACTIVE_S} s", self.staying, service, BOTH

    def records(self):
        """As the manifests are."""
        yield "record: client -> db, a TCP connection", self.tcp_record, [Rule("ConntrackCommit priority=200")], BOTH
        yield "record: web2 -> internet (UDP), by an Egress of this Node", self.egress_record, [Rule(f'EgressMark in_port="{WEB2.port}"')], BOTH
        yield "record: web2 -> 192.168.77.150 (UDP) -> web2, by another source", self.hairpin_record, [Rule("SNAT reg0=0x3/0xf")], BOTH
        yield ("record: db -> web is denied", self.denied_record(DB, WEB, "default/web", "ingress"),
               [Rule("Output reg0=0x8400000/0xfe600000")], BOTH)
        yield ("record: web -> web2 is denied", self.denied_record(WEB, WEB2, "default/web2", "egress"),
               [Rule("Output reg0=0x8400000/0xfe600000")], BOTH)

    def record(self, family):
        """A connection through a Service: how it begins, and what it was in the end."""
        address = of(world.LOAD_BALANCER, family)
        port, *both = told_of(self.switch, self.space[CLIENT.name], address)
        tuples = {"original__src": of(CLIENT.v4, family), "original__dst": address, "original__dport": HTTP, "original__protocol": socket.IPPROTO_UDP,
                  "reply__src": of(WEB2.v4, family), "reply__sport": HTTP, "reply__dst": of(CLIENT.v4, family), "reply__dport": port}
        names = {"source": "pod", "source_pod": "default/client", "destination_pod": "default/web2", "service": "default/sample-loadbalancer:echo",
                 "ingress_verdict__rule__policy": NAME, "ingress_verdict__rule__rule": "LogClient", "ingress_verdict__action": "Allow",
                 "egress_verdict__rule__policy": "acnp:asking", "egress_verdict__rule__rule": "MayAsk", "egress_verdict__action": "Allow",
                 "translated_source": None, "egress": None}
        for told in both:
            same(told, **tuples, **names)
        count = both[1]["original_count"]
        return f"NEW, END: both tuples, Service, Pods, rules of both; {count['packets']} packets, {count['bytes']} bytes each way"

    def staying(self, family):
        """Told again and again while it has packets, and what it has grown to; at last all of
        it."""
        with contextlib.ExitStack() as stack:
            records = Stream(self.switch, stack, "records", "--follow", "--active", str(ACTIVE_S))
            client = stack.enter_context(socket_for(self.space[CLIENT.name], of(world.LOAD_BALANCER, family)))
            port, sent = client.getsockname()[1], 0
            updates = lambda: [line for line in list(records.told) if of_port(port, "update")(line)]  # noqa: E731
            grown = lambda: {line["original_count"]["packets"] for line in updates()} - {0, 1}  # noqa: E731
            deadline = time.monotonic() + PATIENCE_S
            while len(grown()) < 3:
                if time.monotonic() > deadline:
                    raise Failure(f"{sent} datagrams are sent; told: {updates()}")
                datagrams(client, 1)
                sent += 1
                time.sleep(PERIOD_S)
            flush(self.switch, client, socket.IPPROTO_UDP)
            new, end = (records.wait(word, of_port(port, word))[0] for word in ("new", "end"))
            told = [new, *updates(), end]
        for line in told:
            same(line, connection_id=new["connection_id"], start_unix_ms=new["start_unix_ms"], ingress_verdict=new["ingress_verdict"],
                 egress_verdict=new["egress_verdict"], service="default/sample-loadbalancer:echo")
        for word in ("original_count", "reply_count"):
            counts = [line[word]["packets"] for line in told]
            if counts != sorted(counts):
                raise Failure(f"{word}: {counts}")
            same(end, **{word: counted(family, sent)})
        return "NEW, at least 3 × UPDATE that grow, END with all that was sent"

    def tcp_record(self, family):
        """A connection of TCP: its state, and its Pods."""
        with contextlib.ExitStack() as stack:
            records = Stream(self.switch, stack, "records", "--follow")
            client = stack.enter_context(traffic.connect(self.space[CLIENT.name], of(DB.v4, family), MYSQL))
            port = client.getsockname()[1]
            new = records.wait("new", of_port(port, "new"))[0]
            live = [line for line in self.switch.json("antrea", "records", "--pod", "default/db") if line["original"].get("sport") == port]
            flush(self.switch, client, socket.IPPROTO_TCP)
            end = records.wait("end", of_port(port, "end"))[0]
        for told in (new, end, *live):
            same(told, source="pod", source_pod="default/client", destination_pod="default/db", service=None, original__dport=MYSQL)
        if [line["tcp_state"] for line in live] != ["ESTABLISHED"]:
            raise Failure(f"listed: {live}")
        same(end, tcp_state="ESTABLISHED", replied=True, connection_id=new["connection_id"])
        return "NEW, listed as ESTABLISHED, END"

    def egress_record(self, family):
        """Out of the cluster: the Egress is named. The host translates, so the switch does not know
        to what; the other end does."""
        internet = of(world.INTERNET, family)
        seen = traffic.ask_datagram(self.space[WEB2.name], internet, HTTP)[1]
        if seen != of(EGRESS_IP[0], family):
            raise Failure(f"the internet sees {seen}")
        for told in told_of(self.switch, self.space[WEB2.name], internet)[1:]:
            same(told, egress=EGRESSES[family], translated_source=None, source_pod="default/web2", destination_pod=None, service=None, original__dst=internet)
        return f"NEW, END: {EGRESSES[family]}; counters as sent"

    def hairpin_record(self, family):
        """A Pod that is led to itself sees another source than its own."""
        for told in told_of(self.switch, self.space[WEB2.name], of(world.LOAD_BALANCER, family))[1:]:
            same(told, translated_source=of(world.GATEWAY_IP, family), egress=None, source_pod="default/web2", destination_pod="default/web2",
                 service="default/sample-loadbalancer:echo")
        return "NEW, END: seen as the gateway; counters as sent"

    def denied_record(self, source, target, destination_pod, end):
        """A rule without logging denies at one end: no log, one record, whose verdict is of that
        end."""
        other = {"ingress": "egress", "egress": "ingress"}[end]
        told = {f"{end}_verdict__rule__policy": ACNP, f"{end}_verdict__action": "Drop", f"{other}_verdict": None}

        def run(family):
            with contextlib.ExitStack() as stack:
                events = Stream(self.switch, stack, "events", "--kind", "policy-log")
                records = Stream(self.switch, stack, "records", "--follow")
                traffic.send_datagram(self.space[source.name], of(target.v4, family), HTTP, bytes(SIZE))
                ours = lambda line: line.get("record") not in ("started", None) and line["source_pod"] == f"default/{source.name}"  # noqa: E731
                denied = records.wait("record", ours)[0]
                if events.told[1:]:
                    raise Failure(f"a rule without logging logs: {events.told[1:]}")
            same(denied, record="denied", original__src=of(source.v4, family), original__dst=of(target.v4, family), original__dport=HTTP, source="pod",
                 destination_pod=destination_pod, connection_id=None, original_count=counted(family, 1), reply=None, **told)
            return f"one record, DENIED, with its rule of {end}; no log"

        return run
