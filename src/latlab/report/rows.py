"""What stands in the summary tables: one row a cell, stream and repeat, in the terminal as on the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from latlab.analysis.counts import counted
from latlab.analysis.metrics import METRICS_BY_NAME
from latlab.report.places import cell_name, dimension_keys, dimension_text, short_headings
from latlab.report.testbed import ONE_CLOCK, label_text
from latlab.report.text import bound, microseconds, whole


@dataclass(frozen=True)
class Column:
    """One statistic: the key in result.json, the heading, and how its value is written."""

    key: str
    heading: str
    is_time: bool

    def text(self, statistics: Mapping[str, Any]) -> str:
        """The value as written in a table: µs with one decimal, or digits; blank where it is null."""
        value = statistics.get(self.key)
        return microseconds(value) if self.is_time else whole(value)


MOMENTS = (
    Column("min", "min", True),
    Column("mean", "avg", True),
    Column("max", "max", True),
    Column("stddev", "stddev", True),
)
PERCENTILES = (
    Column("p50", "p50", True),
    Column("p90", "p90", True),
    Column("p99", "p99", True),
    Column("p99_9", "p99.9", True),
    Column("p99_99", "p99.99", True),
)
COUNTS = (Column("n", "n", False), Column("lost", "lost", False))
COLUMNS = MOMENTS + PERCENTILES + COUNTS


UNUSUAL_COUNTS = (
    "unsent",
    "send_errors",
    "lost",
    "duplicated",
    "reordered",
    "out_of_range",
    "launch_invalid",
    "launch_missed",
    "launch_late",
    "launch_moved",
    "launch_silent",
    "unsent_late",
)
"""The counts of a stream that are 0 where every packet was sent and received once."""


@dataclass(frozen=True)
class Row:
    """One cell's repeat and stream. `statistics` is None where it has no such timestamps.

    clock: where the figures' ± is known from, as in the result: one clock where both timestamps are one host's.
    """

    dimensions: tuple[str, ...]
    slug: str
    repeat: int
    stream: str
    status: str
    verdict: str
    label: str
    clock: str | None
    statistics: Mapping[str, Any] | None

    @property
    def uncertainty(self) -> str:
        """By how many µs, ±, the clocks may make it wrong; "unknown" without a bound."""
        return bound(self.statistics["uncertainty_ns"]) if self.statistics else ""

    @property
    def crosses_clocks(self) -> bool:
        """Whether its figures are between two clocks: those of one clock, or one kernel, are off by nothing."""
        return self.statistics is not None and self.statistics["uncertainty_ns"] != 0


@dataclass(frozen=True)
class Summary:
    """One metric's table. `headings` names the leading columns whose values `labels(row)` gives.

    stream: the one it is of, with its ends; empty where rows are of several, and name theirs.
    """

    metric: str
    stream: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    shows_stream: bool
    shows_repeat: bool

    @property
    def between(self) -> str:
        """The timestamps subtracted, as "rx_soft − launch"; blank where rows differ."""
        found = {(row.statistics["to"], row.statistics["from"]) for row in self.rows if row.statistics}
        return difference(*found.pop()) if len(found) == 1 else ""

    @property
    def title(self) -> str:
        """What the table is of: "down, sensor → vm1: latency = rx_soft − launch"."""
        stream = f"{self.stream}: " if self.stream else ""
        return stream + self.metric + (f" = {self.between}" if self.between else "")

    @property
    def of_what(self) -> str:
        """Which packets its figures are of."""
        return "after warm-up" + (" · each repetition by itself" if self.shows_repeat else "")

    @property
    def uncertainty(self) -> str:
        """The largest ± of any row, with where it is known from; empty without rows."""
        return largest_uncertainty(self.rows)

    @property
    def uncertainty_range(self) -> str:
        """From the smallest to the largest ± of the rows, with where it is known from; empty without rows."""
        return _uncertainty(self.rows, _ends)

    @property
    def crosses_clocks(self) -> bool:
        """Whether any row's figures are between two clocks."""
        return any(row.crosses_clocks for row in self.rows)

    @property
    def clocks(self) -> tuple[str, ...]:
        """Where the rows' ± are known from."""
        return _clocks(self.rows)

    def labels(self, row: Row) -> tuple[str, ...]:
        """The leading columns of one row, as many as there are headings."""
        stream = (row.stream,) if self.shows_stream else ()
        repeat = (str(row.repeat),) if self.shows_repeat else ()
        return row.dimensions + stream + repeat


def summaries(result: Mapping[str, Any], metric: str) -> tuple[Summary, ...]:
    """The metric's tables: cells in the order of the matrix, then repeats.

    Where there are several cells and streams, each stream has a table to itself, whose rows compare; else there is
    one. Cells of which nothing was measured are in none.
    """
    names = stream_names(result)
    keys = dimension_keys(result)
    several = any(cell["repeat"] > 1 for cell in result["cells"])
    repeat = ("repeat",) if several else ()
    if len(names) > 1 and len({cell["slug"] for cell in result["cells"] if cell["streams"]}) > 1:
        headings = (*short_headings(keys), *repeat)
        tables = [
            Summary(metric, stream_title(result, name), headings, stream_rows(result, name, metric), False, several)
            for name in names
        ]
    else:
        headings = (*short_headings(keys), *(("stream",) if len(names) > 1 else ()), *repeat)
        rows = tuple(row for name in names for row in stream_rows(result, name, metric))
        tables = [Summary(metric, "", headings, rows, len(names) > 1, several)]
    return tuple(table for table in tables if any(row.statistics for row in table.rows))


def stream_rows(result: Mapping[str, Any], stream: str, metric: str) -> tuple[Row, ...]:
    """The rows of one stream and metric, in the order of the matrix: of every cell that has the stream."""
    keys = dimension_keys(result)
    return tuple(_row(cell, stream, metric, keys) for cell in ordered_cells(result) if stream in cell["streams"])


def largest_uncertainty(rows: Sequence[Row]) -> str:
    """The largest ± of these rows in µs, with where it is known from; empty where none has figures."""
    return _uncertainty(rows, lambda known: bound(max(known)))


def _uncertainty(rows: Sequence[Row], told: Callable[[Sequence[int]], str]) -> str:
    """The bounds that are known, in ns, as `told` writes them, with where they are from and whether some are not."""
    bounds = [row.statistics["uncertainty_ns"] for row in rows if row.statistics]
    known = [ns for ns in bounds if ns is not None]
    if not known:
        return bound(None) if bounds else ""
    figure = sourced(told(known), " or ".join(_clocks(rows)))
    return figure if len(known) == len(bounds) else f"{figure}, unknown in some cells"


def _ends(known: Sequence[int]) -> str:
    """The smallest and the largest bound, "0.2 to 3.1"; once where they read the same."""
    return " to ".join(dict.fromkeys((bound(min(known)), bound(max(known)))))


def _clocks(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.clock for row in rows if row.statistics and row.clock))


def stream_title(result: Mapping[str, Any], name: str) -> str:
    """A stream's name with its ends: "down, sensor → vm1"."""
    found = (cell["streams"][name] for cell in result["cells"] if name in cell["streams"])
    ends = next(((block["talker"], block["listener"]) for block in found if block.get("talker")), None)
    return f"{name}, {ends[0]} → {ends[1]}" if ends else name


def sourced(figure: str, source: str | None) -> str:
    """A figure with where it is known from: "0.4 (shared page)"."""
    return f"{figure} ({source})" if source else figure


def unbounded(statistics: Mapping[str, Any]) -> int:
    """How many packets are in none of these figures, because nothing bounds their clocks."""
    return int(statistics.get("unbounded", 0))


def ordered_cells(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The cells grouped by configuration in the order they first ran, repeats beside each other."""
    rank = {slug: place for place, slug in enumerate(dict.fromkeys(cell["slug"] for cell in result["cells"]))}
    return sorted(result["cells"], key=lambda cell: (rank[cell["slug"]], cell["repeat"]))


def stream_names(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Every stream that any cell has, in the order of the first cell that has it."""
    return tuple(dict.fromkeys(name for cell in result["cells"] for name in cell["streams"]))


def metric_names(result: Mapping[str, Any], order: Sequence[str]) -> tuple[str, ...]:
    """Every metric that any stream has, in `order`, then the others as they come."""
    found = dict.fromkeys(
        name for cell in result["cells"] for stream in cell["streams"].values() for name in stream["metrics"]
    )
    return tuple(name for name in order if name in found) + tuple(name for name in found if name not in order)


def remarks(result: Mapping[str, Any]) -> list[str]:
    """A line for each cell in which packets had another fate than to be sent and received once, with which and how
    many: what listeners refused, then what was counted of each stream, warm-up included.
    """
    lines = []
    for cell in ordered_cells(result):
        said = []
        for host, found in cell["refused"].items():
            # A listener that spins wakes for nothing all the time: that is no packet's fate.
            words = counted({kind: count for kind, count in found.items() if kind != "empty_wakeups"})
            said += [f"listener {host}: {words}"] if words else []
        for stream, block in cell["streams"].items():
            counts = {kind: block["counts"].get(kind, 0) for kind in UNUSUAL_COUNTS}
            said += [f"stream {stream}: {words}"] if (words := counted(counts)) else []
        if said:
            lines.append(f"{cell_name(result, cell)}: {'; '.join(said)}")
    return lines


def worst_lines(result: Mapping[str, Any], metric: str) -> list[str]:
    """A line for each cell and stream: its largest value of the metric, in µs, as intervals that add up to it."""
    return [line for _, _, line in _worst(result, metric)]


def worst_of_streams(result: Mapping[str, Any], metric: str) -> list[str]:
    """The same, of each stream's largest value in all cells only."""
    largest: dict[str, tuple[int, str]] = {}
    for stream, value, line in _worst(result, metric):
        if stream not in largest or value > largest[stream][0]:
            largest[stream] = (value, line)
    return [line for _, line in largest.values()]


def _worst(result: Mapping[str, Any], metric: str) -> Iterator[tuple[str, int, str]]:
    """(stream, value in ns, line) of each cell and stream."""
    several = len(stream_names(result)) > 1
    for cell in ordered_cells(result):
        for stream, block in cell["streams"].items():
            figures = block["metrics"].get(metric, {})
            if worst := figures.get("worst"):
                intervals = " + ".join(f"{_interval_name(one)} {microseconds(one['ns'])}" for one in worst["intervals"])
                name = cell_name(result, cell) + (f", {stream}" if several else "")
                line = f"{name}: max {microseconds(figures['max'])} is packet {worst['sequence']}: {intervals}"
                yield stream, figures["max"], line


_INTERVAL_NAMES = {
    ("launch", "wake"): "wake-up",
    ("wake", "submit"): "prepare",
    ("submit", "tx_sched"): "socket",
    ("tx_sched", "tx_soft"): "qdisc",
    ("tx_soft", "tx_hard"): "sending NIC",
    ("tx_soft", "rx_soft"): "path",
    ("tx_hard", "rx_hard"): "path",
    ("rx_soft", "rx_user"): "delivery",
    ("rx_hard", "rx_user"): "delivery",
}


def _interval_name(interval: Mapping[str, Any]) -> str:
    """What happens between two timestamps in a word; their names where one between them is missing."""
    between = (interval["from"], interval["to"])
    return _INTERVAL_NAMES.get(between) or f"{between[0]} → {between[1]}"


def difference(end: str, begin: str) -> str:
    """Two timestamps subtracted, as "rx_soft − launch", in brackets what is a formula itself."""
    return f"{end} − ({begin})" if " " in begin else f"{end} − {begin}"


def _row(cell: Mapping[str, Any], stream: str, metric: str, keys: Sequence[str]) -> Row:
    block = cell["streams"][stream]
    known = METRICS_BY_NAME.get(metric)
    return Row(
        tuple(dimension_text(cell["cell"][key]) if key in cell["cell"] else "" for key in keys),
        cell["slug"],
        cell["repeat"],
        stream,
        cell["status"],
        cell.get("verdict") or "",
        label_text(cell),
        block.get("clock") if known is None or known.crosses_hosts else ONE_CLOCK,
        block["metrics"].get(metric),
    )
