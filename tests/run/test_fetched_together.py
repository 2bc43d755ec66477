"""Recordings of a machine in virtual time: nothing copies them while it measures, and one command fetches them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from latlab.model.errors import LabError
from latlab.recordings.run_folder import CellFolder
from latlab.run.fetch import Recordings
from latlab.testbed.supervised import Supervised


class BoardBed:
    """Runs commands here, and knows which."""

    def __init__(self) -> None:
        self.commands: list[Sequence[str]] = []

    def is_gone(self, name: str) -> bool:
        """No host is."""
        return False

    async def spawn(self, host: Any, title: str, argv: Sequence[str], stdout: int) -> Supervised:
        """The process."""
        self.commands.append(argv)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*argv, stdout=stdout, stderr=pipe)
        return Supervised(host, process, None, lambda n: None)


def board(folder: Path) -> Any:
    folder.mkdir()
    return SimpleNamespace(name=folder.name, files_are_here=False, streams=False, scratch=str(folder), turns=object())


def fetched(tmp_path: Path, tables: dict[str, bytes]) -> tuple[BoardBed, Path]:
    bed, host, here = BoardBed(), board(tmp_path / "vm1"), tmp_path / "cell"
    here.mkdir()
    recordings = Recordings(bed, CellFolder(here))  # type: ignore[arg-type]
    for table, data in tables.items():
        Path(host.scratch, f"talker-vm1.{table}.arrow").write_bytes(data)

    async def work() -> None:
        await recordings.follow(host, "talk", here / "talker-vm1")
        assert bed.commands == []
        await recordings.fetch()

    asyncio.run(work())
    return bed, here


def test_all_recordings_of_a_host_come_by_one_command_whatever_is_in_them(tmp_path: Path) -> None:
    tables = {"sent": bytes(range(256)) * 999, "stamps": b"", "clocks": b"12\nno length\n"}
    bed, here = fetched(tmp_path, tables)
    assert len(bed.commands) == 1
    assert {path.name: path.read_bytes() for path in here.iterdir()} == {
        f"talker-vm1.{table}.arrow": data for table, data in tables.items()
    }


def test_one_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(
        LabError, match=r"one of its recordings cannot be fetched: .*talker-vm1\.stamps\.arrow"
    ) as found:
        fetched(tmp_path, {"sent": b"1", "clocks": b"2"})
    assert found.value.where == "vm1"
