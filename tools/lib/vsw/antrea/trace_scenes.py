"""Traceflows on the Node that the agent has programmed: packets that are sent for them, and real
ones, tell what happens to them."""

import json
import subprocess
import time

from .. import machine
from ..machine import PATIENCE_S, Failure
from . import traffic, world
from .actions import BOTH, DENIED_LIMIT, HTTP, of
from .manifests import EGRESS_IP
from .node import PEER
from .world import CLIENT, DB, WEB, WEB2

TAG = 33  # of packets from another Node


class TraceScenes:
    """`node` has the namespaces."""

    def __init__(self, node, switch):
        self.node, self.space, self.switch = node, node.names, switch

    def all(self):
        """(title, action, no rules: packets that are sent for a Traceflow end where they are told,
        IP versions)."""
        policy = "acnp:web-app-db-network-policy"
        tcp = ("--protocol", "tcp")
        web, web2 = self.pod(WEB), self.pod(WEB2)
        sent = [
            ("client -> web2, by TCP", self.sent(CLIENT, web2, tcp, "forwarding delivered web2"), BOTH),
            ("client -> web2, by ICMP", self.sent(CLIENT, web2, (), "forwarding delivered web2"), BOTH),
            ("web2 -> Service with the one Endpoint web2", self.sent(WEB2, "service/default/sample-loadbalancer", (), "lb forwarded"), BOTH),
            ("client -> ClusterIP", self.cluster_ip, BOTH),
            ("client -> Service without Endpoint", self.sent(CLIENT, "service/default/sample-clusterip-no-ep", (), "lb rejected"), BOTH),
            ("web -> web2, denied by an egress rule", self.sent(WEB, web2, tcp, "networkpolicy dropped EgressMetric", policy), BOTH),
            ("db -> web, denied by an ingress rule", self.sent(DB, web, tcp, "networkpolicy dropped IngressMetric", policy), BOTH),
            ("client -> web, let pass by a rule", self.sent(CLIENT, web, tcp, "networkpolicy forwarded", "AllowFromClient"), BOTH),
            ("web2 -> internet, by an Egress of this Node", self.sent(WEB2, world.INTERNET, (), "egress marked-for-snat", "192.168.77.112"), BOTH),
            ("client -> internet, by an Egress elsewhere", self.sent(CLIENT, world.INTERNET, (), "egress forwarded", "192.168.77.113"), BOTH),
            ("client -> peer, by the tunnel", self.sent(CLIENT, world.REMOTE, ("--protocol", "udp"), "forwarding forwarded", "192.168.77.103"), BOTH),
            ("TTL 1", self.sent(CLIENT, world.REMOTE, ("--ttl", "1"), "routing dropped"), BOTH),
            ("receiver: peer -> web2", self.received, BOTH),
            ("live: client -> ClusterIP", self.live, BOTH),
            ("live, dropped only: db -> web", self.live_dropped, BOTH),
            ("live: web2 -> internet, by an Egress of this Node", self.live_egress, BOTH),
            ("what is wrong, given up, or has a tag twice", self.refused, (4,)),
        ]
        for title, action, families in sent:
            yield f"Traceflow: {title}", action, [], families

    def isolated(self):
        """What no rule of K8s's policy lets pass, while there is no other policy."""
        policy = "np:default/web-app-db-network-policy"
        ingress, egress = (f"networkpolicy dropped {table}DefaultRule" for table in ("Ingress", "Egress"))
        yield "Traceflow: db -> web, isolated by K8s's policy", self.sent(DB, self.pod(WEB), ("--protocol", "tcp"), ingress, policy), [], BOTH
        yield "Traceflow: web -> web2, isolated by K8s's policy", self.sent(WEB, self.pod(WEB2), (), egress, policy), [], BOTH

    def rejected(self):
        """What policies of either end refuse (refusals.yaml), while they do."""
        tcp, web2 = ("--protocol", "tcp"), self.pod(WEB2)
        for title, destination, words, step, policy in (
            ("client -> web2, refused by web2's policy, TCP", web2, tcp, "networkpolicy rejected IngressMetric", "acnp:refuse-to-web2"),
            ("client -> web2, refused by web2's policy, ICMP", web2, (), "networkpolicy rejected IngressMetric", "acnp:refuse-to-web2"),
            ("client -> ClusterIP -> web2, refused", "service/default/local", (), "networkpolicy rejected IngressMetric", "acnp:refuse-to-web2"),
            ("client -> db, refused by client's policy", self.pod(DB), tcp, "networkpolicy rejected EgressMetric", "acnp:refuse-from-client"),
        ):
            yield f"Traceflow: {title}", self.unanswered(self.sent(CLIENT, destination, words, step, policy)), [], BOTH
        yield "Traceflow: live, dropped only: client -> web2, refused", self.live_rejected, [], BOTH

    def unanswered(self, action):
        """The same; client, which has sent nothing, is told nothing: what comes to it is only what
        it asks for then."""

        def run(family):
            with traffic.Listener(self.space[CLIENT.name], self.node.interface(CLIENT)) as listener:
                told = action(family)
                self.node.ping(CLIENT.name, of(world.GATEWAY_IP, family))
                gateway = traffic.socket.inet_pton(traffic.family_of(of(world.GATEWAY_IP, family)), of(world.GATEWAY_IP, family))
                kind = b"\x08\x00" if family == 4 else b"\x86\xdd"
                came = lambda frames: [frame for frame in frames if frame[12:14] == kind]  # noqa: E731
                frames = came(listener.frames(lambda frames: any(gateway in frame[22:42] for frame in came(frames))))
            # Of neighbours both families' kernels speak as they like.
            if strange := [frame.hex() for frame in frames if gateway not in frame[22:42] and not (frame[20] == 58 and 133 <= frame[54] <= 137)]:
                raise Failure(f"client was told: {strange}")
            return told

        return run

    @staticmethod
    def pod(pod):
        """As vsctl has it."""
        return f"default/{pod.name}"

    def trace(self, *words):
        """What one tells; it leaves no flow and no connection of its own."""
        before = self.connections()
        told = self.switch.json("antrea", "trace-flow", *words, "--wait", PATIENCE_S // 2)
        machine.expect("it leaves no flows", lambda: not self.flows(), self.flows)
        packet = bytes.fromhex(told["packet"])
        at, protocol = (34, packet[23]) if packet[12:14] == b"\x08\x00" else (54, packet[20])
        if protocol in (6, 17):
            words = f"sport={int.from_bytes(packet[at:at + 2])},"
            # The other way round it is another Node's answer. Other clients may have had its port.
            if left := [line for line in self.connections() - before if words in line.split("reply=")[0]]:
                raise Failure(f"it left connections: {left}")
        return told

    def connections(self):
        """Tuples of all connections, without their states."""
        return {line.split(",zone=")[0] for line in self.switch.vsctl("dump-conntrack").splitlines()}

    def flows(self):
        """Flows of Traceflows."""
        return [line for line in self.switch.vsctl("dump-flows", "br0").splitlines() if "metadata=" in line.split("actions=")[0]]

    @staticmethod
    def steps(told):
        """`component action` of each observation, in small letters."""
        return [f"{one['component']} {one['action']}".lower() for one in told["observations"]]

    def expect(self, told, step, *words):
        """The observation that begins with `step`, and has all words somewhere in it."""
        steps = self.steps(told)
        found = [one for text, one in zip(steps, told["observations"]) if f"{step} ".startswith(f"{text} ")]
        if told["timed_out"] or not found:
            raise Failure(f"no {step!r} in {steps}{', timed out' if told['timed_out'] else ''}")
        text = json.dumps(found[0])
        words = [*words, *step.split()[2:]]
        if missing := [word for word in words if word not in text]:
            raise Failure(f"{missing} are not in {text}")
        return found[0]

    def sent(self, source, destination, words, step, *contains):
        """A packet from a Pod tells `step`; at last with nothing behind it but where it left."""

        def run(family):
            to = of(destination, family) if destination[0].isdigit() else destination
            told = self.trace(self.pod(source), to, f"-{family}", *words)
            contains_ = [of(word, family) if word[0].isdigit() else word for word in contains]
            found = self.expect(told, step, *contains_)
            if self.steps(told)[0] != "spoofguard forwarded" or told["observations"][0]["pod"] != self.pod(source):
                raise Failure(f"it began otherwise: {told['observations'][0]}")
            if not told["trace"]:
                raise Failure("TraceService was not asked")
            what = found["pod"] or found["reason"] or found["translated_source"] or found["translated_destination"] or found["tunnel_destination"] or ""
            rule = f" by {found['rule']['policy']}" if found["rule"] else ""
            return f"{found['component']} {found['action']}{rule} {what}".strip()

        return run

    def cluster_ip(self, family):
        """Either Endpoint; what the endpoint is, the way out says, too."""
        seen = set()
        for _ in range(40):
            told = self.trace(self.pod(CLIENT), "service/default/sample-clusterip", f"-{family}")
            chosen = self.expect(told, "lb forwarded", "default/sample-clusterip:http")["translated_destination"]
            last = self.expect(told, "forwarding " + ("delivered" if chosen == of(WEB.v4, family) else "forwarded"))
            if last["action"] == "delivered" and "redirected by port antrea-tc-tap0" not in last["reason"]:
                raise Failure(f"TrafficControl leads web's packets elsewhere, and it does not say so: {last}")
            seen.add(chosen)
            if seen == {of(WEB.v4, family), of(world.REMOTE, family)}:
                return "LB forwarded to web, to peer"
        raise Failure(f"of 40 none went elsewhere than to {seen}")

    def received(self, family):
        """The peer sends a packet with the tag: this Node tells it, and delivers it to nobody."""
        interface = self.node.interface(WEB2)
        with traffic.Listener(self.space[WEB2.name], interface) as listener:
            process = self.begin("--receiver", "--tag", str(TAG))
            token = f"tagged {time.monotonic_ns()}".encode()
            self.from_peer(family, token)
            told = self.end(process)
            frames = [frame for frame in listener.frames() if token in frame]
        self.expect(told, "forwarding received")
        self.expect(told, "forwarding delivered web2")
        if frames:
            raise Failure("the packet was delivered")
        return "received, delivered web2"

    def from_peer(self, family, token):
        """A datagram to web2 with the tag in its DSCP."""
        with traffic.make_socket(self.space[PEER], traffic.family_of(of(WEB2.v4, family)), traffic.DATAGRAM) as client:
            # IPPROTO_IP, IP_TOS; IPPROTO_IPV6, IPV6_TCLASS
            level, option = (0, 1) if family == 4 else (41, 67)
            client.setsockopt(level, option, TAG << 2)
            client.connect((of(WEB2.v4, family), HTTP))
            client.send(token)

    def begin(self, *words):
        """A Traceflow that waits for its packet."""
        argv = [self.switch.binaries / "vsctl", "--socket", self.switch.socket, "--json", "antrea", "trace-flow", *words, "--wait", PATIENCE_S]
        process = machine.spawn(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        machine.expect("the Traceflow runs", lambda: self.flows())
        return process

    def end(self, process):
        """What it told."""
        out, errors = process.communicate(timeout=2 * PATIENCE_S)
        if process.returncode:
            raise Failure(f"vsctl ended with status {process.returncode}: {errors}")
        machine.expect("its flows are gone", lambda: not self.flows(), self.flows)
        return json.loads(out)

    def live(self, family):
        """A real connection works meanwhile, and its first packet is told as it came in."""
        process = self.begin(self.pod(CLIENT), "service/default/sample-clusterip", f"-{family}", "--live", "--protocol", "tcp", "--port", "80")
        answer = traffic.ask(self.space[CLIENT.name], of(world.CLUSTER_IP, family), HTTP)
        told = self.end(process)
        found = self.expect(told, "lb forwarded", "default/sample-clusterip:http")
        packet = bytes.fromhex(told["packet"])
        address = traffic.socket.inet_pton(traffic.family_of(of(world.CLUSTER_IP, family)), of(world.CLUSTER_IP, family))
        if address not in packet or packet[6:12].hex(":") != CLIENT.mac:
            raise Failure(f"the packet is not as it came in: {packet.hex()}")
        return f"answered, LB forwarded to {'web' if found['translated_destination'] == of(WEB.v4, family) else 'peer'}" if answer else "no answer"

    def live_dropped(self, family):
        """What passes is not told; what is denied is, with its bytes."""
        process = self.begin(self.pod(DB), "any", f"-{family}", "--live", "--dropped-only")
        traffic.ask(self.space[DB.name], of(WEB2.v4, family), HTTP)
        try:
            traffic.ask(self.space[DB.name], of(WEB.v4, family), HTTP, DENIED_LIMIT)
            raise Failure("web answered")
        except TimeoutError:
            pass
        told = self.end(process)
        found = self.expect(told, "networkpolicy dropped", "acnp:web-app-db-network-policy")
        if not told["packet"]:
            raise Failure("its bytes are missing")
        return f"{found['component']} {found['action']} by {found['rule']['policy']}"

    def live_rejected(self, family):
        """A real packet is told with its bytes, and refused as it would have been."""
        process = self.begin(self.pod(CLIENT), self.pod(WEB2), f"-{family}", "--live", "--dropped-only", "--protocol", "tcp")
        try:
            traffic.ask(self.space[CLIENT.name], of(WEB2.v4, family), HTTP)
            raise Failure("web2 answered")
        except ConnectionRefusedError:
            pass
        except BaseException:
            machine.end(process)
            raise
        told = self.end(process)
        found = self.expect(told, "networkpolicy rejected", "acnp:refuse-to-web2", "RefuseAll")
        if bytes.fromhex(told["packet"] or "")[6:12].hex(":") != CLIENT.mac:
            raise Failure(f"the packet is not as it came in: {told['packet']}")
        return f"reset; {found['component']} {found['action']} by {found['rule']['policy']}"

    def live_egress(self, family):
        """A real connection is marked for the host, which translates it; its first packet says
        so."""
        internet = of(world.INTERNET, family)
        process = self.begin(self.pod(WEB2), internet, f"-{family}", "--live", "--protocol", "tcp", "--port", str(HTTP))
        try:
            _, seen = traffic.ask(self.space[WEB2.name], internet, HTTP)
        except BaseException:
            machine.end(process)
            raise
        told = self.end(process)
        if seen != of(EGRESS_IP[0], family):
            raise Failure(f"the internet sees {seen}")
        found = self.expect(told, "egress marked-for-snat", seen)
        self.expect(told, "forwarding forwarded-out-of-overlay")
        return f"{found['component']} {found['action']} {found['egress']}"

    def refused(self, _):
        """Refusals say why; a client that goes away leaves nothing."""
        for words, part in [
            (("default/nobody", self.pod(WEB)), "this Node has no Pod default/nobody"),
            ((self.pod(CLIENT), "service/default/nothing"), "there is no Service default/nothing"),
            ((self.pod(CLIENT), "224.0.0.1"), "destination.address"),
            ((self.pod(CLIENT), "any"), "goes somewhere"),
        ]:
            try:
                self.switch.vsctl("antrea", "trace-flow", *words)
            except Failure as error:
                if part not in str(error):
                    raise
            else:
                raise Failure(f"{words} was not refused")
        process = self.begin(self.pod(CLIENT), "any", "--live", "--protocol", "udp", "--port", "9", "--tag", "7")
        listed = self.switch.json("antrea", "trace-flow")
        if [one["tag"] for one in listed] != [7]:
            raise Failure(f"there is {listed}")
        try:
            self.switch.vsctl("antrea", "trace-flow", self.pod(CLIENT), self.pod(WEB), "--tag", "7")
            raise Failure("the tag was given twice")
        except Failure as error:
            if "tag 7 is in use" not in str(error):
                raise
        process.kill()
        process.wait()
        machine.expect("flows of one who went away are gone", lambda: not self.flows(), self.flows)
        return "refused with reasons; who goes away leaves nothing"
