"""The commands that are recorded: every field and action of the language, and every message."""

from pathlib import Path

from . import raw

HERE = Path(__file__).parent
# Loads of whole fields: Open vSwitch remembers that they came as loads, this switch does not.
LOADS = ["table=10,actions=load:0x1005->NXM_OF_VLAN_TCI[],load:5->NXM_NX_REG0[],load:7->OXM_OF_METADATA[]",
         "table=10,arp,actions=load:2->NXM_OF_ARP_OP[]"]
OPTIONS = ["table=8,priority=1,tun_metadata0=5,actions=drop", "table=8,priority=2,tun_metadata1=0x1234/0xffff,actions=drop",
           "table=8,priority=3,actions=set_field:7->tun_metadata0,move:reg0[]->tun_metadata0[0..31],delete_field:tun_metadata1"]
ETHERNET = "ffffffffffff020000000001"
ARP = ETHERNET + "08060001080006040001" + "0200000000010a000001" + "0000000000000a000002" + "00" * 18
IPV4 = ETHERNET + "080045000014000000004006" + "66e3" + "0a0000010a000002" + "00" * 26
# Replies that a background command waits for: the type of the message, and how many of them.
BARRIER = (21, 1)


def run(command, lines=(), fails=False):
    """A command of ovs-ofctl, its standard input, and whether it may fail."""
    return {"ofctl": command.split(), "lines": list(lines), "fails": fails}


def background(command, until, *during):
    """One that stays until so many messages of a type have come; and what is done meanwhile."""
    return {"ofctl": command.split(), "background": True, "ready": BARRIER, "until": until, "during": during}


def _lines(name):
    """The lines of a file beside this one."""
    return (HERE / name).read_text().splitlines()


def matches():
    """A flow for each match. `-` matches everything."""
    for match in _lines("matches.txt"):
        yield ",".join(filter(None, ("" if "table" in match else "table=1", match.removeprefix("-"), "actions=drop")))


def actions():
    """A flow for each list of actions, behind a match that makes their fields be there."""
    for number, line in enumerate(_lines("actions.txt")):
        match, done = line.split(" ", 1)
        yield ",".join(filter(None, ("table=2", f"priority={number}", match.removeprefix("-"), f"actions={done}")))


def _switch():
    yield from map(run, ("show", "dump-ports", "dump-ports 2", "dump-ports-desc", "dump-ports-desc 2", "dump-tables", "dump-desc"))
    yield from map(run, ("get-frags", "set-frags drop", "set-frags normal", "dump-table-features"))
    yield run("mod-port 1 no-flood", fails=True)
    yield from map(run, ("mod-port 1 down", "mod-port p1 up"))
    yield from (run(command, fails=True) for command in ("mod-table 1 controller", "dump-table-desc", "dump-ipfix-bridge", "queue-stats"))
    yield from map(run, ("ping", "probe"))


def _meters():
    meters = _lines("meters.txt")
    # The userspace datapath has no remarks.
    yield from (run(f"add-meter {meter}", fails=True) for meter in meters)
    yield run(f"mod-meter {meters[0].replace('1000', '500')}")
    yield from map(run, ("dump-meters", "dump-meter meter=2", "meter-stats", "meter-stats meter=1", "meter-features", "del-meter meter=3"))


def _groups():
    yield run("add-groups -", _lines("groups.txt"))
    yield run("mod-group group_id=1,type=all,bucket=output:3")
    yield run("--may-create mod-group group_id=10,type=all,bucket=output:3")
    # OpenFlow 1.3 does not have these.
    for place, bucket in (("last", "bucket_id:9,weight:3,output:1"), ("first", "bucket_id:8,weight:3,output:2")):
        yield run(f"insert-buckets group_id=2,command_bucket_id={place},bucket={bucket}", fails=True)
    yield from (run(f"remove-buckets group_id=2,command_bucket_id={place}", fails=True) for place in ("8", "last"))
    yield from map(run, ("dump-groups", "dump-groups 2", "dump-group-stats", "dump-group-stats group_id=2", "dump-group-features"))
    yield run("del-groups group_id=10")


def _flows():
    yield run("mod-flows table=2,ip,actions=output:3")
    yield run("--strict mod-flows table=2,priority=5,cookie=5/0xff,actions=output:3")
    yield run("del-flows table=1,tcp,out_port=2,out_group=5")
    yield run("--strict del-flows table=1,priority=32768,udp", fails=True)
    yield run("del-flows cookie=0x1234/-1")
    yield from map(run, ("dump-flows table=1,ip,cookie=5/0xff", "dump-aggregate", "dump-aggregate table=1,tcp"))
    yield run("replace-flows -", ["table=2,priority=1,ip,actions=output:1", "table=3,priority=9,send_flow_rem,udp,actions=drop"])
    yield run("diff-flows -", ["table=2,priority=1,ip,actions=output:1"], fails=True)


def _bundles():
    flow = "table=4,priority=1,tcp"
    yield run("--bundle add-flows -", [f"add {flow},actions=output:1", "modify table=4,tcp,actions=output:2", f"delete_strict {flow}"])
    group = "group add group_id=20,type=all,bucket=output:1"
    yield run("bundle -", [group, f"flow add {flow},actions=group:20", "flow delete table=4", "group delete group_id=20"])
    yield run("bundle -", [f"flow add {flow},actions=group:77"], fails=True)


def _options():
    first, second = "{class=0x102,type=0x80,len=4}->tun_metadata0", "{class=0x103,type=0x1,len=16}->tun_metadata1"
    unused = "{class=0x104,type=0x1,len=124}->tun_metadata2"
    yield run(f"add-tlv-map {first},{second}")
    yield run("dump-tlv-map")
    yield run("add-flows -", OPTIONS)
    yield from map(run, ("dump-flows table=8", f"add-tlv-map {unused}", f"del-tlv-map {unused}"))
    yield run("del-tlv-map", fails=True)


def _packet_outs():
    for port, done in (("1", "output:2"), ("LOCAL", "resubmit(,3)"), ("controller", "NORMAL")):
        yield run(f"packet-out in_port={port},packet={ARP},actions={done}")


def _packet_ins():
    paused = "actions=set_field:5->reg0,set_field:0x123/0xfff->metadata,controller(userdata=00.01.02.03.04.05,pause),output:2"
    yield background(
        "monitor 65534 -P nxt_packet_in2 resume", (4, 4),
        ("ofctl", "packet-out", f"in_port=controller,packet={ARP},actions=controller(reason=action)"),
        ("ofctl", "packet-out", f"in_port=1,packet={IPV4},actions=controller"),
        ("ofctl", "add-flow", f"cookie=0x77,priority=100,in_port=1,{paused}"),
        ("appctl", "netdev-dummy/receive", "p1", IPV4),
        ("ofctl", "add-flow", "table=0,priority=99,in_port=2,ip,actions=push:reg0[],ct(table=3,zone=7)"),
        ("ofctl", "add-flow", "table=3,actions=controller(max_len=20)"),
        ("appctl", "netdev-dummy/receive", "p2", IPV4))
    yield background(
        "monitor 65534 -P standard", (10, 2),
        ("ofctl", "packet-out", f"in_port=controller,packet={ARP},actions=controller"),
        ("appctl", "netdev-dummy/receive", "p2", IPV4))


def _monitors():
    yield background(
        "monitor watch:", (19, 4),
        ("ofctl", "add-flow", "table=7,cookie=5,priority=3,ip,actions=output:1"),
        ("ofctl", "mod-flows", "table=7,ip,actions=output:2"), ("ofctl", "del-flows", "table=7"))
    yield background("monitor watch:!initial,table=7,out_port=2", (19, 1), ("ofctl", "add-flow", "table=7,priority=4,tcp,actions=output:2"))


def _status():
    yield background(
        "monitor 100", (12, 3), ("ofctl", "mod-port", "1", "down"), ("ofctl", "mod-port", "1", "up"),
        ("ofctl", "add-flow", "table=6,priority=3,cookie=9,send_flow_rem,tcp,actions=drop"), ("ofctl", "del-flows", "table=6"),
        ("vsctl", "add-port", "br0", "p9", "--", "set", "interface", "p9", "type=dummy", "ofport_request=9"),
        ("vsctl", "del-port", "br0", "p9"))


def _connections():
    tuples = ("", "zone=5", "ct_nw_src=10.0.0.1,ct_nw_proto=6,ct_tp_dst=80",
              "zone=3 ct_ipv6_src=fe80::1,ct_nw_proto=17 ct_ipv6_dst=fe80::2,ct_tp_src=9")
    yield from (run(f"ct-flush {one}", fails=True) for one in tuples)
    yield run("ct-flush-zone 7")


def files(version):
    """Names of golden files, and the steps that fill each."""
    yield "switch", _switch()
    yield "meters", _meters()
    yield "groups", _groups()
    # The switch refuses some of them.
    yield "matches", [run("add-flows -", matches(), fails=True), run("dump-flows table=1")]
    yield "actions", [run("add-flows -", actions(), fails=True), run("dump-flows table=2")]
    yield "flows", _flows()
    yield "bundles", _bundles()
    yield "options", _options()
    yield "packets", _packet_outs()
    yield "packet-ins", _packet_ins()
    yield "monitors", _monitors()
    yield "status", _status()
    yield "connections", _connections()
    yield "errors", [{"raw": list(raw.messages(version))}]
    yield "loads", [run("add-flows -", LOADS)]
