"""A run whose lab was killed is distinguished from one that is still being measured, and what it recorded is read."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import latlab
from latlab.listing import print_runs
from latlab.recordings.packets import build_packets, is_joined
from latlab.recordings.run_folder import KILLED, RunFolder, list_runs
from support.recordings import cell_document, recording_bytes, rewrite_run, stream_of, write_cell

SENT = [(1, n, *[1_000_000 + n * 1000] * 3, 1_000_009 + n * 1000, 0, 0) for n in range(10)]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run that is measuring the first of its cells, as far as the files say."""
    folder = RunFolder.create(tmp_path, "first")
    folder.scenario_path.write_text("name: first\n")
    document = cell_document([stream_of(1, name="control")], status="running", agents=[])
    write_cell(folder.cell("loads=none", 1).path, document, sent=SENT)
    return folder


def test_a_cell_is_running_while_its_lab_is_alive_and_interrupted_after(run: RunFolder) -> None:
    (cell,) = run.cells()
    with run.alive():
        assert run.is_live()
        assert (cell.cell().status, cell.cell().reason) == ("running", None)
    assert not run.is_live()
    assert cell.cell().status == "interrupted"
    assert cell.cell().reason == KILLED


def test_a_lab_that_is_killed_lets_go_of_its_run(run: RunFolder) -> None:
    program = (
        "import sys, time; from pathlib import Path; from latlab.recordings.run_folder import RunFolder\n"
        "with RunFolder(Path(sys.argv[1])).alive(): print('alive', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(run.path)], stdout=subprocess.PIPE) as lab:
        assert lab.stdout
        lab.stdout.readline()
        assert run.is_live()
        lab.send_signal(signal.SIGKILL)
        lab.wait()
    assert not run.is_live()


def test_a_run_without_a_scenario_is_not_live(tmp_path: Path) -> None:
    assert not RunFolder.create(tmp_path, "first").is_live()


def test_a_run_without_a_verdict_is_listed_with_the_reason(run: RunFolder) -> None:
    def listed() -> str:
        file = io.StringIO()
        print_runs(list_runs(run.path.parent), run.path.parent, Console(file=file, width=200))
        return next(line for line in file.getvalue().splitlines() if run.id in line).rstrip()

    with run.alive():
        assert listed().endswith("  running")
    assert listed().endswith("  killed")
    rewrite_run(run, status="ended")
    assert listed().endswith("  not reported")
    run.write_result({"verdict": "untrusted"})
    assert listed().endswith("  untrusted")


def test_the_packets_of_a_killed_cell_are_read(run: RunFolder) -> None:
    assert latlab.load(run.path).packets()["submit_tai_ns"].count() == 10
    assert latlab.load(run.path).cells["status"].to_list() == ["interrupted"]


def test_a_table_joined_before_a_recording_had_its_end_is_joined_again(run: RunFolder) -> None:
    (cell,) = run.cells()
    path = cell.recording("talk", "sensor", "sent")
    path.write_bytes(recording_bytes("sent", [SENT[:4]])[:-8])
    build_packets(cell)
    assert not is_joined(cell)
    path.write_bytes(recording_bytes("sent", [SENT]))
    assert latlab.load(run.path).packets()["submit_tai_ns"].count() == 10
    build_packets(cell)
    assert is_joined(cell)
