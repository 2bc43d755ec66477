"""What a published experiment is here: its scenarios, the author's table next to ours, and the author's claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from latlab.report.charts.sheet import Plotted
from published.claims import Claim, Figures, Of


@dataclass(frozen=True)
class Published:
    """What the author printed: the row of this name in the scenario's `published`."""

    row: str
    figures: Sequence[str] = ("min", "mean", "max", "stddev")


@dataclass(frozen=True)
class Ours:
    """What was measured, over all repetitions. scale: 0.5 where a latency is half of a round trip."""

    of: Of
    figures: Sequence[str] = ("min", "mean", "max", "stddev")
    scale: float = 1


Drawn = Callable[[Figures], Plotted | None]
"""What draws a page's picture; None where the run has nothing to draw."""
Entry = str | Published | Ours | Callable[[Figures], str]


@dataclass(frozen=True)
class Table:
    """unit: µs or ns, of every published and measured entry. note: stands above it. decimals: of µs."""

    note: str
    unit: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    decimals: int = 1


@dataclass(frozen=True)
class Picture:
    """draw: what draws it. name: in docs/experiments/pictures, without .png."""

    draw: Drawn
    name: str
    shows: str


@dataclass(frozen=True)
class Part:
    """One scenario of an experiment. metric: which the run's report draws. differs: what differs from the author's
    bench.
    """

    scenario: str
    metric: str
    title: str
    tables: Sequence[Table]
    claims: Sequence[Claim]
    pictures: Sequence[Picture]
    differs: str
    images: Sequence[str] = ("--board", "debian-rt")


@dataclass(frozen=True)
class Experiment:
    """name: of its page. source: Markdown, with a link where it is public."""

    name: str
    title: str
    source: str
    question: str
    parts: Sequence[Part]


MICROSECONDS = "Virtual time compares cells; its microseconds are not those of the author's hardware."
EXITS = (
    "In virtual time each instruction takes as long as any other, and no time passes on the wire: exits to KVM and "
    "what vhost does, which are many instructions, are a larger share of a round trip than on the author's hardware."
)
