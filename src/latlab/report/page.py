"""What the page of a run has, in its order: the report's sections, and what only a page has room for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from latlab.analysis.reception import RECEPTION
from latlab.analysis.words import left_out_text, plural
from latlab.evaluation.gates import Scheduled
from latlab.model.facts import flatten
from latlab.model.labels import LABELS
from latlab.model.metrics import METRIC_ORDER, METRICS, METRICS_BY_NAME, PROBE_METRICS, TIMER_METRICS, MetricKind
from latlab.model.statistics import HEADINGS
from latlab.model.units import in_us
from latlab.recordings.cell import RecordedStream
from latlab.recordings.run_folder import RunFolder
from latlab.report import anomalies, definitions, files, rows, traces, where
from latlab.report.charts import comparison
from latlab.report.charts.chain import chain_chart, chain_remarks, chain_table, chain_views
from latlab.report.charts.clocks import clock_charts, clock_drawings
from latlab.report.charts.gates import port_chart
from latlab.report.charts.sweep import Sweep, sweep_chart, sweep_table
from latlab.report.charts.tail import tail_chart, tail_views
from latlab.report.document import (
    Chart,
    Fold,
    Lines,
    Linked,
    OfMetric,
    Part,
    Section,
    Table,
    Toned,
    Verbatim,
    bad_if,
    filled,
)
from latlab.report.gates import (
    ENTRY_HEADINGS,
    entry_rows,
    port_title,
    titles_of,
)
from latlab.report.published import headline
from latlab.report.sections import (
    SECTIONS,
    Shown,
    figures_of,
    intervals_of,
    parts_of,
    rules_of,
    unmeasured_of,
    variation_of,
)
from latlab.report.testbed import HostFacts, compare_facts
from latlab.report.text import microseconds
from latlab.result.places import cell_title
from latlab.result.types import Cell, Metric, Result

_USUAL_COUNTS: Final = ("scheduled", "sent", "received", "lost")
"""The columns of the counts' table that stand there whatever was counted; the others only where they are not 0."""
_FEW: Final = 12
"""A fold of so many rows is open at once."""
_METRICS: Final = ("metric", "formula", "name")


def page_metrics(result: Result) -> tuple[str, ...]:
    """The metrics of the page: the headline, which is shown at first, then all others that any stream has."""
    about = (named,) if (named := headline(result)) else ()
    return result.metric_names(tuple(dict.fromkeys((*about, *METRIC_ORDER))))


@dataclass(frozen=True)
class OnPage(Shown):
    """What the page's sections are made of. sweeps: what `sweeps.sweeps` gives; scheduled: what
    `evaluation.gates.run_schedules` gives.
    """

    folder: RunFolder
    sweeps: Sequence[Sweep] = ()
    scheduled: Scheduled = ()


def page_sections(shown: OnPage) -> list[Section]:
    """The sections that have something to show."""
    return [one for place in PAGE for one in place.sections(shown) if filled(one.parts)]


# Figures


def _stages(shown: Shown) -> Iterator[Part]:
    tables = where.where_tables(shown.result, shown.first)
    yield from where.share_tables(shown.result, shown.first)
    few = len(tables) <= _FEW // 4
    yield Fold("Stage by stage, for each cell and stream", tables, open=few, reference=not few)
    yield from parts_of("timers", shown)
    yield from traces.trace_tables(shown.result)


def _summary(shown: Shown) -> Iterator[Part]:
    """Each metric's tables, the cells without figures, and the limits."""
    if shown.present:
        yield Chart("metrics", [METRICS_BY_NAME[name] for name in shown.present])
    else:
        yield Lines(["No cell of this run has figures."])
    for metric in shown.present:
        varied = filled(variation_of(shown, metric))
        few = sum(len(one.rows) for one in varied if isinstance(one, Table)) <= _FEW
        yield OfMetric(
            metric,
            [
                *figures_of(shown, metric),
                Fold(
                    "Uncertainty: 95 % intervals, and the tail beyond the sample",
                    filled(intervals_of(shown, metric)),
                    open=True,
                ),
                Fold("Delay variation: PDV and IPDV", varied, open=few),
            ],
        )
    yield from filled(unmeasured_of(shown))
    yield from parts_of("limits", shown)


def _comparison(shown: Shown) -> Iterator[Part]:
    parts = parts_of("comparison", shown)
    if not parts:
        return
    yield Lines([comparison.NOTE])
    yield from parts
    compared = {one.metric for one in parts if isinstance(one, OfMetric)}
    for metric in shown.present:
        if metric not in compared:
            asked = f"latlab compare RUN --by KEY --metric {metric}"
            yield OfMetric(metric, [Lines([f"{metric} is a part of the path: {asked} compares it."])])
    yield Lines([comparison.FAMILY])


def _streams(shown: OnPage) -> Iterator[Section]:
    """A section a stream: the place of its charts, where its time went, and its tails."""
    result = shown.result
    chains, tails = chain_views(result), tail_views(result)
    said = f"{shown.label} · verdict: {result.verdict}"
    described = _described(shown)
    for number, stream in enumerate(rows.stream_names(result), start=1):
        parts: list[Part] = [Lines([described[stream]] if described.get(stream) else [])]
        for one in (one for one in shown.sweeps if one.stream == stream):
            drawn: list[Part] = [Chart("drawn", sweep_chart(one, said)), Fold("As a table", [sweep_table(one, said)])]
            parts.append(OfMetric(one.metric, drawn))
        parts.append(Chart("series", stream))
        for (of, metric), view in chains.items():
            # What the chart says already is not said again below its table.
            table = replace(chain_table(view), remarks=chain_remarks(view))
            found: list[Part] = [Chart("drawn", chain_chart(view)), Fold("As a table", [table])]
            if of == stream:
                # A trace does not belong to a metric: it is shown next to every one.
                parts += found if metric == RECEPTION else [OfMetric(metric, found)]
        for (of, metric), tail in tails.items():
            if of == stream:
                chart = tail_chart(tail)
                parts.append(OfMetric(metric, [Fold(chart.title, [Chart("drawn", chart)], open=len(tail.cells) <= 4)]))
        yield Section(f"stream-{number}", parts, stream, shown.label)


def _anomalies(shown: Shown) -> Iterator[Part]:
    found = [
        Fold(f"Each stream and repetition: {len(part.rows)} rows", [part])
        if isinstance(part, Table) and part.headings == anomalies.HEADINGS and len(part.rows) > _FEW
        else part
        for part in parts_of("anomalies", shown)
    ]
    yield from found or [Lines(["Not evaluated: no cell of this run has packets."])]


def _losses(shown: Shown) -> Iterator[Part]:
    yield from parts_of("losses", shown)


def _imported(shown: Shown) -> Iterator[Part]:
    """Imported files, and what they measure by the program's own definition."""
    cells = [(cell, cell.imported) for cell in shown.result.cells if cell.imported]
    if not cells:
        return
    read = []
    for cell, found in cells:
        left_out = "; ".join(left_out_text(one.count, one.what, one.why) for one in found.left_out)
        told = (found.tool, found.version, found.latency, "; ".join(found.notes), left_out)
        read.append((cell.cell.get("file", "all"), "; ".join(found.files), *told))
    headings = ("cell", "files", "program", "version", "its latency", "note", "left out")
    yield Table(headings, read, title="Imported files, and what they measure by the program's own definition")
    names = page_metrics(shown.result)
    yield Table(_METRICS, [_metric_row(METRICS_BY_NAME[name]) for name in names], title="Its metrics")
    for cell, _ in cells:
        file = f"{cell.cell['file']}, " if "file" in cell.cell else ""
        for stream, block in cell.streams.items():
            for metric, figures in block.metrics.items():
                yield from _kept(f"{file}{stream}, {metric}", figures)


def _kept(whose: str, figures: Metric) -> Iterator[Part]:
    """The bins or the intervals that another program left of its values."""
    if figures.bins is not None:
        beyond = [
            f" · {plural(count, 'value')} {where} all bins"
            for count, where in ((figures.below, "below"), (figures.above, "beyond"))
            if count
        ]
        found = [
            (HEADINGS.get(name, name), *(microseconds(end) for end in (bin_ or (None, None))))
            for name, bin_ in figures.bins.items()
        ]
        title = f"{whose}: the bins in which its percentiles lie, µs{''.join(beyond)}"
        yield Table(("percentile", "from", "to, not included"), found, (1, 2), title)
    if series := figures.intervals:
        ends = {name: getattr(series, name) for name in ("min", "mean", "p50", "p90", "p99", "max")}
        found = [(name, *map(microseconds, each)) for name, each in ends.items() if each]
        title = f"{whose}: the smallest and the largest figure of its {series.count} intervals, each separately, µs"
        yield Table(("figure", "least", "greatest"), found, (1, 2), title)


# What it was measured on


def _testbed(shown: Shown) -> Iterator[Part]:
    found = parts_of("testbed", shown)
    yield from found
    titles = {one.title for one in found if isinstance(one, Table)}
    without = "" if titles else "Without guests. "
    if titles <= {"Bridges", "Guests"}:
        yield Lines([f"{without}Every setting was applied, and none had changed at the end."])


def _gates(shown: OnPage) -> Iterator[Part]:
    """The schedules, and what of them was kept."""
    if shown.scheduled:
        yield Lines([f"What was requested, and what was read back before and after each cell · {shown.label}."])
    labels = {cell.slug: cell.cell for cell in rows.ordered_cells(shown.result)}
    for slugs, ports in shown.scheduled:
        where = "" if len(shown.scheduled) == 1 else titles_of(slugs, labels)
        for one in ports:
            yield Chart("drawn", port_chart(one, where))
            title = f"Entries of {port_title(one.port)}"
            yield Table(ENTRY_HEADINGS, list(entry_rows(one.port)), range(3), title)
    yield from parts_of("gates", shown)


def _counts(shown: Shown) -> Iterator[Part]:
    """What became of the packets, and the loads."""
    cells = rows.ordered_cells(shown.result)
    counts = [
        ((cell_title(cell), str(cell.repeat), stream), block.counts)
        for cell in cells
        for stream, block in cell.streams.items()
    ]
    warmup = "" if all(cell.imported for cell in cells) else ", warm-up included"
    title = f"Packets of the whole stream{warmup}; a count that is 0 everywhere has no column"
    yield _counted(title, "stream", counts, _USUAL_COUNTS)
    refused = [
        ((cell_title(cell), str(cell.repeat), host), found)
        for cell in cells
        for host, found in cell.refused.items()
        if any(found.values())
    ]
    yield _counted(
        "Packets that listeners refused, and wake-ups without a packet: not in any figure",
        "listener",
        refused,
        (),
    )
    if not any(cell.loads for cell in cells):
        yield Lines(["No load ran."])
    yield from parts_of("loads", shown)
    yield from parts_of("talkers", shown)
    tools = parts_of("tools", shown)
    yield Fold("Tools that loads and probes ran, with their commands", tools)


def _counted(
    title: str, of: str, found: Sequence[tuple[tuple[str, ...], Mapping[str, int | None]]], always: Sequence[str]
) -> Table:
    """Counts of these: those of `always`, and those that are not 0 in every row.

    `foreign` is a listener's count: it stands with what that refused, not with each of its streams.
    """
    named = dict.fromkeys(name for _, counts in found for name, count in counts.items() if name in always or count)
    names = [name for name in named if not (always and name == "foreign")]
    texts = [
        (*whose, *(_count(name, counts.get(name), is_bad=bool(always)) for name in names)) for whose, counts in found
    ]
    headings = ("cell", "repeat", of, *(name.replace("_", " ") for name in names))
    return Table(headings, texts, range(3, len(headings)), title)


def _count(name: str, count: int | None, *, is_bad: bool) -> str:
    return bad_if(is_bad and count and name in rows.UNUSUAL_COUNTS, "" if count is None else str(count))


def _environment(shown: OnPage) -> Iterator[Part]:
    """Clocks, PTP, and what the machines said of themselves."""
    folder = shown.folder
    yield from parts_of("clocks", shown)
    yield from (Chart("drawn", one) for one in clock_drawings(clock_charts(folder, shown.result)))
    yield from parts_of("ptp", shown)
    cells = [(outcome, folder.cell(outcome.slug, outcome.repeat)) for outcome in rows.ordered_cells(shown.result)]
    facts = compare_facts([(_name(outcome), cell.facts("before"), cell.facts("after")) for outcome, cell in cells])
    for host in facts:
        yield from _facts(host)
    if not facts:
        yield Lines(["No facts were recorded."])


def _facts(host: HostFacts) -> Iterator[Part]:
    """What varied first: what is the same everywhere is for reference only."""
    varied = [
        (path, change.cell, change.before, Toned(change.after, "changed") if change.changed else change.after)
        for path, changes in host.varied
        for change in changes
    ]
    few = len(host.varied) <= _FEW
    yield Fold(
        f"{host.host}: {len(host.varied)} facts differ between cells or moments",
        [Table(("fact", "cell", "before", "after"), varied)],
        open=few,
        reference=not few,
        remark=f"{host.changed} changed while a cell ran",
    )
    same = f"{host.host}: {len(host.same)} facts are the same in every cell, before and after"
    yield Fold(same, [_pairs(host.same)], reference=True)


def _steps(shown: Shown) -> Iterator[Part]:
    """What was done to the hosts, and what the agents said, cell by cell."""
    documents = {outcome.key: document for outcome, document in shown.documents}
    for outcome in rows.ordered_cells(shown.result):
        cell = documents.get(outcome.key)
        steps = cell.steps if cell else []
        failed = sum(not step.ok for step in steps)
        found = [
            (
                *(step.host, step.title, Toned(step.command, "code")),
                *("" if said is None else said for said in (step.expected, step.actual)),
                Toned("✓", "good") if step.ok else Toned("✗ differs", "bad"),
                f"{step.seconds or 0:.3f}",
            )
            for step in steps
        ]
        agents = [
            _pairs(
                flatten(
                    {key: said for key in ("ready", "done", "error") if (said := agent.document().get(key))}
                ).items(),
                f"latlab-agent {agent.verb} on {agent.host}",
            )
            for agent in (cell.agents if cell else ())
        ]
        differ = f", {failed} not as expected" if failed else ""
        yield Fold(
            _name(outcome),
            [Table(("host", "step", "command", "expected", "actual", "check", "s"), found, (6,)), *agents],
            reference=True,
            remark=f"{plural(len(steps), 'step')}{differ} · {outcome.status}",
        )


# For reference


def _definitions(_: Shown) -> Iterator[Part]:
    yield Table(_METRICS, [_metric_row(one) for one in (*METRICS, *PROBE_METRICS, *TIMER_METRICS)], title="Metrics")
    yield _pairs(definitions.TIMESTAMPS, "Timestamps")
    yield _pairs(definitions.STATISTICS, "Statistics")
    yield _pairs([(one.name, one.meaning) for one in LABELS], "Labels")
    yield _pairs(definitions.VERDICTS, "Verdicts")


def _run(shown: OnPage) -> Iterator[Part]:
    folder = shown.folder
    facts = flatten(folder.run().document())
    yield Fold(f"{len(facts)} facts of the run: versions, order of the cells", [_pairs(facts.items())], reference=True)
    there = [(Linked(one.text, one.address), one.what) for one in files.links(folder, shown.result)]
    yield Table(("file", "what it is"), there, title="Files next to this page: keep the folder together")
    for path, summary in (
        (folder.scenario_path, "scenario.yaml"),
        (folder.plan_path, "The plan: every command, host by host"),
    ):
        if path.exists():
            text = Verbatim(path.read_text(encoding="utf-8"))
            yield Fold(summary, [text], reference=path == folder.plan_path)


def _pairs(found: Iterable[tuple[str, str]], title: str = "") -> Table:
    """Names with their values."""
    return Table(("", ""), list(found), title=title)


def _metric_row(metric: MetricKind) -> tuple[str, str, str]:
    return metric.name, metric.formula, metric.title


def _name(outcome: Cell) -> str:
    return f"{cell_title(outcome)}, repeat {outcome.repeat}"


def _described(shown: Shown) -> dict[str, str]:
    """Each stream in one line, from the first cell that has it."""
    documents = shown.documents
    streams = {stream.name: stream for _, cell in reversed(documents) for stream in cell.streams}
    sent: dict[str, dict[str, None]] = {}
    for outcome in rows.ordered_cells(shown.result):
        for name, block in outcome.streams.items():
            sent.setdefault(name, {})[block.sent_as or ""] = None
    lines = {name: _stream_line(one, sent.get(name, ())) for name, one in streams.items() if not one.probe}
    for outcome in reversed(rows.ordered_cells(shown.result)):
        for name, block in outcome.streams.items():
            if probe := block.probe:
                way = {"up": "questions of ", "down": "answers of "}.get(probe.leg or "", "")
                ends = dict.fromkeys((probe.from_, probe.to))
                lines[name] = f"{way}{' ⇄ '.join(ends)} · {probe.told}"
    return lines


def _stream_line(stream: RecordedStream, sent: Iterable[str]) -> str:
    """The stream as the first cell has it. sent: what its packets are in any cell."""
    if stream.described:
        return stream.described
    parts = [
        f"{stream.talker} → {stream.listener}",
        f"every {in_us(stream.period_ns or 0)}",
        f"{stream.size} bytes",
        f"priority {stream.priority}",
        " or ".join(filter(None, sent)),
    ]
    parts += ["with launch times"] if stream.launch_time else []
    return " · ".join(parts)


# Their order


@dataclass(frozen=True)
class PageSection:
    """One section of the page. parts: of a run. shows: those of SECTIONS that it has the parts of. labelled: the run's
    label stands next to its title.
    """

    name: str
    title: str
    parts: Callable[[OnPage], Iterator[Part]]
    shows: Sequence[str] = ()
    labelled: bool = False

    def sections(self, shown: OnPage) -> Iterator[Section]:
        """The section of this run."""
        yield Section(self.name, list(self.parts(shown)), self.title, shown.label if self.labelled else "")


@dataclass(frozen=True)
class SeveralSections:
    """As many sections of the page as a run needs."""

    sections: Callable[[OnPage], Iterator[Section]]
    shows: Sequence[str] = ()


def other_sections(shown: Shown) -> Iterator[Section]:
    """The report's sections that no other section of the page shows, by their names."""
    placed = {name for place in PAGE for name in place.shows}
    for name in SECTIONS:
        if name not in placed:
            yield Section(name, parts_of(name, shown), name.capitalize(), shown.label)


PAGE: Final[Sequence[PageSection | SeveralSections]] = (
    PageSection("stages", "Where the time went", _stages, ("stages", "timers"), labelled=True),
    PageSection("summary", "Summary", _summary, ("cells", "intervals", "variation", "missing", "limits")),
    PageSection("comparison", comparison.TITLE, _comparison, ("comparison",), labelled=True),
    SeveralSections(_streams),
    PageSection("imported", "Imported", _imported, labelled=True),
    PageSection("anomalies", "Anomalies", _anomalies, ("anomalies",), labelled=True),
    PageSection("losses", "Lost packets", _losses, ("losses",), labelled=True),
    PageSection("trust", "Trust", lambda shown: rules_of(shown.result), ("trust",)),
    PageSection("testbed", "Test bed", _testbed, ("testbed",)),
    PageSection("gates", "Gate schedules", _gates, ("gates",)),
    PageSection("counts", "Counts and loads", _counts, ("loads", "talkers", "tools")),
    SeveralSections(other_sections),
    PageSection("environment", "Environment", _environment, ("clocks", "ptp")),
    PageSection("steps", "Steps and agents", _steps),
    PageSection("definitions", "Definitions", _definitions),
    PageSection("run", "Run", _run),
)
"""The page's sections in their order. The same of text, which ends with the verdict, is SECTIONS."""
