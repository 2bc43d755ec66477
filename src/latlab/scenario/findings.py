"""What is wrong in a scenario, where in it, and what was expected there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

from pydantic_core import PydanticCustomError

from latlab.model.errors import UsageError

Path = tuple[str | int, ...]
"""Where in the scenario: mapping keys and list indices from the top."""

Raw = dict[str, Any]
"""A scenario, or a mapping in it, as its YAML has it."""

WRONG = "latlab"
"""The pydantic error type of latlab's validators."""


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong at a path. `expected` may be empty where there is nothing to add."""

    path: Path
    what: str
    expected: str = ""


def wrong(what: str, expected: str) -> PydanticCustomError:
    """The error a validator raises; it keeps what was found and what was expected apart."""
    return PydanticCustomError(WRONG, "{what}; expected {expected}", {"what": what, "expected": expected})


def shown(value: object) -> str:
    """The value as a message quotes it: one line, control characters escaped, at most 60 characters."""
    word = value is None or isinstance(value, bool)
    text = {"None": "null", "True": "true", "False": "false"}[repr(value)] if word else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def show_path(path: Path) -> str:
    """The path as a person writes it: `links[0].ends`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if part.isprintable() else repr(part)[1:-1])
    return text


def unknown(noun: str, name: str, known: Iterable[str]) -> tuple[str, str]:
    """What is wrong and what was expected when `name` is none of the known ones, the closest one first."""
    names = list(known)
    listed = f"one of {', '.join(names)}" if names else f"no {noun} here"
    return f"unknown {noun} {shown(name)}", closest(name, names) or listed


def closest(name: str, names: Sequence[str]) -> str:
    """The name that is likely meant, with all there are: "tap? (known: tap, xdp)"; empty where none is close."""
    # A word cut short is closer to the whole one than difflib sees.
    begun = [other for other in names if name and other.startswith(name)]
    close = begun or get_close_matches(name, names, n=1)
    return f"{close[0]}? (known: {', '.join(names)})" if close else ""


# What is wrong in a scenario file, as it is reported to the user: with file, line and path, all at once.


@dataclass(frozen=True)
class Problem:
    """One mistake. line and column count from 1, and are 0 where it is the file itself; path is empty then."""

    file: str
    line: int
    column: int
    path: str
    what: str
    expected: str

    def __str__(self) -> str:
        line = f":{self.line}" if self.line else ""
        path = f"{self.path}: " if self.path else ""
        expected = f"; expected {self.expected}" if self.expected else ""
        return f"{self.file}{line}: {path}{self.what}{expected}"


LISTED = 50


class ScenarioErrors(UsageError):  # noqa: N818 (it holds several)
    """Everything that is wrong in one scenario file, in the file's order: how many, then one line a problem.

    What is wrong with the file itself is one line. Of many, the first LISTED are listed, and how many more there are.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = sorted(problems, key=lambda problem: (problem.line, problem.column))
        count = len(self.problems)
        super().__init__(f"{count} mistake{'s' if count > 1 else ''}", where=self.problems[0].file)

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems[:LISTED]]
        lines += [f"and {self.unlisted} more"] if self.unlisted else []
        of_the_file = len(lines) == 1 and not self.problems[0].line
        return lines[0] if of_the_file else "\n".join([f"{self.where}: {self.what}", *lines])

    def as_dict(self) -> dict[str, Any]:
        listed = {"problems": [asdict(problem) for problem in self.problems[:LISTED]]}
        return super().as_dict() | listed | ({"unlisted": self.unlisted} if self.unlisted else {})

    @property
    def unlisted(self) -> int:
        """How many mistakes are not listed."""
        return max(0, len(self.problems) - LISTED)
