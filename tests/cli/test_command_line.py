"""The command line as a whole: how soon it answers, and how it ends."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import latlab.cli
from latlab.model.errors import EXIT_LAB, EXIT_USAGE

HOME = Path(latlab.cli.__file__).parent
HEAVY = ("asyncio", "jinja2", "matplotlib", "numpy", "polars", "pyarrow", "pydantic", "rich.table", "yaml")
"""What only a verb that runs has to wait for."""


def test_nothing_heavy_is_imported_before_a_verb_runs() -> None:
    told = f"import sys, latlab.cli; print(*(set({HEAVY!r}) & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True, timeout=600)
    assert found.stdout.split() == []


@pytest.mark.slow
def test_a_scenario_is_validated_without_what_reads_recordings() -> None:
    """pyarrow takes 30 MB."""
    told = "import sys; from latlab.cli import main; sys.argv = ['latlab', 'validate', 'first']; code = None"
    told += "\ntry: main()\nexcept SystemExit as ended: code = ended.code\nprint(code, 'pyarrow' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True, timeout=600)
    assert found.stdout.splitlines()[-1] == "0 False"


@pytest.mark.parametrize("path", sorted(HOME.glob("*.py")), ids=lambda path: path.stem)
def test_what_a_verb_needs_is_imported_in_the_verb(path: Path) -> None:
    """At the top of its module a verb has the command line's own parts, and the model's."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("latlab."):
            assert re.match(r"latlab\.(cli|model)\b", node.module or ""), f"{path.name}: {node.module}"


def test_a_configuration_of_ssh_without_a_machine_over_ssh_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["latlab", "doctor", "--ssh-config", "config"])
    with pytest.raises(SystemExit) as ended:
        latlab.cli.main()
    assert ended.value.code == EXIT_USAGE
    assert "name the machine with --on" in capsys.readouterr().err


@pytest.mark.parametrize("as_json", [False, True])
def test_a_fault_of_its_own_is_never_taken_for_a_limit_that_was_exceeded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    """Python exits with 1 for what is not caught, and a job reads 1 as: too late."""

    def broken() -> None:
        raise ZeroDivisionError("nobody\nforesaw it")

    monkeypatch.setattr("latlab.cli.start.app", broken)
    monkeypatch.setattr("sys.argv", ["latlab", "list", *(["--json"] if as_json else [])])
    with pytest.raises(SystemExit) as ended:
        latlab.cli.main()
    out, err = capsys.readouterr()
    first, *others = err.splitlines()
    assert ended.value.code == EXIT_LAB
    assert first.startswith("latlab: an internal error of latlab: ZeroDivisionError: nobody foresaw it (please report")
    assert others[0] == "Traceback (most recent call last):" and "in broken" in err
    assert (json.loads(out)["exit_status"] if as_json else out) == (EXIT_LAB if as_json else "")
