"""The table of scenes: who reaches whom, and by which rule; and how a demo ends."""

import itertools
import re
import signal
import time

from .. import live, machine
from ..machine import Failure, Stop
from ..stage import Stage, say
from .actions import guarded

MANY = 10  # scenes that go wrong tell enough; each may have waited long
TAIL = 30  # lines of a log
EVIDENCE = 5  # connections about a scene that goes wrong


class Table(Stage):
    """What is shown of `switches`, and what went wrong so far. A demo has `node`, the namespaces;
    `ledger`; `acts`; and `hints`."""

    def __init__(self, args, stack):
        super().__init__(args, stack)
        self.wrong, self.switches = [], []

    def perform(self, binaries):
        """All of it."""
        try:
            self.acts(binaries)
            self.checksums()
            if self.args.live:
                self.stay()
            self.judge()
        except BrokenPipeError:  # nobody reads what we say
            raise
        except machine.TROUBLE as error:
            raise Failure("\n".join([machine.words_of(error), *self.tails()])) from error
        except Stop as stop:
            if not (self.args.live and stop.signum == signal.SIGINT):
                raise
            self.judge()

    def tails(self):
        """The ends of the logs of switches and agents."""
        for log in sorted(self.directory.rglob("vswitch*.log")):
            if lines := log.read_text(errors="replace").splitlines():
                yield "\n".join([f"--- the end of {log.relative_to(self.directory)}", *lines[-TAIL:]])

    def alive(self, cause=None):
        """Failure when a switch has ended."""
        for switch in self.switches:
            if switch.process.poll() is not None:
                raise Failure(f"vswitchd ended with status {switch.process.returncode}") from cause

    def play(self, scenes):
        """All of these: (title, action, rules, IP versions)."""
        for title, action, rules, families in guarded(scenes):
            self.scene(title, action, rules, families)

    def scene(self, title, action, rules, families):
        """One scene, for each IP version: prints who reached whom, and by which rule."""
        results, counts = {}, []
        try:
            for family in families:
                what = f"IPv{family}"
                before = self.ledger.read()
                results[family] = action(family)
                counts.append(self.ledger.expect(before, rules, family))
        except machine.TROUBLE as error:
            self.wrong.append(title)
            words = machine.words_of(error)
            say(f"✘ {title:<57} {what}: {words}")
            self.alive(error)
            self.evidence(words)
            if len(self.wrong) >= MANY:
                self.judge()
            return
        if len(set(results.values())) == 1:
            told = next(iter(results.values()))
            say(f"✔ {title:<57} {told}")
        else:
            first, *others = (f"IPv{family}: {text}" for family, text in results.items())
            say(f"✔ {title:<57} {first}")
            for other in others:
                say(f"  {'':<57} {other}")
        # A line for each switch: the IPv4 rules, each with packets of the rule and of its IPv6
        # twin.
        for name in counts[0]:
            texts = [f"{rows[0][0]} {'+'.join(str(count) for _, count in rows)}" for rows in zip(*(found[name] for found in counts))]
            if texts:
                say(f"    {name}: {', '.join(texts)}".replace("by:", "by"))

    def evidence(self, words):
        """Prints what the switches have about the addresses in these words: connections, and what
        ports have dropped."""
        addresses = set(re.findall(r"\b(?:\d+\.){3}\d+\b|\b[0-9a-f]{1,4}:[0-9a-f:]+\b", words))
        for number, switch in enumerate(self.switches, 1):
            try:
                lines = switch.vsctl("dump-conntrack", "--statistics").splitlines()
                dropped = {name: drops for name, port in switch.ports().items() if (drops := port["rx_drops"] | port["tx_drops"])}
            except machine.TROUBLE as error:
                say(f"    switch {number}: {machine.words_of(error)}")
                continue
            met = [line for line in lines if any(re.search(rf"={re.escape(address)}\b", line) for address in addresses)]
            say(f"    switch {number}: dropped {dropped}; connections: {len(lines)}")
            for line in met[-EVIDENCE:]:
                say(f"      {line.strip()}")

    def checksums(self):
        """No receiver saw a wrong one."""
        if errors := self.node.checksum_errors():
            self.wrong.append("checksums")
            say(f"✘ wrong checksums arrived: {errors}")
        else:
            say("✔ no wrong checksum arrived in any namespace")

    def judge(self):
        """Failure when something was wrong."""
        if self.wrong:
            raise Failure(f"{len(self.wrong)} wrong: {'; '.join(self.wrong)}")

    def stay(self):
        """Tells what one can do, and shows the ports, until Ctrl-C."""
        say(self.hints())
        view, last = live.Below(), [live.Reading(switch) for switch in self.switches]
        while True:
            time.sleep(1.0)
            machine.check_stop()
            self.alive()
            now = [live.Reading(switch) for switch in self.switches]
            view.draw([*itertools.chain(*map(live.table, last, now)), *self.seen()])
            last = now

    def seen(self):
        """Lines below the live view of ports."""
        return ()
