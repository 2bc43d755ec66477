"""Where the time went, as tables: each interval of a packet's path, typical against worst, and what made packets
late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, starmap
from statistics import median
from typing import Final

from latlab.analysis.hops import TRANSIT
from latlab.analysis.interrupt_way import interval_name
from latlab.analysis.reception import RECEPTION
from latlab.analysis.way import CHAINS_SHOWN, INTERVALS
from latlab.report import rows
from latlab.report.charts.chain import GROUPS, chain_of, has_parts, percent, thing
from latlab.report.document import Table
from latlab.report.testbed import label_text
from latlab.report.text import microseconds
from latlab.report.traces import whom_text
from latlab.result.places import cell_name, cell_title
from latlab.result.types import Cell, Chain, Growth, Result, StagesOfGroup, Stream, WorstStages

HEADINGS: Final = ("stage", "typical", "worst", "dominant in", "share of delay")

_FEW: Final = 4
"""So many tables of single repetitions are looked through at once."""
_NONE: Final = "none"
"""Of lateness where no packet took longer: what rounds to 0 % is another thing."""


def where_tables(result: Result, metric: str) -> list[Table]:
    """A table for each cell and stream, of this metric, or where its way has no intervals, of the one that goes
    furthest; none without any. Behind it that of its listener's trace. Times in µs, the last row the intervals' sum.
    """
    return [
        _table(result, cell, stream, *found)
        for cell in rows.ordered_cells(result)
        for stream, block in cell.streams.items()
        for found in (*_explained(block, metric), *_traced(block))
    ]


def share_tables(result: Result, metric: str) -> list[Table]:
    """Of each stream and configuration how the delay of its latest packets is divided over the stages, % at the middle
    one of the repetitions: a table for those that have the same stages; none where there are few tables of
    single repetitions to look through. The metric is that of the tables.
    """
    shares: dict[tuple[str, ...], dict[tuple[str, str], list[dict[str, float]]]] = {}
    metrics: dict[tuple[str, ...], dict[str, None]] = {}
    for cell in rows.ordered_cells(result):
        for stream, block in cell.streams.items():
            for name, chain, latest in _explained(block, metric):
                # Stages have one order, and hops are those of a flow.
                way = tuple(chain.stops) if name == TRANSIT else ()
                metrics.setdefault(way, {})[name] = None
                found = {interval_name(one.from_, one.to): one.share for one in latest.grew}
                shares.setdefault(way, {}).setdefault((cell_title(cell), stream), []).append(found)
    if sum(len(each) for of in shares.values() for each in of.values()) <= _FEW:
        return []
    return [
        _share_table(of, way, f"of the packets with the largest {' or '.join(metrics[way])}", label_text(result))
        for way, of in shares.items()
    ]


def _share_table(
    shares: Mapping[tuple[str, str], Sequence[Mapping[str, float]]], way: Sequence[str], which: str, label: str
) -> Table:
    """shares: by cell and stream, of each repetition the share of each stage in which packets took longer."""
    named = dict.fromkeys(name for each in shares.values() for one in each for name in one)
    order = (*starmap(interval_name, pairwise(way)), *INTERVALS.values(), *named)
    stages = [name for name in dict.fromkeys(order) if name in named]
    found = [
        (*whose, *(percent(median(one.get(name, 0.0) for one in each)) for name in stages))
        for whose, each in shares.items()
    ]
    title = f"Share of delay in each stage, {which}, median of the repetitions · {label}"
    return Table(("cell", "stream", *stages), found, range(2, 2 + len(stages)), title)


def has_worst(block: Stream) -> bool:
    """Whether a metric of it has a chain with a typical and a worst packet."""
    return bool(_chains(block))


def _chains(block: Stream) -> list[tuple[str, Chain, WorstStages]]:
    """The metrics whose chains have a typical and a worst packet, in the order in which they go further."""
    found = [(name, chain) for name in (*CHAINS_SHOWN, TRANSIT) if (chain := chain_of(block, name))]
    return [(*one, worst) for one in found if (worst := one[1].worst) and worst.each and has_parts(*one)]


def _explained(block: Stream, metric: str) -> list[tuple[str, Chain, WorstStages]]:
    """The metric, or else the one that goes furthest, with its chain; nothing without any."""
    found = _chains(block)
    return [one for one in found if one[0] == metric] or found[-1:]


def _traced(block: Stream) -> list[tuple[str, Chain, WorstStages]]:
    """What tracepoints show of the way to its listener's thread; nothing where they were not asked."""
    chain = chain_of(block, RECEPTION)
    return [(RECEPTION, chain, chain.worst)] if chain and chain.worst else []


def _table(result: Result, cell: Cell, stream: str, metric: str, chain: Chain, latest: WorstStages) -> Table:
    trust = f"{label_text(cell)} · {cell.verdict or cell.status}"
    place = f"{cell_name(result, cell)}, {stream}" if cell.cell or len(result.cells) > 1 else stream
    usual, last = _typical(chain), latest.each[0]
    worst = _by_interval(last.stops or chain.stops, last.ns)
    typical = _by_interval(chain.stops, usual.ns) if usual and usual.ns else {}
    grew = {(one.from_, one.to): one for one in latest.grew}
    shown = [
        (
            interval_name(*ends),
            microseconds(typical.get(ends)),
            microseconds(worst.get(ends)),
            *_grown(grew.get(ends), latest),
        )
        for ends in dict.fromkeys((*typical, *worst))
    ]
    total = (metric, microseconds(usual.value_ns if usual else None), microseconds(last.value_ns), "", "")
    title = f"{place}: where the time of {metric} went, µs · {trust}"
    return Table(HEADINGS, (*shown, total), range(1, len(HEADINGS)), title, remarks=[_note(chain, latest)])


def _typical(chain: Chain) -> StagesOfGroup | None:
    """The typical packets' means; None where n supports none, or none has the common timestamps."""
    return next((one for one in chain.groups if one.name == "typical" and one.ns is not None), None)


def _by_interval(stops: Sequence[str], ns: Sequence[float]) -> dict[tuple[str, str], float]:
    return dict(zip(pairwise(stops), ns, strict=True))


def _grown(one: Growth | None, latest: WorstStages) -> tuple[str, str]:
    """How many of the worst packets grew most there, and which share of all their lateness it has.

    An interval that is shorter in the worst packets than in the typical one has no part of it.
    """
    if one is None:
        return ("0", _NONE) if latest.late else ("", "")
    return str(one.packets), percent(one.share)


def _note(chain: Chain, latest: WorstStages) -> str:
    """What the columns are of: "typical: mean of 1789 packets from p40 to p60; worst: packet 39439; …"."""
    usual, last, late = _typical(chain), latest.each[0], latest.late
    of = thing(chain)
    found = [f"{GROUPS['typical']}: mean of {usual.split} {of}s from p40 to p60"] if usual else []
    whom = f", whose interrupt arrived in {whom_text(last.interrupted)}" if last.interrupted else ""
    found.append(f"worst: {of} {last.sequence}{whom}")
    found += [
        f"dominant in: how many of the worst {late} {of}s lost most time there, compared with the typical one; "
        f"{_NONE}: no {of} took longer there"
    ] * bool(late)
    return "; ".join(found)
