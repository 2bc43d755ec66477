"""What a run found, on one screen: what was measured, one table, differences, where late packets lost their time,
where packets were lost, and the verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from latlab.analysis.accept import EXCEEDED
from latlab.analysis.comparison.effect import over_repetitions
from latlab.analysis.comparison.words import at, at_least, directions, signed
from latlab.analysis.hops import TRANSIT
from latlab.analysis.interrupt_way import interval_name
from latlab.analysis.way import HAPPENS
from latlab.analysis.words import counted, duration, minus, plural
from latlab.model.units import MICROSECOND_NS
from latlab.report import anomalies, rows, text, unmeasured
from latlab.report.charts.chain import percent
from latlab.report.document import Group, Lines, OneOf, Section, Table
from latlab.report.losses import lost_in, lost_text
from latlab.report.published import headline, headline_tables, published_tables
from latlab.report.sections import Cost, costs
from latlab.report.testbed import label_reasons, label_text
from latlab.report.text import bound
from latlab.report.verdict import grouped_reasons, stated
from latlab.report.where import has_worst
from latlab.result.comparison import Compared
from latlab.result.places import dimension_text, listed
from latlab.result.types import Limit, Losses, Result

FIGURES: Final = (("p50", "p50"), ("p99", "p99"), ("max", "max"))
"""The statistics of the table, and their headings."""
LOADS: Final = "loads"
"""The key of the matrix whose values stand side by side."""
SIDE_BY_SIDE: Final = 3
"""So many values of it at most."""
REASONS: Final = 3
"""So many of the verdict's reasons are printed."""
DIFFERENCES: Final = 5
"""So many lines of differences."""
WINDOW_ROWS: Final = 8
"""So many rows of user-defined windows are printed."""
LINES: Final = 4
"""So many lines of any other list."""
FEW_CELLS: Final = 2
"""So many cells are named, where more could be."""
NEXT: Final = 3
"""So many commands to read on with."""
MEDIAN: Final = "p50"
_INTERVAL: Final = "interval"
_COLUMNS: Final[tuple[tuple[str, str], ...]] = (FIGURES[0], (_INTERVAL, "±"), *FIGURES[1:])
"""The same with half of the median's 95 % interval over the repetitions, where there are several."""


def answer(result: Result, metrics: Sequence[str], *, every: bool = False) -> list[Section]:
    """The sections of the first screen. metrics: the first of them that any stream has is what the table is of; every:
    all of them have one.
    """
    metric = metric_of(result, metrics)
    said = (f"{line}." for line in (*label_reasons(result), *stated(result)))
    return [
        Section("title", [Lines([title(result, metric), *said])]),
        Section("figures", list(_figures(result, metric)) if metric else []),
        Section("further", list(_further(result, metrics)) if every else []),
        Section("missing", list(_unmeasured(result))),
        Section("differences", list(_differences(result, metric)) if metric else []),
        Section("stages", list(_late(result, metric)) if metric else []),
        Section("losses", list(_losses(result, metric))),
        Section("windows", list(_windows(result))),
        Section("timers", list(_timers(result))),
        Section("talkers", list(_talkers(result))),
        Section("limits", list(_limits(result))),
        Section("repetitions", list(_alike(result))),
        Section("verdict", [Lines(list(_verdict(result)))]),
    ]


def metric_of(result: Result, metrics: Sequence[str]) -> str | None:
    """The first of the metrics that any stream has."""
    present = result.metric_names(metrics)
    return next((name for name in metrics if name in present), None)


def title(result: Result, metric: str | None) -> str:
    """What was measured, how often, and under which label."""
    repeats = max((cell.repeat for cell in result.cells), default=1)
    cells = plural(len({cell.slug for cell in result.cells}), "cell")
    often = f"{cells} × {plural(repeats, 'repetition')}" if repeats > 1 else cells
    between = dict.fromkeys(one.between for one in rows.summaries(result, metric)) if metric else {}
    formula = f"{metric} = {' or '.join(filter(None, between))}" if any(between) else metric or "no figures"
    return " · ".join((result.scenario, often, label_text(result), f"{formula}, µs"))


# The table


def _figures(result: Result, metric: str) -> Iterator[OneOf | Table | Lines]:
    """A table of the scenario's headline with what its authors published, else one of every stream and cell."""
    headline = list(headline_tables(result, metric))
    if headline:
        yield from (one.filled() for one in headline)
        return
    further = rows.between_hops(result)
    summaries = rows.summaries(result, metric, further)
    values = side_by_side(summaries)
    # Loads side by side say more than intervals do, where there is no room for both.
    shapes = [(some, intervals) for some in ((values, None) if values else (None,)) for intervals in (True, False)]
    yield OneOf([[_table(result, summaries, some, intervals=intervals)] for some, intervals in shapes])
    ends = "; ".join(one for summary in summaries for one in _ends(summary))
    clocks = _clocks_of_all(summaries)
    told = f"{rows.off_by(summaries)}: ± {clocks} µs" if clocks else ""
    notes = (note for summary in summaries for note in summary.notes)
    named = {name for cell in result.cells for name, block in cell.streams.items() if metric in block.metrics}
    kept = len(named & further)
    more = f"{plural(kept, 'pair')} of points with others between them: latlab show cells" if kept else ""
    yield Lines(list(dict.fromkeys(filter(None, ("; ".join(filter(None, (ends, told))), *notes, more)))))
    yield from (one.filled() for one in published_tables(result, metric))


def _further(result: Result, metrics: Sequence[str]) -> Iterator[OneOf | Table | Lines]:
    """The tables of the other metrics, each with its formula as its title."""
    for metric in [name for name in metrics if name in result.metric_names(metrics)][1:]:
        formula = title(result, metric).rpartition(" · ")[2]
        if metric == headline(result):  # its table has a longer title
            yield Lines([formula])
        for part in _figures(result, metric):
            if isinstance(part, OneOf):
                yield OneOf([[replace(table, title=formula) for table in shape] for shape in part.shapes])
            else:
                yield part


def _ends(summary: rows.Summary) -> list[str]:
    """From where to where a stream goes, as "down: sensor → vm1"; nothing where rows are of several or names say it."""
    return [summary.stream.replace(", ", ": ", 1)] if ", " in summary.stream else []


def load_of(summary: rows.Summary, row: rows.StreamRow) -> str:
    """The load of the row's cell; empty where the matrix has none."""
    return row.dimensions[summary.headings.index(LOADS)] if LOADS in summary.headings else ""


def side_by_side(summaries: Sequence[rows.Summary]) -> list[str] | None:
    """The loads whose figures stand side by side; None: each has a separate row."""
    values = list(dict.fromkeys(load_of(summary, row) for summary in summaries for row in summary.rows))
    return values if 1 < len(values) <= SIDE_BY_SIDE else None


def grouped(
    summaries: Sequence[rows.Summary], values: Sequence[str] | None
) -> tuple[list[str], list[list[str]], list[dict[str, list[rows.StreamRow]]]]:
    """The rows of the table: headings of what differs between them, the labels of each, and load → its repetitions.

    values: of the loads that stand side by side; None: a row each, the key of its repetitions is empty.
    """
    groups: dict[tuple[tuple[str, str], ...], dict[str, list[rows.StreamRow]]] = {}
    for summary in summaries:
        headings = summary.headings[:-1] if summary.shows_repeat else summary.headings
        for row in summary.rows:
            named = [("stream", row.stream)] if summary.stream else []
            named += [
                (heading, value)
                for heading, value in zip(headings, summary.labels(row), strict=False)
                if values is None or heading != LOADS
            ]
            beside = "" if values is None else load_of(summary, row)
            groups.setdefault(tuple(named), {}).setdefault(beside, []).append(row)
    told = [dict(named) for named in groups]
    every = dict.fromkeys(heading for one in told for heading in one)
    shown = [heading for heading in every if len({one.get(heading) for one in told}) > 1]
    return shown, [[names.get(heading, "") for heading in shown] for names in told], list(groups.values())


def _table(
    result: Result, summaries: Sequence[rows.Summary], values: Sequence[str] | None, *, intervals: bool
) -> Table:
    """All streams' configurations below each other. values: of the loads that stand side by side; None: a row each.

    What is the same in every row has no column. intervals: with that of the median over the repetitions.
    """
    shown, told, groups = grouped(summaries, values)
    clocks = any(summary.crosses_clocks for summary in summaries) and not _clocks_of_all(summaries)
    beside_each = [""] if values is None else list(values)
    columns = [one for one in _COLUMNS if intervals or one[0] != _INTERVAL]
    by_row = [[one for value in beside_each for one in _statistics(of.get(value, []), columns)] for of in groups]
    figures = zip(*(_written(column) for column in zip(*by_row, strict=True)), strict=True)
    found = []
    for labels, of in zip(told, groups, strict=True):
        measured = [row for some in of.values() for row in some]
        bounds = [_clocks(measured)] if clocks else []
        found.append((*labels, *next(figures), _lost(measured), *bounds, _remark(result, measured)))
    first, each = len(shown), len(columns)
    above = [Group(load(value), first + each * number, each) for number, value in enumerate(values or ())]
    headings = [heading for _ in beside_each for _, heading in columns]
    headings_shown = (*shown, *headings, "lost", *([f"{rows.off_by(summaries)} ±"] if clocks else []), "")
    return Table(headings_shown, found, range(first, len(headings_shown) - 1), "", above).filled()


def _statistics(repetitions: Sequence[rows.StreamRow], columns: Sequence[tuple[str, str]]) -> list[_Figure]:
    """Over the repetitions the median of each statistic, and the largest maximum; of the median half of the interval
    of its mean over the repetitions, too.
    """
    measured = [row.measured for row in repetitions if row.measured]
    shown = []
    for key, _ in columns:
        values = [ns for one in measured if (ns := getattr(one, MEDIAN if key == _INTERVAL else key)) is not None]
        whole = values and len(values) == len(repetitions)
        if key == "max":
            bounds = [one.max_at_least for one in measured if one.max_at_least is not None]
            shown.append(_Figure(max((*values, *bounds), default=None), at_least=bool(bounds)))
        elif key == _INTERVAL:
            half = over_repetitions(values)[1] if whole and len(values) > 1 else None
            shown.append(_Figure(half, largest_ns=max(values, default=0)))
        else:
            shown.append(_Figure(median(values) if whole else None))
    return shown


@dataclass(frozen=True)
class _Figure:
    """A duration, ns; None: there is none. at_least: packets without a timestamp may be above it. largest_ns: of the
    figures that it is the interval of, as which it is rounded.
    """

    ns: float | None
    at_least: bool = False
    largest_ns: float = 0


def _written(column: Sequence[_Figure]) -> list[str]:
    """Durations below each other in µs, all with one decimal, or all without where some take 1 ms and more."""
    digits = 0 if any(max(one.ns or 0, one.largest_ns) >= 1_000_000 for one in column) else 1
    return [
        "" if one.ns is None else ("≥" if one.at_least else "") + minus(f"{one.ns / MICROSECOND_NS:.{digits}f}")
        for one in column
    ]


def _lost(repetitions: Sequence[rows.StreamRow]) -> str:
    counts = [row.statistics.lost for row in repetitions if row.statistics]
    known = [count for count in counts if count is not None]
    return str(sum(known)) if known else ""


def _clocks(repetitions: Sequence[rows.StreamRow]) -> str:
    bounds = [row.measured.uncertainty_ns for row in repetitions if row.measured]
    known = [ns for ns in bounds if ns is not None]
    return "" if not bounds else bound(None if len(known) < len(bounds) else max(known))


def _clocks_of_all(summaries: Sequence[rows.Summary]) -> str:
    """The ± of the clocks where it is known and the same for every configuration of several, or there is one clock."""
    if not any(summary.crosses_clocks for summary in summaries):
        return ""
    _, _, groups = grouped(summaries, side_by_side(summaries))
    found = {_clocks([row for some in of.values() for row in some]) for of in groups} - {""}
    return found.pop() if len(found) == 1 and found != {bound(None)} else ""


def _remark(result: Result, repetitions: Sequence[rows.StreamRow]) -> str:
    """What is to be known of a row: why it does not have figures, or that its verdict is worse than others'."""
    said = (row.remark for row in repetitions if row.remark not in (result.verdict, "trusted"))
    return ", ".join(dict.fromkeys(said))


def _unmeasured(result: Result) -> Iterator[Lines]:
    found = [*unmeasured.unfinished(result), *unmeasured.unavailable(result)]
    if found:
        yield Lines(
            _few([one.short(FEW_CELLS) for one in found], LINES, "missing"),
            "Cells that failed, were interrupted, or cannot run here",
        )


# Differences


def _differences(result: Result, metric: str) -> Iterator[Lines]:
    """What differs at the median, a line for each configuration and what it is compared in, or why nothing can."""
    for document in result.comparisons:
        if document.metric == metric:
            entries = [one for one in document.comparisons if one.statistic == MEDIAN]
            if entries:
                yield Lines(_few(list(_said(entries)), DIFFERENCES, "comparison"), _over(result, entries))


def _over(result: Result, entries: Sequence[Compared]) -> str:
    counts = [len(side) for one in entries if one.low_ns is not None for side in (one.repeats_a, one.repeats_b)]
    if result.repeats or not counts:
        return f"Differences {at(MEDIAN)}, µs"
    over = " to ".join(dict.fromkeys(str(count) for count in (min(counts), max(counts))))
    return f"Differences {at(MEDIAN)}, µs, mean over {over} repetitions [95 % interval]"


def _said(entries: Sequence[Compared]) -> Iterator[str]:
    judged = [one for one in entries if one.why_not is None and one.low_ns is not None]
    if not judged:
        for why, count in Counter(one.why_not for one in entries).most_common():
            yield f"no difference can be shown in {plural(count, 'comparison')}: {why}"
        return
    several = len({one.stream for one in judged}) > 1
    for key in sorted(dict.fromkeys(one.key for one in judged), key=lambda key: key == LOADS):
        # A bridge: how it compares with the others, under each load. A load: what it does to every bridge.
        turned = key == LOADS
        groups: dict[tuple[str, ...], list[Compared]] = {}
        for one in judged:
            if one.key == key:
                rest = _value(one.b.name) if turned else _beside(one.cell)
                groups.setdefault((one.stream, _value(one.a.name), rest), []).append(one)
        for (stream, base, rest), found in groups.items():
            place = [stream] * several
            place += [f"{rest} compared with {base}"] if turned else [*filter(None, [rest]), f"compared with {base}"]
            yield f"{', '.join(place)}: {_listed(found, _names(found, turned=turned))}"
    if missing := len(entries) - len(judged):
        yield f"no difference can be shown in {missing} of {plural(len(entries), 'comparison')}: {_why(entries)}"


def _beside(cell: str) -> str:
    """What two cells share: "flavour rt, idle" of "flavour rt, loads none"."""
    parts = (part.partition(" ") for part in cell.split(", "))
    return ", ".join(load(value) if key == LOADS else f"{key}{space}{value}" for key, space, value in parts)


def _why(entries: Sequence[Compared]) -> str:
    return "; ".join(dict.fromkeys(one.why_not or "no interval" for one in entries if one.low_ns is None))


def _names(entries: Sequence[Compared], *, turned: bool) -> list[str]:
    """What each comparison of a line is called: the other side, or of a load the cell; empty where there is one."""
    if not turned:
        return [_value(one.b.name) for one in entries]
    cells = [one.cell.split(", ") for one in entries]
    alike = set(cells[0]).intersection(*cells[1:])
    return [", ".join(_value(part) for part in cell if part not in alike) for cell in cells]


def _value(name: str) -> str:
    """A cell's name that is one key's, as "bridge tap", without the key."""
    heading, _, value = name.partition(" ")
    if "," in name or not value:
        return name
    return load(value) if heading == LOADS else value


def load(value: str) -> str:
    """What a load is called: without any the cell is idle."""
    return "idle" if value == "none" else value


def _listed(entries: Sequence[Compared], names: Sequence[str]) -> str:
    """Those that differ, the least first, each with its interval; then those of which no difference is shown."""
    more, less = directions(entries[0].metric, MEDIAN)
    named = list(zip(entries, names, strict=True))
    told = []
    shown = [
        (one.difference_ns, sorted((abs(one.low_ns), abs(one.high_ns))), name)
        for one, name in named
        if one.shown and one.difference_ns is not None and one.low_ns is not None and one.high_ns is not None
    ]
    for difference, (low, high), name in sorted(shown, key=lambda one: one[0]):
        half = (high - low) / 2
        amount, low_us, high_us = (signed(abs(ns), half).lstrip("+") for ns in (difference, low, high))
        direction = more if difference > 0 else less
        told.append(f"{name} {amount} {direction} [{low_us}, {high_us}]".strip())
    if quiet := [one for one in named if not one[0].shown]:
        least = [one.smallest_ns for one, _ in quiet if one.smallest_ns is not None]
        needed = " to ".join(dict.fromkeys(at_least(ns) for ns in (min(least), max(least)))) if least else ""
        who = listed([name for _, name in quiet if name])
        would = f" (would need {needed})" if needed else ""
        told.append(f"{who}{': ' if who else ''}no difference shown{would}")
    return "; ".join(told)


# Late packets


def _late(result: Result, metric: str) -> Iterator[Lines]:
    """For each stream and load the stages that dominate the delay of the latest packets, and in how many cells."""
    found: dict[tuple[str, str], list[_Latest]] = {}
    for cell in rows.ordered_cells(result):
        beside = load(dimension_text(cell.cell[LOADS])) if LOADS in cell.cell else ""
        others = ", ".join(dimension_text(value) for key, value in cell.cell.items() if key != LOADS)
        for stream, block in cell.streams.items():
            # The table's own metric: what comes behind its last timestamp made none of its packets late. What was
            # watched beside it has another.
            figures = block.metrics.get(metric) or block.metrics.get(TRANSIT)
            latest = figures and figures.chain and figures.chain.worst
            if latest:
                most = max(latest.grew, key=lambda one: one.share, default=None)
                stage = interval_name(most.from_, most.to) if most else ""
                found.setdefault((stream, beside), []).append(_Latest(others, stage, most.share if most else 0))
    several = len({stream for stream, _ in found}) > 1
    lines, explained = [], set[str]()
    for (stream, beside), measured in found.items():
        place = ", ".join(filter(None, (stream if several else "", beside)))
        lines.append(f"{place + ': ' if place else ''}{_dominant(measured, explained)}")
    if lines:
        yield Lines(_few(lines, LINES, "stages"), "Where the latest packets lost their time (share of their delay)")


@dataclass(frozen=True)
class _Latest:
    """The dominant stage of one measurement's latest packets, "" without one, and its share of their delay.

    cell: the values of the matrix without the load.
    """

    cell: str
    stage: str
    share: float


def _dominant(measured: Sequence[_Latest], explained: set[str]) -> str:
    """Each stage with its shares, the most frequent first, and in which cells the others are, where those are few.

    explained: stages of which a line above says what happens in them; those of this line are added.
    """
    by_stage: dict[str, list[_Latest]] = {}
    for one in measured:
        if one.stage:
            by_stage.setdefault(one.stage, []).append(one)
    told: list[str] = []
    for stage, found in sorted(by_stage.items(), key=lambda one: -len(one[1])):
        shares = [one.share for one in found]
        ends = " to ".join(dict.fromkeys((percent(min(shares)), percent(max(shares)))))
        cells = list(dict.fromkeys(one.cell for one in found))
        which = f" ({listed(cells)})" if told and all(cells) and len(cells) <= FEW_CELLS else ""
        some = len(found) < len(measured) and (told or len(by_stage) == 1)
        times = f"in {len(found)} of {len(measured)} measurements{which}: " if some else ""
        happens = HAPPENS.get(stage, "").partition(";")[0] if stage not in explained else ""
        explained.add(stage)
        told.append(f"{times}{stage}{f' ({happens})' if happens else ''} {ends}")
    return "; ".join(told) or "no packet took longer than the typical one"


# Lost packets


def _losses(result: Result, metric: str | None) -> Iterator[Lines]:
    """For each stream and load where its lost packets were dropped, or that no kernel's drops were watched."""
    found: dict[tuple[str, str], list[Losses | None]] = {}
    unwatched = 0
    for cell in rows.ordered_cells(result):
        beside = load(dimension_text(cell.cell[LOADS])) if LOADS in cell.cell else ""
        for stream, block in cell.streams.items():
            if not (block.probe and block.probe.leg):
                found.setdefault((stream, beside), []).append(block.losses)
                figures = block.metrics.get(metric) if metric else None
                if figures and block.losses is None and cell.drops_watched:
                    unwatched += figures.lost or 0
    lines = []
    for (stream, beside), several in found.items():
        if losses := lost_in(several):
            lines.append(f"{', '.join(filter(None, (stream, beside)))}: {lost_text(losses)}")
    if unwatched:
        lines.append(f"{unwatched} lost on kernels whose drops were not recorded (`watch_drops: always` records them)")
    if lines:
        yield Lines(_few(lines, LINES, "losses"), "Where packets were lost")


# Windows, timers and talkers


def _windows(result: Result) -> Iterator[Table | Lines]:
    """User-defined windows, with the whole run, where they are few enough to be read here."""
    chosen = list(anomalies.chosen_rows(result))
    if len(chosen) <= WINDOW_ROWS:
        yield Table(anomalies.CHOSEN_HEADINGS, chosen, anomalies.WINDOW_NUMBERS, anomalies.CHOSEN_TITLE)
    else:
        yield Lines(["User-defined windows, with the whole run: latlab show anomalies"])


def _timers(result: Result) -> Iterator[Lines]:
    """For each timer how many of its handlers were later than the threshold, or of its threads, under each load."""
    late: dict[tuple[str, int], dict[str, dict[str, tuple[int, int]]]] = {}
    for cell in rows.ordered_cells(result):
        beside = load(dimension_text(cell.cell[LOADS])) if LOADS in cell.cell else ""
        others = [dimension_text(value) for key, value in cell.cell.items() if key != LOADS]
        for stream, block in cell.streams.items():
            if timer := block.timer:
                whose = ", ".join(dict.fromkeys((stream, *others)))
                of, found = ("handlers", timer.interrupt) if timer.interrupt else ("threads", timer)
                loads = late.setdefault((of, timer.threshold_ns), {}).setdefault(whose, {})
                above, n = loads.get(beside, (0, 0))
                loads[beside] = (above + found.above, n + found.n)
    for (of, threshold_ns), timers in late.items():
        lines = [f"{whose}: {', '.join(_share(*one) for one in loads.items())}" for whose, loads in timers.items()]
        yield Lines(_few(lines, LINES, "timers"), f"Timers' {of} later than {duration(threshold_ns)}")


def _share(beside: str, counts: tuple[int, int]) -> str:
    """How many of how many are above, under that load: "idle 3 of 400 (0.75 %)"."""
    above, n = counts
    told = f"{above} of {n} ({100 * above / n:.3g} %)" if above else f"none of {n}"
    return f"{beside} {told}".strip()


def _talkers(result: Result) -> Iterator[Lines]:
    """What each packet costs its talker, median over the repetitions, where packets have launch times."""
    found: dict[str, list[Cost]] = {}
    for cost in costs(result):
        values = (dimension_text(value) for value in cost.cell.cell.values())
        found.setdefault(listed([*values, *([cost.host] if cost.several else [])]), []).append(cost)
    lines = []
    for whose, of in found.items():
        cpu, wakeups = (median(getattr(one, key) for one in of) for key in ("cpu_ns", "wakeups"))
        lines.append(f"{whose}{': ' if whose else ''}{duration(cpu)} of CPU time, {wakeups:.3g} wake-ups")
    if lines:
        yield Lines(_few(lines, LINES, "talkers"), "What each packet costs the sending thread")


# Limits and the verdict


def _limits(result: Result) -> Iterator[Lines]:
    if result.accept:
        broken = [one for one in result.accept if not one.ok]
        kept = f"{len(result.accept) - len(broken)} of {plural(len(result.accept), 'limit')} kept"
        lines = [f"{one.path}, {one.cell}, repeat {one.repeat}: {_broken(one)}" for one in broken]
        yield Lines(_few(lines, LINES, "limits"), kept)


def _broken(one: Limit) -> str:
    """As "812 µs is over the limit, 500 µs"."""
    limit, actual = (text.limit(one.path, value) for value in (one.limit, one.actual))
    return f"{actual} is {one.reason}, {limit}" if one.reason == EXCEEDED else f"{one.reason}; the limit is {limit}"


def _alike(result: Result) -> Iterator[Lines]:
    """How far the packets of a cell's repetitions are apart, where that was asked for."""
    lines = [
        f"{one.slug}: {counted(one.packets, 'packet')}, at most {one.largest_ns} ns apart"
        + (f", from {one.timestamp} of {one.stream} {one.sequence} on" if one.timestamp else "")
        + (f", {counted(one.only_in_one, 'timestamp')} in one only" if one.only_in_one else "")
        for one in result.repeats or []
    ]
    if lines:
        yield Lines(_few(lines, LINES, "limits"), "Repetitions of one seed")


def _verdict(result: Result) -> Iterator[str]:
    yield f"Verdict: {result.verdict}"
    reasons = grouped_reasons(result)
    for reason in reasons[:REASONS]:
        places = len({place for one in reason.found for place in one.where})
        where = f", in {counted(places, 'place')}" if places > 1 else ""
        yield f"  {reason.severity}: {reason.finding}{where} ({reason.id})"
    if len(reasons) > REASONS:
        yield f"  and {plural(len(reasons) - REASONS, 'more reason')}: latlab show trust"


def _few(lines: Sequence[str], most: int, name: str) -> list[str]:
    """The first lines, and which command shows the others."""
    if len(lines) <= most:
        return list(lines)
    return [*lines[: most - 1], f"and {len(lines) - most + 1} more: latlab show {name}"]


# What to read next


def next_commands(result: Result) -> list[tuple[str, str]]:
    """(section for `latlab show`, what it shows), three of them: what a reader of this run wants to know next."""
    streams = [stream for cell in result.cells for stream in cell.streams.values()]
    anomalies = [one for stream in streams for one in (stream.anomalies or {}).values()]
    wanted = {
        "trust": (result.verdict != "trusted", "the reasons for the verdict, and what to do"),
        "missing": (any(cell.status != "ok" for cell in result.cells), "which cells failed or did not run, and why"),
        "stages": (any(map(has_worst, streams)), "where typical and late packets spent their time"),
        "anomalies": (any(one.episodes for one in anomalies), "which events made packets late"),
        "cells": (any(stream.metrics for stream in streams), "the figures of each repetition"),
        "testbed": (True, "what was measured, and with which settings"),
        "tools": (True, "the versions of latlab and of the tools"),
    }
    return [(name, what) for name, (is_wanted, what) in wanted.items() if is_wanted][:NEXT]
