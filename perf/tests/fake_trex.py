"""A double of TRex's Python interface, as far as the profiles of perf/trex use it: it checks what
it is given as TRex v3.04 does, and keeps it in the form in which TRex's client sends it to the
server. It sends nothing: `packets` computes what a stream would send."""

import base64
import ipaddress
import random
import struct
import types

VALID_SIZES = (1, 2, 4, 8)


def modules():
    """What to put in sys.modules."""
    trex, stl, astf = (types.ModuleType(name) for name in ("trex", "trex.stl", "trex.astf"))
    stl.api, astf.api = types.ModuleType("trex.stl.api"), types.ModuleType("trex.astf.api")
    for name, value in globals().items():
        if name.startswith(("STL", "CTRex")):
            setattr(stl.api, name, value)
        if name.startswith("ASTF"):
            setattr(astf.api, name, value)
    trex.stl, trex.astf = stl, astf
    return {"trex": trex, "trex.stl": stl, "trex.astf": astf, "trex.stl.api": stl.api, "trex.astf.api": astf.api}


def need(condition, what):
    if not condition:
        raise AssertionError(what)


# --- Stateless
# ---------------------------------------------------------------------------------------------------------------------

STLStreamDstMAC_PKT = 1


class CTRexVmInsFixHwCs:
    L4_TYPE_UDP, L4_TYPE_TCP = 11, 13


def STLVmFlowVar(name, min_value=0, max_value=255, size=4, op="inc", value_list=None):
    need(size in VALID_SIZES and op in ("inc", "dec", "random"), (name, size, op))
    values = value_list or [min_value, max_value]
    need(0 <= min(values) and max(values) < 1 << 8 * size, f"{name}: {values} in {size} bytes")
    if value_list:
        return {"type": "flow_var", "name": name, "size": size, "op": op, "value_list": list(value_list)}
    need(min_value <= max_value, f"{name}: {min_value} to {max_value}")
    return {"type": "flow_var", "name": name, "size": size, "op": op, "min_value": min_value, "max_value": max_value}


def STLVmTupleGen(name, ip_min, ip_max, port_min=1025, port_max=65535, limit_flows=100000):
    need(ip_min <= ip_max and port_min <= port_max <= 65535, name)
    return {"type": "tuple_flow_var", "name": name, "ip_min": ip_min, "ip_max": ip_max, "port_min": port_min, "port_max": port_max,
            "limit_flows": limit_flows}


def STLVmWrFlowVar(fv_name, pkt_offset):
    need(isinstance(pkt_offset, int), "a name of a field needs a frame of Scapy's")
    return {"type": "write_flow_var", "name": fv_name, "pkt_offset": pkt_offset}


def STLVmFixIpv4(offset):
    return {"type": "fix_checksum_ipv4", "pkt_offset": offset}


def STLVmFixChecksumHw(l3_offset, l4_offset, l4_type):
    need(l4_offset >= l3_offset + 8, "l4_offset")
    return {"type": "fix_checksum_hw", "l2_len": l3_offset, "l3_len": l4_offset - l3_offset, "l4_type": l4_type}


class STLScVmRaw:
    def __init__(self, list_of_commands):
        self.commands = list_of_commands


class STLPktBuilder:
    def __init__(self, pkt_buffer, vm):
        need(isinstance(pkt_buffer, bytes) and isinstance(vm, STLScVmRaw), "packet and program")
        known = set()
        for command in vm.commands:
            if command["type"] == "flow_var":
                known.add(command["name"])
            elif command["type"] == "tuple_flow_var":
                known |= {command["name"] + ".ip", command["name"] + ".port"}
            elif command["type"] == "write_flow_var":
                need(command["name"] in known, f"variable {command['name']} does not exist")
        self.frame, self.commands = pkt_buffer, vm.commands


def _mode(kind, rates, **more):
    need(len(rates) == 1, "one rate")
    (unit, value), = rates.items()
    need(unit in ("pps", "bps_L1", "bps_L2", "percentage") and value > 0, rates)
    return {"type": kind, "rate": {"type": unit, "value": value}, **more}


def STLTXCont(**rates):
    return _mode("continuous", rates)


def STLTXSingleBurst(total_pkts, **rates):
    return _mode("single_burst", rates, total_pkts=total_pkts)


def STLFlowLatencyStats(pg_id):
    return {"enabled": True, "rule_type": "latency", "stream_id": pg_id}


class STLStream:
    def __init__(self, packet, mode, random_seed, mac_src_override_by_pkt, mac_dst_override_mode, core_id=-1, flow_stats=None):
        self.pkt = packet.frame
        self.json = {
            "mode": mode, "vm": {"instructions": packet.commands}, "core_id": core_id, "random_seed": random_seed,
            "flags": int(mac_src_override_by_pkt) | mac_dst_override_mode << 1, "flow_stats": flow_stats or {"enabled": False},
        }

    def to_json(self):
        return self.json


# --- What a stream sends
# -------------------------------------------------------------------------------------------------------------


def packets(stream, count):
    """The first packets of a stream, on one core: its field engine's program, run."""
    said = stream.to_json()
    program = said["vm"]["instructions"]
    chance = random.Random(said.get("random_seed"))
    for number in range(count):
        frame, values = bytearray(stream.pkt), {}
        for step in program:
            _step(step, frame, values, number, chance)
        yield bytes(frame)


def _step(step, frame, values, number, chance):
    kind = step["type"]
    if kind == "flow_var":
        values[step["name"]] = (step["size"], _value(step, number, chance))
    elif kind == "tuple_flow_var":
        # The address first; a port more whenever all addresses were used.
        number %= step["limit_flows"]
        addresses, ports = step["ip_max"] - step["ip_min"] + 1, step["port_max"] - step["port_min"] + 1
        values[step["name"] + ".ip"] = (4, step["ip_min"] + number % addresses)
        values[step["name"] + ".port"] = (2, step["port_min"] + number // addresses % ports)
    elif kind == "write_flow_var":
        size, value = values[step["name"]]
        frame[step["pkt_offset"]:step["pkt_offset"] + size] = value.to_bytes(size, "big")
    elif kind == "fix_checksum_ipv4":
        _ipv4(frame, step["pkt_offset"])
    elif kind == "fix_checksum_hw":
        l3 = step["l2_len"]
        if frame[l3] >> 4 == 4:
            _ipv4(frame, l3)
        _l4(frame, l3, l3 + step["l3_len"], 16 if step["l4_type"] == CTRexVmInsFixHwCs.L4_TYPE_TCP else 6)
    else:
        raise AssertionError(kind)


def _value(step, number, chance):
    choices = step.get("value_list") or range(step["min_value"], step["max_value"] + 1)
    if step["op"] == "random":
        return chance.choice(choices)
    return choices[number % len(choices)]


def checksum(data):
    """The Internet checksum: 0 over what has a right one."""
    data = bytes(data) + bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data)) % 0xFFFF
    return 0xFFFF - total if total or not any(data) else 0


def _ipv4(frame, l3):
    frame[l3 + 10:l3 + 12] = bytes(2)
    frame[l3 + 10:l3 + 12] = checksum(frame[l3:l3 + 20]).to_bytes(2, "big")


def pseudo(frame, l3, l4):
    """The pseudo header and the segment of a frame, for its checksum."""
    if frame[l3] >> 4 == 4:
        addresses, length, protocol = frame[l3 + 12:l3 + 20], int.from_bytes(frame[l3 + 2:l3 + 4], "big") - 20, frame[l3 + 9]
    else:
        addresses, length, protocol = frame[l3 + 8:l3 + 40], int.from_bytes(frame[l3 + 4:l3 + 6], "big"), frame[l3 + 6]
    return bytes(addresses) + struct.pack("!HH", protocol, length) + bytes(frame[l4:l4 + length])


def _l4(frame, l3, l4, at):
    frame[l4 + at:l4 + at + 2] = bytes(2)
    frame[l4 + at:l4 + at + 2] = (checksum(pseudo(frame, l3, l4)) or 0xFFFF).to_bytes(2, "big")


# --- Stateful
# ------------------------------------------------------------------------------------------------------------------------


class ASTFProgram:
    def __init__(self, stream=True):
        self.stream, self.commands, self.labels, self.variables = stream, [], {}, {}

    def _add(self, name, **fields):
        self.commands.append({"name": name, **fields})

    def send(self, buf):
        need(self.stream and isinstance(buf, bytes) and buf, "send")
        self._add("tx", buf=buf)

    def recv(self, count, clear=False):
        need(self.stream, "recv")
        self._add("rx", min_bytes=count, **({"clear": True} if clear else {}))

    def send_msg(self, buf):
        need(not self.stream and isinstance(buf, bytes) and buf, "send_msg")
        self._add("tx_msg", buf=buf)

    def recv_msg(self, pkts):
        need(not self.stream, "recv_msg")
        self._add("rx_msg", min_pkts=pkts)

    def delay(self, usec):
        self._add("delay", usec=usec)

    def set_var(self, name, value):
        self._add("set_var", id=self.variables.setdefault(name, len(self.variables)), val=value)

    def set_label(self, label):
        self.labels[label] = len(self.commands)

    def jmp_nz(self, name, label):
        self._add("jmp_nz", id=self.variables[name], offset=self.labels[label] - len(self.commands))

    def wait_for_peer_close(self):
        self._add("nc")


class ASTFIPGenDist:
    def __init__(self, ip_range, distribution="seq"):
        need(distribution in ("seq", "rand") and len(ip_range) == 2, ip_range)
        self.range = ip_range


class ASTFIPGenGlobal:
    def __init__(self, ip_offset="1.0.0.0"):
        self.ip_offset = ip_offset


class ASTFIPGen:
    def __init__(self, dist_client, dist_server, glob):
        self.glob, self.client, self.server = glob, dist_client, dist_server


class ASTFGlobalInfo:
    def __init__(self):
        self.ipv6 = types.SimpleNamespace(enable=0, src_msb=None, dst_msb=None)
        self.tcp = types.SimpleNamespace(mss=None)


class ASTFAssociationRule:
    def __init__(self, port=80):
        self.port = port


class ASTFTCPClientTemplate:
    def __init__(self, ip_gen, program, port=80, cps=1, limit=None, cont=None):
        need(cps >= 0.5, "cps")
        self.ip_gen, self.program, self.port, self.cps, self.limit, self.cont = ip_gen, program, port, cps, limit, cont


class ASTFTCPServerTemplate:
    def __init__(self, program, assoc):
        self.program, self.assoc = program, assoc


class ASTFTemplate:
    def __init__(self, client_template, server_template):
        self.client, self.server = client_template, server_template


class ASTFProfile:
    def __init__(self, default_ip_gen, templates, default_c_glob_info=None, default_s_glob_info=None):
        self.templates = templates if isinstance(templates, list) else [templates]
        self.ip_gen, self.client_info, self.server_info = default_ip_gen, default_c_glob_info, default_s_glob_info
        ports = [template.server.assoc.port for template in self.templates]
        need(len(ports) == len(set(ports)), f"two server templates with one port: {ports}")

    def to_json(self):
        buffers, programs, ranges = [], [], []
        return {
            "templates": [self._template(template, buffers, programs, ranges) for template in self.templates],
            "buf_list": [base64.b64encode(data).decode() for data in buffers], "program_list": programs, "ip_gen_dist_list": ranges,
            "c_glob_info": _glob_info(self.client_info), "s_glob_info": _glob_info(self.server_info),
        }

    @staticmethod
    def _template(template, buffers, programs, ranges):
        client, ip_gen = template.client, template.client.ip_gen
        dists = {"dist_client": (ip_gen.client, "c"), "dist_server": (ip_gen.server, "s")}
        described = {
            side: {"index": _index(ranges, {"ip_start": dist.range[0], "ip_end": dist.range[1], "distribution": "seq", "dir": direction,
                                            "ip_offset": ip_gen.glob.ip_offset})}
            for side, (dist, direction) in dists.items()
        }
        made = {"program_index": _index(programs, _program(client.program, buffers)), "ip_gen": described, "port": client.port,
                "cps": client.cps}
        if client.limit:
            made |= {"limit": client.limit, "cont": client.cont}
        server = {"program_index": _index(programs, _program(template.server.program, buffers)),
                  "assoc": [{"port": template.server.assoc.port}]}
        return {"client_template": made, "server_template": server}


def _index(known, value):
    """Where it is in a list of different values, put there if need be."""
    if value not in known:
        known.append(value)
    return known.index(value)


def _program(program, buffers):
    commands = []
    for command in program.commands:
        if "buf" in command:
            command = {"name": command["name"], "buf_index": _index(buffers, command["buf"])}
        commands.append(command)
    return {"commands": commands} if program.stream else {"commands": commands, "stream": False}


def _glob_info(info):
    tcp = {} if info.tcp.mss is None else {"tcp": {"mss": info.tcp.mss}}
    if not info.ipv6.enable:
        return tcp
    return {**tcp, "ipv6": {"enable": 1, **{name: list(ipaddress.IPv6Address(getattr(info.ipv6, name)).packed) for name in ("src_msb", "dst_msb")}}}
