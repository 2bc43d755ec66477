"""The comparison of a run's cells as its page and Markdown show it: a block for each stream and matrix key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from latlab.analysis.comparison.compare import STATISTICS
from latlab.report.charts.forest import Panel, panel
from latlab.report.comparison.lines import Block, blocks, summary
from latlab.report.places import short_headings
from latlab.result.comparison import Compared, Comparison
from latlab.result.types import Result

TITLE: Final = "Comparison of cells"

NOTE: Final = (
    "A deployment is one observation, however many packets it sent: each repetition gives one figure, and these "
    "figures are compared. A filled point is a difference that is shown. The thick line is the 95 % interval of this "
    "comparison alone. The thin line is as wide as the number of comparisons requires: it excludes 0 where a "
    "difference is shown. A dashed line rests on the packets of single deployments. An arrow marks a line that "
    "continues beyond the axis."
)
FAMILY: Final = (
    "Holm's procedure judges all comparisons of this page together, of every metric and statistic. It also judges "
    "together all comparisons of one latlab compare command: --by KEY compares the same metrics for every two cells "
    "that differ in that key. With fewer comparisons (--metric, --statistic) smaller differences are shown."
)
_SINGLY: Final = 3
"""So many comparisons that one reason rules out are each told."""


@dataclass(frozen=True)
class Group:
    """One stream's cells by one matrix key. title: "control, by bridge: each against tap"; panels: one a statistic;
    blocks: one for each two cells, whose `lines` are sentences and whose `rows` are figures.
    """

    stream: str
    title: str
    panels: tuple[Panel, ...]
    blocks: tuple[Block, ...]

    @property
    def lines(self) -> Iterator[str]:
        """What is shown of each two cells: "loads none, bridge xdp: …"; in one line for each reason, of how many none
        can be, where these are many.
        """
        lacking = Counter(one.why_not for one in self._entries if one.why_not and not one.is_blank)
        many = {why: count for why, count in lacking.items() if count > _SINGLY}
        for block in self.blocks:
            where = ", ".join(filter(None, (block.b, block.where)))
            told_singly = replace(block, entries=tuple(one for one in block.entries if one.why_not not in many))
            yield from (f"{where}: {line}" for line in told_singly.lines)
        for why, count in many.items():
            which = "any" if count == len(self._entries) else str(count)
            yield f"nothing can be shown in {which} of the {len(self._entries)} comparisons: {why}"

    @property
    def _entries(self) -> list[Compared]:
        return [one for block in self.blocks for one in block.entries]


@dataclass(frozen=True)
class ComparedMetric:
    """One metric's. summary: how many comparisons show a difference. notes: what is to be known. differences: what is
    shown, a sentence each, with the stream and what the two cells share.
    """

    metric: str
    summary: str
    groups: tuple[Group, ...]
    notes: tuple[str, ...]
    differences: tuple[str, ...]


def compared_metrics(result: Result) -> list[ComparedMetric]:
    """One for each metric that cells of the result are compared by; none of a result that compares nothing."""
    return [_metric(one) for one in result.comparisons]


def _metric(document: Comparison) -> ComparedMetric:
    groups: dict[tuple[str, str], list[Compared]] = {}
    for one in document.comparisons:
        groups.setdefault((one.a.stream, one.key or ""), []).append(one)
    headings = short_headings(keys := tuple(dict.fromkeys(one.key or "" for one in document.comparisons)))
    names = dict(zip(keys, headings, strict=True))
    return ComparedMetric(
        document.metric,
        summary(document),
        tuple(_group(stream, names[key], entries) for (stream, key), entries in groups.items()),
        tuple(document.notes),
        tuple(_place(one) + one.told for one in document.comparisons if one.shown),
    )


def _place(one: Compared) -> str:
    return f"{', '.join(filter(None, (one.stream, one.cell)))}: "


def _group(stream: str, heading: str, entries: Sequence[Compared]) -> Group:
    first = dict.fromkeys(one.a.name for one in entries)
    drawn = (panel([one for one in entries if one.statistic == name], heading) for name in STATISTICS)
    return Group(
        stream,
        f"{stream}, by {heading}: each against {' or '.join(first)}",
        tuple(one for one in drawn if one is not None),
        tuple(blocks(entries)),
    )
