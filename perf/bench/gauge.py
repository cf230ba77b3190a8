"""How fast the core under test is, apart from what runs on it.

The other half of a physical core (hyper-threading) may be another tenant's: nobody's accounts show
it, yet it takes up to half of what this half does. A fixed piece of work that needs nothing but the
core tells: it takes longer then. It is done on the core before and behind each round."""

import os
import time
from statistics import median

PIECES = 40  # of about a millisecond


def piece():
    """Work whose time is the core's only."""
    a, b = 1, 2
    for _ in range(16_000):
        a ^= b
        b = b + a & 0xFFFF
    return a


class Gauge:
    """Of one core. `clock`: nanoseconds that this thread has run; `work`: what is done."""

    def __init__(self, core, clock=time.thread_time_ns, work=piece):
        self.core, self.clock, self.work = core, clock, work
        self.shortest = float("inf")  # of all readings

    def read(self):
        """The nanoseconds of a piece of work: the median of many."""
        home = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.core})
        try:
            reading = median(self._once() for _ in range(PIECES))
        finally:
            os.sched_setaffinity(0, home)
        self.shortest = min(self.shortest, reading)
        return reading

    def _once(self):
        began = self.clock()
        self.work()
        return self.clock() - began

    def slower(self, reading):
        """How many times longer a reading is than the shortest one so far."""
        return round(reading / self.shortest, 2)
