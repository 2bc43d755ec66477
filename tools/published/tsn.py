"""TSN into a virtual machine (Linaro, 2023)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from published.claims import (
    EFFECTS,
    MISSED,
    NOT_MEASURED,
    SENT,
    US,
    Check,
    Claim,
    Figures,
    Finding,
    Of,
    Pair,
    differ,
    number,
)
from published.experiment import MICROSECONDS, Entry, Experiment, Ours, Part, Picture, Table
from published.pictures import Row, of_bridge, repetitions, tails

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
    "Open vSwitch needs DPDK: the board's image has it without. Virtual time has no CPU that polls without slowing the "
    "others."
)

_SHARED: Final = "All CPUs share one clock here: three streams of load slow whatever is on a packet's way."
_LIGHT: Final = (
    "The load is a sixth of what its gate window carries; netperf keeps the queue full. With load in the opposite "
    "direction latencies are larger: see the table. The microseconds of virtual time are not those of the author's "
    "hardware."
)


def _tsn(bridge: str, load: str, metric: str = SENT, *, in_slot: bool = True) -> Of:
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
        gaps = sorted(one.difference / US for one in found if one is not None)
        return " to ".join(dict.fromkeys(number(one, 1) for one in gaps[:1] + gaps[-1:])) or "not measured"

    return text


def _largest(bridges: Iterable[str], load: str, in_slot: bool) -> Callable[[Figures], str]:
    def text(figures: Figures) -> str:
        found = [figures.over_all(_tsn(bridge, load, in_slot=in_slot), "max") for bridge in bridges]
        values = [one[0] for one in found if one is not None]
        return number(max(values) / US, 1) if values else "not measured"

    return text


def _both(text: Callable[[str, bool], Callable[[Figures], str]]) -> list[Callable[[Figures], str]]:
    """Whole and without missed slots, idle and loaded."""
    return [text(load, in_slot) for load in ("none", "load-same") for in_slot in (False, True)]


def _of(some: int, every: int) -> str:
    if not every:
        return "–"
    return f"all {number(every, 0)}" if some == every else f"{number(some, 0)} of {number(every, 0)}"


def _counted(bridge: str, counts: Callable[[Mapping[str, Any]], tuple[int, int]]) -> Callable[[Figures], str]:
    """How many packets of how many, with each load."""

    def text(figures: Figures) -> str:
        words = []
        for load in LOADS:
            found = [counts(one) for one in figures.blocks(_tsn(bridge, load).cells, "control")]
            some, of = (sum(one) for one in zip(*found, strict=True)) if found else (0, 0)
            words.append(_of(some, of))
        return "; ".join(words)

    return text


def _missed(block: Mapping[str, Any]) -> tuple[int, int]:
    return (block["gates"]["missed"], block["gates"]["left"]) if block["gates"] else (0, 0)


def _received(block: Mapping[str, Any]) -> tuple[int, int]:
    return block["counts"]["received"], block["counts"]["sent"]


def _by_bridge(note: str, in_slot: bool) -> Table:
    last, counts = ("cut", _missed) if in_slot else ("received", _received)
    rows: list[tuple[Entry, ...]] = [
        (title, *(Ours(_tsn(bridge, load, in_slot=in_slot)) for load in LOADS), _counted(bridge, counts))
        for bridge, title in ALL.items()
    ]
    return Table(note, "µs", ["bridge", *_UNDER.values(), f"{last}: idle, same, opposite"], rows)


def _packets(figures: Figures, bridges: Iterable[str], loads: Sequence[str] = LOADS) -> pl.DataFrame:
    """Every packet of these cells; no rows without any."""
    wanted = [pl.col("cell").str.ends_with(f"bridge={bridge},loads={load}") for bridge in bridges for load in loads]
    return figures.packets.filter(pl.col("stream_name") == "control", pl.any_horizontal(wanted))


def _share(packets: pl.DataFrame, which: pl.Expr) -> float:
    return 100 * packets.filter(which).height / packets.height


def _mostly_below_100us(bridges: Iterable[str], load: str) -> Check:
    """A claim that most packets of each bridge take less than 100 µs."""
    listed = tuple(bridges)

    def check(figures: Figures) -> Finding:
        found = {bridge: _packets(figures, [bridge], [load]) for bridge in listed}
        if any(one.is_empty() for one in found.values()):
            return NOT_MEASURED
        shares = {bridge: _share(one, pl.col("sent_ns") < 100 * US) for bridge, one in found.items()}
        words = EFFECTS.join(f"{bridge} {share:.0f} %" for bridge, share in shares.items())
        return Finding(words, "yes" if min(shares.values()) > 50 else "no")

    return check


def _some_above_200us(bridges: Iterable[str]) -> Check:
    listed = tuple(bridges)

    def check(figures: Figures) -> Finding:
        in_slot = _packets(figures, listed, ["load-same"]).filter(pl.col("class") != MISSED)
        if in_slot.is_empty():
            return NOT_MEASURED
        above = _share(in_slot, pl.col("sent_ns") > 200 * US)
        largest = in_slot.select(pl.col("sent_ns").max()).item() / US
        agrees = above > 0.1 and 300 < largest < 500
        return Finding(f"{above:.1f} % over 200 µs; the largest {number(largest, 0)} µs", "yes" if agrees else "no")

    return check


def _over_a_cycle(bridges: Iterable[str]) -> Check:
    """A claim that most packets over a gate cycle missed their slot, through each of these bridges that has some."""
    listed = tuple(bridges)

    def check(figures: Figures) -> Finding:
        words, agrees, every = [], True, 0
        for bridge in listed:
            packets = _packets(figures, [bridge])
            if packets.is_empty():
                return NOT_MEASURED
            late = packets.filter(pl.col("sent_ns") > CYCLE_NS)
            missed = late.filter(pl.col("class") == MISSED).height
            words.append(f"{bridge} {missed:,} of {late.height:,}")
            agrees &= missed > late.height / 2 or not late.height
            every += late.height
        measured = EFFECTS.join(words)
        if not every:
            return Finding(measured, "not shown", absent="no packet over a cycle")
        return Finding(measured, "yes" if agrees else "no")

    return check


def _order_varies(figures: Figures) -> Finding:
    """Whether the order of the kernel bridges by their average differs between repetitions."""
    values = {bridge: figures.values(_tsn(bridge, "load-same")) for bridge in KERNEL}
    orders = [
        sorted(KERNEL, key=lambda bridge: values[bridge][n])
        for n in values["tap"]
        if all(n in one for one in values.values())
    ]
    if len(orders) < 2:
        return NOT_MEASURED
    first = Counter(order[0] for order in orders)
    count = len(set(map(tuple, orders)))
    found = "one order" if count == 1 else f"{count} different orders"
    shortest = ", ".join(f"{one} {n} times" for one, n in first.items())
    words = f"{found} in {len(orders)} repetitions; the shortest: {shortest}"
    return Finding(words, "yes") if count > 1 else Finding(words, "not shown", absent="no other order")


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
        stall["text"]
        for bridge, one in found
        for stall in one["shown"]
        if bridge not in AFXDP and stall["packets"] >= 5 and abs(stall["evidence"]["slope"] + 1) < 0.1
    ]
    others = Counter(bridge for bridge, one in found for _ in range(one["episodes"]))
    left_out = "".join(f"; {n} through {bridge}, which are left out" for bridge, n in others.items())
    if not like_his:
        return Finding(f"none{left_out}", "not shown", absent="no such stall")
    return Finding("; ".join([f"{len(like_his)} such stalls", *like_his[:1]]), "yes")


def _swings(figures: Figures) -> Finding:
    found = [one for _, one in _anomalies(figures, "clock_swing", "clock_step")]
    readings = sum(port["offset_ns"]["n"] for cell in figures.cells for port in cell["ptp"] if port["offset_ns"])
    told = f"ptp4l printed {readings} offsets in {len(figures.cells)} cells"
    swings = sum(one["episodes"] for one in found)
    words = f"{swings} clock swings; {told}"
    return Finding(words, "yes") if swings else Finding(words, "not shown", absent="no clock swing")


def _irregular(figures: Figures) -> Finding:
    """Whether there is a range to leave out."""
    found = [one.agrees for one in (_stalls(figures), _swings(figures))]
    return Finding("some" if "yes" in found else "none: nothing to leave out", "not shown", absent="no irregular range")


_LABEL: Final = "rx_soft − send call"
_LIMITS_US: Final = (100, 200, 503)
_DRAWN: Final = tuple(
    (title, [Row(name, _tsn(bridge, load), of_bridge(bridge)) for bridge, name in ALL.items()])
    for load, title in _UNDER.items()
)


_BRIDGES: Final = ("vfio", *KERNEL)
_BOTH: Final = "VFIO and kernel bridges"
_SHORT: Final = (
    "A cell of 1 s has no event of once a minute and no swing of minutes. latlab finds such events in synthetic "
    "data: [how well anomalies are found](../explanation/anomaly-scores.md)."
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
                    "The article does not state the direction of the load, "
                    "which has a transmit queue of the sender: ours has the direction of the stream.",
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
                                "–",
                                "nearly 400",
                                lambda load, in_slot: _largest(("vfio", *KERNEL), load, in_slot),
                            ),
                            (
                                "largest of Open vSwitch + AF_XDP",
                                "–",
                                "nearly 400",
                                lambda load, in_slot: _largest(AFXDP, load, in_slot),
                            ),
                        )
                    ],
                ),
                _by_bridge(
                    "Ours, whole run: min / avg ± / max / stddev, µs, from the send call to the guest kernel's "
                    "timestamp; the article's is to the card's. Last column: packets received of those sent, warm-up "
                    "included.",
                    False,
                ),
                _by_bridge(
                    "Ours, without missed slots. Last column: packets that missed theirs, and are cut, of those that "
                    "left.",
                    True,
                ),
            ],
            [
                Claim(
                    '"VFIO outperforms all the other bridge types"',
                    "kernel bridges: average without missed slots, idle and loaded: above VFIO's",
                    differ(_pairs("vfio", KERNEL, "none", "load-same"), at_least_us=0),
                    MICROSECONDS,
                ),
                Claim(
                    '"7-27 micro seconds in a benchmark-only test"',
                    "kernel bridges: average without missed slots, idle: 7 to 27 µs above VFIO's",
                    differ(_pairs("vfio", KERNEL, "none"), 7, 27),
                    MICROSECONDS,
                ),
                Claim(
                    '"and 31-52 micro seconds in a heavily-loaded condition"',
                    "kernel bridges: average without missed slots, loaded: 31 to 52 µs above VFIO's",
                    differ(_pairs("vfio", KERNEL, "load-same"), 31, 52),
                    _LIGHT,
                ),
                Claim(
                    '"merely a subtle disparity […] among different bridge configurations"',
                    "kernel bridges: average without missed slots: within 20 µs of tap's (20: the width of his 7 to "
                    "27)",
                    differ(_pairs("tap", KERNEL, "none", "load-same"), -20, 20),
                    MICROSECONDS,
                ),
                Claim(
                    '"OVS plus AF_XDP support is the best at the average"',
                    "average without missed slots, loaded: each kernel bridge's is above AF_XDP's",
                    differ(_pairs("ovs-afxdp", KERNEL, "load-same"), at_least_us=0),
                    _POLLS,
                    testable=False,
                ),
                Claim(
                    '"XDP is the second", after AF_XDP',
                    "average without missed slots, loaded: each other kernel bridge's is above XDP's",
                    differ(_pairs("xdp", KERNEL, "load-same"), at_least_us=0),
                    MICROSECONDS,
                ),
                Claim(
                    '"but I know that the results can easily vary from measurement to measurement"',
                    "loaded, without missed slots: repetitions have different orders of the kernel bridges by average",
                    _order_varies,
                    MICROSECONDS,
                ),
                Claim(
                    '"The standard deviation […] gets slightly worsen by 2-5" µs with load (printed: milliseconds)',
                    f"{_BOTH}: stddev without missed slots, loaded − idle: 2 to 5 µs",
                    differ([(one, _tsn(one, "none"), _tsn(one, "load-same")) for one in _BRIDGES], 2, 5, "stddev"),
                    _SHARED,
                    testable=False,
                ),
                Claim(
                    '"most sample data fall into a range under 100 micro seconds", idle',
                    f"{_BOTH}: idle, whole run: over half under 100 µs, each bridge",
                    _mostly_below_100us(_BRIDGES, "none"),
                    MICROSECONDS,
                ),
                Claim(
                    '"most sample data fall into a range under 100 micro seconds", loaded',
                    f"{_BOTH}: loaded, whole run: over half under 100 µs, each bridge",
                    _mostly_below_100us(_BRIDGES, "load-same"),
                    _SHARED,
                ),
                Claim(
                    '"a not small number of samples exceeds 200 micro seconds, even reaching nearly 400"',
                    f"{_BOTH}: loaded, without missed slots: over 0.1 % above 200 µs (900 packets of his 15 "
                    "minutes), the largest 300 to 500 µs",
                    _some_above_200us(_BRIDGES),
                    _LIGHT,
                ),
                Claim(
                    '"the delay over 500 micro seconds […] mostly stems from […] missing out a first-available time '
                    'slot"',
                    f"{_BOTH}: over half of the packets above 503 µs, the gate cycle, missed their slot",
                    _over_a_cycle(_BRIDGES),
                    MICROSECONDS,
                ),
                Claim(
                    '"even more divergence in end-to-end latencies" (latency-user)',
                    f"{_BOTH}: idle, whole run, from the schedule: stddev to the application above that to the guest's "
                    "kernel",
                    differ(
                        [
                            (
                                one,
                                _tsn(one, "none", "latency", in_slot=False),
                                _tsn(one, "none", "latency_user", in_slot=False),
                            )
                            for one in _BRIDGES
                        ],
                        0,
                        figure="stddev",
                    ),
                    "Here the guest does little else between kernel and application.",
                ),
                Claim(
                    '"all the packets were suddenly received almost at once […] the latencies were linearly declined"',
                    "stalls of 5 packets or more (his 6 ms are 6 packets), slope −1, not through AF_XDP",
                    _stalls,
                    _SHORT,
                ),
                Claim(
                    '"the latency may swing between a large minus and a large plus"',
                    "clock swings",
                    _swings,
                    _SHORT,
                ),
                Claim(
                    '"the maximum latency drops, while the average is almost the same and the standard deviation can '
                    'be reduced", without irregular ranges',
                    "stalls and clock swings, which are his irregular ranges",
                    _irregular,
                    _SHORT,
                ),
            ],
            [
                Picture(
                    repetitions("Latency by bridge and load", _LABEL, _DRAWN, _LIMITS_US),
                    "tsn-latency",
                    "Each repetition by load, whole run: the middle 90 % of its packets, median and maximum",
                ),
                Picture(
                    tails("Share of packets above a latency", _LABEL, _DRAWN, _LIMITS_US),
                    "tsn-tail",
                    "Share of packets above a latency, whole run",
                ),
            ],
            "The author's figures are time series next to histograms: the run's report has them of every cell, from "
            "the schedule (`pictures/control-latency.png`). Sensor and VM host are two namespaces of one emulated "
            "board. Its gates are software: its cards have no Qbv. ptp4l has the profile `default`, not the automotive "
            "one, with which the emulated card sometimes measures a wrong peer delay; priority 5 and SCHED_FIFO 1 are "
            "the article's. Receive queues are chosen by hash, not by VLAN priority, as the emulated card has no "
            "filters for that: PTP packets use the stream's queue. iperf3 is in place of netperf, which Debian's main "
            "archive does not have. A cell is 1 s of virtual time, not 900 s. Of Open vSwitch + AF_XDP only the claim "
            "that names it is listed; its figures are in the tables. The load is 3 × 20 Mbit/s of iperf3: a sixth of "
            "what its gate window carries at 1 Gbit/s, and about the most that the emulated CPUs, which share "
            "one clock, can process. netperf's UDP_STREAM keeps the queue full. Beyond the article's tuning the "
            "guest's CPU and QEMU are at SCHED_FIFO 1, KVM does not poll for halted CPUs, and cards do not delay "
            "interrupts. User NAT is measured but is not part of any claim: in its cells the load is half as much and "
            "the stream is UDP over a VLAN interface, so its rows do not compare.",
        )
    ],
)
