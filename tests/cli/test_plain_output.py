"""No escape codes where they are not wanted: NO_COLOR, a dumb terminal, no terminal, and `--json`."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from latlab.console import RunConsole, make_console, text_only
from latlab.run import events
from support.cli import COLOURED, LATLAB, on_terminal

ESCAPE = "\x1b"
PLAIN = [{"NO_COLOR": "1"}, {"TERM": "dumb"}]


def test_on_a_terminal_ids_are_in_bold() -> None:
    """So the tests below look at something that has escape codes."""
    assert ESCAPE in on_terminal(["explain", "preempt-rt"], {})


@pytest.mark.parametrize("variables", PLAIN, ids=str)
def test_a_terminal_that_wants_none_gets_none(variables: Mapping[str, str]) -> None:
    said = on_terminal(["explain", "preempt-rt"], variables)
    assert ESCAPE not in said
    assert "preempt-rt" in said


def test_no_color_that_is_empty_is_not_set() -> None:
    """As no-color.org has it."""
    assert ESCAPE in on_terminal(["explain", "preempt-rt"], {"NO_COLOR": ""})


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["run"], ["nonsense"], ["validate", "nothing.yaml"]])
def test_help_lists_and_errors_have_none_on_any_terminal(words: list[str]) -> None:
    assert ESCAPE not in on_terminal(words, {})


@pytest.mark.parametrize("words", [["explain", "preempt-rt", "--json"], ["list", "--json"], ["run", "--json"]])
def test_a_json_document_has_none_on_a_terminal(words: list[str]) -> None:
    said = on_terminal(words, {"FORCE_COLOR": "1"})
    assert ESCAPE not in said
    assert json.loads(said) or words[0] == "list"


@pytest.mark.parametrize("variables", PLAIN, ids=str)
def test_a_run_is_reported_in_lines_and_not_in_a_live_one(
    variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ESCAPE in told_of_a_run(monkeypatch, {})
    said = told_of_a_run(monkeypatch, variables)
    assert ESCAPE not in said
    assert "undoing it now: one" in said


def told_of_a_run(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> str:
    """What is written of a run that undoes something, on a terminal."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, text in (COLOURED | dict(variables)).items():
        monkeypatch.setenv(name, text)
    written = Terminal()
    monkeypatch.setattr(sys, "stdout", written)
    with RunConsole(make_console()) as console:
        console.show(events.Cleaned(("one",)))
    return written.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("words", [["explain", "--json"], ["explain", "nothing-of-this-name", "--json"]], ids=" ".join)
def test_an_output_that_takes_nothing_is_one_line_and_no_limit_that_was_exceeded(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([LATLAB, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == (3 if len(words) == 2 else 2)
    assert len(ended.stderr.splitlines()) == 1 and ended.stderr.startswith("latlab: ")
    if len(words) == 2:
        assert ended.stderr == (
            "latlab: standard output: cannot be written: No space left on device (free space, or redirect it "
            "elsewhere)\n"
        )


class Terminal(io.StringIO):
    """A text stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_what_is_told_by_the_environment_is_asked_at_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert text_only()
    monkeypatch.setenv("NO_COLOR", "")
    assert not text_only()
    monkeypatch.setenv("TERM", "dumb")
    assert text_only()
