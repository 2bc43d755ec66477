"""Arguments and options that verbs share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class PictureFormat(StrEnum):
    """What pictures can be written as."""

    PNG = "png"
    SVG = "svg"
    PDF = "pdf"
    NONE = "none"


class PrintFormat(StrEnum):
    """How a result is printed."""

    TERMINAL = "terminal"
    MD = "md"


ScenarioFile = Annotated[Path, typer.Argument(metavar="SCENARIO", help="The scenario file (YAML).")]
RunName = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help="A run folder, or its name in --runs; the newest one if not given."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Format = Annotated[
    PrintFormat,
    typer.Option("--format", help="Print tables for a terminal, or Markdown (md) for an issue, a mail or a wiki."),
]
Runs = Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Where run folders are kept.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 4 if the measurement is suspect, too.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Tell each cell's phases, a line each.")]
CheckRepeat = Annotated[
    bool,
    typer.Option(
        "--check-repeat",
        help="Measure each cell twice, in virtual time with one seed, and report how far its packets differ.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        min=1,
        help="Measure N cells in virtual time at once; as many as CPUs and memory allow if not given.",
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option("--metric", metavar="NAME", help="Show this metric's table (may be given several times)."),
]
Full = Annotated[bool, typer.Option("--full", help="Print every table, not only the answer.")]
Windows = Annotated[
    list[str] | None,
    typer.Option(
        "--window",
        metavar="FROM..TO",
        help="Show what was launched then, as 10s..60s after the start, beside the whole run (may be given several "
        "times); a reason may follow: '10s..60s idle'.",
    ),
]
JUnit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML, too.")]
Formats = Annotated[
    list[PictureFormat] | None,
    typer.Option(
        "--picture",
        help="Draw every metric as png, svg or pdf (may be given several times), or none; without it the first as png.",
    ),
]
RUNS = Path("runs")
