"""Numbers of a run as a summary, a table and an SVG chart."""

from statistics import median
from xml.sax.saxutils import escape

DEVICES = ("switch", "ovs", "testpmd")
COLORS = {"switch": "#2b6cb0", "ovs": "#dd6b20", "testpmd": "#a0aec0"}
# Times the gauge's shortest time from which on somebody else was on the core (bench/gauge.py)
SHARED = 1.2
ENOUGH = 3  # rounds that a median is of


def is_calm(round_):
    """Nobody else was on the core of a round."""
    return round_.get("slower", 1.0) < SHARED


def calm(rounds):
    """Those of some rounds that count."""
    return list(filter(is_calm, rounds))


def summarize(samples):
    """{case: {device: [sample dicts]}} as {case: {device: {samples, medians}, ratio}}. Rounds
    during which somebody else was on the core are left out, where each device of the case has
    enough others: what is compared is of the same kind."""
    result = {}
    for case, devices in samples.items():
        entry = {}
        enough = all(len(calm(measured)) >= ENOUGH for measured in devices.values() if measured)
        for device, measured in devices.items():
            rounds = calm(measured) if enough else measured
            if rounds:
                entry[device] = {
                    "mpps": median(r["mpps"] for r in rounds),
                    "cycles_per_packet": median(r["cycles_per_packet"] for r in rounds),
                    "cycles_from": rounds[0]["cycles_from"] if len({r["cycles_from"] for r in rounds}) == 1 else "mixed",
                    "figures": {name: median(r["figures"][name] for r in rounds if name in r["figures"]) for name in _figures(rounds)},
                    "rounds": rounds,
                    "left_out": [r for r in measured if r not in rounds],
                }
        for device, key in (("testpmd", "ratio_mpps"), ("ovs", "ratio_ovs")):
            if device in entry and "switch" in entry:
                entry[key] = round(entry["switch"]["mpps"] / entry[device]["mpps"], 3)
                entry[f"cycles_{device}"] = round(entry[device]["cycles_per_packet"] / entry["switch"]["cycles_per_packet"], 3)
        result[case] = entry
    return result


def _figures(rounds):
    """Names of the figures beyond the common ones, in order."""
    return list(dict.fromkeys(name for r in rounds for name in r["figures"]))


def table(summary):
    """The summary as text. Medians; in brackets the lowest and highest round."""
    wide = max(map(len, [*summary, "case"]))
    lines = [f"{'case':<{wide}} {'device':<8} {'Mpps':>24} {'cycles/packet':>24} {'core busy':>10} {'Mpps x':>7} {'cycles x':>8}"]
    for case, entry in summary.items():
        for device in DEVICES:
            if device not in entry:
                continue
            values = entry[device]
            cells = []
            for key, digits in (("mpps", 2), ("cycles_per_packet", 0)):
                rounds = [r[key] for r in values["rounds"]]
                cells.append(f"{values[key]:.{digits}f} [{min(rounds):.{digits}f} - {max(rounds):.{digits}f}]")
            cells[1] += "" if values["cycles_from"] == "saturated" else " *"
            busy = f"{100 * median(r['busy'] for r in values['rounds']):.0f} %"
            key = {"testpmd": "ratio_mpps", "ovs": "ratio_ovs"}.get(device)
            ratios = f"{entry[key]:>7.2f} {entry[f'cycles_{device}']:>8.2f}" if key in entry else ""
            lines.append(f"{case:<{wide}} {device:<8} {cells[0]:>24} {cells[1]:>24} {busy:>10} {ratios}".rstrip())
    if any(entry[d]["cycles_from"] != "saturated" for entry in summary.values() for d in DEVICES if d in entry):
        lines.append("* the core had idle time: busy cycles per packet; else TSC cycles per second / packets per second")
    lines.append("x: the switch's Mpps by the peer's; the peer's cycles by the switch's. Cycles are those of the time that the pollers had their cores")
    return "\n".join(lines + _left_out(summary) + _figure_lines(summary, wide))


def _left_out(summary):
    """How many rounds are in no figure."""
    said = [f"{case} {device}: {len(entry[device]['left_out'])}" for case, entry in summary.items() for device in DEVICES
            if entry.get(device, {}).get("left_out")]
    return [f"left out, as the other half of the core was somebody's (rounds): {', '.join(said)}"] if said else []


def _figure_lines(summary, wide):
    """The figures that only some cases have."""
    lines = []
    for case, entry in summary.items():
        for device in DEVICES:
            for name, middle in entry.get(device, {}).get("figures", {}).items():
                rounds = [r["figures"][name] for r in entry[device]["rounds"] if name in r["figures"]]
                lines.append(f"{case:<{wide}} {device:<8} {name:<24} {middle:g} [{min(rounds):g} - {max(rounds):g}]")
    return ["", *lines] if lines else []


def middle_functions(entry):
    """The recorded functions of the switch's round with the median of cycles; None when there are
    none."""
    rounds = sorted(entry.get("switch", {}).get("rounds", []), key=lambda each: each["cycles_per_packet"])
    return rounds[len(rounds) // 2].get("functions") if rounds else None


def machine_line(machine):
    """Where it was measured, in one line."""
    return (
        f"{machine['cpu']}, TSC {machine['tsc_hz'] / 1e9:.2f} GHz, {machine['cores']} cores; DPDK {machine['dpdk']}, "
        f"Linux {machine['kernel']}; commit {machine['commit']}, {machine['date']}"
    )


def chart(summary, machine):
    """The summary as an SVG: one panel for Mpps, one for cycles per packet; bars are medians,
    whiskers lowest to highest, each case to its own scale."""
    panels = (("mpps", "Mpps (more is better)"), ("cycles_per_packet", "TSC cycles per packet (less is better)"))
    bar, gap, left, panel_width, pad = 22, 20, 210, 300, 110
    cases = [case for case, entry in summary.items() if any(device in entry for device in DEVICES)]
    group = len(DEVICES) * bar + gap
    top, width = 100, left + 2 * (panel_width + pad)
    height = top + len(cases) * group + 30
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="#1a202c">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<text x="16" y="26" font-size="17" font-weight="600">vswitch and its peers on the same devices, one core</text>',
        f'<text x="16" y="45" font-size="11" fill="#4a5568">{escape(machine_line(machine))}</text>',
    ]
    for number, device in enumerate(DEVICES):
        out.append(f'<rect x="{16 + number * 90}" y="58" width="12" height="12" fill="{COLORS[device]}"/>')
        out.append(f'<text x="{33 + number * 90}" y="68">{device}</text>')
    out.append('<text x="196" y="68" fill="#4a5568">bars: median, each case to its own scale; whiskers: lowest and highest round</text>')
    for row, case in enumerate(cases):
        y = top + row * group + bar + 4
        out.append(f'<text x="{left - 12}" y="{y}" text-anchor="end" font-weight="600">{escape(case)}</text>')
        if "ratio_mpps" in summary[case]:
            ratio = f"{100 * summary[case]['ratio_mpps']:.0f} % of testpmd"
            if "ratio_ovs" in summary[case]:
                ratio += f", {summary[case]['ratio_ovs']:.2f} x OVS-DPDK"
            out.append(f'<text x="{left - 12}" y="{y + 16}" text-anchor="end" fill="#4a5568">{ratio}</text>')
    for number, (key, title) in enumerate(panels):
        x0 = left + number * (panel_width + pad)
        out.append(f'<text x="{x0}" y="{top - 8}" font-weight="600">{title}</text>')
        for row, case in enumerate(cases):
            highest = max(r[key] for d in DEVICES if d in summary[case] for r in summary[case][d]["rounds"])
            scale = panel_width / (highest or 1)
            for line, device in enumerate(DEVICES):
                if device in summary[case]:
                    y = top + row * group + line * bar
                    out += _bar(x0, y, bar - 4, scale, summary[case][device], key, device)
        out.append(f'<line x1="{x0}" y1="{top - 2}" x2="{x0}" y2="{height - 30}" stroke="#1a202c"/>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def _bar(x0, y, thick, scale, values, key, device):
    rounds = [r[key] for r in values["rounds"]]
    end, low, high = (x0 + value * scale for value in (values[key], min(rounds), max(rounds)))
    middle = y + thick / 2
    star = "" if key == "mpps" or values["cycles_from"] == "saturated" else " (busy cycles)"
    text = f"{values[key]:.2f}" if key == "mpps" else f"{values[key]:.0f}{star}"
    return [
        f'<rect x="{x0}" y="{y}" width="{end - x0:.1f}" height="{thick}" fill="{COLORS[device]}"/>',
        f'<path d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {y + 4}v{thick - 8}M{high:.1f} {y + 4}v{thick - 8}" '
        'stroke="#1a202c" fill="none"/>',
        f'<text x="{max(end, high) + 6:.1f}" y="{middle + 4}">{text}</text>',
    ]
