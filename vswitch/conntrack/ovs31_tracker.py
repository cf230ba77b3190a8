#!/usr/bin/env python3
"""Asks Open vSwitch 3.1 what it makes of random conversations; prints src/tracker/tests/ovs31.txt.

    ovs31_tracker.py SEED CONVERSATIONS > src/tracker/tests/ovs31.txt

Needs Debian 12's openvswitch-switch (3.1.0); starts one of its own with dummy ports in a temporary
directory. That version falls over now and then: what it said until then is printed.
"""
import glob, json, os, random, re, socket, struct, subprocess, sys, tempfile, time

# What a packet that comes in by port 1, 2, ... meets; the last one writes table=9.
REQUESTS = ["", "nat", "commit", "commit mark=3/0xf", "commit src=77 mark=5", "commit dst=9", "commit force",
            "nat ; commit mark=3/0xf", " ; commit src=77", "commit dst=9 ; commit mark=5", " ; nat", "nat ; nat", "commit src=77 ; "]
MIXES = [[1, 3, 4], [1, 2, 3, 5], [1, 2, 5, 2, 2], [1, 2, 6, 2], [2, 5, 6, 2], [1, 3, 4, 7], [2, 6, 4, 1, 2],
         [8, 9, 11], [2, 10, 8, 12], [12, 13, 8], [9, 12, 11, 8]]


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def address(number):
    return bytes([10, 0, 0, int(number)])


def put(data, at, value):
    return data[:at] + struct.pack("!H", value) + data[at + 2:]


def ip(protocol, src, dst, body):
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0) + address(src) + address(dst)
    return put(head, 10, checksum(head)) + body


def pseudo(protocol, src, dst, body):
    return checksum(address(src) + address(dst) + struct.pack("!BBH", 0, protocol, len(body)) + body)


def packet(text):
    """The IPv4 packet of a line (see tests/talk.rs)."""
    if text.startswith("error "):
        src, dst, inner = re.match(r"error (\d+)>(\d+) about (.*)", text).groups()
        body = bytes([3, 1, 0, 0, 0, 0, 0, 0]) + packet(inner)[:28]
        return ip(1, src, dst, put(body, 2, checksum(body)))
    words = text.split()
    src, sport, dst, dport, id_ = re.match(r"(\d+)(?::(\d+))?>(\d+)(?::(\d+))?(?:#(\d+))?", words[1]).groups()
    if words[0] == "udp":
        body = struct.pack("!HHHH", int(sport), int(dport), 8, 0)
        return ip(17, src, dst, put(body, 6, pseudo(17, src, dst, body)))
    if words[0] in ("ping", "pong"):
        body = struct.pack("!BBHHH", 8 if words[0] == "ping" else 0, 0, 0, int(id_), 0)
        return ip(1, src, dst, put(body, 2, checksum(body)))
    options = dict(word.split("=") for word in words if "=" in word)
    number = lambda name, default=0: int(options.get(name, default))
    flags = sum(1 << "FSRPAU".index(flag) for flag in (words[2] if len(words) > 2 else "A"))
    body = struct.pack("!HHIIBBHHH", int(sport), int(dport), number("seq"), number("ack"), 0x50, flags,
                       number("win", 65535), 0, 0) + b"x" * number("len")
    return ip(6, src, dst, put(body, 16, pseudo(6, src, dst, body)))


class Oracle:
    def __init__(self, directory):
        os.environ.update(OVS_RUNDIR=directory, OVS_LOGDIR=directory, OVS_DBDIR=directory)
        os.chdir(directory)
        database = f"--db=unix:{directory}/db.sock"
        run = lambda *command: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        run("ovsdb-tool", "create", "conf.db", "/usr/share/openvswitch/vswitch.ovsschema")
        run("ovsdb-server", "--detach", "--no-chdir", "--pidfile", "--log-file", "-vconsole:off",
            f"--remote=punix:{directory}/db.sock", "conf.db")
        run("ovs-vsctl", database, "--no-wait", "init")
        run("/usr/lib/openvswitch-switch/ovs-vswitchd", "--enable-dummy=override", "--disable-system",
            "--disable-system-route", "--detach", "--no-chdir", "--pidfile", "--log-file", "-vconsole:off",
            f"unix:{directory}/db.sock")
        run("ovs-vsctl", database, "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy",
            "fail_mode=secure", "protocols=OpenFlow15")
        for port in range(1, len(REQUESTS) + 1):
            run("ovs-vsctl", database, "add-port", "br0", f"p{port}", "--", "set", "interface", f"p{port}",
                "type=dummy", f"ofport_request={port}")
        with open("flows", "w") as flows:
            for port, request in enumerate(REQUESTS, 1):
                for stage, part in enumerate(request.split(" ; ")):
                    last = stage == request.count(" ; ")
                    flows.write(f"table={stage},in_port={port},ip actions={ct(part, 9 if last else 1)}\n")
            flows.write("table=9,actions=controller\n")
        run("ovs-ofctl", "-O", "OpenFlow15", "add-flows", "br0", "flows")
        log = open("monitor.log", "w")
        subprocess.run(["ovs-ofctl", "-O", "OpenFlow15", "monitor", "br0", "65534", "-P", "nxt_packet_in", "--detach",
                        "--no-chdir", "--pidfile=monitor.pid"], stderr=log, check=True)
        self.monitor = open("monitor.log")
        self.control = socket.socket(socket.AF_UNIX)
        self.control.connect(glob.glob("ovs-vswitchd.*.ctl")[0])
        self.ask("time/stop")

    def ask(self, method, *parameters):
        self.control.send(json.dumps({"method": method, "params": parameters, "id": 0}).encode())
        answer = b""
        while True:
            answer += self.control.recv(65536)
            try:
                return json.loads(answer)
            except ValueError:
                pass

    def inject(self, port, text):
        """What the packet was when it came to table 9: metadata and headers."""
        self.monitor.read()
        self.ask("netdev-dummy/receive", f"p{port}", (bytes(range(2, 14)) + b"\x08\x00" + packet(text)).hex())
        self.ask("version")
        self.ask("version")
        lines, end = "", time.time() + 3
        while time.time() < end:
            lines += self.monitor.read()
            whole = [line for line in lines.split("\n")[:-1] if line and "ECHO" not in line]
            if len(whole) >= 2:
                self.ask("revalidator/purge")
                return whole
            time.sleep(0.002)
        raise RuntimeError(f"{text} is lost")


def ct(request, table):
    arguments = ["zone=1", f"table={table}"]
    for word in request.split():
        name, _, value = word.partition("=")
        if name == "mark":
            value, _, mask = value.partition("/")
            arguments.append(f"exec(load:{value}->NXM_NX_CT_MARK[{'0..3' if mask else ''}])")
        else:
            arguments.append(f"nat({name}=10.0.0.{value})" if value else name)
    return f"ct({','.join(arguments)})"


def field(line, name):
    found = re.search(rf"(?:^|[ ,]){name}=([^, ]+)", line)
    return found and found[1].replace("10.0.0.", "")


def shown(text, metadata, headers):
    """Outcome as tests/talk.rs writes it, and the ends of the packet as it goes on."""
    is_error = text.startswith("error ")
    name, ends = (text.split(" about ")[1] if is_error else text).split()[:2]
    _, _, id_ = ends.partition("#")
    write = lambda a, b, c, d: f"{a}>{c}#{id_}" if name in ("ping", "pong") else f"{a}:{b}>{c}:{d}"
    outcome = field(metadata, "ct_state")
    if mark := field(metadata, "ct_mark"):
        outcome += f" mark={int(mark, 16)}"
    if field(metadata, "ct_nw_src") is None:
        outcome += " orig ?"
    else:
        original = write(*(field(metadata, "ct_" + name) for name in ("nw_src", "tp_src", "nw_dst", "tp_dst")))
        outcome += f" orig {original}" if original != ends else ""
    src, dst = field(headers, "nw_src"), field(headers, "nw_dst")
    if is_error:
        was = re.match(r"error (\d+)>(\d+)", text).groups()
        now = ["-" if a == b else a for a, b in zip((src, dst), was)]
        return outcome + (f" as {now[0]}>{now[1]}" if now != ["-", "-"] else ""), None
    now = write(src, field(headers, "tp_src"), dst, field(headers, "tp_dst"))
    return outcome + (f" as {now}" if now != ends else ""), (name, now)


def tcp(ends):
    flags = random.choice("S S S SA SA A A A PA PA FA RA R F SF".split())
    is_client = ends.endswith(":80")
    seq = random.choice([100, 101, 101, 102]) + (0 if is_client else 400)
    ack = random.choice([100, 101, 101, 102]) + (400 if is_client else 0)
    if flags in ("S", "SA"):
        seq = 100 if is_client else 500
    seq += 100_000 * (random.random() < 0.05)
    ack += 900_000 * (random.random() < 0.05)
    length = " len=10" if flags == "PA" else ""
    return f"{flags} seq={seq} ack={ack} win={random.choice([10, 1000, 65535])}{length}"


def line(went, kinds):
    """A packet, or an error about one: new, or seen before, or an answer."""
    if went and random.random() < 0.55:
        name, ends = random.choice(went[-4:])
        if random.random() < 0.7:
            ends = re.sub(r"([^>]+)>([^#]+)", r"\2>\1", ends)
            name = {"ping": "pong", "pong": "ping"}.get(name, name)
    else:
        name, client, server = random.choice(kinds), random.randint(1, 2), random.choice([2, 5])
        ends = f"{client}:{random.choice([1000, 2000])}>{server}:80"
        if name == "ping":
            ends = f"{client}>{server}#{client + 10 * server}"
    if random.random() < 0.08 and name != "pong":
        src, dst = (re.split("[:#]", end)[0] for end in ends.split(">"))
        return f"error {random.choice([dst, '50'])}>{src} about {name} {ends}"
    return f"{name} {ends} {tcp(ends)}" if name == "tcp" else f"{name} {ends}"


def main():
    random.seed(int(sys.argv[1]))
    oracle = Oracle(tempfile.mkdtemp())
    for _ in range(int(sys.argv[2])):
        print("--", flush=True)
        oracle.ask("dpctl/flush-conntrack")
        oracle.ask("time/warp", "1000", "100")
        kinds = random.choice([["tcp"], ["tcp"], ["udp"], ["udp", "ping", "tcp"], ["ping"], ["tcp", "udp"]])
        went, mix = [], random.choice(MIXES)
        for _ in range(random.randint(8, 30)):
            if random.random() < 0.06:
                wait = random.choice([5100, 20100, 31100, 46100, 61100])
                oracle.ask("time/warp", str(wait), str(wait // 5))
                print(f"wait {wait}")
                continue
            text = line(went, kinds)
            port = random.choice([1, 2, 4]) if text.startswith("error ") and 7 in mix else random.choice(mix)
            outcome, now = shown(text, *oracle.inject(port, text))
            went += [now] if now else []
            print(f"{text} | {REQUESTS[port - 1]} | {outcome}", flush=True)


def stop():
    for name in ("monitor", "ovs-vswitchd", "ovsdb-server"):
        try:
            os.kill(int(open(f"{name}.pid").read()), 15)
        except (OSError, ValueError):
            pass


try:
    main()
except (ConnectionError, RuntimeError) as why:
    print(f"stopped: {why!r}", file=sys.stderr)
finally:
    stop()
