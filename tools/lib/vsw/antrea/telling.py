"""What agents are told: logs of policies, statistics of rules, denied connections. Checked field by
field. Records of connections: `records.py`."""

import contextlib
import errno
import json
import socket
import subprocess
import threading
import time
from pathlib import Path

from .. import machine
from ..machine import PATIENCE_S, Failure
from . import traffic, world
from .actions import BOTH, DENIED_LIMIT, HTTP, PROHIBITED, of
from .ledger import Rule
from .node import PEER
from .world import CLIENT, DB, WEB2

MANIFEST = Path(__file__).with_name("logged.yaml")
NAME, ISOLATED = "acnp:logged", "np:default/isolated"
DATAGRAMS, SIZE = 5, 100
COUNTED = ("sessions", "new_packets", "packets")  # of a rule
CONNECTIONS = 3
# More than a port's packets for controllers at once, fewer than a subscriber's queue holds, and
# meter 256 lets pass.
BURST, CONTROLLER = 500, 62373
# It comes in parts, each of which a host port's ring (135 frames) has room for, even while the
# switch has no core.
PARTS = 10
SILENCE = "table inet silence { chain input { type filter hook input priority 0; udp dport 80 drop; }; }"
# Bytes of Ethernet and IP in front of UDP's 8.
HEADERS = {4: 14 + 20, 6: 14 + 40}
# Bytes of IP and UDP.
LENGTH = {4: 20 + 8, 6: 40 + 8}


class Stream:
    """What a verb of `vsctl antrea` tells, line by line, until `stack` ends."""

    def __init__(self, switch, stack, *verb):
        self.told, self.words = [], " ".join(verb)
        self.process = machine.spawn(switch.command("--json", "antrea", *verb), stdout=subprocess.PIPE, text=True)
        stack.callback(machine.end, self.process)
        threading.Thread(target=self._run, daemon=True).start()
        machine.expect(f"{self.words} begins", lambda: self.told)

    def _run(self):
        for line in self.process.stdout:
            self.told.append(json.loads(line))

    def wait(self, what, means, count=1):
        """`count` lines that are meant, once they are there; Failure if they are not, or more."""
        deadline = time.monotonic() + PATIENCE_S
        while len(found := [line for line in list(self.told) if means(line)]) < count:
            if time.monotonic() > deadline:
                raise Failure(f"{self.words}: no {what}, but {self.told[1:]}")
            time.sleep(0.02)
        if len(found) > count:
            raise Failure(f"{self.words}: {len(found)} times {what}: {found}")
        return found


def same(told, **expected):
    """Fields of a line, by their names; of what is inside of others joined by two underlines."""
    for name, value in expected.items():
        got = told
        for part in name.split("__"):
            got = got[part] if got is not None else None
        if got != value:
            raise Failure(f"{name} is {got!r}, expected {value!r}, in {told}")


def _grown(first, lines):
    """What the counters of a rule have grown by: as the lines of a stream say one after the other,
    and as the last one says it."""
    words = ("sessions", "packets", "bytes")
    each = {word: sum(line["growth"].get(word, 0) for line in lines) for word in words}
    return each, {word: lines[-1]["statistics"][word] - first["statistics"][word] if lines else 0 for word in words}


def _is_change(line, rule):
    return (line["event"], line["rule"]) == ("changed", rule)


def _is_log(line):
    return line.get("event") == "policy-log"


def _is_denied(line):
    return line.get("record") == "denied"


def _those_of(address, family, events, records):
    """The log and the denied connection of somebody's packet, once each. (What others sent before
    is told in sum, and later.)"""
    source = of(address, family)
    return (events.wait("log", lambda line: _is_log(line) and line["tuple"]["src"] == source)[0],
            records.wait("denied connection", lambda line: _is_denied(line) and line["original"]["src"] == source)[0])


class Telling:
    """Scenes about what is told; a part of `AgentScenes`."""

    def telling(self):
        """Logs, then records. The Node records what it denies meanwhile."""
        logging = [("  name: default\n", '  name: default\n  annotations: {networkpolicy.antrea.io/enable-logging: "true"}\n')]
        with self.manifests.edited("nodes.yaml", "\nspec:\n  bridge: br0\n", "\nspec:\n  bridge: br0\n  recordDenied: true\n", logging):
            with self.manifests.also(MANIFEST):
                yield ("logs: client -> web2 is allowed, db -> web2 denied; each is told once", self.logs,
                       [Rule("Output reg0=0x2400000/0xfe600000"), Rule("Output reg0=0xa400000/0xfe600000")], BOTH)
                yield (f"statistics: {CONNECTIONS} connections client -> web2, then {DATAGRAMS} datagrams that nobody answers", self.sessions,
                       [Rule("Output reg0=0x2400000/0xfe600000", CONNECTIONS + DATAGRAMS)], BOTH)
                yield (f"told: {BURST} datagrams at once, db -> web2, denied: each is told, or counted as lost", self.burst,
                       [Rule("Output reg0=0xa400000/0xfe600000", BURST)], BOTH)
                yield "told: peer -> web2 is refused; one log, one record, one answer", self.refusal, [], BOTH
                yield "told: web2 -> db, which K8s isolates; one log, one record", self.isolation, [Rule("IngressDefaultRule reg1=0x26")], BOTH
                yield f"statistics, as they change: {DATAGRAMS} datagrams client -> web2 and back, {DATAGRAMS} db -> web2", self.streamed, [], BOTH
                yield from self.records_with_rules()
            yield from self.records()

    def _try(self, source, address, port, family):
        with contextlib.suppress(TimeoutError):
            who = traffic.ask(self.space[source], of(address, family), port, DENIED_LIMIT)
            raise Failure(f"expected silence, {who} answered")

    def logs(self, family):
        """Two connections, two logs. (Of UDP: a SYN that is answered late is sent, and told,
        again.)"""
        with self._told() as (events, records):
            traffic.datagram(self.space[CLIENT.name], of(WEB2.v4, family), HTTP, SIZE)
            traffic.send_datagram(self.space[DB.name], of(WEB2.v4, family), HTTP, bytes(SIZE))
            events.wait("log", _is_log, 2)
            denied = records.wait("denied connection", _is_denied)[0]
            # Nothing comes between those and that of another connection.
            traffic.datagram(self.space[CLIENT.name], of(WEB2.v4, family), HTTP, SIZE)
            logs = events.wait("log", _is_log, 3)[:2]
        logs.sort(key=lambda log: log["disposition"])
        common = {"rule__policy": NAME, "table": "AntreaPolicyIngressRule", "direction": "Ingress", "applied_to": "default/web2", "packets": 1,
                  "packet_len": LENGTH[family] + SIZE, "tuple__dst": of(WEB2.v4, family), "tuple__dport": HTTP, "tuple__protocol": socket.IPPROTO_UDP}
        same(logs[0], disposition="Allow", rule_name="LogClient", log_label="shown", tuple__src=of(CLIENT.v4, family), **common)
        same(logs[1], disposition="Drop", rule_name="LogDb", log_label=None, tuple__src=of(DB.v4, family), **common)
        numbers = {rule["id"]: (rule["number"], rule["priority"]) for rule in self.switch.json("antrea", "rules", "--policy", NAME)}
        for log in logs:
            same(log, rule__number=numbers[log["rule"]["rule"]][0], priority=numbers[log["rule"]["rule"]][1])
        same(denied, ingress_verdict__rule=logs[1]["rule"], ingress_verdict__action="Drop", original=logs[1]["tuple"], egress_verdict=None)
        return "Allow by LogClient, Drop by LogDb: rule, tuple, Pod, length"

    def sessions(self, family):
        """Sessions of a rule are its connections, each once, however many packets came before the
        first answer; what is denied has none."""
        before, again = self._statistics(), 0
        for _ in range(CONNECTIONS):
            with traffic.connect(self.space[CLIENT.name], of(WEB2.v4, family), HTTP) as client:
                again += traffic.retransmitted(client)
        with contextlib.ExitStack() as stack:
            self.node.run(WEB2.name, "nft", SILENCE)
            stack.callback(self.node.run, WEB2.name, "nft", "delete", "table", "inet", "silence")
            address = of(WEB2.v4, family)
            client = stack.enter_context(traffic.make_socket(self.space[CLIENT.name], traffic.family_of(address), traffic.DATAGRAM))
            client.connect((address, HTTP))
            for _ in range(DATAGRAMS):
                client.send(b"x")
                time.sleep(0.02)
        self._try(DB.name, WEB2.v4, HTTP, family)

        def grown():
            return {name: {key: count - before[name][key] for key, count in now.items() if key in COUNTED} for name, now in self._statistics().items()}

        def is_right(allowed, denied):
            more = allowed["new_packets"] - CONNECTIONS - DATAGRAMS
            return (allowed["sessions"], denied["sessions"]) == (CONNECTIONS + 1, 0) and 0 <= more <= again and allowed["packets"] > allowed["new_packets"] and denied["packets"]

        what = f"{CONNECTIONS + 1} sessions of {CONNECTIONS + DATAGRAMS} to {CONNECTIONS + DATAGRAMS + again} packets are counted, of the denied one none"
        machine.expect(what, lambda: is_right(grown()["LogClient"], grown()["LogDb"]), grown)
        return f"{CONNECTIONS + 1} sessions, {CONNECTIONS + DATAGRAMS} packets of new connections; of the denied one no session"

    def refusal(self, family):
        """A datagram that a rule refuses: the sender hears of it, who watches is told of it once,
        the rule has one packet and one answer, and no session."""
        before = self._statistics()["LogRefused"]
        with self._told() as (events, records):
            error = self._error_of(PEER, WEB2, family)
            log, denied = _those_of(world.REMOTE, family, events, records)
        if error != PROHIBITED[family]:
            raise Failure(f"peer hears {errno.errorcode.get(error, error)}")
        ends = {"src": of(world.REMOTE, family), "dst": of(WEB2.v4, family), "dport": HTTP, "protocol": socket.IPPROTO_UDP}
        same(log, rule__policy=NAME, rule__rule="LogRefused", rule_name="LogRefused", disposition="Reject", table="AntreaPolicyIngressRule", direction="Ingress",
              applied_to="default/web2", packets=1, packet_len=LENGTH[family] + SIZE, **{f"tuple__{word}": end for word, end in ends.items()})
        same(denied, ingress_verdict__rule=log["rule"], ingress_verdict__action="Reject", original=log["tuple"], egress_verdict=None, source_pod=None,
              destination_pod="default/web2", original_count={"packets": 1, "bytes": HEADERS[family] + 8 + SIZE}, reply=None)
        expected = {"sessions": 0, "packets": 1, "rejects_sent": 1, "bytes": HEADERS[family] + 8 + SIZE}
        grown = lambda: {word: count - before[word] for word, count in self._statistics()["LogRefused"].items() if word in expected}  # noqa: E731
        machine.expect(f"the rule has counted {expected}", lambda: grown() == expected, grown)
        return "Reject by LogRefused: rule, tuple, Pod, length; counted as denied, and answered"

    def _error_of(self, source, pod, family):
        """What the sender of a datagram hears, as a number."""
        with traffic.make_socket(self.space[source], traffic.family_of(of(pod.v4, family)), traffic.DATAGRAM) as client:
            client.settimeout(PATIENCE_S)
            client.connect((of(pod.v4, family), HTTP))
            client.send(bytes(SIZE))
            try:
                client.recv(65535)
            except OSError as error:
                return error.errno
        raise Failure("an echo came back")

    def isolation(self, family):
        """What no rule of a policy of Kubernetes allows: told with the policy's name, and no
        rule's."""
        with self._told() as (events, records):
            traffic.send_datagram(self.space[WEB2.name], of(DB.v4, family), HTTP, bytes(SIZE))
            log, denied = _those_of(WEB2.v4, family, events, records)
        same(log, rule__policy=ISOLATED, rule__rule=None, rule__number=None, disposition="Drop", table="IngressDefaultRule", direction="Ingress",
              applied_to="default/db", packets=1, packet_len=LENGTH[family] + SIZE, tuple__src=of(WEB2.v4, family), tuple__dst=of(DB.v4, family),
              tuple__dport=HTTP, tuple__protocol=socket.IPPROTO_UDP)
        same(denied, ingress_verdict__rule=log["rule"], ingress_verdict__action="Drop", original=log["tuple"], egress_verdict=None,
              source_pod="default/web2", destination_pod="default/db", original_count={"packets": 1, "bytes": HEADERS[family] + 8 + SIZE}, reply=None)
        return "Drop by the isolation of np:default/isolated: Pods, tuple, length"

    @contextlib.contextmanager
    def _told(self):
        """Logs, and denied connections, as they are told."""
        with contextlib.ExitStack() as stack:
            yield Stream(self.switch, stack, "events", "--kind", "policy-log"), Stream(self.switch, stack, "records", "--follow", "--kind", "denied")

    def streamed(self, family):
        """The stream of statistics begins with each rule as it is; what it says has grown since is
        what was sent, in sum and at its end."""
        with contextlib.ExitStack() as stack:
            stream = Stream(self.switch, stack, "rules", "--watch", "100", "--policy", NAME)
            first = {rule: stream.wait(rule, lambda line, rule=rule: (line["event"], line["rule"]) == ("rule", rule))[0] for rule in ("LogClient", "LogDb")}
            with traffic.make_socket(self.space[CLIENT.name], traffic.family_of(of(WEB2.v4, family)), traffic.DATAGRAM) as client:
                client.settimeout(PATIENCE_S)
                client.connect((of(WEB2.v4, family), HTTP))
                for _ in range(DATAGRAMS):
                    client.send(bytes(SIZE))
                    client.recv(65535)
            for _ in range(DATAGRAMS):
                traffic.send_datagram(self.space[DB.name], of(WEB2.v4, family), HTTP, bytes(SIZE))
            size = HEADERS[family] + 8 + SIZE
            for rule, expected in (("LogClient", {"sessions": 1, "packets": 2 * DATAGRAMS, "bytes": 2 * DATAGRAMS * size}),
                                   ("LogDb", {"sessions": 0, "packets": DATAGRAMS, "bytes": DATAGRAMS * size})):
                grown = lambda rule=rule: _grown(first[rule], [line for line in list(stream.told) if _is_change(line, rule)])  # noqa: E731
                machine.expect(f"{rule} is told to have grown by {expected}", lambda: grown() == (expected, expected), grown)  # noqa: B023
        return f"LogClient: 1 session, {2 * DATAGRAMS} packets; LogDb: {DATAGRAMS} packets; their bytes"

    def burst(self, family):
        """What meter 256 lets pass is told or lost, and counted; no other limit takes any."""
        with contextlib.ExitStack() as stack:
            Stream(self.switch, stack, "events", "--kind", "policy-log")
            before = self._controller()
            address = of(WEB2.v4, family)
            client = stack.enter_context(traffic.make_socket(self.space[DB.name], traffic.family_of(address), traffic.DATAGRAM))
            client.connect((address, HTTP))
            grown = lambda: {word: count - before[word] for word, count in self._controller().items()}  # noqa: E731
            for sent in range(BURST // PARTS, BURST + 1, BURST // PARTS):
                for _ in range(BURST // PARTS):
                    client.send(b"x")
                machine.expect(f"{sent} are there", lambda sent=sent: sum(grown().values()) >= sent, grown)
            if (told := grown())["told"] + told["lost"] != BURST or told["limited"] or told["metered"]:
                raise Failure(f"controller {CONTROLLER}, of {BURST} packets: {told}")
        return f"{BURST} packets for controller {CONTROLLER}, none limited"

    def _controller(self):
        """What became of packets for the policies' controller."""
        for state in self.switch.json("dump-controllers", "br0"):
            if state["controller"] == CONTROLLER:
                return {word: state[word] for word in ("told", "lost", "metered", "limited")}
        return dict.fromkeys(("told", "lost", "metered", "limited"), 0)

    def _statistics(self):
        """Counters of the policy's rules."""
        return {rule["id"]: rule["statistics"] for rule in self.switch.json("antrea", "rules", "--policy", NAME)}
