"""What a shell completes: words as the shell's own script gets them, where that shell is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from latlab.cli import app
from latlab.cli.app import VERBS
from latlab.cli.completion import SCRIPTS, Shell
from latlab.imports.table import FORMATS
from latlab.model.errors import EXIT_USAGE
from latlab.model.metrics import METRICS_BY_NAME
from latlab.model.rules import IDS
from support.cli import LATLAB, in_bash

SCENARIOS = sorted(path.stem for path in (Path(__file__).parents[2] / "scenarios").glob("*.yaml"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a scenario and two runs, which the test is in."""
    (tmp_path / "mine.yaml").touch()
    for runs in ("runs/20261121-1", "runs/20261122-1", "others/20250101-1"):
        (tmp_path / runs).mkdir(parents=True)
        (tmp_path / runs / "run.json").touch()
    (tmp_path / "runs/no-run").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def completed(line: str) -> list[str]:
    """What is suggested for the end of this line, as fish asks for it, without a shell."""
    environment = {
        "_LATLAB_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": line,
    }
    ended = CliRunner(env=environment).invoke(app, prog_name="latlab")
    assert ended.exit_code == 0, ended.output
    return [one.split("\t")[0] for one in ended.output.splitlines() if one]


def test_verbs_and_options_are_completed() -> None:
    assert {*completed("latlab ")} >= {*VERBS, "image"}
    assert completed("latlab image b") == ["build"]
    assert completed("latlab run --str") == ["--strict"]
    assert completed("latlab run --picture ") == ["png", "svg", "pdf", "none"]
    assert completed("latlab completion ") == [*Shell]
    assert not {"--install-completion", "--show-completion"} & {*completed("latlab --")}


@pytest.mark.parametrize("verb", ["run", "validate", "plan", "gates"])
def test_scenarios_are_completed_by_name_and_by_file(verb: str) -> None:
    assert completed(f"latlab {verb} ") == [*SCENARIOS, "mine.yaml"]
    assert completed(f"latlab {verb} dem") == ["demo"]
    assert completed(f"latlab {verb} ./m") == []


def test_runs_are_completed_newest_first_from_their_folder() -> None:
    assert completed("latlab report ") == ["20261122-1", "20261121-1"]
    assert completed("latlab compare 20261122-1 ") == ["20261122-1", "20261121-1"]
    assert completed("latlab compare --baseline ") == ["20261122-1", "20261121-1"]
    assert completed("latlab report --runs others ") == ["20250101-1"]
    assert completed("latlab report --runs nowhere ") == []


def test_metrics_ids_and_formats_are_completed() -> None:
    assert completed("latlab report --metric ") == list(METRICS_BY_NAME)
    assert completed("latlab explain preempt") == ["preempt-rt"]
    assert {*IDS.values(), *METRICS_BY_NAME, "stall"} <= {*completed("latlab explain ")}
    assert completed("latlab import --as ") == [one.name for one in FORMATS]


def test_images_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATLAB_CACHE", str(tmp_path))
    assert completed("latlab image build debian-rt") == ["debian-rt", "debian-rt-dds", "debian-rt-board"]


def test_nothing_is_measured_or_written_to_complete_a_line(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    completed("latlab run demo ")
    completed("latlab init lab.yaml --period 1ms ")
    completed("latlab clean ")
    assert sorted(folder.rglob("*")) == before


def test_bash_completes_by_the_printed_script() -> None:
    assert in_bash("ru") == ["run"]
    assert in_bash("run", "two-way-") == ["two-way-board", "two-way-kernels-board"]
    assert in_bash("report", "") == ["20261122-1", "20261121-1"]
    assert in_bash("run", "nothing-of-that-name") == []


@pytest.mark.slow
def test_fish_completes_by_the_printed_script() -> None:
    if not shutil.which("fish"):
        pytest.skip("fish is not installed")
    script = f"{LATLAB} completion fish | source; complete -C '{LATLAB} run two-way-'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", script], check=True, capture_output=True, text=True, timeout=600
    )
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["two-way-board", "two-way-kernels-board"]


def test_zsh_completes_by_the_printed_script_at_the_first_word(folder: Path) -> None:
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed")
    (folder / "functions").mkdir()
    (folder / "functions/_latlab").write_text(SCRIPTS[Shell.ZSH], encoding="utf-8")
    # What zsh would show is taken where it comes from: _arguments gets all there is for the word.
    script = (
        "fpath=(functions $fpath); autoload -U _latlab; _arguments() { print -rl -- $@ }; "
        "compdef() { print compdef }; words=(latlab run two-way-); CURRENT=3; _latlab"
    )
    path = f"{LATLAB.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["zsh", "-f", "-c", script],
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PATH": path},
    )
    assert "compdef" not in done.stdout
    assert '"two-way-board":"' in done.stdout and '"two-way-kernels-board":"' in done.stdout
    assert '"demo"' not in done.stdout


def test_a_shell_that_has_no_script_is_an_error() -> None:
    ended = CliRunner().invoke(app, ["completion", "tcsh"])
    assert ended.exit_code == EXIT_USAGE
    assert "bash" in ended.output and "SHELL" in ended.output
