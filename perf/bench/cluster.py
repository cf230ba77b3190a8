"""A big cluster told by gRPC (`antrea.v1`) to a switch that forwards: what it costs to program, and
what established connections notice. Beside it, Open vSwitch with the flows, groups and meters that
it came to, loaded by `ovs-ofctl bundle`."""

import contextlib
import json
import os
import re
import subprocess
import threading
import time
from functools import partial
from pathlib import Path
from statistics import median

from vsw import machine
from vsw.antrea import world
from vsw.machine import Failure

from . import captures, document
from .captures import UDP, Traffic, ip_frame
from .established import SETTLE_S, Players, capture_of, establish
from .switch import MBUFS

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"  # Debian's, which has gRPC
CONNECTIONS = 1000
CHANGES = 100
TRAFFIC = Traffic("pod")
# Ports of the Node: its other Pods are called as the agent of `cluster_client.py` does. DPDK has 32
# devices at most, so these are ports without any.
PODS = {f"p{number}": 1000 + number for number in range(100)}
# Where a Service of the cluster leads, to which the client sends all the time and at first may not
WAITER = "waiter"
NUMBERS = {name: document.NUMBERS[name] for name in ("tun", "gw", "client", "web")} | {WAITER: 999}
WAITER_ADDRESS = ("10.111.255.254", 53)
REPLY_MAX_S = 120.0


class Agent:
    """The program that tells the switch."""

    def __init__(self, bench, dut, pods):
        generated = bench.directory / "generated"
        machine.output([ROOT / "tools" / "examples" / "generate", "python", generated])
        environment = os.environ | {"PYTHONPATH": f"{generated}:{ROOT / 'tools' / 'examples' / 'python'}"}
        traffic = [(each.v4, each.mac) for each in (world.CLIENT, world.WEB)]
        argv = [PYTHON, "-B", Path(__file__).with_name("cluster_client.py"), dut.daemon.socket, pods, json.dumps(traffic)]
        self.log = open(bench.directory / "agent.log", "w+")
        pipe = subprocess.PIPE
        self.process = machine.spawn(argv, stdin=pipe, stdout=pipe, stderr=self.log, text=True, env=environment)

    def ask(self, *words):
        """What came of a command; Failure when it failed."""
        try:
            self.process.stdin.write(json.dumps(words) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.log.seek(0)
            raise Failure(f"the agent ended; needed are python3-grpcio and python3-protobuf (tools/setup --examples): {self.log.read()[-1000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failure(f"the agent's {words[0]}: {answer['error']}")
        return answer

    def end(self):
        """Ends it."""
        machine.end(self.process)
        self.log.close()


class Ports(Players):
    """Players in a bridge that is the agent's: objects hold their ports, so they are exchanged
    while the Pods are elsewhere."""

    def __init__(self, dut, agent=None):
        self.dut, self.agent = dut, agent
        for name, number in NUMBERS.items():
            dut.add_port(name, number, f"net_null_{name},no-rx=1")
        self._again()

    def _again(self):
        if self.agent:
            self.agent.ask("few")

    def _aside(self):
        if self.agent:
            self.agent.ask("aside")

    def play(self, name, *captures, **options):
        """As of Players."""
        self._aside()
        super().play(name, *captures, **options)
        self._again()

    def rest(self, name):
        """As of Players."""
        self._aside()
        super().rest(name)
        self._again()


class Arrival(threading.Thread):
    """Waits for the first packet that a port sends."""

    def __init__(self, dut, name):
        super().__init__(daemon=True)
        self.dut, self.name, self.at, self.ended = dut, name, None, threading.Event()
        self.before = dut.ports()[name][1]

    def run(self):
        """Until there is one, or `ended`."""
        while self.at is None and not self.ended.wait(0.02):
            with contextlib.suppress(Failure):  # asking may take long meanwhile
                if self.dut.ports()[self.name][1] > self.before:
                    self.at = time.monotonic()

    def since(self, start, limit=10.0):
        """Seconds from `start` until it came."""
        self.join(limit)
        self.ended.set()
        if self.at is None:
            raise Failure("the new Service does not lead to its endpoint")
        return round(self.at - start, 2)


def _counted(dut):
    """Packets received from the two Pods that talk, and sent to them."""
    ports = dut.ports()
    return tuple(sum(ports[name][way] for name in ("client", "web")) for way in (0, 1))


def _capture(bench):
    """A function that gives captures of connections; in that of the client's data there is a
    datagram to the Service, too."""
    capture = capture_of(bench, TRAFFIC, range(CONNECTIONS))

    def of(phase):
        if phase != "data":
            return capture(phase)
        path = bench.directory / "antrea-data.pcap"
        if not path.exists():
            address, port = WAITER_ADDRESS
            datagram = port.to_bytes(2, "big") * 2 + (26).to_bytes(2, "big") + bytes(20)
            frames = [TRAFFIC.frame(phase, number) for number in captures.shuffled(range(CONNECTIONS), 1)]
            captures.write(path, [*frames, ip_frame(world.GATEWAY_MAC, world.CLIENT.mac, world.CLIENT.v4, address, UDP, datagram)])
        return path

    return of


def _resident(pid):
    """A process's resident memory in MiB, hugepages not among it."""
    return int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def _changes(figures, what, times):
    figures[f"{what} ms, median"], figures[f"{what} ms, longest"] = round(median(times), 1), round(max(times), 1)


def _measured(bench, dut, calm, figures, name, body):
    """A Sample while `body()` runs, and what it keeps of the calm rate."""
    result = dut.measure(bench.seconds, lambda _seconds: body(), partial(_counted, dut))
    figures[f"{name}: kept %"] = round(100 * result.rate / calm.rate, 1)
    return result


def case(pods):
    """The case for a cluster of so many Pods."""

    def run(bench, device, round_):
        capture = _capture(bench)
        with contextlib.ExitStack() as stack:
            dut = bench.start(device, stack, mbufs=MBUFS + 2 * CONNECTIONS)
            program = _Switch(bench, dut, pods) if device == "switch" else _Ovs(bench, dut, pods)
            stack.callback(program.end)
            players = program.ports()
            shown = establish(dut, players, TRAFFIC, CONNECTIONS, capture)
            for phase in ("data", "rdata"):
                players.play(TRAFFIC.port(phase), capture(phase))
            time.sleep(SETTLE_S)
            calm = dut.measure(bench.seconds, read=partial(_counted, dut))
            figures = {"calm Mpps": calm.mpps}
            before, pages = _resident(dut.pid), machine.free_hugepages()
            program.prepare()
            arrival = Arrival(dut, WAITER)
            result = _measured(bench, dut, calm, figures, "sync", lambda: program.sync(figures, arrival))
            figures["memory MiB"], figures["hugepages taken"] = round(_resident(dut.pid) - before), pages - machine.free_hugepages()
            program.sizes(figures)
            for what in ("endpoint", "address"):
                _measured(bench, dut, calm, figures, what, lambda what=what: _changes(figures, f"one {what}", program.change(what)))
            result.established, result.figures = shown, figures
            return result

    run.__doc__ = (f"A cluster of {pods:,} Pods, {pods // 2:,} Services of 20 endpoints, {pods * 3 // 2:,} rules is told to a switch that forwards, "
                   "then one endpoint and one address change.")
    run.devices = ("switch", "ovs")
    return run


class _Switch:
    """Told by gRPC."""

    def __init__(self, bench, dut, pods):
        self.bench, self.dut, self.pods = bench, dut, pods
        self.agent = Agent(bench, dut, pods)
        self.end = self.agent.end

    def ports(self):
        """The ports."""
        for name, number in PODS.items():
            self.dut.add_patch(name, number)
        return Ports(self.dut, self.agent)

    def prepare(self):
        """The agent makes its messages; what the bridge has now is kept for Open vSwitch."""
        _keep(self.bench, self.dut, f"few-{self.pods}")
        self.agent.ask("prepare")

    def sync(self, figures, arrival):
        """The whole cluster."""
        arrival.start()
        start = time.monotonic()
        answer = self.agent.ask("prepared_sync")
        figures["sync s"], figures["of it sending s"] = round(answer["elapsed_s"], 2), round(answer["sent_s"], 2)
        figures["switch's own s"] = answer["took_ms"] / 1000
        figures["forwarded after s"] = arrival.since(start)

    def sizes(self, figures):
        """What it came to; kept for Open vSwitch."""
        state = self.agent.ask("state")
        figures |= {word: state[word] for word in ("flows", "groups", "buckets", "clauses")}
        if state["degraded"]:
            raise Failure(f"something has no effect: {state['degraded']}")
        _keep(self.bench, self.dut, f"all-{self.pods}")

    def change(self, what):
        """Milliseconds of each change."""
        return self.agent.ask(what, CHANGES)["ms"]


class _Ovs:
    """Given what the switch came to."""

    def __init__(self, bench, dut, pods):
        self.bench, self.dut, self.pods = bench, dut, pods
        self.few, self.all = (bench.directory / f"{name}-{pods}" for name in ("few", "all"))
        if not self.all.exists():
            raise Failure("Open vSwitch is given what the switch came to: measure that before (leave out --only)")

    def end(self):
        """Nothing is left."""

    def ports(self):
        """The ports, and what the switch had when it knew only the measured Pods."""
        self.dut.bundle(self.few)
        return Ports(self.dut)

    def prepare(self):
        """Nothing to do."""

    def sync(self, figures, arrival):
        """All that the switch had."""
        arrival.start()
        start = time.monotonic()
        self.dut.bundle(self.all)
        figures["sync s"] = round(time.monotonic() - start, 2)
        figures["forwarded after s"] = arrival.since(start)

    def sizes(self, figures):
        """What there is."""
        figures["flows"] = int(re.search(r"flow_count=(\d+)", self.dut.ofctl("dump-aggregate", "br0"))[1])

    def change(self, what):
        """Milliseconds of each change, the start of ovs-ofctl among it."""
        lines = self.all.read_text().splitlines()
        turns = _endpoint_turns(lines) if what == "endpoint" else _address_turns(lines)
        spent, path = [], self.bench.directory / "change"
        for number in range(CHANGES):
            path.write_text(turns[number % 2])
            start = time.monotonic()
            self.dut.bundle(path)
            spent.append(1000 * (time.monotonic() - start))
        return spent


def _keep(bench, dut, name):
    """What the bridge has, as a bundle for ovs-ofctl."""
    there = document.dumped(dut.daemon, "br0")
    # A meter is not of a bundle; each is added by itself (`Ovs.bundle`).
    lines = [f"meter {line}" for line in there.meters] + [f"group add {line}" for line in there.groups]
    lines += [f"flow add {portable_line(line)}" for line in there.flows]
    (bench.directory / name).write_text("\n".join(lines) + "\n")


def portable_line(line):
    """A flow as dumped, without what was counted and without what Open vSwitch does not have: its
    tracker knows no ct_forget, and no reject."""
    line = re.sub(r"(duration|n_packets|n_bytes|idle_age|hard_age)=[^,]*, ?", "", line.strip())
    head, actions = line.split(" actions=", 1)
    actions = re.sub(r"reject\((?:[^()]|\([^()]*\))*\),?|ct_forget,?", "", actions).rstrip(",")
    return f"{head.replace(', ', ',')} actions={actions or 'drop'}"


def _endpoint_turns(lines):
    """One endpoint of a group is another, and back: a bucket, and a flow of EndpointDNAT."""
    group = next(line for line in lines if line.startswith("group add") and line.count("bucket=") > 1)
    number, old = re.search(r"group_id=(\d+)", group)[1], re.search(r"bucket=bucket_id:1,.*?(?=,bucket=)", group)[0]
    address, port = (int(word, 16) for word in re.search(r"set_field:(0x[0-9a-f]+)->reg3,set_field:(0x[0-9a-f]+)/0xffff", old).groups())
    new = old.replace(f"set_field:{port:#x}/0xffff", "set_field:0x2328/0xffff")
    dnat = next(line for line in lines if f"reg3={address:#x},reg4={0x20000 | port:#x}/0x7ffff" in line)
    head, moved = dnat.removeprefix("flow add "), dnat.removeprefix("flow add ").replace(f"{0x20000 | port:#x}/", "0x22328/").replace(f":{port})", ":9000)")
    change = "group remove_bucket group_id={0},command_bucket_id=1\ngroup insert_bucket group_id={0},command_bucket_id=first,{1}\n"
    strict = [re.sub(r"cookie=[^,]*,", "", text).split(" actions=")[0] for text in (head, moved)]
    return [change.format(number, new) + f"flow add {moved}\nflow delete_strict {strict[0]}\n",
            change.format(number, old) + f"flow add {head}\nflow delete_strict {strict[1]}\n"]


def _address_turns(lines):
    """One address more in clauses of as many rules as name everybody."""
    clauses = {}
    for line in lines:
        if "conjunction(" in line and (found := re.search(r"table=(\d+),.*?priority=(\d+)", line)) and re.search(r"nw_(src|dst)=", line):
            way = "nw_src" if "nw_src=" in line else "nw_dst"
            clauses.setdefault((found[1], found[2], way), set()).update(re.findall(r"conjunction\(\d+,\d/\d\)", line))
    table, priority, way = max(clauses, key=lambda key: len(clauses[key]))
    head = f"table={table},priority={priority},ip,{way}=10.200.0.1"
    some = ",".join(sorted(clauses[table, priority, way])[:5])
    return [f"flow add {head} actions={some}\n", f"flow delete_strict {head}\n"]
