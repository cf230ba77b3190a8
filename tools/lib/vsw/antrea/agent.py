"""A small agent: it answers packets to a Service without Endpoints, as Antrea's does, with a TCP
reset or an ICMP error.

The document's flows need it. Those that the switch makes of what the control agent declares refuse
by themselves, and only tell."""

import json
import struct
import subprocess
import threading

from .. import machine

CONTROLLER = 62373
NO_ENDPOINT = "04"  # the userdata of EndpointDNAT's flow
TCP, UDP, ICMP, ICMP6 = 6, 17, 1, 58


def checksum(data):
    """The internet checksum."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _wrap(source, target, protocol, payload, at):
    """IP header before a payload whose checksum, at offset `at`, is 0 so far."""
    pseudo = source + target + struct.pack("!HH" if len(source) == 4 else "!II", *_pseudo_tail(len(source), protocol, len(payload)))
    whole = payload if protocol == ICMP else pseudo + payload
    payload = payload[:at] + struct.pack("!H", checksum(whole)) + payload[at + 2 :]
    if len(source) == 4:
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0, source, target)
        return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload
    return struct.pack("!IHBB16s16s", 6 << 28, len(payload), protocol, 64, source, target) + payload


def _pseudo_tail(width, protocol, length):
    return (protocol, length) if width == 4 else (length, protocol)


def refusal(frame):
    """The frame that refuses this one: a reset for TCP, "port unreachable" for others; None when it
    is not IP."""
    kind = frame[12:14]
    if kind == b"\x08\x00":
        start, protocol = 14 + (frame[14] & 15) * 4, frame[23]
        source, target = frame[26:30], frame[30:34]
        end = 14 + struct.unpack("!H", frame[16:18])[0]
    elif kind == b"\x86\xdd":
        start, protocol = 54, frame[20]
        source, target = frame[22:38], frame[38:54]
        end = 54 + struct.unpack("!H", frame[18:20])[0]
    else:
        return None
    ethernet = frame[6:12] + frame[:6] + kind
    if protocol == TCP:
        sport, dport, sequence, _, offset, flags = struct.unpack("!HHIIBB", frame[start : start + 14])
        length = end - start - (offset >> 4) * 4 + (flags & 1) + (flags >> 1 & 1)
        reset = struct.pack("!HHIIBBHHH", dport, sport, 0, (sequence + length) & 0xFFFFFFFF, 0x50, 0x14, 0, 0, 0)
        return ethernet + _wrap(target, source, TCP, reset, 16)
    quoted = frame[14 : min(end, 14 + 512)]
    if len(source) == 4:
        return ethernet + _wrap(target, source, ICMP, struct.pack("!BBHI", 3, 3, 0, 0) + quoted, 2)
    return ethernet + _wrap(target, source, ICMP6, struct.pack("!BBHI", 1, 4, 0, 0) + quoted, 2)


class Agent:
    """Listens to `vsctl monitor`, answers by `vsctl packet-out`."""

    def __init__(self, switch, stack, controller=CONTROLLER):
        self.switch, self.told, self.failure = switch, 0, None
        argv = switch.command("--json", "monitor", "br0", "--controller", controller)
        self.process = machine.spawn(argv, stdout=subprocess.PIPE, text=True)
        stack.callback(machine.end, self.process)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        try:
            for line in self.process.stdout:
                told = json.loads(line)
                if told.get("userdata") == NO_ENDPOINT:
                    self._answer(told)
                self.told += 1
        except (OSError, ValueError, machine.Failure) as error:
            self.failure = error

    def _answer(self, told):
        frame = refusal(bytes.fromhex(told["packet"]))
        if frame is None:
            return
        port = int(told["metadata"]["in_port"], 16)
        self.switch.vsctl("packet-out", "br0", f"in_port=CONTROLLER,packet={frame.hex()},actions=output:{port}")
