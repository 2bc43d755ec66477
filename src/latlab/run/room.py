"""Whether a run's packets will find room, estimated before it begins."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from latlab.model.errors import LabError
from latlab.scenario import Flow, MatrixCell, Scenario

DISK_BYTES = 200
"""Of a packet in recordings and packet table together, about."""
MEMORY_BYTES = 170
"""Of a packet while a cell's recordings are joined, about."""
SHORTEST_LOOP_NS = 20_000
"""A closed loop's round trip is hardly shorter."""
_MEMINFO = Path("/proc/meminfo")


def check_room(cells: Sequence[MatrixCell], repeat: int, root: Path) -> None:
    """Check that the run fits. LabError: the runs' disk, or the memory, cannot hold it, with the numbers."""
    packets = [_packets(cell.scenario) for cell in cells]
    folder = next(path for path in (root.absolute(), *root.absolute().parents) if path.exists())
    needed, free = sum(packets) * repeat * DISK_BYTES, shutil.disk_usage(folder).free
    if needed > free:
        raise LabError(
            f"{sum(packets) * repeat} packets need about {_bytes(needed)} of disk, {_bytes(free)} are free",
            where=str(root),
            remedy="free space, or choose another folder with --runs; or lower duration or repeat, or raise period",
        )
    needed, available = max(packets) * MEMORY_BYTES, available_memory()
    if available is not None and needed > available:
        slug = cells[packets.index(max(packets))].slug
        raise LabError(
            f"{max(packets)} packets need about {_bytes(needed)} of memory, {_bytes(available)} are available",
            where=f"cell {slug}",
            remedy="lower duration, or raise period",
        )


def available_memory(meminfo: str | None = None) -> int | None:
    """Return the bytes of MemAvailable in proc_meminfo(5), this machine's or that text; None where it is not there."""
    text = _MEMINFO.read_text(encoding="utf-8") if meminfo is None else meminfo
    lines = [line.split() for line in text.splitlines() if line.startswith("MemAvailable:")]
    return int(lines[0][1]) * 1024 if lines else None


def _packets(scenario: Scenario) -> int:
    """How many there will be; of what has no schedule as many as there may be."""
    instants = sum(scenario.instant_count(name) for name in scenario.timers)
    return instants + sum(_packets_of(scenario, flow) for flow in scenario.recorded.values())


def _packets_of(scenario: Scenario, flow: Flow) -> int:
    asked = scenario.packet_count(f"{flow.probe}.up" if flow.is_answer else flow.name)
    return scenario.duration // SHORTEST_LOOP_NS if asked is None else asked


def _bytes(count: int) -> str:
    """The count in the largest unit that leaves one digit or more before the point."""
    units = ("B", "kB", "MB", "GB", "TB")
    power = min((len(str(count)) - 1) // 3, len(units) - 1)
    return f"{count} B" if power == 0 else f"{count / 1000**power:.1f} {units[power]}"
