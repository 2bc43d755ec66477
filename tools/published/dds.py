"""DDS between virtual machines (Red Hat, 2024)."""

from __future__ import annotations

import itertools
from math import exp, log
from typing import Final

from latlab.analysis.comparison.effect import Effect, paired
from published.claims import NOT_MEASURED, Claim, Figures, Finding, Of, differ, judged, ratio_text, times
from published.experiment import MICROSECONDS, Experiment, Ours, Part, Picture, Table

_SIZES: Final = ("64B", "1200B", "2kB", "8kB", "32kB")
_BYTES: Final = {"64B": 64, "1200B": 1_200, "2kB": 2_000, "8kB": 8_000, "32kB": 32_000}


def _dds(tuned: bool, probe: str, size: str) -> Of:
    return Of(f"append{'~' if tuned else '!'}=isolcpus, probes={probe}, {probe}.size={size}", "round_trip", probe)


def _half(tuned: bool, probe: str, size: str) -> Ours:
    return Ours(_dds(tuned, probe, size), ("p50", "max"), scale=0.5)


def _steeper(figures: Figures) -> Finding:
    """Whether the median grows by more a doubling of the payload beyond the MTU than below it, as on log-log axes."""
    found: list[tuple[str, Effect | None]] = []
    for label, tuned, probe in (("hosts", True, "hosts"), ("guests", True, "guests")):
        at = {size: figures.values(_dds(tuned, probe, size), "p50") for size in _SIZES}
        common = [n for n in at["64B"] if all(n in values for values in at.values())]

        def slope(a: str, b: str, n: int, at: dict[str, dict[int, float]] = at) -> float:
            return log(at[b][n] / at[a][n]) / log(_BYTES[b] / _BYTES[a])

        below, beyond = ([slope(a, b, n) for n in common] for a, b in (("64B", "1200B"), ("2kB", "32kB")))
        found.append((label, paired(below, beyond) if common else None))
    return judged(
        found,
        0,
        float("inf"),
        lambda one, half: (
            f"slope {one.a:.2f} below, {one.b:.2f} beyond" + ("" if half is None else f" (difference ± {half:.2f})")
        ),
    )


def _onto_the_median(figures: Figures) -> Finding:
    """Whether max / median of guests is smaller after tuning, over sizes together as a geometric mean."""
    found: dict[bool, dict[int, float]] = {}
    for tuned in (False, True):
        each = [
            (figures.values(_dds(tuned, "guests", s), "max"), figures.values(_dds(tuned, "guests", s), "p50"))
            for s in _SIZES
        ]
        common = [n for n in each[0][0] if all(n in most and n in half for most, half in each)]
        found[tuned] = {n: sum(log(most[n] / half[n]) for most, half in each) / len(each) for n in common}
    common = [n for n in found[False] if n in found[True]]
    if not common:
        return NOT_MEASURED
    effect = paired([found[False][n] for n in common], [found[True][n] for n in common])
    result = judged([("ratio of both", effect)], -float("inf"), 0, ratio_text)
    before, after = exp(effect.a), exp(effect.b)
    sides = f"guests' largest is {before:.1f} medians before, {after:.1f} after"
    return Finding(f"{sides}; {result.measured}", result.agrees)


DDS = Experiment(
    "dds",
    "DDS between virtual machines",
    "Red Hat, article on Cyclone DDS between virtual machines, March 2024",
    "How does DDS latency grow with the payload, host to host and guest to guest, before and after tuning?",
    [
        Part(
            "dds-payload-board",
            "round_trip",
            "Latency by payload",
            [
                Table(
                    "Latency is half of the round trip. median / max, µs. The article shows graphs (figures 1, 3 and "
                    "4) and no figures.",
                    "µs",
                    (
                        "payload",
                        "host to host, tuned (figure 1)",
                        "guest to guest, before (figure 3)",
                        "guest to guest, after (figure 4)",
                    ),
                    [
                        (
                            "published",
                            "grows, more beyond the MTU",
                            "median good, maximum unpredictable",
                            "maximum tight to the median",
                        ),
                        *(
                            (
                                f"{size}{', beyond the MTU' if _BYTES[size] > 1_472 else ''}: ours",
                                _half(True, "hosts", size),
                                _half(False, "guests", size),
                                _half(True, "guests", size),
                            )
                            for size in _SIZES
                        ),
                    ],
                )
            ],
            [
                Claim(
                    "Latency grows with the payload (median)",
                    differ(
                        [
                            (f"{probe} {a} to {b}", _dds(True, probe, a), _dds(True, probe, b))
                            for probe in ("hosts", "guests")
                            for a, b in itertools.pairwise(_SIZES)
                        ],
                        0,
                        figure="p50",
                    ),
                    MICROSECONDS,
                ),
                Claim("Latency grows faster beyond the MTU (slope on log-log axes)", _steeper, MICROSECONDS),
                Claim(
                    "The median hardly moves by tuning (guests; 0.8 to 1.25)",
                    times([(s, _dds(False, "guests", s), _dds(True, "guests", s)) for s in _SIZES], 0.8, 1.25, "p50"),
                    "All CPUs of the emulated board share one clock: while several compute, each advances less.",
                ),
                Claim(
                    "The maximum falls onto the median",
                    _onto_the_median,
                    "A cell is 0.6 s: few rare events, tuned or not.",
                ),
            ],
            [
                Picture(
                    "hosts-round_trip-by-size.png",
                    "dds",
                    "Round trips over the payload, log-log, before and after tuning",
                )
            ],
            "Host to host is two namespaces of one board, not two machines; guests have two vCPUs, not three.",
        )
    ],
)
