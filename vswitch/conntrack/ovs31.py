#!/usr/bin/env python3
"""Ask Open vSwitch's userspace datapath what it says about random TCP segments and which tuples its
NAT chooses.

usage: ovs31.py RUNDIR tcp SEED CONVERSATIONS > src/tcp/ovs31.txt
       ovs31.py RUNDIR nat SEED > src/nat/ovs31.txt

RUNDIR is where a private ovs-vswitchd runs (--enable-dummy=override) that has a bridge br0 of
datapath_type=dummy with dummy ports p1, p2 and p3, and options:tx_pcap=RUNDIR/p3-tx.pcap on p3. Its
flows, connections and clock are used up.
"""
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import time

RUNDIR, WHAT, SEED = sys.argv[1], sys.argv[2], int(sys.argv[3])
DICE = random.Random(SEED)
CIRCLE = 1 << 32


class Control:
    """A connection to ovs-vswitchd's control socket: one ovs-appctl per question would take ten
    times as long."""

    def __init__(self):
        with open(f"{RUNDIR}/ovs-vswitchd.pid") as file:
            pid = file.read().strip()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(f"{RUNDIR}/ovs-vswitchd.{pid}.ctl")
        self.decoder, self.buffer, self.number = json.JSONDecoder(), "", 0

    def __call__(self, method, *params):
        self.number += 1
        self.socket.sendall(json.dumps({"method": method, "params": params, "id": self.number}).encode())
        while True:
            try:
                answer, end = self.decoder.raw_decode(self.buffer)
            except json.JSONDecodeError:
                self.buffer += self.socket.recv(65536).decode()
                continue
            self.buffer = self.buffer[end:].lstrip()
            if answer["error"]:
                raise SystemExit(f"{method}: {answer['error']}")
            return answer["result"]


control = Control()


def load(flows):
    env = dict(os.environ, OVS_RUNDIR=RUNDIR)
    subprocess.run(["ovs-ofctl", "-O", "OpenFlow15", "del-flows", "br0"], env=env, check=True)
    subprocess.run(["ovs-ofctl", "-O", "OpenFlow15", "add-flows", "br0", "-"], input=flows.encode(), env=env, check=True)
    control("revalidator/purge")


def receive(port, frame):
    control("netdev-dummy/receive", port, frame.hex())
    control("version")
    control("version")


def checksum(data):
    data += b"\0" * (len(data) & 1)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", ~total & 0xFFFF)


def ipv4(src, dst, protocol, payload):
    src, dst = (bytes(map(int, address.split("."))) for address in (src, dst))
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0x4000, 64, protocol, 0) + src + dst
    header = header[:10] + checksum(header) + header[12:]
    return b"\x02\0\0\0\0\2\x02\0\0\0\0\1\x08\0" + header + payload


def tcp(sender, port, flags, seq, ack, window, payload, scale):
    addresses, ports = ["10.0.0.1", "10.0.0.2"], [port, 80]
    options = b"" if scale is None else bytes([3, 3, scale, 0])
    words = (ports[sender], ports[1 - sender], seq, ack, (5 + len(options) // 4) << 4, flags, window, 0, 0)
    segment = struct.pack(">HHIIBBHHH", *words) + options + b"x" * payload
    pseudo = bytes([10, 0, 0, 1, 10, 0, 0, 2]) + struct.pack(">BBH", 0, 6, len(segment))
    segment = segment[:16] + checksum(pseudo + segment) + segment[18:]
    return ipv4(addresses[sender], addresses[1 - sender], 6, segment)


def flags_of(style):
    """Who sends which flags: the beginning by style (handshake, middle, random, both open), the
    rest by chance."""
    script = {
        "H": [(0, 2), (1, 18), (0, 16)],
        "M": [(0, DICE.choice([16, 24, 17, 4, 20]))],
        "S": [(0, 2), (1, 2), (DICE.randrange(2), DICE.choice([16, 18]))],
        "R": [],
    }[style]
    likely = [16] * 10 + [24] * 4 + [17] * 3 + [4, 20, 20, 2, 18, 0, 1, 3, 6, 41, 32, 2 | 64 | 128, 25]
    script += [(DICE.randrange(2), DICE.choice(likely)) for _ in range(DICE.randrange(2, 14))]
    if DICE.random() < 0.3:
        script += [(0, 17), (1, 17), (0, 16), (DICE.randrange(2), 2)]
    return script


def conversation():
    isns = [1000, 0, CIRCLE - 500, CIRCLE - 70000, 0x7FFFFF00, 0x80000010, DICE.randrange(CIRCLE)]
    following = [DICE.choice(isns) for _ in range(2)]
    windows = [DICE.choice([0, 1, 1000, 8192, 65535]) for _ in range(2)]
    scales = [DICE.choice([None, None, 0, 2, 7, 14, 15, 255]) for _ in range(2)]
    edges = [1, 2, 10, 999, 1000, 1001, 2000, 2001, 65535, 65536, 67034, 67035, 67036, 67037, 200000, 9000000, 1 << 30]
    edges += [-edge for edge in edges] + [CIRCLE // 2, CIRCLE // 2 - 1]
    for number, (sender, flags) in enumerate(flags_of(DICE.choice("HHHHMMRS"))):
        wild = DICE.random() < 0.35 and number >= (3 if DICE.random() < 0.8 else 1)
        seq, ack = following[sender], following[1 - sender]
        payload = DICE.choice([0] * 9 + [5]) if flags & 6 else DICE.choice([0, 0, 0, 1, 10, 100, 999, 1000, 1001, 1400])
        window = DICE.choice([windows[sender]] * 6 + [0, 1, 65535])
        if wild:
            where = DICE.random()
            if where < 0.55:
                seq += DICE.choice(edges + [window << min(scales[1 - sender] or 0, 14)])
            if where > 0.45:
                ack += DICE.choice(edges + [-ack])
        ack = ack % CIRCLE if flags & 16 or DICE.random() < 0.5 else 0
        if flags == 20 and DICE.random() < 0.3:
            ack = 0
        scale = scales[sender] if flags & 2 else DICE.choice([None] * 9 + [3])
        yield sender, flags, seq % CIRCLE, ack, window, payload, scale
        if not wild:
            following[sender] = (seq + payload + bool(flags & 1) + bool(flags & 2)) % CIRCLE


def entry(port):
    """What the dumps show of a connection."""
    ends = [f"orig=(src=10.0.0.1,dst=10.0.0.2,sport={port},", f"orig=(src=10.0.0.2,dst=10.0.0.1,sport=80,dport={port}"]
    short, long = (
        [line for line in control("dpctl/dump-conntrack", *options, "zone=1").splitlines() if any(end in line for end in ends)]
        for options in ([], ["-m", "-s"])
    )
    if not long:
        return "-"
    words = [re.search(r"\(state=(\w+)", short[0])[1]]
    for key in ("state_orig", "state_reply", "wscale_orig", "wscale_reply", "timeout"):
        found = re.search(key + r"=([^,)]*)", long[0])
        words.append(found[1] if found else "0")
    return " ".join(words)


def ct_state(pcap):
    """From the one packet that has left since: the flows write it into the destination address."""
    data = b""
    for _ in range(2000):
        data += pcap.read()
        if len(data) > 16:
            break
        control("version")
        time.sleep(0.001)
    assert len(data) == 16 + struct.unpack("<I", data[8:12])[0], "not one packet"
    return struct.unpack(">I", data[18:22])[0]


def ask_tcp(conversations):
    show = "move:NXM_NX_CT_STATE[0..31]->NXM_OF_ETH_DST[0..31],output:3"
    load(
        "table=0,ip,actions=ct(zone=1,table=1)\n"
        f"table=1,priority=9,ip,ct_state=+new+trk,actions={show},ct(commit,zone=1)\n"
        f"table=1,priority=1,ip,actions={show}\n"
    )
    control("time/stop")
    print("# Open vSwitch 3.1.0, userspace datapath, asked by ovs31.py; random conversations, seed", SEED)
    print("# direction flags seq ack window payload scale > ct_state state state_orig state_reply wscale_orig wscale_reply seconds left; `-`: none")
    print("# One second passes before each segment. What is `new` is committed. In conversations that are `unchecked` windows are not checked.")
    with open(f"{RUNDIR}/p3-tx.pcap", "rb") as pcap:
        pcap.seek(0, 2)
        for number in range(conversations):
            how = "disable" if number % 5 == 4 else "enable"
            control(f"dpctl/ct-{how}-tcp-seq-chk")
            print("conversation", number, "unchecked" if how == "disable" else "checked")
            port = 2000 + number % 60000
            for sender, flags, seq, ack, window, payload, scale in conversation():
                control("time/warp", "1000", "1000")
                receive(f"p{sender + 1}", tcp(sender, port, flags, seq, ack, window, payload, scale))
                state = ct_state(pcap)
                control("revalidator/purge")
                segment = f"{sender} 0x{flags:02x} {seq} {ack} {window} {payload} {'-' if scale is None else scale}"
                print(segment, ">", f"0x{state:02x}", entry(port))
            control("dpctl/flush-conntrack")
    control("dpctl/ct-enable-tcp-seq-chk")


def ask_nat():
    print("# Open vSwitch 3.1.0, userspace datapath, asked by ovs31.py; new UDP connections one after the other, seed", SEED)
    print("# nat SIDE FIRST_ADDRESS LAST_ADDRESS PORTS, then: source port destination port > source port destination port of the replies; `-`: none")
    ports = [1, 2, 510, 511, 512, 513, 598, 599, 600, 601, 1021, 1022, 1023, 1024, 1025, 1026, 30000, 65533, 65534, 65535]
    for side, address, range_ in [
        ("src", "10.0.9.77", ""),
        ("dst", "10.0.9.9", "80"),
        ("dst", "10.0.9.9", ""),
        ("src", "0.0.0.0", ""),
        ("src", "10.0.9.77", "5000"),
    ]:
        load(f"udp,actions=ct(commit,zone=1,nat({side}={address}{range_ and ':' + range_}))\n")
        control("dpctl/flush-conntrack")
        print("nat", side, address, address, range_ or "-")
        asked = set()
        for _ in range(90):
            near = DICE.choice([ports, [511, 510, 1], [1023, 600, 512], [65535, 1024]])
            src, sport = f"10.0.0.{DICE.randrange(1, 7)}", DICE.choice(near)
            dst, dport = f"10.0.1.{DICE.randrange(1, 3)}", DICE.choice([53, 53, 80])
            original = (src, sport, dst, dport)
            if original in asked:
                continue
            asked.add(original)
            receive("p1", ipv4(src, dst, 17, struct.pack(">HHHH", sport, dport, 12, 0) + b"abcd"))
            control("revalidator/purge")
            wanted = f"orig=(src={src},dst={dst},sport={sport},dport={dport})"
            for _ in range(20):
                lines = [line for line in control("dpctl/dump-conntrack", "zone=1").splitlines() if wanted in line]
                if lines:
                    break
                time.sleep(0.002)
            reply = "-"
            if lines:
                found = re.search(r"reply=\(src=([^,]*),dst=([^,]*),sport=(\d+),dport=(\d+)", lines[0])
                reply = " ".join([found[1], found[3], found[2], found[4]])
            print(*original, ">", reply)
    control("dpctl/flush-conntrack")


if WHAT == "tcp":
    ask_tcp(int(sys.argv[4]))
else:
    ask_nat()
