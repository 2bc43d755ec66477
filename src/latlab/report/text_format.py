"""What all text outputs have in common: a format says how it writes each kind of part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from latlab.recordings.run_folder import RunFolder
from latlab.report.document import Finding, Lines, OneOf, Part, Printed, Table, Verbatim, printed
from latlab.report.sections import SECTIONS, Shown, parts_of
from latlab.result.types import Result


class TextFormat(ABC):
    """One format: a line of `FORMATS`, which `latlab report --format` takes. Of parts in several shapes it has the
    widest one.
    """

    @abstractmethod
    def head(self, result: Result) -> str:
        """What stands above all sections: the scenario and the verdict."""

    @abstractmethod
    def table(self, part: Table) -> Iterator[str]:
        """The lines of a table, with its title, notes and remarks."""

    @abstractmethod
    def sentences(self, part: Lines) -> Iterator[str]:
        """The lines of sentences, with their title."""

    @abstractmethod
    def finding(self, part: Finding) -> Iterator[str]:
        """The lines of a reason not to trust the figures."""

    @abstractmethod
    def verbatim(self, part: Verbatim) -> Iterator[str]:
        """The lines of a text that stays as it is."""

    def result(self, result: Result, metrics: Sequence[str], folder: RunFolder | None = None) -> str:
        """The whole result, the verdict first. metrics: those with a table, in this order, as far as any stream has
        them; times are in µs. folder: the run's, where it is there.
        """
        shown = Shown(result, metrics, folder)
        parts = (part for name in SECTIONS for part in parts_of(name, shown))
        return f"{self.head(result)}\n\n{self.parts(parts)}\n"

    def parts(self, parts: Iterable[Part]) -> str:
        """The parts, an empty line between them."""
        return "\n\n".join("\n".join(self.lines(part)) for part in printed(parts))

    def lines(self, part: Printed) -> Iterator[str]:
        """The lines of a part."""
        match part:
            case OneOf():
                for one in part.shapes[0]:
                    yield from self.table(one)
            case Table():
                yield from self.table(part)
            case Lines():
                yield from self.sentences(part)
            case Finding():
                yield from self.finding(part)
            case Verbatim():
                yield from self.verbatim(part)
