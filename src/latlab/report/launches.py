"""Streams with launch times: how far before these etf sends their packets, and what that makes of a latency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from latlab.analysis.words import duration
from latlab.recordings.cell import RecordedCell, RecordedStream
from latlab.result.types import Stream
from latlab.scenario import Scenario
from latlab.scenario.shaper_rules import leaf_of
from latlab.scenario.shapers import Etf


def launches_of(cell: RecordedCell, scenario: Scenario | None) -> dict[str, dict[str, int | None]]:
    """`lead_ns` of each stream with launch times, and `early_ns`: how long before these a software etf sends its
    packets, None where none does or the scenario is not known.
    """
    return {
        stream.name: {"lead_ns": stream.launch_time.lead_ns, "early_ns": _early_ns(stream, scenario)}
        for stream in cell.streams
        if stream.launch_time
    }


def _early_ns(stream: RecordedStream, scenario: Scenario | None) -> int | None:
    """The etf's delta: without a card that launches packets, they leave when it hands them over (tc-etf(8))."""
    port = f"{stream.talker}.{stream.port or stream.interface}"
    etf = leaf_of(scenario.shapers.get(port), stream.priority or 0) if scenario else None
    return etf.delta if isinstance(etf, Etf) and not etf.offload and not etf.deadline else None


def early_notes(blocks: Sequence[tuple[str, Stream]], metric: str) -> Iterator[str]:
    """A sentence for each stream that has figures below zero because its etf sends before the launch time."""
    found: dict[str, dict[int, None]] = {}
    for name, block in blocks:
        figures, early_ns = block.metrics.get(metric), block.early_ns
        if early_ns and figures and figures.from_ == "launch" and (figures.min or 0) < 0:
            found.setdefault(name, {})[early_ns] = None
    for name, deltas in found.items():
        early = " or ".join(map(duration, deltas))
        yield (
            f"{name}: below zero because etf sends each packet {early} (its delta) before the launch time, and no "
            "network card delays it until then; arrival_offset does not include this"
        )
