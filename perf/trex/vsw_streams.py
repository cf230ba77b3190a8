"""What the stateless profiles share: tunables, and the field engine's programs that turn one frame
into many flows."""

import argparse

import vsw_frames as frames
import vsw_world as world
from trex.stl.api import (
    CTRexVmInsFixHwCs,
    STLFlowLatencyStats,
    STLPktBuilder,
    STLScVmRaw,
    STLStream,
    STLStreamDstMAC_PKT,
    STLTXCont,
    STLVmFixChecksumHw,
    STLVmFixIpv4,
    STLVmFlowVar,
    STLVmTupleGen,
    STLVmWrFlowVar,
)

# Sizes on the wire with FCS, and how many of each.
IMIX = ((64, 7), (594, 4), (1518, 1))
LATENCY_PORT = 1023  # below the ports of the flows
LATENCY_SIZE = 68  # its payload must hold the 16 bytes that TRex writes there
SEED = 1  # any but 0, which stands for none: the same packets in every run


def parser(about):
    """An ArgumentParser with the tunables that all profiles have."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    made.add_argument("--kind", choices=world.KINDS, default="pod", help="way through the pipeline")
    made.add_argument("--ip", type=int, choices=(4, 6), default=4, help="IP version")
    return made


def sizes(text):
    """Argument type: one size on the wire with FCS, or imix. A list of (size, part)."""
    if text == "imix":
        return IMIX
    if not 64 <= int(text) <= 9018:
        raise argparse.ArgumentTypeError("64 to 9018, or imix")
    return ((int(text), 1),)


def stream(frame, program, mode, core=-1, flow_stats=None):
    """A stream that keeps the frame's MAC addresses: the pipeline looks at them."""
    return STLStream(
        packet=STLPktBuilder(pkt_buffer=frame, vm=STLScVmRaw(program)),
        mode=mode,
        random_seed=SEED,
        mac_src_override_by_pkt=True,
        mac_dst_override_mode=STLStreamDstMAC_PKT,
        core_id=core,
        flow_stats=flow_stats,
    )


def every_flow(ip, reply, first, servers, ports, protocol):
    """A program that gives each flow its turn, and again from the start: `servers` addresses from
    `first` on times `ports` ports of the client from FIRST_PORT on. Pin it to one core when a burst
    must meet each exactly once. One flow needs none: it is the frame's."""
    if servers * ports == 1:
        return []
    last_port = world.FIRST_PORT + ports - 1
    if servers == 1:
        variables = [STLVmFlowVar(name="port", min_value=world.FIRST_PORT, max_value=last_port, size=2, op="inc")]
        return variables + _write(ip, reply, None, "port") + fix(ip, protocol)
    low = world.low_word(first)
    flows = STLVmTupleGen(name="flow", ip_min=low, ip_max=low + servers - 1, port_min=world.FIRST_PORT, port_max=last_port,
                          limit_flows=servers * ports)
    return [flows] + _write(ip, reply, "flow.ip", "flow.port") + fix(ip, protocol)


def any_flow(ip, reply, first, servers, ports, protocol):
    """A program that picks among the same flows at random: as unpredictable for caches as a
    shuffled order."""
    if servers * ports == 1:
        return []
    variables = [STLVmFlowVar(name="port", min_value=world.FIRST_PORT, max_value=world.FIRST_PORT + ports - 1, size=2, op="random")]
    if servers == 1:
        return variables + _write(ip, reply, None, "port") + fix(ip, protocol)
    low = world.low_word(first)
    variables.append(STLVmFlowVar(name="server", min_value=low, max_value=low + servers - 1, size=4, op="random"))
    return variables + _write(ip, reply, "server", "port") + fix(ip, protocol)


def _write(ip, reply, server, port):
    """Into the server's address and the client's port, wherever this direction has them."""
    l4 = frames.l4_offset(ip)
    written = [STLVmWrFlowVar(fv_name=port, pkt_offset=l4 + 2 if reply else l4)]
    if server:
        written.append(STLVmWrFlowVar(fv_name=server, pkt_offset=frames.address_offset(ip, "src" if reply else "dst")))
    return written


def fix(ip, protocol):
    """Makes the checksums right again, by the network card: a wrong one makes a connection's packet
    invalid. `protocol` None: UDP without a checksum, the IPv4 header's alone."""
    if protocol is None:
        return [STLVmFixIpv4(offset=frames.L3)] if ip == 4 else []
    l4_type = CTRexVmInsFixHwCs.L4_TYPE_TCP if protocol == frames.TCP else CTRexVmInsFixHwCs.L4_TYPE_UDP
    return [STLVmFixChecksumHw(l3_offset=frames.L3, l4_offset=frames.l4_offset(ip), l4_type=l4_type)]


def latency(kind, ip, reply, pps, port_id):
    """One UDP flow that TRex stamps, beside the load, at a rate that the multiplier leaves alone.
    TRex writes the stamp into the payload of each packet, so the datagram has no checksum. IPv4
    only."""
    if ip == 6:
        raise ValueError("--latency is for IPv4: IPv6 does not allow a datagram without checksum")
    ends = kind.reply if reply else kind.request
    ports = (world.SERVICE_PORT, LATENCY_PORT) if reply else (LATENCY_PORT, world.SERVICE_PORT)
    frame = frames.udp(ends, *ports, size=LATENCY_SIZE, checksum=False)
    # Every port of TRex needs a group of its own.
    return stream(frame, [], STLTXCont(pps=pps), flow_stats=STLFlowLatencyStats(pg_id=1 + port_id))
