"""A run that cannot find room is refused before it begins, with the numbers and what to change."""

from __future__ import annotations

from pathlib import Path
from shutil import _ntuple_diskusage as usage
from typing import Any

import pytest

from latlab.model.errors import LabError
from latlab.run import room
from latlab.run.room import available_memory, check_room
from latlab.scenario import MatrixCell, parse


def cell(slug: str, seconds: int) -> MatrixCell:
    raw: dict[str, Any] = {
        "name": "small",
        "hosts": {"a": {"kind": "netns"}, "b": {"kind": "netns"}},
        "links": [{"ends": ["a.eth0", "b.eth0"]}],
        "streams": {"control": {"talker": "a", "listener": "b", "period": "1ms", "size": "64B"}},
        "duration": f"{seconds}s",
    }
    scenario = parse(raw).scenario
    assert scenario
    return MatrixCell({}, slug, scenario)


CELLS = [cell("short", 1), cell("long", 9)]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Sets the bytes of free disk and of available memory."""

    def having(disk: int, memory: int) -> None:
        meminfo = tmp_path / "meminfo"
        meminfo.write_text(f"MemTotal: 9 kB\nMemAvailable: {memory // 1024} kB\n")
        monkeypatch.setattr(room, "_MEMINFO", meminfo)
        monkeypatch.setattr("shutil.disk_usage", lambda path: usage(10**12, 0, disk))

    return having


def test_all_repetitions_of_all_cells_must_find_room_on_the_disk(machine: Any, tmp_path: Path) -> None:
    machine(3 * 10_000 * 200, 10**9)
    check_room(CELLS, 3, tmp_path / "not" / "there" / "yet")
    with pytest.raises(LabError, match=r"40000 packets need about 8.0 MB of disk, 6.0 MB are free .*--runs"):
        check_room(CELLS, 4, tmp_path)


def test_the_largest_cell_must_find_room_in_memory(machine: Any, tmp_path: Path) -> None:
    machine(10**12, 9_000 * 170 + 1024)
    check_room(CELLS, 1000, tmp_path)
    machine(10**12, 9_000 * 170 - 1024)
    with pytest.raises(LabError, match=r"cell long: 9000 packets need about 1.5 MB of memory"):
        check_room(CELLS, 1, tmp_path)


def test_available_memory_is_read_where_the_kernel_tells_it() -> None:
    assert available_memory("MemFree: 1 kB\nMemAvailable:   12 kB\n") == 12288
    assert available_memory("MemFree: 1 kB\n") is None
