"""What is wrong in a scenario file, as it is reported to the user: with file, line and path, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from latlab.model.errors import UsageError


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
