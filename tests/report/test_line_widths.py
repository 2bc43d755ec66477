"""On a terminal no line is wider than it is, whatever has a long name; a path or a command that is wider stands alone,
in one piece.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from latlab import import_listing
from latlab.cli.run import _next_lines
from latlab.console import RunConsole
from latlab.evaluation.gates import promised_groups
from latlab.gates_listing import print_gates
from latlab.imports.write import import_files
from latlab.model.errors import LabError
from latlab.model.lines import folded
from latlab.recordings.cell import RecordedCell
from latlab.report.sections import SECTIONS, Shown
from latlab.report.terminal import print_answer, print_section
from latlab.result.store import typed
from latlab.run import events
from latlab.scenario import load_scenario
from support.cli import on_terminal
from support.imports.files import CAPTURED
from support.results import partial

WIDTH = 100
LONG = {
    "vm1": "guest-of-the-brake-controller",
    "sensor": "wheel-speed-sensor-at-the-front-left",
    "down": "wheel-speed-of-the-front-left-wheel",
    "load-up": "camera-pictures-to-the-recorder",
}
PATH = Path("/srv/measurements/of-the-brake-controller/runs/20261127-000221-two-guests-on-a-board-54d3")
SCENARIOS = Path(__file__).parents[2] / "scenarios"


def check(text: str, width: int = WIDTH) -> None:
    """Check that each line fits, or is one word or one command."""
    lines = text.splitlines()
    assert lines
    for line in lines:
        words = line.removeprefix("Next:").removeprefix("Report:").split()
        assert len(line) <= width or len(words) == 1 or words[:2] == ["latlab", "show"], line


def printed(show: Callable[[Console], None], width: int = WIDTH) -> str:
    file = io.StringIO()
    show(Console(file=file, width=width, force_terminal=True, color_system=None))
    # A line that is drawn again begins with a carriage return.
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue().replace("\r", "\n"))


@pytest.fixture
def long_names(matrix: dict[str, Any]) -> dict[str, Any]:
    """A run's result in which everything has a long name."""
    text = json.dumps(matrix)
    for short, long in LONG.items():
        text = text.replace(short, long)
    document: dict[str, Any] = json.loads(text)
    return document


def test_each_section_of_a_run_with_long_names_fits(long_names: dict[str, Any]) -> None:
    result = typed(long_names)
    for name in SECTIONS:
        check(printed(lambda console, name=name: print_section(name, Shown(result, ["latency"]), console)))  # type: ignore[misc]


@pytest.mark.parametrize("width", [80, WIDTH])
def test_its_answer_fits_and_names_the_run_where_it_is_not_the_newest(long_names: dict[str, Any], width: int) -> None:
    result = typed(long_names)
    after = [f"Report: {PATH}/report.html", *_next_lines(result, PATH, width)]
    said = printed(lambda console: print_answer(result, ["latency"], console, after=after), width)
    check(said, width)
    assert f"\nNext:   latlab show {PATH} trust\n          the reasons for the verdict, and what to do\n" in said
    assert said.endswith("; more: latlab show -h\n")


def test_next_commands_stand_in_one_line_with_what_they_show_where_that_fits(
    matrix: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Path("runs/a")
    run.mkdir(parents=True)
    (run / "run.json").touch()
    first, _, last = _next_lines(typed(matrix), run, WIDTH)
    assert first == "Next:   latlab show trust     the reasons for the verdict, and what to do"
    assert last.endswith("; more: latlab show -h")
    (run.with_name("b")).mkdir()
    (run.with_name("b") / "run.json").touch()
    assert _next_lines(typed(matrix), run, 200)[0].startswith("Next:   latlab show a trust  ")


def test_a_run_under_way_fits() -> None:
    failed = partial(
        RecordedCell, {"status": "failed", "reason": {"what": "it broke " * 30, "where": "", "remedy": ""}}
    )

    def show(console: Console) -> None:
        with RunConsole(console, verbose=True) as shown:
            shown.show(events.Cleaned(("ip netns delete latlab-1",) * 9))
            shown.show(events.RunStarted(PATH, 84, 21, 20261127, ("nothing else may run on this machine " * 4,)))
            shown.show(events.CellStarted(1, ",".join(LONG.values()), 1, 4, 10**9))
            shown.show(events.CellEnded(1, failed))

    check(printed(show))


@pytest.mark.parametrize("name", ["tsn-bridges", "tsn-bridges-switch"])
def test_gates_of_ready_made_scenarios_fit(name: str) -> None:
    loaded = load_scenario(SCENARIOS / f"{name}.yaml")
    labels = {cell.slug: cell.label for cell in loaded.combinations}
    check(printed(lambda console: print_gates(promised_groups(loaded.combinations), labels, console)))


def test_what_was_imported_fits(tmp_path: Path) -> None:
    outcome = import_files([CAPTURED / "ddsperf-ping.txt"], tmp_path, name="samples-of-the-brake-controller" * 4)
    check(printed(lambda console: import_listing.print_outcome(outcome, console)))


def test_a_command_in_backticks_stays_in_one_piece_where_a_line_has_room_for_it() -> None:
    command = "`sudo apt install qemu-system-x86`"
    assert folded(f"it is missing ({command}, or your distribution's package)", 46) == [
        "it is missing",
        f"  ({command}, or your",
        "  distribution's package)",
    ]
    assert max(map(len, folded(f"it is missing ({command})", 30))) <= 30


def test_what_has_lines_of_a_log_keeps_them() -> None:
    error = "it did not lock\n  the last lines of its log, ptp4l.log:\n    rms 4496940 max 6824087 (it is in ptp4l.log)"
    assert folded(error, 100) == error.split("\n")
    assert folded(error, 40, indent=2) == [
        "  it did not lock",
        "    the last lines of its log,",
        "      ptp4l.log:",
        "      rms 4496940 max 6824087 (it is in",
        "        ptp4l.log)",
    ]


def test_an_error_is_folded_on_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    from latlab.cli.output import print_error

    error = LabError("it broke " * 30, where="board1", remedy="fix it")
    print_error(error)
    assert capsys.readouterr().err.splitlines() == [f"latlab: {error}"]
    said = on_terminal(["show", "no-such-run", "--runs", str(PATH)], {"COLUMNS": str(WIDTH)})
    assert said.startswith("latlab: no-such-run: ")
    check(said)
