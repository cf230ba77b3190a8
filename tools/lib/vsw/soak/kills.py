"""Random kills of a switch with an agent's objects, under traffic that policies deny.

A round is: the switch has started; its gate is what the disk said; what is denied does not arrive;
agents sync, one round after the other, or none does; SIGKILL at a random time. A quarter of the
starts are killed again within a second, ready or not.

What must hold at each start:

- The gate is open if and only if no mark `unwritten` was on the disk.
- An open gate has every round that the switch has acknowledged.
- There is no mark if no agent has spoken since the disk was known to have everything.
- The state on the disk is never torn.
- No denied packet arrives; behind a shut gate none does.
"""

import json
import random
import struct
import time
from pathlib import Path

from .. import machine
from ..antrea import generated
from ..antrea.four_pods import FourPods, kill
from ..machine import Failure

SIZE = generated.Size(3, 3, 6)
LIVES_S = 1.5  # at most, before a kill, from when it is ready
HEAD = struct.Struct("<8sQQQ")  # of a state: magic, version, length, checksum
SYNC_S = 120


class Kills:
    """The Node, what is known to be acknowledged, and what happened."""

    def __init__(self, binaries, directory, seed, stack):
        self.chance, self.node = random.Random(seed), FourPods(binaries, directory, SIZE, stack)
        self.agents, self.stack = [], stack
        stack.callback(lambda: [machine.end(agent) for agent in self.agents])
        # The last round that an agent was told is committed, and whether one may have spoken that
        # the disk does not know.
        self.acknowledged, self.may_be_unsaid, self.has_synced = 0, False, False
        self.counts = dict.fromkeys(("kills", "early", "open", "shut", "quiet", "marks met", "syncs", "cut syncs", "denied sent", "allowed seen"), 0)
        self.knocks, self.watches = self.node.denied(generated.PORT)
        self.allowed = self.node.end("client", "knock", generated.PORT, *generated.addresses(generated.PODS["web"]))

    def run(self, kills, until, say):
        """So many kills, or until that time; Failure at the first thing that does not hold."""
        self.node.start_switch()
        self.judge(marked=False)
        told = 0
        while self.counts["kills"] < kills and time.monotonic() < until:
            self.live()
            marked = self.die()
            if self.chance.random() < 0.25:
                self.node.spawn_switch()
                time.sleep(self.chance.random())
                self.counts["early"] += 1
                # One that was shut by a mark may have written that it is shut.
                marked = self.die() or marked
            self.node.start_switch()
            self.judge(marked)
            if self.counts["kills"] >= told + 50:
                told = self.counts["kills"]
                say(self.summary())
        self.look("at the end")

    def live(self):
        """What happens between two kills."""
        end = time.monotonic() + self.chance.random() * LIVES_S
        if not self.has_synced or self.chance.random() < 0.1:
            self.sync(SYNC_S)
        if self.chance.random() < 0.35:
            self.counts["quiet"] += 1
            machine.expect("what was acknowledged is on the disk", lambda: not self.is_marked())
            self.may_be_unsaid = False
            time.sleep(max(0, end - time.monotonic()))
            return
        if self.chance.random() < 0.4:
            self.meet_mark()
            return
        while time.monotonic() < end:
            self.sync(max(0.0, end - time.monotonic()))

    def meet_mark(self):
        """Syncs until the disk is behind, and a moment more: a call has been answered, or will be,
        that is not written."""
        agent = self.start_agent()
        machine.wait_until("a mark, or the end of a sync", SYNC_S, lambda: self.is_marked() or agent.poll() is not None, 0.0005)
        self.counts["marks met"] += self.is_marked()
        time.sleep(self.chance.random() ** 3 * 0.05)
        if agent.poll() == 0:
            self.sync_done()

    def start_agent(self):
        """An agent that tells everything once, other policies each time."""
        generated.write(self.node.manifests, SIZE, self.chance.randrange(1 << 30))
        with open(self.node.directory / "agent.log", "ab") as log:
            agent = machine.spawn(self.node.agent_command("--once"), stdout=log, stderr=log)
        self.agents, self.may_be_unsaid = [*self.agents, agent], True
        return agent

    def sync_done(self):
        """What is known now to be acknowledged."""
        self.counts["syncs"] += 1
        self.has_synced = True
        self.acknowledged = self.node.state()["round"]

    def sync(self, limit):
        """An agent tells everything; it is given so many seconds. One that is not waited for goes
        on while the switch is killed."""
        agent = self.start_agent()
        try:
            machine.wait_until("a sync", limit, lambda: agent.poll() is not None, 0.01)
        except Failure:
            if limit >= SYNC_S:
                raise
            self.counts["cut syncs"] += 1
            return
        if agent.returncode:
            raise Failure(f"the agent ended with status {agent.returncode}:\n{_tail(self.node.directory / 'agent.log')}")
        self.sync_done()

    def die(self):
        """SIGKILL. Returns whether the disk says that something may be missing."""
        if self.node.switch.process.poll() is not None:
            raise Failure(f"the switch had ended with status {self.node.switch.process.returncode}:\n{self.node.switch.log_tail()}")
        kill(self.node.switch.process)
        # It has lost its switch, and ends. Nothing of it may speak to the next one.
        for agent in self.agents:
            kill(agent)
        self.agents = []
        self.counts["kills"] += 1
        self.check_disk()
        return self.is_marked()

    def is_marked(self):
        """Whether there may be acknowledged calls that the disk does not know."""
        return (self.node.kept / "unwritten").exists()

    def check_disk(self):
        """The state is whole."""
        aside = [file.name for file in self.node.kept.iterdir() if "refused" in file.name]
        if aside:
            raise Failure(f"a state was put aside: {aside}")
        if self.is_marked() and not self.may_be_unsaid:
            raise Failure("a mark, though no agent has spoken since everything was on the disk")
        if not self.has_synced:
            return
        state = (self.node.kept / "state").read_bytes() if (self.node.kept / "state").exists() else None
        if state is None:
            if not self.is_marked():
                raise Failure("neither a state nor a mark")
            return
        magic, version, length, _ = HEAD.unpack_from(state)
        if (magic, version, length) != (b"vswnode\n", 1, len(state) - HEAD.size):
            raise Failure(f"a torn state: {magic} {version} {length} in {len(state)} bytes")

    def judge(self, marked):
        """A switch has started: its gate is what the disk says, and has all that was
        acknowledged."""
        state = self.node.state()
        is_open = state["gate_open"]
        must_open = self.has_synced and not marked
        if is_open != must_open:
            raise Failure(f"the gate is {'open' if is_open else 'shut'}, marked {marked}, synced {self.has_synced}: {json.dumps(state)[:500]}\n{self.node.switch.log_tail()}")
        if is_open and state["round"] < self.acknowledged:
            raise Failure(f"round {state['round']} is open, {self.acknowledged} was acknowledged")
        self.counts["open" if is_open else "shut"] += 1
        if not is_open:
            self.has_synced = False
        self.look("the gate is open" if is_open else "the gate is shut", is_open)

    def look(self, when, is_open=True):
        """What is denied does not come, and what is allowed does, if the gate is open."""
        before = {name: watch.report() for name, watch in self.watches.items()}
        self.fail_if_denied(when, before)
        for knock in (*self.knocks, self.allowed):
            knock.report()
        seen = []

        def enough():
            told = {name: watch.report() for name, watch in self.watches.items()}
            self.fail_if_denied(when, told)
            seen.append(told["web"]["all"])
            if not is_open and seen[-1]:
                raise Failure(f"{when}, and web got {told['web']}")
            sent = [knock.report()["sent"] for knock in self.knocks]
            self.counts["denied sent"] += sum(sent)
            enough.sent += min(sent)
            return enough.sent > 20 and (sum(seen) > 0 or not is_open)

        enough.sent = 0
        machine.wait_until(f"{when}: traffic", machine.PATIENCE_S, enough, 0.05, lambda: (enough.sent, seen[-3:]))
        self.counts["allowed seen"] += sum(seen)

    def fail_if_denied(self, when, told):
        """Failure when one has come."""
        wrong = {name: one for name, one in told.items() if one["denied"]}
        if wrong:
            raise Failure(f"{when}: denied packets arrived: {wrong}")

    def summary(self):
        """One line."""
        return ", ".join(f"{number} {name}" for name, number in self.counts.items())


def _tail(path):
    return "\n".join(Path(path).read_text(errors="replace").splitlines()[-20:])
