"""What is wrong in a scenario file, as it is told to a person: with file, line and path, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from latlab.errors import UsageError


@dataclass(frozen=True)
class Problem:
    """One mistake. line and column count from 1; path is empty for the file itself."""

    file: str
    line: int
    column: int
    path: str
    what: str
    expected: str

    def __str__(self) -> str:
        path = f"{self.path}: " if self.path else ""
        expected = f"; expected {self.expected}" if self.expected else ""
        return f"{self.file}:{self.line}: {path}{self.what}{expected}"


class ScenarioErrors(UsageError):  # noqa: N818 (it holds several)
    """Everything that is wrong in one scenario file, in the file's order. Printed as one line a problem."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = sorted(problems, key=lambda problem: (problem.line, problem.column))
        super().__init__("\n".join(str(problem) for problem in self.problems))
