"""What `latlab compare` compares: runs or cells of runs, which figures, and how much worse each may be."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic_core import PydanticCustomError

from latlab.analysis.comparison.compare import STATISTICS
from latlab.analysis.comparison.configuration import Configuration, configurations
from latlab.analysis.comparison.words import Path as FigurePath
from latlab.analysis.comparison.words import Tolerance
from latlab.model.errors import LabError, LatlabError, UsageError
from latlab.model.facts import flatten
from latlab.model.metrics import METRICS_BY_NAME
from latlab.recordings.run_folder import CellFolder, RunFolder
from latlab.result import Result, load_result
from latlab.result.comparison import Differing
from latlab.scenario import format_duration, format_size, limits, load_scenario, parse_duration
from latlab.scenario.matrix import CHOSEN

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Side:
    """One run, or one cell of it (slug).

    name: what it is called next to the others: A, B, …, or baseline and new. found: the configurations that count.
    """

    name: str
    folder: RunFolder
    result: Result
    slug: str | None
    found: tuple[Configuration, ...]


def open_sides(texts: Sequence[str], root: Path, names: Sequence[str] = LETTERS) -> list[Side]:
    """A side for each text, `RUN` or `RUN:CELL`. UsageError: it is none, has nothing to compare, or is there twice.

    root: where runs are looked for by name. names: what the sides are to be called.
    """
    if len(texts) > len(names):
        raise UsageError(
            f"{len(texts)} runs or cells", where="RUN...", remedy=f"compare {len(names)} at most at a time"
        )
    sides = [_open(text, root, name) for text, name in zip(texts, names, strict=False)]
    if len({side.slug is None for side in sides}) > 1:
        raise UsageError(
            "a whole run cannot be compared with one cell of another",
            where=" ".join(texts),
            remedy="name a cell of each as RUN:CELL, or of none",
        )
    seen: dict[tuple[str, str | None], str] = {}
    for side, text in zip(sides, texts, strict=True):
        if first := seen.get((side.result.run, side.slug)):
            raise UsageError("both are the same", where=f"{first} and {text}", remedy="name two different ones")
        seen[side.result.run, side.slug] = text
    return sides


def _open(text: str, root: Path, name: str) -> Side:
    folder, slug = _find(text, root)
    if folder.is_live():
        raise UsageError("the run is still being measured", where=folder.id, remedy="wait for its end, or end it")
    try:
        result = load_result(folder)
    except LabError as error:
        if folder.result_path.exists():
            raise
        raise UsageError("the run has no result yet", where=folder.id, remedy=f"latlab report {folder.path}") from error
    found = configurations(result)
    if slug is None:
        if not found:
            raise UsageError(
                "no cell of this run was measured to its end",
                where=folder.id,
                remedy=f"latlab report {folder.path} says why",
            )
        return Side(name, folder, result, None, found)
    chosen = tuple(one for one in found if one.slug == slug)
    if not chosen:
        known = any(cell.slug == slug for cell in result.cells)
        raise UsageError(
            "this cell was not measured to its end" if known else f"the run has no cell {slug!r}",
            where=folder.id,
            remedy=f"one of {', '.join(one.slug for one in found) or 'none: no cell was measured'}",
        )
    return Side(name, folder, result, slug, chosen)


def _find(text: str, root: Path) -> tuple[RunFolder, str | None]:
    """The run's folder, and the cell if one is named. A folder may have a colon in its name; a cell has none."""
    try:
        return RunFolder.open(text, root=root), None
    except UsageError:
        run, colon, slug = text.rpartition(":")
        if not colon:
            raise
    return RunFolder.open(run, root=root), slug


# Other differences


_STREAM: Final = (
    *("talker", "listener", "period_ns", "offset_ns", "size", "priority", "transport", "vlan", "launch_time", "timer"),
)
_CELL: Final = ("duration_ns", "warmup_ns", "instructions_per_ns", "qemu")
_MOVING: Final = frozenset(
    {
        *("taken_tai_ns", "boot_id", "uptime_ns", "current_khz", "entered", "time_us", "count", "cpu_counts"),
        *("pid", "id", "process", "last_cpu"),
        *("statistics", "driver_statistics", "qdiscs", "carrier_changes", "index", "mac", "softirqs", "local"),
        *("available_bytes", "locked_bytes", "swap_free_bytes", "swapped_in_pages", "swapped_out_pages"),
        *("major_faults", "huge_pages_free", "context_switches", "created", "load_average", "rt_throttled_count"),
        *("offset_ns", "frequency_ppb", "max_error_us", "estimated_error_us"),
        *(f"{what}_ns" for what in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")),
        *("guest_ns", "guest_nice_ns", "kernel_threads"),
    }
)
"""Parts of facts' paths that are counters, or are others at every deployment: of them nothing can be concluded."""
Kind = Literal["stream", "scenario", "version", "fact"]
_NOT_MEASURED: Final = ("name", "description", "matrix", "repeat", "seed", "accept", "windows", "headline", "published")


@dataclass(frozen=True)
class ComparedCells:
    """One of the things compared, and the folders of its cells' repetitions."""

    name: str
    cells: tuple[CellFolder, ...]


def differing_streams(groups: Sequence[ComparedCells], explained: Collection[str] = ()) -> list[Differing]:
    """What the groups' cells say otherwise of their streams, their duration and their clock.

    explained: paths of the scenario that are what is compared, such as `streams.control.period`.
    """
    listed = _otherwise("stream", groups, [_all_settings(group) for group in groups])
    return [one for one in listed if not {f"streams.{one.what}", one.what} & set(explained)]


def differing_facts(groups: Sequence[ComparedCells]) -> list[Differing]:
    """What the groups' machines say otherwise of themselves, of all that stayed the same within each group."""
    return _otherwise("fact", groups, [_steady(group) for group in groups])


def differing_versions(runs: Mapping[str, RunFolder]) -> list[Differing]:
    """Versions of latlab and Python with which the runs were made, {name: run's folder}, where they differ."""
    found = [flatten(folder.run().get("versions", {})) for folder in runs.values()]
    return _otherwise("version", [ComparedCells(name, ()) for name in runs], found)


def differing_scenarios(runs: Mapping[str, RunFolder]) -> list[Differing]:
    """What the runs' scenarios set otherwise, without their matrix, which the cells are matched by.

    Nothing where one of them is not read by this version any more.
    """
    found = []
    for folder in runs.values():
        try:
            scenario = load_scenario(folder.scenario_path).scenario
        except LatlabError:
            return []
        varied = tuple(key for key in scenario.matrix if key not in CHOSEN)
        flat = flatten(scenario.model_dump(mode="json", by_alias=True, exclude=set(_NOT_MEASURED)))
        found.append({path: value for path, value in flat.items() if not path.startswith(varied)})
    return _otherwise("scenario", [ComparedCells(name, ()) for name in runs], found)


def _otherwise(kind: Kind, groups: Sequence[ComparedCells], found: Sequence[Mapping[str, str]]) -> list[Differing]:
    """What all groups have, and not alike."""
    everywhere = [path for path in found[0] if all(path in one for one in found)] if found else []
    names = [group.name for group in groups]
    return [
        Differing(kind=kind, what=path, values=dict(zip(names, values, strict=True)))
        for path in everywhere
        if len(set(values := [one[path] for one in found])) > 1
    ]


def _all_settings(group: ComparedCells) -> dict[str, str]:
    """{path: the values that it has in the group's cells}."""
    found: dict[str, dict[str, None]] = {}
    for cell in group.cells:
        for path, value in _settings(cell):
            found.setdefault(path, {})[value] = None
    return {path: " or ".join(sorted(values)) for path, values in found.items()}


def _settings(folder: CellFolder) -> Iterator[tuple[str, str]]:
    cell = folder.cell()
    for stream in cell.streams:
        said = stream.document()
        for key in _STREAM:
            if key in said:
                yield f"{stream.name}.{key.removesuffix('_ns')}", _written(key, said[key])
    for key in _CELL:
        if key in cell.model_fields_set and (value := getattr(cell, key)) is not None:
            yield key.removesuffix("_ns"), _written(key, value)


def _written(key: str, value: Any) -> str:
    """A value as the scenario has it: with its unit."""
    if isinstance(value, int) and not isinstance(value, bool):
        if key.endswith("_ns"):
            return format_duration(value)
        if key == "size":
            return format_size(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{part} {text}" for part, text in flatten(value).items())
    return flatten({key: value})[key]


def _steady(group: ComparedCells) -> dict[str, str]:
    """The facts that every cell of the group has alike, before and after; paths begin with the host's name."""
    taken = [flatten(facts) for cell in group.cells for when in ("before", "after") if (facts := cell.facts(when))]
    first, others = (taken[0], taken[1:]) if taken else ({}, [])
    return {
        path: value
        for path, value in first.items()
        if _MOVING.isdisjoint(path.split(".")[1:]) and all(other.get(path) == value for other in others)
    }


# Which figures are to be compared, and how much worse each may be: from the command line, checked.


METRIC: Final = "latency"
"""What is compared where runs have no metric in common."""
METRICS: Final = tuple(METRICS_BY_NAME)

_SHARE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%")


@dataclass(frozen=True)
class Wanted:
    """What was asked for; what is empty was not said. Names are those of results (`p99_9`)."""

    metrics: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    thresholds: Mapping[FigurePath, Tolerance] = field(default_factory=dict)

    def figures(self, usual: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """Every (metric, statistic) to compare: those asked for, else four of the usual metrics; and those with a
        threshold.
        """
        usual = usual or (METRIC,)
        asked = [(metric, one) for metric in self.metrics or usual for one in self.statistics or STATISTICS]
        return tuple(dict.fromkeys((*asked, *((metric, one) for _, metric, one in self.thresholds))))


def wanted(
    metrics: Sequence[str] = (),
    statistics: Sequence[str] = (),
    streams: Sequence[str] = (),
    thresholds: Sequence[str] = (),
) -> Wanted:
    """What the options of the command line ask for. UsageError: a name that is none, a threshold that is none.

    thresholds: `stream.metric.statistic=LIMIT`, where LIMIT is a duration or a share of the baseline (`10%`).
    """
    for name in metrics:
        _check("metric", name, METRICS, "--metric")
    return Wanted(
        tuple(dict.fromkeys(metrics)),
        tuple(dict.fromkeys(_statistic(name, "--statistic") for name in statistics)),
        tuple(dict.fromkeys(streams)),
        dict(_threshold(text) for text in thresholds),
    )


def check_streams(asked: Wanted, found: Iterable[Configuration]) -> None:
    """Check the streams. UsageError: one was asked for, or has a threshold, that none of these has."""
    known = tuple(dict.fromkeys(name for one in found for name in one.streams))
    for name in asked.streams:
        _check("stream", name, known, "--stream")
    for name, metric, statistic in asked.thresholds:
        _check("stream", name, known, f"--threshold {name}.{metric}.{statistic}")


def _threshold(text: str) -> tuple[FigurePath, Tolerance]:
    where = f"--threshold {text}"
    path, equals, value = text.partition("=")
    stream, _, rest = path.partition(".")
    if rest.partition(".")[0] in limits.LEGS:
        leg, _, rest = rest.partition(".")
        stream = f"{stream}.{leg}"
    parts = (stream, *rest.split(".", 1))
    if not equals or len(parts) != 3:
        raise UsageError("this is not a threshold", where=where, remedy="write control.latency.p99_9=5us, or =10%")
    stream, metric, statistic = parts
    _check("metric", metric, METRICS, where)
    return (stream, metric, _statistic(statistic, where)), _allowed(value.strip(), where)


def _allowed(value: str, where: str) -> Tolerance:
    if share := _SHARE.fullmatch(value):
        return Tolerance(share=float(share[1]) / 100)
    try:
        return Tolerance(ns=parse_duration(0 if value == "0" else value))
    except PydanticCustomError as error:
        context = error.context or {}
        what, expected = str(context["what"]), str(context["expected"])
        raise UsageError(what, where=where, remedy=f"write {expected}, or a share such as 10%") from None


def _statistic(name: str, where: str) -> str:
    _check("statistic", name.replace("p99_9", "p99.9"), limits.STATISTICS, where)
    return name.replace(".", "_")


def _check(kind: str, name: str, known: Sequence[str], where: str) -> None:
    if name not in known:
        raise UsageError(f"there is no {kind} {name!r}", where=where, remedy=f"one of {', '.join(known)}")
