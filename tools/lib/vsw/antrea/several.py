"""Tests of several Nodes: how their switches are started, and how scenes are shown on them."""

import contextlib
import sys
import unittest

from .. import machine
from . import traffic
from .actions import BOTH, HTTP, of
from .ledger import Ledger, Ledgers


def started(cluster, hosts, binaries, directory, tag, defer):
    """The switches of a cluster's hosts by name, each with a directory and a core of its own if
    there are as many."""
    switches, cores = {}, machine.cores()
    for host in hosts:
        dpdk = {"worker_cores": [cores[-host.number % len(cores)]], "main_core": cores[0], "memory_mb": 256, "hugepages": False,
                "file_prefix": f"{tag}.{host.number}"}
        own = directory / host.name
        own.mkdir()
        switches[host.name] = cluster.start(host, binaries, own, dpdk, defer)
    return switches


def show(test, switches, scenes, **about):
    """Scenes, each with its rules at the switches that they name; a subtest of `test` for each, and
    family."""
    for title, action, rules, families in scenes:
        for family in families:
            with test.subTest(title, family=family, **about):
                ledgers = Ledgers({name: Ledger(switches[name]) for name, _ in rules})
                before = ledgers.read()
                action(family)
                ledgers.expect(before, rules, family)


def answers(space, address):
    """Whether somebody answers a namespace there."""
    with contextlib.suppress(OSError):
        return bool(traffic.ask(space, address, HTTP, 0.5))
    return False


def meet(names, pairs):
    """Neighbours are found, so that what a scene counts is its own: who asks whom, by the names of
    namespaces, and addresses."""
    for here, there in pairs:
        for family in BOTH:
            address = of(there, family)
            machine.expect(f"{here} reaches {address}", lambda here=here, address=address: answers(names[here], address))


def main(case):
    """Runs the tests of a program. Whatever ends it, nothing of the cluster of `case` stays."""
    machine.stop_on_signals()
    try:
        unittest.main()
    except machine.Stop as stop:
        sys.exit(128 + stop.signum)
    finally:
        machine.ignore_signals()
        case.doClassCleanups()  # unittest leaves them out where all is to end
