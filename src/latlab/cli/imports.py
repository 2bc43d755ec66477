"""The verb that reads what other programs measured."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from latlab.cli.options import RUNS, Json, Runs
from latlab.cli.output import open_console, print_json


class TimeUnit(StrEnum):
    """Of numbers in files that name none."""

    US = "us"
    NS = "ns"


def import_(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE…", help="The files of one format; of captures the two of a pair."),
    ] = None,
    as_format: Annotated[
        str | None, typer.Option("--as", metavar="FORMAT", help="Their format, if it is not to be recognised.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The run's name; else the file's.")] = None,
    list_formats: Annotated[bool, typer.Option("--list", help="List the formats; nothing is imported.")] = False,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="LETTERS", help="isochron-csv: its columns, as in --printf-args: qSwtTRa."),
    ] = None,
    unit: Annotated[
        TimeUnit | None,
        typer.Option("--unit", help="cyclictest: the unit of its text, which names none; us if not given."),
    ] = None,
    clock_bound: Annotated[
        str | None,
        typer.Option(
            "--clock-bound",
            metavar="DURATION",
            help="By how much the clocks of the timestamps may differ at most, as 1us; 0 for one clock.",
        ),
    ] = None,
    as_json: Json = False,
    runs: Runs = RUNS,
) -> None:
    """Read what another program measured.

    Into a run folder that `report` and `list` read like any other. isochron, cyclictest, rtla, sockperf, ddsperf,
    RTC-Testbench, sample-app-taprio, captures: see --list.
    """
    from latlab.import_listing import formats_document, outcome_document, print_formats, print_outcome
    from latlab.imports.base import Given
    from latlab.imports.write import import_files

    if list_formats:
        if as_json:
            print_json(formats_document())
        else:
            print_formats(open_console())
        return
    given = Given(columns, unit.value if unit else None, _clock_bound_ns(clock_bound))
    outcome = import_files(files or [], runs, name=name, as_format=as_format, given=given)
    if as_json:
        print_json(outcome_document(outcome))
    else:
        print_outcome(outcome, open_console())


def _clock_bound_ns(text: str | None) -> int | None:
    """The duration in ns. UsageError: it is none."""
    from pydantic_core import PydanticCustomError

    from latlab.errors import UsageError
    from latlab.scenario.units import parse_duration

    if text is None:
        return None
    try:
        return 0 if text.strip() == "0" else parse_duration(text)
    except PydanticCustomError as error:
        context = error.context or {}
        remedy = f"expected {context.get('expected', 'a duration, such as 1us')}"
        raise UsageError(f"{text!r} is no duration", where="--clock-bound", remedy=remedy) from error
