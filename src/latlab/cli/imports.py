"""The verb that reads what other programs measured."""

# Without annotations as text: the command line library would evaluate each of them at every start.
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from latlab.cli.completion import complete_format
from latlab.cli.options import FILES, RUNS, Formats, Full, Json, Runs, Strict, duration_ns
from latlab.cli.output import open_console, print_json
from latlab.cli.run import report_run

INPUT: Final = "Input"


class TimeUnit(StrEnum):
    """Of numbers in files that name none."""

    US = "us"
    NS = "ns"


def import_(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Files of one format; of captures, the two of a pair."),
    ] = None,
    as_format: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="FORMAT",
            rich_help_panel=INPUT,
            help="The format of the files; it is recognised if not given.",
            autocompletion=complete_format,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", rich_help_panel=FILES, help="Name of the run; that of the file if not given."
        ),
    ] = None,
    list_formats: Annotated[
        bool, typer.Option("--list", rich_help_panel=INPUT, help="List the formats, and import nothing.")
    ] = False,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="LETTERS",
            rich_help_panel=INPUT,
            help="The columns of isochron-csv, as in its --printf-args, such as qSwtTRa.",
        ),
    ] = None,
    unit: Annotated[
        TimeUnit | None,
        typer.Option(
            "--unit",
            metavar="UNIT",
            rich_help_panel=INPUT,
            help="The unit of cyclictest's text, us or ns; us if not given.",
        ),
    ] = None,
    clock_bound: Annotated[
        str | None,
        typer.Option(
            "--clock-bound",
            metavar="DURATION",
            rich_help_panel=INPUT,
            help="The largest difference between the clocks of the timestamps, such as 1us; 0 for one clock.",
        ),
    ] = None,
    full: Full = False,
    picture: Formats = None,
    strict: Strict = False,
    as_json: Json = False,
    runs: Runs = RUNS,
) -> None:
    """Import what another program measured, and report.

    The files become a run folder that `latlab report` reads like any other run. It reads files of isochron, cyclictest,
    rtla, sockperf, ddsperf, RTC-Testbench and sample-app-taprio, and pairs of captures. With --json it prints what it
    read, and analyses nothing.

    Examples:
        # The formats, and how many files each takes
        latlab import --list
        # A log of isochron
        latlab import isochron.dat
        # Two captures of the same packets, by clocks that differ by 1 us at most
        latlab import sent.pcap received.pcap --clock-bound 1us
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
    given = Given(
        columns,
        unit.value if unit else None,
        None if clock_bound is None else duration_ns(clock_bound, "--clock-bound"),
    )
    outcome = import_files(files or [], runs, name=name, as_format=as_format, given=given)
    if as_json:
        print_json(outcome_document(outcome))
        return
    print_outcome(outcome, open_console())
    raise typer.Exit(report_run(outcome.folder, as_json=False, strict=strict, metrics=None, formats=picture, full=full))
