"""Linux guests in QEMU (without KVM) on vhost-user ports."""

import contextlib
import json
from statistics import quantiles

from vsw import guest, machine
from vsw.machine import Failure

from .sample import Interval, all_ports

SIDES = ("a", "b")
# A device with all offloads, and one with none: checksums and segments are made by the guest's
# kernel.
WAYS = {"on": "", "off": ",".join(f"{name}=off" for name in (
    "csum", "guest_csum", "gso", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo", "host_tso4", "host_tso6", "host_ecn", "host_ufo"))}
REACH_S = 20
# Short transfers of both ways in turn, for each second that was asked for: what disturbs a virtual
# machine lasts for some of them, and is alike for neighbours.
TRANSFER_S, TURNS = 1, 3


def tcp(bench, device, round_):
    """TCP from one Linux guest to another, with all offloads and with none; cycles are for 1,000
    bytes, with all."""
    boot = guest.image(bench.directory)
    settings = bench.ovs_settings
    with contextlib.ExitStack() as stack:
        # Open vSwitch has TSO only if it is told so at start.
        bench.ovs_settings = [*settings, "userspace-tso-enable=true"]
        stack.callback(setattr, bench, "ovs_settings", settings)
        dut = bench.start(device, stack, fail_mode="standalone") if device == "switch" else bench.start(device, stack)
        if device == "ovs":
            dut.ofctl("add-flow", "br0", "actions=normal")
        guests = []
        for i, side in enumerate(SIDES):
            nics = [(bench.directory / f"{side}-{way}.sock", f"{i + 1:02x}:{n:02x}", features) for n, (way, features) in enumerate(WAYS.items())]
            for n, (path, _, _) in enumerate(nics):
                dut.add_vhost(path.stem, 1 + 2 * i + n, path)
            guests.append(guest.Guest(boot, bench.directory, side, nics, [bench.other_core]))
            stack.callback(guests[-1].stop)
        for i, each in enumerate(guests):
            each.wait_ready()
            each.run("sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 net.ipv4.conf.all.rp_filter=0")
            for n in range(len(WAYS)):
                each.run(f"ip link set eth{n} up && ip address add 10.{n}.0.{i + 1}/24 dev eth{n}")
        guests[1].run("iperf3 -s -D")
        addresses, seconds = {way: f"10.{n}.0.2" for n, way in enumerate(WAYS)}, max(1, round(bench.seconds))
        for address in addresses.values():
            _warm_up(guests[0], address)
        turns = [{way: _transfer(dut, guests[0], address) for way, address in addresses.items()} for _ in range(TURNS * seconds)]
        for each in guests:
            if wrong := each.run("nstat -asz | awk '/Csum/ && $2 != 0'"):
                raise Failure(f"guest {each.name} received wrong checksums: {wrong}")
        result = _sample(bench, turns)
        if recorder := getattr(dut, "recorder", None):
            # Behind what is measured: one transfer that lasts as long as other cases are recorded.
            with recorder.recording(dut.pid):
                guests[0].run(f"iperf3 -c {addresses['on']} -t {seconds}")
            result.functions = recorder.functions(result.cycles_per_packet)
        return result


def _warm_up(sender, address):
    machine.wait_until(f"guest {sender.name} to reach {address}", REACH_S, lambda: _reaches(sender, address))
    sender.run(f"iperf3 -c {address} -t 1")


def _transfer(dut, sender, address):
    """(Interval, work of the device, what iperf3 says of the receiver) of a moment of TCP."""
    dut.clear()
    with Interval(dut.pid, lambda: all_ports(dut)) as interval:
        report = json.loads(sender.run(f"iperf3 -c {address} -t {TRANSFER_S} -J"))
    return interval, dut.work(), report["end"]["sum_received"]


def _reaches(sender, address):
    try:
        sender.run(f"ping -n -c 1 -W 1 {address}")
    except Failure:
        return False
    return True


def _cycles_per_kb(transfer):
    interval, work, received = transfer
    return 1000 * work.busy_cycles * interval.on_core / received["bytes"]


def _sample(bench, turns):
    """Packets are thousands of bytes, of the transfer with offloads. Of each way's transfers the
    one of median cycles counts; of ratios the median of neighbours'."""
    results = {way: sorted((turn[way] for turn in turns), key=_cycles_per_kb)[len(turns) // 2] for way in WAYS}
    per_kb = {way: _cycles_per_kb(transfer) for way, transfer in results.items()}
    interval, _, received = results["on"]
    interval.received = interval.sent = received["bytes"] // 1000
    result = interval.busy_sample(bench.tsc_hz(), per_kb["on"] / interval.on_core)
    for way, (_, work, received) in results.items():
        result.figures[f"Mbit/s, offloads {way}"] = round(received["bits_per_second"] / 1e6, 1)
        result.figures[f"cycles per 1,000 bytes, offloads {way}"] = round(per_kb[way], 1)
        result.figures[f"bytes per packet, offloads {way}"] = round(received["bytes"] / max(1, work.packets), 1)
    ratios = quantiles((_cycles_per_kb(turn["off"]) / _cycles_per_kb(turn["on"]) for turn in turns), n=4)
    for name, ratio in zip((", a quarter is below", "", ", a quarter is above"), ratios):
        result.figures[f"off / on{name}"] = round(ratio, 2)
    return result


tcp.devices = ("switch", "ovs")
