"""What established connections keep of their rate while something else goes on: changes of flows,
dumps, attacks from another port."""

import contextlib
import random
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from statistics import median

from vsw import machine, netns
from vsw.antrea import world
from vsw.machine import Failure

from . import captures, document, policies
from .captures import SYN, TCP, UDP, Traffic, ip_frame, tcp_header
from .established import SETTLE_S, Players, capture_of, establish
from .switch import MBUFS

TABLES = {name: number for number, name in enumerate(world.TABLES)}
CHANGES_PER_S, BATCH = 1000, 50
ATTACK_BITS_PER_S = 1_000_000
ATTACK_PACKETS, STORM_PACKETS = 16_384, 100_000
ATTACKER = world.DB  # a Pod beside those whose connections are measured
TRAFFIC = Traffic("pod")
WAYS_OUT = ("tap0", "tap2")  # where the document leads the Pods' packets, and where `effect` does
EFFECTS = 300  # changes of which the effect is timed


def legitimate(dut):
    """Packets received from the two Pods that talk, and sent to where the document leads them; of
    nobody else."""
    ports = dut.ports()
    return ports["client"][0] + ports["web"][0], sum(ports[name][1] for name in WAYS_OUT)


def case(connections, disturb, what, attacker=False):
    """The case: first calm, then disturbed. `disturb(bench, dut)` is a context manager that gives a
    function of the seconds to measure, or None to sleep, and a dict of figures which it may fill
    in."""

    def run(bench, device, round_):
        capture = capture_of(bench, TRAFFIC, range(connections))
        with contextlib.ExitStack() as stack:
            if attacker:
                stack.enter_context(_wire(bench))
            dut = bench.start(device, stack, mbufs=MBUFS + 2 * connections)
            dut.load(document.program(TRAFFIC))
            players = Players(dut)
            shown = establish(dut, players, TRAFFIC, connections, capture)
            if attacker:
                dut.del_port("db")
                dut.add_port("db", document.NUMBERS["db"], f"net_af_packet_db,iface={_ends(bench)[0]}")
            for phase in ("data", "rdata"):
                players.play(TRAFFIC.port(phase), capture(phase))
            time.sleep(SETTLE_S)
            read = partial(legitimate, dut)
            calm = dut.measure(bench.seconds, read=read)
            figures = {"calm Mpps": calm.mpps}
            with disturb(bench, dut, figures) as body:
                result = dut.measure(bench.seconds, body or time.sleep, read)
            result.established = shown
            result.figures = figures | {"kept %": round(100 * result.rate / calm.rate, 1)}
            return result

    run.__doc__ = f"{connections:,} established connections between Pods {what}."
    run.devices = ("switch", "ovs")
    return run


def _ends(bench):
    """Names of the attacker's wire: the device's end and the attacker's."""
    return f"vsp{bench.tag % 10**7}a", f"vsp{bench.tag % 10**7}b"


@contextlib.contextmanager
def _wire(bench):
    """A pair of interfaces."""
    near, far = _ends(bench)
    netns.ip("link", "add", near, "type", "veth", "peer", "name", far)
    try:
        for end in (near, far):
            netns.ip("link", "set", end, "addrgenmode", "none")
            netns.ip("link", "set", end, "arp", "off", "up")
        yield
    finally:
        netns.ip("link", "delete", near)


class _Changes(threading.Thread):
    """Changes flows in two turns, for ever, at a rate."""

    def __init__(self, dut, turns, rate):
        super().__init__(daemon=True)
        self.dut, self.turns, self.rate = dut, turns, rate
        self.done, self.error, self.ended = 0, None, threading.Event()

    def run(self):
        """Until `ended`; keeps to the rate on average, as far as the device lets it."""
        start, number = time.monotonic(), 0
        try:
            while not self.ended.is_set():
                path, count = self.turns[number % len(self.turns)]
                self.dut.change(path)
                self.done, number = self.done + count, number + 1
                self.ended.wait(max(0.0, start + self.done / self.rate - time.monotonic()))
        except Failure as error:
            self.error = error


@contextlib.contextmanager
def _churning(bench, dut, figures, turns):
    files = []
    for number, lines in enumerate(turns):
        path = bench.directory / f"turn-{number}"
        path.write_text("\n".join(lines) + "\n")
        files.append((path, len(lines)))
    changes = _Changes(dut, files, CHANGES_PER_S)

    def body(seconds):
        before = changes.done
        time.sleep(seconds)
        figures["changes/s"] = round((changes.done - before) / seconds)

    changes.start()
    try:
        yield body
    finally:
        changes.ended.set()
        changes.join()
    if changes.error:
        raise changes.error


def churn_apart(bench, dut, figures):
    """Flows that the traffic does not match come and go in two tables which all of its packets
    visit."""
    heads = [f"table={TABLES['AntreaPolicyEgressRule']},priority=65000,ip,nw_src=203.0.113.{n}" for n in range(BATCH // 2)]
    heads += [f"table={TABLES['L3Forwarding']},priority=250,ip,nw_dst=203.0.113.{n}" for n in range(BATCH // 2)]
    return _churning(bench, dut, figures, ([f"add {head},actions=drop" for head in heads], [f"delete_strict {head}" for head in heads]))


def churn_matching(bench, dut, figures):
    """The flows that the traffic hits change their actions: a register that nobody reads gets
    another value."""
    hit = hit_flows(dut.dump_flows())
    if not hit:
        raise Failure("no flow is hit")
    turns = [[f"modify_strict {head},actions=set_field:{value}->reg12,{actions}" for head, actions in hit] for value in (1, 2)]
    return _churning(bench, dut, figures, turns)


def hit_flows(text):
    """(match with table and priority, actions) of the flows of a dump that have taken packets and
    lead on to another table."""
    found = []
    for line in text.splitlines():
        if " n_packets=0," in line or "n_packets=" not in line:
            continue
        head, actions = line.strip().split(" actions=", 1)
        if actions.startswith(("goto_table", "set_field")) and "goto_table" in actions:
            table = head.split("table=", 1)[1].split(",", 1)[0]
            found.append((f"table={table},{head.rsplit(' ', 1)[1]}", actions))
    return found


@contextlib.contextmanager
def effect(bench, dut, figures):
    """The flow that sends all packets leads them to another port, and back. Timed is when the old
    port is known to get no more, after the reply."""
    flow = f"modify_strict table={TABLES['Output']},priority=211,reg0=0x200000/0x600000,reg4=0x800000/0xc00000"
    paths = []
    for name in reversed(WAYS_OUT):
        paths.append(bench.directory / f"way-{name}")
        paths[-1].write_text(f"{flow},actions=output:{document.NUMBERS[name]}\n")

    def body(_seconds):
        late = []
        for number in range(EFFECTS):
            dut.change(paths[number % 2])
            replied = time.monotonic()
            late.append(1000 * (silent_at(dut, WAYS_OUT[number % 2]) - replied))
        figures["effect ms, median"], figures["effect ms, longest"] = round(median(late), 1), round(max(late), 1)

    yield body


def silent_at(dut, name, limit=10.0):
    """The first time at which a port was seen to have sent all that it sends; Failure when it goes
    on."""
    deadline = time.monotonic() + limit
    sent, at = dut.ports()[name][1], time.monotonic()
    while time.monotonic() < deadline:
        now = dut.ports()[name][1]
        if now == sent:
            return at
        sent, at = now, time.monotonic()
    raise Failure(f"{name} still sends packets {limit} s after it should not")


@contextlib.contextmanager
def load(bench, dut, figures):
    """100,000 flows of policies in one transaction."""
    path = bench.directory / "policies"
    count = policies.write(path, 100_000 // 23 + 1)

    def body(_seconds):
        start = time.monotonic()
        dut.change(path)
        figures["flows"], figures["load s"] = count, round(time.monotonic() - start, 2)

    yield body


@contextlib.contextmanager
def dump(bench, dut, figures):
    """All connections and all flows are shown again and again."""

    def body(seconds):
        start, count = time.monotonic(), 0
        while time.monotonic() < start + seconds:
            dut.dump_connections()
            dut.dump_flows()
            count += 1
        figures["dumps/s"] = round(count / (time.monotonic() - start), 2)

    yield body


@contextlib.contextmanager
def _attacking(bench, dut, figures, packets, rate):
    path = bench.directory / "attack.pcap"
    captures.write(path, packets)
    argv = [sys.executable, "-B", Path(__file__).with_name("send.py"), _ends(bench)[1], path, rate]
    sender = machine.spawn(argv, use_cores={bench.other_core}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def body(seconds):
        before = dut.ports()["db"][0]
        time.sleep(seconds)
        figures["attack kpps"] = round((dut.ports()["db"][0] - before) / seconds / 1e3, 2)

    try:
        yield body
    finally:
        machine.end(sender)
    if figures["attack kpps"] == 0:
        raise Failure("the attack's packets did not come in")


def explosion(bench, dut, figures):
    """The attacker's own policy allows one address, one source and one destination port; its
    packets differ from these in every bit by turn, so that deciding about each takes other bits."""
    match = f"table={TABLES['AntreaPolicyEgressRule']},priority=14400,tcp,nw_src={ATTACKER.v4}"
    lines = [f"{match},{allowed},actions=goto_table:{TABLES['EgressMetric']}" for allowed in ("nw_dst=203.0.113.77", "tp_dst=8080", "tp_src=12345")]
    lines.append(f"{match},actions=drop".replace("14400", "14300"))
    path = bench.directory / "attacker"
    path.write_text("\n".join(lines) + "\n")
    dut.change(path)
    rate = ATTACK_BITS_PER_S / 8 / (captures.MINIMUM + captures.FCS)
    return _attacking(bench, dut, figures, exploding(ATTACK_PACKETS), rate)


def exploding(count):
    """SYNs whose addresses and ports differ from the allowed ones from some bit on."""
    chance = random.Random(33)

    def apart(value, width):
        keep = chance.randrange(width)  # bits that are as in the value; the next one is not
        rest = width - keep - 1
        return (value >> rest ^ 1) << rest | chance.getrandbits(width) & (1 << rest) - 1

    for _ in range(count):
        to = apart(0xCB00714D, 32)
        address = ".".join(str(to >> shift & 255) for shift in (24, 16, 8, 0))
        segment = tcp_header(apart(12345, 16), apart(8080, 16), SYN, 1, 0)
        yield ip_frame(world.GATEWAY_MAC, ATTACKER.mac, ATTACKER.v4, address, TCP, segment)


def storm(bench, dut, figures):
    """Every packet goes to another MAC address, which a table matches: none is like one before."""
    datagram = b"\x10\x00\x00\x35\x00\x1a\x00\x00" + bytes(18)
    addresses = (f"06:00:{n >> 24 & 255:02x}:{n >> 16 & 255:02x}:{n >> 8 & 255:02x}:{n & 255:02x}" for n in range(STORM_PACKETS))
    packets = (ip_frame(mac, ATTACKER.mac, ATTACKER.v4, "203.0.113.1", UDP, datagram) for mac in addresses)
    return _attacking(bench, dut, figures, packets, 0)
