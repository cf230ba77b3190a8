"""What agents are told: logs of policies, denied connections, records of connections. Checked field by field."""

import contextlib
import json
import socket
import subprocess
import threading
import time
from pathlib import Path

from .. import machine
from ..machine import Failure
from . import traffic, world
from .actions import BOTH, DENIED_LIMIT, HTTP, MYSQL, of
from .ledger import Rule
from .world import CLIENT, DB, WEB, WEB2

MANIFEST = Path(__file__).with_name("logged.yaml")
NAME = "acnp:logged"
DATAGRAMS, SIZE = 5, 100
# Bytes of Ethernet and IP in front of UDP's 8.
HEADERS = {4: 14 + 20, 6: 14 + 40}
# A SYN of Linux: 20 bytes of TCP, 20 of options.
SYN = {4: 60, 6: 80}


class Stream:
    """What a verb of `vsctl antrea` tells, line by line, until `stack` ends."""

    def __init__(self, switch, stack, *verb):
        self.told, self.words = [], " ".join(verb)
        self.process = machine.spawn(switch.command("--json", "antrea", *verb), stdout=subprocess.PIPE, text=True)
        stack.callback(machine.end, self.process)
        threading.Thread(target=self._run, daemon=True).start()
        machine.wait_until(f"{self.words} begins", 5, lambda: self.told)

    def _run(self):
        for line in self.process.stdout:
            self.told.append(json.loads(line))

    def wait(self, what, means, count=1, limit=4.0):
        """`count` lines that are meant, once they are there; Failure if they are not, or more."""
        deadline = time.monotonic() + limit
        while len(found := [line for line in list(self.told) if means(line)]) < count:
            if time.monotonic() > deadline:
                raise Failure(f"{self.words}: no {what}, but {self.told[1:]}")
            time.sleep(0.02)
        if len(found) > count:
            raise Failure(f"{self.words}: {len(found)} times {what}: {found}")
        return found


def _same(told, **expected):
    """Fields of a line, by their names; of what is inside of others joined by two underlines."""
    for name, value in expected.items():
        got = told
        for part in name.split("__"):
            got = got[part] if got is not None else None
        if got != value:
            raise Failure(f"{name} is {got!r}, expected {value!r}, in {told}")


class Telling:
    """Scenes about what is told; a part of `AgentScenes`."""

    def telling(self):
        """Logs, then records. The Node records what it denies meanwhile."""
        with self.manifests.edited("nodes.yaml", "\nspec:\n  bridge: br0\n", "\nspec:\n  bridge: br0\n  recordDenied: true\n"):
            with self.manifests.also(MANIFEST):
                yield ("logs: client -> web2 is allowed, db -> web2 denied; each is told once", self.logs,
                       [Rule("Output reg0=0x2400000/0xfe600000"), Rule("Output reg0=0xa400000/0xfe600000")], BOTH)
                yield (f"record: client -> 192.168.77.150 (UDP) -> web2, {DATAGRAMS} datagrams", self.record,
                       [Rule("ServiceLB nw_dst=192.168.77.150")], BOTH)
            yield ("record: client -> db, a TCP connection", self.tcp_record, [Rule("ConntrackCommit priority=200")], BOTH)
            yield ("record: db -> web is denied", self.denied_record, [Rule("Output reg0=0x8400000/0xfe600000")], BOTH)

    def _try(self, source, address, port, family):
        with contextlib.suppress(TimeoutError):
            who = traffic.ask(self.space[source], of(address, family), port, DENIED_LIMIT)
            raise Failure(f"expected silence, {who} answered")

    def logs(self, family):
        """Two connections, two logs."""
        with contextlib.ExitStack() as stack:
            events = Stream(self.switch, stack, "events", "--kind", "policy-log")
            records = Stream(self.switch, stack, "records", "--follow", "--kind", "denied")
            self._ask(CLIENT.name, WEB2.v4, HTTP, family)
            self._try(DB.name, WEB2.v4, HTTP, family)
            logs = events.wait("log", lambda line: line.get("event") == "policy-log", 2)
            denied = records.wait("denied connection", lambda line: line.get("record") == "denied")[0]
            time.sleep(0.3)  # a third one has no business here
            logs = events.wait("log", lambda line: line.get("event") == "policy-log", 2)
        logs.sort(key=lambda log: log["disposition"])
        common = {"rule__policy": NAME, "table": "AntreaPolicyIngressRule", "direction": "Ingress", "applied_to": "default/web2", "packets": 1,
                  "packet_len": SYN[family], "tuple__dst": of(WEB2.v4, family), "tuple__dport": HTTP, "tuple__protocol": socket.IPPROTO_TCP}
        _same(logs[0], disposition="Allow", rule_name="LogClient", log_label="shown", tuple__src=of(CLIENT.v4, family), **common)
        _same(logs[1], disposition="Drop", rule_name="LogDb", log_label=None, tuple__src=of(DB.v4, family), **common)
        numbers = {rule["id"]: (rule["number"], rule["priority"]) for rule in self.switch.json("antrea", "rules", "--policy", NAME)}
        for log in logs:
            _same(log, rule__number=numbers[log["rule"]["rule"]][0], priority=numbers[log["rule"]["rule"]][1])
        _same(denied, ingress_verdict__rule=logs[1]["rule"], ingress_verdict__action="Drop", original=logs[1]["tuple"], egress_verdict=None)
        return "Allow by LogClient, Drop by LogDb: rule, tuple, Pod, length"

    def record(self, family):
        """A connection through a Service: how it begins, and what it was in the end."""
        with contextlib.ExitStack() as stack:
            records = Stream(self.switch, stack, "records", "--follow", "--kind", "new", "--kind", "end")
            address = of(world.LOAD_BALANCER, family)
            client = stack.enter_context(traffic.make_socket(self.space[CLIENT.name], traffic.family_of(address), traffic.DATAGRAM))
            client.settimeout(3)
            client.connect((address, HTTP))
            for _ in range(DATAGRAMS):
                client.send(b"x" * SIZE)
                client.recv(65535)
            port = client.getsockname()[1]
            self._flush(family, CLIENT, port, socket.IPPROTO_UDP)
            means = lambda word: lambda line: line.get("record") == word and line["original"]["sport"] == port  # noqa: E731
            new, end = (records.wait(word, means(word))[0] for word in ("new", "end"))
        tuples = {"original__src": of(CLIENT.v4, family), "original__dst": address, "original__dport": HTTP, "original__protocol": socket.IPPROTO_UDP,
                  "reply__src": of(WEB2.v4, family), "reply__sport": HTTP, "reply__dst": of(CLIENT.v4, family), "reply__dport": port}
        names = {"source": "pod", "source_pod": "default/client", "destination_pod": "default/web2", "service": "default/sample-loadbalancer:echo",
                 "ingress_verdict__rule__policy": NAME, "ingress_verdict__rule__rule": "LogClient", "ingress_verdict__action": "Allow", "egress_verdict": None,
                 "translated_source": None, "egress": None}
        for told in (new, end):
            _same(told, **tuples, **names)
        count = {"packets": DATAGRAMS, "bytes": DATAGRAMS * (HEADERS[family] + 8 + SIZE)}
        _same(end, original_count=count, reply_count=count, connection_id=new["connection_id"], start_unix_ms=new["start_unix_ms"])
        if not end["end_unix_ms"] or new["end_unix_ms"]:
            raise Failure(f"it ended at {end['end_unix_ms']}, and began with {new['end_unix_ms']}")
        return f"NEW, END: both tuples, Service, Pods, rule; {count['packets']} packets, {count['bytes']} bytes each way"

    def tcp_record(self, family):
        """A connection of TCP: its state, and its Pods."""
        with contextlib.ExitStack() as stack:
            records = Stream(self.switch, stack, "records", "--follow")
            client = stack.enter_context(traffic.connect(self.space[CLIENT.name], of(DB.v4, family), MYSQL))
            port = client.getsockname()[1]
            ours = lambda word: lambda line: line.get("record") == word and line["original"]["sport"] == port  # noqa: E731
            new = records.wait("new", ours("new"))[0]
            live = [line for line in self.switch.json("antrea", "records", "--pod", "default/db") if line["original"]["sport"] == port]
            self._flush(family, CLIENT, port, socket.IPPROTO_TCP)
            end = records.wait("end", ours("end"))[0]
        for told in (new, end, *live):
            _same(told, source="pod", source_pod="default/client", destination_pod="default/db", service=None, original__dport=MYSQL)
        if [line["tcp_state"] for line in live] != ["ESTABLISHED"]:
            raise Failure(f"listed: {live}")
        _same(end, tcp_state="ESTABLISHED", replied=True, connection_id=new["connection_id"])
        return "NEW, listed as ESTABLISHED, END"

    def denied_record(self, family):
        """A rule without logging denies: no log, one record."""
        with contextlib.ExitStack() as stack:
            events = Stream(self.switch, stack, "events", "--kind", "policy-log")
            records = Stream(self.switch, stack, "records", "--follow")
            self._try(DB.name, WEB.v4, HTTP, family)
            ours = lambda line: line.get("record") not in ("started", None) and line["source_pod"] == "default/db"  # noqa: E731
            denied = records.wait("record", ours)[0]
            if events.told[1:]:
                raise Failure(f"a rule without logging logs: {events.told[1:]}")
        _same(denied, record="denied", original__src=of(DB.v4, family), original__dst=of(WEB.v4, family), original__dport=HTTP, source="pod",
              destination_pod="default/web", ingress_verdict__rule__policy="acnp:web-app-db-network-policy", ingress_verdict__action="Drop",
              connection_id=None, original_count={"packets": 1, "bytes": SYN[family] + 14}, reply=None)
        return "one record, DENIED, with its rule; no log"

    def _flush(self, family, pod, port, protocol):
        """Ends a connection of a Pod's."""
        zone = self.ZONE[family]
        field = "ct_nw_src" if family == 4 else "ct_ipv6_src"
        self.switch.vsctl("flush-conntrack", f"zone={zone}", f"{field}={of(pod.v4, family)},ct_nw_proto={protocol},ct_tp_src={port}")

    ZONE = {4: 65520, 6: 65510}
