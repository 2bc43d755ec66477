"""DDS between virtual machines (Red Hat, 2024)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp, inf, log
from statistics import fmean
from typing import Final

from matplotlib.axes import Axes

from latlab.analysis.comparison.effect import Effect, paired
from latlab.report.charts.sheet import QUIET, Plotted
from published.claims import (
    EFFECTS,
    NOT_MEASURED,
    US,
    Check,
    Claim,
    Figures,
    Finding,
    Of,
    differ,
    factor,
    judged,
    number,
    ratio_text,
    times,
    with_error,
)
from published.experiment import EXITS, MICROSECONDS, Experiment, Ours, Part, Picture, Table
from published.pictures import Curve, of_bridge, of_us, panels

_SIZES: Final = ("64B", "1200B", "2kB", "8kB", "32kB")
_BYTES: Final = {"64B": 64, "1200B": 1_200, "2kB": 2_000, "8kB": 8_000, "32kB": 32_000}
_FRAME: Final = 1_300
"""Bytes of a payload that is one frame: Cyclone cuts what is longer."""
_CLEARLY: Final = 1.2
"""By less a byte is not clearly dearer."""


_SENT_FRAMES: Final = (
    "What weighs more, host to host, than copying 1136 bytes is the interrupts of sent frames, which igb delays by the "
    "frames' mean size (tx-usecs 3; `coalescing: 0` sets receiving alone): one for two frames of 64 B, one for five of "
    "1200 B, and each is instructions on the one clock. Measured apart, two repetitions each, with the VM host's other "
    "process on the same CPU: 76.1 µs (64 B) and 76.6 (1200 B); with tx-usecs 0, an interrupt for each sent frame, "
    "76.8 and 79.2."
)


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
        effect = paired([_CLEARLY * one for one in below], beyond)
        result = judged([(f"beyond − {_CLEARLY} × below", effect)], 0, inf, _per_byte)
        sides = f"{number(effect.a / _CLEARLY, 1)} ns/B below, {number(effect.b, 1)} beyond"
        return replace(result, measured=f"{sides}; {result.measured}")

    return check


def _per_byte(one: Effect, half: float | None) -> str:
    return f"{with_error(one.difference, half)} ns/B"


Series = tuple[bool, str, str]
"""Tuned or not, probe, figure."""
_BEFORE: Final = ((False, "guests", "p50"), (False, "guests", "max"))
_AFTER: Final = ((True, "guests", "p50"), (True, "guests", "max"))


def _over_sizes(figures: Figures, *curves: Series) -> list[list[float]]:
    """The logarithm of each curve's geometric mean over sizes, of the repetitions that all curves have."""
    each = [[figures.values(_dds(tuned, probe, size), figure) for size in _SIZES] for tuned, probe, figure in curves]
    every = [values for sizes in each for values in sizes]
    common = [n for n in every[0] if all(n in values for values in every)]
    return [[fmean(log(values[n]) for values in sizes) for n in common] for sizes in each]


def _less(a: Sequence[float], b: Sequence[float]) -> list[float]:
    return [one - other for one, other in zip(a, b, strict=True)]


def _factor(logarithms: Sequence[float]) -> str:
    return f"× {factor(exp(fmean(logarithms)))}"


def _smaller(label: str, a: Sequence[float], b: Sequence[float], sides: str) -> Finding:
    """Whether b is below a; sides: what they are."""
    result = judged([(label, paired(a, b))], -inf, 0, ratio_text)
    return replace(result, measured=f"{sides}{EFFECTS}{result.measured}")


def _onto_the_median(figures: Figures) -> Finding:
    """Whether guests' maximum / median is smaller after tuning."""
    before, most_before, after, most_after = _over_sizes(figures, *_BEFORE, *_AFTER)
    if not before:
        return NOT_MEASURED
    ratios = _less(most_before, before), _less(most_after, after)
    return _smaller(
        "after / before",
        *ratios,
        f"maximum / median of a repetition, geometric mean: before {_factor(ratios[0])}, after {_factor(ratios[1])}",
    )


_LINES: Final = {
    "host to host, tuned": (True, "hosts", QUIET, "-"),
    "guest to guest, before tuning": (False, "guests", of_bridge("tap"), "--"),
    "guest to guest, after tuning": (True, "guests", of_bridge("tap"), "-"),
}


def _drawn(figures: Figures) -> Plotted | None:
    """Median and maximum over the payload, log-log, in a panel each."""
    titled = [(name, list(_curves(figures, figure))) for figure, name in (("p50", "median"), ("max", "maximum"))]

    def frame(axes: Axes) -> None:
        of_us(axes, "y", "half of the round trip")
        axes.label_outer()
        axes.set_xscale("log")
        axes.set_xticks(list(_BYTES.values()), list(_BYTES), minor=False)
        axes.set_xticks([], minor=True)
        axes.set_xlabel("payload [log]")

    if not all(curves for _, curves in titled):
        return None
    return panels("Half of the round trip", titled, frame, [(_FRAME, "one frame")])


def _curves(figures: Figures, figure: str) -> Iterator[Curve]:
    for name, (tuned, probe, colour, dash) in _LINES.items():
        points, bars = [], []
        for size, x in _BYTES.items():
            of = _dds(tuned, probe, size)
            if found := figures.over_all(of, figure):
                values = [one / 2 / US for one in figures.values(of, figure).values()]
                points.append((x, found[0] / 2 / US))
                bars.append((x, min(values), max(values)))
        if points:
            yield Curve(name, colour, points, bars, dash)


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
                    "Latency is half of the round trip: median / max, µs; the median is that of the middle repetition, "
                    "the maximum that of all. The article has graphs (figures 1, 3 and 4) without figures.",
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
                    '"the latency generally increases with the payload", beyond one frame',
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
                    '"the latency generally increases with the payload", within one frame',
                    "median of half round trips: 1200 B above 64 B",
                    differ(
                        [
                            (probe, _dds(True, probe, "64B"), _dds(True, probe, "1200B"))
                            for probe in ("hosts", "guests")
                        ],
                        0,
                        figure="p50",
                        scale=0.5,
                    ),
                    _SENT_FRAMES,
                ),
                *(
                    Claim(
                        f'"the increase gets more pronounced when payload gets bigger than MTU"{of}',
                        f"{name}, hosts: ns a byte from 2 to 32 kB: over {_CLEARLY} × those from 64 to 1200 B",
                        _steeper(figure),
                        "The emulated card has no line rate: one frame more costs little beside its bytes.",
                    )
                    for figure, name, of in (
                        ("max", "maximum", " (of figure 1's maximum)"),
                        ("p50", "median", ", of the median"),
                    )
                ),
                Claim(
                    '"that median latency looks good" before tuning: it hardly moves',
                    "guests' median, after / before: 0.8 to 1.25, a quarter either way",
                    times([(s, _dds(False, "guests", s), _dds(True, "guests", s)) for s in _SIZES], 0.8, 1.25, "p50"),
                    "Before tuning the VM host's other work runs on the guests' CPUs: large payloads wait for it in "
                    "the median, too.",
                ),
                Claim(
                    '"a lower max latency that is tightly to the median"',
                    "guests' maximum / median, all sizes: smaller after tuning",
                    _onto_the_median,
                    "A cell is short: few rare events, tuned or not.",
                ),
                Claim(
                    '"results that are similar when deploying the DDS between physical hosts"',
                    "median after tuning, guests / hosts: 0.8 to 1.25, a quarter either way",
                    times([(s, _dds(True, "hosts", s), _dds(True, "guests", s)) for s in _SIZES], 0.8, 1.25, "p50"),
                    EXITS,
                ),
            ],
            [
                Picture(
                    _drawn,
                    "dds",
                    "The table's latency, half of the round trip, over the payload; bar: from the repetition with the "
                    "least to that with the greatest",
                )
            ],
            "Host to host is two namespaces of one board, not two machines; guests have two vCPUs, not three, as all "
            "CPUs of the board share one clock: a further busy one would slow the others. The probe is latlab's own "
            "over Cyclone DDS, not ddsperf. So the article's last step has no counterpart: of ddsperf's two threads, "
            'one for reception and one for processing, "we make each thread run in a different core thus resulting in '
            "a reduction of latency\". Here one thread does both: Cyclone's receiving thread takes a sample and writes "
            "the answer (`take: listener`), and no futex is between them. That thread and the interrupt of the guest's "
            "card are on one vCPU. Both vhost threads are on one CPU. One ordinary process of the VM host calls the "
            "kernel all the time, in every cell. It stands for a host's other work, of which the article says nothing. "
            "Before tuning guests wait for it; tuning keeps it off their CPUs and vhost's. The one clock counts its "
            "instructions, too, so every round trip is longer than without it.",
        )
    ],
)
