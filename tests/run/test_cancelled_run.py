"""A run that is asked to end ends with the cell under way, even where a wait of that cell's loses the cancellation."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from latlab.recordings.cell import RecordedCell
from latlab.recordings.run_folder import RunFolder
from latlab.run import matrix
from latlab.run.beds import Beds
from latlab.scenario import MatrixRun, cells, load_scenario, runs
from latlab.testbed.site import Site

TEXT = """\
name: two
hosts: {here: {kind: local}, there: {kind: netns}}
links:
  - {ends: [here.lat0, there.eth0]}
streams:
  control: {talker: here, listener: there, period: 1ms, size: 64B}
duration: 1s
"""


def test_a_cancellation_that_a_cell_loses_ends_the_run_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    async def losing(one: MatrixRun, order: int, *_: Any, **__: Any) -> RecordedCell:
        begun.append(order)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        told = {"cell": {}, "slug": "one", "repeat": 1, "order": order, "status": "ok", "streams": []}
        return RecordedCell.model_validate(told)

    monkeypatch.setattr(matrix, "run_cell", losing)
    path = tmp_path / "two.yaml"
    path.write_text(TEXT)
    order = runs(cells(load_scenario(path)), repeat=3, seed=1)
    folder = RunFolder.create(tmp_path, "two")

    async def told() -> None:
        beds = Beds([], Site("0000"), 2)
        work = asyncio.ensure_future(matrix._run_all(order, folder, lambda event: None, 2, beds, {}))
        while len(begun) < 2:
            await asyncio.sleep(0.01)
        work.cancel()
        await work

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(told())
    assert begun == [1, 2]
