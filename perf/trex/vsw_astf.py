"""What the stateful profiles share: tunables, addresses, and templates of a request and its
response."""

import argparse
import ipaddress

import vsw_world as world
from trex.astf.api import (
    ASTFAssociationRule,
    ASTFGlobalInfo,
    ASTFIPGen,
    ASTFIPGenDist,
    ASTFIPGenGlobal,
    ASTFProfile,
    ASTFProgram,
    ASTFTCPClientTemplate,
    ASTFTCPServerTemplate,
    ASTFTemplate,
)

# Of IPv6 TRex would take that of IPv4, and its frames would be 20 bytes longer than the MTU of 1500
# allows.
MSS_IPV6 = 1440

REQUEST = b"GET /a HTTP/1.1\r\nHost: perf\r\n\r\n"


def parser(about):
    """An ArgumentParser with the tunables that all profiles have."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    made.add_argument("--kind", choices=world.KINDS, default="svc", help="way through the pipeline")
    made.add_argument("--ip", type=int, choices=(4, 6), default=4, help="IP version")
    made.add_argument("--servers", type=int, default=1, help="servers, of kind remote")
    return made


def addresses(args):
    """The generator of clients (there is one) and servers. Of IPv6 it counts the last four bytes,
    `profile` adds the rest."""
    kind = world.kind(args.kind, args.ip)
    if not 1 <= args.servers <= kind.servers:
        raise ValueError(f"kind {args.kind} has 1 to {kind.servers} servers")
    client, server = world.low_word(kind.request.src), world.low_word(kind.request.dst)
    return ASTFIPGen(
        glob=ASTFIPGenGlobal(ip_offset="0.0.0.0"),
        dist_client=ASTFIPGenDist(ip_range=[_dotted(client), _dotted(client)], distribution="seq"),
        dist_server=ASTFIPGenDist(ip_range=[_dotted(server), _dotted(server + args.servers - 1)], distribution="seq"),
    )


def _dotted(word):
    return str(ipaddress.IPv4Address(word))


def profile(args, ip_gen, templates):
    """The profile of templates."""
    client, server = ASTFGlobalInfo(), ASTFGlobalInfo()
    if args.ip == 6:
        request = world.kind(args.kind, 6).request
        client.ipv6.enable = 1
        client.ipv6.src_msb, client.ipv6.dst_msb = _prefix(request.src), _prefix(request.dst)
        client.tcp.mss = server.tcp.mss = MSS_IPV6
    return ASTFProfile(default_ip_gen=ip_gen, templates=templates, default_c_glob_info=client, default_s_glob_info=server)


def _prefix(address):
    """An IPv6 address without its last four bytes."""
    return str(ipaddress.IPv6Address(int(ipaddress.ip_address(address)) >> 32 << 32))


def short(ip_gen, response, cps, port):
    """TCP: a request, a response, and both ends close."""
    client = ASTFProgram()
    client.send(REQUEST)
    client.recv(len(response))
    server = ASTFProgram()
    server.recv(len(REQUEST))
    server.send(response)
    return _template(ip_gen, client, server, port, cps=cps)


def long(ip_gen, connections, rounds, pause_us, response, cps, port):
    """TCP: so many connections, each with a request and a response every `pause_us` microseconds,
    `rounds` times; those that end are made anew."""
    client = ASTFProgram()
    client.set_var("rounds", rounds)
    client.set_label("next:")
    client.send(REQUEST)
    client.recv(len(response), True)
    client.delay(pause_us)
    client.jmp_nz("rounds", "next:")
    server = ASTFProgram()
    server.set_var("rounds", rounds)
    server.set_label("next:")
    server.recv(len(REQUEST), True)
    server.send(response)
    server.jmp_nz("rounds", "next:")
    # Ends when the client does, not after its own last response.
    server.wait_for_peer_close()
    return _template(ip_gen, client, server, port, cps=cps, limit=connections, cont=True)


def datagrams(ip_gen, response, cps, port):
    """UDP: a request, a response."""
    client = ASTFProgram(stream=False)
    client.send_msg(REQUEST)
    client.recv_msg(1)
    server = ASTFProgram(stream=False)
    server.recv_msg(1)
    server.send_msg(response)
    return _template(ip_gen, client, server, port, cps=cps)


def _template(ip_gen, client, server, port, **client_options):
    return ASTFTemplate(
        client_template=ASTFTCPClientTemplate(program=client, ip_gen=ip_gen, port=port, **client_options),
        server_template=ASTFTCPServerTemplate(program=server, assoc=ASTFAssociationRule(port=port)),
    )
