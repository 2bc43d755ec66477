"""Ready-made scenarios: which there are, what they say of themselves, and the file that a name or a path stands for."""

from __future__ import annotations

import re
import shutil
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import typer

import latlab
from latlab.cli.help import HelpEntry, group_as_text
from latlab.cli.output import print_json, write
from latlab.model.errors import EXIT_USAGE, UsageError

NEAREST: Final = 3
COLUMNS: Final = 100
"""The list is no wider, as the help is not."""
_PACKAGE: Final = Path(latlab.__file__).parent
_HEAD: Final = re.compile(r"^(?:#|name:|description:|\s*$)")
"""Lines at the top of a scenario: what it says of itself."""
_DESCRIPTION: Final = re.compile(r"^description: *(.+?) *$", re.MULTILINE)
_NEEDS: Final = re.compile(r"^# +(latlab image build\b.*?)(?: {2,}.*)?$", re.MULTILINE)
_TAKES: Final = re.compile(r"^# +latlab run \S+ {2,}(.+?)(?:;.*)?$", re.MULTILINE)


class ReadyMade(NamedTuple):
    """One of them, as the head of its file has it. takes: how long. needs: commands that make its images."""

    name: str
    description: str
    takes: str
    needs: str
    path: Path


def ready_made() -> list[ReadyMade]:
    """Return all, by name. They lie in the package that was installed, else in the checkout that it is part of."""
    places = (_PACKAGE / "scenarios", _PACKAGE.parents[1] / "scenarios")
    home = next((place for place in places if place.is_dir()), None)
    return [_read(path) for path in sorted(home.glob("*.yaml"), key=lambda path: path.stem)] if home else []


def scenario_path(given: str | None, verb: str, *, as_json: bool = False) -> Path:
    """Return the file that a path, or the name of a ready-made scenario, stands for; a file that is there comes first.

    UsageError: it is neither, or nothing was given; then the ready-made ones have been printed. With as_json that is
    one document, and Exit is raised.
    """
    if given is None:
        _refuse(verb, as_json=as_json)
    path = Path(given)
    known = {one.name: one.path for one in ready_made()}
    if path.exists() and not path.is_dir():
        return path
    if given in known:
        return known[given]
    if len(path.parts) == 1 and not path.suffix and not path.is_dir():
        near = get_close_matches(given, known, n=NEAREST, cutoff=0.5)
        remedy = f"nearest: {', '.join(near)}; " if near else ""
        raise UsageError(
            "there is no such file, and no ready-made scenario of that name",
            where=given,
            remedy=f"{remedy}`latlab {verb}` lists them",
        )
    if not path.exists():
        lists = f"`latlab {verb}` lists the ready-made scenarios"
        remedy = f"the ready-made one is `latlab {verb} {path.stem}`" if path.stem in known else lists
        raise UsageError("there is no such file", where=given, remedy=remedy)
    return path


def _refuse(verb: str, *, as_json: bool) -> NoReturn:
    """Raise what says that no scenario was given, once those there are have been printed."""
    found = ready_made()
    error = UsageError("no scenario was given", remedy=f"latlab {verb} FILE, or one of the names above")
    if not as_json:
        print_ready_made(found)
        raise error
    listed = [one._asdict() | {"path": str(one.path)} for one in found]
    print_json({"error": error.as_dict(), "ready_made": listed, "exit_status": EXIT_USAGE})
    raise typer.Exit(EXIT_USAGE)


def print_ready_made(found: list[ReadyMade]) -> None:
    """Print the names, each with what it measures, how long that takes, and how its images are built."""
    entries = []
    for one in found:
        facts = [one.takes, f"first: {one.needs}" if one.needs else ""]
        about = ", ".join(filter(None, facts))
        entries.append(HelpEntry(one.name, f"{one.description} ({about})" if about else one.description))
    columns = shutil.get_terminal_size((COLUMNS, 0)).columns
    write(group_as_text("Ready-made scenarios", entries, min(columns, COLUMNS)))


def _read(path: Path) -> ReadyMade:
    """Return what the head of a scenario says, without reading it as YAML: a completion has no time for that."""
    head = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not _HEAD.match(line):
            break
        head.append(line)
    text = "\n".join(head)
    description, takes = _DESCRIPTION.search(text), _TAKES.search(text)
    needs = "; ".join(_NEEDS.findall(text))
    return ReadyMade(path.stem, description[1] if description else "", takes[1] if takes else "", needs, path)
