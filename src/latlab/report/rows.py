"""What stands in a summary table: one row a cell, stream and repeat, in the terminal as on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from latlab.analysis.counts import counted
from latlab.report.text import microseconds, whole


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
)
"""The counts of a stream that are 0 where every packet was sent and received once."""

_REASON_KEYS = ("check", "finding", "severity", "expected", "actual", "remedy")


@dataclass(frozen=True)
class Row:
    """One cell's repeat and stream. `statistics` is None where it did not run or has no such timestamps."""

    dimensions: tuple[str, ...]
    slug: str
    repeat: int
    stream: str
    status: str
    verdict: str
    statistics: Mapping[str, Any] | None
    note: str


@dataclass(frozen=True)
class Summary:
    """One metric's table. `headings` names the leading columns whose values `labels(row)` gives."""

    metric: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    shows_stream: bool
    shows_repeat: bool

    @property
    def unfinished(self) -> tuple[Row, ...]:
        """The rows of cells that did not run to their end: their `note` says why."""
        return tuple(row for row in self.rows if row.status != "ok")

    @property
    def between(self) -> str:
        """The timestamps subtracted, as "rx_soft − launch"; blank where rows differ."""
        found = {(row.statistics["to"], row.statistics["from"]) for row in self.rows if row.statistics}
        return difference(*found.pop()) if len(found) == 1 else ""

    def labels(self, row: Row) -> tuple[str, ...]:
        """The leading columns of one row, as many as there are headings."""
        stream = (row.stream,) if self.shows_stream else ()
        repeat = (str(row.repeat),) if self.shows_repeat else ()
        return row.dimensions + stream + repeat


def summary(result: Mapping[str, Any], metric: str) -> Summary:
    """The rows of one metric: cells in the order of the matrix, then streams, then repeats."""
    keys = dimension_keys(result)
    names = stream_names(result)
    present = [
        _row(cell, stream, metric, keys)
        for cell in ordered_cells(result)
        for stream in (names if cell["streams"] else names[:1] or ("",))
    ]
    rank = {cell["slug"]: place for place, cell in enumerate(ordered_cells(result))}
    place = {name: number for number, name in enumerate(names)}
    ordered = tuple(sorted(present, key=lambda row: (rank[row.slug], place.get(row.stream, 0), row.repeat)))
    shows_stream = len(names) > 1
    shows_repeat = any(cell["repeat"] > 1 for cell in result["cells"])
    headings = short_headings(keys) + (("stream",) if shows_stream else ()) + (("repeat",) if shows_repeat else ())
    return Summary(metric, headings, ordered, shows_stream, shows_repeat)


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


def dimension_keys(result: Mapping[str, Any]) -> tuple[str, ...]:
    """The matrix's keys, as in `cell`: what the cells differ in."""
    return tuple(dict.fromkeys(key for cell in result["cells"] for key in cell["cell"]))


def short_headings(keys: Sequence[str]) -> tuple[str, ...]:
    """Each matrix key's last part, or the whole key where two would read the same."""
    last = [key.rsplit(".", 1)[-1] for key in keys]
    return tuple(short if last.count(short) == 1 else key for key, short in zip(keys, last, strict=True))


def dimension_text(value: object) -> str:
    """One matrix value as people write it: a list of loads is joined, an empty one is "none"."""
    if isinstance(value, (list, tuple)):
        return " + ".join(dimension_text(item) for item in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {dimension_text(item)}" for key, item in value.items())
    return "none" if value is None else str(value)


def cell_title(cell: Mapping[str, Any]) -> str:
    """A cell's name in a heading: "bridge tap, loads none"; "all" where the matrix has no keys."""
    keys = tuple(cell["cell"])
    named = zip(short_headings(keys), cell["cell"].values(), strict=True)
    return ", ".join(f"{heading} {dimension_text(value)}" for heading, value in named) or "all"


def cell_name(result: Mapping[str, Any], cell: Mapping[str, Any]) -> str:
    """A cell's title, and which repeat it is where the run has several."""
    several = any(one["repeat"] > 1 for one in result["cells"])
    return cell_title(cell) + (f", repeat {cell['repeat']}" if several else "")


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
            counts = {kind: block["counts"][kind] for kind in UNUSUAL_COUNTS}
            said += [f"stream {stream}: {words}"] if (words := counted(counts)) else []
        if said:
            lines.append(f"{cell_name(result, cell)}: {'; '.join(said)}")
    return lines


def worst_lines(result: Mapping[str, Any], metric: str) -> list[str]:
    """A line for each cell and stream: its largest value of the metric, in µs, as intervals that add up to it."""
    several = len(stream_names(result)) > 1
    lines = []
    for cell in ordered_cells(result):
        for stream, block in cell["streams"].items():
            figures = block["metrics"].get(metric, {})
            if worst := figures.get("worst"):
                intervals = " + ".join(f"{_interval_name(one)} {microseconds(one['ns'])}" for one in worst["intervals"])
                name = cell_name(result, cell) + (f", {stream}" if several else "")
                lines.append(f"{name}: max {microseconds(figures['max'])} is packet {worst['sequence']}: {intervals}")
    return lines


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


def reason_text(reason: Mapping[str, Any] | None) -> str:
    """Why a cell did not run, in one line: what, where, and what to do."""
    if not reason:
        return ""
    where = f"{reason['where']}: " if reason.get("where") else ""
    remedy = f" ({reason['remedy']})" if reason.get("remedy") else ""
    return f"{where}{reason['what']}{remedy}"


def grouped_reasons(result: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """The verdict's reasons, the gravest first; those that differ only in place are one, with all places.

    A place that stands in every cell, or in every one that was measured, is told once.
    """
    everywhere = {
        frozenset(_key(cell) for cell in result["cells"] if cell["streams"]): "every measured cell",
        frozenset(_key(cell) for cell in result["cells"]): "every cell",
    }
    places: dict[tuple[str, ...], list[str]] = {}
    for reason in result["reasons"]:
        said = tuple(str(reason.get(key) or "") for key in _REASON_KEYS)
        places.setdefault(said, []).append(str(reason.get("where") or ""))
    grouped = [
        (dict(zip(_REASON_KEYS, said, strict=True)), _places(where, everywhere)) for said, where in places.items()
    ]
    return sorted(grouped, key=lambda one: one[0]["severity"] != "untrusted")


def _places(where: Sequence[str], everywhere: Mapping[frozenset[str], str]) -> tuple[str, ...]:
    """The places, each "CELL: place" or "CELL"; a place found in one of the sets of cells is told with its name."""
    cells: dict[str, list[str]] = {}
    for one in filter(None, where):
        cell, _, place = one.partition(": ")
        cells.setdefault(place, []).append(cell)
    told: list[str] = []
    for place, found in cells.items():
        name = everywhere.get(frozenset(found)) if len(set(found)) > 1 else None
        told += [": ".join(filter(None, (cell, place))) for cell in ([name] if name else dict.fromkeys(found))]
    return tuple(told)


def _key(cell: Mapping[str, Any]) -> str:
    return f"{cell['slug']}/r{cell['repeat']}"


def difference(end: str, begin: str) -> str:
    """Two timestamps subtracted, as "rx_soft − launch", in brackets what is a formula itself."""
    return f"{end} − ({begin})" if " " in begin else f"{end} − {begin}"


def _row(cell: Mapping[str, Any], stream: str, metric: str, keys: Sequence[str]) -> Row:
    dimensions = tuple(dimension_text(cell["cell"][key]) if key in cell["cell"] else "" for key in keys)
    found = cell["streams"].get(stream, {}).get("metrics", {}).get(metric)
    note = reason_text(cell["reason"]) or ("" if found else "no such timestamps")
    return Row(
        dimensions,
        cell["slug"],
        cell["repeat"],
        stream,
        cell["status"],
        cell.get("verdict") or "",
        found,
        note,
    )
