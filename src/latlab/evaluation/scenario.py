"""The scenario of a run, as it is read again after the measurement."""

from __future__ import annotations

from pathlib import Path

from latlab.model.errors import LabError, LatlabError
from latlab.scenario import Loaded, load_scenario
from latlab.scenario.load import read_text, read_yaml


def read_scenario(path: Path) -> Loaded | None:
    """The scenario as it was run; None where a later version of latlab reads it differently.

    The measurement is still shown: its order is lost then, and its limits are not evaluated (`unread_limits`).
    LabError: it exists, but is not a scenario of any version: its limits would be reported as not exceeded.
    """
    try:
        return load_scenario(path)
    except LatlabError as error:
        if path.exists() and not isinstance(_plain(path), dict):
            raise LabError(
                f"the run's scenario is damaged, including its limits: {_first_line(error)}",
                where=str(path),
                remedy="restore a complete copy of it; or remove it: then no limit is evaluated",
            ) from error
        return None


def unread_limits(path: Path) -> str:
    """What there is to say of a scenario with `accept` that this version does not read; empty of any other."""
    try:
        load_scenario(path)
    except LatlabError as error:
        found = _plain(path)
        if isinstance(found, dict) and found.get("accept"):
            return f"no limit of `accept` was evaluated: this latlab does not read the scenario: {_first_line(error)}"
    return ""


def _plain(path: Path) -> object:
    """The plain data of a YAML file; None where it has none, or cannot be read."""
    try:
        return read_yaml(read_text(path)).data
    except LatlabError:
        return None


def _first_line(error: LatlabError) -> str:
    """The first of the mistakes: below the line that counts them."""
    lines = str(error).splitlines()
    return lines[min(1, len(lines) - 1)]
