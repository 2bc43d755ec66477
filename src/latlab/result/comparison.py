"""The types of comparisons: those in result.json, and the document that `latlab compare --json` prints."""

from __future__ import annotations

from typing import Literal

from latlab.model.part import DocumentPart, Verdict

Outcome = Literal["regression", "no regression", "not judged", "no figure"]
Question = Literal["sides", "baseline", "key"]
DifferingKind = Literal["stream", "scenario", "version", "fact"]


class ComparedSide(DocumentPart):
    """One of the two configurations that are compared."""

    name: str
    run: str
    slug: str
    stream: str
    verdict: Verdict


class Regression(DocumentPart):
    """What becomes of one comparison with a baseline. threshold: how much worse it may be, in words, and in ns.

    coarse: nothing is shown, and a change of the threshold's size could not have been.
    """

    outcome: Outcome
    threshold: str
    threshold_ns: int | float | None
    coarse: bool
    sentence: str


class Compared(DocumentPart):
    """B − A of one statistic, ns, with its interval. shown: it is significant (docs/explanation/comparing.md).

    key: of the matrix, in which cells of one result differ. regression: of `latlab compare`; None without a baseline.
    """

    key: str | None = None
    cell: str
    a: ComparedSide
    b: ComparedSide
    label: str
    stream: str
    metric: str
    statistic: str
    from_: str
    to: str
    paired: bool
    repeats_a: dict[int, int | float | None]
    repeats_b: dict[int, int | float | None]
    a_ns: float | None
    b_ns: float | None
    difference_ns: float | None
    half_ns: float | None
    low_ns: float | None
    high_ns: float | None
    within_ns: tuple[float, float] | None
    clocks_ns: int | None
    p: float | None
    p_adjusted: float | None
    shown: bool
    smallest_ns: float | None
    why_not: str | None
    sentence: str
    regression: Regression | None = None

    @property
    def is_blank(self) -> bool:
        """Whether neither side has the figure."""
        return not (self.repeats_a or self.repeats_b)

    @property
    def told(self) -> str:
        """What the comparison shows; with a baseline, whether it is a regression."""
        return (self.regression or self).sentence


class MainFamily(DocumentPart):
    """The comparisons of the figure that the question is about, judged apart from all others. comparisons: how many."""

    metric: str
    statistic: str
    comparisons: int


class Comparison(DocumentPart):
    """How cells differ by one metric. family: comparisons whose p-values are adjusted together, but for `main`."""

    metric: str
    alpha: float
    family: int
    main: MainFamily | None = None
    comparisons: list[Compared]
    notes: list[str]


class ComparedRun(DocumentPart):
    """A run that is compared, or one cell of it."""

    name: str
    run: str
    scenario: str
    cell: str | None
    slug: str | None
    label: str
    verdict: Verdict


class AllRepetitions(DocumentPart):
    """What all repetitions of one configuration show together, ns: of percentiles the smallest and largest possible."""

    name: str
    run: str
    slug: str
    stream: str
    metric: str
    repeats: int
    n: int
    min: int | None
    p50: tuple[int, int] | None
    p90: tuple[int, int] | None
    p99: tuple[int, int] | None
    p99_9: tuple[int, int] | None
    p99_99: tuple[int, int] | None
    max: int | None


class SideLosses(DocumentPart):
    """What one side lost of a stream. shares: of each repetition."""

    name: str
    lost: int
    sent: int
    shares: list[float]


class ComparedLosses(DocumentPart):
    """What the two sides lost of one stream. more: each repetition of b lost a larger share than any of a."""

    cell: str
    stream: str
    a: SideLosses
    b: SideLosses
    more: bool
    regression: bool
    sentence: str


class Differing(DocumentPart):
    """One thing that is so in one group of cells and otherwise in another.

    kind: `stream` (what is sent: a comparison of figures of other things), `scenario`, `version` or `fact`.
    values: {group's name: as text}.
    """

    kind: DifferingKind
    what: str
    values: dict[str, str]

    @property
    def text(self) -> str:
        """It in one line: "control.period: A 1006us; B 2ms"."""
        return f"{self.what}: {'; '.join(f'{name} {value}' for name, value in self.values.items())}"


class ComparisonDocument(DocumentPart):
    """What `latlab compare --json` prints. together: all repetitions of each side; lost: the new run's failed cells.

    unmatched: cells that only one side has; left_out: repetitions that are not in any figure; differs: circumstances.
    """

    format: str
    question: Question
    alpha: float
    family: int
    main: MainFamily | None = None
    sides: list[ComparedRun]
    comparisons: list[Compared]
    together: list[AllRepetitions]
    unmatched: list[str]
    losses: list[ComparedLosses]
    left_out: list[str]
    lost: list[str]
    differs: list[Differing]
    notes: list[str]
