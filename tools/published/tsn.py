"""TSN into a virtual machine (Linaro, 2023)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import polars as pl

from published.claims import NOT_MEASURED, US, Claim, Figures, Finding, Of, Pair, differ
from published.experiment import MICROSECONDS, Experiment, Ours, Part, Picture, Table

_PHASES: Final = (
    "Where an interval is wide, one repetition met the gates at another phase: its packets missed slots that those of "
    "the other repetitions leave in."
)
BRIDGES: Final = {
    "tap": "tap + kernel bridge",
    "macvtap": "macvtap",
    "xdp": "tap + XDP",
    "ovs": "tap + Open vSwitch",
    "ovs-afxdp": "Open vSwitch + AF_XDP",
}
_AFXDP: Final = (
    "The card's port of Open vSwitch with AF_XDP is served by the switch's main thread here (afxdp-nonpmd); "
    "the article's by a polling thread with a CPU of its own."
)
_NOT_HIS: Final = "bridge=user,"
"""Cells of a bridge that the article does not have."""
CYCLE_NS: Final = 503_000


def _tsn(bridge: str, load: str) -> Of:
    return Of(f"bridge={bridge}, loads={load}", "latency", "control")


def _packets(figures: Figures) -> pl.DataFrame:
    """Every packet through the article's bridges; no rows without any."""
    packets = figures.packets
    return packets if packets.is_empty() else packets.filter(~pl.col("cell").str.contains(_NOT_HIS, literal=True))


def _cells(figures: Figures) -> list[Any]:
    """The cells of the article's bridges."""
    return [cell for cell in figures.cells if _NOT_HIS not in cell["slug"]]


def _beyond_vfio(load: str) -> list[Pair]:
    return [(bridge, _tsn("vfio", load), _tsn(bridge, load)) for bridge in BRIDGES]


def _from_tap(load: str) -> list[Pair]:
    return [(bridge, _tsn("tap", load), _tsn(bridge, load)) for bridge in BRIDGES if bridge != "tap"]


def _gap(load: str) -> Callable[[Figures], str]:
    def text(figures: Figures) -> str:
        found = [figures.effect(a, b) for _, a, b in _beyond_vfio(load)]
        gaps = [one.difference / US for one in found if one is not None]
        return f"{min(gaps):.1f} to {max(gaps):.1f}" if gaps else "not measured"

    return text


def _cells_of(load: str, figure: str) -> Callable[[Figures], str]:
    def text(figures: Figures) -> str:
        values = [v for bridge in ("vfio", *BRIDGES) for v in figures.values(_tsn(bridge, load), figure).values()]
        return f"{max(values) / US:.1f}" if values else "not measured"

    return text


def _below_100us(load: str) -> Callable[[Figures], str]:
    def text(figures: Figures) -> str:
        if _packets(figures).is_empty():
            return "not measured"
        found = _packets(figures).filter(pl.col("cell").str.ends_with(f"loads={load}"))
        below = found.filter(pl.col("latency_ns") < 100 * US).height
        return f"{100 * below / found.height:.1f} % of the packets" if found.height else "not measured"

    return text


def _missed(bridge: str, load: str) -> Callable[[Figures], str]:
    def text(figures: Figures) -> str:
        gates = [one["gates"] for one in figures.blocks(_tsn(bridge, load).cells, "control") if one["gates"]]
        return f"{sum(one['missed'] for one in gates)} of {sum(one['left'] for one in gates)}" if gates else ""

    return text


def _over_a_cycle(figures: Figures) -> Finding:
    packets = _packets(figures)
    if packets.is_empty():
        return NOT_MEASURED
    late = packets.filter(pl.col("latency_ns") > CYCLE_NS)
    missed = late.filter(pl.col("class") == "missed_slot").height
    measured = f"{late.height:,} of {packets.height:,} packets took over 503 µs; {missed:,} of these missed their slot"
    if not late.height:
        return Finding(measured, "not shown")
    return Finding(measured, "yes" if missed > late.height / 2 else "no")


def _episodes(figures: Figures, *names: str) -> list[tuple[int, str]]:
    found = []
    for cell in _cells(figures):
        for block in cell["streams"].values():
            anomalies = block["anomalies"] or {}
            found += [(anomalies[name]["episodes"], anomalies[name]["worst"]) for name in names if name in anomalies]
    return found


def _stalls(figures: Figures) -> Finding:
    found = _episodes(figures, "stall")
    if not found:
        return Finding(f"no stall in {len(_cells(figures))} cells", "not shown")
    _, worst = max(found)
    return Finding(f"{sum(n for n, _ in found)} stalls in {len(found)} of {len(_cells(figures))} cells; {worst}", "yes")


def _swings(figures: Figures) -> Finding:
    found = _episodes(figures, "clock_swing", "clock_step")
    offsets = [
        max(abs(port["offset_ns"]["min"]), abs(port["offset_ns"]["max"]))
        for cell in _cells(figures)
        for port in cell["ptp"]
        if port["offset_ns"]
    ]
    series = f"; ptp4l's largest offset in {len(offsets)} series: {max(offsets) / US:.1f} µs" if offsets else ""
    measured = f"{sum(n for n, _ in found)} clock swings in {len(_cells(figures))} cells{series}"
    return Finding(measured, "yes" if found else "not shown")


def _far_from_most(figures: Figures) -> Finding:
    packets = _packets(figures)
    if packets.is_empty():
        return NOT_MEASURED
    below, above = (
        100 * packets.filter(one).height / packets.height
        for one in (pl.col("latency_ns") < 100 * US, pl.col("latency_ns") > 200 * US)
    )
    measured = f"{below:.1f} % of all packets under 100 µs, {above:.1f} % over 200 µs"
    return Finding(measured, "yes" if below > 50 and above > 0.1 else "no")


TSN = Experiment(
    "tsn-bridges",
    "TSN into a virtual machine",
    'Linaro, T. Akashi, "Network Latency with TSN on Virtual Machine", 2023',
    "How late do time-sensitive packets reach a virtual machine through each virtual bridge, idle and loaded?",
    [
        Part(
            "tsn-bridges",
            "latency",
            "Latency by bridge and load",
            [
                Table(
                    "What the article says of its figures. Its summary table is a picture; the text gives these.",
                    "µs",
                    ("average latency, µs", "published: idle", "ours: idle", "published: 3 netperf", "ours: 3 streams"),
                    [
                        ("VFIO is shorter than the bridges by", "7 to 27", _gap("none"), "31 to 52", _gap("load-same")),
                        ("most packets", "under 100", _below_100us("none"), "under 100", _below_100us("load-same")),
                        (
                            "largest latency",
                            "nearly 400",
                            _cells_of("none", "max"),
                            "nearly 400",
                            _cells_of("load-same", "max"),
                        ),
                    ],
                ),
                Table(
                    "Ours, in the rows and columns of the article's summary: min / avg ± / max / stddev, µs, whole "
                    "run.",
                    "µs",
                    (
                        "bridge",
                        "idle",
                        "load, same direction",
                        "load, opposite direction",
                        "missed slots: idle, same, opposite",
                    ),
                    [
                        (
                            title,
                            *(Ours(_tsn(bridge, load)) for load in ("none", "load-same", "load-opposite")),
                            lambda figures, bridge=bridge: ", ".join(  # type: ignore[misc]
                                _missed(bridge, load)(figures) or "–" for load in ("none", "load-same", "load-opposite")
                            ),
                        )
                        for bridge, title in {"vfio": "VFIO", "macvtap": "macvtap", **BRIDGES}.items()
                    ],
                ),
            ],
            [
                Claim("VFIO beats all bridges, idle", differ(_beyond_vfio("none"), at_least_us=0), _PHASES),
                Claim("VFIO beats all bridges, loaded", differ(_beyond_vfio("load-same"), at_least_us=0), _PHASES),
                Claim(
                    "VFIO beats the bridges by 7 to 27 µs on average, idle",
                    differ(_beyond_vfio("none"), 7, 27),
                    MICROSECONDS,
                ),
                Claim(
                    "VFIO beats the bridges by 31 to 52 µs on average, loaded",
                    differ(_beyond_vfio("load-same"), 31, 52),
                    MICROSECONDS,
                ),
                Claim(
                    "The bridges hardly differ, idle (within 20 µs, as the article's own do)",
                    differ(_from_tap("none"), -20, 20),
                    _AFXDP,
                ),
                Claim(
                    "The bridges hardly differ, loaded (within 21 µs)",
                    differ(_from_tap("load-same"), -21, 21),
                    _AFXDP,
                ),
                Claim(
                    "Latencies over a gate cycle are packets that missed their slot",
                    _over_a_cycle,
                    "Some are held at the VM host instead.",
                ),
                Claim("Most samples are under 100 µs; not a small number exceeds 200 µs", _far_from_most, MICROSECONDS),
                Claim(
                    "Stalls: latency jumps to ms and falls linearly",
                    _stalls,
                    "They came once a minute there; a cell is 1 s here.",
                ),
                Claim(
                    "Clock swings: latency drifts over minutes, even below zero",
                    _swings,
                    "They took minutes there; a cell is 1 s here.",
                ),
            ],
            [
                Picture(
                    "control-latency-together.png", "tsn-latency", "Latency of each bridge and load, all repetitions"
                ),
                Picture(
                    "control-latency-ccdf.png", "tsn-tail", "Share of packets above a latency, each bridge and load"
                ),
            ],
            "Sensor and VM host are two namespaces of one emulated board, its gates are software (no card with Qbv), "
            "and a cell is 1 s of virtual time, not 900 s. The load is 3 × 20 Mbit/s of iperf3; netperf's UDP_STREAM "
            "sends as fast as it can.",
        )
    ],
)
