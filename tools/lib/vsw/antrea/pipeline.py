"""The document's program: read, corrected by name, completed, and doubled for IPv6."""

import ipaddress
import re

from .. import machine
from . import world
from .side import Side
from .world import six

DATA = machine.ROOT / "vswitch" / "flow" / "tests" / "data"
METER = "meter=256,pktps,burst,stats,bands=type=drop,rate=500,burst_size=500"
DOCUMENT, OURS = 0xD0C, 0xADD  # cookies of the document's flows, and of those that we add
GROUP_SIX = 100  # an IPv6 group's id is the IPv4 one's plus this
ZONES = {"65520": "65510", "65521": "65511"}

# What the document gets wrong: (why, [(its line, ours)]).
CORRECTIONS = (
    (
        "conjunction 4 (drop what AllowFromClient does not allow) has clauses at 14600 and 14599, it can never match: both at 14599",
        [("table=AntreaPolicyIngressRule, priority=14600,ip actions=conjunction(4,1/2)",
          "table=AntreaPolicyIngressRule, priority=14599,ip actions=conjunction(4,1/2)")],
    ),
    (
        "redirected packets return by antrea-tc-tap1 in the text, by antrea-tc-tap2, the mirror, in the flow: by antrea-tc-tap1",
        [('table=Classifier, priority=200,in_port="antrea-tc-tap2" actions=set_field:0x6/0xf->reg0,goto_table:L3Forwarding',
          'table=Classifier, priority=200,in_port="antrea-tc-tap1" actions=set_field:0x6/0xf->reg0,goto_table:L3Forwarding')],
    ),
    (
        "conjunction 14 (the L7 policy) is for port 0x25, web, in the text, for port 0x7 in the flow: for 0x25",
        [("table=AntreaPolicyIngressRule, priority=14500,reg1=0x7 actions=conjunction(14,2/3)",
          "table=AntreaPolicyIngressRule, priority=14500,reg1=0x25 actions=conjunction(14,2/3)")],
    ),
    (
        "conjunction 14 belongs to the policy of priority 4 and must go before the drop of the one of priority 5: from 14500 to 14700",
        [(rf"table=AntreaPolicyIngressRule, priority=14500,{rest}", rf"table=AntreaPolicyIngressRule, priority=14700,{rest}")
         for rest in ("reg1=0x25 actions", "ip,nw_src=10.10.0.26 actions", "tcp,tp_dst=8080 actions", "conj_id=14,ip actions")],
    ),
)


class Program:
    """Flows, groups and the meter as lines of text, and how they came about."""

    def __init__(self, side=Side()):
        self.document = [line for line in (DATA / "antrea-flows.txt").read_text().splitlines() if line.strip()]
        self.flows = list(self.document)
        for why, changes in CORRECTIONS:
            for wrong, right in changes:
                self._correct(why, wrong, right)
        self.flows = [side.of(line) for line in self.flows]
        self.added = [side.of(line) for line in _web2(self.document)] + _endpoints(side)
        self.selected = _selected(self.flows, side) if side.number else []
        self.added += self.selected
        documents = len(self.flows)
        self.flows += self.added
        self.datagrams = [line for flow in self.flows if (line := udp_twin(flow))]
        self.flows += self.datagrams
        self.twins = [line for flow in self.flows if (line := twin(flow))] + _neighbours(side)
        self.flows += self.twins
        self.flows = [f"cookie={DOCUMENT if index < documents else OURS:#x},{line}" for index, line in enumerate(self.flows)]
        self.groups = [side.of(re.sub(r",\s+", ",", line.strip())) for line in (DATA / "antrea-groups.txt").read_text().splitlines() if line.strip()]
        self.groups += [_group(id, endpoints, side) for id, endpoints in side.endpoints.items()]
        self.groups += [twin_group(line) for line in self.groups]

    def _correct(self, why, wrong, right):
        found = [index for index, line in enumerate(self.flows) if line.startswith(wrong)]
        if len(found) != 1:
            raise machine.Failure(f"the document does not have this line once, but {len(found)} times: {wrong} ({why})")
        self.flows[found[0]] = right + self.flows[found[0]][len(wrong):]

    def bundle(self):
        """All of it, for `vsctl bundle`: one transaction."""
        lines = [f"meter add {METER}"]
        lines += [f"group add {line}" for line in self.groups]
        lines += [f"flow add {line}" for line in self.flows]
        return "\n".join(lines) + "\n"

    def policy(self):
        """Heads and whole lines of the flows that Antrea's own policy (conjunctions 4 to 7) is made
        of."""
        rules = re.compile(r"conj(_id=|unction\()[4567][ ,]")
        return [(line.split(" actions=")[0].split(",", 1)[1], line) for line in self.flows if rules.search(line)]


def _web2(document):
    """Flows for the second web Pod, like those that db has, and Egress for it as web has."""
    db, web, web2 = world.DB, world.WEB, world.WEB2
    like_db = ("ARPSpoofGuard", "Classifier", "SpoofGuard", "L3Forwarding", "L2ForwardingCalc")
    added = []
    for line in document:
        table = line.split(",", 1)[0].removeprefix("table=")
        if table in like_db and (db.port in line or db.mac in line):
            added.append(line.replace(db.port, web2.port).replace(db.mac, web2.mac).replace(db.v4, web2.v4)
                         .replace(f"set_field:{db.number:#x}->reg1", f"set_field:{web2.number:#x}->reg1"))
        if table == "EgressMark" and web.port in line:
            added.append(line.replace(web.port, web2.port))
    return added


def udp_twin(line):
    """The same for UDP, if it is about a Service or allows to reach one: the document's are for TCP
    only."""
    table = line.split(",", 1)[0].removeprefix("table=")
    service = table in ("SessionAffinity", "ServiceLB", "EndpointDNAT") and ",tcp," in line
    if not service and not (table == "AntreaPolicyIngressRule" and "tcp,tp_dst=80 " in line):
        return None
    return line.replace(",tcp,", ",udp,").replace("nw_proto=6", "nw_proto=17").replace("NXM_OF_TCP_DST", "NXM_OF_UDP_DST")


def _endpoints(side):
    """EndpointDNAT for those that the document does not have."""
    text = (
        "table=EndpointDNAT, priority=200,tcp,reg3={word},reg4=0x20050/0x7ffff actions=ct(commit,table=AntreaPolicyEgressRule,zone=65520,"
        "nat(dst={ip}:80),exec(set_field:0x10/0x10->ct_mark,move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))"
    )
    others = dict.fromkeys(ip for endpoints in side.endpoints.values() for ip in endpoints if ip != world.REMOTE)
    return [text.format(word=_hex(ip), ip=ip) for ip in others]


def _selected(flows, side):
    """The policies' clauses about Pods that may be anywhere, client as a source and db as a
    destination, for those of the other Node."""
    clauses = (f"nw_src={side.of(world.CLIENT.v4)} actions=conj", f"nw_dst={side.of(world.DB.v4)} actions=conj")
    return [Side(2).of(line) for line in flows if any(clause in line for clause in clauses)]


def _hex(address):
    return hex(int(ipaddress.ip_address(address)))


def _group(id, endpoints, side):
    """A select group over Endpoints, as the document's group 10."""
    local = {pod.v4 for pod in side.pods} | {side.of(world.NODE)}
    buckets = "".join(
        f",bucket=bucket_id:{index},weight:100,actions={'' if ip in local else 'set_field:0x4000000/0x4000000->reg4,'}"
        f"set_field:{_hex(ip)}->reg3,set_field:0x50/0xffff->reg4,resubmit(,EndpointDNAT)"
        for index, ip in enumerate(endpoints)
    )
    return f"group_id={id},type=select{buckets}"


_V4 = r"\d+\.\d+\.\d+\.\d+(?:/\d+)?"


def twin(line):
    """The same flow for IPv6, if it speaks of IPv4."""
    head, actions = line.split(" actions=", 1)
    if not re.search(r",(ip|tcp|udp)(,|$)", head):
        return None
    return f"{twin_text(head)} actions={_twin_actions(actions)}"


def twin_text(head):
    """A match, or a part of it, for IPv6."""
    head = re.sub(r"(?<=,)(ip|tcp|udp)(?=,|$)", lambda m: {"ip": "ipv6", "tcp": "tcp6", "udp": "udp6"}[m[1]], head)
    head = re.sub(rf"nw_(src|dst)=({_V4})", lambda m: f"ipv6_{m[1]}={six(m[2])}", head)
    head = re.sub(rf"tun_dst=({_V4})", lambda m: f"tun_ipv6_dst={six(m[1])}", head)
    head = re.sub(rf"nat\((src|dst)=({_V4})", lambda m: f"nat({m[1]}={_bracketed(m[2], head)}", head)
    head = _twin_remote(head)
    return re.sub(r"reg3=0x([0-9a-f]{8}|[0-9a-f]{7})(?=,|$)", lambda m: f"xxreg3={_wide(m[1])}", head)


def _bracketed(address, text):
    """An IPv6 twin as nat() has it: in brackets before a port."""
    return f"[{six(address)}]" if f"{address}:" in text else six(address)


def _twin_actions(actions):
    for zone, other in ZONES.items():
        actions = actions.replace(f"zone={zone}", f"zone={other}")
    actions = re.sub(r"set_field:0x([0-9a-f]{7,8})->reg3", lambda m: f"set_field:{_wide(m[1])}->xxreg3", actions)
    actions = re.sub(rf"nat\((src|dst)=({_V4})(:\d+)?\)", lambda m: f"nat({m[1]}=[{six(m[2])}]{m[3] or ''})", actions)
    actions = _twin_remote(actions)
    actions = re.sub(r"group:(\d+)", lambda m: f"group:{int(m[1]) + GROUP_SIX}", actions)
    actions = actions.replace("eth_type=0x800", "eth_type=0x86dd").replace("NXM_NX_REG3[]", "NXM_NX_XXREG3[]")
    return actions.replace("NXM_OF_IP_DST[]", "NXM_NX_IPV6_DST[]").replace("NXM_OF_IP_SRC[]", "NXM_NX_IPV6_SRC[]")


def _twin_remote(actions):
    """The other end of a tunnel."""
    return re.sub(rf"set_field:({_V4})->tun_dst", lambda m: f"set_field:{six(m[1])}->tun_ipv6_dst", actions)


def _wide(digits):
    """A register's IPv4 address as that of its IPv6 twin."""
    return _hex(six(str(ipaddress.ip_address(int(digits, 16)))))


def twin_group(line):
    """The same group for IPv6."""
    return re.sub(r"^group_id=(\d+)", lambda m: f"group_id={int(m[1]) + GROUP_SIX}", _twin_actions(line))


def _neighbours(side):
    """Neighbour discovery, which the document (IPv6 is disabled there) does not have: a Pod asks,
    and answers for its own addresses only."""
    lines = []
    for kind in (135, 136):
        text = "table=SpoofGuard, priority=210,icmp6,in_port={port},{mac}icmp_type={kind},icmp_code=0{rest} actions=NORMAL"
        lines.append(text.format(port=f'"{world.GATEWAY}"', mac="", kind=kind, rest=""))
        for pod in side.pods:
            for target in ("",) if kind == 135 else (f",nd_target={pod.v6}", f",nd_target={_link_local(pod.mac)}"):
                lines.append(text.format(port=f'"{pod.port}"', mac=f"dl_src={pod.mac},", kind=kind, rest=target))
    lines.append("table=SpoofGuard, priority=205,icmp6,icmp_type=136,icmp_code=0 actions=drop")
    return lines


def _link_local(mac):
    """The address that a kernel gives itself (RFC 4291, appendix A)."""
    octets = bytes.fromhex(mac.replace(":", ""))
    word = bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:]
    return str(ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + word))
