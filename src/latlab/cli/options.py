"""Arguments and options that verbs share, and the groups that the help lists them in."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from latlab.cli.completion import complete_metric, complete_printed, complete_run, complete_scenario
from latlab.model.errors import UsageError


class PictureFormat(StrEnum):
    """What pictures can be written as."""

    PNG = "png"
    SVG = "svg"
    PDF = "pdf"
    NONE = "none"


MEASUREMENT: Final = "Measurement"
FIGURES: Final = "Figures"
VERDICT: Final = "Verdict"
FILES: Final = "Files"

ScenarioName = Annotated[
    str | None,
    typer.Argument(
        metavar="SCENARIO",
        help="A scenario file, or the name of a ready-made scenario; without it, the names are listed.",
        autocompletion=complete_scenario,
    ),
]
RunName = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        help="A run folder, or its name in --runs; the newest run if not given.",
        autocompletion=complete_run,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        rich_help_panel=FIGURES,
        help="Print for a terminal, or as text of another format such as md (Markdown).",
        autocompletion=complete_printed,
    ),
]
TERMINAL: Final = "terminal"
Runs = Annotated[
    Path, typer.Option("--runs", metavar="FOLDER", rich_help_panel=FILES, help="The folder that runs are kept in.")
]
Strict = Annotated[
    bool,
    typer.Option("--strict", rich_help_panel=VERDICT, help="Exit with 4 also if the measurement is suspect."),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", rich_help_panel=MEASUREMENT, help="Print a line for each phase of a cell.")
]
Live = Annotated[
    bool,
    typer.Option(
        "--live",
        rich_help_panel=MEASUREMENT,
        help="Show once a second each stream's rate, latency, losses, clock uncertainty and CPU steal.",
    ),
]
Trigger = Annotated[
    str | None,
    typer.Option(
        "--trigger",
        metavar="CONDITION",
        rich_help_panel=MEASUREMENT,
        help="Keep kernel events around late packets only, such as 'latency > 500us' (flight recorder).",
    ),
]
CheckRepeat = Annotated[
    bool,
    typer.Option(
        "--check-repeat",
        rich_help_panel=MEASUREMENT,
        help="Measure each cell twice with one seed, and report packets that differ (virtual time only).",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        min=1,
        rich_help_panel=MEASUREMENT,
        help="Measure N cells in virtual time at once; as many as CPUs and memory allow if not given.",
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        rich_help_panel=FIGURES,
        help="Print the table of this metric (repeatable).",
        autocompletion=complete_metric,
    ),
]
Full = Annotated[
    bool,
    typer.Option("--full", rich_help_panel=FIGURES, help="Print every table, not only the answer."),
]
Windows = Annotated[
    list[str] | None,
    typer.Option(
        "--window",
        metavar="FROM..TO",
        rich_help_panel=FIGURES,
        help="Show also the packets launched in this interval, such as '10s..60s' or '10s..60s fan off' (repeatable).",
    ),
]
JUnit = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", rich_help_panel=FILES, help="Write JUnit XML to this file.")
]
Formats = Annotated[
    list[PictureFormat] | None,
    typer.Option(
        "--picture",
        metavar="FORMAT",
        rich_help_panel=FIGURES,
        help="Draw all metrics as png, svg or pdf, or none (repeatable); the first metric as png if not given.",
    ),
]
RUNS = Path("runs")

# Values with units, as options have them.


def duration_ns(text: str, option: str) -> int:
    """The duration in ns; 0 may be without a unit. UsageError: it is none."""
    from pydantic_core import PydanticCustomError

    from latlab.scenario.units import parse_duration

    try:
        return 0 if text.strip() == "0" else parse_duration(text)
    except PydanticCustomError as error:
        context = error.context or {}
        remedy = f"expected {context.get('expected', 'a duration, such as 1us')}"
        raise UsageError(f"{text!r} is not a duration", where=option, remedy=remedy) from error
