"""What differs between what is compared, beside its figures: streams, scenarios, versions, machines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from latlab.model.errors import LatlabError
from latlab.model.facts import flatten
from latlab.recordings.run_folder import CellFolder, RunFolder
from latlab.result.comparison import Differing, DifferingKind
from latlab.scenario import format_duration, format_size, load_scenario
from latlab.scenario.matrix import CHOSEN

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
    found = [flatten(folder.run().versions.document()) for folder in runs.values()]
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


def _otherwise(
    kind: DifferingKind, groups: Sequence[ComparedCells], found: Sequence[Mapping[str, str]]
) -> list[Differing]:
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


def _written(key: str, value: object) -> str:
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
