"""DDS between virtual machines (Red Hat, 2024)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import exp, log
from typing import Final

from latlab.analysis.comparison.effect import Effect, paired
from published.claims import NOT_MEASURED, Check, Claim, Figures, Finding, Of, differ, judged, ratio_text, times
from published.experiment import MICROSECONDS, Experiment, Ours, Part, Picture, Table
from published.pictures import halves_by_size

_SIZES: Final = ("64B", "1200B", "2kB", "8kB", "32kB")
_BYTES: Final = {"64B": 64, "1200B": 1_200, "2kB": 2_000, "8kB": 8_000, "32kB": 32_000}
_FRAME: Final = 1_300
"""Bytes of a payload that is one frame: Cyclone cuts what is longer."""
_FRAMES: Final = "The emulated card has no line rate: one frame more costs little beside its bytes."


def _dds(tuned: bool, probe: str, size: str) -> Of:
    return Of(f"append={'' if tuned else 'not '}tuned, probes={probe}, {probe}.size={size}", "round_trip", probe)


def _half(tuned: bool, probe: str, size: str) -> Ours:
    return Ours(_dds(tuned, probe, size), ("p50", "max"), scale=0.5)


def _steeper(figure: str) -> Check:
    """A claim that a byte costs clearly more beyond the MTU than below it; of a straight line both cost the same."""

    def check(figures: Figures) -> Finding:
        at = {size: figures.values(_dds(True, "hosts", size), figure) for size in _SIZES}
        common = [n for n in at["64B"] if all(n in values for values in at.values())]

        def per_byte(a: str, b: str) -> list[float]:
            return [(at[b][n] - at[a][n]) / 2 / (_BYTES[b] - _BYTES[a]) for n in common]

        if not common:
            return NOT_MEASURED
        below, beyond = per_byte("64B", "1200B"), per_byte("2kB", "32kB")
        effect = paired([1.2 * one for one in below], beyond)
        result = judged([("beyond − 1.2 × below", effect)], 0, float("inf"), _per_byte)
        sides = f"{effect.a / 1.2:.1f} ns/B below, {effect.b:.1f} beyond"
        return replace(result, measured=f"{sides}; {result.measured}")

    return check


def _per_byte(one: Effect, half: float | None) -> str:
    return f"{one.difference:+.1f}" + ("" if half is None else f" ± {half:.1f}") + " ns/B"


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
    result = judged([("after / before", effect)], -float("inf"), 0, ratio_text)
    before, after = exp(effect.a), exp(effect.b)
    sides = f"guests' largest is {before:.1f} medians before, {after:.1f} after"
    return replace(result, measured=f"{sides}; {result.measured}")


DDS = Experiment(
    "dds",
    "DDS between virtual machines",
    "Red Hat, [Cyclone DDS in virtual machines of CentOS Stream 9, March 2024]"
    "(https://developers.redhat.com/articles/2024/03/21/benchmark-cyclone-dds-centos-stream-9-vms-low-latency)",
    "How does DDS latency grow with the payload, host to host and guest to guest, before and after tuning?",
    [
        Part(
            "dds-payload-board",
            "round_trip",
            "Latency by payload",
            [
                Table(
                    "Latency is half of the round trip: median / max, µs. The article has graphs (figures 1, 3 and 4) "
                    "without figures.",
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
                                f"{size}{', over one frame' if _BYTES[size] > _FRAME else ''}: ours",
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
                    '"the latency generally increases with the payload"',
                    "median of half round trips: each size of more than one frame above the size before",
                    differ(
                        [
                            (f"{probe} {a} to {b}", _dds(True, probe, a), _dds(True, probe, b))
                            for probe in ("hosts", "guests")
                            for a, b in itertools.pairwise(_SIZES)
                            if _BYTES[b] > _FRAME
                        ],
                        0,
                        figure="p50",
                        scale=0.5,
                    ),
                    MICROSECONDS,
                ),
                Claim(
                    '"the increase gets more pronounced when payload gets bigger than MTU" (of figure 1\'s maximum)',
                    "maximum, hosts: ns a byte from 2 to 32 kB: over 1.2 × those from 64 to 1200 B",
                    _steeper("max"),
                    _FRAMES,
                ),
                Claim(
                    "(the same of the median)",
                    "median, hosts: ns a byte from 2 to 32 kB: over 1.2 × those from 64 to 1200 B",
                    _steeper("p50"),
                    _FRAMES,
                ),
                Claim(
                    '"that median latency looks good" before tuning: it hardly moves',
                    "guests' median, after / before: 0.8 to 1.25",
                    times([(s, _dds(False, "guests", s), _dds(True, "guests", s)) for s in _SIZES], 0.8, 1.25, "p50"),
                    "Before tuning the VM host's other work runs on the guests' CPUs: large payloads wait for it in "
                    "the median, too.",
                ),
                Claim(
                    '"a lower max latency that is tightly to the median"',
                    "guests' maximum / median is smaller after tuning, over all sizes",
                    _onto_the_median,
                    "A cell is 0.6 s: few rare events, tuned or not.",
                ),
                Claim(
                    '"results that are similar when deploying the DDS between physical hosts"',
                    "median after tuning, guests / hosts: 0.8 to 1.25",
                    times([(s, _dds(True, "hosts", s), _dds(True, "guests", s)) for s in _SIZES], 0.8, 1.25, "p50"),
                    "The clock counts the instructions of all CPUs: what other CPUs do adds to every round trip. No "
                    "time passes on the wire, so what KVM and vhost add is a larger share.",
                ),
            ],
            [
                Picture(
                    halves_by_size(
                        {
                            "guests, append not tuned": "guest to guest, before tuning",
                            "guests, append tuned": "guest to guest, after tuning",
                            "hosts, append tuned": "host to host, tuned",
                        }
                    ),
                    "dds",
                    "The table's latency, half of the round trip, over the payload, log-log",
                )
            ],
            "Host to host is two namespaces of one board, not two machines; guests have two vCPUs, not three. The "
            "probe is latlab's own over Cyclone DDS, not ddsperf. Talker or listener and the card's interrupt of a "
            "guest are on one vCPU; the article runs ddsperf's two threads on different cores. Both vhost threads are "
            "on one CPU. One ordinary process of the VM host calls the kernel all the time, in every cell. It stands "
            "for a host's other work, of which the article says nothing. Before tuning guests wait for it; tuning "
            "keeps it off their CPUs. The one clock counts its instructions, too, so every round trip is longer than "
            "without it. Without it guests hardly wait before tuning either: their maximum / median fell to × 0.76 by "
            "tuning on six CPUs, and did not fall on ten.",
        )
    ],
)
