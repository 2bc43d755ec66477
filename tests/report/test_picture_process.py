"""A second process draws what the first one would have drawn; without it, or after its end, nothing is missing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from latlab.recordings.run_folder import RunFolder
from latlab.report.build import write_report
from latlab.report.charts import files as module
from latlab.report.charts.files import PictureProcess, picture_process


def pictures(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "pictures").iterdir()}


def drawn(run: Path, beside: PictureProcess | None) -> dict[str, bytes]:
    write_report(run, formats=("svg",), pictured=("latency",), beside=beside)
    return pictures(run)


@pytest.mark.slow
def test_the_pictures_are_the_same_with_it_without_it_and_when_it_is_killed(new_run: Callable[..., Path]) -> None:
    run = new_run()
    alone = drawn(run, None)
    assert alone
    with PictureProcess(RunFolder(run)) as beside:
        assert drawn(run, beside) == alone
    with PictureProcess(RunFolder(run)) as beside:
        (process,) = beside._pool._processes.values()
        assert process.pid
        os.kill(process.pid, signal.SIGKILL)
        assert drawn(run, beside) == alone


@pytest.mark.slow
def test_what_fails_there_is_an_error_here(new_run: Callable[..., Path]) -> None:
    run = new_run()
    (run / "pictures").write_text("a file where the folder is to be")
    with PictureProcess(RunFolder(run)) as beside, pytest.raises(OSError, match="pictures"):
        drawn(run, beside)


@pytest.mark.slow
def test_it_ends_with_the_context(new_run: Callable[..., Path]) -> None:
    with PictureProcess(RunFolder(new_run())) as beside:
        (process,) = beside._pool._processes.values()
        assert process.is_alive()
    process.join(timeout=600)
    assert process.exitcode == 0


def test_it_is_asked_for_where_it_helps(new_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(new_run())
    monkeypatch.setattr(module, "WORTH_CELLS", len(folder.cells()))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert picture_process(folder, ("png",)) is not None
    assert picture_process(folder, ()) is None
    monkeypatch.setattr(module, "WORTH_CELLS", len(folder.cells()) + 1)
    assert picture_process(folder, ("png",)) is None
    monkeypatch.setattr(module, "WORTH_CELLS", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert picture_process(folder, ("png",)) is None
