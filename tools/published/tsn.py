"""TSN into a virtual machine (Linaro, 2023)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import polars as pl

from published.claims import NOT_MEASURED, US, Check, Claim, Figures, Finding, Of, Pair, differ, times
from published.experiment import MICROSECONDS, Entry, Experiment, Ours, Part, Picture, Table
from published.pictures import repetitions

KERNEL: Final = {
    "tap": "tap + kernel bridge",
    "macvtap": "macvtap",
    "xdp": "tap + XDP",
    "ovs": "tap + Open vSwitch",
}
AFXDP: Final = {"ovs-afxdp": "Open vSwitch + AF_XDP"}
ALL: Final = {**KERNEL, **AFXDP, "vfio": "VFIO", "user": "user NAT (the article has none)"}
_UNDER: Final = {"none": "idle", "load-same": "load, same direction", "load-opposite": "load, opposite direction"}
LOADS: Final = tuple(_UNDER)
_NAMED: Final = {"none": " idle", "load-same": " loaded"}
CYCLE_NS: Final = 503_000
_POLLS: Final = (
    "The card's port of Open vSwitch is served by the switch's main thread here (afxdp-nonpmd), and the guest's by a "
    "tap that vhost-net carries; the article's by a polling thread on a dedicated CPU, and by vhost-user, for which "
    "Open vSwitch must be built with DPDK. Virtual time cannot show the benefit of the polling thread."
)
_SENDER: Final = (
    "Our latency counts from the schedule. All CPUs share one clock, so the load also slows the sender: packets leave "
    "later."
)


def _tsn(bridge: str, load: str, metric: str = "latency", *, in_slot: bool = True) -> Of:
    return Of(f"bridge={bridge}, loads={load}", metric, "control", in_slot)


def _pairs(base: str, bridges: Iterable[str], *loads: str, in_slot: bool = True) -> list[Pair]:
    """Each bridge against this one."""
    return [
        (f"{bridge}{_NAMED[load]}", _tsn(base, load, in_slot=in_slot), _tsn(bridge, load, in_slot=in_slot))
        for load in loads
        for bridge in bridges
        if bridge != base
    ]


def _gap(bridges: Iterable[str], load: str, in_slot: bool) -> Callable[[Figures], str]:
    def text(figures: Figures) -> str:
        found = [figures.effect(a, b) for _, a, b in _pairs("vfio", bridges, load, in_slot=in_slot)]
        gaps = [f"{one.difference / US:.1f}" for one in found if one is not None]
        return " to ".join(dict.fromkeys((min(gaps, key=float), max(gaps, key=float)))) if gaps else "not measured"

    return text


def _largest(bridges: Iterable[str], load: str, in_slot: bool) -> Callable[[Figures], str]:
    def text(figures: Figures) -> str:
        found = [figures.over_all(_tsn(bridge, load, in_slot=in_slot), "max") for bridge in bridges]
        values = [one[0] for one in found if one is not None]
        return f"{max(values) / US:.1f}" if values else "not measured"

    return text


def _both(text: Callable[[str, bool], Callable[[Figures], str]]) -> list[Callable[[Figures], str]]:
    """Whole and without missed slots, idle and loaded."""
    return [text(load, in_slot) for load in ("none", "load-same") for in_slot in (False, True)]


def _missed(bridge: str) -> Callable[[Figures], str]:
    def text(figures: Figures) -> str:
        counts = []
        for load in LOADS:
            gates = [one["gates"] for one in figures.blocks(_tsn(bridge, load).cells, "control") if one["gates"]]
            counts.append(f"{sum(one['missed'] for one in gates)} of {sum(one['left'] for one in gates)}")
        return ", ".join(counts)

    return text


def _by_bridge(note: str, in_slot: bool) -> Table:
    headings = ["bridge", *_UNDER.values()]
    cut = ["cut: idle, same, opposite"] if in_slot else []
    rows: list[tuple[Entry, ...]] = [
        (title, *(Ours(_tsn(bridge, load, in_slot=in_slot)) for load in LOADS), *([_missed(bridge)] if in_slot else []))
        for bridge, title in ALL.items()
    ]
    return Table(note, "µs", [*headings, *cut], rows)


def _packets(figures: Figures, bridges: Iterable[str], loads: Sequence[str] = LOADS) -> pl.DataFrame:
    """Every packet of these cells; no rows without any."""
    if figures.packets.is_empty():
        return figures.packets
    wanted = [pl.col("cell").str.ends_with(f"bridge={bridge},loads={load}") for bridge in bridges for load in loads]
    return figures.packets.filter(pl.any_horizontal(wanted))


def _share(packets: pl.DataFrame, which: pl.Expr) -> float:
    return 100 * packets.filter(which).height / packets.height


def _mostly_below_100us(load: str) -> Check:
    """A claim that most packets of each bridge take less than 100 µs."""

    def check(figures: Figures) -> Finding:
        found = {bridge: _packets(figures, [bridge], [load]) for bridge in ("vfio", *KERNEL, *AFXDP)}
        if any(one.is_empty() for one in found.values()):
            return NOT_MEASURED
        shares = {bridge: _share(one, pl.col("latency_ns") < 100 * US) for bridge, one in found.items()}
        words = "; ".join(f"{bridge} {share:.0f} %" for bridge, share in shares.items())
        return Finding(words, "yes" if min(shares.values()) > 50 else "no")

    return check


def _some_above_200us(figures: Figures) -> Finding:
    packets = _packets(figures, ("vfio", *KERNEL), ["load-same"])
    if packets.is_empty():
        return NOT_MEASURED
    in_slot = packets.filter(pl.col("class").fill_null("") != "missed_slot")
    above = _share(in_slot, pl.col("latency_ns") > 200 * US)
    largest = in_slot.select(pl.col("latency_ns").max()).item() / US
    agrees = above > 0.1 and 300 < largest < 500
    return Finding(f"{above:.1f} % over 200 µs; the largest {largest:.0f} µs", "yes" if agrees else "no")


def _over_a_cycle(bridges: Iterable[str]) -> Check:
    """A claim that most packets over a gate cycle missed their slot, through each of these bridges that has some."""
    listed = tuple(bridges)

    def check(figures: Figures) -> Finding:
        words, agrees = [], True
        for bridge in listed:
            packets = _packets(figures, [bridge])
            if packets.is_empty():
                return NOT_MEASURED
            late = packets.filter(pl.col("latency_ns") > CYCLE_NS)
            missed = late.filter(pl.col("class") == "missed_slot").height
            words.append(f"{bridge} {missed:,} of {late.height:,}")
            agrees &= missed > late.height / 2 or not late.height
        return Finding("; ".join(words), "yes" if agrees else "no")

    return check


def _anomalies(figures: Figures, *names: str) -> list[tuple[str, dict[str, Any]]]:
    """What was found of these classes, each with its bridge."""
    return [
        (str(cell["cell"]["guests.vm1.bridge"]), block["anomalies"][name])
        for cell in figures.cells
        for block in cell["streams"].values()
        for name in names
        if name in (block["anomalies"] or {})
    ]


def _stalls(figures: Figures) -> Finding:
    """A stall as the article's: five packets and more that arrive at once, through a bridge that keeps up."""
    found = [(bridge, one) for bridge, one in _anomalies(figures, "stall") if bridge != "user"]
    like_his = [
        (bridge, stall)
        for bridge, one in found
        for stall in one["shown"]
        if bridge not in AFXDP and stall["packets"] >= 5 and abs(stall["evidence"]["slope"] + 1) < 0.1
    ]
    shorter = Counter(bridge for bridge, one in found for _ in range(one["episodes"]))
    words = ", ".join(f"{n} through {bridge}" for bridge, n in shorter.items())
    if like_his:
        return Finding(f"{len(like_his)} such stalls; {like_his[0][1]['text']}", "yes")
    return Finding(
        f"none; others: {words or 'none'}",
        "not shown",
        absent="none came. They came about once a minute there; a cell is 1 s here",
    )


def _swings(figures: Figures) -> Finding:
    found = [one for _, one in _anomalies(figures, "clock_swing", "clock_step")]
    readings = sum(port["offset_ns"]["n"] for cell in figures.cells for port in cell["ptp"] if port["offset_ns"])
    return Finding(
        f"{sum(one['episodes'] for one in found)} clock swings; ptp4l printed {readings} offsets in "
        f"{len(figures.cells)} cells",
        "not shown",
        absent="it cannot occur here. Both cards' clocks are of one emulated clock, and do not drift",
    )


TSN = Experiment(
    "tsn-bridges",
    "TSN into a virtual machine",
    'Linaro, T. Akashi, "[Network Latency with Time Sensitive Networking on Virtual Machine]'
    '(https://www.linaro.org/blog/network-latency-with-time-sensitive-networking-on-virtual-machine/)", 2023',
    "How late do time-sensitive packets reach a virtual machine through each virtual bridge, idle and loaded?",
    [
        Part(
            "tsn-bridges",
            "latency",
            "Latency by bridge and load",
            [
                Table(
                    "What the article's text says. Its table is a picture, of 5 minutes without irregular ranges. So "
                    "our figures appear twice: for the whole run, and without packets that missed their gate window. "
                    "Ours are with load in the same direction.",
                    "µs",
                    (
                        "µs",
                        "published: idle",
                        "ours: idle, whole run",
                        "idle, without missed slots",
                        "published: 3 netperf",
                        "ours: loaded, whole run",
                        "loaded, without missed slots",
                    ),
                    [
                        (name, idle, *_both(text)[:2], loaded, *_both(text)[2:])
                        for name, idle, loaded, text in (
                            (
                                "VFIO's average is shorter than the kernel bridges' by",
                                "7 to 27",
                                "31 to 52",
                                lambda load, in_slot: _gap(KERNEL, load, in_slot),
                            ),
                            (
                                "and than that of Open vSwitch + AF_XDP by",
                                "7 to 27",
                                "31 to 52",
                                lambda load, in_slot: _gap(AFXDP, load, in_slot),
                            ),
                            (
                                "largest latency of VFIO and the kernel bridges",
                                "nearly 400",
                                "nearly 400",
                                lambda load, in_slot: _largest(("vfio", *KERNEL), load, in_slot),
                            ),
                            (
                                "largest of Open vSwitch + AF_XDP",
                                "nearly 400",
                                "nearly 400",
                                lambda load, in_slot: _largest(AFXDP, load, in_slot),
                            ),
                        )
                    ],
                ),
                _by_bridge(
                    "Ours, whole run: min / avg ± / max / stddev, µs. Latency is from the scheduled launch to the "
                    "guest kernel's timestamp; the article's from the sender's timestamp to the card's. So ours "
                    "includes the sender's lateness.",
                    False,
                ),
                _by_bridge(
                    "The same without missed slots. Last column: how many packets missed theirs, and are cut.", True
                ),
            ],
            [
                Claim(
                    '"VFIO outperforms all the other bridge types"',
                    "the average without missed slots is above VFIO's: kernel bridges, idle and loaded",
                    differ(_pairs("vfio", KERNEL, "none", "load-same"), at_least_us=0),
                    MICROSECONDS,
                ),
                Claim(
                    '"7-27 micro seconds in a benchmark-only test"',
                    "kernel bridges, idle, without missed slots: 7 to 27 µs above VFIO",
                    differ(_pairs("vfio", KERNEL, "none"), 7, 27),
                    MICROSECONDS,
                ),
                Claim(
                    '"and 31-52 micro seconds in a heavily-loaded condition"',
                    "kernel bridges, loaded, without missed slots: 31 to 52 µs above VFIO",
                    differ(_pairs("vfio", KERNEL, "load-same"), 31, 52),
                    MICROSECONDS,
                ),
                Claim(
                    "(both, of AF_XDP)",
                    "AF_XDP, without missed slots: 7 to 52 µs above VFIO",
                    differ(_pairs("vfio", AFXDP, "none", "load-same"), 7, 52),
                    _POLLS,
                ),
                Claim(
                    '"merely a subtle disparity […] among different bridge configurations"',
                    "kernel bridges, without missed slots: within 20 µs of tap, the width of 7 to 27",
                    differ(_pairs("tap", KERNEL, "none", "load-same"), -20, 20),
                    MICROSECONDS,
                ),
                Claim(
                    '"OVS plus AF_XDP support is the best at the average"',
                    "loaded, without missed slots: each kernel bridge is above AF_XDP",
                    differ(_pairs("ovs-afxdp", KERNEL, "load-same"), at_least_us=0),
                    _POLLS,
                ),
                Claim(
                    '"and XDP is the second"',
                    "loaded, without missed slots: the other kernel bridges are above XDP",
                    differ(_pairs("xdp", KERNEL, "load-same"), at_least_us=0),
                    MICROSECONDS,
                ),
                Claim(
                    '"The standard deviation […] gets slightly worsen by 2-5" µs with load (printed: milliseconds)',
                    "stddev without missed slots, loaded − idle: 2 to 5 µs",
                    differ(
                        [(one, _tsn(one, "none"), _tsn(one, "load-same")) for one in ("vfio", *KERNEL, *AFXDP)],
                        2,
                        5,
                        "stddev",
                    ),
                    _SENDER,
                ),
                Claim(
                    '"most sample data fall into a range under 100 micro seconds" (idle)',
                    "idle: over 50 % under 100 µs, each bridge",
                    _mostly_below_100us("none"),
                    f"Only AF_XDP does not. {_POLLS}",
                ),
                Claim(
                    "(the same, loaded)",
                    "loaded: over 50 % under 100 µs, each bridge",
                    _mostly_below_100us("load-same"),
                    _SENDER,
                ),
                Claim(
                    '"a not small number of samples exceeds 200 micro seconds, even reaching nearly 400"',
                    "VFIO and kernel bridges, loaded, without missed slots: over 0.1 % above 200 µs, the largest 300 "
                    "to 500 µs",
                    _some_above_200us,
                    MICROSECONDS,
                ),
                Claim(
                    '"the delay over 500 micro seconds […] mostly stems from […] missing out a first-available time '
                    'slot"',
                    "VFIO and kernel bridges: over half of the packets above 503 µs missed their slot",
                    _over_a_cycle(("vfio", *KERNEL)),
                    MICROSECONDS,
                ),
                Claim(
                    "(the same, AF_XDP)",
                    "AF_XDP: over half of the packets above 503 µs missed their slot",
                    _over_a_cycle(AFXDP),
                    f"Its packets wait at the VM host. {_POLLS}",
                ),
                Claim(
                    '"the maximum latency drops, while the average is almost the same" (without irregular ranges)',
                    "kernel bridges, loaded: average of the whole run within 1.1 × that without missed slots",
                    times(
                        [(one, _tsn(one, "load-same"), _tsn(one, "load-same", in_slot=False)) for one in KERNEL],
                        0.9,
                        1.1,
                    ),
                    MICROSECONDS,
                ),
                Claim(
                    '"even more divergence in end-to-end latencies" (latency-user)',
                    "idle, whole run: stddev to the application above that to the guest's kernel, each bridge",
                    differ(
                        [
                            (one, _tsn(one, "none", in_slot=False), _tsn(one, "none", "latency_user", in_slot=False))
                            for one in ("vfio", *KERNEL, *AFXDP)
                        ],
                        0,
                        figure="stddev",
                    ),
                    "Here the guest does little else between kernel and application.",
                ),
                Claim(
                    '"all the packets were suddenly received almost at once […] the latencies were linearly declined"',
                    "a stall of 5 packets or more, slope −1, not through AF_XDP",
                    _stalls,
                    MICROSECONDS,
                ),
                Claim(
                    '"the latency may swing between a large minus and a large plus"',
                    "clock swings",
                    _swings,
                    MICROSECONDS,
                ),
            ],
            [
                Picture(
                    repetitions(
                        "control",
                        "latency",
                        [
                            (title, [(name, f"bridge={bridge}, loads={load}") for bridge, name in ALL.items()])
                            for load, title in _UNDER.items()
                        ],
                    ),
                    "tsn-latency",
                    "Each repetition by load: the middle 90 % of its packets, median and maximum",
                ),
                Picture("control-latency-ccdf.png", "tsn-tail", "Share of packets above a latency, each repetition"),
            ],
            "Sensor and VM host are two namespaces of one emulated board. Its gates are software: its cards have no "
            "Qbv. ptp4l has the profile `default`, not the automotive one, with which the emulated card sometimes "
            "measures a wrong peer delay; priority 5 and SCHED_FIFO 1 are the article's. Receive queues are chosen by "
            "hash, not by VLAN priority: PTP packets use the stream's queue. A cell is 1 s of virtual time, not 900 "
            "s. The load is 3 × 20 Mbit/s of iperf3: a sixth of what its gate window carries at 1 Gbit/s, and about "
            "the most that the emulated CPUs, which share one clock, can process. netperf's UDP_STREAM keeps the "
            "queue full. User NAT is measured but is not part of any claim.",
        )
    ],
)
