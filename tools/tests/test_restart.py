"""The agent is killed, the switch is stopped or killed, the agent is restarted and tells everything
again, all under load: no connection is lost for the agent or a switch that was stopped, and nothing
that is denied is ever delivered. VSWITCH_RESTART_FULL=1: 1,000 Services of 10 endpoints and 5,000
policies, in place of a tenth."""

import itertools
import os
import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine  # noqa: E402
from vsw.antrea import generated  # noqa: E402
from vsw.antrea.four_pods import FourPods, kill  # noqa: E402
from vsw.antrea.generated import PODS, PORT, SERVICE, addresses  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
SIZE = generated.Size(1000, 10, 5000) if os.environ.get("VSWITCH_RESTART_FULL") else generated.Size(100, 10, 500)
CONNECTIONS = 5  # to each address
# Clients' own ports, below those that kernels give: none is used both straight and by the Service.
# Of such two connections the switch gives one another port, as long as it knows both; one that was
# killed does not.
OWN_PORTS = itertools.count(10_000, 2 * CONNECTIONS)
SYNC_S = 180  # at most, on a busy machine with a build for debugging


class Restart(unittest.TestCase):
    """The Node with its agent."""

    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="vswitch-restart.")))
        self.node = FourPods(BINARIES, self.directory, SIZE, self)
        self.node.start_switch()
        self.agent = None
        self.addCleanup(lambda: self.agent and machine.end(self.agent))

    def start_agent(self):
        """Starts the agent; returns the seconds until it has told everything."""
        before, start = self.state().get("round", 0), time.monotonic()
        with open(self.directory / "agent.log", "ab") as log:
            self.agent = machine.spawn(self.node.agent_command(), stdout=log, stderr=log)

        def told():
            self.assertIsNone(self.agent.poll(), (self.directory / "agent.log").read_text()[-3000:])
            return self.state().get("round", 0) > before

        machine.wait_until("the agent has told everything", SYNC_S, told, 0.1)
        return time.monotonic() - start

    def state(self):
        """What the switch says of itself."""
        return self.node.state()

    def client(self):
        """Connections from client to web, straight and by the Service, IPv4 and IPv6, when all are
        there."""
        talk = self.node.end("client", "talk", PORT, CONNECTIONS, next(OWN_PORTS), *addresses(PODS["web"]))
        service = self.node.end("client", "talk", 80, CONNECTIONS, next(OWN_PORTS), *SERVICE)
        for each in (talk, service):
            machine.expect(f"connections of {each.words} are there", lambda each=each: each.report()["alive"] == 2 * CONNECTIONS, each.report)
        return talk, service

    def counted(self, end, word, least, when):
        """What an end reports until it has counted more than so many."""
        told = []

        def is_more():
            told.append(end.report())
            return sum(one[word] for one in told) > least

        what = f"{when}: more than {least} {word}"
        machine.wait_until(what, SYNC_S, is_more, 0.1, lambda: told[-3:])
        return told

    def check_alive(self, clients, when):
        """No connection was lost, and all talk."""
        for each in clients:
            each.report()
        for each in clients:
            told = self.counted(each, "messages", 2 * CONNECTIONS, when)
            self.assertEqual([one["lost"] for one in told], [[]] * len(told), when)
            self.assertEqual(told[-1]["alive"], 2 * CONNECTIONS, when)

    def check_denied(self, when):
        """Nothing denied came, though there was some."""
        for knock in self.knocks:
            self.counted(knock, "sent", 100, when)
        time.sleep(0.2)
        for name, watch in self.watches.items():
            told = watch.report()
            self.assertEqual(told["denied"], 0, f"{when}: {name} got {told['first']}")

    def test_under_load(self):
        self.knocks, self.watches = self.node.denied(PORT)
        time.sleep(0.5)
        self.check_denied("before anything is told")
        self.node.end("web", "serve", PORT)
        self.start_agent()
        state = self.state()
        objects = {kind["kind"]: kind["objects"] for kind in state["kinds"]}
        self.assertTrue(state["gate_open"], state)
        self.assertEqual((objects["service"], objects["policy"]), (SIZE.services + 1, SIZE.policies + 3), objects)
        clients = self.client()
        self.assertGreater(self.watches["web"].report()["all"], 0, "who watches sees what is allowed")
        self.agent_restarts(clients)
        self.switch_stops(clients)
        self.switch_is_killed()

    def agent_restarts(self, clients):
        """Killed, and back with the same, then with other policies."""
        for seed in (1, 2):
            kill(self.agent)
            generated.write(self.node.manifests, SIZE, seed)
            time.sleep(0.5)
            self.check_alive(clients, "without an agent")
            took = self.start_agent()
            print(f"  the agent is back: told after {took:.1f} s, {self.state()['flows']} flows", file=sys.stderr)
            self.check_alive(clients, f"told again, seed {seed}")
            self.check_denied(f"told again, seed {seed}")
        self.check_alive(self.client(), "new connections")

    def switch_stops(self, clients):
        """Stopped in order, and started: connections go on by what it kept, and again when the
        agent, which stays, has told everything."""
        before, start = self.state()["round"], time.monotonic()
        self.node.switch.stop()
        stopped = time.monotonic() - start
        self.node.start_switch()
        state = self.state()
        self.assertTrue(state["gate_open"], state)
        for each in clients:
            self.answered(each, "the switch was stopped and started")
        print(f"  the switch was stopped ({stopped:.1f} s) and is back: all connections go on after {time.monotonic() - start:.1f} s", file=sys.stderr)
        self.check_denied("the switch was stopped and started")
        machine.wait_until("the agent has told everything again", SYNC_S, lambda: self.state()["round"] > before, 0.1, self.state)
        self.check_alive(clients, "told again, after the switch was stopped")
        self.check_alive(self.client(), "new connections, after the switch was stopped")
        self.check_denied("told again, after the switch was stopped")

    def answered(self, client, when):
        """Each connection has an answer from now; none was lost."""
        client.report()
        seen = []

        def all_are():
            seen[:] = [client.report()]
            return seen[0]["lost"] or seen[0]["answered"] == 2 * CONNECTIONS

        machine.wait_until(f"{when}: all connections have answers", SYNC_S, all_are, 0.5, lambda: seen)
        self.assertEqual(seen[0]["lost"], [], when)

    def switch_is_killed(self):
        """With the agent, and what it kept is gone, too; until the agent is back nothing passes,
        then what may."""
        kill(self.agent)
        kill(self.node.switch.process)
        shutil.rmtree(self.node.kept)
        self.node.kept.mkdir()
        self.node.start_switch()
        self.assertFalse(self.state()["gate_open"])
        for watch in self.watches.values():
            watch.report()
        time.sleep(1)
        for name, watch in self.watches.items():
            self.assertEqual(watch.report()["all"], 0, f"{name} got something while the gate was shut")
        took = self.start_agent()
        print(f"  the switch was killed and is back: told after {took:.1f} s", file=sys.stderr)
        self.check_denied("the switch was killed")
        self.check_alive(self.client(), "new connections after the switch was killed")
        self.check_denied("the switch was killed, with new connections")


if __name__ == "__main__":
    unittest.main()
