"""Rates between two readings of the switch's counters, and how they look on a terminal."""

import shutil
import sys
import time

ENTER, LEAVE, HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l", "\x1b[H", "\x1b[K", "\x1b[J"


class Reading:
    """Counters of all ports and workers at one time."""

    def __init__(self, switch):
        self.time = time.monotonic()
        self.ports, self.workers = switch.ports(), switch.workers()


def drops(port):
    """Packets that a port lost, both ways."""
    return int(port.get("rx_dropped", 0)) + int(port.get("tx_dropped", 0))


def port_rates(old, new):
    """Per port: {rx_mbps, rx_kpps, tx_mbps, tx_kpps, drops} between two readings; "rx" is what the
    switch received."""
    seconds = max(1e-6, new.time - old.time)
    rates = {}
    for name, port in new.ports.items():
        before = old.ports.get(name, {})
        entry = {"drops": drops(port) - drops(before)}
        for way in ("rx", "tx"):
            entry[f"{way}_mbps"] = (port[f"{way}_bytes"] - before.get(f"{way}_bytes", 0)) * 8 / seconds / 1e6
            entry[f"{way}_kpps"] = (port[f"{way}_packets"] - before.get(f"{way}_packets", 0)) / seconds / 1e3
        rates[name] = entry
    return rates


def worker_loads(old, new):
    """Per worker: (core, load in percent, busy cycles per packet or None)."""
    loads = []
    for before, after in zip(old.workers, new.workers):
        spent = {k: int(after.get(f"{k}_cycles", 0)) - int(before.get(f"{k}_cycles", 0)) for k in ("busy", "idle", "sleep")}
        packets = int(after["packets"]) - int(before["packets"])
        total = sum(spent.values())
        load = 100 * spent["busy"] / total if total > 0 else 0.0
        loads.append((after.get("core", "?"), load, spent["busy"] / packets if packets > 0 else None))
    return loads


def table(old, new):
    """A reading and the rates since an older one, as lines."""
    width = max([10, *map(len, new.ports)])
    lines = [f"{'port':<{width}} {'type':<10} {'link':<5}{'rx Mbit/s':>11} {'rx kpps':>9} {'tx Mbit/s':>11} {'tx kpps':>9} {'drops':>7} {'drops/s':>8}"]
    rates = port_rates(old, new)
    seconds = max(1e-6, new.time - old.time)
    for name, port in sorted(new.ports.items(), key=lambda item: item[1].get("number", 0)):
        r = rates[name]
        link = "up" if port.get("link_up") else "down"
        lines.append(
            f"{name:<{width}} {port.get('type', ''):<10} {link:<5}{r['rx_mbps']:>11.1f} {r['rx_kpps']:>9.1f} "
            f"{r['tx_mbps']:>11.1f} {r['tx_kpps']:>9.1f} {drops(port):>7} {r['drops'] / seconds:>8.0f}"
        )
    for core, load, cycles in worker_loads(old, new):
        lines.append(f"worker on core {core}: load {load:.0f} %" + (f", {cycles:.0f} cycles/packet" if cycles else ""))
    return lines


class Below:
    """Lines below what was printed, redrawn in place; what is above them stays."""

    def __init__(self):
        self.lines = 0

    def draw(self, lines):
        """Shows these lines, as many as the terminal has room for."""
        columns, rows = shutil.get_terminal_size()
        shown = [line[: columns - 1] for line in lines[: rows - 1]]
        up = f"\x1b[{self.lines}A" if self.lines else ""
        sys.stdout.write("".join([up, *(f"\r{line}{CLEAR_LINE}\r\n" for line in shown), CLEAR_BELOW]))
        sys.stdout.flush()
        self.lines = len(shown)


class Screen:
    """Redraws a terminal in place, on its alternate screen; does nothing when it is not live."""

    def __init__(self, live):
        self.live = live
        if live:
            sys.stdout.write(ENTER)

    def draw(self, lines):
        """Shows these lines."""
        if self.live:
            columns, rows = shutil.get_terminal_size()
            shown = [line[: columns - 1] + CLEAR_LINE for line in lines[: rows - 1]]
            sys.stdout.write(HOME + "\r\n".join(shown) + CLEAR_BELOW)
            sys.stdout.flush()

    def close(self):
        """Gives the terminal back."""
        if self.live:
            self.live = False
            sys.stdout.write(LEAVE)
            sys.stdout.flush()
