"""What kind of time a figure is in: figures of one label are never compared with those of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MEASURED: Final = "measured"
FUNCTIONAL: Final = "functional only"
VIRTUAL: Final = "virtual time"
IMPORTED: Final = "imported"
SYNTHETIC: Final = "synthetic"


@dataclass(frozen=True)
class Label:
    """One label. name: as cell.json and results have it. meaning: of figures with it. page: that says more.

    compared: what is to be known of a difference between such figures, where there is such a thing.
    """

    name: str
    meaning: str
    page: str
    compared: str = ""


LABELS: Final[tuple[Label, ...]] = (
    Label(MEASURED, "on real hardware or KVM", "docs/explanation/comparing.md#refused-and-reported"),
    Label(
        FUNCTIONAL,
        "in software emulation: shows that it works, not how fast it is",
        "docs/reference/machines.md#boards",
        "a machine is emulated in software, so differences say nothing about its speed",
    ),
    Label(
        IMPORTED,
        "measured by another program, by that program's own definition, which is shown with it; never compared with "
        "figures that latlab measured",
        "docs/reference/import.md",
    ),
    Label(
        SYNTHETIC,
        "generated from a description, not measured: for testing the analysis; says nothing about a machine",
        "docs/reference/synthetic.md",
    ),
    Label(
        VIRTUAL,
        "the clock counts instructions: reproducible, compares configurations, says nothing about this machine's speed",
        "docs/reference/machines.md#virtual-time",
        "in each repetition streams, load and timer ticks start at different phases; the intervals cover these phases",
    ),
)
