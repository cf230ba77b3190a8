"""What may happen in a scene: somebody calls somebody, who answers, refuses or is silent."""

import collections
import errno
import functools
import re

from .. import machine
from ..machine import Failure
from . import traffic
from .world import six

HTTP, MYSQL, ALT = 80, 3306, 8080
PING_S = machine.PATIENCE_S // 2  # that ping(8) waits: less than `machine.output` does
DENIED_LIMIT = 0.6  # seconds that a packet which must be dropped gets to arrive anyway
BOTH = (4, 6)

# What a socket of UDP hears of ICMP 3/3 and ICMPv6 1/4 (nobody listens there), and of 3/10 and 1/1
# (prohibited).
UNREACHABLE = {family: errno.ECONNREFUSED for family in BOTH}
PROHIBITED = {4: errno.EHOSTUNREACH, 6: errno.EACCES}


def of(address, family):
    """An address, in that version of IP."""
    return address if family == 4 else six(address)


def silence(where, ask):
    """That nobody answers what is asked there, and nobody refuses."""
    try:
        answer = ask()
    except TimeoutError:
        return "no answer"
    except OSError as error:
        raise Failure(f"{where}: expected silence, got {error}") from error
    raise Failure(f"{where}: expected silence, {answer} answered")


def guarded(scenes):
    """These scenes. What goes wrong between them is one more, which fails, and there the others of
    them end."""
    try:
        for scene in scenes:  # not `yield from`, by which their cleanup would get here as well
            yield scene
    except machine.TROUBLE as error:
        yield f"after that, in {scenes.__qualname__}", functools.partial(_raise, error), [], BOTH[:1]


def chosen(scenes, titles):
    """Of these scenes those whose titles begin so, in the same order. What comes behind the last
    one is not begun."""
    left = list(titles)
    for scene in scenes:
        if scene[0].startswith(left[0]):
            yield scene
            left.pop(0)
            if not left:
                return
    raise Failure(f"there is no scene {left[0]!r}")


def _raise(error, _family):
    raise error


class Actions:
    """Makes functions of the IP version that return the result as text. `node` has the namespaces;
    `owners` says who has which IPv4 address."""

    def __init__(self, node, owners):
        self.node, self.space = node, node.names
        self.owners = owners | {six(address): name for address, name in owners.items()}

    def one(self, source, address, port, who, sees):
        """`who` answers, and sees `sees`."""

        def run(family):
            answer, seen = self._ask(source, address, port, family)
            self._same(answer, who, self.owners.get(seen, seen), sees)
            return f"{who} answers, sees {sees}"

        return run

    def several(self, source, address, port, expected, least=6, most=60):
        """All of `expected` ({who: whom it sees}) answer sooner or later, and nobody else."""

        def run(family):
            answers = collections.Counter()
            while sum(answers.values()) < least or len(answers) < len(expected):
                if sum(answers.values()) == most:
                    raise Failure(f"of {most} connections not one reached {', '.join(set(expected) - set(answers))}: {dict(answers)}")
                answer, seen = self._ask(source, address, port, family)
                self._same(answer, answer if answer in expected else " or ".join(expected), self.owners.get(seen, seen), expected.get(answer))
                answers[answer] += 1
            told = [f"{answers[who]}× {who}" + (f" (sees {sees})" if sees != source else "") for who, sees in expected.items()]
            return ", ".join(told)

        return run

    def denied(self, source, address, port):
        """Nobody answers, and nobody refuses."""

        def run(family):
            where = f"{source} -> {of(address, family)} port {port}"
            return silence(where, lambda: traffic.ask(self.space[source], of(address, family), port, DENIED_LIMIT))

        return run

    def refused(self, source, address, port, told=UNREACHABLE, who="the switch"):
        """Refused at once: TCP by a reset, UDP by an ICMP error."""

        def run(family):
            where = (self.space[source], of(address, family), port)
            for ask, expected in ((lambda: traffic.ask(*where), errno.ECONNREFUSED), (lambda: traffic.datagram(*where, 10), told[family])):
                try:
                    answer = ask()
                except OSError as error:
                    if error.errno != expected:
                        raise Failure(f"expected {errno.errorcode[expected]}, got {error!r}") from error
                else:
                    raise Failure(f"expected {errno.errorcode[expected]}, got {answer or 'an echo'}")
            return f"{who} refuses, TCP by a reset, UDP by an ICMP error"

        return run

    def prohibited(self, source, address):
        """An echo request hears that it is prohibited."""

        def run(family):
            said = self.node.run(source, "sh", "-c", f"ping -n -c 1 -W {PING_S} {of(address, family)} || true")
            if not re.search(r"[Pp]rohibited", said):
                raise Failure(f"ping does not say that it is prohibited: {said}")
            return "the switch refuses, and says that it is prohibited"

        return run

    def pinged(self, source, *addresses):
        """Every one answers."""

        def run(family):
            for address in addresses:
                self.node.ping(source, of(address, family))
            return f"{', '.join(self.owners[address] for address in addresses)} answer{'s' if len(addresses) == 1 else ''}"

        return run

    def _ask(self, source, address, port, family, limit=machine.PATIENCE_S):
        try:
            return traffic.ask(self.space[source], of(address, family), port, limit)
        except OSError as error:
            raise Failure(f"{source} does not reach {of(address, family)} port {port}: {error}") from error

    @staticmethod
    def _same(answer, who, seen, sees):
        if (answer, seen) != (who, sees):
            raise Failure(f"{answer} answered and saw {seen}; expected {who}, seeing {sees}")
